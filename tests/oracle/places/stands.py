"""Asks which stages mongod moves a $match past, into the query.

A bit test with a mask that mongod reads in two ways (docs/internals/mongod.md) tells: it has one answer as
a query and another as a stage. rules/stages/match_stands.c relies on what is found here.
"""

from bson import Binary, Int64

from support import exact

_ALL, _NOTHING = "all", "nothing"
_NUMBERS = [0, 1, 127, 128, 255, -1, -128, Int64(2**40), Int64(-(2**40)), 255.0]
_MASKS = [Binary(b"\x80", 0), Binary(b"\1\xff", 0), Binary(b"\0\0\x81", 0)]
_LOOKUP = {"from": _NOTHING, "localField": "_id", "foreignField": "x", "as": "j"}
_GRAPH = {"from": _NOTHING, "startWith": "$_id", "connectFromField": "_id", "connectToField": "x", "as": "j"}
STAGES = {
    "$match": [{"$match": {"_id": {"$gte": 0}}}],
    "$sort": [{"$sort": {"s": 1}}],
    "$sort by the field": [{"$sort": {"f": 1}}],
    "$match, $sort": [{"$match": {"_id": {"$gte": 0}}}, {"$sort": {"s": 1}}],
    "$limit": [{"$limit": 1000}],
    "$skip": [{"$skip": 0}, {"$skip": 1}],
    "$sample": [{"$sample": {"size": 1000}}],
    "$limit, $set": [{"$limit": 1000}, {"$set": {"x": 1}}],
    "$limit, $sort, $match": [{"$limit": 1000}, {"$sort": {"s": 1}}, {"$match": {"_id": {"$gte": 0}}}],
    "$sort, $limit": [{"$sort": {"_id": 1}}, {"$limit": 1000}],
    "$set": [{"$set": {"x": "$s"}}],
    "$set of the field": [{"$set": {"f": {"$ifNull": ["$f", 0]}}}],
    "$project": [{"$project": {"f": 1}}],
    "$unset": [{"$unset": "s"}],
    "$unwind": [{"$unwind": "$f"}],
    "$unwind of another": [{"$unwind": "$l"}],
    "$lookup": [{"$lookup": _LOOKUP}],
    "$graphLookup": [{"$graphLookup": _GRAPH}],
    "$replaceWith": [{"$replaceWith": "$$ROOT"}],
    "$group": [{"$group": {"_id": "$_id", "f": {"$first": "$f"}}}],
    "$redact": [{"$redact": "$$KEEP"}],
    "$unionWith": [{"$unionWith": _NOTHING}],
    "$setWindowFields": [{"$setWindowFields": {"sortBy": {"_id": 1}, "output": {"n": {"$documentNumber": {}}}}}],
    "$facet": [{"$facet": {"a": [{"$match": {}}]}}, {"$unwind": "$a"}, {"$replaceWith": "$a"}],
}
# What rules/stages/match_stands.c takes for granted, and what it doesn't rely on.
_QUERIES = ("$match", "$sort", "$sort by the field", "$match, $sort")
_STAGES = ("$limit", "$skip", "$sample", "$limit, $set", "$limit, $sort, $match", "$sort, $limit")
_OTHERS = {"a query": ("$graphLookup", "$lookup", "$project", "$redact", "$set", "$unionWith", "$unset",
                       "$unwind of another"),
           "a stage": ("$facet", "$group", "$redact", "$replaceWith", "$set of the field", "$setWindowFields",
                       "$unwind")}
KNOWN = {**{f"{name}: a query": "a $match is written as a query" for name in _QUERIES},
         **{f"{name}: a stage": "a $match stays as it is" for name in _STAGES},
         **{f"{name}: {verdict}": "115" for verdict, names in _OTHERS.items() for name in names}}


def _ids(server, command):
    reply = server.must({**command, "cursor": {"batchSize": 1000}} if "aggregate" in command
                        else {**command, "batchSize": 1000})
    return {exact.plain(exact.get(document, "_id")) for _, (_, document) in exact.get(reply, "cursor.firstBatch")[1]}


def run(server, share, found):
    """The share is always all: there are few questions."""
    del share
    numbers = [{"f": number} for number in _NUMBERS] + [{"f": [number, 3]} for number in _NUMBERS]
    server.fill(_ALL, [{"_id": place, **each, "s": place % 3, "l": [1]} for place, each in enumerate(numbers)])
    server.must({"drop": _NOTHING}, allowed=(26,))
    for name, stages in STAGES.items():
        for operator in ("$bitsAllSet", "$bitsAnyClear"):
            for mask in _MASKS:
                test = {"$match": {"f": {operator: mask}}}
                skipped = {0} if name == "$skip" else set()
                asked = _ids(server, {"find": _ALL, "filter": test["$match"]}) - skipped
                behind = _ids(server, {"aggregate": _ALL, "pipeline": [{"$facet": {"a": [test]}}, {"$unwind": "$a"},
                    {"$replaceWith": "$a"}]}) - skipped
                answer = _ids(server, {"aggregate": _ALL, "pipeline": [*stages, test]})
                found.count("stage", name)
                if answer not in (asked, behind):
                    found.differs(f"{name}: neither", f"{test}: {answer}")
                elif asked != behind:
                    found.differs(f"{name}: a query" if answer == asked else f"{name}: a stage", f"{test}")
