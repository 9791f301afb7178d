"""The first command of README: its show passes, and it notices when what it shows is wrong."""

import os
import pathlib
import subprocess

from support.cluster import Cluster

DEPLOY = pathlib.Path(__file__).parents[2] / "deploy"


def run(command, **environment):
    return subprocess.run(
        command, env={**os.environ, **environment}, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )


def test_the_show_passes():
    result = run([DEPLOY / "quickstart", "--once"])
    assert result.returncode == 0, result.stdout
    assert "ok: the book has all its customers, in order" in result.stdout
    assert "ok: extra_sales holds the other 70, in order" in result.stdout


def test_a_tail_that_never_moves_is_noticed():
    with Cluster() as cluster:
        uri = f"mongodb://{cluster.primary.address}/?directConnection=true"
        result = run(
            [os.environ["MONGOSH"], "--quiet", "--norc", "--nodb", "--file", DEPLOY / "quickstart.js"],
            SPILLWAY_URI=uri, MONGOD_URI=uri, PATIENCE_S="1",
        )
    assert result.returncode != 0, result.stdout
    assert "not within 1 s: the book's tail moves" in result.stdout
