"""Names without end under a pattern: nobody is locked out by them, and memory for them is bounded."""

import os

import pytest

from support.frames import message
from support.peer import HELLO, Relay
from wire.conftest import RULES

pytestmark = pytest.mark.share(1)
ROUND = 60_000  # names in one command; two such commands pass what a worker holds at most
DENIED = {"ok": 0.0, "errmsg": "not authorized", "code": 13, "codeName": "Unauthorized"}
EMPTY = {"cursor": {"id": 0, "ns": "tenant_new.posts", "firstBatch": []}, "ok": 1.0}


@pytest.fixture
def session(monkeypatch):
    # The sanitizer keeps freed memory for a while; that is not what is measured.
    monkeypatch.setenv("ASAN_OPTIONS", f"{os.environ.get('ASAN_OPTIONS', '')}:quarantine_size_mb=1")
    with Relay(RULES, hello={**HELLO, "maxWireVersion": 25}) as relay:
        client, server = relay.connect_known()
        yield relay, client, server
        client.close()
        server.close()


def name_many(client, server, first):
    """A bulkWrite in so many namespaces that nobody has named before; mongod denies it."""
    documents = [{"insert": number, "document": {"_id": 1}} for number in range(ROUND)]
    namespaces = [{"ns": f"tenant_{number}.posts"} for number in range(first, first + ROUND)]
    client.send(message({"bulkWrite": 1, "$db": "admin"}, [("ops", documents), ("nsInfo", namespaces)], 7))
    server.answer(server.frame(), DENIED)
    assert client.frame().plain()["code"] == 13


def test_names_without_end_lock_nobody_out_and_take_no_more_memory(session):
    relay, client, server = session
    sizes = []
    for number in range(3):
        name_many(client, server, number * ROUND)
        client.send(message({"find": "posts", "filter": {"comments": 1}, "$db": f"tenant_new{number}"}, (), 8))
        server.answer(server.frame(), EMPTY)
        assert client.frame().plain()["ok"] == 1.0
        sizes.append(relay.private_memory())
    assert sizes[-1] < sizes[0] + (48 << 20), sizes
