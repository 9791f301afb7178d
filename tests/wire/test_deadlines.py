"""Deadlines of clients: for the rest of a request, and for signing in. Whoever keeps them is left alone."""

import pytest

from support import frames
from support.frames import message
from support.peer import CLOSED, Relay
from support.process import wait_for
from wire.conftest import RULES

PING = message({"ping": 1, "$db": "admin"}, (), 5)
OK = message({"ok": 1.0}, (), 9, 5)
HELLO = {"hello": 1, "$db": "admin", "client": {"application": {"name": "shop's\n"}}}
SASL_START = message({"saslStart": 1, "mechanism": "SCRAM-SHA-256", "payload": b"n,,n=ann,r=x", "$db": "admin"}, (), 7)
HELD = message({"insert": "books", "$db": "shop"}, [("documents", [{"x": "y" * 100}])], 7)
HELD_COMPRESSED = frames.compressed(HELD, "zlib")
CUT = message({"insert": "plain", "$db": "shop"}, [("documents", [{"x": "y" * 100}])], 7)


def works(client, server):
    client.send(PING)
    assert server.take(len(PING)) == PING
    server.send(OK)
    assert client.take(len(OK)) == OK


def answered(session, request, reply):
    client, server = session
    client.send(request)
    server.answer(server.frame(), reply)
    return client.frame().plain()


def closed(session):
    assert session[0].rest() == (b"", CLOSED)


@pytest.fixture(scope="module")
def relay():
    with Relay(RULES, {"limits": {"handshake": "10m", "progress": "300ms", "login": "10m"}}) as made:
        yield made


@pytest.fixture
def patient():
    """Its deadlines are long, until a test is where they count."""
    with Relay(RULES, {"limits": {"handshake": "10m", "progress": "10m", "login": "10m"}}) as made:
        yield made


def reload(relay, **limits):
    """With other limits, which count at once."""
    told = relay.spillway.said().count(" 1034 reload: ")
    relay.spillway.settings["limits"].update(limits)
    relay.spillway.write_file()
    relay.spillway.hang_up()
    wait_for(lambda: relay.spillway.said().count(" 1034 reload: ") > told, "the limits to be taken")


@pytest.mark.parametrize("request_sent", [HELD, HELD_COMPRESSED], ids=["plain", "compressed"])
@pytest.mark.parametrize("sent", [1, 15, 16, 60, -1])
@pytest.mark.parametrize("later", [False, True])
def test_a_request_that_does_not_go_on_ends_the_connection(relay, request_sent, sent, later):
    session = relay.connect_packing() if request_sent is HELD_COMPRESSED else relay.connect()
    if later:
        works(*session)
    session[0].send(request_sent[:sent])
    closed(session)
    assert "limits.progress" in relay.spillway.said()


def test_what_passes_as_it_comes_may_stop_anywhere(relay):
    """Spillway holds nothing of it."""
    cut, held = relay.connect(), relay.connect()
    cut[0].send(CUT[:100])
    assert cut[1].take(100) == CUT[:100]
    held[0].send(HELD[:60])
    closed(held)
    cut[0].send(CUT[100:])
    assert cut[1].take(len(CUT) - 100) == CUT[100:]


def test_a_client_that_spillway_does_not_read_has_all_time(patient):
    """While the find is answered, the beginning of the next request waits in Spillway or in the kernel."""
    session, held = patient.connect_known(), patient.connect()
    find = message({"find": "books", "filter": {"x": 1}, "$db": "shop"}, (), 8)
    session[0].send(find + HELD[:60])
    asked = session[1].frame()
    held[0].send(HELD[:60])
    reload(patient, progress="300ms")
    closed(held)
    reload(patient, progress="10m")
    session[1].answer(asked, {"cursor": {"firstBatch": [], "id": frames.exact.Raw(frames.exact.INT64, bytes(8)),
                                         "ns": "shop.books"}, "ok": 1.0})
    assert session[0].frame().plain()["ok"] == 1.0
    session[0].send(HELD[60:])
    assert session[1].frame().plain()["insert"] == "books"


def test_signing_in_has_a_deadline(patient):
    monitor, signed_in, out, late = (patient.connect() for _ in range(4))
    answered(monitor, message(HELLO), {"ok": 1.0})
    assert answered(signed_in, SASL_START, {"conversationId": 1, "done": True, "payload": b"", "ok": 1.0})["done"]
    answered(out, message({"logout": 1, "$db": "admin"}), {"ok": 1.0})
    answered(late, message(HELLO), {"ok": 1.0})
    for _ in range(2):
        answered(late, SASL_START, {"conversationId": 1, "done": False, "payload": b"", "ok": 1.0})
    reload(patient, login="300ms")
    closed(late)
    for session in (monitor, signed_in, out):
        works(*session)
    assert answered(signed_in, SASL_START, {"conversationId": 1, "done": False, "payload": b"", "ok": 1.0})
    said = patient.spillway.said()
    assert r"(appName 'shop\x27s\x0a') closed: it tried to sign in, without success within limits.login" in said


@pytest.mark.parametrize("packer", [None, "zlib"])
@pytest.mark.parametrize("done", [False, True])
def test_a_hello_may_sign_in_at_once(patient, packer, done):
    first, second = patient.connect_packing(), patient.connect()
    hello = message({**HELLO, "speculativeAuthenticate": {"saslStart": 1, "payload": b""}})
    request = frames.compressed(hello, packer) if packer else hello
    assert answered(first, request, {"speculativeAuthenticate": {"done": done}, "ok": 1.0})["ok"] == 1.0
    answered(second, SASL_START, {"conversationId": 1, "done": False, "payload": b"", "ok": 1.0})
    reload(patient, login="300ms")
    closed(second)
    if done:
        works(*first)
    else:
        closed(first)


def test_a_failed_try_does_not_end_the_deadline(patient):
    session = patient.connect()
    answered(session, SASL_START, {"ok": 0.0, "code": 18, "errmsg": "Authentication failed."})
    reload(patient, login="300ms")
    closed(session)
