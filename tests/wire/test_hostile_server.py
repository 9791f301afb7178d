"""A server that says what no mongod says, and a client that picks its names and its pieces to confuse."""

import pytest

from support import exact, frames
from support.frames import message
from support.peer import HELLO
from wire.test_framing import both_ended

FIND = message({"find": "books", "filter": {"title": "one"}, "$db": "shop"}, (), 6)
PUSH = {"q": {"_id": 1}, "u": {"$push": {"buyers": 1}}}
UPDATE = message({"update": "books", "updates": [PUSH], "$db": "shop"}, (), 6)
PING = message({"ping": 1, "$db": "admin"}, (), 5)
OK = {"ok": 1.0}
FOUND = {"cursor": {"firstBatch": [{"_id": 1}], "id": exact.Raw(exact.INT64, bytes(8)), "ns": "shop.books"}, **OK}


# ---- pieces ----

@pytest.mark.parametrize("request_", [FIND, UPDATE], ids=["find", "update"])
@pytest.mark.parametrize("offset", [*range(1, 40), 60, -1])
def test_a_ruled_request_in_two_pieces_is_the_same_request(session, request_, offset):
    client, server = session
    client.send(request_[:offset])
    client.send(request_[offset:])
    seen = server.frame()
    assert seen.raw[:4] + seen.raw[8:] == request_[:4] + request_[8:]
    server.answer(seen, FOUND if request_ is FIND else {"n": 1, "nModified": 1, **OK})
    assert client.frame().plain()["ok"] == 1.0
    client.send(PING)
    assert server.frame().raw == PING


def test_a_thousand_ruled_finds_in_one_write_are_answered_in_their_order(session):
    client, server = session
    client.send(*(message({"find": "books", "$db": "shop"}, (), number) for number in range(1000)))
    for _ in range(1000):
        server.answer(server.frame(), FOUND)
    assert [client.frame().response_to for _ in range(1000)] == list(range(1000))


def test_requests_of_one_number_are_each_answered(session):
    """Some pass, some are answered by a sequence: all have the number 6."""
    client, server = session
    ping = message({"ping": 1, "$db": "admin"}, (), 6)
    client.send(FIND, ping, FIND, ping)
    for answer in (FOUND, OK, FOUND, OK):
        server.answer(server.frame(), answer)
    assert ["cursor" in client.frame().plain() for _ in range(4)] == [True, False, True, False]


# ---- replies ----

def test_a_reply_before_any_request_ends_nothing_and_answers_nothing(relay):
    """mongod sends none; whoever can is the server itself. Clients throw such a reply away or close."""
    client, server = relay.connect()
    server.send(message(OK, (), 9, 4711))
    assert client.frame().response_to == 4711
    client.send(PING)
    server.answer(server.frame(), OK)
    assert client.frame().response_to == 5


def test_two_replies_to_one_find_are_not_taken_for_the_next(session):
    client, server = session
    client.send(FIND)
    asked = server.frame()
    server.answer(asked, FOUND)
    server.answer(asked, {"ok": 0.0, "code": 1, "errmsg": "stray"})
    assert client.frame().plain()["ok"] == 1.0
    stray = client.frame()
    assert (stray.response_to, stray.plain()["errmsg"]) == (asked.request_id, "stray")
    client.send(message({"find": "books", "$db": "shop"}, (), 8))
    server.answer(server.frame(), FOUND)
    answer = client.frame()
    assert (answer.response_to, answer.plain()["ok"]) == (8, 1.0)


@pytest.mark.parametrize("batch", [b"\x05\0\0\0\1", b"\xff\xff\xff\x7f\0", bytes(5)])
def test_a_reply_whose_batch_cannot_be_read_is_an_error(session, batch):
    client, server = session
    client.send(FIND)
    cursor = [("firstBatch", exact.Raw(exact.ARRAY, batch)), ("id", exact.Raw(exact.INT64, bytes(8))),
              ("ns", "shop.books")]
    server.answer(server.frame(), [("cursor", (exact.DOCUMENT, exact.pairs_of(cursor))), ("ok", 1.0)])
    assert client.frame().plain()["code"] == 134
    client.send(PING)
    assert server.frame().raw == PING


@pytest.mark.parametrize("identifier", [1, -1, 2**63 - 1])
def test_another_cursor_in_a_get_mores_reply_is_the_servers_affair(session, identifier):
    client, server = session
    client.send(message({"getMore": exact.Raw(exact.INT64, b"\x09" + bytes(7)), "collection": "books", "$db": "shop"},
                        (), 7))
    number = exact.Raw(exact.INT64, identifier.to_bytes(8, "little", signed=True))
    server.answer(server.frame(), {"cursor": {"nextBatch": [{"_id": 1}], "id": number, "ns": "shop.books"}, **OK})
    assert client.frame().plain()["cursor"]["id"] == identifier


LIMITS = [0, -1, 2**31 - 1, "many", {"a": 1}]


@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize("name", ["maxMessageSizeBytes", "maxBsonObjectSize", "maxWriteBatchSize", "maxWireVersion"])
def test_no_limit_in_a_hello_is_relied_on(session, name, limit):
    client, server = session
    client.send(message({"hello": 1, "$db": "admin"}, (), 5))
    server.answer(server.frame(), {**HELLO, name: limit})
    assert client.frame().response_to == 5
    client.send(FIND)
    server.answer(server.frame(), FOUND)
    assert client.frame().plain()["ok"] == 1.0


@pytest.mark.parametrize("packer", frames.PACKERS)
def test_a_compressed_reply_that_nobody_asked_for_is_read_or_ends_the_session(session, packer):
    client, server = session
    client.send(FIND)
    server.send(frames.compressed(message(FOUND, (), 9, server.frame().request_id), packer))
    assert client.frame().plain()["ok"] == 1.0


# ---- names ----

def test_no_line_of_the_log_is_a_clients(relay, session):
    """A namespace with ends of lines in it, which a pattern matches."""
    client, server = session
    name = "tenant_\nsession 1: forged\x1b[31m"
    client.send(message({"mapReduce": "posts", "$db": name}, (), 7))
    reply = client.frame().plain()
    assert reply["code"] == 115
    client.send(frames.frame(4711, b"x", 8))
    both_ended(client, server)
    said = relay.spillway.said()
    assert "\x1b" not in said
    assert not any(line.startswith("session 1: forged") for line in said.splitlines())
