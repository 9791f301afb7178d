"""A failover under load: what clients wait for through Spillway, beside what they wait for straight at mongod."""

import threading
import time

import pymongo
import pytest
from pymongo.errors import PyMongoError

from support.cluster import SET_NAME, Cluster
from support.replica_set import SetSpillway, set_uri

RULE = {
    "name": "books", "namespace": "shop.books", "array": "list", "threshold": 5, "settle": "10ms",
    "overflow": {"layout": "batches", "link": "book", "array": "part", "batch": {"size": 10}},
}
WRITERS = 4
ROUNDS = 2
STEPPED_DOWN = 189  # mongod may say so of the statement, and then without the label
MORE_MOST = 3.0  # seconds; elections differ by as much between two rounds of one arm


@pytest.fixture(scope="module")
def cluster():
    with Cluster(members=3) as made:
        yield made


class Writer(threading.Thread):
    """Pushes without pause; `longest` is the longest push, repeats included.

    A driver repeats a push once. mongod may interrupt it with the topologyVersion that the driver knows already: then
    the driver takes the error for an old one, repeats on the same member, and gives up. An application repeats again.
    """

    def __init__(self, uri, collection, number, over):
        super().__init__(daemon=True)
        self.uri, self.collection, self.number, self.over = uri, collection, number, over
        self.longest, self.pushed, self.repeats, self.failure = 0.0, 0, 0, None

    def run(self):
        with pymongo.MongoClient(self.uri, w="majority", serverSelectionTimeoutMS=30000) as client:
            while not self.over.is_set() and not self.failure:
                began = time.monotonic()
                while not self._push(client.shop[self.collection]) and not self.failure:
                    self.repeats += 1
                self.pushed += 1
                self.longest = max(self.longest, time.monotonic() - began)

    def _push(self, collection):
        try:
            collection.update_one({"_id": self.number}, {"$push": {"list": self.pushed}}, upsert=True)
        except PyMongoError as error:
            if not error.has_error_label("RetryableWriteError") and getattr(error, "code", None) != STEPPED_DOWN:
                self.failure = error
            return False
        return True


def fail_over(cluster, uri, collection):
    """The longest push of all writers while the primary steps down and takes over again, and how many an application
    had to repeat."""
    over = threading.Event()
    writers = [Writer(uri, collection, number, over) for number in range(WRITERS)]
    for writer in writers:
        writer.start()
    try:
        _await_pushes(writers, 20)
        cluster.step_down(seconds=2)
        _await_pushes(writers, 20)
        cluster.wait_for_first()
        _await_pushes(writers, 20)
    finally:
        over.set()
        for writer in writers:
            writer.join(60)
    assert [writer.failure for writer in writers] == [None] * WRITERS
    with cluster.client() as direct:
        assert direct.shop[collection].count_documents({"_id": {"$in": list(range(WRITERS))}}) == WRITERS
    return max(writer.longest for writer in writers), sum(writer.repeats for writer in writers)


def _await_pushes(writers, count):
    goals = [writer.pushed + count for writer in writers]
    deadline = time.monotonic() + 60
    while any(writer.pushed < goal and not writer.failure for writer, goal in zip(writers, goals)):
        assert time.monotonic() < deadline, "the writers stand still"
        time.sleep(0.01)


def test_a_failover_costs_what_it_costs_directly(cluster):
    """The arms take turns."""
    direct = f"mongodb://{','.join(member.address for member in cluster.members)}/?replicaSet={SET_NAME}"
    with SetSpillway(f"mongodb://{cluster.members[1].address},{cluster.primary.address}/", [RULE]) as spillway:
        through = set_uri(spillway.host, spillway.first, 0, 1, 2)
        pauses = [(fail_over(cluster, f"{direct}&heartbeatFrequencyMS=500", f"plain{turn}"),
                   fail_over(cluster, through, "books")) for turn in range(ROUNDS)]
    print("longest push and repeats, direct and through Spillway:", pauses)
    assert min(other for _, (other, _) in pauses) < min(one for (one, _), _ in pauses) + MORE_MOST
    # Each writer at each of two elections, at most.
    assert all(repeats <= 2 * WRITERS for _, (_, repeats) in pauses)
