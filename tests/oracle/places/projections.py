"""Asks each projection by find, by findAndModify, by $project, and by the stages that Spillway writes instead of
find's own."""

from bson import Decimal128, Int64, Timestamp

from oracle.places.asking import ALL, Answer, Asker, documents, drawn, fill, nested, whole
from oracle.places.values import NAN
from support import exact

_PATHS = ("f", "f.g", "f.g.h", "f.0", "f.0.g", "f.g.0")
_VALUES = (1, 0, True, False, 1.5, -1, Int64(0), NAN, Decimal128("0"), Decimal128("NaN"), None, "x", "$n", "$f", [],
           [1], ["$n"], {}, {"x": 1}, {"x": 0},
           {"$literal": 1}, {"$literal": [1]}, {"$add": ["$n", 1]}, {"y": "$n", "z": "$nope"}, "$$REMOVE", "$$ROOT.n",
           Timestamp(0, 0), {"$slice": ["$f", 1]})
_BESIDE = ({}, {"n": 1}, {"n": 0}, {"_id": 0}, {"_id": 1}, {"f.h": 1}, {"q": "$n"})
_SLICES = (0, 1, -1, 2, [1, 1], [-3, 2], [0, 1], 2.9, Int64(2**40))
_CONDITIONS = ({"$gt": 0}, {"g": 1}, {"g": {"$gte": 1}}, {"$exists": True}, {"$type": "null"}, {"$in": [None, 1]},
               {"$size": 1}, {"$ne": 1}, {"$not": {"$gt": 1}},
               {"$eq": None}, {"$mod": [2, 0]}, {"$regex": "a"}, {"$or": [{"g": 1}, {"g": 2}]},
               {"$elemMatch": {"$gt": 0}}, {"$bitsAllSet": 1}, {})
KNOWN = {}
_NULL_ARRAY = {"$cond": [{"$isArray": "$f"}, "$f", []]}


def _projections():
    """(kind, projection) of those that find and $project have in common."""
    for path in _PATHS:
        for value in _VALUES:
            for beside in _BESIDE:
                kind = "an inclusion" if beside or not isinstance(value, (dict, str, list)) else "a value"
                yield kind, {path: value, **beside}
                yield kind, {**beside, path: value}


def _matched(condition):
    """As rules/stages/stage_project.c finds the element."""
    elements = {"$map": {"input": "$$f", "in": {"f": ["$$this"]}}}
    lookup = {"let": {"f": _NULL_ARRAY},
              "pipeline": [{"$documents": elements}, {"$match": {"f": {"$elemMatch": condition}}},
                           {"$limit": Int64(1)}], "as": "_found"}
    first = {"$ifNull": [{"$arrayElemAt": ["$_found.f", 0]}, "$$REMOVE"]}
    return [{"$lookup": lookup}, {"$project": {"f": first}}]


class _Projections(Asker):
    def image(self, projection, identifier):
        """What a findAndModify shows, which changes nothing."""
        reply = self.server.bytes({"findAndModify": ALL, "query": {"_id": identifier}, "update": {"$set": {"s": "t"}},
                                   "fields": projection})
        return Answer(reply)

    def common(self, kind, projection, some):
        right = self.find(projection=projection, sort={"_id": 1})
        first, project = {"$sort": {"_id": 1}}, {"$project": projection}
        answers = [("$project", self.aggregate([first, project])),
                   ("$graphLookup, $replaceWith, $project", self.aggregate([first, *whole(), project]))]
        answers += [(form, self.aggregate(pipeline, collection))
                    for form, collection, pipeline in nested([first, project])]
        # find takes what $project refuses; that mongod says itself.
        self.compare(kind, str(projection), right,
                     [each for each in answers if not each[1].error or right.error == each[1].error])
        self.images(kind, projection, some)

    def images(self, kind, projection, some):
        for identifier in some:
            shown = self.find(filter={"_id": identifier}, projection=projection)
            self.compare(kind, f"{projection} of {identifier}", shown,
                         [("findAndModify", self.image(projection, identifier))])

    def slices(self, slice_, some):
        numbers = slice_ if isinstance(slice_, list) else [slice_]
        right = self.find(projection={"f": {"$slice": slice_}}, sort={"_id": 1})
        cut = {"$cond": [{"$isArray": "$f"}, {"$slice": ["$f", *(min(int(number), 2**31 - 1) for number in numbers)]},
                         "$f"]}
        stages = [{"$sort": {"_id": 1}}, *whole(),
                  {"$set": {"f": cut if numbers != [0] else {"$cond": [{"$isArray": "$f"}, [], "$f"]}}}]
        self.compare("$slice", str(slice_), right, [("as stages", self.aggregate(stages))])
        self.images("$slice", {"f": {"$slice": slice_}}, some)

    def matches(self, condition, some):
        projection = {"f": {"$elemMatch": condition}}
        right = self.find(projection=projection, sort={"_id": 1})
        self.compare("$elemMatch", str(condition), right,
                     [("as stages", self.aggregate([{"$sort": {"_id": 1}}, *whole(), *_matched(condition)]))])
        self.images("$elemMatch", projection, some)


def run(server, share, found):
    asker = _Projections(server, found)
    made = documents(max(share / 2, 0.05))
    fill(server, made)
    some = [each["_id"] for each in made[::len(made) // 8]]
    for kind, projection in drawn(_projections(), share, "projections"):
        asker.common(kind, projection, some[:2])
    for slice_ in _SLICES:
        asker.slices(slice_, some)
    for condition in _CONDITIONS:
        asker.matches(condition, some)
    assert exact.get(server.must({"count": ALL}), "n")
