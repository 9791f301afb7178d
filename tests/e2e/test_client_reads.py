"""What clients and tools read, directly on plain arrays and through Spillway on ruled ones: Mongoose, Compass,
mongosh."""

import json
import os
import pathlib
import select
import subprocess
import time

import pytest

from support.twins import PLAIN, twins

_PROGRAM = pathlib.Path(__file__).parent / "clients" / "reads.js"
_PATIENCE = 120
# What somebody types into the shell. It prints a batch of documents, then waits for `it`.
TYPED = """\
db.books.find().sort({_id: 1}).toArray()
db.books.find({}, {list: {$slice: -2}}).sort({_id: 1})
config.set('displayBatchSize', 3)
db.books.find().sort({_id: 1})
it
it
it
db.books.find({list: {$gte: 4}}).sort({_id: 1}).limit(4)
it
db.books.findOne({_id: 4})
db.books.find().count()
db.books.countDocuments({list: 7})
db.books.estimatedDocumentCount()
db.books.distinct('list')
db.books.aggregate([{$unwind: '$list'}, {$group: {_id: '$_id', n: {$sum: 1}}}, {$sort: {_id: 1}}])
db.books.find().sort({_id: 1}).map((book) => book.list.length)
db.books.find().sort({_id: 1}).skip(5).hasNext()
db.books.find({_id: 2}).pretty()
db.books.find().sort({_id: 1}).forEach((book) => print(book._id, book.list))
db.books.find({list: 8}).sort({_id: 1}).size()
db.books.find().sort({_id: 1}).batchSize(2).itcount()
"""


@pytest.fixture(scope="module")
def arms():
    with twins(("rest0", "rest2")) as made:
        made.fill([{"_id": number, "title": f"t{number}", "list": list(range(number, 2 * number + 3)),
                    "kept": {"list": [{"x": part % 3, "y": part} for part in range(number)]}}
                   for number in range(8)])
        made.settle()
        yield made


def run(command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=_PATIENCE)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout


def test_mongoose_and_compass(arms):
    found = {}
    for arm in arms.arms:
        lines = run([os.environ.get("NODE", "node"), _PROGRAM, arm.uri, arm.name]).splitlines()
        found[arm.name] = {form["name"]: form["found"] for form in map(json.loads, lines)}
    assert len(found[PLAIN]) > 25 and all(value not in ([], None) for value in found[PLAIN].values())
    for name in found[PLAIN]:
        arms.same(name, {arm: forms.get(name) for arm, forms in found.items()})


def until_prompt(shell, prompt):
    """What the shell prints until it waits for the next line."""
    said = b""
    deadline = time.monotonic() + _PATIENCE
    while not said.endswith(prompt):
        ready, _, _ = select.select([shell.stdout], [], [], max(0, deadline - time.monotonic()))
        assert ready, f"no prompt after {_PATIENCE} s: {said[-2000:]}"
        piece = os.read(shell.stdout.fileno(), 65536)
        assert piece, f"the shell ended: {said[-2000:]}"
        said += piece
    return said.decode()


def type_into(command, text, prompt, home):
    """Types text line by line, each line behind a prompt: mongosh runs what it reads ahead too early.

    The shell keeps its settings in the home: `config.set` of one shell is the default of the next one there.
    """
    # Warnings name the shell's process, so standard error is not compared.
    shell = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                             bufsize=0, env={**os.environ, "HOME": str(home)})
    try:
        said = until_prompt(shell, prompt)
        for line in text.splitlines(keepends=True):
            shell.stdin.write(line.encode())
            said += until_prompt(shell, prompt)
        shell.stdin.close()
        assert shell.wait(_PATIENCE) == 0
        return said
    finally:
        shell.kill()
        shell.wait()
        shell.stdout.close()


def test_the_shell_as_it_is_typed_into(arms, tmp_path):
    shell = [os.environ.get("MONGOSH", "mongosh"), "--quiet", "--norc"]
    answers = {}
    for arm in (arm for arm in arms.arms if arm.name in (PLAIN, "rest2")):
        uri = arm.uri.replace("/?", f"/{arm.name}?")
        home = tmp_path / arm.name
        home.mkdir()
        said = type_into([*shell, uri], TYPED, f"{arm.name}> ".encode(), home)
        answers[arm.name] = said.replace(arm.name, PLAIN)
    assert answers[PLAIN].count('Type "it" for more') > 3 and "Error" not in answers[PLAIN], answers[PLAIN]
    arms.same("the shell", answers)
