"""Waits until the process at the other end of a local TCP connection has read what was sent to it.

The kernel's sock_diag tells the length of that end's receive queue.
"""

import socket
import struct

from support.process import wait_for

_NETLINK_SOCK_DIAG, _SOCK_DIAG_BY_FAMILY, _NLM_F_REQUEST = 4, 20, 1
_ANY_COOKIE = b"\xff" * 8
_head = struct.Struct("=IHHII")


def _request(local, remote):
    addresses = (socket.inet_aton(host).ljust(16, b"\0") for host in (local[0], remote[0]))
    identity = struct.pack("!HH", local[1], remote[1]) + b"".join(addresses) + bytes(4) + _ANY_COOKIE
    body = struct.pack("=BBBBI", socket.AF_INET, socket.IPPROTO_TCP, 0, 0, 0xFFFFFFFF) + identity
    return _head.pack(_head.size + len(body), _SOCK_DIAG_BY_FAMILY, _NLM_F_REQUEST, 0, 0) + body


def _unread(diagnosis, request):
    diagnosis.send(request)
    answer = diagnosis.recv(4096)
    if _head.unpack_from(answer)[1] != _SOCK_DIAG_BY_FAMILY:
        raise ConnectionError("the other end is not there any more")
    return struct.unpack_from("=I", answer, _head.size + 56)[0]


class Reader:
    """The other end of a connected socket, as far as the kernel knows it."""

    def __init__(self, near):
        self.request = _request(near.getpeername(), near.getsockname())
        self.diagnosis = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_SOCK_DIAG)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.diagnosis.close()

    def wait(self, seconds=60):
        """Until it has read everything."""
        wait_for(lambda: _unread(self.diagnosis, self.request) == 0, "the bytes to be read", seconds, 0)


def send_apart(near, parts):
    """Sends each part when the one before it has been read, so that no two are read as one."""
    with Reader(near) as reader:
        for part in parts:
            near.sendall(part)
            reader.wait()
