"""`spillway migrate` moves documents in groups: what happens to one between the steps of all.

A transaction that nobody commits holds a step up: mongod's statement waits for what it has written.
"""

import contextlib
import json

import pymongo
import pytest

from support.operate import RULE, found
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
    with held(shop.client, lambda session: books.update_one({"_id": 1}, {"$set": {"list": [1]}}, session=session)) as session:
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
    """One generation is dead when its batch gets stored, and one array is longer than what was stored."""
    with Spillway([cluster.primary], [{**RULE, "sweep": "off", "settle": "1h", "quiet": "1h"}]) as spillway:
        with held(shop.client, first_batch(shop, 1)):
            migrate = operator.start("migrate", "--execute")
            wait_for(lambda: born(books, 0, 1, 2, 3), "the births")
            with pymongo.MongoClient("127.0.0.1", spillway.port, directConnection=True) as client:
                client.shop.books.update_one({"_id": 2}, {"$set": {"list.5": "edited"}})
                client.shop.books.update_one({"_id": 3}, {"$push": {"list": "pushed"}})
            assert "_spill" not in books.find_one({"_id": 2}) or books.find_one({"_id": 2})["_spill"] == {}
        _, errors = migrate.communicate(timeout=60)
    assert migrate.returncode == 0, errors
    arrays = seen(cluster)
    assert arrays.pop(2) == [*ARRAY[:5], "edited", *ARRAY[6:]]
    assert arrays.pop(3) == [*ARRAY, "pushed"]
    assert all(array == ARRAY for array in arrays.values()) and len(arrays) == COUNT - 2
    assert books.find_one({"_id": 2})["_spill"]["list"]["n"] == 27
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
    with held(shop.client, lambda session: books.update_one({"_id": 1}, {"$set": {"list": ARRAY}}, session=session)):
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
            later.enter_context(held(shop.client, lambda session: books.update_one({"_id": 1}, {"$set": {"other": 1}}, session=session)))
        wait_for(lambda: is_moved(books.find_one({"_id": 0})), "the first cut")
        assert shop.tails.update_one({"book": 2, "_spill.i": 3}, {"$set": {"part.1": "another"}}).modified_count == 1
    said, _ = migrate.communicate(timeout=60)
    assert migrate.returncode == 1
    assert [(finding["code"], finding["examples"][0]["_id"]) for finding in json.loads(said)["findings"]] == [("corrupt", 2)]
