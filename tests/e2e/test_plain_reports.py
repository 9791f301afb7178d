"""What operators are shown of names and values that others have chosen: text, nothing that a terminal would obey."""

import subprocess

import pytest

from support.operate import Operator, generation
from support.spillway import program

NAME = "b\x1b[2Jooks\n\x9b1m"
SHOWN = "b\\u001b[2Jooks\\u000a\\u009b1m"
RULE = {"name": "odd", "namespace": "shop.b*", "array": "list", "threshold": 3,
        "overflow": {"collection": "tails_{collection}", "link": "book", "array": "part", "batch": {"size": 4}}}


@pytest.fixture
def odd(cluster, shop):
    """One document whose overflow is missing, and one that is too long, in a collection of an odd name."""
    shop[NAME].insert_many([{"_id": NAME, "list": [1, 2, 3], "_spill": {"list": {"g": generation(), "h": 3, "n": 2}}},
                            {"_id": 2, "list": [1, 2, 3, 4, 5], NAME: list(range(9))}])
    shop[NAME].create_index("list", name=f"by {NAME}", unique=True, partialFilterExpression={"_id": 7})
    with Operator(cluster, rules=[RULE]) as operator:
        yield operator


def shown(operator, command):
    ended = subprocess.run(command, cwd=operator.folder, capture_output=True, check=False, timeout=120)
    said = ended.stdout.decode(), ended.stderr.decode()
    for text in said:
        assert all(letter == "\n" or letter.isprintable() for letter in text), text
    return "".join(said)


@pytest.mark.parametrize("name", ["verify", "migrate", "undo"])
def test_jobs(odd, name):
    assert f"'shop.{SHOWN}'" in shown(odd, odd.command(name))


def test_check(odd):
    assert f"by {SHOWN}" in shown(odd, [program(), "check", "--config", odd.file])


def test_analyze(odd, cluster):
    text = shown(odd, [program(), "analyze", f"mongodb://{cluster.primary.address}/", f"shop.{NAME}"])
    assert f"shop.{SHOWN}: 2 documents" in text and f"array '{SHOWN}'" in text
