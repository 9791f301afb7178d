"""What mongod says of a write that is wrong, it says through Spillway, word for word: whatever was added to the filter.

The errors change nothing, so all run on the same documents.
"""

import uuid

import pytest
from bson import Binary, Int64, Regex
from test_odm_shapes import bulk, modify, update, write

from support import exact
from support.twins import PLAIN, twins

BOOKS = [{"_id": 1, "n": 1, "list": [1, 2, 3, {"x": 1}, 5, "a", [1], 8]}, {"_id": 2, "n": 2, "list": [1]},
         {"_id": 3, "n": 3, "list": [5, 6, 7, 8, 9]}]
PULL = {"$pull": {"list": 5}}
ENGLISH = {"locale": "en", "strength": 2}


def delete(query, limit=1, **options):
    return {"delete": "books", "deletes": [{"q": query, "limit": limit, **options}]}


def remove(query, **options):
    return {"findAndModify": "books", "query": query, "remove": True, **options}


def forms(query, **options):
    """Each command whose filter can be wrong; what is updated is not."""
    return [update(PULL, query, **options), update(PULL, query, multi=True, **options),
            update({"$push": {"list": 9}}, query, **options), update({"$set": {"list": [1]}}, query, **options),
            update(PULL, query, upsert=True, **options), delete(query, **options), delete(query, 0, **options),
            modify(PULL, query, **options), remove(query, **options)]


FILTERS = [
    {"list": {"$bad": 1}}, {"_id": 1, "list": {"$in": 5}}, {"_id": 1, "list": {"$size": -1}}, {"list": {"$size": "x"}},
    {"_id": 1, "$and": []}, {"_id": 1, "$or": 5}, {"_id": 1, "$bad": 1}, {"_id": 1, "list": {"$regex": "("}},
    {"_id": 1, "list": {"$elemMatch": 3}}, {"_id": 1, "list": {"$not": 3}}, {"_id": 1, "$expr": {"$bad": "$list"}},
    {"_id": 1, "$expr": {"$size": "$n"}}, {"n": 1, "$expr": {"$gt": [{"$size": "$n"}, {"$size": "$list"}]}},
    {"_id": 1, "$where": "thrown("}, {"_id": 1, "$where": "this.list.nothing.x"}, {"_id": 1, "$text": {"$search": "a"}},
    {"_id": 1, "list": {"$near": [1, 1]}}, {"_id": 1, "$jsonSchema": {"x": 1}}, {"list": {"$type": "nothing"}},
    {"_id": 1, "list": {"$mod": [0, 1]}}, {"list": {"$all": 3}}, {"_id": {"$bad": 1}},
    {"_id": {"$in": [Regex("a")], "$x": 2}},
    {"_id": 1, "list.0": {"$options": "i"}}, {"list": {"$geoWithin": {"$x": 1}}}, {"list": {"$nin": [{"$bad": 1}]}},
    {"_id": 1, "list": {"$elemMatch": {"$where": "1"}}}, {"_id": 1, "$expr": {"$gt": ["$$x", "$list"]}},
    {"n": 77, "_id": {"$in": [1, 2]}, "$expr": {"$gt": [{"$size": "$n"}, {"$size": "$list"}]}},
]
HINTED = [{"_id": 1}, {"n": 1}, {"list": 5}, {"_id": 1, "list": 5}, {"_id": 77}, {"n": 77},
          {"_id": 1, "list": {"$ne": 9}},
          {"list": {"$not": {"$elemMatch": {"$gt": 7}}}, "$or": [{"n": 1}, {"list": {"$size": 8}}]}]
UPDATES = [
    {"$bad": {"list": 1}}, {"$push": {"list": {"$each": 3}}}, {"$push": {"n": 3}},
    {"$push": {"list": {"$each": [1], "$bad": 3}}},
    {"$push": {"list": {"$each": [1], "$sort": 5}}}, {"$pop": {"list": 2}}, {"$pop": {"n": 1}}, {"$pull": {"n": 1}},
    {"$pull": {"list": {"$bad": 1}}}, {"$pullAll": {"list": 3}}, {"$addToSet": {"list": {"$each": 3}}},
    {"$addToSet": {"n": 3}},
    {"$inc": {"list": 1}}, {"$inc": {"list.5": 1}}, {"$set": {"list.x": 1}}, {"$set": {"list.$": 1}},
    {"$set": {"list.$[e]": 1}},
    {"$set": {"list.$[].x": 1}}, {"$set": {"list": 1, "list.0": 1}}, {"$set": {"list..0": 1}},
    {"$rename": {"list": "list"}},
    {"$rename": {"list.0": "x"}}, {"$rename": {"n": "list.0"}}, {"$bit": {"list.5": {"and": 3}}},
    {"$mul": {"list.5": 2}},
    {"$currentDate": {"list": "x"}}, {"$set": {"_id": 3, "list.0": 1}}, {"$set": {"list.2000000": 1}},
    {"$min": {"list.$[": 1}},
    {"$pull": 3}, [{"$set": {"list": {"$bad": 1}}}], [{"$bad": 1}], [{"$set": {"list": {"$size": "$n"}}}],
    [{"$set": {"_id": 4, "list": 1}}], [{"$replaceWith": "$n"}], [{"$project": {"list": 1, "n": 0}}],
    [{"$set": {"list.$": 1}}],
]
OTHERS = [
    *forms({"_id": 1, "list": "A"}, collation={"locale": "xx"}),
    *forms({"_id": "x", "n": "x"}, hint="none", collation=ENGLISH),
    *(modify(PULL, {"n": 1}, sort=sort) for sort in ({"list": 2}, {"list": "x"}, {"list": {"$bad": 1}}, {"": 1})),
    *(modify(PULL, **{name: 3}) for name in ("sort", "fields", "hint", "let", "bad", "arrayFilters")),
    modify(PULL, {"list": 5}, hint="none", sort={"list": 1}, fields={"n": 1}),
    modify(PULL, hint="none", sort={"n": "x"}),
    modify(PULL, fields={"n": 1, "list": 0}), modify(PULL, fields={"list": {"$bad": 1}}), modify(PULL, remove=True),
    remove({"_id": 1}, new=True), remove({"_id": 1}, upsert=True), remove({"_id": 1, "list": 5}, upsert=True),
    modify(3), modify(PULL, 3),
    {**update(PULL, {"_id": 1, "$expr": {"$eq": ["$n", "$$v"]}}, hint="none"), "let": {"v": 1}},
    *(update({"$set": {"list.$[e]": 1}}, arrayFilters=filters) for filters in (
        [{"e": 1}, {"e": 2}], [{"E": 1}], [{}], [3], [{"e": 1, "f": 1}], [{"e": {"$gt": 1}}, {"unused": 1}],
        [{"e": {"$bad": 1}}])),
    update({"$set": {"list.$[e]": 1}}, hint="none", arrayFilters=[{"e": 1}]),
    update([{"$set": {"list": [1]}}], hint="none"),
    *({**update(PULL), name: wrong} for name, wrong in (
        ("bad", 3), ("ordered", 3), ("let", 3), ("maxTimeMS", -1), ("maxTimeMS", "x"), ("apiVersion", "2"),
        ("writeConcern", 3),
        ("bypassDocumentValidation", "x"), ("readConcern", {"level": "majority"}))),
    *({"update": "books", "updates": wrong} for wrong in (
        [], 3, [{"q": {}}], [{"u": PULL}], [{"q": 1, "u": PULL}], [{"q": {"list": 5}, "u": 3}])),
    *(bulk(write(PULL, **{name: 3})) for name in ("bad", "multi", "upsert", "collation", "arrayFilters", "hint")),
    {"delete": "books", "deletes": [{"q": {"list": 5}}]}, delete({"list": 5}, 2), delete({"list": 5}, bad=1),
    *(bulk(write({"$pull": {"list": 77}}, {"_id": 2}), write(PULL, query, **options),
           write({"$pull": {"list": 77}}, {"_id": 3}),
           ordered=ordered)
      for ordered in (True, False)
      for query, options in (({"_id": 1, "list": 5}, {"hint": "none"}), ({"list": {"$bad": 1}}, {}))),
]
COMMANDS = {
    "a filter": [command for query in FILTERS if "$where" not in query for command in forms(query)],
    "a filter with code": [command for query in FILTERS if "$where" in query for command in forms(query)],
    "a hint": [command for query in HINTED for hint in ("none", {"none": 1}) for command in forms(query, hint=hint)],
    "an update": [form(change, query) for change in UPDATES
                  for query in ({"_id": 1}, {"n": 1}, {"list": {"$exists": True}, "_id": 1})
                  for form in (update, modify)],
    "an update of all": [update(change, {}, multi=True) for change in UPDATES],
    "an upsert's update": [update(change, {"_id": 50}, upsert=True) for change in UPDATES if "$mul" not in change],
    "another part": OTHERS,
}


@pytest.fixture(scope="module")
def arms():
    with twins(("rest2",)) as made:
        made.fill(BOOKS)
        made.settle()
        yield made


def told(arm, command):
    """All that the reply says, in full."""
    times = ("$clusterTime", "operationTime", "opTime", "electionId")
    return [(name, exact.plain(value)) for name, value in arm.call(command) if name not in times]


def failed(reply):
    return reply["ok"] == 0 or reply.get("writeErrors")


@pytest.mark.parametrize("wrong", COMMANDS)
def test_the_error_is_mongods(arms, wrong):
    errors = 0
    for command in COMMANDS[wrong]:
        answers = {arm.name: told(arm, command) for arm in arms.arms}
        errors += bool(failed(dict(answers[PLAIN])))
        arms.same(command, answers)
    assert errors > 0.8 * len(COMMANDS[wrong]), "what is tried is hardly ever wrong"
    arms.same("documents", {arm.name: arm.documents() for arm in arms.arms})


RETRIED = [
    modify(PULL), modify({"$set": {"n": 1}}, fields={"list": 1}), modify([{"$set": {"n": {"$size": "$list"}}}]),
    modify(PULL, {"_id": 1, "list": 5}, upsert=True, new=True), remove({"_id": 1, "list": 5}, fields={"n": 1}),
]


def told_of_a_number(arm, first, second):
    """What is said to a command under the number of another one; sessions and times follow in its text."""
    session = {"lsid": {"id": Binary(uuid.uuid4().bytes, 4)}, "txnNumber": Int64(1)}
    assert not failed(dict(told(arm, {**first, **session})))
    reply = dict(told(arm, {**second, **session}))
    return reply.get("code"), reply.get("errmsg", "").partition(", oplogTs")[0]


@pytest.mark.parametrize("command", RETRIED, ids=str)
def test_a_number_of_another_command_is_told_in_the_clients_words(arms, command):
    first = {"insert": "books", "documents": [{"_id": 70, "list": [1]}]}
    for before in (first, delete({"_id": 70})):
        arms.same(command, {arm.name: told_of_a_number(arm, before, command) for arm in arms.arms})
    arms.same("documents", {arm.name: arm.documents() for arm in arms.arms})
