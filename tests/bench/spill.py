"""The spill's rows: what long arrays cost with and without Spillway, on a real mongod."""

import contextlib

from bench.arms import ARRAY, DATABASE, PINNED, RULED, UNRULED, Load, PinnedSpillway, Slices, interleave
from bench.table import Row
from support.cluster import Cluster
from support.process import wait_for

DIRECT = "direct"  # a third collection, so that each arm's arrays grow by its own pushes alone
LONG = 0           # _id of the outlier; the ordinary documents follow it
ORDINARY = 1000    # many of them, so that none of them grows much while it is measured
# With the drivers' default a replica set waits for its disk; with w: 1 what is before it shows.
ACKNOWLEDGED = {"": 0, ", w: 1": 1}


def pinned_cluster():
    """With its test commands a mongod parses each cursor's reply once more before it sends it."""
    cluster = Cluster(flush_ms=100)
    for member in cluster.members:
        command = ["enableTestCommands=0" if part == "enableTestCommands=1" else part for part in member.command]
        member.command = PINNED + command
    return cluster


def insert_ordinary(database, length):
    documents = [{"_id": LONG + 1 + i, ARRAY: list(range(length))} for i in range(ORDINARY)]
    for name in (RULED, UNRULED, DIRECT):
        database[name].insert_many(documents)


def wait_until_spilled(database, elements):
    """Main keeps its head alone, the overflow is linked: the layout at rest."""
    pipeline = [
        {"$match": {"_id": LONG}},
        {"$project": {"kept": {"$size": f"${ARRAY}"}, "state": f"$_spill.{ARRAY}"}},
    ]

    def at_rest():
        found = next(database[RULED].aggregate(pipeline))
        state = found.get("state", {})
        return state.get("n", 0) + found["kept"] == elements and state.get("h") == found["kept"]

    wait_for(at_rest, f"{elements} elements to be spilled", 120, 0.05)


@contextlib.contextmanager
def loads(ports, **common):
    """ports: name -> (port, options)."""
    with contextlib.ExitStack() as stack:
        yield {
            name: stack.enter_context(Load(port, **{**common, **options}))
            for name, (port, options) in ports.items()
        }


def push_rows(scale, arms, name, arm, base, at_most):
    """One row for each write concern: the ratio of two arms' p50."""
    rows = []
    for words, members in ACKNOWLEDGED.items():
        with loads(arms, operation="push", array=ARRAY, members=members) as all_:
            slices = Slices(interleave(all_, scale.rounds, scale.seconds))
        detail = slices.detail("p50_us", "p99_us", "per_second")
        detail[f"throughput, {arm} / {base}"] = slices.ratio(arm, base, "per_second")
        for other in ("pass-through", "direct long"):
            if other in arms:
                detail[f"{other} / direct"] = slices.ratio(other, "direct", "p50_us")
        rows.append(Row(name + words, slices.ratio(arm, base, "p50_us"), at_most=at_most,
                        detail=detail))
    return rows


def push_ordinary(scale):
    some = {"first_id": LONG + 1, "ids": ORDINARY}
    with pinned_cluster() as cluster, cluster.client() as client:
        insert_ordinary(client[DATABASE], 10)
        with PinnedSpillway(cluster.primary) as spillway:
            arms = {
                "direct": (cluster.primary.port, {"collection": DIRECT, **some}),
                "pass-through": (spillway.port, {"collection": UNRULED, **some}),
                "ruled": (spillway.port, {"collection": RULED, **some}),
            }
            return push_rows(scale, arms, "$push on an ordinary ruled document / pass-through",
                             "ruled", "pass-through", 1.1)


def push_long(scale):
    short = {"first_id": LONG + 1, "ids": ORDINARY}
    with pinned_cluster() as cluster, cluster.client() as client:
        database = client[DATABASE]
        insert_ordinary(database, 100)
        for name in (RULED, DIRECT):
            database[name].insert_one({"_id": LONG, ARRAY: list(range(scale.long))})
        with PinnedSpillway(cluster.primary) as spillway:
            wait_until_spilled(database, scale.long)
            arms = {
                "direct": (cluster.primary.port, {"collection": DIRECT, **short}),
                "direct long": (cluster.primary.port, {"collection": DIRECT, "first_id": LONG}),
                "short": (spillway.port, {"collection": RULED, **short}),
                "long": (spillway.port, {"collection": RULED, "first_id": LONG}),
            }
            return push_rows(scale, arms, f"$push on a spilled array of {scale.long:,} / of 100",
                             "long", "short", 1.3)


def find_long(scale):
    """Whole arrays; what a relay alone costs stands beside it."""
    subdocuments = [{"u": i, "t": f"{i:020d}"} for i in range(scale.found)]
    return [find_row(scale, "subdocuments", subdocuments, 1.5),
            find_row(scale, "ints", list(range(10 * scale.found)), 2.2)]


def find_row(scale, kind, elements, at_most):
    with pinned_cluster() as cluster, cluster.client() as client:
        database = client[DATABASE]
        for name in (RULED, DIRECT):
            database[name].insert_one({"_id": LONG, ARRAY: elements})
        with PinnedSpillway(cluster.primary) as spillway:
            wait_until_spilled(database, len(elements))
            arms = {
                "direct": (cluster.primary.port, {"collection": DIRECT}),
                "pass-through": (spillway.port, {"collection": DIRECT}),
                "spilled": (spillway.port, {"collection": RULED}),
            }
            with loads(arms, operation="find", first_id=LONG) as all_:
                pieces = interleave(all_, scale.rounds, scale.seconds)
    require_equal_sizes(pieces)
    slices = Slices(pieces)
    detail = slices.detail("p50_us", "p99_us")
    detail["pass-through / direct"] = slices.ratio("pass-through", "direct", "p50_us")
    return Row(f"whole find of {len(elements):,} spilled {kind} / mongod's own",
               slices.ratio("spilled", "direct", "p50_us"), at_most=at_most, detail=detail)


def require_equal_sizes(pieces):
    """A find that brought fewer elements would look fast."""
    sizes = {name: slices[0]["bytes"] / slices[0]["operations"] for name, slices in pieces.items()}
    if max(sizes.values()) - min(sizes.values()) > 64:
        raise RuntimeError(f"replies of different sizes: {sizes}")
