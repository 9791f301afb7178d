"""spillway.rules: serve does not start where documents are spilled under a rule that is gone, or has another layout."""

import pytest

from support.cluster import Cluster
from support.operate import RULE, Operator
from support.process import wait_for
from support.spillway import Spillway

EAGER = {**RULE, "settle": "10ms"}
OTHER = {**EAGER, "name": "others", "namespace": "shop.others", "overflow": {**RULE["overflow"], "collection": "more"}}
ANOTHER_PART = {**EAGER, "overflow": {**RULE["overflow"], "array": "another"}}


@pytest.fixture(scope="module")
def cluster():
    with Cluster() as made:
        yield made


@pytest.fixture
def shop(cluster):
    """One document that a Spillway has moved."""
    with cluster.client() as client:
        client.drop_database("shop")
        client.drop_database("spillway")
        client.shop.books.insert_one({"_id": 1, "list": list(range(9))})
        with Spillway([cluster.primary], [EAGER]):
            wait_for(lambda: "outlier" in client.shop.books.find_one({"_id": 1}), "a move")
        yield client.shop


def refusal(cluster, rules):
    spillway = Spillway([cluster.primary], rules)
    try:
        return spillway.refuses_to_start()
    finally:
        spillway.__exit__()


def starts(cluster, rules):
    with Spillway([cluster.primary], rules):
        pass


def test_what_is_recorded(shop):
    record = shop.client.spillway.rules.find_one()
    assert record == {
        "_id": {"namespace": "shop.books", "array": "list"}, "format": 1, "rule": "books",
        "layout": {"overflow": "shop.tails", "kind": "batches", "link": "book", "array": "part", "flag": "outlier"},
        "limits": {"threshold": 3, "max_bytes": 1024**2, "when_outlier": "keep", "size": 4, "batch_bytes": 256 * 1024}}


def test_a_rule_that_is_gone(cluster, shop):
    said = refusal(cluster, [OTHER])
    assert "array 'list' of 'shop.books' was spilled under rule 'books', which is gone" in said
    starts(cluster, [OTHER, {**EAGER, "name": "called-otherwise"}])
    with Operator(cluster) as operator:
        operator.run("undo", "--execute", code=0)
    starts(cluster, [OTHER])


def test_another_layout(cluster, shop):
    assert "spilled under another layout" in refusal(cluster, [ANOTHER_PART])
    with Operator(cluster, [ANOTHER_PART]) as operator:
        report = operator.run("migrate", "--execute", code=1)
        assert "spilled under another layout" in report["findings"][0]["examples"][0]["detail"]
    assert shop.books.find_one({"_id": 1})["list"] == [0, 1, 2]


def test_other_limits(cluster, shop):
    starts(cluster, [{**EAGER, "threshold": 5}])
    assert shop.client.spillway.rules.find_one()["limits"]["threshold"] == 5


def test_nothing_is_spilled_any_more(cluster, shop):
    shop.tails.delete_many({})
    shop.books.delete_many({})
    starts(cluster, [OTHER])
    starts(cluster, [ANOTHER_PART])
    assert shop.client.spillway.rules.find_one({"_id.namespace": "shop.books"})["layout"]["array"] == "another"
