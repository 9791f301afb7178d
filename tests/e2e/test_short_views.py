"""Views over ruled collections: whole arrays or a clear refusal, whoever made them."""

import pymongo
import pytest
from pymongo.errors import OperationFailure

from support.cluster import Cluster
from support.process import wait_for

LONG = list(range(40))
RULES = [{"name": "books", "namespace": "shop.books", "array": "list", "threshold": 3, "settle": "5ms",
          "flag": {"field": "more", "value": True},
          "overflow": {"layout": "batches", "link": "main", "array": "part", "batch": {"size": 10}}}]
# Whether the array, or what is computed from it, can come out.
VIEWS = {
    "whole": ([], True),
    "sizes": ([{"$project": {"n": {"$size": "$list"}}}], True),
    "grouped": ([{"$group": {"_id": None, "n": {"$sum": {"$size": "$list"}}}}], True),
    "without": ([{"$project": {"list": 0}}], True),  # what Spillway keeps for itself would be seen
    "found": ([{"$match": {"list": 39}}, {"$project": {"title": 1}}], True),
    "titles": ([{"$project": {"title": 1}}], False),
    "recent": ([{"$match": {"year": {"$gt": 5}}}, {"$sort": {"year": 1}}, {"$project": {"title": 1, "year": 1}}],
               False),
    "years": ([{"$group": {"_id": "$year", "n": {"$sum": 1}}}], False),
    "counted": ([{"$count": "n"}], False),
}
SHORT = [name for name, (_, short) in VIEWS.items() if short]
FINE = [name for name in VIEWS if name not in SHORT]


@pytest.fixture(scope="module")
def cluster():
    with Cluster() as made:
        with made.client() as direct:
            for name, (pipeline, _) in VIEWS.items():
                direct.shop.create_collection(f"old_{name}", viewOn="books", pipeline=pipeline)
            direct.shop.create_collection("second", viewOn="old_sizes", pipeline=[{"$match": {"n": {"$gt": 1}}}])
            direct.shop.create_collection("third", viewOn="second", pipeline=[{"$limit": 5}])
            direct.shop.create_collection("second_fine", viewOn="old_recent",
                                          pipeline=[{"$match": {"title": {"$ne": "z"}}}])
            direct.shop.create_collection("third_fine", viewOn="second_fine", pipeline=[{"$project": {"title": 1}}])
            direct.shop.create_collection("joined", viewOn="plain", pipeline=[
                {"$lookup": {"from": "books", "localField": "x", "foreignField": "_id", "as": "books"}}])
            direct.shop.plain.insert_one({"_id": 1, "x": 1})
        yield made


@pytest.fixture
def shop(spillway, direct):
    with pymongo.MongoClient("127.0.0.1", spillway.port, directConnection=True) as made:
        if not direct.shop.books.find_one():
            made.shop.books.insert_one({"_id": 1, "title": "t", "year": 9, "list": LONG})
        wait_for(lambda: direct.shop.books.find_one()["list"] == LONG[:3], "the tail to move")
        yield made.shop


def refused(call):
    with pytest.raises(OperationFailure) as caught:
        call()
    assert caught.value.code == 115 and "'books'" in caught.value.details["errmsg"], caught.value
    assert "view" in caught.value.details["errmsg"]


def refuses(call):
    try:
        call()
    except OperationFailure as failed:
        return failed.code == 115
    return False


READS = {
    "find": lambda shop, view: shop[view].find_one(),
    "count": lambda shop, view: shop[view].estimated_document_count(),
    "distinct": lambda shop, view: shop[view].distinct("n"),
    "aggregate": lambda shop, view: list(shop[view].aggregate([])),
    "explain": lambda shop, view: shop.command("explain", {"find": view}),
    "$lookup": lambda shop, view: list(shop.plain.aggregate([{"$lookup": {"from": view, "pipeline": [], "as": "y"}}])),
    "$unionWith": lambda shop, view: list(shop.plain.aggregate([{"$facet": {"a": [{"$unionWith": view}]}}])),
    "mapReduce": lambda shop, view: shop.command("mapReduce", view, map="function(){}", reduce="function(){}",
                                                 out={"inline": 1}),
}


@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize("view", [*(f"old_{name}" for name in SHORT), "second", "third", "joined"])
def test_a_view_that_would_give_short_arrays_is_not_read(shop, view, read):
    refused(lambda: READS[read](shop, view))


@pytest.mark.parametrize("name", FINE)
def test_a_view_that_never_looks_at_the_array_is_read(shop, direct, name):
    assert list(shop[f"old_{name}"].find()) == list(direct.shop[f"old_{name}"].find())
    shop.create_collection(f"new_{name}", viewOn="books", pipeline=VIEWS[name][0])
    assert list(shop[f"new_{name}"].find()) == list(direct.shop[f"old_{name}"].find())
    shop.drop_collection(f"new_{name}")
    assert f"new_{name}" not in direct.shop.list_collection_names()


@pytest.mark.parametrize("read", READS)
def test_a_view_of_a_view_of_a_view_is_read(shop, direct, read):
    """Nothing refuses it, but for a mapReduce, which no view takes."""
    ways = [lambda: READS[read](shop, "third_fine"), lambda: READS[read](direct.shop, "third_fine")]
    if read == "mapReduce":
        codes = [pytest.raises(OperationFailure, way).value.code for way in ways]
        assert codes[0] == codes[1] != 115
        return
    found, expected = (way() for way in ways)
    assert read == "explain" or found == expected


def test_chains_of_views_are_made_and_refused_by_what_they_end_in(shop, direct):
    shop.create_collection("made_second", viewOn="old_titles", pipeline=[{"$match": {"title": "t"}}])
    shop.create_collection("made_third", viewOn="made_second", pipeline=[{"$limit": 1}])
    assert list(shop.made_third.find()) == list(direct.shop.made_third.find()) == [{"_id": 1, "title": "t"}]
    # Straight at mongod the one in the middle comes to give the array.
    direct.shop.command("collMod", "made_second", viewOn="books", pipeline=[])
    wait_for(lambda: refuses(lambda: shop.made_third.find_one()), "the chain to be known as short")
    refused(lambda: shop.create_collection("made_fourth", viewOn="made_third", pipeline=[]))
    for name in ("made_third", "made_second"):
        direct.shop.drop_collection(name)


@pytest.mark.parametrize("name", SHORT)
def test_a_view_that_would_give_short_arrays_is_not_made(shop, direct, name):
    refused(lambda: shop.create_collection("made", viewOn="books", pipeline=VIEWS[name][0]))
    refused(lambda: shop.command("collMod", "old_titles", viewOn="books", pipeline=VIEWS[name][0]))
    refused(lambda: shop.create_collection("made", viewOn=f"old_{name}", pipeline=[{"$project": {"title": 1}}]))
    assert "made" not in direct.shop.list_collection_names()


def test_a_view_that_somebody_makes_elsewhere_is_known_soon(shop, direct):
    direct.shop.create_collection("sudden", viewOn="books", pipeline=[])
    wait_for(lambda: is_refused(shop.sudden), "the view to be known")
    shop.drop_collection("sudden")
    wait_for(lambda: not is_refused(shop.sudden), "the view to be forgotten")
    shop.sudden.insert_one({"_id": 1})
    assert shop.sudden.find_one() == {"_id": 1}
    shop.sudden.drop()


def is_refused(collection):
    try:
        collection.find_one()
        return False
    except OperationFailure as error:
        return error.code == 115


def test_such_a_view_can_be_mended_through_spillway(shop, direct):
    direct.shop.create_collection("mended", viewOn="books", pipeline=[])
    wait_for(lambda: is_refused(shop.mended), "the view to be known")
    shop.command("collMod", "mended", viewOn="books", pipeline=[{"$project": {"title": 1}}])
    wait_for(lambda: not is_refused(shop.mended), "the change to be known")
    assert shop.mended.find_one() == {"_id": 1, "title": "t"}
    direct.shop.mended.drop()
