"""Exact change streams of users with few rights: what Spillway asks mongod for a stream, it asks as the client."""

import pymongo
import pytest
from pymongo.errors import OperationFailure

from support.cluster import ADMINISTRATOR, Cluster
from support.process import wait_for
from support.spillway import Spillway
from support.streams import rule

RULE = rule("books")
BOOKS, SHOP, ALL = {"db": "shop", "collection": "books"}, {"db": "shop", "collection": ""}, {"db": "", "collection": ""}
ROLES = {
    "no find": (BOOKS, ["changeStream"]), "no stream": (BOOKS, ["find"]), "books": (BOOKS, ["find", "changeStream"]),
    "shop": (SHOP, ["find", "changeStream"]), "all": (ALL, ["find", "changeStream"]),
    "fickle": (BOOKS, ["find", "changeStream"]),
}


@pytest.fixture(scope="module")
def cluster():
    with Cluster(secure=True) as made, made.client() as direct:
        for name, (resource, actions) in ROLES.items():
            direct.admin.command({"createRole": name, "roles": [],
                                  "privileges": [{"resource": resource, "actions": actions}]})
            direct.admin.command("createUser", name, pwd="secret", roles=[name])
        yield made


@pytest.fixture(scope="module")
def spillway(cluster):
    upstream = {"uri": uri(*ADMINISTRATOR.values(), cluster.primary.address)}
    with Spillway([cluster.primary], [RULE], more={"upstream": upstream}) as made:
        yield made


def uri(user, password, address):
    return f"mongodb://{user}:{password}@{address}/?authSource=admin&directConnection=true".replace(" ", "%20")


def opened(spillway, name):
    return pymongo.MongoClient(uri(name, "secret", f"127.0.0.1:{spillway.port}"))


@pytest.fixture
def books(spillway, direct):
    with pymongo.MongoClient(uri(*ADMINISTRATOR.values(), f"127.0.0.1:{spillway.port}")) as client:
        client.shop.books.delete_many({})
        client.shop.books.insert_one({"_id": 1, "f": list(range(10))})
        wait_for(lambda: direct.shop.books.count_documents({"_spill.f.n": {"$gt": 0}}), "the tail to move")
        yield client.shop.books


def code_of(action):
    with pytest.raises(OperationFailure) as caught:
        action()
    return caught.value.code


@pytest.mark.parametrize("name", ["no find", "no stream"])
def test_who_may_not_open_a_stream_at_mongod_may_not_here(spillway, cluster, name):
    with opened(spillway, name) as client, \
            pymongo.MongoClient(uri(name, "secret", cluster.primary.address)) as direct:
        assert [code_of(lambda one=each: one.shop.books.watch().close()) for each in (client, direct)] == [13, 13]


@pytest.mark.parametrize("name", ["books", "shop", "all"])
def test_positions_need_no_more_rights_than_the_stream(spillway, books, name):
    with opened(spillway, name) as client:
        watched = {"books": client.shop.books, "shop": client.shop, "all": client}[name]
        with watched.watch([{"$match": {"operationType": "update"}}]) as stream:
            books.update_one({"_id": 1}, {"$push": {"f": "x"}})
            assert next(stream)["updateDescription"]["updatedFields"] == {"f.10": "x"}


@pytest.mark.parametrize("update", [{"$inc": {"x": 1}}, {"$addToSet": {"f": "y"}}])
@pytest.mark.parametrize("name, code", [("books", 13), ("shop", None)])
def test_whole_documents_need_the_right_to_read_the_overflow(spillway, books, name, code, update):
    with opened(spillway, name) as client, client.shop.books.watch(full_document="updateLookup") as stream:
        books.update_one({"_id": 1}, update)
        if code:
            assert code_of(lambda: next(stream)) == code
        else:
            assert len(next(stream)["fullDocument"]["f"]) >= 10


def test_a_right_that_goes_ends_the_stream(spillway, books, direct):
    """The server's own error comes, and no event with a position of what is stored."""
    with opened(spillway, "fickle") as client, client.shop.books.watch(max_await_time_ms=100) as stream:
        direct.admin.command("updateRole", "fickle", privileges=[{"resource": BOOKS, "actions": ["changeStream"]}])
        books.update_one({"_id": 1}, {"$push": {"f": "x"}})
        assert code_of(lambda: next(stream)) == 13
