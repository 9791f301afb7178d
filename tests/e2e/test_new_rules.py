"""A start with a rule that has moved nothing yet: no tail moves before cursors of before are closed."""

import contextlib
import threading
import types

import pymongo
import pytest

from support.operate import RULE, Operator
from support.process import free_port, wait_for
from support.shim import Shim
from support.spillway import Spillway

LONG = list(range(9))
EAGER = {**RULE, "settle": "5ms", "quiet": "5ms", "sweep": "200ms"}
GO_ON = "1 reads and operations that began before the new rules go on"
AWAITS = {"active": True, "command.getMore": {"$exists": True}, "ns": "shop.books"}
MAY_MOVE = "tails move under the new rules, too, from now on"


@pytest.fixture
def books(shop):
    shop.books.insert_many([{"_id": i, "list": LONG} for i in range(20)])
    return shop.books


@contextlib.contextmanager
def through(spillway):
    with pymongo.MongoClient("127.0.0.1", spillway.port, directConnection=True) as client:
        yield client.shop.books


def moved(books):
    return books.count_documents({"_spill.list.n": {"$gt": 0}})


def open_cursor(books):
    """One that knows nothing of rules, and has read one document of twenty."""
    cursor = books.find({}, {"list": 1}, batch_size=1).sort("_id", 1)
    return cursor, next(cursor)


def test_a_cursor_of_before_the_start_reads_whole_arrays(cluster, books):
    cursor, first = open_cursor(books)
    with Spillway([cluster.primary], [EAGER]) as spillway:
        spillway.says(GO_ON)
        with through(spillway) as client:
            client.update_one({"_id": 19}, {"$push": {"list": 9}})
        assert [each["list"][:9] for each in [first, *cursor]] == [LONG] * 20
        wait_for(lambda: moved(books) == 20, "tails to move")
        spillway.says(MAY_MOVE)


def test_a_client_that_calls_itself_spillway_is_waited_for_too(cluster, books):
    """Its change stream waits at the server for whatever comes, so it is no idle cursor but an operation."""
    with cluster.client(appname="spillway") as client, client.shop.books.watch(max_await_time_ms=60000) as stream:
        waiting = threading.Thread(target=stream.next)
        waiting.start()
        try:
            wait_for(lambda: list(client.admin.aggregate([{"$currentOp": {}}, {"$match": AWAITS}])), "it to wait")
            with Spillway([cluster.primary], [EAGER]) as spillway:
                spillway.says(GO_ON)
                assert moved(books) == 0
        finally:
            books.insert_one({"_id": 99})
            waiting.join()


def test_a_rule_that_documents_are_split_under_does_not_wait_again(cluster, books):
    with Spillway([cluster.primary], [EAGER]):
        wait_for(lambda: moved(books) == 20, "tails to move")
    cursor, _ = open_cursor(books)
    with cursor, Spillway([cluster.primary], [EAGER]) as spillway, through(spillway) as client:
        client.insert_one({"_id": 99, "list": LONG})
        wait_for(lambda: moved(books) == 21, "the new array to be moved")


def test_what_clients_change_while_a_rule_waits_is_moved_later(cluster, shop, books):
    """By its note, and by the comparison of two sweeps where there is none."""
    cursor, _ = open_cursor(books)
    with Spillway([cluster.primary], [{**EAGER, "existing": "wait"}]) as spillway, through(spillway) as client:
        client.update_one({"_id": 5}, {"$push": {"list": 9}})
        spillway.says("20 outliers wait until a client changes their arrays")
        spillway.says(GO_ON)
        shop.books.update_one({"_id": 6}, {"$push": {"list": 9}})
        assert moved(books) == 0
        cursor.close()
        wait_for(lambda: moved(books) == 2, "both")
        assert [each["_id"] for each in books.find({"_spill.list.n": {"$gt": 0}}).sort("_id", 1)] == [5, 6]


def test_an_edit_of_a_rule_that_waits_leaves_no_garbage(cluster, shop, books):
    """After a start, until it is known that documents are split: no sweep would find it."""
    with Operator(cluster, [RULE]) as operator:
        operator.run("migrate", "--execute", code=0)
    asked, goes_on = threading.Event(), threading.Event()

    def hook(request):
        if request.name == "aggregate" and request.collection is None:
            asked.set()
            assert goes_on.wait(60)

    with Shim(cluster.primary.port, hook) as shim, \
            Spillway([shim], [{**RULE, "quiet": "10m", "sweep": "off"}]) as spillway, through(spillway) as client:
        assert asked.wait(60)
        client.update_one({"_id": 5}, {"$pull": {"list": 8}})
        assert shop.tails.count_documents({"book": 5}) == 2
        goes_on.set()
        wait_for(lambda: shop.tails.count_documents({"book": 5}) == 0, "the garbage to go")
    assert shop.tails.count_documents({}) == 19 * 2


def test_migrate_waits_for_a_cursor_of_before_the_rule(cluster, shop, books):
    cursor, first = open_cursor(books)
    with Operator(cluster, [EAGER]) as operator:
        running = operator.start("migrate", "--execute")
        assert "1 reads and operations that began before the rule go on" in running.stderr.readline()
        assert moved(books) == 0
        assert [each["list"] for each in [first, *cursor]] == [LONG] * 20
        running.communicate(timeout=60)
        assert running.returncode == 0 and moved(books) == 20
        books.insert_one({"_id": 99, "list": LONG})
        cursor, _ = open_cursor(books)
        operator.run("migrate", "--execute", code=0)  # whoever reads now knows of the rule
        cursor.close()


def test_a_server_that_does_not_answer_is_told(cluster, books):
    """Nobody knows whether a cursor goes on there."""
    gone = types.SimpleNamespace(address=f"127.0.0.1:{free_port()}")
    with Spillway([cluster.primary, gone], [EAGER]) as spillway:
        spillway.says(f"the server '{gone.address}' does not say whether reads go on that began before the new rules")
        assert moved(books) == 0
    with Operator(types.SimpleNamespace(members=[cluster.primary, gone]), [EAGER]) as operator:
        report = operator.run("migrate", "--execute", code=0)
    told = [(each["name"], each["examples"][0]["namespace"]) for each in report["notes"]]
    assert told == [("reads-unseen", gone.address)]


def test_a_note_is_kept_where_sweeps_are_off(cluster, books):
    cursor, _ = open_cursor(books)
    with Spillway([cluster.primary], [{**EAGER, "existing": "wait", "sweep": "off"}]) as spillway:
        spillway.says(GO_ON)
        with through(spillway) as client:
            client.update_one({"_id": 5}, {"$push": {"list": 9}})
        wait_for(lambda: spillway.metrics()["spillway_mover_queue"] == 1, "the note to wait")
        cursor.close()
        wait_for(lambda: moved(books) == 1, "it to move")
