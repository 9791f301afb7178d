"""OpenSSL's client by its own library: for what Python's ssl does not offer, as new keys within a connection."""

import ctypes
import ctypes.util

TLS_1_2, TLS_1_3 = 0x0303, 0x0304
KEY_UPDATE_REQUESTED = 1
_SET_MIN_VERSION, _SET_MAX_VERSION = 123, 124

_library = ctypes.CDLL(ctypes.util.find_library("ssl"))
_crypto = ctypes.CDLL(ctypes.util.find_library("crypto"))
for _function in (_library.TLS_client_method, _library.SSL_CTX_new, _library.SSL_new, _crypto.BIO_s_mem,
                  _crypto.BIO_new):
    _function.restype = ctypes.c_void_p


def _call(name, *arguments, library=_library):
    return getattr(library, name)(*(ctypes.c_void_p(each) if isinstance(each, int) and each > 1 << 32 else each
                                    for each in arguments))


class Client:
    """A client that looks at no certificate, on a connected socket."""

    def __init__(self, sock, version):
        self.socket = sock
        context = _call("SSL_CTX_new", _call("TLS_client_method"))
        for command in (_SET_MIN_VERSION, _SET_MAX_VERSION):
            _call("SSL_CTX_ctrl", context, command, ctypes.c_long(version), None)
        self.ssl = _call("SSL_new", context)
        _call("SSL_CTX_free", context)
        self.come, self.sent = (_call("BIO_new", _call("BIO_s_mem", library=_crypto), library=_crypto)
                                for _ in range(2))
        _call("SSL_set_bio", self.ssl, self.come, self.sent)
        _call("SSL_set_connect_state", self.ssl)
        while _call("SSL_do_handshake", self.ssl) != 1:
            self.flush()
            self.receive()
        self.flush()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        _call("SSL_free", self.ssl)

    def sealed(self):
        """What is to go out."""
        room = ctypes.create_string_buffer(1 << 16)
        length = _call("BIO_read", self.sent, room, len(room), library=_crypto)
        return room.raw[:max(length, 0)]

    def flush(self):
        self.socket.sendall(self.sealed())

    def receive(self):
        data = self.socket.recv(1 << 16)
        if not data:
            raise ConnectionError("closed")
        _call("BIO_write", self.come, data, len(data), library=_crypto)

    def write(self, data):
        if _call("SSL_write", self.ssl, data, len(data)) != len(data):
            raise ConnectionError("not written")

    def take(self, size):
        """So many bytes."""
        data = b""
        while len(data) < size:
            room = ctypes.create_string_buffer(size - len(data))
            length = _call("SSL_read", self.ssl, room, len(room))
            if length <= 0:
                self.receive()
            data += room.raw[:max(length, 0)]
        return data

    def update_keys(self):
        """The other end is to have new keys, too."""
        if _call("SSL_key_update", self.ssl, KEY_UPDATE_REQUESTED) != 1 or \
                _call("SSL_do_handshake", self.ssl) != 1:
            raise ConnectionError("no new keys")

    def renegotiate(self):
        """Begins a second handshake."""
        if _call("SSL_renegotiate", self.ssl) != 1:
            raise ConnectionError("OpenSSL does not even try")
        _call("SSL_do_handshake", self.ssl)
