"""What no rule concerns comes out as it went in, byte for byte, both ways, however it is cut."""

import itertools
import select
import struct
import threading

import pytest

from support import frames
from support.frames import CHECKSUM_PRESENT, EXHAUST_ALLOWED, MORE_TO_COME, message
from support.peer import Relay
from support.receive_queue import send_apart
from wire.conftest import RULES

pytestmark = pytest.mark.share(1)
PLAIN = {"$db": "shop"}
ONE, TWO = [{"_id": 1, "text": "x" * 30}], [{"_id": number} for number in range(4)]
OK = {"ok": 1.0, "n": 1}


def find(collection="plain", **more):
    return {"find": collection, "filter": {"a": 1}, **more, **PLAIN}


def broken_checksum(data):
    return data[:-1] + bytes([data[-1] ^ 0xFF])


def exhaust_replies(request_id, count):
    """Each answers the one before it, as a streaming server's do."""
    previous, out = request_id, []
    for number in range(count):
        last = number == count - 1
        body = {"cursor": {"id": 7, "ns": "shop.plain", "nextBatch": TWO}, "ok": 1.0}
        out.append(message(body, request_id=9000 + number, response_to=previous,
                           flags=0 if last else MORE_TO_COME))
        previous = 9000 + number
    return b"".join(out)


def legacy(opcode, namespace, rest=b""):
    return frames.frame(opcode, bytes(4) + namespace.encode() + b"\0" + rest, 21)


INSERT = {"insert": "plain", "ordered": True, **PLAIN}
W0 = {**INSERT, "writeConcern": {"w": 0}}
BULK = {"bulkWrite": 1, "$db": "admin"}
BULK_PARTS = [("ops", [{"insert": 0, "document": {"_id": 1}}]), ("nsInfo", [{"ns": "shop.plain"}])]
GET_MORE = {"getMore": 7, "collection": "plain", **PLAIN}

# name: (what the client sends, what the server sends)
SESSIONS = {
    "body first": (message(INSERT, [("documents", ONE)], 3), message(OK, (), 77, 3)),
    "sequence first": (message(INSERT, [("documents", TWO)], 3, sequence_first=True),
                       message(OK, (), 77, 3)),
    "two sequences": (message(BULK, BULK_PARTS, 4), message(OK, (), 78, 4)),
    "two sequences first": (message(BULK, BULK_PARTS, 4, sequence_first=True),
                            message(OK, (), 78, 4)),
    "collection of a rule in another database": (
        message({"find": "books", "filter": {"buyers": 1}, "$db": "other"}, (), 5),
        message(OK, (), 79, 5)),
    "checksum": (message(find(), (), 6, flags=CHECKSUM_PRESENT),
                 message(OK, (), 80, 6, flags=CHECKSUM_PRESENT)),
    "wrong checksum": (broken_checksum(message(find(), (), 6, flags=CHECKSUM_PRESENT)),
                       broken_checksum(message(OK, (), 80, 6, flags=CHECKSUM_PRESENT))),
    "checksum behind a sequence": (
        message(INSERT, [("documents", ONE)], 6, flags=CHECKSUM_PRESENT, sequence_first=True),
        message(OK, (), 80, 6)),
    "w:0, then a request": (
        b"".join(message(W0, [("documents", ONE)], number, flags=MORE_TO_COME)
                 for number in range(30, 35)) + message(find(), (), 36),
        message(OK, (), 81, 36)),
    "exhaust cursor, then a request": (
        message(GET_MORE, (), 7, flags=EXHAUST_ALLOWED) + message(find(), (), 8),
        exhaust_replies(7, 6) + message(OK, (), 82, 8)),
    "a server that does not stream though it may": (
        message(GET_MORE, (), 7, flags=EXHAUST_ALLOWED) + message(find(), (), 8),
        exhaust_replies(7, 1) + message(OK, (), 82, 8)),
    "replies of unknown opcodes": (
        message(find(), (), 2), frames.frame(2011, b"answer", 1, 2) + frames.frame(4711, b"", 0, 0)),
    "legacy opcodes": (
        message(find(), (), 20) + legacy(frames.OP_INSERT, "shop.plain", frames.document({"_id": 1}))
        + legacy(frames.OP_UPDATE, "shop.plain", bytes(4) + frames.document({}) * 2)
        + legacy(frames.OP_DELETE, "shop.plain", bytes(4) + frames.document({}))
        + legacy(frames.OP_GET_MORE, "shop.plain", bytes(12))
        + legacy(frames.OP_KILL_CURSORS, "", bytes(8))
        + frames.query("shop.plain", {"a": 1}, 22) + frames.query("shop.$cmd", {"ping": 1}, 23),
        message(OK, (), 89, 20) + frames.reply({"a": 1}, 21, 90) + frames.reply({"a": 1}, 22, 91)
        + frames.reply(OK, 23, 92)),
    "OP_MSG that can't be read": (
        frames.frame(frames.OP_MSG, b"", 1) + frames.frame(frames.OP_MSG, bytes(4), 2)
        + frames.frame(frames.OP_MSG, bytes(5) + b"\xff" * 40, 5),
        message({"ok": 0.0, "code": 223}, (), 93, 5)),
    "odd ids": (
        message(find(), (), -1, -1) + message(find(), (), 0, 7) + message(find(), (), -1)
        + message(find(), (), -2**31) + message(find(), (), 0x5B000000),
        b"".join(message(OK, (), 5, number) for number in (-1, 0, -1, -2**31, 0x5B000000))),
    "replies that answer nothing": (
        message(find(), (), 1), message(OK, (), 50, 99) + message(OK, (), 51, 1) + message(OK, (), 52, 1)),
    **{
        f"compressed by {packer}": (
            frames.compressed(message(INSERT, [("documents", TWO)], 40), packer)
            + frames.compressed(message(INSERT, [("documents", ONE)], 41, sequence_first=True), packer)
            + frames.compressed(message(W0, [("documents", ONE)], 42, flags=MORE_TO_COME), packer)
            + frames.compressed(frames.query("shop.plain", {}, 43), packer)
            + message(find(), (), 44),
            frames.compressed(message(OK, (), 60, 40), packer) + message(OK, (), 61, 41)
            + frames.compressed(frames.reply(OK, 43), packer) + message(OK, (), 62, 44))
        for packer in frames.PACKERS
    },
}


@pytest.fixture(scope="module", params=["no rules", "rules"])
def relay(request):
    with Relay(RULES if request.param == "rules" else ()) as made:
        yield made


def split(data):
    """The frames that the bytes consist of."""
    while data:
        size = frames.size_of(data)
        yield data[:size]
        data = data[size:]


def pass_whole(from_end, to_end, data):
    from_end.send(data)
    assert to_end.take(len(data)) == data


def pass_frame_by_frame(from_end, to_end, data):
    for each in split(data):
        pass_whole(from_end, to_end, each)


def pass_byte_by_byte(from_end, to_end, data):
    for each in split(data):
        send_apart(from_end.socket, (bytes([byte]) for byte in each))
        assert to_end.take(len(each)) == each


def end_both(client, server):
    """Nothing more may have come than what was looked at."""
    client.finish()
    assert server.rest() == (b"", "closed")
    server.finish()
    assert client.rest() == (b"", "closed")


def exchange(session, passing, requests, replies):
    client, server = session
    passing(client, server, requests)
    passing(server, client, replies)
    end_both(client, server)


@pytest.mark.parametrize("name", SESSIONS)
def test_bytes_pass_as_they_are(session, name):
    exchange(session, pass_whole, *SESSIONS[name])


@pytest.mark.parametrize("passing", [pass_whole, pass_frame_by_frame, pass_byte_by_byte])
def test_a_session_of_everything_passes(session, passing):
    exchange(session, passing, *map(b"".join, zip(*SESSIONS.values())))


@pytest.mark.parametrize("offset", range(1, 30))
def test_a_split_within_a_later_header_changes_nothing(session, offset):
    client, server = session
    requests, replies = (data + data for data in SESSIONS["body first"])
    for from_end, to_end, data in ((client, server, requests), (server, client, replies)):
        at = frames.size_of(data) + offset
        send_apart(from_end.socket, (data[:at], data[at:]))
        assert to_end.take(len(data)) == data


@pytest.mark.parametrize("count", [2, 1000])
def test_pipelined_requests_keep_their_order(session, count):
    client, server = session
    client.send(*(message(find(), (), number) for number in range(count)))
    assert [each.request_id for each in server.answer_each(count)] == list(range(count))
    assert [client.frame().response_to for _ in range(count)] == list(range(count))


def take_until_stuck(server, least):
    """All that comes as long as nothing is answered; so many bytes have to."""
    seen = bytearray(server.take(least))
    while select.select([server.socket], [], [], 0.5)[0]:
        seen += server.socket.recv(1 << 20)
    return seen


def test_thousands_of_requests_may_wait_for_the_first_reply(session):
    """Some thousand pass; what is owed for the rest would have to be kept in mind."""
    client, server = session
    count = 20_000
    data = b"".join(message(find(), (), number) for number in range(count))
    size = len(data) // count
    writer = threading.Thread(target=client.send, args=(data,))
    writer.start()
    seen = take_until_stuck(server, 1000 * size)
    assert len(seen) // size <= 3000
    for end in range(size, len(data) + 1, size):
        seen += server.take(max(end - len(seen), 0))
        server.answer(frames.Frame(seen[end - size:end]), OK)
    writer.join()
    assert seen == data
    assert [client.frame().response_to for _ in range(count)] == list(range(count))


def test_the_largest_message_passes_and_leaves_the_session_as_it_was(session):
    client, server = session
    head = message(INSERT, (), 1)
    sequence = b"\1" + struct.pack("<i", frames.LONGEST - len(head) - 1) + b"documents\0"
    padding = bytes(itertools.islice(itertools.cycle(range(251)), 1 << 20))
    longest = struct.pack("<i", frames.LONGEST) + head[4:] + sequence
    longest += (padding * 46)[:frames.LONGEST - len(longest)]
    for from_end, to_end in ((client, server), (server, client)):
        writer = threading.Thread(target=from_end.send, args=(longest,))
        writer.start()
        assert to_end.take(len(longest)) == longest
        writer.join()
    client.send(message(find(), (), 5))
    server.answer_each(1)
    assert client.frame().response_to == 5
