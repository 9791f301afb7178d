"""What is measured: the stub server, the proxies before it, and the load that goes through them."""

import contextlib
import functools
import json
import os
import pathlib
import signal
import socket
import statistics
import subprocess

from support.process import Process, build_folder, free_port, new_folder, remove_folder, wait_for
from support.spillway import Spillway

CORE = str(max(os.sched_getaffinity(0)))
PINNED = ["taskset", "--cpu-list", CORE]
RULED = "books"
UNRULED = "pages"
DATABASE = "bench"
ARRAY = "a"


def program(name):
    return build_folder() / name


def accepts(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


class Server(Process):
    """A process on the measuring core that listens on `port`; `wrapped` goes before its command."""

    def __init__(self, name, port, command, wrapped=()):
        super().__init__(name, PINNED + list(wrapped) + command, new_folder(name))
        self.port = port

    @property
    def address(self):
        return f"127.0.0.1:{self.port}"

    def __enter__(self):
        self.start()
        wait_for(self._accepts, f"{self.name} to listen", 60, 0.01)
        return self

    def __exit__(self, *_):
        self.kill()
        remove_folder(self.folder)

    def _accepts(self):
        self.require_running()
        return accepts(self.port)


class Stub(Server):
    def __init__(self, found_bytes=270):
        port = free_port()
        super().__init__("stub", port, [program("stub_server"), port, found_bytes])


class Pipe(Server):
    def __init__(self, server, wrapped=()):
        port = free_port()
        super().__init__("pipe", port, [program("pipe"), port, server.port], wrapped)


class HAProxy(Server):
    """TCP mode, one thread, as few settings as it starts with."""

    CONFIGURATION = """
global
    nbthread 1
    maxconn 5100
defaults
    mode tcp
    timeout connect 10s
    timeout client 1h
    timeout server 1h
listen bench
    bind 127.0.0.1:{port}
    server stub 127.0.0.1:{server}
"""

    def __init__(self, server, wrapped=()):
        port = free_port()
        super().__init__("haproxy", port, [], wrapped)
        file = pathlib.Path(self.folder) / "haproxy.cfg"
        file.write_text(self.CONFIGURATION.format(port=port, server=server.port, **self.more(server)))
        self.command += ["/usr/sbin/haproxy", "-db", "-f", str(file)]

    def more(self, _):
        """What else stands in the configuration."""
        return {}


def rule():
    return {"name": "bench", "namespace": f"{DATABASE}.{RULED}", "array": ARRAY,
            "threshold": 200, "existing": "move", "overflow": {"link": "owner", "array": ARRAY}}


class PinnedSpillway(Spillway):
    """Spillway on the measuring core, with a rule on the collection RULED."""

    options = {}  # of the configuration, besides

    def __init__(self, server, wrapped=()):
        super().__init__([server], [rule()], {"workers": 1, **self.options})
        self.command = PINNED + list(wrapped) + self.command
        if "valgrind" in wrapped:
            self.command.append("--no-sandbox")  # it would hold for valgrind itself, which writes files


class Load:
    """A load generator that stays connected; each question to it runs one slice."""

    def __init__(self, port, wrapped=PINNED, name="load", **options):
        command = list(wrapped) + [str(program(name)), f"--port={port}"]
        command += [f"--{key.replace('_', '-')}={value}" for key, value in options.items()]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._hear()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()

    def _hear(self):
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"load ended with {self.process.wait()}")
        return json.loads(line)

    def _ask(self, question):
        self.process.stdin.write(question + "\n")
        self.process.stdin.flush()
        answer = self._hear()
        if answer["errors"] or not answer["operations"]:
            raise RuntimeError(f"'{question}' went wrong: {answer}")
        return answer

    def run(self, seconds):
        return self._ask(f"run {seconds}")

    def count(self, operations):
        return self._ask(f"count {operations}")


def alternate(arms, rounds):
    """What each arm gives when called, in turns; who begins changes from round to round."""
    names = list(arms)
    results = {name: [] for name in names}
    for turn in range(rounds):
        first = turn % len(names)
        for name in names[first:] + names[:first]:
            results[name].append(arms[name]())
    return results


def interleave(loads, rounds, seconds):
    """Slices of each load, in turns, after a short one of each."""
    for load in loads.values():
        load.run(seconds / 4)
    return alternate({name: functools.partial(load.run, seconds) for name, load in loads.items()}, rounds)


class Slices:
    """The slices of some arms; rounds in which the machine was busy elsewhere are left out."""

    def __init__(self, slices, reference="direct"):
        usual = statistics.median(piece["p50_us"] for piece in slices[reference])
        self.slices = slices
        self.kept = [turn for turn, piece in enumerate(slices[reference])
                     if piece["p50_us"] <= 1.3 * usual]

    def median(self, arm, key):
        return statistics.median(self.slices[arm][turn][key] for turn in self.kept)

    def ratio(self, arm, base, key):
        """Median of the rounds' ratios."""
        return statistics.median(
            self.slices[arm][turn][key] / self.slices[base][turn][key] for turn in self.kept)

    def detail(self, *keys):
        return {
            "rounds": len(self.kept),
            **{f"{arm} {key}": round(self.median(arm, key), 2)
               for arm in self.slices for key in keys},
        }


@contextlib.contextmanager
def started(*things):
    """Enters all of them, in order, and gives the last."""
    with contextlib.ExitStack() as stack:
        for thing in things:
            last = stack.enter_context(thing)
        yield last


def child_of(pid):
    return int(pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])


def end_gently(process, pid=None):
    """SIGTERM, so that what watches the process can write its report; waits for the end."""
    os.kill(pid or process.pid, signal.SIGTERM)
    process.process.wait(120)


def memory(pid, field, file="smaps_rollup"):
    """Kilobytes, of a field of /proc/PID/FILE."""
    for line in pathlib.Path(f"/proc/{pid}/{file}").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1])
    raise KeyError(field)
