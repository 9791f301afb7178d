"""A client can't give a document a state (`_spill`): each way by which a write could store one is refused, alone."""

from uuid import uuid4

import pytest
from bson import Binary
from pymongo import UpdateOne
from pymongo.errors import BulkWriteError, OperationFailure

from support.operate import RULE, generation, spill

pytestmark = pytest.mark.share(3)
RULES = [{**RULE, "settle": "1h", "quiet": "1h", "sweep": "off", "gather": 1000000}]
VICTIM = list(range(12))
# The victim's own generation: its 9 elements of overflow would appear in the forged document.
STATE = {"list": {"g": generation(), "h": 0, "n": 9}}
NAME = {"$concat": ["_sp", "ill"]}
SPARE = {"$concat": ["_spill/", "computed"]}


def merged(*documents):
    return {"$mergeObjects": ["$$ROOT", *documents]}


def computed(name, value):
    return {"$arrayToObject": [[{"k": name, "v": {"$literal": value}}]]}


PIPELINES = {
    "a name made by $concat": [{"$replaceWith": merged(computed(NAME, STATE))}],
    "$replaceRoot": [{"$replaceRoot": {"newRoot": merged(computed(NAME, STATE))}}],
    "$setField": [{"$replaceWith": {"$setField": {"field": {"$literal": "_spill"}, "input": "$$ROOT",
                                                  "value": {"$literal": STATE}}}}],
    "a name that is spelt out": [{"$replaceWith": {"_id": "$_id", "list": "$list", "_spill": {"$literal": STATE}}}],
    "a parameter": [{"$replaceWith": merged("$$p")}],
    "a part of the document": [{"$replaceWith": merged("$part")}],
    "in the middle of others": [{"$set": {"a": 1}}, {"$replaceWith": merged(computed(NAME, STATE))}, {"$unset": "a"}],
    "a spare name": [{"$replaceWith": merged(computed(SPARE, True))}],
    "a name with a dot": [{"$replaceWith": merged(computed({"$concat": ["_spill", ".list"]}, STATE["list"]))}],
}


@pytest.fixture(scope="module", autouse=True)
def index(cluster):
    with cluster.client() as direct:
        direct.shop.tails.create_index([("book", 1), ("_spill.i", 1)], unique=True)


@pytest.fixture
def books(client, direct):
    # As everywhere, no generation comes twice: the mover may still be removing the one of the test before.
    STATE["list"]["g"] = Binary(uuid4().bytes)
    direct.shop.books.delete_many({})
    direct.shop.tails.delete_many({})
    direct.shop.src.drop()
    spill(direct.shop, "victim", VICTIM, state={"g": STATE["list"]["g"]})
    direct.shop.books.insert_one({"_id": "x", "list": [99], "part": {"_spill": STATE}})
    return client.shop.books


def nothing_forged(direct):
    """What the test itself wrote is all that has such a name."""
    for document in direct.shop.books.find():
        assert document["_id"] == "victim" or not any(name.startswith("_spill") for name in document), document


def refused(call, codes=(115,)):
    with pytest.raises(OperationFailure) as caught:
        call()
    error = caught.value.details
    if isinstance(caught.value, BulkWriteError):
        error = error["writeErrors"][0]
    assert error["code"] in codes and "_spill" in error["errmsg"] and "'books'" in error["errmsg"], error


def with_parameter(command):
    return {**command, "let": {"p": {"_spill": STATE}}}


def update(books, pipeline, **more):
    statement = {"q": {"_id": "x"}, "u": pipeline, **more}
    reply = books.database.command(with_parameter({"update": "books", "updates": [statement]}))
    if "writeErrors" in reply:
        assert (reply["n"], reply["nModified"]) == (0, 0)
        raise OperationFailure("", reply["writeErrors"][0]["code"], reply["writeErrors"][0])


def find_and_modify(books, pipeline, **more):
    books.database.command(with_parameter({"findAndModify": "books", "query": {"_id": "x"}, "update": pipeline,
                                           **more}))


def bulk_write(books, pipeline):
    reply = books.database.client.admin.command(with_parameter(
        {"bulkWrite": 1, "ops": [{"update": 0, "filter": {"_id": "x"}, "updateMods": pipeline}],
         "nsInfo": [{"ns": "shop.books"}]}))
    result = reply["cursor"]["firstBatch"][0]
    if not result["ok"]:
        raise OperationFailure("", result["code"], result)


def in_transaction(books, pipeline):
    with books.database.client.start_session() as session, session.start_transaction():
        reply = books.database.command(with_parameter(
            {"update": "books", "updates": [{"q": {"_id": "x"}, "u": pipeline}]}), session=session)
        if "writeErrors" in reply:
            raise OperationFailure("", reply["writeErrors"][0]["code"], reply["writeErrors"][0])


COMMANDS = {
    "update": update,
    "update of many": lambda books, pipeline: update(books, pipeline, multi=True, q={"list": 99}),
    "update by the array": lambda books, pipeline: update(books, pipeline, q={"list": 99}),
    "upsert": lambda books, pipeline: update(books, pipeline, upsert=True),
    "update under a collation": lambda books, pipeline: update(books, pipeline,
                                                               collation={"locale": "en", "strength": 1}),
    "findAndModify": find_and_modify,
    "findAndModify, new": lambda books, pipeline: find_and_modify(books, pipeline, new=True, sort={"list": 1}),
    "bulkWrite": bulk_write,
    "in a transaction": in_transaction,
}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("name", PIPELINES)
def test_a_pipeline_that_computes_the_name(books, direct, name, command):
    before = list(direct.shop.books.find())
    refused(lambda: COMMANDS[command](books, PIPELINES[name]))
    nothing_forged(direct)
    assert list(direct.shop.books.find()) == before
    assert sorted(each["_id"] for each in books.find({"list": {"$gte": 0}})) == ["victim", "x"]


def test_an_upsert_that_inserts(books, direct):
    pipeline = PIPELINES["a name made by $concat"]
    refused(lambda: update(books, pipeline, q={"_id": "new", "list": [1]}, upsert=True))
    refused(lambda: find_and_modify(books, pipeline, query={"_id": "new"}, upsert=True, new=True))
    nothing_forged(direct)
    assert not direct.shop.books.find_one({"_id": "new"})


def test_a_spilled_document(books, direct):
    """Its own state goes as it is folded back, and no other comes."""
    refused(lambda: update(books, PIPELINES["a name made by $concat"], q={"_id": "victim"}))
    assert books.find_one({"_id": "victim"})["list"] == VICTIM
    split = "_spill" in direct.shop.books.find_one({"_id": "victim"})
    assert not split or direct.shop.tails.find_one({"book": "victim"})


def test_only_the_statement_that_does_so_is_refused(books, direct):
    good = [{"$replaceWith": merged({"good": 1})}]
    with pytest.raises(BulkWriteError) as caught:
        books.bulk_write([UpdateOne({"_id": "x"}, good), UpdateOne({"_id": "x"}, PIPELINES["a name made by $concat"]),
                          UpdateOne({"_id": "victim"}, good)], ordered=False)
    assert [error["index"] for error in caught.value.details["writeErrors"]] == [1]
    assert caught.value.details["writeErrors"][0]["code"] == 115
    assert (caught.value.details["nMatched"], caught.value.details["nModified"]) == (2, 2)
    assert [books.find_one({"_id": each})["good"] for each in ("x", "victim")] == [1, 1]


@pytest.mark.parametrize("pipeline", [
    [{"$replaceWith": merged({"n": 1})}],
    [{"$replaceWith": "$$ROOT"}],
    [{"$replaceRoot": {"newRoot": merged({"list": {"$slice": ["$list", 1]}})}}],
    [{"$replaceWith": merged({"_spillway": 1, "_spil": 2, "x_spill": 3, "a": {"_spill": STATE}})}],
    [{"$replaceWith": {"_id": "$_id", "z": 1, "list": "$list"}}],
    [{"$replaceWith": merged(computed({"$concat": ["a", "b"]}, 5))}],
    [{"$replaceWith": "$list"}],
    [{"$replaceWith": {"$toInt": "x"}}],
], ids=str)
@pytest.mark.parametrize("upsert", [False, True])
def test_others_do_what_they_do_at_mongod(books, direct, pipeline, upsert):
    """Replies and documents are the same, field order too."""
    direct.plain.books.drop()
    answers = []
    for database in (direct.plain, books.database):
        if database == direct.plain:
            database.books.insert_many(books.find())
        for identifier in ("x", "victim", "new"):
            reply = database.command({"update": "books",
                                      "updates": [{"q": {"_id": identifier}, "u": pipeline, "upsert": upsert}]})
            answers.append({key: reply[key] for key in ("n", "nModified", "upserted", "writeErrors") if key in reply})
    assert answers[:3] == answers[3:]
    stored = [[list(each.items()) for each in database.books.find().sort("_id")]
              for database in (direct.plain, books.database)]
    assert stored[0] == stored[1]


def test_a_pipeline_that_has_no_room_for_the_guard(books):
    pipeline = [{"$set": {"a": 1}}] * 999 + [{"$replaceWith": "$$ROOT"}]
    with pytest.raises(OperationFailure) as caught:
        books.update_one({"_id": "x"}, pipeline)
    assert caught.value.code == 115 and "1000" in caught.value.details["errmsg"]
    assert books.update_one({"_id": "x"}, pipeline[1:]).modified_count == 1


OTHERS = {
    "$rename": lambda db: db.books.update_one({"_id": "x"}, {"$rename": {"part": "_spill"}}),
    "$set": lambda db: db.books.update_one({"_id": "x"}, {"$set": {"_spill.list": STATE["list"]}}),
    "$setOnInsert": lambda db: db.books.update_one({"_id": "new"}, {"$setOnInsert": {"_spill": STATE}}, upsert=True),
    "a filter's equality": lambda db: db.books.update_one({"_id": "new", "_spill": STATE}, {"$set": {"a": 1}},
                                                          upsert=True),
    "a filter's path": lambda db: db.books.update_one({"_id": "new", "$and": [{"_spill.list": {"$eq": STATE["list"]}}]},
                                                      {"$set": {"a": 1}}, upsert=True),
    "a spare name in a filter": lambda db: db.books.update_one({"_id": "new", "_spill/computed": True},
                                                               {"$set": {"a": 1}}, upsert=True),
    "a replacement": lambda db: db.books.replace_one({"_id": "x"}, {"list": [1], "_spill": STATE}),
    "a replacement with a spare name": lambda db: db.books.replace_one({"_id": "x"},
                                                                       {"list": [1], "_spill/computed": True}),
    "an insert": lambda db: db.books.insert_one({"_id": "new", "_spill": STATE}),
    "$set in a pipeline": lambda db: db.books.update_one({"_id": "x"}, [{"$set": {"_spill": {"$literal": STATE}}}]),
    "$project in a pipeline": lambda db: db.books.update_one({"_id": "x"}, [{"$project": {"_spill": "$part._spill"}}]),
}


@pytest.mark.parametrize("name", OTHERS)
def test_what_names_it_stays_refused(books, direct, name):
    refused(lambda: OTHERS[name](books.database))
    nothing_forged(direct)


MERGED = [{"_id": "new", "list": [1], "_spill": STATE}, {"_id": "new", "list": [1], "_spill/computed": True},
          {"_id": "new", "list": [1], "_spill/other": True}]


@pytest.mark.parametrize("mode", ["replace", "merge", "keepExisting", "fail"])
@pytest.mark.parametrize("document", MERGED, ids=lambda document: list(document)[2])
def test_merge_into_a_ruled_namespace(books, direct, document, mode):
    direct.shop.src.insert_one(document)
    refused(lambda: books.database.src.aggregate([{"$merge": {"into": "books", "whenMatched": mode}}]))
    nothing_forged(direct)


@pytest.mark.parametrize("name", ["rename", "copy"])
def test_a_collection_that_takes_the_name(books, direct, name):
    direct.shop.src.insert_one({"_id": "new", "list": [1], "_spill": STATE})
    direct.shop.books.drop()
    command = {"rename": lambda: books.database.client.admin.command("renameCollection", "shop.src", to="shop.books"),
               "copy": lambda: books.database.command("cloneCollectionAsCapped", "src", toCollection="books",
                                                      size=100000)}[name]
    with pytest.raises(OperationFailure) as caught:
        command()
    assert caught.value.code == 115
    nothing_forged(direct)
