"""Readers while arrays spill, are edited, replaced, deleted and inserted again: each read is one whole state of the
array.

Every document is written by one thread in a way that tells a torn, short or doubled array; `n` is set in the same
update.
"""

import collections
import contextlib
import itertools
import random
import threading

import pymongo
import pytest
from pymongo.errors import AutoReconnect, OperationFailure

from support.cluster import Cluster
from support.process import wait_for
from support.spillway import Spillway
from support.verify import verify

RULE = {
    "name": "busy", "namespace": "shop.busy", "array": "list", "threshold": 3, "settle": "1ms", "gather": 3,
    "quiet": "1ms", "gc_delay": "0s", "flag": {"field": "more", "value": True},
    "overflow": {"layout": "batches", "link": "book", "array": "part", "batch": {"size": 4}},
}
SECONDS = 4
EACH = 3  # documents of a kind
WRITER, READER = "writer", "reader"
CHANGED_MEANWHILE = (112, 134)


# ---- what is written, and what each state must look like ----

def grow(step):
    """Numbers at the end, one or several."""
    each = list(range(3 * step, 3 * step + 3))
    return {"$push": {"list": {"$each": each}}, "$inc": {"n": 3}} if step < 150 else None


def grown(book):
    assert book["list"] == list(range(book["n"]))


def queue(step):
    """In at the end; out at the beginning as soon as there are twelve."""
    if step < 12 or step % 2:
        return {"$push": {"list": step if step < 12 else 12 + (step - 12) // 2}, "$inc": {"n": 1}}
    return {"$pop": {"list": -1}, "$inc": {"n": -1}}


def queued(book):
    numbers = book["list"]
    assert len(numbers) == book["n"] and numbers == list(range(numbers[0], numbers[0] + len(numbers)))


def replace(step):
    size = 1 + step * 7 % 20
    return {"$set": {"list": [step] * size, "n": size}}


def replaced(book):
    assert len(book["list"]) == book["n"] and len(set(book["list"])) == 1
    assert book["n"] == 1 + book["list"][0] * 7 % 20


def mark(step):
    if step == 0:
        return {"$set": {"list": [{"at": at, "v": 0} for at in range(15)], "n": 15, "v": 0}}
    return {"$inc": {"list.$[].v": 1, "v": 1}}


def marked(book):
    assert book["list"] == [{"at": at, "v": book["v"]} for at in range(15)]


def window(step):
    """The newest ten only."""
    return {"$push": {"list": {"$each": [step], "$slice": -10}}, "$set": {"n": min(step + 1, 10), "last": step}}


def windowed(book):
    assert book["list"] == list(range(book["last"] - book["n"] + 1, book["last"] + 1))


KINDS = {"grow": (grow, grown), "queue": (queue, queued), "replace": (replace, replaced),
         "mark": (mark, marked), "window": (window, windowed)}


def reborn(book):
    assert book["list"] == [book["n"]] * 9


class Work:
    """Threads that go on until the time is up or one has found something."""

    def __init__(self):
        self.over = threading.Event()
        self.failures = []
        self.done = collections.Counter()
        self.refused = collections.Counter()
        self.threads = []

    def start(self, name, steps):
        """Goes through the iterator until the end; a step that may be tried again is."""
        def run():
            try:
                for _ in steps:
                    self.done[name] += 1
                    if self.over.is_set():
                        return
            except BaseException as error:  # whatever it is, the test must hear of it
                self.failures.append((name, repr(error)[:2000]))
                self.over.set()
        self.threads.append(threading.Thread(target=run, daemon=True))

    def run(self, seconds):
        for thread in self.threads:
            thread.start()
        self.over.wait(seconds)
        self.over.set()
        for thread in self.threads:
            thread.join()
        assert not self.failures, self.failures[0]

    def again(self, name, call):
        """A call, once more as long as it says that it could not get through."""
        for _ in range(50):
            try:
                return call()
            except OperationFailure as error:
                if error.code not in CHANGED_MEANWHILE:
                    raise
                self.refused[name] += 1
                if self.over.is_set():
                    return None
        raise AssertionError(f"{name} never got through")


def has_moved(stored, identity):
    return stored.find_one({"_id": identity, "$or": [
        {"_spill.list.n": {"$gt": 0}}, {"list.3": {"$exists": False}}]}, {"_id": 1})


def write(work, collection, stored, kind):
    """One after the other; the tail of each has mostly moved until its turn comes: only then it can be torn."""
    for step in itertools.count(1):
        update = KINDS[kind][0](step)
        if update is None:
            return
        for identity in (f"{kind}{number}" for number in range(EACH)):
            wait_for(lambda: work.over.is_set() or has_moved(stored, identity), f"{identity} to move")
            work.again(f"write {kind}", lambda: collection.update_one({"_id": identity}, update))
            yield


def bear(work, collection, stored):
    """Deleted and inserted, over and over."""
    for step in itertools.count():
        for identity in (f"rebirth{number}" for number in range(EACH)):
            work.again("write rebirth", lambda: collection.delete_one({"_id": identity}))
            collection.insert_one({"_id": identity, "list": [step] * 9, "n": step})
            wait_for(lambda: work.over.is_set() or has_moved(stored, identity), f"{identity} to move")
            yield


def kind_of(book):
    return book["_id"][:-1]


def check(book):
    if kind_of(book) == "rebirth":
        reborn(book)
    else:
        KINDS[kind_of(book)][1](book)


WHOLE = {"$and": [{"list.0": {"$exists": True}}, {"list": {"$not": {"$size": 0}}}]}


def by_identity(collection):
    return collection.find({"_id": f"{random.choice(list(KINDS))}{random.randrange(EACH)}"})


def all_of_them(collection):
    return collection.find(batch_size=2)


def by_the_array(collection):
    return collection.find(WHOLE, batch_size=3)


def through_a_pipeline(collection):
    return collection.aggregate([{"$match": {"_id": {"$ne": 5}}}, {"$addFields": {"size": {"$size": "$list"}}}])


def unwound(collection):
    """Taken apart and put together by mongod."""
    return collection.aggregate([
        {"$unwind": "$list"}, {"$group": {"_id": "$_id", "list": {"$push": "$list"}, "n": {"$first": "$n"},
                                          "v": {"$first": "$v"}, "last": {"$first": "$last"}}}])


READS = (by_identity, all_of_them, by_the_array, through_a_pipeline, unwound)


def read(work, collections, source):
    for collection in itertools.cycle(collections):
        for book in work.again(source.__name__, lambda: list(source(collection))) or ():
            check(book)
        yield


def ends(collection):
    found = collection.find({"_id": {"$in": ["grow0", "window1"]}}, {"n": 1, "last": 1, "list": {"$slice": -4}})
    # Cut by mongod; where all comes in one reply, by Spillway.
    for book in [*found, *found.clone().limit(2)]:
        last = book["n"] - 1 if kind_of(book) == "grow" else book["last"]
        assert book["list"] == list(range(last - min(book["n"], 4) + 1, last + 1)), book


def sizes(collection):
    assert collection.count_documents({"_id": {"$not": {"$regex": "^rebirth"}}, **WHOLE}) == len(KINDS) * EACH
    for book in collection.find({}, {"n": 1, "size": {"$size": "$list"}}):
        assert kind_of(book) == "rebirth" or book["size"] == book["n"], book


def look(work, collections, what):
    for collection in itertools.cycle(collections):
        work.again(what.__name__, lambda: what(collection))
        yield


@pytest.fixture
def spillways(cluster):
    """Two, each in front of all members."""
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(Spillway(cluster.members, [RULE], name=f"spillway{number}"))
               for number in range(2)]


@pytest.fixture
def busy(spillways):
    with contextlib.ExitStack() as stack:
        uris = ["mongodb://" + ",".join(f"127.0.0.1:{port}" for port in spillway.ports) + "/?replicaSet=rs0"
                for spillway in spillways]
        yield [[stack.enter_context(pymongo.MongoClient(uri, w=1, appName=name)).shop.busy for uri in uris]
               for name in (WRITER, READER)]


@pytest.fixture
def slow_overflow(cluster):
    """Between a document and its overflow, readers wait as long as an edit, a move and a collection of garbage take."""
    settings = {"failCommands": ["find", "aggregate"], "namespace": "shop.busy_list_overflow", "appName": READER,
                "blockConnection": True, "blockTimeMS": 300}
    for mode in ({"activationProbability": 0.4}, "off"):
        for member in cluster.members:
            with member.client() as client:
                client.admin.command({"configureFailPoint": "failCommand", "mode": mode, "data": settings})
        if mode != "off":
            yield


def start_writers(work, collections, stored):
    for number, kind in enumerate(KINDS):
        for identity in (f"{kind}{each}" for each in range(EACH)):
            collections[0].update_one({"_id": identity}, KINDS[kind][0](0), upsert=True)
        work.start(f"write {kind}", write(work, collections[number % 2], stored, kind))
    work.start("write rebirth", bear(work, collections[1], stored))


def repeats(spillways):
    return sum(spillway.metrics()["spillway_merge_repeats_total"] for spillway in spillways)


def wait_for_rest(direct):
    def at_rest():
        findings = verify(direct, RULE)
        return not findings.corrupt and not findings.unfinished
    try:
        wait_for(at_rest, "rest")
    except TimeoutError:
        raise AssertionError(str(verify(direct, RULE))) from None


def test_every_read_is_one_state(direct, spillways, busy, slow_overflow):
    work, (writers, readers) = Work(), busy
    start_writers(work, writers, direct.shop.busy)
    for source in (*READS, by_identity, by_identity, all_of_them, all_of_them):
        work.start(source.__name__, read(work, readers, source))
    for what in (ends, sizes):
        work.start(what.__name__, look(work, readers, what))
    work.run(SECONDS)
    for source in (*READS, ends, sizes):
        assert work.done[source.__name__] > 2, work.done
    assert repeats(spillways) > 0, "no array was rewritten while it was being read"
    wait_for_rest(direct)
    for book in readers[0].find():
        check(book)


def size_of_the_longest(session, collection, far):
    """Whether it is longer than it was: asked by a command of mongod's that answers a number."""
    query = {"_id": "grow0", f"list.{far - 1}": {"$exists": True}}
    # PyMongo gives commands that are run by name no read concern, and so no time to read at or after.
    concern = {"level": "majority", "afterClusterTime": session.operation_time}
    found = collection.database.command("count", collection.name, query=query, readConcern=concern,
                                        read_preference=collection.read_preference, session=session)
    assert found["n"] == 1, far
    return far


def seen_by(session, collection, number, far):
    """How far the array has come, by one read or another."""
    identity = {"_id": "grow0"}
    if number % 6 == 0:
        book = collection.find_one(identity, session=session)
    elif number % 6 == 1:
        book = next(collection.find({**identity, "list.0": 0}, session=session))
    elif number % 6 == 2:
        book = next(collection.aggregate(
            [{"$match": identity}, {"$addFields": {"size": {"$size": "$list"}}}], session=session))
    elif number % 6 == 3:
        book = collection.find_one(identity, {"list": {"$slice": -3}, "n": 1}, session=session)
        assert book["list"] == list(range(book["n"]))[-3:]
        return book["n"]
    elif number % 6 == 4:
        join = {"from": "busy", "localField": "_id", "foreignField": "_id", "as": "same"}
        (book,) = next(collection.aggregate([{"$match": identity}, {"$lookup": join}], session=session))["same"]
    else:
        return size_of_the_longest(session, collection, far)
    check(book)
    return book["n"]


def grow_once(work, collection, step, session):
    """Whatever becomes of the primary meanwhile: sent again it matches nothing more."""
    def send():
        try:
            collection.update_one({"_id": "grow0", "n": 3 * step}, grow(step), session=session)
        except AutoReconnect:
            return False
        return True
    wait_for(lambda: work.again("write", send), "a primary")


def change_primaries(cluster, number):
    """One steps down, then one is killed and comes back."""
    if number == 15:
        cluster.step_down()
    elif number == 30:
        killed = cluster.find_primary()
        killed.kill()
        cluster.wait_for_another(killed)
        killed.start()


PREFERENCES = [  # of which PyMongo says that hedged reads end with MongoDB 8.0
    pymongo.read_preferences.Secondary(), pymongo.read_preferences.Secondary(tag_sets=[{"use": "reports"}, {}]),
    pymongo.read_preferences.SecondaryPreferred(max_staleness=120),
    pymongo.read_preferences.Nearest(hedge={"enabled": True}),
]


def prefer_one(direct):
    """One member has a tag."""
    config = direct.admin.command("replSetGetConfig")["config"]
    config["version"] += 1
    config["members"][1]["tags"] = {"use": "reports"}
    direct.admin.command("replSetReconfig", config)


def test_a_causal_session_never_goes_back_on_secondaries_whoever_is_primary():
    with Cluster(members=3) as cluster, cluster.client() as direct:
        with Spillway(cluster.members, [RULE]) as spillway:
            uri = "mongodb://" + ",".join(f"127.0.0.1:{port}" for port in spillway.ports) + "/?replicaSet=rs0"
            with pymongo.MongoClient(uri, w="majority", readConcernLevel="majority") as client:
                ruled = client.shop.busy
                prefer_one(direct)
                secondaries = [ruled.with_options(read_preference=preference) for preference in PREFERENCES]
                work, far = Work(), 0
                ruled.update_one({"_id": "grow0"}, grow(0), upsert=True)
                ruled.update_one({"_id": "mark0"}, mark(0), upsert=True)
                with client.start_session(causal_consistency=True) as session:
                    for number in range(60):
                        if number % 3 == 0:
                            change_primaries(cluster, number)
                            grow_once(work, ruled, number // 3 + 1, session)
                            work.again("write", lambda: ruled.update_one({"_id": "mark0"}, mark(1)))
                        here = secondaries[number // 2 % len(secondaries)]
                        now = work.again("read", lambda: seen_by(session, here, number, far))
                        assert now >= max(far, 3 * (number // 3 + 2))
                        far = now
                        check(work.again("read", lambda: here.find_one({"_id": "mark0"})))
            cluster.wait_for_first()
            wait_for_rest(direct)
