"""Wire messages as bytes, built and taken apart: what scripted peers send and compare."""

import struct

from support import exact
from support.wire import CHECKSUM_PRESENT, COMPRESSORS, EXHAUST_ALLOWED, MORE_TO_COME, crc32c, sections

__all__ = ["CHECKSUM_PRESENT", "EXHAUST_ALLOWED", "MORE_TO_COME"]

OP_REPLY, OP_UPDATE, OP_INSERT, OP_QUERY, OP_GET_MORE, OP_DELETE = 1, 2001, 2002, 2004, 2005, 2006
OP_KILL_CURSORS, OP_COMPRESSED, OP_MSG = 2007, 2012, 2013
QUERY_FAILURE = 2
LONGEST = 48_000_000
PACKERS = {"noop": (0, bytes, bytes), **COMPRESSORS}
_UNPACKERS = {number: (name, unpack) for name, (number, _, unpack) in PACKERS.items()}
_header = struct.Struct("<iiii")


def frame(opcode, payload=b"", request_id=1, response_to=0):
    return _header.pack(16 + len(payload), request_id, response_to, opcode) + payload


def document(value):
    """BSON of a dictionary or of a list of (name, value); bytes are taken for BSON already."""
    return value if isinstance(value, bytes) else exact.document(value)


def message(body, sequences=(), request_id=1, response_to=0, flags=0, sequence_first=False):
    """An OP_MSG; `sequences` are (name, [documents])."""
    parts = [(name, [document(each) for each in documents]) for name, documents in sequences]
    payload = struct.pack("<I", flags) + sections(document(body), parts, sequence_first)
    if not flags & CHECKSUM_PRESENT:
        return frame(OP_MSG, payload, request_id, response_to)
    plain = frame(OP_MSG, payload + bytes(4), request_id, response_to)[:-4]
    return plain + struct.pack("<I", crc32c(plain))


def compressed(plain, packer):
    """The frame inside OP_COMPRESSED."""
    _, request_id, response_to, opcode = _header.unpack_from(plain)
    number, pack, _ = PACKERS[packer]
    payload = struct.pack("<iiB", opcode, len(plain) - 16, number) + pack(plain[16:])
    return frame(OP_COMPRESSED, payload, request_id, response_to)


def query(namespace, body, request_id=1, flags=0, limit=-1):
    payload = struct.pack("<i", flags) + namespace.encode() + b"\0" + struct.pack("<ii", 0, limit)
    return frame(OP_QUERY, payload + document(body), request_id)


def reply(body, response_to, request_id=1, flags=8):
    """An OP_REPLY with one document."""
    return frame(OP_REPLY, struct.pack("<iqii", flags, 0, 0, 1) + document(body), request_id, response_to)


def size_of(data):
    return _header.unpack_from(data)[0]


class Frame:
    """One message taken apart; what was compressed is unpacked."""

    def __init__(self, raw):
        self.raw = bytes(raw)
        _, self.request_id, self.response_to, self.opcode = _header.unpack_from(raw)
        self.payload = self.raw[16:]
        self.compressor = None
        if self.opcode == OP_COMPRESSED:
            self.opcode, length, number = struct.unpack_from("<iiB", self.payload)
            self.compressor, unpack = _UNPACKERS[number]
            self.payload = unpack(self.payload[9:])
            if len(self.payload) != length:
                raise ValueError(f"{len(self.payload)} bytes unpacked, {length} were promised")

    @property
    def flags(self):
        return struct.unpack_from("<I", self.payload)[0]

    @property
    def body(self):
        """The bytes of an OP_MSG's only section, or of an OP_REPLY's or OP_QUERY's document."""
        if self.opcode == OP_REPLY:
            return self.payload[20:]
        if self.opcode == OP_QUERY:
            return self.payload[self.payload.index(b"\0", 4) + 9:]
        if self.opcode != OP_MSG or self.payload[4] != 0:
            raise ValueError(f"no body in front of opcode {self.opcode}")
        return self.payload[5:5 + struct.unpack_from("<i", self.payload, 5)[0]]

    def pairs(self):
        return exact.parse(self.body)

    def plain(self):
        return exact.plain((exact.DOCUMENT, self.pairs()))
