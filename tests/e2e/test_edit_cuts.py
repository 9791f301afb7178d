"""An edit whose connection breaks before or behind any of its commands, and is sent again: applied exactly once.

Each edit goes through a Spillway that reaches mongod through a shim. The shim cuts at the first command, the second,
and so on, until the edit gets through. Behind a cut the document must be as before or as after the edit, never
between; then the same command comes again with the same statement number, through another Spillway, and its reply
must be that of the first time.
"""

import contextlib
import itertools
import uuid

import pytest
from bson import Binary, Int64

from support import exact
from support.cluster import Cluster
from support.process import wait_for
from support.shim import CUT_AFTER, CUT_BEFORE, Shim
from support.spillway import Spillway
from support.wire import Closed, Connection

pytestmark = pytest.mark.share(6)
RULE = {
    "name": "cuts", "namespace": "shop.books", "array": "list", "threshold": 2,
    "settle": "10ms", "quiet": "10ms", "gc_delay": "0s",
    "flag": {"field": "more", "value": True},
    "overflow": {"collection": "more_books", "layout": "batches", "link": "book", "array": "part",
                 "batch": {"size": 3}},
}
IN_PLACE = {**RULE, "fold_limit": "1B", "gc_delay": "1h"}
LIST = list(range(8))
FREE = ("$clusterTime", "operationTime", "opTime", "electionId", "retriedStmtIds", "retriedStmtId")


def update(change, query=None, **options):
    return {"update": "@", "updates": [{"q": {"_id": "#", **(query or {})}, "u": change, **options}]}


EDITS = {
    "pull": update({"$pull": {"list": 5}}),
    "pop": update({"$pop": {"list": -1}, "$inc": {"n": 1}}),
    "set by index": update({"$set": {"list.6": "six"}}),
    "push in front": update({"$push": {"list": {"$each": ["first"], "$position": 0}}}),
    "push": update({"$push": {"list": "last"}}),
    "guarded push": update({"$push": {"list": "last"}}, {"list": {"$ne": "last"}}),
    "push by length": update({"$push": {"list": "last"}}, {"list": {"$size": 8}}),
    "add to set": update({"$addToSet": {"list": "last"}}),
    "pipeline": update([{"$set": {"list": {"$reverseArray": "$list"}}}]),
    "found by the array": {"update": "@", "updates": [{"q": {"list": 7}, "u": {"$pull": {"list": {"$lt": 2}}}}]},
    "two at once": {"update": "@", "updates": [{"q": {"_id": "#"}, "u": {"$pop": {"list": 1}}},
                                               {"q": {"_id": "#"}, "u": {"$pop": {"list": 1}}}]},
    "in no order, one of them nowhere": {"update": "@", "ordered": False, "updates": [
        {"q": {"_id": "#"}, "u": {"$pop": {"list": 1}}}, {"q": {"_id": -1}, "u": {"$pop": {"list": 1}}}]},
    "findAndModify": {"findAndModify": "@", "query": {"_id": "#"}, "update": {"$pull": {"list": {"$gte": 6}}},
                      "new": True},
    "delete": {"delete": "@", "deletes": [{"q": {"_id": "#", "list": 7}, "limit": 1}]},
}
# Of an array that can't be folded back: each changes a batch, most of them the head or the tail, too.
EDITS_IN_PLACE = {
    "pull": update({"$pull": {"list": {"$in": [0, 2, 5]}}}),
    "pull nothing": update({"$pull": {"list": 77}}),
    "pull nothing, and set another field": update({"$pull": {"list": 77}, "$inc": {"n": 1}}),
    "pull all": update({"$pullAll": {"list": [4, 7]}}),
    "set all": update({"$inc": {"list.$[]": 1, "n": 1}}),
    "set some": update({"$set": {"list.$[x]": "x"}}, arrayFilters=[{"x": {"$gte": 6}}]),
    "pop in a batch": update({"$pop": {"list": 1}, "$inc": {"n": 1}}),
    "pop in the head": update({"$pop": {"list": -1}}),
    "set by index": update({"$set": {"list.6": "six", "n": 2}}),
    "set in the head by index": update({"$set": {"list.1": "one"}}),
    "set what is matched": update({"$set": {"list.$": "five"}}, {"list": 5}),
    "set what is matched in the head": update({"$set": {"list.$": "one"}}, {"list": {"$in": [1, 6]}}),
    "set what is matched to what it is": update({"$set": {"list.$": 5}}, {"list": 5}),
    "pull by another element": update({"$pull": {"list": 3}}, {"list": 6}),
    "findAndModify": {"findAndModify": "@", "query": {"_id": "#"}, "update": {"$pull": {"list": {"$gte": 6}}},
                      "new": True},
    "findAndModify of before": {"findAndModify": "@", "query": {"_id": "#", "list": 4},
                                "update": {"$set": {"list.$": "four"}}},
    "two at once": {"update": "@", "updates": [{"q": {"_id": "#"}, "u": {"$pull": {"list": 3}}},
                                               {"q": {"_id": "#"}, "u": {"$inc": {"list.$[]": 1}}}]},
}


class Place:
    """mongod, a Spillway behind a shim, another one, and connections to all three."""

    def __init__(self, cluster, shim, cut, other):
        self.client = cluster.client()
        self.shim = shim
        self.cut = cut
        self.direct = Connection(cluster.primary.port)
        self.other = Connection(other.port)
        self.book = 0

    def call(self, connection, command, collection="books", session=()):
        """The reply; "@" stands for the collection and "#" for the book."""
        def filled(value):
            if isinstance(value, dict):
                return {name: filled(part) for name, part in value.items()}
            if isinstance(value, list):
                return [filled(part) for part in value]
            return {"@": collection, "#": self.book}.get(value, value) if isinstance(value, str) else value

        parts = [*filled(command).items(), *session, ("$db", "shop")]
        return connection.call(exact.document(parts)).plain()

    def fill(self):
        """An array that has moved, and the same plainly."""
        self.shim.restart()
        self.book += 1
        for collection, connection in (("books", self.other), ("plain", self.direct)):
            self.client.shop[collection].delete_many({})
            self.call(connection, {"insert": collection, "documents": [{"_id": "#", "n": 1, "list": LIST}]})
        spilled = {"_id": self.book, "_spill.list.n": 6}
        wait_for(lambda: self.client.shop.books.count_documents(spilled) == 1, "the tail to move", pause=0.005)

    def documents(self, connection, collection):
        return self.call(connection, {"find": collection})["cursor"]["firstBatch"]


@contextlib.contextmanager
def make_place(rule):
    with Cluster(durable=False) as cluster, Shim(cluster.primary.port) as shim:
        upstream = {"upstream": {"uri": f"mongodb://{cluster.primary.address}/"}}
        with Spillway([shim], [rule], upstream) as cut, Spillway([cluster.primary], [rule]) as other:
            yield Place(cluster, shim, cut, other)


@pytest.fixture(scope="module")
def place():
    with make_place(RULE) as made:
        yield made


@pytest.fixture(scope="module")
def place_of_long_arrays():
    with make_place(IN_PLACE) as made:
        yield made


def new_session():
    return [("lsid", {"id": Binary(uuid.uuid4().bytes, 4)}), ("txnNumber", Int64(1))]


def told(reply):
    return {name: value for name, value in reply.items() if name not in FREE}


def cut_at(number, how):
    return lambda request: how if request.number == number else None


def apply_once(place, edit, how, between):
    """`between`: a part of the edit may be done."""
    for number in itertools.count(1):
        place.fill()
        before = place.documents(place.direct, "plain")
        expected = told(place.call(place.direct, edit, "plain", new_session()))
        after = place.documents(place.direct, "plain")
        connection, session = Connection(place.cut.port), new_session()
        place.shim.restart(cut_at(number, how))
        try:
            reply = place.call(connection, edit, session=session)
        except (Closed, OSError):
            reply = None
        finally:
            connection.close()
        place.shim.restart()
        place.client.admin.command("killAllSessions", [])  # else mongod waits a minute for the rest of a transaction
        if reply is not None:
            assert told(reply) == expected
        elif not between:
            assert place.documents(place.other, "books") in (before, after)
        again = place.call(place.other, edit, session=session)
        assert told(again) == expected, f"sent again behind a cut at command {number}"
        assert place.documents(place.other, "books") == after
        if reply is not None:
            return number


@pytest.mark.parametrize("how", [CUT_BEFORE, CUT_AFTER])
@pytest.mark.parametrize("name", EDITS)
def test_an_edit_is_applied_exactly_once(place, name, how):
    assert apply_once(place, EDITS[name], how, name == "two at once") > 1


@pytest.mark.parametrize("how", [CUT_BEFORE, CUT_AFTER])
@pytest.mark.parametrize("name", EDITS_IN_PLACE)
def test_an_edit_in_place_is_applied_exactly_once(place_of_long_arrays, name, how):
    assert apply_once(place_of_long_arrays, EDITS_IN_PLACE[name], how, name == "two at once") > 8
