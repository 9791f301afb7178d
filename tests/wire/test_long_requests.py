"""What a long request costs is paid by a thread beside its event loop: other clients of the loop do not wait for it."""

import contextlib
import functools
import select
import signal
import socket
import struct
import subprocess
import threading

import pytest

from support import exact, frames, tasks
from support.frames import message
from support.peer import CLOSED, DEADLINE, Ended, Relay
from support.process import wait_for
from support.spillway import program
from wire.conftest import RULES

pytestmark = pytest.mark.share(1)
STATEMENTS = 100_000
MOVES = "tails move under the new rules, too, from now on"
PING = message({"ping": 1, "$db": "admin"}, (), 5)
WRITTEN = {"n": STATEMENTS, "nModified": STATEMENTS, "ok": 1.0}
FOUND = {"cursor": {"firstBatch": [], "id": exact.Raw(exact.INT64, bytes(8)), "ns": "shop.books"}, "ok": 1.0}


@functools.cache
def pushes(count=STATEMENTS, array="buyers"):
    pushed = [exact.document({"q": {"_id": i}, "u": {"$push": {array: i}}}) for i in range(count)]
    return message({"update": "books", "$db": "shop"}, [("updates", pushed)], 7)


def choices():
    """The list is written here: the tests' own encoder takes seconds for so many."""
    choice = exact.document({"buyers": 1})
    listed = b"".join(b"\x03%d\0" % i + choice for i in range(95_000))
    array = struct.pack("<i", len(listed) + 5) + listed + b"\0"
    return message({"find": "books", "filter": {"$or": exact.Raw(exact.ARRAY, array)}, "$db": "shop"}, (), 7)


def unions():
    stages = [{"$unionWith": "books"}] * 900
    return message({"aggregate": "books", "pipeline": stages, "cursor": {}, "$db": "shop"}, (), 7)


REQUESTS = {
    "100,000 pushes": (pushes, WRITTEN),
    "100,000 pushes, packed": (lambda: frames.compressed(pushes(), "zlib"), WRITTEN),
    "95,000 choices": (choices, FOUND),
    "900 unions in 43 KB": (unions, FOUND),
}


@pytest.fixture(scope="module")
def relay():
    with Relay(RULES, {"workers": 1, "limits": {"handshake": "10m", "memory": "1GB"}}) as made:
        made.server.script(apart=True)
        yield made


class Clock:
    """Seconds of CPU that Spillway's threads have taken."""

    def __init__(self, spillway):
        self.pid = spillway.pid
        self.loop = None

    def all(self):
        return {task: tasks.seconds(task) for task in tasks.tasks(self.pid)}

    def sum(self):
        return sum(self.all().values())

    def find_loop(self, ping):
        """The thread that pings keep busy is the event loop."""
        before = self.all()
        for _ in range(200):
            ping()
        after = self.all()
        self.loop = max(after, key=lambda task: after[task] - before.get(task, 0))

    def of_loop(self):
        return tasks.seconds(self.loop)


def pinger(relay):
    other, behind = relay.connect_known()

    def ping():
        other.send(PING)
        behind.answer(behind.frame(), {"ok": 1.0})
        other.frame()
    return ping


def longest_pause(clock, ping, ask):
    """(the most CPU time of the loop between two pings' answers, that of all threads) while `ask` runs."""
    before, longest = clock.sum(), 0
    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    while thread.is_alive():
        start = clock.of_loop()
        ping()
        longest = max(longest, clock.of_loop() - start)
    return longest, clock.sum() - before


@pytest.mark.parametrize("name", REQUESTS)
def test_no_other_client_of_the_loop_waits_for_a_long_request(relay, name):
    """In one of some tries: what else runs on the machine costs CPU time, too."""
    make, body = REQUESTS[name]
    request, ping = make(), pinger(relay)
    client, server = relay.connect_known()
    clock, seen = Clock(relay.spillway), []

    def ask():
        client.send(request)
        server.answer(server.frame(), body)
        assert client.frame().plain()["ok"] == 1.0

    clock.find_loop(ping)
    while len(seen) < 5 and not any(longest < work / 4 for longest, work in seen):
        seen.append(longest_pause(clock, ping, ask))
    assert any(longest < work / 4 for longest, work in seen), seen


def bulk():
    """100,000 ops, for a server that does not know bulkWrite."""
    ops = [exact.document({"update": 0, "filter": {"_id": i}, "updateMods": {"$push": {"buyers": i}}})
           for i in range(STATEMENTS)]
    spaces = [exact.document({"ns": "shop.books"})]
    return message({"bulkWrite": 1, "$db": "admin"}, [("ops", ops), ("nsInfo", spaces)], 7)


def test_a_long_request_keeps_its_place_among_the_others_of_its_connection(relay):
    client, server = relay.connect_known()
    request = pushes(2000)
    sender = threading.Thread(target=client.send, args=(PING, request, PING), daemon=True)
    sender.start()
    for expected in (PING, request, PING):
        frame = server.frame()
        assert frame.raw == expected
        server.answer(frame, {"n": 2000, "nModified": 2000, "ok": 1.0})
        client.frame()
    sender.join()


def test_a_reply_that_comes_with_the_end_of_the_server_reaches_the_client(relay):
    client, server = relay.connect_known()
    sender = threading.Thread(target=client.send, args=(pushes(20_000),), daemon=True)
    sender.start()
    server.answer(server.frame(), {"n": 20_000, "nModified": 7, "ok": 1.0})
    server.close()
    assert client.frame().plain()["nModified"] == 7
    assert client.rest() == (b"", CLOSED)
    sender.join()


@pytest.mark.parametrize("end", ["client", "server"])
def test_a_connection_may_end_while_its_request_is_looked_at(relay, end):
    before = relay.spillway.metrics()["spillway_connections_closed_total"]
    sessions = [relay.connect_known() for _ in range(4)]
    request = pushes(20_000)
    for client, server in sessions:
        client.send(request)
        (client if end == "client" else server).reset()
    other, behind = relay.connect_known()
    other.send(PING)
    behind.answer(behind.frame(), {"ok": 1.0})
    assert other.frame().plain()["ok"] == 1.0
    for client, server in sessions:
        if end == "server":
            client.rest()
        server.close()
    wait_for(lambda: relay.spillway.metrics()["spillway_connections_closed_total"] >= before + len(sessions),
             "the connections to be closed")


NEW = {
    "name": "new", "namespace": "other.books", "array": "buyers", "threshold": 3, "existing": "move", "sweep": "off",
    "overflow": {"collection": "other_extra", "layout": "batches", "link": "book", "array": "part"},
}
REFUSED = message({"mapReduce": "books", "map": 5000 * " ", "out": {"inline": 1}, "$db": "other"}, (), 9)


def reload(relay, rules):
    """Until every loop has the rules."""
    spillway = relay.spillway
    spillway.settings["rules"] = rules
    spillway.write_file()
    subprocess.run([program(), "reload", "--config", spillway.file], check=True, capture_output=True, timeout=60)


def busy(relay, count, request):
    """So many connections with a long request each, at which the thread beside the loop begins to look."""
    ends = [relay.connect_known() for _ in range(count)]
    senders = [threading.Thread(target=client.send, args=(request,), daemon=True) for client, _ in ends]
    for sender in senders:
        sender.start()
    for sender in senders:
        sender.join()
    return ends


def seen_by_the_loop(ping):
    """What was sent before has been read: each turn of a loop reads from all connections."""
    for _ in range(2):
        ping()


def has_come(end):
    """Whether there are bytes to read; an end or a reset is none."""
    try:
        return bool(select.select([end.socket], [], [], 0)[0]) and bool(end.socket.recv(1, socket.MSG_PEEK))
    except ConnectionResetError:
        return False


@pytest.mark.parametrize("gone", [False, True], ids=["client stays", "client goes"])
def test_a_request_that_waited_while_rules_changed_is_judged_by_the_new_ones(relay, gone):
    ping, request = pinger(relay), pushes(array="another")
    before = relay.spillway.settings["rules"]
    for count in (4, 12, 36):
        client, server = relay.connect_known()
        ends = busy(relay, count, request)
        client.send(REFUSED)
        seen_by_the_loop(ping)
        if gone:
            client.reset()
        reload(relay, [*before, NEW])
        waited = not has_come(server)
        answer = None if gone else next_frame(client, server)
        for one, behind in ends:
            behind.answer(behind.frame(), WRITTEN)
            assert one.frame().plain()["nModified"] == STATEMENTS
            one.close()
        reload(relay, before)
        if waited:
            break
    assert waited, "the request did not wait for the others"
    if gone:
        assert server.rest()[0] == b""
    else:
        assert answer.plain()["code"] == 115


def next_frame(client, server):
    """The answer, or the request itself where it has gone to the server."""
    ready = select.select([client.socket, server.socket], [], [], DEADLINE)[0]
    return client.frame() if client.socket in ready else server.frame()


def test_new_rules_wait_for_work_under_those_of_before(relay):
    """The reply of a request that began before comes while its thread is busy with others."""
    ping, request, before = pinger(relay), pushes(array="another"), relay.spillway.settings["rules"]
    ((client, server),) = busy(relay, 1, pushes(2000))
    frame = server.frame()
    reload(relay, [*before, NEW])
    told = relay.spillway.said().count(MOVES)
    ends = busy(relay, 8, request)
    server.answer(frame, WRITTEN)
    seen_by_the_loop(ping)
    wait_for(lambda: has_come(client) or relay.spillway.said().count(MOVES) > told, "the answer")
    assert has_come(client), "new rules held for all before the request of before had its answer"
    assert client.frame().plain()["nModified"] == STATEMENTS
    for one, behind in ends:
        behind.answer(behind.frame(), WRITTEN)
        one.frame()
    wait_for(lambda: relay.spillway.said().count(MOVES) > told, "the new rules to move")
    reload(relay, before)


def answer_or_end(client, server):
    """The reply, or None where Spillway has closed."""
    try:
        server.answer(server.frame(), WRITTEN)
        return client.frame().plain()
    except (Ended, OSError):
        return None


@pytest.mark.parametrize("drain", ["30s", "1ms"])
def test_spillway_may_end_while_long_requests_are_looked_at(drain):
    """What was read before is answered if there is time for it; Relay sees that Spillway ends well in both cases."""
    with Relay(RULES, {"workers": 1, "limits": {"handshake": "10m", "drain": drain}}) as relay:
        ends = busy(relay, 6, pushes(20_000))
        seen_by_the_loop(pinger(relay))
        relay.spillway.process.send_signal(signal.SIGTERM)
        relay.spillway.says("draining")
        replies = [answer_or_end(client, server) for client, server in ends]
        assert relay.spillway.process.wait(DEADLINE) == 0
    if drain == "30s":
        assert [each and each["nModified"] for each in replies] == 6 * [STATEMENTS]


class Asker(threading.Thread):
    """Sends long requests until it is told to stop: `other.books` is under a rule, or not."""

    def __init__(self, relay):
        super().__init__(daemon=True)
        self.client, self.server = relay.connect_known()
        self.ends, self.wrong, self.refused, self.passed = threading.Event(), [], 0, 0
        threading.Thread(target=self.answer, daemon=True).start()

    def answer(self):
        with contextlib.suppress(Ended, OSError):
            while True:
                self.server.answer(self.server.frame(), WRITTEN)

    def run(self):
        try:
            while not self.ends.is_set():
                if self.client.ask(pushes(2000)).plain() != WRITTEN:
                    self.wrong.append("an update")
                code = self.client.ask(REFUSED).plain().get("code")
                self.refused += code == 115
                self.passed += code is None
        except Exception as error:
            self.wrong.append(repr(error))


def test_reloads_change_the_rules_while_long_requests_come():
    with Relay(RULES, {"workers": 2, "limits": {"handshake": "10m"}}) as relay:
        relay.server.script(apart=True)
        before, askers = relay.spillway.settings["rules"], [Asker(relay) for _ in range(4)]
        for asker in askers:
            asker.start()
        for turn in range(6):
            seen = [(asker.refused, asker.passed)[turn % 2] for asker in askers]
            reload(relay, before if turn % 2 else [*before, NEW])
            wait_for(lambda: any(asker.wrong for asker in askers) or all(
                (asker.refused, asker.passed)[turn % 2] > one for asker, one in zip(askers, seen)),
                "requests under these rules")
        for asker in askers:
            asker.ends.set()
            asker.join(DEADLINE)
        assert [asker.wrong for asker in askers] == 4 * [[]]
