"""Documents whose arrays' lengths have a heavy tail, seeded: most are short, a few are very long.

Among them are odd ones: the array is missing, null, a scalar or a subdocument, and elements of all
types. What a rule's flag is called may stand there before, with the value that means "no outlier".
"""

import datetime
import random
import uuid

from bson import Int64, MaxKey, MinKey, Regex
from bson.binary import Binary
from bson.code import Code
from bson.decimal128 import Decimal128
from bson.objectid import ObjectId
from bson.timestamp import Timestamp

LONGEST = 3000


def _odd_element(source):
    return source.choice([
        None, True, 1.5, float("nan"), -0.0, Int64(7), Decimal128("1.10"), "text", "", b"bytes", {}, [],
        [1, [2]], {"a": {"b": []}}, {"_spill": 1, "n": 2}, {"z": 1, "a": 2}, ObjectId(source.randbytes(12)),
        datetime.datetime(2020, 1, 2), Timestamp(1, 2), Timestamp(0, 0), Regex("a.c", "im"), Code("f()"),
        MinKey(), MaxKey(), Binary(source.randbytes(5), 128), Binary.from_uuid(uuid.UUID(bytes=source.randbytes(16))),
    ])


def elements(source, length):
    """An array of so many elements: of one kind, or of all."""
    kind = source.randrange(4)
    if kind == 0:
        return [source.randrange(1000) for _ in range(length)]
    if kind == 1:
        return [{"u": i, "t": "x" * source.randrange(30)} for i in range(length)]
    if kind == 2:
        return ["y" * source.randrange(10) for _ in range(length)]
    return [_odd_element(source) for _ in range(length)]


def documents(count, seed, array="list", flag=None):
    """So many documents, one after the other."""
    source = random.Random(seed)
    for i in range(count):
        identifier = source.choice([i, f"id {i}", {"n": i}, Int64(2**40 + i), float(i) + 0.5])
        document = {"_id": identifier, "title": "t" * source.randrange(40)}
        if flag and source.random() < 0.5:
            document[flag] = False
        if source.random() < 0.95:
            document[array] = elements(source, min(LONGEST, int(source.paretovariate(0.8))))
        elif source.random() < 0.75:
            document[array] = source.choice([None, 5, "text", {"0": 1, "3": 2, "9": 3}])
        document["last"] = i
        yield document
