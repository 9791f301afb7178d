"""Whoever is no MongoDB client is closed before a byte of theirs reaches the server, counted and told of."""

import re
import struct

import pytest

from support import frames
from support.frames import message
from support.peer import Relay, agree
from support.process import wait_for
from wire.conftest import RULES

PING = message({"ping": 1, "$db": "admin"}, (), 5)
FIND = message({"find": "plain", "filter": {}, "$db": "shop"}, (), 6)
LEGACY = (frames.OP_UPDATE, frames.OP_INSERT, frames.OP_GET_MORE, frames.OP_DELETE, frames.OP_KILL_CURSORS)
KNOWN = (frames.OP_MSG, frames.OP_QUERY, frames.OP_COMPRESSED, *LEGACY)
UNKNOWN = (0, 1, 1000, 2003, 2008, 2010, 2011, 2014, 4711, -1, 2**31 - 1)


def client_hello(opcode, extra=b""):
    """A ClientHello whose random bytes look like an opcode to who reads a message's header."""
    return b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03\x77" + struct.pack("<i", opcode) + extra + bytes(range(200))


TLS = {
    "tls": client_hello(0x5A5A5A5A),
    # Its first message could be one that passes.
    "tls that looks like a message": client_hello(frames.OP_MSG, PING[16:]),
    "tls that looks like a legacy write": client_hello(frames.OP_INSERT, bytes(4) + b"a.b\0"),
    "tls in a short record": b"\x16\x03\x01\0\x80\x01\0\0\x7c\x03\x03" + bytes(range(120)),
}
HTTP = {"http": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", "http 2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"}
PROXIED = {
    "proxy protocol 1": b"PROXY TCP4 127.0.0.1 127.0.0.1 1 2\r\n",
    "proxy protocol 2": b"\r\n\r\n\0\r\nQUIT\n" + bytes(16),
}
OTHERS = {
    "zeros": bytes(64),
    "ones": b"\xff" * 64,
    "ssh": b"SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n",
    "a reply": frames.reply({"ok": 1}, 5),
    "a message that answers another": message({"ping": 1, "$db": "admin"}, (), 5, 9),
    **{f"opcode {opcode}": frames.frame(opcode, b"anything") for opcode in (*UNKNOWN, *LEGACY)},
    **{f"opcode {opcode}, empty": frames.frame(opcode) for opcode in (*UNKNOWN, *LEGACY)},
}
STRANGERS = {**TLS, **HTTP, **PROXIED, **OTHERS}


@pytest.fixture(scope="module", params=["no rules", "rules"])
def relay(request):
    with Relay(RULES if request.param == "rules" else ()) as made:
        yield made


@pytest.fixture
def session(relay):
    client, server = relay.connect()
    yield client, server
    client.close()
    server.close()


def counted(relay):
    metrics = relay.spillway.metrics()
    return metrics["spillway_connections_tls_total"], metrics["spillway_connections_strange_total"]


def ended(session, at_server=b""):
    """Both connections have ended; nothing went on but this, and nothing came back."""
    client, server = session
    assert server.rest()[0] == at_server
    assert client.rest()[0] == b""


@pytest.mark.parametrize("name", STRANGERS)
def test_nothing_of_a_strangers_goes_on(relay, session, name):
    tls, strange = counted(relay)
    session[0].send(STRANGERS[name], FIND)
    ended(session)
    assert counted(relay) == ((tls + 1, strange) if name in TLS else (tls, strange + 1))


@pytest.mark.parametrize("name", TLS)
def test_nothing_of_a_strangers_goes_on_byte_by_byte(session, name):
    client, _ = session
    for byte in TLS[name][:16]:
        client.send(bytes([byte]))
    ended(session)


@pytest.mark.parametrize("opcode", UNKNOWN)
@pytest.mark.parametrize("packer", [None, *frames.PACKERS])
def test_a_later_message_of_an_unknown_opcode_ends_the_session(relay, session, opcode, packer):
    client, server = session
    if packer:
        agree(client, server)
    client.send(FIND)
    server.answer(server.frame(), {"ok": 1.0})
    client.frame()
    _, strange = counted(relay)
    request = frames.frame(opcode, b"anything")
    client.send(frames.compressed(request, packer) if packer else request, FIND)
    ended(session)
    assert counted(relay)[1] == strange + 1


def test_a_message_behind_others_is_looked_at_too(session):
    client, _ = session
    client.send(FIND, FIND, frames.frame(4711, b"anything"), FIND)
    ended(session, FIND + FIND)


UNREADABLE = {
    "an insert": frames.frame(frames.OP_INSERT, b"\0\0\0\0no end"),
    "an update": frames.frame(frames.OP_UPDATE),
    "a query": frames.frame(frames.OP_QUERY, b"\0\0\0\0no end"),
    "a required flag": frames.frame(frames.OP_MSG, b"\x04\0\0\0\0" + frames.document({"find": "plain", "$db": "shop"})),
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_where_there_are_rules_what_mongod_closes_for_is_closed(name):
    with Relay(RULES) as relay:
        client, server = relay.connect()
        client.send(FIND)
        server.answer(server.frame(), {"ok": 1.0})
        client.frame()
        client.send(UNREADABLE[name])
        ended((client, server))


@pytest.mark.parametrize("kind", [2, 255])
def test_where_there_are_rules_a_section_that_nobody_knows_is_refused(kind):
    with Relay(RULES) as relay:
        client, server = relay.connect()
        body = frames.document({"find": "plain", "$db": "shop"})
        assert client.ask(frames.frame(frames.OP_MSG, bytes(4) + bytes([kind]) + body)).plain()["ok"] == 0.0
        client.finish()
        assert server.rest()[0] == b""


def test_a_stranger_that_is_refused_anyway_is_told_of_too():
    with Relay(RULES, {"limits": {"connections": 1, "handshake": "10m"}}) as relay:
        relay.connect()
        late = relay.client()
        late.send(TLS["tls"])
        assert late.rest()[0] == b""
        assert counted(relay) == (1, 0)


def test_strangers_are_logged_by_kind_and_not_each():
    said = {
        "tls": r"connection from 127\.0\.0\.1:\d+ speaks TLS, and this listener does not",
        "http": r"connection from 127\.0\.0\.1:\d+ speaks HTTP",
        "proxy protocol 1": r"connection from 127\.0\.0\.1:\d+ begins with a header of the PROXY protocol, but is",
        "zeros": r"connection from 127\.0\.0\.1:\d+ does not begin with a message of a MongoDB client",
    }
    with Relay(RULES, {"workers": 2}) as relay:
        for _ in range(20):
            for name in said:
                session = relay.connect()
                session[0].send(STRANGERS[name])
                ended(session)
        assert counted(relay) == (20, 60)
        for words in said.values():
            wait_for(lambda words=words: re.search(words, relay.spillway.said()), "a line of each kind")
        log = relay.spillway.said()
        for words in said.values():
            assert len(re.findall(words, log)) == 1, log
        _, page = relay.spillway.admin("/")
        assert "they speak TLS" in page
