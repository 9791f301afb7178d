"""What serve says to programs: its metrics by the rules of Prometheus's text format, its log by those of JSON."""

import contextlib
import json
import re
import urllib.request

import pymongo
import pytest
from pymongo.errors import OperationFailure

from support.process import wait_for
from support.spillway import Spillway

NAME = 'b"o\\oké'  # escaped in one way in a label, in another in JSON
RULE = {"name": "books", "namespace": "sh*." + NAME, "array": "list", "threshold": 3, "settle": "10ms",
        "sweep": "100ms",
        "overflow": {"link": "main", "array": "part"}}
SAMPLE = re.compile(r'([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(?:[a-zA-Z_]\w*="(?:[^"\\\n]|\\["\\n])*",?)*\})?'
                    r' (-?[0-9.]+(?:e[+-]?[0-9]+)?|NaN|\+Inf)')


@pytest.fixture(scope="module")
def spillway(cluster):
    """One that has moved, swept and refused something."""
    with Spillway([cluster.primary], [RULE], {"log": {"level": "debug", "format": "json"}}) as made:
        with pymongo.MongoClient("127.0.0.1", made.port, directConnection=True) as client, cluster.client() as direct:
            collection = client.shop[NAME]
            collection.insert_one({"_id": '"\\\u2028\x01', "list": list(range(9))})
            for refused in (lambda: collection.create_index("list", unique=True),
                            lambda: list(collection.find({"$where": "1"}))):
                with pytest.raises(OperationFailure):
                    refused()
            wait_for(lambda: len(direct.shop[NAME].find_one()["list"]) == 3, "a move")
            direct.shy[NAME].create_index("list.x", unique=True)
            client.shy[NAME].find_one()
            wait_for(lambda: "can't hold" in made.said(), "what is said of it")
            wait_for(lambda: made.metrics()["spillway_sweeps_total"] >= 2, "two sweeps")
            yield made


def test_the_metrics_are_prometheus_text(spillway):
    with urllib.request.urlopen(f"http://127.0.0.1:{spillway.admin_port}/metrics") as reply:
        assert reply.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        text = reply.read().decode()
    assert text.endswith("\n")
    types, samples = {}, set()
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            name, kind = line.split(" ", 3)[2:]
            assert name not in types and kind in ("counter", "gauge", "histogram", "summary"), line
            types[name] = kind
        elif not line.startswith("# HELP "):
            parts = SAMPLE.fullmatch(line)
            assert parts, line
            family = parts[1] if parts[1] in types else re.sub("_(bucket|sum|count)$", "", parts[1])
            assert family in types and line.rsplit(" ", 1)[0] not in samples, line
            assert not parts[1].endswith("_total") or types[family] == "counter", line
            samples.add(line.rsplit(" ", 1)[0])
    assert len(types) > 20


def test_each_line_of_the_log_is_json(spillway):
    assert spillway.says("can't hold")
    lines = [json.loads(line) for line in spillway.said().splitlines()]
    assert all(set(line) == {"t", "s", "c", "id", "ctx", "msg", "attr"} and line["id"] for line in lines)
    assert any(f"can't hold on 'shy.{NAME}'" in line["msg"] for line in lines)


@contextlib.contextmanager
def refused(direct, command):
    """The mover may not."""
    def refuse(mode):
        direct.admin.command("configureFailPoint", "failCommand", mode=mode,
                             data={"failCommands": [command], "appName": "spillway", "errorCode": 13})
    refuse("alwaysOn")
    try:
        yield
    finally:
        refuse("off")


def test_what_the_mover_is_refused_is_said(cluster, spillway):
    with cluster.client() as direct, pymongo.MongoClient("127.0.0.1", spillway.port, directConnection=True) as client:
        direct.shop[NAME].insert_one({"_id": "late", "list": []})
        with refused(direct, "find"):
            client.shop[NAME].update_one({"_id": "late"}, {"$push": {"list": {"$each": list(range(9))}}})
            for words in ("the sweep was refused", "looking refused"):
                wait_for(lambda: words in spillway.said(), words)
        wait_for(lambda: len(direct.shop[NAME].find_one({"_id": "late"})["list"]) == 3, "the move, once it is allowed")
        with refused(direct, "listCollections"):
            words = "can't be listed, so that only those in use are swept"  # told once, of whichever database
            wait_for(lambda: words in spillway.said(), words)
