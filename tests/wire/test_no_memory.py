"""When the system gives no memory: what needs it fails alone, the process lives, others are served."""

import pathlib
import re
import resource
import threading

from support import exact, frames
from support.failing import Failing
from support.frames import message
from support.peer import DEADLINE, Ended, Relay
from support.process import wait_for
from wire.conftest import RULES

READERS, ELEMENTS = 40, 12000
UNAVAILABLE = 365
LARGE = 65537
PASSES = message({"insert": "plain", "$db": "shop"}, [("documents", [{"text": "x" * 60000}])], 5)
REPLY = message({"ok": 1.0, "text": "y" * 60000}, (), 9, 5)
STATE = {"g": bytes([1] * 16), "h": 0, "n": ELEMENTS}


def found(document, cursor=0, name="firstBatch"):
    identity = exact.Raw(exact.INT64, cursor.to_bytes(8, "little"))
    return {"cursor": {name: [document], "id": identity, "ns": "shop.books"}, "ok": 1.0}


MAIN = frames.document(found({"_id": 1, "buyers": [], "_spill": {"buyers": STATE}}))
OVERFLOW = frames.document(found(
    {"book": 1, "part": ["x" * 1000] * ELEMENTS, "_spill": {"i": 1, "g": bytes([1] * 16), "p": 0}}))
WHOLE = frames.document(found({"_id": 1, "buyers": ["x" * 1000] * ELEMENTS}))


def size_in_kib(relay, name):
    status = pathlib.Path(f"/proc/{relay.spillway.pid}/status").read_text()
    return int(re.search(rf"^{name}:\s+(\d+) kB", status, re.M).group(1))


def limit_memory(relay, spare):
    """The process may map so many bytes more than it has mapped now; None: as many as it likes."""
    size = resource.RLIM_INFINITY if spare is None else 1024 * size_in_kib(relay, "VmSize") + spare
    resource.prlimit(relay.spillway.pid, resource.RLIMIT_AS, (size, resource.RLIM_INFINITY))


def test_a_reload_for_which_there_is_no_thread_is_refused():
    with Relay(RULES) as relay:
        limit_memory(relay, 0)
        relay.spillway.hang_up()
        relay.spillway.says("1036 reload: the system gives no thread")
        limit_memory(relay, None)
        relay.spillway.hang_up()
        relay.spillway.says("1034 reload: ")
        client, server = relay.connect()
        client.send(message({"ping": 1, "$db": "admin"}))
        server.answer_each(1)
        assert client.frame().plain()["ok"] == 1.0


class Reader(threading.Thread):
    """A client that reads a spilled array of 12 MB, and the server behind it; `barrier`: the array's last byte
    comes when all readers have the rest of it."""

    def __init__(self, relay, barrier):
        super().__init__(daemon=True)
        self.client, self.server = relay.connect_known()
        self.barrier = barrier
        self.outcome = None

    def run(self):
        threading.Thread(target=self._serve, daemon=True).start()
        self.client.send(message({"find": "books", "$db": "shop"}, (), 7))
        try:
            reply = self.client.frame()
        except Ended as ended:
            self.outcome = ended
            return
        self.outcome = "whole" if reply.body == WHOLE else reply.plain()

    def _serve(self):
        try:
            self.server.answer(self.server.frame(), MAIN)
            reply = message(OVERFLOW, (), 9, self.server.frame().request_id)
            self.server.send(reply[:-1])
            self.barrier.wait(DEADLINE)
            self.server.send(reply[-1:])
        except (Ended, OSError, threading.BrokenBarrierError):
            self.barrier.abort()  # what the client hears tells why


def read_by_all(relay, count):
    barrier = threading.Barrier(count)
    readers = [Reader(relay, barrier) for _ in range(count)]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()
    relay.spillway.require_running()
    return [reader.outcome for reader in readers]


def test_of_many_large_reads_without_memory_some_fail_alone():
    with Relay(RULES, {"workers": 2, "limits": {"handshake": "10m"}}) as relay:
        assert read_by_all(relay, 1) == ["whole"]
        limit_memory(relay, 100 << 20)
        outcomes = read_by_all(relay, READERS)
        failed = [each for each in outcomes if each != "whole"]
        assert 0 < len(failed) < READERS, failed
        for each in failed:
            assert (each["code"], each["codeName"]) == (UNAVAILABLE, "TemporarilyUnavailable")
        wait_for(lambda: read_by_all(relay, 1) == ["whole"], "memory to be there again")
        limit_memory(relay, None)
        assert read_by_all(relay, 4) == ["whole"] * 4


def test_without_memory_a_large_request_is_refused_and_what_passes_is_served():
    """Of what came compressed could not be told whether it ends a transaction: that connection closes."""
    failing = Failing("malloc")
    with Relay(RULES, {"workers": 1, "limits": {"handshake": "10m"}}, wrapper=failing.wrapper) as relay:
        held, packed = relay.connect_known(), relay.connect_known()
        failing.set(least=LARGE, lasting=1, nth=1)
        request = message({"insert": "books", "$db": "shop"}, [("documents", [{"_id": 1, "text": "x" * 1000000}])], 7)
        reply = held[0].ask(request).plain()
        assert (reply["code"], "what the system gives" in reply["errmsg"]) == (UNAVAILABLE, True)
        packed[0].send(frames.compressed(request, "zlib"))
        assert packed[0].rest()[0] == b""
        held[0].send(PASSES)
        assert held[1].take(len(PASSES)) == PASSES
        held[1].send(REPLY)
        assert held[0].take(len(REPLY)) == REPLY
        failing.set(nth=0)
        held[0].send(request)
        held[1].answer(held[1].frame(), {"n": 1, "ok": 1.0})
        assert held[0].frame().plain() == {"n": 1, "ok": 1.0}
    failing.close()
