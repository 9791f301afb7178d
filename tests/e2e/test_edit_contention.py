"""Many clients edit one array at once, through two Spillways whose movers are always at work."""

import random
import threading

import pymongo

from support.process import wait_for
from support.spillway import Spillway
from support.verify import verify

RULE = {
    "name": "crowd", "namespace": "shop.books", "array": "list", "threshold": 2,
    "settle": "1ms", "quiet": "0s", "gather": 3, "gc_delay": "0s",
    "overflow": {"collection": "more_books", "layout": "batches", "link": "book", "array": "part",
                 "batch": {"size": 3}},
}
CLIENTS = 8
ROUNDS = 100


class Editor(threading.Thread):
    """Works on elements of its own in an array that all share; knows what must be there of them, in order.

    Half of the editors have no retryable writes: a conflict that Spillway does not settle would end them.
    """

    def __init__(self, number, port):
        super().__init__(daemon=True)
        self.number = number
        self.port = port
        self.rng = random.Random(number)
        self.mine = []
        self.failure = None

    def run(self):
        try:
            retries = self.number % 4 < 2
            with pymongo.MongoClient("127.0.0.1", self.port, directConnection=True, retryWrites=retries) as client:
                for turn in range(ROUNDS):
                    self._turn(client.shop.books, f"{self.number}:{turn}")
        except BaseException as failure:  # pytest sees it in the main thread
            self.failure = failure

    def _turn(self, books, name):
        ways = [self._push, self._guarded, self._add, self._modify] + [self._pull, self._replace] * bool(self.mine)
        self.rng.choice(ways)(books, name)

    def _push(self, books, name):
        assert books.update_one({"_id": 1}, {"$push": {"list": name}}).modified_count == 1
        self.mine.append(name)

    def _guarded(self, books, name):
        assert books.update_one({"_id": 1, "list": {"$ne": name}}, {"$push": {"list": name}}).modified_count == 1
        self.mine.append(name)
        if self.rng.random() < 0.5:
            assert books.update_one({"_id": 1, "list": {"$ne": name}}, {"$push": {"list": name}}).matched_count == 0

    def _add(self, books, name):
        assert books.update_one({"_id": 1}, {"$addToSet": {"list": name}}).modified_count == 1
        self.mine.append(name)
        if self.rng.random() < 0.5:
            again = books.update_one({"_id": 1}, {"$addToSet": {"list": name}})
            assert (again.matched_count, again.modified_count) == (1, 0)

    def _modify(self, books, name):
        change = {"$push": {"list": {"$each": [name], "$position": 1000000}}}
        found = books.find_one_and_update({"_id": 1}, change, return_document=pymongo.ReturnDocument.AFTER)
        assert found["list"].count(name) == 1
        self.mine.append(name)

    def _pull(self, books, _):
        name = self.rng.choice(self.mine)
        assert books.update_one({"_id": 1}, {"$pull": {"list": name}}).modified_count == 1
        self.mine.remove(name)

    def _replace(self, books, name):
        old = self.rng.choice(self.mine)
        assert books.update_one({"_id": 1, "list": old}, {"$set": {"list.$": name}}).modified_count == 1
        self.mine[self.mine.index(old)] = name


def test_no_effect_is_lost_doubled_or_reordered(cluster):
    with Spillway([cluster.primary], [RULE]) as one, Spillway([cluster.primary],
                                                              [RULE]) as two, cluster.client() as direct:
        direct.shop.books.insert_one({"_id": 1, "list": []})
        editors = [Editor(number, (one, two)[number % 2].port) for number in range(CLIENTS)]
        for editor in editors:
            editor.start()
        for editor in editors:
            editor.join()
            if editor.failure:
                raise editor.failure
        with pymongo.MongoClient("127.0.0.1", one.port, directConnection=True) as client:
            found = client.shop.books.find_one({"_id": 1})["list"]
        for editor in editors:
            assert [name for name in found if name.startswith(f"{editor.number}:")] == editor.mine
        assert sum(one.metrics()["spillway_moved_elements_total"] for one in (one, two)) > 0
        wait_for(lambda: not verify(direct, RULE), "the tail to move")
