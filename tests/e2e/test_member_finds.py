"""Finds that ask one document, named by its _id, for an element of its array: mongod's answers, and no array is put
together.

Each find goes straight to mongod on a plain collection and through Spillway on one whose arrays have moved. Then
something is written, moved or removed before the find's first command to mongod, its second, and so on.
"""

import itertools
import re
import struct

import pymongo
import pytest
from pymongo.errors import OperationFailure

from support import exact, share
from support.cluster import Cluster
from support.process import wait_for
from support.shim import Shim
from support.spillway import Spillway
from support.wire import Connection


def rule(name, **more):
    return {"name": name, "namespace": f"shop.{name}", "array": "list", "threshold": 3, "settle": "5ms", "quiet": "5ms",
            "gc_delay": "100ms",
            "overflow": {"collection": f"{name}_more", "link": "book", "array": "part", "batch": more}}


# Of the first the overflow has several documents, of the second one.
RULES = [rule("many", size=2), rule("few"), rule("caseless", size=2)]
LIST = [{"v": "head", "w": 1}, 7, [8], "One", {"v": [3, 4]}, {"v": "deep", "w": {"x": 5}}, 2.5, {"v": "tail", "w": 9},
        None, [[1]], [{"v": "in"}]]
VALUES = ("head", "deep", "tail", 7, 8, 9, "One", "one", 3, 5, 1, "in", 2.5, None, 77)
CONDITIONS = {
    "the array": lambda value: {"list": value},
    "a field": lambda value: {"list.v": value},
    "a field of a field": lambda value: {"list.w.x": value},
    "$eq": lambda value: {"list": {"$eq": value}},
    "$in": lambda value: {"list.v": {"$in": [value, 78]}},
    "$elemMatch": lambda value: {"list": {"$elemMatch": {"v": value, "w": {"$exists": True}}}},
    "$elemMatch of values": lambda value: {"list": {"$elemMatch": {"$eq": value}}},
    "$elemMatch in a field": lambda value: {"list.v": {"$elemMatch": {"$gte": value}}},
    "a document": lambda value: {"list": {"v": value, "w": 9}},
    "an expression": lambda value: {"list": re.compile(str(value))},
    "another field, too": lambda value: {"list.v": value, "n": 1},
    "another field, in vain": lambda value: {"list.v": value, "n": 2},
    "$and": lambda value: {"$and": [{"list.v": value}]},
}
PROJECTIONS = (None, {"_id": 1}, {"n": 1}, {"n": 1, "_id": 0}, {"list": 0}, {"list": 1}, {"n": 0})
CASELESS = {"locale": "en", "strength": 1}


class Place:
    def __init__(self, cluster, shim, cut, other):
        self.stored = cluster.client().shop
        self.shim = shim
        self.port = cluster.primary.port
        self.cut, self.other = (pymongo.MongoClient("127.0.0.1", one.port, directConnection=True).shop
                                for one in (cut, other))

    def fill(self, name, document):
        """The document, and the same plainly; its array has moved."""
        for database, collection in ((self.other, name), (self.stored, f"{name}_plain")):
            database[collection].delete_many({})
            database[collection].insert_one(document)
        self.wait_for_move(name, len(document["list"]))

    def wait_for_move(self, name, length):
        moved = {"_spill.list.n": length - 3, "list": {"$size": 3}}
        wait_for(lambda: self.stored[name].count_documents(moved) == 1, "the tail to move", pause=0.005)


@pytest.fixture(scope="module")
def place():
    with Cluster(durable=False) as cluster, Shim(cluster.primary.port) as shim:
        upstream = {"upstream": {"uri": f"mongodb://{cluster.primary.address}/"}}
        with cluster.client() as client:
            for name in ("caseless", "caseless_plain"):
                client.shop.create_collection(name, collation=CASELESS)
        with Spillway([shim], RULES, upstream) as cut, Spillway([cluster.primary], RULES) as other:
            yield Place(cluster, shim, cut, other)


@pytest.mark.parametrize("name", [rule["name"] for rule in RULES])
def test_the_answers_are_mongods(place, name):
    place.fill(name, {"_id": "Book", "n": 1, "list": LIST})
    found = 0
    asked = share.share(itertools.product(CONDITIONS, VALUES, PROJECTIONS), 4)
    for condition, value, projection in asked:
        filter_ = {"_id": "Book", **CONDITIONS[condition](value)}
        expected = list(place.stored[f"{name}_plain"].find(filter_, projection))
        assert list(place.cut[name].find(filter_, projection)) == expected, (filter_, projection)
        assert place.cut[name].find_one(filter_, projection) == next(iter(expected), None), (filter_, projection)
        found += len(expected)
    assert found > len(asked) / 6


def test_no_array_is_put_together(place):
    place.fill("many", {"_id": 1, "n": 1, "list": LIST})
    for value, commands in (("head", 1), ("tail", 2), ("nobody", 3)):
        place.shim.restart()
        place.cut.many.find_one({"_id": 1, "list.v": value}, {"_id": 1})
        assert [request.name
                for request in place.shim.requests if not request.handshake()] == ["find"] * commands, value
    place.fill("few", {"_id": 1, "n": 1, "list": LIST})
    for value, commands in (("head", 1), ("tail", 2), ("nobody", 2)):
        place.shim.restart()
        place.cut.few.find_one({"_id": 1, "list.v": value}, {"_id": 1})
        assert [request.name
                for request in place.shim.requests if not request.handshake()] == ["find"] * commands, value


def test_what_is_no_array_or_has_not_moved(place):
    for collection, database in (("many", place.other), ("many_plain", place.stored)):
        database[collection].delete_many({})
        database[collection].insert_many([{"_id": 1, "list": 7}, {"_id": 2}, {"_id": 3, "list": {"v": 7}},
                                          {"_id": 4, "list": [7, {"v": 7}]},
                                          {"_id": 5, "list": []}, {"_id": 6, "list": None}, {"_id": 7, "list": [[7]]}])
    for identifier, condition in itertools.product(range(9), ({"list": 7}, {"list.v": 7}, {"list": {"v": 7}},
                                                              {"list": {"$elemMatch": {"$eq": 7}}})):
        filter_ = {"_id": identifier, **condition}
        assert list(place.cut.many.find(filter_)) == list(place.stored.many_plain.find(filter_)), filter_


def document(*fields):
    """BSON with names that may stand twice; values are ints or (type byte, bytes)."""
    made = b"".join((b"\x10" + name.encode() + b"\0" + struct.pack("<i", value)) if isinstance(value, int)
                    else value[:1] + name.encode() + b"\0" + value[1:] for name, value in fields)
    return struct.pack("<i", len(made) + 5) + made + b"\0"


def test_names_that_stand_twice(place):
    seven, one = (b"\x04" + document(("0", value)) for value in (7, 1))
    documents = [document(("_id", 1), ("n", 1), ("n", 2), ("list", seven)),
                 document(("_id", 2), ("list", one), ("list", seven)),
                 document(("_id", 3), ("list", 7), ("list", seven)), document(("_id", 4), ("list", seven), ("list", 7)),
                 document(("_id", 5), *((f"n{i}", i) for i in (1, 2, 3, 4) for _ in range(2)), ("list", seven))]
    for collection in ("many", "many_plain"):
        place.stored[collection].delete_many({})
        with Connection(place.port) as connection:
            insert = exact.document({"insert": collection, "$db": "shop"})
            assert connection.call(insert, sequences=[("documents", documents)]).plain()["n"] == len(documents)
    for identifier, projection in itertools.product(range(1, 6), ({"_id": 1}, {"n": 1}, {"n1": 1, "n2": 1})):
        filter_ = {"_id": identifier, "list": 7}
        assert list(place.cut.many.find(filter_,
                                        projection)) == list(place.stored.many_plain.find(filter_,
                                                                                          projection)), (filter_,
                                                                                                         projection)


def test_every_collation_shows_itself(place):
    """Only under the simple collation is a composed letter another text than its parts (member.c)."""
    place.stored.one.insert_one({"_id": 1})
    shows = {"is": {"$eq": ["\u00e9", "e\u0301"]}}
    locales = ("af", "ar", "cs", "da", "de", "de@collation=phonebook", "el", "en", "en_US_POSIX", "es", "fi", "fr",
               "fr_CA", "he", "hi", "hu", "ja", "ko",
               "lt", "nb", "pl", "pt", "ro", "ru", "sv", "th", "tr", "uk", "vi", "zh", "zh@collation=stroke")
    collations = itertools.product(locales, range(1, 6), ({}, {"normalization": True}, {"alternate": "shifted"},
                                                          {"caseLevel": True}))
    for locale, strength, more in share.share(collations, 4):
        found = place.stored.one.find_one({}, shows, collation={"locale": locale, "strength": strength,
                                                                "caseFirst": "off", "backwards": False, **more})
        assert found["is"], (locale, strength, more)
    for collation in (None, {"locale": "simple"}):
        assert not place.stored.one.find_one({}, shows, collation=collation)["is"]


WHOLE = [f"e{i}" for i in range(9)]


def pull_first(place, name):
    """The array is folded back and moves again: elements of the overflow are in the head then."""
    place.other[name].update_one({"_id": 1}, {"$pull": {"list": "e0"}})
    place.wait_for_move(name, len(WHOLE) - 1)


def push_more(place, name):
    """The elements that were pushed are in the overflow then."""
    place.other[name].update_one({"_id": 1}, {"$push": {"list": {"$each": ["new", "newer", "newest"]}}})
    place.wait_for_move(name, len(WHOLE) + 3)


def fold(place, name):
    """The array is whole in its document for the moment, and what was its overflow is gone."""
    place.other[name].update_one({"_id": 1}, {"$set": {"list.8": "e8"}})
    place.stored[f"{name}_more"].delete_many({})


def delete(place, name):
    place.other[name].delete_one({"_id": 1})
    place.stored[f"{name}_more"].delete_many({})


EVENTS = {event.__name__: event for event in (pull_first, push_more, fold, delete)}


@pytest.mark.share(3)
@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("event", EVENTS)
@pytest.mark.parametrize("name", ["many", "few"])
def test_what_happens_between_two_commands(place, name, event, whole):
    for value, stays in (("e1", True), ("e4", True), ("e8", True), ("e0", False), ("new", False), ("nobody", None)):
        for number in itertools.count(1):
            place.shim.restart()
            place.fill(name, {"_id": 1, "list": WHOLE})
            happened = []

            def happen(request):
                if request.number == number:
                    happened.append(request)
                    EVENTS[event](place, name)

            place.shim.restart(happen)
            try:
                found = list(place.cut[name].find({"_id": 1, "list": value}, None if whole else {"_id": 1}))
            except OperationFailure as failure:
                # Without its overflow the array can't be read for a moment, as before.
                assert failure.code == 134 and event in ("fold", "delete"), failure
                found = None
            place.shim.restart()
            if found is not None:
                assert len(found) <= 1
                if stays and event != "delete":
                    assert found, f"{value} was there all the time, {event} before command {number}"
                if stays is None:
                    assert not found, f"{value} was never there"
                if found and whole:
                    assert value in found[0]["list"] and len(found[0]["list"]) in (8, 9, 12)
            if not happened:
                assert number > 1
                break
