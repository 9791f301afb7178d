"""What passes mongod's own limits fails with mongod's own code and words, also where Spillway would have to rewrite
it."""

import pymongo
import pytest

RULES = [{
    "name": "books", "namespace": "shop.books", "array": "list", "threshold": 3, "settle": "10ms",
    "overflow": {"layout": "batches", "link": "book", "array": "part"},
}]


def nested(depth):
    pipeline = []
    for _ in range(depth):
        pipeline = [{"$unionWith": {"coll": "books", "pipeline": pipeline}}]
    return pipeline


COMMANDS = {
    "a path of 201 parts": {"distinct": "books", "key": "list" + ".a" * 200},
    "a path of 60,000 parts": {"distinct": "books", "key": "list" + ".a" * 60_000},
    "1,001 stages": {"aggregate": "books", "pipeline": [{"$match": {"list": 1}}] * 1001, "cursor": {}},
    "1,001 unions": {"aggregate": "others", "pipeline": [{"$unionWith": "books"}] + [{"$match": {"a": 1}}] * 1000,
                     "cursor": {}},
    "100,001 edits": {"update": "books", "updates": [{"q": {"_id": 1}, "u": {"$set": {"list.0": 1}}}] * 100_001},
    "100,001 deletes": {"delete": "books", "deletes": [{"q": {"list": 1}, "limit": 1}] * 100_001},
    "100,001 long inserts": {"insert": "books", "documents": [{"list": [1, 2, 3, 4]}] * 100_001},
    "25 nested unions": {"aggregate": "others", "pipeline": nested(25), "cursor": {}},
}


def failure(client, command):
    with pytest.raises(pymongo.errors.OperationFailure) as failed:
        client.shop.command(dict(command))
    return failed.value.code, failed.value.details["errmsg"].split(" First element")[0]


@pytest.mark.parametrize("name", COMMANDS)
def test_a_limit_of_mongods_is_told_in_its_words(direct, client, name):
    direct.shop.books.update_one({"_id": 1}, {"$set": {"list": [1]}}, upsert=True)
    assert failure(client, COMMANDS[name]) == failure(direct, COMMANDS[name])


def test_a_path_of_200_parts_is_followed(direct, client):
    key = "list" + ".a" * 199
    assert client.shop.books.distinct(key) == direct.shop.books.distinct(key) == []


LARGE = "x" * 9_000_000
LARGER = "x" * 15_000_000
STATEMENTS = {
    "$addToSet": {"q": {"_id": 2}, "u": {"$addToSet": {"list": LARGE}}},
    "$addToSet of a large one": {"q": {"_id": 2}, "u": {"$addToSet": {"list": LARGER}}},
    "a condition": {"q": {"_id": 2, "list": LARGE}, "u": {"$set": {"list.0": 7}}},
    "a larger condition": {"q": {"_id": 2, "list": LARGER}, "u": {"$set": {"list.0": 7}}},
    "a condition without an _id": {"q": {"list": LARGER}, "u": {"$set": {"list.0": 7}}, "multi": True},
    "$pull": {"q": {"_id": 2}, "u": {"$pull": {"list": LARGER}}},
    "$set": {"q": {"_id": 2}, "u": {"$set": {"list.1": LARGER}}},
    "$in": {"q": {"_id": 2, "list": {"$in": [LARGE]}}, "u": {"$push": {"list": 7}}},
    "a pipeline": {"q": {"_id": 2}, "u": [{"$set": {"list": {"$concatArrays": ["$list", [LARGER]]}}}]},
}
# Spillway asks by its filter twice, which passes 16 MB; mongod finds nothing by it.
REFUSED = "a condition without an _id"


@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize("name", STATEMENTS)
def test_what_is_done_before_a_statement_that_is_too_long_is_told(direct, client, name, ordered):
    answers = []
    for shop, books in ((direct.shop, "plain"), (client.shop, "books")):
        direct.shop[books].delete_many({})
        direct.shop[books].insert_many({"_id": i, "list": [1]} for i in (1, 2, 3))
        small = [{"q": {"_id": i}, "u": {"$set": {"list.0": 5}}} for i in (1, 3)]
        reply = shop.command({"update": books, "updates": [small[0], STATEMENTS[name], small[1]], "ordered": ordered})
        errors = [(each["index"], each["code"]) for each in reply.get("writeErrors", [])]
        lists = [[len(str(element)) for element in each["list"]] for each in direct.shop[books].find().sort("_id", 1)]
        answers.append((reply["ok"], reply["n"], reply["nModified"], errors, lists))
    if name == REFUSED:
        answers[0] = (1.0, *((1, 1) if ordered else (2, 2)), [(1, 10334)], answers[1][4])
    assert answers[0] == answers[1]
    assert len(answers[1][4]) == 3
