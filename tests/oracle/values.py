"""Random BSON values, documents and `_id`s: every type, the odd shapes, short and long arrays."""

from bson import (
    Binary,
    Code,
    DatetimeMS,
    Decimal128,
    Int64,
    MaxKey,
    MinKey,
    ObjectId,
    Regex,
    Timestamp,
)

from support.exact import ARRAY, DB_POINTER, DOCUMENT, DOUBLE, NAMES, NULL, SYMBOL, UNDEFINED, Raw, pairs_of, value_of

# Values that a server makes are told from the client's by their times (see arms.py).
_NAN = Raw(DOUBLE, b"\x01\x00\x00\x00\x00\x00\xf8\x7f")
_PLAIN = [
    0, 1, 2, -1, 7, Int64(1), Int64(2**40), 1.0, -0.0, 2.5, float("inf"), "", "a", "B", "A", "é€",
    True, False, None, 255, 128, -128,
]
_LINK = b"\4\0\0\0d.c\0"
_ODD = [
    _NAN, Raw(DOUBLE, b"\0\0\0\0\0\0\xf8\xff"), 5e-324, 1e308, float("-inf"), 2.0**63, Decimal128("1.0"),
    Decimal128("1"), Decimal128("NaN"), Decimal128("-0"),
    Decimal128("-Infinity"), Decimal128("1E+6144"), Decimal128("2.5"), Int64(2**63 - 1), Int64(-(2**63)),
    Int64(2**53 + 1), Int64(128), 2**31 - 1, -(2**31),
    ObjectId(b"\0" * 12), ObjectId(b"\0" * 11 + b"\1"), DatetimeMS(-5), DatetimeMS(1000), DatetimeMS(-(2**63)),
    Timestamp(5, 6), Timestamp(0, 0), Timestamp(1, 2**32 - 1),
    Regex("a.c", "im"), Regex("", ""), Regex("^a", "sx"), Code("x"), Code("x", {"y": 1}), Code("", {}),
    Binary(b"abc", 0), Binary(b"abc", 2), Binary(b"0123456789abcdef", 4), Binary(b"", 0), Binary(b"\x80", 0),
    Binary(b"\xff\xfe", 0), Binary(b"\x80abc", 1),
    Binary(b"0123456789abcdef", 3), Binary(b"\xff" * 16, 5), Binary(b"", 2), Binary(b"\x81", 128),
    Binary(b"\0" * 9 + b"\1", 255),
    MinKey(), MaxKey(), MinKey(), MaxKey(), Raw(UNDEFINED), Raw(UNDEFINED), True, False, "A", "a\tb",
    Raw(SYMBOL, b"\4\0\0\0sym\0"), Raw(SYMBOL, b"\2\0\0\0a\0"), Raw(DB_POINTER, _LINK + b"\0" * 12),
    Raw(DB_POINTER, _LINK + b"\0" * 11 + b"\xff"),
]
TYPES = {**NAMES, DOCUMENT: "object", ARRAY: "array", NULL: "null"}


def type_of(value):
    """The name of a value's BSON type."""
    return TYPES[value_of(value)[0]]


def scalar(rng):
    return rng.choice(_PLAIN if rng.random() < 0.7 else _ODD)


_OF_TYPE = {}
for _value in (*_PLAIN, *_ODD):
    _OF_TYPE.setdefault(type_of(_value), []).append(_value)


def odd(rng):
    """A value of any type, rare ones as often as others."""
    return rng.choice(_OF_TYPE[rng.choice(list(_OF_TYPE))])


def element(rng, depth=0):
    """What may stand in an array; in its documents each name stands once."""
    choice = rng.random()
    if choice < 0.65 or depth > 2:
        return scalar(rng)
    if choice < 0.75:
        return [element(rng, depth + 1) for _ in range(rng.randrange(4))]
    if choice < 0.80:
        return "x" * rng.choice((100, 400, 900))
    names = rng.sample(["_id", "f", "x", "y", "0", "3", "part", "many"], rng.randrange(4))
    return {name: element(rng, depth + 1) for name in names}


def elements(rng, at_most=50):
    """An array's elements: mostly few, sometimes many."""
    count = rng.choice((0, 1, 1, 2, 2, 3, 4, 5, 8, rng.randrange(51)))
    return [element(rng) for _ in range(min(count, at_most))]


def _repeated_name(rng):
    """A document with a name that stands twice.

    mongod 6.0 aborts when a pipeline update puts another document in its place, so a mover must
    leave an array alone that holds one. It may be pushed while a mover is at work: then nothing
    could save mongod, so no push has one. A client's own pipeline aborts mongod just so: an episode
    has the one or the other.
    """
    return DOCUMENT, pairs_of([("d", scalar(rng)), ("d", scalar(rng)), ("", None)])


def fresh_elements(rng, serial, repeats):
    """A whole array that no earlier one equals.

    Setting a spilled array to what it is already changes the stored document, so mongod's
    nModified is 1 there, where it is 0 for the whole one (protocol.md section 2 allows that).
    """
    items = elements(rng)
    if items and repeats and rng.random() < 0.1:
        items.insert(0, rng.choice((_repeated_name(rng), {"x": [_repeated_name(rng)]})))
    return items + [f"fresh {serial}"] if items else items


def not_an_array(rng):
    return rng.choice((None, 5, "text", {"0": 1, "1": 2, "2": 3, "3": 4}, {"x": [1, 2, 3, 4, 5]}))


def _object_id(number):
    return ObjectId(b"\0\0" + number.to_bytes(4, "big") + b"\0" * 6)


class Identifiers:
    """The few `_id`s of one episode; their numbers come from the episode's, so none is met twice."""

    def __init__(self, rng, episode):
        base = episode * 100
        kinds = [
            base + 1, f"s{base + 2}", _object_id(base),
            {"e": base, "k": "x"}, {"e": base, "k": "X"}, float(base + 3), Decimal128(f"{base + 4}.0"), Int64(base + 5),
            DatetimeMS(base + 6), Binary(b"id%d" % base, 0), base + 7, base + 8, f"S{base + 2}",
            Timestamp(base + 1, 1), {"e": base, "k": [1, 2]},
        ]
        self.known = rng.sample(kinds, 5)
        if rng.random() < 0.2:  # of one type, as in most collections
            self.known = [base + number for number in range(10, 15)]
            if rng.random() < 0.5:
                self.known = [_object_id(number) for number in self.known]
        if rng.random() < 0.1:
            self.known[4] = Timestamp(0, 0)

    def one(self, rng):
        return rng.choice(self.known)

    def as_asked(self, rng):
        """An `_id` as a filter may give it: a number also in another number's type."""
        value = self.one(rng)
        if isinstance(value, (int, float)) and rng.random() < 0.3:
            return rng.choice((int, float, Int64))(value)
        return value


def with_array(path, value):
    """{path: value} as nested documents, and the name of its first field."""
    first, _, rest = path.partition(".")
    return (first, value) if not rest else (first, dict([with_array(rest, value)]))


def array_or_not(rng, serial, repeats):
    """The value of a ruled array's field in a new document; a second result says to leave it out."""
    choice = rng.random()
    if choice < 0.08:
        return None, True
    if choice < 0.16:
        return not_an_array(rng), False
    return fresh_elements(rng, serial, repeats), False


def odd_parent(rng):
    """What may stand in the place of `a` in a path `a.f`."""
    return rng.choice((None, 3, [], [{"f": [1, 2, 3, 4, 5]}], {"x": 1}, "text"))


def fields(rng, arrays, serial, repeats):
    """The fields of a document without `_id`, in random order."""
    parts = [("k", rng.randrange(4)), ("n", rng.randrange(5)), ("z", [1, 2])]
    if rng.random() < 0.3:
        parts.append(("s", scalar(rng)))
    for path in arrays:
        value, left_out = array_or_not(rng, serial, repeats)
        if "." in path and rng.random() < 0.1:
            parts.append((path.partition(".")[0], odd_parent(rng)))
        elif not left_out:
            name, inner = with_array(path, value)
            if isinstance(inner, dict) and "." in path and rng.random() < 0.5:
                inner = {"x": 1, **inner, "y": 2}
            parts.append((name, inner))
    rng.shuffle(parts)
    return parts


def document(rng, identifier, arrays, serial, repeats_names):
    """A whole document as a list of (name, value), sometimes one with a name that stands twice."""
    parts = [("_id", identifier)] + fields(rng, arrays, serial, repeats_names)
    if repeats_names and rng.random() < 0.3:
        parts.append(rng.choice((with_array(arrays[0], [1, 2, 3, 4, 5]), ("n", 1))))
    return parts
