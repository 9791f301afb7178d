"""Cursors on a ruled collection and on a plain one: the same batches, open and closed at the same replies."""

import itertools
import random
import uuid

import pymongo
import pytest
from bson import Binary, Decimal128, Int64, decode, decode_all, encode

from support.process import wait_for
from support.twins import PLAIN, twins
from support.wire import EXHAUST_ALLOWED, MORE_TO_COME, Connection

pytestmark = pytest.mark.share(5)
BOOKS = "books"
COUNT = 7
SHAPES = {
    "whole arrays": {},
    "without the array": {"projection": {"list": 0}},
    "a filter on the array": {"filter": {"list": {"$gte": 3}}},
    "a sort on the array": {"sort": {"list": -1, "_id": 1}},
    "a window": {"projection": {"list": {"$slice": [1, 3]}}},
    "the last elements": {"projection": {"list": {"$slice": -2}, "title": 1}},
    "a window without _id": {"projection": {"list": {"$slice": [-4, 3]}, "_id": 0}},
    "computed": {"projection": {"n": {"$size": "$list"}}},
}
# Finds whose cursors mongod closes by its plan: one document by its _id, sorts in memory and by an index.
PLANS = {
    "by _id": {"filter": {"_id": 3}, "projection": {"n": {"$size": "$list"}}},
    "by an operator on _id": {"filter": {"_id": {"$in": [2, 3]}}, "projection": {"n": {"$size": "$list"}}},
    "by _id and the array": {"filter": {"_id": 3, "list": {"$gte": 0}}},
    "in memory": {"filter": {"list": {"$gte": 3}}, "sort": {"title": 1, "_id": 1}},
    "against _id": {"filter": {"list": {"$gte": 3}}, "sort": {"_id": -1}},
    "in no order": {"filter": {"list": {"$gte": 3}, "_id": {"$gt": 1}}, "sort": None},
}
FORWARDED = ("whole arrays", "without the array")  # mongod's own finds
# Where arrays are put together, unless mongod refuses them itself.
REFUSED = ({"tailable": True}, {"awaitData": True}, {"ntoreturn": 2}, {"limit": Decimal128("2")})
SIZES = (None, 0, 1, 2, 3, COUNT - 1, COUNT, COUNT + 1, 100)
LIMITS = (None, 0, 1, 2, 3, COUNT - 1, COUNT, COUNT + 1)


@pytest.fixture(scope="module")
def arms():
    with twins(("rest0", "rest2"), options=("--setParameter", "clientCursorMonitorFrequencySecs=1")) as made:
        made.fill([{"_id": number, "list": list(range(number % 5, number % 5 + 3 + number))}
                   for number in range(COUNT)])
        made.settle()
        yield made


def call(arm, command, connection=None):
    body = encode({**command, "$db": arm.name})
    return decode((connection or arm.connection).call(body).body)


def seen(reply):
    """What a client notices of a reply: the batch, and whether there is more."""
    if not reply["ok"]:
        return reply["code"], reply["errmsg"]
    cursor = reply["cursor"]
    name = "firstBatch" if "firstBatch" in cursor else "nextBatch"
    return name, cursor[name], cursor["id"] != 0, sorted(cursor), cursor["ns"].partition(".")[2]


def walk(arm, command, more=()):
    """All replies to a command and the getMores behind it."""
    reply = call(arm, command)
    replies = [seen(reply)]
    while reply["ok"] and reply["cursor"]["id"]:
        assert len(replies) < 50
        follow = {"getMore": Int64(reply["cursor"]["id"]), "collection": BOOKS, **dict(more)}
        reply = call(arm, follow)
        replies.append(seen(reply))
    return replies


def find(**options):
    """A find without the options that are None, by `_id` where nothing is said of the order."""
    options = {"sort": {"_id": 1}, **options}
    return {"find": BOOKS, **{name: value for name, value in options.items() if value is not None}}


def combinations():
    every = itertools.product(SIZES, LIMITS, (None, 2), (None, True), (None, 1, 3))
    return random.Random(5).sample(list(every), 110)


def without_last_question(replies):
    """Documents and batches; where a pipeline's limit is reached, a client may have to ask once more."""
    if len(replies) > 1 and replies[-1][:2] == ("nextBatch", []):
        replies = replies[:-1]
    return [*replies[:-1], replies[-1][:2]]


@pytest.mark.parametrize("shape", [*SHAPES, *PLANS])
def test_batches_and_their_ends(arms, shape):
    for size, limit, skip, single, more in combinations():
        command = find(**{**SHAPES, **PLANS}[shape], batchSize=size, limit=limit, skip=skip, singleBatch=single)
        follow = {"batchSize": more} if more else {}
        replies = {arm.name: walk(arm, command, follow) for arm in arms.arms}
        shown = (lambda replies: replies) if shape in FORWARDED else without_last_question
        arms.same((command, follow), {name: (all_of[0], shown(all_of)) for name, all_of in replies.items()})


def test_an_index_that_sorts_closes_at_the_limit(arms):
    """Such a sort has mongod close the cursor at the limit. With no index that has the order it stays open.

    Spillway hears of an index that is on no array behind the traffic.
    """
    computed = {"projection": {"n": {"$size": "$list"}}, "limit": 2, "batchSize": 2}
    for arm in arms.arms:
        assert call(arm,
                    {"createIndexes": BOOKS, "indexes": [{"key": {"title": 1, "part": -1}, "name": "order"}]})["ok"]

    def closes(arm):
        return not walk(arm, find(sort={"title": 1}, **computed))[0][2]
    wait_for(lambda: all(closes(arm) for arm in arms.arms), "the new index to be known")
    for sort in ({"title": 1}, {"title": -1, "part": 1}, {"title": 1, "part": 1}, {"part": 1}):
        arms.same(sort, {arm.name: walk(arm, find(sort=sort, **computed))[0] for arm in arms.arms})
    for arm in arms.arms:
        assert call(arm, {"dropIndexes": BOOKS, "index": "order"})["ok"]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("option", [
    {"limit": -2}, {"batchSize": -1}, {"skip": -1}, {"limit": "2"}, {"limit": None, "skip": None, "batchSize": None},
    {"limit": 3.0}, {"limit": -0.5, "batchSize": 2.7, "skip": 1.9}, {"limit": float("inf"), "skip": float("nan")},
    {"skip": 1e30}, {"limit": -1e30}, {"singleBatch": None}, {"singleBatch": 1}, {"noCursorTimeout": "x"},
    {"tailable": True}, {"awaitData": True}, {"ntoreturn": 2}, {"limit": Decimal128("2")}, {"ntoreturn": None},
    {"noCursorTimeout": True, "batchSize": 2}, {"allowDiskUse": True}, {"allowPartialResults": True},
    {"hint": "_id_"}, {"hint": "none"}, {"maxTimeMS": 60000}, {"comment": {"why": 1}},
    {"readConcern": {"level": "majority"}}, {"readConcern": {"level": "available"}},
    {"readConcern": {"level": "linearizable"}}, {"readConcern": {"level": "snapshot"}},
    {"readConcern": {"level": "sometimes"}}, {"$readPreference": {"mode": "secondary"}},
    {"sort": {"$natural": "x"}}, {"sort": {"$natural": -2.5}}, {"sort": {"$natural": 1, "_id": 1}},
    {"sort": {"$natural": -1}, "hint": {"$natural": -1}}, {"sort": {"$natural": 1}, "hint": "_id_"},
    {"pipeline": []}, {"cursor": {}}, {"explain": True}, {"writeConcern": {"w": 1}}, {"what": 1},
], ids=str)
def test_options(arms, shape, option):
    answers = {arm.name: without_last_question(walk(arm, {**find(**SHAPES[shape]), **option}))
               for arm in arms.arms}
    if option in REFUSED and shape not in FORWARDED and answers[PLAIN][0][0] == "firstBatch":
        assert [answers[name][0][0] for name in ("rest0", "rest2")] == [115, 115]
    elif "hint" in option:
        arms.same((shape, option), {name: answer[0][0] for name, answer in answers.items()})
    else:
        arms.same((shape, option), answers)


@pytest.mark.parametrize("numbers", [
    {"limit": 2}, {"limit": -2}, {"limit": 2.5}, {"limit": 2.0}, {"limit": None}, {"limit": "2"}, {"skip": None},
    {"skip": -1}, {"skip": 2.7}, {"skip": "2"}, {"limit": float("nan")}, {"limit": float("inf")},
    {"skip": 3, "limit": 2},
    {"skip": float("inf")}, {"limit": 0}, {"limit": 1e30},
    {"allowDiskUse": True}, {"let": {}}, {"batchSize": 1}, {"cursor": {}}, {"explain": True}, {"what": 1}], ids=str)
def test_counts(arms, numbers):
    for query in ({}, {"list": {"$gte": 3}}):
        command = {"count": BOOKS, "query": query, **numbers}
        answers = {}
        for arm in arms.arms:
            reply = call(arm, command)
            answers[arm.name] = reply.get("n"), reply.get("code"), reply.get("errmsg")
        arms.same(command, answers)


def open_cursor(arm, shape, **more):
    """A cursor that has given its first document."""
    command = {**find(**{**SHAPES, **PLANS}[shape], batchSize=1), **more}
    reply = call(arm, command)
    assert reply["ok"] and reply["cursor"]["id"], reply
    return reply["cursor"]


def get_more(cursor, **more):
    return {"getMore": Int64(cursor["id"]), "collection": BOOKS, **more}


@pytest.mark.parametrize("shape", SHAPES)
def test_another_connection_goes_on(arms, shape):
    answers = {}
    for arm in arms.arms:
        with Connection(arm.port) as other:
            cursor = open_cursor(arm, shape)
            first = call(arm, get_more(cursor, batchSize=2), connection=other)
            rest = call(arm, get_more(cursor))
            again = call(arm, get_more(cursor), connection=other)
            answers[arm.name] = seen(first), seen(rest), again["code"]
    arms.same(shape, answers)


@pytest.mark.parametrize("shape", SHAPES)
def test_another_session_goes_on_with_no_cursor_but_its_own(arms, shape):
    answers = {}
    for arm in arms.arms:
        mine, other = ({"lsid": {"id": Binary(uuid.uuid4().bytes, 4)}} for _ in range(2))
        cursor = open_cursor(arm, shape, **mine)
        refused = [call(arm, get_more(cursor, batchSize=2, **session))["code"] for session in (other, {})]
        answers[arm.name] = refused, seen(call(arm, get_more(cursor, batchSize=2, **mine)))
    arms.same(shape, answers)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("way", ["cursor", "session", "another collection"])
def test_cursors_that_are_killed(arms, shape, way):
    answers = {}
    for arm in arms.arms:
        session = {"lsid": {"id": Binary(uuid.uuid4().bytes, 4)}} if way == "session" else {}
        cursor = open_cursor(arm, shape, **session)
        if way == "cursor":
            killed = call(arm, {"killCursors": BOOKS, "cursors": [Int64(cursor["id"]), Int64(5)]})
            killed = [cursor["id"] in killed["cursorsKilled"], killed["cursorsNotFound"], sorted(killed)]
        elif way == "session":
            killed = decode(arm.connection.call(encode({"killSessions": [session["lsid"]], "$db": "admin"})).body)["ok"]
        else:
            killed = call(arm, {"killCursors": "others", "cursors": [Int64(cursor["id"])]})["ok"]
        after = call(arm, get_more(cursor, **session))
        answers[arm.name] = killed, after.get("code"), after["ok"] and seen(after)
    arms.same((shape, way), answers)


def left_alone(arms, cursors):
    """Longer than mongod waits for its clients, until it has ended so many cursors."""
    def ask(command):
        return decode(arms.direct.call(encode({**command, "$db": "admin"})).body)

    def ended():
        return ask({"serverStatus": 1})["metrics"]["cursor"]["timedOut"]

    before = ended()
    usual = ask({"setParameter": 1, "cursorTimeoutMillis": 1})["was"]
    wait_for(lambda: ended() - before >= cursors, "cursors to be ended")
    ask({"setParameter": 1, "cursorTimeoutMillis": usual})
    return ended() - before


def test_only_where_mongod_finds_itself_a_cursor_is_kept_for_ever(arms):
    opened = {(arm, shape, kept): open_cursor(arm, shape, **({"noCursorTimeout": True} if kept else {}))
              for arm in arms.arms for shape in SHAPES for kept in (True, False)}
    lives = {(arm, shape, kept): kept and (arm.name == PLAIN or shape in FORWARDED) for arm, shape, kept in opened}
    dead = list(lives.values()).count(False)
    assert left_alone(arms, dead) == dead
    for (arm, shape, kept), cursor in opened.items():
        reply = call(arm, get_more(cursor))
        assert (reply["ok"] == 1) == lives[arm, shape,
                                           kept] and reply.get("code", 43) == 43, (arm.name, shape, kept, reply)


def test_a_session_s_cursors_live_as_long_as_it(arms):
    """What drivers open is in one: there it is the session that is kept alive."""
    session = {"lsid": {"id": Binary(uuid.uuid4().bytes, 4)}}
    opened = [(arm, shape, open_cursor(arm, shape, **session)) for arm in arms.arms for shape in SHAPES]
    open_cursor(arms.arms[0], "whole arrays")
    assert left_alone(arms, 1) == 1
    for arm, shape, cursor in opened:
        assert call(arm, get_more(cursor, **session))["ok"], (arm.name, shape)


@pytest.mark.parametrize("shape", SHAPES)
def test_exhaust(arms, shape):
    """PyMongo reads a stream to its end."""
    for arm in arms.arms:
        with pymongo.MongoClient(arm.uri) as client:
            options = {name: SHAPES[shape][name] for name in ("filter", "projection") if name in SHAPES[shape]}
            sort = list(SHAPES[shape].get("sort", {"_id": 1}).items())
            cursor = client[arm.name].books.find(
                **options, sort=sort, batch_size=2, cursor_type=pymongo.CursorType.EXHAUST)
            found = list(cursor)
            assert found == walk(arm, find(**SHAPES[shape]))[0][1]
            raw = client[arm.name].books.find_raw_batches(**options, sort=sort, batch_size=3)
            assert [document for batch in raw for document in decode_all(batch)] == found


def stream(arm, shape, size, **sent):
    """What a client sees of each reply to one getMore that allows exhaust."""
    cursor = open_cursor(arm, shape)
    with Connection(arm.port) as connection:
        number = connection.send(encode({**get_more(cursor, batchSize=size), "$db": arm.name}), flags=EXHAUST_ALLOWED,
                                 **sent)
        parts = []
        while True:
            reply = connection.receive()
            assert reply.response_to == number
            parts.append((bool(reply.flags & MORE_TO_COME), seen(decode(reply.body))))
            number = reply.request_id
            if not reply.flags & MORE_TO_COME:
                break
        assert connection.call(encode({"ping": 1, "$db": arm.name})).plain()["ok"]
        return parts


@pytest.mark.parametrize("shape", [*SHAPES, "by an operator on _id"])
@pytest.mark.parametrize("size", [1, 2, COUNT])
@pytest.mark.parametrize("compressor", [None, "zstd"])
def test_a_get_more_that_allows_exhaust_is_streamed(arms, shape, size, compressor):
    arms.same((shape, size), {arm.name: stream(arm, shape, size, compressor=compressor) for arm in arms.arms})


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("inside", ["transaction", "snapshot"])
def test_a_cursor_sees_the_moment_in_which_it_was_opened(arms, shape, inside):
    """In a transaction or snapshot; what is written meanwhile is not seen."""
    answers = {}
    change = {"update": BOOKS, "updates": [
        {"q": {"_id": 3}, "u": {"$push": {"list": 3.5}}}, {"q": {"_id": 4}, "u": {"$pop": {"list": -1}}},
        {"q": {"_id": 5}, "u": {"$set": {"list.6": -1}}}]}
    back = {"update": BOOKS, "updates": [
        {"q": {"_id": 3}, "u": {"$pop": {"list": 1}}},
        {"q": {"_id": 4}, "u": {"$push": {"list": {"$each": [4], "$position": 0}}}},
        {"q": {"_id": 5}, "u": {"$set": {"list.6": 6}}}]}
    for arm in arms.arms:
        own = {"lsid": {"id": Binary(uuid.uuid4().bytes, 4)}}
        begin = {"readConcern": {"level": "snapshot"}}
        if inside == "transaction":
            own.update(txnNumber=Int64(1), autocommit=False)
            begin["startTransaction"] = True
        before = walk(arm, find(**SHAPES[shape]))[0][1]
        cursor = open_cursor(arm, shape, **own, **begin)
        assert call(arm, change)["n"] == 3
        found = cursor["firstBatch"] + call(arm, get_more(cursor, **own))["cursor"]["nextBatch"]
        if inside == "transaction":
            decode(arm.connection.call(encode({"commitTransaction": 1, **own, "$db": "admin"})).body)
        answers[arm.name] = found, walk(arm, find(**SHAPES[shape])), found == before
        assert found == before
        assert call(arm, back)["n"] == 3
    arms.same((shape, inside), answers)
