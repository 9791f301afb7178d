"""Reads that go by other fields than the array, or by chance, or whose collection goes meanwhile: whole arrays, or
an error."""

import pymongo
import pytest

from support.process import wait_for

pytestmark = pytest.mark.share(3)
RULES = [{"name": "books", "namespace": "shop.books", "array": "list", "threshold": 3, "settle": "5ms", "quiet": "5ms",
          "overflow": {"collection": "tails", "link": "book", "array": "part", "batch": {"size": 4}}},
         {"name": "tenants", "namespace": "tenant_*.posts", "array": "list", "threshold": 3, "settle": "5ms",
          "overflow": {"collection": "posts_tails", "link": "post", "array": "part", "batch": {"size": 4}}}]
DOCUMENTS = [{"_id": number, "list": list(range(number % 12)),
              "at": {"type": "Point", "coordinates": [number / 10, number / 20]}}
             for number in range(300)]
OUTLIERS = sum(len(document["list"]) > 3 for document in DOCUMENTS)
BY_ID = {document["_id"]: document for document in DOCUMENTS}


def fill(client, direct):
    """(ruled, plain)"""
    both = client.shop.books, direct.shop.plain
    for collection in both:
        collection.drop()
        collection.insert_many(DOCUMENTS)
        collection.create_index([("at", "2dsphere")])
    wait_for(lambda: direct.shop.books.count_documents({"_spill.list.n": {"$gt": 0}}) == OUTLIERS, "tails to move")
    return both


@pytest.fixture(scope="module")
def kept(cluster, spillway):
    """For the tests that come first, which read alone."""
    with cluster.client() as direct, pymongo.MongoClient("127.0.0.1", spillway.port, directConnection=True) as client:
        yield fill(client, direct)


@pytest.fixture
def books(client, direct):
    return fill(client, direct)


@pytest.mark.parametrize("size", [3, 14, 290])
def test_what_is_sampled_is_whole(kept, size):
    """Of less than a twentieth mongod takes documents at random, by another cursor."""
    for _ in range(10):
        found = list(kept[0].aggregate([{"$sample": {"size": size}}]))
        assert len(found) == size and len({document["_id"] for document in found}) == size
        assert all(document == BY_ID[document["_id"]] for document in found)
        lengths = list(kept[0].aggregate([{"$sample": {"size": size}}, {"$project": {"n": {"$size": "$list"}}}]))
        assert all(document["n"] == len(BY_ID[document["_id"]]["list"]) for document in lengths)


NEAR = {"near": {"type": "Point", "coordinates": [3, 1]}, "distanceField": "far", "key": "at"}


@pytest.mark.parametrize("stages", [
    [{"$geoNear": NEAR}],
    [{"$geoNear": {**NEAR, "maxDistance": 200_000, "query": {"_id": {"$gt": 20}}}}, {"$limit": 30}],
    [{"$geoNear": NEAR}, {"$project": {"n": {"$size": "$list"}, "far": 1}}],
    [{"$geoNear": NEAR}, {"$unwind": "$list"}, {"$match": {"list": 7}}],
    [{"$geoNear": {**NEAR, "distanceField": "how.far", "includeLocs": "how.at"}}, {"$match": {"list": {"$gte": 9}}}],
], ids=str)
def test_what_is_near_is_whole(kept, stages):
    found, expected = (list(each.aggregate(stages)) for each in kept)
    assert found == expected and found


@pytest.mark.parametrize("key", ["list", "list.x"])
def test_values_that_pass_a_message_are_refused_as_mongod_refuses_them(client, direct, key):
    documents = [{"_id": number, "list": [{"x": f"{number}-{i}" + "x" * 1_000_000} for i in range(7)]}
                 for number in range(3)]
    errors = []
    for database in (client.shop, direct.plain):
        database.books.drop()
        database.books.insert_many(documents)
    wait_for(lambda: direct.shop.books.count_documents({"_spill.list.n": {"$gt": 0}}) == 3, "tails to move")
    for database in (client.shop, direct.plain):
        with pytest.raises(pymongo.errors.OperationFailure) as caught:
            database.books.distinct(key)
        errors.append((caught.value.code, caught.value.details["errmsg"]))
    assert errors[0] == errors[1]


@pytest.mark.parametrize("drop", [
    lambda client, direct: (direct.shop.books.drop(), direct.shop.tails.drop()),
    lambda client, direct: client.shop.books.drop(),
    lambda client, direct: client.drop_database("shop"),
], ids=["straight", "through", "with its database"])
@pytest.mark.parametrize("asked", [{}, {"filter": {"list": {"$gte": 2}}}, {"projection": {"list": {"$slice": -2}}}],
                         ids=str)
def test_a_collection_that_is_dropped_under_a_cursor_ends_it(books, client, direct, asked, drop):
    cursor = books[0].find(**asked, batch_size=5)
    next(cursor)
    drop(client, direct)
    with pytest.raises(pymongo.errors.OperationFailure) as caught:
        list(cursor)
    assert caught.value.code == 175 and str(caught.value).startswith("collection dropped")


@pytest.mark.parametrize("asked", [{}, {"filter": {"list": {"$gte": 2}}}, {"projection": {"list": {"$slice": -2}}}],
                         ids=str)
def test_a_collection_that_goes_without_its_overflow_is_read_whole_or_not_at_all(books, direct, asked):
    """mongod may have read it to the end before."""
    expected = list(books[1].find(**asked).sort("_id"))
    cursor = books[0].find(**asked, batch_size=5).sort("_id")
    found = [next(cursor)]
    direct.shop.books.drop()
    try:
        found += list(cursor)
    except pymongo.errors.OperationFailure as failed:
        assert failed.code == 175
    else:
        assert found == expected


def test_databases_come_and_go(client, direct):
    """A mover that was at work may make the empty overflow again."""
    for turn in range(40):
        posts = client[f"tenant_{turn % 3}"].posts
        posts.insert_one({"_id": turn, "list": list(range(turn % 9))})
        posts.update_one({"_id": turn}, {"$push": {"list": turn}})
        assert posts.find_one() == {"_id": turn, "list": [*range(turn % 9), turn]}
        client.drop_database(posts.database.name)
        assert posts.find_one() is None
        left = direct[posts.database.name]
        assert set(left.list_collection_names()) <= {"posts_tails"}
        wait_for(lambda db=left: not any(db[name].find_one() for name in db.list_collection_names()),
                 "the overflow to be empty")
