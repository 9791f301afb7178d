"""A replica set of three with a listener for each member: drivers find all of it, and nothing but Spillway."""

import json
import os
import pathlib
import subprocess
import threading

import pymongo
import pytest
from pymongo.errors import AutoReconnect

from support.cluster import Cluster
from support.process import wait_for
from support.spillway import Spillway
from support.verify import verify

RULE = {
    "name": "books", "namespace": "shop.books", "array": "list", "threshold": 5, "settle": "10ms",
    "gc_delay": "1s",
    "overflow": {"layout": "batches", "link": "book", "array": "part", "batch": {"size": 10}},
}
WHOLE = list(range(40))


@pytest.fixture(scope="module")
def cluster():
    with Cluster(members=3) as made:
        yield made


@pytest.fixture(scope="module")
def spillway(cluster):
    with Spillway(cluster.members, [RULE]) as made:
        yield made


def listeners(spillway):
    return [f"127.0.0.1:{port}" for port in spillway.ports]


def uri(spillway, seeds):
    return f"mongodb://{','.join(listeners(spillway)[seeds])}/?replicaSet=rs0&heartbeatFrequencyMS=500"


SEEDS = pytest.mark.parametrize("seeds", [slice(0, 3), slice(0, 1), slice(2, 3)], ids=["all", "primary", "secondary"])


@pytest.fixture
def spilled(cluster, spillway):
    """What a document's list is, on every member; its tail has moved."""
    with pymongo.MongoClient(uri(spillway, slice(0, 3)), w=3) as client, cluster.client() as direct:
        client.shop.books.replace_one({"_id": 1}, {"list": WHOLE}, upsert=True)
        wait_for(lambda: len(direct.shop.books.find_one({"_id": 1})["list"]) == 5, "the tail to move")
        client.shop.books.update_one({"_id": 1}, {"$push": {"list": 40}})
    return [*WHOLE, 40]


@SEEDS
def test_pymongo_finds_every_member(spillway, spilled, seeds):
    ports = [("127.0.0.1", port) for port in spillway.ports]
    with pymongo.MongoClient(uri(spillway, seeds)) as client:
        wait_for(lambda: client.primary and len(client.secondaries) == 2, "all three members")
        assert (client.primary, client.secondaries) == (ports[0], set(ports[1:]))
        books = client.shop.get_collection("books", read_preference=pymongo.ReadPreference.SECONDARY)
        for _ in range(10):
            assert books.find_one({"_id": 1})["list"] == spilled
        assert client.nodes == set(ports)


@SEEDS
def test_node_finds_every_member(spillway, spilled, seeds):
    program = pathlib.Path(__file__).parent / "clients" / "members.js"
    run = subprocess.run([os.environ["NODE"], program, uri(spillway, seeds)], capture_output=True, text=True,
                         timeout=60)
    assert run.returncode == 0, run.stderr
    seen = json.loads(run.stdout)
    assert seen["lists"] == [spilled] * 10
    assert set(seen["found"]) == set(listeners(spillway))


def test_each_members_hello_names_spillway(spillway):
    for number, port in enumerate(spillway.ports):
        with pymongo.MongoClient("127.0.0.1", port, directConnection=True) as client:
            for command in ("hello", "isMaster"):
                reply = client.admin.command(command)
                assert reply["hosts"] == listeners(spillway)
                assert reply["me"] == listeners(spillway)[number]
                assert reply["primary"] == listeners(spillway)[0]


def test_a_member_without_a_listener_is_named_at_start(cluster):
    for covered in (slice(0, 1), slice(1, 3)):
        spillway = Spillway(cluster.members[covered], [RULE])
        spillway.settings["upstream"] = {"uri": f"mongodb://{cluster.primary.address}/"}
        try:
            output = spillway.refuses_to_start()
        finally:
            spillway.__exit__()
        missing = [member.address for member in cluster.members if member not in cluster.members[covered]]
        assert any(f"'{address}'" in output for address in missing), output
        assert "'listen'" in output


class Pusher(threading.Thread):
    """Pushes numbers to a book of its own until told to stop."""

    def __init__(self, client, identifier):
        super().__init__(daemon=True)
        self.books = client.shop.books
        self.identifier = identifier
        self.stopping = threading.Event()
        self.done = []
        self.unknown = {}

    def run(self):
        number = 0
        while not self.stopping.is_set():
            try:
                self.books.update_one({"_id": self.identifier}, {"$push": {"list": number}}, upsert=True)
                self.done.append(number)
            except AutoReconnect as error:  # the driver tries twice; both may meet the change of primaries
                self.unknown[number] = error
            number += 1


def test_acknowledged_pushes_survive_a_new_primary(cluster, spillway):
    """Each is there once and in order; drivers send again what the old primary did not answer."""
    with pymongo.MongoClient(uri(spillway, slice(0, 3)), w="majority") as client:
        pushers = [Pusher(client, f"pusher {number}") for number in range(4)]
        for pusher in pushers:
            pusher.start()
        for _ in range(2):
            advance(pushers)
            cluster.step_down()
        advance(pushers)
        for pusher in pushers:
            pusher.stopping.set()
            pusher.join()
        cluster.wait_for_first()
        with cluster.client() as direct:
            wait_for(lambda: not verify(direct, RULE), "the tails to move")
        for pusher in pushers:
            found = client.shop.books.find_one({"_id": pusher.identifier})["list"]
            assert [number for number in found if number not in pusher.unknown] == pusher.done
            assert sorted(set(found)) == found
            assert len(pusher.unknown) <= 2  # one for each change


def advance(pushers):
    goals = [len(pusher.done) + 20 for pusher in pushers]
    wait_for(lambda: all(len(pusher.done) > goal for pusher, goal in zip(pushers, goals)), "pushes", 120)
