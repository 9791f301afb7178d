"""Asks each distinct as the command, with indexes and without, and by the stages that Spillway writes instead."""

from oracle.places.asking import ALL, Answer, Asker, documents, drawn, fill, whole
from support.exact import REGEX, SYMBOL, UNDEFINED, Raw, show, value_of

_PATHS = ("f", "f.g", "f.g.h", "n", "s.x")
_QUERIES = ({}, {"_id": {"$gte": 0}}, {"f.g": {"$ne": 3}}, {"f": {"$exists": True}}, {"f.g": {"$gt": 1}})
_ABSENT = "null, undefined or nested arrays of an index's keys: rules/stages/stage_distinct.c writes the keys"
KNOWN = {"without a query: by an index": _ABSENT, "without a query: by an index of two fields": _ABSENT,
         "without a query: by a sparse index": _ABSENT}
_INDEXES = {"by an index": {}, "by an index of two fields": {"n": 1}, "by a sparse index": {}, "by a hidden index": {}}
_NULL = {"$literal": None}


def _unwind():
    return {"$unwind": {"path": "$v", "preserveNullAndEmptyArrays": True}}


def _ordered():
    return [{"$match": {"v": {"$exists": True}}}, {"$group": {"_id": {"v": "$v"}}}, {"$sort": {"_id": 1}},
            {"$group": {"_id": None, "values": {"$push": "$_id.v"}}}, {"$project": {"_id": 0}}]


def _of_documents(path):
    """As rules/stages/stage_distinct.c goes through documents."""
    first, *parts = path.split(".")
    stages = [{"$replaceWith": {"v": f"${first}"}}]
    for part in parts:
        stages += [_unwind(), {"$match": {"$expr": {"$not": [{"$isArray": "$v"}]}}},
                   {"$replaceWith": {"v": f"$v.{part}"}}]
    return [*stages, _unwind(), *_ordered()]


def _key(holder, path, absent):
    there = [{"$eq": [{"$type": holder}, "object"]}, {"$ne": [{"$type": path}, "missing"]}]
    return {"$replaceWith": {"v": {"$cond": [{"$and": there}, path, absent]}}}


def _of_keys(path, absent):
    """As it takes from documents what an index has of them."""
    first, *parts = path.split(".")
    stages = [_key("$$ROOT", f"${first}", absent)]
    for part in parts:
        stages += [_unwind(), _key("$v", f"$v.{part}", absent)]
    emptied = {"$cond": [{"$eq": ["$v", []]}, {"$literal": Raw(UNDEFINED)}, "$v"]}
    return [*stages, {"$replaceWith": {"v": emptied}}, _unwind(), _unwind(), *_ordered()]


class _Distincts(Asker):
    def command(self, path, query):
        return Answer(self.server.bytes({"distinct": ALL, "key": path, "query": query}))

    def written(self, stages, query):
        found = self.aggregate([{"$match": query}, *whole(), *stages])
        # The values alone, as the command gives them.
        found.items = [item[len("{values: "):-1]
                       for item in found.items] or ([show(value_of([]))] if not found.error else [])
        return found

    def by_index(self, path, form):
        options = {"sparse": form == "by a sparse index", "hidden": form == "by a hidden index"}
        index = {"key": {path: 1, **_INDEXES[form]}, "name": "made",
                 **{name: True for name, given in options.items() if given}}
        self.server.must({"createIndexes": ALL, "indexes": [index]})
        for query in _QUERIES:
            answer = self.command(path, query)
            kind = "with a query" if query else "without a query"
            documents_say = self.written(_of_documents(path), query)
            self.compare(kind, f"{path} {query} {form}", documents_say, [(form, answer)])
            if not query and form != "by a hidden index":
                absent = "$$REMOVE" if form == "by a sparse index" else _NULL
                self.compare("as written", f"{path} {form}", self.written(_of_keys(path, absent), query),
                             [(form, answer)])
        self.server.must({"dropIndexes": ALL, "index": "made"})


def run(server, share, found):
    asker = _Distincts(server, found)
    # Equal values of different types are one value of a distinct: which of them is told by the order of documents.
    made = documents(max(share, 0.1), (REGEX, SYMBOL))
    fill(server, [each for each in made if _is_plain(each.get("f"))])
    for path in _PATHS:
        for query in _QUERIES:
            asker.compare("with a query" if query else "without a query", f"{path} {query}", asker.command(path, query),
                          [("as stages", asker.written(_of_documents(path), query))])
        for form in _INDEXES if share > 0.1 else drawn(_INDEXES, 1, path):
            if path != "n":
                asker.by_index(path, form)


def _is_plain(value):
    """No number but ints, which are equal to no other."""
    kind, payload = value_of(value)
    if isinstance(payload, list):
        return all(_is_plain(item) for _, item in payload)
    return show((kind, payload)).partition("(")[0] not in ("long", "double", "decimal")
