"""What 16 good connections notice of 1,000 hostile ones, and what memory those take."""

import contextlib
import dataclasses
import itertools
import os
import selectors
import socket
import statistics
import threading
import time

from bench.arms import DATABASE, PINNED, RULED, UNRULED, Load, Stub, memory, rule
from bench.table import Row
from support import frames
from support.certificates import Authority
from support.frames import message
from support.spillway import Spillway

LIMIT = 64  # limits.memory, MB
HELLO = message({"hello": 1, "compression": ["zstd", "zlib", "snappy"], "$db": "admin"})
UPDATE = {"update": RULED, "$db": DATABASE}


def pushes(size):
    return message(UPDATE, [("updates", [{"q": {"_id": 1}, "u": {"$push": {"a": bytes(size)}}}])], 7)


def claims(size, sent):
    """The beginning of a push whose header claims `size` bytes."""
    return size.to_bytes(4, "little") + pushes(size if size < 100_000 else sent + 100)[4:sent]


@dataclasses.dataclass
class Kind:
    """What each connection sends at first, and again and again. `goes`: it closes as soon as it is there."""

    first: bytes = b""
    again: bytes = b""
    pause: float = 0.05
    reads: bool = True
    goes: bool = False
    secured: bool = False  # to the listener that wants TLS


def kinds():
    refused = message({"mapReduce": RULED, "map": "", "reduce": "", "out": "x", "$db": DATABASE}, (), 7)
    continued = message({"saslContinue": 1, "conversationId": 1, "payload": b"x" * 100, "$db": "admin"})
    client_hello = bytes.fromhex("16030102000100") + bytes(505)
    return {
        "half a header": Kind(HELLO[:8]),
        "frames of 60 KiB without their end": Kind(claims(61_440, 61_000)),
        "claims of 48 MB": Kind(claims(48_000_000, 1024)),
        "hellos without end": Kind(HELLO, HELLO),
        "saslContinue without saslStart": Kind(HELLO, continued),
        "TLS on the plain port": Kind(client_hello),
        "plain bytes on the TLS port": Kind(HELLO, secured=True),
        "long ClientHellos": Kind(bytes.fromhex("16030100680101ff00") + bytes(100), secured=True),
        "refusals that nobody reads": Kind(HELLO, refused * 20, reads=False),
        "garbage": Kind(os.urandom(200)),
        "compressed bombs": Kind(HELLO + frames.compressed(pushes(40_000_000), "zstd")),
        "a byte a second": Kind(HELLO[:1], b"\0", pause=1.0),
        "coming and going": Kind(goes=True),
    }


class Crowd:
    """Context manager: a thread that keeps so many connections of a kind open; who is thrown out comes again, 500 a
    second at most."""

    COME_AGAIN = 0.002

    def __init__(self, kind, ports, count):
        self.kind, self.count = kind, count
        self.port = ports[1 if kind.secured else 0]
        self.selector = selectors.DefaultSelector()
        self.open, self.came = {}, 0
        self.stop = threading.Event()
        self.full = threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self):
        self.thread.start()
        self.full.wait(60)
        return self

    def __exit__(self, *_):
        self.stop.set()
        self.thread.join()
        for sock in list(self.open):
            self._leave(sock)

    def _come(self):
        sock = socket.socket()
        with contextlib.suppress(OSError):
            sock.connect(("127.0.0.1", self.port))
        sock.setblocking(False)
        self.came += 1
        if self.kind.goes:
            sock.close()
        else:
            self.open[sock] = (self.kind.first, time.monotonic())
            self.selector.register(sock, selectors.EVENT_READ)

    def _leave(self, sock):
        self.selector.unregister(sock)
        sock.close()
        del self.open[sock]

    def _send(self, sock, now):
        left, due = self.open[sock]
        if not left and (not self.kind.again or now < due):
            return
        left = left or self.kind.again
        try:
            sent = sock.send(left)
        except BlockingIOError:
            sent = 0
        except OSError:
            self._leave(sock)
            return
        self.open[sock] = (left[sent:], now + self.kind.pause)

    def _read(self, sock):
        try:
            if not sock.recv(65536):
                self._leave(sock)
        except BlockingIOError:
            return
        except OSError:
            self._leave(sock)

    def _run(self):
        coming = 0.0
        for turn in itertools.count():
            if self.stop.is_set():
                return
            now = time.monotonic()
            while len(self.open) < self.count and (not self.full.is_set() or coming < now):
                self._come()
                coming = max(coming, now - 0.1) + self.COME_AGAIN
                if self.came >= self.count:
                    self.full.set()
            for sock in list(self.open):
                self._send(sock, now)
            events = self.selector.select(0.01) if self.open else time.sleep(0.001) or ()
            for key, _ in events if self.kind.reads or turn % 100 == 0 else ():
                self._read(key.fileobj)


@contextlib.contextmanager
def crowded():
    """Spillway with a plain listener and one that wants TLS, before a stub."""
    with Authority() as authority, Stub() as stub, Stub() as other:
        more = {"workers": 1, "limits": {"memory": f"{LIMIT}MB", "handshake": "10s"}}
        spillway = Spillway([stub, other], [rule()], more)
        spillway.settings["listen"][1]["tls"] = {"cert": str(authority.cert), "key": str(authority.key)}
        spillway.command = PINNED + spillway.command
        with spillway:
            yield spillway


def measure(kind, scale):
    """The good ones' p99 beside the crowd against alone, and megabytes above limits.memory."""
    with crowded() as spillway, Load(spillway.port, connections=16, collection=UNRULED) as good:
        good.run(scale.seconds / 2)
        ratios = []
        for _ in range(max(scale.rounds // 3, 1)):
            alone = good.run(scale.seconds)["p99_us"]
            with Crowd(kind, spillway.ports, scale.hostile):
                ratios.append(good.run(scale.seconds)["p99_us"] / alone)
        return statistics.median(ratios), memory(spillway.pid, "VmHWM", "status") / 1024 - LIMIT


def crowd(scale):
    slower, above = {}, {}
    for name, kind in kinds().items():
        slower[name], above[name] = measure(kind, scale)
    return [Row(f"p99 of 16 connections beside {scale.hostile} hostile ones / alone", max(slower.values()), at_most=2.0,
                detail=slower),
            Row("memory above limits.memory, MiB", max(above.values()), at_most=64, least=-LIMIT, detail=above)]
