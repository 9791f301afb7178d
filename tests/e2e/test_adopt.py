"""`spillway migrate` adopts documents that were split by hand: whole, in their order, or not at all."""

import datetime
import json
import threading
import zlib

import pymongo
import pytest
from bson import Int64, ObjectId
from bson.raw_bson import RawBSONDocument

from support import exact
from support.cluster import Cluster
from support.layouts import COMMENTS, FOLLOWERS, LEGACY, MANUAL, Example, operate, overflow_of, parts
from support.layouts import verify as verify_example
from support.operate import RULE, Operator, found, generation
from support.process import wait_for
from support.spillway import Spillway
from support.verify import verify

NOW = datetime.datetime(2020, 1, 2)
NUMBERED = {**RULE, "overflow": {"collection": "tails", "link": "book", "array": "part", "created": "made",
                                 "batch": {"field": "number", "size": 4}}}
COUNTED = {**NUMBERED, "counters": {"total": "total", "documents": "parts"}}
SHORT_LIFE = ["--setParameter", "transactionLifetimeLimitSeconds=1"]


@pytest.fixture(scope="module")
def cluster():
    with Cluster(options=SHORT_LIFE, durable=False) as made:
        yield made


@pytest.fixture(scope="module")
def operator(cluster):
    with Operator(cluster, [NUMBERED]) as made:
        yield made


def split(shop, identifier, elements, size=4, kept=3, **main):
    """A document as an application splits it: its first elements, and numbered overflow documents."""
    shop.books.insert_one({"_id": identifier, "list": elements[:kept], "outlier": True, "last": 1, **main})
    rest = elements[kept:]
    for number, i in enumerate(range(0, len(rest), size), 1):
        shop.tails.insert_one({"book": identifier, "number": number, "part": rest[i:i + size], "made": NOW})


def snapshot(client):
    """What every database holds, byte for byte."""
    names = [name for name in client.list_database_names() if name not in ("admin", "config", "local")]
    return {name: client[name].command("dbHash")["collections"] for name in names}


def raw_tails(shop):
    tails = shop.get_collection("tails", codec_options=shop.codec_options.with_options(document_class=RawBSONDocument))
    return {each["_id"]: each.raw for each in tails.find({}, {"_spill": 0})}


def whole(cluster, rule):
    with Spillway([cluster.primary], [{**rule, "sweep": "off"}]) as spillway:
        with pymongo.MongoClient("127.0.0.1", spillway.port, directConnection=True) as client:
            return {each["_id"]: each["list"] for each in client.shop.books.find()}


ODD = [None, float("inf"), {"b": 1, "a": [2]}, [], "x", Int64(1), 1, 1.0, True, {"_spill": 1}, [[1]], NOW]


def test_documents_split_by_hand_come_whole_and_in_order(cluster, operator, shop):
    arrays = {"one": list(range(5)), "full": list(range(11)), "many": [{"n": i} for i in range(47)], "odd": ODD,
              7: list(range(9)), "ordinary": [1, 2], "long": list(range(20))}
    for identifier in ("one", "full", "many", "odd", 7):
        split(shop, identifier, arrays[identifier])
    shop.books.insert_many({"_id": name, "list": arrays[name]} for name in ("ordinary", "long"))
    shop.books.update_one({"_id": "many"}, {"$set": {"outlier": "true"}})
    before, batches = snapshot(shop.client), raw_tails(shop)
    plan = operator.run("migrate", code=0)
    assert snapshot(shop.client) == before, "a plan writes nothing"
    assert (plan["adopted"], plan["adopted elements"], plan["documents"]) == (5, 2 + 8 + 44 + 9 + 6, 1)
    done = operator.run("migrate", "--execute", code=0)
    assert {**done, "executed": False} == plan
    assert whole(cluster, NUMBERED) == arrays
    assert raw_tails(shop).items() >= batches.items(), "overflow documents stay as they are, but for their _spill"
    assert shop.books.find_one({"_id": "many"})["outlier"] is True
    assert operator.run("verify", code=0)["spilled"] == 6
    assert not verify(shop.client, NUMBERED)
    assert operator.run("migrate", "--execute", code=0)["adopted"] == 0
    operator.run("undo", "--execute", code=0)
    assert shop.list_collection_names() == ["books"]
    last = {name: {} if name in ("ordinary", "long") else {"last": 1} for name in arrays}
    assert list(shop.books.find()) == [{"_id": name, "list": arrays[name], **last[name]} for name in
                                       ("one", "full", "many", "odd", 7, "ordinary", "long")]


def test_other_sizes_are_brought_to_the_rule_s(cluster, operator, shop):
    fat = [["x" * 300] * 2, *range(9)]
    split(shop, "half full", list(range(20)), size=2)
    split(shop, "fat", fat, kept=1)
    report = operator.run("migrate", "--execute", code=1)
    assert (report["adopted"], list(details(report, "split by hand"))) == (1, ["fat"])
    assert whole(cluster, NUMBERED) == {"half full": list(range(20)), "fat": fat[:1]}
    assert [each["part"] for each in shop.tails.find({"book": "half full"}).sort("number")][0] == [3, 4, 5, 6]
    with Operator(cluster, [{**NUMBERED, "max_bytes": 600}]) as narrow:
        assert narrow.run("migrate", "--execute", code=0)["adopted"] == 1
        assert narrow.run("verify", code=0)["spilled"] == 2
    assert whole(cluster, NUMBERED) == {"half full": list(range(20)), "fat": fat}


def test_what_goes_back_waits_for_its_readers(cluster, shop):
    split(shop, 1, list(range(20)), size=2)
    rule = {**NUMBERED, "gc_delay": "1s"}
    with Operator(cluster, [rule]) as operator:
        migrate = operator.start("migrate", "--execute")
        wait_for(lambda: len(shop.books.find_one()["list"]) == 20, "the array to go back", 30, 0.001)
        assert [len(each["part"]) for each in shop.tails.find()] == [2] * 8 + [1], "a reader may still want them"
        assert migrate.wait(60) == 0
    assert [each["part"][0] for each in shop.tails.find().sort("number")] == [3, 7, 11, 15, 19]


def test_what_is_too_large_is_said(cluster, shop):
    shop.books.insert_one({"_id": 1, "list": [7, 8, 9], "outlier": True})
    shop.tails.insert_many({"book": 1, "number": number, "part": [number, "x" * (3 << 20)]} for number in range(1, 7))
    rule = {**NUMBERED,
            "overflow": {**NUMBERED["overflow"], "batch": {"field": "number", "size": 4, "max_bytes": "8MB"}}}
    with Operator(cluster, [rule]) as operator:
        report = operator.run("migrate", "--execute", code=1)
    assert report["adopted"] == 1
    assert found(report) == {("large", "left as it is"): 1, ("not at rest", "unfinished"): 1}
    assert details(report, "not at rest") == {1: "it is too large to be folded back"}
    assert len(whole(cluster, rule)[1]) == 15


def break_batch(shop, identifier, update, number=2):
    assert shop.tails.update_one({"book": identifier, "number": number}, update).modified_count == 1


AMBIGUOUS = {
    "no number": lambda shop, i: break_batch(shop, i, {"$unset": {"number": 1}}),
    "not numbered 1, 2, 3: 5 stands": lambda shop, i: break_batch(shop, i, {"$set": {"number": 5}}, number=3),
    "not numbered 1, 2, 3: 0 stands": lambda shop, i: break_batch(shop, i, {"$set": {"number": 0}}, number=1),
    "no number 'number'": lambda shop, i: break_batch(shop, i, {"$set": {"number": 1.5}}),
    "has no array 'part'": lambda shop, i: break_batch(shop, i, {"$set": {"part": {"0": 1}}}),
    "is empty": lambda shop, i: break_batch(shop, i, {"$set": {"part": []}}, number=3),
    "holds 5 elements": lambda shop, i: break_batch(shop, i, {"$push": {"part": 1}}),
    "field 'also'": lambda shop, i: break_batch(shop, i, {"$set": {"also": 1}}),
    "field '_spill'": lambda shop, i: break_batch(shop, i, {"$set": {"_spill": {"p": 1}}}),
    "a field '_spill'": lambda shop, i: shop.tails.update_many({"book": i}, {"$set": {"_spill": {"g": "odd"}}}),
    "of another type": lambda shop, i: break_batch(shop, i, {"$set": {"book": float(i)}}),
    "of Spillway's stand beside": lambda shop, i: shop.tails.insert_one(
        {"book": i, "number": 9, "part": [1], "_spill": {"g": generation(), "p": 0}}),
    "has a state of Spillway's": lambda shop, i: shop.books.update_one(
        {"_id": i}, {"$set": {"_spill": {"list": {"g": generation(), "h": 3, "n": 0}}, "list": [0, 1, 2]}}),
    "'list'": lambda shop, i: shop.books.update_one({"_id": i}, {"$set": {"list": "none"}}),
    "leaves it 3": lambda shop, i: shop.books.update_one({"_id": i}, {"$push": {"list": 3}}),
    "holds 2 elements, the rule leaves it 3": lambda shop, i: shop.books.update_one({"_id": i}, {"$pop": {"list": 1}}),
    "they are copies": lambda shop, i: (break_batch(shop, i, {"$set": {"part": [9, 0, 2, 1]}}, number=1),
                                        shop.books.update_one({"_id": i}, {"$unset": {"total": 1}})),
    "flag does not stand": lambda shop, i: shop.books.update_one({"_id": i}, {"$set": {"outlier": 1}}),
    "'total' is not 12": lambda shop, i: shop.books.update_one({"_id": i}, {"$set": {"total": 11}}),
    "'parts' is not 3": lambda shop, i: shop.books.update_one({"_id": i}, {"$set": {"parts": 2}}),
}


def details(report, code):
    """{_id: detail} of all documents that are listed."""
    listed = [each for finding in report["findings"] + report["notes"] if finding["code"] == code
              for each in finding["examples"]]
    return {each["_id"]: each.get("detail") for each in listed}


def all_but(shop, identifier):
    """Every document but this one and its overflow, byte for byte."""
    options = shop.codec_options.with_options(document_class=RawBSONDocument)
    return {name: {each["_id"]: each.raw for each in shop.get_collection(name, codec_options=options).find(filter_)}
            for name, filter_ in (("books", {"_id": {"$ne": identifier}}), ("tails", {"book": {"$ne": identifier}}))}


def test_what_is_ambiguous_is_listed_and_left(cluster, shop):
    with Operator(cluster, [COUNTED]) as before_all:
        before_all.run("migrate", "--execute", code=0)  # the record says whose what Spillway wrote is
    for i, break_it in enumerate(AMBIGUOUS.values()):
        split(shop, i, list(range(12)), total=12, parts=3)
        break_it(shop, i)
    split(shop, "good", list(range(12)), total=12.0, parts=Int64(3))
    shop.tails.insert_one({"book": "nobody", "number": 1, "part": [1]})
    shop.tails.insert_one({"number": 1, "part": [1]})
    shop.books.insert_one({"_id": "alone", "list": [1], "outlier": "true"})
    before, others = snapshot(shop.client), all_but(shop, "good")
    with Operator(cluster, [COUNTED]) as operator:
        plan = operator.run("migrate", code=1)
        assert snapshot(shop.client) == before
        check_refusals(plan)
        check_refusals(operator.run("migrate", "--execute", code=1))
        assert all_but(shop, "good") == others
        assert shop.books.find_one({"_id": "good"})["_spill"]["list"]["n"] == 9
        assert operator.run("migrate", "--execute", "--resume", code=1)["adopted"] == 0
        assert all_but(shop, "good") == others


def check_refusals(report):
    assert report["adopted"] == 1
    listed = details(report, "split by hand")
    assert sorted(listed) == list(range(len(AMBIGUOUS)))
    for i, why in enumerate(AMBIGUOUS):
        assert why in listed[i], (why, listed[i])
    assert set(details(report, "no document")) == {"nobody", None}
    assert set(details(report, "flag")) == {"alone"}


def test_one_number_twice_or_none_at_all(cluster, operator, shop):
    split(shop, "good", list(range(12)))
    split(shop, "twice", list(range(12)))
    break_batch(shop, "twice", {"$set": {"number": 1}})
    before = snapshot(shop.client)
    assert "1 stands in the place of 2" in details(operator.run("migrate", code=1), "split by hand")["twice"]
    assert snapshot(shop.client) == before
    report = operator.run("migrate", "--execute", code=1)
    assert found(report) == {("unfit", "unfinished"): 1, ("split by hand", "unfinished"): 1}
    assert report["adopted"] == 0
    assert snapshot(shop.client)["shop"]["books"] == before["shop"]["books"], "no index, no adoption"
    shop.tails.update_many({}, {"$unset": {"number": 1, "made": 1}})
    with Operator(cluster) as without:
        why = details(without.run("migrate", code=1), "split by hand")
        assert why.keys() == {"good", "twice"} and "names no field (batch.field)" in why["good"]


def test_a_standalone_adopts_nothing():
    with Cluster(members=0) as standalone, Operator(standalone, [NUMBERED]) as operator, standalone.client() as client:
        split(client.shop, 1, list(range(9)))
        client.shop.books.insert_one({"_id": 2, "list": list(range(9))})
        report = operator.run("migrate", "--execute", code=1)
        assert (report["adopted"], report["documents"]) == (0, 1)
        assert "transactions" in details(report, "split by hand")[1]
        assert "_spill" not in client.shop.books.find_one({"_id": 1})


def adopt_slowly(shop, operator, meanwhile, namespace="shop.books", command="update", skip=1):
    """Runs migrate; `meanwhile` is done when the first document's state is about to be written. The exit code, and
    what it said."""
    data = {"failCommands": [command], "namespace": namespace, "appName": "spillway",
            "blockConnection": True, "blockTimeMS": 300}
    before = shop.client.admin.command("configureFailPoint", "failCommand", mode={"skip": skip}, data=data)["count"]
    migrate = operator.start("migrate", "--execute", "--json")
    shop.client.admin.command("waitForFailPoint", "failCommand", timesEntered=before + 1, maxTimeMS=10000)
    meanwhile()
    shop.client.admin.command("configureFailPoint", "failCommand", mode="off")
    said, _ = migrate.communicate(timeout=60)
    return migrate.returncode, json.loads(said)


def test_overflow_that_comes_while_a_document_is_adopted(cluster, shop):
    split(shop, 1, list(range(11)), total=11, parts=2)
    with Operator(cluster, [COUNTED]) as operator:
        assert adopt_slowly(shop, operator, lambda: (
            shop.tails.insert_one({"book": 1, "number": 3, "part": [11, 12]}),
            shop.books.update_one({"_id": 1}, {"$inc": {"total": 2, "parts": 1}})))[0] == 0
        assert whole(cluster, COUNTED) == {1: list(range(13))}
        split(shop, 2, list(range(11)), total=11, parts=2)
        assert adopt_slowly(shop, operator,
                            lambda: shop.tails.insert_one({"book": 2, "number": 3, "part": [11, 12]}))[0] == 1
        assert found(operator.run("verify", code=1)) == {("foreign", "unfinished"): 1}
    assert whole(cluster, COUNTED)[2] == list(range(11))


def test_overflow_that_is_lost_just_behind_is_told(operator, shop):
    split(shop, 1, list(range(11)))

    def lose():
        assert shop.books.find_one({"_id": 1})["_spill"]["list"]["n"] == 8
        shop.tails.delete_one({"book": 1, "number": 1})

    # Its third look at the document is the one behind the transaction.
    code, report = adopt_slowly(shop, operator, lose, command="find", skip=3)
    assert (code, found(report)) == (1, {("corrupt", "corrupt"): 1}), report


def test_a_server_that_will_not_have_it(operator, shop):
    split(shop, 1, list(range(9)))
    shop.command("collMod", "books", validator={"title": {"$type": "string"}})
    assert "failed validation" in details(operator.run("migrate", "--execute", code=1), "split by hand")[1]
    shop.command("collMod", "books", validator={})


def test_neither_flag_nor_counter(cluster, shop):
    bare = {name: value for name, value in COUNTED.items() if name != "flag"}
    split(shop, 1, list(range(9)))
    split(shop, 2, list(range(9)), total=9)
    with Operator(cluster, [bare]) as operator:
        why = details(operator.run("migrate", "--execute", code=1), "split by hand")
    assert list(why) == [1] and "nothing tells" in why[1]


def test_a_count_that_was_adopted_is_right_afterwards(cluster, shop):
    """Whatever was pushed meanwhile; who writes the array anew gets a document without one."""
    rule = {**COUNTED, "settle": "10ms", "reference": {"field": "ref", "format": "{_id}_tails"}}
    for i in ("rests", "pushed", "waits", "edited"):
        split(shop, i, list(range(12)), total=12.0, parts=Int64(3), ref=f"{i}_tails")
    split(shop, "none", list(range(12)))
    split(shop, "anew", list(range(12)), size=2, total=12, parts=5)
    with Operator(cluster, [rule]) as operator:
        operator.run("migrate", "--execute", code=0)
        with Spillway([cluster.primary], [{**rule, "sweep": "off"}]) as spillway:
            with pymongo.MongoClient("127.0.0.1", spillway.port, directConnection=True) as client:
                client.shop.books.update_one({"_id": "pushed"}, {"$push": {"list": {"$each": [12, 13]}}})
                client.shop.books.update_one({"_id": "edited"}, {"$pull": {"list": 5}})
                for i, total in (("pushed", 14), ("edited", 11)):
                    wait_for(lambda: (shop.books.find_one({"_id": i}).get("total"),
                                      len(shop.books.find_one({"_id": i})["list"])) == (total, 3), f"{i} to rest")
        shop.books.update_one({"_id": "waits"}, {"$push": {"list": 12}})
        operator.run("undo", "--execute", code=0)
    whole_arrays = {"anew": list(range(12)), "rests": list(range(12)), "pushed": list(range(14)),
                    "waits": list(range(13)),
                    "edited": [0, 1, 2, 3, 4, *range(6, 12)], "none": list(range(12))}
    counts = {"anew": {"total": 12}, "rests": {"total": 12}, "pushed": {"total": 14}, "waits": {"total": 13}}
    assert list(shop.books.find().sort("_id")) == [
        {"_id": i, "list": array, "last": 1, **counts.get(i, {}), **({} if i == "none" else {"parts": 0})}
        for i, array in sorted(whole_arrays.items())]


def test_an_application_that_goes_on_splitting(cluster, operator, shop):
    split(shop, 1, list(range(12)))
    operator.run("migrate", "--execute", code=0)
    break_batch(shop, 1, {"$push": {"part": "lost"}}, number=3)
    with Spillway([cluster.primary], [{**NUMBERED, "settle": "10ms"}]) as spillway:
        with pymongo.MongoClient("127.0.0.1", spillway.port, directConnection=True) as client:
            client.shop.books.update_one({"_id": 1}, {"$push": {"list": "acknowledged"}})
            wait_for(lambda: spillway.metrics()["spillway_documents_left_alone_total"] > 0, "the mover to see it")
            assert client.shop.books.find_one({"_id": 1})["list"] == [*range(12), "acknowledged"]
    assert ("V4", "corrupt") in found(operator.run("verify", code=1))


def check_nothing_is_half_done(shop):
    for book in shop.tails.distinct("book", {"_spill": {"$exists": True}}):
        assert "_spill" in shop.books.find_one({"_id": book})
    for each in shop.books.find({"_spill": {"$exists": True}}):
        assert shop.tails.count_documents({"book": each["_id"], "_spill": {"$exists": False}}) == 0


def test_killed_anywhere(cluster, operator, shop):
    arrays = {i: [f"{i} {k}" for k in range(4 + i % 30)] for i in range(100)}
    for i, array in arrays.items():
        split(shop, i, array)
    adopted = {"_spill": {"$exists": True}}
    for share in (0.1, 0.5):
        migrate = operator.start("migrate", "--execute", "--resume")
        wait_for(lambda: shop.books.count_documents(adopted) > share * len(arrays), "some to be adopted", 30, 0.001)
        migrate.kill()
        migrate.communicate()
        check_nothing_is_half_done(shop)
    rest = shop.books.count_documents({"_spill": {"$exists": False}})
    assert rest < len(arrays)
    assert operator.run("migrate", "--execute", "--resume", code=0)["adopted"] <= rest
    assert whole(cluster, NUMBERED) == arrays
    assert not verify(shop.client, NUMBERED)
    assert operator.run("verify", code=0)["spilled"] == len(arrays)
    operator.run("undo", "--execute", code=0)
    assert {each["_id"]: each["list"] for each in shop.books.find()} == arrays
    assert shop.list_collection_names() == ["books"]


FAILURES = {
    "the connection breaks": ({"closeConnection": True}, 3, 0),
    "it was aborted": ({"errorCode": 251}, 0, 1),
    "the majority is late": ({"writeConcernError": {"code": 64, "errmsg": "late"}}, 0, 1),
}


@pytest.mark.parametrize("name", FAILURES)
def test_a_commit_that_fails(cluster, operator, shop, name):
    failure, code, adopted = FAILURES[name]
    split(shop, 1, list(range(20)), size=4 if adopted == 0 else 3)
    shop.client.admin.command("configureFailPoint", "failCommand", mode={"times": 1},
                              data={"failCommands": ["commitTransaction"], "appName": "spillway", **failure})
    assert operator.run("migrate", "--execute", code=code)["adopted"] == adopted
    operator.run("migrate", "--execute", "--resume", code=0)
    assert operator.run("verify", code=0)["spilled"] == 1
    assert whole(cluster, NUMBERED) == {1: list(range(20))}


class Traffic(threading.Thread):
    """Reads through Spillway, other fields' updates, and pushes to what has been seen whole."""

    def __init__(self, port, arrays):
        super().__init__()
        self.port, self.stopped, self.failure = port, threading.Event(), None
        self.arrays, self.whole = arrays, set()

    def run(self):
        try:
            with pymongo.MongoClient("127.0.0.1", self.port, directConnection=True) as client:
                while not self.stopped.is_set() or len(self.whole) < len(self.arrays):
                    for identifier, array in self.arrays.items():
                        self.work(client.shop.books, identifier, array)
        except Exception as error:
            self.failure = error

    def work(self, books, identifier, array):
        books.update_one({"_id": identifier}, {"$inc": {"touched": 1}})
        seen = books.find_one({"_id": identifier})["list"]
        if identifier not in self.whole and seen == array[:3]:
            return
        assert seen == array, (identifier, seen, array)
        self.whole.add(identifier)
        books.update_one({"_id": identifier}, {"$push": {"list": len(array)}})
        array.append(len(array))
        if len(array) % 5 == 0:
            books.update_one({"_id": identifier}, {"$set": {"list.4": "edited"}})
            array[4] = "edited"


def test_under_traffic(cluster, operator, shop):
    arrays = {i: list(range(4 + i % 30)) for i in range(60)}
    for i, array in arrays.items():
        split(shop, i, array)
    lazy = {**NUMBERED, "settle": "50ms", "quiet": "50ms"}
    with Spillway([cluster.primary], [lazy]) as spillway:
        threads = [Traffic(spillway.port, {i: arrays[i] for i in arrays if i % 3 == rest}) for rest in (0, 1)]
        for each in threads:
            each.start()
        wait_for(lambda: shop.books.count_documents({"touched": {"$gt": 0}}) > 10, "traffic")
        operator.run("migrate", "--execute", "--rate", "100", code=0)
        for each in threads:
            each.stopped.set()
            each.join(60)
        assert [each.failure for each in threads] == [None, None]
        with pymongo.MongoClient("127.0.0.1", spillway.port, directConnection=True) as client:
            assert {each["_id"]: each["list"] for each in client.shop.books.find()} == arrays
    assert operator.run("verify", "--repair", "--execute", code=0)["findings"] == []
    assert operator.run("verify", code=0)["spilled"] == len(arrays)


ELEMENTS = {**RULE, "when_outlier": "empty", "counters": {"total": "total"}, "settle": "10ms",
            "reference": {"field": "ref", "format": "{_id}_tails"},
            "overflow": {"collection": "tails", "link": "book", "layout": "elements"}}
TIMED = {**ELEMENTS, "overflow": {**ELEMENTS["overflow"], "created": "at"}}


def id_at(second, process=1, counter=0):
    return ObjectId(second.to_bytes(4, "big") + process.to_bytes(5, "big") + counter.to_bytes(3, "big"))


def comment(number, **more):
    return {"author": f"user{number % 7}", "text": f"comment {number}", "at": NOW + datetime.timedelta(seconds=number),
            **more}


def split_elements(shop, identifier, count, ids=None, **main):
    """As the text does it: nothing stays, and each element is a document. They are written in another order."""
    ids = ids or [id_at(1000 + number // 3, zlib.crc32(str(identifier).encode()), number) for number in range(count)]
    fields = {"total": count, "ref": f"{identifier}_tails", **main}
    shop.books.insert_one({"_id": identifier, "list": [], "outlier": True, **fields})
    documents = [{"_id": ids[number], "book": identifier, **comment(number)} for number in range(count)]
    shop.tails.insert_many(sorted(documents, key=lambda each: each["text"]))


def test_elements_in_documents_of_their_own(cluster, shop):
    for i, count in (("a", 1), ("b", 50), (7, 502)):
        split_elements(shop, i, count, title="x")
    arrays = {i: [comment(n) for n in range(count)] for i, count in (("a", 1), ("b", 50), (7, 502))}
    shop.books.insert_one({"_id": "long", "list": [comment(n) for n in range(9)]})
    arrays["long"] = [comment(n) for n in range(9)]
    before, stored = snapshot(shop.client), raw_tails(shop)
    with Operator(cluster, [ELEMENTS]) as operator:
        plan = operator.run("migrate", code=0)
        assert snapshot(shop.client) == before, "a plan writes nothing"
        assert (plan["adopted"], plan["adopted elements"], plan["documents"]) == (3, 553, 1)
        assert {**operator.run("migrate", "--execute", code=0), "executed": False} == plan
        assert raw_tails(shop).items() >= stored.items()
        assert operator.run("verify", code=0)["spilled"] == 4
        assert whole(cluster, ELEMENTS) == arrays
        operator.run("undo", "--execute", code=0)
    assert shop.list_collection_names() == ["books"]
    assert {each.pop("_id"): each for each in shop.books.find()} == {
        i: {"list": array, **({} if i == "long" else {"total": len(array), "title": "x"})}
        for i, array in arrays.items()}


def break_element(shop, identifier, update, number=1):
    shop.tails.update_one({"book": identifier, "text": f"comment {number}"}, update)


def renew(shop, identifier, identity, number=1):
    one = shop.tails.find_one_and_delete({"book": identifier, "text": f"comment {number}"})
    shop.tails.insert_one({**one, "_id": identity})


UNCLEAR = {
    "one second and of two processes": lambda shop, i: renew(shop, i, id_at(1000, 2, 9)),
    "one second and": lambda shop, i: renew(shop, i, id_at(1000, 1, 0xffffff)),
    "_id is no ObjectId": lambda shop, i: renew(shop, i, f"comment of {i}"),
    "of another type": lambda shop, i: break_element(shop, i, {"$set": {"book": float(i)}}),
    "field '_spill'": lambda shop, i: break_element(shop, i, {"$set": {"_spill": {"p": 1}}}),
    "a Timestamp(0, 0)": lambda shop, i: shop.tails.insert_one(RawBSONDocument(exact.document(
        [("_id", ObjectId()), ("book", i), ("a.b", 1)]))),
    "stands twice": lambda shop, i: shop.tails.insert_one(RawBSONDocument(exact.document(
        [("_id", ObjectId()), ("book", i), ("d", 1), ("d", 2)]))),
    "beside those": lambda shop, i: break_element(shop, i, {"$set": {"_spill": {"g": generation(), "p": 0}}}),
    "leaves it 0": lambda shop, i: shop.books.update_one({"_id": i}, {"$push": {"list": 1}}),
    "flag does not stand": lambda shop, i: shop.books.update_one({"_id": i}, {"$set": {"outlier": False}}),
    "'total' is not 6": lambda shop, i: shop.books.update_one({"_id": i}, {"$set": {"total": 7}}),
    "'ref' is not what the rule says": lambda shop, i: shop.books.update_one({"_id": i},
                                                                             {"$set": {"ref": "elsewhere"}}),
}


def test_elements_whose_order_or_content_is_unclear(cluster, shop):
    split_elements(shop, "before", 6)
    with Operator(cluster, [ELEMENTS]) as before_all:
        before_all.run("migrate", "--execute", code=0)  # the record says whose what Spillway wrote is
    for i, break_it in enumerate(UNCLEAR.values()):
        split_elements(shop, i, 6, [id_at(1000, 1, number + 0x10000 * i) for number in range(6)])
        break_it(shop, i)
    split_elements(shop, "good", 6)
    before, others = snapshot(shop.client), all_but(shop, "good")
    with Operator(cluster, [ELEMENTS]) as operator:
        listed = details(operator.run("migrate", code=1), "split by hand")
        assert snapshot(shop.client) == before
        assert sorted(listed) == list(range(len(UNCLEAR)))
        for i, why in enumerate(UNCLEAR):
            assert why in listed[i], (why, listed[i])
        report = operator.run("migrate", "--execute", code=1)
        assert (report["adopted"], details(report, "split by hand")) == (1, listed)
        assert all_but(shop, "good") == others
        work_beside_what_is_left(cluster, shop)
        for i in listed:
            shop.books.delete_one({"_id": i})
            shop.tails.delete_many({"book": i})
        assert operator.run("verify", code=0)["spilled"] == 3


def work_beside_what_is_left(cluster, shop):
    """Two documents without a place do no harm to those that have one, and no place is taken twice."""
    with Spillway([cluster.primary], [ELEMENTS]) as spillway:
        with pymongo.MongoClient("127.0.0.1", spillway.port, directConnection=True) as client:
            client.shop.books.insert_one({"_id": "new", "list": [comment(n) for n in range(300)]})
            client.shop.books.update_one({"_id": "good"}, {"$push": {"list": comment(6)}})
            for i, count in (("new", 300), ("good", 7)):
                wait_for(lambda: shop.tails.count_documents({"book": i, "_spill.p": {"$gte": 0}}) == count,
                         f"{i} to rest")
                assert client.shop.books.find_one({"_id": i})["list"] == [comment(n) for n in range(count)]
            assert list(client.shop.books.aggregate([{"$match": {"list.text": "comment 6"}},
                                                     {"$count": "n"}])) == [{"n": 2}]
    with pytest.raises(pymongo.errors.DuplicateKeyError):
        shop.tails.insert_one({"book": "new", "_spill": {"g": generation(), "p": 7}})
    plan = str(shop.tails.find({"book": "new", "_spill.g": generation(),
                                "_spill.p": {"$lte": 5}}).sort("_spill.p", -1).explain())
    assert "'indexName': 'book_1__spill.p_1'" in plan and "'stage': 'SORT'" not in plan


def test_more_documents_without_a_place_than_a_page_has(cluster, shop):
    for i in ("gone", "left"):
        split_elements(shop, i, 2002, [id_at(1000, zlib.crc32(i.encode()), number * 3000) for number in range(2002)],
                       total=7)
    shop.books.delete_one({"_id": "gone"})
    shop.books.insert_one({"_id": "out", "list": [comment(n) for n in range(9)]})
    with Operator(cluster, [ELEMENTS]) as operator:
        report = operator.run("migrate", "--execute", code=1)
        assert (report["documents"], list(details(report, "no document"))) == (1, ["gone"])
        assert set(details(operator.run("verify", code=0), "foreign")) == {"gone", "left"}
    shop.tails.insert_one({"book": "zero", "_spill": {"g": generation(), "p": 0}})
    with Spillway([cluster.primary], [{**ELEMENTS, "sweep": "200ms"}]):
        wait_for(lambda: shop.tails.count_documents({"book": "zero"}) == 0, "the sweep to come to the last link")
    assert shop.tails.count_documents({"_spill": {"$exists": False}}) == 4004


def test_the_order_that_a_field_tells(cluster, shop):
    split_elements(shop, "back", 9, [id_at(1000 - number) for number in range(9)])
    split_elements(shop, "twice", 9)
    break_element(shop, "twice", {"$set": {"at": NOW}})
    split_elements(shop, "none", 9)
    break_element(shop, "none", {"$unset": {"at": 1}})
    with Operator(cluster, [TIMED]) as operator:
        listed = details(operator.run("migrate", "--execute", code=1), "split by hand")
    assert sorted(listed) == ["none",
                              "twice"] and "are of one time" in listed["twice"] and "no time 'at'" in listed["none"]
    assert whole(cluster, TIMED)["back"] == [comment(n) for n in range(9)]


def test_a_document_that_keeps_the_newest(cluster, shop):
    for i, own, others in (("newest", (6, 7, 8), range(6)), ("oldest", range(3), range(3, 9))):
        shop.books.insert_one({"_id": i, "list": [comment(n) for n in own], "outlier": True})
        shop.tails.insert_many({"_id": id_at(1000 + own[0], 1, number), "book": i, **comment(n)}
                               for number, n in enumerate(others))
    with Operator(cluster, [{**TIMED, "when_outlier": "keep"}]) as operator:
        listed = details(operator.run("migrate", code=1), "split by hand")
    assert list(listed) == ["newest"] and "seems to keep the newest" in listed["newest"]


def test_arrays_whose_elements_have_an_id(cluster, shop):
    split_elements(shop, 1, 9)
    shop.books.insert_one({"_id": 2, "list": [comment(0, _id=ObjectId())]})
    with Operator(cluster, [ELEMENTS]) as operator:
        assert "have an _id of their own" in details(operator.run("migrate", code=1), "split by hand")[1]


def test_an_element_that_changes_while_it_is_adopted(cluster, shop):
    split_elements(shop, 1, 9)
    with Operator(cluster, [ELEMENTS]) as operator:
        assert adopt_slowly(shop, operator, lambda: break_element(shop, 1, {"$set": {"_spill": 1}}),
                            "shop.tails")[0] == 1
        assert "field '_spill'" in details(operator.run("migrate", code=1), "split by hand")[1]
    assert "_spill" not in shop.books.find_one()


def test_elements_and_a_kill_anywhere(cluster, shop):
    for i in range(60):
        split_elements(shop, i, 1 + i, [id_at(1000 + i, i, number) for number in range(1 + i)])
    with Operator(cluster, [ELEMENTS]) as operator:
        for share in (0.1, 0.5):
            migrate = operator.start("migrate", "--execute", "--resume")
            wait_for(lambda: shop.books.count_documents({"_spill": {"$exists": True}}) > share * 60,
                     "some to be adopted", 30, 0.001)
            migrate.kill()
            migrate.communicate()
            check_nothing_is_half_done(shop)
        operator.run("migrate", "--execute", "--resume", code=0)
        assert operator.run("verify", code=0)["spilled"] == 60
    assert whole(cluster, ELEMENTS) == {i: [comment(n) for n in range(1 + i)] for i in range(60)}


def test_the_published_comments(cluster):
    """As the text's application stores them; its own query on the overflow goes on by its index."""
    with cluster.client() as client:
        for name in ("blog", "spillway"):
            client.drop_database(name)
        arrays = {f"post{i}": [COMMENTS.item(n) for n in range(100 + 60 * i)] for i in range(1, 4)}
        for i, array in arrays.items():
            fields = COMMENTS.outlier_fields({"_id": i, "comments": array}, [])
            client.blog.posts.insert_one({"_id": i, "title": "viral", "comments": [], **fields})
            client.blog.post_comments.insert_many({"post_id": i, **each} for each in array)
        client.blog.post_comments.create_index([("post_id", 1), ("created_at", -1)])
        newest = list(client.blog.post_comments.find({"post_id": "post2"}).sort("created_at", -1).limit(20))
        with Example(cluster.primary, COMMENTS) as example:
            operate(example, "migrate", "--execute")
            verify_example(example)
            for i, array in arrays.items():
                assert parts(client.blog, COMMENTS,
                             i) == COMMENTS.stored({"_id": i, "title": "viral", "comments": array})
            with pymongo.MongoClient("127.0.0.1", example.port, directConnection=True) as through:
                assert {each["_id"]: each["comments"] for each in through.blog.posts.find()} == arrays
                query = through.blog.post_comments.find({"post_id": "post2"}).sort("created_at", -1).limit(20)
                assert [each["_id"] for each in query] == [each["_id"] for each in newest]
                plan = str(query.explain()["queryPlanner"]["winningPlan"])
                assert "post_id_1_created_at_-1" in plan and "SORT" not in plan
            example.stop()
            operate(example, "undo", "--execute")
        assert list(client.blog.posts.find()) == [
            {"_id": i, "title": "viral", "comments": array, "comment_count": len(array)} for i, array in arrays.items()]


def published(layout, identifier, whole_array):
    """What the text's application stores of an outlier; the flag of the other type."""
    head, tail = whole_array[:layout.threshold], whole_array[layout.threshold:]
    fields = layout.outlier_fields({layout.array: whole_array}, [tail[i:i + 1000] for i in range(0, len(tail), 1000)])
    numbered = layout is FOLLOWERS
    batches = [{layout.link: identifier, **({"batchNumber": number, "createdAt": NOW} if numbered else {}),
                layout.extra: tail[i:i + 1000]} for number, i in enumerate(range(0, len(tail), 1000), 1)]
    return {"_id": identifier, layout.array: head, **fields}, batches


@pytest.mark.parametrize("layout", [MANUAL, LEGACY, FOLLOWERS], ids=lambda layout: layout.rule)
def test_the_published_layouts(cluster, layout):
    other_flag = {MANUAL: {"has_extras": "true"}, LEGACY: {"has_extras": True},
                  FOLLOWERS: {"hasOverflow": "true"}}[layout]
    with cluster.client() as client:
        direct = client[layout.database]
        for name in ("shop", "social", "spillway"):
            client.drop_database(name)
        arrays = {i: [f"user{k}" for k in range(layout.threshold + more)] for i, more in enumerate((1, 950, 1000))}
        if layout is FOLLOWERS:
            arrays[9] = [f"user{k}" for k in range(4500)]
        for i, array in arrays.items():
            main, batches = published(layout, i, array)
            direct[layout.main].insert_one({**main, **(other_flag if i == 1 else {})})
            direct[layout.overflow].insert_many(batches)
        with Example(cluster.primary, layout) as example:
            operate(example, "migrate", "--execute")
            verify_example(example)
            for i, array in arrays.items():
                assert parts(direct, layout, i) == layout.stored({"_id": i, layout.array: array})
                assert sum(map(len, overflow_of(direct, layout, i))) == len(array) - layout.threshold
            with pymongo.MongoClient("127.0.0.1", example.port, directConnection=True) as through:
                seen = {each["_id"]: each[layout.array] for each in through[layout.database][layout.main].find()}
                assert seen == arrays
