"""Runs the oracle over many seeds, several at a time, and says together what they covered and found.

What a seed finds is written down as the oracle does, and the others go on. The result is kept in a
file after each seed, so that a campaign that is ended can be told of, and one of more seeds added.
"""

import argparse
import concurrent.futures
import datetime
import json
import multiprocessing
import sys

from oracle.campaigns import Campaign, Failed, missing, report
from oracle.episode import Coverage
from support.process import build_folder


def run_seed(seed, most_operations, elements):
    """(seed, operations, coverage, what was found)."""
    campaign = Campaign(seed, say=lambda _: None, elements=elements)
    try:
        campaign.run(most_operations)
    except Failed as failure:
        return seed, campaign.operations, campaign.coverage, str(failure)
    return seed, campaign.operations, campaign.coverage, None


class Result:
    """What the seeds did, together."""

    def __init__(self, elements):
        self.elements = elements
        self.seeds = []
        self.operations = 0
        self.found = {}
        self.coverage = Coverage()
        self.file = build_folder() / f"campaign-{datetime.datetime.now():%Y-%m-%dT%H%M%S}.json"

    def add(self, seed, made, coverage, found):
        self.seeds.append(seed)
        self.operations += made
        self.coverage.merge(coverage)
        if found:
            self.found[seed] = found
        print(f"campaign: seed {seed}, {made} operations, {self.operations} in all; {found or 'nothing found'}",
              flush=True)
        self.file.write_text(json.dumps({
            "seeds": self.seeds, "operations": self.operations, "found": self.found,
            "missing": missing(self.coverage, self.operations, self.elements), "coverage": self.coverage.total(),
        }, indent=1))


def read_arguments():
    parser = argparse.ArgumentParser(prog="tests/oracle/campaign", description=__doc__)
    parser.add_argument("--seeds", type=int, default=100, help="how many")
    parser.add_argument("--first", type=int, default=1, help="the first one; the others follow it")
    parser.add_argument("--ops", type=int, default=10000, help="operations of each seed")
    parser.add_argument("--jobs", type=int, default=multiprocessing.cpu_count(), help="how many at a time")
    parser.add_argument("--elements", action="store_true", help="one overflow document an element, in each layout")
    return parser.parse_args()


def main():
    given = read_arguments()
    result = Result(given.elements)
    seeds = range(given.first, given.first + given.seeds)
    with concurrent.futures.ProcessPoolExecutor(given.jobs) as pool:
        runs = [pool.submit(run_seed, seed, given.ops, given.elements) for seed in seeds]
        for run in concurrent.futures.as_completed(runs):
            result.add(*run.result())
    report(result.coverage)
    too_little = missing(result.coverage, result.operations, given.elements)
    print(f"campaign: {result.operations} operations, {len(result.seeds)} seeds, {len(result.found)} found something, "
          f"covered too little: {too_little or 'nothing'}")
    return 1 if result.found or too_little else 0


if __name__ == "__main__":
    sys.exit(main())
