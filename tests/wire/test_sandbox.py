"""serve shuts itself into a sandbox: all its threads, unless it is told not to."""

import os
import pathlib

import pytest

from support.frames import message
from support.peer import Relay
from wire.conftest import RULES

PING = message({"ping": 1, "$db": "admin"}, (), 5)
OK = message({"ok": 1.0}, (), 9, 5)


def threads(pid, name):
    """The values of this line of each thread's status."""
    values = set()
    for thread in os.listdir(f"/proc/{pid}/task"):
        for line in pathlib.Path(f"/proc/{pid}/task/{thread}/status").read_text().splitlines():
            if line.startswith(f"{name}:"):
                values.add(line.split()[1])
    return values


@pytest.mark.parametrize("options, filtered, no_privileges", [((), "2", "1"), (("--no-sandbox",), "0", "0")])
def test_all_threads_are_in_the_sandbox_unless_it_is_switched_off(options, filtered, no_privileges):
    relay = Relay(RULES)
    relay.spillway.command += options
    with relay:
        client, server = relay.connect()
        client.send(PING)
        assert server.take(len(PING)) == PING
        server.send(OK)
        assert client.take(len(OK)) == OK
        pid = relay.spillway.pid
        assert threads(pid, "Seccomp") == {filtered}
        assert threads(pid, "NoNewPrivs") == {no_privileges}
        assert "the sandbox has no filter" not in relay.spillway.said()


def test_a_server_by_name_is_found_in_the_sandbox():
    relay = Relay(RULES)
    listen = relay.spillway.settings["listen"][0]
    listen["server"] = listen["server"].replace("127.0.0.1", "localhost")
    with relay:
        client, server = relay.connect()
        client.send(PING)
        assert server.take(len(PING)) == PING
