"""`spillway migrate` moves documents in groups: what happens to one between the steps of all.

A transaction that nobody commits holds a step up: mongod's statement waits for what it has written.
"""

import contextlib
import json

import pymongo
import pytest
from bson import Binary, DBRef, Decimal128, Int64, MaxKey, Regex, Timestamp, encode
from bson.raw_bson import RawBSONDocument

from support.operate import RULE, Operator, found
from support.process import wait_for
from support.spillway import Spillway
from support.verify import verify

COUNT = 16  # four for each of migrate's four hands
ARRAY = list(range(30))


@pytest.fixture(name="books")
def filled(operator, shop):
    operator.run("migrate", "--execute", code=0)  # makes the overflow's index
    shop.books.insert_many({"_id": i, "list": ARRAY} for i in range(COUNT))
    return shop.books


@contextlib.contextmanager
def held(client, write):
    """Whatever else writes there waits until the block ends, or its transaction does."""
    with client.start_session() as session:
        session.start_transaction()
        write(session)
        yield session
        if session.in_transaction:
            session.abort_transaction()


def first_batch(shop, identifier):
    """An overflow document in the place of its first one."""
    return lambda session: shop.tails.insert_one(
        {"book": identifier, "part": [0], "_spill": {"i": 1}}, session=session)


def born(books, *identifiers):
    return books.count_documents({"_id": {"$in": identifiers}, "_spill.list.n": 0}) == len(identifiers)


def is_moved(document):
    return len(document["list"]) == 3 and document["_spill"]["list"]["n"] == 27


def seen(cluster):
    """{_id: array} as clients have it."""
    with Spillway([cluster.primary], [{**RULE, "sweep": "off"}]) as spillway:
        with pymongo.MongoClient("127.0.0.1", spillway.port, directConnection=True) as client:
            return {each["_id"]: each["list"] for each in client.shop.books.find()}


def test_writes_before_the_births(operator, shop, books):
    """The guards of two births are lost, and one array has become longer."""
    with held(shop.client,
              lambda session: books.update_one({"_id": 1}, {"$set": {"list": [1]}}, session=session)) as session:
        migrate = operator.start("migrate", "--execute")
        wait_for(lambda: books.find_one({"_id": 0, "_spill": {"$exists": True}}), "the first birth")
        books.update_one({"_id": 2}, {"$set": {"list": [2]}})
        books.update_one({"_id": 3}, {"$push": {"list": 30}})
        session.commit_transaction()
    _, errors = migrate.communicate(timeout=60)
    assert migrate.returncode == 0, errors
    short = {each["_id"]: each["list"] for each in books.find({"_spill": {"$exists": False}})}
    assert short == {1: [1], 2: [2]}
    assert books.find_one({"_id": 3})["_spill"]["list"]["n"] == 28
    assert not verify(shop.client, RULE)


def test_writes_before_the_cuts(cluster, operator, shop, books):
    """One generation is dead when its batch gets stored, one array is longer than what was stored, and one flag is
    not what was read."""
    with Spillway([cluster.primary], [{**RULE, "sweep": "off", "settle": "1h", "quiet": "1h"}]) as spillway:
        with held(shop.client, first_batch(shop, 1)):
            migrate = operator.start("migrate", "--execute")
            wait_for(lambda: born(books, 0, 1, 2, 3), "the births")
            with pymongo.MongoClient("127.0.0.1", spillway.port, directConnection=True) as client:
                client.shop.books.update_one({"_id": 2}, {"$set": {"list.5": "edited"}})
                client.shop.books.update_one({"_id": 3}, {"$push": {"list": "pushed"}})
            books.update_one({"_id": 0}, {"$set": {"outlier": "the application's"}})
            assert "_spill" not in books.find_one({"_id": 2}) or books.find_one({"_id": 2})["_spill"] == {}
        _, errors = migrate.communicate(timeout=60)
    assert migrate.returncode == 0, errors
    arrays = seen(cluster)
    assert arrays.pop(2) == [*ARRAY[:5], "edited", *ARRAY[6:]]
    assert arrays.pop(3) == [*ARRAY, "pushed"]
    assert all(array == ARRAY for array in arrays.values()) and len(arrays) == COUNT - 2
    assert books.find_one({"_id": 2})["_spill"]["list"]["n"] == 27
    assert books.find_one({"_id": 0})["_spill"]["list"]["b"] == {"f": "the application's"}
    assert operator.run("verify", "--repair", "--execute", code=0)["findings"] == []


def test_somebody_else_stores_where_a_batch_belongs(operator, shop, books):
    with held(shop.client, first_batch(shop, 1)) as session:
        migrate = operator.start("migrate", "--execute")
        wait_for(lambda: born(books, 0, 1, 2, 3), "the births")
        session.commit_transaction()
    _, errors = migrate.communicate(timeout=60)
    assert migrate.returncode == 1, errors
    assert [each["_id"] for each in books.find() if not is_moved(each)] == [1]
    assert books.find_one({"_id": 1})["list"] == ARRAY
    assert ("foreign", "left as it is") in found(operator.run("verify", code=1))


def kill(migrate):
    migrate.kill()
    migrate.communicate()


def kill_among_the_births(operator, shop, books):
    with held(shop.client, lambda session: books.update_one({"_id": 1}, {"$set": {"other": 1}}, session=session)):
        migrate = operator.start("migrate", "--execute")
        wait_for(lambda: born(books, 0), "the first birth")
        kill(migrate)


def kill_behind_the_births(operator, shop, books):
    with held(shop.client, first_batch(shop, 1)):
        migrate = operator.start("migrate", "--execute")
        wait_for(lambda: born(books, 0, 1, 2, 3), "the births")
        kill(migrate)


def kill_among_the_cuts(operator, shop, books):
    with contextlib.ExitStack() as later:
        with held(shop.client, first_batch(shop, 1)):
            migrate = operator.start("migrate", "--execute")
            wait_for(lambda: born(books, 0, 1, 2, 3), "the births")
            later.enter_context(held(shop.client, lambda session: books.update_one(
                {"_id": 1}, {"$set": {"other": 1}}, session=session)))
        wait_for(lambda: is_moved(books.find_one({"_id": 0})), "the first cut")
        assert books.find_one({"_id": 2})["list"] == ARRAY and shop.tails.count_documents({"book": 2}) > 0
        kill(migrate)


@pytest.mark.parametrize("interrupt", [kill_among_the_births, kill_behind_the_births, kill_among_the_cuts])
def test_killed_between_the_steps(cluster, operator, shop, books, interrupt):
    interrupt(operator, shop, books)
    operator.run("migrate", "--execute", "--resume", code=0)
    assert all(is_moved(each) for each in books.find())
    assert not verify(shop.client, RULE)
    assert all(array == ARRAY for array in seen(cluster).values())


def test_more_than_a_reply_or_a_command_holds(operator, shop):
    """Two documents to a hand: 18 MB to read; 14 MB to store; and elements that must not stand in one command."""
    large = [1000] * 9000, [1000] * 7000, [6_000_000, 1_500_000]
    shop.books.insert_many({"_id": 2 * i + j, "list": [1, 2, 3, *("x" * size for size in sizes)]}
                           for i, sizes in enumerate(large) for j in (0, 1))
    before = shop.command("dbHash", collections=["books"])["md5"]
    assert operator.run("migrate", "--execute", code=0)["documents"] == 6
    assert all(len(each["list"]) == 3 for each in shop.books.find())
    assert not verify(shop.client, RULE)
    operator.run("undo", "--execute", code=0)
    assert shop.command("dbHash", collections=["books"])["md5"] == before


def test_a_link_that_is_spelled_otherwise(operator, shop):
    """1 and 1.0 are one value to the server: whose overflow this is, no group decides."""
    shop.books.insert_many({"_id": i, "list": ARRAY} for i in range(COUNT))
    shop.tails.insert_one({"book": 1.0, "part": [1]})
    report = operator.run("migrate", "--execute", code=1)
    assert report["documents"] == COUNT - 1
    assert [each["_id"] for each in shop.books.find() if not is_moved(each)] == [1]
    assert shop.books.find_one({"_id": 1})["list"] == ARRAY


def test_a_stored_element_that_is_another_is_told(operator, shop, books):
    """It differs from what was cut off: whoever wrote it."""
    with contextlib.ExitStack() as later:
        with held(shop.client, first_batch(shop, 1)):
            migrate = operator.start("migrate", "--execute", "--json")
            wait_for(lambda: born(books, 0, 1, 2, 3), "the births")
            later.enter_context(held(shop.client, lambda session: books.update_one({"_id": 1}, {"$set": {"other": 1}},
                                                                                   session=session)))
        wait_for(lambda: is_moved(books.find_one({"_id": 0})), "the first cut")
        assert shop.tails.update_one({"book": 2, "_spill.i": 3}, {"$set": {"part.1": "another"}}).modified_count == 1
    said, _ = migrate.communicate(timeout=60)
    assert migrate.returncode == 1
    assert [(finding["code"], finding["examples"][0]["_id"])
            for finding in json.loads(said)["findings"]] == [("corrupt", 2)]


def damaged_while_it_is_moved(operator, shop):
    """Alone: when its tail is stored, and about to be cut off, an overflow document loses its place. The findings."""
    data = {"failCommands": ["update"], "namespace": "shop.books", "appName": "spillway", "blockConnection": True,
            "blockTimeMS": 500}
    # Behind the look whether it may, and the birth.
    before = shop.client.admin.command("configureFailPoint", "failCommand", mode={"skip": 2}, data=data)["count"]
    migrate = operator.start("migrate", "--execute", "--json", "--rate", "100")
    shop.client.admin.command("waitForFailPoint", "failCommand", timesEntered=before + 1, maxTimeMS=10000)
    assert shop.tails.update_one({"book": 7, "_spill.i": 3}, {"$set": {"_spill.p": 5}}).modified_count == 1
    shop.client.admin.command("configureFailPoint", "failCommand", mode="off")
    said, _ = migrate.communicate(timeout=60)
    assert migrate.returncode == 1 and is_moved(shop.books.find_one({"_id": 7}))
    return [(finding["code"], finding["examples"][0]["_id"]) for finding in json.loads(said)["findings"]]


def test_what_is_corrupt_is_told_before_a_move_and_behind_one(operator, shop):
    shop.books.insert_one({"_id": 7, "list": ARRAY})
    assert damaged_while_it_is_moved(operator, shop) == [("corrupt", 7)]
    shop.books.update_one({"_id": 7}, {"$push": {"list": 30}})
    report = operator.run("migrate", "--execute", code=1)
    assert found(report) == {("corrupt", "corrupt"): 1} and len(shop.books.find_one({"_id": 7})["list"]) == 4


def nested(depth):
    value = 1
    for _ in range(depth):
        value = [value]
    return value


ODD = [float("nan"), Timestamp(0, 0), Regex("a", "i"), MaxKey(), Decimal128("NaN"), Binary(b"x", 5), Int64(1), None,
       -0.0]
ODD_ARRAYS = [
    ODD,
    [{"$odd": 1}, {"a.b": {"$set": 1}}, {"": 0}],
    [DBRef("books", 1), {"$id": 1}, {"_spill": {"list": 1}}],
    [nested(150), RawBSONDocument(encode({"a": 1, "b": 2}).replace(b"b\0", b"a\0")), []],
    ["x" * 30_000, "y" * 30_000, "z" * 30_000],  # more than a cut carries
]
FIELDS = [{}, {"outlier": "no", "split": "no"}, {"outlier": True}, {"all": 7}, {"parts": "many"}]
NO_REFERENCE = {"flag": {"field": "split", "value": "yes"}, "counters": {"total": "all", "documents": "parts"}}
LAYOUTS = {
    "bare": {"flag": None},
    "flag": {},
    "fields": NO_REFERENCE,
    "emptied": {"when_outlier": "empty", **NO_REFERENCE},
}


def odd_documents():
    """Heads of all kinds, and what an application may have put where the rule's fields go."""
    heads = [{"list": [*head, *ODD, *range(10)]} for head in ODD_ARRAYS]
    return [{"_id": i, **more, "end": i} for i, more in enumerate(
        [*heads, *({**fields, "list": ARRAY} for fields in FIELDS), *({"list": ARRAY, **fields} for fields in FIELDS)])]


def without_chance(document):
    """What differs from move to move: names of generations, times, the order of fields that were not there before."""
    document = {key: value for key, value in document.items() if key != "_id" or not hasattr(value, "generation_time")}
    for state in (document.get("_spill", {}), document.get("_spill", {}).get("list", {})):
        for name in ("g", "t"):
            state.pop(name, None)
    return sorted((key, encode({"": dict(sorted(value.items())) if key == "_spill" else value}))
                  for key, value in document.items())


def kept(shop):
    """Whose flag says that there is overflow gets it back otherwise."""
    changed = [each["_id"] for each in odd_documents() if each.get("outlier") is True]
    raw = shop.get_collection("books", codec_options=shop.codec_options.with_options(document_class=RawBSONDocument))
    return [bytes(each.raw) for each in raw.find({"_id": {"$nin": changed}}).sort("_id")]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_what_a_group_writes_is_what_rounds_write(cluster, shop, layout):
    rule = {key: value for key, value in {**RULE, **LAYOUTS[layout]}.items() if value}
    written = []
    with Operator(cluster, [rule]) as operator:
        for options in ([], ["--rate", "10000"]):
            shop.books.drop()
            shop.tails.drop()
            shop.spillway_rules.drop()
            shop.books.insert_many(odd_documents())
            before = kept(shop)
            report = operator.run("migrate", "--execute", *options)
            assert report.get("documents", 0) >= 5, report
            written.append([[without_chance(each) for each in shop[name].find().sort(keys)]
                            for name, keys in (("books", "_id"), ("tails", ["book", "_spill.p"]))])
            operator.run("undo", "--execute")
            assert kept(shop) == before
    assert written[0] == written[1]
