"""Change streams: what `change_streams: refuse` refuses, and what `as_stored` shows."""

import pymongo
import pytest
from pymongo.errors import OperationFailure

from support.operate import RULE
from support.process import wait_for
from support.spillway import Spillway

OPEN = {"change_streams": "as_stored"}


def rule(namespace, overflow="{collection}_more", array="list", **more):
    return {**RULE, "name": f"{namespace}.{array}".replace("*", "all"), "namespace": namespace, "array": array,
            "settle": "5ms", "change_streams": "refuse",
            "overflow": {**RULE["overflow"], "collection": overflow}, **more}


# In `shop` one collection's rule lets streams see what is stored, and another's does not; one collection has a rule of
# each kind. `aside` holds the overflow of a collection in another database.
RULES = [
    rule("shop.books"), rule("shop.shown", **OPEN), rule("shop.pairs", **OPEN),
    rule("shop.pairs", array="other", overflow="pairs_other", flag={"field": "long", "value": True}),
    rule("tenant_*.posts"), rule("main.far", overflow="aside.tails"),
    rule("public.books", **OPEN), rule("public_*.books", **OPEN),
    rule("public.far", overflow="public_aside.tails", **OPEN),
]
# What moves make of its documents is small, and what they change is much.
SMALL = rule("shop.small", when_outlier="empty", counters={"total": "total", "documents": "documents"},
             reference={"field": "reference", "format": "{_id}_more"}, **OPEN)
WHY = "Spillway's own writes"


@pytest.fixture(scope="module")
def watching(cluster):
    """A Spillway all of whose rules let streams see what is stored."""
    with Spillway([cluster.primary], [*({**each, **OPEN} for each in RULES), SMALL]) as made, \
            pymongo.MongoClient("127.0.0.1", made.port, directConnection=True) as client:
        yield client


def refused(open_it):
    with pytest.raises(OperationFailure) as caught:
        open_it()
    assert caught.value.code == 115, caught.value
    assert "$changeStream" in caught.value.details["errmsg"]
    return caught.value.details["errmsg"]


def moved(collection, count):
    wait_for(lambda: collection.count_documents({"_spill.list.n": {"$gt": 0}}) == count, "tails to move")


def opened(database, first):
    """The command of a stream as its stage stands, where no driver looks at it before."""
    reply = database.command({"aggregate": 1, "pipeline": [first], "cursor": {}})
    database.command("killCursors", "$cmd.aggregate", cursors=[reply["cursor"]["id"]])


@pytest.mark.parametrize("name", ["books", "pairs"])
def test_a_stream_of_a_ruled_collection_is_refused(client, name):
    collection = client.shop[name]
    collection.insert_one({"list": list(range(20))})
    said = refused(collection.watch)
    assert f"on 'shop.{name}'" in said and WHY in said and "change_streams: as_stored" in said, said
    for pipeline in ([{"$match": {"operationType": "insert"}}], [{"$project": {"documentKey": 1}}],
                     [{"$set": {"x": 1}}]):
        assert WHY in refused(lambda stages=pipeline: collection.watch(stages))


def test_however_it_is_asked_for(client, direct):
    """Going on from a token or a time, with lookups, explained; and of a collection that a pattern means."""
    books = client.shop.books
    with direct.shop.books.watch() as stream:
        direct.shop.books.insert_one({})
        token = next(stream)["_id"]
        time = direct.admin.command("ping")["operationTime"]
    options = [{"resume_after": token}, {"start_after": token}, {"start_at_operation_time": time},
               {"full_document": "updateLookup"},
               {"full_document_before_change": "whenAvailable"}, {"show_expanded_events": True}, {"batch_size": 0}]
    for option in options:
        assert WHY in refused(lambda given=option: books.watch(**given))
        assert WHY in refused(lambda given=option: client.shop.watch(**given))
        assert WHY in refused(lambda given=option: client.watch(**given))
    stream = {"aggregate": "books", "pipeline": [{"$changeStream": {}}], "cursor": {}}
    assert WHY in refused(lambda: client.shop.command("explain", stream))
    assert WHY in refused(lambda: client.shop.command({**stream, "explain": True}))
    assert WHY in refused(lambda: client.tenant_7.posts.watch())


@pytest.mark.parametrize("name", ["shop", "tenant_7", "main", "aside"])
def test_a_stream_of_a_database_that_holds_ruled_or_overflow_collections_is_refused(client, name):
    said = refused(client[name].watch)
    assert f"database '{name}'" in said and WHY in said and "change_streams: as_stored" in said, said
    assert "collections without a rule" in said, said


def test_a_stream_of_the_cluster_is_refused(client):
    said = refused(client.watch)
    assert "cluster" in said and WHY in said and "change_streams: as_stored" in said, said
    refused(lambda: opened(client.admin, {"$changeStream": {"allChangesForCluster": True, "resumeAfter": None}}))


def test_what_has_no_rule_is_watched_as_it_was(client, direct):
    for watched, name in ((client.shop.plain, "shop"), (client.tenant_7.plain, "tenant_7"), (client.free, "free"),
                          (client.free.plain, "free")):
        for options in ({}, {"full_document": "updateLookup"}):
            with watched.watch(**options) as stream:
                direct[name].plain.insert_one({"list": [1]})
                assert next(stream)["fullDocument"]["list"] == [1]
                token = stream.resume_token
    with client.free.plain.watch(resume_after=token) as again:
        direct.free.plain.update_one({}, {"$set": {"x": 1}})
        assert next(again)["operationType"] == "update"


def test_an_overflow_collection_can_be_watched_by_its_name(client, direct):
    """It can be read as it is stored, too."""
    with client.shop.books_more.watch() as stream:
        client.shop.books.insert_one({"_id": "long", "list": list(range(20))})
        assert next(stream)["fullDocument"]["book"] == "long"


def test_collections_and_databases_whose_rules_all_let_it(client):
    for watched in (client.shop.shown, client.public.books, client.public, client.public_7, client.public_aside):
        with watched.watch():
            pass


def test_errors_of_mongod_stay_its_own(client, direct):
    """Where a stream is of nothing that has a rule."""
    wrong = [{"$changeStream": {}}, {"$changeStream": {"allChangesForCluster": False}},
             {"$changeStream": {"allChangesForCluster": "x"}},
             {"$changeStream": 5}]
    for stage in wrong:
        found = []
        for database in (client.admin, direct.admin):
            with pytest.raises(OperationFailure) as caught:
                opened(database, stage)
            found.append((caught.value.code, caught.value.details["errmsg"]))
        assert found[0] == found[1]


def test_mongod_takes_a_stream_nowhere_else(direct):
    """In a view, a joined pipeline, a facet or behind another stage: so nothing has to be refused there."""
    stage = {"$changeStream": {}}
    direct.shop.plain.insert_one({})
    for command in ({"create": "view", "viewOn": "plain", "pipeline": [stage]},
                    *({"aggregate": "plain", "cursor": {}, "pipeline": stages} for stages in (
                        [{"$unionWith": {"coll": "plain", "pipeline": [stage]}}], [{"$facet": {"a": [stage]}}],
                        [{"$lookup": {"from": "plain", "pipeline": [stage], "as": "x"}}], [{"$match": {}}, stage])),
                    {"aggregate": "$cmd.aggregate", "cursor": {}, "pipeline": [stage]}):
        with pytest.raises(OperationFailure):
            direct.shop.command(command)
    direct.shop.create_collection("of_plain", viewOn="plain", pipeline=[])
    with pytest.raises(OperationFailure):
        direct.shop.of_plain.watch()


def test_as_stored_events_come_as_they_are(watching, direct):
    books = watching.shop.books
    books.delete_many({})
    with books.watch() as stream, watching.shop.watch() as wide, watching.watch() as widest:
        books.insert_one({"_id": "new", "list": list(range(20))})
        assert stream.next()["fullDocument"] == {"_id": "new", "list": list(range(20))}
        moved(direct.shop.books, 1)
        kinds = {next(iter(stream.next()["updateDescription"]["updatedFields"])).partition(".")[0] for _ in range(2)}
        assert "_spill" in kinds  # moves are seen, by marks of their own
        for other in (wide, widest):
            assert next(other)["operationType"] in ("insert", "update")


def test_no_move_is_seen_as_a_replacement_by_a_short_document(watching, direct):
    with watching.shop.small.watch() as stream:
        watching.shop.small.insert_many([{"_id": i, "list": list(range(4 + i)), **({"t": "t" * i} if i else {})}
                                         for i in range(20)])
        moved(direct.shop.small, 20)
        kinds = [stream.next()["operationType"] for _ in range(3 * 20)]
    assert kinds.count("insert") == 20 and kinds.count("update") == 40


@pytest.mark.parametrize("options", [
    {"full_document": "updateLookup"}, {"full_document": "whenAvailable"}, {"full_document": "required"},
    {"full_document_before_change": "whenAvailable"},
])
@pytest.mark.parametrize("whole", ["collection", "database", "cluster"])
def test_as_stored_no_documents_are_looked_up(watching, options, whole):
    watched = {"collection": watching.shop.books, "database": watching.shop, "cluster": watching}[whole]
    assert WHY not in refused(lambda: watched.watch(**options))


@pytest.mark.parametrize("options", [{"fullDocument": "default", "fullDocumentBeforeChange": "off"},
                                     {"fullDocument": None}], ids=str)
def test_a_change_stream_may_say_that_it_looks_nothing_up(watching, options):
    reply = watching.shop.command("aggregate", "books", pipeline=[{"$changeStream": options}], cursor={})
    watching.shop.command("killCursors", "books", cursors=[reply["cursor"]["id"]])
