"""Edits at the limits: arrays beyond 16 MB, large elements without a pause, as many statements and bytes as a
command holds."""

import contextlib
import time

import pymongo
import pytest
from test_edit_transactions import without_text

from support import exact
from support.cluster import Cluster
from support.process import wait_for
from support.spillway import Spillway
from support.verify import verify
from support.wire import Connection

RULE = {
    "name": "limits", "namespace": "shop.books", "array": "list", "threshold": 2,
    "settle": "10ms", "quiet": "10ms", "gc_delay": "0s", "flag": {"field": "more", "value": True},
    "overflow": {"collection": "more_books", "layout": "batches", "link": "book", "array": "part"},
}
MB = 1000 * 1000
NEAR = 14 * MB  # what no document comes to
MESSAGE = 48 * MB
STATEMENTS = 100 * 1000
TOO_LARGE, INVALID_LENGTH = 10334, 16
TIMES = ("$clusterTime", "operationTime", "opTime", "electionId")


def element(number, size):
    return number.to_bytes(4, "big") * (size // 4)


def equal(found, expected):
    """Compared without pytest's view of what differs, which takes long for so much."""
    return found == expected


class Place:
    """Connections and clients straight to mongod and through Spillway."""

    def __init__(self, cluster, spillway):
        self.cluster = cluster
        self.direct = cluster.client()
        self.client = pymongo.MongoClient("127.0.0.1", spillway.port, directConnection=True)
        self.ways = {"plain": Connection(cluster.primary.port, timeout=60),
                     "books": Connection(spillway.port, timeout=60)}
        self.books = self.client.shop.books

    def clear(self):
        for collection in (self.books, self.direct.shop.plain):
            collection.delete_many({})

    def rest(self):
        def resting():
            findings = verify(self.direct, RULE)
            return not findings.corrupt and not findings.unfinished
        wait_for(resting, "the tails to move", pause=0.02)

    def same(self, name, options, sequence, documents):
        """The reply of both ways to a command whose documents come as a sequence."""
        replies = {}
        for collection, connection in self.ways.items():
            body = exact.document({name: collection, **options, "$db": "shop"})
            reply = connection.call(body, [(sequence, documents)]).plain()
            replies[collection] = without_text({key: value for key, value in reply.items() if key not in TIMES})
        assert replies["books"] == replies["plain"]
        return replies["books"]

    def require_same_documents(self):
        """Read without an order in memory; the plain ones may come in another one."""
        found = {book["_id"]: book for book in self.books.find()}
        assert equal(found, {book["_id"]: book for book in self.direct.shop.plain.find()})


@pytest.fixture(scope="module")
def place():
    with Cluster() as cluster, Spillway([cluster.primary], [RULE]) as spillway:
        yield Place(cluster, spillway)


@pytest.fixture(scope="module")
def huge(place):
    """A book whose array is 20 MB, at rest, and its elements."""
    place.clear()
    elements = [element(number, MB) for number in range(20)]
    place.books.insert_one({"_id": "huge", "n": 1, "list": elements[:10]})
    place.books.update_one({"_id": "huge"}, {"$push": {"list": {"$each": elements[10:14]}}})
    place.rest()
    place.books.update_one({"_id": "huge"}, {"$push": {"list": {"$each": elements[14:]}}})
    place.rest()
    return elements


# Other edits are done in place (test_edit_in_place.py).
NEEDING_THE_WHOLE = {
    "push in front": {"$push": {"list": {"$each": [1], "$position": 0}}, "$inc": {"n": 1}},
    "push and slice": {"$push": {"list": {"$each": [1], "$slice": -4}}},
    "several to the set": {"$addToSet": {"list": {"$each": [1, 2]}}},
    "pipeline": [{"$set": {"list": {"$slice": ["$list", 4]}, "n": 2}}],
}


def stored(place):
    """What stands in the database, byte by byte."""
    return [list(place.direct.shop[name].find({}, sort=[("_id", 1)])) for name in ("books", "more_books")]


def reads(place):
    return list(place.books.find()), list(place.books.aggregate([{"$match": {"n": 1}}]))


def require_untouched(place, before, huge):
    assert equal(stored(place), before)
    found = {"_id": "huge", "n": 1, "list": huge}
    assert equal(reads(place), ([found], [found]))


@pytest.mark.parametrize("name", NEEDING_THE_WHOLE)
def test_more_than_one_document_holds_is_refused(place, huge, name):
    before = stored(place)
    change = NEEDING_THE_WHOLE[name]
    with pytest.raises(pymongo.errors.WriteError) as refusal:
        place.books.update_one({"_id": "huge"}, change)
    assert (refusal.value.code, refusal.value.details["index"]) == (TOO_LARGE, 0)
    with pytest.raises(pymongo.errors.OperationFailure) as refusal:
        place.books.find_one_and_update({"_id": "huge"}, change)
    assert refusal.value.code == TOO_LARGE
    require_untouched(place, before, huge)


def test_a_bulk_goes_on_behind_what_is_refused(place, huge):
    place.books.insert_one({"_id": "small", "list": list(range(8))})
    place.rest()
    change = {"$push": {"list": {"$each": [], "$slice": 6}}}
    writes = [pymongo.UpdateOne({"_id": book}, change) for book in ("huge", "small", "huge", "small")]
    for ordered, matched, modified in ((True, 0, 0), (False, 2, 1)):
        with pytest.raises(pymongo.errors.BulkWriteError) as refusal:
            place.books.bulk_write(writes, ordered=ordered)
        told = refusal.value.details
        assert [error["index"] for error in told["writeErrors"]] == ([0] if ordered else [0, 2])
        assert {error["code"] for error in told["writeErrors"]} == {TOO_LARGE}
        assert (told["nMatched"], told["nModified"]) == (matched, modified)
    assert place.books.find_one({"_id": "small"})["list"] == list(range(6))
    place.books.delete_one({"_id": "small"})
    assert equal(list(place.books.find()), [{"_id": "huge", "n": 1, "list": huge}])


def test_what_needs_no_whole_goes_on(place, huge):
    """Pushes, those guarded by what is or is not there, and whole arrays; in the end an edit of what is left."""
    book = {"_id": "huge"}
    assert place.books.update_one({**book, "list": {"$ne": "x"}}, {"$push": {"list": "x"}}).modified_count == 1
    assert place.books.update_one({**book, "list": {"$ne": "x"}}, {"$push": {"list": "x"}}).matched_count == 0
    assert place.books.update_one(book, {"$addToSet": {"list": huge[5]}}).modified_count == 0
    assert place.books.update_one(book, {"$addToSet": {"list": "y"}}).modified_count == 1
    assert equal(place.books.find_one(book)["list"], [*huge, "x", "y"])
    place.rest()
    assert place.books.update_one(book, {"$set": {"list": huge[:12]}}).modified_count == 1
    place.rest()
    assert place.books.update_one(book, {"$pop": {"list": -1}}).modified_count == 1
    assert equal(place.books.find_one(book)["list"], huge[1:12])
    # What would fit grows beyond: mongod refuses it, and the array stays.
    place.rest()
    change = {"$push": {"list": {"$each": [element(30, 6 * MB)], "$position": 0}}}
    with pytest.raises(pymongo.errors.WriteError) as refusal:
        place.books.update_one(book, change)
    assert refusal.value.code == TOO_LARGE
    assert equal(place.books.find_one(book)["list"], huge[1:12])


def size_of(collection, book):
    """The size of the main document, from mongod itself."""
    stages = [{"$match": {"_id": book}}, {"$project": {"size": {"$bsonSize": "$$ROOT"}}}]
    return next(collection.aggregate(stages))["size"]


@pytest.mark.parametrize("size, count", [(MB // 10, 240), (MB, 36), (4 * MB, 10)], ids=["100 kB", "1 MB", "4 MB"])
def test_large_elements_pushed_without_a_pause(place, size, count):
    place.clear()
    place.books.insert_one({"_id": "hot", "list": []})
    for number in range(count):
        change = {"$push": {"list": element(number, size)}}
        assert place.books.update_one({"_id": "hot"}, change).modified_count == 1
    whole = [element(number, size) for number in range(count)]
    assert equal(place.books.find_one({"_id": "hot"})["list"], whole)
    place.rest()
    assert size_of(place.direct.shop.books, "hot") < 3 * size + MB


@contextlib.contextmanager
def hot(place, **options):
    """Another namespace by a rule with other times: its collection through Spillway, and its rule."""
    rule = {**RULE, "namespace": "shop.hot", "overflow": {**RULE["overflow"], "collection": "more_hot"}, **options}
    for name in ("hot", "more_hot"):
        place.direct.shop[name].delete_many({})
    with Spillway([place.cluster.primary], [RULE, {**rule, "name": "hot"}]) as spillway:
        with pymongo.MongoClient("127.0.0.1", spillway.port, directConnection=True) as client:
            yield client.shop.hot, rule


def test_nothing_nears_16_mb(place):
    """However long an array may settle."""
    with hot(place, settle="1m") as (books, _):
        books.insert_one({"_id": "hot", "list": []})
        for number in range(20):
            books.update_one({"_id": "hot"}, {"$push": {"list": element(number, MB)}})
            assert size_of(place.direct.shop.hot, "hot") < NEAR


def test_a_transaction_that_pushes_much_does_not_wait_for_the_mover(place):
    """It would wait for the transaction's end: for a minute."""
    with hot(place) as (books, rule):
        books.insert_one({"_id": "hot", "list": [element(number, 1000) for number in range(10)]})
        # else it may conflict with the transaction
        wait_for(lambda: not verify(place.direct, rule), "the tail to move")
        with books.database.client.start_session() as session, session.start_transaction():
            began = time.monotonic()
            for number in range(10, 12):
                books.update_one({"_id": "hot"}, {"$push": {"list": element(number, 5 * MB)}}, session=session)
            session.commit_transaction()
            assert time.monotonic() - began < 50
        assert len(books.find_one({"_id": "hot"})["list"]) == 12


def test_pushes_go_on_behind_an_edit(place):
    """The edit leaves garbage, which stays for a while; the array must move nevertheless before it is too long."""
    with hot(place, gc_delay="1m") as (books, rule):
        books.insert_one({"_id": "hot", "list": [element(number, MB) for number in range(10)]})
        wait_for(lambda: not verify(place.direct, rule), "the tail to move")
        books.update_one({"_id": "hot"}, {"$pop": {"list": 1}})
        for number in range(9, 24):
            books.update_one({"_id": "hot"}, {"$push": {"list": element(number, MB)}})
        assert equal(books.find_one({"_id": "hot"})["list"], [element(number, MB) for number in range(24)])


def statement(query, change, **options):
    return exact.document({"q": query, "u": change, **options})


# Where among the other statements; on books that are long, and what mongod refuses.
EDITS = {
    0: statement({"_id": -1}, {"$pull": {"list": 3}}),
    1: statement({"_id": -2}, {"$push": {"list": {"$each": ["a"], "$position": 1}}}),
    777: statement({"_id": -1, "list": {"$ne": "b"}}, {"$push": {"list": "b"}}),
    20000: statement({"list": "a"}, {"$set": {"list.$": "c"}}),
    49999: statement({"n": -5}, {"$pop": {"list": 1}}, multi=True),
    50000: statement({"_id": -3}, [{"$set": {"list": {"$reverseArray": "$list"}}}]),
    50001: statement({"_id": -9}, {"$push": {"list": {"$each": [1, 2, 3, 4], "$position": 0}}}, upsert=True),
    70000: statement({"_id": -3}, {"$inc": {"list.0": 1}}),
    80000: statement({"_id": -2}, {"$pull": {"n": 1}}),
    80001: statement({"_id": -4}, {"$pull": {"list": {"$gte": 0}}}),
    99999: statement({"_id": -4}, {"$addToSet": {"list": "last"}}),
}


def fill(place):
    place.clear()
    books = [exact.document({"_id": -number, "n": -5, "list": list(range(10))}) for number in range(1, 5)]
    small = [exact.document({"_id": number, "n": 0, "list": []}) for number in range(1000)]
    assert place.same("insert", {}, "documents", books + small)["n"] == len(books) + len(small)
    place.rest()


def test_as_many_statements_as_a_command_holds(place):
    fill(place)
    others = [statement({"_id": number}, {"$inc": {"n": 1}}) for number in range(1000)]
    statements = [EDITS.get(number, others[number % 1000]) for number in range(STATEMENTS)]
    reply = place.same("update", {"ordered": False}, "updates", statements)
    assert [error["index"] for error in reply["writeErrors"]] == [80000]
    assert reply["upserted"] == [{"index": 50001, "_id": -9}]
    # One statement finds four books.
    assert reply["n"] == STATEMENTS - 1 + 3
    place.require_same_documents()


def test_one_statement_more_is_refused(place):
    fill(place)
    edit = statement({"_id": -1}, {"$pull": {"list": 3}})
    reply = place.same("update", {}, "updates", [edit] * (STATEMENTS + 1))
    assert reply["code"] == INVALID_LENGTH
    place.require_same_documents()


def filled(name, options, sequence, documents, last):
    """Documents, and one more made by `last` that fills the message to its last byte."""
    body = exact.document({name: "plain", **options, "$db": "shop"})
    taken = 16 + 4 + 1 + len(body) + 1 + 4 + len(sequence) + 1 + sum(map(len, documents))
    return [*documents, last(MESSAGE - taken - len(last(0)))]


def test_an_insert_of_48_mb(place):
    place.clear()
    books = [exact.document({"_id": number, "list": [element(number * 10 + turn, MB) for turn in range(number % 5)]})
             for number in range(23)]
    documents = filled("insert", {}, "documents", books,
                       lambda size: exact.document({"_id": "last", "list": [1, 2, 3], "rest": bytes(size)}))
    reply = place.same("insert", {}, "documents", documents)
    assert reply["n"] == len(documents)
    place.require_same_documents()
    place.rest()
    place.require_same_documents()


def test_an_update_of_48_mb(place):
    """Edits of arrays that have moved, plain pushes and whole arrays, 1 MB each."""
    place.clear()
    books = [exact.document({"_id": number, "list": list(range(8))}) for number in range(48)]
    place.same("insert", {}, "documents", books)
    place.rest()
    changes = [
        lambda large: {"$push": {"list": {"$each": [large], "$position": 2}}},
        lambda large: {"$push": {"list": large}},
        lambda large: {"$set": {"list": [1, large, 2, 3]}},
        lambda large: {"$addToSet": {"list": large}},
        lambda large: {"$set": {"list.6": large}},
        lambda large: {"$pull": {"list": {"$in": [3, large]}}},
    ]
    updates = [statement({"_id": number}, changes[number % len(changes)](element(number, MB))) for number in range(45)]
    documents = filled("update", {}, "updates", updates,
                       lambda size: statement({"_id": 47},
                                              {"$push": {"list": {"$each": [bytes(size)], "$position": 0}}}))
    reply = place.same("update", {}, "updates", documents)
    assert (reply["n"], reply["nModified"]) == (46, 46)
    place.require_same_documents()
