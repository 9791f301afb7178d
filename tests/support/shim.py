"""A TCP shim between Spillway and mongod that understands frames: it counts commands and cuts, holds or kills
between any two.

    def hook(request):            # called in the connection's own thread before a request is forwarded
        if request.name == "insert":
            return CUT_AFTER
    with Shim(mongod.port, hook) as shim: ...    # give Spillway shim.address as its server

A hook that blocks holds the request. What it returns says what happens next: None forwards, CUT_BEFORE closes both
sides without forwarding, CUT_AFTER forwards, waits for the server's reply (or its end), and closes both sides
without passing the reply on. A function is called once the reply is there, with another function that passes the
reply on; where it returns True both sides are closed then.
"""

import functools
import itertools
import socket
import struct
import threading

from support import exact

CUT_BEFORE, CUT_AFTER = "cut before", "cut after"
OP_MSG = 2013
HANDSHAKE = {"hello", "isMaster", "ismaster", "saslStart", "saslContinue", "ping", "endSessions"}
_header = struct.Struct("<iiii")


class Request:
    """One request as it passed: which connection, its number among all, its command."""

    def __init__(self, shim, connection, frame):
        self.shim = shim
        self.connection = connection
        self.frame = frame
        self.name = self._command()
        self.number = 0 if self.handshake() else next(shim.numbers)

    def _command(self):
        """The body's first name; None where the frame is no OP_MSG with its body first."""
        if _header.unpack_from(self.frame)[3] != OP_MSG or self.frame[20] != 0:
            return None
        return self.frame[26:self.frame.index(b"\0", 26)].decode()

    @functools.cached_property
    def pairs(self):
        return exact.parse(self.frame, 21)

    @property
    def collection(self):
        value = (exact.NULL, b"") if self.handshake() else self.pairs[0][1]
        return exact.plain(value) if value[0] == exact.STRING else None

    def handshake(self):
        return self.name is None or self.name in HANDSHAKE

    def get(self, path):
        return exact.get(self.pairs, path)

    def is_question(self):
        """Spillway asks whether the client may run its command, which is not run."""
        limit = self.get("maxTimeMS")
        return limit is not None and exact.plain(limit) >= 1 << 40

    def __repr__(self):
        return f"<{self.number}: {self.name} {self.collection} on connection {self.connection}>"


class Shim:
    """Context manager: listens on a free port and passes on to `port`; `requests` holds all that came."""

    def __init__(self, port, hook=None):
        self.target = port
        self.hook = hook
        self.numbers = itertools.count(1)
        self.connections = itertools.count(1)
        self.requests = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.sockets = set()
        self.lock = threading.Lock()

    @property
    def address(self):
        return f"127.0.0.1:{self.port}"

    def __enter__(self):
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.listener.close()
        self.cut_all()

    def cut_all(self):
        """Closes every connection that stands now."""
        with self.lock:
            sockets = list(self.sockets)
        for each in sockets:
            _end(each)

    def restart(self, hook=None):
        """Counts from 1 again, with another hook."""
        with self.lock:
            self.hook = hook
            self.numbers = itertools.count(1)
            self.requests = []

    def _accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client):
        try:
            server = socket.create_connection(("127.0.0.1", self.target))
        except OSError:
            client.close()
            return
        pair = {client, server}
        for each in pair:
            each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with self.lock:
            self.sockets |= pair
            number = next(self.connections)
        try:
            self._pass_requests(number, client, server)
        except OSError:
            pass  # one side has gone
        finally:
            for each in pair:
                _end(each)
                each.close()
            with self.lock:
                self.sockets -= pair

    def _pass_requests(self, number, client, server):
        """Mongo-c-driver sends one request at a time, so each reply belongs to the request before it."""
        while True:
            frame = _receive(client)
            with self.lock:
                request = Request(self, number, frame)
                self.requests.append(request)
                hook = self.hook
            verdict = hook(request) if hook and not request.handshake() else None
            if verdict == CUT_BEFORE:
                return
            server.sendall(frame)
            reply = _receive(server)
            if verdict == CUT_AFTER:
                return
            if not callable(verdict):
                client.sendall(reply)
            elif verdict(functools.partial(client.sendall, reply)):
                return


def _end(each):
    try:
        each.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass  # it was closed before


def _take(each, size):
    data = bytearray()
    while len(data) < size:
        part = each.recv(min(size - len(data), 1 << 20))
        if not part:
            raise ConnectionError("closed")
        data += part
    return bytes(data)


def _receive(each):
    head = _take(each, 16)
    return head + _take(each, _header.unpack(head)[0] - 16)
