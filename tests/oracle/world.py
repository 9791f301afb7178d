"""What the oracle runs on: one mongod, and in front of it Spillways with a rule for each layout."""

import contextlib
import os

from bson.objectid import ObjectId

from oracle.arms import PLAIN, RULED, Arm
from oracle.layouts import all_layouts
from support import exact, verify
from support.cluster import Cluster
from support.process import wait_for
from support.spillway import Spillway
from support.wire import Connection

REST_SECONDS = 20
MOST_CHANGES = 1000  # of what is found on the way to rest: else it never comes to rest
MOMENT_SECONDS = 0.5
SETTLED_SECONDS = 0.15  # a tail that has not moved by then waits for garbage to go
MOVERS = "spillway"     # what movers call themselves to mongod
PAUSE = 0.025           # between two looks: they cost more than what is tested
_SPILLED = {"_spill": {"$exists": True, "$ne": {}}}
_BEFORE_DOCUMENTS = b"\4firstBatch\0"  # in a find's reply; no client's document stands before it


class World:
    """Context manager: mongod, two Spillways that know nothing of each other, and the two arms.

    With `direct` the ruled arm too goes straight to mongod: the oracle must then find nothing.
    With `elements` the overflow has one document an element. With `in_place` no array is folded back: it is edited
    in place, or Spillway refuses.
    """

    def __init__(self, direct=False, elements=False, in_place=False):
        self.direct = direct
        self.in_place = in_place
        self.refused = 0  # operations that can't be done in place
        self.layouts = all_layouts(elements, in_place)
        self.stack = contextlib.ExitStack()
        self.cluster = None
        self.spillways = []
        self.arms = []
        self.client = None
        self.stored = None
        self.known = {}

    def __enter__(self):
        with contextlib.ExitStack() as stack:
            self._start(stack)
            self.stack = stack.pop_all()
        return self

    def __exit__(self, *failure):
        return self.stack.__exit__(*failure)

    def _start(self, stack):
        self.cluster = stack.enter_context(Cluster(options=("--syncdelay", "600"), durable=False))
        # One try only: the oracle's reads must not hide a lost connection.
        self.client = self.cluster.client(retryReads=False, retryWrites=False)
        stack.enter_context(self.client)
        # What is stored is read often: without a driver, and taken apart only where it has changed.
        self.stored = stack.enter_context(Connection(self.cluster.primary.port))
        self.client.admin.command(
            "setDefaultRWConcern", defaultWriteConcern={"w": 1}, writeConcern={"w": "majority"})
        for layout in self.layouts:
            if layout.collation:
                for name in (PLAIN, RULED):
                    self.client[name].create_collection(layout.collection, collation=layout.collation)
        if not self.direct:
            self.spillways = [stack.enter_context(self._spillway(i)) for i in range(2)]
        stack.callback(self._close_arms)
        self.connect()

    def _spillway(self, place):
        """The second one may be of another build (tests/upgrade/run), which moves existing outliers without a key."""
        spillway = Spillway([self.cluster.primary], self._rules(place), name=f"spillway{place}")
        if place == 1 and "SPILLWAY_SECOND" in os.environ:
            spillway.command[0] = os.environ["SPILLWAY_SECOND"]
            for rule in spillway.settings["rules"]:
                del rule["existing"]
        return spillway

    def _rules(self, place):
        return [rule for layout in self.layouts for rule in layout.rules(RULED, place)]

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
        self.arms = [Arm(PLAIN, [server, server], True), Arm(RULED, ports, self.direct)]

    def failure(self):
        """What a Spillway that ended by itself said last; None while all run."""
        for spillway in self.spillways:
            if not spillway.running():
                return f"{spillway.name} ended: {spillway.said()[-3000:]}"
        return None

    def delay_movers(self, command, milliseconds):
        """mongod takes its time with the next such command of a mover."""
        delayed = {"failCommands": [command], "appName": MOVERS, "blockConnection": True, "blockTimeMS": milliseconds}
        self.stored.command(
            "admin", {"configureFailPoint": "failCommand", "mode": {"times": 1}, "data": delayed})

    # what is stored

    def _keepings(self, layout):
        keepings = []
        for rule in layout.rules(RULED):
            keeping = verify.Keeping(rule)
            if not keeping.of_elements:
                keeping.batch_least, keeping.batch_size = layout.batch_sizes(rule)
            keepings.append(keeping)
        return keepings

    def clear(self, layout):
        """Empties the collections of a layout, behind Spillway's back; indexes stay."""
        for arm in self.arms:
            arm.retryables.clear()
            self._empty(arm.name, layout.collection)
        for keeping in self._keepings(layout):
            self._empty(keeping.database, keeping.overflow)

    def _empty(self, database, collection):
        everything = [{"q": {}, "limit": 0}]
        answer = self.stored.command(database, {"delete": collection, "deletes": everything})
        if "writeErrors" in answer or answer["ok"] != 1:
            raise RuntimeError(f"{collection} was not emptied: {answer}")

    def _read(self, database, collection, **options):
        """Every document that a collection holds, as the bytes of one array."""
        find = {"find": collection, "batchSize": 100000, **options, "$db": database}
        body = self.stored.call(exact.document(find)).body
        at = body.index(_BEFORE_DOCUMENTS) + len(_BEFORE_DOCUMENTS)
        return body[at:at + int.from_bytes(body[at:at + 4], "little")]

    def _state(self, keeping, identifier):
        """A spilled document's `_id` and generation as they are stored; None where nothing of it is elsewhere."""
        found = _documents(self._read(keeping.database, keeping.collection, filter={"_id": identifier}))
        state = exact.get(found[0], f"_spill.{keeping.key}") if found else None
        moved = exact.get(state[1], "n") if state else None
        return (exact.get(found[0], "_id"), exact.get(state[1], "g")) if moved and exact.plain(moved) > 0 else None

    def overlap(self, layout, identifier, array, keeps):
        """Stores the last batch's elements but for the first ones in one more batch, where the document's array has
        spilled."""
        keeping = next(each for each in self._keepings(layout) if each.array == array)
        found = None if self.direct or keeping.of_elements else self._state(keeping, identifier)
        if found:
            self._store_again(keeping, identifier, found, keeps)

    def _store_again(self, keeping, identifier, found, keeps):
        link, generation = found
        number = keeping.batch_field or "_spill.i"
        last = _documents(self._read(keeping.database, keeping.overflow,
                                     filter={keeping.link: link, "_spill.g": generation},
                                     sort={number: -1}, limit=1))
        batch = verify.Batch(last[0], keeping) if last else None
        elements = batch.elements[keeps:] if batch else []
        if not elements:
            return
        state = {"g": generation, "p": batch.position + keeps}
        document = {keeping.link: link,
                    keeping.part: (exact.ARRAY, [(str(i), each) for i, each in enumerate(elements)])}
        if keeping.batch_field:
            document[keeping.batch_field] = batch.number + 1
        else:
            state["i"] = batch.number + 1
        ours = ObjectId()
        document = {"_id": ours, **document, "_spill": state}
        self.stored.command(keeping.database, {"insert": keeping.overflow, "documents": [document]})
        if self._state(keeping, identifier) != found:  # the generation has ended meanwhile: nobody would look for this
            self.stored.command(keeping.database,
                                {"delete": keeping.overflow, "deletes": [{"q": {"_id": ours}, "limit": 1}]})

    def spilled(self, layout):
        """The `_id`s of documents of which a part is elsewhere."""
        found = self._read(RULED, layout.collection, filter=_SPILLED, projection={"_id": 1})
        return [exact.get(pairs, "_id") for pairs in _documents(found)]

    def findings(self, layout, hurried=False):
        """What is not as it shall be. `hurried` looks only whether that has changed which the last findings wait
        for."""
        return [self._findings(keeping, hurried) for keeping in self._keepings(layout)]

    def _read_both(self, keeping):
        """What is stored of a rule, at one moment: nothing was linked while the overflow was read."""
        mains = self._read(keeping.database, keeping.collection)
        while True:
            batches = self._read(keeping.database, keeping.overflow)
            before, mains = mains, self._read(keeping.database, keeping.collection)
            if mains == before:
                return batches, mains

    def _findings(self, keeping, hurried):
        names = (keeping.overflow, keeping.collection)
        last, found = self.known.get(names, (None, None))
        if hurried and found and self._still(keeping, last, found):
            return found
        batches, mains = read = self._read_both(keeping)
        if last != read:
            found = verify.check(_documents(mains), _documents(batches), keeping)[0]
            self.known[names] = read, found
        return found

    def _still(self, keeping, last, found):
        """A move ends in the main document, and garbage goes from the overflow."""
        batches, mains = last
        if found.unfinished:
            return mains == self._read(keeping.database, keeping.collection)
        return batches == self._read(keeping.database, keeping.overflow)

    def wait_for_rest(self, layout, strict):
        """Until the stored layout is what it shall be; the findings that stay after a deadline.

        However slow the machine is: the deadline counts from the last change of what is found.
        `strict` says that each write named its documents' `_id`s and went through one Spillway.
        What others leave may be the sweep's, which is far away: there only corruption counts after
        a moment.
        """
        if self.direct:
            return []
        def left(hurried=True):
            return [found for found in self.findings(layout, hurried) if _unrest(found, layout)]

        if not left(hurried=False):
            return []
        before = None

        def moved_on():
            nonlocal before
            found = [str(each) for each in left()]
            changed, before = found != before, found
            return changed

        with contextlib.suppress(TimeoutError):
            for _ in range(MOST_CHANGES):
                wait_for(moved_on, "rest", REST_SECONDS if strict else MOMENT_SECONDS, PAUSE)
                if not before:
                    return []
        return [str(found) for found in left(hurried=False) if strict or found.corrupt]

    def wait_until_settled(self, layout):
        """Until tails have moved, or a moment has gone."""
        if self.direct:
            return

        def unfinished(hurried=True):
            return any(found.unfinished for found in self.findings(layout, hurried))

        with contextlib.suppress(TimeoutError):
            if unfinished(hurried=False):
                wait_for(lambda: not unfinished(), "tails to move", SETTLED_SECONDS, PAUSE)


def _documents(array):
    return [pairs for _, (_, pairs) in exact.parse(array)]


def _unrest(findings, layout):
    """Moving again may have to wait until garbage is gone, which a layout may keep for a minute."""
    if findings.garbage and layout.keeps_garbage:
        return bool(findings.corrupt)
    return bool(findings)
