"""Runs the rows that are asked for, prints the table and writes it as JSON."""

import argparse
import dataclasses
import datetime
import json
import os
import pathlib
import platform
import resource
import sys

from bench import costs, crowd, edits, moving, pushes, reads, relay, spill, streams, tls
from bench.table import print_detail, print_table
from support import share

ROWS = {
    "throughput": relay.throughput,
    "latency": relay.latency,
    "system-calls": relay.system_calls,
    "instructions": relay.instructions,
    "merged-instructions": reads.merged_instructions,
    "observe": relay.observe,
    "allocations": relay.allocations,
    "idle-memory": relay.idle_memory,
    "big-message": relay.big_message,
    "tls-throughput": tls.throughput,
    "tls-latency": tls.latency,
    "tls-handshakes": tls.handshakes,
    "tls-idle-memory": tls.idle_memory,
    "crowd": crowd.crowd,
    "push-ordinary": spill.push_ordinary,
    "push-long": spill.push_long,
    "push-spilled": pushes.push_spilled,
    "hot-document": pushes.hot_document,
    "mongod-cpu": pushes.mongod_cpu,
    "find-long": spill.find_long,
    "read-long": reads.read_long,
    "overflow-queries": reads.overflow_queries,
    "aggregate-many": reads.aggregate_many,
    "find-element": reads.find_element,
    "find-member": reads.find_member,
    "membership": edits.membership,
    "whole-edit": edits.whole_edit,
    "edit-in-place": edits.edit_in_place,
    "costs": costs.costs,
    "many-rules": costs.many_rules,
    "migrate-speed": moving.migrate_speed,
    "migrate-latency": moving.migrate_latency,
    "first-sweep": moving.first_sweep,
    "undo-speed": moving.undo_speed,
    "change-streams": streams.event_rows,
}
DESCRIPTORS = 10_400  # two for each of 5,000 connections, and some
BETTER = 20_000       # two for each of 9,900


@dataclasses.dataclass
class Scale:
    """How much of everything."""

    rounds: int = 9
    seconds: float = 1.0
    watched: tuple = (10_000, 20_000)  # operations under strace and valgrind
    idle: int = 5000                   # connections
    idle_tls: int = 9900               # connections with TLS, fewer if descriptors are
    hostile: int = 1000                # connections, of each kind
    big: int = 3                       # messages of 48 MB
    long: int = 1_000_000              # elements pushed to
    found: int = 100_000               # elements found
    documents: int = 100_000           # of a collection
    outliers: int = 100                # among them
    costly: int = 20_000               # documents of the rows `costs`
    costly_outliers: int = 200         # among them
    existing: int = 1_000_000          # documents that a first sweep looks at
    undone: int = 20_000               # outliers that are moved and folded back
    events: int = 20_000               # of a change stream
    hot: int = 10_000                  # pushes to one document while mongod's CPU is counted
    garbage: str = "1s"                # until it is cleared: not while a burst is measured
    beside: bool = True                # strace and valgrind watch the other proxies too


SMOKE = Scale(rounds=2, seconds=0.1, watched=(200, 600), idle=200, idle_tls=100, hostile=50, big=1, long=20_000,
              found=2000, documents=2000, outliers=10, costly=1000, costly_outliers=4, undone=500, events=1000, hot=400,
              existing=20_000, garbage="0s", beside=False)
TWINS = ("merged-instructions",)  # not in a smoke of all: it runs as `instructions` does
# What an ordinary run of all tests leaves out: these do what others do, and take more than half of the time.
SELDOM = ("observe", "allocations", "tls-handshakes", "tls-idle-memory", "crowd", "push-long", "hot-document",
          "mongod-cpu", "aggregate-many", "find-element", "membership", "edit-in-place", "costs", "migrate-latency",
          "first-sweep")


def read_arguments():
    parser = argparse.ArgumentParser(prog="tests/bench/run", description=__doc__)
    parser.add_argument("--rows", nargs="+", choices=ROWS, metavar="NAME",
                        help="of: " + ", ".join(ROWS))
    parser.add_argument("--rounds", type=int, default=9, help="one-second slices an arm gets")
    parser.add_argument("--copy", type=pathlib.Path, metavar="FILE", help="write the JSON here too")
    parser.add_argument("--smoke", action="store_true",
                        help="seconds only: does everything run and are the figures plausible")
    return parser.parse_args()


def allow_descriptors():
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < DESCRIPTORS:
        sys.exit(f"bench: {DESCRIPTORS} file descriptors are needed, {hard} allowed (ulimit -n)")
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, BETTER), hard))


def write_json(rows, arguments):
    now = datetime.datetime.now(datetime.UTC)
    text = json.dumps({
        "date": now.isoformat(timespec="seconds"),
        "kernel": platform.release(),
        "load_average": os.getloadavg(),
        "rounds": arguments.rounds,
        "rows": [row.as_json() for row in rows],
    }, indent=1) + "\n"
    folder = pathlib.Path("build/bench")
    folder.mkdir(parents=True, exist_ok=True)
    for file in (folder / f"{now:%Y-%m-%dT%H%M%S}.json", arguments.copy):
        if file:
            file.write_text(text)


def measure(names, scale):
    rows = []
    for name in names:
        print(f"\n{name} (load average {os.getloadavg()[0]:.1f})", flush=True)
        for row in ROWS[name](scale):
            rows.append(row)
            print_detail(row)
    return rows


def main():
    arguments = read_arguments()
    allow_descriptors()
    names = arguments.rows or list(ROWS)
    if arguments.smoke and not arguments.rows:
        names = share.without([name for name in ROWS if name not in TWINS], SELDOM)
    rows = measure(names, SMOKE if arguments.smoke else Scale(rounds=arguments.rounds))
    if arguments.smoke:
        wrong = [row.name for row in rows if not row.plausible()]
        sys.exit(f"bench: not plausible: {', '.join(wrong)}" if wrong else 0)
    print_table(rows)
    write_json(rows, arguments)
    sys.exit(0 if all(row.ok for row in rows) else 1)


if __name__ == "__main__":
    main()
