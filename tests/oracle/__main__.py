"""The oracle's command line; `run` beside this file starts it with its clients."""

import argparse
import random
import sys

from oracle.campaigns import Campaign, Failed, replay


def arguments():
    parser = argparse.ArgumentParser(prog="tests/oracle/run", description=__doc__)
    parser.add_argument("--ops", type=int, help="stop after so many operations (20000 where no time is given)")
    parser.add_argument("--seconds", type=float, help="stop after so many seconds")
    parser.add_argument("--seed", type=int, default=None, help="default: a new one")
    parser.add_argument("--first", type=int, default=0, help="the first episode's number")
    parser.add_argument("--replay", metavar="FILE", help="run a case that was written down")
    parser.add_argument("--direct", action="store_true", help="both sides straight at mongod: finds nothing")
    parser.add_argument("--elements", action="store_true", help="one overflow document an element, in each layout")
    parser.add_argument("--reads", action="store_true", help="mostly reads of arrays")
    parser.add_argument("--multis", action="store_true", help="mostly writes of several documents")
    parser.add_argument("--mixed", action="store_true", help="every other episode mostly reads arrays")
    parser.add_argument("--in-place", action="store_true", help="arrays are edited in place, or edits refused")
    parser.add_argument("--no-shrink", action="store_true", help="say only that something was found")
    given = parser.parse_args()
    if given.ops is None and given.seconds is None:
        given.ops = 20000
    return given


def main():
    given = arguments()
    if given.replay:
        found = replay(given.replay)
        print(found or "both sides agree")
        return 1 if found else 0
    seed = random.SystemRandom().randrange(2**31) if given.seed is None else given.seed
    campaign = Campaign(seed, given.direct, not given.no_shrink, elements=given.elements, reads=given.reads,
                        multis=given.multis, mixed=given.mixed, in_place=given.in_place)
    try:
        campaign.run(given.ops, given.seconds, given.first)
        campaign.report()
        if not (given.direct or given.reads or given.multis or given.in_place):
            campaign.require_coverage()
    except Failed as failure:
        print(f"oracle: FAILED with seed {seed}\n{failure}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
