"""An upgrade: a new process takes the listeners over, and the one before serves its connections to their end."""

import os
import pathlib
import resource
import shutil
import signal
import socket
import subprocess
import sys

import pytest

from support.frames import EXHAUST_ALLOWED, MORE_TO_COME, message
from support.peer import End, FakeServer, Relay
from support.process import adopt_orphans, free_port, wait_for
from support.spillway import Spillway, program
from support.threads import Threads
from wire.conftest import BOOKS
from wire.test_notify import Manager

PING = message({"ping": 1, "$db": "admin"}, (), 5)
HELLO = message({"hello": 1, "$db": "admin"}, (), 6)
STREAM = message({"hello": 1, "topologyVersion": {}, "maxAwaitTimeMS": 1000, "$db": "admin"}, (), 7, 0, EXHAUST_ALLOWED)


@pytest.fixture
def relay():
    with Relay([], {"workers": 2}) as made:
        yield made


def asked(client, server, request=PING):
    client.send(request)
    server.answer_each(1)
    client.frame()


def upgrade(relay):
    """A new process looks at the server by itself; the test's part begins behind that."""
    relay.server.scripted = False
    before = relay.spillway.upgrade()
    relay.server.script()
    return before


def end(session):
    for each in session:
        each.close()


def test_open_connections_stay_and_new_ones_are_the_new_processs(relay):
    session = relay.connect()
    asked(*session)
    before = upgrade(relay)
    asked(*session)
    assert before.poll() is None
    asked(*relay.connect())
    end(session)
    assert before.wait(60) == 0
    asked(*relay.connect())
    assert relay.spillway.admin("/readyz")[0] == 200


def test_a_request_under_way_gets_its_answer(relay):
    client, server = relay.connect()
    client.send(PING)
    request = server.frame()
    before = upgrade(relay)
    server.answer(request, {"ok": 1.0, "late": True})
    assert client.frame().plain()["late"]
    end((client, server))
    assert before.wait(60) == 0


def test_monitors_leave_and_connections_of_pools_stay(relay):
    monitor, polling, pooled = relay.connect(), relay.connect(), relay.connect()
    for session in (monitor, polling, pooled):
        asked(*session, HELLO)
    monitor[0].send(STREAM)
    stream = monitor[1].frame()
    monitor[1].answer(stream, {"ok": 1.0}, flags=MORE_TO_COME)
    monitor[0].frame()
    asked(*polling, HELLO)
    before = upgrade(relay)
    for session in (monitor, polling):
        assert session[0].rest()[0] == b""
    asked(*pooled)
    end(pooled)
    assert before.wait(60) == 0


def test_a_connection_that_stays_is_closed_in_the_end(relay):
    relay.spillway.settings["limits"]["handover"] = "300ms"
    relay.spillway.write_file()
    upgrade(relay)  # the new process has the limit
    client, server = relay.connect()
    asked(client, server)
    before = upgrade(relay)
    assert client.rest()[0] == b""
    assert before.wait(60) == 0


class Connecting(Threads):
    """Connects all the time, and lets each connection ask once."""

    def __init__(self, port):
        self.port, self.failed, self.served = port, [], 0
        super().__init__(self._run, range(3))

    def _run(self, _):
        while not self.over.is_set():
            try:
                client = End(socket.create_connection(("127.0.0.1", self.port), 60))
                client.ask(PING)
                client.close()
                self.served += 1
            except OSError as error:
                self.failed.append(error)


@pytest.mark.parametrize("workers", [(2, 2), (1, 3), (3, 1)])
def test_nobody_is_turned_away_meanwhile(workers):
    with FakeServer() as server, \
            Spillway([server], [], {"upstream": {"uri": server.uri}, "workers": workers[0]}) as spillway, \
            Connecting(spillway.port) as clients:
        for round in range(4):
            spillway.settings["workers"] = workers[(round + 1) % 2]
            spillway.write_file()
            served = clients.served
            spillway.upgrade()
            wait_for(lambda: clients.served > served + 50 or clients.failed, "more connections")
            assert spillway.admin("/readyz")[0] == 200
    assert clients.failed == []


def command(spillway):
    """(exit code, what it prints) of `spillway upgrade`."""
    adopt_orphans()
    done = subprocess.run([program(), "upgrade", "--config", spillway.file], capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout + done.stderr


def test_the_command_says_who_serves(relay):
    relay.server.scripted = False
    code, said = command(relay.spillway)
    before = relay.spillway.upgraded()
    assert (code, said) == (0, f"process {relay.spillway.pid} serves from now on; process {before.pid} ends when its "
                               "connections do\n")
    assert before.wait(60) == 0


def test_a_bad_file_changes_nothing_and_the_command_says_why(relay):
    relay.spillway.file.write_text("listen: []\nrules: []\n")
    code, said = command(relay.spillway)
    assert code == 2 and "'listen' needs at least one entry" in said
    relay.spillway.start_upgrade()
    relay.spillway.says("'listen' needs at least one entry")
    relay.spillway.says("1053 upgrade: no new process is started: ")
    asked(*relay.connect())


def test_an_upgrade_during_a_reload_follows_it(relay):
    relay.server.scripted = False
    relay.spillway.hang_up()
    assert relay.spillway.upgrade().wait(60) == 0
    said = relay.spillway.said()
    assert said.index("1034 reload: the file") < said.index("1055 upgrade: a new process is started")


def test_other_rules_are_refused(relay):
    """A new process would move what the one before does not know how to read."""
    relay.spillway.settings["rules"] = [BOOKS]
    relay.spillway.write_file()
    code, said = command(relay.spillway)
    assert code == 1 and "the file has other rules than those in force" in said
    assert "reload first, then upgrade; this process goes on serving" in said


def test_a_file_that_changes_meanwhile_is_refused(tmp_path):
    changing = tmp_path / "spillway"
    changing.symlink_to(shutil.which(program()))
    with FakeServer() as server, Spillway([server], [], {"upstream": {"uri": server.uri}}) as spillway:
        assert spillway.stop() == 0
        spillway.command[0] = str(changing)
        spillway.start()
        changing.unlink()
        changing.write_text(f"#!/bin/sh\necho '# more' >>{spillway.file}\nexec {shutil.which(program())} \"$@\"\n")
        changing.chmod(0o755)
        code, said = command(spillway)
        assert code == 1 and "the file has been changed meanwhile; this process goes on serving" in said
        changing.unlink()
        changing.symlink_to(shutil.which(program()))
        assert spillway.upgrade().wait(60) == 0


def test_an_address_that_is_not_free_changes_nothing_and_the_command_says_why(relay):
    with socket.create_server(("127.0.0.1", free_port())) as other:
        address = f"127.0.0.1:{other.getsockname()[1]}"
        relay.spillway.settings["listen"].append({"address": address, "server": "127.0.0.1:1"})
        relay.spillway.write_file()
        code, said = command(relay.spillway)
    assert code == 1, said
    assert said == ("nothing is changed:\nthe new process does not serve: cannot listen on "
                    f"'{address}': Address already in use; this process goes on serving\n")
    asked(*relay.connect())


def test_a_program_that_is_gone_changes_nothing(tmp_path):
    """The program is found where the command line says, at the moment of the upgrade."""
    link = tmp_path / "spillway"
    link.symlink_to(shutil.which(program()))
    with FakeServer() as server, Spillway([server], [], {"upstream": {"uri": server.uri}}) as spillway:
        assert spillway.stop() == 0
        spillway.command[0] = str(link)
        spillway.start()
        link.unlink()
        link.symlink_to(tmp_path / "nothing")
        code, said = command(spillway)
        assert code == 1 and f"cannot start '{link}': No such file or directory; this process goes on serving" in said
        link.unlink()
        link.write_text("#!/bin/sh\nexit 7\n")
        link.chmod(0o755)
        code, said = command(spillway)
        assert code == 1 and "the new process has ended before it was ready; this process goes on serving" in said
        link.unlink()
        link.symlink_to(shutil.which(program()))
        assert spillway.upgrade().wait(60) == 0


def newcomer(spillway):
    """The process that takes over, which waits for an answer of the server. Its parent, which ends at once, has left
    it to this one."""
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().decode().split("\0")
            parent = int((folder / "stat").read_text().rpartition(") ")[2].split()[1])
        except OSError:
            continue
        if str(spillway.file) in words and int(folder.name) != spillway.pid and parent == os.getpid():
            return int(folder.name)
    return None


def descriptors(pid):
    return {int(entry.name) for entry in pathlib.Path(f"/proc/{pid}/fd").iterdir()}


def test_an_upgrade_for_which_there_are_no_descriptors_leaves_none_behind(relay):
    """One of the two loops' sockets can be passed on, then the admin address's."""
    pid, looks = relay.spillway.pid, []

    def rests():
        looks.append(descriptors(pid))
        return len(looks) > 3 and looks[-1] == looks[-2] == looks[-3]

    wait_for(rests, "the connections of the start to go", pause=0.1)
    before, limits = looks[-1], resource.prlimit(pid, resource.RLIMIT_NOFILE)
    free = next(number for number in range(len(before) + 1) if number not in before)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (free + 1, limits[1]))
    relay.spillway.start_upgrade()
    relay.spillway.says("there are no descriptors for its sockets")
    resource.prlimit(pid, resource.RLIMIT_NOFILE, limits)
    wait_for(lambda: descriptors(pid) <= before, "the sockets to be closed")


def test_a_new_process_that_is_killed_before_it_is_ready_changes_nothing(relay):
    relay.spillway.start_upgrade()
    pid = wait_for(lambda: newcomer(relay.spillway), "the new process")
    relay.spillway.start_upgrade()
    relay.spillway.says("1054 upgrade: a new process is on its way already")
    relay.spillway.hang_up()
    relay.spillway.says("1058 reload: refused: an upgrade runs: reload once it has ended")
    os.kill(pid, signal.SIGKILL)
    relay.spillway.says("the new process has ended before it was ready; this process goes on serving")
    os.waitpid(pid, 0)
    relay.server.scripted = False  # the killed one may have left a connection that the test would take for its own
    client = relay.client()
    client.ask(PING)
    client.close()
    assert upgrade(relay).wait(60) == 0


def test_a_signal_ends_both(relay):
    relay.spillway.start_upgrade()
    pid = wait_for(lambda: newcomer(relay.spillway), "the new process")
    assert relay.spillway.stop() == 0
    relay.server.scripted = False
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 1
    assert "the process before this one gives it up: this one ends" in relay.spillway.said()


def test_the_service_manager_is_told_by_each_when_its_word_counts(tmp_path):
    with Manager(str(tmp_path / "notify")) as manager, FakeServer() as server, \
            Spillway([server], [], {"upstream": {"uri": server.uri}}, environment=manager.environment()) as spillway:
        manager.until("READY")
        assert spillway.upgrade().wait(60) == 0
        assert manager.next() == {"STATUS": "upgrade: a new process starts"}
        assert manager.next() == {"MAINPID": str(spillway.pid)}
        assert manager.next() == {"READY": "1", "STATUS": "accepts connections"}


ACTIVATE = """
import os, socket, sys
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
os.dup2(listener.fileno(), 50)  # whoever binds the address finds it taken
os.dup2(50, 3)
os.environ.update(LISTEN_FDS="1", LISTEN_PID=str(os.getpid()))
os.execvp(sys.argv[2], sys.argv[2:])
"""


def test_a_socket_of_the_service_manager_is_taken_over_and_passed_on():
    """All event loops share the one socket."""
    with FakeServer() as server, Spillway([server], [], {"upstream": {"uri": server.uri}, "workers": 2}) as spillway:
        assert spillway.stop() == 0
        spillway.command = [sys.executable, "-c", ACTIVATE, spillway.port, *spillway.command]
        spillway.command = [str(word) for word in spillway.command]
        spillway.start()
        with Connecting(spillway.port) as clients:
            assert spillway.upgrade().wait(60) == 0
            wait_for(lambda: clients.served > 50 or clients.failed, "connections")
        assert clients.failed == []


def test_a_socket_that_no_listener_wants_is_closed_and_told_of():
    with FakeServer() as server, Spillway([server], [], {"upstream": {"uri": server.uri}}) as spillway:
        assert spillway.stop() == 0
        port = free_port()
        spillway.command = [str(word) for word in [sys.executable, "-c", ACTIVATE, port, *spillway.command]]
        spillway.start()
        spillway.says(f"1052 a listening socket was passed on for '127.0.0.1' port {port}, which is no listener")


def test_an_address_gives_way_to_one_that_overlaps_it():
    """The process before listens on 127.0.0.1 while the new one opens 0.0.0.0."""
    with FakeServer() as server, Spillway([server], [], {"upstream": {"uri": server.uri}},
                                          environment={"SPILLWAY_ALLOW_ROOT": "1"}) as spillway:
        spillway.settings["listen"] = [{"address": f"0.0.0.0:{spillway.port}", "server": server.address,
                                        "advertise": spillway.address}]
        spillway.write_file()
        before = spillway.upgrade()
        assert before.wait(20) == 0
        client = End(socket.create_connection(("127.0.0.1", spillway.port), 30))
        client.ask(PING)
        client.close()


def test_listeners_come_and_go_and_open_connections_stay():
    """The entry of the first server gets another address, that of the second goes, and the third one is new."""
    with FakeServer() as one, FakeServer() as two, FakeServer() as three, \
            Spillway([one, two], [], {"upstream": {"uri": one.uri}}) as spillway:
        held = [End(socket.create_connection(("127.0.0.1", port), 60)) for port in spillway.ports]
        for client in held:
            client.ask(PING)
        came = [free_port(), free_port()]
        spillway.settings["listen"] = [{"address": f"127.0.0.1:{port}", "server": server.address}
                                       for port, server in zip(came, (one, three))]
        spillway.write_file()
        before = spillway.upgrade()
        for client in held:
            client.ask(PING)
            client.close()
        for port in spillway.ports:
            with socket.socket() as probe:
                assert wait_for(lambda: probe.connect_ex(("127.0.0.1", port)) != 0, "the listener to close")
        for port in came:
            client = End(socket.create_connection(("127.0.0.1", port), 60))
            client.ask(PING)
            client.close()
        assert before.wait(60) == 0


def test_the_first_process_of_a_container_refuses():
    """The container ends with it."""
    with FakeServer() as server, Spillway([server], [], {"upstream": {"uri": server.uri}}) as spillway:
        assert spillway.stop() == 0
        spillway.command = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--kill-child",
                            *spillway.command]
        spillway.start()
        code, said = command(spillway)
        spillway.kill()
        assert code == 1 and "this process is the first of its container, which would end with it" in said
