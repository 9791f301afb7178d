"""`--max-lag` and `mover.max_lag`: who moves waits for a secondary that is behind, says so, and goes on."""

import threading

import pymongo
import pytest

from support.cluster import Cluster
from support.operate import RULE, Operator
from support.process import wait_for
from support.spillway import Spillway


@pytest.fixture(scope="module")
def cluster():
    with Cluster(2, durable=False) as made:
        yield made


def delay(direct, seconds):
    """Of the second member, which does not vote then."""
    config = direct.admin.command("replSetGetConfig")["config"]
    config["version"] += 1
    config["members"][1].update(priority=0, votes=0, hidden=True, secondaryDelaySecs=seconds)
    direct.admin.command("replSetReconfig", config)


def behind(direct):
    """Seconds, by the servers' own words."""
    ours, its = (member["optimeDate"] for member in direct.admin.command("replSetGetStatus")["members"])
    return (ours - its).total_seconds()


def write_until_behind(direct, seconds):
    def write():
        direct.shop.others.insert_one({})
        return behind(direct) > seconds
    wait_for(write, "the secondary to be behind", pause=0.1)


class Said:
    """Standard error of a command, as it comes."""

    def __init__(self, command):
        self.lines = []
        self.thread = threading.Thread(target=lambda: self.lines.extend(iter(command.stderr.readline, "")))
        self.thread.start()

    def waiting(self):
        return [line for line in self.lines if line.startswith("waiting for the secondary")]


def test_a_secondary_that_is_behind_is_waited_for_and_named(cluster, direct, shop):
    shop.books.insert_many({"_id": i, "list": list(range(9))} for i in range(400))
    delay(direct, 3600)
    write_until_behind(direct, 3)
    with Operator(cluster) as operator:
        migrate = operator.start("migrate", "--execute", "--max-lag", "2")
        said = Said(migrate)
        line = wait_for(said.waiting, "what it waits for")[0]
        assert f"'{cluster.members[1].address}'" in line and "--max-lag is 2 s" in line
        moved = wait_for(lambda: shop.books.count_documents({"_spill": {"$exists": True}}), "what was moved before")
        assert moved < 400
        wait_for(lambda: len(said.waiting()) > 1, "the next line", pause=0.1)
        assert migrate.poll() is None and shop.books.count_documents({"_spill": {"$exists": True}}) < 400
        delay(direct, 0)
        assert migrate.wait(60) == 0
        said.thread.join()
        migrate.stdout.close()
    assert shop.books.count_documents({"_spill": {"$exists": True}}) == 400


def test_serve_and_undo_wait_as_well(cluster, direct, shop):
    """But not with what a client needs: 4 MB that were pushed since the last move."""
    shop.books.insert_many({"_id": i, "list": list(range(9))} for i in range(50))
    moved = {"_spill.list.n": {"$gt": 0}}
    eager = {**RULE, "settle": "5ms", "existing": "wait"}
    delay(direct, 3600)
    write_until_behind(direct, 3)
    with Spillway([cluster.primary], [eager], {"mover": {"max_lag": "2s"}}) as spillway, \
            pymongo.MongoClient("127.0.0.1", spillway.port, directConnection=True) as through:
        wait_for(lambda: spillway.metrics()["spillway_mover_held"] == 1, "the lag to be seen")
        assert spillway.says(f"mover: waits: the secondary '{cluster.members[1].address}' is")
        through.shop.books.update_one({"_id": 1}, {"$push": {"list": 9}})
        wait_for(lambda: spillway.metrics()["spillway_mover_queue"] == 1, "the tail to wait")
        for _ in range(5):
            through.shop.books.update_one({"_id": 2}, {"$push": {"list": "x" * 1000000}})
        wait_for(lambda: shop.books.count_documents({**moved, "_id": 2}) == 1, "the large one")
        assert shop.books.count_documents(moved) == 1
        delay(direct, 0)
        wait_for(lambda: shop.books.count_documents({**moved, "_id": 1}) == 1, "the tail")
        assert spillway.says("mover: goes on")
    with Operator(cluster) as operator:
        operator.run("migrate", "--execute", code=0)
        delay(direct, 3600)
        write_until_behind(direct, 3)
        undo = operator.start("undo", "--execute", "--max-lag", "2")
        said = Said(undo)
        wait_for(said.waiting, "what it waits for")
        delay(direct, 0)
        assert undo.wait(60) == 0
        said.thread.join()
        undo.stdout.close()
    assert shop.books.count_documents(moved) == 0
