"""The unmodified clients that tests run, each a program that works on a URI for some seconds."""

import functools
import os
import pathlib
import subprocess

from support import go
from support.process import build_folder

_PROGRAMS = pathlib.Path(__file__).parents[1] / "e2e" / "clients"
NAMES = ("pymongo", "node driver", "mongoose", "mongosh", "mongo-c-driver")
MORE_NAMES = ("go driver", "java driver")


@functools.cache
def _go_client():
    return go.build("./client", build_folder() / "go_client")


def trust_in_java(authority):
    """Java takes the authorities that it believes from a file of its own, and no option of a URI names the file."""
    store = authority.folder / "believed.p12"
    subprocess.run(["keytool", "-importcert", "-noprompt", "-alias", "authority", "-file", authority.ca,
                    "-keystore", store, "-storepass", "changeit"], check=True, capture_output=True)
    return [f"-Djavax.net.ssl.trustStore={store}", "-Djavax.net.ssl.trustStorePassword=changeit"]


def _command(name, uri, seconds, java):
    if name == "pymongo":
        return [os.environ.get("PYTHON", "python3"), _PROGRAMS / "pymongo_client.py", uri, seconds]
    if name == "node driver":
        return [os.environ.get("NODE", "node"), _PROGRAMS / "driver.js", uri, seconds]
    if name == "mongoose":
        return [os.environ.get("NODE", "node"), _PROGRAMS / "mongoose.js", uri, seconds]
    if name == "mongosh":
        mongosh = os.environ.get("MONGOSH", "mongosh")
        return [mongosh, uri, "--quiet", "--norc", "--file", _PROGRAMS / "shell.js"]
    if name == "go driver":
        return [_go_client(), uri, seconds]
    if name == "java driver":
        return ["java", *java, "-cp", f"{os.environ['JAVA_DRIVER']}/*", _PROGRAMS / "Driver.java", uri, seconds]
    return [build_folder() / "mongoc_client", uri, seconds]


class Client:
    """One client program at work; `java` are Java's own options."""

    def __init__(self, name, uri, seconds=0, java=()):
        self.name = name
        self.uri = uri
        environment = {**os.environ, "SECONDS_TO_RUN": str(seconds)}
        self.process = subprocess.Popen(
            [str(word) for word in _command(name, uri, seconds, java)], stdin=subprocess.DEVNULL,
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
