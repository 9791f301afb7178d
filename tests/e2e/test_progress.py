"""On a terminal, commands that take long show how far they are: counts, a share, and the time that is left."""

import datetime
import json
import random
import re
import signal
import socket
import subprocess

import pymongo
import pytest
from bson import Binary, MaxKey, MinKey, ObjectId

from support.operate import Operator, on_a_terminal
from support.process import wait_for
from support.spillway import Spillway, program

RULE = {
    "name": "books", "namespace": "shop.b*", "array": "list", "threshold": 5, "settle": "10ms", "gc_delay": "1s",
    "overflow": {"collection": "tails_{collection}", "layout": "batches", "link": "book", "array": "part"},
}
DOCUMENTS = 2200  # more than two pages, of which the first are told
WALK = r"\d+ of about 2200 documents \(\d+ %\) looked at, \d+ worked on, .*, \d+ s to go"


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


MANY = 101_000  # more documents than are looked at without a share
SHARE = r"\d+ of about 101000 documents \(\d+ %\) looked at, \d+ documents a second, \d+ s to go"
CLEARED = "\r\x1b[K"


def lists(count):
    return [[0] * (number % 7) for number in range(count - 1)] + [[0] * 400]


def analyze(tmp_path, namespace, address, *options):
    """What it says without a terminal and on one: its reports without the time, and what the terminal was told."""
    command = [program(), "analyze", "--json", f"mongodb://{address}/", namespace, "list", *options]
    quiet = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert quiet.stderr == ""
    with open(tmp_path / "report", "w+") as file:
        code, said = on_a_terminal(command, file)
        assert code == 0, said
        file.seek(0)
        reports = [json.loads(quiet.stdout), json.load(file)]
    for report in reports:
        del report["milliseconds"]
    return *reports, said


def of_all_types(count):
    """In the order of an index, also of one that compares numbers in texts."""
    each = (count - 8) // 5
    yield from (MinKey(), None, float("nan"))
    yield from range(each)
    yield from (1e300, *(f"user{number}" for number in range(each)), {"a": 1}, {"a": {"b": [1]}})
    yield from (Binary(number.to_bytes(4, "big")) for number in range(each))
    yield from (ObjectId(number.to_bytes(12, "big")) for number in range(each))
    yield True
    began = datetime.datetime(2026, 1, 1)
    yield from (began + datetime.timedelta(seconds=number) for number in range(count - 8 - 4 * each))
    yield MaxKey()


@pytest.mark.parametrize("collation", [None, {"locale": "en", "strength": 2, "numericOrdering": True}],
                         ids=["simple", "collated"])
def test_analyze_tells_how_far_it_is_and_counts_the_same(cluster, tmp_path, collation):
    with cluster.client() as direct:
        direct.shop.drop_collection("many")
        direct.shop.create_collection("many", collation=collation)
        direct.shop.many.insert_many({"_id": i, "list": each}
                                     for i, each in zip(of_all_types(MANY), lists(MANY), strict=True))
    quiet, shown, said = analyze(tmp_path, "shop.many", cluster.primary.address)
    assert quiet == shown and quiet["looked_at"] == MANY
    assert re.search(SHARE, said) and said.endswith(CLEARED), said
    with cluster.client() as direct:
        refused = {"failCommands": ["find"], "errorCode": 96, "appName": "spillway analyze"}
        direct.admin.command("configureFailPoint", "failCommand", mode={"times": 1}, data=refused)
    assert analyze(tmp_path, "shop.many", cluster.primary.address)[:2] == (quiet, quiet)


def test_analyze_shows_no_share_that_would_cost_too_much(cluster, tmp_path):
    """By the index of _id it would jump to and fro among the documents."""
    order = list(range(MANY))
    random.Random(1).shuffle(order)
    with cluster.client() as direct:
        direct.shop.drop_collection("shuffled")
        direct.shop.shuffled.insert_many({"_id": i, "list": each}
                                         for i, each in zip(order, lists(MANY), strict=True))
    quiet, shown, said = analyze(tmp_path, "shop.shuffled", cluster.primary.address)
    assert quiet == shown and "looking at all documents ..." in said and "%" not in said, said
    *_, said = analyze(tmp_path, "shop.shuffled", cluster.primary.address, "--sample", "2000")
    assert "drawn at random ..." in said and "%" not in said and said.endswith(CLEARED), said


def test_analyze_tells_how_far_it_is_through_spillway(cluster, tmp_path):
    rule = {"name": "ruled", "namespace": "shop.ruled", "array": "list", "threshold": 50, "settle": "5ms",
            "overflow": {"link": "of", "array": "list"}}
    with cluster.client() as direct, Spillway([cluster.primary], [rule]) as spillway:
        direct.shop.ruled.insert_many({"_id": i, "list": each} for i, each in enumerate(lists(MANY)))
        with pymongo.MongoClient("127.0.0.1", spillway.port, directConnection=True) as client:
            client.shop.ruled.update_one({"_id": MANY - 1}, {"$push": {"list": 1}})
        wait_for(lambda: direct.shop.ruled.count_documents({"_spill.list.n": 351}), "the tail to move")
        quiet, shown, said = analyze(tmp_path, "shop.ruled", f"127.0.0.1:{spillway.port}")
    assert quiet == shown and quiet["arrays"][0]["elements"]["max"] == 401
    assert re.search(SHARE, said) and said.endswith(CLEARED), said


def test_ctrl_c_clears_the_line():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        connections = []

        def interrupt(running):
            connections.append(silent.accept()[0])  # it waits for an answer
            running.send_signal(signal.SIGINT)

        uri = f"mongodb://127.0.0.1:{silent.getsockname()[1]}/"
        code, said = on_a_terminal([program(), "analyze", uri, "shop.many"], started=interrupt)
        connections[0].close()
    assert code == 130 and said.endswith(CLEARED + "spillway: interrupted\r\n"), said
    assert "looking at the collection ..." in said, said
