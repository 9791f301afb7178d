"""The comments layout: the text's own query, elements that need more than their fields, and leaving it again."""

import datetime
import subprocess

import pytest
from bson import Code, Int64, MinKey, ObjectId, Regex, Timestamp
from bson.raw_bson import RawBSONDocument
from pymongo.errors import OperationFailure

from support import exact
from support.layouts import COMMENTS, Example, check_stored, emptied, operate, serving, verify
from support.process import wait_for
from support.spillway import program

HIDDEN = ("expose: [counters]", "expose: []")
FEW = ("threshold: 100", "threshold: 3")
NO_DELAY = ("settle: 10ms", "settle: 0s")
NEWEST = [("created_at", -1)]


@pytest.fixture
def direct(cluster):
    with emptied(cluster, "blog") as database:
        yield database


@pytest.fixture
def served(cluster, direct):
    with serving(cluster, COMMENTS, "blog") as start:
        yield start


def comments(count, start=0):
    return [COMMENTS.item(i) for i in range(start, start + count)]


def rest(direct, identifier, count):
    wait_for(lambda: direct.posts.find_one({"_id": identifier}, {"comment_count": 1}).get("comment_count") == count,
             f"{identifier} to rest", pause=0.02)


def own_fields(document):
    return {name: value for name, value in document.items() if name not in ("_id", "_spill", "post_id")}


# ---- the text's own code ----

def get_comments(db, post_id):
    post = db.posts.find_one({"_id": post_id})
    if post.get("outlier"):
        return list(db[post["comments_ref"]].find({"post_id": post_id}).sort("created_at", -1).limit(20))
    return post["comments"]


def test_the_texts_code_with_the_example_as_it_is(direct, served):
    example, db = served()
    whole = comments(250)
    db.posts.insert_one({"_id": "post002", "title": "viral", "comments": whole[:2], "comment_count": 2})
    db.posts.update_one({"_id": "post002"}, {"$push": {"comments": {"$each": whole[2:]}}})
    rest(direct, "post002", 250)
    stored = direct.posts.find_one({"_id": "post002"}, {"_spill": 0})
    assert stored == {"_id": "post002", "title": "viral", "comments": [], "comment_count": 250, "outlier": True,
                      "comments_ref": "post002_comments"}
    assert get_comments(db, "post002") == whole
    verify(example)


def test_the_texts_query_on_the_overflow(direct, served):
    _, db = served()
    for name in ("post001", "post002"):
        db.posts.insert_one({"_id": name, "comments": comments(300)})
        rest(direct, name, 300)
    newest = db.post_comments.find({"post_id": "post002"}).sort(NEWEST).limit(20)
    times = sorted((each["created_at"] for each in comments(300)), reverse=True)[:20]
    found = list(newest)
    assert [each["created_at"] for each in found] == times and all(own_fields(each) in comments(300) for each in found)
    plan = str(newest.explain()["queryPlanner"]["winningPlan"])
    assert "post_id_1_created_at_-1" in plan and "SORT" not in plan
    writes = [lambda: db.post_comments.insert_one({"post_id": "post002", **COMMENTS.item(1)}),
              lambda: db.post_comments.delete_one({"post_id": "post002"}),
              lambda: db.posts.update_one({"_id": "post002"}, {"$inc": {"comment_count": 1}})]
    for write in writes:
        with pytest.raises(OperationFailure) as refusal:
            write()
        assert refusal.value.code == 115


def test_indexes_of_the_array_are_indexes_of_its_documents(direct, served):
    example, db = served()
    db.posts.insert_one({"_id": 1, "comments": comments(200)})
    rest(direct, 1, 200)
    for keys in ("comments.author", "comments._id", "comments"):
        db.posts.create_index(keys)
    made = {name: list(index["key"])[0][0] for name, index in direct.post_comments.index_information().items()}
    assert {name: key for name, key in made.items() if name.startswith("spillway:")} == {
        "spillway:comments.author_1": "author", "spillway:comments._id_1": "_spill.v._id"}
    said = subprocess.run([program(), "check", "--config", example.file], capture_output=True, text=True,
                          timeout=60, check=False).stdout
    assert "comments.author" not in said and "comments_1" not in said
    db.posts.drop_indexes()
    assert not any(name.startswith("spillway:") for name in direct.post_comments.index_information())


ODD = [
    5, None, "text", [], [1, {"a": 2}], {}, {"text": "plain"}, {"_id": ObjectId(), "text": "a subdocument of an ODM"},
    {"post_id": 7, "text": "the link's name"}, {"_spill": {"v": 1}, "text": "ours"},
    {"at": Timestamp(0, 0), "text": "now"},
    {"n": {"at": Timestamp(0, 0), "_id": 1}}, {"$set": {"x": 1}}, {"a.b": 1, "a": {"b": 2}}, {"_spill.p": 9}, {"": 1},
    Timestamp(0, 0), MinKey(), Regex("x", "i"), Code("f"), {"z": 1, "a": Int64(2), "m": 0.0},
    {"text": "x" * 3_000_000, "_id": 1},
]


def test_what_the_fields_alone_would_not_give_back(direct, served):
    """Byte for byte, by each way that puts arrays together."""
    raw = direct.client.codec_options.with_options(document_class=RawBSONDocument)
    repeated = exact.encode(exact.pairs_of([("_id", "twice"), ("comments", [*[1] * 9, (exact.DOCUMENT, exact.pairs_of(
        [("d", 1), ("d", 2)]))])]))
    direct.get_collection("posts", raw).insert_many(
        [RawBSONDocument(exact.document([("_id", "odd"), ("comments", ODD), ("z", 1)])), RawBSONDocument(repeated)])
    before = direct.command("dbHash")["collections"]
    image = {name: direct.get_collection("posts", raw).find_one({"_id": name}).raw for name in ("odd", "twice")}
    example, db = served(FEW, HIDDEN)
    rest(direct, "odd", len(ODD))
    posts = db.get_collection("posts", raw)
    assert {name: posts.find_one({"_id": name}).raw for name in image} == image
    stages = [{"$match": {"_id": "odd", "comments": 5}}], [{"$match": {"comments": 5}}]
    for stage in stages:
        assert [each.raw for each in posts.aggregate(stage)] == [image["odd"]]
    for window in ([-3], [2, 5]):
        arguments = {"$slice": window if len(window) > 1 else window[0]}
        found = db.posts.find_one({"_id": "odd"}, {"comments": arguments})["comments"]
        assert found == (ODD[window[0]:] if len(window) == 1 else ODD[2:7])
    tops = [own_fields(each) for each in direct.post_comments.find({"post_id": "odd"}).sort("_spill.p", 1)]
    assert tops[6:9] == [{"text": "plain"}, {"text": "a subdocument of an ODM"}, {"text": "the link's name"}]
    assert "never moved, left as it is, 1" in operate(example, "verify")
    db.client.close()
    example.stop()
    operate(example, "undo", "--execute")
    after = direct.command("dbHash")["collections"]
    assert after.pop("post_comments", None) is None and after == before


def test_a_guard_and_a_set_of_values(direct, served):
    """What is asked of the elements is not fooled by arrays in them, nor by the overflow's own names."""
    _, db = served(FEW)
    whole = [7, "a", [8], {"text": "b"}, {"_id": 3, "text": "c"}, [{"text": "d"}]]
    db.posts.insert_one({"_id": 1, "comments": whole})
    rest(direct, 1, len(whole))
    kept = direct.post_comments.find_one({"_spill.p": 3})["_id"]
    for guard, there in (({"comments": 7}, True), ({"comments": 8}, False), ({"comments.text": "b"}, True),
                         ({"comments.text": "c"}, True), ({"comments.text": "d"}, False), ({"comments._id": 3}, True),
                         ({"comments._id": kept}, False), ({"comments.post_id": 1}, False)):
        (path, value), = guard.items()
        done = db.posts.update_one({"_id": 1, path: {"$ne": value}}, {"$push": {"comments": f"not {value}"}})
        assert done.modified_count == (not there), guard
        whole += [] if there else [f"not {value}"]
    for value in (7, 8, "a", {"text": "b"}, {"text": "c"}, [8], "new"):
        done = db.posts.update_one({"_id": 1}, {"$addToSet": {"comments": value}})
        assert done.modified_count == (value not in whole), value
        whole += [] if value in whole else [value]
        rest(direct, 1, len(whole))
    assert db.posts.find_one({"_id": 1})["comments"] == whole


def test_killed_at_any_moment_and_left_again(direct, served):
    example, db = served(FEW, NO_DELAY)
    documents = {i: {"_id": i, "comments": comments(2)} for i in range(3)}
    db.posts.insert_many(list(documents.values()))
    before = {i: document["comments"] for i, document in documents.items()}
    for turn in range(3):
        for i in documents:
            more = comments(300 + 37 * i, 100000 * turn)
            db.posts.update_one({"_id": i}, {"$push": {"comments": {"$each": more}}})
            before[i] = before[i] + more
            if i == turn:
                example.kill()
                example.start()
    for i in documents:
        rest(direct, i, len(before[i]))
        assert db.posts.find_one({"_id": i})["comments"] == before[i]
        stored = direct.post_comments.find({"post_id": i}).sort("_spill.p", 1)
        assert [own_fields(each) for each in stored] == before[i]
    wait_for(lambda: direct.post_comments.count_documents({}) == sum(map(len, before.values())), "garbage to go")
    verify(example)


def test_migrate_and_undo_leave_no_trace(cluster, direct):
    fields = [{}, {"comment_count": 3}, {"comments_ref": "x"}]
    documents = [{"_id": i, "at": datetime.datetime(2026, 1, 1), **fields[i % 3], "comments": comments(60 + 17 * i)}
                 for i in range(9)]
    direct.posts.insert_many(documents)
    before = direct.command("dbHash")["collections"]
    example = Example(cluster.primary, COMMENTS)
    example.write_file()
    try:
        operate(example, "migrate")
        assert direct.command("dbHash")["collections"] == before
        operate(example, "migrate", "--execute")
        check_stored(direct, COMMENTS, {each["_id"]: each for each in documents})
        operate(example, "verify")
        operate(example, "undo", "--execute")
        assert direct.command("dbHash")["collections"] == before
    finally:
        example.__exit__()
