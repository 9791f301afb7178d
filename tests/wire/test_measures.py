"""How long requests take: histograms by verdict and rule, and what the log says of slow ones."""

import json
import os
import re
import time

import pytest

from support import exact
from support.frames import message
from support.peer import Relay
from support.process import wait_for
from wire.conftest import RULES

SLOW = 0.06
PULL = {"update": "books", "updates": [{"q": {"_id": 7}, "u": {"$pull": {"buyers": "secret"}}}], "$db": "shop"}
FIND = {"find": "books", "filter": {"_id": "secret"}, "$db": "shop"}
CLIENT = {"application": {"name": "shop"}, "driver": {"name": "PyMongo", "version": "4.8.0"}}


@pytest.fixture(scope="module")
def slow():
    with Relay(RULES, {"workers": 1, "log": {"format": "json", "slow": "50ms"}}) as made:
        yield made


def samples(relay):
    """Each sample of /metrics, by its name with labels."""
    text = relay.spillway.admin("/metrics")[1]
    return {name: float(value) for name, value in re.findall(r"^([a-z]\S*) (\S+)$", text, re.M)}


def buckets(found, verdict, rule):
    name = f'spillway_request_duration_seconds_bucket{{verdict="{verdict}",rule="{rule}",le="'
    return {key[len(name):-2]: value for key, value in found.items() if key.startswith(name)}


def answer_late(server, body):
    """The server takes this long, which is what is measured."""
    request = server.frame()
    due = time.monotonic() + SLOW
    wait_for(lambda: time.monotonic() >= due, "the time that the server takes", pause=0.01)
    server.answer(request, body)


def empty(namespace):
    return {"cursor": {"id": exact.Raw(exact.INT64, bytes(8)), "ns": namespace, "firstBatch": []}, "ok": 1.0}


def slow_ones(relay, command):
    """What the log says of them."""
    lines = map(json.loads, relay.spillway.said().splitlines())
    return [line for line in lines if line["id"] == 3001 and line["attr"]["command"] == command]


def test_a_slow_edit_is_told_with_its_steps_and_without_values(slow):
    client, server = slow.connect_known()
    client.send(message({"hello": 1, "client": CLIENT, "$db": "admin"}))
    server.answer(server.frame(), {"ok": 1.0})
    client.frame()
    client.send(message(PULL))
    answer_late(server, {"n": 0, "nModified": 0, "ok": 1.0})
    server.answer(server.frame(), empty("shop.books"))
    server.answer(server.frame(), {"n": 0, "nModified": 0, "ok": 1.0})
    assert client.frame().plain()["n"] == 0
    (line,) = wait_for(lambda: slow_ones(slow, "update"), "the line of the update")
    assert line["c"] == "COMMAND" and "secret" not in slow.spillway.said()
    attr = line["attr"]
    assert (attr["ns"], attr["command"], attr["rule"], attr["verdict"]) == (
        "shop.books", "update", "book-sales", "edit")
    assert (attr["appName"], attr["driver"]) == ("shop", "PyMongo 4.8.0")
    assert [step["step"] for step in attr["steps"]] == ["update", "find", "update"]
    assert attr["steps"][0]["millis"] >= 50 and attr["durationMillis"] >= attr["steps"][0]["millis"] - 1
    assert "'update' on 'shop.books' took " in line["msg"]


def test_a_slow_find_that_passes_is_told(slow):
    client, server = slow.connect_known()
    before = len(slow_ones(slow, "find"))
    client.send(message(FIND))
    answer_late(server, empty("shop.books"))
    client.frame()
    wait_for(lambda: len(slow_ones(slow, "find")) > before, "the line of the find")
    assert len(slow_ones(slow, "find")) == before + 1 and "secret" not in slow.spillway.said()


def test_what_is_fast_is_not_told():
    with Relay(RULES, {"log": {"slow": "1h"}}) as relay:
        client, server = relay.connect_known()
        client.send(message(FIND))
        server.answer(server.frame(), empty("shop.books"))
        client.frame()
        assert " 3001 " not in relay.spillway.said()


def count_of(relay, verdict, rule):
    return buckets(samples(relay), verdict, rule).get("+Inf", 0)


def refuse_quickly(slow, client, server):
    """How many refusals it takes until one is quick: what else runs on the machine takes time, too."""
    tries = []

    def refused():
        return buckets(samples(slow), "refused", "book-sales")

    def is_quick():
        before = refused()
        client.send(message({"find": "books", "filter": {"$where": "secret"}, "$db": "shop"}))
        server.answer(server.frame(), {"ok": 1.0})
        client.frame()
        tries.append(1)
        # It is counted behind the answer.
        wait_for(lambda: refused().get("+Inf", 0) > before.get("+Inf", 0), "the refusal to be counted")
        return refused()["0.05"] > before.get("0.05", 0)

    wait_for(is_quick, "a quick refusal")
    return len(tries)


def test_histograms_count_by_verdict_and_rule(slow):
    client, server = slow.connect_known()
    before = samples(slow)
    client.send(message(FIND))
    answer_late(server, empty("shop.books"))
    client.frame()
    refusals = refuse_quickly(slow, client, server)
    after = samples(slow)
    for verdict, late, count in (("read", 1, 1), ("refused", 0, refusals)):
        old, new = buckets(before, verdict, "book-sales"), buckets(after, verdict, "book-sales")
        assert len(new) == 13, verdict
        assert new["+Inf"] == old.get("+Inf", 0) + count, (verdict, new)
        assert new["0.05"] == old.get("0.05", 0) + 1 - late, (verdict, new)
        assert list(new.values()) == sorted(new.values())
        labels = f'{{verdict="{verdict}",rule="book-sales"}}'
        assert after[f"spillway_request_duration_seconds_count{labels}"] == new["+Inf"]
        assert after[f"spillway_request_duration_seconds_sum{labels}"] >= late * 0.05


def test_of_forwarded_requests_one_in_eight_stands_for_eight(slow):
    client, server = slow.connect_known()
    before = count_of(slow, "forwarded", "")

    def measured():
        client.send(message({"ping": 1, "$db": "admin"}))
        answer_late(server, {"ok": 1.0})
        client.frame()
        return count_of(slow, "forwarded", "") > before

    wait_for(measured, "a request that is measured")
    found = buckets(samples(slow), "forwarded", "")
    assert found["+Inf"] == before + 8 and found["+Inf"] - found["0.05"] >= 8, found


def test_gauges_of_connections_and_process(slow):
    before = samples(slow)
    client, _ = slow.connect()
    found = samples(slow)
    assert found["spillway_connections_open"] == before["spillway_connections_open"] + 1
    client.close()
    assert [value for name, value in found.items() if name.startswith("spillway_build_info{version=")] == [1]
    pid = slow.spillway.process.pid
    with open(f"/proc/{pid}/statm", encoding="ascii") as file:
        resident = int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")
    assert 0.5 * resident < found["process_resident_memory_bytes"] < 2 * resident
    assert 10 < found["process_open_fds"] < found["process_max_fds"]
    assert 0 < found["process_cpu_seconds_total"] < 60
    assert abs(found["process_start_time_seconds"] - time.time()) < 600
