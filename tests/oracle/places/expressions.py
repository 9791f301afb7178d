"""Asks each expression and accumulator in the places where they may stand, each document by itself.

mongod runs a `$group` behind nothing but a query in its other engine: accumulators are asked there and behind stages.
"""

from bson import Code, Decimal128, Int64, MaxKey, MinKey, Regex

from oracle.places.asking import Answer, Asker, documents, drawn, fill, nested, whole
from oracle.places.values import NAN
from support.exact import REGEX

_CHANGED = "written"
_UNARY = ("abs ceil floor exp ln log10 sqrt trunc round not size isArray isNumber type toBool toDate toDecimal "
          "toDouble toInt toLong toObjectId toString toLower "
          "toUpper strLenBytes strLenCP reverseArray first last allElementsTrue anyElementTrue objectToArray "
          "arrayToObject sum avg min max stdDevPop stdDevSamp "
          "mergeObjects bsonSize binarySize year month week hour isoWeek dayOfYear millisecond sin cos tanh asinh "
          "degreesToRadians radiansToDegrees "
          "tsSecond tsIncrement toHashedIndexKey concat multiply add setUnion or and concatArrays").split()
_BINARY = ("eq ne gt gte lt lte cmp divide mod subtract pow log atan2 setDifference setIntersection setEquals "
           "setIsSubset in arrayElemAt indexOfArray "
           "strcasecmp split indexOfBytes indexOfCP add multiply concat concatArrays setUnion ifNull").split()
_OTHERS = (1, -1, 0, None, "a", [1], NAN, Decimal128("1"), Int64(2**63 - 1), MaxKey())
_ACCUMULATORS = "$sum $avg $min $max $first $last $push $addToSet $stdDevPop $stdDevSamp $mergeObjects".split()
_PLAN = "docs/internals/mongod.md, Groups: mongod's own plans differ; refused where it is met"
KNOWN = dict.fromkeys(("accumulator $mergeObjects: $group", "several values $max: $group",
                       "several values $min: $group", "values as _id: $sortByCount"), _PLAN)
_EQUAL = "equals"
# Values that are equal, or that a group's `_id` loses the type of: one group of each.
_GROUPS = ([1, 1.0, Int64(1), Decimal128("1")], [Decimal128("0"), 0.0, -0.0, 0], [Decimal128("NaN"), NAN, 1],
           [NAN, 2.5, 1], [1, NAN],
           [Code("x"), "x"], [MaxKey(), MaxKey()], [MinKey(), None], [Regex("a", ""), "a"], [Int64(2**63 - 1), 1, 1.0],
           [0.1, 0.2, Decimal128("0.3")])


def _more(path):
    array = {"$cond": [{"$isArray": path}, path, []]}
    return [
        path, [path, 1], {"x": path, "y": "$nope"}, {"$filter": {"input": array, "cond": {"$gt": ["$$this", 1]}}},
        {"$map": {"input": array, "in": {"x": "$$this.g"}}},
        {"$reduce": {"input": array, "initialValue": [], "in": {"$concatArrays": ["$$value", ["$$this"]]}}},
        {"$zip": {"inputs": [array, [1, 2]], "useLongestLength": True}},
        {"$slice": [array, -2]}, {"$slice": [array, 1, 1]}, {"$sortArray": {"input": array, "sortBy": 1}},
        {"$sortArray": {"input": array, "sortBy": {"g": -1}}},
        {"$firstN": {"input": array, "n": 2}}, {"$maxN": {"input": array, "n": 2}},
        {"$getField": {"field": "g", "input": path}},
        {"$setField": {"field": "g", "input": path, "value": 1}}, {"$regexFind": {"input": path, "regex": "a"}},
        {"$replaceOne": {"input": path, "find": "a", "replacement": "b"}},
        {"$substrBytes": [path, 0, 1]}, {"$convert": {"input": path, "to": "int", "onError": "E", "onNull": "N"}},
        {"$convert": {"input": path, "to": "string", "onError": "E", "onNull": "N"}},
        {"$switch": {"branches": [{"case": {"$eq": [path, 1]}, "then": "1"}, {"case": {"$gt": [path, 0]}, "then": "2"}],
                     "default": path}}, {"$cond": [path, "y", "n"]},
        {"$dateAdd": {"startDate": path, "unit": "day", "amount": 1}}, {"$dateTrunc": {"date": path, "unit": "day"}},
        {"$dateToParts": {"date": path}},
        {"$let": {"vars": {"x": path}, "in": ["$$x", "$$x.g"]}}, {"$range": [0, path]}, {"$trim": {"input": path}},
        {"$round": [path, 1]},
    ]


def _expressions():
    """(kind, expression)"""
    for path in ("$f", "$f.g", "$f.g.h"):
        for name in _UNARY:
            yield f"${name}", {f"${name}": path if name not in ("concat", "multiply", "add", "setUnion", "or", "and",
                                                                "concatArrays") else [path, path]}
        for name in _BINARY:
            for other in _OTHERS:
                yield f"${name}", {f"${name}": [path, {"$literal": other}]}
                yield f"${name}", {f"${name}": [{"$literal": other}, path]}
        for each in _more(path):
            name = next(iter(each)) if isinstance(each, dict) else "a value"
            yield name if name.startswith("$") else "a document", each


class _Expressions(Asker):
    def answers(self, expression, query):
        """(form, answer): by `_id` the document r: the expression."""
        first, project = [{"$match": query}, {"$sort": {"_id": 1}}], {"$project": {"r": expression}}
        yield "find", self.find(filter=query, projection={"r": expression}, sort={"_id": 1})
        yield "$set", self.aggregate([*first, {"$set": {"r": expression}}, {"$project": {"r": 1}}])
        yield "$graphLookup, $replaceWith, $project", self.aggregate([*first, *whole(), project])
        for form, collection, pipeline in nested([*first, project]):
            yield form, self.aggregate(pipeline, collection)
        yield "$match with $expr", self.aggregate([{"$match": {**query,
                                                               "$expr": {"$or": [{"$eq": [expression, 5]}, True]}}},
                                                               {"$sort": {"_id": 1}}, project])

    def one_by_one(self, kind, expression, made):
        """Where one fails all do."""
        for each in made:
            query = {"_id": each["_id"]}
            right = self.aggregate([{"$match": query}, {"$project": {"r": expression}}])
            self.compare(f"expression {kind}", f"{expression} of {each}", right, self.answers(expression, query))

    def ask(self, kind, expression, made):
        right = self.aggregate([{"$sort": {"_id": 1}}, {"$project": {"r": expression}}])
        if right.error:
            self.one_by_one(kind, expression, made[::37])
        else:
            self.compare(f"expression {kind}", str(expression), right, self.answers(expression, {}))
            self.compare(f"expression {kind}", str(expression), right,
                         [("an update's pipeline", self.update(expression))])

    def update(self, expression):
        """The same once it was stored: what is undefined or missing is left out."""
        self.server.must({"update": _CHANGED,
                          "updates": [{"q": {}, "u": [{"$unset": "r"}, {"$set": {"r": expression}}], "multi": True}]})
        return Answer(self.server.bytes({"find": _CHANGED, "projection": {"r": 1}, "sort": {"_id": 1},
                                         "batchSize": 100000}))

    def accumulate(self, name, path):
        group = {"$group": {"_id": "$_id", "r": {name: path}}}
        right = self.aggregate([group], ordered=False)
        self.compare(f"accumulator {name}", path, right, [("$group", self.aggregate([*whole(), group], ordered=False))])

    def accumulate_equals(self):
        """Several values of one group, in order; $addToSet has none."""
        for name in _ACCUMULATORS:
            if name not in ("$addToSet", "$mergeObjects"):
                group = [{"$sort": {"_id": 1}}, {"$group": {"_id": "$n", "r": {name: "$f"}}}]
                right = self.aggregate(group, _EQUAL, ordered=False)
                self.compare(f"several values {name}", "$f", right,
                             [("$group", self.aggregate([*whole(), *group], _EQUAL, ordered=False))])
        for form, stages in (("$group", [{"$group": {"_id": "$f", "r": {"$sum": 1}}}]),
                             ("$sortByCount", [{"$sortByCount": "$f"}])):
            right = self.aggregate([{"$sort": {"_id": 1}}, *stages], _EQUAL, ordered=False)
            self.compare("values as _id", "$f", right,
                         [(form, self.aggregate([*whole(), {"$sort": {"_id": 1}}, *stages], _EQUAL, ordered=False))])


def run(server, share, found):
    asker = _Expressions(server, found)
    made = documents(max(share / 4, 0.02), (REGEX,))
    fill(server, made)
    server.fill(_CHANGED, made)
    for kind, expression in drawn(_expressions(), share, "expressions"):
        asker.ask(kind, expression, made)
    for path in ("$f", "$f.g", "$f.g.h"):
        for name in _ACCUMULATORS:
            asker.accumulate(name, path)
    values = [(number, value) for number, group in enumerate(_GROUPS) for value in group]
    server.fill(_EQUAL, [{"_id": place, "n": number, "f": value} for place, (number, value) in enumerate(values)])
    asker.accumulate_equals()
