"""Filters that look at a document as a whole and name no field of it: they see nothing of Spillway."""

import pytest
from test_odm_shapes import bulk, write

from support.twins import twins

pytestmark = pytest.mark.share(1)
BOOKS = [{"_id": 1, "n": 1, "list": [1, 2, 3, 4]}, {"_id": 2, "n": 2, "k": 1, "list": [1, 2, 3]},
         {"_id": 3, "n": 3, "k": 1, "list": [1]}, {"_id": 4, "n": 4, "k": 1, "o": 1, "list": [1, 2, 3, 4, 5]},
         {"_id": 5, "n": 5}]
SIZE = {"$size": {"$objectToArray": "$$ROOT"}}
FILTERS = [
    {"$jsonSchema": {"maxProperties": 4}}, {"$jsonSchema": {"minProperties": 4}}, {"$nor": [{"$jsonSchema": {
        "maxProperties": 3}}]}, {"list": 3, "$jsonSchema": {"maxProperties": 4}},
    {"$jsonSchema": {"additionalProperties": False, "properties": {"_id": {}, "n": {}, "k": {}, "list": {}}}},
    {"$jsonSchema": {"patternProperties": {"^_s": {"bsonType": "string"}}}}, {"$expr": {"$lte": [SIZE, 4]}},
]
CHANGES = [{"$set": {"m": 1}}, {"$push": {"list": 7}}, {"$pop": {"list": 1}}]


@pytest.fixture(scope="module")
def arms():
    with twins(("soon2", "rest0", "rest2", "each2")) as made:
        yield made


@pytest.mark.parametrize("query", FILTERS, ids=str)
def test_all_documents_that_mongod_means_are_written(arms, query):
    for change in CHANGES:
        arms.run(BOOKS, [bulk(write(change, query, multi=True))])
    arms.run(BOOKS, [{"delete": "books", "deletes": [{"q": query, "limit": 0}]}])


@pytest.mark.parametrize("query", FILTERS, ids=str)
def test_one_document_is_written_and_all_are_read(arms, query):
    arms.run(BOOKS, [bulk(write(change, {"_id": 2, **query})) for change in CHANGES])
    arms.run(BOOKS, [{"find": "books", "filter": query, "sort": {"_id": 1}}, {"count": "books", "query": query}])
