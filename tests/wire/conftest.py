"""What the wire tests share: a relay with two rules, and a session through it for each test."""

import types

import pytest

from support.peer import Relay
from support.process import free_port
from support.spillway import Spillway

BOOKS = {
    "name": "book-sales", "namespace": "shop.books", "array": "buyers", "threshold": 3,
    "flag": {"field": "more", "value": True},
    "overflow": {"collection": "extra", "layout": "batches", "link": "book", "array": "part"},
}
POSTS = {
    "name": "posts", "namespace": "tenant_*.posts", "array": "comments", "threshold": 3,
    "overflow": {"layout": "batches", "link": "post", "array": "part"},
}
RULES = [BOOKS, POSTS]


@pytest.fixture(scope="module")
def relay():
    with Relay(RULES) as made:
        yield made


@pytest.fixture
def session(relay):
    client, server = relay.connect_known()
    yield client, server
    client.close()
    server.close()


@pytest.fixture
def unserved():
    """A Spillway whose server nobody can reach: it never gets ready."""
    spillway = Spillway([types.SimpleNamespace(address=f"127.0.0.1:{free_port()}")], RULES)
    spillway.start(ready=False)
    try:
        yield spillway
    finally:
        spillway.__exit__()
