"""The rows of costs that surprise: a collection with many outliers, and reads and writes that need little of them.

Both arms have an index on the array. A read is drained: its getMores count. A row whose figure is far above its bar
stands on docs/compatibility.md.
"""

import dataclasses
import statistics
import time
from collections.abc import Callable

from bench.arms import ARRAY, DATABASE, RULED, PinnedSpillway, rule
from bench.reads import insert_many, wait_until_all_spilled
from bench.spill import DIRECT, pinned_cluster
from bench.table import Row
from support import exact
from support.wire import Connection

LENGTH = 4000          # elements of an outlier
RULES = 155            # on one collection
REFERENCES = "orders"  # a collection without a rule: what its documents name are elements
NAMED = 20
AT_MOST = 3.0


def connect(server, spillway):
    return {DIRECT: Connection(server, timeout=300), RULED: Connection(spillway, timeout=300)}


@dataclasses.dataclass
class World:
    """The collection, and which documents of it are outliers."""

    documents: int
    outliers: int

    @property
    def step(self):
        return self.documents // self.outliers

    def element(self, outlier):
        """One that only this outlier has, in its tail."""
        return (outlier * self.step + self.step // 2) * LENGTH + LENGTH - 50

    def elements(self, count):
        return [self.element(outlier) for outlier in range(min(count, self.outliers))]


def run(connection, command):
    """The seconds that it takes, the documents of its cursor, or else what it says that it did."""
    began = time.perf_counter()
    replies = [connection.call(exact.document({**command, "$db": DATABASE}))]
    name = next(iter(command))
    collection = command[name]
    while (number := cursor_of(replies[-1])) is not None and number[1] != b"\0" * 8:
        replies.append(connection.call(exact.document(
            {"getMore": number, "collection": collection, "$db": DATABASE})))
    seconds = time.perf_counter() - began
    said = [reply.plain() for reply in replies]
    if not all(reply.get("ok") for reply in said) or said[0].get("writeErrors"):
        raise RuntimeError(f"{str(command)[:500]}: {said[-1]}")
    if "cursor" not in said[0]:
        return seconds, {key: said[0][key] for key in ("ok", "n", "nModified") if key in said[0]}
    batches = [reply["cursor"].get("firstBatch", reply["cursor"].get("nextBatch")) for reply in said]
    return seconds, sorted((document for batch in batches for document in batch), key=repr)


def cursor_of(reply):
    return exact.find(reply.body, "cursor.id")


def compare(arms, commands, rounds, told=lambda answer: answer):
    """{arm: median seconds}. `commands` makes of an arm's collection and the round the command. What is `told` of both
    arms' answers has to be equal."""
    times = {name: [] for name in arms}
    for turn in range(rounds + 1):  # the first one finds nothing prepared, and isn't counted
        found = []
        for name, connection in arms.items():
            seconds, answer = run(connection, commands(name, turn))
            times[name].append(seconds)
            found.append(told(answer))
        if found[0] != found[1] or not found[0]:
            raise RuntimeError(f"{commands(RULED, turn)}: {str(found[0])[:300]} and {str(found[1])[:300]}")
    return {name: statistics.median(seconds[1:]) for name, seconds in times.items()}


def row_of(name, times):
    detail = {f"{arm}, p50 ms": 1e3 * seconds for arm, seconds in times.items()}
    return Row(f"{name} / direct", times[RULED] / times[DIRECT], at_most=AT_MOST, least=0.001, most=20_000,
               detail=detail)


def pipeline(*stages):
    return lambda name, _: {"aggregate": name, "pipeline": list(stages), "cursor": {}}


def from_other(*stages):
    """Of REFERENCES, with stages that reach the arm's collection: `stages` makes them of its name."""
    return lambda name, _: {"aggregate": REFERENCES, "cursor": {},
                            "pipeline": [stage(name) for stage in stages]}


def find(**options):
    return lambda name, _: {"find": name, **options}


@dataclasses.dataclass
class Cost:
    name: str
    command: Callable
    told: Callable = lambda answer: answer


def slices(_):
    whole = {"projection": {ARRAY: {"$slice": -5}}}
    return [
        Cost("a window of all documents", find(**whole)),
        Cost("a window of all documents, sorted", find(**whole, sort={"_id": 1})),
        Cost("a window of 2,000 documents by a condition", find(**whole, filter={"n": 3})),
    ]


def dropping(_):
    """Stages that drop the array or need nothing of it."""
    return [
        Cost("$replaceWith of other fields", pipeline({"$replaceWith": {"m": "$n"}})),
        Cost("$replaceRoot of another field", pipeline({"$replaceRoot": {"newRoot": "$d"}})),
        Cost("$set to $$REMOVE", pipeline({"$set": {ARRAY: "$$REMOVE"}})),
        Cost("$set to a constant", pipeline({"$set": {ARRAY: 1}})),
        Cost("$project of computed fields", pipeline({"$project": {"m": {"$add": ["$n", 1]}}})),
        Cost("$bucket", pipeline({"$bucket": {"groupBy": "$n", "boundaries": [0, 5, 10]}})),
        Cost("$bucketAuto", pipeline({"$bucketAuto": {"groupBy": "$n", "buckets": 4}})),
        Cost("$sortByCount", pipeline({"$sortByCount": "$n"})),
        Cost("$unwind of another array, $group", pipeline(
            {"$unwind": "$tags"}, {"$group": {"_id": "$tags", "m": {"$sum": 1}}})),
        Cost("$setWindowFields, $project", pipeline(
            {"$setWindowFields": {"partitionBy": "$n", "sortBy": {"_id": 1}, "output": {
                "m": {"$sum": "$n", "window": {"documents": ["unbounded", "current"]}}}}},
            {"$project": {"m": 1}})),
        Cost("$facet of groups", pipeline({"$facet": {
            "x": [{"$group": {"_id": "$n", "m": {"$sum": 1}}}, {"$sort": {"_id": 1}}], "y": [{"$count": "m"}]}})),
        Cost("$redact, $project", pipeline(
            {"$redact": {"$cond": [{"$gt": ["$n", 4]}, "$$KEEP", "$$PRUNE"]}}, {"$project": {"n": 1}})),
        Cost("$fill, $project", pipeline(
            {"$fill": {"output": {"m": {"value": 0}}}}, {"$project": {"m": 1}})),
        Cost("$unionWith another collection, $project", pipeline(
            {"$project": {"n": 1}}, {"$unionWith": REFERENCES})),
    ]


def joins(world):
    some = world.elements(NAMED)
    return [
        Cost("$lookup by an element", from_other(
            lambda name: {"$lookup": {"from": name, "localField": "x", "foreignField": ARRAY, "as": "found",
                                      "pipeline": [{"$project": {"n": 1}}]}})),
        Cost("$lookup with a condition on the array", from_other(
            lambda _: {"$limit": 5},
            lambda name: {"$lookup": {"from": name, "as": "found", "pipeline": [
                {"$match": {ARRAY: some[0]}}, {"$project": {"n": 1}}]}})),
        Cost("$unionWith with a condition on the array", from_other(
            lambda name: {"$unionWith": {"coll": name, "pipeline": [
                {"$match": {ARRAY: some[0]}}, {"$project": {"n": 1}}]}})),
        Cost("$unionWith with a condition on several elements", from_other(
            lambda name: {"$unionWith": {"coll": name, "pipeline": [
                {"$match": {ARRAY: {"$in": some}}}, {"$project": {"n": 1}}]}})),
    ]


def sorts(world):
    """By the array, or by its index."""
    slim = {"projection": {"n": 1}}
    return [
        Cost("a sort by the array with a limit", find(**slim, sort={ARRAY: -1}, limit=min(10, world.outliers))),
        # Ordinary documents have equal elements: mongod may return any of these.
        Cost("a sort by the array with a limit, ascending", find(**slim, sort={ARRAY: 1}, limit=10), len),
        Cost("a hint of the array's index by its keys", find(
            **slim, filter={ARRAY: world.element(0)}, hint={ARRAY: 1})),
        Cost("a hint of the array's index by its name", find(
            **slim, filter={ARRAY: world.element(0)}, hint=f"{ARRAY}_1")),
    ]


def writes(world):
    def update(name, turn):
        return {"update": name, "updates": [
            {"q": {ARRAY: {"$in": world.elements(400)}}, "u": {"$set": {"m": turn}}, "multi": True}]}

    return [Cost("updateMany by elements of the outliers", update)]


def longs(_):
    many = [{"$match": {"n": {"$gt": -1 - i}}} for i in range(900)]
    return [
        Cost("900 stages and a condition on the array", pipeline(*many, {"$match": {ARRAY: -5}}, {"$count": "m"})),
    ]


def insert_world(database, scale, world):
    insert_many(database, scale, LENGTH, world.outliers)
    for name in (DIRECT, RULED):
        database[name].update_many({}, [{"$set": {"d": {"n": "$n"}, "tags": ["x", "y"]}}])
    elements = world.elements(NAMED)
    database[REFERENCES].insert_many([{"_id": i, "x": element} for i, element in enumerate(elements)])


def costs(scale):
    """One row for each of them."""
    world = World(scale.costly, scale.costly_outliers)
    scale = dataclasses.replace(scale, documents=world.documents)
    rows = []
    with pinned_cluster() as cluster, cluster.client() as client:
        database = client[DATABASE]
        insert_world(database, scale, world)
        with PinnedSpillway(cluster.primary) as spillway:
            wait_until_all_spilled(database, world.outliers, LENGTH)
            arms = connect(cluster.primary.port, spillway.port)
            rows.append(row_of("updateMany by elements of the outliers, without an index",
                               compare(arms, writes(world)[0].command, scale.rounds)))
            for name in arms:
                run(arms[name], {"createIndexes": name, "indexes": [{"key": {ARRAY: 1}, "name": f"{ARRAY}_1"}]})
            for kind in (slices, dropping, joins, sorts, writes, longs):
                for cost in kind(world):
                    rows.append(row_of(cost.name, compare(arms, cost.command, scale.rounds, cost.told)))
            rows.append(row_of(f"deleteMany by an element each of {world.outliers} outliers",
                               delete_many(arms, database, world, scale.rounds)))
    return rows


def delete_many(arms, database, world, rounds):
    """The outliers go in turns, an equal part of them each time, from both collections."""
    part = max(world.outliers // (rounds + 1), 1)
    elements = world.elements(world.outliers)

    def command(name, turn):
        gone = elements[turn * part:(turn + 1) * part]
        return {"delete": name, "deletes": [{"q": {ARRAY: {"$in": gone}}, "limit": 0}]}

    times = compare(arms, command, min(rounds, world.outliers // part - 1))
    if database[RULED].count_documents({}) != database[DIRECT].count_documents({}):
        raise RuntimeError("the arms keep different documents")
    return times


class ManyRulesSpillway(PinnedSpillway):
    """With a rule for each of many arrays of one collection, which a pattern matches: an overflow is made when its
    array needs it."""

    def __init__(self, server):
        super().__init__(server)
        self.settings["rules"] = [
            {**rule(), "name": f"bench{i}", "namespace": f"{DATABASE}.{RULED[:4]}*", "array": f"{ARRAY}{i}",
             "overflow": {"collection": f"{{collection}}_o{i}", "link": "owner", "array": ARRAY}}
            for i in range(RULES)]


def many_rules(scale):
    """The first index, and a find by an array, of a collection with very many rules."""
    path = f"{ARRAY}7"
    with pinned_cluster() as cluster, cluster.client() as client:
        with ManyRulesSpillway(cluster.primary) as spillway:
            arms = connect(cluster.primary.port, spillway.port)
            rows = [row_of(f"{words} with {RULES} rules", index_once(arms, key)) for words, key in (
                ("the first index", "n"), ("the first index of an array", path), ("another index", "m"))]
            for name in arms:
                client[DATABASE][name].insert_many([{"_id": i, "n": i % 10, path: [i, i + 1]} for i in range(1000)])
            slim = {"projection": {"n": 1}}
            reads = (("a find by an array", {"filter": {path: 500}, **slim}),
                     ("a find of whole documents by an array", {"filter": {path: 500}}),
                     ("a find of whole documents", {"filter": {"n": 3}}))
            for words, options in reads:
                rows.append(row_of(f"{words} with {RULES} rules", compare(arms, find(**options), 3 * scale.rounds)))
    return rows


def index_once(arms, key):
    times = {}
    for name, connection in arms.items():
        began = time.perf_counter()
        reply = connection.call(exact.document({
            "createIndexes": name, "indexes": [{"key": {key: 1}, "name": key}], "$db": DATABASE})).plain()
        times[name] = time.perf_counter() - began
        if not reply["ok"]:
            raise RuntimeError(f"{name}: {reply}")
    return times
