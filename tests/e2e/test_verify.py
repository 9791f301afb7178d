"""`spillway verify`: every finding provoked and told apart, and what --repair mends of it."""

import re
import resource
import subprocess
import threading

import bson
import pytest
from bson.binary import Binary
from bson.objectid import ObjectId
from bson.raw_bson import RawBSONDocument

from support.operate import RULE, Operator, found, generation, spill
from support.spillway import program
from support.verify import verify

pytestmark = pytest.mark.share(1)
OLD = ObjectId("500000000000000000000000")


@pytest.fixture
def shop(cluster):
    """An empty database with the overflow's index and one document at rest."""
    with cluster.client() as client:
        client.shop.books.delete_many({})
        client.shop.tails.delete_many({})
        client.shop.tails.create_index([("book", 1), ("_spill.i", 1)], unique=True)
        spill(client.shop, "at rest", list(range(20)))
        client.shop.books.insert_one({"_id": "ordinary", "list": [1, 2]})
        yield client.shop


def batch(shop, number):
    return {"book": "x", "_spill.i": number}


def dead(shop, identifier, link):
    shop.tails.insert_one({"_id": identifier, "book": link, "part": [1],
                           "_spill": {"g": generation(9), "p": 0, "i": 9}})


BROKEN = {
    "a hole": (("V1", "corrupt"), lambda shop: shop.tails.delete_one(batch(shop, 2))),
    "an end that is missing": (("V1", "corrupt"), lambda shop: shop.tails.delete_one(batch(shop, 3))),
    "no array": (("V1", "corrupt"), lambda shop: shop.books.update_one({"_id": "x"}, {"$unset": {"list": 1}})),
    "a head that is short": (("V1", "corrupt"),
                             lambda shop: shop.books.update_one({"_id": "x"}, {"$pop": {"list": 1}})),
    "a state of another's": (("V1", "corrupt"),
                             lambda shop: shop.books.update_one({"_id": "x"}, {"$set": {"_spill": 1}})),
    "no flag": (("V2", "unfinished"), lambda shop: shop.books.update_one({"_id": "x"}, {"$unset": {"outlier": 1}})),
    "a flag for nothing": (("V2", "unfinished"),
                           lambda shop: shop.books.update_one({"_id": "ordinary"}, {"$set": {"outlier": True}})),
    "garbage": (("V3", "garbage"), lambda shop: dead(shop, OLD, "x")),
    "garbage of an ordinary one": (("V3", "garbage"), lambda shop: dead(shop, OLD, "ordinary")),
    "an orphan": (("V3", "garbage"), lambda shop: dead(shop, OLD, "nobody")),
    "another tail": (("V4", "corrupt"), lambda shop: (
        shop.tails.update_one(batch(shop, 3), {"$push": {"part": "stored"}}),
        shop.books.update_one({"_id": "x"}, {"$push": {"list": "the document's"}}))),
    "another overlap": (("V5", "corrupt"), lambda shop: (
        shop.tails.update_one(batch(shop, 2),
                              {"$push": {"part": {"$each": ["other"], "$position": 0}}, "$set": {"_spill.p": 3}}),
        shop.tails.update_one(batch(shop, 2), {"$pop": {"part": 1}}))),
    "numbers": (("V6", "unfinished"), lambda shop: shop.tails.update_one(batch(shop, 3), {"$set": {"_spill.i": 7}})),
    "a long batch": (("V6", "unfinished"), lambda shop: (
        shop.tails.update_one(batch(shop, 2), {"$push": {"part": 11}}),
        shop.tails.update_one(batch(shop, 3), {"$pop": {"part": -1}, "$inc": {"_spill.p": 1}}))),
    "not moved": (("V7", "unfinished"), lambda shop: shop.books.insert_one({"_id": "long", "list": list(range(5))})),
    "a tail": (("V7", "unfinished"), lambda shop: shop.books.update_one({"_id": "x"}, {"$push": {"list": 12}})),
    "not linked": (("V7", "unfinished"), lambda shop: (
        shop.tails.update_one(batch(shop, 3), {"$push": {"part": 12}}),
        shop.books.update_one({"_id": "x"}, {"$push": {"list": 12}}))),
    "an empty state": (("V7", "unfinished"),
                       lambda shop: shop.books.insert_one({"_id": "e", "list": [], "_spill": {}})),
    "a generation with nothing": (("V7", "unfinished"), lambda shop: shop.books.insert_one(
        {"_id": "n", "list": [1], "_spill": {"list": {"g": generation(2), "h": 3, "n": 0}}})),
    "another head": (("V7", "unfinished"), lambda shop: shop.books.update_one(
        {"_id": "x"}, {"$set": {"_spill.list.h": 2, "list": [0, 1]}})),
    "a batch half full": (("V7", "unfinished"), lambda shop: (
        shop.tails.update_one(batch(shop, 1), {"$pop": {"part": 1}}),
        shop.tails.update_one(batch(shop, 2),
                              {"$push": {"part": {"$each": [6], "$position": 0}}, "$inc": {"_spill.p": -1}}),
        shop.tails.update_one(batch(shop, 2), {"$pop": {"part": 1}}),
        shop.tails.update_one(batch(shop, 3),
                              {"$push": {"part": {"$each": [10], "$position": 0}}, "$inc": {"_spill.p": -1}}))),
    "no index": (("index", "unfinished"), lambda shop: shop.tails.drop_index("book_1__spill.i_1")),
}


def snapshot(shop):
    return shop.command("dbHash")["md5"]


def by_class(findings):
    return {"corrupt": findings.corrupt, "unfinished": findings.unfinished, "garbage": findings.garbage}


def test_what_is_well_is_well(operator, shop):
    before = snapshot(shop)
    report = operator.run("verify", code=0)
    assert report["findings"] == []
    assert (report["documents"], report["spilled"], report["elements"]) == (1, 1, 17)
    assert snapshot(shop) == before


# What the tests' own verifier does not look at, or does not get through.
ONLY_OURS = ("no index", "an empty state", "a state of another's", "no array", "another head", "a head that is short")


def check_export(shop, file, report):
    exported = bson.decode_all(file.read_bytes())
    assert [each["document"]
            for each in exported if each["namespace"] == "shop.books"] == [shop.books.find_one({"_id": "x"})]
    stored = [each["document"]["_id"] for each in exported if each["namespace"] == "shop.tails"]
    assert stored == [each["_id"] for each in shop.tails.find({"book": "x"}).sort("_spill.i")]
    assert report["exported"] == len(exported)


def test_numbers_that_nothing_can_be_added_to(operator, shop):
    """The counts stay counts."""
    for identifier in ("y", "z"):
        spill(shop.client.shop, identifier, list(range(9)), state={"n": 2**63 - 1})
    shop.tails.update_one({"book": "at rest", "_spill.i": 2}, {"$set": {"_spill.p": 2**63 - 2}})
    shop.tails.update_one({"book": "at rest", "_spill.i": 3}, {"$set": {"_spill.i": 2**63 - 1}})
    report = operator.run("verify", code=1)
    assert report["elements"] == 2**63 - 1
    assert ("V1", "corrupt") in found(report)


@pytest.mark.parametrize("name", BROKEN)
def test_each_finding_is_told_and_mended_or_left(operator, shop, name):
    expected, break_it = BROKEN[name]
    spill(shop, "x", list(range(12)))
    break_it(shop)
    before = snapshot(shop)
    report = operator.run("verify", "--repair", code=1)
    assert expected in found(report), report
    assert {kind for _, kind in found(report)} <= {expected[1], "left as it is", "unfinished"}
    assert snapshot(shop) == before, "without --execute nothing is written"
    if name not in ONLY_OURS:
        assert by_class(verify(shop.client, RULE))[expected[1]], "the tests' own verifier agrees"
    if expected[1] == "corrupt":
        file = operator.folder / f"{name}.bson"
        report = operator.run("verify", "--repair", "--execute", "--export", file, code=1)
        assert expected in found(report)
        assert snapshot(shop) == before
        check_export(shop, file, report)
    else:
        assert operator.run("verify", "--repair", "--execute", code=0)["findings"] == []
        assert operator.run("verify", code=0)["findings"] == []
        assert not verify(shop.client, RULE)


def test_garbage_of_a_document_that_is_there_is_no_orphan(operator, shop):
    """Its array was taken back into it: nothing in it speaks of the overflow."""
    dead(shop, OLD, "ordinary")
    dead(shop, ObjectId("500000000000000000000001"), "nobody")
    told = {each["name"]: [(one["namespace"], one["_id"]) for one in each["examples"]]
            for each in operator.run("verify", code=1)["findings"]}
    assert told == {"garbage-replaced": [("shop.books", "ordinary")],
                    "garbage-without-document": [("shop.tails", "nobody")]}


KEYS = [("book", 1), ("_spill.i", 1)]


def hide(shop, hidden):
    shop.command("collMod", "tails", index={"name": "book_1__spill.i_1", "hidden": hidden})


def test_an_index_with_the_same_keys_is_in_nobodys_way(operator, shop):
    spill(shop, "x", list(range(12)))
    dead(shop, OLD, "nobody")
    for options in ({}, {"sparse": True}, {"hidden": True}, {"collation": {"locale": "de"}}):
        shop.tails.create_index(KEYS, name="mine", **options)
        assert found(operator.run("verify", code=1)) == {("V3", "garbage"): 1}, options
        shop.tails.drop_index("mine")
    shop.tails.create_index(KEYS, name="mine")
    assert operator.run("verify", "--repair", "--execute", code=0)["cleared"] == 1
    hide(shop, True)  # the other one will do
    assert operator.run("verify", code=0)["findings"] == []
    shop.tails.drop()


def test_a_hidden_index_is_told(operator, shop):
    spill(shop, "x", list(range(12)))
    dead(shop, OLD, "nobody")
    hide(shop, True)
    for options in ([], ["--repair", "--execute"]):
        report = operator.run("verify", *options, code=1)
        assert found(report) == {("index", "unfinished"): 1}
        assert "is hidden" in report["findings"][0]["examples"][0]["detail"]
    hide(shop, False)
    assert found(operator.run("verify", code=1)) == {("V3", "garbage"): 1}
    assert operator.run("verify", "--repair", "--execute", code=0)["cleared"] == 1


def test_garbage_that_may_still_be_read_is_no_finding(cluster, shop):
    with Operator(cluster, [{**RULE, "gc_delay": "60s"}]) as slow:
        dead(shop, ObjectId(), "at rest")
        report = slow.run("verify", code=0)
        assert report["waiting garbage"] == 1


def test_what_is_left_alone_is_no_finding(operator, shop):
    shop.tails.insert_one({"book": "by hand", "part": [4], "_spill": {"i": 1}})
    shop.books.insert_one({"_id": "by hand", "list": list(range(9))})
    report = operator.run("verify", code=0)
    assert found(report) == {("foreign", "left as it is"): 1}
    assert report["findings"] == []
    assert report["notes"][0]["examples"] == [
        {"namespace": "shop.books", "_id": "by hand", "detail": "the document is left as it is"}]


def test_a_split_by_hand_keeps_its_flag(operator, shop):
    shop.tails.insert_one({"book": "by hand", "part": [4]})
    shop.books.insert_one({"_id": "by hand", "list": [1, 2, 3], "outlier": True})
    for options in ([], ["--repair", "--execute"]):
        assert found(operator.run("verify", *options, code=0)) == {("foreign", "left as it is"): 1}
    assert shop.books.find_one({"_id": "by hand"}) == {"_id": "by hand", "list": [1, 2, 3], "outlier": True}


def test_nothing_is_moved_where_the_rule_cannot_hold(cluster, operator, shop):
    shop.books.insert_one({"_id": 1, "list": list(range(9))})
    operator.run("migrate", "--execute", code=0)
    shop.books.insert_one({"_id": 2, "list": list(range(9))})
    another = {**RULE, "overflow": {**RULE["overflow"], "array": "another"}}
    with Operator(cluster, [another]) as other:
        report = other.run("verify", "--repair", "--execute", code=1)
        assert report["mended"] == 0 and ("unfit", "unfinished") in found(report)
    assert shop.books.find_one({"_id": 2}) == {"_id": 2, "list": list(range(9))}


def test_an_index_of_the_rule_s_own_that_is_missing(cluster, shop):
    with Operator(cluster,
                  [{**RULE, "overflow": {**RULE["overflow"], "indexes": [{"keys": {"part": 1}}]}}]) as operator:
        report = operator.run("verify", code=1)
        assert found(report) == {("index", "unfinished"): 1}
        assert report["findings"][0]["examples"][0]["detail"] == "one of the rule's own"
        operator.run("verify", "--repair", "--execute", code=0)
    assert "part_1" in shop.tails.index_information()
    shop.tails.drop_index("part_1")


def test_under_a_rule_that_may_only_be_read_nothing_is_mended(cluster, shop):
    shop.books.insert_one({"_id": 2, "list": list(range(9))})
    before = snapshot(shop)
    with Operator(cluster, [{**RULE, "access": "read-only"}]) as operator:
        report = operator.run("verify", "--repair", "--execute", code=1)
    assert ("unfit", "unfinished") in found(report) and report["mended"] == 0
    (unfit,) = [each for each in report["findings"] if each["code"] == "unfit"]
    assert unfit["examples"][0]["detail"] == "a rule on it is read-only ('access')"
    assert snapshot(shop) == before


def test_names_that_are_no_text(operator, shop):
    """JSON has no like of them: the report is printed all the same."""
    document = bson.encode({"_id": "odd??", "list": list(range(9)), "other": 1}).replace(b"odd??", b"odd\xff\xfe")
    shop.books.insert_one(RawBSONDocument(document))
    for command, options in (("verify", []), ("migrate", ["--execute"])):
        report = operator.run(command, *options, code=1 if command == "verify" else 0)
        if report["findings"]:
            assert report["findings"][0]["examples"][0]["_id"] == "(unreadable)"
    assert shop.tails.count_documents({"book": {"$ne": "at rest"}}) == 2
    assert operator.run("undo", "--execute", code=0)["documents"] == 2


def test_many_pages_and_examples(operator, shop):
    shop.books.insert_many({"_id": i, "list": [1] * (9 if i % 100 == 0 else 2)} for i in range(3500))
    report = operator.run("verify", code=1)
    assert found(report) == {("V7", "unfinished"): 35}
    assert [example["_id"] for example in report["findings"][0]["examples"]] == [0, 100, 200, 300, 400]
    assert operator.run("verify", "--repair", "--execute", code=0)["mended"] == 35


ELEMENTS = {**RULE, "namespace": "shop.posts",
            "overflow": {"layout": "elements", "collection": "comments", "link": "post"}}


def elements(link, number, positions):
    return [{"_id": ObjectId(), "post": link, "_spill": {"g": generation(number), "p": i, "v": i}} for i in positions]


def test_links_that_are_equal_but_not_the_same_bytes(cluster, shop):
    """A pipeline update may write `_id` 1 as 1.0: a page of the overflow's walk ends between the two."""
    shop.posts.drop()
    shop.comments.drop()
    shop.comments.create_index([("post", 1), ("_spill.p", 1)], unique=True)
    shop.posts.insert_one({"_id": 1.0, "list": [0, 1, 2], "_spill": {"list": {"g": generation(1), "h": 3, "n": 1000}},
                           "outlier": True})
    stored = elements(1.0, 1, range(0, 1000, 2)) + elements(1, 1, range(1, 1000, 2))
    garbage = elements(1, 2, range(1000, 3000)) + elements(2, 3, range(3)) + elements(3, 3, range(2000))
    for each in garbage:
        each["_id"] = ObjectId(OLD.binary[:4] + each["_id"].binary[4:])
    shop.comments.insert_many(stored + garbage)
    with Operator(cluster, [ELEMENTS]) as operator:
        report = operator.run("verify", code=1)
        assert found(report) == {("V3", "garbage"): 3}
        assert {each["_id"] for finding in report["findings"] for each in finding["examples"]} == {1, 2, 3}
        assert operator.run("verify", "--repair", "--execute", code=0)["cleared"] == 3
        assert shop.comments.count_documents({}) == 1000
        assert operator.run("undo", "--execute", code=0)["elements"] == 1000
    assert "comments" not in shop.list_collection_names()


def test_batches_of_a_number_that_is_written_otherwise_are_not_garbage(cluster, shop):
    shop.books.delete_many({})
    shop.tails.delete_many({})
    spill(shop, 1.0, list(range(12)))
    shop.books.update_one({}, {"$unset": {"outlier": 1}})
    shop.client.drop_database("spillway")  # a record of the rule with a flag
    shop.tails.update_many({"book": 1.0}, {"$set": {"book": 1}})
    for batch_of_it in list(shop.tails.find({"book": 1})):
        shop.tails.delete_one({"_id": batch_of_it["_id"]})
        shop.tails.insert_one({**batch_of_it, "_id": ObjectId(OLD.binary[:4] + batch_of_it["_id"].binary[4:])})
    with Operator(cluster, [{name: value for name, value in RULE.items() if name != "flag"}]) as operator:
        assert operator.run("verify", code=0)["findings"] == []
        report = operator.run("verify", "--repair", "--execute", code=0)
        assert (report["findings"], report.get("cleared", 0)) == ([], 0)
    assert shop.tails.count_documents({"book": 1}) == 3
    shop.client.drop_database("spillway")


def test_links_that_fit_into_no_command_together(operator, shop):
    for i in range(20):
        dead(shop, ObjectId(OLD.binary[:11] + bytes([i])), f"{i:02d}" + "x" * 1_000_000)
    assert found(operator.run("verify", code=1)) == {("V3", "garbage"): 20}
    assert operator.run("verify", "--repair", "--execute", code=0)["cleared"] == 20
    assert shop.tails.distinct("book") == ["at rest"]


@pytest.mark.parametrize("other", ["nobody", "ordinary", "at rest"])
def test_what_a_corrupt_document_lacks_is_not_garbage_elsewhere(operator, shop, other):
    spill(shop, "x", list(range(20)), state={"g": generation(7)})
    strayed = {**shop.tails.find_one_and_delete(batch(shop, 2)), "_id": OLD, "book": other, "_spill": {
        **shop.tails.find_one(batch(shop, 1))["_spill"], "p": 4, "i": 90}}
    shop.tails.insert_one(strayed)
    report = operator.run("verify", "--repair", "--execute", code=1)
    assert [(finding["code"], finding["class"]) for finding in report["findings"]].count(("V1", "corrupt")) >= 2
    assert any("linked to another" in finding["what"] for finding in report["findings"])
    assert shop.tails.find_one({"_id": OLD}) == strayed


def test_orphans_of_a_text_that_another_equals_under_a_collation(operator, shop):
    shop.books.drop()
    shop.create_collection("books", collation={"locale": "en", "strength": 2})
    shop.books.insert_one({"_id": "A", "list": [1], "outlier": True})
    dead(shop, OLD, "a")
    assert ("V3", "garbage") in found(operator.run("verify", code=1))
    shop.books.drop()


class Hot(threading.Thread):
    """Writes this document all the time."""

    def __init__(self, cluster, update):
        super().__init__()
        self.cluster, self.update, self.begun, self.stopped = cluster, update, threading.Event(), threading.Event()

    def run(self):
        with self.cluster.client() as client:
            while not self.stopped.is_set():
                client.shop.books.update_one({"_id": "x"}, self.update)
                self.begun.set()

    def __enter__(self):
        self.start()
        self.begun.wait()

    def __exit__(self, *_):
        self.stopped.set()
        self.join()


def test_a_document_that_is_written_all_the_time(cluster, operator, shop):
    spill(shop, "x", list(range(12)))
    shop.tails.delete_one(batch(shop, 2))
    for i in range(3):  # so that a look takes a while
        shop.tails.insert_one({"book": "x", "part": ["x" * 4_000_000],
                               "_spill": {"g": generation(9), "p": 0, "i": 9 + i}})
    with Hot(cluster, {"$inc": {"views": 1}}):
        assert ("V1", "corrupt") in found(operator.run("verify", code=1)), "other fields are not judged"
    slow = {"failCommands": ["find"], "namespace": "shop.tails", "appName": "spillway", "blockConnection": True,
            "blockTimeMS": 150}
    with Hot(cluster, {"$inc": {"list.0": 1}}):
        shop.client.admin.command("configureFailPoint", "failCommand", mode="alwaysOn", data=slow)
        try:
            report = operator.run("verify", code=1)
        finally:
            shop.client.admin.command("configureFailPoint", "failCommand", mode="off")
    assert ("busy", "unfinished") in found(report)


def test_an_export_that_the_disk_has_no_room_for(operator, shop):
    spill(shop, "x", ["x" * 10_000] * 12)
    shop.tails.delete_one(batch(shop, 2))
    called = subprocess.run(operator.command("verify", "--repair", "--execute", "--export",
                                             operator.folder / "cut.bson"),
                            capture_output=True, text=True, check=False, restore_signals=False,  # SIGXFSZ stays ignored
                            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096)))
    assert (called.returncode, "could not all be written" in called.stderr) == (1, True), called.stderr


def test_an_export_that_is_there_already_is_said_once(operator, shop):
    for i in range(3):
        spill(shop, i, list(range(12)))
        shop.tails.delete_one({"book": i, "_spill.i": 2})
    file = operator.folder / "there.bson"
    file.write_text("of another run")
    ended = operator.start("verify", "--repair", "--execute", "--export", file)
    assert ended.communicate(timeout=60)[1].count("can't be made: File exists") == 1
    assert ended.returncode == 1 and file.read_text() == "of another run"


@pytest.mark.parametrize("size", [2, 100])
def test_batches_of_a_size_that_was_changed_are_brought_to_the_new_one(cluster, operator, shop, size):
    shop.books.insert_one({"_id": 1, "list": list(range(11))})
    operator.run("migrate", "--execute", code=0)
    with Operator(cluster, [{**RULE, "overflow": {**RULE["overflow"], "batch": {"size": size}}}]) as changed:
        changed.run("verify", code=1)
        changed.run("verify", "--repair", "--execute", code=0)
        changed.run("verify", code=0)
    assert [len(each["part"])
            for each in shop.tails.find({"book": 1}, sort=[("_spill.i", 1)])] == ([2] * 4 if size == 2 else [8])


def test_what_the_server_refuses_is_not_mended(operator, shop):
    spill(shop, "x", list(range(12)))
    shop.books.update_one({"_id": "x"}, {"$unset": {"outlier": 1}})
    shop.command("collMod", "books", validator={"allowed": True})
    report = operator.run("verify", "--repair", "--execute", code=1)
    shop.command("collMod", "books", validator={})
    assert (found(report), report["mended"]) == ({("V2", "unfinished"): 1}, 0)


def test_how_it_is_called(operator):
    text = operator.start("verify", "--help").communicate()[0]
    assert "exit codes" in text
    for options in (["--nonsense"], ["--execute"], ["--rate", "3"], ["more"]):
        called = operator.start("verify", *options)
        said = called.communicate()[1]
        assert called.returncode == 2
        assert "usage: spillway verify" in said
    called = operator.start("verify", rule="nobody")
    assert "has no rule 'nobody'" in called.communicate()[1]
    assert called.returncode == 2


def test_no_server(operator):
    text = operator.file.read_text()
    other = operator.folder / "nowhere.yaml"
    other.touch(mode=0o600)
    other.write_text(re.sub("server: .*", "server: 127.0.0.1:1", text))
    called = subprocess.run([program(), "verify", "--config", other, "--rule", "books"],
                                    capture_output=True, text=True, check=False)
    assert called.returncode == 3, called


def copied(shop):
    """A copy of the document at rest, made straight at mongod, with its state."""
    shop.books.insert_one({**shop.books.find_one({"_id": "at rest"}), "_id": "x"})


STRAY = {
    "another document's generation": copied,
    "no document": lambda shop: shop.books.insert_one({"_id": "x", "list": [1], "_spill": 5}),
    "no document for the array": lambda shop: shop.books.insert_one({"_id": "x", "list": [1], "_spill": {"list": "x"}}),
    "no generation": lambda shop: shop.books.insert_one({"_id": "x", "list": [1],
                                                         "_spill": {"list": {"h": 3, "n": 9}}}),
    "a generation of another subtype": lambda shop: shop.books.insert_one(
        {"_id": "x", "list": [1], "_spill": {"list": {"g": Binary(bytes(generation(6)), 4), "h": 3, "n": 9}}}),
    "a long generation": lambda shop: shop.books.insert_one(
        {"_id": "x", "list": [1], "_spill": {"list": {"g": Binary(b"x" * 17), "h": 3, "n": 9}}}),
    "no head": lambda shop: shop.books.insert_one(
        {"_id": "x", "list": [1],
         "_spill": {"list": {"g": shop.books.find_one({"_id": "at rest"})["_spill"]["list"]["g"], "n": 9}}}),
}
# What happens to the state of a document with overflow, and which field verify names.
UNREADABLE = {
    "no generation": ({"$unset": {"_spill.list.g": 1}}, "g in the state"),
    "a long generation": ({"$set": {"_spill.list.g": Binary(b"x" * 17)}}, "g in the state"),
    "a generation of another subtype": ({"$set": {"_spill.list.g": Binary(bytes(generation(4)), 4)}}, "g in the state"),
    "a generation that is a number": ({"$set": {"_spill.list.g": 5}}, "g in the state"),
    "an edit in place of more than there is": (
        {"$set": {"_spill.list": {"e": {"g": generation(4), "l": generation(5), "b": 9, "h": 3, "n": 9, "r": 10,
                                        "v": 1}}}}, "e in the state"),
    "no head": ({"$unset": {"_spill.list.h": 1}}, "h in the state"),
    "no count": ({"$unset": {"_spill.list.n": 1}}, "n in the state"),
    "a count below nothing": ({"$set": {"_spill.list.n": -1}}, "n in the state"),
    "no document for the array": ({"$set": {"_spill.list": "x"}}, "the array's state in _spill"),
    "no document": ({"$set": {"_spill": 5}}, "_spill is no document"),
    "a list": ({"$set": {"_spill": [{"list": {"g": generation(4), "h": 3, "n": 9}}]}}, "_spill is no document"),
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_a_state_that_cannot_be_read_is_the_only_finding(operator, shop, name):
    """What follows from it is none: its batches may be needed, and nobody knows what the tail is."""
    change, told = UNREADABLE[name]
    spill(shop, "x", [*range(12)], state={"g": generation(4)})
    shop.tails.update_one({"book": "x", "_spill.i": 3}, {"$push": {"part": "does not count yet"}})
    shop.books.update_one({"_id": "x"}, [{"$set": {"list": {"$concatArrays": ["$list", ["the document's"]]}}}])
    shop.books.update_one({"_id": "x"}, change)
    before = snapshot(shop)
    report = operator.run("verify", code=1)
    assert found(report) == {("V1", "corrupt"): 1}, report
    assert told in repr(report["findings"]), report
    operator.run("verify", "--repair", "--execute", "--export", operator.folder / f"unreadable {name}.bson", code=1)
    assert snapshot(shop) == before, "what its overflow holds may be all that is left"


def test_a_state_whose_overflow_has_nobody_else_stays(operator, shop):
    """Somebody gave a document another _id straight at mongod: nothing but its state tells of its elements."""
    spill(shop, "x", [*range(12)], state={"g": generation(4)})
    shop.tails.delete_many({"book": "x"})
    for number in range(3):
        shop.tails.insert_one({"_id": number, "book": "x", "part": [number] * 3,  # too old to wait
                               "_spill": {"g": generation(4), "p": 3 * number, "i": number + 1}})
    shop.books.insert_one({**shop.books.find_one({"_id": "x"}), "_id": "renamed"})
    shop.books.delete_one({"_id": "x"})
    before = snapshot(shop)
    report = operator.run("verify", "--repair", "--execute", "--export", operator.folder / "renamed.bson", code=1)
    assert found(report) == {("V1", "corrupt"): 2} and "states dropped" not in report
    assert {each["name"] for each in report["findings"]} == {"elements-missing-at-end", "overflow-of-corrupt"}
    assert snapshot(shop) == before


@pytest.mark.parametrize("name", STRAY)
def test_a_state_that_is_not_the_documents_is_dropped(operator, shop, name):
    STRAY[name](shop)
    before, victim, tails = snapshot(shop), shop.books.find_one({"_id": "at rest"}), list(shop.tails.find())
    report = operator.run("verify", "--repair", code=1)
    assert ("V1", "corrupt") in found(report)
    assert snapshot(shop) == before, "without --execute nothing is written"
    stored = shop.books.find_one({"_id": "x"})
    there = operator.folder / f"there {name}.bson"
    there.write_text("of another run")
    operator.run("verify", "--repair", "--execute", "--export", there, code=1)
    assert snapshot(shop) == before, "what could not be exported stays"
    file = operator.folder / f"stray {name}.bson"
    report = operator.run("verify", "--repair", "--execute", "--export", file, code=0)
    assert (report["findings"], report["states dropped"]) == ([], 1)
    assert [each["document"] for each in bson.decode_all(file.read_bytes())] == [stored]
    assert operator.run("verify", code=0)["findings"] == []
    mended = shop.books.find_one({"_id": "x"})
    assert "_spill" not in mended and mended["list"] == stored["list"]
    assert shop.books.find_one({"_id": "at rest"}) == victim and list(shop.tails.find()) == tails


@pytest.mark.parametrize("name", STRAY)
def test_a_state_beside_overflow_of_the_document_stays(operator, shop, name):
    """Somebody has overwritten the true state: what the overflow holds may be all that is left."""
    STRAY[name](shop)
    shop.tails.insert_one({"book": "x", "part": [4], "_spill": {"g": generation(9), "p": 0, "i": 1}})
    before = snapshot(shop)
    operator.run("verify", "--repair", "--execute", "--export", operator.folder / f"beside {name}.bson", code=1)
    assert snapshot(shop) == before


def test_a_state_whose_overflow_is_nowhere_stays(operator, shop):
    """It may yet be restored."""
    spill(shop, "x", list(range(12)), state={"g": generation(5)})
    shop.tails.delete_many({"book": "x"})
    before = snapshot(shop)
    operator.run("verify", "--repair", "--execute", "--export", operator.folder / "nowhere.bson", code=1)
    assert snapshot(shop) == before
