"""Malformed messages on a ruled collection with a spilled document, beside mongod: what mongod refuses fails through
Spillway, too, and what stands behind it is read as a message of its own or not at all.
"""

import contextlib
import socket
import struct

import pymongo
import pytest
from bson.raw_bson import RawBSONDocument

from support import exact, frames
from support.cluster import Cluster
from support.peer import End, Ended
from support.process import wait_for
from support.spillway import Spillway

RULE = {
    "name": "lists", "namespace": "shop.books", "array": "list", "threshold": 3, "settle": "1ms", "gc_delay": "0s",
    "sweep": "off", "overflow": {"collection": "extra", "layout": "batches", "link": "book", "array": "part"},
}
SHORT, LONG = {"_id": 1, "list": [1]}, {"_id": 9, "list": list(range(9))}
PING_ID, ASKED_ID = 77, 7
PING = frames.message({"ping": 1, "$db": "admin"}, (), PING_ID)
FAILED_TO_PARSE, NOT_SUPPORTED = 9, 115
FLAGS = bytes(4)


def bson(*pairs):
    return exact.document(list(pairs))


def find(*more, filter_=None):
    return bson(("find", "books"), ("filter", filter_ or {"list": 7}), *more, ("$db", "shop"))


def update(*more, change=None):
    statement = {"q": {"_id": 1}, "u": change or {"$push": {"list": 3}}}
    return bson(("update", "books"), ("updates", [statement]), *more, ("$db", "shop"))


def body(data):
    return b"\0" + data


def sized(data, size):
    return struct.pack("<i", size) + data[4:]


def swapped(data, old, new):
    assert data.count(old) >= 1 and len(old) == len(new), (data, old)
    return data.replace(old, new, 1)


def nested(depth, inside=b"\5\0\0\0\0"):
    """A document of so many levels."""
    data = inside
    parts = [struct.pack("<i", len(inside) + 8 * level) for level in range(1, depth + 1)]
    return b"".join(part + b"\3a\0" for part in reversed(parts)) + data + depth * b"\0"


def lengths(data):
    """The document with other lengths."""
    return {str(size): sized(data, size) for size in
            (0, 4, 5, len(data) - 1, len(data) + 1, -1, 2**31 - 1, -2**31)}


def values():
    """What a filter may hold, by what is wrong with it."""
    def string(length, data):
        return exact.Raw(exact.STRING, struct.pack("<i", length) + data)

    scope = bson(("x", 1))
    code = struct.pack("<i", 2) + b"a\0"
    whole = 4 + len(code) + len(scope)
    made = {
        "string of length 0": string(0, b"a\0"), "string of length -1": string(-1, b"a\0"),
        "string without its NUL": string(2, b"aa"), "string past the end": string(1000, b"a\0"),
        "bool 2": exact.Raw(exact.BOOL, b"\2"), "unknown type": exact.Raw(0x42, b"\1"),
        "type 0": exact.Raw(0x80, b""), "document of length 4": exact.Raw(exact.DOCUMENT, b"\4\0\0\0"),
        "document past the end": exact.Raw(exact.DOCUMENT, b"\xff\0\0\0\0"),
        "document without its NUL": exact.Raw(exact.DOCUMENT, b"\5\0\0\0\1"),
        "array of odd keys": exact.Raw(exact.ARRAY, bson(("5", 1), ("5", 2), ("x", 3))),
        "old binary of a wrong length": exact.Raw(exact.BINARY, struct.pack("<i", 5) + b"\2" + b"\x09\0\0\0a"),
        "binary of a negative length": exact.Raw(exact.BINARY, struct.pack("<i", -1) + b"\0"),
        "UTF-8 that is none": string(3, b"\xff\xfe\0"), "NUL in a string": string(4, b"a\0b\0"),
        "regex without an end": exact.Raw(exact.REGEX, b"a\0i"),
        "document inside binary": exact.Raw(exact.BINARY, struct.pack("<i", 597) + b"\0" + nested(74)),
    }
    made |= {f"code with scope, {name}": exact.Raw(exact.CODE_WITH_SCOPE, struct.pack("<i", length) + code + scope)
             for name, length in {"length 0": 0, "too short": whole - 1, "too long": whole + 1, "right": whole}.items()}
    made |= {f"{depth} levels": exact.Raw(exact.DOCUMENT, nested(depth)) for depth in
             (90, 97, 98, 99, 100, 101, 150, 190, 200, 201, 250, 1000, 100_000)}
    return made


def sequence(documents, name=b"updates\0", size=None):
    return b"\1" + struct.pack("<i", len(name) + len(documents) + 4 if size is None else size) + name + documents


STATEMENT = exact.document({"q": {"_id": 1}, "u": {"$push": {"list": 3}}})
BARE = body(bson(("update", "books"), ("$db", "shop")))
SECTIONS = {
    "sections, none": b"", "sections, no body": sequence(STATEMENT),
    "sections, two bodies": body(find()) + body(find()),
    "sections, kind 2": body(find()) + b"\2" + bson(), "sections, kind 255": b"\xff" + body(find()),
    "sections, the sequence first": sequence(STATEMENT) + BARE,
    "sections, the sequence twice": BARE + sequence(STATEMENT) + sequence(STATEMENT),
    "sections, field and sequence": body(update()) + sequence(STATEMENT),
    "sections, a sequence that nobody wants": body(find()) + sequence(STATEMENT, b"nonsense\0"),
    "sections, no end of the name": BARE + sequence(b"", b"updates"),
    "sections, an empty name": BARE + sequence(STATEMENT, b"\0"),
    "sections, half a document": BARE + sequence(STATEMENT + STATEMENT[:9]),
    "sections, bytes behind": body(find()) + b"\0\0\0",
    **{f"sections, size {size}": BARE + sequence(STATEMENT, size=size) for size in (0, 3, 4, -1, 12, 1000, 2**31 - 1)},
}
TWICE = {
    "twice, find": bson(("find", "books"), ("filter", {}), ("find", "plain"), ("$db", "shop")),
    "twice, filter": find(("filter", {"list": 1})), "twice, $db": find(("$db", "other")),
    "twice, updates": update(("updates", [])), "twice, ordered": update(("ordered", True), ("ordered", False)),
    "twice, q": bson(("update", "books"), ("updates", [exact.value_of(exact.Raw(exact.DOCUMENT, bson(
        ("q", {"_id": 1}), ("q", {"_id": 9}), ("u", {"$push": {"list": 3}}))))]), ("$db", "shop")),
    "twice, operator": update(change=(exact.DOCUMENT, exact.pairs_of(
        [("$push", {"list": 3}), ("$push", {"list": 4})]))),
}
NAMES = {
    "name, NUL in the collection": swapped(find(), b"books\0", b"bo\0ks\0"),
    "name, NUL in the database": swapped(find(), b"shop\0", b"sh\0p\0"),
    "name, UTF-8 that is none": swapped(find(), b"books\0", b"b\xff\xfeks\0"),
    "name, capitals": bson(("FIND", "books"), ("$db", "shop")),
    "name, behind another": bson(("ping", 1), ("update", "books"), ("updates", [{"q": {}, "u": {}}]), ("$db", "shop")),
    "name, no database": bson(("find", "books")),
    "name, empty key": find(filter_={"": 7}),
    "name, a key of 1 MB": find(filter_={"k" * (1 << 20): 7}),
    "name, $query": bson(("$query", {"find": "books"}), ("$db", "shop")),
    "name, a number for the collection": bson(("find", 5), ("$db", "shop")),
    "name, an empty collection": bson(("find", ""), ("$db", "shop")),
    "name, too long": bson(("find", "b" * 300), ("$db", "shop")),
}
FLAGGED = {
    **{f"flag, bit {bit}": struct.pack("<I", 1 << bit) + body(find()) for bit in range(2, 32)},
    "flag, bad checksum": struct.pack("<I", frames.CHECKSUM_PRESENT) + body(find()) + b"\1\2\3\4",
    "flag, no room for the checksum": struct.pack("<I", frames.CHECKSUM_PRESENT) + b"\0",
}
PAYLOADS = {
    **{f"length of a find, {name}": FLAGS + body(data) for name, data in lengths(find()).items()},
    **{f"length of an update, {name}": FLAGS + body(data) for name, data in lengths(update()).items()},
    **{f"length of the filter, {name}": FLAGS + body(find(filter_=exact.Raw(exact.DOCUMENT, data)))
       for name, data in lengths(bson(("list", 7))).items()},
    "length of a find, no end": FLAGS + body(find()[:-1] + b"\1"),
    **{f"filter, {name}": FLAGS + body(find(filter_={"list": value})) for name, value in values().items()},
    **{f"update, {name}": FLAGS + body(update(change={"$push": {"list": value}})) for name, value in values().items()},
    **{name: FLAGS + data for name, data in SECTIONS.items()},
    **{name: FLAGS + body(data) for name, data in {**TWICE, **NAMES}.items()},
    **FLAGGED,
    "empty": b"", "half of the flags": b"\0\0",
}


def outcome(port, payload):
    """What is said to the message with a ping behind it: codes (0 is ok) by the request that they answer, and whether
    the connection has ended."""
    said = {}
    with contextlib.closing(End(socket.create_connection(("127.0.0.1", port)))) as client:
        client.ask(frames.message({"hello": 1, "$db": "admin"}, (), 1))
        client.send(frames.frame(frames.OP_MSG, payload, ASKED_ID), PING)
        try:
            while PING_ID not in said:
                reply = client.frame()
                said[reply.response_to] = reply.plain().get("code", 0)
        except Ended:
            said["ended"] = True
    return said


def stored(collection):
    return collection.find_one({"_id": 1}).raw


class Servers:
    """mongod with a collection that no rule is on, and Spillway with one that has a rule and a spilled document."""

    def __init__(self, cluster, spillway):
        self.straight, self.spillway = cluster.primary, spillway
        self.direct = cluster.client(document_class=RawBSONDocument)
        self.books, self.plain = self.direct.shop.books, self.direct.shop.plain
        self.plain.insert_many([SHORT, LONG])
        with pymongo.MongoClient("127.0.0.1", spillway.port, directConnection=True) as client:
            client.shop.books.insert_many([SHORT, LONG])
            wait_for(lambda: len(self.books.find_one(9)["list"]) == 3, "the tail to move")

    def through(self, payload):
        """The outcome, and whether the ordinary document is another now."""
        before = stored(self.books)
        said = outcome(self.spillway.port, payload)
        written = stored(self.books) != before
        if written:
            self.books.delete_one({"_id": 1})
            self.books.insert_one(SHORT)
        return said, written

    def straight_to_mongod(self, payload):
        return outcome(self.straight.port, payload.replace(b"books", b"plain"))


@pytest.fixture(scope="module")
def servers():
    with Cluster(durable=False) as cluster, Spillway([cluster.primary], [RULE]) as spillway:
        made = Servers(cluster, spillway)
        yield made
        made.direct.close()


@pytest.mark.parametrize("name", PAYLOADS)
def test_what_mongod_refuses_fails_and_nothing_else_is_read_of_it(servers, name):
    through, written = servers.through(PAYLOADS[name])
    expected = servers.straight_to_mongod(PAYLOADS[name])
    if through != expected:
        assert through.get(ASKED_ID) in (FAILED_TO_PARSE, NOT_SUPPORTED) and through.get(PING_ID) == 0, (
            through, expected)
    assert not written or through[ASKED_ID] == 0
    assert servers.spillway.running()
