"""What Spillway can't do exactly yet is refused by name, and nothing is changed by it."""

import pytest
from bson import Binary, Decimal128, Int64

from support import exact
from support.cluster import Cluster
from support.process import wait_for
from support.spillway import Spillway
from support.verify import Keeping, verify
from support.wire import MORE_TO_COME, Connection

pytestmark = pytest.mark.share(4)
NOT_SUPPORTED = 115
RULE = {
    "name": "book-sales", "namespace": "shop.books", "array": "buyers", "threshold": 2,
    "settle": "20ms", "gc_delay": "0s",
    "overflow": {"collection": "book_extras", "layout": "batches", "link": "book", "array": "more",
                 "batch": {"size": 3}},
}
BOOKS = "shop.books"


def update(change, query=None, **options):
    return {"update": "books", "updates": [{"q": query or {"_id": 1}, "u": change, **options}]}


def find(filter=None, **options):
    return {"find": "books", "filter": filter or {}, **options}


def aggregate(*stages, source="books"):
    return {"aggregate": source, "pipeline": list(stages), "cursor": {}}


def modify(query=None, **options):
    return {"findAndModify": "books", "query": query or {"_id": 1}, **options}


UNKNOWN = Binary(bytes(16), 4)
ELEMENT = {"name": "x"}
REPEATED_NAME = exact.DOCUMENT, exact.pairs_of([("a", 1), ("a", 2)])
# What needs the array whole, and what is named where that is refused.
EDITS = [
    (update({"$pull": {"buyers": 1}}), "$pull"),
    (update({"$pullAll": {"buyers": [1]}}), "$pullAll"),
    (update({"$pop": {"buyers": 1}}), "$pop"),
    (update({"$addToSet": {"buyers": 1}}), "$addToSet"),
    (update({"$push": {"buyers": {"$each": [1], "$position": 0}}}), "$push"),
    (update({"$push": {"buyers": {"$each": [1], "$slice": 3}}}), "$push"),
    (update({"$push": {"buyers": {"$each": [1], "$sort": 1}}}), "$push"),
    (update({"$push": {"buyers.0": 1}}), "$push"),
    (update({"$push": {"buyers": REPEATED_NAME}}), "$push"),
    (update({"$push": {"buyers": {"$each": [1, {"x": [REPEATED_NAME]}]}}}), "$push"),
    (update({"$set": {"buyers.0": 1}}), "$set"),
    (update({"$set": {"buyers.3": 1}}), "$set"),
    (update({"$set": {"n": 2, "buyers.0.name": 1}}), "$set"),
    (update({"$unset": {"buyers.0": 1}}), "$unset"),
    (update({"$inc": {"buyers.1": 1}}), "$inc"),
    (update({"$set": {"buyers.$[]": 1}}), "$set"),
    (update({"$set": {"buyers.$[e]": 1}}, arrayFilters=[{"e": 1}]), "$set"),
    (update({"$rename": {"buyers": "old"}}), "$rename"),
    (update({"$rename": {"other": "buyers"}}), "$rename"),
    (update({"$min": {"buyers": [0]}}), "$min"),
    (update({"$max": {"buyers": [9]}}), "$max"),
    (update({"$currentDate": {"buyers": True}}), "$currentDate"),
    (update({"$mul": {"buyers.0": 2}}), "$mul"),
    (update([{"$set": {"buyers": {"$concatArrays": ["$buyers", [1]]}}}]), "$set"),
    (update([{"$set": {"n": {"$size": "$buyers"}}}]), "buyers"),
    (update([{"$replaceWith": {"n": 1}}]), "$replaceWith"),
    (update([{"$project": {"n": 1}}]), "$project"),
    (modify(update={"$pull": {"buyers": 1}}), "$pull"),
    (modify(update=[{"$set": {"buyers": {"$slice": ["$buyers", 1]}}}]), "$set"),
    ({"update": "books", "updates": [{"q": {"_id": 1}, "u": {"$inc": {"n": 1}}},
                                     {"q": {"_id": 1}, "u": {"$pop": {"buyers": -1}}}]}, "$pop"),
]
FILTERS = [
    {"buyers": 1}, {"_id": 1, "buyers": {"$ne": 9}}, {"buyers": {"$size": 2}}, {"buyers.0": 1},
    {"buyers.5": {"$exists": False}}, {"buyers.name": "x"}, {"buyers": {"$elemMatch": ELEMENT}},
    {"$or": [{"n": 1}, {"buyers": 1}]}, {"$nor": [{"$and": [{"buyers": 4}]}]},
    {"$expr": {"$gt": [{"$size": "$buyers"}, 1]}}, {"$where": "this.buyers.length > 1"},
    {"$jsonSchema": {"required": ["buyers"]}}, {"$expr": {"$eq": ["$$ROOT", 1]}},
    {"$expr": {"$getField": "buyers"}},
]
# As reads alone: each of the others is a second of writes, too.
FILTERS_OF_READS = [
    {"buyers": {"$bitsAllSet": [0, 2]}}, {"buyers": {"$bitsAnyClear": 5}},
    {"buyers": {"$gte": 5}, "$comment": "why", "$alwaysTrue": 1},
    {"buyers": 5, "$nor": [{"place": {"$geoWithin": {"$box": [[0, 0], [9, 9]]}}}]},
]
WRITES = [
    command
    for query in FILTERS if "$where" not in query
    for command in (
        update({"$push": {"buyers": 7}}, query),
        {"delete": "books", "deletes": [{"q": query, "limit": 0}]},
        modify(query, remove=True),
        modify(query, update={"$set": {"n": 1}}, sort={"buyers": 1}, fields={"buyers": {"$slice": 1}}),
    )
]
# A pipeline can't hold it: which document it means can't be found out before it is folded back.
UNSETTLED = [
    update({"$push": {"buyers": 7}}, {"$where": "this.buyers.length > 1"}),
    {"delete": "books", "deletes": [{"q": {"$where": "this.buyers.length > 1"}, "limit": 0}]},
    modify({"$where": "this.buyers.length > 1"}, remove=True),
    # One among others: then none of them is run.
    {"update": "books", "ordered": False, "updates": [
        {"q": {"_id": 1}, "u": {"$push": {"buyers": 7}}},
        {"q": {"$where": "this.buyers.length > 1"}, "u": {"$pop": {"buyers": 1}}}]},
]
FILTERED = [
    command
    for query in FILTERS + FILTERS_OF_READS
    for command in (
        find(query),
        {"count": "books", "query": query},
        {"distinct": "books", "key": "n", "query": query},
        aggregate({"$match": query}, {"$group": {"_id": 1, "n": {"$sum": 1}}}),
    )
]
READS = [
    (find({"buyers": {"$gt": 1, "$lt": 4}}, projection={"buyers.$": 1}), "same element"),
    (find({"buyers": {"$in": [3]}, "$and": [{"buyers": number} for number in range(9)]}, projection={"buyers.$": 1}),
     "projection"),
    (find({"buyers": 3}, projection={"other.$": 1}), "projection"),
    (find({"buyers": [1]}, projection={"buyers.$": 1}), "projection"),
    (find({"buyers": 3, "other": 1}, projection={"buyers.$": 1}), "another condition"),
    (find(projection={"buyers": {"$elemMatch": {"$gt": 1}}, "all": "$$ROOT"}), "projection"),
    (find({"buyers": 1}, showRecordId=True), "showRecordId"),
    (find({"n": 1}, sort={"buyers": 1}, showRecordId=True), "showRecordId"),
    (find({"n": 1}, returnKey=True), "returnKey"), (find({"n": 1}, returnKey=True, hint="_id_"), "returnKey"),
    (find(min={"_id": 0}, hint="_id_", projection={"buyers": {"$slice": 1}}, batchSize=1), "min"),
    (find(showRecordId=True, projection={"buyers": {"$slice": 1}}, batchSize=1), "showRecordId"),
    (find(projection={"buyers": {"$slice": Decimal128("1")}}), "decimal"),
    (find(projection={"buyers": {"$slice": [1, Decimal128("2.5")]}}), "decimal"),
    (find({"buyers": 5}, projection={"other": {"$slice": Decimal128("1")}}), "decimal"),
    ({"distinct": "books", "key": "buyers.$"}, "distinct"),
    (find({"buyers": 1, "": 1}), "without a name"),
    (find({"$and": [{"buyers": 1}, {"$or": [{"": 1}]}]}), "without a name"),
    (find({"buyers": 1}, sort={"n": 1}, projection={"key": {"$meta": "sortKey"}}), "$meta"),
    (find(sort={"n": 1}, projection={"buyers": {"$slice": 1}, "key": {"$meta": "sortKey"}}), "$meta"),
]
# The same with indexes that mongod has; without them the error is mongod's.
INDEXED_READS = [
    (find(min={"buyers": 1}, hint={"buyers": 1}), "min"), (find({"buyers": 1}, min={"n": 1}, hint="n_1"), "min"),
    (find({"buyers": 1}, hint={"n": 1}, returnKey=True), "returnKey"),
    (find({"n": 1}, returnKey=True, hint={"buyers": 1}), "returnKey"),
]
SERVED = [
    find(sort={"buyers": 1}), find(sort={"n": 1, "buyers.name": -1}), find(projection={"buyers.name": 1}),
    find(projection={"buyers.name": 0}), find(projection={"count": {"$size": "$buyers"}}),
    find(projection={"copy": "$buyers"}), find(projection={"whole": "$$ROOT"}),
    find({"buyers": {"$gt": 2}}, skip=0, limit=1), find({"buyers": {"$gte": 1}}, batchSize=1, singleBatch=True),
    find({"buyers": {"$gte": 1}}, limit=-1), find({"buyers": {"$gte": 1}}, skip=1, projection={"_id": 1}),
    find({"buyers": {"$bad": 1}}), find({"buyers": 1}, projection={"n": 1, "buyers": 0}),
    find({"$expr": {"$gt": [{"$size": "$n"}, {"$size": "$buyers"}]}}),
    find({"$expr": {"$in": ["$$wanted", "$buyers"]}}, let={"wanted": 5}),
    find(projection={"more": {"$concatArrays": ["$buyers", "$$more"]}}, let={"more": [1]}),
    find(projection={"buyers": {"$elemMatch": {"$gt": 4}}}),
    find(projection={"buyers": {"$elemMatch": ELEMENT}, "n": 1}),
    find(projection={"buyers": {"$elemMatch": {"$gt": 4}}, "n": 0}),
    find(projection={"buyers": {"$elemMatch": {}}, "_id": 0}),
    find({"buyers": 5}, projection={"buyers": {"$elemMatch": {"$gt": 1}}}, sort={"buyers": -1}, limit=1),
    find(projection={"buyers": {"$elemMatch": {"$bad": 1}}}),
    find(projection={"buyers": {"$elemMatch": {"$where": "1"}}}),
    find({"buyers": 5}, projection={"other": {"$elemMatch": {"$lt": 2}}}),
    find(projection={"buyers": {"$elemMatch": {"name": "X"}}}, collation={"locale": "en", "strength": 2}),
    find({"buyers": 5}, projection={"buyers.$": 1}),
    find({"buyers.name": "x"}, projection={"buyers.$": 1, "n": 1, "_id": 0}),
    find({"buyers": {"$elemMatch": ELEMENT}, "n": 1},
         projection={"n": True, "buyers.$": True, "more": {"$add": ["$n", 1]}}),
    find({"buyers": {"$in": [6, 5]}}, projection={"buyers.$": 1, "other": {"$slice": 1}}, batchSize=2),
    find({"buyers": {"$gte": 2}, "_id": {"$lt": 9}}, projection={"buyers.$": 1}, sort={"buyers": 1}, skip=0),
    *(find(query, projection={"buyers.$": 1}) for query in (
        {"buyers": {"$gte": 5, "$mod": [5, 0]}}, {"buyers.name": "x", "buyers": {"$elemMatch": ELEMENT}},
        {"$and": [{"buyers": 5}, {"buyers": {"$gt": 4}}]},
        {"buyers.name": {"$gte": "a", "$options": "i", "$regex": "X"}},
        {"buyers": {"$gt": 5, "$gte": 6, "$lt": 9, "$in": [6]}, "_id": 9},
        {"buyers": {"$gt": 9, "$lt": 3}}, {"buyers": {"$gte": 6, "$in": [6, "a"]}, "n": {"$lt": 9, "$gt": 0}},
        {"buyers": {"$gte": 1, "$ne": 99}}, {"buyers": {"$ne": 99}})),
    find({"$expr": True, "buyers": 1}, projection={"buyers.$": 1}), find({"buyers": 1}, projection={"buyers.$": 0}),
    find({"buyers": 1}, projection={"buyers.$": 1, "n": 0}), find({"buyers": 1}, projection={"buyers.$.x": 1}),
    find({"buyers": 1}, projection={"buyers.$": 1, "other": {"$elemMatch": {}}}),
    find(projection={"buyers": {"$slice": [1, 2]}, "size": {"$size": "$buyers"}}),
    find(projection={"buyers": {"$slice": 2.9}}),
    find(projection={"n": Decimal128("1"), "buyers": {"$slice": 4}}, batchSize=9, singleBatch=True),
    find(projection={"n": Decimal128("0E+3"), "buyers": {"$elemMatch": {"$gt": 3}}}),
    find({"buyers": 5}, projection={"n": Decimal128("1"), "buyers.$": Decimal128("1")}),
    find({"buyers": 5}, projection={"other": {"$slice": -1}}), find(projection={"buyers": {"$slice": 1 << 40}}),
    *(find(query, projection={"buyers": {"$slice": bad}})
      for query in ({}, {"buyers": 5}) for bad in ([1, 0], [1, -1], [1], [], "x", None, [1, 2, 3], ["a", 1], True)),
    *(find({"buyers.name": "x"}, projection=projection) for projection in (
        {"buyers.name": {"$slice": 1}, "buyers": {"$slice": 2}},
        {"buyers": {"$slice": 2}, "buyers.name": {"$slice": 1}},
        {"buyers.name": 1, "buyers": 1}, {"buyers": 1, "buyers.name": 1}, {"buyers": 0, "buyers.name": 0},
        {"buyers.$": 1, "buyers": 1},
        {"buyers.name": 1, "buyers.$": 1}, {"buyers": {"$elemMatch": ELEMENT}, "buyers.name": 1},
        {"buyers.name": 1, "buyers": {"$elemMatch": ELEMENT}},
        {"buyers": {"$size": "$buyers"}, "buyers.name": 1}, {"buyers": {"name": 1}, "buyers.name": {"$slice": 1}},
        {"buyers.name.a": 1, "buyers.name": {"$first": "$buyers"}},
        exact.value_of((exact.DOCUMENT, exact.pairs_of([("buyers", {"$slice": 1}), ("n", 1),
                                                        ("buyers", {"$slice": 1})]))), {"n": {"x": 1}, "n.x": 1},
    )),
    find(projection={"buyers": {"$slice": 2}, "buyers.name": 0}),
    find(projection={"n.x": 0, "buyers": {"$slice": 1}, "n": 0}),
    find({"buyers": {"$gte": 1}}, sort={"$natural": -1}), find({"buyers": {"$gte": 1}}, sort={"$natural": 1}, limit=1),
    find({"buyers": 1}, sort={"$natural": -1}, hint={"$natural": -1}), find({"buyers": 1}, sort={"$natural": "x"}),
    find({"buyers": {"$gte": 1}}, hint={"$natural": -1}), find({"buyers": {"$gte": 1}}, hint={"_id": 1}),
    *({"distinct": "books", "key": f"buyers.{part}"} for part in ("0", "5", "9", "1.name", "00", "4.x", "name.0")),
    {"distinct": "books", "key": "buyers"}, {"distinct": "books", "key": "buyers.name"},
    {"count": "books", "query": {"buyers": {"$gte": 1}}, "limit": 1}, {"count": "books", "query": {"buyers": 4}},
    {"count": "books", "query": {"buyers": {"$gte": 1}}, "skip": 1}, {"count": "books", "query": {"buyers": 99}},
    aggregate({"$unwind": "$buyers"}), aggregate({"$project": {"buyers": {"$slice": ["$buyers", 1]}}}),
    aggregate({"$sort": {"buyers": 1}}),
    aggregate({"$group": {"_id": None, "all": {"$push": "$buyers"}}}),
    aggregate({"$group": {"_id": None, "all": {"$push": "$$ROOT"}}}),
    aggregate({"$project": {"n": {"$size": "$buyers"}}}),
    aggregate({"$match": {"n": 1}}, {"$set": {"last": {"$last": "$buyers"}}}),
    aggregate({"$match": {"n": {"$gte": 1}}}, {"$match": {"buyers": {"$size": 6}}}),
    aggregate({"$facet": {"long": [{"$match": {"buyers.4": {"$exists": True}}}], "all": [{"$count": "n"}]}}),
    aggregate({"$bucket": {"groupBy": {"$size": "$buyers"}, "boundaries": [0, 3, 9]}}),
    aggregate({"$redact": {"$cond": [{"$isArray": "$buyers"}, "$$KEEP", "$$PRUNE"]}}),
    aggregate({"$replaceRoot": {"newRoot": {"first": {"$first": "$buyers"}}}}),
]
# Between bounds of an index; `find` has none where they are wrong.
BOUNDS = [
    find(query, **bounds, **more)
    for query, more in (({"buyers": {"$gte": 1}}, {}), ({"buyers": 3}, {"projection": {"buyers.$": 1}}),
                        ({}, {"projection": {"n": {"$size": "$buyers"}}}),
                        ({"n": {"$gt": 0}}, {"sort": {"buyers": -1}}),
                        ({}, {"projection": {"buyers": {"$slice": 2}}, "batchSize": 1}))
    for bounds in (
        {"min": {"n": 1}, "hint": {"n": 1}}, {"min": {"n": 2}, "hint": {"n": 1}}, {"max": {"n": 2}, "hint": {"n": 1.0}},
        {"max": {"n": "a"}, "hint": {"n": 1}},
        {"min": {"n": 2, "_id": 1}, "max": {"n": 1, "_id": 9}, "hint": {"n": -1, "_id": 1}},
        {"max": {"n": 1, "_id": 1}, "hint": {"n": -1, "_id": 1}},
        {"min": {"x.y": None}, "hint": {"x.y": 1}}, {"max": {"x.y": None}, "hint": {"x.y": 1}},
        {"min": {}, "max": {"n": 1.5}, "hint": {"n": 1}},
        {"min": {"n": 3}, "max": {"n": 2}, "hint": {"n": 1}}, {"min": {"none": 3}, "hint": {"none": 1}},
        {"min": {"n": 3}, "max": 5, "hint": {"n": 1}})
]
# What the client's own find does, whose arrays are put together, or cut, behind it.
NATIVE = [
    *(find(**more, hint={"_id": 1}, limit=5)
      for bounds in ({"min": {"_id": 1}}, {"max": {"_id": 2}}, {"min": {"_id": 1}, "max": {"_id": 2}})
      for more in ({**bounds}, {**bounds, "projection": {"buyers": {"$slice": -2}}},
                   {**bounds, "filter": {"n": 1}, "projection": {"buyers": 1}})),
    find(showRecordId=True, limit=2, projection={"buyers": {"$slice": -2}}, sort={"_id": -1}),
    find({"_id": {"$lt": 9}}, returnKey=True, hint={"_id": 1}),
    find(returnKey=True, hint={"_id": 1}, projection={"buyers": 1}), find(returnKey=1),
]
JOINED = [
    aggregate({"$lookup": {"from": "books", "localField": local, "foreignField": foreign, "as": "b", **pipeline}},
              source=source)
    for source in ("plain", "books")
    for local, foreign, pipeline in (
        ("n", "n", {}), ("n", "buyers", {}), ("other", "buyers", {}), ("none", "buyers.name", {}),
        ("buyers", "buyers", {}),
        ("n", "n", {"let": {"a": "$n"}, "pipeline": [{"$match": {"buyers": 3, "$expr": {"$eq": ["$n", "$$a"]}}}]}),
        ("n", "n", {"pipeline": [{"$match": {"n": {"$gt": 0}}}, {"$sort": {"_id": -1}}, {"$project": {"other": 1}}]}),
        ("n", "n", {"pipeline": [{"$group": {"_id": "$other", "n": {"$sum": 1}}}]}),
        ("n", "n", {"pipeline": [{"$project": {"other": 1, "size": {"$size": {"$ifNull": ["$buyers", []]}}}}]}),
        ("n", "buyers", {"let": {"a": "$n"}, "pipeline": [{"$set": {"a": "$$a", "last": {"$last": "$buyers"}}}]}),
    )
] + [
    aggregate({"$unionWith": "books"}, source="plain"), aggregate({"$unionWith": {"coll": "books"}}),
    aggregate({"$unionWith": {"coll": "books", "pipeline": [{"$match": {"n": 1}}, {"$unwind": "$buyers"}]}},
              source="plain"),
    aggregate({"$facet": {"a": [{"$unionWith": {"coll": "books", "pipeline": []}}], "b": [{"$count": "n"}]}},
              source="plain"),
    aggregate({"$group": {"_id": "$n"}},
              {"$lookup": {"from": "books", "localField": "_id", "foreignField": "n", "as": "b"}},
              {"$sort": {"_id": 1}}),
    aggregate({"$lookup": {"from": "books", "pipeline": [{"$match": {"buyers": {"$size": 6}}}, {"$project": {"n": 1}}],
                           "as": "b"}},
              source="plain"),
    aggregate({"$lookup": {"from": "plain", "localField": "n", "foreignField": "n", "as": "a", "pipeline": [
        {"$lookup": {"from": "books", "localField": "buyers", "foreignField": "buyers", "as": "b"}}]}}, source="plain"),
    aggregate({"$lookup": {"from": "books", "localField": "n", "as": "b"}}, source="plain"),
] + [
    aggregate(*lead, {"$graphLookup": {"from": "books", "startWith": "$n", "connectFromField": "next",
                                       "connectToField": "n", "as": "b", **more}},
              {"$set": {more.get("as", "b"): {"$sortArray": {"input": "$" + more.get("as", "b"),
                                                             "sortBy": {"_id": 1}}}}}, *rest, source=source)
    for source in ("plain", "books")
    for lead, more, rest in (
        ([], {}, []), ([], {"connectFromField": "_id", "depthField": "d"},
                       [{"$unwind": "$b"}, {"$set": {"last": {"$last": "$b.buyers"}}}]),
        ([{"$match": {"n": 2}}], {"startWith": [1, 2], "maxDepth": 0, "as": "n"}, []),
        ([], {"startWith": "$buyers", "restrictSearchWithMatch": {"n": 1}}, []),
        ([{"$group": {"_id": 1}}], {"startWith": [1, 2]}, [{"$unset": "b.other"}]),
        ([], {"startWith": 9, "as": "buyers"}, []),
    )
] + [
    aggregate({"$lookup": {"from": "plain", "pipeline": [{"$graphLookup": {
        "from": "books", "startWith": "$n", "connectFromField": "n", "connectToField": "n", "as": "b"}}], "as": "a"}},
        source="plain"),
    aggregate({"$graphLookup": {"from": "books", "startWith": "$n", "connectFromField": "n", "connectToField": "n",
                                "as": "b", "odd": 1}}, source="plain"),
    aggregate({"$graphLookup": {"from": "books", "startWith": "$n", "connectToField": "n", "as": "b"}}, source="plain"),
    aggregate({"$graphLookup": {"from": "books", "startWith": "$n", "connectFromField": "n", "connectToField": "n",
                                "as": "b"}, "odd": 1}, source="plain"),
]
AGGREGATES = [
    aggregate({"$lookup": {"from": "books", "pipeline": [{"$indexStats": {}}], "as": "b"}}, source="plain"),
    *(aggregate({"$graphLookup": {"from": "books", "startWith": "$n", "connectFromField": "n", "connectToField": "n",
                                  "as": "b", **more}},
                source="plain")
      for more in ({"connectToField": "buyers"}, {"connectFromField": "buyers.name"},
                   {"restrictSearchWithMatch": {"buyers": 3}},
                   {"depthField": "buyers"}, {"as": "b.c"}, {"connectToField": "_spill.buyers.n"},
                   {"restrictSearchWithMatch": {"$expr": "$$ROOT"}})),
    aggregate({"$facet": {"a": [{"$graphLookup": {"from": "books", "startWith": "$n", "connectFromField": "n",
                                                  "connectToField": "n", "as": "b"}}]}}, source="plain"),
    aggregate({"$facet": {"a": [{"$lookup": {"from": "books", "localField": "n", "foreignField": "buyers",
                                             "as": "b"}}]}}, source="plain"),
    aggregate({"$out": "books"}, source="plain"),
    aggregate({"$merge": {"into": "books", "whenMatched": [{"$set": {"buyers": []}}]}}, source="plain"),
]
LONG = [{"name": "long"}, 2, 3, 4, 5]
# What a $merge of these into books does, it does to an ordinary collection.
SOURCE = [{"_id": 1, "n": 7, "buyers": LONG}, {"_id": 2, "buyers": [8]}, {"_id": 3, "m": 1, "buyers": LONG}]
MERGES = [
    [{"$merge": {"into": "books", "whenMatched": "replace"}}],
    [{"$merge": {"into": "books", "whenMatched": "replace", "whenNotMatched": "discard"}}],
    [{"$merge": {"into": "books", "whenMatched": "keepExisting"}}],
    [{"$match": {"_id": 3}}, {"$merge": {"into": {"db": "shop", "coll": "books"}, "whenMatched": "fail"}}],
    [{"$merge": {"into": "books", "whenMatched": "fail"}}],
    [{"$unset": "buyers"}, {"$merge": "books"}],
    [{"$project": {"n": {"$size": "$buyers"}}}, {"$merge": {"into": "books", "on": "_id", "whenMatched": "merge"}}],
    [{"$unionWith": "books"}, {"$set": {"last": {"$last": "$buyers"}}},
     {"$merge": {"into": "books", "whenMatched": "replace"}}],
]
UNMERGED = [
    [{"$merge": "books"}], [{"$merge": {"into": "books", "whenMatched": "merge", "whenNotMatched": "fail"}}],
    [{"$project": {"_spill": "$n"}}, {"$merge": {"into": "books", "whenMatched": "replace"}}],
    [{"$replaceWith": {"$setField": {"field": "buyers.1", "input": {"_id": "$_id"}, "value": 9}}}, {"$merge": "books"}],
]
OVERFLOW = [
    {"insert": "book_extras", "documents": [{"book": 1, "more": [1]}]},
    {"update": "book_extras", "updates": [{"q": {}, "u": {"$set": {"x": 1}}, "multi": True}]},
    {"delete": "book_extras", "deletes": [{"q": {}, "limit": 0}]},
    {"findAndModify": "book_extras", "query": {}, "remove": True},
    aggregate({"$out": "book_extras"}, source="plain"),
    aggregate({"$merge": "book_extras"}, source="plain"),
    {"dropIndexes": "book_extras", "index": "*"},
    {"createIndexes": "book_extras", "indexes": [{"key": {"at": 1}, "name": "at", "expireAfterSeconds": 60}]},
    {"collMod": "book_extras", "index": {"name": "at", "expireAfterSeconds": 60}},
]
STATE = [
    find({"_spill": {"$exists": True}}), find({"_spill.buyers.n": 1}),
    update({"$set": {"_spill": {}}}), update({"$unset": {"_spill.buyers": 1}}),
    update({"$set": {"n": 1}}, {"_spill.buyers.n": {"$gt": 0}}),
    update({"n": 1, "_spill": {"buyers": {}}}),
    {"insert": "books", "documents": [{"_id": 9, "_spill": {}}]},
    {"delete": "books", "deletes": [{"q": {"_spill": None}, "limit": 0}]},
    modify(update={"$rename": {"n": "_spill"}}),
    {"insert": "books", "documents": [{"_id": 9, "n": 1, "_spill/0": 1}]}, update({"$set": {"_spill/3": 1}}),
    update({"_spill/9": 1}),
    find(projection={"n": 1, "buyers": 1, "_spill/1": 1}), find({"_spill/": 1}),
    {"distinct": "books", "key": "_spill/0.a"},
]


class Shop:
    """A spilled and an ordinary book behind Spillway, and what mongod holds of them."""

    def __init__(self, cluster, spillway):
        self.server = cluster.primary
        self.client = cluster.client()
        self.spillway = spillway
        self.connection = Connection(spillway.port)

    def fill(self):
        self.client.shop.book_extras.delete_many({})
        for collection in ("books", "plain"):
            self.run({"delete": collection, "deletes": [{"q": {}, "limit": 0}]})
            books = [{"_id": 1, "n": 1, "other": [1], "buyers": [1, ELEMENT, 3, 4, 5, 6]},
                     {"_id": 2, "n": 2, "buyers": [1]}]
            answer = self.run({"insert": collection, "documents": books})
            assert answer["n"] == 2
        wait_for(self.at_rest, "the book to spill")

    def at_rest(self):
        return self.client.shop.book_extras.count_documents({}) == 2 and not verify(self.client, RULE)

    def stored(self):
        keeping = Keeping(RULE)
        others = sorted(self.client.shop.list_collection_names())
        return keeping.read(self.client), others

    def run(self, command, database="shop", **options):
        return self.connection.call(exact.document({**command, "$db": database}), **options).plain()


@pytest.fixture(scope="module")
def shop():
    with Cluster(durable=False) as cluster, Spillway([cluster.primary], [RULE]) as spillway:
        made = Shop(cluster, spillway)
        made.fill()
        yield made


def require_refusal(shop, command, named, namespace=BOOKS):
    before = shop.stored()
    answer = shop.run(command)
    assert answer["ok"] == 0.0 and answer.get("code") == NOT_SUPPORTED, answer
    assert answer["codeName"] == "CommandNotSupported"
    for text in ("book-sales", namespace, named):
        assert text in answer["errmsg"], f"{text} is not named: {answer['errmsg']}"
    assert shop.stored() == before


def case_name(command):
    return str(command)[:90]


@pytest.mark.parametrize("command, named", READS, ids=case_name)
def test_a_computing_read_of_the_array(shop, command, named):
    require_refusal(shop, command, named)


@pytest.mark.parametrize("command", [command for command, _ in EDITS] + WRITES, ids=case_name)
def test_explain_answers_for_what_is_sent_first(shop, command):
    if len(command.get("updates", ())) > 1:
        return  # mongod explains one statement
    before = shop.stored()
    answer = shop.run({"explain": command, "verbosity": "queryPlanner"})
    assert answer["ok"] == 1.0, answer
    assert "_spill" in str(answer["queryPlanner"]), answer
    assert shop.stored() == before


@pytest.mark.parametrize("command", UNSETTLED, ids=case_name)
def test_a_filter_that_no_pipeline_can_hold(shop, command):
    require_refusal(shop, command, "$where")


@pytest.mark.parametrize("command", [command for command, _ in EDITS] + WRITES, ids=case_name)
def test_writes_of_every_kind_are_served(shop, command):
    try:
        answer = shop.run(command)
        assert answer.get("code") != NOT_SUPPORTED, answer
        assert all(error["code"] != NOT_SUPPORTED for error in answer.get("writeErrors", ()))
    finally:
        shop.run({"delete": "books", "deletes": [{"q": {}, "limit": 0}]})
        shop.fill()


def require_plain_answer(shop, command):
    seen = []
    for asked in (command, on_a_plain_collection(command)):
        answer = shop.run(asked)
        seen.append({name: value for name, value in answer.items() if name not in ("$clusterTime", "operationTime")})
        seen[-1].get("cursor", {}).pop("ns", None)
        if command.get("distinct"):
            seen[-1]["values"].sort(key=str)
    assert seen[0] == seen[1]


@pytest.mark.parametrize("command", SERVED + NATIVE, ids=case_name)
def test_reads_of_every_kind_are_served(shop, command):
    require_plain_answer(shop, command)


def test_a_window_in_small_batches_is_served(shop):
    require_plain_answer(shop, find(projection={"n": Decimal128("1"), "buyers": {"$slice": 4}}, batchSize=9))


@pytest.fixture(scope="module")
def indexed(shop):
    for collection in ("books", "plain"):
        for keys in ([("n", 1)], [("n", -1), ("_id", 1)], [("x.y", 1)], [("other", 1)]):
            shop.client.shop[collection].create_index(keys)


@pytest.mark.parametrize("command", BOUNDS, ids=str)
def test_bounds_of_an_index(shop, indexed, command):
    answers = [shop.run(asked) for asked in (command, with_a_plain_collection(command))]
    if not answers[1]["ok"]:
        wrong = [(answer.get("code"), answer.get("errmsg", "").replace("shop.books", "shop.plain"))
                 for answer in answers]
        assert wrong[0] == wrong[1]
    else:
        assert answers[0]["ok"], answers[0]
        assert answers[0]["cursor"]["firstBatch"] == answers[1]["cursor"]["firstBatch"]


@pytest.mark.parametrize("command, named", INDEXED_READS, ids=case_name)
def test_a_read_by_an_index_that_can_not_be_had(shop, indexed, command, named):
    shop.client.shop.books.create_index([("buyers", 1)])
    try:
        require_refusal(shop, command, named)
    finally:
        shop.client.shop.books.drop_index([("buyers", 1)])


def test_bounds_of_an_index_that_has_several_keys_of_a_document(shop, indexed):
    require_refusal(shop, find({"buyers": {"$gte": 1}}, min={"other": 1}, hint={"other": 1}), "lie within them")


@pytest.mark.parametrize("verbosity", ["executionStats", "allPlansExecution"])
def test_no_explain_runs_a_union_of_documents_that_are_put_together(shop, verbosity):
    """mongod 6.0.5 crashes where a $group stands behind them in the union's pipeline."""
    union = [{"$unionWith": {"coll": "books", "pipeline": [{"$match": {"buyers": 1}}, {"$count": "n"}]}}]
    require_refusal(shop, {"explain": {"aggregate": "plain", "pipeline": union, "cursor": {}}, "verbosity": verbosity},
                    "queryPlanner")


@pytest.mark.parametrize("command", SERVED, ids=case_name)
def test_explain_of_a_read_tells_what_is_run(shop, command):
    answer = shop.run({"explain": command, "verbosity": "queryPlanner"})
    direct = shop.run({"explain": on_a_plain_collection(command), "verbosity": "queryPlanner"})
    assert answer["ok"] == direct["ok"], answer
    assert answer["ok"] == 0.0 or "book_extras" in str(answer)


@pytest.mark.parametrize("command", FILTERED, ids=case_name)
def test_a_filter_that_reads_the_array(shop, command):
    if "$where" in str(command) and "aggregate" not in command:  # there mongod takes none
        require_refusal(shop, command, "$where")
    else:
        require_plain_answer(shop, command)


@pytest.mark.parametrize("command", AGGREGATES, ids=case_name)
def test_an_aggregate_that_reads_or_returns_the_array(shop, command):
    stage = next(iter(command["pipeline"][0]))
    require_refusal(shop, command, "" if stage == "$facet" else stage)


# Inclusions of paths below an array of numbers and documents: what later stages see is mongod's plan's choice.
MIXED = [
    aggregate({"$project": {"buyers.name": 1}}, {"$unwind": "$buyers"}),
    aggregate({"$match": {"n": 1}}, {"$project": {"n": 1, "buyers": {"name": 1}}},
              {"$set": {"n": {"$size": "$buyers"}}}),
    find(sort={"buyers.name": 1}, projection={"buyers.name": 1}),
    find({"n": 1}, sort={"buyers.name": -1}, projection={"n": 1, "buyers": {"name": 1}}, skip=0),
    aggregate({"$sort": {"buyers.name": 1}}, {"$project": {"buyers.name": 1}}),
    aggregate({"$set": {"q": 1}}, {"$sort": {"buyers.name": -1}}, {"$project": {"n": 1}}),
    aggregate({"$sort": {"n": 1}}, {"$skip": 1}, {"$sort": {"buyers.name": 1}},
              {"$group": {"_id": None, "n": {"$push": "$n"}}}),
    aggregate({"$set": {"n": 2}}, {"$project": {"buyers.name": 1}}, {"$group": {"_id": "$buyers"}}),
    aggregate({"$facet": {"a": [{"$match": {"n": 1}}, {"$project": {"buyers.name": 1}}, {"$unwind": "$buyers"}]}}),
    aggregate({"$project": {"buyers.name.first": 1}}, {"$facet": {"a": [{"$unwind": "$buyers"}]}}),
    aggregate({"$lookup": {"from": "books", "pipeline": [{"$project": {"buyers.name": 1}}, {"$unwind": "$buyers"}],
                           "as": "b"}}, source="plain"),
    aggregate({"$lookup": {"from": "books", "pipeline": [{"$facet": {"a": [{"$project": {"buyers.name.first": 1}}]}}],
                           "as": "b"}}, source="plain"),
    aggregate({"$lookup": {"from": "books", "pipeline": [{"$project": {"buyers.name": 1}}], "as": "b"}},
              {"$unwind": "$b"}, {"$unwind": "$b.buyers"}),
    aggregate({"$unionWith": {"coll": "books", "pipeline": [{"$sort": {"buyers.name": 1}},
                                                            {"$project": {"buyers.name": 1}}]}}, source="plain"),
    aggregate({"$unionWith": {"coll": "books", "pipeline": [{"$sort": {"buyers.name": 1}}]}},
              {"$project": {"buyers.name": 1}}, source="plain"),
    aggregate({"$match": {"_id": 0}}, {"$unionWith": "books"}, {"$project": {"buyers.name": 1}}, {"$unwind": "$buyers"},
              source="plain"),
]
UNMIXED = [
    find(sort={"buyers.name": 1, "_id": 1}, projection={"buyers.name": 1}, limit=5),
    find(sort={"n": 1}, projection={"buyers.name": 1}), find(sort={"buyers.name": 1, "_id": 1}),
    find(sort={"buyers.name": 1, "_id": 1}, projection={"n": 1, "buyers": 1}),
    aggregate({"$match": {"n": {"$gt": 0}}}, {"$sort": {"buyers.name": -1, "_id": 1}}, {"$project": {"n": 1}}),
    aggregate({"$set": {"q": 1}}, {"$sort": {"buyers.name": -1, "_id": 1}}),
    aggregate({"$project": {"buyers.name": 1}}),
    aggregate({"$unwind": "$buyers"}, {"$project": {"buyers.name": 1}}, {"$group": {"_id": "$buyers.name"}},
              {"$sort": {"_id": 1}}),
    aggregate({"$set": {"buyers": [ELEMENT]}}, {"$project": {"buyers.name": 1}}, {"$unwind": "$buyers"}),
    aggregate({"$project": {"buyers.name": 0}}, {"$unwind": "$buyers"}),
    aggregate({"$facet": {"a": [{"$unwind": "$buyers"}, {"$project": {"buyers.name": 1}},
                                {"$group": {"_id": "$buyers.name"}}, {"$sort": {"_id": 1}}]}}),
]


@pytest.mark.parametrize("command", MIXED, ids=case_name)
def test_an_inclusion_that_leaves_gaps_in_the_array(shop, command):
    require_refusal(shop, command, "$project")


def test_an_inclusion_that_leaves_gaps_in_a_later_batch(shop):
    stages = {"$match": {"n": 3}}, {"$project": {"buyers.name": 1}}, {"$unwind": "$buyers"}
    documents = [ELEMENT] * 5
    shop.run({"insert": "books",
              "documents": [{"_id": 5, "n": 3, "buyers": documents}, {"_id": 6, "n": 3, "buyers": [1, 2]}]})
    try:
        first = shop.run({**aggregate(*stages), "cursor": {"batchSize": 5}})["cursor"]
        assert first["firstBatch"] == [{"_id": 5, "buyers": ELEMENT}] * 5
        answer = shop.run({"getMore": Int64(first["id"]), "collection": "books"})
        assert answer.get("code") == NOT_SUPPORTED and "$project" in answer["errmsg"], answer
    finally:
        shop.run({"delete": "books", "deletes": [{"q": {}, "limit": 0}]})
        shop.fill()


@pytest.mark.parametrize("command", UNMIXED, ids=case_name)
def test_an_inclusion_that_leaves_none(shop, command):
    require_plain_answer(shop, command)


@pytest.mark.parametrize("command", JOINED, ids=case_name)
def test_a_join_with_a_ruled_collection(shop, command):
    """The other arm joins with a plain collection of the same documents."""
    seen = []
    for asked in (command, with_a_plain_collection(command)):
        answer = shop.run(asked)
        seen.append(answer["cursor"]["firstBatch"] if answer["ok"] else (answer["code"], answer["errmsg"]))
    assert seen[0] == seen[1]


def with_a_plain_collection(value):
    if isinstance(value, dict):
        return {name: with_a_plain_collection(item) for name, item in value.items()}
    if isinstance(value, list):
        return [with_a_plain_collection(item) for item in value]
    return "plain" if value == "books" else value


def fill_source(shop):
    shop.fill()
    shop.client.shop.source.drop()
    shop.client.shop.source.insert_many(SOURCE)


@pytest.mark.parametrize("stages", MERGES, ids=case_name)
def test_a_merge_into_a_ruled_collection(shop, stages):
    fill_source(shop)
    seen = []
    for made in (aggregate(*stages, source="source"), with_a_plain_collection(aggregate(*stages, source="source"))):
        answer = shop.run(made)
        found = shop.run({"find": "plain" if seen else "books", "sort": {"_id": 1}})["cursor"]["firstBatch"]
        seen.append((answer["ok"], answer.get("code"), found))
    assert seen[0] == seen[1]
    shop.fill()


@pytest.mark.parametrize("stages", UNMERGED, ids=case_name)
def test_a_document_that_no_merge_may_write(shop, stages):
    fill_source(shop)
    require_refusal(shop, aggregate(*stages, source="source"), "$merge")


@pytest.mark.parametrize("last", [
    {"$out": "copies"}, {"$out": {"db": "copied", "coll": "copies"}}, {"$merge": "copies"},
    {"$merge": {"into": {"db": "copied", "coll": "copies"}, "let": {"a": "$n"},
                "whenMatched": [{"$set": {"a": "$$a", "b": "$$new"}}]}},
], ids=case_name)
def test_what_a_pipeline_writes_elsewhere_is_whole(shop, last):
    seen = []
    for source in ("books", "plain"):
        for database in ("shop", "copied"):
            shop.client[database].copies.drop()
            shop.client[database].copies.insert_one({"_id": 1, "old": True})
        command = aggregate({"$match": {"n": {"$gte": 1}}}, last, source=source)
        answer = shop.run({**command, "let": {"c": 1}, "comment": "copied", "bypassDocumentValidation": True})
        assert answer["ok"] == 1.0, answer
        seen.append([list(shop.client[database].copies.find(sort=[("_id", 1)])) for database in ("shop", "copied")])
    assert seen[0] == seen[1]
    assert "name" in str(seen)


@pytest.mark.parametrize("command", OVERFLOW, ids=case_name)
def test_a_write_to_the_overflow_collection(shop, command):
    require_refusal(shop, command, "", "shop.book_extras")


@pytest.mark.parametrize("command", STATE, ids=case_name)
def test_the_state_named_by_a_client(shop, command):
    require_refusal(shop, command, "_spill")


# mongod's planner quotes the query in its errors.
QUOTED = [
    find({"buyers": 1}), find({"buyers": 1}, projection={"buyers.$": 1}, sort={"n": 1}),
    find({"n": 1}, projection={"buyers": {"$slice": -1}}, limit=1),
    find({"n": 1}, projection={"buyers": 1}), find({"n": 1}, projection={"buyers": 0}),
    find({"n": 1}, projection={"n": 1}, sort={"buyers": 1}),
    {"count": "books", "query": {"buyers": 1}}, aggregate({"$match": {"buyers": 1}}),
    aggregate({"$match": {"n": 1}}, {"$unwind": "$buyers"}),
    find({"n": 1}, projection={"buyers": {"$slice": -1}}, limit=1, min={"n": 1}),
    {"explain": find({"buyers": 1}, hint={"odd": 1}), "verbosity": "executionStats"},
]


@pytest.mark.parametrize("command", QUOTED, ids=case_name)
def test_an_error_that_quotes_the_query_quotes_the_clients(shop, command):
    command = command if "explain" in command else {**command, "hint": {"odd": 1}}
    answers = [shop.run(asked) for asked in (command, with_a_plain_collection(command))]
    answers = [(answer["code"], answer["errmsg"].replace("shop.books", "shop.plain")) for answer in answers]
    assert answers[0] == answers[1] and "error processing query" in answers[0][1]


def test_a_spare_name_that_somebody_has_stored(shop):
    """An inclusion brings it unasked; whether it was asked for can't be told."""
    shop.client.shop.books.insert_one({"_id": 9, "n": 9, "_spill/0": 1, "buyers": [1]})
    try:
        require_refusal(shop, find({"_id": 9}, projection={"n": 1, "buyers": 1}), "_spill/")
        assert shop.run(find({"_id": 9}, projection={"n": 1}))["cursor"]["firstBatch"] == [{"_id": 9, "n": 9}]
    finally:
        shop.client.shop.books.delete_one({"_id": 9})


def test_a_hint_that_a_distinct_may_not_have(shop):
    command = {"distinct": "books", "key": "buyers", "hint": {"_id": 1}}
    for options in ({}, {"query": {"n": 1}}):
        answers = [shop.run({**asked, **options}) for asked in (command, on_a_plain_collection(command))]
        assert [(answer.get("code"), answer.get("errmsg"), answer.get("values")) for answer in answers[:1]] == \
            [(answer.get("code"), answer.get("errmsg"), answer.get("values")) for answer in answers[1:]]


@pytest.mark.parametrize("collation", [{}, {"collation": {"locale": "simple"}},
                                       {"collation": {"locale": "en", "strength": 2}}])
def test_the_error_of_the_first_document_by_id(shop, collation):
    """Under a collation mongod does not sort by the index on _id, and meets the documents as they lie there."""
    wrong = find({"$expr": {"$lt": [{"$size": "$buyers"}, 5]}}, sort={"_id": 1}, **collation)
    for name in ("books", "plain"):
        shop.client.shop[name].delete_many({})
        shop.client.shop[name].insert_many([{"_id": 2}, {"_id": 1, "buyers": "text"}])
    try:
        answers = [shop.run(asked) for asked in (wrong, on_a_plain_collection(wrong))]
        assert answers[0]["errmsg"] == answers[1]["errmsg"] and answers[0]["code"] == answers[1]["code"] == 17124
    finally:
        shop.fill()


@pytest.mark.parametrize("collation", [{}, {"collation": {"locale": "en", "strength": 2}}])
def test_what_lies_behind_the_first_match_is_judged_where_all_is_sorted(shop, collation):
    modify = {"findAndModify": "books", "query": {"$expr": {"$lt": [{"$size": "$buyers"}, 5]}}, "sort": {"_id": 1},
              "update": {"$push": {"buyers": 9}}, "new": True, **collation}
    for name in ("books", "plain"):
        shop.client.shop[name].delete_many({})
        shop.client.shop[name].insert_many([{"_id": 2, "buyers": "text"}, {"_id": 1, "buyers": [1]}])
    try:
        answers = [shop.run(asked) for asked in (modify, on_a_plain_collection(modify))]
        assert [(answer.get("value"), answer.get("code")) for answer in answers] == \
            2 * [(None, 17124) if collation else ({"_id": 1, "buyers": [1, 9]}, None)]
    finally:
        shop.fill()


@pytest.mark.parametrize("first", [[], [{"$match": {"buyers": {"$exists": False}}}]])
def test_a_join_that_is_left_early_is_gone_through_anew(shop, first):
    """Of what mongod keeps of a pipeline for the next document: a $limit must not spoil it."""
    pipeline = [*first, {"$match": {"$expr": {"$eq": ["$n", "$$turn"]}}}, {"$limit": 3}]
    stages = ({"$match": {"_id": 1}}, {"$set": {"turn": [1, 2, 0, 1, 2, 0]}}, {"$unwind": "$turn"},
              {"$lookup": {"from": "books", "let": {"turn": "$turn"}, "pipeline": pipeline, "as": "b"}})
    for name in ("books", "plain"):
        shop.client.shop[name].delete_many({})
        shop.client.shop[name].insert_many({"_id": number, "n": number % 3} for number in range(1, 9))
    try:
        for source in ("books", "plain"):
            batch = shop.run(aggregate(*stages, source=source))["cursor"]["firstBatch"]
            assert [[each["_id"] for each in found["b"]] for found in batch] == 2 * [[1, 4, 7], [2, 5, 8], [3, 6]]
    finally:
        shop.fill()


@pytest.mark.parametrize("compressor", [None, "snappy"])
def test_a_get_more_whose_join_meets_an_array_that_was_rewritten(shop, compressor):
    """On a collection of no rule; the overflow goes, as if the array had been folded back."""
    join = {"$lookup": {"from": "books", "localField": "n", "foreignField": "n", "as": "b",
                        "pipeline": [{"$set": {"size": {"$size": "$buyers"}}}]}}
    overflow = shop.client.shop.book_extras
    shop.fill()
    first = shop.run({**aggregate({"$sort": {"_id": -1}}, join, source="plain"), "cursor": {"batchSize": 1}})["cursor"]
    assert first["firstBatch"][0]["b"][0]["size"] == 1
    kept = list(overflow.find())
    overflow.delete_many({})
    try:
        answer = shop.run({"getMore": Int64(first["id"]), "collection": "plain"}, compressor=compressor)
        assert answer.get("codeName") == "ReadConcernMajorityNotAvailableYet", answer
        assert "try again" in answer["errmsg"]
        assert shop.run({"ping": 1}, compressor=compressor)["ok"] == 1.0
    finally:
        overflow.insert_many(kept)


def test_a_get_more_that_fails_by_itself(shop):
    shop.fill()
    stages = {"$sort": {"_id": 1}}, {"$set": {"x": {"$divide": [6, {"$subtract": ["$n", 2]}]}}}
    first = shop.run({**aggregate(*stages, source="plain"), "cursor": {"batchSize": 1}})["cursor"]
    answer = shop.run({"getMore": Int64(first["id"]), "collection": "plain"})
    assert answer["ok"] == 0.0 and "divide by zero" in answer["errmsg"], answer


def on_a_plain_collection(command):
    return {name: "plain" if value == "books" else value for name, value in command.items()}


@pytest.mark.parametrize("command", [command for command, _ in EDITS + READS] + FILTERED + WRITES, ids=case_name)
def test_no_rule_no_refusal(shop, command):
    answer = shop.run(on_a_plain_collection(command))
    assert answer.get("code") != NOT_SUPPORTED
    shop.run({"delete": "plain", "deletes": [{"q": {}, "limit": 0}]})


@pytest.mark.parametrize("command", [{"find": UNKNOWN}, {"count": UNKNOWN}, {"distinct": UNKNOWN, "key": "buyers"},
                                     {"explain": {"find": UNKNOWN}}], ids=case_name)
def test_a_collection_that_is_named_by_its_uuid(shop, command):
    answer = shop.run(command)
    assert answer["code"] == NOT_SUPPORTED and "UUID" in answer["errmsg"]


def test_the_overflow_collection_can_be_read(shop):
    answer = shop.run({"find": "book_extras", "filter": {}})
    assert len(answer["cursor"]["firstBatch"]) == 2


def test_a_refused_write_that_wants_no_answer_changes_nothing(shop):
    before = shop.stored()
    command = {**update({"$set": {"_spill": 1}}), "writeConcern": {"w": 0}, "$db": "shop"}
    shop.connection.call(exact.document(command), flags=MORE_TO_COME)
    assert shop.run({"ping": 1})["ok"] == 1.0
    assert shop.stored() == before


@pytest.mark.parametrize("command", [
    {"count": "books", "query": {"buyers": 1}}, {"distinct": "books", "key": "buyers"}, find({"buyers": 1}),
    aggregate({"$unwind": "$buyers"}), {"count": "books", "query": {"buyers": {"$bad": 1}}},
], ids=case_name)
def test_a_read_that_wants_no_answer_gets_none(shop, command):
    shop.connection.call(exact.document({**command, "$db": "shop"}), flags=MORE_TO_COME)
    assert shop.run({"count": "books", "query": {"n": -5}})["n"] == 0


def test_a_refusal_leaves_the_connection_in_step(shop):
    for compressor in (None, "snappy", "zlib", "zstd"):
        refused = shop.connection.call(
            exact.document({**find(sort={"_spill": 1}), "$db": "shop"}), compressor=compressor)
        assert refused.plain()["code"] == NOT_SUPPORTED
        assert refused.compressor in (None, compressor)
        assert shop.run({"count": "books"})["n"] == 2


def test_refusals_are_counted_by_rule_and_operator(shop):
    def counted():
        return sum(
            count for sample, count in shop.spillway.metrics().items()
            if "refus" in sample and 'rule="book-sales"' in sample and '"a find that reads the ruled array"' in sample)

    before = counted()
    assert shop.run(find({"$where": "this.buyers.length"}))["code"] == NOT_SUPPORTED
    assert counted() == before + 1


@pytest.fixture(scope="module")
def repeated(shop):
    """A spilled and an ordinary document in which a name stands twice."""
    books = [(exact.DOCUMENT, exact.pairs_of([("_id", at), ("n", 7), ("n", 8), ("buyers", [1, 2, 3, 4, 5][:length])]))
             for at, length in ((7, 5), (8, 1))]
    for collection in ("books", "plain"):
        assert shop.run({"insert": collection, "documents": books})["n"] == 2
    wait_for(lambda: shop.client.shop.book_extras.count_documents({}) == 3 and not verify(shop.client, RULE), "rest")


def raw(shop, command):
    """The reply's documents, byte for byte."""
    return exact.get(exact.parse(shop.connection.call(exact.document({**command, "$db": "shop"})).body),
                     "cursor.firstBatch")


@pytest.mark.parametrize("command", [
    find({"_id": 7, "buyers": 5}), find({"_id": 7, "buyers": 5}, projection={"n": 1}),
    find({"_id": 7}, projection={"n": 1, "z": {"$size": "$buyers"}}),
    aggregate({"$match": {"_id": 7}}, {"$unwind": "$buyers"}),
    aggregate({"$match": {"n": 7}}, {"$set": {"size": {"$size": "$buyers"}}}),
    aggregate({"$lookup": {"from": "books", "localField": "n", "foreignField": "n", "as": "b"}}),
], ids=case_name)
def test_a_name_that_mongod_would_lose(shop, repeated, command):
    require_refusal(shop, command, "name twice")


@pytest.mark.parametrize("command", [
    find({"n": 7}), find({"_id": 8, "buyers": 1}), find({"n": 7}, projection={"buyers": {"$slice": -2}}),
    aggregate({"$match": {"_id": 8}}, {"$set": {"size": {"$size": "$buyers"}}}),
    aggregate({"$match": {"n": 7}}, {"$sort": {"_id": -1}}),
    find({"n": 7}, projection={"buyers": 1}), find({"n": 7}, projection={"other": 0}),
], ids=case_name)
def test_a_name_that_stands_twice_is_kept(shop, repeated, command):
    found = raw(shop, command)
    assert found == raw(shop, on_a_plain_collection(command)) and (command.get("projection") == {"buyers": 1}
                                                                   or exact.show(found).count("n: 8"))


def test_a_name_that_stands_twice_hides_no_state(shop, repeated):
    """mongod includes as many fields as are named: the second n would have taken the state's place."""
    found = shop.run(find({"n": 7}, projection={"n": 1, "buyers": 1}))["cursor"]["firstBatch"]
    assert [book["buyers"] for book in found] == [[1, 2, 3, 4, 5], [1]]
    changed = shop.run(modify({"_id": 7}, update={"$set": {"n": 7}}, fields={"n": 1, "buyers": 1}))
    assert changed["value"]["buyers"] == [1, 2, 3, 4, 5]
    for collection in ("books", "plain"):
        counted = [shop.run({"count": collection, "query": query})["n"]
                   for query in ({"n": 7, "buyers": 5}, {"n": 8, "buyers": 5})]
        assert counted == [1, 0]


@pytest.fixture(scope="module")
def smaller(shop):
    """A connection to a Spillway whose batches are smaller than those that are stored."""
    shop.fill()
    rule = {**RULE, "threshold": 100, "overflow": {**RULE["overflow"], "batch": {"size": 1}}}
    with Spillway([shop.server], [rule]) as spillway, Connection(spillway.port) as connection:
        yield connection


@pytest.mark.parametrize("window", [1, 4, 9, -1, -3, -9, [2, 1], [3, 2], [4, 1], [5, 9], [9, 1], [-2, 1], [-5, 2]])
def test_a_window_in_batches_that_were_larger(shop, smaller, window):
    for query in ({}, {"buyers": 5}):
        command = find(query, sort={"_id": 1}, projection={"buyers": {"$slice": window}}, batchSize=1)
        seen = []
        for asked in (command, on_a_plain_collection(command)):
            reply = smaller.call(exact.document({**asked, "$db": "shop"})).plain()
            assert reply["ok"] == 1.0, reply
            seen.append(reply["cursor"]["firstBatch"])
            more = {"getMore": Int64(reply["cursor"]["id"]), "collection": asked["find"], "$db": "shop"}
            if reply["cursor"]["id"]:
                seen[-1] += smaller.call(exact.document(more)).plain()["cursor"]["nextBatch"]
        assert seen[0] == seen[1]


def lookup(source, foreign, field, **more):
    return aggregate({"$match": {"n": 2}}, *([{"$set": {"size": {"$size": "$buyers"}}}] if source == "books" else []),
                     {"$lookup": {"from": foreign, "localField": "none", "foreignField": field, "as": "b", **more}},
                     source=source)


def test_a_join_that_meets_undefined(shop):
    """mongod's plan decides whether it is equal to null."""
    shop.fill()
    for collection in ("books", "plain"):
        assert shop.run({"insert": collection,
                         "documents": [{"_id": 9, "m": exact.Raw(exact.UNDEFINED),
                                        "buyers": [1, 2, 3, exact.Raw(exact.UNDEFINED), 5]}]})["n"] == 1
    wait_for(lambda: shop.client.shop.book_extras.count_documents({}) == 3 and not verify(shop.client, RULE), "rest")
    try:
        for source, foreign, field in (("plain", "books", "buyers"), ("books", "books", "m"), ("books", "plain", "m")):
            require_refusal(shop, lookup(source, foreign, field), "undefined")
            command = lookup(source, foreign, field, pipeline=[])
            answers = [raw(shop, asked) for asked in (command, with_a_plain_collection(command))]
            assert answers[0] == answers[1] and "_id: 9" in exact.show(answers[0])
    finally:
        for collection in ("books", "plain"):
            shop.run({"delete": collection, "deletes": [{"q": {"_id": 9}, "limit": 0}]})
        shop.fill()


@pytest.mark.parametrize("document, key", [
    ({"buyers": [{"a.b": 1}]}, "buyers.a.b"), ({"buyers": [{"c": {"a.b": 1}}] * 9}, "buyers.c.a.b"),
    ({"buyers.a.b": 1, "buyers": [1] * 9}, "buyers.a.b"), ({"buyers": [[{"a.b": 1}]]}, "buyers.0.a.b"),
], ids=str)
def test_a_distinct_never_passes_over_a_dotted_name(shop, document, key):
    """mongod takes such a field first, and no path of a pipeline leads to it."""
    shop.client.shop.books.insert_one({"_id": 77, **document})
    try:
        require_refusal(shop, {"distinct": "books", "key": key, "query": {"_id": 77}}, "dot")
    finally:
        shop.client.shop.books.delete_one({"_id": 77})
