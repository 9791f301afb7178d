"""Edits in place at a real mongod, under contention: do transactions do what the model supposes?

Editors die between two commands and are retried, movers move, clients push, readers wait between main and overflow,
and garbage goes. Each edit concerns two elements that lie apart, so that a reader sees half an edit. At the end each
edit must have been done once. Nothing of Spillway runs here: it is docs/internals/spill-protocol.md, "Edits in place",
in Python. `--without` takes out a part, which must be found.

usage: tests/support/with-clients python3 -m model.at_mongod [--seconds N] [--without PART]"""

import argparse
import collections
import os
import random
import sys
import threading
import time
import uuid

from bson.binary import Binary
from bson.int64 import Int64
from pymongo.errors import OperationFailure
from pymongo.read_concern import ReadConcern
from pymongo.synchronous import client_session

from support.cluster import Cluster

PARTS = ("editions", "owned", "counted", "cleaned")
SIZE, HEAD, OLD, DELAY, DIES = 5, 3, 40, 3.0, 0.15
STATE = "_spill.f.e."
NAMED = ("g", "l", "v", "n")


class Hole(Exception):
    """The overflow does not hold what an edition needs."""


class Run:
    """What the threads share."""

    def __init__(self, cluster, without):
        self.cluster = cluster
        self.without = without
        self.ended = threading.Event()
        self.lock = threading.Lock()
        self.counts = collections.Counter()
        self.wrong = []
        self.done = collections.Counter()
        self.undecided = set()
        self.removed = set()
        self.pushed = 0

    def database(self):
        return self.cluster.members[0].client(w="majority", retryWrites=False).t

    def count(self, what):
        with self.lock:
            self.counts[what] += 1


def name():
    return Binary(os.urandom(16), 0)


def state_of(main):
    """The fields of `e`, also of a document that was never edited in place."""
    state = main["_spill"]["f"]
    return dict(state["e"]) if "e" in state else {**state, "l": None, "b": state["n"], "r": 0, "v": 0}


def counts(batch, state):
    own = batch["_spill"]
    bound = state["b"] if own["g"] == state["g"] else state["n"]
    return own["g"] in (state["g"], state["l"]) and own["p"] < bound and own.get("e", 0) <= state["v"] \
        and own.get("u", state["v"] + 1) > state["v"]


def names(state):
    return {"$in": [each for each in (state["g"], state["l"]) if each]}


def merged(main, batches, known=counts):
    state, out, reached = state_of(main), [], 0
    for batch in sorted((each for each in batches if known(each, state)), key=lambda each: each["_spill"]["p"]):
        own = batch["_spill"]
        if own["p"] < reached:  # its number has changed under the find, which has met it twice
            continue
        if own["p"] > reached:
            raise Hole
        elements = batch["a"] if "w" in own else batch["a"][:state["n"] - reached]
        reached += own.get("w", len(elements))
        out += elements
    if reached != state["n"]:
        raise Hole
    if len(out) != state["n"] - state["r"]:
        raise AssertionError(f"{len(out)} elements, by {state}")
    return main["f"][:state["h"]] + out + main["f"][state["h"]:]


# ---- who reads ----

def twin(identifier):
    return (identifier + OLD // 2) % OLD if identifier < OLD else identifier ^ 1


def judge(run, array, how):
    values = {each["id"]: each["val"] for each in array}
    order = [each["id"] for each in array]
    halves = [each for each in values if values.get(twin(each)) != values[each]]
    if order != sorted(values) or halves:
        run.wrong.append((how, order if order != sorted(values) else [(each, values[each]) for each in halves]))
    run.count(how)


def read(run, most, how):
    """Main, and its overflow up to `most` seconds later."""
    database = run.database()
    while not run.ended.is_set():
        main = database.main.find_one({"_id": 1})
        time.sleep(random.random() * most)
        known = counts if "editions" not in run.without else \
            (lambda batch, state: batch["_spill"]["g"] in (state["g"], state["l"]) and batch["number"] > 0)
        try:
            judge(run, merged(main, database.ov.find({"link": 1, "_spill.g": names(state_of(main))}), known), how)
        except Hole:
            run.count(how + ", a hole")
            if most < DELAY / 2 and state_of(database.main.find_one({"_id": 1}))["v"] == state_of(main)["v"]:
                run.wrong.append((how, "a hole in the edition that stands"))


def _wide():
    return {"$ifNull": ["$$this._spill.w", {"$min": [{"$size": "$$this.a"}, _room()]}]}


def _room():
    return {"$subtract": [f"${STATE}n", "$$this._spill.p"]}


COUNTS = {"$and": [
    {"$in": ["$$this._spill.g", [f"${STATE}g", f"${STATE}l"]]},
    {"$lt": ["$$this._spill.p", {"$cond": [{"$eq": ["$$this._spill.g", f"${STATE}g"]}, f"${STATE}b", f"${STATE}n"]}]},
    {"$lte": ["$$this._spill.e", f"${STATE}v"]},  # what is missing is less than a number
    {"$gt": [{"$ifNull": ["$$this._spill.u", float("inf")]}, f"${STATE}v"]},
]}
JOINED = [
    {"$match": {"_id": 1, STATE + "v": {"$gte": 0}}},
    {"$graphLookup": {"from": "ov", "startWith": "$_id", "connectFromField": "none", "connectToField": "link",
                      "maxDepth": 0, "as": "j"}},
    {"$set": {"j": {"$sortArray": {"input": {"$filter": {"input": "$j", "cond": COUNTS}}, "sortBy": {"_spill.p": 1}}}}},
    {"$set": {
        "end": {"$reduce": {"input": "$j", "initialValue": 0, "in": {"$cond": [
            {"$eq": ["$$this._spill.p", "$$value"]}, {"$add": ["$$value", _wide()]}, None]}}},
        "o": {"$reduce": {"input": "$j", "initialValue": [], "in": {"$concatArrays": ["$$value", {"$cond": [
            {"$gte": ["$$this._spill.w", 0]}, "$$this.a", {"$slice": ["$$this.a", _room()]}]}]}}}}},
    {"$project": {"_spill": 1, "end": 1, "f": {"$concatArrays": [
        {"$slice": ["$f", f"${STATE}h"]}, "$o", {"$slice": ["$f", f"${STATE}h", 1000000]}]}}},
]


def read_joined(run):
    """mongod puts the array together, as in reads of class 5."""
    database = run.database()
    while not run.ended.is_set():
        for found in database.main.aggregate(JOINED):
            if found["end"] == state_of(found)["n"]:
                judge(run, found["f"], "joined")
            else:
                run.count("joined, a hole")


# ---- who writes ----

def transact(run, database, what, work):
    """`work` in a transaction; None if others were faster."""
    try:
        with database.client.start_session() as session:
            with session.start_transaction(read_concern=ReadConcern("snapshot")):
                made = work(session)
                if made is None:
                    session.abort_transaction()
        run.count(what if made is not None else what + ", lost")
        return made
    except OperationFailure as error:
        if error.code not in (112, 11000, 251):
            raise
        run.count(f"{what}, {error.code}")
        return None


def push(run):
    database = run.database()
    while not run.ended.is_set():
        new = [{"id": 1000 + 2 * run.pushed + k, "val": 0} for k in (0, 1)]
        database.main.update_one({"_id": 1}, {"$push": {"f": {"$each": new}}})
        run.pushed += 1
        time.sleep(0.03)


def move(run):
    database = run.database()

    def work(main, state, tail):
        def inside(session):
            guard = {"_id": 1, **{STATE + each: state[each] for each in NAMED}}
            rest = {"$concatArrays": [
                {"$cond": [state["h"] > 0, {"$slice": ["$f", state["h"]]}, []]},
                {"$slice": ["$f", state["h"] + len(tail), 1000000]}]}
            cut = [{"$set": {"f": rest, STATE + "n": state["n"] + len(tail)}}]
            if not database.main.update_one(guard, cut, session=session).matched_count:
                return None
            store(database, session, state, tail)
            return True
        return inside

    while not run.ended.is_set():
        main = database.main.find_one({"_id": 1})
        state = state_of(main)
        tail = main["f"][state["h"]:]
        if state["l"] and tail:
            transact(run, database, "move", work(main, state, tail))
        time.sleep(random.random() * 0.1)


def store(database, session, state, tail):
    """M3b and M3c."""
    opened = database.ov.find_one({"link": 1, "_spill.g": state["l"], "_spill.w": None, "_spill.u": None, "$expr": {
        "$and": [{"$eq": [{"$add": ["$_spill.p", {"$size": "$a"}]}, state["n"]]},
                 {"$lt": [{"$size": "$a"}, SIZE]}]}}, session=session)
    room = SIZE - len(opened["a"]) if opened else 0
    if opened:
        database.ov.update_one({"_id": opened["_id"]}, {"$push": {"a": {"$each": tail[:room]}}}, session=session)
    last = max((each["number"] for each in database.ov.find({"link": 1}, {"number": 1}, session=session)), default=0)
    for number, at in enumerate(range(room, len(tail), SIZE), last + 1):
        own = {"g": state["l"], "p": state["n"] + at, "e": state["v"]}
        database.ov.insert_one({"link": 1, "number": number, "a": tail[at:at + SIZE], "_spill": own}, session=session)


class Edit:
    """One operation on two elements: both go, or both are raised by one."""

    def __init__(self, run, database, session, number):
        self.run, self.database, self.sent = run, database, {**session, "txnNumber": Int64(number), "stmtIds": [0]}
        pushed = run.pushed  # what is being pushed may not be there yet
        newest = 1000 + 2 * random.randrange(max(pushed - 4, 0), max(pushed, 1))
        self.first = random.randrange(OLD // 2) if random.random() < 0.5 or not pushed else newest
        self.concerned = {"id": {"$in": [self.first, twin(self.first)]}}
        self.removes = random.random() < 0.1

    def update(self, field):
        return {"$pull": {field: self.concerned}} if self.removes else {"$inc": {field + ".$[x].val": 1}}

    def filters(self):
        return None if self.removes else [{"x.id": self.concerned["id"]}]

    def statement(self, filter, update):
        """The client's own: mongod answers it from history if it was done."""
        one = {"q": filter, "u": update, **({} if self.removes else {"arrayFilters": self.filters()})}
        return self.database.command("update", "main", updates=[one], **self.sent)["n"]

    def apply(self, filter, session):
        """The client's operators, on one overflow document; how many elements go."""
        before = len(self.database.ov.find_one(filter, session=session)["a"])
        self.database.ov.update_one(filter, self.update("a"), array_filters=self.filters(), session=session)
        return before - len(self.database.ov.find_one(filter, session=session)["a"])

    def x1(self, session):
        main, overflow = self.database.main, self.database.ov
        state, mark = {**self.state, "l": self.state["l"] or name()}, name()
        state = {each: state[each] for each in ("g", "l", "b", "h", "n", "r", "v")}
        found = main.find_one_and_update({"_id": 1, "_spill.f": self.stored},
                                         {"$set": {"_spill.f": {"e": {**state, "w": mark}}}}, session=session)
        if found is None:
            return None
        if "cleaned" not in self.run.without:
            overflow.delete_many({"link": 1, "_spill.g": state["l"], "_spill.e": {"$gt": state["v"]}}, session=session)
            overflow.update_many({"link": 1, "_spill.u": {"$gt": state["v"]}}, {"$unset": {"_spill.u": 1}},
                                 session=session)
        gone = self.copy(state, session)
        overflow.insert_one({"link": "scratch", "number": 0, "a": found["f"][:state["h"]]}, session=session)
        head = state["h"] - self.apply({"link": "scratch"}, session)
        overflow.delete_one({"link": "scratch"}, session=session)
        return {**state, "w": mark}, head, state["r"] + gone

    def copy(self, state, session):
        overflow, gone = self.database.ov, 0
        lowest = min(each["number"] for each in overflow.find({"link": 1}, {"number": 1}, session=session))
        held = overflow.find({"link": 1, "_spill.g": names(state), "a": {"$elemMatch": self.concerned}},
                             session=session)
        for number, batch in enumerate((each for each in list(held) if counts(each, state)), 1 - min(lowest, 0)):
            own = batch["_spill"]
            elements = batch["a"] if "w" in own else batch["a"][:state["n"] - own["p"]]
            copy = {"g": state["l"], "p": own["p"], "w": own.get("w", len(elements)), "e": state["v"] + 1}
            overflow.insert_one({"link": 1, "number": -number, "a": elements, "_spill": copy}, session=session)
            gone += self.apply({"link": 1, "number": -number}, session)
            overflow.update_one({"_id": batch["_id"]}, {"$set": {"_spill.u": state["v"] + 1}}, session=session)
        return gone

    def x2(self, state, head, removed):
        guards = [each for each in NAMED if each != "n" or "counted" not in self.run.without]
        guards += ["w"] if "owned" not in self.run.without else []
        update = {**self.update("f"), "$unset": {STATE + "w": 1},
                  "$set": {STATE + "v": state["v"] + 1, STATE + "h": head, STATE + "r": removed}}
        return self.statement({"_id": 1, **{STATE + each: state[each] for each in guards}}, update)

    def attempt(self):
        """True where it was answered."""
        main = self.database.main.find_one({"_id": 1})
        self.stored, self.state = main["_spill"]["f"], state_of(main)
        if self.statement({"_id": 1, "_spill": {"$exists": False}}, self.update("f")):
            self.run.count("retry, from history")
            return True
        made = transact(self.run, self.database, "x1", self.x1)
        if made is None or random.random() < DIES:
            return False
        done = self.x2(*made)
        self.run.count("x2" if done else "x2, lost")
        return done and random.random() >= DIES

    def perform(self):
        for _ in range(60):
            if self.attempt():
                return True
            time.sleep(random.random() * 0.05)
        return False


def edit(run):
    database, session = run.database(), {"lsid": {"id": Binary(uuid.uuid4().bytes, 4)}}
    number = 0
    while not run.ended.is_set():
        number += 1
        one = Edit(run, database, session, number)
        answered = one.perform()
        with run.lock:
            if not answered:
                run.undecided.add(one.first)
            elif one.removes:
                run.removed.add(one.first)
            else:
                run.done[one.first] += 1


def collect(run):
    """G1 now, G2 and G3 after the delay."""
    database, waiting = run.database(), collections.deque()

    def work(state):
        def inside(session):
            dead = {"link": 1, "_spill.g": names(state), "_spill.u": {"$lte": state["v"]}}
            for batch in list(database.ov.find(dead, session=session)):
                database.ov.delete_one({"_id": batch["_id"]}, session=session)
                if batch["number"] > 0:
                    copies = {"link": 1, "_spill.p": batch["_spill"]["p"], "number": {"$lt": 0}}
                    database.ov.find_one_and_update(copies, {"$set": {"number": batch["number"]}},
                                                    sort=[("_spill.e", -1)], session=session)
            return True
        return inside

    while not run.ended.is_set():
        waiting.append((time.monotonic(), state_of(database.main.find_one({"_id": 1}))))
        if time.monotonic() - waiting[0][0] > DELAY:
            transact(run, database, "garbage", work(waiting.popleft()[1]))
        time.sleep(0.05)


def guarded(run, work, *rest):
    try:
        work(run, *rest)
    except Exception as error:
        run.wrong.append((work.__name__, repr(error)))
        run.ended.set()


def begin(database):
    database.ov.create_index([("link", 1), ("number", 1)], unique=True)
    elements = [{"id": each, "val": 0} for each in range(OLD)]
    generation = name()
    database.main.insert_one({"_id": 1, "f": elements[:HEAD], "_spill": {"f": {
        "g": generation, "h": HEAD, "n": OLD - HEAD}}})
    database.ov.insert_many([
        {"link": 1, "number": 1 + at // SIZE, "a": elements[HEAD + at:HEAD + at + SIZE],
         "_spill": {"g": generation, "p": at}} for at in range(0, OLD - HEAD, SIZE)])


def end(run):
    """Each edit was done once, and every push is there."""
    database = run.database()
    main = database.main.find_one({"_id": 1})
    array = merged(main, database.ov.find({"link": 1}))
    judge(run, array, "end")
    values = {each["id"]: each["val"] for each in array}
    for first in set(run.done) | run.removed | {1000 + 2 * each for each in range(run.pushed)}:
        if first in run.undecided:
            continue
        if (first in values) == (first in run.removed):
            run.wrong.append(("end", first, "is there, or is not"))
        elif first in values and values[first] != run.done[first]:
            run.wrong.append(("end", first, values[first], "instead of", run.done[first]))


def keep_sessions():
    """PyMongo puts its own session into every command; those that name one keep it."""
    apply = client_session.ClientSession._apply_to
    client_session.ClientSession._apply_to = lambda self, command, *rest: \
        None if "lsid" in command else apply(self, command, *rest)


def main():
    parser = argparse.ArgumentParser(prog="model.at_mongod", description=__doc__)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--without", choices=PARTS, action="append", default=[])
    given = parser.parse_args()
    keep_sessions()
    with Cluster() as cluster:
        run = Run(cluster, given.without)
        begin(run.database())
        threads = [threading.Thread(target=guarded, args=(run, *each)) for each in (
            [edit], [edit], [push], [move], [move], [collect], [read_joined], [read, 0, "merged"],
            [read, DELAY / 2, "merged late"], [read, DELAY / 2, "merged late"], [read, 2 * DELAY, "merged too late"])]
        for each in threads:
            each.start()
        run.ended.wait(given.seconds)
        run.ended.set()
        for each in threads:
            each.join()
        guarded(run, end)
    print(", ".join(f"{what}: {count}" for what, count in sorted(run.counts.items())))
    print(f"{len(run.wrong)} wrong: {run.wrong[:3]}")
    sys.exit(bool(run.wrong))


if __name__ == "__main__":
    main()
