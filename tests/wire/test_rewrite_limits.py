"""Small requests that would take long or grow without end when they are rewritten get mongod's own error; nobody has to have signed in."""

import pytest

from support import frames
from support.frames import message
from wire.test_refusals import ask

PATH = "buyers" + ".a" * 60_000
DISTINCT = {"distinct": "books", "key": PATH, "$db": "shop"}


def aggregate(stages):
    return {"aggregate": "plain", "pipeline": stages, "cursor": {}, "$db": "shop"}


def nested(depth):
    pipeline = []
    for _ in range(depth):
        pipeline = [{"$unionWith": {"coll": "books", "pipeline": pipeline}}]
    return pipeline


REQUESTS = {
    "a path of 60,000 parts": (DISTINCT, 15, "FieldPath is too long"),
    "100,000 unions": (aggregate([{"$unionWith": "books"}] * 100_000), 115, "1,000 stages"),
    "1,001 stages": (aggregate([{"$unionWith": "books"}] + [{"$match": {"a": 1}}] * 1000), 9,
                     "Pipeline length must be no longer than 1000 stages"),
    "30 nested unions": (aggregate(nested(30)), 232, "Limit is 20"),
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
