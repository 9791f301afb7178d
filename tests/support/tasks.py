"""The threads of a process, as Linux tells of them."""

import contextlib
import pathlib


def tasks(pid):
    return list(pathlib.Path(f"/proc/{pid}/task").iterdir())


def named(pid, name):
    """Of these threads those that still run."""
    found = []
    for task in tasks(pid):
        with contextlib.suppress(OSError):
            if (task / "comm").read_text() == f"{name}\n":
                found.append(task)
    return found


def seconds(task):
    """Of CPU that the thread has taken: other programs on the machine don't change them."""
    return int((task / "schedstat").read_text().split()[0]) / 1e9


def rests(task):
    """How often it has waited for something."""
    return int((task / "status").read_text().split("voluntary_ctxt_switches:")[1].split()[0])
