"""Asks each sort in every place where a sort may stand.

The answer that counts is that of `find`. Of a pipeline that wants some fields only mongod projects the documents by
what it wants before they come to stages behind the query: it is compared with the same pipeline on whole documents.
"""

from oracle.places.asking import ALL, Asker, documents, fill, nested, whole
from support.exact import REGEX, SYMBOL, UNDEFINED

_PATHS = (("the field", "f"), ("below it", "f.g"), ("below it", "f.g.h"), ("by a position", "f.1"),
          ("by a position", "f.1.g"), ("by a position", "f.g.1"))
_COLLATIONS = ({}, {"collation": {"locale": "en", "strength": 1}},
               {"collation": {"locale": "en", "numericOrdering": True}})
_IDS = {"$project": {"_id": 1}}
_PUSH = {"$group": {"_id": None, "x": {"$push": {"_id": "$_id"}}}}
_COUNT = {"x": {"$push": "$_id", "window": {"documents": ["unbounded", "current"]}}}

_WANTING = ("$facet", "$set, $sort", "$setWindowFields", "$fill", "$densify")
_UNMIXED = "rules/stages/mixed_paths.c: refused where the array holds what is no document, by a position always"
KNOWN = {f"{kind}: {form}": _UNMIXED for kind in ("below it", "by a position") for form in _WANTING}
KNOWN["by a position: $lookup"] = _UNMIXED
KNOWN.update({f"{kind}: $lookup": "fails (error 2) by documents with names that begin with $"
              for kind in ("the field", "below it")})


def _wanting(order, path):
    """(form, pipeline): what reads by a path behind the query, before a stage that wants some fields only."""
    yield "$set, $sort", [{"$set": {"n": 1}}, {"$sort": order}, _IDS]
    yield "$setWindowFields", [{"$setWindowFields": {"sortBy": order, "output": _COUNT}},
                               {"$project": {"x": {"$size": "$x"}}}]
    yield "$fill", [{"$set": {"q": "$_id"}}, {"$fill": {"sortBy": order, "output": {"q": {"method": "locf"}}}}, _PUSH]
    yield "$topN", _first(order)
    yield "$densify", [{"$densify": {"field": path, "range": {"step": 1, "bounds": "full"}}}, _PUSH]
    yield "$lookup", [{"$lookup": {"from": ALL, "localField": path, "foreignField": "n", "as": "x"}},
                      {"$project": {"x": {"$size": "$x"}}}]


def _first(order):
    return [{"$group": {"_id": None, "x": {"$topN": {"n": 100000, "sortBy": order, "output": "$_id"}}}}]


def _places(asker, order, options):
    """(form, answer) of a sort."""
    sort = {"$sort": order}
    yield "$sort", asker.aggregate([sort, _IDS], **options)
    yield "$replaceWith, $sort", asker.aggregate([{"$replaceWith": "$$ROOT"}, sort, _IDS], **options)
    yield "$graphLookup, $replaceWith, $sort", asker.aggregate([*whole(), sort, _IDS], **options)
    yield "$sort, $group", asker.aggregate([sort, _PUSH, {"$unwind": "$x"}, {"$replaceWith": "$x"}], **options)
    for form, collection, pipeline in nested([sort, _IDS]):
        yield form, asker.aggregate(pipeline, collection, **options)


def run(server, share, found):
    asker = Asker(server, found)
    # A collation has no order for symbols; a $lookup that is not the whole query's fails by regular expressions and
    # undefined.
    fill(server, documents(max(share, 0.1), (REGEX, SYMBOL, UNDEFINED)))
    for kind, path in _PATHS:
        for options in _COLLATIONS if share > 0.1 else _COLLATIONS[:1]:
            for way in (1, -1):
                order = {path: way, "_id": 1}
                found.count("collation", str(options))
                right = asker.find(sort=order, projection={"_id": 1}, **options)
                asker.compare(kind, f"{order} {options}", right, _places(asker, order, options))
                for form, pipeline in _wanting(order, path):
                    ordered = form == "$set, $sort"
                    right = asker.aggregate([*whole(), *pipeline], ordered=ordered, **options)
                    asker.compare(kind, f"{pipeline} {options}", right,
                                  [(form, asker.aggregate(pipeline, ordered=ordered, **options))])
