"""What starting a server for a test takes: a folder, a free port, waiting with a deadline, an end."""

import ctypes
import os
import pathlib
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time


def build_folder():
    """The folder of the build under test; what tests write goes below it."""
    folder = pathlib.Path(os.environ.get("SPILLWAY_BUILD", tempfile.gettempdir()))
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def new_folder(name):
    return pathlib.Path(tempfile.mkdtemp(prefix=f"{name}-", dir=build_folder()))


_reserved = []


def free_port():
    """A port that no other test is given as long as this one runs.

    A socket in Linux's abstract namespace holds its number: tests run side by side, and a server
    opens its port a while after it was chosen. Below 32768 no client's connection takes one.
    """
    while True:
        port = random.randrange(16384, 32768)
        guard = socket.socket(socket.AF_UNIX)
        try:
            guard.bind(f"\0spillway-test-port-{port}")
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", port))
        except OSError:
            guard.close()
            continue
        _reserved.append(guard)
        return port


def wait_for(condition, what, seconds=60, pause=0.005):
    """Polls until condition() is true and returns what it returned; fails after the deadline.

    It pauses a tenth of the time that it has waited, as a poll costs the servers processor time, too; never less
    than `pause`, nor more than 0.2 s.
    """
    began = time.monotonic()
    deadline = began + seconds
    while True:
        result = condition()
        if result:
            return result
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {seconds} s for {what}")
        time.sleep(max(pause, min((time.monotonic() - began) / 10, 0.2)))


class Process:
    """A server process with its output in a file; ended by its own pid."""

    def __init__(self, name, command, folder, environment=None):
        self.name = name
        self.command = [str(word) for word in command]
        self.folder = folder
        self.environment = environment
        self.output = folder / f"{name}.out"
        self.process = None

    @property
    def pid(self):
        return self.process.pid

    def start(self):
        with open(self.output, "ab") as output:
            self.process = subprocess.Popen(
                self.command, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                env=self.environment,
            )

    def running(self):
        return self.process is not None and self.process.poll() is None

    def said(self):
        return self.output.read_text(errors="replace")

    def require_running(self):
        if not self.running():
            raise RuntimeError(f"{self.name} ended with {self.process.poll()}: {self.said()[-4000:]}")

    def kill(self):
        if self.running():
            self.process.kill()
        self.process.wait()

    def stop(self, seconds=60):
        """SIGTERM, and its exit code; SIGKILL where that is not enough."""
        if self.running():
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise


class Adopted:
    """A process that a child of this one has started and left; of subprocess.Popen what tests use."""

    def __init__(self, pid):
        self.pid = pid
        self.returncode = None

    def poll(self):
        if self.returncode is None:
            try:
                pid, status = os.waitpid(self.pid, os.WNOHANG)
            except ChildProcessError:
                return None  # who has started it has not left it yet
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def wait(self, timeout=None):
        try:
            wait_for(lambda: self.poll() is not None, f"process {self.pid} to end", timeout or 60)
        except TimeoutError:
            raise subprocess.TimeoutExpired(str(self.pid), timeout) from None
        return self.returncode

    def send_signal(self, number):
        os.kill(self.pid, number)

    def terminate(self):
        self.send_signal(signal.SIGTERM)

    def kill(self):
        self.send_signal(signal.SIGKILL)


PR_SET_CHILD_SUBREAPER = 36


def adopt_orphans():
    """What children of this process leave behind become its children: then their exit codes can be seen."""
    if ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError("prctl(PR_SET_CHILD_SUBREAPER) failed")


def remove_folder(folder):
    shutil.rmtree(folder, ignore_errors=True)
