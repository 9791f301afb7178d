"""What most end-to-end tests share; a file that needs something else of it says so itself."""

import subprocess

import pymongo
import pytest

from support.cluster import Cluster
from support.operate import Operator
from support.process import new_folder, remove_folder
from support.spillway import Spillway


@pytest.fixture(scope="module")
def certificate():
    """A file with a key and the certificate that it signed for 127.0.0.1 itself."""
    folder = new_folder("certificate")
    key, signed, both = (folder / name for name in ("key", "signed", "both.pem"))
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2",
                    "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1",
                    "-keyout", key, "-out", signed], check=True, capture_output=True)
    both.write_bytes(key.read_bytes() + signed.read_bytes())
    yield both
    remove_folder(folder)


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
