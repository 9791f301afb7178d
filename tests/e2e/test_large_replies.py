"""Replies that pass 48,000,000 bytes once they are put together: cut between documents, continued through any
Spillway."""

import contextlib
import os
import pathlib
import re
import subprocess

import pymongo
import pytest
from bson import BSON, Int64, decode, encode
from bson.raw_bson import RawBSONDocument
from pymongo.errors import OperationFailure

from support.cluster import Cluster
from support.process import wait_for
from support.spillway import Spillway
from support.stored import store
from support.wire import EXHAUST_ALLOWED, MORE_TO_COME, Connection

RULE = {
    "name": "fat", "namespace": "shop.fat", "array": "list", "threshold": 2, "sweep": "off", "settle": "10m",
    "quiet": "10m", "overflow": {"collection": "fat_more", "layout": "batches", "link": "main", "array": "part",
                                 "batch": {"size": 1000}},
}
MEGABYTE = 1024 * 1024
MESSAGE = 48000000
COUNT = 9
LAYOUTS = ("told", "untold")


def text(number, size):
    return f"{number:08}" * (size // 8)


def parts(number, megabytes):
    """Batches of some megabytes each, whose elements tell where they belong."""
    return [[text(100 * number + part, MEGABYTE)] * 4 for part in range(megabytes // 4)]


def whole(number, megabytes, head):
    return [*head, *(element for part in parts(number, megabytes) for element in part)]


def sizes(number):
    """How much of a document's array has moved; some are ordinary."""
    return (8, 12, 0, 4, 16)[number % 5]


def head(number, layout):
    """What is left of it in main tells about its size, or doesn't."""
    return [text(number, MEGABYTE), number] if layout == "told" else [number, 1][:number % 2 * 2]


@pytest.fixture(scope="module")
def servers():
    """A mongod, two Spillways and the documents of each layout."""
    with Cluster() as cluster, contextlib.ExitStack() as stack, cluster.client() as direct:
        for layout in LAYOUTS:
            for number in range(COUNT):
                name = f"{layout}{number:02}"
                if sizes(number):
                    store(direct.shop, RULE, name, head(number, layout), parts(number, sizes(number)),
                          ["end"], layout=layout, number=number)
                else:
                    direct.shop.fat.insert_one(
                        {"_id": name, "layout": layout, "number": number, "list": [number]})
        yield cluster, [stack.enter_context(Spillway([cluster.primary], [RULE], name=f"spillway{i}"))
                        for i in range(2)]


@pytest.fixture
def direct(servers):
    with servers[0].client() as client:
        yield client


@pytest.fixture
def clients(servers):
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(pymongo.MongoClient("127.0.0.1", spillway.port, directConnection=True))
               for spillway in servers[1]]


@pytest.fixture(autouse=True)
def no_cursor_is_left(direct):
    def opened():
        return direct.admin.command("serverStatus")["metrics"]["cursor"]["open"]["total"]

    before = opened()
    yield
    wait_for(lambda: opened() <= before, "all cursors to be closed")


def expected(layout, number):
    array = whole(number, sizes(number), head(number, layout)) + ["end"] if sizes(number) else [number]
    return {"_id": f"{layout}{number:02}", "layout": layout, "number": number, "list": array}


class Walk:
    """Commands without a session, so that any connection may go on with a cursor of another."""

    def __init__(self, spillways):
        self.connections = [Connection(spillway.port) for spillway in spillways]
        self.turn = 0

    def call(self, command):
        """The cursor of the reply; each command goes through another Spillway than the last."""
        self.turn += 1
        connection = self.connections[self.turn % len(self.connections)]
        reply = decode(connection.call(encode({**command, "$db": "shop"})).body)
        if not reply["ok"]:
            raise OperationFailure(reply["errmsg"], reply["code"])
        return reply["cursor"]

    def more(self, cursor, **options):
        assert cursor["ns"] == "shop.fat"
        return self.call({"getMore": Int64(cursor["id"]), "collection": "fat", **options})

    def all(self, command, **options):
        """All documents of a command, and how many came in each reply."""
        cursor = self.call(command)
        found, counts = list(cursor["firstBatch"]), [len(cursor["firstBatch"])]
        while cursor["id"]:
            cursor = self.more(cursor, **options)
            found += cursor["nextBatch"]
            counts.append(len(cursor["nextBatch"]))
        return found, counts


@pytest.fixture
def walk(servers):
    made = Walk(servers[1])
    yield made
    for connection in made.connections:
        connection.close()


def find(layout, order=1, **more):
    return {"find": "fat", "filter": {"layout": layout}, "sort": {"number": order}, **more}


@pytest.mark.parametrize("layout, order", [("told", 1), ("untold", -1)])
def test_large_documents_come_whole_and_in_order(walk, layout, order):
    found, counts = walk.all(find(layout, order))
    assert found == [expected(layout, number) for number in range(COUNT)][::order]
    assert len(counts) > 1 and all(counts), counts


def test_batches_as_the_client_wants_them(walk):
    found, counts = walk.all(find("untold", batchSize=0), batchSize=2)
    assert found == [expected("untold", number) for number in range(COUNT)]
    assert counts[0] == 0 and max(counts) == 2


def test_a_limit_and_an_aggregate(walk):
    found, counts = walk.all(find("untold", limit=7, skip=1))
    assert found == [expected("untold", number) for number in range(1, 8)] and len(counts) > 1
    stages = [{"$match": {"layout": "untold"}}, {"$sort": {"number": -1}}, {"$limit": 8}]
    found, counts = walk.all({"aggregate": "fat", "pipeline": stages, "cursor": {}})
    assert found == [expected("untold", number) for number in range(COUNT)][:0:-1] and len(counts) > 1


def test_a_single_batch_ends_where_a_message_is_full(clients, walk):
    reply = walk.call(find("untold", singleBatch=True))
    count = len(reply["firstBatch"])
    assert reply["id"] == 0 and 1 < count < COUNT
    assert reply["firstBatch"] == [expected("untold", number) for number in range(count)]
    assert len(BSON.encode({"": reply["firstBatch"]})) > 16 * MEGABYTE
    assert clients[0].shop.fat.find_one({"_id": "untold01"}) == expected("untold", 1)


@pytest.mark.parametrize("way", ["transaction", "snapshot", "cursor"])
def test_drivers_go_on_by_themselves(clients, way):
    everything = [expected("untold", number) for number in range(COUNT)]
    with clients[0].start_session(snapshot=way == "snapshot") as session:
        inside = session.start_transaction() if way == "transaction" else contextlib.nullcontext()
        with inside:
            cursor = clients[0].shop.fat.find({"layout": "untold"}, session=session).sort("number", 1)
            assert list(cursor) == everything
    kinds = {"cursor_type": pymongo.CursorType.EXHAUST} if way == "cursor" else {"batch_size": 3}
    cursor = clients[1].shop.fat.find({"layout": "untold"}, **kinds).sort("number", 1)
    assert list(cursor) == everything


@pytest.mark.parametrize("size", [6, COUNT])
def test_a_stream_goes_on_behind_a_cut(servers, size):
    """Behind a cut another cursor has the rest: the stream's next part comes from that one."""
    numbers, parts = [], []
    with Connection(servers[1][0].port) as connection:
        first = decode(connection.call(encode({**find("untold", batchSize=1), "$db": "shop"})).body)["cursor"]
        more = {"getMore": Int64(first["id"]), "collection": "fat", "batchSize": size, "$db": "shop"}
        connection.send(encode(more), flags=EXHAUST_ALLOWED)
        goes_on = True
        while goes_on:
            reply = connection.receive()
            goes_on = reply.flags & MORE_TO_COME
            batch = decode(reply.body)["cursor"]["nextBatch"]
            assert batch == [expected("untold", document["number"]) for document in batch]
            parts.append([document["number"] for document in batch])
            numbers += parts[-1]
    assert numbers == list(range(1, COUNT)) and parts[0] == [1, 2, 3], parts


def test_raw_batches_hold_whole_documents(clients):
    fat = clients[0].shop.fat
    for batches in (fat.find_raw_batches({"layout": "untold"}, sort=[("number", 1)]),
                    fat.aggregate_raw_batches([{"$match": {"layout": "untold"}}, {"$sort": {"number": 1}}])):
        found = []
        for batch in batches:
            assert len(batch) <= MESSAGE
            while batch:
                size = int.from_bytes(batch[:4], "little")
                found.append(decode(batch[:size]))
                batch = batch[size:]
        assert found == [expected("untold", number) for number in range(COUNT)]


def test_what_changes_meanwhile_is_seen_as_it_was_read(walk, direct):
    """A batch is one moment: what has no room in its reply comes as it was then."""
    reply = walk.call(find("told", batchSize=COUNT))
    direct.shop.fat.update_one({"_id": "told08"}, {"$set": {"layout": "changed", "number": 99}})
    try:
        found = reply["firstBatch"]
        while reply["id"]:
            reply = walk.more(reply)
            found += reply["nextBatch"]
    finally:
        direct.shop.fat.update_one({"_id": "told08"}, {"$set": {"layout": "told", "number": 8}})
    assert found == [expected("told", number) for number in range(COUNT)]


def test_a_remainder_of_many_documents_takes_several_cursors(walk, direct):
    """Nearly 16 MB of main documents behind one that fills the reply."""
    ruled = direct.shop.fat
    store(direct.shop, RULE, "many", [1], [*parts(7, 40)], layout="many", number=0)
    store(direct.shop, RULE, "much", [1], [*parts(8, 40)], layout="many", number=1)
    documents = [{"_id": f"many{i}", "layout": "many", "number": i, "list": [text(i, 300)]} for i in range(2, 30000)]
    ruled.insert_many(documents)
    ruled.create_index([("layout", 1), ("number", 1)])
    found, counts = walk.all(find("many", batchSize=30000))
    assert [book["list"] for book in found[:2]] == [whole(7, 40, [1]), whole(8, 40, [1])]
    assert found[2:] == documents and counts[0] == 1
    ruled.delete_many({"layout": "many"})


def test_one_document_comes_whole_up_to_the_limit_of_a_message(clients, direct):
    store(direct.shop, RULE, "limit", [1], [[text(3, 15000000)], [text(4, 15000000)], [text(5, 15000000)]],
          layout="limit", number=0)
    found = clients[0].shop.fat.find_one({"_id": "limit"})
    assert [len(element) for element in found["list"][1:]] == [15000000] * 3
    room = MESSAGE - len(BSON.encode(found)) - 1200
    direct.shop.fat.update_one({"_id": "limit"}, {"$push": {"list": "x" * room}})
    assert len(clients[0].shop.fat.find_one({"_id": "limit"})["list"][-1]) == room
    direct.shop.fat.update_one({"_id": "limit"}, {"$push": {"list": "y" * 2000}})
    with pytest.raises(OperationFailure) as raised:
        clients[0].shop.fat.find_one({"_id": "limit"})
    assert raised.value.code == 10334 and "48,000,000" in str(raised.value) and "'fat'" in str(raised.value)
    found = clients[0].shop.fat.find_one({"_id": "limit"}, {"list": {"$slice": -1}})
    assert found["list"] == ["y" * 2000]
    assert clients[0].shop.fat.find_one({"_id": "limit"}, {"list": 0}) == {
        "_id": "limit", "layout": "limit", "number": 0}


def test_a_window_that_mongod_cannot_cut_is_refused(clients, direct):
    """Main has more elements than the threshold: what a $slice from the end gets of them may be too little."""
    store(direct.shop, RULE, "wide", [1, 2, 3], parts(6, 20), ["end"], layout="wide", number=0)
    fat = clients[0].shop.fat
    assert fat.find_one({"_id": "wide"}, {"list": {"$slice": -1}})["list"] == ["end"]
    with pytest.raises(OperationFailure) as raised:
        fat.find_one({"_id": "wide"}, {"list": {"$slice": -30}})
    assert raised.value.code == 10334
    assert "rule 'fat'" in str(raised.value) and "passes 16 MB" in str(raised.value)
    assert fat.find_one({"_id": "wide"})["list"] == whole(6, 20, [1, 2, 3]) + ["end"]


def test_what_stands_before_a_document_that_is_too_large_comes(walk, direct):
    for number, megabytes in enumerate((8, 60, 8)):
        store(direct.shop, RULE, f"huge{number}", [1], parts(number, megabytes), layout="huge", number=number)
    reply = walk.call(find("huge"))
    assert [book["list"] for book in reply["firstBatch"]] == [whole(0, 8, [1])]
    with pytest.raises(OperationFailure) as raised:
        walk.more(reply)
    assert raised.value.code == 10334


def high_water(spillway):
    """The most memory that it has had, in bytes."""
    status = pathlib.Path(f"/proc/{spillway.pid}/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) * 1024


def test_memory_stays_within_a_reply_and_what_it_is_made_of(servers):
    with Spillway([servers[0].primary], [RULE], name="spillway2") as spillway:
        with pymongo.MongoClient("127.0.0.1", spillway.port, document_class=RawBSONDocument) as client:
            before = high_water(spillway)
            for layout in (*LAYOUTS, *LAYOUTS):
                total = sum(len(book.raw) for book in client.shop.fat.find({"layout": layout}))
                assert total > 60 * MEGABYTE
            assert high_water(spillway) - before < 190 * MEGABYTE


def test_the_node_driver_goes_on_by_itself(servers):
    uri = f"mongodb://{servers[1][0].address}/?directConnection=true"
    script = """
        const { MongoClient } = require('mongodb');
        (async () => {
            const client = await new MongoClient(process.argv[1]).connect();
            const found = client.db('shop').collection('fat').find({ layout: 'untold' }).sort({ number: 1 });
            for await (const book of found) console.log(book.list.length);
            await client.close();
        })();"""
    said = subprocess.run([os.environ.get("NODE", "node"), "-e", script, uri],
                          capture_output=True, text=True, timeout=60, check=True).stdout
    assert [int(line) for line in said.split()] == [
        len(expected("untold", number)["list"]) for number in range(COUNT)]
