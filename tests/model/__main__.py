"""Searches all interleavings of two movers, pushes, edits, readers, garbage collection and crashes.

Without options it is the share of a test run: a few scenarios hold, and each part of the protocol that is taken out
breaks one of them. `protocol` is what Spillway does; `editions` are edits in place."""

import argparse
import collections
import itertools
import sys
import time

from model import editions, protocol
from model.protocol import Rules, Scenario
from model.search import Broken, search

NONE = (0, 0, 0, 0)  # edits, reads, collects, crashes
OTHERS = [NONE, (0, 0, 0, 2), (0, 1, 0, 1), (1, 1, 0, 0), (2, 0, 0, 0), (2, 0, 1, 0), (2, 0, 0, 1)]
SIZES = [(1, 2), (1, 3), (2, 3), (3, 2), (2, 2)]
LENGTHS, PUSHES, HEADS = (2, 3, 4, 5), (0, 1, 2), (0, 1)

SHARE = [
    Scenario((1, 3), True, 2, 1, *NONE, 0, Rules()),
    Scenario((1, 3), True, 2, 2, *NONE, 0, Rules()),
    Scenario((1, 3), True, 2, 2, *NONE, 0, Rules(), True),
    Scenario((3, 1), True, 2, 2, *NONE, 0, Rules(), True),
    Scenario((2, 3), True, 3, 1, 0, 1, 0, 1, 0, Rules()),
    Scenario((1, 2), False, 3, 0, *NONE, 0, Rules()),
    Scenario((1, 3), False, 3, 1, *NONE, 0, Rules()),
    Scenario((2, 2), False, 3, 1, 0, 0, 0, 1, 1, Rules()),
]

PULL, SET, POP = ("pull", 2, False), ("set", 2, False), ("pop", -1, False)
EDITED = [
    # sizes, length, pushes, operations, clears, reads, collects, crashes, head, moved, lost
    editions.Scenario((2,), 4, 0, (PULL,), 0, 1, 1, 0, 1, 3),
    editions.Scenario((1, 2), 4, 0, (PULL,), 0, 0, 0, 0, 1, 2),
    editions.Scenario((2,), 4, 0, (("pull", 1, False), SET), 0, 0, 0, 1, 1, 3),
    editions.Scenario((2,), 4, 1, (POP,), 1, 0, 0, 1, 1, 3),
    editions.Scenario((2,), 4, 1, (POP,), 0, 1, 0, 0, 1, 2),
    editions.Scenario((2,), 4, 1, (("pull", 3, False),), 0, 0, 0, 1, 1, 2, True),
    editions.Scenario((2,), 2, 1, (("set", 1, False),), 0, 0, 0, 0, 1, 1),
    editions.Scenario((1, 3), 3, 0, (SET,), 0, 0, 0, 0, 0, 1),
    editions.Scenario((1, 3), 3, 0, (SET,), 0, 1, 0, 0, 0, 1),
    editions.Scenario((2,), 4, 0, (("pull", 1, True), ("fold", 2, False)), 0, 1, 0, 0, 1, 3),
]


def full(rules):
    """Each choice of the others alone and together, the small ones first."""
    every = [
        Scenario(sizes, unique, length, pushes, *others, head, rules, older)
        for sizes, unique, length, pushes, others, head in itertools.product(SIZES, (True, False), LENGTHS, PUSHES,
                                                                             OTHERS, HEADS)
        # without the index an older mover may append to another batch
        for older in ((False, True) if unique else (False,))
    ]
    return sorted(every, key=lambda each: each.length + 2 * each.pushes + 2 * each.edits + each.reads + each.collects
                  + 2 * each.crashes)


def full_editions(rules):
    """One operation of each kind, and pairs, a transaction's among them."""
    kinds = [("pull", 1), ("pull", 3), ("set", 2), ("at", 2), ("pop", 0), ("pop", -1), ("fold", 2)]
    alone = [((*kind, False),) for kind in kinds] + [(("pull", 2, True),), (("pop", -1, True),)]
    pairs = [(*one, *other) for one, other in itertools.combinations_with_replacement(alone, 2)]
    others = [(0, 1, 0, 0), (0, 0, 1, 0), (0, 0, 0, 1), (1, 0, 0, 1), (0, 1, 1, 0), (1, 1, 1, 0), (0, 1, 1, 1)]
    every = [
        editions.Scenario(sizes, length, pushes, operations, *rest, head, moved, len(sizes) == 1, rules)
        for sizes, length, pushes, operations, rest, head, moved in itertools.product(
            ((2,), (1, 2), (1, 3), (2, 2)), (3, 4), (0, 1), alone + pairs, others, (0, 1), (0, 1, 2, 3))
        if head + moved <= length
    ]
    return sorted(every, key=lambda each: each.length + 2 * each.pushes + 3 * len(each.operations) + each.reads
                  + each.collects + 2 * each.crashes + 2 * len(each.sizes) - each.moved)


Model = collections.namedtuple("Model", "machine share full")
MODELS = {"protocol": Model(protocol, SHARE, full), "editions": Model(editions, EDITED, full_editions)}


def run(machine, scenarios, seconds=None, every=True):
    """(scenarios, states, the scenarios with a violation); without `every`, it ends at the first of these."""
    count, states, broken, end = 0, 0, [], seconds and time.monotonic() + seconds
    for scenario in scenarios:
        if (end and time.monotonic() > end) or (broken and not every):
            break
        count += 1
        try:
            states += search(scenario, machine)
        except Broken as found:
            broken.append(found)
    return count, states, broken


def told(name, count, states, broken):
    print(f"{name}: {count} scenarios, {states} states, {len(broken)} scenarios with a violation", flush=True)
    if broken:
        print(min(broken, key=lambda found: len(found.story)).told())


def share(name, model):
    """True where the share holds, and nothing of the protocol can be spared."""
    found = run(model.machine, model.share)
    told(name, *found)
    good = not found[2]
    for part in model.machine.Rules._fields:
        less = [each._replace(rules=model.machine.Rules(**{part: False})) for each in model.share]
        broken = run(model.machine, less, every=False)[2]
        print(f"without {part}: {broken[0] if broken else 'no violation'}", flush=True)
        good = good and broken
    return good


def main():
    parser = argparse.ArgumentParser(prog="tests/model/run", description=__doc__)
    parser.add_argument("--full", choices=MODELS, nargs="?", const="protocol", help="all scenarios: hours")
    parser.add_argument("--seconds", type=float, help="with --full: ends after so long")
    parser.add_argument("--without", choices=Rules._fields + editions.Rules._fields, action="append", default=[],
                        help="with --full: a part of the protocol")
    given = parser.parse_args()
    if not given.full:
        held = [share(name, model) for name, model in MODELS.items()]
        sys.exit(not all(held))
    model = MODELS[given.full]
    rules = model.machine.Rules(**dict.fromkeys(given.without, False))
    found = run(model.machine, model.full(rules), given.seconds)
    told(given.full, *found)
    sys.exit(bool(found[2]))


if __name__ == "__main__":
    main()
