"""Asks mongod the same question in several places, and compares what it answers.

Spillway evaluates a client's filters, sorts, projections and updates in other places than the client
wrote them: behind stages that reassemble arrays, inside a joined pipeline, or as an update pipeline.
The search runs on mongod alone. It finds out where mongod's answer depends on the place.

Each module of MODULES has:

    run(server, share, found)   asks; `share` is the part of the cases to ask, 1 for all of them
    KNOWN                       {what a difference is called: what Spillway does about it}
    RARE                        those of them that a share may miss; may be left out
"""

import collections
import contextlib
import importlib

from support import exact
from support.cluster import Cluster
from support.wire import Connection

MODULES = ("filters", "elements", "stands", "sorts", "distincts", "expressions", "projections", "updates")
DATABASE = "places"


def module(name):
    return importlib.import_module(f"oracle.places.{name}")


class Server:
    """Context manager: one mongod, the program that $MONGOD names, and a connection to it."""

    def __enter__(self):
        with contextlib.ExitStack() as stack:
            cluster = stack.enter_context(Cluster(options=("--syncdelay", "600"), durable=False))
            self.connection = stack.enter_context(Connection(cluster.primary.port, timeout=60))
            self.version = self.connection.command("admin", {"buildInfo": 1})["version"]
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *failure):
        return self._stack.__exit__(*failure)

    def ask(self, command, database=DATABASE):
        """The reply to a command, given as a dictionary or as (name, value) pairs, as a list of (name, value)."""
        return exact.parse(self.bytes(command, database))

    def bytes(self, command, database=DATABASE):
        """The same as bytes."""
        pairs = [*exact.pairs_of(command), ("$db", exact.value_of(database))]
        return self.connection.call(exact.encode(pairs)).body

    def fill(self, collection, documents):
        """The collection holds just these documents."""
        self.must({"drop": collection}, allowed=(26,))
        for start in range(0, len(documents), 500):
            self.must({"insert": collection, "documents": documents[start:start + 500]})

    def must(self, command, allowed=()):
        """The reply to a command that has to succeed."""
        reply = self.ask(command)
        code = exact.get(reply, "code")
        failed = exact.get(reply, "writeErrors") or (code and exact.plain(code) not in allowed)
        if failed:
            raise RuntimeError(f"{command} failed: {exact.show_document(reply)}")
        return reply


class Found:
    """What a search has asked and found.

    `asked` counts (group, name): for a group such as "operator", "type" or "form" how many questions had
    which. `differences` has, by what a difference is called, how often it was met and its first example.
    """

    def __init__(self):
        self.asked = collections.Counter()
        self.differences = {}

    def count(self, group, name, times=1):
        self.asked[group, name] += times

    def differs(self, name, example):
        """`name` is short and does not depend on the share; `example` is the text of one case."""
        times, first = self.differences.get(name, (0, example))
        self.differences[name] = times + 1, first

    def figures(self):
        """{group: (number of names, number of questions)}."""
        groups = {}
        for (group, _), times in self.asked.items():
            names, questions = groups.get(group, (0, 0))
            groups[group] = names + 1, questions + times
        return groups
