"""Scripted ends that speak TLS, over a socket that the test still holds by hand."""

import socket
import ssl
import threading

from support.certificates import Authority
from support.peer import CLOSED, DEADLINE, RESET, End, Ended, FakeServer, Relay

SIDES = ("client", "server", "both")
HANDSHAKE = b"\x16"  # a ClientHello's first byte


class SecuredEnd(End):
    """An End whose bytes are sealed; `piece` bytes of what is sealed go out at a time.

    `farewell` says whether the other side has sent its close_notify. Two threads may use it: one that sends, one
    that takes.
    """

    def __init__(self, sock, context, name=None, piece=None):
        super().__init__(sock)
        self.piece = piece
        self.farewell = False
        self.sent, self.come = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self.come, self.sent, server_side=name is None, server_hostname=name)
        self.engine, self.line = threading.Lock(), threading.Lock()
        self._until_done(self.tls.do_handshake, 1 << 16)

    def send(self, *data):
        with self.line:
            for part in _parts(b"".join(data), 1 << 18):
                with self.engine:
                    self.tls.write(part)
                    sealed = self.sent.read()
                self._put(sealed)

    def send_sealed(self, data):
        """Bytes that TLS has not sealed."""
        with self.line:
            self._put(data)

    def take(self, size):
        data = bytearray()
        while len(data) < size:
            try:
                part = self._until_done(lambda: self._read(min(size - len(data), 1 << 20)), 1 << 20)
            except Ended as ended:
                raise Ended(ended.how, data) from None
            if not part:
                self.farewell = True
                raise Ended(self._end(), data)
            data += part
        return bytes(data)

    def _read(self, size):
        """Nothing behind the other side's close_notify."""
        try:
            return self.tls.read(size)
        except ssl.SSLZeroReturnError:
            return b""

    def say_farewell(self):
        """Sends a close_notify and nothing behind it; the socket stays open."""
        self.send_sealed(self.seal_farewell())

    def seal_farewell(self):
        """The close_notify that would go out."""
        try:
            self.tls.unwrap()
        except ssl.SSLWantReadError:
            pass
        return self.sent.read()

    def seal(self, data):
        """The bytes that would go out."""
        self.tls.write(data)
        return self.sent.read()

    def _until_done(self, step, size):
        while True:
            try:
                with self.engine:
                    result = step()
                self._flush()
                return result
            except ssl.SSLWantReadError:
                self._flush()
            except ssl.SSLError:
                self._flush()  # the alert
                raise
            try:
                come = self.socket.recv(size)
            except ConnectionResetError:
                raise Ended(RESET, b"") from None
            if not come:
                raise Ended(CLOSED, b"")
            with self.engine:
                self.come.write(come)

    def _flush(self):
        """What reading itself has to say: seldom anything, and who sends may be held up."""
        with self.engine:
            sealed = self.sent.read()
        if sealed:
            with self.line:
                self._put(sealed)

    def _put(self, sealed):
        for part in _parts(sealed, self.piece or len(sealed)):
            self.socket.sendall(part)

    def _end(self):
        """How the connection ends behind the farewell."""
        try:
            while self.socket.recv(1 << 16):
                pass
        except ConnectionResetError:
            return RESET
        return CLOSED


def _parts(data, size):
    for at in range(0, len(data), max(size, 1)):
        yield data[at:at + size]


class SecuredServer(FakeServer):
    """Speaks TLS with who begins with it."""

    def __init__(self, context, hello=None):
        super().__init__(hello)
        self.context = context
        self.piece = None

    def accept(self, secured=True):
        end = super().accept()
        if secured and self.context:
            self.ends.remove(end)
            end = SecuredEnd(end.socket, self.context, piece=self.piece)
            self.ends.append(end)
        return end

    def _serve(self, sock):
        if self.context and sock.recv(1, socket.MSG_PEEK) == HANDSHAKE:
            sock = self.context.wrap_socket(sock, server_side=True)
        super()._serve(sock)


class SecuredRelay(Relay):
    """A Relay with TLS on the "client" side, on the "server" side, or on "both"."""

    def __init__(self, side, rules=(), more=None, version=None):
        self.authority = Authority()
        self.version = version
        cert, key, _ = self.authority.sign("both ends")
        more = dict(more or {})
        self.seen = self._context(ssl.PROTOCOL_TLS_CLIENT) if side != "server" else None
        shown = self._context(ssl.PROTOCOL_TLS_SERVER) if side != "client" else None
        if shown:
            shown.load_cert_chain(cert, key)
            more["servers"] = {"tls": {"ca": str(self.authority.ca)}}
        super().__init__(rules, more)
        self.server.__exit__()
        self.server = SecuredServer(shown)
        self.spillway.settings["upstream"] = {"uri": self.server.uri}
        self.spillway.settings["listen"][0]["server"] = self.server.address
        if self.seen:
            self.spillway.settings["listen"][0]["tls"] = {"cert": str(cert), "key": str(key)}

    def __exit__(self, kind=None, *more):
        try:
            super().__exit__(kind, *more)
        finally:
            self.authority.__exit__()

    def _context(self, protocol):
        context = ssl.SSLContext(protocol)
        context.load_verify_locations(self.authority.ca)
        if self.version:
            context.minimum_version = context.maximum_version = self.version
        return context

    def raw(self):
        """A client's socket on which nothing has been said."""
        client = End(socket.create_connection(("127.0.0.1", self.spillway.port), DEADLINE))
        self.clients.append(client)
        return client

    def client(self, piece=None):
        client = self.raw()
        if self.seen:
            self.clients.remove(client)
            client = SecuredEnd(client.socket, self.seen, "127.0.0.1", piece)
            self.clients.append(client)
        return client
