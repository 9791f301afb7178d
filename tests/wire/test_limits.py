"""Limits: connections, descriptors, memory, the handshake's deadline; what keeps serve from starting."""

import contextlib
import http.client
import os
import resource
import select
import socket
import threading
import time

import pytest

from support import exact, frames, peer, tasks
from support.frames import MORE_TO_COME, message
from support.peer import CLOSED, RESET, Relay
from support.process import build_folder, wait_for
from support.spillway import Spillway, yaml
from wire.conftest import BOOKS, RULES

pytestmark = pytest.mark.share(1)
PING = message({"ping": 1, "$db": "admin"}, (), 5)
OK = message({"ok": 1.0}, (), 9, 5)
HELLO = {"hello": 1, "$db": "admin"}
UNAVAILABLE = 365
KEEPS_WHAT_IS_FREED = build_folder().name == "asan"  # so that whatever uses it is found
LARGE = message({"insert": "books", "$db": "shop"}, [("documents", [{"buyers": ["x" * 1000] * 1500}])], 7)


def works(client, server):
    client.send(PING)
    assert server.take(len(PING)) == PING
    server.send(OK)
    assert client.take(len(OK)) == OK


def ended(server):
    """The client's end has come through; a server answers it with its own."""
    assert server.rest() == (b"", CLOSED)
    server.close()


def open_connections(relay):
    samples = relay.spillway.metrics()
    return samples["spillway_connections_accepted_total"] - samples["spillway_connections_closed_total"]


def refused_connection(client, request, opcode=frames.OP_MSG):
    reply = client.ask(request)
    body = reply.plain()
    assert (reply.opcode, reply.response_to) == (opcode, 5)
    assert (body["ok"], body["code"], body["codeName"]) == (0.0, UNAVAILABLE, "TemporarilyUnavailable")
    assert "limits.connections" in body["errmsg"]
    assert client.rest()[0] == b""


def test_one_connection_too_many_is_told_so_and_closed():
    with Relay(RULES, {"limits": {"connections": 2, "handshake": "10m"}}) as relay:
        first, second = relay.connect(), relay.connect()
        for request, opcode in (
                (message(HELLO, (), 5), frames.OP_MSG), (PING, frames.OP_MSG),
                (frames.query("admin.$cmd", {"isMaster": 1}, 5), frames.OP_REPLY),
                (message({"insert": "plain", "$db": "x"}, [("documents", [{}])], 5), frames.OP_MSG)):
            refused_connection(relay.client(), request, opcode)
        quiet = relay.client()
        quiet.send(message({"insert": "plain", "$db": "x"}, [("documents", [{}])], 5, flags=MORE_TO_COME))
        assert quiet.rest()[0] == b""
        assert relay.spillway.metrics()["spillway_connections_refused_total"] == 5
        for each in (first, second):
            works(*each)
        first[0].close()
        ended(first[1])
        wait_for(lambda: open_connections(relay) == 1, "the session to be gone")
        works(*relay.connect())


def test_refused_connections_that_stay_silent_take_no_place():
    with Relay(RULES, {"limits": {"connections": 1, "handshake": "10m"}}) as relay:
        first = relay.connect()
        silent = [relay.client() for _ in range(3)]
        wait_for(lambda: open_connections(relay) == 4, "all to be accepted")
        first[0].close()
        ended(first[1])
        wait_for(lambda: open_connections(relay) == 3, "the session to be gone")
        works(*relay.connect())
        assert len(silent) == 3


@pytest.mark.parametrize("sent", [0, 1, 16, 30])
def test_a_client_that_never_asks_is_closed(sent):
    """The time is made short when all that has to come before its end has come."""
    with Relay(RULES, {"limits": {"handshake": "10m"}}) as relay:
        busy, idle = relay.connect(), relay.connect()
        works(*busy)
        idle[0].send(PING[:sent])
        relay.spillway.settings["limits"]["handshake"] = "300ms"
        relay.spillway.write_file()
        relay.spillway.hang_up()
        assert idle[0].rest() == (b"", CLOSED)
        assert PING.startswith(idle[1].rest()[0])
        works(*busy)
        assert relay.spillway.says("no request within limits.handshake")
        assert relay.spillway.said().count("no request within") == 1
        started = time.monotonic()
        assert relay.client().rest()[0] == b""
        assert time.monotonic() - started >= 0.25


def test_one_address_may_have_so_many_connections():
    with Relay(RULES, {"limits": {"connections_per_address": 2, "handshake": "10m"}}) as relay:
        first, second = relay.connect(), relay.connect()
        for number in range(2):
            reply = relay.client().ask(message({**HELLO, "client": {"application": {"name": "shop"}}}, (), 5)).plain()
            assert (reply["code"], "limits.connections_per_address" in reply["errmsg"]) == (UNAVAILABLE, True), number
        wait_for(lambda: open_connections(relay) == 2, "the refused ones to be gone")
        silent = [relay.client() for _ in range(2)]
        wait_for(lambda: open_connections(relay) == 4, "the silent ones to be accepted")
        assert relay.client().rest()[0] == b"", "beyond twice the limit"
        said = relay.spillway.said()
        assert said.count("(appName 'shop') refused: limits.connections_per_address is reached") == 1
        other = peer.End(socket.create_connection(("127.0.0.1", relay.spillway.port), peer.DEADLINE, ("127.0.0.2", 0)))
        behind = relay.server.accept()
        works(other, behind)
        other.close()
        ended(behind)
        for each in silent:
            each.close()
        first[0].close()
        ended(first[1])
        wait_for(lambda: open_connections(relay) == 1, "the sessions to be gone")
        works(*relay.connect())
        works(*second)


def connect_from(relay, address):
    client = peer.End(socket.create_connection(("127.0.0.1", relay.spillway.port), peer.DEADLINE, (address, 0)))
    relay.clients.append(client)
    return client


def test_a_crowd_that_does_not_sign_in_makes_room_for_others():
    """The newest of it first. Without a sign-in, strangers can't be told from clients; a few are drivers' monitors."""
    with Relay(RULES, {"workers": 1, "limits": {"connections": 20, "handshake": "10m"}}) as relay:
        crowd = [relay.connect() for _ in range(17)]
        client, monitor = ((connect_from(relay, "127.0.0.2"), relay.server.accept()) for _ in range(2))
        works(*monitor)
        full = relay.connect()
        refused_connection(connect_from(relay, "127.0.0.3"), message(HELLO, (), 5))
        client[0].send(message({"saslStart": 1, "mechanism": "SCRAM-SHA-256", "payload": b"x", "$db": "admin"}, (), 3))
        client[1].answer(client[1].frame(), {"conversationId": 1, "done": True, "ok": 1.0})
        client[0].frame()
        refused_connection(relay.client(), message(HELLO, (), 5))
        for newest in (full, crowd.pop(), crowd.pop()):
            works(connect_from(relay, "127.0.0.3"), relay.server.accept())
            assert newest[0].rest() == (b"", CLOSED)
            ended(newest[1])
        assert relay.spillway.says("its address has the most connections that have not signed in")
        refused_connection(connect_from(relay, "127.0.0.3"), message(HELLO, (), 5))
        for each in (*crowd, client, monitor):
            works(*each)
        assert relay.spillway.metrics()["spillway_connections_refused_total"] == 6


def cpu_seconds(relay):
    """Of the threads that accept. The others look at the server from time to time."""
    return sum(tasks.seconds(thread) for name in ("loop", "admin") for thread in tasks.named(relay.spillway.pid, name))


def test_when_descriptors_run_out_accepting_pauses_and_resumes():
    descriptors = ["prlimit", "--nofile=84"]  # serve keeps 64 for itself: 10 sessions
    with Relay(RULES, {"workers": 1, "limits": {"handshake": "10m"}}, wrapper=descriptors) as relay:
        sessions = [relay.connect() for _ in range(10)]
        waiting = [relay.client() for _ in range(30)]
        for each in waiting:
            each.send(PING)
        wait_for(lambda: "is paused" in relay.spillway.said(), "accepting to pause")
        before = cpu_seconds(relay)
        assert not select.select([each.socket for each in waiting], [], [], 1)[0]
        assert cpu_seconds(relay) - before < 0.05
        assert relay.server.waiting.empty()
        assert relay.spillway.said().count("is paused") == 1
        for each in sessions:
            works(*each)
        for client, server in sessions[:5]:
            client.close()
            ended(server)
        for client in waiting[:5]:
            server = relay.server.accept()
            assert server.take(len(PING)) == PING
            server.send(OK)
            assert client.take(len(OK)) == OK
        samples = relay.spillway.metrics()
        assert samples["spillway_accept_pauses_total"] >= 1
        assert relay.spillway.running()


def limit_descriptors(relay, limit):
    """What is open stays open; a new one gets a number below the limit or none."""
    resource.prlimit(relay.spillway.pid, resource.RLIMIT_NOFILE, (limit, HARD_LIMIT))


def leave_descriptors(relay, count):
    """Leaves this many free descriptors below the limit.

    Spillway's own look at the server may open or close one later. So tests call this anew until what they wait for
    has happened.
    """
    taken = {int(name) for name in os.listdir(f"/proc/{relay.spillway.pid}/fd")}
    limit_descriptors(relay, min(set(range(len(taken) + 1)) - taken) + count)


HARD_LIMIT = resource.getrlimit(resource.RLIMIT_NOFILE)[1]


def test_when_the_system_gives_no_more_descriptors_accepting_pauses_once():
    with Relay(RULES, {"workers": 1, "limits": {"handshake": "10m"}}) as relay:
        works(*relay.connect())
        limit_descriptors(relay, 0)
        waiting = [relay.client() for _ in range(3)]
        for each in waiting:
            each.send(PING)
        wait_for(lambda: "is paused" in relay.spillway.said(), "accepting to pause")
        before = cpu_seconds(relay)
        assert not select.select([each.socket for each in waiting], [], [], 1)[0]
        assert cpu_seconds(relay) - before < 0.05
        assert relay.spillway.said().count("is paused") == 1
        limit_descriptors(relay, 1000)
        for _ in waiting:
            server = relay.server.accept()
            assert server.take(len(PING)) == PING
            server.send(OK)
        for each in waiting:
            assert each.take(len(OK)) == OK
        limit_descriptors(relay, 0)
        late = relay.client()
        late.send(PING)
        wait_for(lambda: relay.spillway.said().count("is paused") == 2, "accepting to pause again")
        limit_descriptors(relay, 1000)
        assert relay.server.accept().take(len(PING)) == PING


def test_too_few_descriptors_for_a_handful_of_connections_refuse_the_start():
    with Relay(RULES).server as server:
        spillway = Spillway([server], RULES, {"upstream": {"uri": server.uri}})
        spillway.command = ["prlimit", "--nofile=64", *spillway.command]
        said = spillway.refuses_to_start()
        spillway.__exit__()
    assert " error 1010 the limit of open files is 64" in said
    assert "raise the limit to 20064 for limits.connections (10000)" in said
    assert "LimitNOFILE" in said


def test_the_soft_limit_is_raised_and_too_little_room_is_told_of():
    limits = ["prlimit", "--nofile=70:264"]
    with Relay(RULES, {"limits": {"connections": 100, "handshake": "10m"}}, wrapper=limits) as relay:
        assert resource.prlimit(relay.spillway.pid, resource.RLIMIT_NOFILE) == (264, 264)
        assert "limit of open files" not in relay.spillway.said()
        works(*relay.connect())
    with Relay(RULES, {"limits": {"connections": 101, "handshake": "10m"}}, wrapper=limits) as relay:
        assert relay.spillway.says("leaves room for 100 connections, fewer than limits.connections (101)")


def ready(relay):
    return relay.spillway.admin("/readyz")


def test_who_has_no_descriptors_for_more_clients_is_not_ready_until_there_are_some():
    with Relay(RULES, {"limits": {"handshake": "10m"}}, wrapper=["prlimit", "--nofile=84"]) as relay:
        sessions = [relay.connect() for _ in range(9)]
        wait_for(lambda: ready(relay)[0] == 200, "Spillway to be ready")
        sessions.append(relay.connect())
        waiting = relay.client()
        wait_for(lambda: ready(relay)[0] == 503, "Spillway to be unready")
        assert "not ready: accepting is paused: descriptors are used up" in ready(relay)[1]
        assert "accepting is paused" in relay.spillway.admin("/")[1]
        before = cpu_seconds(relay)
        assert not select.select([waiting.socket], [], [], 1)[0]
        assert cpu_seconds(relay) - before < 0.05
        waiting.close()  # nobody is left to be accepted
        for client, server in sessions[:2]:
            client.close()
            ended(server)
        wait_for(lambda: ready(relay)[0] == 200, "Spillway to be ready again")
        for each in sessions[2:]:
            works(*each)


def pause_without_descriptors(relay):
    """False: another thread had the admin address's descriptor when it was asked."""
    works(*relay.connect())
    relay.spillway.admin_seconds = 5

    def not_ready():
        leave_descriptors(relay, 0)
        relay.client()
        status, text = ready(relay)
        return status == 0 or "accepting is paused" in text and status

    return wait_for(not_ready, "accepting to pause", pause=0.1) == 503


def test_who_gets_no_descriptor_from_the_system_is_not_ready_until_it_does():
    """The admin address, too, waits without spinning, and keeps a descriptor for who asks."""
    for _ in range(5):
        with Relay(RULES, {"workers": 1, "limits": {"handshake": "10m"}}) as relay:
            if not pause_without_descriptors(relay):
                continue
            relay.spillway.admin_seconds = peer.DEADLINE
            before = cpu_seconds(relay)
            probes = [socket.create_connection(("127.0.0.1", relay.spillway.admin_port), 60) for _ in range(3)]
            assert not select.select(probes, [], [], 1)[0]
            assert cpu_seconds(relay) - before < 0.05
            for probe in probes:
                probe.close()
            limit_descriptors(relay, 1000)
            wait_for(lambda: ready(relay)[0] == 200, "Spillway to be ready again")
            return
    pytest.fail("the admin address never had a descriptor")


def asked_there(server):
    """The end, if PING comes through it. A client that has gone may have left one."""
    try:
        return server if server.take(len(PING)) == PING else None
    except peer.Ended:
        return None


def test_a_client_for_whose_server_connection_there_is_no_descriptor_is_closed():
    with Relay(RULES, {"workers": 1, "limits": {"handshake": "10m"}}) as relay:
        established = relay.connect()
        works(*established)

        def a_client_is_closed():
            leave_descriptors(relay, 1)
            try:
                with contextlib.closing(relay.client()) as client:
                    return select.select([client.socket], [], [], 0.5)[0] and client.rest()[0] == b""
            except ConnectionResetError:
                return True  # it was closed before connect returned

        wait_for(a_client_is_closed, "a client to be closed")
        works(*established)
        limit_descriptors(relay, 1000)
        client = relay.client()
        client.send(PING)
        server = wait_for(lambda: asked_there(relay.server.accept()), "the client's server connection")
        server.send(OK)
        assert client.take(len(OK)) == OK


def test_a_ruled_request_there_is_no_memory_for_is_refused():
    with Relay(RULES, {"limits": {"memory": "1MB", "handshake": "10m"}}) as relay:
        client, server = relay.connect()
        works(client, server)
        parts = [("documents", [{"_id": number, "buyers": ["x" * 1000] * 100} for number in range(20)])]
        command = {"insert": "books", "$db": "shop"}
        before = relay.private_memory()
        for request_id in (7, 0, -1):
            reply = client.ask(message(command, parts, request_id))
            assert (reply.response_to, reply.plain()["code"]) == (request_id, UNAVAILABLE)
            assert "limits.memory" in reply.plain()["errmsg"]
        client.send(message(command, parts, 8, flags=MORE_TO_COME))
        works(client, server)
        assert relay.private_memory() - before < 3 << 19  # of 2 MB
        plain = message({**command, "insert": "plain"}, parts, 9)
        writer = threading.Thread(target=client.send, args=(plain,))
        writer.start()
        assert server.take(len(plain)) == plain
        writer.join()


def test_a_request_there_is_no_memory_for_waits_for_the_replies_before_it():
    with Relay(RULES, {"limits": {"memory": "1MB", "handshake": "10m"}}) as relay:
        client, server = relay.connect()
        client.send(PING)
        server.frame()
        writer = threading.Thread(target=client.send, args=(LARGE,))
        writer.start()
        writer.join()
        server.send(OK)
        assert client.take(len(OK)) == OK
        assert client.frame().plain()["code"] == UNAVAILABLE


TRANSACTION = {"lsid": {"id": 1}, "txnNumber": 5, "autocommit": False, "apiVersion": "1"}


def test_a_transaction_ends_with_a_request_there_is_no_memory_for():
    """Where its fields stand does not matter; where the request was to start it, there is none."""
    with Relay(RULES, {"limits": {"memory": "1MB", "handshake": "10m"}}) as relay:
        client, server = relay.connect()
        works(client, server)
        documents = [{"_id": number, "buyers": ["x" * 1000] * 100} for number in range(20)]
        insert = {"insert": "books", "$db": "shop"}
        for request in (message({**insert, **TRANSACTION}, [("documents", documents)], 7),
                        message({**insert, "documents": documents, **TRANSACTION}, (), 7)):
            client.send(request)
            asked = server.frame()
            assert asked.plain() == {"abortTransaction": 1, "$db": "admin", **TRANSACTION, "writeConcern": {"w": 1}}
            server.answer(asked, {"ok": 1.0})
            assert client.frame().plain()["code"] == UNAVAILABLE
        client.send(message({**insert, **TRANSACTION, "startTransaction": True}, [("documents", documents)], 7))
        assert client.frame().plain()["code"] == UNAVAILABLE
        works(client, server)


def test_a_compressed_request_there_is_no_memory_for_ends_the_session():
    """It may stand in a transaction, which nobody could end."""
    with Relay(RULES, {"limits": {"memory": "1MB", "handshake": "10m"}}) as relay:
        client, server = relay.connect()
        works(client, server)
        writer = threading.Thread(target=client.send, args=(frames.compressed(LARGE, "noop"),))
        writer.start()
        assert client.rest()[0] == b""
        writer.join()


def test_a_large_request_on_one_connection_too_many_is_told_so_and_closed():
    """There is no server connection on which its transaction could be ended."""
    with Relay(RULES, {"limits": {"memory": "1MB", "connections": 1, "handshake": "10m"}}) as relay:
        works(*relay.connect())
        for fields in ({}, TRANSACTION):
            documents = [{"buyers": ["x" * 1000] * 1500}]
            request = message({"insert": "books", "$db": "shop", **fields}, [("documents", documents)], 5)
            refused_connection(relay.client(), request)


class Read:
    """A read of one spilled document, whose overflow comes part by part."""

    def __init__(self, relay, number):
        self.client, self.server = relay.connect()
        self.number = number
        state = {"g": bytes([number] * 16), "h": 0, "n": 100}
        self.client.send(message({"find": "books", "$db": "shop"}, (), 7))
        self.server.answer(self.server.frame(), self._found(
            "firstBatch", {"_id": number, "buyers": [], "_spill": {"buyers": state}}, 0))
        self.parts = 0

    def begin(self):
        self.asked = self.server.frame()
        return self

    @staticmethod
    def _found(name, document, cursor):
        identity = exact.Raw(exact.INT64, cursor.to_bytes(8, "little"))
        return {"cursor": {name: [document], "id": identity, "ns": "shop.books"}, "ok": 1.0}

    def give(self, size, last=False):
        """The next part of the overflow; what Spillway asks then, unless it is the last."""
        self.parts += 1
        document = {"book": self.number, "part": ["x" * size] + [0] * (100 - self.parts if last else 0),
                    "_spill": {"i": self.parts, "g": bytes([self.number] * 16), "p": self.parts - 1}}
        self.server.answer(self.asked, self._found(
            "firstBatch" if self.parts == 1 else "nextBatch", document, 0 if last else 55))
        if not last:
            self.asked = self.server.frame()
            return next(iter(self.asked.plain()))
        return None

    def refused(self):
        """Its overflow's cursor is closed where there is one, then the client hears why."""
        if self.parts:
            assert self.asked.plain()["cursors"] == [55]
            self.server.answer(self.asked, {"cursorsKilled": [55], "ok": 1.0})
        reply = self.client.frame().plain()
        assert (reply["ok"], reply["code"], "limits.memory" in reply["errmsg"]) == (0.0, UNAVAILABLE, True)

    def comes_whole(self):
        reply = self.client.frame().plain()
        assert len(reply["cursor"]["firstBatch"][0]["buyers"]) == 100, reply.get("errmsg")

    def is_cut_off(self):
        """False: its reply comes whole."""
        try:
            self.client.frame()
            return False
        except peer.Ended as ended:
            return ended.how == RESET


def test_where_memory_is_short_the_newest_reads_give_up():
    with Relay(RULES, {"workers": 1, "limits": {"memory": "5MB", "handshake": "10m"}}) as relay:
        first, second, third = (Read(relay, number).begin() for number in (1, 2, 3))
        assert first.give(1000000) == second.give(1000000) == third.give(1000000) == "getMore"
        assert first.give(1000000) == first.give(1000000) == "getMore"
        assert first.give(1000000) == "getMore"  # more than the limit; it is the oldest
        assert third.give(1000) == "killCursors"
        third.refused()
        assert second.give(1000) == "getMore"  # what is left fits
        first.give(1000, last=True)
        first.comes_whole()
        second.give(1000, last=True)
        second.comes_whole()
        works(*relay.connect())


def test_a_read_that_alone_passes_the_limit_gives_up():
    with Relay(RULES, {"workers": 1, "limits": {"memory": "2MB", "handshake": "10m"}}) as relay:
        read = Read(relay, 1).begin()
        assert [read.give(900000) for _ in range(3)] == ["getMore"] * 3
        assert read.give(1000) == "killCursors"
        read.refused()
        assert Read(relay, 2).begin().give(1000) == "getMore"


@pytest.mark.parametrize("begun", [False, True])
def test_a_read_gives_up_while_its_reply_comes(begun):
    """What still comes of the reply is thrown away; the connection goes on, and so does an older read."""
    with Relay(RULES, {"workers": 1, "limits": {"memory": "4MB", "handshake": "10m"}}) as relay:
        older = Read(relay, 2).begin()
        assert older.give(1000000) == "getMore"
        read = Read(relay, 1).begin()
        if begun:
            assert read.give(1000) == "getMore"
        name = "nextBatch" if begun else "firstBatch"
        document = {"book": 1, "part": ["x" * 9000000], "_spill": {"i": 2, "g": bytes([1] * 16), "p": 1}}
        reply = message(Read._found(name, document, 55), (), 9, read.asked.request_id)
        before = relay.private_memory()
        read.server.send(reply[:8000000])
        if begun:
            read.asked = read.server.frame()
        else:
            read.refused()
        assert KEEPS_WHAT_IS_FREED or relay.private_memory() - before < 5 << 20
        read.server.send(reply[8000000:])
        if begun:
            read.refused()
        works(read.client, read.server)
        older.give(1000, last=True)
        older.comes_whole()


def test_a_reply_that_is_not_read_counts():
    """A client that asks and never reads holds memory; others are refused while it does."""
    with Relay(RULES, {"workers": 1, "limits": {"memory": "10MB", "handshake": "10m"}}) as relay:
        slow = Read(relay, 1).begin()
        assert slow.give(9000000) == "getMore"
        slow.give(2000000, last=True)
        assert select.select([slow.client.socket], [], [], peer.DEADLINE)[0], "the reply begins"
        Read(relay, 2).refused()
        slow.comes_whole()
        again = Read(relay, 3).begin()
        again.give(1000, last=True)
        again.comes_whole()


SLOW_STEP = 200_000  # bytes read ten times a second; who takes less than 65,536 a second is too slow


def test_while_memory_is_short_clients_that_do_not_read_are_closed():
    """One that takes its reply slowly is not."""
    with Relay(RULES, {"workers": 1, "limits": {"memory": "44MB", "handshake": "10m"}}) as relay:
        slow, *stuck = (Read(relay, number).begin() for number in range(1, 5))
        slow.client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SLOW_STEP)
        taken, enough = bytearray(), threading.Event()

        def read_slowly():
            taken.extend(slow.client.take(16))
            while len(taken) < frames.size_of(taken):
                enough.wait(0.1)
                taken.extend(slow.client.take(min(SLOW_STEP, frames.size_of(taken) - len(taken))))

        reader = threading.Thread(target=read_slowly, daemon=True)
        for read in (slow, *stuck):
            assert read.give(8000000) == "getMore"
            read.give(3000000, last=True)
            assert select.select([read.client.socket], [], [], peer.DEADLINE)[0], "the reply begins"
            if read is slow:
                reader.start()
        client, server = relay.connect_known()
        push = {"q": {"_id": 1}, "u": {"$push": {"buyers": bytes(30_000_000)}}}
        request = message({"update": "books", "$db": "shop"}, [("updates", [push])], 7)

        def another_is_served():
            writer = threading.Thread(target=client.send, args=(request,))
            writer.start()
            ready, _, _ = select.select([client.socket, server.socket], [], [], peer.DEADLINE)
            served = ready == [server.socket]
            if served:
                server.answer(server.frame(), {"n": 1, "ok": 1.0})
            assert client.frame().plain()["ok"] == float(served)
            writer.join()
            return served

        assert not another_is_served()
        wait_for(another_is_served, "those that do not read to be closed")
        assert relay.spillway.said().count("it does not take its replies") == 1
        enough.set()
        reader.join()
        assert len(frames.Frame(taken).plain()["cursor"]["firstBatch"][0]["buyers"]) == 100
        assert [each.is_cut_off() for each in stuck].count(True) >= 2


# ---- the start ----

def ends_at_once(relay):
    """Exit code and output of a start that can't succeed."""
    with relay.server:
        try:
            relay.spillway.start(ready=False)
            return relay.spillway.process.wait(peer.DEADLINE), relay.spillway.said()
        finally:
            relay.spillway.__exit__()


@pytest.mark.parametrize("shared", [False, True])
def test_an_address_in_use_ends_the_start(shared):
    relay = Relay(RULES)
    with socket.socket() as taken:
        if shared:
            taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        taken.bind(("127.0.0.1", relay.spillway.port))
        taken.listen()
        code, said = ends_at_once(relay)
    assert code == 1
    assert f"'127.0.0.1:{relay.spillway.port}'" in said and "in use" in said


def test_a_second_spillway_on_the_same_address_does_not_start():
    with Relay(RULES) as relay:
        second = Relay(RULES)
        second.spillway.settings["listen"] = relay.spillway.settings["listen"]
        assert ends_at_once(second)[0] == 1
        works(*relay.connect())


def test_an_admin_address_in_use_ends_the_start():
    relay = Relay(RULES)
    with socket.create_server(("127.0.0.1", relay.spillway.admin_port)):
        code, said = ends_at_once(relay)
    address = f"127.0.0.1:{relay.spillway.admin_port}"
    assert code == 1 and f"the admin address: cannot listen on '{address}': Address already in use" in said


def test_connections_that_say_nothing_keep_nobody_from_the_admin_address():
    with Relay(RULES) as relay, contextlib.ExitStack() as stack:
        for _ in range(200):
            idle = stack.enter_context(socket.create_connection(("127.0.0.1", relay.spillway.admin_port)))
            idle.sendall(b"GET / HT")
        assert relay.spillway.admin("/healthz")[0] == 200


def test_the_admin_address_says_what_it_takes():
    with Relay(RULES) as relay:
        connection = http.client.HTTPConnection("127.0.0.1", relay.spillway.admin_port, timeout=60)
        connection.request("POST", "/healthz")
        reply = connection.getresponse()
        assert (reply.status, reply.getheader("Allow")) == (405, "GET, HEAD")
        connection.close()


@pytest.mark.parametrize("more", [
    {"limits": {"connections": 0}}, {"limits": {"handshake": "soon"}}, {"frobnicate": 1}, {"workers": -1},
])
def test_a_bad_file_ends_the_start_with_2(more):
    code, said = ends_at_once(Relay(RULES, more))
    assert code == 2
    line = next(number for number, text in enumerate(yaml(more).splitlines(), 1) if text.strip())
    assert "spillway.yaml:" in said and line


@pytest.mark.parametrize("uri", ["mongodb://ann:a%zz@127.0.0.1:1/", "mongodb://:1/"])
def test_the_driver_says_nothing_by_itself(uri):
    code, said = ends_at_once(Relay(RULES, {"upstream": {"uri": uri}}))
    assert code == 2 and "mongoc" not in said
    (line,) = said.splitlines()
    _, file, what = line.partition("spillway.yaml:")  # the folder before it may be called anything
    assert file and "'uri' is not right: " in what and "zz" not in what


def test_a_bad_rule_ends_the_start_with_2_before_anything_listens():
    relay = Relay([{**BOOKS, "threshold": -1}])
    code, said = ends_at_once(relay)
    assert code == 2 and "threshold" in said and "listening" not in said


def test_a_rule_that_cannot_hold_ends_the_start_with_1():
    relay = Relay(RULES)
    view = {"name": "books", "type": "view", "options": {"viewOn": "x"}}
    relay.server.replies["listCollections"] = lambda command: {
        "cursor": {"id": 0, "ns": "shop.x", "firstBatch": [view] if "books" in str(command) else []}, "ok": 1.0}
    code, said = ends_at_once(relay)
    assert code == 1 and "'book-sales'" in said and "view" in said


def test_without_a_server_it_starts_and_is_ready_later():
    relay = Relay(RULES)
    hello = relay.server.hello
    relay.server.replies["hello"] = lambda _: {"ok": 0.0, "code": 13436, "errmsg": "not yet"}
    with relay.server:
        try:
            relay.spillway.start(ready=False)
            wait_for(lambda: relay.spillway.admin("/readyz")[0] == 503, "the admin page")
            assert relay.spillway.admin("/healthz")[0] == 200
            relay.server.replies["hello"] = lambda _: hello
            wait_for(relay.spillway.ready, "Spillway to be ready")
        finally:
            relay.spillway.__exit__()
