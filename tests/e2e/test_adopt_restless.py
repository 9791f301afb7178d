"""Adoption of documents that never rest: each is told, and what it holds stays as it was written."""

import threading

import pytest
from pymongo.errors import ExecutionTimeout
from test_adopt import NUMBERED, details, split, whole

from support.cluster import Cluster
from support.operate import Operator, found


@pytest.fixture(scope="module")
def cluster():
    with Cluster(durable=False) as made:
        yield made


class Restless:
    """Writes to a document straight to mongod whenever a command has read it, and asks for its overflow: always in
    between."""

    def __init__(self, shop, query, change, spared=0):
        """`spared`: how many times it leaves the document as it is."""
        self.shop, self.query, self.change, self.spared = shop, query, change, spared
        self.times, self.ends = 0, False
        self.thread = threading.Thread(target=self.run)

    def point(self, mode, **data):
        return self.shop.client.admin.command("configureFailPoint", "failCommand", mode=mode, **data)["count"]

    def run(self):
        while not self.ends:
            try:
                self.shop.client.admin.command("waitForFailPoint", "failCommand", timesEntered=self.times + 1,
                                               maxTimeMS=500)
            except ExecutionTimeout:
                continue
            self.times += 1
            if self.shop.books.count_documents(self.query):
                self.spared -= 1
                if self.spared < 0:
                    self.shop.books.update_one(self.query, self.change)

    def __enter__(self):
        self.times = self.point("alwaysOn",
                                data={"failCommands": ["find"], "namespace": "shop.tails", "appName": "spillway",
                                                  "blockConnection": True, "blockTimeMS": 300})
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ends = True
        self.point("off")
        self.thread.join()


def test_a_document_that_changes_whenever_it_is_looked_at(cluster, shop):
    """No try is the last before 75 seconds have gone: a transaction that is in the way may take 60."""
    split(shop, 1, list(range(11)))
    with Operator(cluster, [NUMBERED]) as operator:
        with Restless(shop, {"_id": 1}, {"$inc": {"last": 1}}):
            report = operator.run("migrate", "--execute", code=1, timeout=150)
        assert (report["adopted"], found(report)) == (0, {("split by hand", "unfinished"): 1})
        assert details(report, "split by hand") == {1: "it changed each time it was looked at"}
        assert "_spill" not in shop.books.find_one() and not shop.tails.find_one({"_spill": {"$exists": True}})
        assert operator.run("migrate", "--execute", code=0)["adopted"] == 1
    assert whole(cluster, NUMBERED) == {1: list(range(11))}


SPLIT = {"_id": 1, "_spill.list.n": {"$gt": 0}}
CHANGE = {"$push": {"list": 7}, "$currentDate": {"_spill.list.t": True}}


@pytest.mark.parametrize("spared", [0, 1])
def test_an_array_that_changes_whenever_it_is_to_go_back(cluster, shop, spared):
    """Its batches have another size. Once it is looked at, or each time it is folded back, it is another: that is
    told."""
    split(shop, 1, list(range(11)), size=2)
    with Operator(cluster, [NUMBERED]) as operator:
        with Restless(shop, SPLIT, CHANGE, spared):
            report = operator.run("migrate", "--execute", code=1)
        assert report["adopted"] == 1 and found(report)[("not at rest", "unfinished")] == 1
        assert details(report, "not at rest") == {1: "it changed each time; 'verify' can repair it"}
        operator.run("verify", "--repair", "--execute", code=0)
    array = whole(cluster, NUMBERED)[1]
    assert array == [*range(11), *[7] * (len(array) - 11)] and len(array) > 11
