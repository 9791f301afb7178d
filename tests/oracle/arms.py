"""One side of the comparison: runs operations on a collection, and normalises what comes back.

Most replies are equal byte for byte, but for the times of the cluster: only others are taken apart.
"""

import re
import uuid

from bson import Binary, Int64

from oracle import bulk_writes
from support import exact
from support.wire import CHECKSUM_PRESENT, MORE_TO_COME, Connection

# Both sides' databases have names of one length, so that replies can be made equal byte for byte.
PLAIN, RULED = "oracle_plain", "oracle_ruled"
_CLUSTER_FIELDS = ("$clusterTime", "operationTime", "opTime", "electionId")
_SERVER_SAYS = re.compile(rb"[0-9a-f]{8}-[0-9a-f-]{27}|(?!00)[0-9a-f]{24}|Timestamp\(\d{9,}, \d+\)|new Date\(\d{12,}\)")
# A conflict, or a lock not had in time. What fails for good inside a transaction may have the label
# TransientTransactionError, too (251: it has been aborted).
_BUSY = (112, 24)
_WHERE = b" :: caused by :: "
_TRANSACTION_TRIES = 100


class Arm:
    """Sends operations over its connections; what they are answered is compared as bytes, or normalised."""

    def __init__(self, name, ports, direct):
        self.name = name
        self.direct = direct  # to a mongod that knows no bulkWrite
        self.connections = [Connection(port) for port in ports]
        self.retryables = {}
        self.transactions_retried = 0

    def close(self):
        for connection in self.connections:
            connection.close()

    def run(self, operation):
        """The replies of one operation."""
        does = operation["does"]
        if does == "command":
            return self._run_command(operation)
        if does == "again":
            return self._run_again(operation["of"], operation.get("elsewhere", True))
        if does == "transaction":
            return self._run_transaction(operation)
        raise ValueError(does)

    def documents(self, layout):
        """The reply that holds all documents as a client sees them."""
        command = [("find", layout.collection), ("batchSize", 100000)]
        return self._send(exact.pairs_of(command), {"connection": 0})

    def bytes_of(self, replies):
        """What is equal only where what is normalised is, too."""
        return [(reply.flags & ~CHECKSUM_PRESENT, *self._fields(reply)) for reply in replies]

    def normalised(self, replies, operation, layout):
        """The replies of one operation as lists of (flags, value), without what may differ."""
        distinct = operation.get("form", {}).get("distinct")
        made = [self.normal(reply, layout, distinct) for reply in replies]
        limited = exact.get(operation.get("command", []), "limit") is not None
        pipeline = operation.get("kind") == "aggregate"
        return _as_it_fails(_without_empty_end(made)) if pipeline else _without_empty_end(made) if limited else made

    # sending

    def _send(self, pairs, form, session=()):
        if pairs[0][0] != "bulkWrite":
            return self._send_to(self.name, pairs, form, session)
        if not self.direct:
            return self._send_to("admin", bulk_writes.with_names(pairs, self.name), form, session)
        plainly = {"connection": form["connection"]}

        def send(command, number):
            return self._send_to(self.name, command, plainly, _session_of_part(session, number))
        return bulk_writes.one_by_one(send, pairs, any(name == "autocommit" for name, _ in session))

    def _send_to(self, database, pairs, form, session):
        pairs = pairs + exact.pairs_of([*session, ("$db", database)])
        sequences = ()
        if form.get("sequence"):
            field = form["sequence"]
            items = next(value for name, value in pairs if name == field)[1]
            pairs = [pair for pair in pairs if pair[0] != field]
            sequences = [(field, [exact.encode(item) for _, (_, item) in items])]
        flags = CHECKSUM_PRESENT if form.get("checksum") else 0
        flags |= MORE_TO_COME if form.get("more_to_come") else 0
        return self.connections[form["connection"]].call(
            exact.encode(pairs), sequences, flags, form.get("sequence_first", False),
            form.get("compressor"),
        )

    def _run_command(self, operation):
        form = operation["form"]
        session = ()
        if form["retryable"]:
            session = [("lsid", _new_session()), ("txnNumber", Int64(1))]
            self.retryables[form["retryable"]] = (operation, session)
        replies = []
        for _ in range(form["times"]):
            replies += self._send_and_drain(operation["command"], form, session)
        return replies

    def _run_again(self, number, elsewhere):
        if number not in self.retryables:
            return []
        operation, session = self.retryables[number]
        form = dict(operation["form"])
        if elsewhere:
            form["connection"] = 1 - form["connection"]
        return self._send_and_drain(operation["command"], form, session)

    def _send_and_drain(self, command, form, session):
        """A command's reply and, where it asks for them, those of the getMores behind it."""
        reply = self._send(command, form, session)
        if reply is None:
            # The next command on the other connection must not overtake it.
            self._send(exact.pairs_of([("ping", 1)]), {"connection": form["connection"]})
            return []
        replies = [reply]
        cursor = _cursor_id(reply)
        while form["drain"] and cursor:
            more = [
                ("getMore", Int64(cursor)), ("collection", command[0][1]),
                ("batchSize", form["drain"]),
            ]
            later = [field for field in session if field[0] not in ("startTransaction", "readConcern")]
            reply = self._send(exact.pairs_of(more), {"connection": form["connection"]}, later)
            replies.append(reply)
            cursor = _cursor_id(reply)
        if cursor:
            self._kill_cursor(command, cursor, form)
        return replies

    def _kill_cursor(self, command, cursor, form):
        pairs = exact.pairs_of([("killCursors", command[0][1]), ("cursors", [Int64(cursor)])])
        self._send(pairs, {"connection": form["connection"]})

    def _run_transaction(self, operation):
        """Runs a transaction until no mover is in its way: its conflicts are for the client."""
        for _ in range(_TRANSACTION_TRIES):
            replies, busy = self._try_transaction(operation)
            if not busy:
                return replies
            self.transactions_retried += 1
        raise RuntimeError("a transaction met a conflict each time")

    def _try_transaction(self, operation):
        session = [("lsid", _new_session()), ("txnNumber", Int64(1)), ("autocommit", False)]
        start = [("startTransaction", True)]
        replies = []
        for step in operation["steps"]:
            replies += self._send_and_drain(step["command"], step["form"], session + start)
            start = []
            if _failed(replies[-1]):
                break
        failed = replies and _failed(replies[-1])
        # mongod has aborted a transaction in which something failed.
        end = "abort" if failed else operation["end"]
        command = [(f"{end}Transaction", 1), *session, ("$db", "admin")]
        replies.append(self.connections[0].call(exact.document(command)))
        return replies, any(_is_busy(reply) for reply in replies[:-1 if failed else None])

    # comparing

    def _fields(self, reply):
        """A reply's fields as (name, type, bytes): no name of this side's, no time of the cluster's."""
        body = reply.body.replace(self.name.encode(), PLAIN.encode())
        return [
            (name, kind, b"" if name in _CLUSTER_FIELDS else body[start:end])
            for name, kind, start, end in exact.fields(body)
        ]

    def normal(self, reply, layout, distinct=False):
        """A reply as (flags, value) without what may differ: times, server-made ids, cursor ids."""
        body = reply.body.replace(self.name.encode(), PLAIN.encode())
        pairs = [
            (name, (value[0], b"") if name in _CLUSTER_FIELDS else _neutral(value, layout.masked))
            for name, value in exact.parse(body)
        ]
        if distinct:
            pairs = [(name, _once(value) if name == "values" else value) for name, value in pairs]
        if distinct and layout.collation:
            pairs = [(name, _folded(value)) for name, value in pairs]
        # A rewritten reply may lack the checksum and the compression that its request asked for.
        return reply.flags & ~CHECKSUM_PRESENT, (exact.DOCUMENT, pairs)


def _without_empty_end(replies):
    """Whether a pipeline's last batch closes its cursor hangs on its stages: the next one, empty,
    says so, too. A find with a limit may run as one.
    """
    if len(replies) < 2 or exact.get(replies[-1][1][1], "cursor.nextBatch") != (exact.ARRAY, []):
        return replies
    *others, (flags, (kind, pairs)), (_, (_, last)) = replies
    closed = exact.get(last, "cursor.id")
    cursor = [(name, closed if name == "id" else value) for name, value in exact.get(pairs, "cursor")[1]]
    pairs = [(name, (exact.DOCUMENT, cursor) if name == "cursor" else value) for name, value in pairs]
    return [*others, (flags, (kind, pairs))]


def _as_it_fails(replies):
    """How many documents of a pipeline come before the one that fails hangs on how far mongod's stages read ahead."""
    flags, (kind, pairs) = replies[-1] if replies else (0, (0, []))
    said = exact.get(pairs, "errmsg")
    if said is None or _WHERE not in said[1]:
        return replies
    why = exact.STRING, said[1].partition(_WHERE)[2]
    return [(flags, (kind, [(name, why if name == "errmsg" else value) for name, value in pairs]))]


def _once(values):
    """Two times that the server makes are distinct, or not, as its clock goes on."""
    kind, items = values
    kept = []
    for _, item in items:
        if item[1] != b"server" or item not in kept:
            kept.append(item)
    return kind, [(str(number), item) for number, item in enumerate(kept)]


def _folded(value):
    """Of values that the collation holds for equal, any one may stand for all."""
    kind, payload = value
    if kind in (exact.DOCUMENT, exact.ARRAY):
        return kind, [(name, _folded(item)) for name, item in payload]
    return kind, payload.lower() if kind == exact.STRING else payload


def _new_session():
    return {"id": Binary(uuid.uuid4().bytes, 4)}


def _session_of_part(session, number):
    """Of a bulkWrite's ops the first starts the transaction; outside of one, each is a statement of its own."""
    fields = [field for field in session if number == 0 or field[0] != "startTransaction"]
    numbered = session and all(name != "autocommit" for name, _ in session)
    return [*fields, ("stmtId", number)] if numbered else fields


def _failed(reply):
    answer = reply.plain()
    return answer["ok"] != 1.0 or "writeErrors" in answer or answer.get("nErrors", 0) > 0


def _is_busy(reply):
    return reply.plain().get("code") in _BUSY


def _cursor_id(reply):
    cursor = exact.find(reply.body, "cursor.id")
    return exact.plain(cursor) if cursor else 0


def _neutral(value, masked):
    kind, payload = value
    if kind == exact.DOCUMENT:
        kept = [(name, item) for name, item in payload if name not in masked]
        return kind, [(name, _neutral_field(name, item, masked)) for name, item in kept]
    if kind == exact.ARRAY:
        return kind, [(name, _neutral(item, masked)) for name, item in payload]
    if kind == exact.STRING and len(payload) > 28:
        # The length before the text is that of the text as it was: drop it.
        return kind, b"...." + _SERVER_SAYS.sub(b"*", payload[4:])
    return kind, b"server" if _made_by_server(kind, payload) else payload


def _neutral_field(name, value, masked):
    # A cursor's id; clients' documents have no such field.
    if name == "id" and value[0] == exact.INT64 and any(value[1]):
        return exact.INT64, b"cursor"
    return _neutral(value, masked)


def _made_by_server(kind, payload):
    """Ids and times of today: all that the generator makes lie near 1970."""
    if kind == exact.OBJECT_ID:
        return payload[0] != 0
    if kind == exact.DATE:
        return int.from_bytes(payload, "little", signed=True) > 10**12
    return kind == exact.TIMESTAMP and int.from_bytes(payload[4:], "little") > 10**9
