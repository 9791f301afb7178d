"""On a terminal, commands that take long show how far they are: counts, a share, and the time that is left."""

import re

import pytest

from support.cluster import Cluster
from support.operate import Operator, on_a_terminal
from support.spillway import program

RULE = {
    "name": "books", "namespace": "shop.b*", "array": "list", "threshold": 5, "settle": "10ms", "gc_delay": "1s",
    "overflow": {"collection": "tails_{collection}", "layout": "batches", "link": "book", "array": "part"},
}
DOCUMENTS = 2200  # more than two pages, of which the first are told
WALK = r"\d+ of about 2200 documents \(\d+ %\) looked at, \d+ worked on, .*, \d+ s to go"


@pytest.fixture(scope="module")
def cluster():
    with Cluster() as made:
        yield made


@pytest.fixture(scope="module")
def operator(cluster):
    with cluster.client() as direct, Operator(cluster, rules=[RULE]) as made:
        lists = [list(range(9 if i % 40 == 0 else 2)) for i in range(DOCUMENTS)]
        direct.shop.books.insert_many({"_id": i, "list": each} for i, each in enumerate(lists))
        for number in range(20):
            direct.shop.create_collection(f"b{number}")
        yield made


@pytest.mark.parametrize("name", ["migrate", "undo"])
def test_a_walk_tells_how_far_it_is(operator, name):
    code, said = on_a_terminal([*operator.command(name, "--execute"), "--rate", "100"])
    assert code == 0, said
    assert re.search(WALK, said), said
    assert "\x1b[3" not in said  # no colours: NO_COLOR has nothing to change


def test_check_tells_how_many_collections_are_left(operator):
    code, said = on_a_terminal([program(), "check", "--config", str(operator.file)])
    assert code in (0, 1), said
    assert re.search(r"'shop': \d+ of \d+ collections \(\d+ %\) looked at, \d+ s to go", said), said
    assert said.endswith("\r\x1b[K"), said
