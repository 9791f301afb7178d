"""Reads of spilled documents, step by step: what the server is asked, and what the client gets."""

import select
import time

import pytest

from support import exact, frames
from support.frames import CHECKSUM_PRESENT, EXHAUST_ALLOWED, MORE_TO_COME, message
from support.process import wait_for
from support.receive_queue import send_apart

PING = message({"ping": 1, "$db": "admin"}, (), 4711)
FIRST_HELPER = 0x5B000000
LSID = {"id": exact.Raw(exact.BINARY, b"\x10\0\0\0\4" + bytes(range(16)))}
TIME = exact.Raw(exact.TIMESTAMP, b"\1\0\0\0\2\0\0\0")
FIND = {"find": "books", "filter": {"title": "a"}, "$db": "shop"}
GET_MORE = {"getMore": exact.Raw(exact.INT64, b"\x2a" + bytes(7)), "collection": "books", "$db": "shop"}


def generation(number):
    return bytes([number] * 16)


def spilled(number, head, tail, linked, of=1):
    state = {"g": generation(of), "h": len(head), "n": linked, "t": 5}
    return {"_id": number, "title": "a", "more": True, "buyers": head + tail, "_spill": {"buyers": state}}


def batch(book, position, part, of=1):
    return {"_id": 99, "book": book, "part": part, "_spill": {"i": 1, "g": generation(of), "p": position}}


def found(documents, cursor=0, name="firstBatch", namespace="shop.books", **more):
    identity = exact.Raw(exact.INT64, cursor.to_bytes(8, "little"))
    return {"cursor": {name: documents, "id": identity, "ns": namespace, **more}, "ok": 1.0}


def whole(number, buyers):
    return {"_id": number, "title": "a", "buyers": buyers}


def raw(value):
    """A value as a helper command's plain() shows it."""
    return exact.plain(exact.value_of(value))


def helper(server, name, collection):
    """The next request that the server sees: one of Spillway's own."""
    request = server.frame()
    command = request.plain()
    assert (request.opcode, request.flags, request.compressor) == (frames.OP_MSG, 0, None)
    assert (next(iter(command)), command["$db"]) == (name, "shop")
    assert command["collection" if name == "getMore" else name] == collection
    return request, command


def merged(session, command, main, parts, **options):
    """Plays a find whose overflow comes as one reply; the overflow's query and the client's reply."""
    client, server = session
    client.send(message(command, (), 7, **options))
    server.answer(server.frame(), main, request_id=50)
    request, asked = helper(server, "find", "extra")
    server.answer(request, found(parts, namespace="shop.extra"))
    return asked, client.frame()


def check(reply, expected, request_id=7):
    assert (reply.response_to, reply.flags) == (request_id, 0)
    assert reply.body == frames.document(expected)


def test_a_spilled_document_comes_back_whole(session):
    asked, reply = merged(session, FIND, found([spilled(1, [1, 2], [5, 6], 2)], 9, postBatchResumeToken={"x": 1}),
                          [batch(1, 0, [3, 4])])
    assert asked["filter"] == {"book": {"$in": [1]}, "_spill.g": {"$in": [raw(generation(1))]}}
    assert asked["sort"] == {"book": 1, "_spill.i": 1}
    check(reply, found([whole(1, [1, 2, 3, 4, 5, 6])], 9, postBatchResumeToken={"x": 1}))
    assert reply.request_id == 50


def test_all_documents_of_a_reply_are_asked_for_at_once(session):
    main = [spilled(1, [1], [], 3, 1), whole(2, [7]), spilled(3, [8], [9], 1, 3), spilled(4, [], [1], 0, 4)]
    parts = [batch(1, 0, [2, 3]), batch(1, 2, [4, 99]), batch(3, 0, ["x"], 3)]
    asked, reply = merged(session, FIND, found(main), parts)
    assert asked["filter"]["book"] == {"$in": [1, 3]}
    check(reply, found([whole(1, [1, 2, 3, 4]), whole(2, [7]), whole(3, [8, "x", 9]), whole(4, [1])]))


def test_a_reply_without_spilled_documents_passes_as_it_is(session):
    client, server = session
    for number, options in enumerate(({}, {"flags": CHECKSUM_PRESENT})):
        client.send(message(FIND, (), number, **options))
        assert server.frame().raw == message(FIND, (), number, **options)
        reply = message(found([{"_id": 1, "buyers": [1, 2]}], 3), (), 60, number, **options)
        server.send(reply)
        assert client.take(len(reply)) == reply


def test_a_state_without_an_overflow_is_stripped_without_asking(session):
    client, server = session
    client.send(message(FIND, (), 7))
    server.answer(server.frame(), found([spilled(1, [1, 2], [], 0)]))
    check(client.frame(), found([whole(1, [1, 2])]))


def test_the_query_of_an_overflow_carries_what_the_clients_command_carried(session):
    more = {
        "lsid": LSID, "$clusterTime": {"clusterTime": TIME},
        "readConcern": {"level": "majority", "afterClusterTime": TIME},
        "$readPreference": {"mode": "secondary"}, "apiVersion": "1", "apiStrict": True,
        "apiDeprecationErrors": False, "comment": "why", "maxTimeMS": 60000,
    }
    own = {"hint": "x_1", "batchSize": 3, "limit": 5, "collation": {"locale": "de"}, "sort": {"x": 1},
           "let": {"z": 1}}
    main = found([spilled(1, [], [], 1)])
    asked, reply = merged(session, {**FIND, **own, **more}, main, [batch(1, 0, [1])])
    left = asked.pop("maxTimeMS")
    assert 0 < left <= 60000
    assert all(asked[name] == raw(more[name]) for name in more if name != "maxTimeMS")
    assert not {"hint", "limit", "collation", "let", "txnNumber", "autocommit"} & set(asked)
    assert asked["sort"] != {"x": 1}
    check(reply, found([whole(1, [1])]))


def test_a_command_without_fields_adds_none_but_a_read_preference(session):
    asked, _ = merged(session, FIND, found([spilled(1, [], [], 1)]), [batch(1, 0, [1])])
    assert set(asked) == {"find", "filter", "sort", "batchSize", "$db", "$readPreference"}


def test_a_transaction_is_continued(session):
    number = exact.Raw(exact.INT64, b"\5" + bytes(7))
    transaction = {"lsid": LSID, "txnNumber": number, "autocommit": False, "startTransaction": True,
                   "readConcern": {"level": "snapshot"}}
    asked, _ = merged(session, {**FIND, **transaction}, found([spilled(1, [], [], 1)]), [batch(1, 0, [1])])
    assert (asked["lsid"], asked["txnNumber"], asked["autocommit"]) == (raw(LSID), 5, False)
    assert not {"startTransaction", "readConcern", "$readPreference"} & set(asked)


def test_a_snapshot_read_reads_the_same_snapshot(session):
    command = {**FIND, "readConcern": {"level": "snapshot"}, "lsid": LSID}
    asked, _ = merged(session, command, found([spilled(1, [], [], 1)], atClusterTime=TIME), [batch(1, 0, [1])])
    assert asked["readConcern"] == {"level": "snapshot", "atClusterTime": raw(TIME)}


def test_time_that_has_passed_is_taken_off(session):
    client, server = session
    client.send(message({**FIND, "maxTimeMS": 60000}, (), 7))
    request, arrived = server.frame(), time.monotonic()
    wait_for(lambda: time.monotonic() > arrived + 0.1, "a tenth of a second")
    server.answer(request, found([spilled(1, [], [], 1)]))
    assert helper(server, "find", "extra")[1]["maxTimeMS"] <= 59900


@pytest.mark.parametrize("cursor", [0, 9])
def test_time_that_is_used_up_ends_the_read(session, cursor):
    client, server = session
    client.send(message({**FIND, "maxTimeMS": 1}, (), 7))
    request, arrived = server.frame(), time.monotonic()
    wait_for(lambda: time.monotonic() > arrived + 0.01, "some milliseconds")
    server.answer(request, found([spilled(1, [], [], 1)], cursor))
    if cursor:
        expect_kill(server, cursor)
    reply = client.frame().plain()
    assert (reply["ok"], reply["code"], reply["codeName"]) == (0.0, 50, "MaxTimeMSExpired")
    nothing_more(session)


def expect_kill(server, cursor):
    request, command = helper(server, "killCursors", "books")
    assert command["cursors"] == [cursor]
    server.answer(request, {"cursorsKilled": [], "ok": 1.0})


def nothing_more(session):
    client, server = session
    client.send(PING)
    assert server.take(len(PING)) == PING
    server.send(message({"ok": 1.0}, (), 1, 4711))
    assert client.frame().response_to == 4711


def test_an_overflow_of_several_batches_is_read_to_its_end(session):
    client, server = session
    client.send(message({**FIND, "lsid": LSID, "apiVersion": "1", "comment": "c"}, (), 7))
    server.answer(server.frame(), found([spilled(1, [1], [9], 5)]))
    request, _ = helper(server, "find", "extra")
    server.answer(request, found([batch(1, 0, [2, 3])], 77, namespace="shop.extra"))
    for position, part, cursor in ((2, [4], 77), (3, [5, 6], 0)):
        request, asked = helper(server, "getMore", "extra")
        assert asked == {"getMore": 77, "collection": "extra", "$db": "shop", "lsid": raw(LSID),
                         "apiVersion": "1", "comment": "c"}
        server.answer(request, found([batch(1, position, part)], cursor, "nextBatch", "shop.extra"))
    check(client.frame(), found([whole(1, [1, 2, 3, 4, 5, 6, 9])]))


def answer_get_more(server, request, cursor):
    """One spilled document, whose overflow a helper asks for."""
    server.answer(request, found([spilled(1, [1], [], 1)], cursor, "nextBatch"), flags=CHECKSUM_PRESENT)
    asked, fields = helper(server, "find", "extra")
    assert (fields["lsid"], fields["$readPreference"]) == (raw(LSID), {"mode": "primaryPreferred"})
    server.answer(asked, found([batch(1, 0, [2])]))


@pytest.mark.parametrize("flags", [0, CHECKSUM_PRESENT])
def test_get_more_is_merged(session, flags):
    client, server = session
    client.send(message({**GET_MORE, "lsid": LSID}, (), 7, flags=flags))
    request = server.frame()
    assert request.raw == message({**GET_MORE, "lsid": LSID}, (), 7, flags=flags)
    answer_get_more(server, request, 42)
    check(client.frame(), found([whole(1, [1, 2])], 42, "nextBatch"))
    nothing_more(session)


@pytest.mark.parametrize("flags", [0, CHECKSUM_PRESENT])
def test_a_get_more_that_allows_exhaust_is_streamed_by_several(session, flags):
    """mongod is asked for each part alone, because helpers need the connection between two parts."""
    client, server = session
    client.send(message({**GET_MORE, "lsid": LSID}, (), 7, flags=flags | EXHAUST_ALLOWED))
    number = 7
    for cursor in (42, 42, 0):
        request = server.frame()
        assert request.raw == message({**GET_MORE, "lsid": LSID}, (), number)
        answer_get_more(server, request, cursor)
        reply = client.frame()
        assert (reply.response_to, reply.flags) == (number, MORE_TO_COME if cursor else 0)
        assert exact.parse(reply.body) == exact.parse(exact.document(found([whole(1, [1, 2])], cursor, "nextBatch")))
        number = reply.request_id
    nothing_more(session)


def test_a_stream_ends_with_an_error(session):
    client, server = session
    client.send(message({**GET_MORE, "lsid": LSID}, (), 7, flags=EXHAUST_ALLOWED))
    answer_get_more(server, server.frame(), 42)
    number = client.frame().request_id
    server.answer(server.frame(), {"ok": 0.0, "code": 43, "errmsg": "cursor id 42 not found"})
    reply = client.frame()
    assert (reply.response_to, reply.flags) == (number, 0)
    nothing_more(session)


@pytest.mark.parametrize("packer", frames.PACKERS)
@pytest.mark.parametrize("server_compresses", [True, False])
def test_a_compressed_read_gets_a_compressed_reply(session, packer, server_compresses):
    client, server = session
    request = frames.compressed(message(FIND, (), 7), packer)
    client.send(request)
    assert server.take(len(request)) == request
    main = message(found([spilled(1, [1], [], 1)]), (), 50, 7)
    server.send(frames.compressed(main, packer) if server_compresses else main)
    asked, _ = helper(server, "find", "extra")
    server.answer(asked, found([batch(1, 0, [2])]))
    reply = client.frame()
    assert reply.compressor == packer
    check(reply, found([whole(1, [1, 2])]))


@pytest.mark.parametrize("request_id", [0, -1, -2**31, FIRST_HELPER, FIRST_HELPER + 1])
def test_any_request_id_will_do(session, request_id):
    """Also those that Spillway's own commands have."""
    client, server = session
    for _ in range(3):
        client.send(message(FIND, (), request_id), PING)
        server.answer(server.frame(), found([spilled(1, [1], [], 1)]))
        request, _ = helper(server, "find", "extra")
        server.answer(request, found([batch(1, 0, [2])]))
        check(client.frame(), found([whole(1, [1, 2])]), request_id)
        server.answer(server.frame(), {"ok": 1.0})
        assert client.frame().response_to == 4711


def test_helpers_have_ids_of_their_own(session):
    client, server = session
    seen = []
    for _ in range(5):
        client.send(message(FIND, (), 7))
        server.answer(server.frame(), found([spilled(1, [1], [], 1)]))
        request, _ = helper(server, "find", "extra")
        seen.append(request.request_id)
        server.answer(request, found([batch(1, 0, [2])]))
        client.frame()
    assert seen == list(range(FIRST_HELPER, FIRST_HELPER + 5))


# ---- generations that die ----

def play_again(server, documents):
    """The one document is read again, with the client's own conditions."""
    request, asked = helper(server, "find", "books")
    assert asked["filter"] == {"$and": [{"_id": 1}, {"title": "a"}]} and asked["singleBatch"] is True
    server.answer(request, found(documents))
    return asked


def test_a_document_whose_generation_died_is_read_again(session):
    client, server = session
    client.send(message({**FIND, "lsid": LSID, "projection": {"buyers": 1}}, (), 7))
    request = server.frame()
    assert request.plain()["projection"] == {"buyers": 1, "_spill": 1}
    server.answer(request, found([spilled(1, [1], [], 2), whole(2, [])], 9))
    server.answer(helper(server, "find", "extra")[0], found([batch(1, 0, [2])]))
    asked = play_again(server, [spilled(1, [5], [6], 1, 2)])
    assert (asked["lsid"], asked["projection"]) == (raw(LSID), {"buyers": 1, "_spill": 1})
    request, asked = helper(server, "find", "extra")
    assert asked["filter"]["_spill.g"] == {"$in": [raw(generation(2))]}
    server.answer(request, found([batch(1, 0, ["new"], 2)]))
    check(client.frame(), found([whole(1, [5, "new", 6]), whole(2, [])], 9))


def test_a_document_that_was_folded_back_meanwhile_is_whole(session):
    client, server = session
    client.send(message(FIND, (), 7))
    server.answer(server.frame(), found([spilled(1, [1], [], 2)]))
    server.answer(helper(server, "find", "extra")[0], found([]))
    play_again(server, [whole(1, [1, 2, 3])])
    check(client.frame(), found([whole(1, [1, 2, 3])]))


def test_a_document_that_is_gone_or_matches_no_more_is_left_out(session):
    client, server = session
    client.send(message(FIND, (), 7))
    server.answer(server.frame(), found([whole(0, []), spilled(1, [1], [], 2), whole(2, [])]))
    server.answer(helper(server, "find", "extra")[0], found([]))
    play_again(server, [])
    check(client.frame(), found([whole(0, []), whole(2, [])]))


@pytest.mark.parametrize("cursor", [0, 9])
@pytest.mark.parametrize("why", ["too few", "a hole", "another generation's"])
def test_after_five_times_the_read_fails_and_may_be_tried_again(session, cursor, why):
    parts = {"too few": [batch(1, 0, [2])], "a hole": [batch(1, 0, [2]), batch(1, 2, [3])],
             "another generation's": [batch(1, 0, [2, 3, 4], 200)]}[why]
    client, server = session
    client.send(message({**FIND, "lsid": LSID}, (), 7))
    server.answer(server.frame(), found([spilled(1, [1], [], 3)], cursor))
    for number in range(5):
        server.answer(helper(server, "find", "extra")[0], found(parts))
        play_again(server, [spilled(1, [1], [], 3, 2 + number)])
    server.answer(helper(server, "find", "extra")[0], found(parts))
    if cursor:
        expect_kill(server, cursor)
    reply = client.frame()
    assert reply.response_to == 7
    body = reply.plain()
    assert (body["ok"], body["code"], body["codeName"]) == (0.0, 134, "ReadConcernMajorityNotAvailableYet")
    assert "'book-sales'" in body["errmsg"] and "'shop.books'" in body["errmsg"]
    nothing_more(session)


def test_a_read_that_repeats_stays_within_its_time(session):
    client, server = session
    client.send(message({**FIND, "maxTimeMS": 60000}, (), 7))
    server.answer(server.frame(), found([spilled(1, [1], [], 3)]))
    request, started = helper(server, "find", "extra")[0], time.monotonic()
    wait_for(lambda: time.monotonic() > started + 0.1, "a tenth of a second")
    server.answer(request, found([]))
    assert helper(server, "find", "books")[1]["maxTimeMS"] <= 59900


def answer_all(session, answers):
    """What the client gets in the end; meanwhile helpers are answered by what they ask for, and told of."""
    client, server = session
    asked = []
    while client.socket not in select.select([client.socket, server.socket], [], [], 60)[0]:
        request = server.frame()
        name, of = next(iter(request.plain().items()))
        asked.append((name, of))
        server.answer(request, answers[name, of] if (name, of) in answers else answers[name])
    return client.frame().plain(), asked


@pytest.mark.parametrize("now, code", [([spilled(1, [1], [], 2, of=2)], 134), ([spilled(1, [1], [], 2)], 301)])
def test_a_get_more_whose_generation_died_fails(session, now, code):
    """The state that stands now tells a rewrite from damage, which no retry mends."""
    client, server = session
    client.send(message(GET_MORE, (), 7))
    server.answer(server.frame(), found([spilled(1, [1], [], 2)], 42, "nextBatch"))
    answers = {("find", "extra"): found([]), ("find", "books"): found(now), "killCursors": {"ok": 1.0},
               "listCollections": found([{"name": "books", "type": "collection"}])}
    reply, asked = answer_all(session, answers)
    assert reply["code"] == code and ("find", "books") in asked and ("killCursors", "books") in asked
    nothing_more(session)


# ---- errors of the server ----

ERROR = {"ok": 0.0, "errmsg": "too many open files", "code": 8, "codeName": "UnknownError", "operationTime": TIME}
DENIED = {**ERROR, "errmsg": "not authorized on shop to execute command { find: 'extra' }", "code": 13,
          "codeName": "Unauthorized"}


def test_an_error_of_the_main_command_passes_as_it_is(session):
    client, server = session
    client.send(message(FIND, (), 7, flags=CHECKSUM_PRESENT))
    server.frame()
    error = message(ERROR, (), 50, 7, flags=CHECKSUM_PRESENT)
    server.send(error)
    assert client.take(len(error)) == error


@pytest.mark.parametrize("cursor", [0, 9])
@pytest.mark.parametrize("later", [False, True])
def test_an_error_of_the_overflows_query_is_the_reply(session, cursor, later):
    client, server = session
    client.send(message(FIND, (), 7))
    server.answer(server.frame(), found([spilled(1, [1], [], 2)], cursor))
    request, _ = helper(server, "find", "extra")
    if later:
        server.answer(request, found([batch(1, 0, [2])], 77))
        request, _ = helper(server, "getMore", "extra")
    server.answer(request, ERROR)
    if cursor:
        expect_kill(server, cursor)
    reply = client.frame()
    assert (reply.response_to, reply.body) == (7, frames.document(ERROR))
    nothing_more(session)


def test_who_may_not_read_the_overflow_is_not_shown_its_query(session):
    client, server = session
    client.send(message(FIND, (), 7))
    server.answer(server.frame(), found([spilled(1, [1], [], 2)]))
    request, _ = helper(server, "find", "extra")
    server.answer(request, DENIED)
    error = client.frame().plain()
    assert error["code"] == 13 and "not authorized" not in error["errmsg"], error
    assert error["errmsg"].endswith(": the user may not read what this command needs: the collections that it names, "
                                    "and the array's overflow in 'shop.extra'"), error
    nothing_more(session)


@pytest.mark.parametrize("parts", [
    [{"_id": 1}], [{**batch(1, 0, [2]), "part": 5}], [batch(1, -1, [2])], [{**batch(1, 0, [2]), "_spill": 1}],
])
def test_an_overflow_document_that_cannot_be_read_is_an_error(session, parts):
    client, server = session
    client.send(message(FIND, (), 7))
    server.answer(server.frame(), found([spilled(1, [1], [], 1)]))
    answers = {("find", "extra"): found(parts), ("find", "books"): found([spilled(1, [1], [], 1)])}
    body, asked = answer_all(session, answers)
    assert (body["ok"], body["code"]) == (0.0, 301) and "_id '1' (int)" in body["errmsg"]
    assert ("find", "books") in asked


@pytest.mark.parametrize("state", [5, {"buyers": 5}, {"buyers": {"g": generation(1), "h": 1, "n": -1}},
                                   {"buyers": {"g": b"short", "h": 1, "n": 1}},
                                   {"buyers": {"g": generation(1), "h": 5, "n": 1}}])
def test_a_state_that_cannot_be_read_is_an_error(session, state):
    client, server = session
    client.send(message(FIND, (), 7))
    server.answer(server.frame(), found([{**spilled(1, [1], [], 1), "_spill": state}], 9))
    expect_kill(server, 9)
    assert client.frame().plain()["code"] == 301


def test_a_rule_that_is_gone_makes_its_documents_unreadable(session):
    client, server = session
    client.send(message(FIND, (), 7))
    state = {"other": {"g": generation(1), "h": 1, "n": 1}}
    server.answer(server.frame(), found([{"_id": 1, "_spill": state}]))
    assert client.frame().plain()["code"] == 115


@pytest.mark.parametrize("step", ["main", "overflow"])
def test_a_broken_reply_ends_the_session(session, step):
    client, server = session
    client.send(message(FIND, (), 7))
    request = server.frame()
    if step == "overflow":
        server.answer(request, found([spilled(1, [1], [], 1)]))
        request, _ = helper(server, "find", "extra")
    server.send(frames.frame(frames.OP_MSG, bytes(5) + b"\xff" * 30, 70, request.request_id))
    assert client.rest()[0] == b""
    assert server.rest()[0] == b""


def test_a_find_that_wants_no_reply_holds_nothing_up(session):
    client, server = session
    for number, more in enumerate(({}, {"projection": {"buyers": 1}})):
        client.send(message({**FIND, **more}, (), number, flags=MORE_TO_COME))
        assert (server.frame().flags, number) == (MORE_TO_COME, number)
    nothing_more(session)


# ---- findAndModify and other writes ----

MODIFY = {"findAndModify": "books", "query": {"_id": 1}, "update": {"$push": {"buyers": 7}}, "new": True,
          "$db": "shop", "lsid": LSID, "txnNumber": exact.Raw(exact.INT64, b"\5" + bytes(7))}


def modified(value):
    return {"lastErrorObject": {"n": 1, "updatedExisting": True}, "value": value, "ok": 1.0,
            "operationTime": TIME}


def test_an_image_is_put_together(session):
    asked, reply = merged(session, MODIFY, modified(spilled(1, [1], [7], 2)), [batch(1, 0, [2, 3])])
    assert asked["lsid"] == raw(LSID) and "txnNumber" not in asked and "autocommit" not in asked
    check(reply, modified(whole(1, [1, 2, 3, 7])))


def test_an_image_without_a_state_passes_as_it_is(session):
    client, server = session
    for value in (None, {"_id": 1, "buyers": [7]}):
        client.send(message(MODIFY, (), 7))
        assert server.frame().raw == message(MODIFY, (), 7)
        reply = message(modified(value), (), 50, 7)
        server.send(reply)
        assert client.take(len(reply)) == reply


def test_an_image_that_can_no_longer_be_completed_says_that_the_write_is_done(session):
    _, reply = merged(session, MODIFY, modified(spilled(1, [1], [7], 2)), [])
    body = reply.plain()
    assert (body["ok"], body["code"]) == (0.0, 217)
    assert "'book-sales'" in body["errmsg"] and "applied" in body["errmsg"]


def test_a_push_and_its_reply_pass_as_they_are(session):
    client, server = session
    parts = [("updates", [{"q": {"_id": 1}, "u": {"$push": {"buyers": 5}}}])]
    for flags in (0, CHECKSUM_PRESENT):
        request = message({"update": "books", "$db": "shop"}, parts, 7, flags=flags, sequence_first=True)
        client.send(request)
        assert server.take(len(request)) == request
        reply = message({"n": 1, "nModified": 1, "ok": 1.0, "electionId": "x"}, (), 50, 7, flags=flags)
        server.send(reply)
        assert client.take(len(reply)) == reply


def test_unacknowledged_pushes_pass_and_the_next_request_follows(session):
    client, server = session
    parts = [("updates", [{"q": {"_id": 1}, "u": {"$push": {"buyers": 5}}}])]
    command = {"update": "books", "writeConcern": {"w": 0}, "$db": "shop"}
    pushes = b"".join(message(command, parts, number, flags=MORE_TO_COME) for number in range(20))
    client.send(pushes, message(FIND, (), 30))
    assert server.take(len(pushes)) == pushes
    server.answer(server.frame(), found([]))
    check(client.frame(), found([]), 30)


@pytest.mark.parametrize("sequence", [True, False])
def test_a_whole_write_resets_the_state_and_keeps_the_clients_form(session, sequence):
    client, server = session
    statement = {"q": {"_id": 1}, "u": {"$set": {"comments": []}}, "multi": False}
    other = {"q": {"_id": 2}, "u": {"$set": {"title": "b"}}}
    command = {"update": "posts", "ordered": False, "$db": "tenant_1", "lsid": LSID, "comment": "c"}
    body = command if sequence else {**command, "updates": [statement, other]}
    client.send(message(body, [("updates", [statement, other])] if sequence else (), 7, flags=CHECKSUM_PRESENT))
    request = server.frame()
    assert (request.request_id, request.flags) == (7, 0)
    sent = request.plain()
    assert ("updates" in sent) != sequence
    assert {name: sent[name] for name in command} == raw(command)
    assert b"_spill.comments" in request.raw and b"$unset" in request.raw and exact.document(other) in request.raw
    server.answer(request, {"n": 2, "nModified": 2, "ok": 1.0})
    check(client.frame(), {"n": 2, "nModified": 2, "ok": 1.0})


TOO_LARGE = {"index": 0, "code": 10334, "errmsg": "too large"}


@pytest.mark.parametrize("transaction", [{}, {"txnNumber": 1, "autocommit": False, "lsid": LSID}])
def test_a_push_that_made_a_document_too_large_and_could_not_be_moved_fails_as_it_did(session, transaction):
    client, server = session
    command = {"update": "books", "$db": "shop", **transaction}
    client.send(message(command, [("updates", [{"q": {"_id": 1}, "u": {"$push": {"buyers": 5}}}])], 7))
    reply = {"n": 0, "nModified": 0, "writeErrors": [TOO_LARGE], "ok": 1.0}
    server.answer(server.frame(), reply)
    received = client.frame()
    assert (received.response_to, received.plain()) == (7, reply)
    nothing_more(session)


def test_a_reply_to_an_earlier_request_does_not_pass_for_a_sequences(session):
    """Replies that answer nothing go on to the client; the sequence waits for its own."""
    client, server = session
    client.send(message(FIND, (), 7))
    request = server.frame()
    stray = message({"ok": 1.0, "cursor": {"firstBatch": [], "id": 0}}, (), 40, 12345)
    server.send(stray)
    assert client.take(len(stray)) == stray
    server.answer(request, found([spilled(1, [1], [], 1)]))
    request, _ = helper(server, "find", "extra")
    server.send(stray)
    assert client.take(len(stray)) == stray
    server.answer(request, found([batch(1, 0, [2])]))
    check(client.frame(), found([whole(1, [1, 2])]))


@pytest.mark.parametrize("apart", [False, True])
def test_all_of_it_byte_by_byte(session, apart):
    """Requests and replies of a merged read, at once or each byte alone."""
    client, server = session

    def send(end, data):
        send_apart(end.socket, (bytes([byte]) for byte in data) if apart else [data])

    send(client, message(FIND, (), 7))
    assert server.frame().raw == message(FIND, (), 7)
    send(server, message(found([spilled(1, [1], [4], 2)]), (), 50, 7))
    request, _ = helper(server, "find", "extra")
    send(server, message(found([batch(1, 0, [2, 3])]), (), 51, request.request_id))
    check(client.frame(), found([whole(1, [1, 2, 3, 4])]))


@pytest.mark.parametrize("ends", [(), (1,), (15, 16), (17, 30_000), (66_000,), (140_000, 150_000), (-1,)])
@pytest.mark.parametrize("stray", [b"", message({"ok": 1.0}, (), 40, 12345)], ids=("alone", "behind another"))
def test_a_large_overflow_comes_in_any_pieces(session, ends, stray):
    """What is taken to be large is read to where it stays, wherever its bytes are cut."""
    client, server = session
    head, tail = ["a" * 1000] * 3, [chr(97 + i % 26) * 1000 for i in range(200)]
    client.send(message(FIND, (), 7))
    server.answer(server.frame(), found([spilled(1, head, [], len(tail))]))
    request, _ = helper(server, "find", "extra")
    reply = stray + message(found([batch(1, 0, tail)]), (), 51, request.request_id)
    places = [0, *(end % len(reply) for end in ends), len(reply)]
    send_apart(server.socket, [reply[first:last] for first, last in zip(places, places[1:])])
    assert client.take(len(stray)) == stray
    check(client.frame(), found([whole(1, head + tail)]))
    client.send(PING)
    assert server.frame().raw == PING
