"""Users with followers, a few with very many: mongod alone, Spillway, the pattern by hand.

The same operations, drawn by a seed, run in slices in all three arms in turn. At the end all
documents have to be equal. The figures go to a JSON file, and the plot is drawn from them.
"""

import argparse
import contextlib
import datetime
import itertools
import json
import os
import pathlib
import platform
import statistics
import sys
import xml.etree.ElementTree

import pymongo

from bench.arms import Load
from bench.plot import draw
from support.cluster import Cluster
from support.process import build_folder, wait_for
from support.spillway import Spillway

DATABASE = "celebrity"
ALONE, SPILLWAY, BY_HAND = "mongod alone", "Spillway", "pattern by hand"
COLLECTIONS = {ALONE: "alone", SPILLWAY: "ruled", BY_HAND: "by_hand"}
BATCHES = "by_hand_followers"
SHARES = {"push": 0.60, "profile": 0.25, "last": 0.10, "member": 0.05}
FOLDER = pathlib.Path("build/bench")
PLOT = pathlib.Path("docs/images/celebrity.svg")
DEFAULTS = {"operations": None, "longest": 100_000, "prefilled": 0, "seconds": None,
            "slice": 5000, "seed": 1, "users": 20_000, "exponent": 1.3, "threshold": 1000,
            "connections": 4}
TYPES = {"seconds": float, "exponent": float}
HELP = {
    "operations": "end after so many operations of each arm, instead of --longest",
    "longest": "end when the longest array has so many elements",
    "prefilled": "begin as after so many pushes",
    "seconds": "end after the round in which the slices of all arms have taken so long",
    "slice": "operations of each arm in a round",
    "seed": "of the operations",
    "users": "documents of each arm",
    "exponent": "of the Zipf distribution",
    "threshold": "of the rule and of the pattern by hand, and the size of their batches",
    "connections": "of each arm; with 1, the order of the elements is compared too",
}


def read_arguments():
    parser = argparse.ArgumentParser(prog="tests/bench/celebrity", description=__doc__)
    for key, words in HELP.items():
        default = DEFAULTS[key]
        shown = "" if default is None else f" ({default})"
        parser.add_argument(f"--{key}", type=TYPES.get(key, int), default=default, metavar="N",
                            help=words + shown)
    parser.add_argument("--plot", type=pathlib.Path, default=PLOT, metavar="SVG",
                        help=f"where the plot goes ({PLOT})")
    parser.add_argument("--plot-of", type=pathlib.Path, metavar="JSON",
                        help="only draw the plot of an earlier run")
    parser.add_argument("--smoke", action="store_true",
                        help="seconds only: does everything run and are the figures plausible")
    return parser.parse_args()


def rule(threshold):
    return {
        "name": "followers", "namespace": f"{DATABASE}.{COLLECTIONS[SPILLWAY]}",
        "array": "followers", "threshold": threshold,
        "flag": {"field": "hasOverflow", "value": True},
        "overflow": {"collection": "ruled_followers", "link": "userId", "array": "followers",
                     "batch": {"field": "batchNumber", "size": threshold}},
    }


def cluster_without_test_commands():
    """With its test commands a mongod parses each cursor's reply once more before it sends it."""
    cluster = Cluster(flush_ms=100)
    for member in cluster.members:
        member.command = ["enableTestCommands=0" if part == "enableTestCommands=1" else part
                          for part in member.command]
    return cluster


class Arms:
    """The three arms on one mongod; each has its own collection and the same operations."""

    def __init__(self, arguments):
        self.arguments = arguments
        self.stack = contextlib.ExitStack()

    def __enter__(self):
        with self.stack:
            cluster = self.stack.enter_context(cluster_without_test_commands())
            self.database = self.stack.enter_context(cluster.client())[DATABASE]
            self.database[BATCHES].create_index({"userId": 1, "batchNumber": 1}, unique=True)
            spillway = Spillway([cluster.primary], [rule(self.arguments.threshold)])
            self.spillway = self.stack.enter_context(spillway)
            through = pymongo.MongoClient("127.0.0.1", self.spillway.port, directConnection=True)
            self.through = self.stack.enter_context(through)[DATABASE]
            ports = dict.fromkeys(COLLECTIONS, cluster.primary.port)
            ports[SPILLWAY] = self.spillway.port
            self.loads = {name: self._load(name, port) for name, port in ports.items()}
            self.wait_until_at_rest()
            self.stack = self.stack.pop_all()
        return self

    def __exit__(self, *failure):
        return self.stack.__exit__(*failure)

    def _load(self, name, port):
        keys = ("connections", "users", "threshold", "prefilled", "exponent", "seed")
        options = {key: getattr(self.arguments, key) for key in keys}
        if name == BY_HAND:
            options["overflow"] = BATCHES
        load = Load(port, (), "celebrity", collection=COLLECTIONS[name], **options)
        return self.stack.enter_context(load)

    def wait_until_at_rest(self):
        """Every tail has moved: Spillway's work does not fall into the slices of other arms."""
        longer = {f"followers.{self.arguments.threshold}": {"$exists": True}}
        ruled = self.database[COLLECTIONS[SPILLWAY]]
        wait_for(lambda: not ruled.count_documents(longer), "all tails to be moved", 600, 0.1)

    def run(self, name):
        piece = self.loads[name].count(self.arguments.slice)
        if name == SPILLWAY:
            self.wait_until_at_rest()
        return piece

    def documents(self):
        """Whole documents of each arm, ordered by _id, as the arm's application reads them."""
        return {
            ALONE: self.database[COLLECTIONS[ALONE]].find().sort("_id"),
            SPILLWAY: self.through[COLLECTIONS[SPILLWAY]].find().sort("_id"),
            BY_HAND: self._merged(),
        }

    def _merged(self):
        batches = self.database[BATCHES].find().sort([("userId", 1), ("batchNumber", 1)])
        groups = itertools.groupby(batches, lambda batch: batch["userId"])
        user, group = next(groups, (None, ()))
        for document in self.database[COLLECTIONS[BY_HAND]].find().sort("_id"):
            if document.pop("hasOverflow", False) and user == document["_id"]:
                document["followers"] += [one for batch in group for one in batch["followers"]]
                user, group = next(groups, (None, ()))
            yield document


def compare(arms, pushes):
    """The _ids of users whose documents differ between the arms; all pushes must be there."""
    ordered = arms.arguments.connections == 1
    different, elements = [], 0
    for documents in itertools.zip_longest(*arms.documents().values()):
        if None in documents:
            found = [one and one["_id"] for one in documents]
            raise RuntimeError(f"an arm has fewer documents: {found}")
        if not ordered:  # connections push to one array at the same time, in any order
            for document in documents:
                document["followers"].sort(key=lambda one: one["id"])
        first = documents[0]
        elements += len(first["followers"])
        if any(list(one.items()) != list(first.items()) for one in documents[1:]):
            different.append(first["_id"])
        elif first["followerCount"] != len(first["followers"]):
            different.append(first["_id"])
    if elements != pushes and not different:
        raise RuntimeError(f"{pushes} pushes, but {elements} elements in all arms")
    return different


def print_round(done, pieces):
    rates = ", ".join(f"{name} {piece['operations'] / piece['seconds']:.0f}"
                      for name, piece in pieces.items())
    print(f"{done['operations']:>9,} operations, {done['pushes']:,} pushes, "
          f"longest {done['longest']:,}: {rates} a second", flush=True)


def go_on(arguments, rounds, done):
    spent = sum(piece["seconds"] for pieces in rounds for piece in pieces.values())
    if arguments.seconds and spent >= arguments.seconds:
        return False
    if arguments.operations:
        return done["operations"] < arguments.operations
    return not rounds or done["longest"] < arguments.longest


def run_rounds(arms):
    """Each round is one slice of each arm; which arm begins changes from round to round."""
    rounds = []
    done = {"operations": 0, "pushes": 0, "longest": 0}
    while go_on(arms.arguments, rounds, done):
        first = len(rounds) % len(COLLECTIONS)
        names = list(COLLECTIONS)
        pieces = {name: arms.run(name) for name in names[first:] + names[:first]}
        pieces = {name: pieces[name] for name in names}
        made = {(piece["pushes"], piece["longest"]) for piece in pieces.values()}
        if len(made) != 1:
            raise RuntimeError(f"the arms did not make the same pushes: {made}")
        rounds.append(pieces)
        done["operations"] += arms.arguments.slice
        done["pushes"], done["longest"] = made.pop()
        print_round(done, pieces)
    return rounds


def summary(rounds, name):
    """Of some rounds, one arm: throughput, and the medians of the slices' percentiles."""
    pieces = [pieces[name] for pieces in rounds]
    seconds = sum(piece["seconds"] for piece in pieces)
    found = {
        "per_second": sum(piece["operations"] for piece in pieces) / seconds,
        "client_cpu": sum(piece["cpu_seconds"] for piece in pieces) / seconds,
    }
    for kind in SHARES:
        for key in ("p50_us", "p99_us"):
            found[f"{kind}_{key}"] = statistics.median(piece[kind][key] for piece in pieces)
    return found


def command(arguments):
    """The shortest command that does the same run."""
    words = ["tests/bench/celebrity"]
    for key, default in DEFAULTS.items():
        value = getattr(arguments, key)
        if value != default:
            words.append(f"--{key} {value:g}" if key in TYPES else f"--{key} {value}")
    return " ".join(words)


def make_figures(arguments, rounds):
    end = rounds[-max(1, len(rounds) // 10):]
    now = datetime.datetime.now(datetime.UTC)
    return {
        "date": now.isoformat(timespec="seconds"),
        "kernel": platform.release(),
        "cores": os.cpu_count(),
        "load_average": os.getloadavg(),
        "command": command(arguments),
        "settings": {key: getattr(arguments, key) for key in DEFAULTS},
        "whole_run": {name: summary(rounds, name) for name in COLLECTIONS},
        "last_tenth": {name: summary(end, name) for name in COLLECTIONS},
        "rounds": rounds,
    }


def print_summary(figures):
    for part in ("whole_run", "last_tenth"):
        heads = " ".join(f"{kind:>17}" for kind in SHARES)
        print(f"\n{part.replace('_', ' ')}: operations a second, p50 and p99 in ms, client's CPU")
        print(f"  {'':16} {'a second':>9} {heads} {'client':>7}")
        for name, one in figures[part].items():
            times = " ".join(f"{one[f'{kind}_{key}_us'] / 1000:>8.2f}"
                             for kind in SHARES for key in ("p50", "p99"))
            print(f"  {name:16} {one['per_second']:>9.0f} {times} {one['client_cpu']:>7.0%}")
        rates = {name: one["per_second"] for name, one in figures[part].items()}
        print(f"  Spillway: {rates[SPILLWAY] / rates[ALONE]:.2f} times {ALONE}, "
              f"{rates[SPILLWAY] / rates[BY_HAND]:.2f} times {BY_HAND}")


def write(figures, plot):
    FOLDER.mkdir(parents=True, exist_ok=True)
    file = FOLDER / f"celebrity-{figures['date'].replace(':', '').partition('+')[0]}.json"
    file.write_text(json.dumps(figures, indent=1) + "\n")
    plot.parent.mkdir(parents=True, exist_ok=True)
    plot.write_text(draw(figures))
    print(f"\n{file}\n{plot}")


def measure(arguments):
    """Returns the figures, of arms whose documents were equal."""
    arguments.slice = min(arguments.slice, arguments.operations or arguments.slice)
    with Arms(arguments) as arms:
        rounds = run_rounds(arms)
        pushes = rounds[-1][ALONE]["pushes"]
        different = compare(arms, pushes)
        if different:
            sys.exit(f"celebrity: {len(different)} users differ between the arms, for example "
                     f"{different[:5]}")
        print(f"all {arguments.users:,} documents are equal in the three arms")
        if arguments.smoke:
            require_that_differences_are_seen(arms, pushes)
    return make_figures(arguments, rounds)


def require_that_differences_are_seen(arms, pushes):
    """A comparison that finds nothing where something is wrong would be worth nothing."""
    changes = {COLLECTIONS[ALONE]: {"_id": 0}, "ruled_followers": {"userId": 1},
               BATCHES: {"userId": 2}}
    for collection, which in changes.items():
        changed = arms.database[collection].update_one(which, {"$set": {"followers.0.id": -1}})
        if changed.modified_count != 1:
            raise RuntimeError(f"no followers of {which} in {collection}")
    different = compare(arms, pushes)
    if different != [0, 1, 2]:
        raise RuntimeError(f"users 0, 1 and 2 were changed, the comparison finds {different}")


def implausible(figures):
    """What cannot be, in the figures of a smoke run."""
    found, rounds = [], figures["rounds"]
    for name, one in figures["whole_run"].items():
        found += [f"{name}: {kind}" for kind in SHARES
                  if not 0 < one[f"{kind}_p50_us"] <= one[f"{kind}_p99_us"]]
        if min(one["per_second"], one["client_cpu"]) <= 0:
            found.append(f"{name}: throughput, client's CPU")
        operations = sum(pieces[name]["operations"] for pieces in rounds)
        for kind, share in SHARES.items():
            count = sum(pieces[name][kind]["count"] for pieces in rounds)
            if abs(count / operations - share) > 0.05:
                found.append(f"{name}: {count} of {operations} are {kind}")
    return found


def smoke(arguments):
    """Several connections from empty arrays; one connection, whose order counts, from long ones."""
    few = {"users": 200, "threshold": 20, "slice": 400, "operations": 1200}
    file = build_folder() / "celebrity-smoke.svg"
    for more in ({"connections": 4, "prefilled": 0}, {"connections": 1, "prefilled": 3000}):
        figures = measure(argparse.Namespace(**{**vars(arguments), **few, **more}))
        wrong = implausible(figures)
        if wrong:
            sys.exit(f"celebrity: not plausible: {', '.join(wrong)}")
        file.write_text(draw(figures))
        lines = xml.etree.ElementTree.parse(file).findall(".//{http://www.w3.org/2000/svg}polyline")
        if len(lines) != len(COLLECTIONS):
            sys.exit(f"celebrity: {file} has {len(lines)} lines")
    print(file)


def main():
    arguments = read_arguments()
    if arguments.smoke:
        smoke(arguments)
    elif arguments.plot_of:
        arguments.plot.write_text(draw(json.loads(arguments.plot_of.read_text())))
    else:
        figures = measure(arguments)
        print_summary(figures)
        write(figures, arguments.plot)


if __name__ == "__main__":
    main()
