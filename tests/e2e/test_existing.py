"""`serve` moves what clients touch; outliers that were there before wait (`existing: wait`), or not (`move`)."""

import threading

import pymongo
import pytest

from support.operate import RULE, generation
from support.process import wait_for
from support.spillway import Spillway

LONG = list(range(9))
EAGER = {**RULE, "settle": "5ms", "quiet": "5ms", "sweep": "200ms", "existing": "wait"}


def sweeps(spillway, count=2):
    """Waits for so many sweeps that begin from now on."""
    before = spillway.metrics()["spillway_sweeps_total"]
    wait_for(lambda: spillway.metrics()["spillway_sweeps_total"] > before + count, "sweeps")


def is_moved(shop, identifier):
    return shop.books.find_one({"_id": identifier})["list"] == LONG[:3]


@pytest.fixture
def books(shop):
    shop.books.insert_many([{"_id": i, "list": LONG} for i in range(50)])
    return shop.books


def test_only_what_a_client_touches_is_moved(cluster, shop, books):
    with Spillway([cluster.primary], [EAGER]) as spillway:
        sweeps(spillway)
        assert books.count_documents({"_spill": {"$exists": True}}) == 0
        assert spillway.metrics()["spillway_existing_waiting"] == 50
        assert "50 outliers wait until a client changes their arrays" in spillway.said()
        with pymongo.MongoClient("127.0.0.1", spillway.port, directConnection=True) as through:
            through.shop.books.update_one({"_id": 7}, {"$push": {"list": 9}})
            wait_for(lambda: is_moved(shop, 7), "what was pushed to")
            assert through.shop.books.find_one({"_id": 7})["list"] == [*LONG, 9]
        sweeps(spillway)
        assert books.count_documents({"_spill": {"$exists": True}}) == 1
        assert spillway.metrics()["spillway_existing_waiting"] == 49


def test_what_comes_or_changes_unseen_is_found_by_the_sweep(cluster, shop, books):
    """As if a note had been lost: of what the first sweep saw, an array of another size is another one."""
    with Spillway([cluster.primary], [EAGER]) as spillway:
        sweeps(spillway)
        shop.books.update_one({"_id": 8}, {"$push": {"list": 9}})
        shop.books.update_one({"_id": 9}, {"$set": {"title": "another field"}})
        shop.books.insert_one({"_id": "new", "list": LONG})
        wait_for(lambda: is_moved(shop, 8) and is_moved(shop, "new"), "the sweep")
        assert books.count_documents({"_spill": {"$exists": True}}) == 2


def test_what_a_crash_left_half_done_is_finished(cluster, shop, books):
    """A generation that was born, a tail behind a head, an empty state; their neighbours wait."""
    born = {"g": generation(1), "h": 3, "n": 0}
    shop.books.update_one({"_id": 1}, {"$set": {"_spill": {"list": born}}})
    shop.books.update_one({"_id": 2}, {"$set": {"_spill": {}}})
    with Spillway([cluster.primary], [EAGER]) as spillway:
        wait_for(lambda: is_moved(shop, 1), "the generation's tail")
        wait_for(lambda: "_spill" not in shop.books.find_one({"_id": 2}) or is_moved(shop, 2), "the empty state")
        sweeps(spillway)
        assert books.count_documents({"_spill.list.n": {"$gt": 0}, "_id": {"$nin": [1, 2]}}) == 0


def test_existing_ones_move_if_the_rule_says_so(cluster, shop, books):
    with Spillway([cluster.primary], [{**EAGER, "existing": "move"}], {"mover": {"rate": 1000}}) as spillway:
        wait_for(lambda: books.count_documents({"_spill.list.n": 6}) == 50, "all of them")
        sweeps(spillway)
        said = spillway.said()
    assert "the sweep has found outliers, and moves them" in said
    assert "the sweep has seen all documents: it gave 50 outliers to the mover, 0 wait" in said


def test_a_rate_holds_the_mover(cluster, shop, books):
    """At two a second, the fiftieth has to wait for 24 s; the test stops long before."""
    rules = [{**EAGER, "existing": "move"}]
    with Spillway([cluster.primary], rules, {"mover": {"rate": 2}}) as spillway:
        wait_for(lambda: books.count_documents({"_spill.list.n": 6}) >= 3, "the first ones")
        assert books.count_documents({"_spill.list.n": 6}) < 50
        assert spillway.metrics()["spillway_moved_elements_total"] < 50 * 6


def test_a_busy_server_holds_the_mover(cluster, shop, books):
    """Busy with reads that sleep; what the mover itself does is not so much."""
    shop.slow.insert_many([{} for _ in range(300)])
    over = threading.Event()

    def read():
        with cluster.client() as client:
            while not over.is_set():
                list(client.shop.slow.find({"$where": "sleep(20) || true"}))

    readers = [threading.Thread(target=read) for _ in range(10)]
    for each in readers:
        each.start()
    rules = [{**EAGER, "existing": "move", "sweep": "off"}]
    try:
        with Spillway([cluster.primary], rules, {"mover": {"max_load": 3}}) as spillway:
            wait_for(lambda: spillway.metrics()["spillway_mover_held"] == 1, "the load to be seen")
            with pymongo.MongoClient("127.0.0.1", spillway.port, directConnection=True) as through:
                through.shop.books.update_one({"_id": 1}, {"$push": {"list": 9}})
                wait_for(lambda: spillway.metrics()["spillway_mover_queue"] == 1, "it to wait")
                assert books.count_documents({"_id": 1, "_spill.list.n": {"$gt": 0}}) == 0
                assert spillway.says("operations are at work or wait in the server, and max_load is 3")
                over.set()
                wait_for(lambda: is_moved(shop, 1), "the mover to go on")
            assert spillway.says("mover: goes on")
    finally:
        over.set()
        for each in readers:
            each.join()
