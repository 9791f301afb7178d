"""SIGTERM under load of a real driver: what was acknowledged is there, what is under way may end, and it ends soon."""

import socket
import threading

import pymongo
import pytest
from pymongo.errors import PyMongoError

from support.process import wait_for
from support.spillway import Spillway
from support.verify import verify

RULE = {
    "name": "books", "namespace": "shop.books", "array": "list", "threshold": 5, "settle": "10ms",
    "gc_delay": "1s",
    "overflow": {"layout": "batches", "link": "book", "array": "part", "batch": {"size": 10}},
}
DRAIN = "1h"  # nobody keeps a drain waiting who has nothing under way


@pytest.fixture
def direct(cluster):
    with cluster.client() as client:
        client.shop.drop_collection("books")
        client.shop.drop_collection("books_list_overflow")
        yield client


@pytest.fixture
def spillway(cluster, direct):
    with Spillway([cluster.primary], [RULE], {"limits": {"drain": DRAIN}}) as made:
        yield made


@pytest.fixture
def client(spillway):
    with pymongo.MongoClient("127.0.0.1", spillway.port, replicaSet="rs0") as made:
        yield made
        if not spillway.running():
            spillway.start()  # a client that closes says goodbye


class Pusher(threading.Thread):
    """Pushes 0, 1, 2, ... to a book of its own until told to stop; the driver sends again what got no answer."""

    def __init__(self, client, identifier):
        super().__init__(daemon=True)
        self.books = client.shop.books
        self.identifier = identifier
        self.stopping = threading.Event()
        self.done = []
        self.unknown = set()

    def run(self):
        number = 0
        while not self.stopping.is_set():
            try:
                self.books.update_one({"_id": self.identifier}, {"$push": {"list": number}}, upsert=True)
                self.done.append(number)
            except PyMongoError:
                self.unknown.add(number)
            number += 1

    def require_kept(self):
        found = self.books.find_one({"_id": self.identifier})["list"]
        assert [number for number in found if number not in self.unknown] == self.done
        assert sorted(set(found)) == found


def test_acknowledged_pushes_are_there_after_restarts(spillway, client, direct):
    pushers = [Pusher(client, number) for number in range(4)]
    for pusher in pushers:
        pusher.start()
    for _ in range(4):
        goals = [len(pusher.done) + 50 for pusher in pushers]
        wait_for(lambda: all(len(pusher.done) > goal for pusher, goal in zip(pushers, goals)), "pushes")
        assert spillway.stop() == 0
        spillway.start()
    for pusher in pushers:
        pusher.stopping.set()
        pusher.join()
        pusher.require_kept()
    wait_for(lambda: not verify(direct, RULE), "the tails to move")
    for pusher in pushers:
        pusher.require_kept()


def test_a_transaction_under_way_is_finished(spillway, client):
    books = client.shop.books
    books.insert_one({"_id": 1, "list": [0]})
    with client.start_session() as session:
        with session.start_transaction():
            books.update_one({"_id": 1}, {"$push": {"list": 1}}, session=session)
            spillway.process.terminate()
            wait_for(lambda: not listens(spillway), "the listener to be closed")
            for number in range(2, 10):
                books.update_one({"_id": 1}, {"$push": {"list": number}}, session=session)
            assert books.find_one({"_id": 1}, session=session)["list"] == list(range(10))
            assert spillway.running()
    assert spillway.process.wait(60) == 0
    spillway.start()
    assert books.find_one({"_id": 1})["list"] == list(range(10))


def listens(spillway):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", spillway.port)) == 0


def test_a_request_under_way_is_answered(spillway, client, direct):
    direct.shop.books.insert_one({"_id": 1, "list": [0]})
    found = []
    where = {"$where": "sleep(1500) || true"}
    reader = threading.Thread(target=lambda: found.extend(client.shop.notes.find(where)))
    direct.shop.notes.insert_one({"_id": 1})
    reader.start()
    stages = [{"$currentOp": {}}, {"$match": {"command.find": "notes"}}]
    wait_for(lambda: direct.admin.aggregate(stages).to_list(), "the find to run")
    assert spillway.stop() == 0
    reader.join()
    assert found == [{"_id": 1}]


def test_monitors_and_idle_clients_hold_nothing_up(spillway, client):
    client.admin.command("ping")
    wait_for(lambda: streaming(spillway), "a streamed hello")
    assert spillway.stop() == 0


def streaming(spillway):
    """A monitor waits on one connection, its client's pool keeps another."""
    samples = spillway.metrics()
    accepted, closed = (samples[f"spillway_connections_{name}_total"] for name in ("accepted", "closed"))
    return accepted - closed >= 2


def test_what_never_ends_is_cut_off_at_the_deadline(cluster, direct):
    limits = {"limits": {"drain": "500ms"}}
    direct.shop.books.insert_one({"_id": 1, "list": [0]})
    with Spillway([cluster.primary], [RULE], limits) as spillway:
        with pymongo.MongoClient("127.0.0.1", spillway.port, directConnection=True,
                                 serverSelectionTimeoutMS=1000) as client:
            wait_for(lambda: answers(client), "the server to be known")  # its close waits a second for another one
            session = client.start_session()
            session.start_transaction()
            client.shop.books.update_one({"_id": 1}, {"$push": {"list": 1}}, session=session)
            assert spillway.stop() == 0
    wait_for(lambda: not open_transactions(direct), "mongod to end the transaction")
    assert direct.shop.books.find_one({"_id": 1})["list"] == [0]


def answers(client):
    try:
        return client.admin.command("ping")
    except PyMongoError:
        return None


def open_transactions(direct):
    direct.admin.command("killAllSessions", [])
    return direct.admin.command("serverStatus")["transactions"]["currentOpen"]
