"""The operator's commands in tests: runs them, and writes documents in a rule's layout by hand."""

import contextlib
import json
import os
import pty
import subprocess

from bson.binary import Binary

from support.process import new_folder, remove_folder
from support.spillway import program, yaml

RULE = {"name": "books", "namespace": "shop.books", "array": "list", "threshold": 3, "gc_delay": "0s",
        "flag": {"field": "outlier", "value": True},
        "overflow": {"collection": "tails", "link": "book", "array": "part", "batch": {"size": 4}}}


def on_a_terminal(command, stdout=subprocess.DEVNULL, started=lambda running: None):
    """Exit code, and what the terminal was told on standard error."""
    ours, theirs = pty.openpty()
    running = subprocess.Popen(command, stdout=stdout, stderr=theirs)
    os.close(theirs)
    started(running)
    said = b""
    with contextlib.suppress(OSError), open(ours, "rb", buffering=0) as terminal:  # it ends with an error
        while more := terminal.read(4096):
            said += more
    return running.wait(60), said.decode()


class Operator:
    """A configuration file for a cluster, and the commands on it."""

    def __init__(self, cluster, rules=(RULE,), **more):
        self.rules = list(rules)
        self.folder = new_folder("operator")
        self.file = self.folder / "spillway.yaml"
        listen = [{"address": f"127.0.0.1:{1024 + i}", "server": member.address}
                  for i, member in enumerate(cluster.members)]
        self.file.touch(mode=0o600)
        self.file.write_text(yaml({"listen": listen, "rules": self.rules, **more}))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        remove_folder(self.folder)

    def command(self, name, *options, rule=None):
        return [program(), name, "--config", self.file, "--rule", rule or self.rules[0]["name"], *options]

    def start(self, name, *options, rule=None):
        return self.start_command(self.command(name, *options, rule=rule))

    def start_command(self, command):
        return subprocess.Popen(command, cwd=self.folder, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def run(self, name, *options, rule=None, code=None, timeout=120):
        """What it printed as JSON; `code` is how it must end."""
        ended = subprocess.run(self.command(name, "--json", *options, rule=rule), cwd=self.folder,
                               capture_output=True, text=True, check=False, timeout=timeout)
        assert "Sanitizer" not in ended.stderr, ended.stderr
        if code is not None:
            assert ended.returncode == code, f"{ended.returncode}: {ended.stdout}{ended.stderr}"
        return json.loads(ended.stdout)


def found(report):
    """{(code, class): count} of a report, its notes among them."""
    counts = {}
    for finding in report["findings"] + report["notes"]:
        key = finding["code"], finding["class"]
        counts[key] = counts.get(key, 0) + finding["count"]
    return counts


def generation(number=1):
    return Binary(bytes([number]) * 16)


def spill(database, identifier, elements, main=None, state=None):
    """A document of RULE as it is at rest, written straight into mongod; returns what was written."""
    head, tail = elements[:3], elements[3:]
    of_list = {"g": generation(), "h": 3, "n": len(tail), "a": ["outlier"], **(state or {})}
    document = {"_id": identifier, "list": head, **(main or {}), "_spill": {"list": of_list}, "outlier": True}
    database.books.insert_one(document)
    for i in range(0, len(tail), 4):
        database.tails.insert_one({"book": identifier, "part": tail[i:i + 4],
                                   "_spill": {"g": of_list["g"], "p": i, "i": i // 4 + 1}})
    return document
