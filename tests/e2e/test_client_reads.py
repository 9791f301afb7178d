"""What clients and tools read, directly on plain arrays and through Spillway on ruled ones: Mongoose, Compass, mongosh."""

import json
import os
import pathlib
import subprocess

import pytest

from support.twins import PLAIN, twins

_PROGRAM = pathlib.Path(__file__).parent / "clients" / "reads.js"
# The shell as somebody types: it prints 20 documents, then waits for `it`.
TYPED = """
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


def run(command, text=None):
    done = subprocess.run([str(word) for word in command], input=text, capture_output=True, text=True, timeout=120)
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


def test_the_shell_as_it_is_typed_into(arms):
    shell = [os.environ.get("MONGOSH", "mongosh"), "--quiet", "--norc"]
    answers = {}
    for arm in (arm for arm in arms.arms if arm.name in (PLAIN, "rest2")):
        uri = arm.uri.replace("/?", f"/{arm.name}?")
        answers[arm.name] = run([*shell, uri], TYPED).replace(arm.name, PLAIN)
    assert answers[PLAIN].count('Type "it" for more') > 3 and "Error" not in answers[PLAIN], answers[PLAIN]
    arms.same("the shell", answers)
