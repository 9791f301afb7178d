"""Runs episodes until so many operations, or so much time, and reports what they covered."""

import json
import time

from oracle import operations
from oracle.episode import Coverage, Disagreement, Episode
from oracle.layouts import OF_ELEMENTS, all_layouts
from oracle.shrink import shrink
from oracle.world import World
from support.process import build_folder


class Failed(Exception):
    """A disagreement, shrunk and written down; or too little covered."""


class Campaign:
    """A run: its seed, how far it got, what it covered."""

    def __init__(self, seed, direct=False, shrinks=True, say=print, elements=False, reads=False,
                 multis=False, mixed=False, in_place=False):
        self.seed = seed
        self.direct = direct
        self.elements = elements
        self.in_place = in_place
        self.reads = reads
        self.multis = multis
        self.mixed = mixed
        self.shrinks = shrinks
        self.say = say
        self.coverage = Coverage()
        self.operations = 0
        self.retried = 0
        self.refused = 0

    def run(self, most_operations=None, most_seconds=None, first=0, until_covered=False):
        """Raises Failed at the first disagreement; `until_covered` goes on while the time allows."""
        self.say(f"oracle: seed {self.seed}")
        began = time.monotonic()
        number = first
        with World(self.direct, self.elements, self.in_place) as world:
            while most_seconds is None or time.monotonic() - began < most_seconds:
                if most_operations is not None and self.operations >= most_operations:
                    if not until_covered or not self.missing():
                        break
                self._run_one(world, number)
                number += 1
            self.retried += sum(arm.transactions_retried for arm in world.arms)
            self.refused += world.refused
        seconds = time.monotonic() - began
        if self.in_place:
            self.say(f"oracle: {self.refused} operations were refused")
        self.say(f"oracle: {self.operations} operations in {number - first} episodes, "
                 f"{seconds:.0f} s, {self.retried} transactions met a mover")

    def _run_one(self, world, number):
        reads = self.reads or self.mixed and number % 2 == 1
        episode = Episode.random(self.seed, number, world.layouts, reads, self.multis)
        try:
            self.operations += episode.run(world, self.coverage)
        except Disagreement as disagreement:
            self.say(f"oracle: episode {number}: {disagreement}")
            raise Failed(self._written(world, episode, disagreement)) from disagreement

    def _written(self, world, episode, disagreement):
        """Shrinks and writes the case down; the text that tells of it."""
        small, why = episode, disagreement
        if self.shrinks:
            small, why = shrink(world, episode, disagreement)
        path = build_folder() / f"oracle-{self.seed}-{episode.layout.collection}.json"
        case = {**small.to_json(self.seed), "in_place": self.in_place}
        path.write_text(json.dumps(case, indent=1) + "\n")
        made = "\n".join(_line(operation) for operation in small.made)
        return f"{why}\n{len(small.made)} operations do it:\n{made}\nreplay: tests/oracle/run --replay {path}"

    def report(self):
        report(self.coverage, self.say)

    def missing(self):
        return missing(self.coverage, self.operations, self.elements, self.mixed)

    def require_coverage(self):
        if too_little := self.missing():
            raise Failed(f"{TOO_LITTLE}: {too_little}")


TOO_LITTLE = "covered too little"
MAY_MISS = 12  # of some 250 kinds of reads, each on ordinary and on spilled documents


def report(coverage, say=print):
    """A table of operators: how often on ordinary and on spilled documents."""
    say(f"{'operator':32}{'ordinary':>9}{'spilled':>9}")
    for label, (ordinary, spilled) in sorted(coverage.total().items()):
        say(f"{label:32}{ordinary:9}{spilled:9}")


def missing(coverage, made, elements=False, mixed=False):
    """Which operators were met too seldom on ordinary or spilled documents in so many operations.

    The more there are, the closer one looks: over all, in each layout and each kind of command, in each
    kind of command of each layout. A `mixed` run is asked sooner for what reads of arrays name, and may miss a few.
    """
    minimum = max(made // 50000, 1)
    reads = operations.EXPECTED_READS if mixed or made >= 20000 else []
    found = coverage.missing(operations.EXPECTED_LABELS, None, None, minimum)
    rare = coverage.missing(reads, None, None, minimum)
    found += rare if len(rare) > (MAY_MISS if mixed else 0) else []
    layouts = {layout.kind: layout for layout in all_layouts(elements)} if made >= 40000 else {}
    for kind, layout in layouts.items():
        found += coverage.missing(_expected_labels(layout), None, kind, minimum)
    kinds = operations.EXPECTED_IN if made >= 40000 else {}
    for command, labels in kinds.items():
        found += coverage.missing(labels, command, None, minimum)
        for layout in layouts if made >= 500000 else ():
            found += coverage.missing(labels, command, layout, 1)
    return found


def _expected_labels(layout):
    labels = list(operations.EXPECTED_LABELS)
    if any("." in path for path in layout.arrays):
        labels += operations.EXPECTED_OF_DOTTED
    return labels + (operations.EXPECTED_OF_TWO if len(layout.arrays) > 1 else [])


def _line(operation):
    text = operations.to_json(operation)
    body = text.get("command", {}).get("text") or [step["command"]["text"] for step in text.get("steps", [])]
    return f"  {operation['does']} {body or operation.get('of', '')} {operation.get('form', '')}"


def replay(path):
    """Runs a case that was written down; the disagreement, None where there is none now."""
    with open(path) as file:
        case = json.load(file)
    with World(elements=case["layout"].startswith(OF_ELEMENTS), in_place=case.get("in_place", False)) as world:
        episode = Episode.from_json(case, world.layouts)
        try:
            episode.run(world)
        except Disagreement as disagreement:
            return disagreement
    return None
