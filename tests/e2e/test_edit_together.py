"""A write of several documents, while another writer touches one of them between any two of its commands.

The write goes through a Spillway that reaches mongod through a shim. Before its first command, its second, and so on,
the other writer acts, through another Spillway. What stays of the write's condition must be written once, and what is
told must be what mongod tells. A document of which the condition no longer holds must not be written any more.
"""

import itertools

import pytest

from support import exact
from support.cluster import Cluster
from support.process import wait_for
from support.shim import Shim
from support.spillway import Spillway
from support.wire import Connection

pytestmark = pytest.mark.share(4)
RULE = {
    "name": "together", "namespace": "shop.books", "array": "list", "threshold": 4,
    "settle": "10ms", "quiet": "10ms", "gc_delay": "2s",
    "overflow": {"collection": "more_books", "layout": "batches", "link": "book", "array": "part",
                 "batch": {"size": 3}},
}
LENGTHS = (3, 9, 2, 10, 9)  # those of more than four elements are spilled
SPILLED = [place for place, length in enumerate(LENGTHS) if length > 4]


def documents(first):
    """Each has the element 7, at its end: of the spilled ones it is in the overflow."""
    return [{"_id": first + place, "n": 1, "list": [*range(10, 9 + length), 7]} for place, length in enumerate(LENGTHS)]


def update(query, change):
    return {"update": "@", "updates": [{"q": query, "u": change, "multi": True}]}


WRITES = {
    "by an element": update({"list": 7}, {"$inc": {"n": 1}}),
    "by several": update({"list": {"$all": [7, 10]}}, {"$inc": {"n": 1}}),
    "push": update({"list": 7}, {"$push": {"list": "last"}, "$inc": {"n": 1}}),
    "guarded push": update({"list": {"$ne": "last"}}, {"$push": {"list": "last"}, "$inc": {"n": 1}}),
    "of one by hand": update({"list": 7}, {"$pull": {"list": 10}, "$inc": {"n": 1}}),
    "pull": update({"n": {"$lt": 5}}, {"$pull": {"list": {"$in": [10, 12]}}, "$inc": {"n": 1}}),
    "delete": {"delete": "@", "deletes": [{"q": {"list": 7}, "limit": 0}]},
}


class Place:
    """mongod, a Spillway behind a shim, another one, and connections to all three."""

    def __init__(self, cluster, shim, through, other):
        self.client = cluster.client()
        self.shim = shim
        self.through = Connection(through.port)
        self.direct = Connection(cluster.primary.port)
        self.other = Connection(other.port)
        self.first = 0  # `_id`: no two fillings share one, as the garbage of the former would be in the way

    def call(self, connection, command, collection="books"):
        name, value = next(iter(command.items()))
        command = {**command, name: collection if value == "@" else value, "$db": "shop"}
        reply = connection.call(exact.document(command)).plain()
        assert reply["ok"] == 1 and "writeErrors" not in reply, reply
        return {field: reply[field] for field in ("n", "nModified") if field in reply}

    def wait_until_spilled(self, *places):
        query = {"_id": {"$in": [self.first + place for place in places]}, "_spill.list.n": {"$gt": 0}}
        wait_for(lambda: self.client.shop.books.count_documents(query) == len(places), "the tails to move", pause=0.005)

    def fill(self):
        self.shim.restart()
        self.first += len(LENGTHS)
        for collection, connection in (("books", self.other), ("plain", self.direct)):
            self.client.shop[collection].delete_many({})
            self.call(connection, {"insert": collection, "documents": documents(self.first)}, collection)
        self.wait_until_spilled(*SPILLED)

    def read(self, connection, collection="books"):
        """By their places; each array's elements in any order: whose push came first is not told."""
        found = connection.call(exact.document({"find": collection, "$db": "shop"})).plain()["cursor"]["firstBatch"]
        return {each.pop("_id") - self.first: {**each, "list": sorted(each["list"], key=repr)} for each in found}


@pytest.fixture(scope="module")
def place():
    with Cluster(durable=False) as cluster, Shim(cluster.primary.port) as shim:
        upstream = {"upstream": {"uri": f"mongodb://{cluster.primary.address}/"}}
        with Spillway([shim], [RULE], upstream) as through, Spillway([cluster.primary], [RULE]) as other:
            yield Place(cluster, shim, through, other)


def act_at_each_command(place, write, act):
    """Yields (what the write was told, what `act` said) for each of its commands."""
    for number in itertools.count(1):
        place.fill()
        said = []

        def hook(request, number=number, said=said):
            if request.number == number:
                said.append(act())

        place.shim.restart(hook)
        told = place.call(place.through, WRITES[write])
        place.shim.restart()
        if not said:
            assert number > 1
            return
        yield told, said[0]


@pytest.mark.parametrize("target", (0, 1, 4))
@pytest.mark.parametrize("write", WRITES)
def test_what_others_push_makes_no_difference(place, write, target):
    def push(connection, collection):
        change = {"$push": {"list": {"$each": [31, 32, 33]}}}
        update_one = {"update": "@", "updates": [{"q": {"_id": place.first + target}, "u": change}]}
        return place.call(connection, update_one, collection)["n"]

    def act():
        """The tail of an ordinary document moves before the write goes on."""
        if push(place.other, "books") == 1 and target not in SPILLED:
            place.wait_until_spilled(target)

    place.fill()
    push(place.direct, "plain")
    expected = place.call(place.direct, WRITES[write], "plain")
    after = place.read(place.direct, "plain")
    for told, _ in act_at_each_command(place, write, act):
        assert told == expected
        assert place.read(place.other) == after


@pytest.mark.parametrize("target", (0, 1, 4))
@pytest.mark.parametrize("write", [name for name in WRITES if "guarded" not in name and name != "pull"])
def test_what_no_longer_matches_is_not_written(place, write, target):
    taken = [{"$set": {"list": {"$filter": {"input": "$list", "cond": {"$ne": ["$$this", 7]}}}, "seen": "$n"}}]

    def take():
        return place.call(
            place.other, {"update": "@", "updates": [{"q": {"_id": place.first + target}, "u": taken}]})["n"]

    for told, changed in act_at_each_command(place, write, take):
        found = place.read(place.other)
        if changed:
            assert found[target]["n"] == found[target]["seen"]
            assert 7 not in found[target]["list"]
        missing = len(LENGTHS) - len(found)
        written = missing if write == "delete" else sum(each["n"] - 1 for each in found.values())
        assert told["n"] == written >= len(LENGTHS) - 1
