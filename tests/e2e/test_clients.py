"""Each unmodified client does its work through Spillway, however its URI names the server."""

import pytest

from support.clients import NAMES, Client
from support.cluster import Cluster
from support.process import wait_for
from support.spillway import Spillway
from support.verify import verify

RULE = {
    "name": "books", "namespace": "shop.books", "array": "buyers", "threshold": 5, "settle": "20ms",
    "gc_delay": "300ms",  # what is found and removed is put together after it has gone
    "overflow": {"collection": "more_buyers", "layout": "batches", "link": "book", "array": "more",
                 "batch": {"size": 4}},
}
ATTEMPTS = 5  # on a busy machine a client may have deleted its books before the mover comes to them


@pytest.fixture(scope="module")
def servers():
    with Cluster() as cluster, Spillway([cluster.primary], [RULE]) as spillway:
        yield cluster, spillway


@pytest.mark.share(3)
@pytest.mark.parametrize("options", ["", "?replicaSet=rs0", "?directConnection=true"])
@pytest.mark.parametrize("name", NAMES)
def test_works(servers, name, options):
    cluster, spillway = servers
    before = moved(spillway)
    for _ in range(ATTEMPTS):
        Client(name, f"mongodb://{spillway.address}/{options}", seconds=1).finish()
        if moved(spillway) > before:
            break
    assert moved(spillway) > before
    with cluster.client() as client:
        wait_for(lambda: not verify(client, RULE), "nothing left behind")


def moved(spillway):
    return sum(
        count for sample, count in spillway.metrics().items()
        if sample.startswith("spillway_moved_elements_total"))
