"""Requests that pass and requests that do not, in one write: replies keep the requests' order."""

import pytest

from support import frames
from support.frames import MORE_TO_COME, message
from support.receive_queue import send_apart

PING = {"ping": 1, "$db": "admin"}
FIND = {"find": "books", "filter": {}, "$db": "shop"}
# Nothing that the server could be asked to explain first.
REFUSED = {"mapReduce": "books", "comment": "longer than what is behind it", "$db": "shop"}
EMPTY = {"cursor": {"firstBatch": [], "id": 0, "ns": "shop.books"}, "ok": 1.0}


UNACKNOWLEDGED = {"insert": "plain", "documents": [{"_id": 1}], "writeConcern": {"w": 0}, "$db": "shop"}
KINDS = ["rp", "rrrr", "prpr", "pprr", "fp", "ffp", "rfprfp", "wf", "wr", "pwwr", "wwfw", "cr", "cf", "pkf", "pkr"]


def request_of(kind, number):
    if kind == "w":
        return message(UNACKNOWLEDGED, (), number, flags=MORE_TO_COME)
    if kind == "c":
        return frames.compressed(request_of("w", number), "snappy")
    if kind == "k":
        return frames.frame(frames.OP_KILL_CURSORS, bytes(16), number)
    return message({"p": PING, "f": FIND, "r": REFUSED}[kind], (), number)


@pytest.mark.parametrize("kinds", KINDS)
def test_requests_that_pass_and_that_do_not_keep_their_order(session, kinds):
    """All in one write: p passes through, r is refused, f is found by a sequence; w, c and k get no reply."""
    client, server = session
    client.send(*(request_of(kind, number) for number, kind in enumerate(kinds)))
    for number, kind in enumerate(kinds):
        if kind != "r":
            request = server.frame()
            assert request.request_id == number
        if kind in "wck":
            continue
        if kind != "r":
            server.answer(request, EMPTY)
        reply = client.frame()
        assert (reply.response_to, reply.plain()["ok"]) == (number, kind != "r")


def test_many_refusals_among_many_requests(session):
    client, server = session
    count = 1000
    client.send(*(message(PING if number % 3 else REFUSED, (), number) for number in range(count)))
    passed = [number for number in range(count) if number % 3]
    assert [each.request_id for each in server.answer_each(len(passed))] == passed
    replies = [client.frame() for _ in range(count)]
    assert [each.response_to for each in replies] == list(range(count))
    assert [each.plain()["ok"] for each in replies] == [bool(number % 3) for number in range(count)]


def test_a_refusal_waits_for_a_reply_that_is_passing(session):
    client, server = session
    client.send(message(PING, (), 1))
    reply = message({"ok": 1.0, "text": "x" * 200_000}, (), 9, response_to=server.frame().request_id)
    server.send(reply[:1000])
    assert client.take(1000) == reply[:1000]
    send_apart(client.socket, [message(REFUSED, (), 2)])
    server.send(reply[1000:])
    assert client.take(len(reply) - 1000) == reply[1000:]
    refused = client.frame()
    assert (refused.response_to, refused.plain()["ok"]) == (2, 0)
