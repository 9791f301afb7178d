"""Unmodified drivers with TLS on the client side, on the server side, on both and on none, as users of both kinds."""

import pymongo
import pytest

from support.certificates import Authority
from support.clients import MORE_NAMES, NAMES, Client, trust_in_java
from support.cluster import ADMINISTRATOR, Cluster
from support.process import wait_for
from support.spillway import Spillway
from support.verify import verify

pytestmark = pytest.mark.share(4)
RULE = {
    "name": "books", "namespace": "shop.books", "array": "buyers", "threshold": 5, "settle": "20ms",
    "gc_delay": "300ms",
    "overflow": {"collection": "more_buyers", "layout": "batches", "link": "book", "array": "more",
                 "batch": {"size": 4}},
}
MECHANISMS = ("SCRAM-SHA-1", "SCRAM-SHA-256")
PASSWORD = "secret"
CLIENTS = [each for each in (*NAMES, *MORE_NAMES) if each != "mongoose"]  # its driver is Node.js's
HANDSHAKES = "spillway_tls_handshakes_total"
ATTEMPTS = 5  # on a busy machine a client may have deleted its books before the mover comes to them


@pytest.fixture(scope="module")
def authority():
    with Authority() as made:
        yield made


@pytest.fixture(scope="module")
def java(authority):
    return trust_in_java(authority)


def tls_options(authority):
    """mongod takes clients with and without TLS."""
    return ["--tlsMode", "preferTLS", "--tlsCertificateKeyFile", str(authority.sign("mongod")[2]),
            "--tlsCAFile", str(authority.ca), "--tlsAllowConnectionsWithoutCertificates"]


@pytest.fixture(scope="module")
def cluster(authority):
    with Cluster(options=tls_options(authority), secure=True) as made, made.client() as direct:
        for mechanism in MECHANISMS:
            direct.admin.command("createUser", mechanism, pwd=PASSWORD, mechanisms=[mechanism],
                                 roles=[{"role": "readWrite", "db": "shop"}])
        yield made


def secured(cluster, authority, client, server, alternatives="IP:127.0.0.1,DNS:localhost"):
    """It tells clients of itself as localhost, whatever they connected to."""
    name, password = (each.replace(" ", "%20") for each in ADMINISTRATOR.values())
    uri = f"mongodb://{name}:{password}@{','.join(each.address for each in cluster.members)}/?authSource=admin"
    uri += f"&tls=true&tlsCAFile={authority.ca}" if server else ""
    more = {"upstream": {"uri": uri}, **({"servers": {"tls": {"ca": str(authority.ca)}}} if server else {})}
    made = Spillway(cluster.members, [RULE], more)
    cert, key, _ = authority.sign("spillway", alternatives)
    for listen, port in zip(made.settings["listen"], made.ports):
        listen["advertise"] = f"localhost:{port}"
        if client:
            listen["tls"] = {"cert": str(cert), "key": str(key)}
    return made


@pytest.fixture(scope="module", params=["plain to plain", "TLS to plain", "plain to TLS", "TLS to TLS"])
def way(request, cluster, authority):
    """(Spillway, whether clients speak TLS, whether it speaks TLS to the server)."""
    client, server = (side == "TLS" for side in request.param.split(" to "))
    with secured(cluster, authority, client, server) as made:
        yield made, client, server


def uri_of(spillway, user, authority, tls, more=""):
    options = f"&tls=true&tlsCAFile={authority.ca}" if tls else ""
    return f"mongodb://{user}:{PASSWORD}@127.0.0.1:{spillway.port}/?authSource=admin{options}{more}"


def moved(spillway):
    return sum(count for sample, count in spillway.metrics().items()
               if sample.startswith("spillway_moved_elements_total"))


@pytest.mark.parametrize("name", CLIENTS)
def test_a_driver_works(cluster, way, authority, java, name):
    spillway, client, server = way
    mechanism = MECHANISMS[(CLIENTS.index(name) + client + server) % 2]
    uri = uri_of(spillway, mechanism, authority, client, "&replicaSet=rs0")
    before = spillway.metrics()[HANDSHAKES]
    moved_before = moved(spillway)
    for _ in range(ATTEMPTS):
        Client(name, uri, seconds=1, java=java).finish()
        if moved(spillway) > moved_before:
            break
    assert moved(spillway) > moved_before
    shaken = spillway.metrics()[HANDSHAKES] - before
    assert shaken > 0 if client or server else shaken == 0
    with cluster.client() as direct:
        wait_for(lambda: not verify(direct, RULE), "nothing left behind")


def test_the_names_in_hello_are_spillways_and_certificates_carry_them(way, authority):
    spillway, tls, _ = way
    with pymongo.MongoClient(uri_of(spillway, MECHANISMS[0], authority, tls, "&replicaSet=rs0")) as client:
        hello = client.admin.command("hello")
        name = f"localhost:{spillway.port}"
        assert (hello["hosts"], hello["primary"], hello["me"]) == ([name], name, name)
        assert client.nodes == {("localhost", spillway.port)}
        assert client.shop.books.count_documents({}) >= 0


def test_a_name_that_the_certificate_does_not_carry_is_found_by_the_driver(cluster, authority):
    with secured(cluster, authority, True, True, "IP:127.0.0.1") as spillway:
        direct = uri_of(spillway, MECHANISMS[1], authority, True, "&directConnection=true")
        with pymongo.MongoClient(direct, serverSelectionTimeoutMS=20000) as client:
            assert client.admin.command("ping")["ok"] == 1.0
        by_name = uri_of(spillway, MECHANISMS[1], authority, True, "&replicaSet=rs0")
        with pymongo.MongoClient(by_name, serverSelectionTimeoutMS=2000) as client:
            with pytest.raises(pymongo.errors.ServerSelectionTimeoutError, match="(?i)hostname mismatch"):
                client.admin.command("ping")


def test_several_members_are_found_by_their_advertised_names(authority):
    tls = {"tls": True, "tlsCAFile": str(authority.ca)}
    with Cluster(3, tls_options(authority), secure=True, durable=False, tls=tls) as cluster, \
            secured(cluster, authority, True, True) as spillway, cluster.client() as direct:
        direct.admin.command("createUser", MECHANISMS[1], pwd=PASSWORD, roles=["root"])
        with pymongo.MongoClient(uri_of(spillway, MECHANISMS[1], authority, True, "&replicaSet=rs0"),
                                 serverSelectionTimeoutMS=30000) as client:
            books = client.shop.get_collection("books", write_concern=pymongo.WriteConcern(3))
            books.insert_one({"_id": 1, "buyers": list(range(30))})
            wait_for(lambda: "_spill" in direct.shop.books.find_one(), "the tail to move")
            wait_for(lambda: len(client.nodes) == 3, "all members to be known")
            assert client.nodes == {("localhost", port) for port in spillway.ports}
            secondary = client.shop.get_collection("books", read_preference=pymongo.ReadPreference.SECONDARY)
            assert secondary.find_one({"_id": 1})["buyers"] == list(range(30))
            assert books.find_one({"_id": 1})["buyers"] == list(range(30))
