"""Plants each bug of planted.py into a copy of the source, builds it, and runs the oracle, or its test, on it."""

import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import time

from oracle.campaigns import TOO_LITTLE
from oracle.planted import BUGS
from support.process import build_folder

ROOT = pathlib.Path(__file__).parents[2]
SOURCES = ("protocol", "rules", "proxy", "cmake", "CMakeLists.txt", "tests/CMakeLists.txt")


class Copy:
    """A copy of the source tree and its build; only what a bug changes is built again."""

    def __init__(self, folder):
        self.source = folder / "source"
        self.build = folder / "build"
        shutil.rmtree(self.source, ignore_errors=True)
        for name in SOURCES:
            target = self.source / name
            target.parent.mkdir(parents=True, exist_ok=True)
            # With times of their own, as the build may hold what was made of another version.
            if (ROOT / name).is_dir():
                shutil.copytree(ROOT / name, target, copy_function=shutil.copy)
            else:
                shutil.copy(ROOT / name, target)
        # A planted bug may leave something unused: no reason not to build it.
        flags = self.source / "cmake" / "flags.cmake"
        flags.write_text(flags.read_text().replace("-Werror ", ""))
        self._run("cmake", "-S", self.source, "-B", self.build, "-G", "Ninja",
                  "-DCMAKE_BUILD_TYPE=Release")

    @staticmethod
    def _run(*command):
        done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True)
        if done.returncode != 0:
            raise SystemExit(f"{' '.join(map(str, command))} failed:\n{done.stdout[-4000:]}")

    def make(self):
        self._run("ninja", "-C", self.build, "spillway")
        return self.build / "spillway"

    def plant(self, bug):
        """Builds Spillway with the bug in it; returns what takes it out again."""
        sources = {path: path.read_text() for path in (self.source / bug.folder).rglob("*.[ch]")}
        places = [path for path, text in sources.items() for _ in range(text.count(bug.old))]
        if len(places) != 1:
            raise SystemExit(f"{bug.name}: its text stands {len(places)} times in {bug.folder}/")
        path, healthy = places[0], sources[places[0]]
        path.write_text(healthy.replace(bug.old, bug.new))
        return lambda: path.write_text(healthy)


def caught_by_test(program, file):
    """The first test of the file that fails; None where none does."""
    environment = {**os.environ, "SPILLWAY": str(program)}
    command = [sys.executable, "-m", "pytest", "-q", "-x", str(ROOT / "tests" / file)]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    failed = [line for line in done.stdout.splitlines() if line.startswith("FAILED")]
    if done.returncode not in (0, 1) or (done.returncode == 1 and not failed):
        raise SystemExit(f"{file} did not run:\n{done.stdout[-4000:]}")
    return failed[0][:150] if failed else None


def caught(program, seconds, bug):
    """What the oracle says of a program; None where it finds nothing within the time."""
    environment = {**os.environ, "SPILLWAY": str(program)}
    command = [sys.executable, "-m", "oracle", "--seconds", str(seconds), "--no-shrink",
               *(["--reads"] if bug.reads else []), *(["--multis"] if bug.multis else [])]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True)
    if done.returncode == 0:
        return None
    if TOO_LITTLE in done.stdout:
        return None
    lines = [line for line in done.stdout.splitlines() if line.startswith("oracle: episode")]
    return (lines or done.stdout.splitlines()[-1:])[0][:150]


def main():
    parser = argparse.ArgumentParser(prog="tests/oracle/planted_bugs", description=__doc__)
    parser.add_argument("--seconds", type=float, default=90, help="given to each bug")
    parser.add_argument("names", nargs="*", help="only these")
    given = parser.parse_args()
    copy = Copy(build_folder() / "planted")
    missed = []
    for bug in BUGS:
        if given.names and bug.name not in given.names:
            continue
        heal = copy.plant(bug)
        try:
            began = time.monotonic()
            program = copy.make()
            what = caught_by_test(program, bug.test) if bug.test else caught(program, given.seconds, bug)
        finally:
            heal()
        print(f"{bug.name}: {what or 'NOT CAUGHT'} ({time.monotonic() - began:.0f} s)", flush=True)
        missed += [] if what else [bug.name]
    if missed:
        print(f"planted_bugs: not caught: {', '.join(missed)}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
