"""Asks the conditions on single elements: of arrayFilters, $pull and a projection's $elemMatch.

Each is compared with a query by the same condition. The projection's $elemMatch is also compared with the
$lookup over $documents by which Spillway does it.
"""

from oracle.places.conditions import cases
from oracle.places.values import NESTED, SCALARS
from support import exact

_EACH, _ALONE, _WHOLE = "each", "alone", "whole"
VALUES = SCALARS + NESTED
_STAYS = "Spillway leaves the condition where the client put it"
KNOWN = {f"{name}: {form}": _STAYS for name in ("bits by high bytes", "$jsonSchema")
         for form in ("arrayFilters", "$pull",
    "$elemMatch of a projection")}
KNOWN["$not: $pull"] = _STAYS
KNOWN["$all: arrayFilters"] = _STAYS
RARE = {"$all: arrayFilters"}  # of an empty list: one case
KNOWN["$jsonSchema: $lookup over $documents"] = "mongod refuses the projection (224)"


def _condition(query):
    """The operators that a filter asks of `f` alone; None where it is no such filter."""
    value = query.get("f")
    if len(query) != 1 or not isinstance(value, dict) or not value or not all(name.startswith("$") for name in value):
        return None
    return None if any(name in ("$ref", "$id", "$db", "$comment") for name in value) else value


def _numbers(reply, field=None):
    """The `_id`s of a reply's documents, of those that have the field where one is named; or the code of its error."""
    code = exact.get(reply, "code")
    if code is not None:
        return f"error {exact.plain(code)}"
    documents = [document for _, (_, document) in exact.get(reply, "cursor.firstBatch")[1]]
    return {exact.plain(exact.get(each, "_id"))
            for each in documents if field is None or exact.get(each, field) is not None}


class _Search:
    def __init__(self, server, found):
        self.server = server
        self.found = found
        self.whole = {"_id": 1, "f": VALUES}
        self.encoded = [exact.value_of(value) for value in VALUES]

    def fill(self):
        self.server.fill(_EACH, [{"_id": number, "f": [value]} for number, value in enumerate(VALUES)])
        self.server.fill(_ALONE, [{"_id": number, "f": value} for number, value in enumerate(VALUES)])
        self.server.fill(_WHOLE, [self.whole])

    def find(self, collection, query):
        return _numbers(self.server.ask({"find": collection, "filter": query, "projection": {"_id": 1},
                                         "batchSize": 5000}))

    def projected(self, condition):
        return _numbers(self.server.ask({"find": _EACH, "projection": {"f": {"$elemMatch": condition}},
                                         "batchSize": 5000}), "f")

    def looked_up(self, condition):
        """As Spillway does a projection's $elemMatch."""
        stages = [{"$documents": {"$map": {"input": "$$f", "in": {"f": ["$$this"]}}}},
                  {"$match": {"f": {"$elemMatch": condition}}},
            {"$limit": 1}]
        lookup = {"$lookup": {"let": {"f": "$f"}, "pipeline": stages, "as": "found"}}
        stages = [lookup, {"$project": {"f": {"$ifNull": [{"$arrayElemAt": ["$found.f", 0]}, "$$REMOVE"]}}}]
        return _numbers(self.server.ask({"aggregate": _EACH, "pipeline": stages, "cursor": {"batchSize": 5000}}), "f")

    def _changed(self, update, **more):
        """The array of the whole document after an update, which is taken back; or the code of its error."""
        reply = self.server.ask({"findAndModify": _WHOLE, "query": {"_id": 1}, "update": update, "new": True,
                                 "fields": {"f": 1}, **more})
        code = exact.get(reply, "code")
        if code is not None:
            return f"error {exact.plain(code)}"
        self.server.must({"update": _WHOLE, "updates": [{"q": {"_id": 1}, "u": self.whole}]})
        return [value for _, value in exact.get(reply, "value.f")[1]]

    def filtered(self, condition):
        """Which elements an array filter means."""
        changed = self._changed({"$set": {"f.$[e]": "hit"}}, arrayFilters=[{"e": condition}])
        if isinstance(changed, str):
            return changed
        hit = exact.value_of("hit")
        return {number for number, value in enumerate(changed) if value == hit}

    def pulled(self, condition, wanted):
        """`wanted` where $pull takes just these elements away, else how many it leaves."""
        left = self._changed({"$pull": {"f": condition}})
        if isinstance(left, str):
            return left
        expected = [value
                    for number, value in enumerate(self.encoded) if isinstance(wanted, str) or number not in wanted]
        return wanted if left == expected else f"{len(left)} elements left"

    def ask(self, case, condition):
        family, kind, _, _ = case
        alone = self.find(_ALONE, {"f": condition})
        inside = self.find(_EACH, {"f": {"$elemMatch": condition}})
        projected = self.projected(condition)
        answers = [("$elemMatch of a projection", inside, projected),
                   ("$lookup over $documents", projected, self.looked_up(condition)),
                   ("arrayFilters", alone, self.filtered(condition)), ("$pull", alone, self.pulled(condition, alone))]
        for form, wanted, answer in answers:
            for group, name in (("operator", family), ("type", kind), ("form", form)):
                self.found.count(group, name)
            if answer != wanted:
                self.found.differs(f"{_called(family, condition, wanted, answer)}: {form}",
                                   _text(condition, wanted, answer))


def _called(family, condition, wanted, answer):
    """What a difference is called: mongod refuses some operators in some places, whatever they are combined with."""
    if "error 224" in (wanted, answer):
        return "$jsonSchema"
    return "$not" if answer == "error 2" and "$not" in condition else family


def _text(condition, wanted, answer):
    shown = exact.show_document(exact.pairs_of(condition))
    if isinstance(wanted, str) or isinstance(answer, str):
        right, here = (each if isinstance(each, str) else len(each) for each in (wanted, answer))
        return f"{shown}: {right}, here {here}"
    shows = [exact.show(exact.value_of(VALUES[number])) for number in sorted(wanted ^ answer)[:4]]
    return f"{shown}: differ by {', '.join(shows)}"


def run(server, share, found):
    search = _Search(server, found)
    search.fill()
    for case in cases(share):
        condition = None if case[3] else _condition(case[2])
        if condition is not None:
            search.ask(case, condition)
