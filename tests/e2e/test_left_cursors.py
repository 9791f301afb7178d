"""What ends while it reads leaves no cursor at mongod: a new rule would wait ten minutes for that."""

import contextlib

import pymongo
import pytest
from bson import Int64, encode

from support.cluster import Cluster
from support.operate import RULE, Operator
from support.process import wait_for
from support.spillway import Spillway
from support.wire import EXHAUST_ALLOWED, Connection

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


@pytest.fixture(autouse=True)
def no_cursors(shop):
    """What a failed test has left is none of the next one's."""
    for each in left(shop.client):
        shop.client.shop.command({"killCursors": "books", "cursors": [each["cursor"]["cursorId"]]})


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


def stream(port):
    """Asks for a stream of many replies. The connection, and a function that takes one of them."""
    connection = Connection(port)
    first = connection.command("shop", {"find": "books", "batchSize": 1})
    more = {"getMore": Int64(first["cursor"]["id"]), "collection": "books", "batchSize": 1, "$db": "shop"}
    connection.send(encode(more), flags=EXHAUST_ALLOWED)
    return connection


@pytest.mark.parametrize("replies", [0, 1, 3])
def test_a_client_that_leaves_a_stream(cluster, shop, replies):
    """mongod closes the cursor of a stream whose connection ends."""
    fill(shop.books)
    with Spillway([cluster.primary], [{**RULE, "existing": "wait", "sweep": "off"}]) as spillway:
        for port in (cluster.primary.port, spillway.port):
            with stream(port) as connection:
                for _ in range(replies):
                    assert connection.receive().plain()["cursor"]["id"]
            wait_for(lambda: not left(shop.client), f"the cursor to go ({port})", SECONDS)
        with pymongo.MongoClient("127.0.0.1", spillway.port) as client:
            cursor = client.shop.books.find({}, batch_size=2, cursor_type=pymongo.CursorType.EXHAUST)
            assert next(cursor)
            cursor.close()
            wait_for(lambda: not left(shop.client), "the driver's cursor to go", SECONDS)
