"""verify.py notices each invariant that is broken, and nothing in what is right."""

import pytest

from support import exact, verify

RULE = {
    "namespace": "shop.books", "array": "a.list", "threshold": 2,
    "flag": {"field": "many", "value": True, "otherwise": "absent"},
    "overflow": {"link": "book", "array": "more", "batch": {"size": 3}},
}


def main(items=(1, 2), n=4, head=2, **changes):
    state = {"a/list": {"g": b"one", "h": head, "n": n}}
    return {"_id": 1, "a": {"list": list(items)}, "many": True, "_spill": state, **changes}


def batch(number, position, items, generation=b"one"):
    return {"book": 1, "more": list(items), "_spill": {"g": generation, "p": position, "i": number}}


RIGHT = [batch(1, 0, [3, 4, 5]), batch(2, 3, [6])]


def check(mains, batches):
    keeping = verify.Keeping(RULE)
    return verify.check(
        [exact.pairs_of(pairs) for pairs in mains], [exact.pairs_of(pairs) for pairs in batches], keeping)


def test_the_layout_at_rest_is_right():
    findings, arrays = check([main()], RIGHT)
    assert not findings
    assert [exact.plain(item) for item in next(iter(arrays.values()))] == [1, 2, 3, 4, 5, 6]


def test_an_ordinary_document_is_right():
    assert not check([{"_id": 1, "a": {"list": [1, 2]}}, {"_id": 2, "a": 5}, {"_id": 3}], [])[0]


@pytest.mark.parametrize("what, mains, batches", [
    ("corrupt: 1: V1", [main()], RIGHT[:1]),
    ("corrupt: 1: V1", [main()], [batch(1, 1, [4, 5, 6])]),
    ("unfinished: 1: V2", [main(many=False)], RIGHT),
    ("unfinished: 1: V2", [{"_id": 1, "many": True}], []),
    ("garbage: 1: V3", [main()], [*RIGHT, batch(3, 0, [1], b"two")]),
    ("garbage: V3", [], RIGHT),
    ("corrupt: 1: V4", [main((1, 2, 7))], [RIGHT[0], batch(2, 3, [6, 8])]),
    ("corrupt: 1: V5", [main()], [RIGHT[0], batch(2, 2, [9, 6])]),
    ("unfinished: 1: V6", [main()], [RIGHT[0], batch(3, 3, [6])]),
    ("unfinished: 1: V6", [main()], [batch(1, 0, [3, 4, 5, 6])]),
    ("unfinished: 1: V7", [main((1, 2, 7))], RIGHT),
    ("unfinished: 1: V7", [main()], [batch(1, 0, [3, 4]), batch(2, 2, [5, 6])]),
    ("unfinished: 1: V7", [main((1, 2, 3), 1, head=3)], [batch(1, 0, [4])]),
    ("unfinished: 1: V7", [{"_id": 1, "a": {"list": [1, 2, 3]}}], []),
])
def test_what_is_broken_is_named(what, mains, batches):
    assert what in str(check(mains, batches)[0])
