"""Frames are checked as mongod does; bytes that are no frames end both connections and are never passed on."""

import struct

import pytest

from support import frames
from support.frames import message
from support.receive_queue import send_apart

PING = message({"ping": 1, "$db": "admin"}, (), 5)
OK = message({"ok": 1.0}, (), 9, 5)
FIND = message({"find": "books", "filter": {}, "$db": "shop"}, (), 6)


def with_length(length):
    return struct.pack("<iiii", length, 1, 0, frames.OP_MSG)


INVALID = {str(length): with_length(length)
           for length in (0, 1, 15, -1, -2**31, 48_000_001, 2**31 - 1)}


def both_ended(client, server, at_server=b"", at_client=b""):
    """Both connections have ended, and nothing has come but this."""
    received, _ = server.rest()
    assert received == at_server
    received, _ = client.rest()
    assert received == at_client


@pytest.mark.parametrize("name", INVALID)
def test_what_is_no_frame_ends_both_connections(session, name):
    client, server = session
    client.send(INVALID[name])
    both_ended(client, server)


@pytest.mark.parametrize("name", INVALID)
def test_a_later_frame_is_checked_too(session, name):
    client, server = session
    client.send(PING)
    assert server.frame().raw == PING
    server.send(OK)
    assert client.take(len(OK)) == OK
    client.send(PING, INVALID[name], PING)
    both_ended(client, server, PING)


@pytest.mark.parametrize("name", INVALID)
def test_frames_of_the_server_are_checked(session, name):
    client, server = session
    client.send(PING)
    server.frame()
    server.send(INVALID[name], OK)
    both_ended(client, server)


WHOLE = message({"find": "books", "filter": {"buyers": 1}, "$db": "shop"}, (), 6)


@pytest.mark.parametrize("asked", [FIND, WHOLE], ids=["find", "aggregate"])
@pytest.mark.parametrize("answer", [
    lambda number: frames.reply({"ok": 1.0}, number, 9),
    lambda number: frames.frame(4711, b"anything", 9, number),
    lambda number: frames.frame(frames.OP_INSERT, b"", 9, number),
    lambda number: frames.compressed(frames.reply({"ok": 1.0}, number, 9), "zlib"),
    lambda number: frames.frame(frames.OP_MSG, bytes(4), 9, number),
], ids=["OP_REPLY", "unknown", "OP_INSERT", "compressed OP_REPLY", "no body"])
def test_a_reply_of_another_kind_to_what_was_rewritten_ends_both_connections(relay, session, asked, answer):
    client, server = session
    client.send(asked)
    server.send(answer(server.frame().request_id))
    both_ended(client, server)
    assert relay.spillway.running()


@pytest.mark.parametrize("name", INVALID)
def test_frames_of_the_server_are_checked_while_a_read_is_merged(session, name):
    client, server = session
    client.send(FIND)
    server.frame()
    server.send(INVALID[name], OK)
    both_ended(client, server)


def test_invalid_frames_are_counted(relay, session):
    before = relay.spillway.metrics()["spillway_frames_invalid_total"]
    client, server = session
    client.send(with_length(15))
    both_ended(client, server)
    assert relay.spillway.metrics()["spillway_frames_invalid_total"] == before + 1


def test_the_shortest_frame_passes(session):
    client, server = session
    shortest = frames.frame(frames.OP_MSG)
    assert len(shortest) == 16
    client.send(shortest, PING)
    assert server.take(16) == shortest
    assert server.frame().raw == PING
    server.send(shortest, OK)
    assert client.take(16 + len(OK)) == shortest + OK


@pytest.mark.parametrize("length", [1, 15, 16, 20, 21, 40, len(PING) - 1])
def test_a_frame_that_ends_early_is_passed_on_or_dropped_but_never_completed(session, length):
    client, server = session
    client.send(PING, PING[:length])
    client.finish()
    received, how = server.rest()
    assert how == "closed"
    assert received.startswith(PING)
    assert (PING + PING[:length]).startswith(received)


@pytest.mark.parametrize("length", [1, 15, 16, 20, 21, 40, len(FIND) - 1])
def test_a_ruled_frame_that_ends_early_never_reaches_the_server(session, length):
    client, server = session
    client.send(FIND[:length])
    client.finish()
    assert server.rest() == (b"", "closed")


@pytest.mark.parametrize("length", [1, 15, 16, 20, 40, len(OK) - 1])
def test_a_reply_that_ends_early_is_not_completed(session, length):
    client, server = session
    client.send(PING)
    server.frame()
    server.send(OK[:length])
    server.finish()
    received, how = client.rest()
    assert how == "closed"
    assert OK.startswith(received)


def test_a_claim_of_the_longest_message_is_not_answered_with_memory(relay, session):
    client, server = session
    before = relay.private_memory()
    others = [relay.connect() for _ in range(20)]
    for near, _ in [session, *others]:
        send_apart(near.socket, (struct.pack("<iiii", frames.LONGEST, 1, 0, frames.OP_MSG), b"\0\0\0\0\1"))
    for _, far in others:  # the server asks nobody who he is
        far.answer_each(1)
    assert relay.private_memory() - before < 4 << 20
    for near, far in others:
        near.close()
        assert far.rest()[1]
