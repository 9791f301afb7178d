"""A collection with a heavy tail is moved into a rule's layout and back, with kills, at rest and under traffic.

What is compared: the server's own hash of the collection where nobody else writes; each document's
bytes as a client sees them, and the clients' own documents, where somebody does.
"""

import hashlib
import random
import subprocess
import time

import pymongo
from bson import decode, encode
from bson.raw_bson import RawBSONDocument

from moving.traffic import Client
from support import outliers
from support.cluster import Cluster
from support.operate import Operator
from support.process import wait_for
from support.spillway import Spillway
from support.verify import verify

RULE = {"name": "books", "namespace": "shop.books", "array": "list", "threshold": 10, "gc_delay": "0s",
        "settle": "100ms", "quiet": "100ms", "sweep": "off",
        "flag": {"field": "outlier", "value": True, "otherwise": False},
        "overflow": {"collection": "tails", "link": "book", "array": "part", "batch": {"size": 100}}}
OWN = 200       # documents that a client works on
MINUTES = 3600  # seconds that a command may take


def digest(document):
    return hashlib.blake2b(document, digest_size=16).digest()


def key(identifier):
    return encode({"": identifier})


def as_seen(document):
    """The flag is no client's business."""
    return {name: value for name, value in document.items() if name != "outlier"}


class Proof:
    """One collection, one rule, and what happened."""

    def __init__(self, cluster, operator, count, seed, kills):
        self.cluster, self.operator, self.kills, self.count = cluster, operator, kills, count
        self.source = random.Random(seed)
        self.generator_seed = seed
        self.began = time.monotonic()
        self.report = {"documents": count, "seed": seed}

    # What there is.

    def load(self, client):
        """Fills the collection; {_id: digest} of what clients must see, which the flag is no part of."""
        seen, page = {}, []
        for document in outliers.documents(self.count, self.generator_seed, flag="outlier"):
            page.append(document)
            seen[key(document["_id"])] = digest(encode(as_seen(document)))
            if len(page) == 2000:
                client.shop.books.insert_many(page)
                page = []
        if page:
            client.shop.books.insert_many(page)
        return seen

    def hashes(self, client):
        """Of every collection but the server's own."""
        names = [name for name in client.list_database_names() if name not in ("admin", "config", "local")]
        return {name: client[name].command("dbHash")["collections"] for name in names}

    def compare(self, port, expected):
        """Every document once, byte for byte."""
        left = dict(expected)
        with pymongo.MongoClient("127.0.0.1", port, directConnection=True,
                                 document_class=RawBSONDocument) as client:
            for document in client.shop.books.find():
                identifier = key(document["_id"])
                assert identifier in left, f"{document['_id']} is there twice, or was never"
                same = left.pop(identifier) == digest(document.raw)
                assert same, f"{document['_id']} differs: {decode(document.raw)}"
        assert not left, f"{len(left)} documents are gone"

    def tell(self, what):
        print(f"{time.monotonic() - self.began:7.0f} s: {what}", flush=True)

    # What is done.

    def run_and_kill(self, command, longest):
        """Kills it at any moment, again and again, then lets it come to its end; how often it was killed."""
        again = ["--resume"] if command == "migrate" else []
        kills = 0
        while kills < self.kills:
            started = self.operator.start(command, "--execute", *again)
            try:
                started.communicate(timeout=self.source.uniform(0.02, longest))
                assert started.returncode == 0, f"{command} ended with {started.returncode}"
                break
            except subprocess.TimeoutExpired:
                started.kill()
                started.communicate()
                kills += 1
        return kills, self.operator.run(command, "--execute", *again, code=0, timeout=MINUTES)

    def at_rest(self, client, expected, longest):
        """Plan, migrate, undo: nobody else is there."""
        original = self.hashes(client)
        plan = self.operator.run("migrate", code=0, timeout=MINUTES)
        assert self.hashes(client) == original, "a plan wrote something"
        assert plan["documents"] > self.count / 20
        self.tell("planned")
        kills, _ = self.run_and_kill("migrate", longest)
        self.tell("moved in")
        checked = self.operator.run("verify", code=0, timeout=MINUTES)
        assert checked["spilled"] == plan["documents"], (checked, plan)
        assert not verify(client, RULE)
        with Spillway([self.cluster.primary], [RULE]) as spillway:
            self.compare(spillway.port, expected)
        self.tell("verified")
        undone, _ = self.run_and_kill("undo", longest)
        assert self.hashes(client)["shop"] == original["shop"], "undo left something else than there was"
        assert client.spillway.rules.count_documents({}) == 0
        self.report.update({"outliers": plan["documents"], "their elements": plan["elements"],
                            "kills of migrate": kills, "kills of undo": undone})

    def clients(self, port, number):
        """Each with documents of its own, half of them longer than the rule allows."""
        short, long = [], []
        for document in outliers.documents(self.count, self.generator_seed, flag="outlier"):
            array = document.get("list", [])
            if isinstance(array, list):
                (long if len(array) > RULE["threshold"] else short).append(encode(as_seen(document)))
        half = number * OWN // 2
        documents = [decode(each) for some in (short, long)
                     for each in self.source.sample(some, min(half, len(some)))]
        self.source.shuffle(documents)
        return [Client(port, documents[i::number], self.source.random()) for i in range(number)]

    def under_traffic(self, client, expected, longest, number):
        self.tell("moved out again")
        with Spillway([self.cluster.primary], [RULE]) as spillway:
            clients = self.clients(spillway.port, number)
            for each in clients:
                each.start()
            try:
                kills, _ = self.run_and_kill("migrate", longest)
                self.operator.run("migrate", "--execute", code=0, timeout=MINUTES)
            finally:
                for each in clients:
                    each.stopped.set()
                for each in clients:
                    each.join()
            failures = [each.failure for each in clients if each.failure]
            assert not failures, "\n".join(str(each)[:2000] for each in failures)
            for each in clients:
                expected.update((key(document["_id"]), digest(encode(document))) for document in each.documents)
            self.tell("moved in under traffic")
            self.compare(spillway.port, expected)
            wait_for(lambda: not verify(client, RULE), "the mover to be at rest", MINUTES, 1)
        assert not self.operator.run("verify", code=0, timeout=MINUTES)["findings"]
        self.report["kills under traffic"] = kills
        self.report["operations"] = {name: sum(each.done.get(name, 0) for each in clients)
                                     for name in clients[0].done}


def prove(documents, seed, kills, clients):
    """What was done; it fails where something was not right."""
    longest = max(0.3, documents / 20_000)
    with Cluster() as cluster, Operator(cluster, [RULE]) as operator, cluster.client() as client:
        proof = Proof(cluster, operator, documents, seed, kills)
        expected = proof.load(client)
        proof.tell("loaded")
        proof.at_rest(client, expected, longest)
        proof.under_traffic(client, expected, longest, clients)
    return proof.report
