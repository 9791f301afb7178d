"""What the mover does with documents, straight at mongod: layouts, limits, bytes, garbage, what it must leave alone."""

import datetime
import os
import random
import struct

import bson
import pymongo
import pytest
from bson.binary import Binary
from bson.raw_bson import RawBSONDocument
from bson.timestamp import Timestamp

from support import crash, exact, share
from support.cluster import Cluster
from support.process import wait_for
from support.spillway import Spillway
from support.verify import verify

pytestmark = pytest.mark.share(1)


def rule(collection, **options):
    overflow = {"layout": "batches", "link": "main", "array": "part", "batch": {"size": 10},
                **options.pop("overflow", {})}
    return {"name": collection, "namespace": f"shop.{collection}", "array": "list", "threshold": 3,
            "settle": "20ms", "quiet": "20ms", "gc_delay": "0s", "existing": "move", **options, "overflow": overflow}


RULES = [
    rule("plain"),
    rule("followers", flag={"field": "hasOverflow", "value": True, "otherwise": False},
         overflow={"batch": {"field": "batchNumber", "size": 4}, "created": "createdAt",
                   "indexes": [{"keys": {"part": 1}}]}),
    rule("emptied", when_outlier="empty", flag={"field": "outlier", "value": "yes"}),
    rule("deep", array="a.b.list", threshold=0),
    rule("fat", threshold=1000, max_bytes="10KB", overflow={"batch": {"size": 1000, "max_bytes": "4KB"}}),
    rule("large", threshold=50, overflow={"batch": {"size": 1000}}),
    rule("two", name="two-first"),
    rule("two", name="two-second", array="other", overflow={"collection": "two_other"}),
]
BY_NAME = {each["name"]: each for each in RULES}


# What a standalone changes are concerns: under the sanitizers a run's share has the replica set alone.
TOPOLOGIES = {"replica set": 1, "standalone": 0}
if share.SANITIZED:
    TOPOLOGIES = share.part({"replica set": 1}, every=TOPOLOGIES)


@pytest.fixture(scope="module", params=TOPOLOGIES.values(), ids=TOPOLOGIES)
def cluster(request):
    with Cluster(request.param) as made:
        yield made


def settle(direct, *names):
    """Until nothing is left to do. What looks broken may be a move between two reads: it must not stay."""
    def rest():
        return not any(verify(direct, BY_NAME[name]) for name in names)
    try:
        wait_for(rest, "rest", pause=0.02)
    except TimeoutError:
        assert [str(verify(direct, BY_NAME[name])) for name in names] == [""] * len(names)


def stored(direct, collection, identifier):
    return direct.shop[collection].find_one({"_id": identifier})


def parts(direct, collection, identifier):
    found = direct.shop[f"{collection}"].find({"main": identifier})
    return sorted(found, key=lambda part: part["_spill"]["p"])


def test_a_tail_moves_in_full_batches_and_grows(client, direct):
    client.shop.plain.insert_one({"_id": 1, "list": list(range(30)), "title": "x"})
    settle(direct, "plain")
    client.shop.plain.update_one({"_id": 1}, {"$push": {"list": {"$each": [30, 31, 32, 33, 34]}}})
    settle(direct, "plain")
    assert stored(direct, "plain", 1)["list"] == [0, 1, 2]
    sizes = [len(part["part"]) for part in parts(direct, "plain_list_overflow", 1)]
    assert sizes == [10, 10, 10, 2]
    assert [part["_spill"]["i"] for part in parts(direct, "plain_list_overflow", 1)] == [1, 2, 3, 4]
    assert client.shop.plain.find_one({"_id": 1}) == {"_id": 1, "list": list(range(35)), "title": "x"}


def test_the_followers_layout(client, direct):
    client.shop.followers.insert_many([
        {"_id": 1, "hasOverflow": False, "list": list(range(10))},
        {"_id": 2, "list": list(range(10))},
        {"_id": 3, "hasOverflow": False, "list": [1]},
    ])
    settle(direct, "followers")
    names = [stored(direct, "followers", i).get("_spill", {}).get("list", {}).get("a") for i in (1, 2)]
    assert names == [[], ["hasOverflow"]], "what the application had itself is not Spillway's"
    assert stored(direct, "followers", 1)["hasOverflow"] is True
    assert stored(direct, "followers", 3) == {"_id": 3, "hasOverflow": False, "list": [1]}
    overflow = parts(direct, "followers_list_overflow", 1)
    assert [part["batchNumber"] for part in overflow] == [1, 2]
    assert all(isinstance(part["createdAt"], datetime.datetime) for part in overflow)
    indexes = direct.shop.followers_list_overflow.index_information()
    assert indexes["main_1_batchNumber_1"]["unique"]
    assert indexes["part_1"]["key"] == [("part", 1)]


def test_a_rule_that_empties(client, direct):
    client.shop.emptied.insert_one({"_id": 1, "list": [1, 2, 3, 4]})
    client.shop.emptied.insert_one({"_id": 2, "list": [1, 2, 3]})
    settle(direct, "emptied")
    assert stored(direct, "emptied", 1)["list"] == []
    assert stored(direct, "emptied", 1)["outlier"] == "yes"
    assert stored(direct, "emptied", 2) == {"_id": 2, "list": [1, 2, 3]}
    assert client.shop.emptied.find_one({"_id": 1})["list"] == [1, 2, 3, 4]


def test_a_dotted_path(client, direct):
    client.shop.deep.insert_one({"_id": 1, "a": {"x": 1, "b": {"list": [1, 2], "y": 2}}})
    client.shop.deep.insert_one({"_id": 2, "a": [{"b": {"list": [1, 2]}}]})
    settle(direct, "deep")
    assert stored(direct, "deep", 1)["a"] == {"x": 1, "b": {"list": [], "y": 2}}
    assert list(stored(direct, "deep", 1)["_spill"]) == ["a/b/list"]
    assert stored(direct, "deep", 2) == {"_id": 2, "a": [{"b": {"list": [1, 2]}}]}
    assert client.shop.deep.find_one({"_id": 1})["a"] == {"x": 1, "b": {"list": [1, 2], "y": 2}}


def test_a_parent_that_becomes_an_array_meanwhile(client, direct):
    """Between the mover's look and its first write: the path then leads through an array, and means no ruled one."""
    data = {"failCommands": ["update"], "namespace": "shop.deep", "appName": "spillway", "blockConnection": True,
            "blockTimeMS": 500}
    before = direct.admin.command("configureFailPoint", "failCommand", mode={"times": 1}, data=data)["count"]
    client.shop.deep.insert_one({"_id": 3, "a": {"b": {"list": [1, 2]}}})
    direct.admin.command("waitForFailPoint", "failCommand", timesEntered=before + 1, maxTimeMS=60000)
    direct.shop.command("profile", 2)
    direct.shop.deep.replace_one({"_id": 3}, {"a": [{"b": {"list": [1, 2]}}]})
    written, first = direct.shop["system.profile"], {"ns": "shop.deep", "op": "update", "appName": "spillway"}
    wait_for(lambda: written.count_documents(first), "the mover's write")
    direct.shop.command("profile", 0)
    assert written.distinct("nModified", first) == [0]
    written.drop()
    settle(direct, "deep")
    assert stored(direct, "deep", 3) == {"_id": 3, "a": [{"b": {"list": [1, 2]}}]}


def test_fat_elements_move_before_there_are_many(client, direct):
    elements = [os.urandom(1000) for _ in range(20)] + [os.urandom(9000), b"small"]
    client.shop.fat.insert_one({"_id": 1, "list": elements[:15]})
    settle(direct, "fat")
    client.shop.fat.update_one({"_id": 1}, {"$push": {"list": {"$each": elements[15:]}}})
    settle(direct, "fat")
    assert len(stored(direct, "fat", 1)["list"]) == 10
    sizes = [len(part["part"]) for part in parts(direct, "fat_list_overflow", 1)]
    assert sizes == [4, 4, 2, 1, 1], "one that is larger than a batch has one to itself"
    assert client.shop.fat.find_one({"_id": 1})["list"] == elements


def test_two_rules_of_one_document_have_a_state_each(client, direct):
    client.shop.two.insert_one({"_id": 1, "list": list(range(9)), "other": list("abcdefg")})
    settle(direct, "two-first", "two-second")
    assert set(stored(direct, "two", 1)["_spill"]) == {"list", "other"}
    whole = client.shop.two.find_one({"_id": 1})
    assert whole == {"_id": 1, "list": list(range(9)), "other": list("abcdefg")}


def odd_elements():
    """Values that a decoder would change: each as (type, payload)."""
    nan = struct.pack("<Q", 0x7FF800000000BEEF)
    deep = (exact.DOCUMENT, [])
    for _ in range(150):
        deep = (exact.DOCUMENT, [("", deep)])
    regex = (exact.REGEX, b"a/b\0xmi\0")
    return [
        (exact.DOUBLE, nan), (exact.DOUBLE, struct.pack("<d", -0.0)), deep, regex, exact.value_of(Timestamp(0, 0)),
        exact.value_of(bson.Decimal128("1.000")),
        (exact.BINARY, b"\4\0\0\0\x80\1\2\3\4"), (exact.SYMBOL, b"\2\0\0\0s\0"), (exact.NULL, b""),
        exact.value_of(bson.MinKey()), exact.value_of([1, [2, [3]]]), exact.value_of(2**40),
        exact.value_of({"$set": 1, "a.b": 2}), exact.value_of(True), exact.value_of("\u20ac"),
    ]


def test_bytes_come_back_as_they_were(client, direct):
    elements = odd_elements() * 3
    random.Random(5).shuffle(elements)
    raw = exact.encode([
        ("_id", exact.value_of("odd")),
        ("list", (exact.ARRAY, [(str(i), value) for i, value in enumerate(elements)])),
    ])
    direct.shop.plain.insert_one(RawBSONDocument(raw))
    client.shop.plain.update_one({"_id": "odd"}, {"$push": {"list": 1}})
    settle(direct, "plain")
    options = direct.codec_options.with_options(document_class=RawBSONDocument)
    collection = direct.get_database("shop", codec_options=options).plain_list_overflow
    found = []
    for part in collection.find({"main": "odd"}).sort("_spill.p"):
        found += [item for _, item in exact.get(exact.parse(part.raw), "part")[1]]
    assert found[:-1] == elements[3:]


ONE, TWO = exact.value_of(1), exact.value_of(2)


@pytest.mark.parametrize("last, pairs", [
    (8, [("list", ONE)]),
    (8, [("hasOverflow", ONE), ("hasOverflow", TWO)]),
    ((exact.DOCUMENT, [("a", ONE), ("a", TWO)]), []),
], ids=["the array's name", "the flag's name", "a name in an element"])
def test_a_document_in_which_a_name_stands_twice_is_left_alone(client, direct, spillway, last, pairs):
    """A move would abort mongod 6.0."""
    raw = exact.encode([("_id", exact.value_of(bson.ObjectId())),
                        ("list", exact.value_of([*range(8), last])), *pairs])
    identifier = bson.decode(raw)["_id"]
    direct.shop.followers.insert_one(RawBSONDocument(raw))
    before = spillway.metrics()["spillway_documents_left_alone_total"]
    client.shop.followers.update_one({"_id": identifier}, {"$push": {"more": 1}, "$set": {"x": 1}})
    client.shop.followers.update_one({"_id": identifier}, {"$push": {"list": 9}})
    wait_for(lambda: spillway.metrics()["spillway_documents_left_alone_total"] > before, "the mover")
    options = direct.codec_options.with_options(document_class=RawBSONDocument)
    collection = direct.get_database("shop", codec_options=options).followers
    found = exact.parse(collection.find_one({"_id": identifier}).raw)
    assert len(exact.get(found, "list")[1]) == 10
    assert exact.get(found, "_spill") is None
    direct.shop.followers.delete_one({"_id": identifier})


def test_a_document_with_batches_of_somebody_else_is_left_alone(client, direct, spillway):
    direct.shop.plain_list_overflow.insert_one({"main": "split", "part": [3, 4]})
    before = spillway.metrics()["spillway_documents_left_alone_total"]
    client.shop.plain.insert_one({"_id": "split", "list": [0, 1, 2, 3]})
    wait_for(lambda: spillway.metrics()["spillway_documents_left_alone_total"] > before, "the mover")
    assert stored(direct, "plain", "split") == {"_id": "split", "list": [0, 1, 2, 3]}
    assert direct.shop.plain_list_overflow.count_documents({"main": "split"}) == 1
    direct.shop.plain_list_overflow.delete_one({"main": "split"})
    direct.shop.plain.delete_one({"_id": "split"})


def test_dead_generations_are_cleared_and_numbers_used_again(client, direct):
    client.shop.plain.insert_one({"_id": "dies", "list": list(range(30))})
    settle(direct, "plain")
    for length in (25, 40):
        client.shop.plain.update_one({"_id": "dies"}, {"$set": {"list": list(range(length))}})
        settle(direct, "plain")
        assert client.shop.plain.find_one({"_id": "dies"})["list"] == list(range(length))
    client.shop.plain.replace_one({"_id": "dies"}, {"list": list(range(12))})
    settle(direct, "plain")
    assert len(parts(direct, "plain_list_overflow", "dies")) == 1
    client.shop.plain.delete_one({"_id": "dies"})
    settle(direct, "plain")
    assert parts(direct, "plain_list_overflow", "dies") == []


def test_a_write_by_another_filter_is_resolved(client, direct):
    client.shop.plain.insert_many([{"_id": f"kind{i}", "kind": 7, "list": [1, 2]} for i in range(5)])
    client.shop.plain.update_many({"kind": 7}, {"$push": {"list": {"$each": [3, 4, 5]}}})
    settle(direct, "plain")
    assert all(stored(direct, "plain", f"kind{i}")["list"] == [1, 2, 3] for i in range(5))


def test_what_a_pipeline_merges_moves_as_what_is_inserted_does(client, direct):
    """A new outlier, and one over another: of that the old overflow goes, too."""
    client.shop.plain.insert_one({"_id": "merged", "list": list(range(30))})
    settle(direct, "plain")
    client.shop.source.insert_many([{"_id": name, "list": list(range(15))} for name in ("merged", "new")])
    client.shop.source.aggregate([{"$merge": {"into": "plain", "whenMatched": "replace"}}])
    settle(direct, "plain")
    assert all(len(stored(direct, "plain", name)["list"]) == 3 for name in ("merged", "new"))
    assert len(parts(direct, "plain_list_overflow", "merged")) == 2


def test_what_is_merged_moves_where_sweeps_are_off(cluster, direct):
    pattern = {**rule("x", sweep="off"), "name": "tenants", "namespace": "merged_*.posts"}
    with Spillway([cluster.primary], [*RULES, pattern]) as other, \
            pymongo.MongoClient(other.address, directConnection=True) as client:
        client.shop.many.insert_many([{"_id": i, "list": list(range(9))} for i in range(3)])
        into = {"db": "merged_1", "coll": "posts"}
        client.shop.many.aggregate([{"$merge": {"into": into, "whenMatched": "replace"}}])
        wait_for(lambda: {len(each["list"]) for each in direct.merged_1.posts.find()} == {3}, "the moves")
        client.drop_database("merged_1")


def test_a_push_in_a_transaction_is_found_after_its_commit(client, direct, cluster):
    if not cluster.replica_set:
        return  # no transactions there
    client.shop.plain.insert_one({"_id": "slow", "list": [0, 1, 2]})
    with client.start_session() as session, session.start_transaction():
        client.shop.plain.update_one({"_id": "slow"}, {"$push": {"list": 3}}, session=session)
        # Looked at meanwhile, and not seen.
        client.shop.plain.update_one({"_id": "other"}, {"$push": {"list": 1}}, upsert=True)
        wait_for(lambda: stored(direct, "plain", "other"), "another write")
    settle(direct, "plain")
    assert stored(direct, "plain", "slow")["list"] == [0, 1, 2]
    assert client.shop.plain.find_one({"_id": "slow"})["list"] == [0, 1, 2, 3]


@pytest.mark.parametrize("how", ["deleted", "emptied"])
def test_what_a_transaction_leaves_is_cleared_after_its_commit(client, direct, cluster, how):
    if not cluster.replica_set:
        return  # no transactions there
    client.shop.plain.insert_one({"_id": how, "list": list(range(9))})
    settle(direct, "plain")
    with client.start_session() as session, session.start_transaction():
        if how == "deleted":
            client.shop.plain.delete_one({"_id": how}, session=session)
        else:
            client.shop.plain.update_one({"_id": how}, {"$set": {"list": []}}, session=session)
        # Looked at meanwhile, and alive.
        client.shop.plain.insert_one({"_id": f"{how} too", "list": list(range(9))})
        settle(direct, "plain")
        client.shop.plain.delete_one({"_id": f"{how} too"})
        wait_for(lambda: not parts(direct, "plain_list_overflow", f"{how} too"), "another's garbage")
    wait_for(lambda: not parts(direct, "plain_list_overflow", how), "its garbage")


def test_identifiers_of_any_type(client, direct):
    identifiers = [None, 1.5, "text", {"a": 1, "b": [1]}, Binary(b"12", 4), bson.ObjectId(), True,
                   bson.Decimal128("3.10"), datetime.datetime(2020, 1, 1), bson.MinKey()]
    for identifier in identifiers:
        client.shop.plain.insert_one({"_id": identifier, "list": [0, 1, 2, 3, 4]})
    settle(direct, "plain")
    for identifier in identifiers:
        # By equality: a null would find links that are missing, too.
        assert [part["part"] for part in parts(direct, "plain_list_overflow", {"$eq": identifier})] == [[3, 4]]
        assert client.shop.plain.find_one({"_id": identifier})["list"] == [0, 1, 2, 3, 4]


def test_a_hundred_thousand_elements(client, direct):
    client.shop.large.insert_one({"_id": 1, "list": list(range(100000))})
    settle(direct, "large")
    assert stored(direct, "large", 1)["_spill"]["list"]["n"] == 99950
    assert client.shop.large.find_one({"_id": 1})["list"] == list(range(100000))


def test_the_sweep_finds_what_nobody_noted(cluster, direct):
    with Spillway([cluster.primary], [*RULES, rule("swept", sweep="1s")]) as other:
        direct.shop.swept.insert_many([{"_id": i, "list": list(range(i % 7))} for i in range(400)])
        direct.shop.swept_list_overflow.insert_one(
            {"main": -1, "part": [1], "_spill": {"g": crash.generation(), "p": 0, "i": 1}})
        keeping = rule("swept")
        wait_for(lambda: not verify(direct, keeping), "the sweep", 90, 0.1)
        assert other.metrics()["spillway_sweeps_total"] >= 1


def test_no_garbage_is_seen_under_a_state_of_an_edit_in_place(cluster, direct):
    """It names two generations in `e`, and an edit has stored what does not count yet. The sweep folds no such array
    back whose elements take more than 8 MB."""
    main, tails = direct.shop.edited, direct.shop.edited_list_overflow
    born, later, dead = crash.generation(), crash.generation(), crash.generation()
    state = {"g": born, "l": later, "b": 1, "h": 1, "n": 2, "r": 0, "v": 1}
    one, two, three = (digit * (5 << 20) for digit in "123")
    batches = [{"main": "edited", "part": [one], "_spill": {"g": born, "p": 0, "i": 1, "u": 2}},
               {"main": "edited", "part": [two], "_spill": {"g": later, "p": 0, "i": -1, "e": 2, "w": 1}},
               {"main": "edited", "part": [three], "_spill": {"g": later, "p": 1, "i": 2, "e": 1}}]
    main.insert_one({"_id": "ordinary", "list": list(range(7))})
    with Spillway([cluster.primary], [*RULES, rule("swept"), rule("edited", sweep="1s")]):
        wait_for(lambda: main.find_one().get("_spill"), "a move, which writes the record")
        main.insert_one({"_id": "edited", "list": [0], "_spill": {"list": {"e": state}}})
        tails.insert_many(batches)
        for number in (2, 3):  # what the second sweep finds goes behind what the first one has found
            tails.insert_one({"main": "ordinary", "part": [1], "_spill": {"g": dead, "p": 0, "i": number}})
            wait_for(lambda: not tails.count_documents({"_spill.g": dead}), "a sweep", 60, 0.05)
    assert sorted(each["part"] for each in tails.find({"main": "edited"})) == [[one], [two], [three]]
    main.drop()
    tails.drop()  # else no other test's rules start: a rule with spilled documents is gone


def test_namespaces_of_patterns_are_swept(cluster, direct):
    pattern = {**rule("x"), "name": "tenants", "namespace": "tenant_*.posts"}
    for tenant in ("tenant_a", "tenant_b"):
        direct[tenant].posts.insert_one({"_id": 1, "list": list(range(9))})
    with Spillway([cluster.primary], [*RULES, rule("swept"), pattern]):
        for tenant in ("tenant_a", "tenant_b"):
            wait_for(lambda: direct[tenant].posts.find_one()["list"] == [0, 1, 2], tenant)


def test_a_sweep_reads_no_overflow_that_is_in_order(cluster, direct):
    """Its walk reads the index; a link with more elements than a page holds is counted over pages."""
    posts = {**rule("posts"), "sweep": "100ms", "overflow": {"layout": "elements", "link": "post"}}
    pattern = {**rule("x"), "name": "tenants", "namespace": "tenant_*.posts"}
    shop, of_overflow = direct.shop, {"ns": "shop.posts_list_overflow", "op": "query"}
    with Spillway([cluster.primary], [*RULES, rule("swept"), pattern, posts]):
        shop.posts.insert_many([{"_id": 1, "list": list(range(5003))}, {"_id": 2, "list": list(range(9))}])
        wait_for(lambda: shop.posts.count_documents({"_spill.list.n": {"$gt": 0}}) == 2 and not verify(direct, posts),
                 "rest")
        shop.command("profile", 2)
        wait_for(lambda: shop.system.profile.count_documents(of_overflow) >= 6, "looks at garbage to be done with")
        before = shop.system.profile.count_documents(of_overflow)
        wait_for(lambda: shop.system.profile.count_documents(of_overflow) >= before + 9, "sweeps")
        shop.command("profile", 0)
    later = list(shop.system.profile.find(of_overflow).sort("ts", 1))[before:]
    assert {each["docsExamined"] for each in later} == {0}
    shop.system.profile.drop()
