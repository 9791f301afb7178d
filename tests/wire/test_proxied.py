"""The PROXY protocol: load balancers that are listed say where a client comes from, others may not."""

import socket
import struct

import pytest

from support import peer
from support.frames import message
from support.peer import CLOSED, Relay
from support.process import wait_for
from support.receive_queue import send_apart
from wire.conftest import RULES

PING = message({"ping": 1, "$db": "admin"}, (), 5)
OK = message({"ok": 1.0}, (), 9, 5)
SIGNATURE = b"\r\n\r\n\0\r\nQUIT\n"


def second(command, family, rest):
    return SIGNATURE + bytes([command, family]) + struct.pack(">H", len(rest)) + rest


def four(host, port=4242, more=b""):
    addresses = socket.inet_aton(host) + socket.inet_aton("10.0.0.9")
    return second(0x21, 0x11, addresses + struct.pack(">HH", port, 1) + more)


HEADERS = {
    "1": (b"PROXY TCP4 192.0.2.7 10.0.0.9 4242 27017\r\n", "192.0.2.7:4242"),
    "1, IPv6": (b"PROXY TCP6 2001:db8::7 2001:db8::9 4242 27017\r\n", "[2001:db8::7]:4242"),
    "1, unknown": (b"PROXY UNKNOWN\r\n", None),
    "2": (four("192.0.2.7"), "192.0.2.7:4242"),
    "2, with more": (four("192.0.2.7", 4242, b"\x04\0\x02ab"), "192.0.2.7:4242"),
    "2, IPv6": (second(0x21, 0x21, socket.inet_pton(socket.AF_INET6, "2001:db8::7") + bytes(16)
                       + struct.pack(">HH", 4242, 1)), "[2001:db8::7]:4242"),
    "2, local": (second(0x20, 0, b""), None),
}


def make(more=None, sources=("127.0.0.1",)):
    relay = Relay(RULES, {"limits": {"handshake": "10m", **(more or {})}})
    relay.spillway.settings["listen"][0]["proxy_protocol_from"] = list(sources)
    return relay


@pytest.fixture(scope="module")
def relay():
    with make() as made:
        yield made


def works(relay, client):
    server = relay.server.accept()
    assert server.take(len(PING)) == PING
    server.send(OK)
    assert client.take(len(OK)) == OK


@pytest.mark.parametrize("name", HEADERS)
def test_the_header_does_not_go_on(relay, name):
    client = relay.client()
    client.send(HEADERS[name][0], PING)
    works(relay, client)


@pytest.mark.parametrize("name", HEADERS)
def test_the_header_may_come_byte_by_byte(relay, name):
    client = relay.client()
    send_apart(client.socket, (bytes([byte]) for byte in HEADERS[name][0] + PING))
    works(relay, client)


@pytest.mark.parametrize("name", HEADERS)
def test_its_source_stands_in_the_log(name):
    with make() as relay:
        client = relay.client()
        client.send(HEADERS[name][0], b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert client.rest()[0] == b""
        source = HEADERS[name][1] or f"127.0.0.1:{client.socket.getsockname()[1]}"
        assert f"connection from {source} speaks HTTP" in relay.spillway.said()


@pytest.mark.parametrize("start", [PING, b"GET / HTTP/1.1\r\n\r\n", b"PROXY TCP4 1.2.3.4\r\n" + PING,
                                   SIGNATURE + b"\x31\x11\0\0" + PING, b"PROXY UNKNOWN" + bytes(200)])
def test_who_is_listed_must_send_a_header(relay, start):
    client = relay.client()
    client.send(start)
    assert client.rest()[0] == b""
    assert "does not begin with a header of the PROXY protocol" in relay.spillway.said()


@pytest.mark.parametrize("sent", [b"", b"PROXY TCP4 192.0.2.7", SIGNATURE])
def test_the_header_has_the_handshakes_deadline(sent):
    with make({"handshake": "300ms"}) as relay:
        client = relay.client()
        client.send(sent)
        assert client.rest() == (b"", CLOSED)
        assert "no request within limits.handshake" in relay.spillway.said()


def test_a_client_that_goes_within_its_header_is_forgotten():
    with make() as relay:
        for sent in (b"", b"PROXY TCP4", SIGNATURE + b"\x21"):
            client = relay.client()
            client.send(sent)
            client.close()
        wait_for(lambda: relay.spillway.metrics()["spillway_connections_closed_total"] == 3, "all to be gone")


def test_sources_are_counted_and_not_the_load_balancer():
    with make({"connections_per_address": 1}) as relay:
        first, other, again = (relay.client() for _ in range(3))
        for client, host in ((first, "192.0.2.1"), (other, "192.0.2.2")):
            client.send(four(host), PING)
            works(relay, client)
        again.send(four("192.0.2.1"), PING)
        assert "limits.connections_per_address" in again.frame().plain()["errmsg"]


def test_who_is_not_listed_sends_no_header():
    with make(sources=["10.0.0.0/8", "127.0.0.2", "::1"]) as relay:
        client = relay.client()
        client.send(PING)
        works(relay, client)
        client = relay.client()
        client.send(HEADERS["1"][0], PING)
        assert client.rest()[0] == b""
        assert "is not listed in 'proxy_protocol_from'" in relay.spillway.said()
        relay.server.accept()
        listed = peer.End(socket.create_connection(("127.0.0.1", relay.spillway.port), 60, ("127.0.0.2", 0)))
        listed.send(HEADERS["2"][0], PING)
        works(relay, listed)
        listed.close()
