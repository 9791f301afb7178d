"""The soak from the command line: prints what happened each minute and what failed, and fails where Spillway is worse
than mongod alone."""

import argparse
import collections
import json
import os
import pathlib
import queue
import random
import subprocess
import sys
import threading
import time

from soak.world import World, resources
from support import go
from support.process import build_folder

CLIENTS = pathlib.Path(__file__).parent
LANGUAGES = ("pymongo", "node", "go")
ARMS = ("through", "direct")
FAULTS = ("certificate", "upgrade", "kill", "failover")  # in turn, one a minute beside a reload
WINDOW = 25  # seconds for which a failure is counted to what happened last
GROWTH_MOST = 1.15  # of memory between the second and the last quarter of the run, and 4 MiB
# A driver repeats once. Its second connection may be as dead as the first (tests/e2e/test_balanced.py).
ALLOWED_AT_KILL = ("MongoNetworkError", "socket was unexpectedly closed", "connection", "EOF", "AutoReconnect")


def go_program():
    return go.build("./soak", build_folder() / "soak_client")


class Client:
    """One client program; its lines go into `told`, with its arm and language."""

    def __init__(self, command, arm, language, told):
        self.arm, self.language, self.told = arm, language, told
        self.process = subprocess.Popen([str(word) for word in command], text=True, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE)
        self.reader = threading.Thread(target=self._read)
        self.reader.start()

    def _read(self):
        for line in self.process.stdout:
            self.told.put((self.arm, self.language, json.loads(line)))

    def end(self):
        self.process.stdin.close()
        if self.process.wait(180) != 0:
            raise RuntimeError(f"the {self.language} client of the arm {self.arm} ended with {self.process.returncode}")
        self.reader.join()


class Ledger:
    """What clients told, by what had happened last."""

    def __init__(self):
        self.told = queue.Queue()
        self.happened = [(0.0, "nothing")]
        self.failures = collections.Counter()
        self.texts = collections.defaultdict(set)
        self.wrong, self.over = [], 0
        self.done, self.longest = collections.Counter(), collections.Counter()

    def happens(self, what):
        self.happened.append((time.time(), what))

    def _last(self, at):
        """What a failure at this time is counted to."""
        began, what = next((each for each in reversed(self.happened) if each[0] <= at), self.happened[0])
        return what if at - began < WINDOW else "nothing"

    def read(self, seconds):
        """What comes in for so long."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            try:
                self.take(*self.told.get(timeout=left))
            except queue.Empty:
                return

    def take(self, arm, language, line):
        if "failed" in line:
            what = self._last(line["at"])
            self.failures[what, arm, language] += 1
            self.texts[what, arm, language].add(f"{line['failed']}: {line['error']}"[:200])
        elif "wrong" in line:
            self.wrong.append((arm, language, line))
        elif "over" in line:
            self.over += line["over"]
        else:
            self.done[arm] += line["done"]
            self.longest[arm, self._last(line["at"])] = max(self.longest[arm, self._last(line["at"])], line["longest"])


class Soak:
    def __init__(self, world, clients, pace, seed):
        self.world, self.ledger = world, Ledger()
        program = {"pymongo": [os.environ["PYTHON"], CLIENTS / "client.py"],
                   "node": [os.environ["NODE"], CLIENTS / "client.js"], "go": [go_program()]}
        each = -(-clients // len(LANGUAGES))
        self.clients = [
            Client([*program[language], world.uri(arm), "soak" if arm == "through" else "direct", f"{language}-", each,
                    pace, seed], arm, language, self.ledger.told)
            for language in LANGUAGES for arm in ARMS]
        self.count = each * len(LANGUAGES) * len(ARMS)
        self.samples = []

    def minute(self, number):
        """A reload, and half a minute later something worse."""
        self.happen("reload", self.world.reload, number)
        self.ledger.read(30)
        what = FAULTS[number % len(FAULTS)]
        self.happen(what, getattr(self.world, what), number)
        self.ledger.read(10)
        self.world.restart()
        self.ledger.read(20)
        self.samples.append({spillway.name: resources(spillway) for spillway in self.world.spillways})
        print(json.dumps({"minute": number + 1, "what": what, "operations": dict(self.ledger.done),
                          "failures": sum(self.ledger.failures.values()), "wrong": len(self.ledger.wrong),
                          **self.samples[-1]}), flush=True)

    def happen(self, what, action, number):
        self.ledger.happens(what)
        action(number)

    def kill(self):
        for client in self.clients:
            client.process.kill()

    def end(self):
        for client in self.clients:
            client.end()
        while not self.ledger.told.empty():
            self.ledger.take(*self.ledger.told.get())


def growth(samples):
    """Why the memory or the descriptors of the Spillway that lived all the time are not flat; None if they are."""
    quarter = len(samples) // 4
    if quarter == 0:
        return None
    early, late = samples[quarter:2 * quarter], samples[-quarter:]
    for what, beyond in (("memory", 4), ("files", 20)):
        before, after = (sum(each["lasting"][what] for each in part) / quarter for part in (early, late))
        if after > before * GROWTH_MOST + beyond:
            return f"{what} grew from {before:.1f} to {after:.1f}"
    return None


def complaints(soak):
    """Each way in which the Spillways were worse than mongod alone."""
    ledger = soak.ledger
    found = [f"wrong: {each}" for each in ledger.wrong]
    if ledger.over != soak.count:
        found.append(f"{ledger.over} of {soak.count} clients came to their end")
    for what in {key[0] for key in ledger.failures}:
        through, direct = (sum(count for key, count in ledger.failures.items() if key[:2] == (what, arm))
                           for arm in ARMS)
        texts = {text for key, some in ledger.texts.items() if key[:2] == (what, "through") for text in some}
        if what == "kill":
            found += [f"{what}: {text}" for text in texts if not any(word in text for word in ALLOWED_AT_KILL)]
        elif through > direct:
            found.append(f"{what}: {through} failures through Spillway, {direct} directly: {sorted(texts)}")
    grown = growth(soak.samples)
    return found + ([grown] if grown else [])


def main():
    parser = argparse.ArgumentParser(prog="tests/soak/run", description=__doc__)
    parser.add_argument("--minutes", type=int, default=60)
    parser.add_argument("--clients", type=int, default=100, help="of each arm")
    parser.add_argument("--pace", type=float, default=2, help="operations a second of each client")
    parser.add_argument("--seed", type=int, default=random.randrange(10_000))
    arguments = parser.parse_args()
    print(f"soak: seed {arguments.seed}", flush=True)
    with World() as world:
        soak = Soak(world, arguments.clients, arguments.pace, arguments.seed)
        try:
            soak.ledger.read(10)
            for number in range(arguments.minutes):
                soak.minute(number)
            soak.end()
        except BaseException:
            soak.kill()
            raise
    ledger = soak.ledger
    print(json.dumps({"failures": {" ".join(key): count for key, count in sorted(ledger.failures.items())},
                      "texts": {" ".join(key): sorted(some)[:5] for key, some in sorted(ledger.texts.items())},
                      "longest, ms": {" ".join(key): took for key, took in sorted(ledger.longest.items())},
                      "operations": dict(ledger.done)}, indent=1))
    for each in (worse := complaints(soak)):
        print(f"soak: {each}")
    sys.exit(1 if worse else 0)


if __name__ == "__main__":
    main()
