"""Applies each update operator to a document as the client says, and in the ways in which Spillway has it applied.

Spillway guards a client's filter, names one document by its `_id`, and folds an array's tail back before an edit.
"""

from bson import Decimal128, Int64

from oracle.places.asking import documents, drawn
from oracle.places.values import NESTED, SCALARS
from support import exact

_BASES = ([1, 2.0, Int64(3), Decimal128("4")], [{"g": 1, "h": 1}, {"g": 2, "h": [1, 2]}, {"g": 1.0}], [[1, 2], [3], []],
          [None, "a", "A", True], [5],
          [{"g": 1}, 5, [5], "x", {"g": [5, 6]}, None])
_COLLECTIONS = {"the client's": "plainly", "guarded": "guarded", "by findAndModify": "modified",
                "after a fold": "folded", "after a fold by a pipeline": "piped"}
KNOWN = {}


def _updates(value):
    """(operator, update, filter, arrayFilters)"""
    yield from (("$push", {"$push": {"f": {"$each": [value], **more}}}, {}, None)
                for more in ({}, {"$sort": 1}, {"$sort": {"g": -1}}, {"$position": 1}, {"$slice": -3}))
    yield from (("$addToSet", {"$addToSet": {"f": each}}, {}, None)
                for each in (value, {"$each": [value, value, 1]}, {"g": value}))
    yield from (("$pull", {"$pull": {"f": each}}, {}, None)
                for each in (value, {"$gte": value}, {"g": value}, {"$in": [value, 1]}, {"$ne": value}))
    yield "$pullAll", {"$pullAll": {"f": [value, {"g": 1}]}}, {}, None
    yield from (("$set", {"$set": {path: value}}, {}, None)
                for path in ("f", "f.0", "f.6", "f.0.g", "f.$[]", "f.$[].g"))
    yield from (("arrayFilters", {"$set": {"f.$[i]": "new"}}, {}, [{"i": each}])
                for each in (value, {"$gte": value}, {"$ne": value}))
    yield "arrayFilters", {"$set": {"f.$[i].h": "new"}}, {}, [{"i.g": value}]
    for operator in ("$inc", "$mul", "$min", "$max"):
        yield from ((operator, {operator: {path: value}}, {}, None) for path in ("f", "f.0", "f.7", "f.$[]", "f.$[].g"))
    yield "$bit", {"$bit": {"f.0": {"or": value}}}, {}, None
    yield "$pop", {"$pop": {"f": value}}, {}, None
    yield from (("f.$", {"$set": {"f.$": "hit"}}, query, None)
                for query in ({"f": value}, {"f": {"$gte": value}}, {"f": {"$elemMatch": {"$lte": value}}},
                              {"f.g": value}))
    yield from (("guards", {"$push": {"f": value}}, query, None)
                for query in ({"f": {"$ne": value}}, {"f": {"$nin": [value, "q"]}}, {"f.g": {"$ne": value}},
                              {"f": {"$size": 4}}))
    literal = {"$literal": value}
    for stage in ({"$set": {"f": {"$concatArrays": ["$f", [literal]]}}},
                  {"$set": {"f": {"$filter": {"input": "$f", "cond": {"$ne": ["$$this", literal]}}}}},
                  {"$set": {"f.g": literal}},
                  {"$set": {"n": {"$in": [literal, "$f"]}}},
                  {"$replaceWith": {"$mergeObjects": ["$$ROOT", {"f": [literal, "$f"]}]}}, {"$unset": "f.g"}):
        yield "a pipeline", [stage], {}, None


def _without_values():
    yield from (("$unset", {"$unset": {path: ""}}, {}, None)
                for path in ("f", "f.0", "f.1", "f.9", "f.0.g", "f.1.h", "f.$[]", "f.$[].g"))
    yield from (("$unset", {"$unset": {f"f.$[i]{below}": ""}}, {}, [{f"i{below}": {"$gt": 1}}]) for below in ("", ".g"))
    yield from (("$rename", {"$rename": names}, {}, None)
                for names in ({"f": "q"}, {"n": "f"}, {"f": "q.r"}, {"s": "f.g"}, {"f.0": "q"}, {"n": "f.0"}))
    yield from (("$pop", {"$pop": {path: end}}, {}, None) for path in ("f", "f.0", "f.1.h", "f.$[]") for end in (1, -1))
    yield from (("several", {"$push": {"f": 5}, **more}, {}, None)
                for more in ({"$set": {"f.0": 7}}, {"$set": {"q": 1}, "$inc": {"n": 1}}, {"$unset": {"f": ""}}))


def _cases(share):
    yield from _without_values()
    for value in drawn([*SCALARS, *NESTED], share, "values of updates"):
        yield from _updates(value)


class _Updates:
    def __init__(self, server, found):
        self.server, self.found, self.identifier = server, found, 0

    def fill(self, collection, base):
        """The document, halved where a fold puts it together."""
        head = base[:1] if collection in ("folded", "piped") else base
        self.server.must({"insert": collection, "documents": [{"_id": self.identifier, "n": 1, "f": head, "s": "t"}]})
        if collection == "folded":
            u = {"$push": {"f": {"$each": base[1:], "$position": 1}}}
        elif collection == "piped":
            u = [{"$set": {"f": {"$concatArrays": ["$f", {"$literal": base[1:]}]}}}]
        else:
            return
        self.server.must({"update": collection, "updates": [{"q": {"_id": self.identifier}, "u": u}]})

    def apply(self, form, collection, update, query, filters):
        """What the reply says, and the document then."""
        query = {"_id": self.identifier, **query}
        if form == "guarded":
            query = {"$and": [query, {"_spill": {"$exists": False}}]}
        options = {"arrayFilters": filters} if filters else {}
        if form == "by findAndModify":
            reply = self.server.ask({"findAndModify": collection, "query": query, "update": update, **options})
            said = [exact.get(reply, "code"), exact.get(reply, "lastErrorObject.n")]
        else:
            reply = self.server.ask({"update": collection, "updates": [{"q": query, "u": update, **options}]})
            errors = exact.get(reply, "writeErrors")
            said = [exact.get(errors[1][0][1][1], "code") if errors else exact.get(reply, "code"),
                    exact.get(reply, "n") if not errors else None]
            if form != "the client's" or not errors:
                said.append(exact.get(reply, "nModified"))
        found = self.server.ask({"find": collection, "filter": {"_id": self.identifier}})
        said = [each and exact.plain(each) for each in said[:2]]
        return f"{said} {exact.show(exact.get(found, 'cursor.firstBatch'))}"

    def ask(self, case, base):
        kind, update, query, filters = case
        self.identifier += 1
        self.found.count("operator", kind)
        right = None
        for form, collection in _COLLECTIONS.items():
            self.fill(collection, base)
            self.found.count("form", form)
            answer = self.apply(form, collection, update, query, filters)
            right = right or answer
            # Of what fails, a findAndModify says no number.
            if answer != right and not (form == "by findAndModify"
                                        and answer.partition(", ")[0] == right.partition(", ")[0] != "[None"):
                self.found.differs(f"{kind}: {form}", f"{update} {query} {filters} of {base}: {right}, here {answer}")


def run(server, share, found):
    updates = _Updates(server, found)
    for collection in _COLLECTIONS.values():
        server.fill(collection, documents(0)[:1])
    for case in _cases(share):
        for base in _BASES if share > 0.1 else _BASES[:2]:
            updates.ask(case, base)
