"""Before mongod has accepted anything of a client, Spillway does nothing for it that costs more than its bytes."""

import os
import threading

import pytest

from support import frames
from support.frames import message
from support.peer import CLOSED, Relay, agree
from support.process import build_folder, wait_for
from wire.conftest import RULES

PING = message({"ping": 1, "$db": "admin"}, (), 5)
OK = message({"ok": 1.0}, (), 9, 5)
UPDATE = {"update": "books", "$db": "shop"}


def updates(content):
    return [("updates", [{"q": {"_id": 1}, "u": {"$push": {"buyers": content}}}])]


LARGE = message(UPDATE, updates(os.urandom(100_000)), 7)
LARGE_FIRST = message(UPDATE, updates(os.urandom(100_000)), 7, sequence_first=True)
SMALL = message(UPDATE, updates(1), 7)
AWAITED = message({"hello": 1, "topologyVersion": {}, "maxAwaitTimeMS": 600_000, "$db": "admin"}, (), 6)
UNAUTHORIZED = {"ok": 0.0, "code": 13, "codeName": "Unauthorized",
                "errmsg": "command refreshSessions requires authentication"}
QUESTION = {"refreshSessions": [], "$db": "admin", "apiVersion": "1"}
KEEPS_WHAT_IS_FREED = build_folder().name == "asan"


def bomb(size, packer="zstd"):
    """A push that is small before it is unpacked."""
    return frames.compressed(message(UPDATE, updates(bytes(size)), 7), packer)


BOMB = bomb(40_000_000)


@pytest.fixture(scope="module")
def relay():
    with Relay(RULES, {"workers": 1, "limits": {"handshake": "10m", "memory": "64MB"}}) as made:
        yield made


def asked(server):
    question = server.frame()
    assert question.plain() == QUESTION
    return question


def pushed(client, server):
    """The push goes to the server as any other does, and its answer comes back."""
    request = server.frame()
    assert b"$push" in request.payload
    server.answer(request, {"n": 1, "nModified": 1, "ok": 1.0})
    assert client.frame().plain()["n"] == 1


@pytest.mark.parametrize("packer", frames.PACKERS)
def test_a_compressor_that_was_not_agreed_on_ends_the_connection(relay, packer):
    others = [name for name in frames.PACKERS if name != packer]
    session = relay.connect()
    agree(*session, others)
    for each, behind in (session, relay.connect()):
        each.send(PING, frames.compressed(PING, packer))
        assert each.rest() == (b"", CLOSED)
        assert behind.take(len(PING)) == PING
        assert behind.rest()[0] == b""
    assert relay.spillway.said().count("uses a compressor that the server has not agreed to") == 1


def test_another_hello_takes_no_compressor_away(relay):
    client, server = relay.connect_packing()
    client.send(message({"hello": 1, "$db": "admin"}))
    server.answer(server.frame(), {"ok": 1.0})
    client.frame()
    client.send(frames.compressed(PING, "zlib"))
    assert server.frame().plain()["ping"] == 1


@pytest.mark.parametrize("request_sent", [LARGE, LARGE_FIRST, bomb(20_000), bomb(100_000, "zlib")],
                         ids=["large", "sequence first", "zstd", "zlib"])
@pytest.mark.parametrize("known", ["first", "login", "hello"])
def test_what_is_large_waits_until_the_server_knows_the_user(relay, request_sent, known):
    client, server = relay.connect_packing()
    if known == "login":
        client.send(message({"saslStart": 1, "$db": "admin"}))
        server.answer(server.frame(), {"conversationId": 1, "done": True, "ok": 1.0})
        client.frame()
    elif known == "hello":
        client.send(message({"hello": 1, "speculativeAuthenticate": {"authenticate": 1}, "$db": "admin"}))
        server.answer(server.frame(), {"speculativeAuthenticate": {"user": "CN=x"}, "ok": 1.0})
        client.frame()
    writer = threading.Thread(target=client.send, args=(request_sent,))
    writer.start()
    if known == "first":
        server.answer(asked(server), {"ok": 1.0})
    pushed(client, server)
    writer.join()
    client.send(request_sent)
    pushed(client, server)


def test_what_is_small_needs_no_question(relay):
    client, server = relay.connect_packing()
    client.send(frames.compressed(SMALL, "zstd"))
    pushed(client, server)


def test_mongod_refuses_itself_what_it_does_not_know_the_user_of(relay):
    client, server = relay.connect()
    for _ in range(2):
        client.send(LARGE, PING)
        server.answer(asked(server), UNAUTHORIZED)
        assert server.take(len(LARGE)) == LARGE
        refusal = message({**UNAUTHORIZED, "errmsg": "command insert requires authentication"}, (), 9, 7)
        server.send(refusal)
        assert client.take(len(refusal)) == refusal
        assert server.take(len(PING)) == PING
        server.send(OK)
        assert client.take(len(OK)) == OK


CLOSED_FOR = {
    "sequence first": LARGE_FIRST,
    "compressed": bomb(20_000),
    "hello": message({"hello": 1, "comment": "x" * 70_000, "$db": "admin"}, (), 7),
    "a query": frames.query("shop.books", {"x": "x" * 70_000}, 7),
}


@pytest.mark.parametrize("name", CLOSED_FOR)
def test_what_is_large_and_no_plain_command_ends_a_strangers_connection(relay, name):
    client, server = relay.connect_packing()
    client.send(PING, CLOSED_FOR[name], PING)
    assert server.take(len(PING)) == PING
    server.send(OK)
    assert client.take(len(OK)) == OK
    server.answer(asked(server), UNAUTHORIZED)
    assert server.rest()[0] == b""
    assert client.rest()[0] == b""
    assert "larger than limits.before_login" in relay.spillway.said()


def test_a_server_that_lacks_the_question_is_no_obstacle(relay):
    client, server = relay.connect()
    client.send(LARGE)
    server.answer(asked(server), {"ok": 0.0, "code": 59, "errmsg": "no such command"})
    pushed(client, server)


def test_what_would_be_unpacked_counts_before_it_is(relay):
    client, server = relay.connect_known()
    before = relay.private_memory()
    client.send(BOMB)
    assert b"$push" in server.frame().payload
    held = relay.private_memory() - before
    assert held > 40_000_000
    other = relay.connect_known()
    other[0].send(BOMB)
    assert other[0].rest()[0] == b"", "another would be more than the limit"
    assert KEEPS_WHAT_IS_FREED or relay.private_memory() - before < held + (4 << 20)
    server.close()
    assert client.rest()[0] == b""


def test_what_waits_for_an_awaited_hello_stays_packed_and_goes_with_its_client(relay):
    before = relay.private_memory()
    sessions = [relay.connect_known() for _ in range(30)]
    for client, server in sessions:
        client.send(AWAITED, BOMB, PING)
        assert server.frame().plain()["maxAwaitTimeMS"]
    assert relay.private_memory() - before < (16 if KEEPS_WHAT_IS_FREED else 8) << 20
    client, server = sessions.pop()
    server.answer(frames.Frame(AWAITED), {"ok": 1.0})
    assert client.frame().response_to == 6
    assert b"$push" in server.frame().payload
    for client, _ in sessions:
        client.close()
    for _, server in sessions:
        assert server.rest()[0] == b""


@pytest.mark.parametrize("request_sent", [SMALL, message({"delete": "books", "deletes": [], "$db": "shop"}, (), 7)])
def test_a_request_that_waits_for_an_awaited_hello_goes_with_its_client(relay, request_sent):
    client, server = relay.connect_known()
    client.send(AWAITED, request_sent, PING)
    server.frame()
    client.close()
    assert server.rest()[0] == b""


def test_those_who_have_not_signed_in_have_a_share_of_the_memory():
    """1,000 beginnings of requests take no more than that; who is known works on."""
    with Relay(RULES, {"workers": 1, "limits": {"handshake": "10m", "memory": "4MB"}}) as relay:
        known = relay.connect_known()
        part = message(UPDATE, updates(bytes(50_000)), 7)[:-1]
        before = relay.private_memory()
        for _ in range(300):
            relay.connect()[0].send(part)
        wait_for(lambda: "hold a quarter of limits.memory" in relay.spillway.said(), "the first to be closed")
        assert KEEPS_WHAT_IS_FREED or relay.private_memory() - before < 12 << 20
        client, server = known
        writer = threading.Thread(target=client.send, args=(message(UPDATE, updates(bytes(1_500_000)), 7),))
        writer.start()
        pushed(client, server)
        writer.join()


def test_a_request_that_waits_goes_with_its_server(relay):
    client, server = relay.connect_known()
    client.send(PING, BOMB)
    assert server.take(len(PING)) == PING
    server.close()
    assert client.rest()[0] == b""
