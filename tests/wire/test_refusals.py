"""What Spillway can't do exactly on a ruled namespace is refused: a native error in the request's form."""

import select
import struct

import pytest

from support import exact, frames
from support.frames import CHECKSUM_PRESENT, MORE_TO_COME, message
from support.peer import DEADLINE

NOT_SUPPORTED, FAILED_TO_PARSE = 115, 9
PING = message({"ping": 1, "$db": "admin"}, (), 4711)
FIND = {"find": "books", "filter": {"$where": "secret"}, "$db": "shop"}
SPOIL = {"q": {"_id": 1}, "u": {"$set": {"_spill.buyers": "secret"}}}
UPDATE = {"update": "books", "$db": "shop"}
DELETE = {"q": {"_spill.buyers": "secret"}, "limit": 1}


def nothing_came(server, client):
    """The next thing that the server sees is this ping; the next that the client sees is its reply."""
    client.send(PING)
    assert server.take(len(PING)) == PING
    reply = message({"ok": 1.0}, (), 99, 4711)
    server.send(reply)
    assert client.take(len(reply)) == reply


def ask(session, request):
    """The reply to a request, which the server may be asked to explain before: it would run it."""
    client, server = session
    client.send(request)
    readable, _, _ = select.select([client.socket, server.socket], [], [], DEADLINE)
    if server.socket in readable:
        question = server.frame()
        assert question.plain()["verbosity"] == "queryPlanner" and "explain" in question.plain()
        server.answer(question, {"ok": 1.0})
    return client.frame()


def refused(session, request, request_id, code=NOT_SUPPORTED, *said):
    """The native error that answers the request; nothing else than an explain has reached the server."""
    client, server = session
    reply = ask(session, request)
    assert (reply.opcode, reply.flags, reply.response_to) == (frames.OP_MSG, 0, request_id)
    body = reply.plain()
    assert (body["ok"], body["code"]) == (0.0, code), body
    assert body["codeName"] == {115: "CommandNotSupported", 9: "FailedToParse"}[code]
    assert all(word in body["errmsg"] for word in said), body["errmsg"]
    assert "secret" not in body["errmsg"]
    nothing_came(server, client)
    return reply


def ended(session, request):
    client, server = session
    client.send(request)
    assert client.rest()[0] == b""
    assert server.rest()[0] == b""


FORMS = {
    "find": message(FIND, (), 7),
    "body": message({**UPDATE, "updates": [SPOIL]}, (), 7),
    "sequence": message(UPDATE, [("updates", [SPOIL])], 7),
    "sequence first": message(UPDATE, [("updates", [SPOIL])], 7, sequence_first=True),
    "checksum": message(UPDATE, [("updates", [SPOIL])], 7, flags=CHECKSUM_PRESENT),
    "$db first": message([("update", "books"), ("$db", "shop"), ("updates", [SPOIL])], (), 7),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_op_msg_is_refused(session, form):
    refused(session, FORMS[form], 7, NOT_SUPPORTED, "'book-sales'", "'shop.books'",
            "$where" if form == "find" else "_spill")


OUT_OF_RANGE = {"ok": 0.0, "errmsg": "9 value for maxTimeMS is out of range", "code": 2, "codeName": "BadValue"}
UNAUTHORIZED = {"ok": 0.0, "errmsg": "command requires authentication", "code": 13, "codeName": "Unauthorized"}


@pytest.fixture
def stranger(relay):
    """A session of which the server has not accepted anything yet."""
    client, server = relay.connect_packing()
    yield client, server
    client.close()
    server.close()


def asked(session, request):
    """The question that the request leads to: the client's command, with a time that no server takes."""
    client, server = session
    client.send(request)
    question = server.frame()
    body = question.plain()
    assert body.pop("maxTimeMS") >= 1 << 40
    assert question.flags == 0
    return question, body


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("packer", [None, *frames.PACKERS])
def test_a_stranger_gets_the_servers_own_error(relay, stranger, form, packer):
    client, server = stranger
    before = relay.spillway.metrics()
    request = FORMS[form]
    question, body = asked(stranger, frames.compressed(request, packer) if packer else request)
    body_first = "sequence" if form == "sequence first" else form
    assert body == frames.Frame(FORMS[body_first]).plain()
    server.answer(question, UNAUTHORIZED)
    reply = client.frame()
    assert (reply.response_to, reply.compressor, reply.plain()) == (7, packer, UNAUTHORIZED)
    nothing_came(server, client)
    after = relay.spillway.metrics()
    changed = {name for name in after if "_refus" in name and after[name] != before.get(name, 0)}
    assert {name for name in changed if "_duration_" not in name} == set(), changed


def test_whom_the_server_lets_is_refused_with_the_reason(stranger):
    client, server = stranger
    question, _ = asked(stranger, message({"mapReduce": "books", "$db": "shop"}, (), 7))
    server.answer(question, OUT_OF_RANGE)
    assert client.frame().plain()["code"] == NOT_SUPPORTED
    nothing_came(server, client)


@pytest.mark.parametrize("command", ["ping", "buildInfo", "junk", "saslStart"])
def test_a_command_that_needs_no_rights_is_asked_about_as_a_find(stranger, command):
    client, server = stranger
    question, body = asked(stranger, message({command: "books", "$db": "shop"}, (), 7))
    assert body == {"find": "books", "$db": "shop"}
    server.answer(question, UNAUTHORIZED)
    assert client.frame().plain() == UNAUTHORIZED
    nothing_came(server, client)


def test_an_old_request_of_a_strangers_tells_nothing(stranger):
    client, server = stranger
    for request in (frames.query("shop.$cmd", {"drop": "books"}, 7), frames.query("shop.books", {}, 7)):
        question, body = asked(stranger, request)
        assert body in ({"drop": "books", "$db": "shop"}, {"find": "books", "$db": "shop"})
        server.answer(question, UNAUTHORIZED)
        reply = client.frame()
        assert reply.opcode == frames.OP_REPLY
        assert b"requires authentication" in reply.raw
        assert b"rule" not in reply.raw
    nothing_came(server, client)


@pytest.mark.parametrize("flags, packer", [(0, None), (MORE_TO_COME, None), (MORE_TO_COME, "zstd")])
def test_a_strangers_edit_begins_with_the_servers_verdict(stranger, flags, packer):
    """Without an answer none is heard, and nothing follows."""
    client, server = stranger
    edit = {"q": {"buyers": 5}, "u": {"$pull": {"buyers": 5}}}
    request = message(UPDATE, [("updates", [edit])], 7, flags=flags)
    question, _ = asked(stranger, frames.compressed(request, packer) if packer else request)
    server.answer(question, UNAUTHORIZED)
    if not flags:
        assert client.frame().plain() == UNAUTHORIZED
    nothing_came(server, client)


def test_a_server_that_runs_the_question_is_not_trusted(stranger):
    client, server = stranger
    question, _ = asked(stranger, FORMS["find"])
    server.answer(question, {"ok": 1.0})
    assert client.frame().plain()["code"] == NOT_SUPPORTED
    nothing_came(server, client)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("packer", frames.PACKERS)
def test_a_compressed_request_gets_a_compressed_refusal(session, form, packer):
    reply = refused(session, frames.compressed(FORMS[form], packer), 7)
    assert reply.compressor == packer


@pytest.mark.parametrize("packer", [None, *frames.PACKERS])
@pytest.mark.parametrize("sequence_first", [False, True])
def test_an_unacknowledged_write_gets_no_reply_and_reaches_nobody(session, packer, sequence_first):
    client, server = session
    request = message({**UPDATE, "writeConcern": {"w": 0}}, [("updates", [SPOIL])], 7, flags=MORE_TO_COME,
                      sequence_first=sequence_first)
    client.send(frames.compressed(request, packer) if packer else request)
    nothing_came(server, client)


@pytest.mark.parametrize("request_id", [0, -1, 2**31 - 1, -2**31, 0x5B000000, 0x5B000001])
def test_the_reply_names_the_clients_request(session, request_id):
    refused(session, message(FIND, (), request_id), request_id)


def test_a_pattern_names_the_namespace_that_was_meant(session):
    request = message({"mapReduce": "posts", "$db": "tenant_7"}, (), 7)
    refused(session, request, 7, NOT_SUPPORTED, "'posts'", "'tenant_7.posts'", "mapReduce")


OPERATIONS = {
    "delete": ({"delete": "books", "deletes": [DELETE]}, "filter"),
    "findAndModify": ({"findAndModify": "books", "query": {}, "update": {"$unset": {"_spill": 1}}}, "_spill"),
    "count": ({"count": "books", "query": {"$where": "1"}}, "$where"),
    "distinct": ({"distinct": "books", "key": "buyers.$"}, "distinct"),
    "aggregate": ({"aggregate": "books", "pipeline": [{"$search": {}}], "cursor": {}}, "$search"),
    "lookup": ({"aggregate": "plain", "pipeline": [
        {"$graphLookup": {"from": "books", "startWith": "$x", "connectFromField": "buyers.id", "connectToField": "_id",
                          "as": "x"}}], "cursor": {}}, "$graphLookup"),
    "explain": ({"explain": {"find": "books", "filter": {"$where": "this.buyers"}}}, "$where"),
    "mapReduce": ({"mapReduce": "books", "map": "f", "reduce": "f", "out": "x"}, "mapReduce"),
    "rename": ({"renameCollection": "shop.books", "to": "shop.x", "$db": "admin"}, "renameCollection"),
    "unknown": ({"frobnicate": "books"}, "frobnicate"),
    "insert into overflow": ({"insert": "extra", "documents": [{"_id": 1}]}, "insert"),
    "out to overflow": ({"aggregate": "plain", "pipeline": [{"$out": "extra"}], "cursor": {}}, "shop.extra"),
    "_spill": ({**UPDATE, "updates": [{"q": {}, "u": {"$set": {"_spill.buyers.n": 0}}}]}, "_spill"),
    "applyOps": ({"applyOps": [{"op": "i", "ns": "shop.books", "o": {}}], "$db": "admin"}, "applyOps"),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_the_error_names_rule_and_operator(session, name):
    command, operator = OPERATIONS[name]
    refused(session, message({**command, "$db": command.get("$db", "shop")}, (), 7), 7, NOT_SUPPORTED,
            "'book-sales'", operator)


def test_a_bulk_write_with_an_op_that_is_refused_is_refused(session):
    parts = [("ops", [{"insert": 0, "document": {"_id": 1}}, {"update": 1, "filter": {}, "updateMods": SPOIL["u"]}]),
             ("nsInfo", [{"ns": "shop.x"}, {"ns": "shop.books"}])]
    request = message({"bulkWrite": 1, "$db": "admin"}, parts, 7)
    refused(session, request, 7, NOT_SUPPORTED, "'book-sales'", "_spill")


# ---- what can be read in two ways, or not at all ----

def bson(*pairs):
    return exact.document(list(pairs))


def damaged(data, old, new):
    assert data.count(old) == 1 and len(old) == len(new)
    return data.replace(old, new)


GOOD = bson(("update", "books"), ("updates", [{"q": {"_id": 1}, "u": {"$set": {"title": "a"}}}]), ("$db", "shop"))
UNCLEAR = {
    "two updates": bson(("update", "books"), ("updates", [SPOIL]), ("updates", []), ("$db", "shop")),
    "two q": bson(("update", "books"), ("updates", [(exact.DOCUMENT, exact.pairs_of(
        [("q", {}), ("q", {"buyers": 1}), ("u", {"$set": {"a": 1}})]))]), ("$db", "shop")),
    "two u": bson(("update", "books"), ("updates", [(exact.DOCUMENT, exact.pairs_of(
        [("q", {}), ("u", {"$set": {"a": 1}}), ("u", {"$pop": {"buyers": 1}})]))]), ("$db", "shop")),
    "two filters": bson(("find", "books"), ("filter", {}), ("filter", {"$where": "this.buyers"}), ("$db", "shop")),
    "two pipelines": bson(("aggregate", "plain"), ("pipeline", [{"$lookup": {"from": "books"}}]), ("pipeline", []),
                          ("cursor", {}), ("$db", "shop")),
    "two commands": bson(("find", "books"), ("filter", {}), ("find", "plain"), ("$db", "shop")),
    "two databases, ruled first": bson(("find", "books"), ("filter", {"$where": "this.buyers"}), ("$db", "shop"),
                                       ("$db", "x")),
    "two databases, ruled last": bson(("find", "books"), ("filter", {"$where": "this.buyers"}), ("$db", "x"),
                                      ("$db", "shop")),
    "a string that does not end": damaged(GOOD, b"\2\0\0\0a\0", b"\2\0\0\0aa"),
    "a string beyond its document": damaged(GOOD, b"\2\0\0\0a\0", b"\x7f\0\0\0a\0"),
    "a string of no length": damaged(GOOD, b"\2\0\0\0a\0", b"\0\0\0\0a\0"),
    "an unknown type": damaged(GOOD, b"\2title\0", b"\x42title\0"),
}


@pytest.mark.parametrize("name", UNCLEAR)
def test_what_could_be_read_in_two_ways_is_refused(session, name):
    refused(session, message(UNCLEAR[name], (), 7), 7, FAILED_TO_PARSE)


DOCUMENTS = exact.document({"q": {"_id": 1}, "u": {"$set": {"title": "a"}}})
BODY = b"\0" + exact.document(UPDATE)


def sequence(documents, name=b"updates\0", size=None):
    size = len(name) + len(documents) + 4 if size is None else size
    return b"\1" + struct.pack("<i", size) + name + documents


SECTIONS = {
    "no body": sequence(DOCUMENTS),
    "two bodies": sequence(DOCUMENTS) + BODY + BODY,
    "another kind": sequence(DOCUMENTS) + BODY + b"\2" + DOCUMENTS,
    "kind 255": BODY + sequence(DOCUMENTS) + b"\xff",
    "sequence of size 0": BODY + sequence(DOCUMENTS, size=0),
    "sequence of size 4": BODY + sequence(DOCUMENTS, size=4),
    "sequence of negative size": BODY + sequence(DOCUMENTS, size=-1),
    "sequence past the end": BODY + sequence(DOCUMENTS, size=len(DOCUMENTS) + 13),
    "sequence without a name's end": BODY + sequence(b"", b"updates"),
    "the same sequence twice": BODY + sequence(DOCUMENTS) + sequence(DOCUMENTS),
    "three sequences": BODY + sequence(DOCUMENTS) + sequence(b"", b"a\0") + sequence(b"", b"b\0"),
    "sequence and field": b"\0" + exact.document({**UPDATE, "updates": []}) + sequence(DOCUMENTS),
    "half a document": BODY + sequence(DOCUMENTS + DOCUMENTS[:9]),
}


@pytest.mark.parametrize("name", SECTIONS)
@pytest.mark.parametrize("first", [False, True])
def test_sections_that_mongod_would_not_take_are_refused(session, name, first):
    data = (sequence(b"", b"x\0") if first and name != "three sequences" else b"") + SECTIONS[name]
    refused(session, frames.frame(frames.OP_MSG, bytes(4) + data, 7), 7, FAILED_TO_PARSE)


@pytest.mark.parametrize("name", SECTIONS)
def test_a_broken_unacknowledged_message_gets_no_reply(session, name):
    client, server = session
    client.send(frames.frame(frames.OP_MSG, struct.pack("<I", MORE_TO_COME) + SECTIONS[name], 7))
    nothing_came(server, client)


SPOOFS = {
    "the command's name stands second": [("ping", 1), ("update", "books"), ("updates", [SPOIL]), ("$db", "shop")],
    "upper case is no command": [("FIND", "plain"), ("filter", {"$where": "this.buyers"}), ("$db", "shop")],
    "$db of another": [("find", "books"), ("filter", {"$where": "this.buyers"}), ("$db", "shop2")],
    "names are exact": [("find", "Books"), ("filter", {"$where": "this.buyers"}), ("$db", "shop")],
    "a name with more behind it": [("find", "books.x"), ("filter", {"$where": "this.buyers"}), ("$db", "shop")],
}


@pytest.mark.parametrize("name", SPOOFS)
def test_what_mongod_would_not_take_for_the_ruled_namespace_passes(session, name):
    client, server = session
    request = message(SPOOFS[name], (), 7)
    client.send(request)
    assert server.take(len(request)) == request


def test_a_command_in_capitals_on_a_ruled_collection_is_refused(session):
    refused(session, message({"FIND": "books", "filter": {}, "$db": "shop"}, (), 7), 7, NOT_SUPPORTED)


# ---- compressed badly ----

def claimed(length, packer="zlib"):
    data = bytearray(frames.compressed(FORMS["find"], packer))
    data[20:24] = struct.pack("<i", length)
    return bytes(data)


RIGHT = len(FORMS["find"]) - 16
BAD_COMPRESSION = {
    **{f"{packer}, {name}": claimed(length, packer) for packer in frames.PACKERS for name, length in {
        "claim 0": 0, "claim too small": RIGHT - 1, "claim too large": RIGHT + 1, "negative claim": -1,
        "claim beyond the limit": frames.LONGEST - 15}.items()},
    **{f"{packer}, truncated": (lambda data: struct.pack("<i", len(data) - 1) + data[4:-1])(
        frames.compressed(FORMS["find"], packer)) for packer in frames.PACKERS},
    "nested": frames.compressed(frames.compressed(FORMS["find"], "zlib"), "zlib"),
    "unknown compressor": frames.frame(frames.OP_COMPRESSED, struct.pack("<iiB", 2013, 10, 255) + bytes(10)),
    "no room for its header": frames.frame(frames.OP_COMPRESSED, bytes(8)),
}


@pytest.mark.parametrize("name", BAD_COMPRESSION)
def test_what_cannot_be_unpacked_ends_the_session(session, name):
    ended(session, BAD_COMPRESSION[name])


# ---- legacy opcodes ----

def begun(session):
    """The same, behind a first message: no client begins with these opcodes."""
    client, server = session
    client.send(message({"ping": 1, "$db": "admin"}, (), 3))
    server.answer_each(1)
    client.frame()
    return session


@pytest.mark.parametrize("packer", [None, *frames.PACKERS])
def test_a_command_in_op_query_is_refused_by_op_reply(session, packer):
    client, server = session
    request = frames.query("shop.$cmd", {"find": "books", "filter": {"$where": "this.buyers"}}, 7)
    reply = client.ask(frames.compressed(request, packer) if packer else request)
    assert (reply.opcode, reply.response_to, reply.compressor) == (frames.OP_REPLY, 7, packer)
    assert (reply.plain()["ok"], reply.plain()["code"]) == (0.0, NOT_SUPPORTED)
    nothing_came(server, client)


def test_a_broken_command_in_op_query_is_refused(session):
    client, server = session
    reply = client.ask(frames.query("shop.$cmd", damaged(GOOD, b"\2title\0", b"\x42title\0"), 7))
    assert (reply.opcode, reply.plain()["code"]) == (frames.OP_REPLY, FAILED_TO_PARSE)
    nothing_came(server, client)


OLD_GET_MORE = frames.frame(frames.OP_GET_MORE, bytes(4) + b"shop.books\0" + bytes(12), 7)


@pytest.mark.parametrize("request_", [frames.query("shop.books", {"title": 1}, 7), OLD_GET_MORE])
@pytest.mark.parametrize("packer", [None, "zstd"])
def test_an_old_read_fails_as_old_reads_do(session, request_, packer):
    client, server = begun(session)
    reply = client.ask(frames.compressed(request_, packer) if packer else request_)
    assert (reply.opcode, reply.response_to, reply.compressor) == (frames.OP_REPLY, 7, packer)
    assert struct.unpack_from("<i", reply.payload)[0] == frames.QUERY_FAILURE
    assert "'book-sales'" in reply.plain()["$err"] and reply.plain()["code"] == NOT_SUPPORTED
    nothing_came(server, client)


@pytest.mark.parametrize("opcode", [frames.OP_INSERT, frames.OP_UPDATE, frames.OP_DELETE])
@pytest.mark.parametrize("namespace", ["shop.books", "shop.extra", "tenant_1.posts"])
@pytest.mark.parametrize("packer", [None, "snappy"])
def test_writes_that_have_no_reply_end_the_session(session, opcode, namespace, packer):
    request = frames.frame(opcode, bytes(4) + namespace.encode() + b"\0" + bytes(4) + exact.document({}), 7)
    ended(begun(session), frames.compressed(request, packer) if packer else request)


@pytest.mark.parametrize("body", [
    FIND, {"find": "books", "projection": {"title": 1}, "$db": "shop"},
    {**UPDATE, "updates": [{"q": {"_id": 1}, "u": {"$set": {"buyers": []}}}]},
])
def test_a_wrong_checksum_ends_the_session_as_mongod_does(session, body):
    request = message(body, (), 7, flags=CHECKSUM_PRESENT)
    ended(session, request[:-1] + bytes([request[-1] ^ 1]))


def test_refusals_are_counted_by_rule_and_operator(relay, session):
    refused(session, FORMS["find"], 7)
    samples = relay.spillway.metrics()
    assert samples["spillway_commands_refused_total"] >= 1
    assert any('rule="book-sales"' in name and value >= 1 for name, value in samples.items())


FORGED = b'x"} 1\nspillway_spills_total 99999\nspillway_refusals_total{rule="y",operator="z'


@pytest.mark.parametrize("name", [FORGED, b"zz\xff\xfe", b"junk1", b"a" * 100])
@pytest.mark.parametrize("collection", ["books", "extra"])
def test_no_text_of_a_clients_becomes_a_label(relay, session, name, collection):
    client, _ = session
    known = "spillway_refusals_total{rule=\"book-sales\",operator=\"an unknown command\"}"
    before = relay.spillway.metrics()
    plain = message({"NAME": collection, "$db": "shop"}, (), 9)
    request = plain.replace(b"NAME", name)
    body = client.ask(struct.pack("<i", len(request)) + request[4:21]
                      + struct.pack("<i", len(request) - 21) + request[25:]).plain()
    assert body["code"] == NOT_SUPPORTED
    assert ("junk1" in body["errmsg"]) == (name == b"junk1")
    assert ("an unknown command" in body["errmsg"]) == (name != b"junk1")
    after = relay.spillway.metrics()
    assert after[known] == before.get(known, 0) + 1
    assert after["spillway_spills_total"] == before["spillway_spills_total"]
    assert set(after) - set(before) <= {known}


def test_an_operator_of_a_clients_becomes_no_label(relay, session):
    find = {"find": "books", "let": {"a": {"$junk1": "$buyers"}}, "$db": "shop"}
    assert "$junk1" in ask(session, message(find, (), 9)).plain()["errmsg"]
    samples = relay.spillway.metrics()
    assert samples['spillway_refusals_total{rule="book-sales",operator="let"}'] >= 1
    assert not any("junk" in name for name in samples)


@pytest.mark.parametrize("letters", [150, 151])
def test_a_name_that_is_cut_is_still_utf8(session, letters):
    client, _ = session
    database = "tenant_" + "x" * (letters % 2) + "\u00e9" * letters
    errmsg = client.ask(message({"collMod": "posts_comments_overflow", "$db": database}, (), 9)).plain()["errmsg"]
    assert "collMod on the overflow collection 'tenant_" in errmsg and "overflow'" not in errmsg
