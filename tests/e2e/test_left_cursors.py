"""What ends while it reads leaves no cursor at mongod: a new rule would wait ten minutes for that."""

import contextlib

import pytest

from support.cluster import Cluster
from support.operate import RULE, Operator
from support.process import wait_for
from support.spillway import Spillway

SECONDS = 30  # mongod itself closes an idle cursor after 600
MOVER = {**RULE, "existing": "wait", "sweep": "20ms"}


@pytest.fixture(scope="module")
def cluster():
    with Cluster(options=["--setParameter", "enableTestCommands=1"]) as made:
        yield made


@contextlib.contextmanager
def slow(client, command, milliseconds):
    """This command of Spillway's account takes so long."""
    data = {"failCommands": [command], "appName": "spillway", "namespace": "shop.books", "blockConnection": True,
            "blockTimeMS": milliseconds}
    client.admin.command({"configureFailPoint": "failCommand", "mode": "alwaysOn", "data": data})
    try:
        yield
    finally:
        client.admin.command({"configureFailPoint": "failCommand", "mode": "off"})


def goes_on(client, command):
    """A read of many documents."""
    stages = [{"$currentOp": {"allUsers": True}},
              {"$match": {"appName": "spillway", f"command.{command}": {"$exists": True}, "command.limit": None}}]
    return list(client.admin.aggregate(stages))


def left(client):
    """Cursors on the collection that wait for a getMore."""
    stages = [{"$currentOp": {"allUsers": True, "idleCursors": True}},
              {"$match": {"type": "idleCursor", "ns": "shop.books"}}]
    return list(client.admin.aggregate(stages))


def fill(books):
    """The _ids of all take three batches: 101 documents, 16 MB, the rest."""
    books.insert_many({"_id": f"{i:060000}", "list": list(range(9))} for i in range(450))


@pytest.mark.parametrize(("command", "milliseconds"), [("find", 500), ("getMore", 4000)])
def test_a_mover_that_stops_while_it_reads(cluster, shop, command, milliseconds):
    """Between two batches; and where no answer comes, so that the connection is cut."""
    fill(shop.books)
    with slow(shop.client, command, milliseconds), Spillway([cluster.primary], [MOVER]):
        wait_for(lambda: goes_on(shop.client, command), "the mover to read")
    wait_for(lambda: not left(shop.client) and not goes_on(shop.client, command), "its cursor to go", SECONDS)


def test_an_interrupted_verify(cluster, shop):
    fill(shop.books)
    with Operator(cluster, [MOVER]) as operator, slow(shop.client, "getMore", 4000):
        running = operator.start("verify")
        wait_for(lambda: goes_on(shop.client, "getMore"), "verify to read")
        running.terminate()
        running.communicate(timeout=SECONDS)
    wait_for(lambda: not left(shop.client) and not goes_on(shop.client, "getMore"), "its cursor to go", SECONDS)
