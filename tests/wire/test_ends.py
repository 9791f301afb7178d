"""Half-close, reset and the loss of the server are passed on as what they are: never an invented reply."""

import socket
import struct

import pytest
from bson import Int64

from support import frames
from support.frames import message
from support.peer import End, Relay
from support.process import wait_for
from support.receive_queue import Reader
from wire.conftest import RULES

PING = message({"ping": 1, "$db": "admin"}, (), 5)
OK = message({"ok": 1.0}, (), 9, 5)
FIND = {"find": "books", "filter": {}, "$db": "shop"}
REFUSED = {"mapReduce": "books", "$db": "shop"}  # nothing that the server could be asked to explain first
EMPTY = {"cursor": {"firstBatch": [], "id": 0, "ns": "shop.books"}, "ok": 1.0}
GENERATION = bytes(range(16))
SPILLED = {"_id": 1, "buyers": [1], "_spill": {"buyers": {"g": GENERATION, "h": 1, "n": 2}}}
TAIL = {"book": 1, "part": [2, 3], "_spill": {"g": GENERATION, "p": 0}}
FOUND, OVERFLOW = ({"cursor": {"firstBatch": [each], "id": 0, "ns": "shop.x"}, "ok": 1.0}
                   for each in (SPILLED, TAIL))
ENDINGS = {"closed": lambda end: end.close(), "reset": lambda end: end.reset()}


def closed(relay):
    return relay.spillway.metrics()["spillway_connections_closed_total"]


def test_a_half_closed_client_still_gets_its_reply(session):
    client, server = session
    client.send(PING)
    client.finish()
    assert server.take(len(PING)) == PING
    assert server.rest() == (b"", "closed")
    server.send(OK)
    server.finish()
    assert client.rest() == (OK, "closed")


def test_a_half_closed_client_still_gets_a_merged_reply(session):
    client, server = session
    client.send(message(FIND, (), 7))
    client.finish()
    server.answer(server.frame(), EMPTY)
    assert client.frame().response_to == 7
    assert server.rest() == (b"", "closed")
    server.finish()
    assert client.rest() == (b"", "closed")


@pytest.mark.parametrize("kinds", ["rrr", "fff", "rpf", "prfp", "pfr"])
def test_all_that_a_half_closed_client_had_sent_is_answered(session, kinds):
    """r: refused, f: found by a merged read, p: passed through."""
    client, server = session
    bodies = {"r": REFUSED, "f": FIND, "p": {"ping": 1, "$db": "admin"}}
    client.send(*(message(bodies[kind], (), number) for number, kind in enumerate(kinds)))
    client.finish()
    for kind in kinds:
        if kind != "r":
            server.answer(server.frame(), EMPTY)
    assert server.rest() == (b"", "closed")
    server.finish()
    for number, kind in enumerate(kinds):
        reply = client.frame()
        assert (reply.response_to, reply.plain()["ok"]) == (number, kind != "r")
    assert client.rest() == (b"", "closed")


def test_a_server_that_says_no_more_is_seen_by_the_client(session):
    client, server = session
    server.send(OK)
    server.finish()
    assert client.rest() == (OK, "closed")
    client.close()
    assert server.rest() == (b"", "closed")


def test_a_server_may_still_listen_after_it_said_no_more(session):
    client, server = session
    server.finish()
    assert client.rest() == (b"", "closed")
    client.send(PING)
    assert server.take(len(PING)) == PING


def pieces_until_stuck(server):
    """Sends until Spillway reads no more, since its client doesn't; what was sent."""
    sent = []
    with Reader(server.socket) as reader:
        while True:
            sent.append(bytes([len(sent) % 251]) * 16384)
            server.send(sent[-1])
            try:
                reader.wait(0.2)
            except TimeoutError:
                return b"".join(sent)


def test_the_end_of_a_server_comes_behind_all_that_it_sent(relay):
    near = socket.socket()
    near.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    near.connect(("127.0.0.1", relay.spillway.port))
    client, server = End(near), relay.server.accept()
    head = frames.frame(4711, b"")
    server.send(struct.pack("<i", frames.LONGEST) + head[4:])
    sent = pieces_until_stuck(server)
    server.finish()
    assert client.take(len(head)) == struct.pack("<i", frames.LONGEST) + head[4:]
    assert client.rest() == (sent, "closed")
    near.close()


@pytest.mark.parametrize("how", ENDINGS)
def test_the_end_of_an_idle_client_reaches_the_server(session, how):
    client, server = session
    client.send(PING)
    server.send(OK) if server.frame() else None
    client.take(len(OK))
    ENDINGS[how](client)
    assert server.rest() == (b"", how)


@pytest.mark.parametrize("how", ENDINGS)
def test_the_end_of_an_idle_server_reaches_the_client(session, how):
    client, server = session
    ENDINGS[how](server)
    assert client.rest() == (b"", how)


@pytest.mark.parametrize("how", ENDINGS)
def test_a_server_lost_within_a_request_gives_no_reply(session, how):
    client, server = session
    client.send(PING)
    server.frame()
    ENDINGS[how](server)
    assert client.rest() == (b"", how)


@pytest.mark.parametrize("how", ENDINGS)
def test_a_server_lost_within_its_reply_is_lost_for_the_client_too(session, how):
    client, server = session
    client.send(PING)
    server.frame()
    server.send(OK[:-3])
    assert client.take(len(OK) - 3) == OK[:-3]
    ENDINGS[how](server)
    assert client.rest() == (b"", how)


@pytest.mark.parametrize("how", ENDINGS)
@pytest.mark.parametrize("step", ["main", "half of main", "overflow", "half of overflow"])
def test_a_server_lost_within_a_sequence_gives_no_reply(relay, session, step, how):
    client, server = session
    before = closed(relay)
    client.send(message(FIND, (), 7))
    request = server.frame()
    main = message(FOUND, response_to=request.request_id)
    if step == "half of main":
        server.send(main[:50])
    if step.endswith("overflow"):
        server.send(main)
        overflow = server.frame()
        assert overflow.plain()["find"] == "extra"
    if step == "half of overflow":
        server.send(message(EMPTY, response_to=overflow.request_id)[:50])
    ENDINGS[how](server)
    assert client.rest() == (b"", how)
    wait_for(lambda: closed(relay) > before, "the session to be gone")


def test_a_client_reset_within_a_sequence_resets_the_server_connection(session):
    client, server = session
    client.send(message(FIND, (), 7))
    server.frame()
    client.reset()
    assert server.rest() == (b"", "reset")


def test_a_client_gone_within_a_sequence_ends_the_server_connection(session):
    client, server = session
    client.send(message(FIND, (), 7))
    request = server.frame()
    client.close()
    server.answer(request, FOUND)
    server.answer(server.frame(), OVERFLOW)
    assert server.rest() == (b"", "closed")


GOING = {"closed": lambda end: end.close(), "half-closed": lambda end: end.finish()}
PULL = {"update": "books", "updates": [{"q": {"_id": 1}, "u": {"$pull": {"buyers": 2}}}], "$db": "shop",
        "lsid": {"id": bytes(16)}, "txnNumber": Int64(1)}
NOTHING_MATCHED = {"n": 0, "nModified": 0, "ok": 1.0}


@pytest.mark.parametrize("how", GOING)
def test_a_retryable_write_whose_client_has_gone_goes_no_further(session, how):
    """The driver tries it again elsewhere, and what is still done here would come behind what that was answered."""
    client, server = session
    client.send(message(PULL, (), 7))
    request = server.frame()
    GOING[how](client)
    server.answer(request, NOTHING_MATCHED)
    received, _ = server.rest()
    assert received == b""


@pytest.mark.parametrize("fields", [{"txnNumber": None}, {"autocommit": False}])
def test_a_write_that_no_driver_repeats_goes_on_without_its_client(session, fields):
    client, server = session
    once = {name: value for name, value in {**PULL, **fields}.items() if value is not None}
    client.send(message(once, (), 7))
    request = server.frame()
    client.close()
    server.answer(request, NOTHING_MATCHED)
    assert server.frame()


def test_a_refused_server_connection_ends_the_clients_without_a_reply():
    with Relay(RULES) as relay:
        relay.server.refuse()
        for data in (PING, message(REFUSED)):
            try:
                client = relay.client()
                client.send(data)
            except ConnectionError:
                continue  # it was ended at once
            received, how = client.rest()
            assert received == b"" and how
        assert relay.spillway.metrics()["spillway_upstream_failures_total"] >= 2
        assert relay.spillway.says(relay.server.address)
