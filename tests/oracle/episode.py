"""Runs a list of operations on both arms and says where they first disagree."""

import itertools
import random

from oracle import operations
from support import exact
from support.wire import Closed

LENGTH = 40
TOO_LARGE = 10334
_EXPRESSION_ERRORS = (17124, 40081)  # $size and $in of no array


def _is_refusal(reply):
    """Error 115, in a reply as arms give it."""
    code = exact.get(reply[1][1], "code")
    return code is not None and exact.plain(code) == 115


def _fails(reply):
    return exact.get(reply[1][1], "code") is not None


def _says_too_large(reply):
    """As the command's error, or a statement's."""
    answer = reply.plain()
    errors = [answer, *answer.get("writeErrors", ()), *answer.get("cursor", {}).get("firstBatch", ())]
    return any(each.get("code") == TOO_LARGE for each in errors if isinstance(each, dict))


def _in_other_words(replies):
    """Of an array that is not taken back: whether it equals a new one is not known, and mongod's texts on an element
    name its batch."""
    def without(value):
        kind, payload = value
        if kind not in (exact.DOCUMENT, exact.ARRAY):
            return value
        return kind, [(name, without(item)) for name, item in payload if name not in ("nModified", "errmsg")]
    return [(flags, without(value)) for flags, value in replies]


def _same_bytes(world, replies):
    plain, ruled = (arm.bytes_of(each) for arm, each in zip(world.arms, replies))
    return plain == ruled


def _holds_undefined(world, layout):
    """A join may fail where it meets `undefined`, which drivers no longer write: through Spillway, at mongod, or
    both."""
    plain = world.arms[0]
    left = [plain.normal(plain.documents(layout), layout)[1]]
    while left:
        kind, payload = left.pop()
        if kind == exact.UNDEFINED:
            return True
        if kind in (exact.DOCUMENT, exact.ARRAY):
            left += [value for _, value in payload]
    return False


def _is_judged_first(operation, plain, ruled):
    """In a transaction one document's error of $expr ends it before those in front of it are updated, which may
    fail, too."""
    if operation["does"] != "transaction":
        return False
    differ = [pair for pair in zip(plain, ruled) if pair[0] != pair[1]]
    theirs, ours = (exact.show(value) for _, value in differ[0])
    return "code: " in theirs and any(f"code: {code}," in ours for code in _EXPRESSION_ERRORS)


class Disagreement(Exception):
    """The ruled arm did not do what the plain one did."""

    def __init__(self, number, text):
        super().__init__(text)
        self.number = number


class Coverage:
    """Counts (operator, command's kind, layout's kind, spilled or not); None as a kind is all of them."""

    def __init__(self):
        self.cells = {}

    def add(self, labels, command, layout, spilled):
        for label in labels:
            for cell in itertools.product((label,), (command, None), (layout, None), (spilled,)):
                self.cells[cell] = self.cells.get(cell, 0) + 1

    def merge(self, other):
        for cell, count in other.cells.items():
            self.cells[cell] = self.cells.get(cell, 0) + count

    def total(self):
        """{operator: [ordinary, spilled]} over all commands and layouts."""
        totals = {}
        for (label, command, layout, spilled), count in self.cells.items():
            if command is None and layout is None:
                totals.setdefault(label, [0, 0])[spilled] = count
        return totals

    def missing(self, labels, command, layout, minimum):
        """What was covered less than `minimum` times, on ordinary or spilled documents."""
        return [
            (label, command, layout, "spilled" if spilled else "ordinary", count)
            for label in labels for spilled in (False, True)
            if (count := self.cells.get((label, command, layout, spilled), 0)) < minimum
        ]


class Episode:
    """One layout and a list of operations, run from empty collections to rest."""

    def __init__(self, layout, made, strict):
        self.layout = layout
        self.made = made
        self.strict = strict

    @classmethod
    def random(cls, seed, number, layouts, reads=False, multis=False):
        """The episode with this number of a run: the same for the same seed. Some, or with `reads` all, mostly read
        arrays; some, or with `multis` all, mostly write several documents at once."""
        rng = random.Random(f"{seed} {number}")
        layout = layouts[number % len(layouts)]
        generator = operations.Generator(rng, layout, number + 1, reads, multis)
        return cls(layout, generator.operations(LENGTH), generator.strict)

    def with_operations(self, made):
        return Episode(self.layout, made, self.strict)

    def run(self, world, coverage=None):
        """Raises Disagreement; returns the number of operations run."""
        world.clear(self.layout)
        for number, operation in enumerate(self.made):
            try:
                self._step(world, number, operation, coverage)
            except (Closed, OSError, ValueError) as error:
                why = world.failure() or f"{type(error).__name__}: {error}"
                raise Disagreement(number, why) from error
        self._finish(world)
        return len(self.made)

    def _step(self, world, number, operation, coverage):
        if operation["does"] == "wait":
            self._rest(world, number)
        elif operation["does"] == "delay":
            world.delay_movers(operation["slows"], operation["by"])
        elif operation["does"] == "overlap":
            world.overlap(self.layout, operation["targets"][0], operation["array"], operation["keeps"])
        elif operation["does"] == "check":
            self._compare_documents(world, number)
        else:
            spilled = self._count(world, operation, coverage) if coverage else []
            replies = [arm.run(operation) for arm in world.arms]
            if coverage:
                self._count_met(operation, replies[0], spilled, coverage)
            if world.in_place and self._is_refused(world, operation, replies[1]):
                world.refused += 1
                world.clear(self.layout)  # what was to be written is there on one side alone
            elif not _same_bytes(world, replies):
                self._compare_replies(world, number, operation, replies)
            if operation.get("settles"):
                world.wait_until_settled(self.layout)

    def _is_refused(self, world, operation, replies):
        """Nobody is told that an unacknowledged write was refused."""
        concern = exact.get(operation.get("command", []), "writeConcern.w")
        if concern and exact.plain(concern) == 0:
            told = [[arm.documents(self.layout)] for arm in world.arms]
            return not _same_bytes(world, told)
        return any(_says_too_large(reply) for reply in replies)

    def _count(self, world, operation, coverage):
        spilled = world.spilled(self.layout)
        targets = operation["targets"]
        hit = bool(spilled) if targets is None else any(target in spilled for target in targets)
        coverage.add(operation["labels"], operation["kind"], self.layout.kind, hit)
        return spilled

    def _count_met(self, operation, replies, spilled, coverage):
        """Which conditions a find had that came upon spilled documents."""
        met = [label.replace("asks", "meets") for label in operation["labels"] if label.startswith("asks")]
        if not met or operation["kind"] != "find":
            return
        ids = [exact.encode([("_id", identifier)])[4:-1] for identifier in spilled]
        hit = any(identifier in reply.body for reply in replies for identifier in ids)
        coverage.add(met, operation["kind"], self.layout.kind, hit)

    def _compare_replies(self, world, number, operation, replies):
        plain, ruled = (
            arm.normalised(each, operation, self.layout) for arm, each in zip(world.arms, replies))
        if operation.get("may_refuse") and _is_refusal(ruled[-1]):
            return
        if world.in_place:
            plain, ruled = _in_other_words(plain), _in_other_words(ruled)
        failed = _fails(plain[-1]) or _fails(ruled[-1])
        if "aggregate_joined" in operation["labels"] and failed and _holds_undefined(world, self.layout):
            return
        if len(plain) == len(ruled) and plain != ruled and _is_judged_first(operation, plain, ruled):
            return
        self._compare(number, "replies", plain, ruled)

    def _compare_documents(self, world, number):
        replies = [arm.documents(self.layout) for arm in world.arms]
        if not _same_bytes(world, [[reply] for reply in replies]):
            plain, ruled = (
                arm.normal(reply, self.layout)[1] for arm, reply in zip(world.arms, replies))
            self._compare(number, "documents", [(None, plain)], [(None, ruled)])

    def _rest(self, world, number):
        left = world.wait_for_rest(self.layout, self.strict and not world.in_place)
        if left:
            raise Disagreement(number, f"not at rest: {left}")

    def _finish(self, world):
        self._compare_documents(world, len(self.made))
        self._rest(world, len(self.made))
        self._compare_documents(world, len(self.made))

    def _compare(self, number, what, plain, ruled):
        if plain == ruled:
            return
        lines = [f"{self.layout.collection}: {what} differ at operation {number}"]
        for name, answers in (("plain", plain), ("ruled", ruled)):
            lines += [f"  {name}: {exact.show(value)}" for _, value in answers]
        raise Disagreement(number, "\n".join(lines))

    def to_json(self, seed):
        return {
            "seed": seed, "layout": self.layout.collection, "strict": self.strict,
            "operations": [operations.to_json(operation) for operation in self.made],
        }

    @classmethod
    def from_json(cls, data, layouts):
        layout = next(layout for layout in layouts if layout.collection == data["layout"])
        made = [operations.from_json(operation) for operation in data["operations"]]
        return cls(layout, made, data["strict"])
