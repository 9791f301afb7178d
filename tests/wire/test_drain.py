"""SIGTERM drains: nobody new comes in, who is idle goes, who is busy finishes within the deadline."""

import contextlib
import signal
import socket
import threading
import time

import pytest

from support import exact
from support.frames import EXHAUST_ALLOWED, MORE_TO_COME, PACKERS, compressed, message
from support.peer import NOT_FOUND, Relay
from support.process import wait_for
from wire.conftest import RULES

PING = message({"ping": 1, "$db": "admin"}, (), 5)
OK = message({"ok": 1.0}, (), 9, 5)
FIND = {"find": "books", "filter": {}, "$db": "shop"}
GENERATION = bytes(range(16))
SPILLED = {"_id": 1, "buyers": [1], "_spill": {"buyers": {"g": GENERATION, "h": 1, "n": 1}}}
TAIL = {"book": 1, "part": [2], "_spill": {"g": GENERATION, "p": 0}}
TRANSACTION = {
    "lsid": {"id": exact.Raw(exact.BINARY, b"\x10\0\0\0\4" + bytes(16))},
    "txnNumber": exact.Raw(exact.INT64, b"\1" + bytes(7)), "autocommit": False,
}


def found(document, namespace="shop.books"):
    return {"cursor": {"firstBatch": [document], "id": 0, "ns": namespace}, "ok": 1.0}


@pytest.fixture
def workers():
    return 2


@pytest.fixture
def relay(workers):
    with Relay(RULES, {"workers": workers, "limits": {"drain": "10m", "handshake": "10m"}}) as made:
        yield made


def drain(relay):
    """Sends the signal and waits until the listeners are closed."""
    relay.spillway.process.send_signal(signal.SIGTERM)
    wait_for(lambda: refuses(relay.spillway.port), "the listeners to close")


def refuses(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0


def ends_well(relay, seconds=60):
    assert relay.spillway.process.wait(seconds) == 0


def gone(client, server):
    assert client.rest()[0] == b""
    assert server.rest()[0] == b""


def stays(client):
    """The session has survived the drain's first looks at it."""
    client.socket.settimeout(0.2)
    with pytest.raises(TimeoutError):
        client.socket.recv(1)
    client.socket.settimeout(30)


@pytest.mark.parametrize("workers", [1, 2])
def test_idle_sessions_end_at_once(relay):
    fresh, used = relay.connect(), relay.connect()
    used[0].send(PING)
    used[1].answer_each(1)
    used[0].frame()
    drain(relay)
    for session in (fresh, used):
        gone(*session)
    ends_well(relay)


@pytest.mark.parametrize("workers", [1, 2])
def test_without_sessions_it_ends_at_once(relay):
    drain(relay)
    ends_well(relay)


def test_a_monitor_that_waits_for_news_is_idle(relay):
    client, server = relay.connect()
    version = {"processId": exact.Raw(exact.OBJECT_ID, bytes(12)), "counter": exact.Raw(exact.INT64, bytes(8))}
    hello = {"hello": 1, "topologyVersion": version, "maxAwaitTimeMS": 10000, "$db": "admin"}
    client.send(message(hello, (), 5, flags=EXHAUST_ALLOWED))
    server.answer(server.frame(), {"ok": 1.0}, flags=MORE_TO_COME)
    client.frame()
    drain(relay)
    gone(client, server)
    ends_well(relay)


@pytest.mark.parametrize("whole", [True, False])
def test_a_busy_request_gets_its_reply(relay, whole):
    client, server = relay.connect()
    client.send(PING)
    server.frame()
    if not whole:
        server.send(OK[:20])
        assert client.take(20) == OK[:20]
    drain(relay)
    stays(client)
    server.send(OK if whole else OK[20:])
    assert client.take(len(OK) if whole else len(OK) - 20) == (OK if whole else OK[20:])
    gone(client, server)
    ends_well(relay)


def test_a_request_that_is_still_coming_is_served(relay):
    client, server = relay.connect()
    insert = message({"insert": "plain", "$db": "shop"}, [("documents", [{"x": "y" * 1000}])], 5)
    client.send(insert[:500])
    assert server.take(500) == insert[:500]
    drain(relay)
    stays(client)
    client.send(insert[500:])
    assert server.take(len(insert) - 500) == insert[500:]
    server.send(OK)
    assert client.take(len(OK)) == OK
    gone(client, server)
    ends_well(relay)


@pytest.mark.parametrize("step", ["main", "overflow"])
def test_a_merged_read_gets_its_reply(relay, step):
    client, server = relay.connect()
    client.send(message(FIND, (), 7))
    request = server.frame()
    if step == "overflow":
        server.answer(request, found(SPILLED))
        request = server.frame()
    drain(relay)
    stays(client)
    if step == "main":
        server.answer(request, found(SPILLED))
        request = server.frame()
    server.answer(request, found(TAIL))
    reply = client.frame()
    assert reply.response_to == 7
    assert reply.plain()["cursor"]["firstBatch"] == [{"_id": 1, "buyers": [1, 2]}]
    gone(client, server)
    ends_well(relay)


def part(collection, documents, cursor, **frame):
    """A part of a stream of batches."""
    reply = {"cursor": {"nextBatch": documents, "id": exact.Raw(exact.INT64, bytes([cursor]) + bytes(7)),
                        "ns": f"shop.{collection}"}, "ok": 1.0}
    return message(reply, (), **frame)


def get_more(collection, packer=None):
    """A getMore that lets all batches come unasked."""
    request = message({"getMore": exact.Raw(exact.INT64, b"\x2a" + bytes(7)), "collection": collection, "$db": "shop"},
                      (), 7, flags=EXHAUST_ALLOWED)
    return compressed(request, packer) if packer else request


@pytest.mark.parametrize("packer", [None, *PACKERS])
def test_a_stream_of_the_server_comes_to_its_end(relay, packer):
    client, server = relay.connect_packing()
    client.send(get_more("plain", packer))
    server.frame()
    answers = 7
    for number in (50, 51, 52):
        reply = part("plain", [{"_id": number}], 0 if number == 52 else 42, request_id=number, response_to=answers,
                     flags=0 if number == 52 else MORE_TO_COME)
        reply = compressed(reply, packer) if packer else reply
        server.send(reply)
        assert client.take(len(reply)) == reply
        if number == 50:
            drain(relay)
            stays(client)
        answers = number
    gone(client, server)
    ends_well(relay)


@pytest.mark.parametrize("packer", [None, *PACKERS])
@pytest.mark.parametrize("padding", [0, 100000])
def test_a_stream_that_is_put_together_comes_to_its_end(relay, packer, padding):
    """Long parts are packed by another thread."""
    client, server = relay.connect_known()
    client.send(get_more("books", packer))
    answers = 7
    for cursor in (42, 42, 0):
        server.answer(server.frame(), {
            "cursor": {"nextBatch": [{**SPILLED, "pad": "x" * padding}],
                       "id": exact.Raw(exact.INT64, bytes([cursor]) + bytes(7)), "ns": "shop.books"}, "ok": 1.0})
        server.answer(server.frame(), found(TAIL))
        if answers == 7:
            drain(relay)
        reply = client.frame()
        assert (reply.response_to, reply.flags) == (answers, MORE_TO_COME if cursor else 0)
        assert reply.plain()["cursor"]["nextBatch"][0]["buyers"] == [1, 2]
        answers = reply.request_id
    gone(client, server)
    ends_well(relay)


@pytest.mark.parametrize("end", ["commitTransaction", "abortTransaction"])
@pytest.mark.parametrize("collection", ["plain", "books"])
def test_a_transaction_may_finish(relay, end, collection):
    client, server = relay.connect()

    def run(command, reply=None):
        client.send(message({**command, **TRANSACTION}, (), 5))
        server.answer(server.frame(), reply or {"ok": 1.0})
        assert client.frame().response_to == 5

    run({"insert": collection, "documents": [{"_id": 1}], "startTransaction": True, "$db": "shop"})
    drain(relay)
    stays(client)
    run({**FIND, "find": collection}, {"cursor": {"firstBatch": [], "id": 0, "ns": "shop.x"}, "ok": 1.0})
    stays(client)
    run({end: 1, "$db": "admin"})
    gone(client, server)
    ends_well(relay)


def test_the_deadline_ends_the_rest():
    with Relay(RULES, {"limits": {"drain": "500ms", "handshake": "10m"}}) as relay:
        busy, reading, in_transaction = (relay.connect() for _ in range(3))
        busy[0].send(PING)
        reading[0].send(message(FIND, (), 7))
        in_transaction[0].send(message({"ping": 1, **TRANSACTION, "startTransaction": True, "$db": "admin"}, (), 5))
        for session in (busy, reading):
            session[1].frame()
        in_transaction[1].answer_each(1)
        in_transaction[0].frame()
        started = time.monotonic()
        drain(relay)
        for session in (busy, reading, in_transaction):
            gone(*session)
        ends_well(relay)
        assert time.monotonic() - started >= 0.4


@contextlib.contextmanager
def hanging_mover():
    """A client has made an index, and the server that the mover asks about indexes does not answer."""
    hangs, over = threading.Event(), threading.Event()

    def hang(_):
        hangs.set()
        over.wait(600)
        return NOT_FOUND

    with Relay(RULES, {"limits": {"drain": "500ms", "handshake": "10m"}}) as relay:
        client, server = relay.connect_known()
        relay.server.replies["listIndexes"] = hang
        client.send(message({"createIndexes": "books", "indexes": [{"key": {"buyers.x": 1}, "name": "x"}],
                             "$db": "shop"}, (), 5))
        server.answer_each(1)
        assert hangs.wait(60)
        yield relay, client, server
        over.set()


def test_the_deadline_ends_what_waits_for_the_mover():
    with hanging_mover() as (relay, client, server):
        drain(relay)
        gone(client, server)
        ends_well(relay)


def test_a_reload_that_waits_for_the_mover_is_given_up():
    with hanging_mover() as (relay, _, _):
        change_rules(relay)
        relay.spillway.says("1030 SIGHUP")
        drain(relay)
        ends_well(relay)


def change_rules(relay):
    """Rules that have to be tried at the servers."""
    relay.spillway.settings["rules"] = [{**rule, "threshold": 5} for rule in relay.spillway.settings["rules"]]
    relay.spillway.write_file()
    relay.spillway.hang_up()


def test_a_session_that_is_still_connecting_ends(relay):
    client = relay.client()
    drain(relay)
    assert client.rest()[0] == b""
    ends_well(relay)


def test_an_interrupt_drains_too(relay):
    client, server = relay.connect()
    relay.spillway.process.send_signal(signal.SIGINT)
    gone(client, server)
    ends_well(relay)


def test_a_reload_that_a_server_keeps_waiting_is_given_up():
    """The server does not say which change streams are open there."""
    hangs, over = threading.Event(), threading.Event()

    def hang(command):
        if "originatingCommand" in str(command):
            hangs.set()
            over.wait(600)
        return {"cursor": {"id": exact.Raw(exact.INT64, bytes(8)), "ns": "x.y", "firstBatch": []}, "ok": 1.0}

    with Relay(RULES) as relay:
        relay.server.script(apart=True)
        relay.server.replies["aggregate"] = hang
        change_rules(relay)
        assert hangs.wait(60)
        relay.spillway.process.send_signal(signal.SIGTERM)
        ends_well(relay)
        over.set()


def test_a_hangup_ends_nothing(relay):
    """It has certificates read again."""
    client, server = relay.connect()
    relay.spillway.process.send_signal(signal.SIGHUP)
    wait_for(lambda: "SIGHUP" in relay.spillway.said(), "the signal to be seen")
    client.send(message({"ping": 1, "$db": "admin"}))
    server.answer_each(1)
    assert client.frame()
