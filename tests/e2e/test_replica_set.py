"""`replica_set`: members are found from a seed, and each has a listener as long as it exists."""

import re
import subprocess

import pymongo
import pytest
from pymongo.errors import PyMongoError

from support.cluster import Cluster, Mongod
from support.process import free_port, wait_for
from support.spillway import Spillway, program

RULE = {
    "name": "books", "namespace": "shop.books", "array": "list", "threshold": 5, "settle": "10ms",
    "gc_delay": "1s",
    "overflow": {"layout": "batches", "link": "book", "array": "part", "batch": {"size": 10}},
}
WHOLE = list(range(40))
PORTS = 5


def free_range():
    """The first of as many free ports in a row as the tests' sets have members."""
    while True:
        first = free_port()
        if all(_is_free(first + i) for i in range(1, PORTS)):
            return first


def _is_free(port):
    import socket
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


class SetSpillway(Spillway):
    """A Spillway before a whole replica set."""

    def __init__(self, seed, first=None, ports=PORTS, more=None, **options):
        super().__init__([], [RULE], more, **options)
        self.first = first or free_range()
        del self.settings["listen"]
        self.settings["replica_set"] = {"seed": seed, "listen": f"127.0.0.1:{self.first}-{self.first + ports - 1}"}

    def client(self, *ids, **options):
        seeds = ",".join(f"127.0.0.1:{self.first + number}" for number in ids)
        return pymongo.MongoClient(f"mongodb://{seeds}/?replicaSet=rs0&heartbeatFrequencyMS=500",
                                   serverSelectionTimeoutMS=20000, **options)

    def listens(self, number):
        try:
            with pymongo.MongoClient("127.0.0.1", self.first + number, directConnection=True,
                                     serverSelectionTimeoutMS=300) as client:
                return client.admin.command("ping")["ok"] == 1.0
        except PyMongoError:
            return False


def nodes(spillway, *ids):
    return {("127.0.0.1", spillway.first + number) for number in ids}


@pytest.fixture(scope="module")
def cluster():
    with Cluster(members=3) as made:
        yield made


@pytest.fixture(scope="module")
def spillway(cluster):
    """Its one seed is a secondary."""
    with SetSpillway(f"mongodb://{cluster.members[2].address}/") as made:
        yield made


def test_a_driver_finds_every_member_at_the_port_of_its_id(cluster, spillway):
    with spillway.client(1) as client, cluster.client() as direct:
        wait_for(lambda: client.nodes == nodes(spillway, 0, 1, 2), "all members")
        assert client.primary == ("127.0.0.1", spillway.first)
        books = client.shop.get_collection("books", write_concern=pymongo.WriteConcern(3))
        books.replace_one({"_id": 1}, {"list": WHOLE}, upsert=True)
        wait_for(lambda: len(direct.shop.books.find_one({"_id": 1})["list"]) == 5, "the tail to move")
        assert books.find_one({"_id": 1})["list"] == WHOLE
    assert [spillway.listens(number) for number in range(PORTS)] == [True] * 3 + [False] * 2


def add(cluster, member, **options):
    with cluster.client() as direct:
        config = direct.admin.command("replSetGetConfig")["config"]
        config["version"] += 1
        number = options.pop("_id", max(each["_id"] for each in config["members"]) + 1)
        config["members"].append({"_id": number, "host": member.address, **options})
        direct.admin.command("replSetReconfig", config)


def remove(cluster, member):
    with cluster.client() as direct:
        config = direct.admin.command("replSetGetConfig")["config"]
        config["version"] += 1
        config["members"] = [each for each in config["members"] if each["host"] != member.address]
        direct.admin.command("replSetReconfig", config)


@pytest.fixture
def fourth(cluster):
    member = Mongod(cluster.folder, f"further{free_port()}", "rs0")
    member.start()
    yield member
    member.kill()


def test_a_listener_appears_and_disappears_with_its_member(cluster, spillway, fourth):
    add(cluster, fourth, priority=0)
    wait_for(lambda: spillway.listens(3), "a listener of the fourth member")
    with spillway.client(0) as client:
        wait_for(lambda: client.nodes == nodes(spillway, 0, 1, 2, 3), "four members")
        open_one = pymongo.MongoClient("127.0.0.1", spillway.first + 3, directConnection=True)
        open_one.admin.command("ping")
        remove(cluster, fourth)
        wait_for(lambda: not spillway.listens(3), "the listener to close")
        wait_for(lambda: client.nodes == nodes(spillway, 0, 1, 2), "three members again")
    open_one.close()
    spillway.says(f"member '{fourth.address}' (_id 3) is gone")
