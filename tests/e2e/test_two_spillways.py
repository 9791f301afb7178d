"""Two Spillways on the same data at once, killed again and again; mongod too. The control arm does the same straight
at mongod.

Every acknowledged element must be there exactly once, each writer's in its order; one without an answer once or not
at all."""

import contextlib
import itertools
import os
import random
import signal
import threading

import pymongo
import pytest
from pymongo.errors import PyMongoError

from support import crash, share
from support.process import wait_for
from support.spillway import Spillway

WRITERS, PUSHES, BOOKS = 4, share.part(80, every=150), 2
SEED, HOLDS = 20261128, share.part(10, every=25)


class Writer(threading.Thread):
    """Pushes [writer, 0], [writer, 1], ... one by one, each once, through any of the servers that answers."""

    def __init__(self, number, ports, collection):
        super().__init__(daemon=True)
        self.number = number
        self.ports = ports
        self.collection = collection
        self.book = number % BOOKS
        self.done = []
        self.unknown = []

    def run(self):
        left = list(range(PUSHES))
        while left:
            port = self.ports[len(left) % len(self.ports)]
            with pymongo.MongoClient("127.0.0.1", port, directConnection=True, retryWrites=False, w="majority",
                                     serverSelectionTimeoutMS=30000) as client:
                self._push(client, left)

    def _push(self, client, left):
        try:
            while left:
                change = {"$push": {"list": [self.number, left[0]]}}
                client.shop[self.collection].update_one({"_id": self.book}, change, upsert=True)
                self.done.append(left.pop(0))
        except PyMongoError:
            self.unknown.append(left.pop(0))

    def require_kept(self, whole):
        found = [number for writer, number in whole if writer == self.number]
        assert found == sorted(set(found)), "twice, or in another order"
        assert [number for number in found if number not in self.unknown] == self.done


def write_through(ports, collection, fault):
    """All writers at once, and the fault each time that another part of the pushes has been acknowledged."""
    writers = [Writer(number, ports, collection) for number in range(WRITERS)]
    for writer in writers:
        writer.start()
    for part in range(1, 5):
        goal = part * WRITERS * PUSHES // 5
        wait_for(lambda: not any(writer.is_alive() for writer in writers)
                 or sum(len(writer.done) + len(writer.unknown) for writer in writers) >= goal, "pushes", 120)
        fault(part)
    for writer in writers:
        writer.join()
    assert sum(len(writer.done) for writer in writers) > WRITERS * PUSHES * 3 // 4
    return writers


@pytest.fixture
def spillways(cluster, direct):
    direct.shop.books.drop()
    direct.shop.more_books.drop()
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(Spillway([cluster.primary], [crash.RULE], name=f"spillway{i}"))
               for i in range(2)]


def restart(server):
    server.kill()
    server.start()


def restart_mongod(cluster):
    restart(cluster.primary)
    cluster.wait_for_primary()


def require_all(direct, writers):
    by_id = wait_for(lambda: crash.at_rest(direct), "rest", pause=0.05)
    for writer in writers:
        writer.require_kept(by_id[writer.book])


def test_either_may_be_killed_at_any_time(direct, spillways):
    ports = [spillway.port for spillway in spillways]
    writers = write_through(ports, "books", lambda part: restart(spillways[part % 2]))
    require_all(direct, writers)


def test_mongod_may_be_killed_at_any_time(cluster, direct, spillways):
    ports = [spillway.port for spillway in spillways]
    writers = write_through(ports, "books", lambda part: restart_mongod(cluster))
    require_all(direct, writers)


def test_the_control_arm_straight_at_mongod(cluster, direct):
    direct.shop.plain.drop()
    writers = write_through([cluster.primary.port], "plain", lambda part: restart_mongod(cluster))
    for writer in writers:
        writer.require_kept(direct.shop.plain.find_one({"_id": writer.book})["list"])


@contextlib.contextmanager
def held(spillway):
    os.kill(spillway.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(spillway.pid, signal.SIGCONT)


def test_one_may_stand_still_between_any_two_commands(direct, spillways):
    """It wakes up when the other one has moved, folded, moved again and deleted the garbage: gc_delay is over, too."""
    drawn, numbers, whole = random.Random(SEED), itertools.count(), []
    with contextlib.ExitStack() as stack:
        first, second = (stack.enter_context(pymongo.MongoClient("127.0.0.1", spillway.port, directConnection=True))
                         .shop.books for spillway in spillways)

        def push(through, count):
            for _ in range(count):
                whole.append(next(numbers))
                through.update_one({"_id": 0}, {"$push": {"list": whole[-1]}}, upsert=True)

        for _ in range(HOLDS):
            push(first, drawn.randrange(1, 40))
            with held(spillways[0]):
                push(second, drawn.randrange(4, 12))
                gone = whole.pop(drawn.randrange(len(whole)))
                second.update_one({"_id": 0}, {"$pull": {"list": gone}})
                assert second.find_one({"_id": 0})["list"] == whole
                push(second, 8)
                assert wait_for(lambda: crash.at_rest(direct), "rest", pause=0.05)[0] == whole
            assert first.find_one({"_id": 0})["list"] == whole
    assert wait_for(lambda: crash.at_rest(direct), "rest", pause=0.05)[0] == whole
