"""Random edits in place, beside the same on mongod: replies and arrays are equal.

`fold_limit` is so low that no array is ever folded back. An update that can't be done in place is refused."""

import random
import re
from uuid import uuid4

import pytest
from bson.binary import Binary
from bson.decimal128 import Decimal128
from bson.int64 import Int64
from bson.regex import Regex
from bson.timestamp import Timestamp
from pymongo.errors import OperationFailure

from support.editions import array_of, empty
from support.operate import RULE, spill
from support.share import part

RULES = [{**RULE, "fold_limit": "1B", "gc_delay": "1h", "settle": "1h", "quiet": "1h", "sweep": "off",
          "gather": 1000000}]
EDITS = part(400, 4000)
SEED = 20261128


class Draw:
    """Values, conditions and updates of a few kinds, so that they meet often."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def one(self, *choices):
        return self.random.choice(choices)

    def number(self):
        n = self.random.randrange(6)
        return self.one(n, float(n), Int64(n), Decimal128(str(n)), -0.0, float("nan"))

    def scalar(self):
        return self.one(self.number(), self.number(), self.one("a", "b", "ab", "B", ""), None, True, Binary(b"\x81"))

    def value(self, depth=0):
        if depth < 2 and self.random.random() < 0.45:
            return self.one(self.document, self.document, self.array)(depth + 1)
        return self.scalar()

    def array(self, depth=0):
        return [self.value(depth + 1) for _ in range(self.random.randrange(4))]

    def document(self, depth=0):
        return {name: self.value(depth + 1) for name in ("n", "k", "m") if self.random.random() < 0.7}

    def condition(self):
        """Operators on one value."""
        return self.one(
            lambda: {self.one("$gt", "$gte", "$lt", "$lte", "$eq", "$ne"): self.value(1)},
            lambda: {self.one("$in", "$nin"): [self.value(1) for _ in range(3)]},
            lambda: {"$gte": self.random.randrange(4), "$lt": self.random.randrange(6)},
            lambda: {"$exists": self.one(True, False)},
            lambda: {"$type": self.one("number", "string", "array", "object", "null", "bool", "double")},
            lambda: {"$mod": [self.one(2, 3), self.one(0, 1)]},
            lambda: {"$size": self.random.randrange(3)},
            lambda: {"$all": [self.scalar(), self.scalar()][:self.one(1, 2)]},
            lambda: {"$elemMatch": self.one({"$gte": 2}, {"n": 2}, {"n": {"$ne": 1}})},
            lambda: {"$not": self.one({"$gte": 3}, {"$type": "object"}, {"$in": [1, "a", None]}, {"$size": 1})},
            lambda: {"$regex": self.one("^a", "b"), "$options": self.one("", "i")},
            lambda: {self.one("$bitsAllSet", "$bitsAnySet", "$bitsAllClear", "$bitsAnyClear"):
                     self.one(1, [0, 7], Binary(b"\x81"))})()

    def of_field(self):
        return self.one(self.scalar, self.value, self.condition, lambda: Regex("^[ab]"))()

    def fields(self, prefix=""):
        """A filter of documents."""
        names = self.random.sample(("n", "k", "m", "n.k", "k.0"), self.one(1, 1, 2))
        plain = {prefix + name: self.of_field() for name in names}
        return self.one(plain, plain, plain, {"$or": [plain, {prefix + "m": self.of_field()}]},
                        {"$and": [plain]}, {"$nor": [plain]})

    def pulled(self):
        return self.one(self.value, self.scalar, self.condition, self.fields, self.fields, lambda: Regex("^a"))()

    def change(self, path):
        return self.one(lambda: {"$set": {path: self.value()}}, lambda: {"$set": {path + ".k": self.scalar()}},
                        lambda: {"$inc": {path: 1}}, lambda: {"$inc": {path + ".n": 1}},
                        lambda: {"$unset": {path + ".m": 1}}, lambda: {"$min": {path: 2}},
                        lambda: {"$max": {path + ".k": "a"}}, lambda: {"$mul": {path + ".n": 2}},
                        lambda: {"$unset": {path: 1}}, lambda: {"$bit": {path + ".n": {"or": 8}}},
                        lambda: {"$currentDate": {path + ".d": self.one(True, {"$type": "date"})}},
                        lambda: {"$push": {path + ".k": 1}}, lambda: {"$addToSet": {path + ".k": 1}})()

    def meant(self):
        """A condition on the array that one element satisfies."""
        return self.one(lambda: {"list": self.scalar()}, lambda: {"list.n": self.scalar()},
                        lambda: {"list": {"$elemMatch": {"n": self.random.randrange(6)}}},
                        lambda: {"list.k": {"$in": [self.scalar(), 2]}},
                        lambda: {"list": {"$elemMatch": self.one({"$gte": 2, "$lt": 4}, {"$in": [1, "a", None]},
                                                                 {"$type": "string"}, {"$not": {"$gt": 1}})}})()

    def update(self):
        """A filter, an update, and its array filters."""
        kind, filter, filters = self.random.random(), {}, None
        if kind < 0.25:
            update = {"$pull": {"list": self.pulled()}}
        elif kind < 0.3:
            update = {"$pullAll": {"list": [self.value() for _ in range(self.one(0, 3, 3))]}}
        elif kind < 0.35:
            update = self.change("list.$[]")
        elif kind < 0.45:
            update = {"$pop": {"list": self.one(1, -1)}}
        elif kind < 0.6:
            update = self.change(f"list.{self.random.randrange(26)}")
        elif kind < 0.8:
            update, filter = self.change("list.$"), self.meant()
        else:
            update = self.change("list.$[x]")
            filters = [self.one(self.fields("x."), self.fields("x."), {"x": self.of_field()})]
        if self.random.random() < 0.2:
            filter = self.meant()
        if self.random.random() < 0.3:
            update.setdefault("$set", {})["other"] = self.random.randrange(3)
        return filter, update, filters


@pytest.fixture
def shop(direct):
    return empty(direct, "model")


def timeless(found):
    """mongod's times are not those of the model."""
    return re.sub(r"datetime\.datetime\([^)]*\)", "TIME", repr(found))


def attempt(collection, filter, update, filters, images=False):
    """What it said: counts, or the error's code; or the images of before and after."""
    try:
        if images:
            found = collection.find_one_and_update({"_id": "one", **filter}, update, {"outlier": 0},
                                                   array_filters=filters, return_document=images == "after")
            return timeless(found)
        done = collection.update_one({"_id": "one", **filter}, update, array_filters=filters)
        return done.matched_count, done.modified_count
    except OperationFailure as error:
        return error.code


def store_batches(shop, overflow, overlap):
    """Each holds what stands in the next one, too, as after two movers at once."""
    state = shop.books.find_one({"_id": "one"})["_spill"]["list"]
    shop.tails.delete_many({})
    shop.tails.insert_many([{"book": "one", "part": overflow[at:at + 4 + overlap],
                             "_spill": {"g": state["g"], "p": at, "i": at // 4 + 1}}
                            for at in range(0, len(overflow), 4)])


def begin(shop, draw):
    array = [draw.value() for _ in range(draw.random.randrange(4, 24))]
    for name in ("books", "tails", "model"):
        shop[name].delete_many({})
    head, overlap = draw.one(3, 3, 3, 0), draw.one(0, 0, 1, 3, 5)
    spill(shop, "one", array, state={"g": Binary(uuid4().bytes)})
    if head == 0:  # as a rule that empties arrays leaves them, and another one behind it
        shop.books.update_one({"_id": "one"}, {"$set": {"list": [], "_spill.list.h": 0, "_spill.list.n": len(array)}})
    if head == 0 or overlap:
        store_batches(shop, array[head:], overlap)
    tail = [draw.value() for _ in range(draw.one(0, 0, 2))]
    array += tail
    shop.books.update_one({"_id": "one"}, {"$push": {"list": {"$each": tail}}})
    shop.model.insert_one({"_id": "one", "list": array})


def run(shop, books, seed, edits):
    draw, refused, changed = Draw(seed), 0, 0
    for number in range(edits):
        if number % 5 == 0:
            begin(shop, draw)
        filter, update, filters = draw.update()
        before = shop.model.find_one({"_id": "one"}, {"_id": 0, "list": 1})
        images = draw.one(False, False, False, "before", "after")
        expected = attempt(shop.model, filter, update, filters, images)
        told = attempt(books, filter, update, filters, images)
        if told == 10334 and expected != 10334:
            refused += 1
            shop.model.update_one({"_id": "one"}, {"$set": {"list": before["list"]}})
            begin(shop, draw)
            continue
        where = f"seed {seed}, edit {number}: {filter} {update} {filters} on {before}; {told}, not {expected}"
        assert told == expected, where
        model = shop.model.find_one({"_id": "one"})
        assert timeless(array_of(shop, "one")) == timeless(model["list"]), where
        seen = books.find_one({"_id": "one"}, {"outlier": 0})
        assert timeless(seen["list"]) == timeless(model["list"]) and seen.get("other") == model.get("other"), where
        changed += told == (1, 1) or images is not False
    return refused, changed


def test_random_edits_are_those_of_mongod(shop, client):
    refused, changed = run(shop, client.shop.books, SEED, EDITS)
    assert refused < EDITS / 10 and changed > EDITS / 5, (refused, changed)


@pytest.mark.parametrize("overlap", [1, 3, 5])
def test_the_matched_element_stands_in_several_batches(shop, client, overlap):
    """Each value is there twice, so that the part of a batch that does not count has the other one."""
    array = [each % 12 for each in range(27)]
    spill(shop, "one", array, state={"g": Binary(uuid4().bytes)})
    store_batches(shop, array[3:], overlap)
    shop.model.insert_one({"_id": "one", "list": array})
    for value in [*range(12), *range(11, -1, -1), 50]:
        edit = {"_id": "one", "list": value}, {"$set": {"list.$": 100 + value}}
        expected = shop.model.update_one(*edit).modified_count
        assert client.shop.books.update_one(*edit).modified_count == expected, value
        assert array_of(shop, "one") == shop.model.find_one({"_id": "one"})["list"], value


@pytest.mark.parametrize("beside", [{}, {"$set": {"other": 1}}, {"$set": {"list.$[].k": 1}, "$inc": {"list.$[].n": 1}}])
def test_all_elements_get_one_time(shop, client, beside):
    spill(shop, "one", [{"n": each} for each in range(27)], main={"at": 0}, state={"g": Binary(uuid4().bytes)})
    books = client.shop.books
    update = {"$currentDate": {"list.$[].d": True, "list.$[].e.f": {"$type": "date"}, "at": True}, **beside}
    assert books.update_one({"_id": "one"}, update).modified_count == 1
    array = array_of(shop, "one")
    assert len(array) == 27 and len({each["d"] for each in array}) == 1
    assert {each["e"]["f"] for each in array} == {array[0]["d"]}
    assert abs(books.find_one({"_id": "one"})["at"] - array[0]["d"]).total_seconds() < 60
    books.update_one({"_id": "one", "list.n": 20}, {"$currentDate": {"list.$.d": {"$type": "timestamp"}}})
    assert [each["n"] for each in array_of(shop, "one") if isinstance(each["d"], Timestamp)] in ([20], [21])
    with pytest.raises(OperationFailure) as caught:
        books.update_one({"_id": "one"}, {"$currentDate": {"list.$[].d": {"$type": "timestamp"}}})
    assert caught.value.code == 10334
