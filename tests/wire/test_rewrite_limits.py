"""Small requests that would take long or grow without end when they are rewritten get mongod's own error; nobody has
to have signed in."""

import struct
import threading

import pytest

from support import exact, frames, tasks
from support.frames import message
from support.peer import Relay
from wire.conftest import RULES
from wire.test_refusals import ask

pytestmark = pytest.mark.share(1)
PATH = "buyers" + ".a" * 60_000
DISTINCT = {"distinct": "books", "key": PATH, "$db": "shop"}


def aggregate(stages):
    return {"aggregate": "plain", "pipeline": stages, "cursor": {}, "$db": "shop"}


def nested(depth):
    pipeline = []
    for _ in range(depth):
        pipeline = [{"$unionWith": {"coll": "books", "pipeline": pipeline}}]
    return pipeline


def choices(count):
    """The list is written here: the tests' own encoder takes seconds for so many."""
    choice = exact.document({"buyers": 1})
    listed = b"".join(b"\x03%d\0" % i + choice for i in range(count))
    array = struct.pack("<i", len(listed) + 5) + listed + b"\0"
    return {"find": "books", "filter": {"$or": exact.Raw(exact.ARRAY, array)}, "$db": "shop"}


REQUESTS = {
    "a path of 60,000 parts": (DISTINCT, 15, "FieldPath is too long"),
    "100,000 unions": (aggregate([{"$unionWith": "books"}] * 100_000), 115, "1,000 stages"),
    "1,001 stages": (aggregate([{"$unionWith": "books"}] + [{"$match": {"a": 1}}] * 1000), 9,
                     "Pipeline length must be no longer than 1000 stages"),
    "30 nested unions": (aggregate(nested(30)), 232, "Limit is 20"),
    "150,000 choices": (choices(150_000), 10334, "more than 200,000 fields"),
    "300,000 choices": (choices(300_000), 10334, "more than 500,000 fields"),
    "a body of 17 MB": ({"find": "books", "comment": "x" * 17_000_000, "$db": "shop"}, 10334, "16793600(16MB)"),
}


@pytest.mark.parametrize("name", REQUESTS)
@pytest.mark.parametrize("packer", [None, "zlib", "zstd"])
def test_a_request_that_would_grow_without_end_is_refused(relay, session, name, packer):
    client, server = session
    body, code, words = REQUESTS[name]
    request = message(body, (), 7)
    reply = ask(session, frames.compressed(request, packer) if packer else request).plain()
    assert (reply["ok"], reply["code"]) == (0.0, code)
    assert words in reply["errmsg"]
    client.finish()
    assert server.rest()[0] == b""
    assert relay.spillway.running()


@pytest.fixture(scope="module")
def one_loop():
    with Relay(RULES, {"workers": 1}) as made:
        yield made


def worked(spillway):
    """Seconds of CPU that Spillway has taken."""
    return sum(map(tasks.seconds, tasks.tasks(spillway.pid)))


def rewritten(spillway, client, server):
    """What Spillway does for a request that is just small enough to be rewritten."""
    before = worked(spillway)
    client.send(message(choices(95_000), (), 6))
    server.answer(server.frame(), {"cursor": {"firstBatch": [], "id": 0, "ns": "shop.books"}, "ok": 1.0})
    client.frame()
    return worked(spillway) - before


def pinged(spillway, client, server):
    """What Spillway did before a ping's answer was there."""
    before = worked(spillway)
    client.send(message({"ping": 1, "$db": "admin"}, (), 5))
    server.answer(server.frame(), {"ok": 1.0})
    client.frame()
    return worked(spillway) - before


def test_others_are_answered_while_large_requests_come_in(one_loop):
    name = "300,000 choices"
    request = message(REQUESTS[name][0], (), 7)
    sessions = [one_loop.connect_known() for _ in range(20)]
    client, server = one_loop.connect_known()
    most = len(sessions) * rewritten(one_loop.spillway, client, server)
    threads = [threading.Thread(target=large.send, args=(request,), daemon=True) for large, _ in sessions]
    for thread in threads:
        thread.start()
    pings = [pinged(one_loop.spillway, client, server)]
    while any(thread.is_alive() for thread in threads):
        pings.append(pinged(one_loop.spillway, client, server))
    pings.append(pinged(one_loop.spillway, client, server))
    for large, _ in sessions:
        assert large.frame().plain()["code"] == REQUESTS[name][1]
    assert max(pings) < most
