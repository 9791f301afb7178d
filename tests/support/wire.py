"""A MongoDB connection by raw socket, for what drivers never send: every form of OP_MSG."""

import itertools
import socket
import struct
import zlib

import snappy
import zstandard

from support import exact

OP_MSG, OP_COMPRESSED = 2013, 2012
CHECKSUM_PRESENT, MORE_TO_COME, EXHAUST_ALLOWED = 1, 2, 1 << 16
COMPRESSORS = {
    "snappy": (1, snappy.compress, snappy.decompress),
    "zlib": (2, zlib.compress, zlib.decompress),
    "zstd": (3, zstandard.ZstdCompressor().compress, zstandard.ZstdDecompressor().decompress),
}
_BY_ID = {number: (name, unpack) for name, (number, _, unpack) in COMPRESSORS.items()}
_header = struct.Struct("<iiii")
_CRC_TABLE = []


def _crc_table():
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        _CRC_TABLE.append(byte)


_crc_table()


def crc32c(data):
    value = 0xFFFFFFFF
    for byte in data:
        value = _CRC_TABLE[(value ^ byte) & 0xFF] ^ value >> 8
    return value ^ 0xFFFFFFFF


class Closed(ConnectionError):
    """The peer closed the connection."""


class Reply:
    """A reply as it came: its body's bytes and how it was framed."""

    def __init__(self, body, flags, compressor, request_id, response_to):
        self.body = body
        self.flags = flags
        self.compressor = compressor
        self.request_id = request_id
        self.response_to = response_to

    def pairs(self):
        return exact.parse(self.body)

    def plain(self):
        return exact.plain((exact.DOCUMENT, self.pairs()))


def sections(body, sequences=(), sequence_first=False):
    """The sections of an OP_MSG; `sequences` are (name, [document bytes])."""
    kind0 = b"\0" + body
    kind1 = b""
    for name, documents in sequences:
        payload = name.encode() + b"\0" + b"".join(documents)
        kind1 += b"\1" + struct.pack("<i", len(payload) + 4) + payload
    return kind1 + kind0 if sequence_first else kind0 + kind1


class Connection:
    """One socket; requests are numbered from a number that tells whose they are."""

    def __init__(self, port, host="127.0.0.1", hello=True, timeout=60):
        self.socket = socket.create_connection((host, port), timeout)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.numbers = itertools.count(1000)
        self.buffer = b""
        self.hello = None
        if hello:
            command = {"hello": 1, "$db": "admin", "compression": list(COMPRESSORS)}
            self.hello = self.call(exact.document(command)).plain()

    def close(self):
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def send(self, body, sequences=(), flags=0, sequence_first=False, compressor=None):
        """Sends one OP_MSG and returns its requestID."""
        number = next(self.numbers)
        payload = struct.pack("<I", flags) + sections(body, sequences, sequence_first)
        if flags & CHECKSUM_PRESENT:
            size = 16 + len(payload) + 4
            payload += struct.pack("<I", crc32c(_header.pack(size, number, 0, OP_MSG) + payload))
        if compressor is None:
            message = _header.pack(16 + len(payload), number, 0, OP_MSG) + payload
        else:
            identifier, pack, _ = COMPRESSORS[compressor]
            packed = struct.pack("<iiB", OP_MSG, len(payload), identifier) + pack(payload)
            message = _header.pack(16 + len(packed), number, 0, OP_COMPRESSED) + packed
        self.socket.sendall(message)
        return number

    def _take(self, size):
        while len(self.buffer) < size:
            data = self.socket.recv(1 << 20)
            if not data:
                raise Closed("closed by the server")
            self.buffer += data
        data, self.buffer = self.buffer[:size], self.buffer[size:]
        return data

    def receive(self):
        """The next message, taken apart."""
        size, request_id, response_to, opcode = _header.unpack(self._take(16))
        payload = self._take(size - 16)
        compressor = None
        if opcode == OP_COMPRESSED:
            opcode, length, identifier = struct.unpack_from("<iiB", payload)
            compressor, unpack = _BY_ID[identifier]
            payload = unpack(payload[9:])
            if len(payload) != length:
                raise ValueError(f"{len(payload)} bytes unpacked, {length} were promised")
        if opcode != OP_MSG:
            raise ValueError(f"a reply with opcode {opcode}")
        flags = struct.unpack_from("<I", payload)[0]
        if flags & CHECKSUM_PRESENT:
            payload = self._without_checksum(payload, (size, request_id, response_to))
        if payload[4] != 0 or len(payload) != 5 + struct.unpack_from("<i", payload, 5)[0]:
            raise ValueError("a reply that is not one body section")
        return Reply(payload[5:], flags, compressor, request_id, response_to)

    @staticmethod
    def _without_checksum(payload, header):
        size, request_id, response_to = header
        stated = struct.unpack("<I", payload[-4:])[0]
        message = _header.pack(size, request_id, response_to, OP_MSG) + payload[:-4]
        # In a compressed message the checksum is that of the uncompressed one.
        if size == len(payload) + 16 and crc32c(message) != stated:
            raise ValueError("a reply with a wrong checksum")
        return payload[:-4]

    def call(self, body, sequences=(), flags=0, sequence_first=False, compressor=None):
        """Sends a request and returns its reply; None for one that gets none (moreToCome)."""
        number = self.send(body, sequences, flags, sequence_first, compressor)
        if flags & MORE_TO_COME:
            return None
        reply = self.receive()
        if reply.response_to != number:
            raise ValueError(f"a reply to {reply.response_to}, asked was {number}")
        return reply

    def command(self, database, command, **options):
        """Runs a command given as a dictionary; the reply as plain Python values."""
        return self.call(exact.document({**command, "$db": database}), **options).plain()
