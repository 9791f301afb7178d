"""bulkWrite through Spillway, on a mongod that has none: what it does and answers is what the older commands do one
by one on plain collections."""

import itertools
import random
import uuid

import pytest
from bson import Binary, Int64

from support import exact
from support.process import wait_for
from support.verify import verify
from support.wire import MORE_TO_COME, Connection

pytestmark = pytest.mark.share(4)
NAMES = ("books", "pairs")
RULES = [
    {"name": name, "namespace": f"shop_*.{name}", "array": "list", "threshold": 2, "settle": "1ms", "quiet": "1ms",
     "gc_delay": "0s", "flag": {"field": "more", "value": True},
     "overflow": {"layout": "batches", "link": "book", "array": "part", "batch": {"size": 3}}}
    for name in NAMES
]
FREE = ("$clusterTime", "operationTime", "opTime", "electionId")
NUMBERS = itertools.count(1)


class Ends:
    """The way through Spillway and the direct one, to databases of their own with the same documents; those that
    Spillway sees have spilled.
    """

    def __init__(self, through, direct, client):
        self.through, self.direct = through, direct
        number = next(NUMBERS)
        self.ruled, self.plain = f"shop_{number}", f"plain_{number}"
        documents = [{"_id": number, "k": number % 3, "list": list(range(number))} for number in range(9)]
        for name in NAMES:
            for database, connection in ((self.ruled, through), (self.plain, direct)):
                connection.command(database, {"insert": name, "documents": documents})
        rules = [{**rule, "namespace": rule["namespace"].replace("shop_*", self.ruled)} for rule in RULES]
        wait_for(lambda: not any(verify(client, rule) for rule in rules), "the tails to move", pause=0.01)

    def bulk(self, ops, **fields):
        return self.through.command("admin", self.bulk_of(ops, **fields))

    def bulk_of(self, ops, **fields):
        return {"bulkWrite": 1, "ops": ops, "nsInfo": [{"ns": f"{self.ruled}.{name}"} for name in NAMES], **fields}

    def stored(self, connection, database):
        def all_of(name):
            reply = connection.command(database, {"find": name, "sort": {"_id": 1}, "batchSize": 1000})
            return reply["cursor"]["firstBatch"]
        return {name: all_of(name) for name in NAMES}

    def same_documents(self):
        assert self.stored(self.through, self.ruled) == self.stored(self.direct, self.plain)

    def one_by_one(self, ops, ordered=True):
        """Runs the ops on the plain collections; the reply to each."""
        items = []
        for index, op in enumerate(ops):
            command, kind = old_command(op)
            items.append((kind, item_of(index, kind, self.direct.command(self.plain, command))))
            if ordered and not items[-1][1]["ok"]:
                break
        return items

    def shown(self, reply):
        """Without what the server made, and without what an error tells of the namespace."""
        for item in reply["cursor"]["firstBatch"]:
            if "errmsg" in item:
                item["errmsg"] = item["errmsg"].replace(f"{self.ruled}.", f"{self.plain}.")
        return {name: value for name, value in reply.items() if name not in FREE}


@pytest.fixture
def ends(cluster, spillway):
    with Connection(spillway.port) as through, Connection(cluster.primary.port) as direct, cluster.client() as client:
        yield Ends(through, direct, client)


def session():
    return {"lsid": {"id": Binary(uuid.uuid4().bytes, 4)}, "txnNumber": Int64(next(NUMBERS))}


# ---- the model: one older command for each op ----

OLD = {"filter": "q", "updateMods": "u", "constants": "c"}


def old_command(op):
    """(command, what it is)."""
    kind, number = next(iter(op.items()))
    name = NAMES[number]
    if kind == "insert":
        return {"insert": name, "documents": [op["document"]]}, kind
    statement = {OLD.get(field, field): value for field, value in op.items() if field not in (kind, "multi")}
    if kind == "update":
        return {"update": name, "updates": [{**statement, "multi": op.get("multi", False)}]}, kind
    return {"delete": name, "deletes": [{**statement, "limit": 0 if op.get("multi") else 1}]}, kind


def item_of(index, kind, reply):
    changed = {"nModified": reply["nModified"]} if kind == "update" else {}
    if "writeErrors" in reply:
        error = {field: value for field, value in reply["writeErrors"][0].items() if field != "index"}
        return {"ok": 0.0, "idx": index, **error, "n": 0, **changed}
    upserted = {"upserted": {"_id": reply["upserted"][0]["_id"]}} if "upserted" in reply else {}
    return {"ok": 1.0, "idx": index, "n": reply["n"], **changed, **upserted}


def answer(items, errors_only):
    def total(kind, field="n"):
        return sum(item.get(field, 0) for each, item in items if each == kind)
    upserted = sum("upserted" in item for _, item in items)
    listed = [item for _, item in items if not errors_only or not item["ok"]]
    return {
        "cursor": {"id": 0, "firstBatch": listed, "ns": "admin.$cmd.bulkWrite"},
        "nErrors": sum(not item["ok"] for _, item in items), "nInserted": total("insert"),
        "nMatched": total("update") - upserted, "nModified": total("update", "nModified"), "nUpserted": upserted,
        "nDeleted": total("delete"), "ok": 1.0,
    }


# ---- ops ----

def random_op(chance):
    """One that a rule has to do with, or not, or that fails."""
    number = chance.randrange(2)
    filter_ = chance.choice([{"_id": chance.randrange(12)}, {"k": chance.randrange(3)}, {"list": chance.randrange(8)}])
    one = {"_id": chance.randrange(12)}

    def update(change, query=one, **more):
        return {"update": number, "filter": query, "updateMods": change, **more}

    return chance.choice([
        lambda: {"insert": number, "document": {"_id": chance.randrange(16), "k": 1, "list": list(range(6))}},
        lambda: {"insert": number, "document": {"_id": chance.randrange(16), "k": 2}},
        lambda: update({"$push": {"list": chance.randrange(9)}}, upsert=chance.random() < 0.3),
        lambda: update({"$push": {"list": {"$each": [7, 8], "$position": 1}}}),
        lambda: update({"$pull": {"list": chance.randrange(9)}}, filter_, multi=chance.random() < 0.5),
        lambda: update({"$pop": {"list": 1}}),
        lambda: update({"$addToSet": {"list": chance.randrange(12)}}),
        lambda: update({"$set": {"list.3": "x"}}),
        lambda: update({"$set": {"list.$[e]": "y"}}, arrayFilters=[{"e": {"$gt": 4}}]),
        lambda: update({"$set": {"list": [1, 2, 3, 4]}}, filter_, multi=chance.random() < 0.5),
        lambda: update([{"$set": {"list": {"$concatArrays": ["$list", [1]]}}}], {**one, "list": {"$exists": True}}),
        lambda: update({"$inc": {"k": 1}}, filter_, multi=chance.random() < 0.5),
        lambda: update({"k": 1, "list": [4, 5, 6]}),
        lambda: update({"$nothing": {"k": 1}}),
        lambda: update({"$push": {"k": 1}}),
        lambda: {"delete": number, "filter": filter_ if "list" in filter_ else one},
        lambda: {"delete": number, "filter": {"_id": {"$gte": 14}}, "multi": True},
    ])()


@pytest.mark.parametrize("seed", range(24))
def test_it_does_what_the_older_commands_do_one_by_one(ends, seed):
    chance = random.Random(seed)
    ordered, errors_only = seed % 2 == 0, seed % 4 < 2
    for _ in range(4):
        ops = [random_op(chance) for _ in range(chance.randrange(1, 12))]
        reply = ends.bulk(ops, ordered=ordered, errorsOnly=errors_only)
        assert ends.shown(reply) == answer(ends.one_by_one(ops, ordered), errors_only), ops
        ends.same_documents()


# ---- forms, sessions ----

PULL = {"update": 0, "filter": {"_id": 8}, "updateMods": {"$pull": {"list": 5}}}
WRITES = [{"insert": 0, "document": {"_id": 20, "list": list(range(9))}}, PULL,
          {"update": 1, "filter": {"_id": 7}, "updateMods": {"$push": {"list": 99}}},
          {"delete": 1, "filter": {"_id": 8}}]


def test_parts_may_be_document_sequences(ends):
    parts = [("ops", [exact.document(op) for op in WRITES]),
             ("nsInfo", [exact.document({"ns": f"{ends.ruled}.{name}"}) for name in NAMES])]
    for first in (False, True):
        reply = ends.through.call(
            exact.document({"bulkWrite": 1, "errorsOnly": True, "ordered": False, "$db": "admin"}),
            parts, sequence_first=first, compressor="zlib")
        assert reply.compressor == "zlib"
        assert ends.shown(reply.plain()) == answer(ends.one_by_one(WRITES, False), True)
    ends.same_documents()


def sized_ops():
    """Six results: one of them an error, one with an `_id` that an expression would read otherwise."""
    return [
        {"insert": 0, "document": {"_id": 50, "list": [1, 2, 3, 4]}}, {"insert": 0, "document": {"_id": 50}},
        {"update": 0, "filter": {"_id": {"x": "$list"}}, "updateMods": {"$set": {"k": 1}}, "upsert": True},
        {"update": 1, "filter": {"_id": 8}, "updateMods": {"$push": {"list": 1}}}, {"delete": 1, "filter": {"_id": 3}},
        {"delete": 0, "filter": {"list": 7}},
    ]


def rest_of(ends, cursor, size=2, **fields):
    """The batches behind the first, read through Spillway by another connection."""
    batches = []
    database, name = cursor["ns"].split(".", 1)
    with Connection(ends.through.socket.getpeername()[1]) as other:
        while cursor["id"]:
            cursor = other.command(database, {"getMore": Int64(cursor["id"]), "collection": name, "batchSize": size,
                                              **fields})["cursor"]
            batches.append(cursor["nextBatch"])
    return batches


@pytest.mark.parametrize("size", range(8))
@pytest.mark.parametrize("in_session", [False, True])
def test_results_come_as_many_at_a_time_as_the_client_says(ends, size, in_session):
    fields = {"lsid": session()["lsid"]} if in_session else {}
    expected = answer(ends.one_by_one(sized_ops(), ordered=False), False)
    reply = ends.shown(ends.bulk(sized_ops(), ordered=False, cursor={"batchSize": size}, **fields))
    cursor = reply.pop("cursor")
    batches = [cursor["firstBatch"], *rest_of(ends, cursor, **fields)]
    items = [item for batch in batches for item in batch]
    for item in items:
        if "errmsg" in item:
            item["errmsg"] = item["errmsg"].replace(f"{ends.ruled}.", f"{ends.plain}.")
    assert items == expected.pop("cursor")["firstBatch"] and reply == expected
    assert len(batches[0]) == min(size, 6) and all(len(batch) <= 2 for batch in batches[1:])
    assert bool(cursor["id"]) == (size < 6)
    ends.same_documents()


def test_a_cursor_of_results_can_be_closed(ends):
    cursor = ends.bulk(sized_ops(), ordered=False, cursor={"batchSize": 1})["cursor"]
    database, name = cursor["ns"].split(".", 1)
    killed = ends.through.command(database, {"killCursors": name, "cursors": [Int64(cursor["id"])]})
    assert killed["cursorsKilled"] == [cursor["id"]]
    assert ends.through.command(database, {"getMore": Int64(cursor["id"]), "collection": name})["code"] == 43


@pytest.mark.parametrize("failing", [False, True])
def test_a_cursor_of_results_in_a_transaction(ends, failing):
    fields = {**session(), "autocommit": False}
    ops = sized_ops() if failing else [op for number, op in enumerate(sized_ops()) if number != 1]
    reply = ends.bulk(ops, cursor={"batchSize": 1}, startTransaction=True, **fields)
    cursor = reply["cursor"]
    assert reply["ok"] and reply["nErrors"] == failing
    if failing:
        assert not cursor["id"] and [item["idx"] for item in cursor["firstBatch"]] == [0, 1]
        return
    items = [item for batch in [cursor["firstBatch"], *rest_of(ends, cursor, **fields)] for item in batch]
    assert [item["idx"] for item in items] == list(range(5))
    assert ends.through.command("admin", {"commitTransaction": 1, **fields})["ok"]
    assert ends.through.command(ends.ruled, {"find": "books", "filter": {"_id": 50}})["cursor"]["firstBatch"]


def test_a_retry_answers_from_history(ends):
    fields = session()
    replies = [ends.shown(ends.bulk(WRITES, **fields)) for _ in range(2)]
    ends.one_by_one(WRITES)
    ends.same_documents()
    assert "retriedStmtIds" not in replies[0] and replies[1].pop("retriedStmtIds") == [0, 1, 2, 3]
    assert replies[0] == replies[1]


@pytest.mark.parametrize("end", ["commitTransaction", "abortTransaction"])
def test_a_transaction_holds_all_of_it(ends, end):
    before = ends.stored(ends.direct, ends.plain)
    fields = {**session(), "autocommit": False}
    reply = ends.bulk(WRITES[:2], startTransaction=True, **fields)
    assert (reply["ok"], reply["nErrors"], reply["nInserted"], reply["nModified"]) == (1.0, 0, 1, 1), reply
    reply = ends.bulk(WRITES[2:], **fields)
    assert (reply["ok"], reply["nErrors"], reply["nModified"], reply["nDeleted"]) == (1.0, 0, 1, 1), reply
    with Connection(ends.through.socket.getpeername()[1]) as other:
        assert ends.stored(other, ends.ruled) == before
    assert ends.through.command("admin", {end: 1, **fields})["ok"] == 1.0
    if end == "commitTransaction":
        ends.one_by_one(WRITES)
    ends.same_documents()


def test_an_error_in_a_transaction_ends_it(ends):
    fields = {**session(), "autocommit": False}
    twice = {"insert": 1, "document": {"_id": 3}}
    reply = ends.bulk([*WRITES[:2], twice, WRITES[2]], ordered=False, startTransaction=True, **fields)
    assert (reply["nErrors"], reply["nInserted"], reply["nModified"]) == (1, 1, 1), reply
    item = reply["cursor"]["firstBatch"][-1]
    assert (item["idx"], item["code"], item["keyPattern"], item["n"]) == (2, 11000, {"_id": 1}, 0)
    assert ends.through.command("admin", {"commitTransaction": 1, **fields})["code"] == 251  # NoSuchTransaction
    ends.same_documents()


def test_one_without_an_answer_is_done_before_the_next_request(ends):
    command = {**ends.bulk_of(WRITES, writeConcern={"w": 0}), "$db": "admin"}
    assert ends.through.call(exact.document(command), flags=MORE_TO_COME) is None
    ends.one_by_one(WRITES)
    ends.same_documents()


REFUSED = [  # by mongod itself
    {"update": 0, "filter": {"list": {"$near": [0, 0]}}, "updateMods": {"$set": {"k": 1}}},
    {"delete": 1, "filter": {"list": 1, "$where": 5}},
    {"update": 1, "filter": {"$or": [{"z": {"$near": [1, 1]}}, {"list": 2}]}, "updateMods": {"$push": {"list": 1}}},
]


@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize("errors_only", [True, False])
@pytest.mark.parametrize("places", [[0], [1], [4], [0, 1, 2], [1, 3, 5], [6]])
def test_ops_that_mongod_refuses_have_its_errors(ends, ordered, errors_only, places):
    ops = [op for number, op in enumerate(sized_ops()) if number != 1]
    for refused, place in zip(REFUSED, places):
        ops.insert(place, refused)
    items = ends.one_by_one(ops, ordered)
    reply = ends.shown(ends.bulk(ops, ordered=ordered, errorsOnly=errors_only, **session()))
    assert reply == answer(items, errors_only) and reply["nErrors"] == (1 if ordered else len(places))
    ends.same_documents()


def test_only_ops_that_mongod_refuses(ends):
    for ordered in (True, False):
        reply = ends.shown(ends.bulk(REFUSED, ordered=ordered, cursor={"batchSize": 5}))
        assert reply == answer(ends.one_by_one(REFUSED, ordered), False)
    ends.same_documents()


def test_an_op_that_only_spillway_refuses_beside_one_that_mongod_refuses(ends):
    reply = ends.bulk([sized_ops()[0], REFUSED[0], {"delete": 1, "filter": {"list": 1, "$where": "true"}}],
                      ordered=False)
    assert reply["code"] == 115 and "$where" in reply["errmsg"]
    fields = {**session(), "autocommit": False, "startTransaction": True}
    assert ends.bulk([sized_ops()[0], REFUSED[0]], **fields)["code"] == 115
    ends.same_documents()


def test_nothing_is_done_where_one_op_is_refused(ends):
    for op in ({"insert": 1, "document": {"_spill": 1}}, {"delete": 1, "filter": {"$where": "this.list"}},
               {"update": 5, "filter": {}, "updateMods": {}}, {"insert": 0}):
        assert ends.bulk([*WRITES, op])["ok"] == 0.0
    ends.same_documents()
