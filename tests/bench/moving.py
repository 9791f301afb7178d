"""The rows of `spillway migrate` and `undo`: how fast they move, and what applications feel of `migrate`."""

import contextlib
import signal
import statistics
import time

from bson import encode
from bson.raw_bson import RawBSONDocument

from bench.arms import ARRAY, DATABASE, PINNED, RULED, PinnedSpillway, Slices, alternate, rule
from bench.pushes import TEXT, elements
from bench.spill import LONG, ORDINARY, insert_ordinary, loads, pinned_cluster
from bench.table import Row
from support.cluster import Cluster
from support.operate import Operator
from support.process import wait_for

LENGTH = 2000       # of an outlier's array
FIRST = 1_000_000   # their _ids: behind the ordinary documents
RATE = 50           # documents a second
CHUNK = 10_000      # documents of one insertMany
QUIET, BESIDE = "alone", "while migrate runs"
MIGRATE, INSERT, UNDO = "migrate", "insertMany", "undo"
OVERFLOW = f"{RULED}_{ARRAY}_overflow"


def outliers(count, length):
    array = elements(length)
    return [RawBSONDocument(encode({"_id": FIRST + i, ARRAY: array})) for i in range(count)]


class Moving:
    """Outliers that are moved, and the batches that this makes inserted by a driver."""

    def __init__(self, client, operator, count, length):
        self.database, self.operator = client[DATABASE], operator
        self.documents, self.elements = outliers(count, length), count * (length - rule()["threshold"])
        raw = self.database.codec_options.with_options(document_class=RawBSONDocument)
        self.migrate()
        self.batches = list(self.database.get_collection(OVERFLOW, codec_options=raw).find())

    def migrate(self):
        """Elements a second, the program's start included."""
        self.database[OVERFLOW].drop()
        self.database[RULED].drop()
        self.database[RULED].insert_many(self.documents)
        began = time.monotonic()
        done = self.operator.run("migrate", "--execute", code=0)
        spent = time.monotonic() - began
        assert done["elements"] == self.elements
        return self.elements / spent

    def insert(self):
        copies = self.database.copies
        copies.drop()
        copies.create_index([("owner", 1), ("_spill.i", 1)], unique=True)
        began = time.monotonic()
        copies.insert_many(self.batches)
        return self.elements / (time.monotonic() - began)


def migrate_speed(scale):
    """Elements a second, against an insertMany of the same batches."""
    detail, ratios = {}, {}
    with Cluster(flush_ms=100) as cluster, Operator(cluster, [rule()]) as operator, cluster.client() as client:
        for length in (LENGTH, LENGTH // 4):
            moving = Moving(client, operator, scale.outliers * LENGTH // length, length)
            found = alternate({MIGRATE: moving.migrate, INSERT: moving.insert}, scale.rounds)
            of = sorted(ours / theirs for ours, theirs in zip(found[MIGRATE], found[INSERT]))
            ratios[length] = of[len(of) // 2]
            detail[f"arrays of {length}, ratio"] = ratios[length]
            detail.update({f"arrays of {length}, {name}": sorted(rates)[len(rates) // 2]
                           for name, rates in found.items()})
    return [Row(f"migrate, elements a second, arrays of {LENGTH} / insertMany of the same batches",
                ratios[LENGTH], at_least=0.5, detail=detail)]


def undo_speed(scale):
    """Documents a second, against `migrate` of the same documents, slightly above the threshold. Whole programs."""
    count, length = scale.undone, rule()["threshold"] + 10
    rates = {MIGRATE: [], UNDO: []}
    quick = {**rule(), "gc_delay": "0s"}  # undo would wait that long
    with Cluster(flush_ms=100) as cluster, Operator(cluster, [quick]) as operator, cluster.client() as client:
        client[DATABASE][RULED].insert_many(outliers(count, length))
        for _ in range(scale.rounds):
            for name, each in rates.items():
                began = time.monotonic()
                done = operator.run(name, "--execute", code=0, timeout=600)
                each.append(count / (time.monotonic() - began))
                assert done["documents"] == count
    of = sorted(ours / theirs for ours, theirs in zip(rates[UNDO], rates[MIGRATE]))
    detail = {f"{name}, documents a second": sorted(each)[len(each) // 2] for name, each in rates.items()}
    return [Row(f"undo, documents a second, {count} arrays of {length} / migrate of the same documents",
                of[len(of) // 2], at_least=0.5, detail=detail)]


@contextlib.contextmanager
def migrating(database, operator):
    """A run that has moved something, and goes on."""
    def moved():
        return database[RULED].count_documents({"_id": {"$gte": FIRST}, "_spill": {"$exists": True}})

    before = moved()
    command = PINNED + [str(word) for word in operator.command("migrate", "--execute", "--rate", str(RATE))]
    with contextlib.ExitStack() as stack:
        started = operator.start_command(command)
        stack.callback(started.communicate)
        stack.callback(started.send_signal, signal.SIGINT)
        wait_for(lambda: moved() > before, "migrate to be at work", 60, 0.02)
        yield
        assert started.poll() is None, "migrate came to its end too early"


def migrate_latency(scale):
    """An application's p99 through Spillway: pushes to ordinary documents of the same collection."""
    with pinned_cluster() as cluster, cluster.client() as client, Operator(cluster, [rule()]) as operator:
        database = client[DATABASE]
        insert_ordinary(database, 10)
        spillway = PinnedSpillway(cluster.primary)
        spillway.settings["rules"][0]["sweep"] = "off"
        with spillway:
            count = int(scale.rounds * RATE * (scale.seconds + 2))
            database[RULED].insert_many(outliers(count, LENGTH // 4))
            arm = {QUIET: (spillway.port, {"collection": RULED, "first_id": LONG + 1, "ids": ORDINARY})}
            with loads(arm, operation="push", array=ARRAY, text=TEXT) as all_:
                def beside():
                    with migrating(database, operator):
                        return all_[QUIET].run(scale.seconds)

                all_[QUIET].run(scale.seconds / 4)
                slices = Slices(alternate({QUIET: lambda: all_[QUIET].run(scale.seconds), BESIDE: beside},
                                          scale.rounds), QUIET)
    detail = slices.detail("p50_us", "p99_us", "per_second")
    detail["p50, ratio"] = slices.ratio(BESIDE, QUIET, "p50_us")
    return [Row(f"p99 of a $push while migrate --rate {RATE} runs / alone",
                slices.ratio(BESIDE, QUIET, "p99_us"), at_most=2, detail=detail)]


def insert_existing(collection, count):
    """Documents of before the first start. Beside every hundredth stands an outlier, whose _id is no whole number."""
    short, long = ({ARRAY: elements(length)} for length in (10, 2 * rule()["threshold"]))
    for first in range(FIRST, FIRST + count, CHUNK):
        numbers = range(first, min(first + CHUNK, FIRST + count))
        made = [{"_id": i, **short} for i in numbers] + [{"_id": i + 0.5, **long} for i in numbers[::100]]
        collection.insert_many([RawBSONDocument(encode(each)) for each in made], ordered=False)


def first_sweep(scale):
    """An application's p99 while a Spillway that has just started looks at what is there, against afterwards."""
    with pinned_cluster() as cluster, cluster.client() as client:
        insert_existing(client[DATABASE][RULED], scale.existing)
        spillway = PinnedSpillway(cluster.primary)
        spillway.settings["rules"][0]["existing"] = "wait"
        with spillway:
            arm = {BESIDE: (spillway.port, {"collection": RULED, "first_id": FIRST, "ids": scale.existing})}
            slices = {True: [], False: []}
            with loads(arm, operation="push", array=ARRAY, text=TEXT) as all_:
                while len(slices[False]) < scale.rounds:
                    before = spillway.metrics()["spillway_sweeps_total"] == 0
                    piece = all_[BESIDE].run(scale.seconds)
                    if before == (spillway.metrics()["spillway_sweeps_total"] == 0):
                        slices[before].append(piece)
            waiting = spillway.metrics()["spillway_existing_waiting"]
    if not slices[True] or waiting < scale.existing / 100:
        raise RuntimeError(f"the first sweep took no time, or met {waiting} outliers")
    during, behind = (statistics.median(piece["p99_us"] for piece in slices[each]) for each in (True, False))
    return [Row(f"p99 of a $push during the first sweep of {scale.existing:,} documents / behind it", during / behind,
                at_most=1.2, detail={"p99 during it, us": during, "p99 behind it, us": behind,
                                     "seconds of it": len(slices[True]) * scale.seconds})]
