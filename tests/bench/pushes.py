"""The rows of pushes to one spilled document, the mover at work: time, and mongod's CPU.

Direct pushes go to an array of 1,000 elements that is refilled, so that it stays about that long.
"""

import contextlib
import statistics
import time

from bench.arms import ARRAY, DATABASE, RULED, UNRULED, PinnedSpillway, Slices, alternate, interleave, rule
from bench.spill import ACKNOWLEDGED, DIRECT, LONG, ORDINARY, insert_ordinary, loads, pinned_cluster, wait_until_spilled
from bench.table import Row
from support.process import wait_for

KEPT = 1000        # elements of the direct arm's array
REFILL = 250       # pushes, where its length matters and the time does not
WARM = 0.25        # seconds
TEXT = f"{0:020d}"
CONSTANT = {"operation": "push", "array": ARRAY}
PASS, SPILLED = "pass-through", "spilled"
KEPT_SHORT = f"direct, refilled every {REFILL}"


def elements(count):
    return [{"u": number, "t": TEXT} for number in range(count)]


def push_spilled(scale):
    """The p50 of a push, against one through Spillway on arrays as long as what main keeps."""
    arms = {
        PASS: {"collection": UNRULED, "first_id": LONG + 1, "ids": ORDINARY},
        SPILLED: {"collection": RULED, "first_id": LONG},
    }
    slices = {}
    with pinned_cluster() as cluster, cluster.client() as client:
        insert_ordinary(client[DATABASE], rule()["threshold"])
        client[DATABASE][RULED].insert_one({"_id": LONG, ARRAY: list(range(scale.found))})
        with PinnedSpillway(cluster.primary) as spillway:
            wait_until_spilled(client[DATABASE], scale.found)
            ports = {name: (spillway.port, options) for name, options in arms.items()}
            for words, members in ACKNOWLEDGED.items():
                with loads(ports, members=members, **CONSTANT) as all_:
                    slices[words] = Slices(interleave(all_, scale.rounds, scale.seconds), PASS)
    detail = {}
    for words, found in slices.items():
        figures = found.detail("p50_us", "p99_us", "per_second")
        figures["p50, ratio"] = found.ratio(SPILLED, PASS, "p50_us")
        detail.update({name + words: value for name, value in figures.items()})
    return [Row("$push on a spilled document / pass-through, p50",
                slices[""].ratio(SPILLED, PASS, "p50_us"), at_most=1.1, detail=detail)]


class Hot:
    """One hot document straight at mongod, another through Spillway, spilled."""

    def __init__(self, cluster, client, spillway):
        self.server = cluster.primary
        self.database = client[DATABASE]
        self.spillway = spillway

    def refill(self):
        self.database[DIRECT].replace_one({"_id": LONG}, {ARRAY: elements(KEPT)}, upsert=True)

    @contextlib.contextmanager
    def loads(self, members):
        """One load for each arm, warm."""
        arms = {DIRECT: (self.server.port, {"collection": DIRECT}),
                SPILLED: (self.spillway.port, {"collection": RULED})}
        with loads(arms, first_id=LONG, text=TEXT, members=members, **CONSTANT) as all_:
            refilled(self, all_[DIRECT], WARM)
            sustained(self, all_[SPILLED], WARM)
            yield all_

    def counted(self, name):
        """The sum of one of Spillway's metrics, whatever its labels."""
        return sum(value for key, value in self.spillway.metrics().items()
                   if key.partition("{")[0] == f"spillway_{name}")

    def moved(self):
        return self.counted("moved_elements_total")

    def wait_until_moved(self, moved):
        """Asks Spillway, not mongod, whose CPU is measured."""
        wait_for(lambda: self.moved() >= moved, "the tail to be moved", 60, 0.02)

    def cpu(self):
        """Seconds of mongod's user and system time: its threads' clock, finer than /proc/PID/stat."""
        return time.clock_gettime((~self.server.pid << 3) | 2)


@contextlib.contextmanager
def hot():
    with pinned_cluster() as cluster, cluster.client() as client:
        length = 2 * KEPT
        client[DATABASE][RULED].insert_one({"_id": LONG, ARRAY: elements(length)})
        with PinnedSpillway(cluster.primary) as spillway:
            wait_until_spilled(client[DATABASE], length)
            yield Hot(cluster, client, spillway)


def sustained(document, load, seconds):
    """A slice on the spilled document, and the rest of the tail after it."""
    moved = document.moved()
    piece = load.run(seconds)
    document.wait_until_moved(moved + piece["operations"])
    return piece


def refilled(document, load, seconds):
    document.refill()
    return load.run(seconds)


def kept(document, load, seconds):
    """As refilled(), but so often that the array hardly grows; the time of refills is left out."""
    pieces = []
    while sum(piece["seconds"] for piece in pieces) < seconds:
        document.refill()
        pieces.append(load.count(REFILL))
    spent = sum(piece["seconds"] for piece in pieces)
    return {**pieces[0], "operations": REFILL * len(pieces), "seconds": spent,
            "per_second": REFILL * len(pieces) / spent,
            "p50_us": statistics.median(piece["p50_us"] for piece in pieces),
            "p99_us": statistics.median(piece["p99_us"] for piece in pieces)}


def hot_document(scale):
    """Pushes a second while the mover takes away what they bring."""
    slices = {}
    with hot() as document:
        for words, members in ACKNOWLEDGED.items():
            with document.loads(members) as all_:
                slices[words] = Slices(alternate({
                    DIRECT: lambda: refilled(document, all_[DIRECT], scale.seconds),
                    KEPT_SHORT: lambda: kept(document, all_[DIRECT], scale.seconds),
                    SPILLED: lambda: sustained(document, all_[SPILLED], scale.seconds),
                }, scale.rounds))
    detail = {}
    for words, found in slices.items():
        figures = found.detail("per_second", "p50_us", "p99_us")
        for base in (DIRECT, KEPT_SHORT):
            figures[f"throughput, {SPILLED} / {base}"] = found.ratio(SPILLED, base, "per_second")
        detail.update({name + words: value for name, value in figures.items()})
    return [Row("pushes a second on one hot spilled document / direct on 1,000 elements",
                slices[""].ratio(SPILLED, DIRECT, "per_second"), at_least=1.2, detail=detail)]


def direct_cpu(document, load, operations):
    """CPU of pushes alone: what refills cost is left out."""
    spent = 0
    for done in range(0, operations, REFILL):
        document.refill()
        began = document.cpu()
        load.count(min(REFILL, operations - done))
        spent += document.cpu() - began
    return spent


def spilled_cpu(document, load, operations):
    moved, began = document.moved(), document.cpu()
    load.count(operations)
    document.wait_until_moved(moved + operations)
    return document.cpu() - began


def mongod_cpu(scale):
    """mongod's CPU for so many pushes, until the mover is at rest again."""
    results = {}
    with hot() as document:
        for words, members in ACKNOWLEDGED.items():
            with document.loads(members) as all_:
                results[words] = alternate({
                    DIRECT: lambda: direct_cpu(document, all_[DIRECT], scale.hot),
                    SPILLED: lambda: spilled_cpu(document, all_[SPILLED], scale.hot),
                }, max(2, scale.rounds // 2))
    detail, ratios = {}, {}
    for words, found in results.items():
        ratios[words] = statistics.median(
            ours / direct for ours, direct in zip(found[SPILLED], found[DIRECT]))
        detail["ratio" + words] = ratios[words]
        detail.update({f"{name}, us a push{words}": 1e6 * statistics.median(spent) / scale.hot
                       for name, spent in found.items()})
    return [Row(f"mongod's CPU for {scale.hot:,} pushes on a spilled document / direct on 1,000 elements",
                ratios[""], at_most=0.8, detail=detail)]
