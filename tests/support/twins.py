"""The same commands on a plain collection directly and on ruled ones through Spillway, side by side.

Every arm has a database of its own with a collection `books`, in which `list`, `kept.list` and `kept.more` are
ruled. In an arm that is `settled` the movers have done their work before each command comes.
"""

import contextlib

from support import exact
from support.cluster import Cluster
from support.process import wait_for
from support.spillway import Spillway
from support.verify import Keeping, check
from support.wire import Connection

COLLECTION = "books"
ARRAYS = ("list", "kept.list", "kept.more")
PLAIN = "plain"
# Names of one length, so that replies can be made equal byte for byte.
RULED = {"soon2": 2, "rest0": 0, "rest2": 2}
EACH = {"each2": 2}  # an overflow document for each element; where it is asked for
SETTLED = ("rest0", "rest2", "each2")
_NOT_COMPARED = ("$clusterTime", "operationTime", "opTime", "electionId")
_TODAY = 10**12  # milliseconds; the tests' own times lie before


def _rules(database, threshold):
    wait = "1ms" if database in SETTLED else "10ms"
    layout = {"layout": "elements"} if database in EACH else {"layout": "batches", "array": "more",
                                                              "batch": {"size": 3}}
    return [
        {"name": f"{database}-{array}", "namespace": f"{database}.{COLLECTION}", "array": array,
         "threshold": threshold, "settle": wait, "gather": 3, "quiet": wait, "gc_delay": "0s",
         "flag": {"field": "has_" + array.replace(".", "_"), "value": True},
         "overflow": {"link": "book", **layout}}
        for array in ARRAYS
    ]


def _neutral(value):
    """A value without what the server made: its clock's times and its ids, of which ours begin with 0."""
    kind, payload = value
    if kind in (exact.DOCUMENT, exact.ARRAY):
        return kind, [(name, _neutral(item)) for name, item in payload]
    if kind == exact.OBJECT_ID and payload[0]:
        return kind, b"made"
    if kind == exact.DATE and int.from_bytes(payload, "little", signed=True) > _TODAY:
        return kind, b"today"
    if kind == exact.TIMESTAMP and int.from_bytes(payload[4:], "little") > _TODAY // 1000:
        return kind, b"today"
    return value


def _shown(reply):
    """A reply as text, with all that an error says."""
    said = [exact.plain(value) for name, value in reply if name == "errmsg"]
    return " ".join([exact.show_document(reply), *said])


def _numbered(value, base):
    """A document or filter with another _id; filters have it at the top and no other value than numbers."""
    def shift(item):
        if isinstance(item, dict):
            return {name: shift(part) for name, part in item.items()}
        return [number + base for number in item] if isinstance(item, list) else item + base
    return {**value, "_id": shift(value["_id"])} if "_id" in value else value


def _numbered_command(command, base):
    changed = dict(command)
    for name in ("updates", "deletes"):
        if name in command:
            changed[name] = [{**item, "q": _numbered(item["q"], base)} for item in command[name]]
    if "query" in command:
        changed["query"] = _numbered(command["query"], base)
    return changed


class Arm:
    """One database and the way to it."""

    def __init__(self, name, port):
        self.name = name
        self.port = port
        self.uri = f"mongodb://127.0.0.1:{port}/?directConnection=true"
        self.connection = Connection(port)

    def call(self, command):
        """The reply to a command, as (name, value) pairs that every arm should have."""
        body = exact.encode(exact.pairs_of({**command, "$db": self.name}))
        reply = self.connection.call(body).body.replace(self.name.encode(), PLAIN.encode())
        return [
            (name, (value[0], b"") if name in _NOT_COMPARED else _neutral(value))
            for name, value in exact.parse(reply)
        ]

    def documents(self):
        """All documents as a client sees them, as text."""
        reply = self.call({"find": COLLECTION, "sort": {"_id": 1}, "batchSize": 1000})
        return [exact.show(item) for _, item in exact.get(reply, "cursor.firstBatch")[1]]

    def insert(self, documents):
        if documents:
            reply = self.call({"insert": COLLECTION, "documents": documents})
            assert exact.plain(exact.get(reply, "n")) == len(documents), exact.show_document(reply)


class Twins:
    """The arms at a mongod and a Spillway before it."""

    def __init__(self, cluster, spillway, rules):
        self.runs = 0
        self.keepings = {name: [Keeping(rule) for rule in each] for name, each in rules.items()}
        self.direct = Connection(cluster.primary.port)
        self.arms = [Arm(PLAIN, cluster.primary.port), *(Arm(name, spillway.port) for name in rules)]

    def close(self):
        for connection in (self.direct, *(arm.connection for arm in self.arms)):
            connection.close()

    def clear(self):
        """Empties all arms; no mover may be at work, and no _id may come again."""
        everything = [{"q": {}, "limit": 0}]
        for arm in self.arms:
            for name in (COLLECTION, *(keeping.overflow for keeping in self.keepings.get(arm.name, ()))):
                self.direct.command(arm.name, {"delete": name, "deletes": everything})

    def rest(self, names=None):
        """Waits until the movers have nothing left to do, in these databases or in all.

        However slow the machine is: it fails where nothing changes any more for as long as wait_for waits.
        """
        left = dict.fromkeys(names or self.keepings)

        def moved_on():
            found = {name: [str(findings) for findings in self._findings(name) if findings] for name in left}
            changed = found != left
            left.clear()
            left.update({name: findings for name, findings in found.items() if findings})
            return changed or not left
        while left:
            try:
                wait_for(moved_on, "the movers", pause=0.02)
            except TimeoutError:
                raise AssertionError(f"not at rest: {left}") from None

    def _findings(self, name):
        """What is wrong or not done yet in a database, by each of its rules."""
        # The overflow first: what is linked between the reads is there already.
        overflows = [self._stored(name, keeping.overflow) for keeping in self.keepings[name]]
        mains = self._stored(name, COLLECTION)
        return [check(mains, batches, keeping)[0] for batches, keeping in zip(overflows, self.keepings[name])]

    def _stored(self, database, collection):
        command = {"find": collection, "batchSize": 10000, "$db": database, "apiVersion": "1"}
        reply = exact.parse(self.direct.call(exact.document(command)).body)
        return [pairs for _, (_, pairs) in exact.get(reply, "cursor.firstBatch")[1]]

    def fill(self, documents):
        """Puts the same documents into all arms in place of what is there."""
        self.clear()
        for arm in self.arms:
            arm.insert(documents)

    def settle(self):
        """Waits until the tails have moved in the settled arms."""
        self.rest([name for name in self.keepings if name in SETTLED])

    def same(self, what, answers):
        """Fails unless each ruled arm's answer is the plain one's."""
        expected = answers.pop(PLAIN)
        wrong = {name: answer for name, answer in answers.items() if answer != expected}
        if wrong:
            lines = [f"{name}: {answer}" for name, answer in wrong.items()]
            raise AssertionError("\n".join([f"{what}:", f"directly: {expected}", *lines]))

    def run(self, documents, commands):
        """Runs commands on documents in all arms: the replies and the documents must be the same.

        Documents have an _id below 100; here they get others, which no run has had before.
        """
        self.runs += 1
        base = 100 * self.runs
        commands = [_numbered_command(command, base) for command in commands]
        self.fill([_numbered(document, base) for document in documents])
        for command in commands:
            self.settle()
            self.same(command, {arm.name: _shown(arm.call(command)) for arm in self.arms})
            self.same(f"documents after {command}", {arm.name: arm.documents() for arm in self.arms})
        self.rest()
        self.same("documents at rest", {arm.name: arm.documents() for arm in self.arms})


@contextlib.contextmanager
def twins(ruled=tuple(RULED), options=()):
    """A context in which the arms of these names are at work; mongod has the options."""
    rules = {name: _rules(name, {**RULED, **EACH}[name]) for name in ruled}
    with Cluster(durable=False,
                 options=options) as cluster, Spillway([cluster.primary], sum(rules.values(), [])) as spillway:
        made = Twins(cluster, spillway, rules)
        try:
            yield made
        finally:
            made.close()
