"""TLS on both sides of the client path: certificates, host names, versions, sessions, what is refused."""

import socket
import ssl

import pymongo
import pytest

from support.certificates import Authority
from support.cluster import Cluster
from support.process import wait_for
from support.spillway import Spillway

RULE = {
    "name": "books", "namespace": "shop.books", "array": "list", "threshold": 5, "settle": "10ms",
    "overflow": {"layout": "batches", "link": "book", "array": "part"},
}
WHOLE = list(range(30))
LARGE = [{"n": n, "text": "x" * 1000} for n in range(4000)]


@pytest.fixture(scope="module")
def authority():
    with Authority() as made:
        yield made


@pytest.fixture(scope="module")
def files(authority):
    """(certificate, key, both) by name."""
    return {name: authority.sign(name) for name in ("server", "spillway", "client")}


@pytest.fixture(scope="module")
def cluster(authority, files):
    options = ["--tlsMode", "requireTLS", "--tlsCertificateKeyFile", str(files["server"][2]), "--tlsCAFile",
               str(authority.ca), "--tlsAllowConnectionsWithoutCertificates"]
    with Cluster(options=options, client_options={"tls": True, "tlsCAFile": str(authority.ca)}) as made:
        yield made


class Secured(Spillway):
    """With TLS on both sides, unless the test says otherwise."""

    def __init__(self, cluster, authority, files, listen=None, servers=None, **more):
        super().__init__([cluster.primary], [RULE], more)
        cert, key, _ = files["spillway"]
        listen = {"cert": str(cert), "key": str(key), **(listen or {})}
        self.settings["listen"][0]["tls"] = {name: value for name, value in listen.items() if value}
        self.settings["servers"] = {"tls": {"ca": str(authority.ca), **(servers or {})}}


def connect(spillway, authority, **options):
    options = {"tls": True, "tlsCAFile": str(authority.ca), "serverSelectionTimeoutMS": 20000, **options}
    return pymongo.MongoClient("127.0.0.1", spillway.port, directConnection=True, **options)


@pytest.fixture(scope="module")
def spillway(cluster, authority, files):
    with Secured(cluster, authority, files) as made:
        yield made


def test_arrays_are_whole_over_tls(cluster, spillway, authority):
    with connect(spillway, authority) as client, cluster.client() as direct:
        client.shop.books.insert_one({"_id": 1, "list": WHOLE})
        client.shop.books.insert_one({"_id": 2, "list": LARGE})
        wait_for(lambda: "_spill" in direct.shop.books.find_one({"_id": 2}), "the tail to move")
        assert client.shop.books.find_one({"_id": 1})["list"] == WHOLE
        assert client.shop.books.find_one({"_id": 2})["list"] == LARGE
        client.shop.books.update_one({"_id": 2}, {"$push": {"list": 7}})
        assert client.shop.books.find_one({"_id": 2})["list"] == [*LARGE, 7]
    assert spillway.metrics()["spillway_tls_handshakes_total"] >= 2


def handshake(spillway, context, name="127.0.0.1", session=None):
    with socket.create_connection(("127.0.0.1", spillway.port), timeout=20) as raw:
        with context.wrap_socket(raw, server_hostname=name, session=session) as secured:
            # A session ticket comes with the first answer.
            secured.sendall(bytes.fromhex("2a0000000100000000000000dd07000000000000") + b"\0"
                            + bytes.fromhex("15000000") + b"\x10hello\0\1\0\0\0" + b"\2$db\0"
                            + bytes.fromhex("00"))
            return secured.version(), secured.session, secured.session_reused
