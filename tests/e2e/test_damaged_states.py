"""A document whose state (`_spill`) is damaged, or names another document's generation: it fails alone and by name,
and takes nobody's elements."""

from uuid import uuid4

import pytest
from bson.binary import Binary
from bson.son import SON
from pymongo.errors import OperationFailure

from support.operate import RULE, generation, spill

pytestmark = pytest.mark.share(6)
# Only a rule with a delay has reads and edits that ask the overflow itself.
RULES = [{**RULE, "gc_delay": "1h", "settle": "1h", "quiet": "1h", "sweep": "off", "gather": 1000000}]
WHOLE = list(range(12))
MINE = {"g": generation(), "h": 3, "n": 9}
# Of a document {_id: "bad", list: [0, 1, 2, 3], group: "bad"} that has no overflow.
STATES = {
    "another document's generation": {"list": MINE},
    "a generation without overflow": {"list": {**MINE, "g": generation(7)}},
    "no document": 5,
    "a list": [{"list": MINE}],
    "no document for the array": {"list": "x"},
    "no generation": {"list": {"h": 3, "n": 9}},
    "a generation that is a text": {"list": {**MINE, "g": "x"}},
    "a short generation": {"list": {**MINE, "g": Binary(b"x")}},
    "a count that is a text": {"list": {**MINE, "n": "9"}},
    "a count below nothing": {"list": {**MINE, "n": -1}},
    "a broken count": {"list": {**MINE, "n": 1.5}},
    "a count that is no number": {"list": {**MINE, "n": float("nan")}},
    "no count": {"list": {"g": generation(), "h": 3}},
    "a head below nothing": {"list": {**MINE, "h": -1}},
    "a head that is a text": {"list": {**MINE, "h": "3"}},
    "no head": {"list": {"g": generation(), "n": 9}},
    "a head that is longer than the array": {"list": {**MINE, "h": 5}},
}
READS = {
    "find": lambda books, filter: list(books.find(filter)),
    "find, sorted by the array": lambda books, filter: list(books.find(filter).sort("list", -1)),
    "find by the array's length": lambda books, filter: list(books.find({**filter, "list": {"$not": {"$size": 77}}})),
    "find with a computed field": lambda books, filter: list(books.find(filter, {"n": {"$size": "$list"}})),
    "find of windows": lambda books, filter: list(books.find(filter, {"list": {"$slice": [4, 2]}})),
    "find of windows, computed": lambda books, filter: list(books.find(filter, {"list": {"$slice": [4, 2]},
                                                                                "x": {"$literal": 1}})),
    "aggregate": lambda books, filter: list(books.aggregate([{"$match": filter},
                                                             {"$project": {"n": {"$size": "$list"}}}])),
    "aggregate of whole documents": lambda books, filter: list(books.aggregate([{"$match": filter}])),
    "count": lambda books, filter: [None] * books.count_documents({**filter, "list": {"$not": {"$size": 77}}}),
    "distinct": lambda books, filter: books.distinct("list", filter),
    "$lookup": lambda books, filter: books.database.plain.aggregate([{"$lookup": {
        "from": "books", "pipeline": [{"$match": filter}], "as": "found"}}]).next()["found"],
    "$unionWith": lambda books, filter: list(books.database.nothing.aggregate([{"$unionWith": {
        "coll": "books", "pipeline": [{"$match": filter}]}}])),
}


@pytest.fixture
def books(client, direct):
    for name in ("books", "tails", "plain"):
        direct.shop[name].delete_many({})
    direct.shop.tails.create_index([("book", 1), ("_spill.i", 1)], unique=True)
    direct.shop.plain.insert_one({"_id": 1})
    # As everywhere, no generation comes twice: the mover may still be removing the one of the test before.
    spill(direct.shop, "good", WHOLE, main={"group": "good"}, state={"g": Binary(uuid4().bytes)})
    direct.shop.books.insert_one({"_id": 50, "list": [50], "group": "good"})
    return client.shop.books


def with_generation(value, generation_of_good):
    """A state that names generation() names that of the document "good" instead."""
    if isinstance(value, dict):
        return {name: with_generation(each, generation_of_good) for name, each in value.items()}
    if isinstance(value, list):
        return [with_generation(each, generation_of_good) for each in value]
    return generation_of_good if value == generation() else value


def damage(direct, state, identifier="bad"):
    good = direct.shop.books.find_one({"_id": "good"})["_spill"]["list"]["g"]
    damage_as_is(direct, with_generation(state, good), identifier)


def damage_as_is(direct, state, identifier="bad"):
    direct.shop.books.insert_one({"_id": identifier, "list": [0, 1, 2, 3], "group": "bad", "_spill": state})


def named(call, what="_id 'bad' (string)"):
    with pytest.raises(OperationFailure) as caught:
        call()
    message = caught.value.details["errmsg"]
    assert caught.value.code == 301, message
    for word in (what, "'books'", "'shop.books'", "spillway verify --repair"):
        assert word in message, message


# Each way to read meets these three, one way all of them.
MET = [(name, read) for name in STATES for read in READS
       if name in ("another document's generation", "no document", "a count that is a text")
       or read in ("find", "find by the array's length", "find of windows, computed")]


@pytest.mark.parametrize(("name", "read"), MET)
def test_a_read_fails_by_name_and_without_the_document_works(books, direct, name, read):
    damage(direct, STATES[name])
    named(lambda: READS[read](books, {}))
    assert len(READS[read](books, {"group": "good"})) == {"distinct": 13}.get(read, 2)
    assert books.find_one({"_id": "good"})["list"] == WHOLE


@pytest.mark.parametrize("part", ["x", {"0": 3}, None])
@pytest.mark.parametrize("read", READS)
def test_overflow_that_has_no_array_fails_by_name(books, direct, read, part):
    """Aggregates, too, whichever of their own operators mongod stumbles over."""
    spill(direct.shop, "bad", WHOLE, main={"group": "bad"}, state={"g": Binary(uuid4().bytes)})
    direct.shop.tails.update_one({"book": "bad", "_spill.i": 1}, {"$set": {"part": part}})
    named(lambda: READS[read](books, {}))
    assert len(READS[read](books, {"group": "good"})) == {"distinct": 13}.get(read, 2)


@pytest.mark.parametrize("name", STATES)
def test_an_edit_of_the_document_is_refused(books, direct, name):
    damage(direct, STATES[name])
    before = repr(list(direct.shop.books.find()))
    for update in ({"$pull": {"list": 1}}, [{"$replaceWith": {"$mergeObjects": ["$$ROOT", {"a": 1}]}}]):
        with pytest.raises(OperationFailure) as caught:
            books.update_one({"_id": "bad"}, update, comment="x")
        assert caught.value.code == 301, caught.value.details
    assert repr(list(direct.shop.books.find())) == before
    assert books.update_one({"_id": "good"}, {"$pull": {"list": 1}}).modified_count == 1
    assert books.find_one({"_id": "good"})["list"] == [0, *WHOLE[2:]]


def test_no_element_of_another_document_is_shown(books, direct):
    """Copies of a spilled document, with its state: under a collation their `_id`s may be equal."""
    victim = direct.shop.books.find_one({"_id": "good"})
    copies = ["GOOD", 5, SON(a="good")]
    for number, identifier in enumerate(copies):
        direct.shop.books.insert_one({**victim, "_id": identifier, "group": number})
    for collation in (None, {"locale": "en", "strength": 1}):
        for read in (lambda filter: books.find(filter, collation=collation),
                     lambda filter: books.find({**filter, "list": {"$gt": 8}}, collation=collation),
                     lambda filter: books.find({**filter, "list": {"$not": {"$size": 77}}}, collation=collation),
                     lambda filter: books.find(filter, {"n": {"$size": "$list"}}, collation=collation),
                     lambda filter: books.find(filter, {"list": {"$slice": [5, 2]}, "x": {"$literal": 1}},
                                               collation=collation),
                     lambda filter: books.aggregate([{"$match": filter}, {"$set": {"n": {"$size": "$list"}}}],
                                                    collation=collation)):
            for group in range(len(copies)):
                with pytest.raises(OperationFailure) as caught:
                    list(read({"group": {"$in": [group, "good"]}}))
                assert caught.value.code == 301 and "_id" in caught.value.details["errmsg"], caught.value


@pytest.mark.parametrize("read", READS)
def test_what_another_document_has_left_is_shown_in_none(books, direct, read):
    """The state names a generation that its own document has left behind, whose overflow is still there."""
    left = direct.shop.books.find_one({"_id": "good"})["_spill"]["list"]["g"]
    for batch in list(direct.shop.tails.find({"book": "good"})):
        state = {**batch["_spill"], "g": generation(8), "i": batch["_spill"]["i"] + 100}
        direct.shop.tails.insert_one({**batch, "_id": f"new {state['i']}", "_spill": state})
    direct.shop.books.update_one({"_id": "good"}, {"$set": {"_spill.list.g": generation(8)}})
    good = READS[read](books, {"group": "good"})
    assert good
    damage_as_is(direct, {"list": {**MINE, "g": left}})
    named(lambda: READS[read](books, {"group": {"$in": ["bad", "good"]}}))
    assert READS[read](books, {"group": "good"}) == good


def test_of_several_rules_the_error_names_the_document(books, direct):
    """Numbers, and texts longer than what is told of them."""
    for identifier, told in ((7, "_id '7' (int)"), ("x" * 500, f"_id '{'x' * 99}"), ("ü" * 300, "_id 'üüü")):
        damage(direct, STATES["a generation without overflow"], identifier)
        named(lambda: list(books.find({"group": "bad"})), told)
        named(lambda: list(books.find({"group": "bad", "list": {"$not": {"$size": 77}}})), told)
        direct.shop.books.delete_one({"_id": identifier})


# An element of both documents' overflow, and one of the damaged document's alone.
SHARED, ALONE = 7, 100
# Of a document {_id: "bad"} whose elements lie in its overflow: what happens to its state.
DAMAGES = {
    "no generation": {"$unset": {"_spill.list.g": 1}},
    "a long generation": {"$set": {"_spill.list.g": Binary(b"x" * 17)}},
    "a generation of another subtype": lambda own: {"$set": {"_spill.list.g": Binary(own, 4)}},
    "a generation that is a number": {"$set": {"_spill.list.g": 5}},
    "no document": {"$set": {"_spill": 5}},
    "null": {"$set": {"_spill": None}},
    "a list": lambda own: {"$set": {"_spill": [{"list": {"g": Binary(own), "h": 3, "n": 10}}]}},
    "no document for the array": {"$set": {"_spill.list": "x"}},
    "no head": {"$unset": {"_spill.list.h": 1}},
    "no count": {"$unset": {"_spill.list.n": 1}},
}
ELEMENT_READS = {
    "find": lambda books, x: list(books.find({"list": x})),
    "find of _ids": lambda books, x: list(books.find({"list": x}, {"_id": 1})),
    "find of whole documents, sorted": lambda books, x: list(books.find({"list": x}).sort("group", 1)),
    "find, two at a time": lambda books, x: list(books.find({"list": x}, {"_id": 1}, batch_size=2)),
    "find by $in": lambda books, x: list(books.find({"list": {"$in": [x, -5]}}, {"_id": 1})),
    "find by $elemMatch": lambda books, x: list(books.find({"list": {"$elemMatch": {"$eq": x}}}, {"_id": 1})),
    "find by $all": lambda books, x: list(books.find({"list": {"$all": [x]}}, {"_id": 1})),
    "find by $or": lambda books, x: list(books.find({"$or": [{"list": x}, {"list": -5}]}, {"_id": 1})),
    "find by $gt": lambda books, x: list(books.find({"list": {"$gt": x - 1}}, {"_id": 1})),
    "find beside another condition": lambda books, x: list(books.find({"list": x, "group": {"$ne": 1}}, {"_id": 1})),
    "count": lambda books, x: books.database.command("count", "books", query={"list": x}),
    "count_documents": lambda books, x: books.count_documents({"list": x}),
    "distinct": lambda books, x: books.distinct("group", {"list": x}),
    "distinct of the array": lambda books, x: books.distinct("list", {"list": x}),
    "aggregate": lambda books, x: list(books.aggregate([{"$match": {"list": x}}])),
    "aggregate of groups": lambda books, x: list(books.aggregate([{"$match": {"list": x}},
                                                                  {"$group": {"_id": "$group"}}])),
}
ELEMENT_WRITES = {
    "deleteMany": lambda books, x: books.delete_many({"list": x}),
    "deleteMany by $in": lambda books, x: books.delete_many({"list": {"$in": [x, -5]}}),
    "deleteMany by $elemMatch": lambda books, x: books.delete_many({"list": {"$elemMatch": {"$eq": x}}}),
    "updateMany": lambda books, x: books.update_many({"list": x}, {"$set": {"mark": 1}}),
    "updateMany that pushes": lambda books, x: books.update_many({"list": x}, {"$push": {"list": 55}}),
}
# One document is enough for these: they need not look at the other.
ONE_WRITES = {
    "deleteOne": lambda books, x: books.delete_one({"list": x}),
    "updateOne": lambda books, x: books.update_one({"list": x}, {"$set": {"mark": 1}}),
    "replaceOne": lambda books, x: books.replace_one({"list": x}, {"mark": 1}),
    "an upsert": lambda books, x: books.update_one({"list": x}, {"$set": {"mark": 1}}, upsert=True),
    "findAndModify": lambda books, x: books.find_one_and_update({"list": x}, {"$set": {"mark": 1}}),
    "findAndModify that removes": lambda books, x: books.find_one_and_delete({"list": x}),
}


def tear(direct, name):
    """A spilled document whose state is damaged afterwards."""
    own = uuid4().bytes
    spill(direct.shop, "bad", [*WHOLE, ALONE], main={"group": "bad"}, state={"g": Binary(own)})
    change = DAMAGES[name]
    direct.shop.books.update_one({"_id": "bad"}, change(own) if callable(change) else change)


def everything(direct):
    return repr([list(direct.shop[name].find()) for name in ("books", "tails")])


@pytest.mark.parametrize("read", ELEMENT_READS)
@pytest.mark.parametrize("name", DAMAGES)
def test_a_read_by_an_element_of_the_overflow_fails_by_name(books, direct, name, read):
    tear(direct, name)
    named(lambda: ELEMENT_READS[read](books, SHARED))
    named(lambda: ELEMENT_READS[read](books, ALONE))
    direct.shop.books.delete_one({"_id": "bad"})
    assert ELEMENT_READS[read](books, SHARED) == ELEMENT_READS[read](books, 8), "its overflow is garbage now"
    assert books.count_documents({"list": SHARED}) == 1
    assert books.count_documents({"list": ALONE}) == 0


@pytest.mark.parametrize("name", DAMAGES)
def test_an_element_of_the_head_brings_no_short_array(books, direct, name):
    """The document matches by what it holds itself; its array comes whole or not at all."""
    tear(direct, name)
    direct.shop.books.delete_one({"_id": "good"})
    for read in (lambda: list(books.find({"list": 1})), lambda: list(books.find({"list": 1}).sort("group", 1)),
                 lambda: list(books.find({"list": 1}, {"list": 1})),
                 lambda: list(books.aggregate([{"$match": {"list": 1}}])),
                 lambda: list(books.aggregate([{"$match": {"list": 1}}, {"$project": {"n": {"$size": "$list"}}}])),
                 lambda: books.distinct("list", {"list": 1})):
        named(read)


@pytest.mark.parametrize("write", [*ELEMENT_WRITES, *ONE_WRITES])
@pytest.mark.parametrize("name", DAMAGES)
def test_a_write_by_an_element_of_the_overflow_changes_nothing(books, direct, name, write):
    tear(direct, name)
    before = everything(direct)
    named(lambda: {**ELEMENT_WRITES, **ONE_WRITES}[write](books, ALONE))
    if write in ELEMENT_WRITES:
        named(lambda: ELEMENT_WRITES[write](books, SHARED))
    assert everything(direct) == before


@pytest.mark.parametrize("state", [None, {}, {"other": {"g": Binary(b"o" * 16), "h": 0, "n": 0}},
                                   lambda: {"list": {"g": Binary(uuid4().bytes), "h": 3, "n": 0}}])
def test_overflow_that_no_sound_state_names_stays_garbage(books, direct, state):
    """The document has no state for the array, or a sound one with another generation."""
    tear(direct, "no generation")
    state = state() if callable(state) else state
    direct.shop.books.update_one({"_id": "bad"},
                                 {"$set": {"_spill": state}} if state is not None else {"$unset": {"_spill": 1}})
    assert books.count_documents({"list": SHARED}) == 1
    assert list(books.find({"list": ALONE})) == []
    assert books.delete_many({"list": ALONE}).deleted_count == 0
    assert [each["_id"] for each in books.find({"list": SHARED}, {"_id": 1})] == ["good"]
    assert books.update_many({"list": SHARED}, {"$set": {"mark": 1}}).modified_count == 1


@pytest.mark.parametrize("name", DAMAGES)
@pytest.mark.parametrize("update", [{"$addToSet": {"list": ALONE}}, {"$pull": {"list": ALONE}}])
def test_membership_is_not_asked_of_a_damaged_state(books, direct, name, update):
    tear(direct, name)
    before = everything(direct)
    with pytest.raises(OperationFailure) as caught:
        books.update_one({"_id": "bad"}, update)
    assert caught.value.code == 301, caught.value.details
    if "$addToSet" in update:
        with pytest.raises(OperationFailure):
            books.update_one({"_id": "bad", "list": {"$ne": ALONE}}, {"$push": {"list": ALONE}})
    assert everything(direct) == before
