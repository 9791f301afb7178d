"""Credentials do not stay in memory that Spillway has copied them to, and get into no core dump."""

import array
import itertools
import os
import pathlib
import socket
import subprocess

import pytest

from support import frames
from support.frames import message
from support.peer import Relay
from support.receive_queue import send_apart
from support.secured import SecuredRelay
from support.spillway import program
from wire.conftest import RULES

pytestmark = pytest.mark.share(1)
PING = message({"ping": 1, "$db": "admin"}, (), 5)
OK = message({"ok": 1.0}, (), 9, 5)


PAGE = os.sysconf("SC_PAGESIZE")
KEPT = 3 << 62  # in a page's entry: it is in memory, or was put out of it


def written(pid, start, end):
    """The parts of a mapping that have pages: the others were never touched, or are as in their file."""
    with open(f"/proc/{pid}/pagemap", "rb", 0) as pagemap:
        pagemap.seek(start // PAGE * 8)
        entries = array.array("Q", pagemap.read((end - start) // PAGE * 8))
    for kept, pages in itertools.groupby(range(len(entries)), lambda page: entries[page] & KEPT != 0):
        if kept:
            pages = list(pages)
            yield start + pages[0] * PAGE, len(pages) * PAGE


def memory_holds(pid, text):
    """How often this stands in memory that the process may write."""
    found = 0
    with open(f"/proc/{pid}/mem", "rb", 0) as memory:
        for line in pathlib.Path(f"/proc/{pid}/maps").read_text().splitlines():
            where, rights = line.split()[:2]
            if not rights.startswith("rw"):
                continue
            start, end = (int(each, 16) for each in where.split("-"))
            if end - start > 1 << 30:
                continue  # what the address sanitizer knows of memory, and holds nothing of it
            for begin, size in written(pid, start, end):
                memory.seek(begin)
                found += memory.read(size).count(text)
    return found


def sign_in(canary, mechanism="SCRAM-SHA-256"):
    sasl = {"saslStart": 1, "mechanism": mechanism, "payload": f"user {canary}", "$db": "$external"}
    return message(sasl, (), 5)


def hello(canary):
    speculation = {"saslStart": 1, "mechanism": "SCRAM-SHA-256", "payload": f"n,,n=user,r={canary}", "db": "admin"}
    return message({"hello": 1, "speculativeAuthenticate": speculation, "$db": "admin"}, (), 5)


def legacy_hello(canary):
    speculation = {"saslStart": 1, "mechanism": "SCRAM-SHA-256", "payload": f"n,,n=user,r={canary}", "db": "admin"}
    return frames.query("admin.$cmd", {"isMaster": 1, "speculativeAuthenticate": speculation}, 5)


def long_hello(canary):
    """What is kept of it grows, and moves."""
    return hello(canary + "x" * 600)


MADE = {"saslStart": sign_in, "long": long_hello, "hello": hello, "isMaster": legacy_hello}


@pytest.mark.parametrize("cut", [None, 10, 40, 300, -5])
@pytest.mark.parametrize("name", MADE)
def test_what_signs_in_is_overwritten(name, cut):
    canary = f"canary-{name}-{cut}-0123456789"
    request = MADE[name](canary)
    with Relay(RULES, {"workers": 1}, wrapper=["env", "LD_BIND_NOW=1"]) as relay:  # else registers are saved at calls
        client, server = relay.connect()
        client.send(PING)
        server.frame()
        send_apart(client.socket, [request] if cut is None else [request[:cut], request[cut:]])
        assert canary.encode() in server.take(len(request))
        server.send(OK)
        client.take(len(OK))
        assert memory_holds(relay.spillway.pid, b"canary-") == 0
        assert memory_holds(relay.spillway.pid, relay.server.uri.encode()) > 0  # what is there is found


@pytest.mark.parametrize("cut", [None, 40])
def test_a_password_that_may_not_go_on_is_overwritten(cut):
    """PLAIN without TLS is refused."""
    request = sign_in("canary-0123456789", "PLAIN")
    with Relay(RULES, {"workers": 1}, wrapper=["env", "LD_BIND_NOW=1"]) as relay:
        client, server = relay.connect()
        client.send(PING)
        server.frame()
        server.send(OK)
        client.take(len(OK))
        send_apart(client.socket, [request] if cut is None else [request[:cut], request[cut:]])
        assert client.frame().plain()["code"] == 18
        client.send(PING)  # the loop has done with the refusal when it takes this
        server.frame()
        assert memory_holds(relay.spillway.pid, b"canary-") == 0


@pytest.mark.parametrize("name", ["long", "hello", "isMaster"])
def test_what_signs_in_over_tls_is_overwritten(name):
    """Also where OpenSSL had it."""
    request = MADE[name](f"canary-{name}-0123456789")
    with SecuredRelay("client", RULES, {"workers": 1}) as relay:
        client, server = relay.connect()
        client.send(PING)
        server.frame()
        client.send(request)
        assert b"canary-" in server.take(len(request))
        server.send(OK)
        client.take(len(OK))
        assert memory_holds(relay.spillway.pid, b"canary-") == 0
        assert memory_holds(relay.spillway.pid, relay.server.uri.encode()) > 0  # what is there is found


@pytest.mark.parametrize("environment, soft", [({}, "0"), ({"SPILLWAY_ALLOW_CORE": "1"}, "4096")])
def test_there_is_no_core_dump_unless_it_is_asked_for(environment, soft):
    sanitizer = f"ASAN_OPTIONS={os.environ.get('ASAN_OPTIONS', '')}:disable_coredump=0"  # it does so by itself
    variables = [sanitizer, *(f"{name}={value}" for name, value in environment.items())]
    with Relay(RULES, wrapper=["prlimit", "--core=4096:8192", "env", *variables]) as relay:
        limits = pathlib.Path(f"/proc/{relay.spillway.pid}/limits").read_text()
        (line,) = (line for line in limits.splitlines() if line.startswith("Max core file size"))
        assert line.split()[4] == soft


def owner(pid):
    """Of a process that is not dumpable, /proc belongs to root."""
    return pathlib.Path(f"/proc/{pid}/mem").stat().st_uid


@pytest.mark.parametrize("allowed", [False, True])
def test_nobody_else_reads_the_memory_of_an_operator_command(allowed):
    """The server accepts and says nothing, so that the command waits: /proc gives to root what has ended."""
    somebody = 65534 if os.getuid() == 0 else os.getuid()
    lower = ["setpriv", f"--reuid={somebody}", "--clear-groups"] if os.getuid() == 0 else []
    allow = ["env", "SPILLWAY_ALLOW_CORE=1"] if allowed else []
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(30)
        uri = f"mongodb://127.0.0.1:{server.getsockname()[1]}/"
        command = subprocess.Popen([*lower, *allow, program(), "analyze", uri, "shop.books"],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            with server.accept()[0]:
                assert owner(command.pid) == (somebody if allowed else 0)
        finally:
            command.kill()
            command.wait()
