"""The time that one long message occupies an event loop at once is a small part of what the message costs."""

import threading

import pytest

from support import exact
from support.failing import Turns
from support.frames import message
from support.peer import Relay
from support.secured import SIDES, SecuredRelay
from wire.conftest import RULES
from wire.test_long_requests import Clock, bulk

TEXT = exact.document({"_id": 1, "text": "x" * 4_000_000})
ZERO = exact.Raw(exact.INT64, bytes(8))
INSERT = message({"insert": "books", "$db": "shop"}, [("documents", [TEXT] * 11)], 7)
FIND = message({"find": "books", "$db": "shop"}, (), 7)
FOUND = {"cursor": {"firstBatch": [{"_id": i, "text": "x" * 1_000_000} for i in range(15)], "id": ZERO,
                    "ns": "shop.books"}, "ok": 1.0}
LONG = {"a request of 44 MB": (INSERT, {"n": 11, "ok": 1.0}), "a reply of 15 MB": (FIND, FOUND)}


@pytest.fixture(scope="module")
def turns():
    made = Turns()
    yield made
    made.close()


@pytest.fixture(scope="module", params=["plain", *SIDES])
def relay(request, turns):
    settings = {"workers": 1, "limits": {"handshake": "10m", "memory": "1GB"}}
    made = Relay(RULES, settings) if request.param == "plain" else SecuredRelay(request.param, RULES, settings)
    made.spillway.command = [*turns.wrapper, *made.spillway.command]
    with made:
        yield made


def pass_through(relay, request, body):
    client, server = relay.connect_known()
    sender = threading.Thread(target=client.send, args=(request,), daemon=True)
    sender.start()
    frame = server.frame()
    assert frame.raw == request
    server.answer(frame, body)
    assert client.frame().plain()["ok"] == 1.0
    sender.join()
    client.close()
    server.close()


@pytest.mark.parametrize("name", LONG)
def test_a_long_message_takes_many_turns(relay, turns, name):
    """In one of some tries: what else runs on the machine costs CPU time, too."""
    seen = []
    while len(seen) < 5 and not any(longest < work / 3 for longest, work in seen):
        seen.append(turns.during(lambda: pass_through(relay, *LONG[name])))
    assert any(longest < work / 3 for longest, work in seen), seen


def ask_for_a_stranger(relay, request, words):
    """The server knows the user, and does not let him write; it has accepted nothing of his yet."""
    client, server = relay.connect_packing()
    sender = threading.Thread(target=client.send, args=(request,), daemon=True)
    sender.start()
    server.answer(server.frame(), {"ok": 1.0})  # whether it knows the user
    asked = server.frame()
    assert asked.plain()["maxTimeMS"] >= 1 << 40
    server.answer(asked, {"ok": 0.0, "errmsg": words, "code": 13, "codeName": "Unauthorized"})
    reply = client.frame().plain()
    assert (reply["code"], reply["errmsg"]) == (13, words)
    sender.join()
    client.close()
    server.close()


@pytest.mark.parametrize("size", [20, 8_000_000])
def test_a_question_about_a_strangers_long_request_is_written_and_answered_elsewhere(relay, turns, size):
    """In one of some tries, as above; `work` is that of all threads."""
    request, words, seen, clock = bulk(), "not authorized on shop"[:size] + "x" * (size - 20), [], Clock(relay.spillway)
    while len(seen) < 5 and not any(longest < work / 15 for longest, work in seen):
        before = clock.sum()
        longest, _ = turns.during(lambda: ask_for_a_stranger(relay, request, words))
        seen.append((longest / 1e9, clock.sum() - before))
    assert any(longest < work / 15 for longest, work in seen), seen
