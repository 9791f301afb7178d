"""What clients see of a spilled array, through faults of all kinds, is what they would see of one document."""

import json
import subprocess

import pytest

from linear.driver import check
from linear.harness import Plan, Run
from support import share
from support.go import FOLDER, go

FAULTS = ("kill a Spillway", "cut clients", "kill a Spillway", "step down", "cut servers", "kill a Spillway",
          "kill a member", "cut clients", "pause the primary")
SEEDS = (1, 2, 3)
OPERATIONS = share.part(1000, every=3000)


def test_the_checker_rejects_what_cannot_have_happened():
    go("test", ".")


def test_its_sources_are_formatted():
    root = subprocess.run(["go", "env", "GOROOT"], capture_output=True, text=True, check=True).stdout.strip()
    unformatted = subprocess.run([f"{root}/bin/gofmt", "-l", "."], cwd=FOLDER, capture_output=True, text=True,
                                 check=True)
    assert unformatted.stdout == ""


@pytest.fixture(scope="module")
def run():
    """A history that the checker can't decide in its time proves nothing: another one is drawn."""
    for seed in SEEDS:
        made = Run(Plan(seed=seed, operations=OPERATIONS, faults=FAULTS, pause=share.part(30, every=60)), keep=True)
        made.run()
        if made.report["spillway"]["violations"] or not made.report["spillway"]["undecided"]:
            break
    return made


def test_what_clients_see_is_linearizable(run):
    assert run.report["spillway"]["violations"] == run.report["control"]["violations"] == []
    assert run.report["spillway"]["undecided"] == []
    assert sum(run.struck[kind] for kind in set(FAULTS)) == len(FAULTS)
    assert sum(tally["operations"] for tally in run.report.values()) >= OPERATIONS


def test_a_push_taken_from_the_history_is_missed(run, tmp_path):
    """The proof that this very history could have failed: one value less in the last list of a key."""
    lines = [json.loads(line) for line in run.history.read_text().splitlines()]
    answered = [line for line in lines if line["arm"] == "spillway" and line["result"]]
    last = next(line for line in reversed(answered) if len(line["result"].get("list") or []) > 3)
    del last["result"]["list"][1]
    damaged = tmp_path / "history.jsonl"
    damaged.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert check(damaged, tmp_path)["spillway"]["violations"] == [str(tmp_path / f"spillway-{last['key']}.jsonl")]
