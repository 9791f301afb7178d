"""The rows of reads that look into long arrays, on a real mongod."""

import contextlib
import statistics
import time

from bench.arms import ARRAY, DATABASE, RULED, PinnedSpillway, rule
from bench.edits import IndexedSpillway, connect, element
from bench.relay import count_instructions
from bench.spill import DIRECT, LONG, pinned_cluster, wait_until_spilled
from bench.table import Row
from support import exact
from support.process import wait_for

MANY = 1_000_000
SLICE = 10
SPILLED = 100


def timed(connection, command):
    """Seconds, and the documents of the reply."""
    body = exact.document({**command, "$db": DATABASE})
    began = time.perf_counter()
    reply = connection.call(body)
    return time.perf_counter() - began, reply


def alternate(arms, command, rounds):
    """{arm: median seconds} of one read, in slices of each arm in turn; all must find the same. What comes first in a
    slice finds the processor's caches full of the other arm's affairs, and isn't counted."""
    times = {name: [] for name in arms}
    for _ in range(rounds):
        found = []
        for name, connection in arms.items():
            slice_ = [timed(connection, {"find": name, **command}) for _ in range(SLICE)]
            times[name] += [seconds for seconds, _ in slice_[1:]]
            found.append(slice_[-1][1].plain()["cursor"]["firstBatch"])
        if found[0] != found[1] or not found[0]:
            raise RuntimeError(f"{command}: different answers")
    return {name: statistics.median(seconds) for name, seconds in times.items()}


def aggregate(connection, name, pipeline):
    """Seconds, and the documents; all in one reply."""
    seconds, reply = timed(connection, {"aggregate": name, "pipeline": pipeline, "cursor": {"batchSize": MANY}})
    cursor = reply.plain()["cursor"]
    if cursor["id"]:
        raise RuntimeError("too many documents for one reply")
    return seconds, cursor["firstBatch"]


def insert_many(database, scale, length, outliers):
    """Documents of 10 elements; in every `step` of them stands an outlier, whose elements are all its own."""
    step = scale.documents // outliers
    for first in range(0, scale.documents, 1000):
        documents = []
        for i in range(first, first + 1000):
            outlier = i % step == step // 2
            own, common = [i * length + k for k in range(length)], [-1 - (i + k) % 100 for k in range(10)]
            documents.append({"_id": i, "n": i % 10, ARRAY: own if outlier else common})
        for name in (DIRECT, RULED):
            database[name].insert_many(documents, ordered=False)


def wait_until_all_spilled(database, outliers, length):
    wait_for(lambda: database[RULED].count_documents({f"_spill.{ARRAY}.n": length - rule()["threshold"]}) == outliers,
             f"{outliers} arrays to be spilled", 300, 0.1)


def aggregate_many(scale):
    """Whole collections with few outliers: ordinary documents must not pay for them."""
    pipelines = (
        ("$project {$size}", [{"$project": {"n": {"$size": f"${ARRAY}"}}}]),
        ("$unwind, $group", [{"$unwind": f"${ARRAY}"}, {"$match": {ARRAY: {"$lt": 0}}},
                             {"$group": {"_id": f"${ARRAY}", "n": {"$sum": 1}}}, {"$sort": {"_id": 1}}]),
    )
    rows = []
    with pinned_cluster() as cluster, cluster.client() as client:
        insert_many(client[DATABASE], scale, 1000, scale.outliers)
        with PinnedSpillway(cluster.primary) as spillway:
            wait_until_all_spilled(client[DATABASE], scale.outliers, 1000)
            arms = connect(cluster.primary.port, spillway.port)
            for name, pipeline in pipelines:
                times, found = {arm: [] for arm in arms}, {}
                for _ in range(scale.rounds):
                    for arm, connection in arms.items():
                        seconds, found[arm] = aggregate(connection, arm, pipeline)
                        times[arm].append(seconds)
                if found[DIRECT] != found[RULED]:
                    raise RuntimeError(f"{name}: different answers")
                ratio = statistics.median(ruled / direct for ruled, direct in zip(times[RULED], times[DIRECT]))
                detail = {f"{arm}, p50 ms": 1e3 * statistics.median(seconds) for arm, seconds in times.items()}
                rows.append(Row(f"aggregate ({name}) of {scale.documents:,} documents, {scale.outliers} outliers / "
                                f"direct",
                                ratio, at_most=2.0, detail=detail))
    return rows


class SortedSpillway(PinnedSpillway):
    """With an index on the overflow's elements."""

    def __init__(self, server):
        super().__init__(server)
        made = rule()
        made["overflow"]["indexes"] = [{"keys": {ARRAY: 1}}]
        self.settings["rules"] = [made]


def find_element(scale):
    """One document found by an element, by indexes, among outliers of two lengths and numbers."""
    rows = []
    for outliers, length in ((scale.outliers, 1000), (10 * scale.outliers, 400)):
        step = scale.documents // outliers
        outlier = step // 2
        with pinned_cluster() as cluster, cluster.client() as client:
            database = client[DATABASE]
            insert_many(database, scale, length, outliers)
            # Elements that ordinary documents share would be found by many.
            for name in (DIRECT, RULED):
                database[name].update_one({"_id": outlier + 1}, {"$set": {f"{ARRAY}.3": -1000}})
                database[name].create_index(ARRAY)
            with SortedSpillway(cluster.primary) as spillway:
                wait_until_all_spilled(database, outliers, length)
                arms = connect(cluster.primary.port, spillway.port)
                for name, value, at_most in (("an ordinary document", -1000, 2.0),
                                             ("an outlier, by its tail", outlier * length + length - 50, 2.0)):
                    times = alternate(arms, {"filter": {ARRAY: value}, "projection": {"n": 1}}, 10 * scale.rounds)
                    detail = {f"{arm}, p50 us": round(1e6 * seconds) for arm, seconds in times.items()}
                    rows.append(Row(f"find {{f: x}} by indexes, {name} among {scale.documents:,}, {outliers:,} "
                                    f"outliers / direct",
                                    times[RULED] / times[DIRECT], at_most=at_most, detail=detail))
    return rows


def find_member(scale):
    """One document, named by its _id, asked for an element: at the head, in the middle, the last one, none."""
    lengths = ((scale.found // 100, 1.5), (6 * scale.found // 100, 1.3), (scale.found, 0.5))
    rows = []
    with pinned_cluster() as cluster, cluster.client() as client:
        database = client[DATABASE]
        for name in (DIRECT, RULED):
            for length, _ in lengths:
                database[name].insert_one({"_id": length, ARRAY: [element(i) for i in range(length)]})
        with IndexedSpillway(cluster.primary, "1s", "60s") as spillway:
            longer = {f"{ARRAY}.{rule()['threshold']}": {"$exists": True}}
            wait_for(lambda: not database[RULED].count_documents(longer), "all arrays to be spilled", 300, 0.1)
            arms = connect(cluster.primary.port, spillway.port)
            for length, at_most in lengths:
                times = {name: [] for name in arms}
                for _ in range(10 * scale.rounds):
                    for value, found in ((10, 1), (length // 2, 1), (length - 1, 1), (length, 0)):
                        for name, connection in arms.items():
                            command = {"find": name, "filter": {"_id": length, f"{ARRAY}.u": value},
                                       "projection": {"_id": 1}, "limit": 1, "singleBatch": True}
                            seconds, reply = timed(connection, command)
                            times[name].append(seconds)
                            if len(reply.plain()["cursor"]["firstBatch"]) != found:
                                raise RuntimeError(f"{command}: {reply.plain()}")
                direct, ruled = (statistics.median(times[name]) for name in (DIRECT, RULED))
                rows.append(Row(f"find {{_id, f.u: x}} of {length:,} subdocuments, indexed overflow / direct",
                                ruled / direct, at_most=at_most,
                                detail={"direct, p50 us": round(1e6 * direct),
                                        "Spillway, p50 us": round(1e6 * ruled)}))
    return rows


def read_long(scale):
    """The last elements, one document found by an element, the document without its array."""
    reads = (
        ("the last 20", {"filter": {"_id": LONG}, "projection": {ARRAY: {"$slice": -20}}}, 10.0),
        ("20 from the middle", {"filter": {"_id": LONG}, "projection": {ARRAY: {"$slice": [scale.found // 2, 20]}}},
         1.0),
        ("without the array", {"filter": {"_id": LONG}, "projection": {ARRAY: 0}}, 5.0),
    )
    rows = []
    with pinned_cluster() as cluster, cluster.client() as client:
        for name in (DIRECT, RULED):
            client[DATABASE][name].insert_one({"_id": LONG, "n": 1, ARRAY: [element(i) for i in range(scale.found)]})
        with IndexedSpillway(cluster.primary, "1s", "60s") as spillway:
            wait_until_spilled(client[DATABASE], scale.found)
            arms = connect(cluster.primary.port, spillway.port)
            for name, command, at_least in reads:
                times = alternate(arms, command, 4 * scale.rounds)
                detail = {f"{arm}, p50 us": round(1e6 * seconds) for arm, seconds in times.items()}
                rows.append(Row(f"{name} of {scale.found:,} subdocuments: times faster than direct",
                                times[DIRECT] / times[RULED], at_least=at_least, detail=detail))
    return rows


def merged_instructions(scale):
    """What it costs to put an array of 1,000 elements together, by the element."""
    length, rows = 1000, []
    kinds = (("ints", 30.0, list(range(length))),
             # Of 100 bytes, type and name apart.
             ("elements of 100 bytes", 60.0, [{"u": i, "t": f"{i:080d}"} for i in range(length)]))
    with pinned_cluster() as cluster, cluster.client() as client:
        for i, (_, _, array) in enumerate(kinds):
            client[DATABASE][RULED].insert_one({"_id": LONG + i, ARRAY: array})
        with PinnedSpillway(cluster.primary):
            wait_until_all_spilled(client[DATABASE], len(kinds), length)
        for i, (name, at_most, _) in enumerate(kinds):
            count = count_instructions(scale, server=lambda: contextlib.nullcontext(cluster.primary),
                                       collection=RULED, first_id=LONG + i)
            rows.append(Row(f"user instructions of a merged reply of {length:,} {name}, an element",
                            count / length, at_most=at_most, detail={"an operation": count}))
    return rows


def overflow_queries(scale):
    """How often the overflow is asked for one reply with many spilled documents."""
    length = rule()["threshold"] + scale.found // 100
    with pinned_cluster() as cluster, cluster.client() as client:
        database = client[DATABASE]
        database[RULED].insert_many({"_id": i, ARRAY: list(range(length))} for i in range(SPILLED))
        with PinnedSpillway(cluster.primary) as spillway:
            wait_until_all_spilled(database, SPILLED, length)
            database.command("profile", 2)
            found = connect(cluster.primary.port, spillway.port)[RULED].call(exact.document(
                {"find": RULED, "filter": {}, "batchSize": SPILLED, "$db": DATABASE})).plain()
            database.command("profile", 0)
            asked = database["system.profile"].count_documents({
                "ns": {"$nin": [f"{DATABASE}.{RULED}", f"{DATABASE}.system.profile"]},
                "op": {"$in": ["query", "getmore"]}})
    if [len(document[ARRAY]) for document in found["cursor"]["firstBatch"]] != [length] * SPILLED:
        raise RuntimeError("documents or elements are missing")
    return [Row(f"commands to the overflow for {SPILLED} spilled documents of {length:,} ints in one reply", asked,
                at_most=2, least=1)]
