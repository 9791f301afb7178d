"""Asks each filter in every place where a filter may stand.

The answer that counts is that of `find`: Spillway evaluates a client's query behind stages that
reassemble arrays. Where a place has no filter of the whole document (an element's condition, say), the
answer is compared with that of the place which Spillway takes instead.
"""

from oracle.places.conditions import cases
from oracle.places.values import documents
from support import exact

_ALL = "all"      # the documents
_SOME = "some"    # each of _EACH
_ONE = "one"      # one document, for pipelines that read `all` from elsewhere
_INDEXED = "indexed"
_WRITTEN = "written"
_NOTHING = "nothing"
_IDS = {"$project": {"_id": 1}}
# Changes nothing; a $match behind it can't be taken for one on the field as it was.
_COMPUTED = {"$cond": [{"$eq": ["$_id", -1]}, 0, "$f"]}
_ANY = {"_id": {"$gte": 0}}  # holds of all documents
_SAME = {"seven": 7, "hit": 0}  # of all documents; `hit` is what an update sets
_EACH = 7  # of so many documents one is asked where asking takes long

_POSITIONS = "rules/query/filter_words.c writes such a mask as a list of positions"
KNOWN = {f"bits by high bytes: {form}": _POSITIONS for form in (
    "$facet", "$graphLookup, $replaceWith, $match", "$graphLookup, $replaceWith, $match with a choice",
    "$graphLookup, $replaceWith, $match beside another",
    "$lookup with $replaceWith",
    "$lookup, $unwind, $match", "$replaceWith, $match", "$set, $match", "$set, $match, $group", "$unionWith with $set")}
KNOWN |= {f"$all of an element: {form}": "rules/query/filter_words.c writes it as other operators" for form in (
    "$unset, $match beside another", "$set, $match beside another",
    "$graphLookup, $replaceWith, $match beside another")}
KNOWN |= {f"a path with an empty part: "
          f"{form}": "mongod refuses the path here: 115 in a pipeline, where mongod does not say so "
                     "itself" for form in (
    "$facet", "$graphLookup.restrictSearchWithMatch")}
_DOLLAR = {f"joined: {form}": "a path with a part `$`: the same" for form in (
    "$facet", "$graphLookup.restrictSearchWithMatch")}
# Some of few cases each: ranges of arrays in arrays, MinKey and MaxKey; $not of what no index can say; symbols.
_BY_INDEX = {
    "find by an index": ("$gt", "$gte", "$elemMatch", "$not", "collation", *(
        f"{operator} {shape}" for operator in ("$geoWithin", "$within")
        for shape in ("$box", "$center", "$centerSphere", "$polygon", "$geometry", "$uniqueDocs")),
        "$geoIntersects $centerSphere", "$geoIntersects $geometry"),
    "find by an index of a field": ("$gt", "$gte", "$lte", "$not", "collation"),
}
RARE = {f"{family}: {form}" for form, families in _BY_INDEX.items() for family in families}
RARE |= set(_DOLLAR)
KNOWN |= dict.fromkeys(RARE,
                       "rules/query/index_bounds.c refuses the ranges; for the others see docs/internals/mongod.md")
KNOWN |= _DOLLAR


def _unpacked(name):
    return [{"$unwind": f"${name}"}, {"$replaceWith": f"${name}"}]


def _whole():
    """Stages as Spillway writes them: they look something up, and replace the document with what comes of it."""
    found = {"from": _NOTHING, "startWith": "$_id", "connectFromField": "_id", "connectToField": "link", "as": "joined"}
    made = {"$cond": [{"$eq": ["$joined", []]}, "$$ROOT",
                      {"$setField": {"field": "f", "input": "$$ROOT", "value": "$joined"}}]}
    return [{"$graphLookup": found}, {"$replaceWith": made}, {"$unset": "joined"}]


def _never(query):
    """As Spillway keeps a filter in one piece."""
    return {"$or": [query, {"_spill./never": {"$exists": True}}]}


def _lookup(*stages):
    return [{"$lookup": {"from": _ALL, "pipeline": [*stages, _IDS], "as": "found"}}, *_unpacked("found")]


def _restricted(query):
    found = {"from": _ALL, "startWith": 7, "connectFromField": "x", "connectToField": "seven", "as": "found",
        "restrictSearchWithMatch": query}
    return [{"$graphLookup": found}, *_unpacked("found"), _IDS]


def _near(query):
    return [{"$geoNear": {"near": [0, 0], "distanceField": "far", "key": "loc", "query": query}}, _IDS]


# {name: (collection, what makes a pipeline of a filter)}
_PIPELINES = {
    "$match": (_ALL, lambda q: [{"$match": q}, _IDS]),
    "$match before $group": (_ALL, lambda q: [{"$match": q}, {"$group": {"_id": "$_id"}}]),
    "$match before $sort and $limit": (_ALL, lambda q: [{"$match": q}, {"$sort": {"s": 1}}, {"$limit": 5000}, _IDS]),
    "$replaceWith, $match": (_ALL, lambda q: [{"$replaceWith": "$$ROOT"}, {"$match": q}, _IDS]),
    "$set, $match": (_ALL, lambda q: [{"$set": {"f": _COMPUTED}}, {"$match": q}, _IDS]),
    "$set, $match, $group": (_ALL, lambda q: [{"$set": {"f": _COMPUTED}}, {"$match": q}, {"$group": {"_id": "$_id"}}]),
    "$graphLookup, $replaceWith, $match": (_SOME, lambda q: [*_whole(), {"$match": q}, _IDS]),
    "$graphLookup, $replaceWith, $match with a choice": (_SOME, lambda q: [*_whole(), {"$match": _never(q)}, _IDS]),
    # mongod takes such a conjunction apart, and reads the part that stays anew.
    "$unset, $match beside another": (_ALL, lambda q: [{"$unset": "none"}, {"$match": {"$and": [q, _ANY]}}, _IDS]),
    "$set, $match beside another": (_ALL, lambda q: [{"$set": {"f": _COMPUTED}}, {"$match": {"$and": [q, _ANY]}},
                                                     _IDS]),
    "$graphLookup, $replaceWith, $match beside another": (_SOME, lambda q: [*_whole(), {"$match": {"$and": [q, _ANY]}},
                                                                            _IDS]),
    "$facet": (_ALL, lambda q: [{"$facet": {"found": [{"$match": q}, _IDS]}}, *_unpacked("found")]),
    "$lookup": (_ONE, lambda q: _lookup({"$match": q})),
    "$lookup with $replaceWith": (_ONE, lambda q: _lookup({"$replaceWith": "$$ROOT"}, {"$match": q})),
    "$lookup, $unwind, $match": (_ONE, lambda q: [{"$lookup": {"from": _ALL, "pipeline": [], "as": "found"}},
                                                  *_unpacked("found"),
        {"$match": q}, _IDS]),
    "$unionWith": (_NOTHING, lambda q: [{"$unionWith": {"coll": _ALL, "pipeline": [{"$match": q}, _IDS]}}]),
    "$unionWith with $set": (_NOTHING, lambda q: [{"$unionWith": {"coll": _ALL, "pipeline": [{"$set": {"f": _COMPUTED}},
                                                                                             {"$match": q},
        _IDS]}}]),
    "$unionWith, $match": (_NOTHING, lambda q: [{"$unionWith": _ALL}, {"$match": q}, _IDS]),
    "$graphLookup.restrictSearchWithMatch": (_ONE, _restricted),
    "$geoNear.query": (_ALL, _near),
}


class _Answer:
    """What a reply says: an error's code, or which documents. Most are equal byte for byte, and not taken apart."""

    def __init__(self, body):
        self.batch = exact.find_bytes(body, "cursor.firstBatch")
        self._ids = None
        self.error = None if self.batch else _error_of(exact.parse(body))

    @property
    def ids(self):
        if self._ids is None:
            self._ids = frozenset(exact.plain(document[1][0][1]) for _, document in exact.parse(self.batch))
        return self._ids

    def equals(self, other):
        if self.error or other.error:
            return self.error == other.error
        return self.batch == other.batch or self.ids == other.ids


def _error_of(pairs):
    errors = exact.get(pairs, "writeErrors")
    if errors is not None:
        pairs = errors[1][0][1][1]
    return f"error {exact.plain(exact.get(pairs, 'code'))}"


class _Search:
    """Asks one mongod; `serial` tells apart what updates have found."""

    def __init__(self, server, found):
        self.server = server
        self.found = found
        self.serial = 0

    def fill(self):
        made = documents()
        for name in (_ALL, _INDEXED, _WRITTEN):
            self.server.fill(name, [{**each, **_SAME} for each in made])
        self.server.must({"createIndexes": _ALL, "indexes": [{"key": {"loc": "2d"}, "name": "loc"},
            {"key": {"seven": 1}, "name": "seven"}]})
        self.server.must({"createIndexes": _INDEXED,
                          "indexes": [{"key": {"f": 1}, "name": "f"}, {"key": {"f.g": 1}, "name": "g"}]})
        self.server.fill(_SOME, [{**each, **_SAME} for each in made if each["_id"] % _EACH == 0])
        self.server.fill(_ONE, [{"_id": 1}])
        self.server.must({"create": _NOTHING}, allowed=(48,))

    def find(self, query, options, collection=_ALL):
        return self._asked({"find": collection, "filter": query, "projection": {"_id": 1}, "batchSize": 5000,
                            **options})

    def _asked(self, command):
        return _Answer(self.server.bytes(command))

    def aggregate(self, form, query, options):
        collection, make = _PIPELINES[form]
        return self._asked({"aggregate": collection, "pipeline": make(query), "cursor": {"batchSize": 5000}, **options})

    def update(self, query, options):
        """Which documents an update of many changes."""
        self.serial += 1
        statement = {"q": query, "u": {"$set": {"hit": self.serial}}, "multi": True}
        let = {name: value for name, value in options.items() if name == "let"}
        if "collation" in options:
            statement["collation"] = options["collation"]
        body = self.server.bytes({"update": _WRITTEN, "updates": [statement], **let})
        if _failed(body):
            return _Answer(body)
        return self.find({"hit": self.serial}, {}, _WRITTEN)

    def answers(self, query, options):
        """(form, answer) of each form."""
        for form in _PIPELINES:
            yield form, self.aggregate(form, query, options)
        yield "find with a choice", self.find(_never(query), options)
        yield "find with a guard", self.find({"$and": [query, {"_spill": {"$exists": False}}]}, options)
        yield "update", self.update(query, options)
        yield "find by an index", self.find(query, {**options, "hint": {"f": 1}}, _INDEXED)
        yield "find by an index of a field", self.find(query, {**options, "hint": {"f.g": 1}}, _INDEXED)

    def ask(self, case):
        family, kind, query, options = case
        rights = {_SOME: self.find(query, options, _SOME), _ALL: self.find(query, options)}
        for form, answer in self.answers(query, options):
            for group, name in (("operator", family), ("type", kind), ("form", form)):
                self.found.count(group, name)
            wanted = rights[_SOME if _PIPELINES.get(form, (None,))[0] == _SOME else _ALL]
            if not answer.equals(wanted):
                self.found.differs(f"{family}: {form}", _text(query, options, wanted, answer))


def _failed(body):
    return any(name in ("code", "writeErrors") for name, *_ in exact.fields(body))


def _text(query, options, right, answer):
    shown = exact.show_document(exact.pairs_of(query)) + (f" {options}" if options else "")
    if right.error or answer.error:
        right, answer = (each.error or f"{len(each.ids)} documents" for each in (right, answer))
        return f"{shown}: find {right}, here {answer}"
    missing, alone = sorted(right.ids - answer.ids)[:5], sorted(answer.ids - right.ids)[:5]
    return f"{shown}: not found here: {missing}, found here alone: {alone}"


def run(server, share, found):
    search = _Search(server, found)
    search.fill()
    for case in cases(share):
        search.ask(case)
