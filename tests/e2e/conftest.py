"""What most end-to-end tests share; a file that needs something else of it says so itself."""

import pymongo
import pytest

from support.cluster import Cluster
from support.operate import Operator
from support.spillway import Spillway


@pytest.fixture(scope="module")
def cluster():
    """A replica set of one member."""
    with Cluster() as made:
        yield made


@pytest.fixture(scope="module")
def spillway(cluster, request):
    """With the file's RULES, to the primary."""
    with Spillway([cluster.primary], request.module.RULES) as made:
        yield made


@pytest.fixture(scope="module")
def operator(cluster):
    with Operator(cluster) as made:
        yield made


@pytest.fixture
def direct(cluster):
    with cluster.client() as client:
        yield client


@pytest.fixture
def client(spillway):
    with pymongo.MongoClient("127.0.0.1", spillway.port, directConnection=True) as made:
        yield made


@pytest.fixture
def shop(cluster):
    """The database, emptied, and no record of any rule."""
    with cluster.client() as client:
        client.drop_database("shop")
        client.drop_database("spillway")
        yield client.shop
