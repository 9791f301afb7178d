"""The command line: tests/linear/run."""

import argparse
import random
import sys

from linear.harness import Plan, Run

KINDS = ("kill a Spillway", "cut clients", "step down", "kill a Spillway", "cut servers", "kill a member",
         "kill a Spillway", "cut clients", "pause the primary")


def arguments():
    parser = argparse.ArgumentParser(prog="tests/linear/run", description=__doc__)
    parser.add_argument("--operations", type=int, default=20000, help="of both arms, at least")
    parser.add_argument("--kills", type=int, default=27, help="faults of all kinds")
    parser.add_argument("--only", choices=sorted(set(KINDS)), action="append", help="these kinds of faults")
    parser.add_argument("--seconds", type=float, default=0, help="to go on for, at least")
    parser.add_argument("--seed", type=int, default=random.randrange(1, 1 << 31))
    parser.add_argument("--concern", choices=("majority", "1"), default="majority", help="write concern")
    parser.add_argument("--pause", type=int, default=100, help="operations of each arm between two faults")
    parser.add_argument("--slots", type=int, default=6, help="keys at one time, in each arm")
    parser.add_argument("--clients", type=int, default=4, help="of each key")
    parser.add_argument("--without", action="append", default=[],
                        help="an operation to leave out, as model.go names it")
    parser.add_argument("--in-place", action="store_true", help="arrays are edited in place, never taken back")
    return parser.parse_args()


def main():
    asked = arguments()
    chosen = asked.only or KINDS
    kinds = tuple(chosen[i % len(chosen)] for i in range(asked.kills))
    run = Run(Plan(asked.seed, asked.operations, kinds, asked.seconds, asked.concern, asked.pause, asked.slots,
                   asked.clients, tuple(asked.without), asked.in_place))
    run.run()
    return 1 if run.found() else 0


sys.exit(main())
