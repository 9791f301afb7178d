"""What PyMongo can do, through Spillway: sessions, transactions, exhaust, w: 0, compression, size."""

import threading

import pymongo
import pytest
from bson import BSON, encode
from pymongo.errors import BulkWriteError, DocumentTooLarge, OperationFailure
from pymongo.monitoring import ServerHeartbeatListener

from support.cluster import Cluster
from support.process import wait_for
from support.spillway import Spillway
from support.verify import verify

MEGABYTE = 1024 * 1024


def rule(collection, batch=10, **options):
    overflow = {"layout": "batches", "link": "main", "array": "part", "batch": {"size": batch}}
    return {"name": collection, "namespace": f"shop.{collection}", "array": "list", "threshold": 5,
            "settle": "20ms", "gc_delay": "1s", **options, "overflow": overflow}


BOOKS = rule("books")
# Nothing moves by itself before the server refuses a push.
FAT = rule("fat", threshold=1000, settle="10m", gather=1000000, max_bytes="8MB")
LONG = rule("long", batch=1000)
SPILLED = list(range(40))


@pytest.fixture(scope="module")
def spillway(cluster):
    with Spillway([cluster.primary], [BOOKS, FAT, LONG]) as made:
        yield made


@pytest.fixture
def connect(spillway):
    made = []

    def new_client(**options):
        options.setdefault("replicaSet", "rs0")
        made.append(pymongo.MongoClient("127.0.0.1", spillway.port, **options))
        return made[-1]

    yield new_client
    for client in made:
        client.close()


@pytest.fixture
def books(connect, direct):
    """An empty collection under the rule."""
    made = connect().shop.books
    made.delete_many({})
    return made


def spilled_book(books, direct, identifier=1):
    """A book whose tail has moved."""
    books.insert_one({"_id": identifier, "list": SPILLED, "n": 1})

    def has_moved():
        book = direct.shop.books.find_one({"_id": identifier})
        return len(book["list"]) == 5 and book["_spill"]["list"]["n"] == 35

    wait_for(has_moved, "the tail to move")


def at_rest(direct):
    """True once all tails have moved; what delete_many left is the sweep's business."""
    findings = verify(direct, BOOKS)
    return not findings.corrupt and not findings.unfinished


class Heartbeats(ServerHeartbeatListener):
    """Collects what the monitors see."""

    def __init__(self):
        self.streamed = []

    def started(self, event):
        pass

    def succeeded(self, event):
        if event.awaited:
            self.streamed.append((event.connection_id, event.reply.document.get("hosts")))

    def failed(self, event):
        self.streamed.append((event.connection_id, event.reply))


def test_streamed_hellos_name_spillway(spillway, connect):
    heartbeats = Heartbeats()
    client = connect(heartbeatFrequencyMS=500, event_listeners=[heartbeats], serverMonitoringMode="stream")
    client.admin.command("ping")
    wait_for(lambda: len(heartbeats.streamed) >= 4, "streamed hellos")
    assert {str(hosts) for _, hosts in heartbeats.streamed} == {str([spillway.address])}
    assert client.nodes == {("127.0.0.1", spillway.port)}


def test_a_transaction_is_committed_or_aborted_whole(books, connect, direct):
    spilled_book(books, direct)
    client = connect()
    books = client.shop.books
    with client.start_session() as session:
        with session.start_transaction():
            books.update_one({"_id": 1}, {"$push": {"list": 40}}, session=session)
            books.insert_one({"_id": 2, "list": SPILLED}, session=session)
            client.shop.notes.insert_one({"_id": 1}, session=session)
            assert books.find_one({"_id": 1}, session=session)["list"] == SPILLED + [40]
            assert books.find_one({"_id": 1})["list"] == SPILLED
            session.abort_transaction()
        assert books.find_one({"_id": 1})["list"] == SPILLED
        assert client.shop.notes.find_one({"_id": 1}) is None

        def body(session):
            books.update_one({"_id": 1}, {"$push": {"list": 40}}, session=session)
            books.insert_one({"_id": 2, "list": SPILLED}, session=session)

        session.with_transaction(body)
    assert books.find_one({"_id": 1})["list"] == SPILLED + [40]
    wait_for(lambda: at_rest(direct), "what a transaction wrote to move")
    assert books.find_one({"_id": 2})["list"] == SPILLED


def test_a_causal_session_reads_its_own_writes(books, connect, direct):
    spilled_book(books, direct)
    client = connect()
    with client.start_session(causal_consistency=True) as session:
        for number in range(40, 60):
            client.shop.books.update_one({"_id": 1}, {"$push": {"list": number}}, session=session)
            found = client.shop.books.find_one({"_id": 1}, session=session)
            assert found["list"] == list(range(number + 1))


def test_snapshot_reads(books, connect, direct):
    spilled_book(books, direct)
    client = connect()
    with client.start_session(snapshot=True) as session:
        first = client.shop.books.find_one({"_id": 1}, session=session)
        books.update_one({"_id": 1}, {"$push": {"list": "later"}})
        assert client.shop.books.find_one({"_id": 1}, session=session) == first
    assert books.find_one({"_id": 1})["list"] == SPILLED + ["later"]


@pytest.mark.parametrize("collection", ["books", "notes"])
def test_an_exhaust_cursor(books, connect, direct, collection):
    spilled_book(books, direct)
    target = connect(directConnection=True, replicaSet=None).shop[collection]
    target.delete_many({"_id": {"$gt": 1}})
    target.insert_many([{"_id": i, "list": SPILLED} for i in range(2, 30)])
    cursor = target.find({"_id": {"$gt": 1}}, batch_size=3, cursor_type=pymongo.CursorType.EXHAUST)
    found = cursor.sort("_id", 1).to_list()
    assert [book["_id"] for book in found] == list(range(2, 30))
    assert all(book["list"] == SPILLED for book in found)


def test_unacknowledged_pushes_keep_their_order(books, direct):
    books.insert_one({"_id": 1, "list": []})
    client = pymongo.MongoClient(*books.database.client.address, directConnection=True, maxPoolSize=1)
    with client:
        silent = client.shop.books.with_options(write_concern=pymongo.WriteConcern(w=0))
        for number in range(2000):
            silent.update_one({"_id": 1}, {"$push": {"list": number}})
        assert client.shop.books.find_one({"_id": 1})["list"] == list(range(2000))
    wait_for(lambda: at_rest(direct), "the tail to move")
    assert books.find_one({"_id": 1})["list"] == list(range(2000))


@pytest.mark.parametrize("compressor", ["snappy", "zlib", "zstd"])
def test_compression(books, connect, direct, compressor):
    spilled_book(books, direct)
    client = connect(compressors=compressor)
    client.shop.books.update_one({"_id": 1}, {"$push": {"list": "x" * 5000}})
    assert client.shop.books.find_one({"_id": 1})["list"] == SPILLED + ["x" * 5000]
    assert client.shop.notes.insert_one({"text": "y" * 5000}).acknowledged
    network = direct.admin.command("serverStatus")["network"]["compression"][compressor]
    assert network["decompressor"]["bytesIn"] > 0


def test_a_bulk_write_stops_or_goes_on_as_it_should(books, direct):
    spilled_book(books, direct)
    operations = [
        pymongo.UpdateOne({"_id": 1}, {"$push": {"list": "a"}}),
        pymongo.InsertOne({"_id": 1}),
        pymongo.UpdateOne({"_id": 1}, {"$push": {"list": "b"}}),
    ]
    for ordered, expected in ((True, ["a"]), (False, ["a", "a", "b"])):
        with pytest.raises(BulkWriteError) as raised:
            books.bulk_write(operations, ordered=ordered)
        assert [error["index"] for error in raised.value.details["writeErrors"]] == [1]
        assert raised.value.details["nModified"] == (1 if ordered else 2)
        assert books.find_one({"_id": 1})["list"] == SPILLED + expected


def test_a_change_stream_where_there_is_no_rule(connect):
    notes = connect().shop.watched
    notes.insert_one({"_id": 0})
    with notes.watch(full_document="updateLookup", max_await_time_ms=500) as stream:
        notes.insert_one({"_id": 1, "list": [1]})
        notes.update_one({"_id": 1}, {"$push": {"list": 2}})
        events = [stream.next(), stream.next()]
    assert [event["operationType"] for event in events] == ["insert", "update"]
    assert events[1]["fullDocument"] == {"_id": 1, "list": [1, 2]}


def test_cursors_over_many_connections(books, connect, direct):
    for identifier in range(20):
        books.insert_one({"_id": identifier, "list": SPILLED})
    wait_for(lambda: at_rest(direct), "the tails to move")
    before = direct.admin.command("serverStatus")["metrics"]["cursor"]["open"]["total"]
    client = connect(maxPoolSize=10)
    failures = []

    def read():
        cursor = client.shop.books.find(batch_size=2)
        found = [next(cursor) for _ in range(5)]
        if any(book["list"] != SPILLED for book in found):
            failures.append(found)
        cursor.close()
        if sum(1 for book in client.shop.books.find(batch_size=3) if book["list"] == SPILLED) != 20:
            failures.append("short")

    threads = [threading.Thread(target=read) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures

    def opened():
        return direct.admin.command("serverStatus")["metrics"]["cursor"]["open"]["total"]

    wait_for(lambda: opened() <= before, "the cursors to be closed")


def fail_point(direct, name, mode, **data):
    direct.admin.command({"configureFailPoint": name, "mode": mode, "data": data})


def test_a_retried_push_is_applied_once(books, direct):
    """mongod commits and drops the connection: the driver sends the push again."""
    books.insert_one({"_id": 1, "list": [], "n": 0})
    fail_point(direct, "onPrimaryTransactionalWrite", {"activationProbability": 0.2}, closeConnection=True)
    try:
        for number in range(60):
            books.update_one({"_id": 1}, {"$push": {"list": number}, "$inc": {"n": 1}})
    finally:
        fail_point(direct, "onPrimaryTransactionalWrite", "off")
    assert books.find_one({"_id": 1}) == {"_id": 1, "list": list(range(60)), "n": 60}
    wait_for(lambda: at_rest(direct), "the tail to move")
    assert books.find_one({"_id": 1})["list"] == list(range(60))


def test_a_lost_server_connection_is_one_to_the_client(books, direct):
    spilled_book(books, direct)
    failing = ["find", "update"]
    fail_point(direct, "failCommand", {"times": 1}, failCommands=failing, closeConnection=True)
    assert books.find_one({"_id": 1})["list"] == SPILLED
    fail_point(direct, "failCommand", {"times": 1}, failCommands=failing, closeConnection=True)
    books.update_one({"_id": 1}, {"$push": {"list": 40}})
    fail_point(direct, "failCommand", {"skip": 1}, failCommands=["find"], closeConnection=True)
    try:
        with pytest.raises(pymongo.errors.AutoReconnect):
            # Its second find, that of the overflow, fails; the driver's one retry too.
            books.find_one({"_id": 1})
    finally:
        fail_point(direct, "failCommand", "off")
    assert books.find_one({"_id": 1})["list"] == SPILLED + [40]


def test_the_largest_messages(connect):
    blobs = connect().shop.blobs
    blobs.drop()
    empty = len(encode({"_id": 1, "data": b""}))
    largest = {"_id": 1, "data": bytes(16 * MEGABYTE - empty)}
    assert len(BSON.encode(largest)) == 16 * MEGABYTE
    blobs.insert_one(largest)
    assert blobs.find_one({"_id": 1}) == largest
    with pytest.raises((DocumentTooLarge, OperationFailure)):
        blobs.insert_one({"_id": 2, "data": bytes(16 * MEGABYTE + 20000)})
    third = (48000000 - 500) // 3 - 100
    blobs.insert_many([{"_id": i, "data": bytes(third)} for i in range(3, 6)])
    assert [len(blob["data"]) for blob in blobs.find({"_id": {"$gte": 3}})] == [third] * 3


def test_a_large_array_comes_back_whole(connect, direct):
    books = connect().shop.long
    books.delete_many({})
    numbers = list(range(700000))
    books.insert_one({"_id": 1, "list": numbers})
    assert books.find_one({"_id": 1})["list"] == numbers

    def has_moved():
        state = direct.shop.long.find_one({"_id": 1}).get("_spill", {})
        return state.get("list", {}).get("n") == len(numbers) - 5

    wait_for(has_moved, "the tail to move")
    assert books.find_one({"_id": 1})["list"] == numbers


def test_pushing_goes_on_beyond_16_megabytes(connect, direct):
    fat = connect().shop.fat
    fat.delete_many({})
    fat.insert_one({"_id": 1, "list": []})
    for number in range(20):
        fat.update_one({"_id": 1}, {"$push": {"list": str(number) * MEGABYTE}})
    found = fat.find_one({"_id": 1})["list"]
    assert [(text[:2], len(text)) for text in found] == [
        ((str(i) * 2)[:2], len(str(i)) * MEGABYTE) for i in range(20)]
    stored = direct.shop.fat.find_one({"_id": 1})
    assert len(stored["list"]) < 20


def test_a_secondary_merges_too():
    with Cluster(members=3) as cluster, Spillway(cluster.members, [BOOKS]) as spillway:
        uri = "mongodb://" + ",".join(f"127.0.0.1:{port}" for port in spillway.ports)
        with pymongo.MongoClient(uri, replicaSet="rs0", w=3) as client, cluster.client() as direct:
            books = client.shop.books
            spilled_book(books, direct)
            books.update_one({"_id": 1}, {"$push": {"list": 40}})
            secondary = books.with_options(read_preference=pymongo.ReadPreference.SECONDARY)
            for _ in range(20):
                assert secondary.find_one({"_id": 1})["list"] == SPILLED + [40]
            assert client.secondaries == {("127.0.0.1", port) for port in spillway.ports[1:]}
            assert client.primary == ("127.0.0.1", spillway.ports[0])


def test_a_standalone_server():
    with Cluster(members=0) as cluster, Spillway([cluster.primary], [BOOKS]) as spillway:
        with pymongo.MongoClient("127.0.0.1", spillway.port) as client, cluster.client() as direct:
            books = client.shop.books
            spilled_book(books, direct)
            for number in range(40, 60):
                assert books.update_one({"_id": 1}, {"$push": {"list": number}}).modified_count == 1
            assert books.find_one({"_id": 1})["list"] == list(range(60))
            wait_for(lambda: at_rest(direct), "the tail to move")
            assert books.find_one({"_id": 1}) == {"_id": 1, "list": list(range(60)), "n": 1}
