"""`verify --accept-loss`: what is left of a damaged array becomes the array, behind an export that has all of it."""

import threading

import bson
import pymongo
import pytest
from bson import Int64, json_util
from bson.raw_bson import RawBSONDocument

from support.operate import RULE, Operator, found, generation, spill
from support.process import wait_for
from support.spillway import Spillway
from support.verify import verify


@pytest.fixture
def shop(cluster):
    """An empty database with the overflow's index, a document at rest and an ordinary one."""
    with cluster.client() as client:
        client.shop.books.delete_many({})
        client.shop.tails.delete_many({})
        client.shop.tails.create_index([("book", 1), ("_spill.i", 1)], unique=True)
        spill(client.shop, "at rest", list(range(20)), state={"g": generation(2)})
        client.shop.books.insert_one({"_id": "ordinary", "list": [1, 2]})
        yield client.shop


def batch(number):
    return {"book": "x", "_spill.i": number}


def without(first, last, length=15):
    return [each for each in range(length) if not first <= each <= last]


# What is broken; what is left of 0 to 14; what the report says of it.
BROKEN = {
    "a hole": (lambda shop: shop.tails.delete_one(batch(2)), without(7, 10),
               "of 15 elements of 'list', 4 are lost: places 7 to 10"),
    "two holes": (lambda shop: shop.tails.delete_many({"book": "x", "_spill.i": {"$in": [1, 3]}}),
                  [0, 1, 2, 7, 8, 9, 10],
                  "of 15 elements of 'list', 8 are lost: places 3 to 6, 11 to 14"),
    "the end": (lambda shop: shop.tails.delete_one(batch(3)), without(11, 14),
                "of 15 elements of 'list', 4 are lost: places 11 to 14"),
    "all": (lambda shop: shop.tails.delete_many({"book": "x"}), [0, 1, 2],
            "of 15 elements of 'list', 12 are lost: places 3 to 14"),
    "a head that is short": (lambda shop: shop.books.update_one({"_id": "x"}, {"$pop": {"list": 1}}), without(2, 2),
                             "of 15 elements of 'list', 1 are lost: places 2 to 2"),
    "no array": (lambda shop: shop.books.update_one({"_id": "x"}, {"$unset": {"list": 1}}), list(range(3, 15)),
                 "of 15 elements of 'list', 3 are lost: places 0 to 2"),
    "a batch without an array": (lambda shop: shop.tails.update_one(batch(2), {"$unset": {"part": 1}}), without(7, 10),
                                 "of 15 elements of 'list', 4 are lost: places 7 to 10"),
    "misnumbered beside a hole": (
        lambda shop: (shop.tails.delete_one(batch(2)), shop.tails.update_one(batch(1), {"$set": {"_spill.i": 9}})),
        without(7, 10), "of 15 elements of 'list', 4 are lost: places 7 to 10"),
    "another tail": (lambda shop: (shop.tails.update_one(batch(3), {"$push": {"part": "stored"}}),
                                   shop.books.update_one({"_id": "x"}, {"$push": {"list": "own"}})),
                     [*range(15), "own"], "of 16 elements of 'list', 0 are lost"),
    "another overlap": (lambda shop: shop.tails.update_one(
        batch(2), {"$push": {"part": {"$each": ["other"], "$position": 0}}, "$set": {"_spill.p": 3}}),
                        list(range(15)), "of 15 elements of 'list', 0 are lost"),
    "a state that counts too many": (
        lambda shop: shop.books.update_one({"_id": "x"}, {"$set": {"_spill.list.n": Int64(2**63 - 1)}}),
        list(range(15)), f"of {2**63 - 1} elements of 'list', {2**63 - 1 - 15} are lost: places 15 to {2**63 - 2}"),
    "a state that counts too many at the head": (
        lambda shop: shop.books.update_one({"_id": "x"}, {"$set": {"_spill.list.h": Int64(2**63 - 1)}}),
        list(range(15)), f"of {2**63 - 1} elements of 'list', {2**63 - 1 - 3} are lost: places 3 to {2**63 - 2}"),
    "a state without its head": (lambda shop: shop.books.update_one({"_id": "x"}, {"$unset": {"_spill.list.h": 1}}),
                                 [0, 1, 2], "its overflow is in the export alone"),
    "an array of another type": (lambda shop: shop.books.update_one({"_id": "x"}, {"$set": {"list": "none"}}),
                                 "none", "its overflow is in the export alone"),
}

def snapshot(shop):
    return shop.command("dbHash")["md5"]


def exported(file):
    """{namespace: documents}"""
    lines = [json_util.loads(line, json_options=json_util.CANONICAL_JSON_OPTIONS)
             for line in file.read_text().splitlines()]
    return {name: [each["document"] for each in lines if each["namespace"] == name]
            for name in ("shop.books", "shop.tails")}


def whole(shop, identifier="x"):
    """As a reader puts it together, straight from mongod."""
    document = shop.books.find_one({"_id": identifier})
    state = document.get("_spill", {}).get("list")
    if not state:
        return document["list"]
    overflow = [element for each in shop.tails.find({"book": identifier, "_spill.g": state["g"]}).sort("_spill.i", 1)
                for element in each["part"]]
    return document["list"][:state["h"]] + overflow[:state["n"]] + document["list"][state["h"]:]


def details(report, name):
    return [each["detail"] for kind in report["notes"] + report["findings"] if kind["name"] == name
            for each in kind["examples"]]


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_left_becomes_the_array_behind_an_export(operator, shop, name):
    break_it, left, said = BROKEN[name]
    spill(shop, "x", list(range(15)))
    break_it(shop)
    before = snapshot(shop)
    stored = {"shop.books": list(shop.books.find({"_id": "x"})),
              "shop.tails": list(shop.tails.find({"book": "x"}).sort("_spill.i", 1))}
    healthy = shop.books.find_one({"_id": "at rest"}), list(shop.tails.find({"book": "at rest"}))

    plan = operator.run("verify", "--accept-loss", code=1)
    assert ("loss", "left as it is") in found(plan) and said in details(plan, "loss-planned")[0]
    assert snapshot(shop) == before, "without --execute nothing is written"

    file = operator.folder / f"{name}.json"
    report = operator.run("verify", "--accept-loss", "--execute", "--export", file, code=0)
    assert said in details(report, "loss-accepted")[0] and report["accepted"] == 1
    assert exported(file) == stored
    assert whole(shop) == left
    assert operator.run("verify", code=0)["findings"] == []
    assert not verify(shop.client, RULE)
    assert (shop.books.find_one({"_id": "at rest"}), list(shop.tails.find({"book": "at rest"}))) == healthy


def test_nothing_is_changed_that_could_not_be_exported(operator, shop):
    spill(shop, "x", list(range(15)))
    shop.tails.delete_one(batch(2))
    before = snapshot(shop)
    file = operator.folder / "there.json"
    file.write_text("something\n")
    report = operator.run("verify", "--accept-loss", "--execute", "--export", file, code=1)
    assert details(report, "loss-not-accepted") == ["what there is could not be written to the file"]
    assert file.read_text() == "something\n" and snapshot(shop) == before


def test_no_loss_is_accepted_of_what_is_there_under_another_link(operator, shop):
    """Somebody gave a document another _id straight at mongod."""
    spill(shop, "x", list(range(15)))
    shop.tails.update_many({"book": "x"}, {"$set": {"book": "before"}})
    before = snapshot(shop)
    for options in ([], ["--execute", "--export", operator.folder / "elsewhere.json"]):
        report = operator.run("verify", "--accept-loss", *options, code=1)
        assert "is linked to another _id" in details(report, "loss-not-accepted")[0]
    assert snapshot(shop) == before


def test_what_json_cannot_hold_is_exported_as_bytes(operator, shop):
    """A text that is no UTF-8."""
    spill(shop, "x", list(range(15)))
    shop.tails.delete_one(batch(2))
    odd = {"book": "x", "part": [0], "odd": "?", "_spill": {"g": generation(7), "p": 0, "i": 9}}
    raw = RawBSONDocument(bson.encode({"_id": 1, **odd}).replace(b"?\0", b"\xff\0"))
    shop.tails.insert_one(raw)
    file = operator.folder / "bytes.json"
    operator.run("verify", "--accept-loss", "--execute", "--export", file, code=0)
    lines = [json_util.loads(line) for line in file.read_text().splitlines()]
    assert [each["bson"] for each in lines if "bson" in each] == [raw.raw]
    assert whole(shop) == without(7, 10)


def test_clients_push_meanwhile_and_lose_nothing(cluster, operator, shop):
    """Through Spillway, whose mover works on the same documents; each client pushes to documents of its own."""
    names = [f"x{i}" for i in range(24)]
    for number, name in enumerate(names):
        spill(shop, name, list(range(15)), state={"g": generation(10 + number)})
        shop.tails.delete_one({"book": name, "_spill.i": 2})
    over, pushed, failed = threading.Event(), {name: [] for name in names}, []

    def push(mine):
        with pymongo.MongoClient("127.0.0.1", spillway.port, directConnection=True) as client:
            number = 100
            while not over.is_set():
                for name in mine:
                    try:
                        client.shop.books.update_one({"_id": name}, {"$push": {"list": number}})
                        pushed[name].append(number)
                    except pymongo.errors.PyMongoError as error:
                        failed.append(repr(error))
                number += 1

    with Spillway([cluster.primary], [{**RULE, "settle": "1ms", "quiet": "1ms"}]) as spillway:
        threads = [threading.Thread(target=push, args=(names[i::3],)) for i in range(3)]
        for each in threads:
            each.start()
        try:
            wait_for(lambda: all(len(each) > 3 for each in pushed.values()), "pushes")
            accepts = ["verify", "--accept-loss", "--execute", "--export"]
            killed = operator.start(*accepts, operator.folder / "busy.json")
            wait_for(lambda: shop.books.count_documents({"_id": {"$in": names}, "_spill.list.g": {
                "$in": [generation(10 + number) for number in range(24)]}}) < 20, "some to be whole")
            killed.kill()
            killed.communicate()
            before = {name: len(each) for name, each in pushed.items()}
            for turn in range(10):
                file = operator.folder / f"busy{turn}.json"
                report = operator.run(*accepts, file)
                if not [each for each in report["findings"] if each["class"] == "corrupt"]:
                    break
            wait_for(lambda: all(len(pushed[name]) > before[name] + 3 for name in names), "pushes")
        finally:
            over.set()
            for each in threads:
                each.join()
        assert not failed, failed[:3]
        with pymongo.MongoClient("127.0.0.1", spillway.port, directConnection=True) as client:
            for name in names:
                assert client.shop.books.find_one({"_id": name})["list"] == without(7, 10) + pushed[name], name


def dumped(documents):
    """As mongodump writes a collection."""
    return b"".join(bson.encode(each) for each in documents)


def lines(documents):
    """As mongoexport writes it."""
    return b"".join(json_util.dumps(each, json_options=json_util.CANONICAL_JSON_OPTIONS).encode() + b"\n"
                    for each in documents)


def wrapped(documents):
    """As `verify --repair --execute` exports."""
    return dumped({"namespace": "shop.tails", "document": each} for each in documents)


@pytest.mark.parametrize("form", [dumped, lines, wrapped])
def test_a_backup_of_the_overflow_is_put_back(operator, shop, form):
    spill(shop, "x", list(range(15)))
    backup = operator.folder / f"{form.__name__}.backup"
    backup.write_bytes(form(shop.tails.find({})))
    before = snapshot(shop)
    shop.tails.delete_many({"book": "x", "_spill.i": {"$in": [1, 3]}})
    damaged = snapshot(shop)
    plan = operator.run("verify", "--from", backup, code=1)
    assert (plan["restored"], plan["there already"]) == (2, 6) and snapshot(shop) == damaged
    report = operator.run("verify", "--from", backup, "--execute", code=0)
    assert (report["restored"], report["there already"]) == (2, 6)
    assert snapshot(shop) == before


def test_nothing_is_put_back_where_the_rule_cannot_hold(cluster, shop):
    spill(shop, "x", list(range(15)))
    with Operator(cluster, [{**RULE, "access": "read-only"}]) as reading:
        backup = reading.folder / "tails.bson"
        backup.write_bytes(dumped(shop.tails.find({"book": "x"})))
        shop.tails.delete_many({"book": "x"})
        report = reading.run("verify", "--from", backup, "--execute", code=1)
    assert found(report)[("unfit", "unfinished")] == 1
    assert report["restored"] == shop.tails.count_documents({"book": "x"}) == 0


def test_a_file_may_have_a_document_twice(operator, shop):
    """As two exports one behind the other have it."""
    spill(shop, "x", list(range(15)))
    backup = operator.folder / "twice.bson"
    backup.write_bytes(dumped([*shop.tails.find({"book": "x"}), *shop.tails.find({"book": "x"})]))
    before = snapshot(shop)
    shop.tails.delete_many({"book": "x", "_spill.i": {"$gt": 1}})
    report = operator.run("verify", "--from", backup, "--execute", code=0)
    assert (report["restored"], report["there already"]) == (2, 4) and snapshot(shop) == before


def relaxed(documents):
    """As mongoexport writes it unasked: 7 is int32 or int64."""
    return b"".join(json_util.dumps(each, json_options=json_util.RELAXED_JSON_OPTIONS).encode() + b"\n"
                    for each in documents)


@pytest.mark.parametrize("elements, code", [([Int64(each) for each in range(15)], 1),
                                            ([{"at": [Int64(each)]} for each in range(15)], 1),
                                            ([f"text {each}" for each in range(15)], 0),
                                            ([each + 0.5 for each in range(15)], 0)])
def test_numbers_do_not_come_back_with_another_type(operator, shop, elements, code):
    spill(shop, "x", elements)
    backup = operator.folder / "relaxed.json"
    backup.write_bytes(relaxed(shop.tails.find({"book": "x"})))
    shop.tails.delete_many({"book": "x"})
    report = operator.run("verify", "--from", backup, "--execute", "--export", operator.folder / f"{elements[1]}.bson",
                          code=code)
    assert report["restored"] == (0 if code else 3)
    assert [each.split(":")[0] for each in details(report, "not-restored")] == (
        ["its JSON does not tell the types of whole numbers"] * 3 if code else [])
    if not code:
        assert [(type(each), each) for each in whole(shop)] == [(type(each), each) for each in elements]


def test_an_export_is_put_back_as_long_as_nothing_was_accepted(operator, shop):
    """After the loss was accepted the generation is another one."""
    spill(shop, "x", list(range(15)))
    shop.tails.delete_one(batch(2))
    file, other = operator.folder / "export.json", operator.folder / "other.json"
    operator.run("verify", "--accept-loss", "--execute", "--export", file, code=0)
    before = snapshot(shop)
    report = operator.run("verify", "--from", file, "--execute", "--export", other, code=1)
    assert details(report, "not-restored") == ["the document has another generation now"]
    assert report["passed over"] == 1 and snapshot(shop) == before


def test_what_does_not_fit_is_not_put_back(operator, shop):
    """Batches of another document, of another value, of a document that is gone or whole, and what is no document."""
    spill(shop, "x", list(range(15)))
    overlapping = {**shop.tails.find_one(batch(2)), "part": ["other"] * 4}
    of_ordinary = {**overlapping, "_id": 1, "book": "ordinary"}
    of_nobody = {**overlapping, "_id": 2, "book": "nobody"}
    renumbered = {**overlapping, "_id": 3, "_spill": {"g": generation(), "p": 4, "i": 9}}
    renumbered["part"] = [7, 8, "other", 10]
    before = snapshot(shop)
    file = operator.folder / "odd.json"
    for odd, why in ((overlapping, "another overflow document has the number of one of them"),
                     (renumbered, "their elements are not those that are stored"),
                     (of_ordinary, "the array stands whole in its document: its generation has ended"),
                     (of_nobody, "there is no such document")):
        file.write_bytes(lines([odd]))
        report = operator.run("verify", "--from", file, "--execute", code=1)
        assert details(report, "not-restored") == [why] and report["restored"] == 0
    file.write_text("no document\n")
    report = operator.run("verify", "--from", file, "--execute", code=1)
    assert details(report, "not-restored") == ["a part of the file is no document"]
    assert snapshot(shop) == before
