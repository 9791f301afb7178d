"""What passes mongod's own limits fails with mongod's own code and words, also where Spillway would have to rewrite it."""

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
