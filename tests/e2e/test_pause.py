"""`spillway pause` and `spillway resume`: nothing is moved meanwhile, by whoever works on the rule."""

import json
import subprocess

import pymongo
import pytest

from support.operate import RULE, Operator
from support.process import wait_for
from support.spillway import Spillway, program

LONG = list(range(9))
EAGER = {**RULE, "settle": "5ms", "quiet": "5ms", "sweep": "200ms"}
OTHER = {**EAGER, "name": "others", "namespace": "shop.others", "overflow": {**RULE["overflow"], "collection": "rest"}}
RULES = [EAGER, OTHER]
SPILLED = {"_spill.list.n": {"$gt": 0}}


@pytest.fixture(scope="module")
def operator(cluster):
    with Operator(cluster, RULES) as made:
        yield made


@pytest.fixture
def change(operator, shop):
    """Pauses or resumes, by a rule's name or all rules; at the end nothing is paused."""
    def run(command, *rule, code=0):
        ended = subprocess.run([program(), command, "--config", operator.file, *rule], capture_output=True, text=True,
                               check=False, timeout=60)
        assert ended.returncode == code, ended
        return ended.stdout + ended.stderr

    yield run
    run("resume")


def sees(spillway, rules):
    wait_for(lambda: spillway.metrics()["spillway_rules_paused"] == rules, f"{rules} rules to be paused")


def push(spillway, collection, identifier):
    with pymongo.MongoClient("127.0.0.1", spillway.port, directConnection=True) as through:
        through.shop[collection].update_one({"_id": identifier}, {"$push": {"list": {"$each": LONG}}}, upsert=True)
        return through.shop[collection].find_one({"_id": identifier})["list"]


@pytest.mark.parametrize("command", [("migrate", "--execute"), ("undo", "--execute"),
                                     ("verify", "--repair", "--execute")])
def test_commands_that_write_wait(shop, operator, change, command):
    """No Spillway runs yet: it would move again what undo has folded back."""
    shop.books.insert_many([{"_id": i, "list": LONG} for i in range(20)])
    if command[0] == "undo":
        operator.run("migrate", "--execute", code=0)
    before = sorted(shop.books.find(), key=str), shop.tails.count_documents({})
    change("pause", "books")
    running = operator.start(*command, "--json")
    line = running.stderr.readline()
    while "is paused" not in line:
        assert line, "it ended"
        line = running.stderr.readline()
    assert (sorted(shop.books.find(), key=str), shop.tails.count_documents({})) == before
    change("resume", "books")
    said, _ = running.communicate(timeout=60)
    assert running.returncode == 0, said
    assert json.loads(said)["ended"] == "done"
    assert shop.books.count_documents(SPILLED) == (0 if command[0] == "undo" else 20)


def test_a_pause_outlives_a_restart(cluster, shop, change):
    change("pause")
    with Spillway([cluster.primary], RULES) as spillway:
        sees(spillway, 2)
        push(spillway, "books", 2)
        push(spillway, "others", 2)
    with Spillway([cluster.primary], RULES) as spillway:
        sees(spillway, 2)
        assert shop.books.count_documents(SPILLED) + shop.others.count_documents(SPILLED) == 0
        shop.books.update_one({"_id": 2}, {"$set": {"_spill": {}}})
        swept = spillway.metrics()["spillway_sweeps_total"]
        change("resume", "others")
        sees(spillway, 1)
        push(spillway, "others", 2)
        wait_for(lambda: shop.others.count_documents(SPILLED) == 1, "the rule that goes on")
        assert shop.books.find_one({"_id": 2})["_spill"] == {}, "the paused rule's sweep waits, too"
        assert spillway.metrics()["spillway_sweeps_total"] >= swept


def test_a_paused_rule_moves_nothing_and_the_other_does(cluster, shop, spillway, change):
    assert "rule 'books' is paused" in change("pause", "books")
    assert "was paused already" in change("pause", "books")
    sees(spillway, 1)
    assert push(spillway, "books", 1) == LONG
    assert push(spillway, "others", 1) == LONG
    wait_for(lambda: shop.others.count_documents(SPILLED) == 1, "the other rule's move")
    assert shop.books.count_documents(SPILLED) == 0
    assert "rule 'books' is paused: nothing is moved" in spillway.said()
    assert "goes on" in change("resume", "books")
    wait_for(lambda: shop.books.count_documents(SPILLED) == 1, "what waited")
    assert push(spillway, "books", 1) == LONG * 2
    assert "rule 'books' goes on" in spillway.said()
    assert "was not paused" in change("resume", "books")
    assert "no rule of this name" in change("pause", "nobody", code=2)


def test_a_push_that_needs_a_move_gets_it(shop, spillway, change):
    """Otherwise the application's push would fail, although the array could be moved."""
    change("pause", "books")
    sees(spillway, 1)
    shop.books.insert_one({"_id": "large", "list": ["x" * 1000000] * 16})
    with pymongo.MongoClient("127.0.0.1", spillway.port, directConnection=True) as through:
        through.shop.books.update_one({"_id": "large"}, {"$push": {"list": "y" * 1000000}})
        assert len(through.shop.books.find_one({"_id": "large"}, {"list": {"$slice": -1}})["list"]) == 1
    assert shop.books.count_documents({**SPILLED, "_id": "large"}) == 1
