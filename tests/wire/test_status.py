"""`spillway status` and `spillway top` tell what the running Spillway is at."""

import contextlib
import fcntl
import http.server
import json
import os
import pty
import re
import shlex
import signal
import struct
import subprocess
import termios
import threading
import types

import pytest

from support import exact
from support.frames import message
from support.peer import Relay
from support.process import wait_for
from support.spillway import program
from wire.conftest import RULES

FIND = {"find": "books", "filter": {"_id": "secret"}, "$db": "shop"}
CLIENT = {"application": {"name": "shop\x1b[2J"}, "driver": {"name": "PyMongo", "version": "4.8.0"}}
TOKEN = "a-token-for-the-tests"


def make(**more):
    made = Relay(RULES, {"workers": 1, "log": {"slow": "1ms"}}, **more)
    made.spillway.secure_admin(token=TOKEN)
    return made


@pytest.fixture(scope="module")
def busy():
    """A client that has said its name, and asked for something slow."""
    with make() as relay:
        client, server = relay.connect_known()
        client.send(message({"hello": 1, "client": CLIENT, "$db": "admin"}))
        server.answer(server.frame(), {"ok": 1.0})
        client.frame()
        wait_for(lambda: find(client, server) or " 3001 " in relay.spillway.said(), "a find of a millisecond")
        yield relay


def find(client, server):
    client.send(message(FIND))
    cursor = {"id": exact.Raw(exact.INT64, bytes(8)), "ns": "shop.books", "firstBatch": []}
    server.answer(server.frame(), {"cursor": cursor, "ok": 1.0})
    client.frame()


def arguments(relay, *words):
    return [relay.spillway.command[0], *words, "--config", str(relay.spillway.file)]


def run(relay, *words):
    return subprocess.run(arguments(relay, *words), capture_output=True, text=True, timeout=60, check=False)


def test_status_says_who_runs_what_came_and_who_asked(busy):
    said = run(busy, "status")
    assert said.returncode == 0, said.stderr
    text = said.stdout
    assert re.match(rf"Spillway \S+, pid {busy.spillway.process.pid}, up 0 d 0 h \d+ min \d+ s: ready\n", text), text
    assert f"file         {busy.spillway.file}\n" in text
    assert f"listener     127.0.0.1:{busy.spillway.port} for server {busy.server.address}\n" in text
    assert re.search(r"^connections  1 open, \d+ accepted, 0 refused$", text, re.M), text
    assert re.search(r"^read +book-sales +\d+ +\d+\.\d$", text, re.M), text
    assert re.search(r"^ +\d+  find +shop.books +book-sales +\d+ s ago$", text, re.M), text
    assert re.search(r"^ +1  shop\\x1b\[2J +PyMongo 4.8.0 +127.0.0.1$", text, re.M), text
    assert "secret" not in text and "\x1b" not in text


def test_status_as_json_is_for_programs(busy):
    said = json.loads(run(busy, "status", "--json").stdout)
    assert said["ready"] is True and said["pid"] == busy.spillway.process.pid
    assert said["listeners"] == [{"address": f"127.0.0.1:{busy.spillway.port}", "server": busy.server.address}]
    assert ("book-sales", "read") in [(row["rule"], row["verdict"]) for row in said["requests"]]
    assert said["metrics"]["connections_open"] == 1 and said["process"]["residentBytes"] > 1 << 20
    assert said["clients"] == [{"appName": "shop\\x1b[2J", "driver": "PyMongo 4.8.0", "host": "127.0.0.1",
                                "connections": 1}]
    assert said["slowest"][0]["namespace"] == "shop.books"


def test_clients_that_have_gone_are_not_told():
    with make() as relay:
        client, server = relay.connect()
        client.send(message({"hello": 1, "client": CLIENT, "$db": "admin"}))
        server.answer(server.frame(), {"ok": 1.0})
        client.frame()
        assert json.loads(run(relay, "status", "--json").stdout)["clients"]
        client.close()
        server.close()
        wait_for(lambda: not json.loads(run(relay, "status", "--json").stdout)["clients"], "the client to be gone")


def test_without_the_token_status_gets_no_answer(busy):
    text = busy.spillway.file.read_text()
    file = busy.spillway.file.with_name("other.yaml")
    token = busy.spillway.file.with_name("other-token")
    token.write_text("another-token-of-tests\n")
    token.chmod(0o600)
    file.write_text(re.sub(r'("?token_file"?: *)[^,}\n]+', rf'\g<1>"{token}"', text))
    assert str(token) in file.read_text()
    said = subprocess.run([busy.spillway.command[0], "status", "--config", str(file)], capture_output=True, text=True,
                          timeout=60, check=False)
    assert said.returncode == 3 and "no Spillway answers at the admin address" in said.stderr, said


def test_a_file_without_an_admin_address_is_bad_usage(busy, tmp_path):
    file = tmp_path / "plain.yaml"
    file.write_text("listen: [{address: '127.0.0.1:1', server: '127.0.0.1:2'}]\nrules: []\n")
    said = subprocess.run([busy.spillway.command[0], "status", "--config", str(file)], capture_output=True, text=True,
                          timeout=60, check=False)
    assert said.returncode == 2, said


class Terminal:
    """`spillway top` on a terminal of 40 lines and 100 columns."""

    def __init__(self, relay):
        self.end, other = pty.openpty()
        fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
        self.before = termios.tcgetattr(other)
        self.process = subprocess.Popen(arguments(relay, "top"), stdin=other, stdout=other, stderr=other)
        self.other, self.text = other, ""
        os.set_blocking(self.end, False)

    def read(self):
        with contextlib.suppress(BlockingIOError):
            self.text += os.read(self.end, 1 << 16).decode()
        return self.text

    def shows(self, pattern):
        return wait_for(lambda: re.search(pattern, self.read(), re.S), f"{pattern!r} on the terminal")

    def close(self):
        assert self.process.wait(60) == 0
        self.shows(r"\x1b\[\?1049l")
        assert termios.tcgetattr(self.other)[3] == self.before[3]
        os.close(self.other)
        os.close(self.end)


def test_top_shows_rates_until_q(busy):
    terminal = Terminal(busy)
    terminal.shows(r"Spillway \S+, pid \d+, up .*VERDICT +RULE +COUNT")
    terminal.shows(r"VERDICT +RULE +A SECOND +MEAN MS.*book-sales.*CONNECTIONS  APPNAME")
    screens = terminal.text.split("\x1b[H")[1:]
    assert all(screen.count("\n") < 40 for screen in screens)
    lines = [re.sub(r"\x1b\[[?0-9]*[a-zA-Z]", "", line).strip() for screen in screens for line in screen.split("\n")]
    assert max(map(len, lines)) <= 100
    os.write(terminal.end, b"q")
    terminal.close()


def test_top_in_tmux(busy, tmp_path):
    """A terminal that people use: it draws what top sends, and what was there before comes back."""
    tmux = ["tmux", "-S", str(tmp_path / "socket"), "-f", os.devnull]

    def pane():
        return subprocess.run([*tmux, "capture-pane", "-p"], capture_output=True, text=True, timeout=60,
                              check=True).stdout

    subprocess.run([*tmux, "new-session", "-d", "-x", "100", "-y", "40", "env PS1=before: sh"], timeout=60, check=True)
    try:
        wait_for(lambda: "before:" in pane(), "a shell")
        subprocess.run([*tmux, "send-keys", shlex.join(arguments(busy, "top")), "Enter"], timeout=60, check=True)
        rates = r"Spillway \S+, pid \d+, up .*VERDICT +RULE +A SECOND +MEAN MS.*book-sales"
        wait_for(lambda: re.match(rates, pane(), re.S), "top in the pane")
        subprocess.run([*tmux, "resize-window", "-x", "60", "-y", "12"], timeout=60, check=True)
        wait_for(lambda: re.match(r"Spillway .{1,51}\n.*mover  ", pane(), re.S), "a screen that fits")
        subprocess.run([*tmux, "send-keys", "q"], timeout=60, check=True)
        wait_for(lambda: "VERDICT" not in pane() and "before:" in pane(), "the shell's screen")
    finally:
        subprocess.run([*tmux, "kill-server"], timeout=60, check=False)


def test_an_interrupt_gives_the_terminal_back(busy):
    terminal = Terminal(busy)
    terminal.shows(r"Spillway \S+, pid \d+")
    terminal.process.send_signal(signal.SIGINT)
    terminal.close()


@contextlib.contextmanager
def answering(tmp_path, *answers):
    """In a Spillway's place: says these in turn, and the last one again and again."""
    left = list(answers)

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):  # noqa: N802
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps(left.pop(0) if len(left) > 1 else left[0]).encode())

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever).start()
        file = tmp_path / "spillway.yaml"
        file.touch(mode=0o600)
        file.write_text("listen: [{address: '127.0.0.1:1', server: '127.0.0.1:2'}]\nrules: []\n"
                        f"admin: 127.0.0.1:{server.server_address[1]}\n")
        try:
            yield types.SimpleNamespace(spillway=types.SimpleNamespace(command=[program()], file=file))
        finally:
            server.shutdown()


@pytest.mark.parametrize("pid", [1, 2], ids=["in a container", "another process"])
def test_top_begins_anew_with_another_spillway(tmp_path, pid):
    """Else rates would be below 0."""
    before = {"pid": 1, "ready": True, "uptimeSeconds": 100, "metrics": {"commands_forwarded": 5000}}
    now = {"pid": pid, "ready": True, "uptimeSeconds": 1, "metrics": {"commands_forwarded": 7}}
    with answering(tmp_path, before, before, now) as there:
        terminal = Terminal(there)
        terminal.shows(r"up 0 d 0 h 0 min 1 s.*requests +-?[0-9]+(/s)? forwarded")
        os.write(terminal.end, b"q")
        terminal.close()
    assert re.findall(r"requests +(-?[0-9/s]+) forwarded", terminal.text)[:2] == ["5000", "7"]


def test_what_a_screen_has_no_room_for_is_counted(tmp_path):
    """/status itself has 200 namespaces at most."""
    row = {"rule": "books", "state": "holds", "outliers": 1, "elements": 2}
    now = {"pid": 1, "ready": True, "namespacesMet": 300, "metrics": {},
           "listeners": [{"address": f"127.0.0.1:{port}", "server": f"h:{port}"} for port in range(1000, 1012)],
           "namespaces": [{"namespace": f"shop.n{number}", **row} for number in range(200)]}
    with answering(tmp_path, now) as there:
        said = run(there, "status")
    listeners, namespaces = said.stdout.split("\nconnections ")
    assert listeners.endswith("listener     127.0.0.1:1009 for server h:1009\n  and 2 more")
    assert namespaces.count("shop.n") == 10 and "\n  and 290 more\n" in namespaces


def test_top_without_a_terminal_says_what_to_use(busy):
    said = run(busy, "top")
    assert said.returncode == 2 and "needs a terminal; 'spillway status' needs none" in said.stderr
