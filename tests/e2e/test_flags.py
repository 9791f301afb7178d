"""A flag that documents have from their application is its own as long as nothing of theirs was moved, and when it
is back."""

import pytest
from pymongo import ReturnDocument, UpdateOne

from support.process import wait_for

RULES = [
    {"name": name, "namespace": f"shop.{name}", "array": "list", "threshold": 2, "settle": "5ms", "quiet": "5ms",
     "gc_delay": "0s",
     "flag": {"field": "split", "value": True}, **more,
     "overflow": {"collection": f"{name}_tails", "link": "book", "array": "part"}}
    for name, more in (("hidden", {}), ("shown", {"expose": ["flag"]}))
]
COLLECTIONS = [rule["name"] for rule in RULES]
CHANGES = [{"$set": {"list": []}}, {"$set": {"list": [7]}}, {"$unset": {"list": 1}}]
WAYS = {
    "update": lambda books, change: books.update_one({"_id": 1}, change),
    "update many": lambda books, change: books.update_many({"z": 0}, change),
    "upsert": lambda books, change: books.update_one({"_id": 1}, change, upsert=True),
    "bulk": lambda books, change: books.bulk_write([UpdateOne({"_id": 1}, {"$set": {"z": 1}}),
                                                    UpdateOne({"z": 1}, change)]),
    # The old image would need batches that are gone at once here.
    "findAndModify": lambda books, change: books.find_one_and_update({"_id": 1}, change,
                                                                     return_document=ReturnDocument.AFTER),
}


def stored(direct, collection):
    document = direct.shop[collection].find_one()
    return document.get("split"), document.get("_spill", {}).get("list", {}).get("n", 0)


@pytest.mark.parametrize("length", [2, 9])
@pytest.mark.parametrize("collection", COLLECTIONS)
@pytest.mark.parametrize("way", WAYS)
def test_a_whole_write_leaves_the_flag_as_the_application_had_it(client, direct, way, collection, length):
    books = client.shop[collection]
    for change in CHANGES:
        for flag in ({}, {"split": False}, {"split": "no"}):
            books.delete_many({})
            books.insert_one({"_id": 1, "z": 0, **flag, "list": list(range(length))})
            if length > 2:
                wait_for(lambda: stored(direct, collection)[1], "the tail to move")
            WAYS[way](books, change)
            assert stored(direct, collection) == (flag.get("split"), 0), (change, flag)
