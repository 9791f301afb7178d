"""The unit of systemd is closed as far as serve allows, and lets serve do what it does."""
import re
import subprocess

import pytest

from packages.tools import DEPLOY, run
from support.peer import FakeServer
from support.process import wait_for
from support.spillway import Spillway
from wire.conftest import RULES

UNIT = DEPLOY / "systemd" / "spillway.service"
MOST = 1.5  # of 10: what an attacker could reach


def exposure(unit):
    said = run("systemd-analyze", "security", "--offline=true", "--no-pager", unit)
    return float(re.search(r"Overall exposure level for \S+: ([\d.]+)", said)[1])


def test_the_unit_is_closed(tmp_path):
    assert exposure(UNIT) <= MOST
    open_one = tmp_path / "spillway.service"
    open_one.write_text(UNIT.read_text().replace("SystemCallFilter", "#").replace("ProtectSystem", "#"))
    assert exposure(open_one) > MOST


def test_systemd_understands_the_unit(tmp_path):
    """Another program stands for one that is not installed here, and no man page is looked for."""
    unit = tmp_path / "spillway.service"
    text = UNIT.read_text().replace("/usr/bin/spillway", "/bin/true")
    unit.write_text(re.sub(r"^Documentation=.*\n", "", text, flags=re.M))
    assert run("systemd-analyze", "verify", unit) == ""
    unit.write_text(unit.read_text().replace("WatchdogSec=30", "WatchdogSec=soon"))
    assert "Failed to parse sec value, ignoring: soon" in run("systemd-analyze", "verify", unit)


def test_systemd_understands_the_socket(tmp_path):
    """Together with the unit that it starts."""
    (tmp_path / "spillway.service").write_text("[Service]\nExecStart=/bin/true\n")
    socket = tmp_path / "spillway.socket"
    text = (DEPLOY / "systemd" / "spillway.socket").read_text()
    socket.write_text(text)
    assert run("systemd-analyze", "verify", socket) == ""
    socket.write_text(text.replace("ListenStream=127.0.0.1:27117", "ListenStream=127.0.0.1:many"))
    assert "Failed to parse address value" in run("systemd-analyze", "verify", socket, code=1)


# ---- The filter of system calls.

def groups():
    """{'@group': its calls and groups}"""
    said = subprocess.run(["systemd-analyze", "syscall-filter", "--no-pager"], capture_output=True, text=True,
                          timeout=60, check=True).stdout
    found = {}
    for line in said.splitlines():
        if line.startswith("@"):
            inside = found.setdefault(line.strip(), set())
        elif line.startswith("    ") and not line.startswith("    #"):
            inside.add(line.strip())
    return found


def calls_of(names, known):
    found = set()
    for name in names:
        found |= calls_of(known[name], known) if name.startswith("@") else {name}
    return found


def allowed_calls():
    known, allowed = groups(), calls_of(["@default"], groups())
    for line in re.findall(r"^SystemCallFilter=(.*)$", UNIT.read_text(), re.M):
        calls = calls_of(line.lstrip("~").split(), known)
        allowed = allowed - calls if line.startswith("~") else allowed | calls
    return allowed


@pytest.fixture(scope="module")
def traced(tmp_path_factory):
    """The names of the system calls of a serve that starts, serves, reloads, is upgraded and ends."""
    trace = tmp_path_factory.mktemp("trace") / "calls"
    with FakeServer() as server:
        spillway = Spillway([server], RULES, {"upstream": {"uri": server.uri}})
        spillway.command = ["strace", "-f", "-qq", "-o", trace, "-e", "signal=none", *spillway.command]
        with spillway:
            wait_for(lambda: spillway.admin("/metrics")[0] == 200, "metrics")
            serve = int(trace.read_text().split(None, 1)[0])
            subprocess.run(["kill", "-HUP", str(serve)], check=True)
            spillway.says("SIGHUP: the configuration is read again")
            spillway.says("reload: the file")
            subprocess.run(["kill", "-USR2", str(serve)], check=True)
            spillway.says("serves from now on")
            serve = int(re.search(r"upgrade: process (\d+) serves from now on", spillway.said())[1])
            subprocess.run(["kill", "-TERM", str(serve)], check=True)
            spillway.process.wait(60)
    return set(re.findall(r"^\d+ +(\w+)\(", trace.read_text(), re.M))


def test_the_filter_lets_serve_do_what_it_does(traced):
    """execve is systemd's own."""
    made = traced - {"execve"}
    assert {"landlock_restrict_self", "epoll_ctl", "sendto"} <= made
    assert made - allowed_calls() == set()


def test_the_filter_refuses_what_serve_does_not_do():
    refused = {"mount", "ptrace", "bpf", "init_module", "setrlimit", "reboot", "kexec_load", "swapon"}
    assert refused & allowed_calls() == set()
