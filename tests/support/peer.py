"""Spillway between two scripted ends: a fake server behind it and raw clients before it."""

import contextlib
import errno
import pathlib
import queue
import re
import socket
import struct
import threading

from support import exact, frames
from support.spillway import Spillway

DEADLINE = 60  # bounds what hangs
CLOSED, RESET = "closed", "reset"


class Ended(ConnectionError):
    """The other side has ended the connection; `how` says in which way, `data` what came before."""

    def __init__(self, how, data):
        super().__init__(f"{how} after {len(data)} bytes, the last of them {bytes(data[-100:])!r}")
        self.how = how
        self.data = bytes(data)


class End:
    """One end of a TCP connection, played by hand; every wait has a deadline."""

    def __init__(self, sock):
        self.socket = sock
        sock.settimeout(DEADLINE)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, *data):
        self.socket.sendall(b"".join(data))

    def take(self, size):
        """Just so many bytes; raises Ended where the other side ends before."""
        data = bytearray()
        while len(data) < size:
            try:
                part = self.socket.recv(min(size - len(data), 1 << 20))
            except ConnectionResetError:
                raise Ended(RESET, data) from None
            if not part:
                raise Ended(CLOSED, data)
            data += part
        return bytes(data)

    def frame(self):
        head = self.take(16)
        return frames.Frame(head + self.take(frames.size_of(head) - 16))

    def rest(self):
        """All bytes up to the end, and which end it was."""
        try:
            return self.take(1 << 40), None
        except Ended as ended:
            return ended.data, ended.how

    def finish(self):
        """Sends a FIN; the other direction stays open."""
        self.socket.shutdown(socket.SHUT_WR)

    def reset(self):
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()

    def close(self):
        self.socket.close()

    def ask(self, frame):
        """Sends a request and returns the reply."""
        self.send(frame)
        return self.frame()

    def answer(self, request, body, **options):
        """Replies to a request with an OP_MSG."""
        self.send(frames.message(body, response_to=request.request_id, **options))

    def answer_each(self, count, body=None):
        """Replies to so many requests, each as it comes, and returns them."""
        seen = []
        for _ in range(count):
            seen.append(self.frame())
            self.answer(seen[-1], body or {"ok": 1.0})
        return seen


HELLO = {
    "isWritablePrimary": True, "ismaster": True, "helloOk": True, "maxBsonObjectSize": 16777216,
    "maxMessageSizeBytes": 48000000, "maxWriteBatchSize": 100000,
    "logicalSessionTimeoutMinutes": 30, "minWireVersion": 0, "maxWireVersion": 17, "ok": 1.0,
}
QUESTION = frames.message({"hello": 1, "apiVersion": "1", "$db": "admin"})  # whether clients reach the server
NOT_FOUND = {"ok": 0.0, "errmsg": "ns does not exist", "code": 26, "codeName": "NamespaceNotFound"}


def is_spillways_own(sock):
    """Whether the first message is none of a client's."""
    first = sock.recv(1 << 16, socket.MSG_PEEK)
    return b"mongoc" in first or first[16:] == QUESTION[16:]


class Accepted(End):
    """The server's end of a client's connection. Which one that is turns out when it is read: Spillway may ask by
    itself meanwhile whether the server is there, as it does after a client's connection on which the server said
    nothing.
    """

    def __init__(self, server):
        super().__init__(server.waiting.get(timeout=DEADLINE))
        self.server, self.met = server, False

    def take(self, size):
        try:
            while not self.met and is_spillways_own(self.socket):
                self.server.serve(self.socket)
                super().__init__(self.server.waiting.get(timeout=DEADLINE))
        except ConnectionResetError:
            raise Ended(RESET, b"") from None
        self.met = True
        return super().take(size)


class FakeServer:
    """Two listeners: behind one sits a small mongod that satisfies the mover for ever; behind the other it sits
    until script() is called, and from then on whoever connects there is the test's, by accept().
    """

    def __init__(self, hello=None):
        self.hello = hello or HELLO
        self.scripted, self.apart, self.over = False, False, False
        self.waiting = queue.Queue()
        self.looked = threading.Event()
        self.replies = {}
        self.listener, self.own = (socket.create_server(("127.0.0.1", 0)) for _ in range(2))
        self.address = f"127.0.0.1:{self.listener.getsockname()[1]}"
        self.uri = f"mongodb://127.0.0.1:{self.own.getsockname()[1]}/"
        self.ends = []

    def __enter__(self):
        for listener in (self.listener, self.own):
            threading.Thread(target=self._accept, args=(listener,), daemon=True).start()
        return self

    def __exit__(self, *_):
        self.refuse()
        _stop(self.own)
        self.end()

    def end(self):
        """The test needs none of its connections any more, nor any that comes still."""
        self.over = True
        for end in self.ends:
            end.close()
        with contextlib.suppress(queue.Empty):
            while True:
                self.waiting.get_nowait().close()

    def refuse(self):
        """Nobody listens at the address any more."""
        _stop(self.listener)

    def listen_again(self):
        """After refuse(), at the same address."""
        self.listener = socket.create_server(("127.0.0.1", int(self.address.rpartition(":")[2])))
        threading.Thread(target=self._accept, args=(self.listener,), daemon=True).start()

    def script(self, apart=False):
        """With `apart`, Spillway's own account is served there further on: who connects has to speak first, since its
        first message tells.
        """
        self.scripted, self.apart = True, apart

    def accept(self):
        end = Accepted(self)
        self.ends.append(end)
        return end

    def serve(self, sock):
        threading.Thread(target=self._serve, args=(sock,), daemon=True).start()

    def _accept(self, listener):
        while True:
            try:
                sock, _ = listener.accept()
            except OSError:
                return
            if self.scripted and listener is self.listener:
                if self.apart:
                    threading.Thread(target=self._meet, args=(sock,), daemon=True).start()
                else:
                    self._hand_over(sock)
            else:
                self.serve(sock)

    def _meet(self, sock):
        if is_spillways_own(sock):
            self._serve(sock)
        else:
            self._hand_over(sock)

    def _hand_over(self, sock):
        self.waiting.put(sock)
        if self.over:
            self.end()

    def _serve(self, sock):
        with sock, contextlib.suppress(OSError):
            end = End(sock)
            sock.settimeout(None)
            while True:
                self._reply(end, end.frame())

    def _reply(self, end, request):
        command = exact.plain((exact.DOCUMENT, request.pairs()))
        body = self._body(command)
        if "$currentOp" in str(command.get("pipeline")) and self._is_where_clients_go(end):
            self.looked.set()
        if request.opcode == frames.OP_QUERY:
            end.send(frames.reply(body, request.request_id))
        else:
            end.answer(request, body)

    def _is_where_clients_go(self, end):
        return end.socket.getsockname()[1] == int(self.address.rpartition(":")[2])

    def _body(self, command):
        name = next(iter(command))
        if name in self.replies:
            return self.replies[name](command)
        if name in ("hello", "isMaster", "ismaster"):
            return self.hello
        if name == "listIndexes":
            return NOT_FOUND
        cursor = {"id": exact.Raw(exact.INT64, bytes(8)), "ns": "x.y", "firstBatch": []}
        return {"cursor": cursor, "n": 0, "ok": 1.0}


def _stop(listener):
    try:
        listener.shutdown(socket.SHUT_RDWR)  # wakes the thread in accept
    except OSError as error:
        if error.errno not in (errno.ENOTCONN, errno.EBADF):
            raise
    listener.close()


PACKED_HELLO = frames.message({"hello": 1, "compression": list(frames.PACKERS), "$db": "admin"})


def agree(client, server, packers=tuple(frames.PACKERS)):
    """The handshake in which client and server agree on these compressors."""
    client.send(PACKED_HELLO)
    server.answer(server.frame(), {"compression": list(packers), "ok": 1.0})
    client.frame()


class Relay:
    """Context manager: a fake server, Spillway before it, and pairs of ends on demand."""

    def __init__(self, rules=(), more=None, hello=None, others=(), advertise=None, wrapper=()):
        self.server = FakeServer(hello)
        settings = {"upstream": {"uri": self.server.uri}, "limits": {"handshake": "10m", "drain": "5s"}}
        settings.update(more or {})
        rules = [{**rule, "sweep": "off"} for rule in rules]
        self.spillway = Spillway([self.server, *others], rules, settings)
        self.spillway.command = [*wrapper, *self.spillway.command]
        if advertise:
            self.spillway.settings["listen"][0]["advertise"] = advertise
        self.clients = []

    def __enter__(self):
        self.server.__enter__()
        self.spillway.__enter__()
        if self.spillway.settings["rules"] and self.spillway.settings["upstream"].get("uri") == self.server.uri:
            assert self.server.looked.wait(DEADLINE), "Spillway did not look for reads of before its start"
        self.server.script()
        return self

    def __exit__(self, kind=None, *_):
        """Ends Spillway in order: a sanitizer's last word is its exit code."""
        for end in self.clients:
            end.close()
        self.server.end()
        try:
            if kind is None and self.spillway.running() and self.spillway.stop() != 0:
                raise AssertionError(f"Spillway did not end well: {self.spillway.said()[-4000:]}")
        finally:
            self.spillway.__exit__()
            self.server.__exit__()

    def client(self):
        client = End(socket.create_connection(("127.0.0.1", self.spillway.port), DEADLINE))
        self.clients.append(client)
        return client

    def connect(self):
        """A client's end and the end of the server connection that Spillway opened for it."""
        client = self.client()
        return client, self.server.accept()

    def connect_packing(self):
        """Two ends that have agreed on all compressors."""
        client = self.client()
        client.send(PACKED_HELLO)
        server = self.server.accept()
        server.answer(server.frame(), {"compression": list(frames.PACKERS), "ok": 1.0})
        client.frame()
        return client, server

    def connect_known(self):
        """The same once the server has accepted a command on a ruled collection, of a client that has not signed in:
        it asks nobody who he is, and Spillway asks no more whether a client may run what it sends.
        """
        client, server = self.connect_packing()
        client.send(frames.message({"find": "books", "$db": "shop"}))
        cursor = {"firstBatch": [], "id": exact.Raw(exact.INT64, bytes(8)), "ns": "shop.books"}
        server.answer(server.frame(), {"cursor": cursor, "ok": 1.0})
        client.frame()
        return client, server

    def private_memory(self):
        """Bytes of memory that Spillway has written. Clean pages are a file's, and its alone or not as other
        Spillways come and go."""
        rollup = pathlib.Path(f"/proc/{self.spillway.pid}/smaps_rollup").read_text()
        return 1024 * sum(int(size) for size in re.findall(r"^Private_(?:Dirty|Hugetlb): +(\d+) kB", rollup, re.M))
