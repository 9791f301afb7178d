"""The rows of edits: guarded pushes, $addToSet, whole-array edits, on a real mongod.

Two commands at a time, one straight at mongod on a plain collection and one through Spillway on a
spilled document, in turn; the figure is the ratio of their medians.
"""

import statistics
import time

from bench.arms import ARRAY, DATABASE, RULED, PinnedSpillway, rule
from bench.spill import DIRECT, LONG, pinned_cluster, wait_until_spilled
from bench.table import Row
from support import exact
from support.process import wait_for
from support.wire import Connection


class IndexedSpillway(PinnedSpillway):
    """With an index on the overflow's elements, and tails that move at once."""

    def __init__(self, server, quiet, gc_delay, **more):
        super().__init__(server)
        made = rule()
        made["overflow"]["indexes"] = [{"keys": {f"{ARRAY}.u": 1}}]
        made.update(settle="10ms", quiet=quiet, gc_delay=gc_delay, **more)
        self.settings["rules"] = [made]


def element(number):
    return {"u": number, "t": f"{number:020d}"}


def connect(server, spillway):
    return {DIRECT: Connection(server), RULED: Connection(spillway)}


class Pair:
    """Times one command in both arms, in turn."""

    def __init__(self, arms):
        self.arms = arms
        self.times = {DIRECT: [], RULED: []}

    def run(self, update, query=None, n=1):
        for name, connection in self.arms.items():
            statement = {"q": {"_id": LONG, **(query or {})}, "u": update}
            body = exact.document({"update": name, "updates": [statement], "$db": DATABASE})
            began = time.perf_counter()
            reply = connection.call(body).plain()
            self.times[name].append(time.perf_counter() - began)
            if reply.get("n") != n or reply.get("nModified") != n:
                raise RuntimeError(f"{name}: {reply}")

    def ratio(self):
        """Spillway's median by mongod's own."""
        direct, ruled = (statistics.median(self.times[name]) for name in (DIRECT, RULED))
        return ruled / direct

    def detail(self):
        return {f"{name}, p50 us": round(1e6 * statistics.median(times)) for name, times in self.times.items()}


def with_array(length, quiet, gc_delay, measure, **more):
    """The rows that `measure` makes of both arms whose arrays are of this length, Spillway's spilled."""
    with pinned_cluster() as cluster, cluster.client() as client:
        database = client[DATABASE]
        for name in (DIRECT, RULED):
            database[name].insert_one({"_id": LONG, ARRAY: [element(number) for number in range(length)]})
        with IndexedSpillway(cluster.primary, quiet, gc_delay, **more) as spillway:
            wait_until_spilled(database, length)
            return measure(connect(cluster.primary.port, spillway.port), database)


def membership(scale):
    """A guarded push, then $addToSet, each of what is not there yet."""
    def guarded(arms, _):
        pair = Pair(arms)
        for number in range(scale.found, scale.found + 10 * scale.rounds):
            pair.run({"$push": {ARRAY: element(number)}}, {f"{ARRAY}.u": {"$ne": number}})
        return pair

    def added(arms, _):
        pair = Pair(arms)
        for number in range(scale.found, scale.found + 10 * scale.rounds):
            pair.run({"$addToSet": {ARRAY: element(number)}})
        return pair

    names = ((guarded, "guarded push ($ne)"), (added, "$addToSet of a new element"))
    rows = []
    for measure, name in names:
        pair = with_array(scale.found, "1s", "60s", measure)
        rows.append(Row(f"{name}, {scale.found:,} subdocuments: times faster than direct", 1 / pair.ratio(),
                        at_least=8.0, detail=pair.detail()))
    return rows


def whole_edit(scale):
    """$pull of one element: the first edit of a burst folds the array back, the others find it whole."""
    rows = []
    for length in (max(scale.found // 10, 500), scale.found):
        def burst(arms, database, length=length):
            first, others = Pair(arms), Pair(arms)
            for start in range(scale.rounds):
                for i in range(5):
                    (others if i else first).run({"$pull": {ARRAY: {"u": 5 * start + i}}})
                left = length - 5 * (start + 1)
                wait_for(lambda left=left: database[RULED].count_documents(
                    {"_id": LONG, f"_spill.{ARRAY}.n": {"$gt": 0}}) == 1, "the array to spill again", 60, 0.02)
                wait_until_spilled(database, left)
            return first, others

        first, others = with_array(length, "200ms", scale.garbage, burst)
        rows.append(Row(f"$pull of one of {length:,}, first edit / direct", first.ratio(), at_most=4.0,
                        detail=first.detail()))
        rows.append(Row(f"$pull of one of {length:,}, following edits / direct", others.ratio(), at_most=1.2,
                        detail=others.detail()))
    return rows


IN_PLACE = {
    "$pull by a field": lambda number: ({"$pull": {ARRAY: {"u": number}}}, {}),
    "f.N": lambda number: ({"$set": {f"{ARRAY}.{number}.t": "changed"}}, {}),
    "f.$": lambda number: ({"$set": {f"{ARRAY}.$.t": "found"}}, {f"{ARRAY}.u": number}),
    "$pop": lambda _: ({"$pop": {ARRAY: 1}}, {}),
}
CHUNK = 20_000  # elements of one push


def edit_in_place(scale):
    """One element of an array that is too large to be folded back; then of one that is ten times as long."""
    def medians(arms, first):
        pairs = {name: Pair(arms) for name in IN_PLACE}
        for turn in range(1, scale.rounds + 1):
            for i, (name, make) in enumerate(IN_PLACE.items()):
                pairs[name].run(*make(first + turn * scale.found // (scale.rounds + 2) + i))
        return pairs

    def both(arms, database):
        first = medians(arms, 0)
        for number in range(scale.found, 10 * scale.found, CHUNK):
            each = [element(10 * scale.found + number + i) for i in range(min(CHUNK, 10 * scale.found - number))]
            Pair({RULED: arms[RULED]}).run({"$push": {ARRAY: {"$each": each}}})
        gone = 2 * scale.rounds
        wait_for(lambda: database[RULED].count_documents(
            {"_id": LONG, f"_spill.{ARRAY}.e.n": {"$gte": 10 * scale.found - gone - CHUNK}}), "the tail to move", 120)
        return first, medians({RULED: arms[RULED]}, 10)

    first, longer = with_array(scale.found, "1s", "60s", both, fold_limit="1B")
    rows = []
    for name in IN_PLACE:
        more = statistics.median(longer[name].times[RULED]) / statistics.median(first[name].times[RULED])
        rows.append(Row(f"edit in place of one of {scale.found:,}, {name} / direct", first[name].ratio(), at_most=0.5,
                        detail=first[name].detail()))
        rows.append(Row(f"edit in place of one of {10 * scale.found:,}, {name} / of {scale.found:,}", more,
                        at_most=2.0))
    return rows
