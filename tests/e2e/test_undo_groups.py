"""`spillway undo` in groups: who can't go with the others is looked at alone; --resume, --rate."""

import signal
import threading

import bson
import pymongo
import pytest
from bson.raw_bson import RawBSONDocument

from support.operate import RULE, Operator, found, generation, spill
from support.process import wait_for
from support.spillway import Spillway

LAZY = {**RULE, "threshold": 1000000, "max_bytes": "15MB", "sweep": "off", "settle": "1h", "quiet": "1h"}


@pytest.fixture(scope="module")
def operator(cluster):
    with Operator(cluster) as made:
        yield made


def raw(shop):
    options = shop.codec_options.with_options(document_class=RawBSONDocument)
    return {bytes(each.raw) for each in shop.get_collection("books", codec_options=options).find()}


def fill(shop, operator, count):
    shop.books.insert_many([{"_id": i, "list": [f"{i}-{n}" for n in range(4 + i % 23)], "z": i} for i in range(count)])
    before = raw(shop)
    operator.run("migrate", "--execute", code=0)
    return before


def test_one_that_is_damaged_stops_no_other_of_its_group(operator, shop):
    before = fill(shop, operator, 150)
    damaged = shop.books.find_one({"_id": 60})
    shop.tails.delete_one({"book": 60, "_spill.p": 0})
    shop.books.update_one({"_id": 61}, {"$set": {"_spill.list.n": 99}})
    spill(shop, "two", ["a", "b", "c", "d", "e"])
    shop.tails.update_one({"book": "two"}, {"$set": {"part": ["other"] * 9}})
    shop.books.update_one({"_id": "two"}, {"$push": {"list": {"$each": ["x", "y"]}}})
    done = operator.run("undo", "--execute", code=1)
    assert done["documents"] == 148
    assert found(done)[("corrupt", "corrupt")] == 3
    assert shop.books.find_one({"_id": 60}) == damaged
    shop.books.delete_many({"_id": {"$in": [60, 61, "two"]}})
    back = raw(shop)
    assert back < before and len(back) == 148


def test_large_arrays_take_turns(operator, shop):
    """Together they would be more than one command may hold."""
    shop.books.insert_many([{"_id": i, "list": [f"{i}{n}" * 40000 for n in range(40)]} for i in range(1, 9)])
    before = raw(shop)
    assert operator.run("migrate", "--execute", code=0)["documents"] == 8
    assert operator.run("undo", "--execute", code=0)["documents"] == 8
    assert raw(shop) == before


def test_pushes_and_edits_meanwhile(cluster, operator, shop):
    """Who loses its guard to a client is folded back alone."""
    fill(shop, operator, 300)
    expected = {each["_id"]: [f"{each['_id']}-{n}" for n in range(4 + each["_id"] % 23)] for each in shop.books.find()}
    over = threading.Event()
    with Spillway([cluster.primary], [LAZY]) as spillway, \
            pymongo.MongoClient("127.0.0.1", spillway.port, directConnection=True) as through:
        def write():
            number = 0
            while not over.is_set():
                identifier, number = number * 7 % 300, number + 1
                through.shop.books.update_one({"_id": identifier}, {"$push": {"list": number}})
                expected[identifier].append(number)
                edited = (identifier + 150) % 300
                through.shop.books.update_one({"_id": edited}, {"$set": {"list.1": f"edit {number}"}})
                expected[edited][1] = f"edit {number}"

        writer = threading.Thread(target=write)
        writer.start()
        try:
            operator.run("undo", "--execute")
        finally:
            over.set()
            writer.join()
        for each in through.shop.books.find():
            assert each["list"] == expected[each["_id"]]
    assert shop.books.count_documents({"_spill": {"$exists": True}}) == 0


def test_resume_goes_on_behind_what_was_done(operator, shop):
    before = fill(shop, operator, 2500)
    rules = shop.client.spillway.rules
    undo = operator.start("undo", "--execute", "--rate", "1000")
    wait_for(lambda: rules.count_documents({"undo.from": {"$exists": True}}), "the first page", pause=0.01)
    undo.send_signal(signal.SIGINT)
    undo.communicate(timeout=60)
    assert undo.returncode == 4
    place = rules.find_one()["undo"]["from"]
    assert place >= 1000
    left = shop.books.count_documents({"_spill": {"$exists": True}})
    assert 0 < left <= 1500
    assert shop.books.count_documents({"_spill": {"$exists": True}, "_id": {"$lt": place}}) == 0
    spill(shop, -5, list(range(12)))  # before the place: as if a Spillway had moved it out meanwhile
    report = operator.run("undo", "--execute", "--resume", code=1)
    assert (report["documents"], found(report)) == (left, {("moved again", "unfinished"): 1})
    assert operator.run("undo", "--execute", code=0)["documents"] == 1
    shop.books.delete_one({"_id": -5})
    assert raw(shop) == before


def kill_behind_a_page(operator, shop, command, place):
    started = operator.start(command, "--execute", "--rate", "100")
    wait_for(lambda: shop.client.spillway.rules.count_documents({place: {"$exists": True}}), "a page", pause=0.01)
    started.kill()
    started.communicate()


def test_resume_tells_that_the_run_before_left_something(operator, shop):
    """A killed run has printed no report."""
    spill(shop, -2, list(range(12)))
    spill(shop, -1, list(range(12)), state={"g": generation(2)})
    shop.tails.delete_many({"book": -1})
    shop.books.insert_many({"_id": i, "list": [1] * (9 if i % 20 == 0 else 2)} for i in range(1500))
    operator.run("migrate", "--execute", code=0)
    kill_behind_a_page(operator, shop, "undo", "undo.from")
    for stays in range(2):
        report = operator.run("undo", "--execute", *([] if stays else ["--resume"]), code=1)
        assert found(report) == {("corrupt", "corrupt") if stays else ("stayed", "unfinished"): 1}
        assert shop.books.count_documents({"_spill": {"$exists": True}}) == 1
        assert shop.client.spillway.rules.count_documents({}) == 1, "it tells what the document is part of"
        assert "tails" in shop.list_collection_names()
    shop.books.delete_one({"_id": -1})
    operator.run("undo", "--execute", code=0)
    assert shop.client.spillway.rules.count_documents({}) == 0


def test_resume_of_a_migrate_tells_it_too(operator, shop):
    twice = RawBSONDocument(bson.encode({"ax": 1, "bx": 2}).replace(b"bx", b"ax"))
    shop.books.insert_one({"_id": -1, "list": [1, 2, 3, 4, twice]})
    shop.books.insert_many({"_id": i, "list": [1] * (9 if i % 20 == 0 else 2)} for i in range(1500))
    kill_behind_a_page(operator, shop, "migrate", "checkpoint.from")
    report = operator.run("migrate", "--execute", "--resume", code=1)
    assert [(each["name"], each["examples"][0]["detail"]) for each in report["findings"]] == [
        ("stayed-before", "1 findings")]
    assert shop.books.count_documents({"_spill.list.n": {"$gt": 0}}) == 75
    assert found(operator.run("migrate", "--execute", code=1)) == {("never moved", "unfinished"): 1}


def test_migrate_and_undo_forget_each_others_place(operator, shop):
    fill(shop, operator, 1100)
    rules = shop.client.spillway.rules
    rules.update_one({}, {"$set": {"undo": {"from": 500}, "checkpoint": {"from": 500}}})
    operator.run("migrate", "--execute", code=0)
    assert not rules.find_one().keys() & {"undo", "checkpoint"}
    rules.update_one({}, {"$set": {"undo": {"from": 500}, "checkpoint": {"from": 500}}})
    assert operator.run("undo", "--execute", code=0)["documents"] == 1100
