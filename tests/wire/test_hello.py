"""hello is forwarded: of its reply only addresses change, of the request only compressors we can't read."""

import struct

import pytest

from support import exact, frames
from support.frames import CHECKSUM_PRESENT, EXHAUST_ALLOWED, MORE_TO_COME, message
from support.peer import HELLO, FakeServer, Relay
from support.receive_queue import send_apart
from wire.conftest import RULES

FIRST, SECOND, GONE = "db-a.example:27017", "DB-B.example:27017", "db-c.example:27017"
SET = {"setName": "rs0", "hosts": [FIRST, SECOND], "me": FIRST, "primary": FIRST}
VERSION = {"processId": exact.Raw(exact.OBJECT_ID, bytes(range(12))),
           "counter": exact.Raw(exact.INT64, bytes(8))}
SPECULATIVE = {"conversationId": 1, "done": False, "payload": b"r=abc\0\xff,s=hosts,i=15000"}
REQUEST = {
    "hello": 1, "helloOk": True, "client": {"driver": {"name": "hosts", "version": "me"}},
    "compression": ["snappy", "zlib", "zstd"], "saslSupportedMechs": "admin.me",
    "speculativeAuthenticate": {"saslStart": 1, "mechanism": "SCRAM-SHA-256", "payload": b"n,,n=me\0\xfe",
                                "db": "admin"},
    "$db": "admin",
}


@pytest.fixture(scope="module")
def relay():
    """Two members; each is known by what it calls itself, which is not its address."""
    with FakeServer({**HELLO, **SET, "me": SECOND}) as other:
        with Relay(RULES, hello={**HELLO, **SET}, others=[other]) as made:
            yield made


@pytest.fixture
def names(relay):
    first, second = (f"127.0.0.1:{port}" for port in relay.spillway.ports)
    return {FIRST: first, SECOND: second}


def reply_of(first, second, gone=()):
    """A member's reply in which the addresses are these, with every field that must stay."""
    return [
        ("topologyVersion", VERSION), ("hosts", [first, *gone, second]), ("setName", "rs0"),
        ("setVersion", 5), ("isWritablePrimary", True), ("secondary", False), ("passives", [*gone, second]),
        ("arbiters", list(gone)), *([("primary", first)] if first else []), ("me", first),
        ("tags", {"hosts": FIRST}), ("electionId", exact.Raw(exact.OBJECT_ID, bytes(12))),
        ("lastWrite", {"opTime": {"t": 1}, "me": SECOND}), ("maxBsonObjectSize", 16777216),
        ("compression", ["snappy"]), ("speculativeAuthenticate", SPECULATIVE), ("ok", 1.0),
        ("$clusterTime", {"signature": {"hash": bytes(20), "primary": FIRST}}),
    ]


def theirs():
    return reply_of(FIRST, SECOND, [GONE])


def ours(names):
    return frames.document(reply_of(names[FIRST], names[SECOND]))


@pytest.mark.parametrize("name", ["hello", "isMaster", "ismaster"])
@pytest.mark.parametrize("checksum", [0, CHECKSUM_PRESENT])
def test_addresses_become_spillways_and_nothing_else_changes(session, names, name, checksum):
    client, server = session
    request = message({name: 1, **dict(list(REQUEST.items())[1:])}, (), 5, flags=checksum)
    client.send(request)
    assert server.take(len(request)) == request
    server.send(message(theirs(), (), 70, 5, flags=checksum))
    assert client.frame().raw == message(ours(names), (), 70, 5)


@pytest.mark.parametrize("namespace", ["admin.$cmd", "shop.$cmd"])
@pytest.mark.parametrize("wrapper", [None, "$query", "query"])
def test_op_query_gets_op_reply(session, names, namespace, wrapper):
    client, server = session
    body = {**REQUEST, "hello": 1}
    body = {wrapper: body, "$readPreference": {"mode": "nearest"}} if wrapper else body
    request = frames.query(namespace, body, 6, flags=4)
    client.send(request)
    assert server.take(len(request)) == request
    server.send(frames.reply(theirs(), 6))
    reply = client.frame()
    assert (reply.opcode, reply.response_to, reply.body) == (frames.OP_REPLY, 6, ours(names))
    assert reply.payload[:4] == struct.pack("<i", 8)


@pytest.mark.parametrize("packer", frames.PACKERS)
def test_a_compressed_reply_stays_compressed(session, names, packer):
    client, server = session
    request = frames.compressed(message(REQUEST, (), 5), packer)
    client.send(request)
    assert server.take(len(request)) == request
    server.send(frames.compressed(message(theirs(), (), 70, 5), packer))
    reply = client.frame()
    assert (reply.compressor, reply.request_id, reply.response_to) == (packer, 70, 5)
    assert reply.body == ours(names)


def test_a_reply_without_addresses_passes_as_it_is(session):
    client, server = session
    failed = {"ok": 0.0, "code": 18, "errmsg": f"hosts {FIRST}"}
    for body in (HELLO, failed, {"hosts": FIRST, "me": 5, "ok": 1.0}):
        client.send(message(REQUEST, (), 5))
        server.frame()
        reply = message(body, (), 70, 5, flags=CHECKSUM_PRESENT)
        server.send(reply)
        assert client.take(len(reply)) == reply


def test_an_unknown_primary_is_not_named(session, names):
    client, server = session
    client.send(message(REQUEST, (), 5))
    server.frame()
    server.send(message([("primary", GONE), ("me", FIRST), ("ok", 1.0)], (), 70, 5))
    assert client.frame().body == frames.document([("me", names[FIRST]), ("ok", 1.0)])


AWAITED = {"hello": 1, "topologyVersion": VERSION, "maxAwaitTimeMS": 10000, "$db": "admin"}


def test_an_awaited_reply_comes_late_and_edited(session, names):
    client, server = session
    client.send(message(AWAITED, (), 8))
    server.frame()
    send_apart(server.socket, [message(theirs(), (), 71, 8)[:-1], b"\0"])
    assert client.frame().raw == message(ours(names), (), 71, 8)


def streamed(body, count, asked):
    """Replies that chain: each answers the one before it, the last announces no more."""
    previous = asked
    for number in range(count):
        yield message(body, (), 500 + number, previous, flags=MORE_TO_COME if number < count - 1 else 0)
        previous = 500 + number


@pytest.mark.parametrize("apart", [False, True])
def test_every_streamed_reply_is_edited(session, names, apart):
    client, server = session
    request = message(AWAITED, (), 8, flags=EXHAUST_ALLOWED)
    client.send(request)
    assert server.take(len(request)) == request
    data = b"".join(streamed(theirs(), 5, 8))
    send_apart(server.socket, (bytes([byte]) for byte in data) if apart else [data])
    for expected in streamed(ours(names), 5, 8):
        assert client.take(len(expected)) == expected
    after = message({"find": "plain", "$db": "shop"}, (), 9)
    client.send(after)
    assert server.take(len(after)) == after
    reply = message(theirs(), (), 600, 9)
    server.send(reply)
    assert client.take(len(reply)) == reply


def test_a_stream_that_ends_with_an_error_is_over(session):
    client, server = session
    client.send(message(AWAITED, (), 8, flags=EXHAUST_ALLOWED))
    server.frame()
    error = message({"ok": 0.0, "code": 11600}, (), 500, 8)
    server.send(error)
    assert client.take(len(error)) == error
    # Nothing that the server could be asked to explain first.
    refused = message({"mapReduce": "books", "$db": "shop"}, (), 9)
    assert client.ask(refused).response_to == 9


def test_pipelined_hellos_are_each_edited(session, names):
    client, server = session
    client.send(*(message(REQUEST, (), number) for number in range(20)))
    for number in range(20):
        server.answer(server.frame(), theirs(), request_id=100 + number)
    for number in range(20):
        expected = message(ours(names), (), 100 + number, number)
        assert client.take(len(expected)) == expected


@pytest.mark.parametrize("offered, passed", [
    (["snappy", "zlib", "zstd", "noop"], None), ([], None),
    (["lz4"], []), (["lz4", "zlib", "brotli", "snappy"], ["zlib", "snappy"]),
])
@pytest.mark.parametrize("form", ["message", "checksum", "query", "wrapped"])
def test_only_compressors_that_can_be_read_are_offered(session, offered, passed, form):
    client, server = session

    def request(compressors, flags):
        body = {**REQUEST, "compression": compressors}
        if form in ("message", "checksum"):
            return message(body, (), 5, flags=flags)
        wrapped = {"$query": body, "$readPreference": {}} if form == "wrapped" else body
        return frames.query("admin.$cmd", wrapped, 5)

    flags = CHECKSUM_PRESENT if form == "checksum" else 0
    expected = request(offered, flags) if passed is None else request(passed, 0)
    client.send(request(offered, flags))
    assert server.take(len(expected)) == expected


def test_a_hello_with_a_sequence_is_no_way_around(session):
    """mongod takes a sequence for a field of the body."""
    client, server = session
    request = message({"hello": 1, "$db": "admin"}, [("compression", [{"x": "lz4"}])], 5)
    client.send(request)
    assert server.take(len(request)) == request


def test_a_broken_reply_to_hello_ends_the_session(session):
    client, server = session
    client.send(message(REQUEST, (), 5))
    server.frame()
    server.send(frames.frame(frames.OP_MSG, bytes(5) + b"\xff" * 30, 70, 5))
    assert client.rest()[0] == b""


def test_a_member_without_a_listener_ends_the_start():
    hello = {**HELLO, **SET, "hosts": [FIRST, SECOND]}
    with FakeServer(hello) as server:
        relay = Relay(RULES, hello=hello)
        relay.server = server
        relay.spillway.settings["upstream"]["uri"] = server.uri
        relay.spillway.settings["listen"][0]["server"] = server.address
        try:
            relay.spillway.start(ready=False)
            assert relay.spillway.process.wait(60) == 1
            assert relay.spillway.says(SECOND)
        finally:
            relay.spillway.__exit__()


def test_advertise_is_what_clients_are_told():
    with Relay(RULES, hello={**HELLO, **SET, "hosts": [FIRST]}, advertise="spillway.example:7") as relay:
        client, server = relay.connect()
        client.send(message(REQUEST, (), 5))
        server.frame()
        server.send(message([("hosts", [FIRST]), ("me", FIRST)], (), 70, 5))
        advertised = [("hosts", ["spillway.example:7"]), ("me", "spillway.example:7")]
        assert client.frame().body == frames.document(advertised)
