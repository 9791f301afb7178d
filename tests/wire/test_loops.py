"""Two loops at work: many connections at once, spread over both, each with its own server connection."""

import pathlib
import queue
import threading

import pytest

from support.frames import message
from support.peer import Ended, Relay
from support.process import wait_for
from wire.conftest import RULES

SESSIONS, ROUNDS = 60, 30
GENERATION = bytes(range(16))
LISTENING = "0A"


@pytest.fixture(scope="module")
def relay():
    with Relay(RULES, {"workers": 2, "limits": {"handshake": "10m"}}) as made:
        yield made


def reply_to(request, secret):
    """What the server at this connection says: its own secret, spilled or not."""
    command = request.plain()
    name = next(iter(command))
    if name == "ping":
        return {"secret": secret, "ok": 1.0}
    spilled = {"_id": 1, "buyers": [secret], "_spill": {"buyers": {"g": GENERATION, "h": 1, "n": 1}}}
    tail = {"book": 1, "part": [-secret], "_spill": {"g": GENERATION, "p": 0}}
    document = spilled if command[name] == "books" else tail
    return {"cursor": {"firstBatch": [document], "id": 0, "ns": "shop.x"}, "ok": 1.0}


def serve(server, secret):
    try:
        while True:
            request = server.frame()
            server.answer(request, reply_to(request, secret))
    except (Ended, OSError):
        server.close()


def serve_all(relay, count):
    for secret in range(1, count + 1):
        threading.Thread(target=serve, args=(relay.server.accept(), secret), daemon=True).start()


def work(relay, failures):
    """One client: every reply must come from one and the same server connection."""
    client = relay.client()
    secrets = set()
    for number in range(ROUNDS):
        secrets.add(client.ask(message({"ping": 1, "$db": "admin"}, (), number)).plain()["secret"])
        reply = client.ask(message({"find": "books", "$db": "shop"}, (), number)).plain()
        head, tail = reply["cursor"]["firstBatch"][0]["buyers"]
        secrets |= {head, -tail}
        refused = client.ask(message({"find": "books", "sort": {"_spill": 1}, "$db": "shop"}, (), number)).plain()
        if refused["code"] != 115:
            failures.put(refused)
    if len(secrets) != 1:
        failures.put(secrets)
    client.close()


def test_many_clients_at_once_each_have_their_own_server_connection(relay):
    failures = queue.Queue()
    workers = [threading.Thread(target=work, args=(relay, failures)) for _ in range(SESSIONS)]
    threading.Thread(target=serve_all, args=(relay, SESSIONS), daemon=True).start()
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
        assert not worker.is_alive()
    assert failures.empty(), failures.get()
    names = [f"spillway_{name}_total" for name in ("merged_documents", "commands_refused")]

    def counted():
        """Behind the answers."""
        samples = relay.spillway.metrics()
        return [samples[name] for name in names] == [SESSIONS * ROUNDS] * 2

    wait_for(counted, "all to be counted")


def test_connections_are_spread_over_both_loops(relay):
    """Each loop has a listener of its own (SO_REUSEPORT): the kernel's table shows two."""
    entries = [line.split() for line in pathlib.Path("/proc/net/tcp").read_text().splitlines()]
    port = f":{relay.spillway.port:04X}"
    assert sum(entry[1].endswith(port) and entry[3] == LISTENING for entry in entries) == 2
