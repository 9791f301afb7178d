"""Without a majority of the replica set Spillway says what it waits for, once, and when that is there again."""

import contextlib
import signal

import pymongo
import pytest

from support.cluster import Cluster
from support.operate import RULE, Operator
from support.process import wait_for
from support.spillway import Spillway

EAGER = {**RULE, "settle": "5ms"}


@pytest.fixture(scope="module")
def cluster():
    with Cluster(3) as made:
        yield made


@contextlib.contextmanager
def stopped(members):
    for member in members:
        member.process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        for member in members:
            member.process.send_signal(signal.SIGCONT)


def waits_for(spillway, what, members):
    silent = " and ".join(f"'{member.address}'" for member in members)
    said = spillway.said()
    assert said.count("waiting for the servers") <= 1
    return f"waiting for the servers: {what}: 2 of 3 servers do not answer: {silent}; start them" in said


def is_back(spillway, cluster):
    """It has said so, serves and moves tails."""
    wait_for(lambda: "the servers are back" in spillway.said(), "it to be told")
    wait_for(lambda: spillway.admin("/readyz") == (200, "ready\n"), "Spillway to be ready")
    cluster.wait_for_primary()
    with pymongo.MongoClient("127.0.0.1", spillway.port, directConnection=True) as client, cluster.client() as direct:
        client.shop.books.drop()
        client.shop.books.insert_one({"_id": 1, "list": list(range(20))})
        wait_for(lambda: "_spill" in direct.shop.books.find_one(), "a move")


def test_serve_starts_where_there_is_no_primary(cluster):
    silent = cluster.members[1:]
    spillway = Spillway(cluster.members, [EAGER])
    with stopped(silent), cluster.primary.client() as direct:
        wait_for(lambda: not direct.admin.command("hello")["isWritablePrimary"], "the primary to step down")
        spillway.start(ready=False)
        wait_for(lambda: waits_for(spillway, "the replica set 'rs0' has no primary", silent), "it to be told")
        wait_for(lambda: spillway.admin("/healthz")[0] == 200, "the admin address")
        status, text = spillway.admin("/readyz")
        assert status == 503 and text.startswith("not ready: the replica set 'rs0' has no primary: 2 of 3 servers do "
                                                 "not answer"), text
    try:
        is_back(spillway, cluster)
    finally:
        spillway.__exit__()


@pytest.fixture
def steadfast(cluster):
    """A primary that stays so when the others are gone: for as long as an election takes, a set is like that."""
    with cluster.client() as direct:
        settings = direct.admin.command("replSetGetConfig")["config"]
        settings["settings"]["electionTimeoutMillis"] = 3600000
        settings["version"] += 1
        direct.admin.command("replSetReconfig", settings)
    return cluster


@pytest.mark.parametrize("running", [True, False], ids=["while it serves", "at its start"])
def test_a_primary_without_a_majority(steadfast, running):
    silent = steadfast.members[1:]
    spillway = Spillway(steadfast.members, [EAGER])
    try:
        if running:
            spillway.start()
        with stopped(silent), steadfast.primary.client() as direct:
            direct.shop.others.with_options(write_concern=pymongo.WriteConcern(1)).insert_one({})
            if not running:
                spillway.start(ready=False)
            wait_for(lambda: waits_for(spillway, "no majority of the replica set 'rs0' acknowledges writes", silent),
                     "it to be told")
            if running:
                status, text = spillway.admin("/readyz")
                assert status == 200 and text.startswith("ready, but no majority of the replica set 'rs0' acknowledges "
                                                         "writes"), text
                assert 'ready</span>, but <span class="bad">no majority of the replica set' in spillway.admin("/")[1]
        is_back(spillway, steadfast)
    finally:
        spillway.__exit__()


def test_an_operators_command_says_what_it_waits_for(steadfast):
    """It reads what a majority has, and goes on when there is one."""
    with steadfast.client() as direct, Operator(steadfast, [EAGER]) as operator:
        direct.drop_database("shop")
        with stopped(steadfast.members[1:]):
            direct.shop.others.with_options(write_concern=pymongo.WriteConcern(1)).insert_one({})
            command = operator.start("verify")
            said = command.stderr.readline()
            assert ("waiting for the servers: no majority of the replica set 'rs0' acknowledges writes: "
                    "2 of 3 servers do not answer") in said, said
        rest = command.communicate(timeout=120)
        assert command.returncode == 0, rest
