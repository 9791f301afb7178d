"""Documents that are never moved: left alone, counted, and named by `spillway check`."""

import json
import subprocess
import urllib.request

import bson
import pymongo
import pytest
from bson.raw_bson import RawBSONDocument

from support import editions
from support.operate import generation, spill
from support.process import wait_for
from support.spillway import Spillway, program

RULE = {"name": "books", "namespace": "shop.books", "array": "list", "threshold": 3, "settle": "20ms",
        "flag": {"field": "outlier", "value": True},
        "overflow": {"collection": "tails", "link": "book", "array": "part"}}


def twice(name, first, second, **fields):
    """A document in which a top-level name stands twice."""
    body = bson.encode(fields)[4:-1] + bson.encode({name: first})[4:-1] + bson.encode({name: second})[4:-1]
    return RawBSONDocument((len(body) + 5).to_bytes(4, "little") + body + b"\0")


def metric(spillway, name):
    with urllib.request.urlopen(f"http://127.0.0.1:{spillway.admin_port}/metrics") as page:
        lines = page.read().decode().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith(name + " ")))


def check(spillway):
    """What is found beside this test's own connections, which go around Spillway."""
    run = subprocess.run([program(), "check", "--config", spillway.file, "--json"], capture_output=True,
                         text=True, check=False)
    found = json.loads(run.stdout)["findings"]
    assert run.returncode == (1 if found else 0)
    return [finding for finding in found if finding["kind"] != "direct-client"]


def test_what_is_never_moved_is_counted_and_named(cluster):
    with cluster.client() as direct, Spillway([cluster.primary], [RULE]) as spillway:
        assert check(spillway) == []
        books, tails = direct.shop.books, direct.shop.tails
        books.insert_one(twice("outlier", 1, 2, _id="flag twice", list=list(range(9))))
        tails.insert_one({"book": "split by hand", "part": [9], "batchNumber": 1})
        books.insert_one({"_id": "split by hand", "list": list(range(9))})
        with pymongo.MongoClient("127.0.0.1", spillway.port) as through:
            for name in ("flag twice", "split by hand"):
                through.shop.books.update_one({"_id": name}, {"$push": {"list": 9}})
        wait_for(lambda: metric(spillway, "spillway_documents_left_alone_total") >= 2, "both are left alone")
        found = {finding["kind"]: finding["what"] for finding in check(spillway)}
        assert set(found) == {"left-alone", "foreign-overflow"}
        assert '"flag twice"' in found["left-alone"] and "the flag's name stands twice" in found["left-alone"]
        assert '"split by hand"' in found["foreign-overflow"]
        assert len(books.find_one({"_id": "split by hand"})["list"]) == 10
        assert tails.count_documents({}) == 1


@pytest.mark.parametrize("layout", [{"array": "part", "batch": {"size": 4}}, {"layout": "elements"}],
                         ids=["batches", "elements"])
def test_overflow_that_is_not_all_there_is_named(cluster, layout):
    rule = {**RULE, "name": "lossy", "namespace": "lossy.books",
            "overflow": {"collection": "tails", "link": "book", **layout}}
    with cluster.client() as direct, Spillway([cluster.primary], [rule]) as spillway:
        books, tails = direct.lossy.books, direct.lossy.tails
        books.drop()
        tails.drop()
        with pymongo.MongoClient("127.0.0.1", spillway.port) as through:
            through.lossy.books.insert_many({"_id": name, "list": [{"v": value} for value in range(20)]}
                                            for name in ("whole", "some", "none"))
        wait_for(lambda: books.count_documents({"_spill.list.n": 17}) == 3, "tails to move")
        assert "missing-overflow" not in {finding["kind"] for finding in check(spillway)}
        tails.delete_one({"book": "some"})
        tails.delete_many({"book": "none"})
        found = {finding["what"] for finding in check(spillway) if finding["kind"] == "missing-overflow"}
        assert len(found) == 2 and not any('"whole"' in what for what in found)
        assert any('"none"' in what and "has 17 elements in 'lossy.tails', of which 0 are there" in what
                   for what in found)
        left = 13 if "array" in layout else 16
        assert any('"some"' in what and f"of which {left} are there" in what for what in found)
        if "array" in layout:
            tails.update_one({"book": "whole"}, {"$unset": {"part": 1}})
            found = {finding["what"] for finding in check(spillway) if finding["kind"] == "missing-overflow"}
            assert any('"whole"' in what and "of which 13 are there" in what for what in found), "no array, no elements"
        direct.drop_database("lossy")
        direct.spillway.rules.delete_many({"rule": "lossy"})


def test_of_an_array_edited_in_place_what_counts_is_looked_for(cluster, operator, shop):
    for number, identifier in enumerate(("whole", "some", "pending")):
        spill(shop, identifier, list(range(40)), state={"g": generation(number + 1)})
        editions.edit_in_place(shop, identifier, editions.without(5, 6, 17))
        editions.edit_in_place(shop, identifier, editions.raised(8, 30), pending=identifier == "pending")

    def missing():
        run = subprocess.run([program(), "check", "--config", operator.file, "--json"], capture_output=True,
                             text=True, check=False)
        report = json.loads(run.stdout)
        assert not [note for note in report["notes"] if note["code"] == "documents-unseen"], run.stdout
        return [finding["what"] for finding in report["findings"] if finding["code"] == "missing-overflow"]

    assert missing() == []
    shop.tails.delete_one({"book": "some", "_spill.p": 8})
    [what] = missing()
    assert '"some"' in what and "has 34 elements in 'shop.tails', of which 30 are there" in what
