"""The unmodified clients that tests run, each a program that works on a URI for some seconds."""

import os
import pathlib
import subprocess

from support.process import build_folder

_PROGRAMS = pathlib.Path(__file__).parents[1] / "e2e" / "clients"
NAMES = ("pymongo", "node driver", "mongoose", "mongosh", "mongo-c-driver")


def _command(name, uri, seconds):
    if name == "pymongo":
        return [os.environ.get("PYTHON", "python3"), _PROGRAMS / "pymongo_client.py", uri, seconds]
    if name == "node driver":
        return [os.environ.get("NODE", "node"), _PROGRAMS / "driver.js", uri, seconds]
    if name == "mongoose":
        return [os.environ.get("NODE", "node"), _PROGRAMS / "mongoose.js", uri, seconds]
    if name == "mongosh":
        mongosh = os.environ.get("MONGOSH", "mongosh")
        return [mongosh, uri, "--quiet", "--norc", "--file", _PROGRAMS / "shell.js"]
    return [build_folder() / "mongoc_client", uri, seconds]


class Client:
    """One client program at work."""

    def __init__(self, name, uri, seconds=0):
        self.name = name
        self.uri = uri
        environment = {**os.environ, "SECONDS_TO_RUN": str(seconds)}
        self.process = subprocess.Popen(
            [str(word) for word in _command(name, uri, seconds)], stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment)

    def finish(self, timeout=120):
        """Waits for its end; fails unless everything was as it should be."""
        try:
            output, _ = self.process.communicate(timeout=timeout)
        finally:
            self.process.kill()
        if self.process.returncode != 0 or "rounds" not in output:
            raise AssertionError(f"{self.name} at {self.uri}: {output[-4000:]}")
        return output.strip()

    def kill(self):
        self.process.kill()
        self.process.wait()
