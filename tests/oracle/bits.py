"""Random bit tests, with every form of a mask."""

from bson import Binary, Decimal128, Int64

OPERATORS = ("$bitsAllSet", "$bitsAllClear", "$bitsAnySet", "$bitsAnyClear")
_NUMBERS = (0, 1, 2, 5, 128, 255, Int64(1), Int64(2**40), 3.0, Decimal128("6"))
_LISTS = ([], [0], [1, 0], [7], [0, 7], [Int64(2)], [40], [63], [64], [1.0], [100, 0])
_LOW = tuple(Binary(mask, 0)
             for mask in (b"", b"\0", b"\1", b"\7", b"\x7f\x7f", b"\0" * 7 + b"\x80", b"\0" * 9 + b"\1"))
# mongod reads these in two ways (docs/internals/mongod.md).
_HIGH = tuple(Binary(mask, subtype) for mask, subtype in (
    (b"\x80", 0), (b"\xff", 0), (b"\xfe", 0), (b"\1\x80", 0), (b"\0\0\x80", 0), (b"\x80", 5),
    (b"\x81" + b"\0" * 8 + b"\1", 0),
    (b"\0" * 6 + b"\x80", 128)))
_FORMS = {"a number": _NUMBERS, "a list": _LISTS, "binary": _LOW, "high bytes": _HIGH}
_WRONG = (-1, 1.5, [-1], ["a"], "a", None)


def test(rng):
    """{operator: mask}, the operators' argument of a condition on one path."""
    masks = _WRONG if rng.random() < 0.04 else rng.choice([*_FORMS.values(), _HIGH, _HIGH])
    return {rng.choice(OPERATORS): rng.choice(masks)}


def form_of(mask):
    """What a mask is; None for what is no mask."""
    return next((name for name, masks in _FORMS.items()
                 if any(type(mask) is type(each) and mask == each for each in masks)), None)


def condition(rng, path):
    """Part of a filter: a bit test of the array, of a field in it, or of one element."""
    made = test(rng)
    return rng.choice((
        {path: made}, {path: made}, {f"{path}.x": made}, {f"{path}.{rng.randrange(4)}": made},
        {path: {"$elemMatch": made}},
        {path: {"$not": made}},
        {path: {"$elemMatch": {"x": made}}}, {path: {**made, "$gte": 1}}, {"$or": [{path: made}, {"k": 3}]},
        {"$nor": [{path: made}]},
        {path: {"$elemMatch": {"$not": made}}}, {path: {"$not": {"$elemMatch": made}}},
        {"$nor": [{path: {"$elemMatch": {"x": made}}}]},
        {path: {"$all": [{"$elemMatch": made}]}}, {"$and": [{path: made}, {"n": test(rng)}]},
    ))
