"""What the modules on sorts, projections, distinct and expressions share: stages as Spillway writes them, and
answers to compare."""

import random

from bson import Int64

from oracle.places.values import NESTED, SCALARS
from support import exact
from support.exact import value_of

ALL = "asked"       # the documents
ONE = "single"      # one document, for pipelines that read ALL from elsewhere
NOTHING = "nothing"
_SHAPES = (lambda value: value, lambda value: [value], lambda value: [3, value, "b"], lambda value: {"g": value},
           lambda value: [{"g": value}],
           lambda value: [{"g": value, "h": 1}, {"g": 3, "h": "b"}], lambda value: [[value]],
           lambda value: [{"g": [value, 2]}, 7])


def drawn(items, share, name):
    """A part of the items: the same ones each time, and one at least."""
    items = list(items)
    chosen = random.Random(name)
    return [item for item in items if chosen.random() < share] or items[:1]


def _holds(value, left_out):
    kind, payload = value_of(value)
    return kind in left_out or (isinstance(payload, list) and any(_holds(item, left_out) for _, item in payload))


def documents(share, left_out=()):
    """Documents whose field `f` has every value in every shape, but for those of some types; `s` and `n` are other
    fields."""
    values = [value for value in (*drawn(SCALARS, share, "values"), *NESTED) if not _holds(value, left_out)]
    made = [{"f": shape(value)} for value in values for shape in _SHAPES] + [{}, {"f": []}, {"f": [{}]}]
    return [{"_id": number, "n": number % 3, **each, "s": "t"} for number, each in enumerate(made)]


def fill(server, made):
    server.fill(ALL, made)
    server.fill(ONE, [{"_id": 1}])
    server.must({"create": NOTHING}, allowed=(48,))


def whole():
    """Stages as Spillway writes them: they look something up, and replace the document with what comes of it."""
    found = {"from": NOTHING, "startWith": "$_id", "connectFromField": "_id", "connectToField": "link", "as": "joined"}
    made = {"$cond": [{"$eq": ["$joined", []]}, "$$ROOT",
                      {"$setField": {"field": "f", "input": "$$ROOT", "value": "$joined"}}]}
    return [{"$graphLookup": found}, {"$replaceWith": made}, {"$unset": "joined"}]


class Answer:
    """A reply's error, or its documents as bytes; in no order unless `ordered`."""

    def __init__(self, body, ordered=True):
        self.error, self.items = None, []
        reply = exact.parse(body)
        batch = exact.get(reply, "cursor.firstBatch")
        if exact.plain(exact.get(reply, "ok")) != 1:
            self.error = f"error {exact.plain(exact.get(reply, 'code'))}"
        elif batch is not None:
            self.items = [exact.show(value) for _, value in batch[1]]
        else:
            self.items = [exact.show(value) for name, value in reply if name in ("values", "n", "value")]
        if not ordered:
            self.items.sort()

    def equals(self, other):
        return (self.error, self.items) == (other.error, other.items)

    def difference(self, other):
        """As text: where the other differs first."""
        if self.error or other.error:
            said = [each.error or f"{len(each.items)} documents" for each in (self, other)]
            return ", here ".join(map(str, said))
        pairs = [(one, two) for one, two in zip([*self.items, None], [*other.items, None]) if one != two]
        return f"{str(pairs[0][0])[:150]}, here {str(pairs[0][1])[:150]}"


class Asker:
    """Asks a question in several forms; `differs` is noted by the name of what is asked and the form."""

    def __init__(self, server, found):
        self.server = server
        self.found = found

    def find(self, ordered=True, **options):
        return Answer(self.server.bytes({"find": ALL, "batchSize": 100000, **options}), ordered)

    def aggregate(self, pipeline, collection=ALL, ordered=True, **options):
        return Answer(self.server.bytes({"aggregate": collection, "pipeline": pipeline, "cursor": {"batchSize": 100000},
                                         **options}), ordered)

    def compare(self, kind, question, right, answers):
        """`answers`: (form, Answer)."""
        self.found.count("kind", kind)
        for form, answer in answers:
            self.found.count("form", form)
            if not answer.equals(right):
                self.found.differs(f"{kind}: {form}", f"{question}: {right.difference(answer)}")


def unpacked(pipeline):
    """The documents of a field `x` that holds an array of them."""
    return [*pipeline, {"$unwind": "$x"}, {"$replaceWith": "$x"}]


def nested(pipeline):
    """(form, collection, pipeline) of a pipeline in the places that a pipeline can have."""
    yield "$facet", ALL, unpacked([{"$facet": {"x": pipeline}}])
    yield "$lookup", ONE, unpacked([{"$lookup": {"from": ALL, "pipeline": pipeline, "as": "x"}}])
    yield "$lookup with let", ONE, unpacked([{"$lookup": {"from": ALL, "let": {"y": "$_id"}, "pipeline": pipeline,
                                                          "as": "x"}}])
    yield "$unionWith", ONE, [{"$limit": Int64(1)}, {"$match": {"_id": -1}},
                              {"$unionWith": {"coll": ALL, "pipeline": pipeline}}]
