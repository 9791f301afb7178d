"""Reads and writes that do less than they were asked for, or fail for the moment: the same bytes come out."""

import errno
import threading

import pytest

from support import frames
from support.failing import Failing, HeldNames
from support.frames import message
from support.peer import Relay
from support.process import wait_for
from wire.conftest import RULES
from wire.test_merge import FIND, batch, found, spilled, whole

TEXT = "x" * 1000
PLAIN = {"insert": "plain", "$db": "shop"}
PASSES = b"".join(message(PLAIN, [("documents", [{"_id": i, "text": TEXT * i}])], 100 + i) for i in range(8))
REPLIES = b"".join(message({"n": 1, "ok": 1.0, "text": TEXT * i}, (), 900 + i, 100 + i) for i in range(8))
FEW = {"most": 1, "read_error": 0, "write_error": 0, "every": 0}
WAYS = {
    "one byte at a time": FEW,
    "seven bytes at a time": {**FEW, "most": 7},
    "interrupted": {**FEW, "most": 0, "read_error": errno.EINTR, "write_error": errno.EINTR, "every": 2},
    "nothing there and no room": {**FEW, "most": 0, "read_error": errno.EAGAIN, "write_error": errno.EAGAIN,
                                  "every": 2},
    "no buffers": {**FEW, "most": 0, "write_error": errno.ENOBUFS, "every": 2},
    "a few bytes, and no buffers": {**FEW, "most": 100, "read_error": errno.EINTR, "write_error": errno.ENOBUFS,
                                    "every": 3},
}


@pytest.fixture(scope="module")
def failing():
    made = Failing("io")
    yield made
    made.close()


@pytest.fixture(scope="module")
def relay(failing):
    with Relay(RULES, wrapper=failing.wrapper) as made:
        yield made


@pytest.fixture(params=WAYS)
def odd(request, session, failing):
    """A session from now on whose system calls are odd."""
    failing.set(calls=0, failed=0, **WAYS[request.param])
    yield session
    failing.set(most=0, every=0)
    assert failing.get("failed") > 0


def exchange(odd, request, reply):
    """What the server and the client get, while both sides send at once."""
    client, server = odd
    senders = [threading.Thread(target=end.send, args=(sent,)) for end, sent in ((client, request), (server, reply))]
    senders[0].start()
    arrived = server.take(len(request))
    senders[1].start()
    answered = client.take(len(reply))
    for sender in senders:
        sender.join()
    return arrived, answered


def test_what_passes_is_the_same(odd):
    assert exchange(odd, PASSES, REPLIES) == (PASSES, REPLIES)


@pytest.mark.parametrize("packer", [None, "snappy", "zlib", "zstd"])
def test_what_is_merged_is_the_same(odd, packer):
    client, server = odd
    elements = [f"{i} {TEXT[:200]}" for i in range(100)]
    request, main = message(FIND, (), 7), found([spilled(1, elements[:3], elements[90:], 87)])
    client.send(request if packer is None else frames.compressed(request, packer))
    server.answer(server.frame(), main, request_id=50)
    asked = server.frame()
    assert asked.plain()["filter"]["book"] == {"$in": [1]}
    server.answer(asked, found([batch(1, 0, elements[3:50]), batch(1, 47, elements[50:90])], namespace="shop.extra"))
    reply = client.frame()
    expected = message(found([whole(1, elements)]), (), 50, 7)
    assert reply.compressor == packer
    assert (reply.raw if packer is None else expected[:16] + reply.payload) == expected


def test_a_large_request_that_has_to_be_held_is_the_same(odd):
    client, server = odd
    request = message({"insert": "books", "$db": "shop"}, [("documents", [{"_id": 1, "text": TEXT * 40}])], 7)
    client.send(request)
    seen = server.frame()
    assert frames.document([("_id", 1), ("text", TEXT * 40)]) in seen.payload
    server.answer(seen, {"n": 1, "ok": 1.0})
    assert client.frame().plain() == {"n": 1, "ok": 1.0}


@pytest.mark.parametrize("error", [errno.EINTR, errno.ECONNABORTED, errno.ENOBUFS, errno.ENOMEM],
                         ids=errno.errorcode.get)
def test_whoever_waits_is_accepted_in_the_end(relay, failing, error):
    failing.set(calls=0, failed=0, accept_error=error, every=2)
    sessions = [relay.connect() for _ in range(4)]
    failing.set(accept_error=0, every=0)
    assert failing.get("failed") > 0
    for session in sessions:
        assert exchange(session, PASSES, REPLIES) == (PASSES, REPLIES)


def test_of_connections_that_have_gone_no_name_is_looked_up():
    """They would keep the others, and the end of the process, waiting where no DNS answers."""
    names, count = HeldNames(), 40
    relay = Relay(RULES, wrapper=names.wrapper)
    listen = relay.spillway.settings["listen"][0]
    listen["server"] = listen["server"].replace("127.0.0.1", "server.test")
    with relay:
        asked = names.get("asked")
        names.set(held=1, let=asked)
        clients = [relay.client() for _ in range(count)]
        wait_for(lambda: relay.spillway.metrics()["spillway_connections_open"] == count, "all connections")
        for client in clients:
            client.reset()
        wait_for(lambda: names.get("asked") > asked, "a name to be looked up")
        relay.spillway.process.terminate()
        relay.spillway.says("draining")
        names.set(held=0)
        assert relay.spillway.process.wait(60) == 0
        assert names.get("asked") - asked < count / 2
    names.close()
