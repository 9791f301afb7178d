"""TLS between scripted ends: bytes stay whole and in order, and ends, limits and drains are as without TLS."""

import contextlib
import os
import signal
import ssl
import threading

import pytest

from support import frames
from support.frames import message
from support.openssl import TLS_1_2, TLS_1_3, Client
from support.process import wait_for
from support.receive_queue import send_apart
from support.secured import SIDES, SecuredRelay
from wire.conftest import RULES

pytestmark = pytest.mark.share(1)
PING = message({"ping": 1, "$db": "admin"}, (), 5)
OK = message({"ok": 1.0}, (), 9, 5)
FIND = message({"find": "books", "filter": {}, "$db": "shop"}, (), 7)
GENERATION = bytes(range(16))
VERSIONS = [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]


def spilled(count):
    return {"_id": 1, "buyers": [1], "_spill": {"buyers": {"g": GENERATION, "h": 1, "n": count}}}


def found(document):
    return {"cursor": {"firstBatch": [document], "id": 0, "ns": "shop.x"}, "ok": 1.0}


@pytest.fixture(scope="module", params=SIDES)
def relay(request):
    with SecuredRelay(request.param, RULES) as made:
        yield made


@pytest.fixture(scope="module")
def facing():
    """With TLS to clients only, and without rules: for clients that are no good."""
    with SecuredRelay("client") as made:
        yield made


def passes(client, server, count=1):
    for _ in range(count):
        client.send(PING)
        assert server.take(len(PING)) == PING
        server.send(OK)
        assert client.take(len(OK)) == OK


def closed(relay):
    return relay.spillway.metrics()["spillway_connections_closed_total"]


def descriptors(relay):
    return len(os.listdir(f"/proc/{relay.spillway.pid}/fd"))


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("side", SIDES)
def test_sealed_bytes_may_come_one_by_one(side, version):
    """The handshake, too."""
    with SecuredRelay(side, RULES, version=version) as relay:
        relay.server.piece = 1
        client = relay.client(*([1] if relay.seen else []))
        server = relay.server.accept()
        passes(client, server, 3)
        for end in (client, server):
            if hasattr(end, "seal"):
                sealed = end.seal(PING if end is client else OK)
                send_apart(end.socket, [sealed[at:at + 1] for at in range(len(sealed))])
            else:
                end.send(PING if end is client else OK)
        assert server.take(len(PING)) == PING
        assert client.take(len(OK)) == OK


def test_a_thousand_messages_at_once_stay_in_order(session):
    client, server = session
    requests = [message({"ping": number, "$db": "admin"}, (), number) for number in range(1000)]
    replies = [message({"ok": 1.0, "number": number}, (), 9, number) for number in range(1000)]
    writer = threading.Thread(target=client.send, args=requests, daemon=True)
    writer.start()
    assert server.take(sum(map(len, requests))) == b"".join(requests)
    writer.join()
    writer = threading.Thread(target=server.send, args=replies, daemon=True)
    writer.start()
    assert client.take(sum(map(len, replies))) == b"".join(replies)
    writer.join()


def test_messages_of_any_length_pass(session):
    client, server = session
    for size in (100, 16300, 16384, 16390, 65530, 65536, 65600, 1 << 20, (1 << 22) + 1):
        request = message({"find": "plain", "comment": "x" * (size - 80), "$db": "shop"}, (), 5)
        reply = message({"ok": 1.0, "text": "y" * size}, (), 9, 5)
        writer = threading.Thread(target=client.send, args=(request,), daemon=True)
        writer.start()
        assert server.take(len(request)) == request
        writer.join()
        writer = threading.Thread(target=server.send, args=(reply,), daemon=True)
        writer.start()
        assert client.take(len(reply)) == reply
        writer.join()


@pytest.mark.parametrize("size", [10, 50_000])
def test_a_reply_is_merged(session, size):
    """The larger one goes out in many records."""
    client, server = session
    tail = [f"{number}" + "x" * size for number in range(60)]
    client.send(FIND)
    server.answer(server.frame(), found(spilled(len(tail))))
    request = server.frame()
    batch = {"book": 1, "part": tail, "_spill": {"g": GENERATION, "p": 0}}
    writer = threading.Thread(target=server.answer, args=(request, found(batch)), daemon=True)
    writer.start()
    document, = client.frame().plain()["cursor"]["firstBatch"]
    assert document == {"_id": 1, "buyers": [1, *tail]}
    writer.join()


def test_what_comes_with_the_handshakes_last_flight_is_served(relay):
    """A client may send its first request before it has seen that the handshake is over."""
    if not relay.seen:
        client = relay.client()
        client.send(PING)
    else:
        client = relay.raw()
        tls, come = ask_at_once(client, relay.seen, PING)
    server = relay.server.accept()
    assert server.take(len(PING)) == PING
    server.send(OK)
    if relay.seen:
        while True:
            with contextlib.suppress(ssl.SSLWantReadError):
                assert tls.read(len(OK)) == OK
                break
            come.write(client.socket.recv(1 << 16))
    else:
        assert client.take(len(OK)) == OK


def ask_at_once(client, context, request):
    """Sends a request in one go with the handshake's last flight."""
    come, sent = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = context.wrap_bio(come, sent, server_hostname="127.0.0.1")
    while True:
        with contextlib.suppress(ssl.SSLWantReadError):
            tls.do_handshake()
            tls.write(request)
            client.send(sent.read())
            return tls, come
        client.send(sent.read())
        come.write(client.socket.recv(1 << 16))


def farewell(end):
    """Whether the end was told by TLS; without TLS there is nothing to tell."""
    return getattr(end, "farewell", True)


@pytest.mark.parametrize("how", ["close_notify", "FIN"])
def test_a_half_closed_client_still_gets_its_reply(session, how):
    client, server = session
    client.send(PING)
    if how == "close_notify" and hasattr(client, "say_farewell"):
        client.say_farewell()
    else:
        client.finish()
    assert server.take(len(PING)) == PING
    assert server.rest() == (b"", "closed")
    assert farewell(server)
    server.send(OK)
    server.finish()
    assert client.rest() == (OK, "closed")
    assert farewell(client)


def test_a_farewell_behind_a_request_that_waits_is_passed_on(session):
    """It comes in one go with the request, which stays packed until its turn has come."""
    client, server = session
    request = message({"insert": "plain", "documents": [{"text": "x" * 50_000}], "$db": "shop"}, (), 6)
    packed = frames.compressed(request, "zlib")
    if hasattr(client, "seal"):
        client.send_sealed(client.seal(PING) + client.seal(packed) + client.seal_farewell())
    else:
        client.send(PING, packed)
        client.finish()
    assert server.take(len(PING)) == PING
    server.send(OK)
    assert server.take(len(packed)) == packed
    assert server.rest() == (b"", "closed")
    server.finish()
    assert client.rest() == (OK, "closed")


def test_a_server_may_still_listen_after_it_said_no_more(session):
    client, server = session
    server.say_farewell() if hasattr(server, "say_farewell") else server.finish()
    assert client.rest() == (b"", "closed")
    assert farewell(client)
    client.send(PING)
    assert server.take(len(PING)) == PING


def test_an_end_within_a_record_ends_the_session(session):
    client, server = session
    if hasattr(client, "seal"):
        client.send_sealed(client.seal(PING)[:-1])
    client.finish()
    assert server.rest() == (b"", "closed")


def test_a_reset_is_passed_on_without_a_farewell(session):
    client, server = session
    passes(client, server)
    client.reset()
    assert server.rest() == (b"", "reset")
    assert not getattr(server, "farewell", False)


def test_a_reset_of_the_server_is_passed_on_without_a_farewell(session):
    client, server = session
    client.send(PING)
    assert server.take(len(PING)) == PING
    server.send(OK[:-3])
    assert client.take(len(OK) - 3) == OK[:-3]
    server.reset()
    assert client.rest() == (b"", "reset")
    assert not getattr(client, "farewell", False)


@pytest.mark.parametrize("who", ["client", "server"])
def test_a_broken_record_resets_both_connections(session, who):
    client, server = session
    passes(client, server)
    end, other = (client, server) if who == "client" else (server, client)
    if not hasattr(end, "seal"):
        end.reset()
    else:
        sealed = bytearray(end.seal(PING))
        sealed[-1] ^= 1
        end.send_sealed(bytes(sealed))
    assert other.rest() == (b"", "reset")


def test_a_clients_record_that_is_too_long_ends_it(facing):
    client, server = facing.connect()
    client.send_sealed(b"\x17\3\3\xff\xff" + bytes(100))
    assert server.rest() == (b"", "reset")


def test_plain_bytes_behind_the_handshake_go_nowhere(facing):
    client, server = facing.connect()
    client.send_sealed(PING)
    assert server.rest() == (b"", "reset")


def test_a_server_that_fails_behind_the_handshake_is_told_of():
    """As one that wants a certificate: with TLS 1.3 it says so when the client's handshake is over."""
    relay = SecuredRelay("server", RULES, version=ssl.TLSVersion.TLSv1_3)
    relay.server.context.num_tickets = 0  # no session of before is resumed, for which nobody asks a certificate
    with relay:
        relay.server.context.verify_mode = ssl.CERT_REQUIRED
        client = relay.client()
        with pytest.raises(ssl.SSLError):
            relay.server.accept()
        assert relay.spillway.says("TLS with server")
        assert "certificate required" in relay.spillway.said()
        assert client.rest()[0] == b""


@pytest.mark.parametrize("what", ["nothing", "half of a ClientHello", "a whole one"])
def test_a_client_that_stalls_in_the_handshake_ends(what):
    with SecuredRelay("client", more={"limits": {"handshake": "500ms", "drain": "5s"}}) as relay:
        come, sent = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = relay.seen.wrap_bio(come, sent, server_hostname="127.0.0.1")
        with pytest.raises(ssl.SSLWantReadError):
            tls.do_handshake()
        hello = sent.read()
        client = relay.raw()
        client.send(hello[:{"nothing": 0, "half of a ClientHello": len(hello) // 2}.get(what, len(hello))])
        assert client.rest()[1] == "closed"
        assert relay.spillway.says("no request within limits.handshake")


def test_a_server_that_stalls_in_the_handshake_ends():
    with SecuredRelay("server", more={"limits": {"handshake": "500ms", "drain": "5s"}}) as relay:
        client = relay.client()
        server = relay.server.accept(secured=False)
        assert server.take(1) == b"\x16"
        assert client.rest() == (b"", "closed")
        assert server.rest()[1] == "closed"
        relay.spillway.says("no TLS connection to server")
        assert "it does not answer within limits.handshake" in relay.spillway.said()
        assert "no request within" not in relay.spillway.said(), "that is not the client's fault"
        relay.server.accept(secured=False)  # whether clients reach the server at all
        relay.spillway.says("do not reach server")


def test_a_client_that_goes_in_the_handshake_leaves_nothing(facing):
    passes(*facing.connect())
    before, ended = descriptors(facing), closed(facing)
    for number in range(30):
        client = facing.raw()
        client.send(b"\x16\3\1\2\0\1\0"[:number % 8])
        client.reset() if number % 2 else client.close()
    wait_for(lambda: closed(facing) >= ended + 30, "the sessions to be gone")
    wait_for(lambda: descriptors(facing) < before + 10, "the descriptors to be closed")


def test_a_thousand_connections_of_garbage_leave_nothing(facing):
    passes(*facing.connect())
    before, ended = descriptors(facing), closed(facing)
    kinds = [b"GET / HTTP/1.1\r\n\r\n", PING, b"\x16\3\1\0\5\1\0\0\1\0", b"\x15\3\1\0\2\2\x28",
             b"\x16\3\1\xff\xff" + bytes(100), b"\x16\3\3\x40\0" + b"\1\0\x3f\xfc" + bytes(range(256)) * 64]
    for number in range(1000):
        client = facing.raw()
        with contextlib.suppress(ConnectionError):
            client.send(kinds[number % len(kinds)])
            client.finish()
            client.rest()
        client.close()
        facing.clients.remove(client)
    wait_for(lambda: closed(facing) >= ended + 1000, "the sessions to be gone")
    wait_for(lambda: descriptors(facing) < before + 10, "the descriptors to be closed")
    passes(*facing.connect())


def test_nobody_renegotiates():
    with SecuredRelay("client") as relay:
        client = relay.raw()
        with Client(client.socket, TLS_1_2) as tls:
            server = relay.server.accept()
            tls.write(PING)
            tls.flush()
            assert server.take(len(PING)) == PING
            tls.renegotiate()
            tls.flush()
            server.send(OK)
            assert client.socket.recv(1, 0)[:1] == b"\x15"  # an alert, and no ServerHello


def test_new_keys_change_no_byte(facing):
    client = facing.raw()
    with Client(client.socket, TLS_1_3) as tls:
        server = facing.server.accept()
        for _ in range(50):
            tls.update_keys()
            tls.write(PING)
            tls.flush()
            assert server.take(len(PING)) == PING
            server.send(OK)
            assert tls.take(len(OK)) == OK


@pytest.mark.parametrize("side", SIDES)
def test_a_drain_ends_the_idle_and_waits_for_the_busy(side):
    with SecuredRelay(side, RULES, {"limits": {"drain": "60s", "handshake": "10m"}}) as relay:
        idle, busy, shaking = relay.connect(), relay.connect(), relay.raw()
        passes(*idle)
        busy[0].send(PING)
        assert busy[1].take(len(PING)) == PING
        relay.spillway.process.send_signal(signal.SIGTERM)
        for end in (*idle, shaking):
            assert end.rest()[0] == b""
            assert farewell(end) or end is shaking
        busy[1].send(OK)
        assert busy[0].rest() == (OK, "closed")
        assert farewell(busy[0])
        assert busy[1].rest() == (b"", "closed")
        assert relay.spillway.process.wait(60) == 0


def test_the_deadline_of_a_drain_ends_the_rest():
    with SecuredRelay("both", RULES, {"limits": {"drain": "500ms", "handshake": "10m"}}) as relay:
        client, server = relay.connect()
        client.send(FIND)
        server.frame()
        relay.spillway.process.send_signal(signal.SIGTERM)
        assert client.rest()[0] == b""
        assert server.rest()[0] == b""
        assert relay.spillway.process.wait(60) == 0
