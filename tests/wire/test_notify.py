"""The service manager is told when serve is ready, reloads and ends, and that all its loops turn."""

import ctypes
import os
import signal
import socket
import uuid

import pytest

from support import tasks
from support.peer import FakeServer
from support.process import wait_for
from support.spillway import Spillway
from wire.conftest import RULES

WATCHDOG_MS = 400
PTRACE_ATTACH, PTRACE_DETACH, WAIT_ALL = 16, 17, 0x40000000
MANY_BEATS = 5


class Manager:
    """The service manager's end of the socket."""

    def __init__(self, name):
        self.name = name
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(name.replace("@", "\0", 1) if name.startswith("@") else name)
        self.messages = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def environment(self, **more):
        return {"NOTIFY_SOCKET": self.name, "SPILLWAY_ALLOW_CORE": "1", **more}

    def next(self, seconds=60):
        """The fields of the next message; TimeoutError if none comes."""
        self.socket.settimeout(seconds)
        message = dict(line.split("=", 1) for line in self.socket.recv(4096).decode().split("\n"))
        self.messages.append(message)
        return message

    def until(self, field, seconds=60):
        """The next message that has the field."""
        while True:
            message = self.next(seconds)
            if field in message:
                return message

    def is_silent(self):
        """Waits until nothing has come for longer than the manager would wait."""
        for _ in range(MANY_BEATS):
            try:
                self.next(2 * WATCHDOG_MS / 1000)
            except TimeoutError:
                return True
        return False


class Started:
    """serve before a scripted server, told of the manager; connections of its clients are possible after READY=1."""

    def __init__(self, manager, **more):
        self.server = FakeServer()
        self.spillway = Spillway([self.server], RULES, {"upstream": {"uri": self.server.uri}, "workers": 2},
                                 environment=manager.environment(**more))

    def __enter__(self):
        self.server.__enter__()
        self.spillway.start(ready=False)
        return self.spillway

    def __exit__(self, *failure):
        try:
            self.spillway.__exit__(*failure)
        finally:
            self.server.__exit__()


@pytest.fixture(params=["file", "abstract"])
def manager(request, tmp_path):
    name = str(tmp_path / "notify") if request.param == "file" else f"@spillway-test-{uuid.uuid4()}"
    with Manager(name) as made:
        yield made


def loops(spillway):
    """The ids of the threads of event loops."""
    return [int(task.name) for task in tasks.named(spillway.pid, "loop")]


class Hung:
    """Stops one thread of a process, and no other."""

    def __init__(self, thread):
        self.thread = thread
        self.library = ctypes.CDLL(None, use_errno=True)

    def trace(self, request):
        if self.library.ptrace(request, self.thread, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "ptrace")

    def __enter__(self):
        self.trace(PTRACE_ATTACH)
        os.waitpid(self.thread, WAIT_ALL)

    def __exit__(self, *_):
        self.trace(PTRACE_DETACH)


def test_it_is_ready_when_clients_can_connect_and_says_that_it_ends(manager):
    with Started(manager) as spillway:
        assert manager.next()["STATUS"] == "looks at the servers"
        assert manager.next() == {"READY": "1", "STATUS": "accepts connections"}
        socket.create_connection(("127.0.0.1", spillway.port), 60).close()
        spillway.process.send_signal(signal.SIGTERM)
        last = manager.until("STOPPING")
        assert int(last["EXTEND_TIMEOUT_USEC"]) == int(last["WATCHDOG_USEC"]) == 45_000_000  # 30 s are the drain
        assert spillway.process.wait(60) == 0
    assert not any("WATCHDOG" in message for message in manager.messages)


def test_a_reload_begins_and_ends(manager):
    with Started(manager) as spillway:
        manager.until("READY")
        spillway.hang_up()
        assert int(manager.until("RELOADING")["MONOTONIC_USEC"]) > 0
        assert manager.next() == {"READY": "1"}


def test_signs_of_life_repeat_while_all_loops_turn_and_stop_when_one_hangs(manager):
    with Started(manager, WATCHDOG_USEC=str(WATCHDOG_MS * 1000)) as spillway:
        manager.until("READY")
        for _ in range(MANY_BEATS):
            assert manager.next() == {"WATCHDOG": "1"}
        found = loops(spillway)
        assert len(found) == 2
        for thread in found:
            with Hung(thread):
                assert manager.is_silent()
            assert manager.until("WATCHDOG") == {"WATCHDOG": "1"}


def test_a_stopped_process_gives_no_sign_of_life(manager):
    with Started(manager, WATCHDOG_USEC=str(WATCHDOG_MS * 1000)) as spillway:
        manager.until("WATCHDOG")
        spillway.process.send_signal(signal.SIGSTOP)
        try:
            assert manager.is_silent()
        finally:
            spillway.process.send_signal(signal.SIGCONT)
        manager.until("WATCHDOG")


def test_the_watchdog_of_another_process_is_not_fed(manager):
    with Started(manager, WATCHDOG_USEC=str(WATCHDOG_MS * 1000), WATCHDOG_PID=str(os.getpid())) as spillway:
        manager.until("READY")
        assert manager.is_silent()
        spillway.require_running()


@pytest.mark.parametrize("name", ["/nowhere/notify", "no path", "/" + "x" * 200])
def test_a_manager_that_cannot_be_reached_is_told_of_and_changes_nothing(name):
    with FakeServer() as server, Spillway([server], RULES, {"upstream": {"uri": server.uri}},
                                          environment={"NOTIFY_SOCKET": name}) as spillway:
        assert spillway.says("the service manager is not told how serve is: NOTIFY_SOCKET: ")
        wait_for(spillway.ready, "readiness")
