"""Overflow documents that somebody deleted straight at mongod: what notices that elements are gone, and what can't."""

import pymongo
import pytest
from pymongo.errors import OperationFailure

from support.operate import RULE, Operator, found
from support.process import wait_for

pytestmark = pytest.mark.share(3)
LAYOUTS = {"batches": RULE["overflow"], "elements": {"collection": "tails", "link": "book", "layout": "elements"}}
RULES = [{**RULE, "name": name, "namespace": f"{name}.books", "settle": "5ms", "quiet": "5ms", "gc_delay": "60s",
          "sweep": "off", "overflow": layout}
         for name, layout in LAYOUTS.items()]
LENGTH, KEPT, GONE = 20, 1, 9  # KEPT: the place of an element in main, GONE: of one that is deleted
LOSSES = ("some", "all")  # "end": the last overflow document


# Each is given a collection, a document's _id and the array's values, of which the document alone has any.
READS = {
    "whole": lambda books, name, values: books.find_one(name),
    "slice of what is gone": lambda books, name, values: books.find_one(name, {"list": {"$slice": [GONE, 1]}}),
    "element of a named document": lambda books, name, values: list(books.find({"_id": name, "list.v": values[GONE]})),
    "place": lambda books, name, values: list(books.find({"_id": name, f"list.{GONE}": {"$exists": True}}, {"_id": 1})),
    "size": lambda books, name, values: list(books.find({"_id": name, "list": {"$size": LENGTH}}, {"_id": 1})),
    "$ne": lambda books, name, values: list(books.find({"_id": name, "list.v": {"$ne": "nowhere"}}, {"_id": 1})),
    "count of a named document": lambda books, name, values: books.count_documents({"_id": name,
                                                                                    "list.v": values[GONE]}),
    "count beside another field": lambda books, name, values: books.database.command(
        "count", "books", query={"name": name, "list.v": values[GONE]})["n"],
    "count of two conditions": lambda books, name, values: books.count_documents({"_id": name,
                                                                                  "list": {"$not": {"$size": 1}}}),
    "distinct": lambda books, name, values: books.distinct("list.v", {"_id": name}),
    "$unwind": lambda books, name, values: list(books.aggregate([{"$match": {"_id": name}}, {"$unwind": "$list"}])),
    "$size": lambda books, name, values: list(books.aggregate([{"$match": {"_id": name}},
                                                               {"$project": {"n": {"$size": "$list"}}}])),
    "the document of a kept element": lambda books, name, values: list(books.find({"list.v": values[KEPT]})),
}
WRITES = {
    "$pull": ({}, {"$pull": {"list": {"v": GONE}}}),
    "place": ({}, {"$set": {f"list.{GONE}.x": 1}}),
    "$pop": ({}, {"$pop": {"list": 1}}),
    "$position": ({}, {"$push": {"list": {"$each": [1], "$position": 0}}}),
    "$slice": ({}, {"$push": {"list": {"$each": [], "$slice": -3}}}),
    "pipeline": ({}, [{"$set": {"n": {"$size": "$list"}}}]),
    "$size": ({"list": {"$size": LENGTH}}, {"$set": {"z": 9}}),
}
# These ask the overflow of the document for a value, and see where it ends.
GUARDED = {
    "$ne": lambda values: ({"list.v": {"$ne": "new"}}, {"$push": {"list": {"v": "new"}}}),
    "$ne of what is gone": lambda values: ({"list.v": {"$ne": values[GONE]}}, {"$push": {"list": {"v": values[GONE]}}}),
    "$addToSet": lambda values: ({}, {"$addToSet": {"list": {"v": "new"}}}),
    "$addToSet of what is gone": lambda values: ({}, {"$addToSet": {"list": {"v": values[GONE]}}}),
}
# By a condition that a single element meets, an index of the overflow is asked which documents it concerns.
UNSEEN = {
    "find": lambda books, value: list(books.find({"list.v": value})),
    "count": lambda books, value: books.count_documents({"list.v": value}),
    "distinct": lambda books, value: books.distinct("_id", {"list.v": value}),
    "aggregate": lambda books, value: list(books.aggregate([{"$match": {"list.v": value}}, {"$project": {"_id": 1}}])),
    "update": lambda books, value: books.update_one({"list.v": value}, {"$set": {"z": 9}}).matched_count,
    "delete": lambda books, value: books.delete_one({"list.v": value}).deleted_count,
}


# The array as it was, or another one.
MENDS = {
    "set": lambda books, name, array: books.update_one({"_id": name}, {"$set": {"list": array}}),
    "set of many": lambda books, name, array: books.update_many({"name": name}, {"$set": {"list": array}}),
    "replacement": lambda books, name, array: books.replace_one({"_id": name}, {"list": array}),
    "findAndModify": lambda books, name, array: books.find_one_and_update({"_id": name}, {"$set": {"list": array}},
                                                                          {"name": 1}),
}


def documents():
    for loss in (*LOSSES, "end"):
        for kind, operations in (("guarded", GUARDED), ("read", READS), ("write", WRITES), ("unseen", UNSEEN),
                                 ("mend", MENDS)):
            for operation in operations:
                for name in (f"{loss} {kind} {operation}", f"none {kind} {operation}, {loss}"):
                    yield {"_id": name, "name": name, "list": [{"v": value} for value in values_of(name)]}


def values_of(name):
    return [f"{name} {place}" for place in range(LENGTH)]


@pytest.fixture(scope="module", params=LAYOUTS)
def books(cluster, spillway, request):
    """Through Spillway, when elements are gone."""
    with cluster.client() as direct, pymongo.MongoClient("127.0.0.1", spillway.port, directConnection=True) as client:
        database = direct[request.param]
        client[request.param].books.insert_many(documents())
        moved = {"_spill.list.n": LENGTH - RULE["threshold"]}
        wait_for(lambda: database.books.count_documents(moved) == database.books.count_documents({}), "tails to move")
        gone = "part.v" if request.param == "batches" else "v"
        database.tails.delete_many({gone: {"$regex": f"^some .* {GONE}$"}})
        database.tails.delete_many({"book": {"$regex": "^all "}})
        database.tails.delete_many({gone: {"$regex": f"^end guarded .* {LENGTH - 1}$"}})
        yield client[request.param].books


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("read", READS)
def test_a_read_that_needs_the_array_fails(books, read, loss):
    name = f"{loss} read {read}"
    with pytest.raises(OperationFailure) as caught:
        READS[read](books, name, values_of(name))
    said = caught.value.details["errmsg"]
    assert caught.value.code == 301 and "overflow documents are missing" in said and "spillway verify" in said, said
    whole = f"none read {read}, {loss}"
    if books.database.name == "batches" or "kept" not in read:
        assert READS[read](books, whole, values_of(whole)) != []


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("write", WRITES)
def test_a_write_that_needs_the_array_changes_nothing(books, direct, write, loss):
    name = f"{loss} write {write}"
    stored = direct[books.database.name].books
    before = stored.find_one(name)
    condition, update = WRITES[write]
    with pytest.raises(OperationFailure) as caught:
        books.update_one({"_id": name, **condition}, update)
    details = caught.value.details
    said = details["errmsg"] if "errmsg" in details else details["writeErrors"][0]["errmsg"]
    assert caught.value.code == 301 and "overflow documents are missing" in said and "spillway verify" in said, said
    assert stored.find_one(name) == before


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("way", MENDS)
def test_a_write_of_the_whole_array_mends_the_document(books, way, loss):
    name = f"{loss} mend {way}"
    array = [{"v": value} for value in values_of(name)]
    for whole in (array, array[:-1]):
        MENDS[way](books, name, whole)
        assert books.find_one(name)["list"] == whole


@pytest.mark.parametrize("loss", ["all", "end"])
@pytest.mark.parametrize("guard", GUARDED)
def test_a_guarded_push_sees_where_the_overflow_ends(books, direct, guard, loss):
    name = f"{loss} guarded {guard}"
    condition, update = GUARDED[guard](values_of(name))
    stored = direct[books.database.name].books
    before = stored.find_one(name)
    if "of" in guard and loss == "end":  # that value is there
        if books.database.name == "batches" or "$ne" in guard:
            assert books.update_one({"_id": name, **condition}, update).modified_count == 0
        return
    with pytest.raises(OperationFailure) as caught:
        books.update_one({"_id": name, **condition}, update)
    assert caught.value.code == 301 and "overflow documents are missing" in str(caught.value)
    assert stored.find_one(name) == before


@pytest.mark.parametrize("guard", GUARDED)
def test_a_guarded_push_on_a_whole_array(books, guard):
    name = f"none guarded {guard}, all"
    condition, update = GUARDED[guard](values_of(name))
    assert books.update_one({"_id": name, **condition}, update).modified_count == (0 if "of" in guard else 1)


@pytest.mark.parametrize("guard", GUARDED)
def test_a_guarded_push_does_not_see_what_is_gone_in_front_of_the_end(books, guard):
    """It asks for the value alone. docs/consistency.md says so. An $addToSet of a document among elements needs them
    all."""
    name = f"some guarded {guard}"
    condition, update = GUARDED[guard](values_of(name))
    if books.database.name == "elements" and "$addToSet" in guard:
        with pytest.raises(OperationFailure):
            books.update_one({"_id": name, **condition}, update)
    else:
        assert books.update_one({"_id": name, **condition}, update).modified_count == 1


def test_verify_names_the_documents(cluster, books, direct):
    name = books.database.name
    books.update_many({"name": {"$regex": " mend "}}, {"$set": {"list": [1]}})  # those that no test above has mended
    with Operator(cluster, RULES) as operator:
        report = operator.run("verify", rule=name, code=1)
    short = direct[name].books.count_documents({"_id": {"$regex": "^(some|all|end guarded) (?!mend)"}})
    assert short > 0 and sum(count for (code, kind), count in found(report).items()
                             if (code, kind) == ("V1", "corrupt")) == short


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("question", UNSEEN)
def test_an_element_that_is_gone_is_not_found(books, question, loss):
    """Of batches nobody looks at the documents that it was in (docs/consistency.md says so). Elements are put
    together in all outliers."""
    gone, there = (values_of(name)[GONE] for name in (f"{loss} unseen {question}", f"none unseen {question}, {loss}"))
    if books.database.name == "batches":
        assert not UNSEEN[question](books, gone)
        assert UNSEEN[question](books, there)
        return
    for value in (gone, there):
        with pytest.raises(OperationFailure) as caught:
            UNSEEN[question](books, value)
        assert caught.value.code == 301
