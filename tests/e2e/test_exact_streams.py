"""Exact change streams: a subscriber sees what the application did, and nothing else.

The same statements go through Spillway and straight to another database; their events have to be equal.
"""

import copy
import re

import pymongo
import pytest
from pymongo.errors import OperationFailure

from support.cluster import Cluster
from support.process import wait_for
from support.spillway import Spillway
from support.streams import (
    Copy,
    History,
    Subscriber,
    Twins,
    bare,
    beside,
    perform,
    rule,
    statements,
    transaction,
    until,
    whole,
)

pytestmark = pytest.mark.share(6)
RULES = [
    rule("plain"),
    rule("marked", flag={"field": "out", "value": True}, counters={"total": "total", "documents": "parts"},
         reference={"field": "ref", "format": "{_id}_more"}),
    rule("emptied", when_outlier="empty"),
    rule("inner", array="a.f"),
]
LAYOUTS = [(each["name"], (each["array"],)) for each in RULES] + [
    ("pair", ("f", "g")), ("parent", ("a.g", "a.f")),
]
RULES += [
    rule("pair", flag={"field": "out", "value": True}), beside("pair", "g", when_outlier="empty"),
    rule("parent", array="a.f"),
    beside("parent", "a.g", flag={"field": "out", "value": True}, counters={"total": "total", "documents": "parts"}),
]
RULES += [rule("edited", fold_limit="1B"), rule("edited_emptied", when_outlier="empty", fold_limit="1B")]
RULES += [{**rule("kept", flag={"field": "out", "value": True}), "gc_delay": "60s"}, rule("collected")]


@pytest.fixture(params=LAYOUTS, ids=[name for name, _ in LAYOUTS])
def twins(request, client, direct):
    name, arrays = request.param
    made = Twins(client, direct, name, *arrays)
    made.both(lambda collection: collection.delete_many({}))
    made.array = arrays[0]
    return made


@pytest.mark.parametrize("looks_up", [False, True], ids=["as they are", "looked up"])
def test_events_of_each_statement_are_those_of_mongod(twins, looks_up):
    """Each is done on an outlier, whose tail moves before the next one."""
    f = twins.array
    options = {"full_document": "updateLookup"} if looks_up else {}
    with twins.through.watch(**options) as through, twins.straight.watch(**options) as straight:
        twins.both(lambda collection: collection.insert_one({"_id": 1, **whole(twins.arrays, range(6))}))
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
        twins.both(lambda collection: collection.replace_one({"_id": 1}, whole(twins.arrays, range(9))))
        twins.at_rest()
        twins.both(lambda collection: collection.delete_one({"_id": 1}))
        got, want = twins.events(through, straight)
        assert got == want


@pytest.mark.parametrize("name, arrays", LAYOUTS[-2:], ids=["pair", "parent"])
def test_events_of_a_statement_on_several_arrays(client, direct, name, arrays):
    """All of them are outliers. A part of what they hold is stored in the document: `kept`, or nothing."""
    twins = Twins(client, direct, name, *arrays)
    twins.both(lambda collection: collection.delete_many({}))
    one, other = arrays
    kept = [[], [0, 1, 2]]
    updates = [
        {"$push": {one: 1, other: 2}}, {"$push": {one: 1}, "$set": {f"{other}.7": 2}},
        {"$set": {f"{one}.1": 1, f"{other}.8": 2}}, {"$push": {one: 1}, "$pull": {other: 4}},
        {"$pull": {one: 3, other: 4}}, {"$addToSet": {one: 3, other: "new"}}, {"$unset": {one: 1}, "$push": {other: 1}},
        {"$push": {one: 1}, "$set": {other: []}}, {"$unset": {one: 1, other: 1}},
        {"$set": {one: kept[1]}, "$push": {other: 3}}, {"$set": {one: [], other: kept[1]}},
        {"$set": {one: kept[1], other: kept[0]}}, {"$set": {one: kept[1], other: kept[1]}},
        [{"$set": {one: {"$reverseArray": f"${one}"}}}], [{"$set": {one: {"$slice": [f"${other}", 6]}, other: [1]}}],
        *([{"$set": {"a": whole(arrays, [1, 2])["a"]}}, {"$unset": {"a": 1}}] if name == "parent" else []),
    ]
    with twins.through.watch(full_document="updateLookup") as through, \
            twins.straight.watch(full_document="updateLookup") as straight:
        for number, update in enumerate(updates):
            twins.both(lambda collection, i=number: collection.insert_one({"_id": i, **whole(arrays, range(10))}))
            twins.at_rest(number)
            twins.both(lambda collection, i=number, u=update: collection.update_one({"_id": i}, u))
            got, want = twins.events(through, straight)
            assert got == want, update


def test_one_exact_rule_makes_all_arrays_of_a_collection_exact():
    """A getMore is rewritten whichever of the rules says so."""
    rules = [rule("mixed", change_streams="as_stored"), beside("mixed", "g", change_streams="exact")]
    with Cluster() as cluster, cluster.client() as direct, Spillway([cluster.primary], rules) as made, \
            pymongo.MongoClient("127.0.0.1", made.port, directConnection=True) as client:
        twins = Twins(client, direct, "mixed", "f", "g")
        with twins.through.watch() as through, twins.straight.watch() as straight:
            twins.both(lambda collection: collection.insert_one({"_id": 1, **whole(twins.arrays, range(10))}))
            twins.at_rest()
            twins.both(lambda collection: collection.update_one({"_id": 1}, {"$push": {"f": 1, "g": 2}}))
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


@pytest.mark.parametrize("piped", [False, True], ids=["bare", "piped"])
@pytest.mark.parametrize("options", [{"full_document": "required"}, {"full_document_before_change": "required"}], ids=[
    "behind it", "before it"])
@pytest.mark.parametrize("cluster_wide", [False, True], ids=["database", "cluster"])
def test_a_wide_stream_that_requires_images_goes_on_behind_a_move(client, direct, cluster_wide, options, piped):
    """Overflow has no images, so mongod may not see its events. A name that a collation takes for it is another's."""
    pipeline = [{"$set": {"seen": True}}] if piped else []
    names = ["collected", "COLLECTED_MORE", "collected_more2"]
    for database in (client.shop, direct.reference):
        for name in names:
            database.drop_collection(name)
            database.create_collection(name, changeStreamPreAndPostImages={"enabled": True})
    twins = Twins(client, direct, "collected", "f")
    through, straight = client if cluster_wide else client.shop, direct.reference
    options = {**options, "collation": {"locale": "en", "strength": 1}}
    with through.watch(pipeline, **options) as through, straight.watch(pipeline, **options) as straight:
        twins.both(lambda collection: collection.insert_one({"_id": 1, "f": list(range(9))}))
        twins.at_rest()
        for name in names[1:]:
            twins.both(lambda collection, n=name: collection.database[n].insert_one({"_id": 1, "f": [1]}))
        for update in ({"$push": {"f": 100}}, {"$set": {"f.5": "set"}}):
            twins.both(lambda collection, u=update: collection.update_one({"_id": 1}, u))
            twins.at_rest()
        twins.both(lambda collection: collection.delete_one({"_id": 1}))
        twins.both(lambda collection: collection.insert_one({"_id": "end 1"}))
        got, want = [[{"coll": event["ns"]["coll"], **bare(event)} for event in until(stream, "end 1", whole=True)]
                     for stream in (through, straight)]
    assert got == want
    assert [event["coll"] for event in want if event["operationType"] == "insert"] == names
    assert [event["operationType"] for event in want][-3:] == ["update", "update", "delete"]


@pytest.mark.parametrize("size", [1, 2, 100])
def test_a_batch_may_begin_inside_a_transaction(twins, size):
    """The first push goes behind the overflow; then the array is folded back."""
    f = twins.array
    updates = [{"$push": {f: "a"}}, {"$set": {f"{f}.4": "b"}}, {"$push": {f: "c"}}, {"$set": {"x": 1}},
               {"$push": {f: "d"}}]
    with twins.through.watch(batch_size=size) as through, twins.straight.watch() as straight:
        twins.both(lambda collection: collection.insert_one({"_id": 1, **whole(twins.arrays, range(20))}))
        twins.at_rest()
        twins.both(lambda collection: transaction(collection, [(1, update) for update in updates]))
        got, want = twins.events(through, straight)
    assert got == want
    assert want[-1]["updateDescription"]["updatedFields"] == {f"{f}.22": "d"}


def test_a_transaction_writes_another_document_before_the_batch(twins):
    """The second write folds an array back. The state of the first write's document is not needed for that."""
    f = twins.array
    updates = [(2, {"$push": {f: "a"}}), (1, {"$set": {f"{f}.4": "b"}})]
    with twins.through.watch(batch_size=1) as through, twins.straight.watch() as straight:
        for number in (2, 1):
            twins.both(lambda collection, i=number: collection.insert_one({"_id": i, **whole(twins.arrays, range(9))}))
            twins.at_rest(number)
        twins.both(lambda collection: transaction(collection, updates))
        got, want = twins.events(through, straight)
    assert got == want
    assert [each["documentKey"]["_id"] for each in want] == [2, 1, 2, 1]


def test_a_write_of_what_is_stored_is_seen(twins):
    """Of ten elements three are stored in the document. A write of just these three changes nothing that mongod tells
    but the array's state."""
    f = twins.array
    kept = [] if twins.through.name == "emptied" else [0, 1, 2]
    with twins.through.watch() as through, twins.straight.watch() as straight:
        twins.both(lambda collection: collection.insert_one({"_id": 1, **whole(twins.arrays, range(10))}))
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


def test_a_pipeline_makes_events_small_that_together_are_large(client, direct):
    """Each of many events has the whole document: they pass 256 MB, and come in one reply."""
    books = client.shop.plain
    books.delete_many({})
    books.insert_one({"_id": 1, "f": [1, 2, 3] + ["x" * 500_000] * 12})
    wait_for(lambda: direct.shop.plain.find_one({"_spill.f.n": 12}), "the tail to move")
    pipeline = [{"$project": {"documentKey": 1, "operationType": 1, "size": {"$size": "$fullDocument.f"}}}]
    with books.watch(pipeline, full_document="updateLookup", batch_size=1000) as stream:
        for number in range(50):
            books.update_one({"_id": 1}, {"$set": {"x": number}})
        books.insert_many([{"_id": number, "f": [1]} for number in (2, 3, 4)])
        got = [next(stream) for _ in range(53)]
    assert [(event["documentKey"]["_id"], event["size"]) for event in got] == [(1, 15)] * 50 + [
        (2, 1), (3, 1), (4, 1)]


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
    """Its code, and its words up to where they quote the event."""
    collection.delete_many({})
    try:
        with collection.watch(pipeline, max_await_time_ms=10) as stream:
            collection.insert_one({"_id": 1})
            while True:
                stream.try_next()
    except OperationFailure as error:
        return error.code, re.split(r" Expected: | *\{", error.details["errmsg"])[0]


OPTIONS = {
    "collation": ([{"$match": {"fullDocument.text": "e"}}], {"collation": {"locale": "en", "strength": 1}}),
    "let": ([{"$set": {"one": "$$one", "none": "$$none", "size": {"$size": "$fullDocument.f"}}},
             {"$match": {"$expr": {"$gte": ["$size", "$$least.of"]}}}],
            {"let": {"one": {"$add": [1, 2]}, "none": "$$REMOVE", "least": {"of": 2, "text": {"$literal": "$x"}}}}),
    "strict": ([{"$set": {"x": 1}}], {"apiVersion": "1", "apiStrict": True}),
    "long": ([{"$match": {"documentKey._id": {"$nin": [f"{i} of many names" for i in range(9000)]}}}], {}),
}


def followed(database, name, pipeline, options, done):
    """The events of what is done, by raw commands: no driver has all of these options."""
    reply = database.command({"aggregate": name, "pipeline": [{"$changeStream": {}}, *pipeline],
                              "cursor": {}, **options})["cursor"]
    done(database[name])
    api = {key: value for key, value in options.items() if key.startswith("api")}
    found = []
    while not any(event["documentKey"]["_id"] == "end" for event in found):
        found += database.command({"getMore": reply["id"], "collection": name, **api})["cursor"]["nextBatch"]
    database.command("killCursors", name, cursors=[reply["id"]])
    return [bare(event) for event in found]


@pytest.mark.parametrize("name", OPTIONS)
def test_a_pipeline_with_options_sees_what_it_does_at_mongod(client, direct, name):
    def done(collection):
        collection.insert_many([{"_id": 1, "f": [1], "text": "x"}, {"_id": 2, "f": list(range(9)), "text": "\u00e9"},
                                {"_id": "end", "f": [1, 2], "text": "E"}])

    twins = Twins(client, direct, "plain", "f")
    twins.both(lambda collection: collection.delete_many({}))
    got, want = [followed(each.database, "plain", *OPTIONS[name], done) for each in (twins.through, twins.straight)]
    assert got == want
    assert len(want) == {"strict": 3, "long": 3}.get(name, 2)


@pytest.mark.parametrize("let", [{"x": "$y"}, {"X": 1}, {"x": {"$divide": [1, 0]}}, 5], ids=str)
def test_what_mongod_refuses_of_let_is_refused_alike(client, direct, let):
    errors = []
    for database in (client.shop, direct.reference):
        with pytest.raises(OperationFailure) as caught:
            database.command({"aggregate": "plain", "pipeline": [{"$changeStream": {}}, {"$set": {"z": "$$x"}}],
                              "cursor": {}, "let": let})
        errors.append((caught.value.code, caught.value.details["errmsg"]))
    assert errors[0] == errors[1]


def test_what_can_not_be_exact_is_refused_when_it_is_opened(client):
    for pipeline, options in (
            ([{"$set": {"now": "$$NOW"}}], {}), ([{"$set": {"x": "y" * 1000000}}], {}),
            ([{"$match": {"x": {"$lt": "$$CLUSTER_TIME"}}}], {"full_document": "required"})):
        for watched in (client.shop.plain, client.shop, client):
            with pytest.raises(OperationFailure) as caught:
                watched.watch(pipeline, **options)
            assert caught.value.code == 115 and "$changeStream" in str(caught.value), caught.value


@pytest.mark.parametrize("wide", ["database", "cluster"])
def test_a_wide_stream_shows_each_collection_as_its_own_does(client, direct, wide):
    """And no overflow, and no record of a rule. The collections are made while the stream is open."""
    watched = client.shop if wide == "database" else client
    for name, arrays in LAYOUTS:
        Twins(client, direct, name, *arrays).both(lambda collection: collection.drop())
    with watched.watch(full_document="updateLookup") as through:
        for name, arrays in LAYOUTS:
            twins = Twins(client, direct, name, *arrays)
            with twins.straight.watch(full_document="updateLookup") as straight:
                twins.both(lambda collection: collection.delete_many({}))
                twins.both(lambda collection, f=arrays: collection.insert_one({"_id": 1, **whole(f, range(9))}))
                twins.at_rest()
                twins.both(lambda collection, f=arrays: collection.update_one(
                    {"_id": 1}, {"$push": dict.fromkeys(f, "x")}))
                got, want = twins.events(through, straight)
            assert got == want, name


@pytest.mark.parametrize("name, arrays", LAYOUTS, ids=[name for name, _ in LAYOUTS])
def test_events_of_random_histories_are_those_of_mongod(client, direct, name, arrays):
    twins, history = Twins(client, direct, name, *arrays), History(name, *arrays)
    twins.both(lambda collection: collection.delete_many({}))
    with twins.through.watch(batch_size=7) as through, twins.straight.watch() as straight:
        for _ in range(100):
            step = history.step()
            twins.both(lambda collection, done=step: perform(done, collection))
        got, want = twins.events(through, straight)
    if name in ("emptied", "pair"):  # with an emptied array, whose $addToSet may be told as a push
        assert documents_after_each(got) == documents_after_each(want)
    else:
        assert got == want


def documents_after_each(events):
    made, documents = Copy(), []
    for event in copy.deepcopy(events):
        made.apply(event)
        documents.append((event["documentKey"], copy.deepcopy(made.documents)))
    return documents


@pytest.fixture(scope="module")
def other_spillway(cluster):
    with Spillway([cluster.primary], RULES) as made, \
            pymongo.MongoClient("127.0.0.1", made.port, directConnection=True) as client:
        yield client


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


@pytest.mark.parametrize("name, arrays", LAYOUTS, ids=[name for name, _ in LAYOUTS])
@pytest.mark.parametrize("seed", range(2))
def test_a_copy_made_of_events_is_the_collection(client, other_spillway, name, arrays, seed):
    """Random histories by two Spillways, both of which move; the subscriber goes from one to the other."""
    clients, history = [client, other_spillway], History(seed, *arrays)
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


@pytest.mark.parametrize("update", [{"$set": {"f": 2}}, {"$set": {"f": None}}, {"$unset": {"f": 1}}])
def test_what_leaves_no_array_is_told_behind_a_drop(client, direct, update):
    """An array with overflow would lose its state by it. The stream is resumed there, so it knows of nothing before."""
    twins = Twins(client, direct, "plain", "f")
    twins.both(lambda collection: collection.delete_many({}))
    found = []
    for collection in (twins.through, twins.straight):
        with collection.watch() as stream:
            collection.insert_one({"_id": 1, "f": [1]})
            token = next(stream)["_id"]
        collection.update_one({"_id": 1}, update)
        collection.delete_one({"_id": 1})
        collection.drop()
        with collection.watch(resume_after=token) as stream:
            found.append([bare(next(stream)) for _ in range(3)])
    assert found[0] == found[1]


@pytest.mark.parametrize("moves", [False, True], ids=["short", "spilled"])
def test_what_a_reply_has_inserted_is_told_behind_a_drop(client, direct, moves):
    """Nothing has to be known of the time before: the insert is among the events."""
    twins = Twins(client, direct, "plain", "f")
    twins.both(lambda collection: collection.delete_many({}))
    with twins.through.watch() as through, twins.straight.watch() as straight:
        twins.both(lambda collection: collection.insert_one({"_id": 1, "f": list(range(20))}))
        if moves:
            twins.at_rest()
        twins.both(lambda collection: collection.update_one({"_id": 1}, {"$push": {"f": "x"}}))
        twins.both(lambda collection: collection.drop())
        found = [[bare(next(stream)) for _ in range(4)] for stream in (through, straight)]
    assert found[0] == found[1]


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


@pytest.mark.parametrize("name", ["edited", "edited_emptied"])
@pytest.mark.parametrize("options", [{}, {"full_document": "updateLookup"}, {
    "full_document": "required", "full_document_before_change": "required"}], ids=["bare", "looked up", "images"])
def test_what_follows_an_edit_in_place_is_told(client, direct, name, options):
    """The edit itself is not: a consumer reads the collection anew, and goes on."""
    for database in (client.shop, direct.reference):
        database.drop_collection(name)
        database.create_collection(name, changeStreamPreAndPostImages={"enabled": True})
    twins = Twins(client, direct, name, "f")
    twins.both(lambda collection: collection.insert_one({"_id": 1, "f": list(range(10))}))
    twins.at_rest()
    with twins.through.watch(**options) as through:
        for update in ({"$pull": {"f": {"$in": [1, 5, 6, 9]}}}, {"$set": {"f.4": "set"}}):
            twins.both(lambda collection, u=update: collection.update_one({"_id": 1}, u))
        with pytest.raises(OperationFailure, match="edited in place") as caught:
            next(through)
        assert caught.value.code == 286
    assert twins.stored.find_one({"_id": 1})["_spill"]["f"]["e"]["v"] > 0
    with twins.through.watch(**options) as through, twins.straight.watch(**options) as straight:
        for update in ({"$push": {"f": 100}}, {"$push": {"f": {"$each": [101, {"a": 1}]}}}, {"$set": {"z": 1}},
                       {"$push": {"f": 102}, "$inc": {"z": 1}}):
            twins.both(lambda collection, u=update: collection.update_one({"_id": 1}, u))
            wait_for(lambda: twins.stored.count_documents({"$expr": {"$eq": [{"$size": "$f"}, "$_spill.f.e.h"]}}),
                     "the tail to move behind the edit")
        twins.both(lambda collection: collection.update_one({"_id": 1}, {"$set": {"f": [5, 4, 3, 2, 1], "y": 2}}))
        twins.at_rest()
        twins.both(lambda collection: collection.update_one({"_id": 1}, {"$push": {"f": 103}}))
        twins.both(lambda collection: collection.delete_one({"_id": 1}))
        got, want = twins.events(through, straight)
    assert got == want


def test_an_edit_in_place_of_a_transaction_ends_the_stream(client, direct):
    books = client.shop.edited
    books.drop()
    books.insert_one({"_id": 1, "f": list(range(10))})
    wait_for(lambda: direct.shop.edited.count_documents({"_spill.f.n": {"$gt": 0}}), "the tail to move")
    with books.watch() as stream:
        with client.start_session() as session, session.start_transaction():
            books.update_one({"_id": 1}, {"$push": {"f": 10}}, session=session)
            books.update_one({"_id": 1}, {"$pull": {"f": 5}}, session=session)
            books.update_one({"_id": 1}, {"$push": {"f": 11}}, session=session)
        with pytest.raises(OperationFailure, match="edited in place"):
            next(stream)
    with books.watch() as stream:
        books.update_one({"_id": 1}, {"$addToSet": {"f": 12}})
        assert next(stream)["updateDescription"]["updatedFields"]["f.11"] == 12
