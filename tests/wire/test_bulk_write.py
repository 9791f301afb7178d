"""mongod 8.0's bulkWrite, step by step: the server is asked with the older commands, the client gets its answer."""

import pytest

from support import exact, frames
from support.frames import CHECKSUM_PRESENT, MORE_TO_COME, message
from support.peer import HELLO, Relay
from wire.conftest import RULES
from wire.test_refusals import ask

PING = message({"ping": 1, "$db": "admin"}, (), 4711)
NAMESPACES = [{"ns": "shop.books"}, {"ns": "shop.plain"}, {"ns": "tenant_7.posts"}]
BULK = {"bulkWrite": 1, "errorsOnly": False, "ordered": True, "$db": "admin"}
SEQUENCES = {"insert": "documents", "update": "updates", "delete": "deletes"}
TIME = exact.Raw(exact.TIMESTAMP, b"\1\0\0\0\2\0\0\0")
SESSION = {"lsid": {"id": exact.Raw(exact.BINARY, b"\x10\0\0\0\4" + bytes(range(16)))},
           "txnNumber": exact.Raw(exact.INT64, b"\5" + bytes(7))}


@pytest.fixture(scope="module")
def relay():
    with Relay(RULES, hello={**HELLO, "maxWireVersion": 25}) as made:
        yield made


def raw(value):
    """A value as plain() shows it."""
    return exact.plain(exact.value_of(value))


def bulk(ops, sequences=True, flags=0, **fields):
    parts = {"ops": ops, "nsInfo": NAMESPACES}
    body = {**BULK, **fields} if sequences else {**BULK, **parts, **fields}
    return message(body, list(parts.items()) if sequences else (), 7, flags=flags)


def statements_of(request):
    """The documents of the request's one document sequence."""
    body = request.payload[4 + 1 + len(request.body):]
    size = int.from_bytes(body[1:5], "little")
    assert body[0] == 1 and size == len(body) - 1
    name, documents = body[5:].split(b"\0", 1)
    found = []
    while documents:
        length = int.from_bytes(documents[:4], "little")
        found.append(exact.plain((exact.DOCUMENT, exact.parse(documents[:length]))))
        documents = documents[length:]
    return name.decode(), found


def asked(server, name, namespace, statements, **fields):
    """The next request that the server sees; `fields`: what it must have beside the usual."""
    request = server.frame()
    command = request.plain()
    database, collection = namespace.split(".")
    assert (request.opcode, request.flags) == (frames.OP_MSG, 0)
    assert command == raw({name: collection, "ordered": True, **fields, "$db": database})
    assert statements_of(request) == (SEQUENCES[name], [raw(each) for each in statements])
    return request


def answer(items, **counts):
    names = ("nErrors", "nInserted", "nMatched", "nModified", "nUpserted", "nDeleted")
    cursor = {"id": exact.Raw(exact.INT64, bytes(8)), "firstBatch": items, "ns": "admin.$cmd.bulkWrite"}
    return {"cursor": cursor, **{name: counts.get(name, 0) for name in names}}


def check(reply, expected):
    assert (reply.opcode, reply.flags, reply.response_to) == (frames.OP_MSG, 0, 7)
    assert reply.body == frames.document(expected), reply.plain()


def nothing_more(session):
    client, server = session
    client.send(PING)
    assert server.take(len(PING)) == PING


OPS = [
    {"insert": 0, "document": {"_id": 1}},
    {"insert": 0, "document": {"_id": 2, "buyers": [1, 2, 3, 4]}},
    {"update": 0, "filter": {"_id": 2}, "updateMods": {"$push": {"buyers": 5}}, "upsert": True},
    {"delete": 1, "filter": {"a": 1}, "multi": True},
    {"update": 2, "filter": {"_id": 3}, "updateMods": {"$set": {"title": "a"}}},
]


@pytest.mark.parametrize("sequences", [True, False])
def test_ops_on_several_namespaces_run_one_behind_the_other(session, sequences):
    client, server = session
    client.send(bulk(OPS, sequences))
    request = asked(server, "insert", "shop.books", [OPS[0]["document"], OPS[1]["document"]])
    server.answer(request, {"n": 2, "ok": 1.0})
    request = asked(server, "update", "shop.books",
                    [{"q": {"_id": 2}, "u": {"$push": {"buyers": 5}}, "upsert": True}])
    server.answer(request, {"n": 1, "upserted": [{"index": 0, "_id": 2}], "nModified": 0, "ok": 1.0})
    server.answer(asked(server, "delete", "shop.plain", [{"q": {"a": 1}, "limit": 0}]), {"n": 5, "ok": 1.0})
    request = asked(server, "update", "tenant_7.posts", [{"q": {"_id": 3}, "u": {"$set": {"title": "a"}}}])
    server.answer(request, {"n": 1, "electionId": "x", "opTime": 5, "nModified": 0, "ok": 1.0, "operationTime": TIME})
    items = [{"ok": 1.0, "idx": 0, "n": 1}, {"ok": 1.0, "idx": 1, "n": 1},
             {"ok": 1.0, "idx": 2, "n": 1, "nModified": 0, "upserted": {"_id": 2}},
             {"ok": 1.0, "idx": 3, "n": 5}, {"ok": 1.0, "idx": 4, "n": 1, "nModified": 0}]
    check(client.frame(), {**answer(items, nInserted=2, nMatched=1, nUpserted=1, nDeleted=5),
                           "electionId": "x", "opTime": 5, "ok": 1.0, "operationTime": TIME})
    nothing_more(session)


def test_a_retry_finds_each_op_by_its_statement_id(session):
    client, server = session
    client.send(bulk(OPS[:3], errorsOnly=True, **SESSION))
    request = asked(server, "insert", "shop.books", [OPS[0]["document"], OPS[1]["document"]], **SESSION, stmtId=0)
    server.answer(request, {"n": 2, "retriedStmtIds": [0, 1], "ok": 1.0})
    request = asked(server, "update", "shop.books",
                    [{"q": {"_id": 2}, "u": {"$push": {"buyers": 5}}, "upsert": True}], **SESSION, stmtId=2)
    error = {"ok": 0.0, "errmsg": "stepped down", "code": 10107, "errorLabels": ["RetryableWriteError"]}
    server.answer(request, error)
    check(client.frame(), error)
    nothing_more(session)


def test_the_first_error_ends_an_ordered_one(session):
    client, server = session
    client.send(bulk(OPS))
    request = asked(server, "insert", "shop.books", [OPS[0]["document"], OPS[1]["document"]])
    twice = {"code": 11000, "errmsg": "twice", "keyPattern": {"_id": 1}, "keyValue": {"_id": 2}}
    server.answer(request, {"n": 1, "writeErrors": [{"index": 1, **twice}], "ok": 1.0})
    check(client.frame(), {**answer([{"ok": 1.0, "idx": 0, "n": 1}, {"ok": 0.0, "idx": 1, **twice, "n": 0}],
                                    nErrors=1, nInserted=1), "ok": 1.0})
    nothing_more(session)


def test_an_edit_runs_in_the_middle(session):
    client, server = session
    pull = {"update": 0, "filter": {"_id": 2}, "updateMods": {"$pull": {"buyers": 5}}}
    client.send(bulk([pull, OPS[3]]))
    guard = {"q": {"$and": [{"_id": 2}, {"_spill": {"$exists": False}}]}, "u": {"$pull": {"buyers": 5}}}
    request = server.frame()
    assert statements_of(request) == ("updates", [raw(guard)])
    server.answer(request, {"n": 0, "nModified": 0, "ok": 1.0})
    request = server.frame()
    assert request.plain()["find"] == "books"
    found = {"id": exact.Raw(exact.INT64, bytes(8)), "ns": "shop.books", "firstBatch": []}
    server.answer(request, {"cursor": found, "ok": 1.0})
    request = server.frame()
    assert request.plain()["update"] == "books"
    server.answer(request, {"n": 0, "nModified": 0, "ok": 1.0})
    server.answer(asked(server, "delete", "shop.plain", [{"q": {"a": 1}, "limit": 0}]), {"n": 1, "ok": 1.0})
    items = [{"ok": 1.0, "idx": 0, "n": 0, "nModified": 0}, {"ok": 1.0, "idx": 1, "n": 1}]
    check(client.frame(), {**answer(items, nDeleted=1), "ok": 1.0})


def test_one_that_wants_no_answer_gets_none_and_the_next_request_follows(session):
    client, server = session
    client.send(bulk(OPS[:1] + OPS[3:4], flags=MORE_TO_COME, writeConcern={"w": 0}), PING)
    for name, namespace, statement in (("insert", "shop.books", OPS[0]["document"]),
                                       ("delete", "shop.plain", {"q": {"a": 1}, "limit": 0})):
        request = asked(server, name, namespace, [statement], writeConcern={"w": 1})
        server.answer(request, {"n": 1, "ok": 1.0})
    assert server.take(len(PING)) == PING
    reply = message({"ok": 1.0}, (), 99, 4711)
    server.send(reply)
    assert client.take(len(reply)) == reply


@pytest.mark.parametrize("packer", frames.PACKERS)
def test_a_compressed_one_gets_a_compressed_answer(session, packer):
    client, server = session
    client.send(frames.compressed(bulk(OPS[:1], flags=CHECKSUM_PRESENT), packer))
    server.answer(asked(server, "insert", "shop.books", [OPS[0]["document"]]), {"n": 1, "ok": 1.0})
    reply = client.frame()
    assert reply.compressor == packer
    check(reply, {**answer([{"ok": 1.0, "idx": 0, "n": 1}], nInserted=1), "ok": 1.0})


def test_48_megabytes_of_inserts_are_one_run(session):
    client, server = session
    ops = [{"insert": 0, "document": {"_id": number, "text": "x" * 15_900_000}} for number in range(3)]
    client.send(bulk(ops, errorsOnly=True))
    server.answer(asked(server, "insert", "shop.books", [op["document"] for op in ops]), {"n": 3, "ok": 1.0})
    check(client.frame(), {**answer([], nInserted=3), "ok": 1.0})


def test_many_ops_of_their_own_run_one_by_one(session):
    client, server = session
    count = 2000
    client.send(bulk([{"delete": 0, "filter": {"_id": number}} for number in range(count)]))
    server.answer_each(count, {"n": 1, "ok": 1.0})
    body = client.frame().plain()
    assert [item["idx"] for item in body["cursor"]["firstBatch"]] == list(range(count))
    assert (body["nDeleted"], body["nErrors"]) == (count, 0)


REFUSED = {
    "state": [OPS[0], {"insert": 0, "document": {"_spill": 1}}],
    "overflow": [OPS[3], {"insert": 3, "document": {"_id": 1}}],
    "where": [OPS[3], {"delete": 0, "filter": {"$where": "this.buyers"}}],
}


@pytest.mark.parametrize("name", REFUSED)
def test_an_op_that_a_rule_refuses_refuses_the_whole(session, name):
    more = [{"ns": "shop.extra"}] if name == "overflow" else []
    request = message({**BULK, "ops": REFUSED[name], "nsInfo": [*NAMESPACES, *more]}, (), 7)
    body = ask(session, request).plain()  # the server may be asked to explain the op first, and finds it right
    assert (body["ok"], body["code"]) == (0.0, 115) and "'book-sales'" in body["errmsg"]
    nothing_more(session)


def test_one_that_names_no_ruled_namespace_passes_as_it_is(session):
    client, server = session
    parts = [("ops", [{"insert": 0, "document": {"_id": 1}}]), ("nsInfo", [{"ns": "shop.plain"}])]
    for flags in (0, CHECKSUM_PRESENT, MORE_TO_COME):
        request = message(BULK, parts, 7, flags=flags)
        client.send(request)
        assert server.take(len(request)) == request
