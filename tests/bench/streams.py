"""The rows of change streams: a backlog of pushes, read as events, straight at mongod and through Spillway.

Each arm has a collection of its own with the same history, so both streams have the same events. Moves are events of
the ruled collection alone; Spillway drops them.
"""

import statistics
import time

from bson.timestamp import Timestamp
from pymongo import MongoClient, UpdateOne

from bench.arms import ARRAY, DATABASE, RULED, PinnedSpillway, rule
from bench.edits import connect
from bench.spill import DIRECT, pinned_cluster
from bench.table import Row
from support import exact
from support.process import wait_for

ORDINARY = 10          # elements of a document before the pushes
OUTLIER = 250          # of an outlier, whose rule has a threshold of 200
EACH = 1000            # pushes of one command
LAST = "the last one"  # an event of no document that has an array


class StreamSpillway(PinnedSpillway):
    def __init__(self, server):
        super().__init__(server)
        self.settings["rules"] = [{**rule(), "settle": "10ms", "quiet": "20ms"}]


def event_rows(scale):
    return [backlog(scale, 0, 0.9), backlog(scale, 10, 0.6)]


def backlog(scale, percent, at_least):
    """`percent` of the documents, and so of the events, are outliers."""
    documents = max(scale.events // 10, 1)
    with pinned_cluster() as cluster, cluster.client() as client, StreamSpillway(cluster.primary) as spillway:
        with MongoClient("127.0.0.1", spillway.port, directConnection=True) as through:
            databases = {DIRECT: client[DATABASE], RULED: through[DATABASE]}
            for name, database in databases.items():
                database[name].insert_many(
                    {"_id": i, ARRAY: list(range(OUTLIER if i % 100 < percent else ORDINARY))}
                    for i in range(documents))
            wait_for_moves(client[DATABASE], sum(i % 100 < percent for i in range(documents)))
            now = client.admin.command("ping")["operationTime"]
            began = Timestamp(now.time, now.inc + 1)  # what was moved before comes in no stream
            for name, database in databases.items():
                push(database[name], documents, scale.events)
        arms = connect(cluster.primary.port, spillway.port)
        times, events = drain_in_turn(arms, began, scale.rounds)
    if set(events.values()) != {scale.events + 1}:
        raise RuntimeError(f"events: {events}")
    direct, ruled = (statistics.median(times[name]) for name in (DIRECT, RULED))
    return Row(f"change stream, {percent} % of the events on outliers: events a second / direct", direct / ruled,
               at_least=at_least, detail={f"{name}, events a second": scale.events / statistics.median(each)
                                          for name, each in times.items()})


def wait_for_moves(database, outliers):
    moved = {f"_spill.{ARRAY}.n": {"$gt": 0}}
    wait_for(lambda: database[RULED].count_documents(moved) == outliers, "the outliers to be spilled", 120, 0.05)


def push(collection, documents, events):
    for first in range(0, events, EACH):
        collection.bulk_write([UpdateOne({"_id": number % documents}, {"$push": {ARRAY: number}})
                               for number in range(first, min(first + EACH, events))], ordered=False)
    collection.insert_one({"_id": LAST})


def drain_in_turn(arms, began, rounds):
    """{arm: seconds of each round}, {arm: events of a round}. The first round isn't counted."""
    times, events = {name: [] for name in arms}, {}
    for turn in range(rounds + 1):
        for name, connection in arms.items():
            seconds, events[name] = drain(connection, name, began)
            times[name] += [seconds] if turn else []
    return times, events


def drain(connection, name, began):
    """Seconds until the last event has come, and how many came."""
    started = time.perf_counter()
    opens = {"aggregate": name, "pipeline": [{"$changeStream": {"startAtOperationTime": began}}],
             "cursor": {}}
    replies = [connection.call(exact.document({**opens, "$db": DATABASE}))]
    number = exact.find(replies[0].body, "cursor.id")
    while LAST.encode() not in replies[-1].body:
        replies.append(connection.call(exact.document({"getMore": number, "collection": name, "$db": DATABASE})))
    seconds = time.perf_counter() - started
    connection.call(exact.document({"killCursors": name, "cursors": [number], "$db": DATABASE}))
    said = [reply.plain()["cursor"] for reply in replies]
    return seconds, sum(len(cursor.get("firstBatch", cursor.get("nextBatch"))) for cursor in said)
