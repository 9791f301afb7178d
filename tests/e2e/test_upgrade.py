"""An upgrade under traffic with retries off: no operation fails. And two builds' share of `tests/upgrade/run`."""

import json
import os
import pathlib
import subprocess

import pymongo
import pytest

from moving.traffic import Client
from support import share
from support.cluster import Cluster
from support.process import adopt_orphans, wait_for
from support.spillway import Spillway, program
from support.wire import Connection
from upgrade.rolling import RULE, roll

RULES = [RULE]
MORE = share.part(40, every=100)
NO_RETRIES = {"retryWrites": False, "retryReads": False}


@pytest.fixture(scope="module")
def cluster():
    with Cluster(durable=False) as made:
        yield made


@pytest.fixture(scope="module")
def spillway(cluster):
    with Spillway(cluster.members, RULES, {"workers": 2}) as made:
        yield made


class NodeTraffic:
    """The Node.js driver, in a process of its own."""

    def __init__(self, uri, first_id):
        script = pathlib.Path(__file__).parent / "clients" / "traffic.js"
        self.command = [os.environ["NODE"], script, uri, str(first_id)]

    def __enter__(self):
        self.process = subprocess.Popen(self.command, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        return self

    def pass_on(self, lines=5):
        for _ in range(lines):
            assert self.process.stdout.readline().strip().isdigit()

    def __exit__(self, *_):
        self.process.stdin.close()
        self.report = json.loads(self.process.stdout.read().splitlines()[-1])
        assert self.process.wait(60) == 0


class Clients:
    """Of the replica set by Spillway's addresses, each with documents of its own."""

    def __init__(self, cluster, spillway, direct, count=4):
        self.uri = f"mongodb://127.0.0.1:{spillway.port}/?replicaSet={cluster.replica_set}"
        self.all = [Client(self.uri, [{"_id": f"{i} {j}", "list": []} for j in range(5)], i, NO_RETRIES)
                    for i in range(count)]
        direct.shop.books.drop()
        direct.shop.books.insert_many([dict(document) for client in self.all for document in client.documents])

    def __enter__(self):
        for client in self.all:
            client.start()
        return self

    def __exit__(self, *_):
        for client in self.all:
            client.stopped.set()
        for client in self.all:
            client.join()

    def go_on(self, operations=MORE):
        """Each does so many more."""
        wanted = [sum(client.done.values()) + operations for client in self.all]
        wait_for(lambda: self.failures() or all(sum(client.done.copy().values()) >= count
                                                for client, count in zip(self.all, wanted)), "the clients to go on")
        assert self.failures() == []

    def failures(self):
        return [client.failure for client in self.all if client.failure]


def test_rules_that_wait_for_reads_are_waited_for(spillway, direct):
    """A new process would not know of reads that began without them. This comes first: a mover that ends may leave a
    cursor of its own, for which the rules would wait."""
    direct.shop.others.insert_many([{"_id": i} for i in range(9)])
    cursor = direct.shop.others.find(batch_size=2)
    next(cursor)
    rules = spillway.settings["rules"]
    overflow = {**RULE["overflow"], "collection": "others_tails"}
    spillway.settings["rules"] = [*rules, {**RULE, "name": "others", "namespace": "shop.others", "overflow": overflow}]
    spillway.write_file()
    subprocess.run([program(), "reload", "--config", spillway.file], check=True, capture_output=True, timeout=60)
    refused = subprocess.run([program(), "upgrade", "--config", spillway.file], capture_output=True, timeout=60)
    assert refused.returncode == 1 and b"rules of a reload wait for reads that began before" in refused.stdout
    cursor.close()
    spillway.says("tails move under the new rules, too, from now on")
    assert spillway.upgrade().wait(60) == 0
    spillway.settings["rules"] = rules
    spillway.write_file()
    subprocess.run([program(), "reload", "--config", spillway.file], check=True, capture_output=True, timeout=60)


def upgrade(spillway):
    """An upgrade is refused as long as rules of a reload wait, also of one in the test before."""
    command = [program(), "upgrade", "--config", spillway.file]
    wait_for(lambda: subprocess.run(command, capture_output=True, timeout=60).returncode == 0, "an upgrade")
    return spillway.upgraded()


def test_rules_change_for_both_processes_or_not_yet(spillway, direct):
    """The process before serves a connection, and knows the rules of before."""
    def reload(rules):
        spillway.settings["rules"] = rules
        spillway.write_file()
        done = subprocess.run([program(), "reload", "--config", spillway.file], capture_output=True, text=True,
                              timeout=60)
        return done.returncode, done.stdout

    rules = spillway.settings["rules"]
    overflow = {**RULE["overflow"], "collection": "others_tails"}
    added = {**RULE, "name": "others", "namespace": "shop.others", "existing": "move", "overflow": overflow}
    find = {"find": "others", "filter": {"list": {"$exists": True}}, "projection": {"_id": 0}}
    direct.shop.others.drop()
    direct.shop.others.insert_one({"list": list(range(9))})
    with Connection(spillway.port) as connection:
        before = upgrade(spillway)
        assert reload([*rules, added])[0] == 0
        spillway.says("the process before this one still serves connections, and knows nothing of the new rules")
        assert direct.shop.others.count_documents({"_spill": {"$exists": True}}) == 0
        code, said = reload([added])
        assert code == 1 and "rule 'books' is gone or has another layout, and the process before" in said
        assert connection.command("shop", find)["cursor"]["firstBatch"] == [{"list": list(range(9))}]
    assert before.wait(60) == 0
    wait_for(lambda: direct.shop.others.find_one()["list"] == list(range(4)), "the new rule to move")
    direct.shop.others.drop()
    direct.shop.others_tails.drop()
    assert reload(rules)[0] == 0


def test_no_operation_fails(cluster, spillway, direct):
    with Clients(cluster, spillway, direct) as clients:
        clients.go_on()
        before = []
        for _ in range(3):
            clients.go_on()
            before.append(upgrade(spillway))
        clients.go_on()
        for process in before:
            assert process.wait(60) == 0, "drivers have left it by themselves"
    assert clients.failures() == []


def test_a_transaction_and_a_cursor_go_on(cluster, spillway, direct):
    direct.shop.notes.insert_many([{"_id": i} for i in range(100)])
    with pymongo.MongoClient("127.0.0.1", spillway.port, directConnection=True, **NO_RETRIES) as client:
        cursor = client.shop.notes.find({"_id": {"$lt": 100}}, batch_size=2, sort=[("_id", 1)])
        assert next(cursor) == {"_id": 0}
        with client.start_session() as session, session.start_transaction():
            client.shop.notes.insert_one({"_id": 100}, session=session)
            spillway.upgrade()
            client.shop.notes.insert_one({"_id": 101}, session=session)
        assert [each["_id"] for each in cursor] == list(range(1, 100))
        assert client.shop.notes.count_documents({}) == 102


def test_reloads_and_upgrades_in_turn(cluster, spillway, direct):
    adopt_orphans()
    with Clients(cluster, spillway, direct) as clients:
        for number in range(share.part(2, every=3)):
            spillway.settings["log"] = {"level": ("info", "debug")[number % 2]}
            spillway.settings["rules"] = [{**RULE, "existing": "move", "threshold": 4 + number}]
            spillway.write_file()
            for command in ("reload", "upgrade"):
                subprocess.run([program(), command, "--config", spillway.file], check=True, capture_output=True,
                               timeout=60)
                clients.go_on()
            spillway.upgraded()
    assert clients.failures() == []


def test_the_node_driver_goes_on(cluster, spillway, direct):
    uri = f"mongodb://127.0.0.1:{spillway.port}/?replicaSet={cluster.replica_set}&retryWrites=false&retryReads=false"
    with NodeTraffic(uri, 1000) as traffic:
        for _ in range(2):
            traffic.pass_on()
            spillway.upgrade()
        traffic.pass_on()
    assert traffic.report["failures"] == []
    for number, pushed in traffic.report["pushed"].items():
        with pymongo.MongoClient("127.0.0.1", spillway.port, directConnection=True) as client:
            assert client.shop.books.find_one({"_id": int(number)})["list"] == list(range(pushed))
    direct.shop.books.delete_many({})


def until_each_did(operations):
    def pause(clients):
        wait_for(lambda: all(client.failure or sum(client.done.copy().values()) >= operations for client in clients),
                 "the clients to work")
    return pause


def test_two_spillways_are_rolled():
    """With one build in both roles: `tests/upgrade/run` has two."""
    report = roll(program(), until_each_did(30), seed=5, steps=[("older", "older"), ("newer", "older")])
    assert all(step["operations"] >= 4 * 30 and step["overflow"] > 0 for step in report)
