"""The rows of reads that look into long arrays, on a real mongod."""

import statistics
import time

from bench.arms import ARRAY, DATABASE, RULED
from bench.edits import connect, element
from bench.edits import IndexedSpillway
from bench.spill import DIRECT, LONG, pinned_cluster, wait_until_spilled
from bench.table import Row
from support import exact


def timed(connection, command):
    """Seconds, and the documents of the reply."""
    body = exact.document({**command, "$db": DATABASE})
    began = time.perf_counter()
    reply = connection.call(body)
    return time.perf_counter() - began, reply


def alternate(arms, command, rounds):
    """{arm: median seconds} of one read in both arms, in turn; both must find the same."""
    times = {name: [] for name in arms}
    for _ in range(rounds):
        found = []
        for name, connection in arms.items():
            seconds, reply = timed(connection, {"find": name, **command})
            times[name].append(seconds)
            found.append(reply.plain()["cursor"]["firstBatch"])
        if found[0] != found[1] or not found[0]:
            raise RuntimeError(f"{command}: different answers")
    return {name: statistics.median(seconds) for name, seconds in times.items()}


def read_long(scale):
    """The last elements, one document found by an element, the document without its array."""
    reads = (
        ("the last 20", {"filter": {"_id": LONG}, "projection": {ARRAY: {"$slice": -20}}}, 10.0),
        ("20 from the middle", {"filter": {"_id": LONG}, "projection": {ARRAY: {"$slice": [scale.found // 2, 20]}}}, 1.0),
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
                times = alternate(arms, command, 20 * scale.rounds)
                detail = {f"{arm}, p50 us": round(1e6 * seconds) for arm, seconds in times.items()}
                rows.append(Row(f"{name} of {scale.found:,} subdocuments: times faster than direct",
                                times[DIRECT] / times[RULED], at_least=at_least, least=0.05, detail=detail))
    return rows
