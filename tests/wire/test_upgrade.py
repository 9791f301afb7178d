"""An upgrade: a new process takes the listeners over, and the one before serves its connections to their end."""

import signal

import pytest

from support.frames import EXHAUST_ALLOWED, message
from support.peer import Relay
from support.process import wait_for

PING = message({"ping": 1, "$db": "admin"}, (), 5)
HELLO = {"hello": 1, "$db": "admin"}


@pytest.fixture
def relay():
    with Relay([], {"workers": 2}) as made:
        yield made


def ping(client, server):
    client.send(PING)
    server.answer_each(1)
    client.frame()


def upgrade(relay):
    """The new process looks at the server, too: meanwhile that answers by itself."""
    relay.server.scripted = False
    before = relay.spillway.upgrade()
    relay.server.script()
    return before


def test_an_open_connection_is_served_by_the_process_before(relay):
    session = relay.connect()
    ping(*session)
    before = upgrade(relay)
    ping(*session)
    assert before.poll() is None
    ping(*relay.connect())
    for end in session:
        end.close()
    assert before.wait(20) == 0
    ping(*relay.connect())
    assert relay.spillway.admin("/readyz")[0] == 200
