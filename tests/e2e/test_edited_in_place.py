"""Arrays that were edited in place, in states written by hand: who reads them, and who refuses them by name."""

from uuid import uuid4

import pytest
from bson.binary import Binary
from pymongo.errors import OperationFailure

from support.editions import array_of, edit_in_place, empty, raised, without
from support.operate import RULE, spill

pytestmark = pytest.mark.share(3)
QUIET = {"gc_delay": "1h", "settle": "1h", "quiet": "1h", "sweep": "off", "gather": 1000000}
RULES = [{**RULE, **QUIET},
         {"name": "marks", "namespace": "shop.books", "array": "marks", "threshold": 1, **QUIET,
          "overflow": {"collection": "marks_tails", "link": "book", "array": "part"}}]
WHOLE = list(range(20))
ANOTHER = [50, 51]


@pytest.fixture
def shop(direct):
    empty(direct)
    spill(direct.shop, "big", WHOLE, main={"group": "edited"}, state={"g": Binary(uuid4().bytes)})
    direct.shop.books.insert_one({"_id": "other", "list": ANOTHER, "group": "plain"})
    return direct.shop


@pytest.fixture
def books(client, shop):
    return client.shop.books


def edit(shop):
    """Three edits; returns what the array is then."""
    edit_in_place(shop, "big", without(1, 5, 6, 7, 8, 9))
    edit_in_place(shop, "big", raised(0, 10, 19))
    edit_in_place(shop, "big", without(3, 110, 11))
    expected = [100, 2, 4, 12, 13, 14, 15, 16, 17, 18, 119]
    assert array_of(shop, "big") == expected
    return expected


def fails(call, code=10334):
    with pytest.raises(OperationFailure) as caught:
        call()
    message = caught.value.details["errmsg"]
    assert caught.value.code == code, caught.value.details
    for word in ("_id 'big' (string)", "'books'", "edited in place"):
        assert word in message, message


def test_a_find_returns_the_array_of_each_edition(books, shop):
    for change in (without(5, 6, 7, 8), raised(0, 9, 19), without(0, 19, 109), without(100, 10, 11, 12, 13)):
        edit_in_place(shop, "big", change)
        expected = array_of(shop, "big")
        assert books.find_one({"_id": "big"})["list"] == expected
        assert [each["list"] for each in books.find().sort("_id", 1)] == [expected, ANOTHER]
        assert [each["list"] for each in books.find(batch_size=1).sort("_id", -1)] == [ANOTHER, expected]
        assert [each["list"] for each in books.aggregate([{"$sort": {"_id": 1}}])] == [expected, ANOTHER]


def test_an_edit_that_is_pending_is_not_seen(books, shop):
    edit_in_place(shop, "big", without(5, 6, 7, 8), pending=True)
    assert books.find_one({"_id": "big"})["list"] == WHOLE
    edit_in_place(shop, "big", without(5, 6, 7, 8))
    edit_in_place(shop, "big", without(0, 1, 19), pending=True)
    assert books.find_one({"_id": "big"})["list"] == [each for each in WHOLE if each not in (5, 6, 7, 8)]


def test_a_window_counts_elements(books, shop):
    whole = edit(shop)
    for skip in (0, 1, 2, 5, 9, 15, -1, -4, -11):
        begin = skip if skip >= 0 else max(len(whole) + skip, 0)
        assert books.find_one({"_id": "big"}, {"list": {"$slice": [skip, 3]}})["list"] == whole[begin:begin + 3]
    assert books.find_one({"_id": "big"}, {"list": {"$slice": -4}})["list"] == whole[-4:]


def test_a_cursor_goes_on_over_an_edit(books, shop):
    before = edit(shop)
    cursor = books.find(batch_size=1).sort("_id", -1)
    assert cursor.next()["list"] == ANOTHER
    edit_in_place(shop, "big", without(100, 12))
    assert cursor.next()["list"] in (before, array_of(shop, "big"))


def test_an_image_is_whole(books, shop):
    whole = edit(shop)
    assert books.find_one_and_update({"_id": "big"}, {"$set": {"x": 1}})["list"] == whole
    assert books.find_one_and_delete({"_id": "big"})["list"] == whole


def test_an_array_above_16_mb_is_read_whole(books, shop):
    long = [{"n": each, "text": "x" * 100_000} for each in range(180)]
    spill(shop, "long", long, state={"g": Binary(uuid4().bytes)})
    edit_in_place(shop, "long", lambda part: [each for each in part if each["n"] not in (1, 90)])
    assert [each["n"] for each in books.find_one({"_id": "long"})["list"]] == \
        [each for each in range(180) if each not in (1, 90)]
    with pytest.raises(OperationFailure) as caught:
        books.update_one({"_id": "long"}, {"$push": {"list": {"$each": [1], "$position": 0}}})
    assert caught.value.code == 10334
    assert books.update_one({"_id": "long"}, {"$push": {"list": {"n": 180}}}).modified_count == 1
    assert books.find_one({"_id": "long"}, {"list": {"$slice": -2}})["list"][1] == {"n": 180}
    assert books.update_one({"_id": "long"}, {"$set": {"list": [1]}}).modified_count == 1
    assert books.find_one({"_id": "long"}) == {"_id": "long", "list": [1]}


EDITS = (without(5, 6, 7, 8), raised(0, 9, 19), without(0, 19, 109), without(100, 10, 11, 12, 13))


def test_a_find_of_one_document_by_an_element_asks_what_counts(books, shop):
    for change in EDITS:
        edit_in_place(shop, "big", without(4), pending=True)
        edit_in_place(shop, "big", change)
        whole = array_of(shop, "big")
        for value in (*range(20), *range(100, 120)):
            found = {"_id": "big", "list": whole} if value in whole else None
            assert books.find_one({"_id": "big", "list": value}, {"list": 1}) == found, (value, whole)
            matched = books.find_one({"_id": "big", "list": {"$elemMatch": {"$eq": value}}}, {"_id": 1})
            assert (matched is None) == (found is None), (value, whole)
    shop.tails.delete_one({"part": 15, "_spill.u": None})
    fails(lambda: books.find_one({"_id": "big", "list": 15}, {"_id": 1}))


def test_an_older_batch_does_not_count_where_a_copy_stands(books, shop):
    """Two batch sizes: a slow append comes behind an edit of the same positions."""
    edit_in_place(shop, "big", without(12))
    shop.tails.update_one({"book": "big", "_spill.p": 4}, {"$push": {"part": {"$each": [11, 12]}}})
    fails(lambda: books.find_one({"_id": "big", "list": 12}, {"_id": 1}))
    for value in (0, 3, 13, 16):
        assert books.find_one({"_id": "big", "list": value}, {"_id": 1}), value
    assert books.find_one({"_id": "big", "list": 99}, {"_id": 1}) is None
    assert books.find_one({"_id": "big"})["list"] == [each for each in WHOLE if each != 12]


READS = {
    "find by the array's length": lambda books, filter: list(books.find({**filter, "list": {"$not": {"$size": 77}}})),
    "find, sorted by the array": lambda books, filter: list(books.find(filter).sort("list", -1)),
    "find by an element": lambda books, filter: list(books.find({**filter, "list": {"$gt": 1}})),
    "find with a computed field": lambda books, filter: list(books.find(filter, {"n": {"$size": "$list"}})),
    "find of windows, computed": lambda books, filter: list(books.find(filter, {"list": {"$slice": [4, 2]},
                                                                                "x": {"$literal": 1}})),
    "aggregate": lambda books, filter: list(books.aggregate([{"$match": filter},
                                                             {"$project": {"n": {"$size": "$list"}}}])),
    "aggregate of windows": lambda books, filter: list(books.aggregate([
        {"$match": filter}, {"$project": {"list": {"$slice": ["$list", 3, 2]}}}])),
    "count": lambda books, filter: [None] * books.count_documents({**filter, "list": {"$not": {"$size": 77}}}),
    "distinct": lambda books, filter: books.distinct("list", filter),
    "$unionWith": lambda books, filter: list(books.database.nothing.aggregate([{"$unionWith": {
        "coll": "books", "pipeline": [{"$match": filter}]}}])),
}


@pytest.mark.parametrize("read", READS)
def test_a_read_that_looks_into_it_fails_by_name(books, shop, read):
    edit(shop)
    fails(lambda: READS[read](books, {}))
    assert READS[read](books, {"group": "plain"})


@pytest.mark.parametrize("update", [{"$pop": {"list": 1}}, {"$pull": {"list": 4}}, {"$set": {"list.3": 7}},
                                    {"$addToSet": {"list": {"$each": [4, 1]}}},
                                    {"$push": {"list": {"$each": [3], "$position": 0}}}])
def test_an_edit_folds_it_back_if_it_fits(books, shop, update):
    whole = edit(shop)
    shop.model.insert_one({"_id": "big", "list": whole})
    shop.model.update_one({"_id": "big"}, update)
    expected = shop.model.find_one_and_delete({"_id": "big"})["list"]
    assert books.update_one({"_id": "big"}, update).matched_count == 1
    assert books.find_one({"_id": "big"})["list"] == expected
    assert shop.books.find_one({"_id": "big"}) == {"_id": "big", "list": expected, "group": "edited"}


@pytest.mark.parametrize("long", [False, True])
def test_membership_is_asked_of_what_counts(books, shop, long):
    """Nothing is folded back for it: the array may be larger than a document."""
    whole = edit(shop)
    if long:
        spill(shop, "long", [*range(20), *("x" * 1_000_000 for _ in range(17))], state={"g": Binary(uuid4().bytes)})
        edit_in_place(shop, "long", without(1, 5, 6, 7, 8, 9))
        edit_in_place(shop, "long", raised(0, 10, 19))
        edit_in_place(shop, "long", without(3, 110, 11))
        whole = array_of(shop, "long")
    one = {"_id": "long" if long else "big"}
    for value in (100, 2, 12, 18, 119, 0, 1, 5, 7, 10, 11, 19, 110, 77):
        there = value in whole
        pushed = books.update_one({**one, "list": {"$ne": value}}, {"$push": {"list": value}})
        assert pushed.matched_count == (not there), (value, whole)
        assert books.update_one(one, {"$addToSet": {"list": value}}).modified_count == 0
        whole += [] if there else [value]
        for added in (value + 1000, value + 1000):
            assert books.update_one(one, {"$addToSet": {"list": added}}).modified_count == (added not in whole)
            whole += [] if added in whole else [added]
    assert array_of(shop, one["_id"]) == whole
    assert "e" in shop.books.find_one(one)["_spill"]["list"]


def test_membership_where_a_copy_overrules_a_batch(books, shop):
    edit_in_place(shop, "big", without(12))
    shop.tails.update_one({"book": "big", "_spill.p": 4}, {"$push": {"part": {"$each": [11, 12]}}})
    assert books.update_one({"_id": "big"}, {"$addToSet": {"list": 13}}).modified_count == 0
    assert books.update_one({"_id": "big"}, {"$addToSet": {"list": 12}}).modified_count == 1
    assert books.find_one({"_id": "big"})["list"] == [*(each for each in WHOLE if each != 12), 12]


def test_membership_tells_what_is_missing(books, shop):
    edit(shop)
    shop.tails.delete_one({"part": 15, "_spill.u": None})
    with pytest.raises(OperationFailure) as caught:
        books.update_one({"_id": "big"}, {"$addToSet": {"list": 15}})
    assert caught.value.code == 301, caught.value.details


@pytest.mark.parametrize("value", [4, 5])
def test_a_write_by_an_element_folds_it_back(books, shop, value):
    whole = edit(shop)
    assert books.update_one({"_id": "big", "list": value}, {"$set": {"x": 1}}).matched_count == (value in whole)
    assert books.find_one({"_id": "big"}, {"list": 1, "x": 1}) == {
        "_id": "big", "list": whole, **({"x": 1} if value in whole else {})}
    assert "_spill" not in shop.books.find_one({"_id": "big"})


@pytest.fixture
def marked(shop):
    """Another array of the document is spilled, and was not edited in place."""
    state = {"g": Binary(uuid4().bytes), "h": 1, "n": 2}
    shop.marks_tails.delete_many({})
    shop.marks_tails.insert_one({"book": "big", "part": [8, 9], "_spill": {"g": state["g"], "p": 0, "i": 1}})
    shop.books.update_one({"_id": "big"}, {"$set": {"marks": [7], "_spill.marks": state}})


@pytest.mark.parametrize("update, after", [
    ({"$set": {"x": 1}}, {"marks": [7, 8, 9], "x": 1}),
    ({"$push": {"marks": 10}}, {"marks": [7, 8, 9, 10]}),
    ({"$pull": {"marks": 8}}, {"marks": [7, 9]}),
    ({"$set": {"marks": 5}}, {"marks": 5}),
])
@pytest.mark.parametrize("names", [{"_id": "big"}, {}], ids=["one", "search"])
@pytest.mark.parametrize("many", [False, True], ids=["update_one", "update_many"])
def test_a_write_by_another_array_leaves_it_alone(books, shop, marked, update, after, names, many):
    """mongod would not put the edited array together, and the write does not read it."""
    whole = edit(shop)
    write = books.update_many if many else books.update_one
    assert write({**names, "marks": {"$in": [9]}}, update).modified_count == 1
    assert books.find_one({"_id": "big"}, {"group": 0}) == {"_id": "big", "list": whole, **after}
    assert "e" in shop.books.find_one({"_id": "big"})["_spill"]["list"]


BY_MARKS = {
    "a find": lambda books: books.find_one({"marks": {"$size": 3}}, {"marks": 1}) == {"_id": "big", "marks": [7, 8, 9]},
    "a find without the arrays": lambda books: list(books.find({"marks.1": 8}, {"_id": 1})) == [{"_id": "big"}],
    "a sort": lambda books: [each["_id"] for each in books.find({}, {"_id": 1}).sort("marks", -1)] == ["big", "other"],
    "a part": lambda books: books.find_one({"marks": 9}, {"marks.$": 1}) == {"_id": "big", "marks": [9]},
    "a count": lambda books: books.database.command("count", "books", query={"marks": {"$size": 3}})["n"] == 1,
    "count_documents": lambda books: books.count_documents({"marks": {"$size": 3}}) == 1,
    "a $group": lambda books: list(books.aggregate([
        {"$group": {"_id": None, "marks": {"$sum": {"$size": {"$ifNull": ["$marks", []]}}}}}]))[0]["marks"] == 3,
    "a $project": lambda books: list(books.aggregate([
        {"$sort": {"_id": 1}}, {"$project": {"marks": 1}}, {"$unwind": "$marks"}, {"$count": "n"}])) == [{"n": 3}],
    "a distinct": lambda books: books.distinct("marks", {"marks": {"$gt": 7}}) == [7, 8, 9],
}


@pytest.mark.parametrize("name", BY_MARKS)
def test_a_read_of_another_array_does_not_need_it(books, shop, marked, name):
    edit(shop)
    assert BY_MARKS[name](books)


def test_the_other_array_decides_which_document_is_first(books, shop, marked):
    whole = edit(shop)
    found = books.find_one_and_update(
        {"_id": "big"}, {"$set": {"marks": {"x": 1}}}, sort=[("marks.x", -1)], return_document=True)
    assert (found["list"], found["marks"]) == (whole, {"x": 1})


def test_the_whole_array_may_be_set(books, shop):
    whole = edit(shop)
    assert books.update_one({"_id": "big"}, {"$set": {"list": whole}}).modified_count == 0
    assert books.find_one({"_id": "big"})["list"] == whole


def test_another_array_may_be_set(books, shop):
    edit(shop)
    assert books.update_one({"_id": "big"}, {"$set": {"list": [1]}}).modified_count == 1
    assert shop.books.find_one({"_id": "big"}, {"_spill": 0}) == {"_id": "big", "list": [1], "group": "edited"}


def test_overflow_that_is_missing_is_told(books, shop):
    edit(shop)
    shop.tails.delete_one({"_spill.i": {"$lt": 0}, "_spill.u": None})
    with pytest.raises(OperationFailure) as caught:
        books.find_one({"_id": "big"})
    assert caught.value.code == 301, caught.value.details
