"""PyMongo at work for the soak: usage client.py URI DATABASE PREFIX COUNT PACE SEED. So many clients, each with a
document of its own, until standard input ends. Prints JSON lines: what failed, what was wrong, each second's
operations, and the end."""

import json
import random
import sys
import threading
import time

import pymongo
from pymongo.errors import PyMongoError

LONGEST = 400  # elements; then the array is emptied
PRINTED = threading.Lock()
OVER = threading.Event()


def tell(**what):
    with PRINTED:
        print(json.dumps({"at": time.time(), **what}), flush=True)


class Seconds:
    """How many operations ended, and how long the longest took, since it last told."""

    def __init__(self):
        self.lock, self.done, self.longest = threading.Lock(), 0, 0.0

    def add(self, seconds):
        with self.lock:
            self.done, self.longest = self.done + 1, max(self.longest, seconds)

    def run(self):
        while not OVER.wait(1):
            with self.lock:
                done, longest, self.done, self.longest = self.done, self.longest, 0, 0.0
            tell(done=done, longest=round(longest * 1000))


SECONDS = Seconds()


class Worker:
    """One client. Each write asks for the version before it and leaves the next, so none can come late."""

    def __init__(self, uri, database, name, pace, seed):
        self.client = pymongo.MongoClient(uri, w="majority", serverSelectionTimeoutMS=30000, maxPoolSize=2)
        self.books, self.name, self.pace = self.client[database].books, name, pace
        self.random, self.version, self.array, self.number = random.Random(f"{seed} {name}"), 0, [], 0

    def attempt(self, what, operation):
        began = time.monotonic()
        try:
            result = operation()
        except PyMongoError as error:
            tell(failed=what, error=repr(error)[:300])
            return None
        SECONDS.add(time.monotonic() - began)
        return result

    def certainly(self, what, operation):
        while True:
            result = self.attempt(what, operation)
            if result is not None:
                return result
            time.sleep(0.2)

    def wrong(self, what, found):
        tell(wrong=what, document=self.name, found=repr(found)[:300], expected=repr(self.array[-8:]))

    def write(self, what, update, after):
        change = {**update, "$set": {**update.get("$set", {}), "v": self.version + 1}}
        query = {"_id": self.name, "v": self.version}
        result = self.attempt(what, lambda: self.books.update_one(query, change))
        if result is None:
            self.find_out(after)
            return
        if result.matched_count != 1:
            self.wrong(what, result.raw_result)
        self.version, self.array = self.version + 1, after

    def find_out(self, after):
        """Whether a write that failed was done: no earlier one can be done behind the next version."""
        versions = {"$in": [self.version, self.version + 1, self.version + 2]}
        self.version += 2
        self.certainly("fence", lambda: self.books.update_one({"_id": self.name, "v": versions},
                                                              {"$set": {"v": self.version}}))
        found = self.certainly("find", lambda: self.books.find_one({"_id": self.name}))["list"]
        if found == after:
            self.array = after
        self.same("after a failure", found, self.array)

    def same(self, what, found, expected):
        if found != expected:
            self.wrong(what, found)

    def step(self):
        draw = self.random.random()
        if len(self.array) >= LONGEST:
            self.write("empty", {"$set": {"list": []}}, [])
        elif draw < 0.5 or not self.array:
            self.number += 1
            self.write("push", {"$push": {"list": self.number}}, [*self.array, self.number])
        elif draw < 0.6:
            gone = self.random.choice(self.array)
            self.write("pull", {"$pull": {"list": gone}}, [each for each in self.array if each != gone])
        elif draw < 0.8:
            found = self.attempt("page", lambda: self.books.find_one({"_id": self.name}, {"list": {"$slice": -5}}))
            if found is not None:
                self.same("page", found["list"], self.array[-5:])
        else:
            found = self.attempt("find", lambda: self.books.find_one({"_id": self.name}))
            if found is not None:
                self.same("find", found["list"], self.array)

    def run(self):
        self.certainly("insert", lambda: self.books.update_one(
            {"_id": self.name}, {"$setOnInsert": {"list": [], "v": 0}}, upsert=True))
        OVER.wait(self.random.random() / self.pace)
        while not OVER.is_set():
            began = time.monotonic()
            self.step()
            OVER.wait(max(0.0, 1 / self.pace - (time.monotonic() - began)))
        self.same("end", self.certainly("find", lambda: self.books.find_one({"_id": self.name}))["list"], self.array)
        self.client.close()


def main(uri, database, prefix, count, pace, seed):
    workers = [Worker(uri, database, f"{prefix}{number}", float(pace), seed) for number in range(int(count))]
    threads = [threading.Thread(target=worker.run) for worker in workers]
    second = threading.Thread(target=SECONDS.run)
    for thread in [*threads, second]:
        thread.start()
    sys.stdin.read()
    OVER.set()
    for thread in [*threads, second]:
        thread.join()
    tell(over=len(workers))


if __name__ == "__main__":
    main(*sys.argv[1:])
