"""While one side stalls the other is not read: memory stays where it was."""

import hashlib
import struct
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from support import frames
from support.frames import message
from support.process import wait_for

ALLOWED = 256 << 10
STEADY = 30  # looks in a row that see no byte move
FIND = message({"find": "plain", "$db": "shop"}, (), 5)


def insert_of(size):
    """An insert of so many bytes."""
    head = message({"insert": "plain", "$db": "shop"}, (), 5)
    sequence = b"\1" + struct.pack("<i", size - len(head) - 1) + b"documents\0"
    content = hashlib.shake_128(b"content").digest(1 << 20) * 46
    return (struct.pack("<i", size) + head[4:] + sequence + content)[:size]


class Writer(threading.Thread):
    """Sends as fast as it is let, and counts."""

    def __init__(self, end, data):
        super().__init__(daemon=True)
        self.end = end
        self.data = memoryview(data)
        self.sent = 0
        self.start()

    def run(self):
        while self.sent < len(self.data):
            self.sent += self.end.socket.send(self.data[self.sent:self.sent + (1 << 18)])

    def wait_until_stuck(self):
        seen = []

        def steady():
            seen.append(self.sent)
            return len(seen) > STEADY and len(set(seen[-STEADY:])) == 1

        wait_for(steady, "the writer to be held up", pause=0.01)
        assert 0 < self.sent < len(self.data), "nothing held it up"


def pass_one(client, server):
    client.send(FIND)
    server.answer_each(1)
    client.frame()


def arrives(end, data):
    """Whether this comes, and no other."""
    rest = memoryview(data)
    while rest:
        part = end.take(min(len(rest), 1 << 20))
        if part != rest[:len(part)]:
            return False
        rest = rest[len(part):]
    return True


def arrives_everywhere(ends, data):
    """At all ends at once: no writer waits until the others are done."""
    with ThreadPoolExecutor(len(ends)) as readers:
        return all(readers.map(lambda end: arrives(end, data), ends))


def memory_at_rest(relay):
    """The mover's threads take theirs in the first moments."""
    seen = []

    def steady():
        seen.append(relay.private_memory())
        return len(seen) > STEADY and len(set(seen[-STEADY:])) == 1

    wait_for(steady, "the memory to be steady", pause=0.01)
    return seen[-1]


def stall(relay, session, direction, writes, allowed):
    """One direction is written to by `writes` and not read for a while: so much memory is allowed meanwhile."""
    client, server = session
    longest = insert_of(frames.LONGEST)
    pass_one(client, server)
    before = memory_at_rest(relay)
    from_end, to_end = (client, server) if direction == "request" else (server, client)
    if direction == "reply":
        client.send(FIND)
        assert server.take(len(FIND)) == FIND
    writer = writes(from_end, longest)
    writer.wait_until_stuck()
    assert relay.private_memory() - before <= allowed
    received = to_end.take(len(longest))
    assert relay.private_memory() - before <= allowed
    writer.join()
    assert received == longest


@pytest.mark.parametrize("direction", ["request", "reply"])
def test_a_side_that_stalls_costs_no_memory(relay, session, direction):
    stall(relay, session, direction, Writer, ALLOWED)


def test_both_ways_at_once_and_many_sessions(relay):
    """Each direction of each session has its share; none grows with what is sent."""
    sessions = [relay.connect_known() for _ in range(6)]
    for each in sessions:
        pass_one(*each)
    data = insert_of(frames.LONGEST)  # more than the sockets' own buffers may hold on the way
    before = relay.private_memory()
    writers = [Writer(end, data) for each in sessions for end in each]
    for writer in writers:
        writer.wait_until_stuck()
    assert relay.private_memory() - before <= len(writers) * ALLOWED
    assert arrives_everywhere([end for each in sessions for end in each], data)
    for writer in writers:
        writer.join()


def test_a_client_that_pipelines_without_end_is_held_up(relay, session):
    client, server = session
    pass_one(client, server)
    before = relay.private_memory()
    count = 20_000
    request = message({"find": "plain", "comment": "x" * 1000, "$db": "shop"}, (), 5)
    writer = Writer(client, request * count)
    writer.wait_until_stuck()
    assert relay.private_memory() - before <= ALLOWED
    assert all(each.raw == request for each in server.answer_each(count))
    writer.join()
    for _ in range(count):
        client.frame()


REFUSED = {"mapReduce": "books", "comment": "x" * 40, "$db": "shop"}


def test_refusals_that_are_not_read_hold_up_the_client(relay):
    """A client that reads none of its errors is not read either; then it gets all of them, in their order."""
    client, server = relay.connect_known()
    count = 60000
    before = relay.private_memory()
    writer = Writer(client, b"".join(message(REFUSED, (), number) for number in range(1, count)) + FIND)
    writer.wait_until_stuck()
    assert relay.private_memory() - before < 2 << 20
    for number in range(1, count):
        reply = client.frame()
        assert reply.response_to == number
    assert reply.plain()["code"] == 115
    server.answer_each(1)
    client.frame()
    writer.join()


def test_what_waits_behind_refusals_is_done_after_the_clients_end(relay):
    """The client's end came behind requests that waited for its reading."""
    client, server = relay.connect_known()
    count = 60000
    writer = Writer(client, b"".join(message(REFUSED, (), number) for number in range(1, count)) + FIND)
    writer.wait_until_stuck()
    for number in range(1, count):
        assert client.frame().response_to == number
        if not writer.is_alive():
            break
    writer.join()
    client.finish()
    for later in range(number + 1, count):
        assert client.frame().response_to == later
    server.answer_each(1)
    assert client.frame().response_to == 5
