"""Large first commands and compressors of real drivers: what Spillway asks first, no driver notices."""

import pymongo
import pytest
from pymongo.errors import OperationFailure

from support.cluster import ADMINISTRATOR, Cluster
from support.spillway import Spillway

RULE = {
    "name": "books", "namespace": "shop.books", "array": "list", "threshold": 3, "settle": "10ms",
    "overflow": {"collection": "more", "layout": "batches", "link": "book", "array": "part"},
}
LISTS = [["x" * 1000] * 200, ["y" * 100000] * 20]


@pytest.fixture(scope="module", params=[False, True], ids=["no authentication", "authentication"])
def made(request):
    with Cluster(secure=request.param) as cluster:
        upstream = {}
        if request.param:
            uri = "mongodb://{username}:{password}@{address}/?authSource=admin".format(
                address=cluster.primary.address, **ADMINISTRATOR).replace(" ", "%20")
            upstream = {"upstream": {"uri": uri}}
        with Spillway([cluster.primary], [RULE], upstream) as spillway:
            yield cluster, spillway, ADMINISTRATOR if request.param else {}


@pytest.mark.parametrize("compressors", [None, "zlib", "snappy"])
@pytest.mark.parametrize("values", LISTS, ids=["200 KB", "2 MB"])
def test_the_first_command_of_a_connection_may_be_large(made, compressors, values):
    _, spillway, user = made
    options = {"compressors": compressors} if compressors else {}
    for method in ("insert", "update"):
        with pymongo.MongoClient("127.0.0.1", spillway.port, directConnection=True, **user, **options) as client:
            books = client.shop.books
            if method == "insert":
                books.drop()
        with pymongo.MongoClient("127.0.0.1", spillway.port, directConnection=True, **user, **options) as client:
            if method == "insert":
                client.shop.books.insert_one({"_id": 1, "list": values})
            else:
                client.shop.books.update_one({"_id": 1}, {"$push": {"list": {"$each": values}}})
        with pymongo.MongoClient("127.0.0.1", spillway.port, directConnection=True, **user, **options) as client:
            assert client.shop.books.find_one({"_id": 1})["list"] == values * (2 if method == "update" else 1)
    assert "session" not in "".join(line for line in spillway.said().splitlines() if "closed" in line)


def test_who_has_not_signed_in_gets_mongods_own_error(made):
    cluster, spillway, user = made
    if not user:
        with pymongo.MongoClient("127.0.0.1", spillway.port, directConnection=True) as client:
            assert client.shop.books.insert_one({"_id": 2, "list": LISTS[1]}).acknowledged
        return
    said = []
    for port in (cluster.primary.port, spillway.port):
        with pymongo.MongoClient("127.0.0.1", port, directConnection=True) as client:
            with pytest.raises(OperationFailure) as failure:
                client.shop.books.insert_one({"_id": 3, "list": LISTS[1]})
            said.append({key: value for key, value in failure.value.details.items() if key[0] != "$"})
    assert said[0]["code"] == 13
    said = [{key: value for key, value in each.items() if key != "operationTime"} for each in said]
    assert said[0] == said[1]
