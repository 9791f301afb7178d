"""Exact change streams: a subscriber sees what the application did, and nothing else.

The same statements go through Spillway and straight to another database; their events have to be equal.
"""

import contextlib
import random

import pymongo
import pytest
from pymongo.change_stream import ClusterChangeStream
from pymongo.errors import OperationFailure, WriteError

from support.operate import RULE
from support.process import wait_for
from support.spillway import Spillway


def rule(name, array="f", **more):
    base = {key: value for key, value in RULE.items() if key != "flag"}
    return {**base, "name": name, "namespace": f"shop.{name}", "array": array, "settle": "5ms", "quiet": "20ms",
            "change_streams": "exact",
            "overflow": {**RULE["overflow"], "collection": "{collection}_more"}, **more}


RULES = [
    rule("plain"),
    rule("marked", flag={"field": "out", "value": True}, counters={"total": "total", "documents": "parts"},
         reference={"field": "ref", "format": "{_id}_more"}),
    rule("emptied", when_outlier="empty"),
    rule("inner", array="a.f"),
]
LAYOUTS = [(each["name"], each["array"]) for each in RULES]
RULES += [{**rule("kept", flag={"field": "out", "value": True}), "gc_delay": "60s"}, rule("collected")]
SEEN = ("operationType", "documentKey", "updateDescription", "fullDocument")


def whole(array, elements):
    parts = array.split(".")
    value = elements
    for part in reversed(parts):
        value = {part: value}
    return value


class Twins:
    """One collection through Spillway, and one straight at mongod, with a stream of each."""

    def __init__(self, client, direct, name, array):
        self.through, self.straight, self.stored = client.shop[name], direct.reference[name], direct.shop[name]
        self.key = array.replace(".", "/")
        self.ends = 0

    def both(self, change):
        return change(self.through), change(self.straight)

    def at_rest(self, identifier=1):
        path = f"_spill.{self.key}.n"
        wait_for(lambda: self.stored.count_documents({"_id": identifier, path: {"$gt": 0}}), "the tail to move")

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


@pytest.fixture(params=LAYOUTS, ids=[name for name, _ in LAYOUTS])
def twins(request, client, direct):
    name, array = request.param
    made = Twins(client, direct, name, array)
    made.both(lambda collection: collection.delete_many({}))
    made.array = array
    return made


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


@pytest.mark.parametrize("looks_up", [False, True], ids=["as they are", "looked up"])
def test_events_of_each_statement_are_those_of_mongod(twins, looks_up):
    """Each is done on an outlier, whose tail moves before the next one."""
    f = twins.array
    options = {"full_document": "updateLookup"} if looks_up else {}
    with twins.through.watch(**options) as through, twins.straight.watch(**options) as straight:
        twins.both(lambda collection: collection.insert_one({"_id": 1, **whole(f, list(range(6)))}))
        for name, update in statements(f).items():
            if name not in ("push to empty", "push to none"):
                twins.at_rest()
            twins.both(lambda collection, u=update: collection.update_one({"_id": 1}, u))
            got, want = twins.events(through, straight)
            if name == "addToSet" and twins.through.name == "emptied":
                assert got.pop()["updateDescription"]["updatedFields"] == {f"{f}.6": "new"}
                want.pop()  # the whole array
            assert got == want, name
        twins.at_rest()
        twins.both(lambda collection: collection.find_one_and_update({"_id": 1}, {"$set": {f: [9, 8, 7, 6, 5]}}))
        twins.at_rest()
        twins.both(lambda collection: collection.replace_one({"_id": 1}, {"x": 1}))
        twins.both(lambda collection: collection.replace_one({"_id": 1}, whole(f, list(range(9)))))
        twins.at_rest()
        twins.both(lambda collection: collection.delete_one({"_id": 1}))
        got, want = twins.events(through, straight)
        assert got == want


@pytest.mark.parametrize("name", ["kept", "collected"])
@pytest.mark.parametrize("piped", [False, True], ids=["bare", "piped"])
def test_images_of_the_time_of_the_event_are_whole(client, direct, name, piped):
    """Before a change and behind it. `collected`: the overflow that they need is removed before they are read."""
    options = {"full_document": "required", "full_document_before_change": "required"}
    pipeline = [{"$set": {"size": {"$size": {"$ifNull": ["$fullDocument.f", []]}}}}] if piped else []
    for database in (client.shop, direct.reference):
        database.drop_collection(name)
        database.create_collection(name, changeStreamPreAndPostImages={"enabled": True})
    twins = Twins(client, direct, name, "f")
    with twins.through.watch(pipeline, **options) as through, twins.straight.watch(pipeline, **options) as straight:
        twins.both(lambda collection: collection.insert_one({"_id": 1, "f": list(range(9))}))
        for update in ({"$push": {"f": 100}}, {"$set": {"x": 1}}, {"$set": {"f.5": "set"}}):
            twins.at_rest()
            twins.both(lambda collection, u=update: collection.update_one({"_id": 1}, u))
        twins.both(lambda collection: collection.delete_one({"_id": 1}))
        if name == "collected":
            wait_for(lambda: direct.shop[f"{name}_more"].count_documents({}) == 0, "the overflow to go")
        twins.both(lambda collection: collection.insert_one({"_id": "end 1", "f": list(range(100)), "text": ""}))
        got, want = [[bare(event) for event in until(stream, "end 1", whole=True)] for stream in (through, straight)]
    assert got == want
    assert len([event for event in want if "fullDocumentBeforeChange" in event]) == 4


@pytest.mark.parametrize("size", [1, 2, 100])
def test_a_batch_may_begin_inside_a_transaction(twins, size):
    """The first push goes behind the overflow; then the array is folded back."""
    f = twins.array
    updates = [{"$push": {f: "a"}}, {"$set": {f"{f}.4": "b"}}, {"$push": {f: "c"}}, {"$set": {"x": 1}},
               {"$push": {f: "d"}}]
    with twins.through.watch(batch_size=size) as through, twins.straight.watch() as straight:
        twins.both(lambda collection: collection.insert_one({"_id": 1, **whole(f, list(range(20)))}))
        twins.at_rest()
        twins.both(lambda collection: transaction(collection, 1, updates))
        got, want = twins.events(through, straight)
    assert got == want
    assert want[-1]["updateDescription"]["updatedFields"] == {f"{f}.22": "d"}


def test_a_write_of_what_is_stored_is_seen(twins):
    """Of ten elements three are stored in the document. A write of just these three changes nothing that mongod tells
    but the array's state."""
    f = twins.array
    kept = [] if twins.through.name == "emptied" else [0, 1, 2]
    with twins.through.watch() as through, twins.straight.watch() as straight:
        twins.both(lambda collection: collection.insert_one({"_id": 1, **whole(f, list(range(10)))}))
        twins.at_rest()
        twins.both(lambda collection: collection.update_one({"_id": 1}, {"$set": {f: kept}}))
        got, want = twins.events(through, straight)
    assert got == want
    assert want[-1]["updateDescription"]["updatedFields"] == {f: kept}


PIPELINES = {
    "kinds": [{"$match": {"operationType": {"$in": ["insert", "update"]}}}],
    "position": [{"$match": {"updateDescription.updatedFields": {"f.6": 100}}}],
    "names": [{"$project": {"documentKey": 1, "operationType": 1, "ns": 1, "names": {
        "$map": {"input": {"$objectToArray": "$updateDescription.updatedFields"}, "in": "$$this.k"}}}}],
    "sizes": [{"$set": {"size": {"$size": {"$ifNull": ["$fullDocument.f", []]}}}}, {"$unset": "fullDocument"},
              {"$match": {"$or": [{"size": {"$gt": 5}}, {"operationType": {"$ne": "update"}}]}}],
    "texts": [{"$replaceWith": {"_id": "$_id", "documentKey": "$documentKey", "ns": "$ns", "text": "$fullDocument.text",
                                "operationType": "$operationType"}}],
    "redact": [{"$redact": {"$cond": [{"$eq": ["$operationType", "delete"]}, "$$PRUNE", "$$KEEP"]}}],
}


@pytest.mark.parametrize("name", PIPELINES)
@pytest.mark.parametrize("wide", [False, True], ids=["collection", "database"])
def test_a_pipeline_sees_events_as_the_client_does(client, direct, name, wide):
    twins = Twins(client, direct, "plain", "f")
    twins.both(lambda collection: collection.delete_many({}))
    pipeline, options = PIPELINES[name], {"full_document": "updateLookup"}
    watched = [twins.through.database, twins.straight.database] if wide else [twins.through, twins.straight]
    with watched[0].watch(pipeline, **options) as through, watched[1].watch(pipeline, **options) as straight:
        twins.both(lambda collection: collection.insert_one({"_id": 1, "f": list(range(6)), "text": "$text"}))
        for update in ({"$push": {"f": 100}}, {"$set": {"f.4": {"a.b": 1}, "text": "$$ROOT"}}, {"$pull": {"f": 5}}):
            twins.at_rest()
            twins.both(lambda collection, u=update: collection.update_one({"_id": 1}, u))
        twins.at_rest()
        twins.both(lambda collection: collection.delete_one({"_id": 1}))
        twins.both(lambda collection: collection.insert_one({"_id": "end 1", "f": list(range(100)), "text": ""}))
        if name == "position":
            assert next(through)["updateDescription"] == next(straight)["updateDescription"]
            return
        got, want = [[bare(event) for event in until(stream, "end 1", whole=True)] for stream in (through, straight)]
    assert got == want
    assert want


def bare(event):
    return {key: value for key, value in event.items() if key not in ("_id", "clusterTime", "wallTime", "ns")}


def test_errors_of_pipelines_are_those_of_mongod(client, direct):
    wrong = {
        "opened": [[{"$group": {"_id": 1}}], [{"$project": {"a": {"$no": 1}}}], [{"$limit": 1}], [{"$lookup": {}}],
                   [{}]],
        "met": [[{"$project": {"_id": 0}}], [{"$set": {"x": {"$divide": [1, "$nothing.x", 0]}}}],
                [{"$set": {"x": {"$toInt": "$operationType"}}}]],
    }
    for when, pipelines in wrong.items():
        for pipeline in pipelines:
            found = [error_of(database.plain, pipeline) for database in (client.shop, direct.reference)]
            assert found[0] == found[1], (when, pipeline)


def error_of(collection, pipeline):
    collection.delete_many({})
    try:
        with collection.watch(pipeline, max_await_time_ms=10) as stream:
            collection.insert_one({"_id": 1})
            while True:
                stream.try_next()
    except OperationFailure as error:
        return error.code


def test_what_can_not_be_exact_is_refused_when_it_is_opened(client):
    for pipeline, options in (
            ([{"$set": {"now": "$$NOW"}}], {}), ([{"$set": {"x": "y" * 20000}}], {}),
            ([{"$match": {"x": {"$lt": "$$CLUSTER_TIME"}}}], {"full_document": "required"})):
        for watched in (client.shop.plain, client.shop, client):
            with pytest.raises(OperationFailure) as caught:
                watched.watch(pipeline, **options)
            assert caught.value.code == 115 and "$changeStream" in str(caught.value), caught.value
    for option in ({"collation": {"locale": "de"}}, {"let": {"x": 1}}, {"apiVersion": "1", "apiStrict": True}):
        with pytest.raises(OperationFailure) as caught:
            client.shop.command({"aggregate": "plain", "pipeline": [{"$changeStream": {}}, {"$match": {"x": 1}}],
                                 "cursor": {}, **option})
        assert caught.value.code == 115, caught.value


@pytest.mark.parametrize("wide", ["database", "cluster"])
def test_a_wide_stream_shows_each_collection_as_its_own_does(client, direct, wide):
    """And no overflow, and no record of a rule."""
    watched = client.shop if wide == "database" else client
    with watched.watch(full_document="updateLookup") as through:
        for name, array in LAYOUTS:
            twins = Twins(client, direct, name, array)
            with twins.straight.watch(full_document="updateLookup") as straight:
                twins.both(lambda collection: collection.delete_many({}))
                twins.both(lambda collection, f=array: collection.insert_one({"_id": 1, **whole(f, list(range(9)))}))
                twins.at_rest()
                twins.both(lambda collection, f=array: collection.update_one({"_id": 1}, {"$push": {f: "x"}}))
                got, want = twins.events(through, straight)
            assert got == want, name


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

    def __init__(self, seed, array):
        self.random, self.f = random.Random(seed), array

    def value(self):
        return self.random.choice([1, "two", {"three": 3}, None, [4]])

    def update(self):
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
        fresh = whole(self.f, [self.value() for _ in range(self.random.randrange(12))])
        if what == 0:
            return lambda collection: collection.delete_one({"_id": identifier})
        if what == 1:
            return lambda collection: collection.replace_one({"_id": identifier}, fresh, upsert=True)
        if what == 2:
            update = {"$set": {self.f: [self.value()]}}
            return lambda collection: collection.find_one_and_update({"_id": identifier}, update, {"_id": 1})
        if what == 3:
            updates = [self.pushed() for _ in range(self.random.randrange(2, 5))]
            return lambda collection: transaction(collection, identifier, updates)
        update = self.update()
        return lambda collection: collection.update_one({"_id": identifier}, update, upsert=what == 4)

    def pushed(self):
        return self.random.choice([{"$push": {self.f: self.value()}}, {"$set": {f"{self.f}.1": "t"}},
                                   {"$set": {self.f: []}}, {"$push": {self.f: {"$each": [1, 2, 3]}}}])


def transaction(collection, identifier, updates):
    """Once more if it meets another writer, which at mongod alone it can't."""
    def attempt(session):
        for update in updates:
            collection.update_one({"_id": identifier}, update, session=session)

    with collection.database.client.start_session() as session:
        session.with_transaction(attempt)


def perform(step, collection):
    with contextlib.suppress(WriteError):  # null and the like under the array's path
        step(collection)


@pytest.mark.parametrize("name, array", LAYOUTS, ids=[name for name, _ in LAYOUTS])
def test_events_of_random_histories_are_those_of_mongod(client, direct, name, array):
    twins, history = Twins(client, direct, name, array), History(name, array)
    twins.both(lambda collection: collection.delete_many({}))
    with twins.through.watch(batch_size=7) as through, twins.straight.watch() as straight:
        for _ in range(100):
            step = history.step()
            twins.both(lambda collection, done=step: perform(done, collection))
        got, want = twins.events(through, straight)
    if name == "emptied":  # where an $addToSet may be told as a push
        assert [event["documentKey"] for event in got] == [event["documentKey"] for event in want]
    else:
        assert got == want


@pytest.fixture(scope="module")
def other_spillway(cluster):
    with Spillway([cluster.primary], RULES) as made, \
            pymongo.MongoClient("127.0.0.1", made.port, directConnection=True) as client:
        yield client


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


def test_a_copy_is_right_though_spillways_are_killed(client, cluster):
    """The second one moves, and is killed at any moment; the subscriber goes on through both."""
    history, name = History("killed", "f"), "plain"
    with Spillway([cluster.primary], RULES) as mortal:
        clients = [client, pymongo.MongoClient("127.0.0.1", mortal.port, directConnection=True)]
        client.shop[name].delete_many({})
        subscriber = Subscriber(clients, name, history.random)
        for _ in range(6):
            for _ in range(20):
                perform(history.step(), history.random.choice(clients).shop[name])
            mortal.kill()
            mortal.start()
            subscriber.open()
            subscriber.follow(most=history.random.randrange(1, 20))
        client.shop[name].insert_one({"_id": "end"})
        subscriber.follow(end="end")
        subscriber.stream.close()
        clients[1].close()
    client.shop[name].delete_one({"_id": "end"})
    assert subscriber.copy.documents == {each["_id"]: each for each in client.shop[name].find()}


@pytest.mark.parametrize("name, array", LAYOUTS, ids=[name for name, _ in LAYOUTS])
@pytest.mark.parametrize("seed", range(2))
def test_a_copy_made_of_events_is_the_collection(client, other_spillway, name, array, seed):
    """Random histories by two Spillways, both of which move; the subscriber goes from one to the other."""
    clients, history = [client, other_spillway], History(seed, array)
    for each in clients:
        each.shop[name].delete_many({})
    subscriber = Subscriber(clients, name, history.random)
    for _ in range(120):
        perform(history.step(), history.random.choice(clients).shop[name])
        if history.random.randrange(10) == 0:
            subscriber.follow(most=history.random.randrange(1, 8))
        if history.random.randrange(15) == 0:
            subscriber.open()
    client.shop[name].insert_one({"_id": "end"})
    subscriber.follow(end="end")
    client.shop[name].delete_one({"_id": "end"})
    assert subscriber.copy.documents == {each["_id"]: each for each in client.shop[name].find()}


def test_a_collection_that_was_dropped_tells_no_state(client, direct):
    """mongod 6.0 reads nothing of the time before a drop. A guess would give the position 3."""
    books = client.shop.plain
    books.delete_many({})
    books.insert_one({"_id": 1, "f": list(range(20))})
    wait_for(lambda: direct.shop.plain.count_documents({"_spill.f.n": {"$gt": 0}}) == 1, "the tail to move")
    with books.watch() as stream:
        books.update_one({"_id": 1}, {"$push": {"f": "x"}})
        books.drop()
        with pytest.raises(OperationFailure) as caught:
            next(stream)
    assert caught.value.code == 286 and "minSnapshotHistoryWindowInSeconds" in str(caught.value)


def test_a_state_that_is_too_old_is_not_guessed(client, direct, cluster):
    """A push to a document without an outlier's state says the same; so both wait for the state of that time."""
    books = client.shop.plain
    books.insert_one({"_id": 2, "f": []})
    with books.watch() as stream:
        token = stream.resume_token
        books.update_one({"_id": 2}, {"$push": {"f": 1}})
        direct.admin.command("setParameter", 1, minSnapshotHistoryWindowInSeconds=0)
        try:
            wait_for(lambda: is_lost(books, token), "the history to go")
        finally:
            direct.admin.command("setParameter", 1, minSnapshotHistoryWindowInSeconds=300)


def is_lost(collection, token):
    collection.insert_one({})
    try:
        with collection.watch(resume_after=token) as stream:
            next(stream)
    except OperationFailure as error:
        assert error.code == 286, error
        return True
    return False


def test_tokens_are_those_of_mongod(client, other_spillway, direct):
    """They go on through another Spillway, and straight at mongod."""
    books = client.shop.plain
    with books.watch() as stream:
        books.insert_one({"_id": "a", "f": list(range(20))})
        time = direct.admin.command("ping")["operationTime"]
        token = next(stream)["_id"]
    wait_for(lambda: direct.shop.plain.count_documents({"_id": "a", "_spill.f.n": {"$gt": 0}}) == 1, "the tail to move")
    books.update_one({"_id": "a"}, {"$push": {"f": "x"}})
    for how in ({"resume_after": token}, {"start_after": token}, {"start_at_operation_time": time}):
        with other_spillway.shop.plain.watch(**how) as stream:
            event = next(event for event in stream if event["operationType"] == "update")
        assert event["updateDescription"]["updatedFields"] == {"f.20": "x"}
    with direct.shop.plain.watch(resume_after=token) as stream:
        assert "_spill" in next(stream)["updateDescription"]["updatedFields"]


def test_a_token_advances_while_only_spillway_writes(client, direct):
    books = client.shop.plain
    books.insert_one({"_id": "moves", "f": []})
    with books.watch(max_await_time_ms=100) as stream:
        books.update_one({"_id": "moves"}, {"$push": {"f": {"$each": list(range(20))}}})
        assert next(stream)["operationType"] == "update"
        token = stream.resume_token
        wait_for(lambda: direct.shop.plain.count_documents({"_id": "moves", "_spill.f.n": {"$gt": 0}}) == 1,
                 "the tail to move")
        assert stream.try_next() is None
        wait_for(lambda: stream.try_next() is None and stream.resume_token != token, "the token to advance")
