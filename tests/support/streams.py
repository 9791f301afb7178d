"""Change streams in tests: the same statements through Spillway and straight at mongod, random histories of some
documents, and a copy that is made of events."""

import contextlib
import random

from pymongo.change_stream import ClusterChangeStream
from pymongo.errors import WriteError

from support.operate import RULE
from support.process import wait_for

SEEN = ("operationType", "documentKey", "updateDescription", "fullDocument")


def rule(name, array="f", **more):
    base = {key: value for key, value in RULE.items() if key != "flag"}
    return {**base, "name": name, "namespace": f"shop.{name}", "array": array, "settle": "5ms", "quiet": "20ms",
            "overflow": {**RULE["overflow"], "collection": "{collection}_more"}, **more}


def beside(name, array, **more):
    """One more rule of the collection."""
    overflow = {**RULE["overflow"], "collection": "{collection}_" + array.replace(".", "_")}
    return {**rule(name, array, **{"overflow": overflow, **more}), "name": f"{name}-{array}".replace(".", "-")}


def whole(array, elements):
    """A document with this array, or with several ones."""
    made = {}
    for each in [array] if isinstance(array, str) else array:
        *parents, last = each.split(".")
        inner = made
        for part in parents:
            inner = inner.setdefault(part, {})
        inner[last] = list(elements)
    return made


class Twins:
    """One collection through Spillway, and one straight at mongod, with a stream of each."""

    def __init__(self, client, direct, name, *arrays):
        self.through, self.straight, self.stored = client.shop[name], direct.reference[name], direct.shop[name]
        self.arrays = arrays
        self.ends = 0

    def both(self, change):
        return change(self.through), change(self.straight)

    def at_rest(self, identifier=1):
        """All arrays have a tail that has moved."""
        moved = {f"_spill.{array.replace('.', '/')}.n": {"$gt": 0} for array in self.arrays}
        wait_for(lambda: self.stored.count_documents({"_id": identifier, **moved}), "the tails to move")

    def events(self, through, straight):
        """What both streams show up to here, without what differs by nature."""
        self.ends += 1
        end = f"end {self.ends}"
        self.both(lambda collection: collection.insert_one({"_id": end}))
        return [until(stream, end) for stream in (through, straight)]


def until(stream, end, whole=False):
    found = []
    for event in stream:
        if event["ns"]["db"] == "reference" and stream.__class__ is ClusterChangeStream:
            continue  # the other twin
        if event["operationType"] == "insert" and event["documentKey"]["_id"] == end:
            return found
        found.append(event if whole else {key: event[key] for key in SEEN if key in event})
    raise AssertionError("the stream has ended")


def statements(f):
    many = list(range(7))
    return {
        "push": {"$push": {f: 100}},
        "push several": {"$push": {f: {"$each": [100, {"a": 1}]}}, "$set": {"y": 1}},
        "other field": {"$set": {"z": [1, 2]}},
        "element": {"$set": {f"{f}.5": "set"}},
        "pull": {"$pull": {f: 100}},
        "pop": {"$pop": {f: 1}},
        "addToSet": {"$addToSet": {f: "new"}},
        "slice": {"$push": {f: {"$each": [1], "$slice": -6}}},
        "pipeline": [{"$set": {f: {"$concatArrays": [f"${f}", [7]]}}}],
        "shorter": {"$set": {f: [1, 2, 3, 4, 5]}},
        "the same": {"$set": {f: [1, 2, 3, 4, 5]}},
        "other": {"$set": {f: [5, 4, 3, 2, 1], "y": 2}},
        "empty": {"$set": {f: []}},
        "push to empty": {"$push": {f: {"$each": many}}},
        "unset": {"$unset": {f: 1}},
        "push to none": {"$push": {f: {"$each": many}}},
    }


def bare(event):
    return {key: value for key, value in event.items() if key not in ("_id", "clusterTime", "wallTime", "ns")}


class Copy:
    """A collection as its events tell it."""

    def __init__(self):
        self.documents = {}

    def apply(self, event):
        identifier = event["documentKey"]["_id"]
        if event["operationType"] == "delete":
            del self.documents[identifier]
        elif event["operationType"] in ("insert", "replace"):
            assert (identifier in self.documents) == (event["operationType"] == "replace")
            self.documents[identifier] = event["fullDocument"]
        else:
            assert event["operationType"] == "update", event
            self.update(self.documents[identifier], event["updateDescription"])

    def update(self, document, change):
        for truncated in change["truncatedArrays"]:
            parent, name = reach(document, truncated["field"])
            assert len(parent[name]) >= truncated["newSize"], (document, change)
            del parent[name][truncated["newSize"]:]
        for path in change["removedFields"]:
            parent, name = reach(document, path)
            del parent[name]
        for path, value in change["updatedFields"].items():
            parent, name = reach(document, path)
            if isinstance(parent, list):
                parent.extend([None] * (name + 1 - len(parent)))  # as mongod does
            parent[name] = value


def reach(document, path):
    *parents, last = path.split(".")
    for part in parents:
        document = document[int(part)] if isinstance(document, list) else document.setdefault(part, {})
    return document, int(last) if isinstance(document, list) else last


class History:
    """Random statements on some documents, by seed."""

    def __init__(self, seed, *arrays):
        self.random, self.arrays, self.f = random.Random(seed), arrays, arrays[0]

    def value(self):
        return self.random.choice([1, "two", {"three": 3}, None, [4]])

    def update(self):
        """Of one array, or of two in one statement."""
        self.f = self.random.choice(self.arrays)
        one = self.update_one()
        if len(self.arrays) == 1 or self.random.randrange(2):
            return one
        self.f = self.random.choice([each for each in self.arrays if each != self.f])
        return self.joined(one, self.update_one())

    @staticmethod
    def joined(one, other):
        if isinstance(one, list) != isinstance(other, list):
            return one
        if isinstance(one, list):
            return one + other
        return {name: {**one.get(name, {}), **other.get(name, {})} for name in {**one, **other}}

    def update_one(self):
        f, number = self.f, self.random.randrange(8)
        some = [self.value() for _ in range(self.random.randrange(1, 9))]
        return self.random.choice([
            {"$push": {f: self.value()}}, {"$push": {f: {"$each": some}}}, {"$push": {f: {"$each": some}}},
            {"$addToSet": {f: number}}, {"$set": {f"{f}.{number}": number}}, {"$pull": {f: 1}}, {"$pop": {f: -1}},
            {"$set": {"other": number}}, {"$unset": {"other": 1}}, {"$set": {f: some}}, {"$set": {f: []}},
            {"$unset": {f: 1}}, {"$push": {f: {"$each": some, "$position": 1}}},
            [{"$set": {f: {"$slice": [{"$ifNull": [f"${f}", []]}, 12]}}}],
            [{"$set": {"size": {"$size": {"$ifNull": [f"${f}", []]}}}}],
        ])

    def step(self):
        """What is done to a collection."""
        identifier, what = self.random.randrange(5), self.random.randrange(20)
        fresh = whole(self.arrays, [self.value() for _ in range(self.random.randrange(12))])
        self.f = self.random.choice(self.arrays)
        if what == 0:
            return lambda collection: collection.delete_one({"_id": identifier})
        if what == 1:
            return lambda collection: collection.replace_one({"_id": identifier}, fresh, upsert=True)
        if what == 2:
            update = {"$set": {self.f: [self.value()]}}
            return lambda collection: collection.find_one_and_update({"_id": identifier}, update, {"_id": 1})
        if what == 3:
            updates = [(identifier, self.pushed()) for _ in range(self.random.randrange(2, 5))]
            return lambda collection: transaction(collection, updates)
        update = self.update()
        return lambda collection: collection.update_one({"_id": identifier}, update, upsert=what == 4)

    def pushed(self):
        return self.random.choice([{"$push": {self.f: self.value()}}, {"$set": {f"{self.f}.1": "t"}},
                                   {"$set": {self.f: []}}, {"$push": {self.f: {"$each": [1, 2, 3]}}}])


def transaction(collection, updates):
    """Of pairs: an _id, its update. Once more if it meets another writer, which at mongod alone it can't."""
    def attempt(session):
        for identifier, update in updates:
            collection.update_one({"_id": identifier}, update, session=session)

    with collection.database.client.start_session() as session:
        session.with_transaction(attempt)


def perform(step, collection):
    with contextlib.suppress(WriteError):  # null and the like under the array's path
        step(collection)


class Subscriber:
    """Follows a collection through one Spillway and another, each time from its last token."""

    def __init__(self, clients, name, draw):
        self.clients, self.name, self.draw = clients, name, draw
        self.copy, self.token, self.stream = Copy(), None, None
        self.open()

    def open(self):
        if self.stream:
            self.stream.close()
        how = self.draw.choice(["resume_after", "start_after"])
        self.stream = self.draw.choice(self.clients).shop[self.name].watch(
            batch_size=self.draw.choice([1, 3, 100]), max_await_time_ms=10, **({how: self.token} if self.token else {}))
        self.token = self.token or self.stream.resume_token

    def follow(self, end=None, most=10**6):
        for _ in range(most):
            event = self.stream.try_next()
            self.token = self.stream.resume_token
            if event is None and end is None:
                return
            if event is not None and event["documentKey"]["_id"] == end:
                return
            if event is not None:
                self.copy.apply(event)
