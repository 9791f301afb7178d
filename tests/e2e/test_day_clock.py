"""The clock of the day jumps in Spillway, forward and back: no deadline fires, nothing hangs, nothing is lost."""

import pymongo
import pytest

from support import crash
from support.failing import Preloaded
from support.process import wait_for
from support.spillway import Spillway

DAY = 24 * 3600
JUMPS = {"a day on": DAY, "a day back": -DAY, "an hour on": 3600, "ten years on": 3650 * DAY, "as it was": 0}


@pytest.fixture(scope="module")
def clock():
    made = Preloaded("day_clock", ("seconds", "asked"))
    yield made
    made.close()


def test_a_jump_of_the_clock_changes_no_answer(cluster, direct, clock):
    rule = {**crash.RULE, "gc_delay": "1s", "sweep": "100ms"}
    spillway = Spillway([cluster.primary], [rule])
    spillway.command = [*clock.wrapper, *spillway.command]
    whole = []
    with spillway, pymongo.MongoClient("127.0.0.1", spillway.port, directConnection=True, maxPoolSize=1) as client:
        books = client.shop.books
        connection = client.admin.command("hello")["connectionId"]

        def push():
            for number in range(len(whole), len(whole) + 12):
                books.update_one({"_id": 0}, {"$push": {"list": number}}, upsert=True)
                whole.append(number)

        for seconds in JUMPS.values():
            push()
            asked = clock.get("asked")
            clock.set(seconds=seconds)
            books.update_one({"_id": 0}, {"$set": {"list.1": -seconds}})
            whole[1] = -seconds
            push()
            assert books.find_one({"_id": 0})["list"] == whole
            assert wait_for(lambda: crash.at_rest(direct), "rest", pause=0.05)[0] == whole
            assert spillway.ready()
            wait_for(lambda before=asked: clock.get("asked") > before, "Spillway to read the clock")
        assert client.admin.command("hello")["connectionId"] == connection
