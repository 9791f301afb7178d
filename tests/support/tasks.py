"""The threads of a process, as Linux tells of them."""

import pathlib


def tasks(pid):
    return list(pathlib.Path(f"/proc/{pid}/task").iterdir())


def named(pid, name):
    return [task for task in tasks(pid) if (task / "comm").read_text() == f"{name}\n"]


def seconds(task):
    """Of CPU that the thread has taken: other programs on the machine don't change them."""
    return int((task / "schedstat").read_text().split()[0]) / 1e9


def rests(task):
    """How often it has waited for something."""
    return int((task / "status").read_text().split("voluntary_ctxt_switches:")[1].split()[0])
