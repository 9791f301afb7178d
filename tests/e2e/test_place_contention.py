"""Edits in place by several clients at once, through two Spillways whose movers, sweeps and garbage are at work.

Each edit concerns two elements that lie apart, so that a reader would see half an edit. In the end each edit must
have been done once, and every push must be there."""

import random
import threading

import pymongo
import pytest

from support.cluster import Cluster
from support.process import wait_for
from support.share import part
from support.spillway import Spillway
from support.verify import verify

RULE = {
    "name": "crowd", "namespace": "shop.books", "array": "list", "threshold": 3,
    "settle": "1ms", "quiet": "0s", "gather": 3, "gc_delay": "2s", "sweep": "1s",
    "overflow": {"collection": "more_books", "link": "book", "array": "part", "batch": {"size": 5}},
}
OLD = 40
SECONDS = part(5, 20)


def twin(number):
    return (number + OLD // 2) % OLD if number < OLD else number ^ 1


class Crowd:
    def __init__(self, ports):
        self.ports = ports
        self.ended = threading.Event()
        self.lock = threading.Lock()
        self.failures = []
        self.done, self.removed, self.counts = {}, set(), {}
        self.pushed = 0

    def start(self, work, port):
        thread = threading.Thread(target=self._run, args=(work, port), daemon=True)
        thread.start()
        return thread

    def _run(self, work, port):
        try:
            with pymongo.MongoClient("127.0.0.1", port, directConnection=True) as client:
                while not self.ended.is_set():
                    work(client.shop.books)
                    with self.lock:
                        self.counts[work.__name__] = self.counts.get(work.__name__, 0) + 1
        except BaseException as failure:  # pytest sees it in the main thread
            self.failures.append(failure)
            self.ended.set()

    def has_worked(self):
        return len(self.counts) == 3 and min(self.counts.values()) > 20

    def push(self, books):
        new = [{"id": 1000 + 2 * self.pushed + k, "val": 0} for k in (0, 1)]
        assert books.update_one({"_id": 1}, {"$push": {"list": {"$each": new}}}).modified_count == 1
        self.pushed += 1
        self.ended.wait(0.03)

    def edit(self, books):
        pushed = self.pushed
        old = random.random() < 0.5 or not pushed
        first = random.randrange(OLD // 2) if old else 1000 + 2 * random.randrange(max(pushed - 4, 0), pushed)
        both = {"$in": [first, twin(first)]}
        removes = random.random() < 0.1
        if removes:
            self.removed.add(first)
            result = books.update_one({"_id": 1}, {"$pull": {"list": {"id": both}}})
        elif random.random() < 0.2:
            result = self.edit_and_back(books, first)
        else:
            result = books.update_one({"_id": 1}, {"$inc": {"list.$[x].val": 1}}, array_filters=[{"x.id": both}])
        with self.lock:
            assert result.matched_count == 1
            assert result.modified_count == 1 or first in self.removed or self.ended.is_set(), first
            if not removes and result.modified_count:
                self.done[first] = self.done.get(first, 0) + 1

    def edit_and_back(self, books, first):
        """One element by `$`: what a reader sees of it does not concern others."""
        found = {"_id": 1, "list.id": first}
        result = books.update_one(found, {"$set": {"list.$.mark": random.random()}})
        if result.matched_count == 0:
            assert first in self.removed or self.ended.is_set(), first
        return books.update_one({"_id": 1}, {"$inc": {"list.$[x].val": 1}}, array_filters=[{"x.id": {
            "$in": [first, twin(first)]}}])

    def read(self, books):
        self.judge(books.find_one({"_id": 1})["list"])

    def judge(self, array):
        values = {each["id"]: each["val"] for each in array}
        assert [each["id"] for each in array] == sorted(values)
        assert not [each for each in values if values.get(twin(each)) != values[each]]
        return values


@pytest.fixture(scope="module")
def cluster():
    with Cluster(durable=False) as made:
        yield made


def is_edited(direct):
    return "e" in direct.shop.books.find_one({"_id": 1})["_spill"]["list"]


@pytest.mark.parametrize("limit", ["1B", "3KB"])
def test_each_edit_is_done_once_and_nobody_sees_half_of_it(cluster, limit):
    """With the greater limit, edits and sweeps take the array back as long as it is short."""
    rule = {**RULE, "fold_limit": limit}
    with Spillway([cluster.primary], [rule]) as one, Spillway([cluster.primary], [rule]) as other, \
            cluster.client() as direct:
        direct.shop.books.delete_many({})
        crowd = Crowd((one.port, other.port))
        with pymongo.MongoClient("127.0.0.1", one.port, directConnection=True) as client:
            client.shop.books.insert_one({"_id": 1, "list": [{"id": each, "val": 0} for each in range(OLD)]})
            wait_for(lambda: direct.shop.books.count_documents({"_spill.list.n": {"$gt": 0}}), "the tail to move")
            threads = [crowd.start(crowd.push, one.port)]
            threads += [crowd.start(work, port) for work in (crowd.edit, crowd.read, crowd.read)
                        for port in crowd.ports]
            crowd.ended.wait(SECONDS)
            wait_for(lambda: crowd.ended.is_set() or crowd.has_worked(), "each kind of client to have worked")
            crowd.ended.set()
            for thread in threads:
                thread.join()
            assert not crowd.failures, crowd.failures
            assert limit != "1B" or is_edited(direct)
            assert not [each for each in (one, other) if "tails don't move" in each.said()]
            values = crowd.judge(client.shop.books.find_one({"_id": 1})["list"])
            gone = {each for first in crowd.removed for each in (first, twin(first))}
            everything = {*range(OLD), *range(1000, 1000 + 2 * crowd.pushed)}
            assert set(values) == everything - gone
            for first, count in crowd.done.items():
                assert first in gone or values[first] == count, first
            wait_for(lambda: not verify(direct, rule), "the array to come to rest", seconds=60)
