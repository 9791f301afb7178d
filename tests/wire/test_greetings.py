"""Who has not signed in says hello no more often than drivers do; who is refused without end waits, too. Who works does
not wait for them.
"""

import contextlib
import threading
import time

import pytest

from support.frames import compressed, message, query
from support.peer import CLOSED, Relay
from support.process import wait_for
from wire.conftest import RULES

HELLO = message({"hello": 1, "$db": "admin"}, (), 4)
SIGN_IN = message({"saslContinue": 1, "conversationId": 1, "payload": b"x", "$db": "admin"}, (), 4)
PING = message({"ping": 1, "$db": "admin"}, (), 5)
FORMS = {
    "hello": HELLO, "sign in": SIGN_IN, "legacy": query("admin.$cmd", {"isMaster": 1}, 4),
    "compressed": compressed(HELLO, "snappy"),
    "behind a sequence": message({"hello": 1, "$db": "admin"}, [("x", [])], 4, sequence_first=True),
}
OK = {"ok": 1.0}
FIRST = 6          # greetings of a connection that have more turns than the others
A_SECOND = 1000    # turns of the others
AT_ONCE = 2        # turns that may have been left from before
DELAYED = "spillway_greetings_delayed_total"


@pytest.fixture
def relay():
    with Relay(RULES, {"workers": 1}) as made:
        yield made


def greet(client, server, greeting, count):
    """Seconds until that many were answered; none is asked for before the one before was answered."""
    began = time.monotonic()
    for _ in range(count):
        client.send(greeting)
        server.answer(server.frame(), OK)
        client.frame()
    return time.monotonic() - began


@pytest.mark.parametrize("greeting", FORMS.values(), ids=FORMS)
def test_who_greets_without_end_waits_between_requests(relay, greeting):
    client, server = relay.connect_packing()
    greet(client, server, greeting, FIRST - 1)
    assert "ask for hello" not in relay.spillway.said()
    began = time.monotonic()
    client.send(greeting * 500)
    for _ in range(500):
        server.answer(server.frame(), OK)
    assert time.monotonic() - began > (500 - AT_ONCE - 1) / A_SECOND * 0.9
    assert relay.spillway.metrics()[DELAYED] > 0

    def is_told_of():
        """Once more than a hundred have waited within a second."""
        client.send(greeting * 500)
        answer_hellos(server, 500)
        return relay.spillway.said().count("more than 1,000 times a second")

    assert wait_for(is_told_of, "the crowd to be told of") == 1


def test_monitors_that_greet_at_once_are_no_crowd(relay):
    pairs = [relay.connect() for _ in range(12)]
    for client, server in pairs:
        greet(client, server, HELLO, FIRST)
    for client, _ in pairs:
        client.send(HELLO * (AT_ONCE + 2))
    for _, server in pairs:
        answer_hellos(server, AT_ONCE + 2)
    assert relay.spillway.metrics()[DELAYED] > 0
    assert "more than 1,000 times" not in relay.spillway.said()


def test_who_works_passes_by_a_crowd_of_greetings(relay):
    """Their requests are answered before a minute of greetings is over."""
    crowd = [relay.connect() for _ in range(4)]
    for client, _ in crowd:
        client.send(HELLO * 15_000)
    answering = [threading.Thread(target=answer_hellos, args=(server, 15_000)) for _, server in crowd]
    for thread in answering:
        thread.start()
    client, server = relay.connect()
    for _ in range(100):
        client.send(PING)
        server.answer(server.frame(), OK)
        assert client.frame().plain() == OK
    assert all(thread.is_alive() for thread in answering)
    for client, _ in crowd:
        client.reset()
    for thread in answering:
        thread.join()


def answer_hellos(server, count):
    with contextlib.suppress(ConnectionError):
        for _ in range(count):
            server.answer(server.frame(), OK)


def test_a_user_who_is_known_may_greet_as_often_as_he_likes(relay):
    client, server = relay.connect_known()
    before = relay.spillway.metrics()[DELAYED]
    greet(client, server, HELLO, 300)
    assert relay.spillway.metrics()[DELAYED] == before


def test_a_request_that_waits_goes_with_its_client(relay):
    client, server = relay.connect()
    client.send(HELLO * 300)
    for _ in range(FIRST):
        server.answer(server.frame(), OK)
    client.reset()
    _, how = server.rest()
    assert how is not None


def test_what_comes_behind_a_greeting_waits_with_it(relay):
    client, server = relay.connect()
    client.send(HELLO * 200, PING)
    requests = [server.frame() for _ in range(201)]
    assert [b"ping" in each.payload for each in requests] == [False] * 200 + [True]
    client.close()
    assert server.rest() == (b"", CLOSED)


def test_who_is_refused_without_end_waits_between_requests(relay):
    client, _ = relay.connect_known()
    refused = message({"mapReduce": "books", "map": "", "reduce": "", "out": "x", "$db": "shop"}, (), 7)
    began = time.monotonic()
    writer = threading.Thread(target=client.send, args=(refused * 3000,))
    writer.start()
    for _ in range(3000):
        assert client.frame().plain()["ok"] == 0
    writer.join()
    assert time.monotonic() - began > (3000 - 11) / 5000 * 0.9
    assert relay.spillway.metrics()["spillway_refusals_delayed_total"] > 0
