"""Two builds side by side from the command line: builds an older commit, rolls up and down, and lets the oracle run
with one Spillway of each build."""

import argparse
import json
import os
import pathlib
import random
import subprocess
import sys
import time

from support.process import build_folder
from upgrade.measure import measure
from upgrade.rolling import roll

SOURCE = pathlib.Path(__file__).resolve().parents[2]
OLDER = "4ee6820"  # the day before outliers could wait, and before listeners came and went


def built(commit):
    """The program of that commit, below the build's folder; built once."""
    folder = build_folder().parent / f"older-{commit}"
    built_program = folder / "build" / "release" / "spillway"
    if not built_program.exists():
        folder.mkdir(parents=True, exist_ok=True)
        archive = subprocess.run(["git", "-C", SOURCE, "archive", commit], check=True, capture_output=True).stdout
        subprocess.run(["tar", "-x", "-C", folder], input=archive, check=True)
        subprocess.run(["cmake", "--preset", "release"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
        subprocess.run(["cmake", "--build", "--preset", "release", "--target", "spillway"], cwd=folder, check=True,
                       stdout=subprocess.DEVNULL)
    return built_program


def main():
    parser = argparse.ArgumentParser(prog="tests/upgrade/run", description=__doc__)
    parser.add_argument("--older", default=OLDER, metavar="COMMIT")
    parser.add_argument("--seconds", type=float, default=30, help="of each of the five steps")
    parser.add_argument("--seed", type=int, default=random.randrange(10_000))
    parser.add_argument("--ops", type=int, default=10_000, help="of the oracle; 0: it does not run")
    parser.add_argument("--measure", action="store_true", help="instead: what clients feel of reloads and upgrades")
    arguments = parser.parse_args()
    if arguments.measure:
        for row in measure():
            print(json.dumps(row), flush=True)
        return 0
    older = built(arguments.older)
    print(f"upgrade: seed {arguments.seed}, beside {arguments.older}", flush=True)
    for step in roll(older, lambda _clients: time.sleep(arguments.seconds), arguments.seed):
        print(json.dumps(step), flush=True)
    if arguments.ops:
        oracle = [sys.executable, "-m", "oracle", "--ops", str(arguments.ops), "--seed", str(arguments.seed)]
        return subprocess.run(oracle, env={**os.environ, "SPILLWAY_SECOND": str(older)}).returncode
    return 0


if __name__ == "__main__":
    sys.exit(main())
