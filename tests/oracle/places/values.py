"""Values of every BSON type with the edges of each, and documents that hold them in every shape."""

from bson import Binary, Code, DatetimeMS, Decimal128, Int64, MaxKey, MinKey, ObjectId, Regex, Timestamp

from support.exact import ARRAY, DB_POINTER, DOCUMENT, DOUBLE, NAMES, NULL, SYMBOL, UNDEFINED, Raw, value_of

NAN = Raw(DOUBLE, b"\x00\x00\x00\x00\x00\x00\xf8\x7f")
NEGATIVE_NAN = Raw(DOUBLE, b"\x01\x00\x00\x00\x00\x00\xf8\xff")
_LINK = b"\4\0\0\0d.c\0"

NUMBERS = [
    0, 1, 2, 3, -1, 7, 127, 128, 255, 2**31 - 1, -(2**31), Int64(0), Int64(1), Int64(255), Int64(2**53 + 1),
    Int64(2**63 - 1),
    Int64(-(2**63)), 0.0, -0.0, 1.0, 1.5, -1.5, 255.0, 2.0**53, 2.0**63, -(2.0**63), 5e-324, 1e308, float("inf"),
    float("-inf"),
    NAN, NEGATIVE_NAN, Decimal128("0"), Decimal128("-0"), Decimal128("1"), Decimal128("1.0"), Decimal128("1.5"),
    Decimal128("255"),
    Decimal128("9223372036854775808"), Decimal128("1E+6144"), Decimal128("1E-6176"), Decimal128("NaN"),
    Decimal128("-NaN"),
    Decimal128("Infinity"), Decimal128("-Infinity"),
]
TEXTS = ["", "a", "A", "b", "abc", "abcd", "a.c", "a\nb", "é", "e\u0301", "10", "9", "$a", "\U0001f600", "x" * 300]
BINARIES = [
    Binary(b"", 0), Binary(b"\0", 0), Binary(b"\x01", 0), Binary(b"\x80", 0), Binary(b"\xff", 0),
    Binary(b"\x7f\x80", 0), Binary(b"abc", 0),
    Binary(b"\0" * 8 + b"\x80", 0), Binary(b"\xff" * 9, 0), Binary(b"abc", 1), Binary(b"abc", 2), Binary(b"", 2),
    Binary(b"0123456789abcdef", 3),
    Binary(b"0123456789abcdef", 4), Binary(b"0123456789abcdef", 5), Binary(b"abc", 6), Binary(b"\x80abc", 128),
    Binary(b"abc", 255),
]
OTHERS = [
    True, False, None, Raw(UNDEFINED), MinKey(), MaxKey(), ObjectId(b"\0" * 12), ObjectId(b"\xff" * 12),
    ObjectId(b"0123456789ab"),
    DatetimeMS(0), DatetimeMS(-1), DatetimeMS(2**63 - 1), DatetimeMS(-(2**63)), Timestamp(0, 1), Timestamp(1, 0),
    Timestamp(2**32 - 1, 2**32 - 1),
    Regex("a", ""), Regex("a.c", "s"), Regex("^A", "i"), Regex("^b$", "mx"), Regex("", ""), Code("a"), Code(""),
    Code("a", {}),
    Code("a", {"x": 1}),
    Raw(SYMBOL, b"\2\0\0\0a\0"), Raw(SYMBOL, b"\1\0\0\0\0"), Raw(DB_POINTER, _LINK + b"\0" * 12),
    Raw(DB_POINTER, _LINK + b"\xff" * 12),
]
SCALARS = NUMBERS + TEXTS + BINARIES + OTHERS
NESTED = [
    [], [[]], [[[]]], [None], [Raw(UNDEFINED)], [1, 2], [2, 1], [[1, 2]], [[1], [2]], [[[1]]], [{"g": 1}, {"g": 2}],
    [{"g": [1, 2]}],
    [[{"g": 1}]],
    [1, {"g": 1}, [1], "a", None], {}, {"g": None}, {"g": 1}, {"g": 1, "h": 2}, {"h": 2, "g": 1}, {"g": {"h": 1}},
    {"g": [{"h": 1}, {"h": 2}]},
    {"0": 1}, {"0": [1]}, [{"0": 1}], {"g": {"0": 5}}, {"": 1}, {"a.b": 1}, {"$g": 1}, [255, 254],
    [Binary(b"\x80", 0), 128],
    {"$ref": "c", "$id": 1},
    [{"g": 1, "h": 1}, {"g": 2, "h": 2}, {"g": 1, "h": 2}], [1, "a", True, None, 1.5, []], [5, 10, 15, 20],
    ["a", "A", "b"],
    [0, 0], [10.5, -20.25], {"type": "Point", "coordinates": [0, 0]}, {"type": "Point", "coordinates": [179, 89]},
    {"type": "LineString", "coordinates": [[0, 0], [5, 5]]},
    {"type": "Polygon", "coordinates": [[[0, 0], [0, 5], [5, 5], [5, 0], [0, 0]]]},
    [[0, 0], [7, 7]], {"x": 1, "y": 2}, [{"type": "Point", "coordinates": [1, 1]}],
]

TYPES = {**NAMES, DOCUMENT: "object", ARRAY: "array", NULL: "null"}


def kind_of(value):
    """The name of a value's BSON type."""
    kind = value_of(value)[0]
    return TYPES[kind]


def documents():
    """Documents whose field `f` has every value: itself, in an array, in a document, and in documents of an array."""
    shapes = [lambda value: value, lambda value: [value], lambda value: [3, value, "b"], lambda value: {"g": value},
              lambda value: [{"g": value}, {"g": 3, "h": "b"}], lambda value: [[value]]]
    made = [{"f": shape(value)} for shape in shapes for value in SCALARS]
    made += [{"f": shape(value)} for shape in shapes[:4] for value in NESTED]
    made += [{}, {"g": 1}]
    # `loc` is for $geoNear, `s` another field to compare with.
    return [{"_id": number, **each, "s": number % 5, "loc": [0, 0]} for number, each in enumerate(made)]
