"""mongod 8.0's bulkWrite where there is none: each op as the older command that does the same, and the replies put
together.

This is the plain arm's part. It is written from mongod's bulk_write.cpp, op by op, and knows nothing of the runs
that Spillway makes of ops. What a mongod 8.0 itself would answer nobody has asked one.
"""

from support import exact
from support.wire import Reply

_OLD = {"filter": "q", "updateMods": "u"}
_OWN = ("n", "nModified", "upserted", "writeErrors", "retriedStmtIds")
_CALLS = ("bulkWrite", "ops", "nsInfo", "ordered", "errorsOnly")


def with_names(pairs, database):
    """The command as it is sent: nsInfo names collections of the database."""
    [(_, (_, [(_, (_, collection))]))] = exact.get(pairs, "nsInfo")[1]
    names = [{"ns": f"{database}.{exact.plain((exact.STRING, collection))}"}]
    return [(name, exact.value_of(names) if name == "nsInfo" else value) for name, value in pairs]


def _old_command(op, collection):
    """(name, command) of an op's (name, value) pairs."""
    kind, fields = op[0][0], op[1:]
    many = exact.plain(exact.get(fields, "multi") or exact.value_of(False))
    if kind == "insert":
        statement, name = exact.get(fields, "document"), "documents"
    else:
        parts = [(_OLD.get(field, field), value) for field, value in fields if field != "multi"]
        parts += exact.pairs_of({"multi": many} if kind == "update" else {"limit": 0 if many else 1})
        statement, name = (exact.DOCUMENT, parts), kind + "s"
    return kind, [(kind, collection), (name, (exact.ARRAY, [("0", statement)]))]


def _item(index, kind, reply):
    """What the cursor says of an op."""
    head = {"ok": 1.0, "idx": index}
    errors = exact.get(reply, "writeErrors")
    if errors:
        error = [(name, value) for name, value in errors[1][0][1][1] if name != "index"]
        told = [field for field in error if field[0] == "code"] + [field for field in error if field[0] == "errmsg"]
        told += [field for field in error if field not in told]
        none = {"n": 0, "nModified": 0} if kind == "update" else {"n": 0}
        return exact.pairs_of({**head, "ok": 0.0}) + told + exact.pairs_of(none)
    made = exact.pairs_of(head) + [("n", exact.get(reply, "n"))]
    if kind == "update":
        made.append(("nModified", exact.get(reply, "nModified")))
    upserted = exact.get(reply, "upserted")
    if upserted:
        made.append(("upserted", (exact.DOCUMENT, [("_id", exact.get(upserted[1][0][1][1], "_id"))])))
    return made


class _Answer:
    """What the replies come to."""

    def __init__(self, errors_only):
        self.errors_only = errors_only
        self.items = []
        self.retried = []
        self.counts = dict.fromkeys(("nErrors", "nInserted", "nMatched", "nModified", "nUpserted", "nDeleted"), 0)

    def add(self, index, kind, reply):
        """False for an error."""
        item = _item(index, kind, reply)
        said = {name: exact.plain(value) for name, value in item if name in ("ok", "n", "nModified")}
        upserted = exact.get(item, "upserted") is not None
        if said["ok"]:
            counted = {"insert": "nInserted", "delete": "nDeleted", "update": "nMatched"}[kind]
            self.counts[counted] += said["n"] - upserted
        self.counts["nModified"] += said.get("nModified", 0)
        self.counts["nUpserted"] += upserted
        self.counts["nErrors"] += not said["ok"]
        if not said["ok"] or not self.errors_only:
            self.items.append((exact.DOCUMENT, item))
        self.retried += [value for _, value in (exact.get(reply, "retriedStmtIds") or (None, []))[1]]
        return bool(said["ok"])

    def body(self, last):
        """The reply; the last op's lends what it says of the server."""
        cursor = {"id": exact.Raw(exact.INT64, bytes(8)), "firstBatch": self.items, "ns": "admin.$cmd.bulkWrite"}
        made = exact.pairs_of({"cursor": cursor, **self.counts})
        for name, value in last:
            if name == "ok" and self.retried:
                made.append(("retriedStmtIds", exact.value_of(self.retried)))
            if name not in _OWN:
                made.append((name, value))
        return exact.encode(made)


def one_by_one(send, command, stops):
    """The reply to a bulkWrite. `send(command, number)` sends a part's and returns the reply; `stops` at an error, even
    where the command is unordered.
    """
    collection = exact.get(command, "nsInfo")[1][0][1][1][0][1]
    options = [(name, value) for name, value in command if name not in _CALLS]
    ordered = exact.plain(exact.get(command, "ordered")) or stops
    answer = _Answer(exact.plain(exact.get(command, "errorsOnly")))
    for index, (_, (_, op)) in enumerate(exact.get(command, "ops")[1]):
        kind, old = _old_command(op, collection)
        reply = send(old + options, index)
        pairs = reply.pairs()
        if exact.plain(exact.get(pairs, "ok")) != 1.0:
            return reply
        if not answer.add(index, kind, pairs) and ordered:
            break
    return Reply(answer.body(pairs), reply.flags, reply.compressor, reply.request_id, reply.response_to)
