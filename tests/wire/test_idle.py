"""A process whose server is gone: its threads try again, and rest in between."""

import pathlib

import pytest

from support.process import free_port, wait_for
from support.spillway import Spillway
from wire.conftest import RULES


class Nowhere:
    """A server that nobody can reach."""

    def __init__(self):
        self.address = f"127.0.0.1:{free_port()}"
        self.uri = f"mongodb://{self.address}/?directConnection=true"


class Waiting(Spillway):
    """It never gets ready."""

    def start(self, ready=False):
        super().start(ready)


def find_thread(pid, name):
    threads = pathlib.Path(f"/proc/{pid}/task").iterdir()
    return next((thread for thread in threads if (thread / "comm").read_text().strip() == name), None)


def rests(thread):
    status = (thread / "status").read_text()
    return int(status.split("voluntary_ctxt_switches:")[1].split()[0])


def ticks(thread):
    fields = (thread / "stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


@pytest.mark.parametrize("name", ["sweeper", "keeper"])
def test_a_thread_rests_while_the_server_is_gone(name):
    nowhere = Nowhere()
    with Waiting([nowhere], RULES, {"upstream": {"uri": nowhere.uri}}) as spillway:
        wait_for(lambda: find_thread(spillway.pid, name), f"the {name}")
        thread = find_thread(spillway.pid, name)
        before = rests(thread), ticks(thread)
        wait_for(lambda: rests(thread) >= before[0] + 3, f"the {name} to rest")
        assert ticks(thread) - before[1] < 50
