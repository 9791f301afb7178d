"""Edits in a client's transaction: seen inside, not outside; whole when it is committed, without a trace when it is
aborted.

Each transaction runs at mongod on a plain collection and through Spillway on arrays that have moved: every reply
must be the same.
"""

import itertools
import threading
import uuid

import pymongo
import pytest
from bson import Binary, Int64
from test_edit_cuts import EDITS, FREE, LIST, RULE, update
from test_edit_failpoints import Failing, named

from support import exact
from support.cluster import Cluster
from support.process import wait_for
from support.shim import Shim
from support.spillway import Spillway
from support.verify import verify
from support.wire import Closed, Connection

pytestmark = pytest.mark.share(5)
SECOND = [4, 5, 6, 7, 8, 9]
OPERATIONS = {
    **EDITS,
    "old image": {"findAndModify": "@", "query": {"_id": "#"}, "update": {"$pop": {"list": 1}}},
    "removed": {"findAndModify": "@", "query": {"list": 7, "n": 1}, "remove": True},
    "set by match": update({"$set": {"list.$": "seven"}}, {"list": 7}),
    "set by filter": update({"$set": {"list.$[large]": 0}}, arrayFilters=[{"large": {"$gt": 4}}]),
    "multi": {"update": "@", "updates": [{"q": {}, "u": {"$pull": {"list": {"$in": [4, 6]}}}, "multi": True}]},
    "multi by the array": {"update": "@", "updates": [{"q": {"list": 9}, "u": {"$pop": {"list": 1}}, "multi": True}]},
    "insert": {"insert": "@", "documents": [{"_id": "third", "list": LIST}, {"_id": "fourth", "list": []}]},
    "upsert": {"update": "@", "updates": [{"q": {"_id": "third"}, "u": {"$push": {"list": 1}}, "upsert": True}]},
    "upsert by the array": {"update": "@", "updates": [
        {"q": {"_id": "third", "list": {"$ne": 3}}, "u": {"$push": {"list": 3}}, "upsert": True}]},
    "replace": update({"n": 3, "list": LIST[::-1]}),
    "set whole": update({"$set": {"list": [1]}}),
    "unset": update({"$unset": {"list": ""}}),
    "elsewhere": update({"$inc": {"n": 1}}),
    "nothing": update({"$pull": {"list": 11}}),
    "delete many": {"delete": "@", "deletes": [{"q": {"list": {"$size": 6}}, "limit": 0}]},
    "several": {"update": "@", "updates": [
        {"q": {"_id": "#"}, "u": {"$push": {"list": 8}}},
        {"q": {"list": 8}, "u": {"$pull": {"list": 8}}, "multi": True},
        {"q": {"_id": "second"}, "u": {"$addToSet": {"list": 9}}}, {"q": {"_id": "none"}, "u": {"$pop": {"list": 1}}}]},
    "duplicate": {"insert": "@", "documents": [{"_id": "second", "list": []}]},
    "no array": update({"$pull": {"n": 1}}),
}
READS = [
    {"find": "@", "sort": {"_id": 1}},
    {"find": "@", "filter": {"n": {"$gt": 0}}, "projection": {"list": 1}, "sort": {"_id": -1}},
    {"aggregate": "@", "pipeline": [{"$match": {"n": {"$lt": 9}}}, {"$sort": {"_id": 1}}], "cursor": {}},
]
ALL = READS[0]
FAILURES = {"conflict": {"errorCode": 112}, "shutdown": {"errorCode": 91}, "closed": {"closeConnection": True}}
COMMIT, ABORT = "commitTransaction", "abortTransaction"


class Transaction:
    """A session's one transaction, on one connection."""

    def __init__(self, place, connection, collection):
        self.place = place
        self.connection = connection
        self.collection = collection
        self.session = [("lsid", {"id": Binary(uuid.uuid4().bytes, 4)}), ("txnNumber", Int64(1)), ("autocommit", False)]
        self.begun = False
        place.open.append(self)

    def call(self, command):
        start = [] if self.begun else [("startTransaction", True)]
        self.begun = True
        return told(self.place.call(self.connection, command, self.collection, [*self.session, *start]))

    def end(self, how):
        self.place.open.remove(self)
        return told(self.place.call_admin(self.connection, [(how, 1), *self.session]))


def told(reply):
    """What must be equal: neither times nor names of collections."""
    kept = {name: value for name, value in reply.items() if name not in FREE}
    return {**kept, "cursor": {**kept["cursor"], "ns": "@"}} if "cursor" in kept else kept


class Shop(Failing):
    """Two books each, and both ways to them."""

    def __init__(self, cluster, shim, cut, other):
        super().__init__(cluster, shim, cut, other)
        self.through = self.other
        self.open = []

    def call_admin(self, connection, parts):
        return connection.call(exact.document([*parts, ("$db", "admin")])).plain()

    def fill(self):
        for transaction in list(self.open):  # a test that failed left it
            transaction.end(ABORT)
        super().fill()
        for collection, connection in (("books", self.other), ("plain", self.direct)):
            self.call(connection, {"insert": collection, "documents": [{"_id": "second", "n": 2, "list": SECOND}]})
        self.rest()

    def rest(self):
        """Until the mover leaves the books alone: what it writes would conflict too."""
        wait_for(self.resting, "the tails to move", pause=0.002)

    def resting(self):
        findings = verify(self.client, RULE)
        return not findings.corrupt and not findings.unfinished

    def ways(self):
        return [(self.direct, "plain"), (self.through, "books")]

    def seen(self):
        """All books as others see them, at mongod and through Spillway."""
        return [told(self.call(connection, ALL, collection)) for connection, collection in self.ways()]


@pytest.fixture(scope="module")
def cluster():
    with Cluster(durable=False) as made:
        yield made


@pytest.fixture(scope="module")
def spillway(cluster):
    with Spillway([cluster.primary], [RULE]) as made:
        yield made


@pytest.fixture(scope="module")
def shop(cluster, spillway):
    with Shim(cluster.primary.port) as shim:
        upstream = {"upstream": {"uri": f"mongodb://{cluster.primary.address}/"}}
        with Spillway([shim], [RULE], upstream) as cut:
            yield Shop(cluster, shim, cut, spillway)


def both(shop):
    """A transaction at mongod, and one through Spillway."""
    return [Transaction(shop, connection, collection) for connection, collection in shop.ways()]


def same(transactions, command):
    plain, through = (transaction.call(command) for transaction in transactions)
    assert without_text(through) == without_text(plain), command
    return through


def without_text(reply):
    """mongod's texts name collections and indexes."""
    errors = [{**error, "errmsg": ""} for error in reply.get("writeErrors", ())]
    return {**reply, "errmsg": "", "writeErrors": errors}


def end(transactions, how):
    plain, through = (transaction.end(how) for transaction in transactions)
    assert without_text(through) == without_text(plain)


@pytest.mark.parametrize("how", [COMMIT, ABORT])
@pytest.mark.parametrize("first", ["it comes first", "it comes behind a read"])
@pytest.mark.parametrize("name", OPERATIONS)
def test_an_operation(shop, name, first, how):
    shop.fill()
    before = shop.seen()
    transactions = both(shop)
    if first != "it comes first":
        same(transactions, ALL)
    reply = same(transactions, OPERATIONS[name])
    failed = reply["ok"] == 0 or "writeErrors" in reply
    for read in [] if failed else READS:
        same(transactions, read)
    assert shop.seen() == before, "seen before it is committed"
    end(transactions, how)
    plain, through = shop.seen()
    assert through == plain
    assert failed or how == COMMIT or [plain, through] == before


@pytest.mark.parametrize("how", [COMMIT, ABORT])
def test_all_operations_in_one(shop, how):
    shop.fill()
    before = shop.seen()
    names = [name for name in OPERATIONS
             if name not in ("duplicate", "no array", "removed", "delete", "upsert by the array")]
    transactions = both(shop)
    for name in names:
        same(transactions, OPERATIONS[name])
        for read in READS:
            same(transactions, read)
    assert shop.seen() == before
    end(transactions, how)
    plain, through = shop.seen()
    assert through == plain
    assert how == COMMIT or [plain, through] == before


REFUSED = {
    "a filter that can't be judged": {"update": "@", "updates": [
        {"q": {"$where": "this.list.length > 1"}, "u": {"$push": {"list": 7}}}]},
    "a modification by such a filter": {"findAndModify": "@", "query": {"$where": "this.list.length > 1"},
                                        "remove": True},
    "the state": update({"$set": {"_spill": 1}}),
    "a read": {"find": "@", "filter": {"list": {"$gt": 1, "$lt": 8}}, "projection": {"list.$": 1}},
    "a second q": {"update": "@", "updates": [
        (exact.DOCUMENT, exact.pairs_of([("q", {"n": 1}), ("q", {}), ("u", {"$pop": {"list": 1}})]))]},
}
OF_MONGOD = ("a second q",)  # mongod refuses it itself
WRONG = update({"$pull": {"n": 1}})


@pytest.mark.parametrize("first", ["it comes first", "it comes behind a write"])
@pytest.mark.parametrize("name", REFUSED)
def test_a_refusal_ends_it_as_an_error_of_mongod_does(shop, name, first):
    shop.fill()
    before = shop.seen()
    plain, through = transactions = both(shop)
    if first != "it comes first":
        same(transactions, OPERATIONS["push in front"])
    reply = plain.call(WRONG)
    assert reply["ok"] == 0 or reply["writeErrors"]
    reply = through.call(REFUSED[name])
    ours = reply["errmsg"].startswith("Spillway rule")
    assert reply["ok"] == 0 and ours == (name not in OF_MONGOD), reply
    reply = same(transactions, OPERATIONS["elsewhere"])
    assert (reply["code"], reply["errorLabels"]) == (251, ["TransientTransactionError"])
    end(transactions, COMMIT)
    assert shop.seen() == before


def require_conflict(transactions, command):
    reply = same(transactions, command)
    assert (reply["code"], reply["errorLabels"]) == (112, ["TransientTransactionError"])
    end(transactions, ABORT)


@pytest.mark.parametrize("name", EDITS)
def test_two_conflict(shop, name):
    """The second cannot write what the first has written; what it was to do fits in again afterwards."""
    shop.fill()
    first, second, third = both(shop), both(shop), both(shop)
    same(second, ALL)
    same(first, OPERATIONS["push in front"])
    require_conflict(second, EDITS[name])
    end(first, COMMIT)
    shop.rest()
    same(third, EDITS[name])
    end(third, COMMIT)
    plain, through = shop.seen()
    assert through == plain


@pytest.mark.parametrize("name", EDITS)
def test_what_changed_since_conflicts(shop, name):
    shop.fill()
    transactions = both(shop)
    same(transactions, ALL)
    for connection, collection in shop.ways():
        assert shop.call(connection, OPERATIONS["pipeline"], collection)["n"] == 1
    require_conflict(transactions, EDITS[name])
    plain, through = shop.seen()
    assert through == plain


class Outside(threading.Thread):
    """An edit outside any transaction, on a connection of its own."""

    def __init__(self, shop, port, collection, command):
        super().__init__(daemon=True)
        self.shop, self.port, self.collection, self.command = shop, port, collection, command
        self.reply = None

    def run(self):
        with Connection(self.port, timeout=60) as connection:
            self.reply = told(self.shop.call(connection, self.command, self.collection))

    def waiting(self):
        running = self.shop.client.admin.command("currentOp", ns=f"shop.{self.collection}")["inprog"]
        return any(operation.get("writeConflicts", 0) > 0 for operation in running)


@pytest.mark.parametrize("how", [COMMIT, ABORT])
@pytest.mark.parametrize("name", EDITS)
def test_an_edit_outside_waits(shop, name, how):
    shop.fill()
    transactions = both(shop)
    same(transactions, OPERATIONS["pop"])
    edits = [Outside(shop, shop.ports[where], collection, EDITS[name])
             for where, collection in (("mongod", "plain"), ("other", "books"))]
    for edit in edits:
        edit.start()
        wait_for(edit.waiting, "the edit to meet the transaction")
    end(transactions, how)
    for edit in edits:
        edit.join()
    plain, through = edits
    assert through.reply == plain.reply
    plain, through = shop.seen()
    assert through == plain


def failing_reply(shop, transaction, command):
    """None where the connection ends without one."""
    try:
        return transaction.call(command)
    except (Closed, OSError):
        return None
    finally:
        shop.off()


def fail_at(shop, number, name, failure):
    """The reply to an edit in a transaction whose command of that number fails; how many it sent."""
    with named(shop.ports["cut"]) as connection:
        transaction = Transaction(shop, connection, "books")
        shop.shim.restart(shop.failing_at(number, FAILURES[failure]))
        passed = shop.shim.requests
        reply = failing_reply(shop, transaction, EDITS[name])
        transaction.connection = shop.direct
        transaction.end(ABORT)
    return reply, len([request for request in passed if not request.handshake()])


def failure_of_mongod(shop, name, failure):
    with named(shop.ports["mongod"]) as connection:
        transaction = Transaction(shop, connection, "plain")
        shop.fail_next(next(iter(EDITS[name])), FAILURES[failure])
        reply = failing_reply(shop, transaction, EDITS[name])
        transaction.connection = shop.direct
        transaction.end(ABORT)
    return reply


@pytest.mark.parametrize("failure", FAILURES)
@pytest.mark.parametrize("name", EDITS)
def test_a_command_fails(shop, name, failure):
    """It is told as mongod tells it, so that a driver begins the transaction again; nothing is left of it."""
    shop.fill()
    before = shop.seen()
    failed = failure_of_mongod(shop, name, failure)
    assert failed is None or failed["errorLabels"] == ["TransientTransactionError"]
    for number in itertools.count(1):
        reply, sent = fail_at(shop, number, name, failure)
        assert shop.seen() == before
        if sent < number:
            break
        assert reply == failed, f"at command {number} of {sent}"
    assert number > 1
    assert reply["ok"] == 1


class Carrier(threading.Thread):
    """Carries the first element of one array to another, in transactions that PyMongo repeats where they conflict."""

    def __init__(self, port, number):
        super().__init__(daemon=True)
        self.port = port
        self.number = number
        self.tries = 0
        self.failure = None

    def run(self):
        try:
            with pymongo.MongoClient("127.0.0.1", self.port, directConnection=True, w="majority") as client:
                for turn in range(12):
                    with client.start_session() as session:
                        session.with_transaction(lambda session: self._carry(client.shop.shelves, session, turn))
        except BaseException as failure:  # pytest sees it in the main thread
            self.failure = failure

    def _carry(self, shelves, session, turn):
        self.tries += 1
        one, other = (0, 1) if (self.number + turn) % 2 else (1, 0)
        [book, *_] = shelves.find_one({"_id": one}, session=session)["list"]
        assert shelves.update_one({"_id": one}, {"$pull": {"list": book}}, session=session).modified_count == 1
        change = {"$push": {"list": {"$each": [book], "$position": 5}}}
        assert shelves.update_one({"_id": other, "list": {"$ne": book}}, change, session=session).modified_count == 1
        found = shelves.find({}, session=session)
        assert sorted(book for shelf in found for book in shelf["list"]) == list(range(20))


def test_pymongo_repeats_what_conflicts(cluster, shop):
    rule = {**RULE, "name": "shelves", "namespace": "shop.shelves",
            "overflow": {**RULE["overflow"], "collection": "more_shelves"}}
    rules = [RULE, rule]
    with Spillway([cluster.primary], rules) as one, Spillway([cluster.primary],
                                                             rules) as two, cluster.client() as direct:
        direct.shop.shelves.insert_many([{"_id": 0, "list": list(range(10))}, {"_id": 1, "list": list(range(10, 20))}])
        carriers = [Carrier((one, two)[number % 2].port, number) for number in range(4)]
        for carrier in carriers:
            carrier.start()
        for carrier in carriers:
            carrier.join()
            if carrier.failure:
                raise carrier.failure
        with pymongo.MongoClient("127.0.0.1", two.port, directConnection=True) as client:
            assert sorted(book for shelf in client.shop.shelves.find() for book in shelf["list"]) == list(range(20))
        assert sum(carrier.tries for carrier in carriers) > 4 * 12, "nothing conflicted"
        wait_for(lambda: not verify(direct, rule), "the tails to move")
