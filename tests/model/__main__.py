"""Searches all interleavings of two movers, pushes, edits, readers, garbage collection and crashes.

Without options it is the share of a test run: a few scenarios hold, and each part of the protocol that is taken out
breaks one of them."""

import argparse
import itertools
import sys
import time

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


def run(scenarios, seconds=None):
    """(scenarios, states, the scenarios with a violation)"""
    count, states, broken, end = 0, 0, [], seconds and time.monotonic() + seconds
    for scenario in scenarios:
        if end and time.monotonic() > end:
            break
        count += 1
        try:
            states += search(scenario)
        except Broken as found:
            broken.append(found)
    return count, states, broken


def told(count, states, broken):
    print(f"{count} scenarios, {states} states, {len(broken)} scenarios with a violation")
    if broken:
        print(min(broken, key=lambda found: len(found.story)).told())


def share():
    """True where the share holds, and nothing of the protocol can be spared."""
    count, states, broken = run(SHARE)
    told(count, states, broken)
    good = not broken
    for part in Rules._fields:
        less = [each._replace(rules=Rules(**{part: False})) for each in SHARE]
        found = run(less)[2]
        print(f"without {part}: {len(found)} scenarios with a violation")
        good = good and found
    return good


def main():
    parser = argparse.ArgumentParser(prog="tests/model/run", description=__doc__)
    parser.add_argument("--full", action="store_true", help="all scenarios: hours")
    parser.add_argument("--seconds", type=float, help="with --full: ends after so long")
    parser.add_argument("--without", choices=Rules._fields, action="append", default=[],
                        help="with --full: a part of the protocol")
    given = parser.parse_args()
    if not given.full:
        sys.exit(not share())
    rules = Rules(**dict.fromkeys(given.without, False))
    count, states, broken = run(full(rules), given.seconds)
    told(count, states, broken)
    sys.exit(bool(broken))


if __name__ == "__main__":
    main()
