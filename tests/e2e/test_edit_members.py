"""Edits go on while a replica set of three changes its primary, a member is killed, or Spillway is: each is applied
exactly once.

Every editor has a book of its own and makes numbered edits, one after another, as a driver does that writes with the
majority and sends again. Each edit also notes its number in another array of the book, which says in the end what
was applied: all that was acknowledged, in order, what got no answer at most once, and the array must be what those
edits make of it.
"""

import contextlib
import math
import threading

import pymongo
import pytest
from pymongo.errors import AutoReconnect, OperationFailure, WriteConcernError, WTimeoutError
from pymongo.write_concern import WriteConcern
from test_members import listeners

from support import share
from support.cluster import Cluster
from support.process import wait_for
from support.spillway import Spillway
from support.verify import verify

RULE = {
    "name": "members", "namespace": "shop.books", "array": "list", "threshold": 3,
    "settle": "5ms", "quiet": "5ms", "gc_delay": "0s",
    "overflow": {"collection": "more_books", "layout": "batches", "link": "book", "array": "part",
                 "batch": {"size": 4}},
}
EDITORS = share.part(2, every=4)
FIRST = list("abcdefghijkl")
NOT_APPLIED = (112, 189)  # a conflict; or the member stepped down just before it wrote


def noted(number, change):
    return {**change, "$push": {**change.get("$push", {}), "log": number}}


def front(books, book, number):
    change = {"$push": {"list": {"$each": [number], "$position": 0}}}
    return books.update_one({"_id": book}, noted(number, change)).modified_count


def guarded(books, book, number):
    query = {"_id": book, "list": {"$ne": number}}
    return books.update_one(query, noted(number, {"$push": {"list": number}})).modified_count


def added(books, book, number):
    return books.update_one({"_id": book}, noted(number, {"$addToSet": {"list": number}})).modified_count


def pulled(books, book, number):
    change = {"$pull": {"list": {"$mod": [9, number % 9]}}, "$inc": {"n": 1}}
    return books.update_one({"_id": book}, noted(number, change)).modified_count


def popped(books, book, number):
    return books.update_one({"_id": book}, noted(number, {"$pop": {"list": -1}})).modified_count


def replaced(books, book, number):
    return books.update_one({"_id": book}, noted(number, {"$set": {"list.2": number}})).modified_count


def reversed_(books, book, number):
    change = [{"$set": {"list": {"$reverseArray": "$list"}, "log": {"$concatArrays": ["$log", [number]]}}}]
    return books.update_one({"_id": book}, change).modified_count


def modified(books, book, number):
    change = noted(number, {"$push": {"list": {"$each": [number, -number], "$position": 3}}})
    found = books.find_one_and_update({"_id": book}, change, return_document=pymongo.ReturnDocument.AFTER)
    return found["list"].count(number) + found["list"].count(-number) - 1


def pushed(books, book, number):
    return books.update_one({"_id": book}, noted(number, {"$push": {"list": number}})).modified_count


def without(array, number):
    """mongod's remainder has the sign of the number that is divided."""
    return [item for item in array if item in FIRST or math.fmod(item, 9) != number % 9]


# What is done, and what it makes of the array; more is pushed than taken.
WAYS = [
    (front, lambda array, number: [number, *array]),
    (guarded, lambda array, number: [*array, number]),
    (pushed, lambda array, number: [*array, number]),
    (replaced, lambda array, number: [*array[:2], number, *array[3:]]),
    (added, lambda array, number: [*array, number]),
    (popped, lambda array, number: array[1:]),
    (reversed_, lambda array, number: array[::-1]),
    (modified, lambda array, number: [*array[:3], number, -number, *array[3:]]),
    (pulled, without),
    (pushed, lambda array, number: [*array, number]),
    (pushed, lambda array, number: [*array, number]),
]


def result_of(numbers):
    array = FIRST
    for number in numbers:
        array = WAYS[number % len(WAYS)][1](array, number)
    return array


class Editor(threading.Thread):
    """Edits its book until told to stop; knows what was acknowledged, refused, or not answered."""

    def __init__(self, client, book):
        super().__init__(daemon=True)
        self.books = client.shop.books
        self.book = book
        self.stopping = threading.Event()
        self.done, self.refused, self.unknown = [], [], {}
        self.failure = None

    def run(self):
        number = 1
        try:
            while not self.stopping.is_set():
                self._edit(number)
                number += 1
        except BaseException as failure:  # pytest sees it in the main thread
            self.failure = failure

    def _edit(self, number):
        try:
            assert WAYS[number % len(WAYS)][0](self.books, self.book, number) == 1, number
            self.done.append(number)
        except (AutoReconnect, WriteConcernError) as error:  # the driver tries twice; both may meet a change
            self.unknown[number] = error
        except OperationFailure as error:
            assert error.code in NOT_APPLIED, error
            self.refused.append(number)

    def finish(self):
        self.stopping.set()
        self.join()
        if self.failure:
            raise self.failure

    def require_kept(self, found, most_unknown):
        log = found["log"]
        assert [number for number in log if number not in self.unknown] == self.done
        assert sorted(set(log)) == log, "twice, or in another order"
        assert found["list"] == result_of(log), f"{self.book}: {log[-20:]}, no answer: {self.unknown}"
        assert len(self.unknown) <= most_unknown, self.unknown
        assert len(self.refused) <= len(self.done) / 10


@pytest.fixture(scope="module")
def cluster():
    with Cluster(members=3) as made:
        yield made


@pytest.fixture(scope="module")
def spillway(cluster):
    with Spillway(cluster.members, [RULE]) as made:
        yield made


def advance(editors, count=15):
    goals = [len(editor.done) + count for editor in editors]
    wait_for(lambda: all(len(editor.done) > goal or editor.failure for editor, goal in zip(editors, goals)), "edits")


def edits_during(cluster, spillway, faults, most_unknown):
    """Editors at work while the faults come, and what must be there in the end."""
    seeds = ",".join(listeners(spillway))
    with pymongo.MongoClient(f"mongodb://{seeds}/?replicaSet=rs0&heartbeatFrequencyMS=500", w="majority") as client:
        client.shop.books.delete_many({})
        editors = [Editor(client, f"editor {number}") for number in range(EDITORS)]
        for editor in editors:
            client.shop.books.insert_one({"_id": editor.book, "list": FIRST, "log": []})
            editor.start()
        for fault in faults:
            advance(editors)
            fault()
        advance(editors)
        for editor in editors:
            editor.finish()
        cluster.wait_for_first()
        for editor in editors:
            editor.require_kept(client.shop.books.find_one({"_id": editor.book}), most_unknown)
        with cluster.client() as direct:
            wait_for(lambda: not verify(direct, RULE), "the tails to move")


@contextlib.contextmanager
def no_majority(cluster):
    """The secondaries write nothing that comes from the primary."""
    others = [member.client() for member in cluster.members if member is not cluster.primary]

    def missed():
        with cluster.client() as direct:
            try:
                direct.shop.get_collection("others", write_concern=WriteConcern("majority", 200)).insert_one({})
            except WTimeoutError:
                return True
        return False

    for other in others:
        other.admin.command("configureFailPoint", "rsSyncApplyStop", mode="alwaysOn")
    try:
        wait_for(missed, "the secondaries to stop")
        yield
    finally:
        for other in others:
            other.admin.command("configureFailPoint", "rsSyncApplyStop", mode="off")
            other.close()


def test_who_asks_for_no_majority_waits_for_none(cluster, spillway):
    """Nor does a Spillway that is to end, whose mover does."""
    cluster.wait_for_first()
    number = cluster.members.index(cluster.primary)
    with Spillway(cluster.members, [RULE], more={"limits": {"drain": "1s"}}) as own:
        client = pymongo.MongoClient("127.0.0.1", own.ports[number], directConnection=True, w=1, retryWrites=False,
                                     timeoutMS=60000)
        client.shop.books.insert_one({"_id": "alone", "list": FIRST})
        with cluster.client() as direct:
            wait_for(lambda: len(direct.shop.books.find_one({"_id": "alone"})["list"]) == 3, "the tail to move")
        with no_majority(cluster):
            changed = client.shop.books.find_one_and_update({"_id": "alone"}, {"$pop": {"list": 1}},
                                                            return_document=True)
            assert changed["list"] == FIRST[:-1]
            assert client.shop.books.update_one({"_id": "alone"}, {"$pull": {"list": "a"}}).modified_count == 1
            assert client.shop.books.find_one({"_id": "alone"})["list"] == FIRST[1:-1]
            client.close()
            own.stop()
    with pymongo.MongoClient("127.0.0.1", spillway.ports[number], directConnection=True) as client:
        assert client.shop.books.find_one({"_id": "alone"})["list"] == FIRST[1:-1]
        client.shop.books.delete_one({"_id": "alone"})


def test_the_primary_steps_down(cluster, spillway):
    cluster.wait_for_first()
    edits_during(cluster, spillway, [cluster.step_down] * share.part(1, every=2), 2)


def test_the_primary_is_killed(cluster, spillway):
    def kill():
        cluster.primary.kill()
        cluster.wait_for_another(cluster.primary)

    def start():
        """It takes over again while edits go on."""
        cluster.primary.start()
        cluster.wait_for_first()

    cluster.wait_for_first()
    edits_during(cluster, spillway, [kill, start] * share.part(1, every=2), 4)


def test_spillway_is_killed(cluster, spillway):
    def restart():
        spillway.kill()
        spillway.start()

    cluster.wait_for_first()
    edits_during(cluster, spillway, [restart] * share.part(4, every=8), 8)
    moved = [name for name in spillway.metrics() if name.startswith("spillway_moved_elements_total")]
    assert spillway.metrics()[moved[0]] > 0
