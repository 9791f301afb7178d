"""Arrays that were edited in place, in states written by hand: the mover, garbage collection and the operator's
commands."""

from uuid import uuid4

import pymongo
import pytest
from bson.binary import Binary
from bson.objectid import ObjectId
from pymongo.errors import OperationFailure

from support import exact
from support.editions import array_of, edit_in_place, raised, without
from support.operate import RULE, Operator, found, spill
from support.process import wait_for
from support.spillway import Spillway
from support.verify import Keeping, check, verify

RULES = [{**RULE, "settle": "5ms", "quiet": "5ms", "gather": 1, "sweep": "off"}]
WHOLE = list(range(20))
TOO_LARGE = ["x" * 1_000_000] * 9  # for the sweep to fold the array back


@pytest.fixture
def books(direct, shop, client):
    shop.tails.create_index([("book", 1), ("_spill.i", 1)], unique=True)
    spill(shop, "big", WHOLE, state={"g": Binary(uuid4().bytes), "a": ["outlier"], "b": {}})
    edit_in_place(shop, "big", without(1, 5, 6, 7, 8, 9))
    edit_in_place(shop, "big", raised(0, 10, 19))
    return client.shop.books


def moved(shop):
    main = shop.books.find_one({"_id": "big"})
    return len(main["list"]) == main["_spill"]["list"]["e"]["h"]


def test_a_tail_moves_under_the_later_name(books, shop):
    expected = array_of(shop, "big")
    for number in range(30, 60):
        books.update_one({"_id": "big"}, {"$push": {"list": number}})
        expected.append(number)
        if number % 7 == 0 or number % 10 == 0:
            wait_for(lambda: moved(shop), "the tail to move")
        if number % 10 == 0:  # the mover is at rest: both would write the state
            edit_in_place(shop, "big", without(number - 1, number - 8))
            expected = [each for each in expected if each not in (number - 1, number - 8)]
        assert array_of(shop, "big") == expected
        assert books.find_one({"_id": "big"})["list"] == expected
    wait_for(lambda: moved(shop), "the tail to move")
    later = shop.books.find_one({"_id": "big"})["_spill"]["list"]["e"]["l"]
    stored = list(shop.tails.find({"book": "big", "_spill.g": later, "_spill.w": None}))
    assert stored and all("e" in each["_spill"] for each in stored)
    assert [each for each in shop.tails.find({"_spill.w": {"$exists": True}}) if each["_spill"]["i"] > 0] == []


def test_many_elements_move_at_once(books, shop):
    expected = array_of(shop, "big")
    books.update_one({"_id": "big"}, {"$push": {"list": {"$each": list(range(100, 400))}}})
    wait_for(lambda: moved(shop), "the tail to move")
    assert array_of(shop, "big") == expected + list(range(100, 400))


def test_a_pending_edit_does_not_hold_the_mover(books, shop):
    edit_in_place(shop, "big", without(2, 3), pending=True)
    expected = array_of(shop, "big")
    books.update_one({"_id": "big"}, {"$push": {"list": 100}})
    wait_for(lambda: moved(shop), "the tail to move")
    assert "w" in shop.books.find_one({"_id": "big"})["_spill"]["list"]["e"]
    assert array_of(shop, "big") == expected + [100] == books.find_one({"_id": "big"})["list"]


def test_both_names_are_alive(books, shop, operator):
    """A dead generation beside them goes, and nothing else."""
    books.update_one({"_id": "big"}, {"$push": {"list": 100}})  # its move records whose the overflow is
    wait_for(lambda: moved(shop), "the tail to move")
    before = shop.tails.count_documents({})
    shop.tails.insert_one({"_id": ObjectId(bytes(12)), "book": "big", "part": [1],
                           "_spill": {"g": Binary(uuid4().bytes), "p": 0, "i": 77}})
    operator.run("verify", "--repair", "--execute")
    wait_for(lambda: shop.tails.count_documents({"_spill.i": 77}) == 0, "the garbage to go")
    assert shop.tails.count_documents({}) == before
    assert array_of(shop, "big") == books.find_one({"_id": "big"})["list"]


def broken(operator, shop):
    """The invariants that are broken: what the program says, which the tests' own reading has to say, too."""
    report = operator.run("verify")
    said = sorted({each[0] for each in found(report) if each[1] in ("corrupt", "unfinished")})
    findings = verify(shop.client, RULES[0])
    assert sorted({text.split(": ")[1] for text in findings.corrupt + findings.unfinished}) == said, (report, findings)
    return said


def test_verify_finds_nothing_and_counts_what_waits(books, shop, operator):
    for change in (without(12, 13), raised(2, 17), without(0, 1, 2, 3, 4, 15, 117)):
        assert broken(operator, shop) == []
        keeping = Keeping(RULES[0])
        arrays = check(*keeping.read(shop.client), keeping)[1]
        assert [[exact.plain(each) for each in array] for array in arrays.values()] == [array_of(shop, "big")]
        edit_in_place(shop, "big", raised(14), pending=True)
        assert broken(operator, shop) == []
        edit_in_place(shop, "big", change)


@pytest.mark.parametrize("damage", ["a copy", "an older batch", "an element"])
def test_verify_tells_what_is_missing(books, shop, operator, damage):
    if damage == "a copy":
        shop.tails.delete_one({"_spill.w": {"$exists": True}, "_spill.u": None})
    elif damage == "an older batch":
        shop.tails.delete_one({"_spill.w": None, "_spill.u": None})
    else:
        shop.tails.update_one({"_spill.w": {"$exists": True}, "_spill.u": None, "part.0": {"$exists": True}},
                              {"$pop": {"part": 1}})
    assert broken(operator, shop) == ["V1"]


@pytest.mark.parametrize("name", ["older", "later", "copy", "equal"])
def test_verify_compares_batches_of_one_name(books, shop, operator, name):
    """V5: the elements at one position, where two batches hold it."""
    state = shop.books.find_one({"_id": "big"})["_spill"]["list"]["e"]
    batch = shop.tails.find_one({"part": [15, 16, 17, 18] if name == "older" else [3, 4], "_spill.u": None})
    if name in ("older", "equal"):  # [11 to 14], and two more behind it
        more = [15, 16] if name == "equal" else [15, 77]
        shop.tails.update_one({"part": [11, 12, 13, 14]}, {"$push": {"part": {"$each": more}}})
    else:
        own = {"g": state["l"], "p": batch["_spill"]["p"], "i": 77, "e": state["v"]}
        own |= {"w": 1} if name == "copy" else {}
        shop.tails.insert_one({"book": "big", "part": [9], "_spill": own})
    too_long = ["V6"] if name in ("older", "equal") else []
    assert broken(operator, shop) == ([] if name == "equal" else ["V5"]) + too_long


def test_migrate_leaves_what_is_edited_and_moves_its_tail(books, shop, operator):
    shop.books.update_one({"_id": "big"}, {"$push": {"list": {"$each": list(range(100, 110))}}})
    expected = array_of(shop, "big")
    operator.run("migrate", "--execute", code=0)
    assert moved(shop)
    assert array_of(shop, "big") == expected == books.find_one({"_id": "big"})["list"]


EXPLAINED = ({"find": "books", "filter": {"_id": "big"}},
             {"find": "books", "filter": {"_id": "big", "list": 4}},
             {"update": "books", "updates": [{"q": {"_id": "big"}, "u": {"$pull": {"list": 4}}}]},
             {"delete": "books", "deletes": [{"q": {"_id": "big", "list": 4}, "limit": 1}]})


@pytest.mark.parametrize("command", EXPLAINED)
def test_an_explain_changes_nothing(books, shop, command):
    """If it would have mongod put the array together, it is refused by name."""
    before = shop.books.find_one({"_id": "big"})
    assert books.database.command("explain", command, verbosity="queryPlanner")["ok"] == 1
    if command == EXPLAINED[1]:
        with pytest.raises(OperationFailure, match="edited in place") as caught:
            books.database.command("explain", command, verbosity="executionStats")
        assert caught.value.code == 10334, caught.value.details
    else:
        assert books.database.command("explain", command, verbosity="executionStats")["ok"] == 1
    assert shop.books.find_one({"_id": "big"}) == before


def test_undo_folds_it_back(books, shop, operator):
    expected = array_of(shop, "big")
    operator.run("undo", "--execute")
    assert shop.books.find_one({"_id": "big"}) == {"_id": "big", "list": expected}


def test_a_total_counts_elements(cluster, direct):
    """In a database of its own: a rule on 'shop' has no counters."""
    store = direct.store
    rule = {**RULES[0], "namespace": "store.books", "counters": {"total": "count", "documents": "parts"}}
    store.tails.create_index([("book", 1), ("_spill.i", 1)], unique=True)
    spill(store, "big", WHOLE, main={"count": 20, "parts": 5}, state={"g": Binary(uuid4().bytes), "b": {}})
    edit_in_place(store, "big", without(1, 5, 6, 7, 8, 9))
    with Spillway([cluster.primary], [rule]) as made, \
            pymongo.MongoClient("127.0.0.1", made.port, directConnection=True) as client:
        client.store.books.update_one({"_id": "big"}, {"$push": {"list": {"$each": [100, 101]}}})
        wait_for(lambda: moved(store), "the tail to move")
    assert store.books.find_one({"_id": "big"})["count"] == 16
    with Operator(cluster, [rule]) as operator:
        report = operator.run("verify")
    assert [each for each in found(report) if each[1] in ("corrupt", "unfinished")] == [], report


def test_what_earlier_editions_need_goes_and_copies_get_numbers(cluster, books, shop):
    for each in (shop.books, shop.tails):
        each.delete_many({})
    spill(shop, "big", [*WHOLE, *TOO_LARGE], state={"g": Binary(uuid4().bytes), "a": ["outlier"], "b": {}})
    edit_in_place(shop, "big", without(1, 5, 6, 7, 8, 9))
    edit_in_place(shop, "big", raised(0, 10, 19))
    expected = array_of(shop, "big")
    edit_in_place(shop, "big", without(12, 13))
    edit_in_place(shop, "big", raised(2, 17), pending=True)
    expected = [each for each in expected if each not in (12, 13)]
    marked = {"_spill.u": {"$exists": True}}
    assert shop.tails.count_documents(marked) >= 5
    with Spillway([cluster.primary], [{**RULES[0], "sweep": "1s"}]):
        books.update_one({"_id": "big"}, {"$push": {"list": 100}})  # its move records whose the overflow is
        wait_for(lambda: not shop.tails.count_documents(marked), "the marked batches to go")
        wait_for(lambda: "w" not in shop.books.find_one({"_id": "big"})["_spill"]["list"]["e"], "the edit to go")
    numbers = [each["_spill"]["i"] for each in shop.tails.find({"book": "big"}).sort("_spill.p", 1)]
    assert numbers == list(range(1, len(numbers) + 1)), "programs that read the overflow find numbers in order"
    assert array_of(shop, "big") == [*expected, 100] == books.find_one({"_id": "big"})["list"]


def test_a_sweep_brings_it_back_to_the_ordinary_form(cluster, books, shop):
    expected = [*array_of(shop, "big"), 100]
    edit_in_place(shop, "big", raised(2, 17), pending=True)
    with Spillway([cluster.primary], [{**RULES[0], "sweep": "1s"}]) as made, \
            pymongo.MongoClient("127.0.0.1", made.port, directConnection=True) as client:
        books.update_one({"_id": "big"}, {"$push": {"list": 100}})  # its move records whose the overflow is
        wait_for(lambda: shop.books.find_one({"_id": "big"})["_spill"]["list"].get("n", 0) > 0, "it to move anew")
        assert client.shop.books.find_one({"_id": "big", "list": 100})["list"] == expected
    assert array_of(shop, "big") == expected
    assert {each["_spill"]["g"] for each in shop.tails.find()} == {
        shop.books.find_one({"_id": "big"})["_spill"]["list"]["g"]}, "what it had been stored under is gone"


def test_an_exact_change_stream_ends_at_the_edit_and_tells_what_follows(cluster, shop):
    shop.tails.create_index([("book", 1), ("_spill.i", 1)], unique=True)
    spill(shop, "big", WHOLE, state={"g": Binary(uuid4().bytes)})
    with Spillway([cluster.primary], [{**RULES[0], "change_streams": "exact", "settle": "1h"}]) as made, \
            pymongo.MongoClient("127.0.0.1", made.port, directConnection=True) as client:
        books = client.shop.books
        with books.watch() as stream:
            books.insert_one({})
            assert stream.next()["operationType"] == "insert"
            edit_in_place(shop, "big", without(5, 6))
            with pytest.raises(OperationFailure, match="edited in place") as caught:
                stream.next()
            assert caught.value.code == 286, caught.value.details
        with books.watch() as stream:
            books.update_one({"_id": "big"}, {"$push": {"list": 1}})
            last = len(array_of(shop, "big")) - 1
            assert stream.next()["updateDescription"]["updatedFields"] == {f"list.{last}": 1}
