"""The documents of the crash tests, one for each case of a move, and what must have become of them."""

import collections
import contextlib
import os
import signal
import threading
import zlib

import bson
import pymongo
from bson.binary import Binary
from pymongo import WriteConcern
from pymongo.errors import PyMongoError

from support import exact, share, verify
from support.process import wait_for
from support.shim import CUT_AFTER, CUT_BEFORE
from support.spillway import Spillway

RULE = {
    "name": "crash", "namespace": "shop.books", "array": "list", "threshold": 2,
    "settle": "10ms", "quiet": "10ms", "gc_delay": "0s", "existing": "move", "flag": {"field": "more", "value": True},
    "overflow": {"collection": "more_books", "layout": "batches", "link": "book", "array": "part",
                 "batch": {"field": "number", "size": 3}},
}
WHOLE = {"born": 10, "grown": 13, "stored": 10, "edited": 8, "short": 2}


def generation():
    return Binary(os.urandom(16))


def batch(book, number, position, elements, of):
    return {"book": book, "number": number, "part": elements, "_spill": {"g": of, "p": position}}


def spilled(book, head, tail, moved, of):
    return {"_id": book, "list": head + tail, "more": True,
            "_spill": {"list": {"g": of, "h": len(head), "n": moved, "a": ["more"]}}}


def seed(client):
    """Every case at once: not moved yet, an open batch, batches without their cut, garbage in the way."""
    # In the journal: a crash must not take the beginning away.
    database = client.get_database("shop", write_concern=WriteConcern(w=1, j=True))
    mains, overflow = database.books, database.more_books
    mains.delete_many({})
    overflow.delete_many({})
    grown, stored, dead = (generation() for _ in range(3))
    overflow.insert_many([
        batch("grown", 1, 0, [2, 3, 4], grown), batch("grown", 2, 3, [5], grown),
        batch("stored", 1, 0, [2, 3, 4], stored), batch("stored", 2, 3, [5, 6, 7], stored),
        batch("edited", 1, 0, [100, 101, 102], dead), batch("edited", 2, 3, [103], dead),
    ])
    mains.insert_many([
        {"_id": "born", "list": list(range(10))},
        spilled("grown", [0, 1], list(range(6, 13)), 4, grown),
        spilled("stored", [0, 1], list(range(5, 10)), 3, stored),
        {"_id": "edited", "list": list(range(8))},
        {"_id": "short", "list": [0, 1]},
    ])


def arrays(client):
    """The whole arrays by `_id`, as the stored documents say, and what V1 to V7 find."""
    keeping = verify.Keeping(RULE)
    mains, overflow = keeping.read(client)
    findings, found = verify.check(mains, overflow, keeping)
    by_id = {
        bson.decode(exact.encode([("id", exact.get(pairs, "_id"))]))["id"]:
            [exact.plain(item) for item in found[verify._link_key(exact.get(pairs, "_id"))]]
        for pairs in mains
    }
    return by_id, findings


def at_rest(client):
    """The arrays once nothing is left to do. What looks broken may be a move between the two reads: it must not
    stay."""
    by_id, findings = arrays(client)
    return not findings and by_id


def require_whole(by_id):
    for book, count in WHOLE.items():
        if by_id[book] != list(range(count)):
            raise AssertionError(f"{book}: {by_id[book]}")


def behind(cluster, shim, **options):
    """A Spillway whose clients speak to mongod and whose mover speaks to the shim."""
    uri = f"mongodb://{shim.address}/"
    return Spillway([cluster.primary], [{**RULE, **options}], {"upstream": {"uri": uri}})


def concern(cluster):
    return {"w": "majority"} if cluster.replica_set else {"w": 1, "journal": True}


class Pusher(threading.Thread):
    """Pushes 0, 1, 2, ... through Spillway one by one; remembers what was acknowledged and what may be there."""

    def __init__(self, port, concern, count=12):
        super().__init__(daemon=True)
        self.port = port
        self.concern = concern
        self.numbers = iter(range(count))
        self.done = []
        self.unknown = set()

    def run(self):
        number = next(self.numbers, None)
        while number is not None:
            with pymongo.MongoClient("127.0.0.1", self.port, directConnection=True, retryWrites=False,
                                     serverSelectionTimeoutMS=30000, **self.concern) as client:
                number = self._push(client, number)

    def _push(self, client, number):
        try:
            while number is not None:
                change = {"$push": {"list": number}}
                client.shop.books.update_one({"_id": "pushed"}, change, upsert=True)
                self.done.append(number)
                number = next(self.numbers, None)
            return None
        except PyMongoError:
            self.unknown.add(number)
            return next(self.numbers, None)

    def require_kept(self, found):
        """Everything acknowledged is there once and in order; what got no answer, once or not at all."""
        kept = [n for n in found if n not in self.unknown]
        assert kept == self.done, f"{found}, acknowledged {self.done}, unknown {self.unknown}"
        assert sorted(set(found)) == found, f"{found}: twice, or in another order"


class Striker:
    """A shim's hook that strikes between any two commands of a round or of a garbage collection.

    Each pair of commands that follow one another, for each document, is struck `times`, in one life of Spillway."""

    times = 1

    def strikes(self, pair):
        """Whether this pair is struck at all."""
        return True

    def __init__(self, cluster, spillway):
        self.cluster = cluster
        self.spillway = spillway
        self.last = {}
        self.struck = collections.Counter()
        self.lock = threading.Lock()

    def __call__(self, request):
        step = step_of(request)
        if step is None:
            return None
        with self.lock:
            before = self.last.get(request.connection)
            self.last[request.connection] = step
            pair = (before if before and before[0] == step[0] else None, step)
            if self.struck[pair] == self.times or not self.strikes(pair):
                return None
            self.struck[pair] += 1
            return self.strike(self.struck[pair])


class Cutter(Striker):
    """Cuts the connection: before mongod sees the command, and another time before its answer comes back."""

    times = 2

    def strike(self, time):
        return CUT_BEFORE if time == 1 else CUT_AFTER


class Restarter(Striker):
    """Kills mongod and starts it again after the command, while Spillway stands still with its answer.

    An ordinary run strikes behind each document's first command, and a quarter of the other pairs: another one on a
    standalone than on a replica set."""

    def strikes(self, pair):
        quarter = zlib.crc32(repr(pair).encode()) % 4 == (self.cluster.replica_set is not None)
        return share.EVERY or pair[0] is None or quarter

    def strike(self, _):
        return self.between

    def between(self, pass_on):
        with self.lock:
            self.spillway.process.send_signal(signal.SIGSTOP)
            pass_on()
            self.cluster.primary.kill()
            self.cluster.primary.start()
            if self.cluster.replica_set:
                self.cluster.wait_for_primary()
            self.spillway.process.send_signal(signal.SIGCONT)
        return True


def step_of(request):
    """(document, command, collection, kind) of a round's command, or of one for garbage; None for any other."""
    about, kind = None, None
    if request.name == "find":
        about = _one(request)
        if about is None and request.get("projection._spill") and not request.get("filter._spill"):
            about = "garbage"  # with a filter it asks at the start who refers to the overflow
        elif about is None and request.get("filter.book.$in"):
            about = "garbage"
        kind = "last" if request.get("limit") else "all"
    elif request.name == "update":
        statement = request.get("updates")[1][0][1][1]
        value = exact.get(statement, "q._id.$eq") or exact.get(statement, "q.book.$eq")
        about, kind = value and exact.plain(value), exact.get(statement, "u")[0]
    elif request.name == "insert":
        value = exact.get(request.get("documents")[1][0][1][1], "book")
        about = value and exact.plain(value)
    elif request.name == "delete":
        about = exact.get(request.get("deletes")[1][0][1][1], "q.book") and "garbage"
    return about and (about, request.name, request.collection, kind)


def move_through(strikes, cluster, shim):
    """One life of Spillway with strikes between any two commands of its mover; the pairs that were struck."""
    with cluster.client() as direct, contextlib.ExitStack() as stack:
        seed(direct)
        spillway = behind(cluster, shim)
        stack.push(spillway.__exit__)
        striker = strikes(cluster, spillway)
        shim.restart(striker)
        spillway.start(ready=False)
        pusher = Pusher(spillway.port, concern(cluster))
        pusher.start()
        pusher.join()
        by_id = wait_for(lambda: resting(direct), "rest after all strikes", 240, 0.05)
        require_pinned(shim.requests)
    require_whole(by_id)
    pusher.require_kept(by_id["pushed"])
    return striker.struck


def resting(direct):
    try:
        return at_rest(direct)
    except pymongo.errors.ConnectionFailure:
        return None  # it is being restarted


def require_pinned(requests):
    """A cut or a removal comes only on the connection that read what it relies on."""
    seen = {}
    for request in requests:
        if request.handshake():
            continue
        before = seen.setdefault(request.connection, set())
        needed = _relies_on(request)
        assert needed <= before, f"{request} relies on what another connection read: {before}"
        if request.name == "find":
            before |= {request.collection, (request.collection, _one(request))}


def _relies_on(request):
    if step_of(request) == ("garbage", "delete", "more_books", None):
        return {"books", "more_books"}
    if request.name != "update" or request.collection != "books":
        return set()
    statement = request.get("updates")[1][0][1][1]
    if exact.get(statement, "u")[0] != exact.ARRAY:
        return set()
    book = exact.plain(exact.get(statement, "q._id.$eq"))
    return {("books", book), ("more_books", book)}


def _one(request):
    """The document that a find of the mover is about; None where it is about several."""
    value = request.get("filter._id.$eq") or request.get("filter.book.$eq")
    return value and exact.plain(value)
