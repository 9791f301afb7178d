"""Clients that speak TLS don't get past the rules at a listener without TLS, though mongod may speak it."""

import socket
import ssl

import pymongo
import pytest

from support.cluster import Cluster
from support.process import wait_for
from support.spillway import Spillway

RULE = {
    "name": "books", "namespace": "shop.books", "array": "list", "threshold": 5, "settle": "10ms",
    "overflow": {"layout": "batches", "link": "book", "array": "part"},
}
WHOLE = list(range(30))


@pytest.fixture(scope="module")
def cluster(certificate):
    options = ["--tlsMode", "preferTLS", "--tlsCertificateKeyFile", certificate, "--tlsCAFile", certificate,
               "--tlsAllowConnectionsWithoutCertificates"]
    with Cluster(options=options) as made:
        yield made


@pytest.fixture(scope="module")
def spillway(cluster):
    with Spillway([cluster.primary], [RULE]) as made, cluster.client() as direct:
        with plain(made) as client:
            client.shop.books.insert_one({"_id": 1, "list": WHOLE})
            wait_for(lambda: "_spill" in direct.shop.books.find_one(), "the tail to move")
        yield made


def plain(server, **options):
    return pymongo.MongoClient("127.0.0.1", server.port, directConnection=True, **options)


def test_a_tls_client_of_mongods_own_port_works(cluster, certificate):
    """So it is Spillway that says no below."""
    with cluster.client(tls=True, tlsCAFile=str(certificate)) as client:
        assert client.admin.command("ping")["ok"] == 1.0


def test_a_tls_client_neither_reads_nor_writes(cluster, spillway, certificate):
    before = spillway.metrics()["spillway_connections_tls_total"]
    with plain(spillway, tls=True, tlsCAFile=str(certificate), serverSelectionTimeoutMS=1500) as client:
        with pytest.raises(pymongo.errors.ServerSelectionTimeoutError):
            client.shop.books.find_one({"_id": 1})
        with pytest.raises(pymongo.errors.ServerSelectionTimeoutError):
            client.shop.books.update_one({"_id": 1}, {"$set": {"list": []}})
    assert spillway.metrics()["spillway_connections_tls_total"] > before
    assert spillway.says("speaks TLS, and this listener does not")
    with plain(spillway) as client:
        assert client.shop.books.find_one({"_id": 1})["list"] == WHOLE


def test_no_byte_of_the_server_reaches_a_tls_client(spillway, certificate):
    context = ssl.create_default_context(cafile=str(certificate))
    with socket.create_connection(("127.0.0.1", spillway.port)) as raw:
        with pytest.raises((ssl.SSLError, ConnectionError)):
            context.wrap_socket(raw, server_hostname="127.0.0.1")
