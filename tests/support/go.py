"""How tests build Go programs: with the same flags everywhere, so that packages are compiled once for all of them."""

import os
import pathlib
import subprocess

FOLDER = pathlib.Path(__file__).parents[1] / "linear"  # its modules; nothing of them is written in C
# Without inlining, Go compiles its own packages in half the time. The checker works for long, and keeps it.
_FLAGS = "-buildvcs=false -gcflags=all=-l -gcflags=github.com/anishathalye/porcupine="


def go(*words):
    """Runs the go command where the modules are."""
    environment = {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": _FLAGS}
    return subprocess.run(["go", *words], cwd=FOLDER, env=environment, check=True)


def build(package, path):
    """Builds anew where sources have changed; go knows."""
    go("build", "-o", path, package)
    return path
