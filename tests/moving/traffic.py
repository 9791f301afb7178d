"""Clients that push, edit and read documents of their own through Spillway, and know what these must be."""

import random
import threading

import pymongo
from bson import encode


class Client(threading.Thread):
    """One client. `documents` are what it works on, as they are now; nobody else writes them. `server` is a port, or a
    connection string."""

    def __init__(self, server, documents, seed, options=None):
        super().__init__()
        self.server, self.documents, self.source = server, documents, random.Random(seed)
        self.options = options or {}
        self.stopped, self.failure = threading.Event(), None
        self.done = {}
        self.number = 0

    def run(self):
        try:
            with self.connect() as client:
                while not self.stopped.is_set():
                    self.work(client.shop.books)
        except Exception as error:
            self.failure = error

    def connect(self):
        if isinstance(self.server, int):
            return pymongo.MongoClient("127.0.0.1", self.server, directConnection=True, **self.options)
        return pymongo.MongoClient(self.server, **self.options)

    def work(self, books):
        document = self.source.choice(self.documents)
        operation = self.source.choice([push, push, push, push_many, push_new, put, pop, pull, read, look_inside])
        self.number += 1
        operation(self, books, document, f"{self.name} {self.number}")
        self.done[operation.__name__] = self.done.get(operation.__name__, 0) + 1


def _update(books, document, change, matched=1, **more):
    result = books.update_one({"_id": document["_id"], **more}, change)
    assert result.matched_count == matched, f"{change} on {document['_id']} matched {result.matched_count}"


def push(_client, books, document, value):
    _update(books, document, {"$push": {"list": value}})
    document.setdefault("list", []).append(value)


def push_many(client, books, document, value):
    values = [value, {"u": value}, None][:client.source.randrange(4)]
    array = document.get("list", [])
    position = client.source.randrange(len(array) + 1)
    _update(books, document, {"$push": {"list": {"$each": values, "$position": position}}})
    document.setdefault("list", [])[position:position] = values


def push_new(client, books, document, value):
    """Guarded: it matches only where the value is not there yet."""
    texts = [each for each in document.get("list", []) if isinstance(each, str)]
    if texts and client.source.random() < 0.5:
        _update(books, document, {"$push": {"list": texts[-1]}}, 0, list={"$ne": texts[-1]})
        return
    _update(books, document, {"$push": {"list": value}}, list={"$ne": value})
    document.setdefault("list", []).append(value)


def put(client, books, document, value):
    if not document.get("list"):
        return
    place = client.source.randrange(len(document["list"]))
    _update(books, document, {"$set": {f"list.{place}": value}})
    document["list"][place] = value


def pop(client, books, document, _value):
    if not document.get("list"):
        return
    first = client.source.random() < 0.5
    _update(books, document, {"$pop": {"list": -1 if first else 1}})
    document["list"].pop(0 if first else -1)


def pull(client, books, document, _value):
    texts = [each for each in document.get("list", []) if isinstance(each, str)]
    if not texts:
        return
    value = client.source.choice(texts)
    _update(books, document, {"$pull": {"list": value}})
    document["list"] = [each for each in document["list"] if each != value]


def read(_client, books, document, _value):
    found = books.find_one({"_id": document["_id"]})
    assert encode(found) == encode(document), f"{document['_id']}: {found} instead of {document}"


def look_inside(client, books, document, value):
    """A filter on the array, and the last elements of it."""
    texts = [each for each in document.get("list", []) if isinstance(each, str)]
    wanted = client.source.choice(texts) if texts else value
    found = books.find_one({"_id": document["_id"], "list": wanted}, {"list": {"$slice": -5}})
    if texts:
        assert encode({"list": found["list"]}) == encode({"list": document["list"][-5:]})
    else:
        assert found is None
