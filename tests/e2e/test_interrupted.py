"""Ctrl-C, and servers that are not there: every command ends soon, with its exit code and a report that can be read."""

import json
import signal
import socket
import subprocess

import pytest

from support.operate import Operator
from support.process import free_port, wait_for
from support.spillway import program

COMMANDS = ["check", "analyze", "migrate", "verify", "undo"]
SOON = 20  # seconds; a server that does not answer is given 60 where nobody interrupts


def command(operator, name, uri):
    if name == "analyze":
        return [program(), name, "--json", uri, "shop.books"]
    if name in ("check", "pause", "resume"):
        return [program(), name, "--json", "--config", operator.file]
    return operator.command(name, "--json")


@pytest.fixture
def silent():
    """Takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


@pytest.mark.parametrize("name", [*COMMANDS, "pause", "resume"])
def test_interrupted_while_it_connects(cluster, silent, name):
    uri = f"mongodb://127.0.0.1:{silent.getsockname()[1]}/"
    with Operator(cluster, upstream={"uri": uri}) as operator:
        running = operator.start_command(command(operator, name, uri))
        with silent.accept()[0] as connection:
            assert connection.recv(4)
            running.send_signal(signal.SIGINT)
            said, complaint = running.communicate(timeout=SOON)
    assert running.returncode == 130 and "interrupted" in complaint, complaint
    report = json.loads(said.splitlines()[-1])
    assert (report["command"], report["ended"]) == (name, "interrupted")


@pytest.mark.parametrize("name", ["status", "suggest", "health", "explain", "reload", "upgrade"])
def test_interrupted_while_spillway_does_not_answer(cluster, silent, name):
    with Operator(cluster, admin=f"127.0.0.1:{silent.getsockname()[1]}") as operator:
        options = ["--live", "--db", "shop", '{"find": "books"}'] if name == "explain" else []
        running = operator.start_command([program(), name, "--config", operator.file, *options])
        with silent.accept()[0] as connection:
            assert connection.recv(4)
            running.send_signal(signal.SIGTERM)
            assert running.communicate(timeout=SOON) == ("", "spillway: interrupted\n")
    assert running.returncode == 128 + signal.SIGTERM


@pytest.mark.parametrize("name", COMMANDS)
def test_no_server(cluster, name):
    uri = f"mongodb://127.0.0.1:{free_port()}/?serverSelectionTimeoutMS=500"
    with Operator(cluster, upstream={"uri": uri}) as operator:
        ended = subprocess.run(command(operator, name, uri), capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 3 and json.loads(ended.stdout.splitlines()[-1])["command"] == name


@pytest.mark.parametrize(("name", "options"), [("migrate", ["--rate", "50"]), ("migrate", []), ("undo", [])])
def test_interrupted_while_the_server_hangs(cluster, operator, shop, name, options):
    """What was under way is not known, and nothing is lost: the same command, once more, does the rest."""
    shop.books.insert_many({"_id": i, "list": list(range(9))} for i in range(1000))
    if name == "undo":
        operator.run("migrate", "--execute", code=0)
    running = operator.start(name, "--execute", "--json", *options)
    spilled = {"_spill": {"$exists": True}}
    wait_for(lambda: running.poll() is not None or 0 < shop.books.count_documents(spilled) < 1000, "some work")
    cluster.primary.process.send_signal(signal.SIGSTOP)
    try:
        running.send_signal(signal.SIGINT)
        said = running.communicate(timeout=SOON)[0]
    finally:
        cluster.primary.process.send_signal(signal.SIGCONT)
    assert running.returncode == 4 and json.loads(said)["ended"] == "interrupted"
    operator.run(name, "--execute", code=0)
    assert shop.books.count_documents(spilled) == (0 if name == "undo" else 1000)
    assert operator.run("verify", code=1 if name == "undo" else 0)["spilled"] == (0 if name == "undo" else 1000)
