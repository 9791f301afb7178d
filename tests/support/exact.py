"""BSON without loss: bytes <-> trees in which every type, order and repeated name stays as it is.

A value is a pair (type, payload). The payload of a document, an array or a scope is a list of
(name, value); that of anything else is its bytes. `value_of` makes values of plain Python ones.
"""

import functools
import struct
import zlib

from bson import Binary, Code, DatetimeMS, Decimal128, Int64, MaxKey, MinKey, ObjectId, Regex, Timestamp

DOUBLE, STRING, DOCUMENT, ARRAY, BINARY, UNDEFINED, OBJECT_ID, BOOL, DATE, NULL, REGEX = range(1, 12)
DB_POINTER, CODE, SYMBOL, CODE_WITH_SCOPE, INT32, TIMESTAMP, INT64, DECIMAL = range(12, 20)
MIN_KEY, MAX_KEY = 255, 127

_FIXED = {
    DOUBLE: 8, UNDEFINED: 0, OBJECT_ID: 12, BOOL: 1, DATE: 8, NULL: 0, INT32: 4, TIMESTAMP: 8,
    INT64: 8, DECIMAL: 16, MIN_KEY: 0, MAX_KEY: 0,
}
_int32 = struct.Struct("<i")
NAMES = {
    DOUBLE: "double", STRING: "string", BINARY: "binary", UNDEFINED: "undefined",
    OBJECT_ID: "objectId", BOOL: "bool", DATE: "date", REGEX: "regex", DB_POINTER: "dbPointer",
    CODE: "code", SYMBOL: "symbol", CODE_WITH_SCOPE: "codeWithScope", INT32: "int",
    TIMESTAMP: "timestamp", INT64: "long", DECIMAL: "decimal", MIN_KEY: "minKey", MAX_KEY: "maxKey",
}


class Raw:
    """A value given by its type and bytes, for those that Python has no name for."""

    def __init__(self, kind, payload=b""):
        self.kind = kind
        self.payload = payload


@functools.lru_cache(4096)
def _cstring(text):
    data = text.encode("utf-8", "surrogateescape")
    if 0 in data:
        raise ValueError("a name with a NUL")
    return data + b"\0"


def _string(text):
    data = text.encode("utf-8", "surrogateescape") + b"\0"
    return _int32.pack(len(data)) + data


def pairs_of(document):
    """A dictionary or a list of (name, Python value) as a list of (name, value)."""
    items = document.items() if isinstance(document, dict) else document
    return [(name, value_of(item)) for name, item in items]


def _number(value):
    if isinstance(value, Int64):
        return INT64, struct.pack("<q", value)
    if -(2**31) <= value < 2**31:
        return INT32, _int32.pack(value)
    return INT64, struct.pack("<q", value)


def _code(value):
    if value.scope is None:
        return CODE, _string(str(value))
    body = _string(str(value)) + encode(pairs_of(value.scope))
    return CODE_WITH_SCOPE, _int32.pack(len(body) + 4) + body


def _binary(value):
    data = bytes(value)
    subtype = getattr(value, "subtype", 0)
    if subtype == 2:
        data = _int32.pack(len(data)) + data
    return BINARY, _int32.pack(len(data)) + bytes([subtype]) + data


def _regex(value):
    flags = "".join(sorted(c for c in "imsx" if value.flags & {"i": 2, "m": 8, "s": 16, "x": 64}[c]))
    return REGEX, _cstring(value.pattern) + _cstring(flags)


def _timestamp(value):
    return TIMESTAMP, struct.pack("<II", value.inc, value.time)


# The order matters where one type is another's subclass.
_MAKERS = [
    (Raw, lambda v: (v.kind, v.payload)),
    (bool, lambda v: (BOOL, bytes([v]))),
    (int, _number),
    (float, lambda v: (DOUBLE, struct.pack("<d", v))),
    (Code, _code),
    (str, lambda v: (STRING, _string(v))),
    (type(None), lambda v: (NULL, b"")),
    ((bytes, Binary), _binary),
    (ObjectId, lambda v: (OBJECT_ID, v.binary)),
    (DatetimeMS, lambda v: (DATE, struct.pack("<q", int(v)))),
    (Decimal128, lambda v: (DECIMAL, v.bid)),
    (Regex, _regex),
    (Timestamp, _timestamp),
    (MinKey, lambda v: (MIN_KEY, b"")),
    (MaxKey, lambda v: (MAX_KEY, b"")),
]


def value_of(value):
    """A plain Python value as (type, payload); a pair of that kind is returned as it is."""
    if isinstance(value, tuple):
        return value
    if isinstance(value, dict):
        return DOCUMENT, pairs_of(value)
    if isinstance(value, list):
        return ARRAY, [(str(i), value_of(item)) for i, item in enumerate(value)]
    return _maker(type(value))(value)


@functools.lru_cache
def _maker(kind):
    """What makes values of a Python type."""
    for base, make in _MAKERS:
        if issubclass(kind, base):
            return make
    raise TypeError(f"no BSON type for {kind}")


def encode(pairs):
    """The bytes of a list of (name, value)."""
    parts = []
    for name, (kind, payload) in pairs:
        parts.append(bytes([kind]) + _cstring(name))
        parts.append(encode(payload) if isinstance(payload, list) else payload)
    body = b"".join(parts)
    return _int32.pack(len(body) + 5) + body + b"\0"


def document(value):
    """The bytes of a dictionary or a list of (name, Python value)."""
    return encode(pairs_of(value))


def _payload_size(data, kind, at):
    if kind == REGEX:
        middle = data.index(b"\0", at) + 1
        return data.index(b"\0", middle) + 1 - at
    size = _int32.unpack_from(data, at)[0]
    if kind in (DOCUMENT, ARRAY, CODE_WITH_SCOPE):
        return size
    if kind == BINARY:
        return size + 5
    if kind == DB_POINTER:
        return size + 16
    if kind in (STRING, CODE, SYMBOL):
        return size + 4
    raise ValueError(f"unknown BSON type {kind} at {at}")


def fields(data, at=0):
    """(name, type, where its value begins, where it ends) of each field of the document that starts at `at`."""
    end = at + _int32.unpack_from(data, at)[0] - 1
    if end >= len(data) or data[end] != 0:
        raise ValueError("a document that does not end where it says")
    at += 4
    found = []
    while at < end:
        kind = data[at]
        name_end = data.index(b"\0", at + 1)
        start = name_end + 1
        size = _FIXED.get(kind)
        after = start + (_payload_size(data, kind, start) if size is None else size)
        if after > end:
            raise ValueError("an element that reaches beyond its document")
        found.append((data[at + 1:name_end].decode("utf-8", "surrogateescape"), kind, start, after))
        at = after
    return found


def parse(data, at=0):
    """The (name, value) pairs of the document that starts at `at`."""
    return [
        (name, (kind, parse(data, start) if kind in (DOCUMENT, ARRAY) else data[start:after]))
        for name, kind, start, after in fields(data, at)
    ]


def _place_of(data, path):
    """(type, where it begins, where it ends) of the value at a dotted path through documents; None where there is
    none."""
    kind, start, after = DOCUMENT, 0, len(data)
    for part in path.split("."):
        if kind != DOCUMENT:
            return None
        found = [place for name, *place in fields(data, start) if name == part]
        if not found:
            return None
        kind, start, after = found[0]
    return kind, start, after


def find(data, path):
    """The value at a dotted path through documents, of which nothing else is taken apart; None where there is none."""
    place = _place_of(data, path)
    if place is None:
        return None
    kind, start, after = place
    return kind, parse(data, start) if kind in (DOCUMENT, ARRAY) else data[start:after]


def find_bytes(data, path):
    """The bytes of that value; None where there is none."""
    place = _place_of(data, path)
    return place and data[place[1]:place[2]]


def get(pairs, path):
    """The value at a dotted path through documents; None where there is none."""
    value = (DOCUMENT, pairs)
    for part in path.split("."):
        if value is None or value[0] != DOCUMENT:
            return None
        value = next((item for name, item in value[1] if name == part), None)
    return value


def plain(value):
    """An int, float, bool, string, or list/dict of these: for numbers and names that tests read."""
    kind, payload = value
    if kind == DOCUMENT:
        return {name: plain(item) for name, item in payload}
    if kind == ARRAY:
        return [plain(item) for _, item in payload]
    if kind in (INT32, INT64):
        return int.from_bytes(payload, "little", signed=True)
    if kind == DOUBLE:
        return struct.unpack("<d", payload)[0]
    if kind == BOOL:
        return payload != b"\0"
    if kind in (STRING, SYMBOL, CODE):
        return payload[4:-1].decode("utf-8", "surrogateescape")
    return None if kind == NULL else payload


def _show_text(text):
    if len(text) < 60:
        return repr(text)
    return f"{text[:10]!r}...({len(text)} characters, {zlib.crc32(text.encode('utf-8', 'surrogateescape')):x})"


def show(value):
    """A value as text in which differing values differ."""
    kind, payload = value
    if kind == DOCUMENT:
        return "{" + ", ".join(f"{name}: {show(item)}" for name, item in payload) + "}"
    if kind == ARRAY:
        numbered = all(name == str(i) for i, (name, _) in enumerate(payload))
        items = [show(item) if numbered else f"{name}: {show(item)}" for name, item in payload]
        return "[" + ", ".join(items) + "]"
    if kind == INT32:
        return str(plain(value))
    if kind == STRING:
        return _show_text(plain(value))
    if kind in (BOOL, NULL):
        return {b"\0": "false", b"\1": "true", b"": "null"}.get(payload, payload.hex())
    if kind in (INT64, DOUBLE):
        return f"{NAMES[kind]}({plain(value)!r}, {payload.hex()})"
    return f"{NAMES.get(kind, kind)}({payload.hex()})"


def show_document(pairs):
    return show((DOCUMENT, pairs))
