"""Every form in which Mongoose and MongoEngine save arrays, directly on plain and through Spillway on ruled ones."""

import json
import os
import pathlib
import re
import subprocess

import pytest

from support.process import build_folder
from support.twins import twins

_PROGRAMS = pathlib.Path(__file__).parent / "clients"
COMMANDS = {
    "mongoose": [os.environ.get("NODE", "node"), _PROGRAMS / "mongoose_saves.js"],
    "mongoengine": [os.environ.get("PYTHON", "python3"), _PROGRAMS / "mongoengine_saves.py"],
}
_TIME = re.compile(r"20\d\d-\d\d-\d\d[T ][\d:.]+Z?")


class Program:
    """An ODM at work in one arm: it makes its documents, waits, then prints what each form gave."""

    def __init__(self, name, arm):
        self.errors = open(build_folder() / f"{name}-{arm.name}.err", "w+")
        command = [str(word) for word in [*COMMANDS[name], arm.uri, arm.name]]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, text=True)

    def made(self):
        said = self.process.stdout.readline()
        assert said == "made\n", self._failed(said)

    def go(self):
        self.process.stdin.write("go\n")
        self.process.stdin.flush()

    def forms(self):
        """What each form gave, by its name."""
        output, _ = self.process.communicate(timeout=60)
        assert self.process.returncode == 0, self._failed(output)
        found = [json.loads(_TIME.sub("then", line)) for line in output.splitlines()]
        return {form.pop("name"): form for form in found}

    def _failed(self, said):
        self.errors.seek(0)
        return f"{said}{self.errors.read()}"

    def end(self):
        self.process.kill()
        self.process.wait()
        self.errors.close()
        pathlib.Path(self.errors.name).unlink()


@pytest.fixture(scope="module")
def arms():
    with twins(("soon2", "rest0")) as made:
        yield made


def run_forms(arms, name):
    """The forms' outcomes in each arm."""
    programs = {arm: Program(name, arm) for arm in arms.arms}
    try:
        for program in programs.values():
            program.made()
        arms.settle()
        for program in programs.values():
            program.go()
        return {arm.name: program.forms() for arm, program in programs.items()}
    finally:
        for program in programs.values():
            program.end()


@pytest.mark.parametrize("name", COMMANDS)
def test_every_form_gives_the_same(arms, name):
    arms.clear()
    outcomes = run_forms(arms, name)
    assert len(outcomes["plain"]) > 50
    different = {
        form: {arm: outcomes[arm][form] for arm in outcomes}
        for form, expected in outcomes["plain"].items()
        if any(outcomes[arm].get(form) != expected for arm in outcomes)
    }
    assert not different, "\n".join(f"{form}: {json.dumps(gave)}" for form, gave in different.items())
    arms.same("documents", {arm.name: arm.documents() for arm in arms.arms})
    arms.rest()
    arms.same("documents at rest", {arm.name: arm.documents() for arm in arms.arms})
