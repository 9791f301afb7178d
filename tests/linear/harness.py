"""A run: a replica set of three, two Spillways in front, clients of two arms, faults; then the checker's judgement."""

import contextlib
import dataclasses
import json
import math
import pathlib
import random
import shutil
import time

from linear.driver import Driver, check
from linear.faults import Faults
from support.cluster import Cluster
from support.process import build_folder, wait_for
from support.spillway import Spillway
from support.verify import verify

RULE = {
    "name": "linear", "namespace": "shop.books", "array": "list", "threshold": 3,
    "settle": "10ms", "quiet": "10ms", "gather": 3, "gc_delay": "0s", "existing": "move",
    "overflow": {"collection": "more_books", "layout": "batches", "link": "book", "array": "part",
                 "batch": {"size": 3}},
}
WHOLE = ("push at", "push keep")  # edits that need the order of the whole array
FIELDS = ("operations", "keys", "unknown")


@dataclasses.dataclass
class Plan:
    """What a run does; it ends when all three, operations, faults and seconds, are reached."""

    seed: int
    operations: int = 3000
    faults: tuple = ()  # kinds, in this order
    seconds: float = 0
    concern: str = "majority"
    pause: int = 100  # operations of each arm between two faults
    slots: int = 6
    clients: int = 4
    without: tuple = ()  # operations that are left out
    in_place: bool = False  # no array is ever taken back

    def rule(self):
        return {**RULE, "fold_limit": "1B"} if self.in_place else RULE

    def left_out(self):
        return (*self.without, *WHOLE) if self.in_place else self.without


class Run:
    """`report` is what the checker says of each arm, `struck` the faults, `rate` operations a second of both arms.

    The history is removed where nothing was found, unless it is to be kept."""

    def __init__(self, plan, keep=False, say=print):
        self.plan = plan
        self.keep = keep
        self.say = say
        self.random = random.Random(plan.seed)
        self.folder = build_folder() / "linear" / f"{plan.concern}-{plan.seed}"
        self.history = self.folder / "history.jsonl"
        self.report = None
        self.struck = None
        self.rate = 0.0

    def run(self):
        self.say(f"linear: seed {self.plan.seed}, write concern {self.plan.concern}")
        self.folder.mkdir(parents=True, exist_ok=True)
        with contextlib.ExitStack() as stack:
            cluster = stack.enter_context(Cluster(members=3))
            spillways = [stack.enter_context(Spillway(cluster.members, [self.plan.rule()], name=f"spillway{i}"))
                         for i in range(2)]
            self._drive(cluster, spillways)
            if self.plan.concern == "majority":
                require_sound(cluster)
        self.report = check(self.history, self.folder)
        self._say_report()
        if not self.keep and not any(tally["violations"] + tally["undecided"] for tally in self.report.values()):
            shutil.rmtree(self.folder)

    def _drive(self, cluster, spillways):
        uris = [uri(spillway.ports) for spillway in spillways]
        control = uri(member.port for member in cluster.members)
        options = {"seed": self.plan.seed, "concern": self.plan.concern, "slots": self.plan.slots,
                   "clients": self.plan.clients, "without": "|".join(self.plan.left_out())}
        with Driver(self.history, uris, control, **options) as driver:
            faults = Faults(cluster, spillways, driver, self.random)
            began = time.monotonic()
            for kind in self.plan.faults:
                driver.advance(self.plan.pause)
                faults.strike(kind)
            while sum(driver.counts) < self.plan.operations or time.monotonic() - began < self.plan.seconds:
                driver.advance(100)
            self.rate = sum(driver.counts) / (time.monotonic() - began)
            driver.stop()
            self.struck = faults.struck

    def found(self):
        """Whether the run must fail.

        With w:1 what was acknowledged may be rolled back: through Spillway as often as at mongod itself, give or
        take three standard deviations of the difference between two such counts."""
        ours, control = (len(self.report[arm]["violations"]) for arm in ("spillway", "control"))
        allowed = 0 if self.plan.concern == "majority" else control + 3 * math.sqrt(ours + control)
        return ours > allowed or bool(self.report["spillway"]["undecided"])

    def _say_report(self):
        self.say(f"linear: {self.rate:.0f} operations a second; " + (
            ", ".join(f"{kind}: {count}" for kind, count in self.struck.items()) or "no faults"))
        for arm, tally in self.report.items():
            counts = ", ".join(f"{tally[field]} {field}" for field in FIELDS)
            self.say(f"linear: {arm}: {counts}, {len(tally['violations'])} violations, "
                     f"{len(tally['undecided'])} undecided")
            for path in tally["violations"] + tally["undecided"]:
                self.say(f"linear: {path}")
            for path in tally["violations"]:
                self.say("\n".join(last_lines(path)))


def last_lines(path, count=40):
    """What a finding ends with, in the order of the calls: milliseconds, client, what was asked and what was
    answered."""
    operations = [json.loads(line) for line in pathlib.Path(path).read_text().splitlines()]
    operations.sort(key=lambda operation: operation["call"])
    return [line_of(operation) for operation in operations[-count:]]


def line_of(operation):
    asked, answered = operation["input"], operation["result"]
    words = [asked["does"], asked.get("values", ""), f"at {asked['at']}" if "at" in asked else ""]
    times = f"{operation['call'] / 1e6:9.1f} {operation['return'] / 1e6:9.1f}"
    return f"{times} {operation['client']:3} {' '.join(str(word) for word in words if word)} -> {answered}"


def uri(ports):
    return f"mongodb://{','.join(f'127.0.0.1:{port}' for port in ports)}/?replicaSet=rs0"


def require_sound(cluster):
    """When the traffic has ended the tails come to rest and nothing is broken or left over."""
    wait_for(lambda: first_is_primary(cluster), "the first member to take over", 60, 0.05)
    with cluster.client() as client:
        wait_for(lambda: not verify(client, RULE), "the tails to move", 60, 0.1)


def first_is_primary(cluster):
    with cluster.client() as client:
        return client.admin.command("hello")["isWritablePrimary"]
