"""Edits of arrays that do not fit into a document: their batches are edited in place."""

import pytest
from bson.binary import Binary
from pymongo.errors import OperationFailure, WriteError
from uuid import uuid4

from support.editions import array_of
from support.operate import RULE, spill

RULES = [{**RULE, "gc_delay": "1h", "settle": "1h", "quiet": "1h", "sweep": "off", "gather": 1000000}]
TEXT = "x" * 100_000


@pytest.fixture
def shop(direct):
    for name in ("books", "tails"):
        direct.shop[name].delete_many({})
    direct.shop.tails.create_index([("book", 1), ("_spill.i", 1)], unique=True)
    return direct.shop


@pytest.fixture
def books(client, shop):
    return client.shop.books


def long(shop, count=180):
    array = [{"n": each, "k": each % 7, "text": TEXT} for each in range(count)]
    spill(shop, "long", array, state={"g": Binary(uuid4().bytes)})
    return array


def told(update):
    return [{key: value for key, value in each.items() if key != "text"} for each in update]


EDITS = [
    ({"$pull": {"list": {"n": 90}}}, None, lambda array: [each for each in array if each["n"] != 90]),
    ({"$pull": {"list": {"n": {"$in": [1, 2, 50, 51, 52, 179]}}}}, None,
     lambda array: [each for each in array if each["n"] not in (1, 2, 50, 51, 52, 179)]),
    ({"$set": {"list.$[x].k": 70}}, [{"x.n": 77}],
     lambda array: [{**each, "k": 70} if each["n"] == 77 else each for each in array]),
    ({"$inc": {"list.$[x].k": 1, "list.$[x].m": 2}}, [{"x.n": {"$gte": 170}}],
     lambda array: [{**each, "k": each["k"] + 1, "m": 2} if each["n"] >= 170 else each for each in array]),
]


def test_one_element_of_a_long_array(books, shop):
    array = long(shop)
    for update, filters, change in EDITS:
        expected = change(array)
        result = books.update_one({"_id": "long"}, update, array_filters=filters)
        assert (result.matched_count, result.modified_count) == (1, 1), update
        assert told(array_of(shop, "long")) == told(expected), update
        assert told(books.find_one({"_id": "long"})["list"]) == told(expected)
        result = books.update_one({"_id": "long"}, {"$pull": {"list": {"n": 90}}})
        assert (result.matched_count, result.modified_count) == (1, 0)
        array = expected
