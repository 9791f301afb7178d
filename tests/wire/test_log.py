"""The log holds up nobody: standard error that nobody reads, and lines that clients could cause without end."""

import contextlib
import json
import os
import re

from support import frames
from support.frames import message
from support.peer import Relay
from support.process import new_folder, remove_folder, wait_for
from wire.conftest import RULES

PING = message({"ping": 1, "$db": "admin"}, (), 5)
OK = message({"ok": 1.0}, (), 9, 5)
TO_FILE = ("bash", "-c", 'exec "$@" 2> "$0"')


@contextlib.contextmanager
def full_pipe():
    """The path of a pipe that is full and that nobody reads, and its reading end."""
    folder = new_folder("pipe")
    path = folder / "stderr"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    writer = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(writer, b"#" * 4095 + b"\n")
    try:
        yield path, reader
    finally:
        os.close(reader)
        os.close(writer)
        remove_folder(folder)


def works(client, server):
    client.send(PING)
    assert server.take(len(PING)) == PING
    server.send(OK)
    assert client.take(len(OK)) == OK


def closed(client):
    """It is, before connect returned or after."""
    with contextlib.suppress(ConnectionResetError):
        client.rest()
    client.close()


def read_until(reader, text):
    """All that comes through the pipe until this text does."""
    said = bytearray()

    def more():
        with contextlib.suppress(BlockingIOError):
            said.extend(os.read(reader, 1 << 20))
        return text in said
    wait_for(more, f"{text} in the log")
    return said.decode()


def test_clients_are_served_and_the_end_comes_while_nobody_reads_the_log():
    with full_pipe() as (path, _), Relay(RULES, {"log": {"level": "debug"}}, wrapper=(*TO_FILE, path)) as relay:
        for _ in range(3):
            client, server = relay.connect()
            works(client, server)
            server.reset()
            closed(client)
        works(*relay.connect())
        assert relay.spillway.admin("/healthz")[0] == 200
        for end in [*relay.clients, *relay.server.ends]:
            end.close()
        assert relay.spillway.stop() == 0


def test_lines_that_nobody_reads_are_dropped_counted_and_told_of():
    def refuse(_):
        return {"ok": 0.0, "code": 13, "codeName": "Unauthorized", "errmsg": "x" * 900}

    documents = [{"_id": number, "buyers": [1, 2, 3, 4, 5]} for number in range(1500)]
    settings = {"log": {"level": "debug"}, "limits": {"handshake": "10m", "drain": "1s"}}
    with full_pipe() as (path, reader), Relay(RULES, settings, wrapper=(*TO_FILE, path)) as relay:
        client, server = relay.connect_known()
        relay.server.replies["find"] = refuse
        client.send(message({"insert": "books", "$db": "shop"}, [("documents", documents)], 7))
        server.answer(server.frame(), {"n": len(documents), "ok": 1.0})
        assert client.frame().plain()["n"] == len(documents)
        wait_for(lambda: relay.spillway.metrics()["spillway_log_lines_dropped_total"] > 0, "lines to be dropped")
        works(client, server)
        said = read_until(reader, b"lines were dropped here")
        assert "the log was not read fast enough" in said


def test_a_configuration_that_is_refused_ends_the_start_while_nobody_reads():
    with full_pipe() as (path, _):
        relay = Relay(RULES, {"no_such_key": 1}, wrapper=(*TO_FILE, path))
        with relay.server:
            relay.spillway.start(ready=False)
            assert relay.spillway.process.wait(60) == 2
            remove_folder(relay.spillway.folder)


def count(relay, text):
    return relay.spillway.said().count(text)


def test_a_server_that_is_lost_and_comes_back_is_told_once_each():
    with Relay(RULES, {"workers": 1}) as relay:
        relay.server.refuse()
        for _ in range(200):
            with contextlib.suppress(ConnectionResetError):  # it may be closed before connect returned
                closed(relay.client())
        failures = relay.spillway.metrics()["spillway_upstream_failures_total"]
        assert failures >= 200
        wait_for(lambda: count(relay, "do not reach server") == 1, "the line that tells of the lost server")
        assert count(relay, "cannot connect to server") == 0
        relay.server.scripted = False
        relay.server.listen_again()
        wait_for(lambda: count(relay, "2021 clients' connections reach server") == 1, "the line that it is back")
        assert count(relay, "2020 clients' connections do not reach server") == 1, relay.spillway.said()


CLIENT = {"application": {"name": "shop"}, "driver": {"name": "PyMongo", "version": "4.8.0"}, "os": {"type": "x"}}
REFUSED = {"find": "books", "filter": {"$where": "secret"}, "$db": "shop"}


def refuse_one(relay):
    """A client says who it is, and asks for what is refused."""
    client, server = relay.connect_known()
    client.send(message({"hello": 1, "client": CLIENT, "$db": "admin"}))
    server.answer(server.frame(), {"ok": 1.0})
    client.frame()
    client.send(message(REFUSED))
    question = server.frame()
    server.answer(question, {"ok": 1.0})
    assert client.frame().plain()["code"] == 115
    return client


def test_a_refusal_names_client_application_and_driver_and_no_value():
    with Relay(RULES, {"workers": 1}) as relay:
        refuse_one(relay)
        relay.spillway.says("3002 session")
        (line,) = [line for line in relay.spillway.said().splitlines() if " 3002 " in line]
        assert re.search(r"'find' refused with 115 CommandNotSupported: a find that reads the ruled array; rule "
                         r"'book-sales'; asked by 127.0.0.1:\d+ \(appName 'shop', driver 'PyMongo 4.8.0'\)$", line)
        assert "secret" not in relay.spillway.said()


def test_json_lines_have_the_form_of_mongods():
    with Relay(RULES, {"workers": 1, "log": {"format": "json"}}) as relay:
        client = refuse_one(relay)
        relay.spillway.says('"id":3002')
        port = client.socket.getsockname()[1]
        lines = [json.loads(line) for line in relay.spillway.said().splitlines()]
        for line in lines:
            assert list(line) == ["t", "s", "c", "id", "ctx", "msg", "attr"], line
            assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+00:00", line["t"]["$date"]), line
        (start,) = [line for line in lines if line["id"] == 1000]
        assert start["attr"] == {"version": start["attr"]["version"], "file": str(relay.spillway.file),
                                 "listeners": [f"127.0.0.1:{relay.spillway.port}"], "rules": ["book-sales", "posts"]}
        (refusal,) = [line for line in lines if line["id"] == 3002]
        assert (refusal["s"], refusal["c"], refusal["ctx"][:4]) == ("I", "COMMAND", "conn")
        assert refusal["attr"] == {
            "command": "find", "ns": "shop.books", "rule": "book-sales", "code": 115,
            "operator": "a find that reads the ruled array", "remote": f"127.0.0.1:{port}",
            "appName": "shop", "driver": "PyMongo 4.8.0"}


BAD = (
    b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03" + bytes(40), bytes(64), b"\xff" * 64,
    PING + bytes(64), frames.frame(4711, b"anything"), PING[:16] + b"\xff" * (len(PING) - 16), PING[:20],
)


def test_a_flood_of_bad_frames_writes_few_lines():
    with Relay(RULES, {"workers": 1, "log": {"level": "debug"}}) as relay:
        before = relay.spillway.said().count("\n")
        for _ in range(60):
            for bad in BAD:
                client = relay.client()
                client.send(bad)
                client.reset()
        opened = 60 * len(BAD)
        samples = wait_for(lambda: closed_all(relay, opened), "all to be closed")
        assert samples["spillway_connections_tls_total"] + samples["spillway_connections_strange_total"] > 0
        written = relay.spillway.said().count("\n") - before
        assert written <= 60, relay.spillway.said()[-3000:]


def closed_all(relay, opened):
    samples = relay.spillway.metrics()
    return samples if samples["spillway_connections_closed_total"] >= opened else None
