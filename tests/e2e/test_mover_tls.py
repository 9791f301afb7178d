"""The mover speaks TLS where upstream.uri asks for it: its one stream has it layered in."""

import json
import os
import shutil
import subprocess

import pymongo
import pytest

from support.cluster import Cluster
from support.operate import Operator
from support.process import wait_for
from support.spillway import QuotedText, Spillway, program
from support.verify import verify

RULE = {
    "name": "books", "namespace": "shop.books", "array": "list", "threshold": 3, "settle": "10ms", "existing": "move",
    "overflow": {"layout": "batches", "link": "book", "array": "part"},
}


@pytest.fixture(scope="module")
def cluster(certificate):
    # Clients of this test speak plainly, and so does the relay.
    options = ["--tlsMode", "preferTLS", "--tlsCertificateKeyFile", certificate, "--tlsCAFile", certificate,
               "--tlsAllowConnectionsWithoutCertificates"]
    with Cluster(options=options) as made:
        yield made


def spillway(cluster, options):
    uri = f"mongodb://{cluster.primary.address}/?{options}"
    return Spillway([cluster.primary], [RULE], {"upstream": {"uri": uri}})


def secured(direct):
    """How many connections mongod has accepted with TLS."""
    return sum(direct.admin.command("serverStatus")["transportSecurity"].values())


def test_a_tail_moves_over_tls(cluster, certificate, tmp_path):
    """Also once the file of the authority is another one: it is read again for each link."""
    authority, renewed = tmp_path / "ca.pem", tmp_path / "new.pem"
    shutil.copy(certificate, authority)
    with cluster.client() as direct:
        direct.shop.books.insert_one({"_id": 1, "list": list(range(9))})
        with spillway(cluster, f"tls=true&tlsCAFile={authority}") as server:
            wait_for(lambda: direct.shop.books.find_one()["list"] == [0, 1, 2], "the sweep")
            assert not verify(direct, RULE)
            assert secured(direct) >= 2
            # The driver meets a closed stream below its TLS.
            cluster.primary.kill()
            shutil.copy(certificate, renewed)
            os.replace(renewed, authority)
            cluster.primary.start()
            cluster.wait_for_primary()
            push = {"$push": {"list": {"$each": [9, 10]}}}
            with pymongo.MongoClient("127.0.0.1", server.port, directConnection=True) as client:
                client.shop.books.update_one({"_id": 1}, push)
            wait_for(lambda: direct.shop.books.find_one()["list"] == [0, 1, 2], "another round")


def test_a_certificate_that_nobody_signed_is_refused(cluster):
    server = spillway(cluster, "tls=true")
    try:
        server.start(ready=False)
        wait_for(lambda: server.admin("/readyz")[0] == 503, "the start")
        wait_for(lambda: "ertificate" in server.said() or "TLS" in server.said(), "the reason")
    finally:
        server.__exit__()


def findings(operator):
    ended = subprocess.run([program(), "check", "--config", operator.file, "--json"], capture_output=True, text=True,
                           timeout=60, check=False)
    return [each for each in json.loads(ended.stdout)["findings"] if each["kind"] == "tls"]


def test_a_server_without_plain_connections_is_found(cluster, certificate):
    """The last: there is no way back from requireTLS but a new start."""
    uri = f"mongodb://{cluster.primary.address}/?tls=true&tlsCAFile={certificate}"
    with Operator(cluster, [RULE], upstream={"uri": QuotedText(uri)}) as operator, cluster.client() as direct:
        assert findings(operator) == []
        direct.admin.command("setParameter", 1, tlsMode="requireTLS")
        finding, = findings(operator)
    assert cluster.primary.address in finding["what"] and "preferTLS" in finding["remedy"]
