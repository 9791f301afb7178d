"""What the oracle runs on: one mongod, and in front of it Spillways with a rule for each layout."""

import contextlib

from oracle.arms import PLAIN, RULED, Arm
from oracle.layouts import all_layouts
from support import exact, verify
from support.cluster import Cluster
from support.process import wait_for
from support.spillway import Spillway

REST_SECONDS = 20
MOMENT_SECONDS = 0.5


class World:
    """Context manager: mongod, two Spillways that know nothing of each other, and the two arms.

    With `direct` the ruled arm too goes straight to mongod: the oracle must then find nothing.
    """

    def __init__(self, direct=False):
        self.direct = direct
        self.layouts = all_layouts()
        self.stack = contextlib.ExitStack()
        self.cluster = None
        self.spillways = []
        self.arms = []
        self.client = None

    def __enter__(self):
        with contextlib.ExitStack() as stack:
            self._start(stack)
            self.stack = stack.pop_all()
        return self

    def __exit__(self, *failure):
        return self.stack.__exit__(*failure)

    def _start(self, stack):
        self.cluster = stack.enter_context(Cluster())
        # One try only: the oracle's reads must not hide a lost connection.
        self.client = self.cluster.client(retryReads=False, retryWrites=False)
        stack.enter_context(self.client)
        self.client.admin.command(
            "setDefaultRWConcern", defaultWriteConcern={"w": 1}, writeConcern={"w": "majority"})
        if not self.direct:
            rules = [rule for layout in self.layouts for rule in layout.rules(RULED)]
            self.spillways = [
                stack.enter_context(Spillway([self.cluster.primary], rules, name=f"spillway{i}"))
                for i in range(2)
            ]
        stack.callback(self._close_arms)
        self.connect()

    def _close_arms(self):
        for arm in self.arms:
            arm.close()
        self.arms = []

    def connect(self):
        """Opens the arms' connections, after starting again what has ended."""
        self._close_arms()
        for spillway in self.spillways:
            if not spillway.running():
                spillway.start()
        server = self.cluster.primary.port
        ports = [spillway.port for spillway in self.spillways] or [server, server]
        self.arms = [Arm(PLAIN, [server, server]), Arm(RULED, ports)]

    def failure(self):
        """What a Spillway that ended by itself said last; None while all run."""
        for spillway in self.spillways:
            if not spillway.running():
                return f"{spillway.name} ended: {spillway.said()[-3000:]}"
        return None

    # what is stored

    def _keepings(self, layout):
        return [verify.Keeping(rule) for rule in layout.rules(RULED)]

    def clear(self, layout):
        """Empties the collections of a layout, behind Spillway's back; indexes stay."""
        for arm in self.arms:
            arm.retryables.clear()
            self.client[arm.name][layout.collection].delete_many({})
        for keeping in self._keepings(layout):
            self.client[keeping.database][keeping.overflow].delete_many({})

    def spilled(self, layout):
        """The `_id`s of documents of which a part is elsewhere, and those of all others."""
        found = {True: [], False: []}
        collection = self.client[RULED][layout.collection]
        raw = collection.with_options(
            codec_options=collection.codec_options.with_options(document_class=verify.RawBSONDocument))
        for document in raw.find({}, {"_spill": 1}):
            pairs = exact.parse(bytes(document.raw))
            state = exact.get(pairs, "_spill")
            found[bool(state and state[1])].append(exact.get(pairs, "_id"))
        return found[True], found[False]

    def findings(self, layout):
        return [verify.check(*keeping.read(self.client), keeping)[0] for keeping in self._keepings(layout)]

    def wait_for_rest(self, layout, strict):
        """Until the stored layout is what it shall be; the findings that stay after a deadline.

        `strict` says that each write named its documents' `_id`s and went through one Spillway.
        What others leave may be the sweep's, which is far away: there only corruption counts after
        a moment.
        """
        if self.direct:
            return []
        last = []

        def at_rest():
            last[:] = [found for found in self.findings(layout) if _unrest(found, layout)]
            return not last

        try:
            wait_for(at_rest, "rest", REST_SECONDS if strict else MOMENT_SECONDS, 0.01)
        except TimeoutError:
            return [str(found) for found in last if strict or found.corrupt]
        return []


    def wait_a_moment(self, layout):
        """Until the layout is at rest, or some time has gone: garbage may be in the way."""
        if self.direct:
            return
        with contextlib.suppress(TimeoutError):
            wait_for(lambda: not any(self.findings(layout)), "rest", MOMENT_SECONDS / 2, 0.01)


def _unrest(findings, layout):
    """Moving again may have to wait until garbage is gone, which a layout may keep for a minute."""
    if findings.garbage and layout.keeps_garbage:
        return bool(findings.corrupt)
    return bool(findings)
