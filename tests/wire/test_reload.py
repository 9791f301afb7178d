"""A reload without a real server: limits, the log, a bad file, and what a running Spillway does not change."""

import http.client
import os
import socket
import subprocess

import pytest

from support.frames import message
from support.peer import End, FakeServer, Relay
from support.process import wait_for
from support.spillway import Spillway, program


@pytest.fixture(scope="module")
def relay():
    with Relay([]) as made:
        yield made


def reload(relay, **settings):
    """(exit code, what it prints) of `spillway reload`, with these settings beside the file's."""
    spillway, before = relay.spillway, dict(relay.spillway.settings)
    spillway.settings.update(settings)
    spillway.write_file()
    done = subprocess.run([program(), "reload", "--config", spillway.file], capture_output=True, text=True, timeout=60)
    if done.returncode != 0:
        spillway.settings = before
        spillway.write_file()
    return done.returncode, done.stdout + done.stderr


def test_a_limit_holds_for_what_comes_next(relay):
    limits = relay.spillway.settings["limits"]
    assert reload(relay, limits={**limits, "connections": 1}) == (
        0, "the file holds from now on\n'limits.connections' is '1', it was '10000'\n")
    first, server = relay.connect()
    second = relay.client()
    second.send(message({"ping": 1, "$db": "admin"}))
    assert "limits.connections" in second.frame().plain()["errmsg"]
    first.close()
    server.close()
    assert reload(relay, limits=limits)[0] == 0


def test_more_connections_than_there_is_room_for_are_told_of(relay):
    limits = relay.spillway.settings["limits"]
    before = relay.spillway.said().count(" 1020 ")
    assert reload(relay, limits={**limits, "connections": 1_000_000})[0] == 0
    relay.spillway.says("fewer than limits.connections (1000000)")
    assert relay.spillway.said().count(" 1020 ") == before + 1
    assert reload(relay, limits=limits)[0] == 0
    assert relay.spillway.said().count(" 1020 ") == before + 1


def test_the_log_changes_at_once(relay):
    assert reload(relay, log={"format": "json"})[1].endswith("'log.format' is 'json', it was 'text'\n")
    relay.spillway.says('"msg":"reload: ')
    assert reload(relay, log={"format": "text"})[0] == 0


def test_a_bad_file_changes_nothing_and_says_why(relay):
    spillway = relay.spillway
    spillway.file.write_text("listen: []\nrules: []\n")
    spillway.hang_up()
    spillway.says("reload: nothing is changed, since the file")
    spillway.says("spillway.yaml:1:9: 'listen' needs at least one entry")
    spillway.write_file()
    client, server = relay.connect()
    client.send(message({"ping": 1, "$db": "admin"}))
    server.answer_each(1)
    assert client.frame()


@pytest.mark.parametrize("settings, named", [
    ({"workers": 7}, "'workers' is '7', it was"),
    ({"upstream": {"uri": "mongodb://me:secret@127.0.0.1:1/"}}, "'upstream.uri' is 'mongodb://me:***@127.0.0.1:1/'"),
], ids=["workers", "upstream"])
def test_what_needs_a_restart_is_refused_by_name(relay, settings, named):
    code, said = reload(relay, **settings)
    assert code == 1
    assert said.startswith("nothing is changed:\n") and named in said
    assert "a running process does not change it; 'spillway upgrade' starts one that does" in said
    assert "secret" not in said


def test_an_included_file_outside_of_the_sandbox_is_told_of(relay, tmp_path):
    if "--no-sandbox" in os.environ.get("SPILLWAY_OPTIONS", ""):
        return
    (tmp_path / "more.yaml").write_text("rules: []\n")
    code, said = reload(relay, include=[str(tmp_path / "more.yaml")])
    assert code in (0, 1)
    assert code == 0 or "the sandbox lets a running Spillway read only folders that it knew at its start" in said


def with_pipe(spillway, name):
    """The file's settings, if one of the files that it names is a pipe to which nobody writes."""
    pipe = spillway.file if name == "file" else spillway.folder / "pipe"
    if name == "include":
        spillway.settings["include"] = ["pipe"]
    elif name == "certificate":
        spillway.settings["listen"][0]["tls"] = {"cert": "pipe"}
    elif name == "token":
        spillway.settings["admin"] = {"address": spillway.settings["admin"], "token_file": "pipe"}
    spillway.write_file()
    pipe.unlink(missing_ok=True)
    os.mkfifo(pipe, 0o600)
    return pipe


@pytest.mark.parametrize("name", ["file", "include", "certificate", "token"])
def test_a_pipe_is_not_waited_for(name):
    """A reload, an upgrade or the end would wait as well."""
    with FakeServer() as server, Spillway([server], [], {"upstream": {"uri": server.uri}}) as spillway:
        pipe = with_pipe(spillway, name)
        spillway.hang_up()
        spillway.says("it is no regular file, and only a start waits for what comes through it")
        spillway.says(" 1031 reload: nothing is changed")
        if name == "file":
            spillway.start_upgrade()
            spillway.says(" 1053 upgrade: no new process is started: ")
        pipe.unlink()


def pings(port):
    client = End(socket.create_connection(("127.0.0.1", port), 30))
    client.ask(message({"ping": 1, "$db": "admin"}))
    client.close()


@pytest.mark.parametrize("host", ["0.0.0.0", "localhost"])
def test_an_address_gives_way_to_one_that_overlaps_it(host):
    """It is Spillway's own sockets that are in the way, not another program's."""
    with FakeServer() as server, Spillway([server], [], {"upstream": {"uri": server.uri}, "workers": 2},
                                          environment={"SPILLWAY_ALLOW_ROOT": "1"}) as spillway:
        port, narrow = spillway.port, spillway.settings["listen"]
        wider = [{"address": f"{host}:{port}", "server": server.address, "advertise": spillway.address}]
        for listen in (wider, narrow):
            spillway.settings["listen"] = listen
            spillway.write_file()
            done = subprocess.run([program(), "reload", "--config", spillway.file], capture_output=True, text=True,
                                  timeout=60)
            assert (done.returncode, done.stderr) == (0, "")
            for _ in range(8):
                pings(port)


def test_two_entries_at_one_address_are_refused_under_other_names_too():
    with FakeServer() as server, FakeServer() as other:
        spillway = Spillway([server, other], [], {"upstream": {"uri": server.uri}})
        one, two = spillway.settings["listen"]
        same = {**two, "address": f"localhost:{spillway.port}"}
        words = f"cannot listen on '{same['address']}': that is the address '{spillway.address}' of another entry"
        with spillway:
            spillway.settings["listen"] = [one, same]
            spillway.write_file()
            done = subprocess.run([program(), "reload", "--config", spillway.file], capture_output=True, text=True,
                                  timeout=60)
            assert (done.returncode, done.stdout + done.stderr) == (1, f"nothing is changed:\n{words}\n")
        spillway = Spillway([server, other], [], {"upstream": {"uri": server.uri}})
        spillway.settings["listen"] = [one, same]
        try:
            assert words in spillway.refuses_to_start()
        finally:
            spillway.__exit__()


def test_a_port_that_only_root_may_have_is_no_matter_of_the_sandbox():
    with FakeServer() as server:
        spillway = Spillway([server], [], {"upstream": {"uri": server.uri}})
        if os.getuid() == 0:
            spillway.command = ["setpriv", "--bounding-set=-net_bind_service", *spillway.command]
        with spillway:
            spillway.settings["listen"][0]["address"] = "127.0.0.1:81"
            spillway.write_file()
            done = subprocess.run([program(), "reload", "--config", spillway.file], capture_output=True, text=True,
                                  timeout=60)
            assert done.returncode == 1
            said = done.stdout + done.stderr
            assert said == "nothing is changed:\ncannot listen on '127.0.0.1:81': Permission denied\n"


def test_a_spillway_that_is_not_there_is_not_reached(relay, tmp_path):
    file = tmp_path / "spillway.yaml"
    file.write_text("listen: [{address: '127.0.0.1:1', server: '127.0.0.1:2'}]\nadmin: 127.0.0.1:3\nrules: []\n")
    done = subprocess.run([program(), "reload", "--config", file], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (
        3, "spillway reload: no Spillway answers at the admin address '127.0.0.1:3'\n")
    file.write_text("listen: []\n")
    done = subprocess.run([program(), "reload", "--config", file], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and "'listen' needs at least one entry" in done.stderr


def test_a_page_in_a_browser_cannot_reload(relay):
    connection = http.client.HTTPConnection("127.0.0.1", relay.spillway.admin_port, timeout=60)
    connection.request("POST", "/reload")
    assert connection.getresponse().status == 403
    connection.close()


def test_a_new_token_holds_after_a_reload(relay):
    spillway = relay.spillway
    address = f"127.0.0.1:{spillway.admin_port}"
    token = spillway.folder / "token"
    token.touch(mode=0o600)
    token.write_text("a-token-of-sixteen-characters\n")
    spillway.settings["admin"] = {"address": address, "token_file": "token"}
    spillway.write_file()
    spillway.hang_up()
    spillway.admin_headers = {}
    wait_for(lambda: spillway.admin("/rules")[0] == 401, "the token to be asked for")
    assert reload(relay)[0] == 0, "the command has the token of the file"
    spillway.settings["admin"] = address
    spillway.write_file()
    spillway.hang_up()
    wait_for(lambda: spillway.admin("/rules")[0] == 200, "no token to be asked for")
