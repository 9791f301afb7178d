"""With TLS a long message is sealed in many turns of the loop: what stands behind it waits, and nothing is lost."""

import functools
import os
import select
import signal
import threading

import pytest

from support import exact, frames
from support.frames import message
from support.openssl import TLS_1_3, Client
from support.process import wait_for
from support.secured import SIDES, SecuredRelay
from wire.conftest import RULES
from wire.test_tls_streams import FIND, OK, PING, farewell

pytestmark = pytest.mark.share(1)
ZERO = exact.Raw(exact.INT64, bytes(8))
LIMITS = {"handshake": "10m", "drain": "30s", "memory": "1GB"}
MANY = 100


@functools.cache
def reply(request_id=7):
    found = [{"_id": i, "text": "x" * 1_000_000} for i in range(15)]
    return message({"cursor": {"firstBatch": found, "id": ZERO, "ns": "shop.books"}, "ok": 1.0}, (), 9, request_id)


@functools.cache
def packed():
    """Spillway reads it whole, and then has nothing to do with it."""
    documents = [{"_id": i, "noise": os.urandom(4_000_000)} for i in range(8)]
    return frames.compressed(message({"insert": "plain", "$db": "shop"}, [("documents", documents)], 6), "snappy")


@pytest.fixture(scope="module", params=SIDES)
def relay(request):
    with SecuredRelay(request.param, RULES, {"limits": LIMITS}) as made:
        yield made


def long_reply_begins(client, server):
    """The server has said all; the client has read nothing of it yet."""
    client.send(FIND)
    assert server.take(len(FIND)) == FIND
    sender = threading.Thread(target=server.send, args=(reply(),), daemon=True)
    sender.start()
    assert select.select([client.socket], [], [], 60)[0], "the reply begins"
    sender.join()


def test_a_long_request_those_behind_it_and_the_clients_end_stay_in_order(session):
    client, server = session
    sent = packed() + PING * MANY

    def send():
        client.send(sent)
        if hasattr(client, "say_farewell"):
            client.say_farewell()
        client.finish()

    sender = threading.Thread(target=send, daemon=True)
    sender.start()
    assert server.take(len(sent)) == sent
    assert server.rest() == (b"", "closed")
    assert farewell(server)
    sender.join()
    server.send(message({"ok": 1.0}, (), 9, 6), OK * MANY)
    server.finish()
    assert client.rest() == (message({"ok": 1.0}, (), 9, 6) + OK * MANY, "closed")


def test_a_long_reply_comes_whole_before_the_servers_end(session):
    client, server = session
    long_reply_begins(client, server)
    server.finish()
    assert client.rest() == (reply(), "closed")
    assert farewell(client)


def test_a_client_that_goes_before_it_has_a_long_reply_takes_nobody_along(relay):
    gone = [relay.connect_known() for _ in range(3)]
    for client, server in gone:
        long_reply_begins(client, server)
    client, server = relay.connect_known()
    before = relay.spillway.metrics()["spillway_connections_closed_total"]
    for each, behind in gone:
        each.reset()
        assert behind.rest()[0] == b""
        behind.close()
    wait_for(lambda: relay.spillway.metrics()["spillway_connections_closed_total"] >= before + len(gone),
             "the connections to be closed")
    long_reply_begins(client, server)
    assert client.take(len(reply())) == reply()


def test_new_keys_within_a_long_reply_change_no_byte():
    with SecuredRelay("client", RULES, {"limits": LIMITS}) as relay:
        client = relay.raw()
        with Client(client.socket, TLS_1_3) as tls:
            server = relay.server.accept()
            tls.write(FIND)
            tls.flush()
            assert server.take(len(FIND)) == FIND
            server.send(reply())
            server.finish()
            for part in range(0, len(reply()), 1_000_000):
                tls.update_keys()
                tls.flush()
                size = min(1_000_000, len(reply()) - part)
                assert tls.take(size) == reply()[part:part + size]


def test_a_drain_waits_for_who_reads_a_long_reply():
    with SecuredRelay("both", RULES, {"limits": LIMITS}) as relay:
        client, server = relay.connect_known()
        long_reply_begins(client, server)
        relay.spillway.process.send_signal(signal.SIGTERM)
        relay.spillway.says("draining")
        assert client.rest() == (reply(), "closed")
        assert farewell(client)
        assert relay.spillway.process.wait(60) == 0


@pytest.mark.parametrize("side", SIDES)
def test_what_a_server_has_not_taken_counts_as_memory(side):
    """As long as it does, others get none."""
    push = {"q": {"_id": 1}, "u": {"$push": {"buyers": bytes(40_000_000)}}}
    request = message({"update": "books", "$db": "shop"}, [("updates", [push])], 7)
    with SecuredRelay(side, RULES, {"workers": 1, "limits": {**LIMITS, "memory": "64MB"}}) as relay:
        slow, behind = relay.connect_known()
        other, server = relay.connect_known()

        def is_served():
            sender = threading.Thread(target=other.send, args=(request,), daemon=True)
            sender.start()
            served = select.select([other.socket, server.socket], [], [], 60)[0] == [server.socket]
            if served:
                server.answer(server.frame(), {"n": 1, "ok": 1.0})
            assert other.frame().plain()["ok"] == float(served)
            sender.join()
            return served

        slow.send(packed())
        wait_for(lambda: not is_served(), "the memory to be short")
        assert behind.take(len(packed())) == packed()
        wait_for(is_served, "the memory to be free")
