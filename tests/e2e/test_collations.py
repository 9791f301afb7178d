"""A collection with a collation of its own: what compares equal in one array compares equal when it has moved.

Each command is sent straight at mongod on a plain collection and through Spillway on one whose array is spilled; both
collections compare strings without case.
"""

import pymongo
import pytest

from support.cluster import Cluster
from support.process import wait_for
from support.spillway import Spillway

RULE = {
    "name": "collations", "namespace": "shop.books", "array": "list", "threshold": 2, "settle": "10ms", "quiet": "10ms",
    "gc_delay": "0s", "overflow": {"collection": "more_books", "layout": "batches", "link": "book", "array": "part"},
}
EXACT = {**RULE, "name": "exact", "namespace": "shop.exact",
         "overflow": {**RULE["overflow"], "collection": "more_exact"}}
BOOK = "Moby"
LIST = ["one", "Two", "three", "FOUR", {"name": "Five"}]
CASELESS = {"locale": "en", "strength": 1}
PUSH = {"$push": {"list": "new"}}
COMMANDS = {
    "guard, found in the overflow": ({"list": {"$ne": "four"}}, PUSH),
    "guard, found in main": ({"list": {"$ne": "two"}}, PUSH),
    "guard, not found": ({"list": {"$ne": "six"}}, PUSH),
    "guard of several": ({"list": {"$nin": ["six", "four"]}}, PUSH),
    "guard on a field": ({"list.name": {"$ne": "fIVE"}}, PUSH),
    "add to set, there": ({}, {"$addToSet": {"list": "fOUR"}}),
    "add to set, new": ({}, {"$addToSet": {"list": "six"}}),
    "add to set, document": ({}, {"$addToSet": {"list": {"name": "FIVE"}}}),
    "equal": ({"list": "four"}, {"$set": {"n": 1}}),
    "in": ({"list": {"$in": ["six", "FouR"]}}, PUSH),
    "element": ({"list": {"$elemMatch": {"name": "five"}}}, PUSH),
    "pull": ({}, {"$pull": {"list": "four"}}),
    "pull by field": ({}, {"$pull": {"list": {"name": "FIVE"}}}),
    "positional": ({"list": "FOUR"}, {"$set": {"list.$": "found"}}),
}
COLLATIONS = {"the collection's": {}, "simple": {"collation": {"locale": "simple"}},
              "another": {"collation": {"locale": "en", "strength": 3}}}


@pytest.fixture(scope="module")
def clients():
    with Cluster() as cluster, cluster.client() as direct, Spillway([cluster.primary], [RULE, EXACT]) as spillway:
        for name in ("books", "plain"):
            direct.shop.create_collection(name, collation=CASELESS)
        with pymongo.MongoClient("127.0.0.1", spillway.port, directConnection=True) as through:
            yield direct, through


def fill(clients):
    direct, through = clients
    for client, name in ((through, "books"), (direct, "plain")):
        client.shop[name].delete_many({})
        client.shop[name].insert_one({"_id": BOOK, "list": LIST})
    wait_for(lambda: direct.shop.books.count_documents({"_spill.list.n": 3}) == 1, "the tail to move")


@pytest.mark.parametrize("collation", COLLATIONS)
@pytest.mark.parametrize("command", COMMANDS)
def test_strings_compare_as_in_one_document(clients, command, collation):
    fill(clients)
    query, change = COMMANDS[command]
    seen = []
    for client, name in zip(clients, ("plain", "books")):
        # The collection's own _id is asked for in another case.
        identifier = BOOK if COLLATIONS[collation] else BOOK.lower()
        statement = {"q": {"_id": identifier, **query}, "u": change, **COLLATIONS[collation]}
        reply = client.shop.command({"update": name, "updates": [statement]})
        seen.append((reply["n"], reply["nModified"], client.shop[name].find_one({"_id": BOOK})))
    assert seen[1] == seen[0]


IDS = [{"a": "x"}, {"a": "X"}, {"a": "\u00e9", "b": {"c": "q"}}, {"a": "e", "b": {"c": "Q"}},
       {"a": "x\\E.", "n": [1, {"m": 2}]},
       {"a": "X\\e.", "n": [1, {"m": 2}]}, "x", "X"]


@pytest.mark.parametrize("change", [{"$pull": {"list": 3}}, {"$set": {"list.4": "new"}}], ids=["pull", "set"])
def test_of_documents_whose_ids_are_equal_each_is_named(clients, change):
    """Under the command's collation; the collections' own lets them be different."""
    direct, through = clients
    seen = []
    for client, name in ((direct, "kept"), (through, "exact")):
        books = client.shop[name]
        books.delete_many({})
        books.insert_many([{"_id": identifier, "list": [1, 2, 3, 4, number]} for number, identifier in enumerate(IDS)])
    wait_for(lambda: direct.shop.exact.count_documents({"_spill.list.n": 3}) == len(IDS), "the tails to move")
    for client, name in ((direct, "kept"), (through, "exact")):
        made = []
        for query, many in [({"_id": identifier}, False) for identifier in IDS] + [({"list": 2}, True)]:
            statement = {"q": query, "u": change, "multi": many, "collation": CASELESS}
            reply = client.shop.command({"update": name, "updates": [statement]})
            made.append((reply["n"], reply["nModified"], list(client.shop[name].find(sort=[("_id", 1)]))))
        seen.append(made)
    assert seen[1] == seen[0]


@pytest.mark.parametrize("identifier", [{"a": ["x"]}, {"a.b": "x"}, {"a": "x" * 9000}], ids=["array", "dotted", "long"])
def test_one_that_cannot_be_named_is_refused(clients, identifier):
    _, through = clients
    through.shop.exact.replace_one({"_id": identifier}, {"list": [1, 2, 3]}, upsert=True)
    statement = {"q": {"_id": identifier}, "u": {"$pull": {"list": 3}}, "collation": CASELESS}
    with pytest.raises(pymongo.errors.OperationFailure, match="named exactly") as refused:
        through.shop.command({"update": "exact", "updates": [statement]})
    assert refused.value.code == 115
    assert through.shop.exact.find_one({"_id": identifier})["list"] == [1, 2, 3]
