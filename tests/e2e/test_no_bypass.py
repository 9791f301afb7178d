"""All clients at once for some seconds: none of their connections goes around Spillway."""

import time

import pytest

from support import share
from support.clients import NAMES, Client
from support.cluster import Cluster
from support.sockets import connected_to, inodes_of, strangers
from support.spillway import Spillway

SECONDS = share.part(5, every=15)
RULE = {
    "name": "books", "namespace": "shop.books", "array": "buyers", "threshold": 5, "settle": "20ms",
    "gc_delay": "1s",
    "overflow": {"layout": "batches", "link": "book", "array": "more", "batch": {"size": 4}},
}


@pytest.fixture(scope="module")
def cluster():
    with Cluster(members=3) as made:
        yield made


def uris(spillway):
    """Every way to name the set; a client that discovers it must come out at Spillway's addresses."""
    first, every = spillway.address, ",".join(f"127.0.0.1:{port}" for port in spillway.ports)
    return [
        f"mongodb://{first}/", f"mongodb://{first}/?replicaSet=rs0",
        f"mongodb://{first}/?directConnection=true", f"mongodb://{every}/?replicaSet=rs0",
    ]


def watch(ports, pids, seconds):
    """Strangers seen on the ports within so many seconds; also how many connections were right."""
    deadline = time.monotonic() + seconds
    found, most = set(), 0
    while time.monotonic() < deadline:
        found |= strangers(ports, pids)
        most = max(most, len(connected_to(ports) & inodes_of(pids[0])))
        time.sleep(0.05)  # the watch's own pace: it looks for what shall never happen
    return found, most


def test_no_client_goes_around_spillway(cluster):
    ports = {member.port for member in cluster.members}
    with Spillway(cluster.members, [RULE]) as spillway:
        clients = [
            Client(name, uri, SECONDS)
            for number, name in enumerate(NAMES) for uri in uris(spillway)[number % 2::2]
        ]
        try:
            pids = [spillway.pid, *(member.pid for member in cluster.members)]
            found, connections = watch(ports, pids, SECONDS)
            reports = [client.finish() for client in clients]
        finally:
            for client in clients:
                client.kill()
    assert not found, f"{len(found)} connections went around Spillway"
    assert connections >= len(clients)
    print("\n".join(reports))


def test_the_watch_sees_a_client_that_does(cluster):
    ports = {member.port for member in cluster.members}
    pids = [member.pid for member in cluster.members]
    assert not strangers(ports, pids)
    with cluster.client() as client:
        client.admin.command("ping")
        assert strangers(ports, pids)
