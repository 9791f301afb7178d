"""A command that mongod refuses fails with mongod's own error, also where Spillway would refuse it, too."""

import itertools
import uuid

import pytest
from bson import Binary, Int64

from support import exact
from support.cluster import Cluster
from support.process import wait_for
from support.spillway import Spillway
from support.wire import Connection

pytestmark = pytest.mark.share(5)
DIRECT, THROUGH = "side", "shop"  # names of one length
RULES = [
    {"name": f"rule-{array}", "namespace": f"{THROUGH}.books", "array": array, "threshold": 2, "settle": "20ms",
     "gc_delay": "0s",
     "overflow": {"collection": f"more_{array}", "layout": "batches", "link": "book", "array": "more",
                  "batch": {"size": 3}}}
    for array in ("f", "a")
] + [
    {"name": "rule-batch", "namespace": f"{THROUGH}.batch*", "array": "f", "threshold": 2, "settle": "20ms",
     "overflow": {"layout": "batches", "link": "book", "array": "more"}},
    {"name": "rule-element", "namespace": f"{THROUGH}.element*", "array": "f", "threshold": 2, "settle": "20ms",
     "overflow": {"layout": "elements", "link": "book"}},
    {"name": "rule-new", "namespace": f"{THROUGH}.new*", "array": "f", "threshold": 2,
     "overflow": {"layout": "batches", "link": "book", "array": "more"}},
]
BOOKS = [{"_id": 1, "n": 1, "b": [5, 6], "f": [1, 2, 3, 4, 5, 6], "a": [1, 2, 3, 4]},
         {"_id": 2, "n": 2, "f": [1], "a": []}]
WHERE_IN_FIELD = {"a": {"$not": {"$where": "true"}}}
NEAR_IN_OR = {"$or": [{"z": {"$near": [1, 1]}}, {"a": 2}]}
SCHEMA = {"$jsonSchema": {}}


def find(filter=None, **options):
    return {"find": "books", "filter": filter or {}, **options}


def aggregate(*stages, **options):
    return {"aggregate": "books", "pipeline": list(stages), "cursor": {}, **options}


def distinct(key="f", **options):
    return {"distinct": "books", "key": key, **options}


def count(query, **options):
    return {"count": "books", "query": query, **options}


def update(query, change=None, command=None, **options):
    return {"update": "books", "updates": [{"q": query, "u": change or {"$set": {"n": 1}}, **options}],
            **(command or {})}


def delete(query, **command):
    return {"delete": "books", "deletes": [{"q": query, "limit": 0}], **command}


def modify(query, **options):
    return {"findAndModify": "books", "query": query, **({} if "remove" in options else {"update": {"$set": {"n": 1}}}),
            **options}


FILTERS = [
    NEAR_IN_OR, WHERE_IN_FIELD, {"f": 1, "$where": 5}, {"f": 1, "$where": "x("}, {"f": {"$near": 5}},
    {"f": {"$near": [1]}}, {"f": {"$near": [0, 0]}}, {"f": {"$nearSphere": [0, 0]}}, {"$text": 1, "f": 1},
    {"$text": {"$search": "x"}, "f": 1}, {"f": 1, "z": {"$near": [1, 2]}}, {"a": {"$elemMatch": {"$where": "1"}}},
    {"a": 1, "": {"$bad": 1}}, {"$or": [{"$where": 1}, {"a": 1}]},
]
LETS = [{"x": "$f"}, {"x": {"$odd": "$f"}}, {"$x": "$f"}, {"x": "$$ROOT"}, {"x": ["$n", "$a.b"]}, {"X": "$f"}, "$f",
        ["$f"]]
PROJECTIONS = [
    {"f.$": 1, "g.$": 1}, {"f.$": {"x": 1}}, {"a.$": {"x": 1}}, {"f.$.$": 1}, {"f.$.x": 1},
    {"f.$": 1, "n": {"$elemMatch": {"x": 1}}}, {"f.$": 1, "n": 0},
    {"x.$": 1, "f": 0}, {"f.$": "x"}, {"f.$": {"$slice": 1}}, {"$.f": 1}, {"f.$[]": 1}, {"x": {"$meta": "odd"}, "f": 1},
    *({field: {"$elemMatch": matched}} for field in ("a", "n") for matched in (
        SCHEMA, {"$and": [SCHEMA]}, {"x": {"$elemMatch": SCHEMA}}, {"$expr": True}, {"$where": "1"},
        {"$text": {"$search": "x"}}, {"x": {"$near": [1, 1]}})),
]
KEYS = ["a.", ".a", "f.", ".f", "a..b", "f.$x", "f.x.", "", "."]
TIMES = [-1, "x", Int64(2**40), [1], -0.5]
CONCERNS = ["local", 1, ["local"]]
STAGES = [
    [{"$documents": [{"x": 1}]}], [{"$documents": [{"x": 1}]}, {"$unwind": "$f"}], [{"$match": {}}, {"$documents": []}],
    [{"$graphLookup": {"from": "books", "startWith": "$n", "connectFromField": "f", "connectToField": "n", "as": "b",
                       "odd": 1}}],
    [{"$out": "books"}, {"$match": {}}], [{"$merge": {"into": "books", "whenMatched": "odd"}}],
    [{"$merge": {"into": "books", "on": "x"}}],
    [{"$geoNear": {"near": [0, 0], "key": "f"}}], [{"$geoNear": {"near": [0, 0], "distanceField": "x", "key": "f"}}],
    [{"$match": {}}, {"$changeStream": {}}], [{"$match": {"f": 1, "$where": "1"}}],
    [{"$match": {"n": 1}}, {"$match": {"$text": {"$search": "x"}, "f": 1}}],
    [{"$match": {"f": {"$near": [0, 0]}}}], [{"$facet": {"x": [{"$graphLookup": {"from": "books"}}]}}],
    [{"$unwind": "$f"}, {"$odd": 1}],
    [{"$lookup": {"from": "books", "pipeline": [{"$odd": 1}, {"$indexStats": {}}], "as": "b"}}], [{"$unwind": "f"}],
    [{"$set": {"f": {"$odd": "$f"}}}],
]
READS = [
    *(make(filter) for filter in FILTERS for make in (find, count, lambda filter: distinct("n", query=filter),
                                                      lambda filter: aggregate({"$match": filter}))),
    *(find({"f": 1}, let=let) for let in LETS), *(aggregate(let=let) for let in LETS),
    *(aggregate({"$unwind": "$f"}, let=let) for let in LETS),
    *(find({"f": 1}, projection=projection) for projection in PROJECTIONS), *(distinct(key) for key in KEYS),
    *(command(maxTimeMS=time) for time in TIMES for command in (
        distinct, lambda **more: count({"f": 1}, **more), lambda **more: find({"f": 1, "n": 1}, **more),
        lambda **more: aggregate({"$unwind": "$f"}, **more))),
    *(command(readConcern=concern) for concern in CONCERNS for command in (
        distinct, lambda **more: count({"f": 1}, **more), lambda **more: find({"f": 1}, **more),
        lambda **more: aggregate({"$unwind": "$f"}, **more))),
    *(aggregate(*stages) for stages in STAGES), distinct(collation=1), distinct(odd=1), distinct(query=1),
    distinct(readConcern={"odd": 1}),
    find({"f": 1}, min={"n": 1}), find({"f": 1}, max={"n": 1}), find({"f": 1}, max={"n": 1}, min={"q": 1}),
    find({"f": 1}, min={"n": 3}, hint={"_id": 1, "n": 1}), find({"f": 1}, returnKey=1), find({"f": 1}, hint={"odd": 1}),
    {"explain": find(WHERE_IN_FIELD), "verbosity": "executionStats"},
    {"explain": find(WHERE_IN_FIELD), "verbosity": "odd"},
    {"explain": aggregate({"$documents": [{"x": 1}]}), "verbosity": "queryPlanner"},
    {"explain": distinct("a."), "verbosity": "queryPlanner"},
    find(hint={"f": 1}, min={"f": 1}), find({"n": 1}, hint={"f": 1}, returnKey=True),
]
WRITES = [
    *(make(filter) for filter in FILTERS for make in (update, delete, modify)), update(NEAR_IN_OR, upsert=True),
    modify(NEAR_IN_OR, remove=True),
    *(update({"n": 1}, command={"let": let}) for let in LETS), *(delete({"n": 1}, let=let) for let in LETS),
    *(modify({"n": 1}, let=let) for let in LETS),
    update({"f": 1, "$where": 5}, {"$pop": {"f": 1}}), update({"_id": 1}, {"$pop": {"f": 1}}, {"let": {"x": "$f"}}),
]

def named_alike(value):
    """An answer whose texts name the collection of one side."""
    if isinstance(value, dict):
        return {name: named_alike(item) for name, item in value.items()}
    if isinstance(value, list):
        return [named_alike(item) for item in value]
    return value.replace(f"{THROUGH}.books", f"{DIRECT}.books") if isinstance(value, str) else value


class Sides:
    """The same documents in a collection of mongod's and, spilled, in one that is reached through Spillway."""

    def __init__(self, cluster, spillway):
        self.client = cluster.client()
        self.connections = {DIRECT: Connection(cluster.primary.port), THROUGH: Connection(spillway.port)}
        for side in self.connections:
            assert self.call(side, {"insert": "books", "documents": BOOKS})["n"] == len(BOOKS)
        wait_for(lambda: [self.client[THROUGH][f"more_{array}"].count_documents({}) for array in ("f", "a")] == [2, 1],
                 "the arrays to spill")

    def call(self, side, command):
        answer = self.connections[side].call(exact.document({**command, "$db": side})).plain()
        return {name: value for name, value in answer.items()
                if name not in ("$clusterTime", "operationTime", "opTime", "electionId")}

    def both(self, command):
        """What each side says; the two are to be equal."""
        return [named_alike(self.call(side, command)) for side in (DIRECT, THROUGH)]


@pytest.fixture(scope="module")
def sides():
    with Cluster(durable=False) as cluster, Spillway([cluster.primary], RULES) as spillway:
        made = Sides(cluster, spillway)
        yield made
        for connection in made.connections.values():
            connection.close()


def is_error(answer):
    return not answer["ok"] or answer.get("writeErrors")


@pytest.mark.parametrize("command", READS, ids=str)
def test_a_read_that_mongod_refuses(sides, command):
    direct, through = sides.both(command)
    assert is_error(direct), direct
    assert through == direct


@pytest.mark.parametrize("command", WRITES, ids=str)
def test_a_write_that_mongod_refuses(sides, command):
    direct, through = sides.both(command)
    assert is_error(direct), direct
    assert through == direct


PUSH, PULL, RENAME = {"$push": {"f": 9}}, {"$pull": {"f": {"$gte": 5}}}, {"$set": {"n": 7}}
BAD = [  # mongod refuses these, for a filter or for the change
    {"q": {"f": {"$not": {"$where": "true"}}}, "u": RENAME}, {"q": {"f": {"$near": [0, 0]}}, "u": PUSH},
    {"q": {"f": 1, "$where": 5}, "u": PULL}, {"q": {"$text": {"$search": "x"}, "f": 1}, "u": RENAME},
]
GOOD = [
    {"q": {"_id": 1}, "u": PUSH}, {"q": {"f": 5}, "u": RENAME, "multi": True}, {"q": {"_id": 2}, "u": PULL},
    {"q": {"_id": 9}, "u": {"$set": {"f": [1, 2, 3, 4]}}, "upsert": True},
    {"q": {"n": 2}, "u": RENAME}, {"q": {"_id": 1}, "u": {"$pop": {"f": "x"}}},
    {"q": WHERE_IN_FIELD, "u": RENAME},
]
REFUSED = {"q": {"f": 1, "$where": "true"}, "u": RENAME}  # mongod would run it
STATEMENTS = [
    [BAD[0], GOOD[0]], [GOOD[0], BAD[0]], [GOOD[0], BAD[1], GOOD[1]],
    [GOOD[3], GOOD[0], BAD[2], GOOD[2], BAD[0], GOOD[1], BAD[3]], BAD, [BAD[3], BAD[3]],
    [GOOD[5], BAD[0], GOOD[0]], [GOOD[4], BAD[0], GOOD[5], GOOD[3]], [GOOD[2], GOOD[4], GOOD[1], BAD[1]],
    [GOOD[1], GOOD[3], GOOD[3], BAD[0], GOOD[3]], [BAD[2], GOOD[6], GOOD[0], BAD[0]],
]
NUMBERS = itertools.count()


def as_delete(statement):
    return {"q": statement["q"], "limit": 1}


class Statements:
    """A collection for each side, with the same documents, for one command with several statements."""

    def __init__(self, sides, layout="batch"):
        self.sides, self.name = sides, f"{layout}s{next(NUMBERS)}"
        self.sessions = {side: {"id": Binary(uuid.uuid4().bytes, 4)} for side in (DIRECT, THROUGH)}
        for side in (DIRECT, THROUGH):
            assert sides.call(side, {"insert": self.name, "documents": BOOKS})["n"] == len(BOOKS)
        wait_for(lambda: sides.client[THROUGH][self.name].count_documents({"f": {"$size": 2}}) == 1,
                 "the array to spill")

    def answers(self, kind, statements, in_sequence=False, **fields):
        """What each side answers, and what it then has."""
        field, seen = f"{kind}s", []
        for side in (DIRECT, THROUGH):
            connection = self.sides.connections[side]
            own = {"lsid": self.sessions[side]} if "txnNumber" in fields else {}
            body = {kind: self.name, **({} if in_sequence else {field: statements}), **fields, **own, "$db": side}
            sequences = [(field, [exact.document(statement) for statement in statements])] if in_sequence else []
            answer = connection.call(exact.document(body), sequences).plain()
            for error in answer.get("writeErrors", []):
                error["errmsg"] = error["errmsg"].replace(f"{THROUGH}.", f"{DIRECT}.")
            seen.append({name: value for name, value in answer.items()
                         if name not in ("$clusterTime", "operationTime", "opTime", "electionId")})
        return seen, [self.sides.call(side, {"find": self.name, "sort": {"_id": 1}})["cursor"]["firstBatch"]
                      for side in (DIRECT, THROUGH)]


@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize("statements", STATEMENTS,
                         ids=lambda statements: f"{len(statements)}-{STATEMENTS.index(statements)}")
@pytest.mark.parametrize("kind, layout, fields",
                         [("update", "batch", {}), ("update", "element", {"retryable": True}), ("delete", "batch", {}),
                          ("delete", "batch", {"in_sequence": True})], ids=str)
def test_statements_that_mongod_refuses_beside_others(sides, statements, ordered, kind, layout, fields):
    fields = dict(fields)
    if fields.pop("retryable", False):
        statements = [{name: value for name, value in statement.items() if name != "multi"} for statement in statements]
        fields["txnNumber"] = Int64(1)
    statements = [as_delete(statement) for statement in statements] if kind == "delete" else statements
    answers, stored = Statements(sides, layout).answers(kind, statements, ordered=ordered, **fields)
    assert answers[1] == answers[0] and answers[0]["writeErrors"]
    assert stored[1] == stored[0]


@pytest.mark.parametrize("let", LETS, ids=str)
def test_statements_that_mongod_refuses_for_their_let(sides, let):
    target = Statements(sides)
    for ordered in (True, False):
        for kind, statements in (("update", GOOD), ("delete", [as_delete(statement) for statement in GOOD[:4]])):
            answers, stored = target.answers(kind, statements, ordered=ordered, let=let)
            assert answers[1] == answers[0]
            assert stored[1] == stored[0] == BOOKS


@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize("statements", [STATEMENTS[0], STATEMENTS[2], STATEMENTS[3]], ids=len)
def test_statements_that_mongod_refuses_end_a_transaction(sides, statements, ordered):
    fields = {"txnNumber": Int64(1), "autocommit": False, "startTransaction": True, "ordered": ordered}
    target = Statements(sides)
    answers, stored = target.answers("update", statements, **fields)
    assert answers[1] == answers[0] and answers[0]["writeErrors"]
    assert stored[1] == stored[0] and stored[0] == BOOKS
    del fields["startTransaction"], fields["ordered"]
    codes = [sides.call(side, {"find": target.name, **fields, "lsid": target.sessions[side]}).get("code")
             for side in (DIRECT, THROUGH)]
    assert codes == [251, 251]


def test_a_statement_that_mongod_would_run_refuses_all_that_come_before_it(sides):
    target = Statements(sides)
    for statements, ordered in (([GOOD[0], REFUSED], True), ([REFUSED, GOOD[0]], True),
                                ([BAD[0], GOOD[0], REFUSED], False), ([REFUSED, BAD[0]], False),
                                ([GOOD[0], REFUSED, BAD[0]], True)):
        for in_sequence in (False, True):
            body = {"update": target.name, "ordered": ordered, "$db": THROUGH,
                    **({} if in_sequence else {"updates": statements})}
            sequences = [("updates", [exact.document(statement) for statement in statements])] if in_sequence else []
            answer = sides.connections[THROUGH].call(exact.document(body), sequences).plain()
            assert answer.get("code") == 115, answer
            assert "rule-batch" in answer["errmsg"] and "$where" in answer["errmsg"], answer
    assert sides.call(THROUGH, {"find": target.name, "sort": {"_id": 1}})["cursor"]["firstBatch"] == BOOKS
    answers, stored = target.answers("update", [GOOD[0], BAD[0], REFUSED])  # in order, mongod does not come to the last
    assert answers[1] == answers[0] and stored[1] == stored[0] and stored[0] != BOOKS


def test_a_command_that_mongod_cannot_read_beside_a_refused_statement(sides):
    target = Statements(sides)
    for odd in ({"q": {"_id": 1}, "u": RENAME, "odd": 1}, {"q": {"_id": 1}}, {"q": 5, "u": RENAME}):
        answers, stored = target.answers("update", [GOOD[0], BAD[0], odd])
        assert answers[1].get("code") == answers[0]["code"], answers
        assert stored[1] == stored[0] == BOOKS


@pytest.mark.parametrize("command", [find(WHERE_IN_FIELD), find({"f": 1}, projection={"f.$": {"x": 1}}),
                                     update(WHERE_IN_FIELD), modify(WHERE_IN_FIELD)], ids=str)
@pytest.mark.parametrize("first", [True, False])
def test_such_an_error_ends_a_transaction(sides, command, first):
    seen = []
    for side in (DIRECT, THROUGH):
        fields = {"lsid": {"id": Binary(uuid.uuid4().bytes, 4)}, "txnNumber": Int64(1), "autocommit": False}
        begin = {"startTransaction": True}
        if not first:
            assert sides.call(side, {**find({"n": 1}), **fields, **begin})["ok"]
        seen.append([named_alike(sides.call(side, {**command, **fields, **(begin if first else {})})),
                     sides.call(side, {**find({"n": 1}), **fields}).get("code")])
    assert seen[1] == seen[0] and seen[0][1] == 251


def test_a_command_that_mongod_would_run_is_refused(sides):
    for command in (find({"f": 1, "$where": "true"}), update({"f": 1, "$where": "true"}),
                    modify({"f": 1, "$where": "true"}),
                    {"explain": find({"f": 1, "$where": "true"}), "verbosity": "executionStats"}):
        answer = sides.call(THROUGH, command)
        assert answer.get("code") == 115 and "rule-f" in answer["errmsg"], answer


UPSERTS = [
    ({"_id": 1}, {"$bad": {"f": 1}}), ({"_id": 1}, [{"$set": {"f": {"$bad": 1}}}]),
    ({"n": {"$where": "x"}}, {"$pull": {"f": 1}}), ({"f": {"$bad": 1}}, {"$pull": {"f": 1}}),
    ({"_id": 1}, {"$pop": {"f": 5}}), ({"_id": 1}, {"$set": {"f.$[]": 1}}), ({"f": 1}, {"$set": {"f.$": 1}}),
    ({"_id": 1, "f": 5}, {"$push": {"f": 1}}),
    ({"_id": 1}, {"_id": 2, "f": [1]}), ({"_id": 1}, {"$inc": {"f": 1, "f.x": 1}}),
    ({"$expr": {"$divide": [1, 0]}, "f": 2}, {"$push": {"f": 1}}),
]


@pytest.mark.parametrize("number", range(len(UPSERTS)))
def test_a_failed_upsert_leaves_the_collection_that_mongod_leaves(sides, number):
    query, change = UPSERTS[number]
    statement = {"q": query, "u": change, "upsert": True}
    commands = {
        "a": {"updates": [statement]}, "b": {"updates": [{**statement, "multi": True}]},
        "c": {"updates": [statement, {"q": {"n": 1}, "u": {"$pull": {"f": 1}}}], "ordered": False},
        "d": {"updates": [{**statement, "upsert": False}]},
    }
    seen = []
    for side in (DIRECT, THROUGH):
        answers = [sides.call(side, {"update": f"new{number}{name}", **command}) for name, command in commands.items()]
        answers.append(sides.call(side,
                                  {"findAndModify": f"new{number}e", "query": query, "update": change, "upsert": True}))
        seen.append([[error["code"] for error in answer.get("writeErrors", [answer])] for answer in answers[:2]])
        named = {"name": {"$regex": f"^new{number}[a-e]$"}}
        seen[-1].append(sorted(sides.client[side].list_collection_names(filter=named)))
    assert seen[0] == seen[1] and seen[0][0]


PLACED = [
    {"_id": 1, "n": 1, "b": [5, 6], "f": [1, 2, 3, 4, 5, 6]}, {"_id": 2, "n": 2, "f": [1]}, {"_id": 3, "n": 3},
    {"_id": 4, "n": 4, "f": 5}, {"_id": 5, "n": 5, "f": []},
    {"_id": 6, "n": 6, "f": {"x": [1]}}, {"_id": 7, "n": 7, "f": [{"x": 1}, {"x": [1, 2]}, {"x": 3}, {"x": 4}],
                                          "p": [{"q": 1}]}, {"_id": 8, "n": 8, "f": [[1], [2], [3], 4]},
]
POSITION = {"f.$": 1, "n": 1}
POSITIONS = [
    *(find({"n": number}) for number in range(10)), find(), {"find": "books"}, find(sort={"n": -1}, limit=1),
    find(sort={"n": 1}, limit=2), find(sort={"n": -1}, limit=3), find(sort={"$natural": 1}),
    find(sort={"$natural": -1}, skip=5),
    find(sort={"f": 1}, limit=5), find(sort={"f": -1}, limit=1), find(skip=20), find(skip=7),
    find(sort={"n": 1}, skip=2, limit=2), find({"n": {"$gte": 3}}, batchSize=2),
    find({"n": {"$in": [3, 4, 6]}}), find({"n": {"$in": [3, 4, 5]}}), find({"f": {"$size": 6}}),
    find({"f": {"$size": 0}}), find({"f": {"$size": 2}}), find({"f": {"$ne": 99}}),
    find({"f": {"$ne": 1}}), find({"f": {"$nin": [1, 3]}, "n": {"$ne": 7}}), find({"f": {"$not": {"$gt": 100}}}),
    find({"f": {"$not": {"$ne": 3}}}), find({"f": {"$not": {"$not": {"$gt": 3}}}}),
    find({"$nor": [{"f": 99}]}), find({"$nor": [{"$nor": [{"f": 3}]}]}),
    find({"$nor": [{"f": 1}, {"f.x": 1}], "n": {"$lt": 7}}), find({"f": {"$ne": 99, "$gt": 3}}),
    find({"f": {"$size": 6, "$gt": 3}}),
    find({"f": {"$gt": 3, "$nin": [77], "$not": {"$lt": 0}}}), find({"$and": [{"n": 1}, {"f": {"$ne": 9}}]}),
    find({"$and": [{"n": 1}, {"f": {"$ne": 9}}, {"f": {"$gte": 4}}]}),
    find({"f.x": {"$ne": 9}, "n": 7}), find({"f.x": {"$ne": 9, "$gte": 3}, "n": 7}),
    find({"f.x": {"$not": {"$gt": 9}}}), find({"n": 1, "$comment": "x"}), find({"_id": 1}),
    find({"_id": {"$in": [1, 3]}}),
    find({"_id": 4}), find({"n": {"$exists": True}}),
    find({"f": {"$not": {"$elemMatch": {"x": 9}}}, "n": {"$in": [6, 7]}}),
    find({"f": {"$elemMatch": {"x": 3}}, "$nor": [{"n": 1}]}),
    find({"n": 1}, singleBatch=True), find({"n": 1}, limit=1, collation={"locale": "de"}),
    find({"n": 4, "f": {"$ne": 1}}), find({"f": {"$not": {"$mod": [2, 0]}}}), find({"f": {"$not": {"$exists": False}}}),
    find({"f": {"$size": 2}, "x": 1}), find({"f": {"$ne": None}}), find({"f": {"$ne": []}}),
    find({"f": {"$nin": [None, []]}}),
]
# another array may say which element is meant
UNTOLD = [find({"b": 5}), find({"n": 1, "b": {"$size": 2}}), find({"p.q": 1})]


@pytest.fixture(scope="module")
def placed(sides):
    """The same documents for both layouts."""
    for side in (DIRECT, THROUGH):
        for layout in ("batch", "element"):
            assert sides.call(side, {"insert": f"{layout}placed", "documents": PLACED})["n"] == len(PLACED)
    for layout in ("batch", "element"):
        wait_for(lambda: sides.client[THROUGH][f"{layout}placed"].count_documents({"f": {"$size": 2}}) == 3,
                 "the arrays to spill")


@pytest.mark.parametrize("layout", ["batch", "element"])
@pytest.mark.parametrize("command", POSITIONS, ids=str)
def test_a_positional_projection_without_a_condition_that_says_which_element(sides, placed, command, layout):
    for projection in (POSITION, {"_id": 0, "f.$": 1}, {"f.$": 1, "y": {"$add": ["$n", 1]}}):
        seen = []
        for side in (DIRECT, THROUGH):
            answer = sides.call(side, {**command, "find": f"{layout}placed", "projection": projection})
            if answer["ok"]:
                answer["cursor"].update(ns="", id=bool(answer["cursor"]["id"]))
            seen.append(answer)
        assert seen[0] == seen[1]


@pytest.mark.parametrize("command", UNTOLD, ids=str)
def test_a_positional_projection_where_another_array_says_which_element(sides, placed, command):
    answer = sides.call(THROUGH, {**command, "find": "batchplaced", "projection": POSITION})
    assert answer.get("code") == 115 and "which element the positional projection means" in answer["errmsg"], answer


@pytest.mark.parametrize("command", [find(sort={"n": -1}), find({"n": {"$gt": 3}}, sort={"n": 1}, skip=2),
                                     find(sort={"f": 1}, limit=0)], ids=str)
def test_a_positional_projection_without_a_condition_is_refused_beside_a_sort_without_a_limit(sides, placed, command):
    """mongod projects all documents before it sorts them, or those that it comes to, where an index sorts."""
    answer = sides.call(THROUGH, {**command, "find": "batchplaced", "projection": POSITION})
    assert answer.get("code") == 115 and "a sort without a limit" in answer["errmsg"], answer


def test_an_explain_runs_a_positional_projection_that_fails(sides, placed):
    """mongod's explain holds the error; Spillway's cannot."""
    command = {"explain": {**find({"n": 1}), "find": "batchplaced", "projection": POSITION},
               "verbosity": "executionStats"}
    direct, through = sides.both(command)
    assert direct["executionStats"]["errorCode"] == 51246 and through["code"] == 115


def test_a_positional_projection_that_fails_in_a_later_batch(sides, placed):
    seen = []
    for side in (DIRECT, THROUGH):
        first = sides.call(side, {"find": "batchplaced", "filter": {"n": {"$in": [3, 4, 6, 7]}}, "projection": POSITION,
                                  "batchSize": 2})
        assert first["ok"] and len(first["cursor"]["firstBatch"]) == 2 and first["cursor"]["id"], (side, first)
        second = {"getMore": Int64(first["cursor"]["id"]), "collection": "batchplaced", "batchSize": 2}
        seen.append(sides.call(side, second))
    assert seen[0]["code"] == 51246 and seen[1] == seen[0]


PARALLEL = [
    ({"l": 1}, None), ({"l": [1]}, None), ({"l": [1], "r": [2]}, ["l", "r"]), ({"l": [], "r": []}, ["r", "x", "l"]),
    ({"l": [{"m": 1}], "r": {"s": [1]}}, ["l.m", "r.s"]),
    ({"l": {"m": [1]}, "r": [{"s": 1}]}, ["l.m", "r.s"]), ({"l": [1], "r": {"s": 2}}, None),
    ({"l": [{"m": 1, "n": 2}]}, None),
]


@pytest.fixture(scope="module")
def listed(sides):
    """Collections for both layouts, by the number of a case: its element is the last of a spilled array."""
    for side in (DIRECT, THROUGH):
        for number, (element, _) in enumerate(PARALLEL):
            for layout in ("batch", "element"):
                documents = [{"_id": 1, "f": [{"x": 1}, {"x": 2}, {"x": 3}, element]}]
                assert sides.call(side, {"insert": f"{layout}{number}", "documents": documents})["n"] == 1
    for number in range(len(PARALLEL)):
        for layout in ("batch", "element"):
            wait_for(lambda: sides.client[THROUGH][f"{layout}{number}"].count_documents({"f": {"$size": 2}}) == 1,
                     "the array to spill")


@pytest.mark.parametrize("layout", ["batch", "element"])
@pytest.mark.parametrize("number", range(len(PARALLEL)))
def test_an_index_over_parallel_arrays(sides, listed, layout, number):
    _, refused = PARALLEL[number]
    for paths in [["l", "r"], ["l.m", "r.s"], ["r", "x", "l"], ["l.m", "l.n"], ["l", "l.m"], ["l"]]:
        index = {"key": {f"f.{path}": 1 for path in paths}, "name": "-".join(paths)}
        codes = [sides.call(side, {"createIndexes": f"{layout}{number}", "indexes": [index]}).get("code")
                 for side in (DIRECT, THROUGH)]
        assert codes[0] == codes[1], (paths, codes)
        assert paths != refused or codes[0] == 171
    names = [sorted(sides.client[side][f"{layout}{number}"].index_information()) for side in (DIRECT, THROUGH)]
    assert names[0] == names[1]


DOCUMENTS = {"$documents": [{"_id": 1, "n": 1, "f": [7, 8]}, {"_id": 5, "f": [{"x": 1}]}, {"f": "$$now"}]}
CONSTANTS = {"$documents": [{"_id": 1, "n": 1, "f": [7, 8], "a": [1]}, {"_id": 5, "n": 2, "f": [{"x": 1}]}, {"_id": 6}]}
JOINED = {"$lookup": {"from": "books", "localField": "n", "foreignField": "n", "as": "j"}}
UNITED = [
    *([{"$unionWith": {"coll": "books", "pipeline": [CONSTANTS, *more]}}] for more in (
        [], [{"$match": {"f": 7}}], [{"$unwind": "$f"}], [{"$set": {"f": {"$slice": ["$f", 1]}}}],
        [{"$project": {"f": 1}}], [{"$sort": {"f": 1}}, {"$limit": 1}], [JOINED],
        [{"$lookup": {**JOINED["$lookup"], "localField": "f", "foreignField": "f"}}],
        [{"$unionWith": "books"}], [{"$facet": {"x": [{"$match": {"f": 8}}]}}],
        [{"$group": {"_id": "$f"}}, {"$sort": {"_id": 1}}])),
    [{"$unionWith": {"pipeline": [CONSTANTS]}}],
    [{"$unwind": "$f"}, {"$unionWith": {"coll": "books", "pipeline": [CONSTANTS]}}, {"$sort": {"f": 1, "_id": 1}}],
    [{"$unionWith": {"coll": "books", "pipeline": [CONSTANTS]}}, {"$match": {"f": {"$gte": 6}}}],
    [{"$unionWith": {"coll": "books", "pipeline": [CONSTANTS]}},
     {"$group": {"_id": None, "n": {"$sum": {"$size": {"$ifNull": ["$f", []]}}}}}],
    [{"$lookup": {"from": "books", "pipeline": [CONSTANTS], "as": "j"}}],
    [{"$lookup": {"from": "books", "let": {"m": "$n"},
                  "pipeline": [CONSTANTS, {"$match": {"$expr": {"$eq": ["$n", "$$m"]}}}], "as": "j"}}],
    [{"$lookup": {"pipeline": [CONSTANTS], "as": "j"}}], [{"$unionWith": {"coll": "books", "pipeline": [DOCUMENTS]}}],
    [{"$lookup": {**JOINED["$lookup"], "pipeline": [CONSTANTS]}}],
]


@pytest.mark.parametrize("stages", UNITED, ids=str)
def test_pipelines_that_begin_with_documents(sides, stages):
    for pipeline in ([{"$sort": {"_id": 1}}, *stages], [{"$match": {"_id": 2}}, *stages]):
        direct, through = sides.both(aggregate(*pipeline))
        assert through == direct


def nested(stage, levels):
    pipeline = [{"$match": {"n": 1}}]
    for _ in range(levels):
        pipeline = [{"$limit": 1}, {stage: {"pipeline": pipeline, **({"from": "books", "as": "b"} if stage == "$lookup"
                                                                     else {"coll": "books"})}}]
    return pipeline


@pytest.mark.parametrize("pipeline, code", [
    (nested("$lookup", 19), None), (nested("$unionWith", 19), None), (nested("$lookup", 20), 232),
    (nested("$unionWith", 20), 232),
    ([{"$match": {"_id": 1}}, {"$unwind": "$f"}] + 968 * [{"$match": {"n": 1}}], None),
], ids=lambda value: len(str(value)))
def test_limits_of_pipelines_as_the_page_on_compatibility_tells_them(sides, pipeline, code):
    direct, through = sides.both(aggregate(*pipeline))
    assert direct["ok"], direct
    assert through.get("code") == code, through
    assert code or len(through["cursor"]["firstBatch"]) == len(direct["cursor"]["firstBatch"])


@pytest.mark.parametrize("command", [
    {"create": "new", "capped": True, "size": 10000}, {"create": "new", "timeseries": {"timeField": "t"}},
    {"create": "new", "validator": {"f": {"$size": 1}}},
    {"collMod": "books", "validator": {"f": 1}}, {"convertToCapped": "books", "size": 100000},
    find({"b": 6}, projection={"b.$": 1, "f": {"$slice": 2}}), find({"f": {"$exists": True}}, projection={"f.$": 1}),
    find({"f": {"$type": 16}}, projection={"f.$": 1}), find({"f": {"$gt": 3}}, projection={"f.$": 1}, sort={"f.x": -1}),
    find({"f.x": 1}, projection={"f.x.$": 1}), find({"n": 1}, projection={"f.x.$": 1}),
    distinct("f.$"), distinct("f.$", query={"n": 1}),
    aggregate({"$lookup": {"from": "books", "localField": "f", "foreignField": "f", "pipeline": [CONSTANTS],
                           "as": "j"}}),
], ids=str)
def test_what_the_page_on_compatibility_lists_is_refused(sides, command):
    answer = sides.call(THROUGH, command)
    assert answer.get("code") == 115 and "rule-" in answer["errmsg"], answer
