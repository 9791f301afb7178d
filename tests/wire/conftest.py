"""What the wire tests share: a relay with two rules, and a session through it for each test."""

import pytest

from support.peer import Relay

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
