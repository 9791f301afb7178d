"""A ruled collection renamed straight at mongod, and another made by its name: what the first one's documents need
stays."""

import subprocess

import pymongo
import pytest

from support.cluster import Cluster
from support.operate import RULE, Operator, found
from support.process import wait_for
from support.spillway import Spillway, program

QUICK = {**RULE, "sweep": "1s", "settle": "10ms", "gc_delay": "0s", "existing": "move"}
ARRAY = list(range(10))


@pytest.fixture(scope="module")
def cluster():
    with Cluster(durable=False) as made:
        yield made


@pytest.fixture(scope="module")
def operator(cluster):
    with Operator(cluster, [QUICK]) as made:
        yield made


@pytest.fixture(params=["uuid", "no uuid"])
def renamed(operator, shop, request):
    """`shop.archive` was `shop.books`; one document of the new one has an _id of the old one's. What is stored for
    the old ones."""
    shop.books.insert_many({"_id": i, "list": ARRAY} for i in range(3))
    operator.run("migrate", "--execute", code=0)
    if request.param == "no uuid":  # made after the record
        shop.client.spillway.rules.update_one({}, {"$unset": {"uuid": 1}})
    shop.books.rename("archive")
    shop.books.insert_many([{"_id": 0, "list": [1]}, {"_id": "new", "list": ARRAY}])
    return list(shop.tails.find().sort("_id"))


def whole_again(shop, operator):
    shop.books.drop()
    shop.archive.rename("books")
    operator.run("verify", "--repair", "--execute", code=0)
    operator.run("undo", "--execute", code=0)
    assert list(shop.books.find()) == [{"_id": i, "list": ARRAY} for i in range(3)]


def told(report):
    (finding,) = [each for each in report["findings"] if each["code"] == "renamed"]
    assert "documents of 'shop.archive' refer to its overflow 'shop.tails'" in finding["examples"][0]["detail"]


def test_verify_tells_and_removes_nothing(operator, shop, renamed):
    told(operator.run("verify", code=1))
    told(operator.run("verify", "--repair", "--execute", code=1))
    assert list(shop.tails.find({"book": {"$ne": "new"}}).sort("_id")) == renamed
    whole_again(shop, operator)


def test_undo_refuses(operator, shop, renamed):
    report = operator.run("undo", "--execute", code=1)
    assert "documents of 'shop.archive' refer to its overflow" in report["findings"][0]["examples"][0]["detail"]
    assert list(shop.tails.find().sort("_id")) == renamed
    whole_again(shop, operator)


@pytest.mark.parametrize("command, where, before",
                         [("find", {"namespace": "spillway.rules"}, 2), ("listCollections", {}, 0)])
def test_undo_ends_where_nobody_can_tell(operator, shop, renamed, command, where, before):
    """Behind the questions of whose the overflow is and what lies there: which collection it was."""
    refused = {"failCommands": [command], **where, "errorCode": 11601, "appName": "spillway"}
    shop.client.admin.command({"configureFailPoint": "failCommand", "mode": {"skip": before}, "data": refused})
    try:
        operator.run("undo", "--execute", code=3)
    finally:
        shop.client.admin.command({"configureFailPoint": "failCommand", "mode": "off"})
    assert list(shop.tails.find().sort("_id")) == renamed
    whole_again(shop, operator)


def test_check_tells(operator, renamed):
    said = subprocess.run([program(), "check", "--config", operator.file], capture_output=True, text=True, check=False)
    assert said.returncode == 1 and "the collection was renamed" in said.stdout


@pytest.mark.parametrize("drops", [False, True])
def test_serve_collects_none_of_it(cluster, operator, shop, renamed, drops):
    with Spillway([cluster.primary], [QUICK]) as spillway:
        with pymongo.MongoClient("127.0.0.1", spillway.port, directConnection=True) as through:
            wait_for(lambda: shop.tails.find_one({"book": "new"}), "the new collection's outlier to move", 20)
            through.shop.books.delete_one({"_id": 0})
            through.shop.books.delete_one({"_id": "new"})
            if drops:
                through.shop.books.drop()
            swept = spillway.metrics()["spillway_sweeps_total"]
            wait_for(lambda: spillway.metrics()["spillway_sweeps_total"] >= swept + 3, "three sweeps")
        assert spillway.says("the collection was renamed")
    assert list(shop.tails.find({"book": {"$ne": "new"}}).sort("_id")) == renamed
    whole_again(shop, operator)


def test_a_swap_that_drops_the_old_one(operator, shop):
    """Nobody refers to its overflow any more: it is garbage as after any drop."""
    shop.books.insert_many({"_id": i, "list": ARRAY} for i in range(3))
    operator.run("migrate", "--execute", code=0)
    shop.fresh.insert_one({"_id": 7, "list": [1]})
    shop.fresh.rename("books", dropTarget=True)
    wait_for(lambda: found(operator.run("verify")) == {("V3", "garbage"): 3}, "garbage that is old enough")
    operator.run("verify", "--repair", "--execute", code=0)
    assert not shop.tails.find_one()


def test_a_rename_while_it_serves_is_told(cluster, operator, shop):
    with Spillway([cluster.primary], [QUICK]) as spillway:
        with pymongo.MongoClient("127.0.0.1", spillway.port, directConnection=True) as through:
            through.shop.books.insert_many({"_id": i, "list": ARRAY} for i in range(3))
            wait_for(lambda: shop.books.count_documents({"_spill.list.n": 7}) == 3, "the tails to move", 20)
            shop.books.rename("archive")
            stored = list(shop.tails.find().sort("_id"))
            through.shop.books.insert_one({"_id": "new", "list": ARRAY})
            wait_for(lambda: shop.tails.find_one({"book": "new"}), "the new collection's outlier to move", 20)
            through.shop.books.delete_one({"_id": "new"})
            wait_for(lambda: "the collection was renamed" in spillway.said(), "a warning", 20)
    assert list(shop.tails.find({"book": {"$ne": "new"}}).sort("_id")) == stored
    whole_again(shop, operator)


def test_a_name_for_a_while(cluster, shop):
    """Renamed and back, as the warning asks: what the other name's overflow holds since is that one's."""
    other = {**QUICK, "name": "other", "namespace": "shop.archive",
             "overflow": {**QUICK["overflow"], "collection": "rest"}}
    with Operator(cluster, [QUICK, other]) as both:
        shop.books.insert_many({"_id": i, "list": [1]} for i in range(3))
        both.run("migrate", "--execute", code=0)
        shop.books.rename("archive")
        both.run("migrate", "--execute", rule="other", code=0)
        shop.archive.rename("books")
        shop.archive.insert_one({"_id": 5, "list": ARRAY})
        both.run("migrate", "--execute", rule="other", code=0)
        both.run("verify", rule="other", code=0)
        both.run("undo", "--execute", rule="other", code=0)
        assert list(shop.archive.find()) == [{"_id": 5, "list": ARRAY}]


def test_a_name_that_nothing_was_split_under(operator, shop):
    """The record knows a collection that has another name now, and needs nothing of the overflow."""
    shop.books.insert_one({"_id": 1, "list": [1]})
    operator.run("migrate", "--execute", code=0)
    shop.books.rename("archive")
    shop.books.insert_many({"_id": i, "list": ARRAY} for i in range(3))
    operator.run("migrate", "--execute", code=0)
    operator.run("verify", code=0)
    shop.books.delete_one({"_id": 1})
    wait_for(lambda: found(operator.run("verify")) == {("V3", "garbage"): 1}, "garbage that is old enough")
    operator.run("verify", "--repair", "--execute", code=0)
    assert shop.tails.distinct("book") == [0, 2]
