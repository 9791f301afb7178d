"""Two Spillways of two builds before one replica set, each replaced in turn: up, and down again. Clients know what each
of their documents must be at any moment, and every reply is compared with that."""

import contextlib
import random
import shutil

import pymongo
from bson import encode

from moving.traffic import Client
from support.cluster import Cluster
from support.process import wait_for
from support.spillway import Spillway, program
from support.verify import verify

RULE = {"name": "books", "namespace": "shop.books", "array": "list", "threshold": 4, "settle": "10ms", "quiet": "30ms",
        "gc_delay": "200ms", "sweep": "300ms", "flag": {"field": "outlier", "value": True},
        "overflow": {"collection": "tails", "link": "book", "array": "part", "batch": {"size": 3}}}
DOCUMENTS = 15  # of each client
CLIENTS = 2     # of each Spillway
STEPS = [("older", "older"), ("newer", "older"), ("newer", "newer"), ("older", "newer"), ("older", "older")]


class Side:
    """One of the two Spillways, and its clients."""

    def __init__(self, cluster, place):
        self.spillway = Spillway([cluster.primary], [], {"rules": [RULE]}, name=f"spillway{place}")
        self.build, self.clients = None, []

    def run(self, build, path):
        if build == self.build:
            return
        if self.build:
            assert self.spillway.stop() == 0
        self.spillway.command[0] = path
        self.spillway.start()
        self.build = build

    def work(self, groups, source):
        self.clients = [Client(self.spillway.port, documents, source.random()) for documents in groups]
        for client in self.clients:
            client.start()

    def rest(self):
        """What its clients did; fails where one met something else than it expected."""
        for client in self.clients:
            client.stopped.set()
        for client in self.clients:
            client.join()
        failures = [str(client.failure)[:2000] for client in self.clients if client.failure]
        assert not failures, f"through the {self.build} build: " + "\n".join(failures)
        return sum(sum(client.done.values()) for client in self.clients)

    def compare(self, documents):
        with pymongo.MongoClient("127.0.0.1", self.spillway.port, directConnection=True) as client:
            for document in documents:
                found = client.shop.books.find_one({"_id": document["_id"]})
                assert encode(found) == encode(document), f"the {self.build} build: {found} instead of {document}"


def _walk(sides, steps, paths, groups, pause, source):
    """Yields the operations and the overflow of each step; while one side is replaced, the other's clients go on."""
    before = (None, None)
    for number, builds in enumerate(steps):
        order = sorted(range(2), key=lambda place: builds[place] != before[place])  # the one that stays, first
        for place in order:
            sides[place].run(builds[place], paths[builds[place]])
            # What one side has stored, the other one edits next.
            own = [groups[i] for i in range(len(groups)) if (i + number) % 2 == place]
            sides[place].work(own, source)
        pause([client for side in sides for client in side.clients])
        done = sum(side.rest() for side in sides)
        for side in sides:
            side.compare([document for group in groups for document in group])
        before = builds
        yield builds, done


def roll(older, pause, seed, newer=None, steps=STEPS):
    """What was done in each step. `older`, `newer`: programs; `pause` gets the
    clients, and returns when a step has lasted long enough."""
    source = random.Random(seed)
    paths = {"older": str(older), "newer": str(newer or shutil.which(program()))}
    groups = [[{"_id": f"{i} {j}", "list": []} for j in range(DOCUMENTS)] for i in range(2 * CLIENTS)]
    with contextlib.ExitStack() as stack:
        cluster = stack.enter_context(Cluster(durable=False))
        client = stack.enter_context(cluster.client())
        client.shop.books.insert_many([dict(document) for group in groups for document in group])
        sides = [Side(cluster, place) for place in range(2)]
        for side in sides:
            stack.callback(side.spillway.__exit__)
        report = []
        for builds, done in _walk(sides, steps, paths, groups, pause, source):
            wait_for(lambda: not verify(client, RULE), "the movers to be at rest", 60, 0.1)
            report.append({"builds": builds, "operations": done, "overflow": client.shop.tails.count_documents({})})
        return report
