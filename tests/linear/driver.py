"""The Go program of this folder: built, run as the clients of a run, asked for its judgement."""

import functools
import json
import signal
import subprocess
import threading

from support import go
from support.process import build_folder, wait_for


@functools.cache
def program():
    return go.build(".", build_folder() / "linear" / "linear")


class Driver:
    """Context manager: the clients, at work until stop(); `counts` are the operations of the arms so far."""

    def __init__(self, history, spillways, control, **options):
        flags = [word for name, value in options.items() for word in (f"--{name.replace('_', '-')}", str(value))]
        self.command = [program(), "drive", "--history", history, "--spillway", "|".join(spillways),
                        "--control", control, *flags]
        self.counts = (0, 0)
        self.process = None
        self.reader = None

    def __enter__(self):
        self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def _read(self):
        for line in self.process.stdout:
            words = line.split()
            if words[0] == "progress":
                self.counts = (int(words[1]), int(words[2]))

    def advance(self, operations, seconds=120):
        """Until each arm has done so many more."""
        goals = [count + operations for count in self.counts]
        wait_for(lambda: self._reached(goals), f"{operations} operations", seconds, 0.01)

    def _reached(self, goals):
        if self.process.poll() is not None:
            raise RuntimeError(f"the clients ended with {self.process.returncode}")
        return all(count >= goal for count, goal in zip(self.counts, goals))

    def cut(self):
        self._say("cut")

    def stop(self, seconds=600):
        """Until each key has been read a last time."""
        self._say("stop")
        if self.process.wait(seconds) != 0:
            raise RuntimeError(f"the clients ended with {self.process.returncode}")

    def _say(self, word):
        self.process.stdin.write(f"{word}\n")
        self.process.stdin.flush()


def check(history, folder):
    """{arm: {keys, operations, unknown, violations, undecided}}; histories of the last two are in the folder."""
    run = subprocess.run([program(), "check", "--history", history, "--findings", folder],
                         stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(run.stdout)
