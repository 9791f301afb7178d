"""An overflow collection that is dropped straight at mongod is noticed at once: by /readyz, the log and `check`."""

import subprocess

import pymongo
import pytest

from support.operate import RULE, found
from support.process import wait_for
from support.spillway import Spillway, program

LONG = list(range(9))
EAGER = {**RULE, "settle": "5ms", "quiet": "5ms", "sweep": "200ms"}
DROPPED = "rule 'books': the overflow 'shop.tails' was dropped or replaced while documents"


@pytest.fixture
def spillway(cluster, shop):
    shop.books.insert_many([{"_id": i, "list": LONG} for i in range(5)])
    with Spillway([cluster.primary], [EAGER]) as made:
        wait_for(lambda: shop.books.count_documents({"_spill.list.n": 6}) == 5, "tails to move")
        yield made


def readiness(spillway):
    status, text = spillway.admin("/readyz")
    return status, text


def check(spillway):
    done = subprocess.run([program(), "check", "--config", spillway.file], capture_output=True, text=True, timeout=60)
    return done.stdout


def test_it_is_noticed_by_readyz_log_and_check_until_it_is_back(operator, shop, spillway):
    assert readiness(spillway)[0] == 200 and DROPPED not in check(spillway)
    backup = list(shop.tails.find({}))
    shop.tails.drop()
    wait_for(lambda: readiness(spillway)[0] == 503, "/readyz to notice")
    assert DROPPED in readiness(spillway)[1]
    spillway.says(f"error 5012 {DROPPED}")
    assert DROPPED in check(spillway)
    assert spillway.said().count(DROPPED) == 1
    shop.tails.insert_many(backup)
    wait_for(lambda: readiness(spillway)[0] == 200, "/readyz to be well again")
    spillway.says("rule 'books': the overflow 'shop.tails' holds what split documents name")
    assert DROPPED not in check(spillway)


def test_a_restart_does_not_forget_and_what_moves_since_does_not_hide_it(operator, cluster, shop, spillway):
    shop.tails.drop()
    wait_for(lambda: readiness(spillway)[0] == 503, "/readyz to notice")
    spillway.stop()
    spillway.start(ready=False)
    spillway.says(f"error 5012 {DROPPED}")
    wait_for(lambda: readiness(spillway)[0] == 503, "/readyz after the restart")
    with pymongo.MongoClient("127.0.0.1", spillway.port, directConnection=True) as client:
        client.shop.books.insert_one({"_id": "new", "list": LONG})
        wait_for(lambda: shop.books.count_documents({"_id": "new", "_spill.list.n": 6}), "the new array's tail to move")
        assert client.shop.books.find_one({"_id": "new"})["list"] == LONG
    assert readiness(spillway)[0] == 503 and DROPPED in check(spillway)
    report = operator.run("verify", "--accept-loss", "--execute", "--export", operator.folder / "dropped.json", code=0)
    assert ("loss", "left as it is") in found(report) and report["accepted"] == 5
    wait_for(lambda: readiness(spillway)[0] == 200, "/readyz to be well again")


def test_a_drop_while_nothing_runs_is_noticed_at_the_start(shop, spillway):
    spillway.stop()
    shop.tails.drop()
    spillway.start(ready=False)
    spillway.says(f"error 5012 {DROPPED}")
    wait_for(lambda: readiness(spillway)[0] == 503, "/readyz to say so")


def test_a_drop_of_what_nobody_needs_is_no_loss(shop, spillway):
    """By a client, of the whole database; then straight at mongod, with nothing split."""
    with pymongo.MongoClient("127.0.0.1", spillway.port, directConnection=True) as client:
        client.drop_database("shop")
        client.shop.books.insert_one({"_id": 1, "list": [1]})
    shop.tails.drop()
    wait_for(lambda: "tails" in shop.list_collection_names(), "the overflow to be made again")
    assert readiness(spillway)[0] == 200 and DROPPED not in spillway.said()
