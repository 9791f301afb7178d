"""How much upgrades and reloads are felt by clients without retries: operations that fail, p99 before and after."""

import subprocess
import time

import pymongo

from support.cluster import Cluster
from support.process import adopt_orphans
from support.spillway import Spillway, program
from support.threads import Threads
from upgrade.rolling import RULE

CLIENTS = 8
ROUNDS = 8       # of each kind
REST = 3         # seconds before each; the first of them is the round's measure
NO_RETRIES = {"retryWrites": False, "retryReads": False}


class Load(Threads):
    """Threads that push to, and read, a document each; `times` holds when each operation began and how long it took."""

    def __init__(self, port):
        self.client = pymongo.MongoClient("127.0.0.1", port, directConnection=True, **NO_RETRIES)
        self.books = self.client.shop.books
        self.books.insert_many([{"_id": i, "list": []} for i in range(CLIENTS)])
        self.times, self.failures = [], []
        super().__init__(self._run, range(CLIENTS))

    def __exit__(self, *_):
        super().__exit__()
        self.client.close()

    def _run(self, number):
        while not self.over.is_set():
            for operation in (lambda: self.books.update_one({"_id": number}, {"$push": {"list": 1}}),
                              lambda: self.books.find_one({"_id": number}, {"list": {"$slice": -3}})):
                began = time.monotonic()
                try:
                    operation()
                    self.times.append((began, time.monotonic() - began))
                except pymongo.errors.PyMongoError as error:
                    self.failures.append(repr(error)[:300])

    def high(self, since, until):
        """(operations, p99 in milliseconds) of what began in between."""
        taken = sorted(took for began, took in list(self.times) if since <= began < until)
        return len(taken), round(1000 * taken[len(taken) * 99 // 100], 1)


def _round(spillway, load, name):
    """p99 of the second before and of the three seconds after the command has begun, and how long it took."""
    time.sleep(REST)
    began = time.monotonic()
    before = load.high(began - 1, began)
    spillway.settings["log"] = {"level": "debug" if spillway.settings.get("log") == {"level": "info"} else "info"}
    spillway.write_file()
    subprocess.run([program(), name, "--config", spillway.file], check=True, capture_output=True, timeout=60)
    took = time.monotonic() - began
    if name == "upgrade":
        spillway.upgraded()
    time.sleep(max(0, began + 3 - time.monotonic()))
    return {"what": name, "took ms": round(1000 * took), "rate": before[0], "p99 ms before": before[1],
            "p99 ms of each second after": [load.high(began + i, began + i + 1)[1] for i in range(3)]}


def measure():
    """Yields a row for each round, then the sum."""
    adopt_orphans()
    with Cluster() as cluster, Spillway([cluster.primary], [RULE]) as spillway, Load(spillway.port) as load:
        for name in ("reload", "upgrade"):
            for _ in range(ROUNDS):
                yield _round(spillway, load, name)
            yield {"what": name, "operations so far": len(load.times), "failed": load.failures}
