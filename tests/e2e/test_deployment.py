"""An upstream account that reaches other servers than those behind the listeners splits nothing there."""

import contextlib
import json
import subprocess

import pytest

from support.cluster import Cluster
from support.operate import RULE
from support.process import free_port, wait_for
from support.spillway import QuotedText, Spillway, program

ANOTHER = "(listen) is not of the deployment that the upstream account reaches"
UNCOVERED = "is a member of the replica set, but no entry of 'listen' stands before it"


@pytest.fixture(scope="module")
def standalones():
    with Cluster(members=0) as one, Cluster(members=0) as other:
        yield one.primary, other.primary


@contextlib.contextmanager
def between(listened, reached):
    """A Spillway, not started: clients' connections go on to `listened`, its own account's to `reached`."""
    spillway = Spillway([listened], [RULE], {"upstream": {"uri": QuotedText(f"mongodb://{reached.address}/")}})
    try:
        spillway.write_file()
        yield spillway
    finally:
        spillway.__exit__()


def run(spillway, name, *options):
    if name not in ("check", "reload"):
        options = ["--rule", RULE["name"], *options]
    if name != "reload":
        options = ["--json", *options]
    return subprocess.run([program(), name, "--config", spillway.file, *options],
                          capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture(name="outlier")
def put_outlier():
    def put(server):
        with server.client() as client:
            client.drop_database("shop")
            client.shop.books.insert_one({"_id": 1, "list": list(range(9))})
        return lambda: look(server)

    def look(server):
        with server.client() as client:
            recorded = "spillway" in client.list_database_names()
            return client.shop.books.find_one(), client.shop.list_collection_names(), recorded

    return put


def refuse(spillway, whole, words):
    before = whole()
    for name, *options in (("migrate",), ("migrate", "--execute"), ("undo", "--execute"),
                           ("verify", "--repair", "--execute")):
        ended = run(spillway, name, *options)
        said = json.loads(ended.stdout)
        assert ended.returncode == 1 and words in ended.stderr, (name, ended)
        assert said["ended"] == "refused" and words in said["error"]
    assert words in spillway.refuses_to_start()
    assert whole() == before == ({"_id": 1, "list": list(range(9))}, ["books"], False)


def test_another_standalone_is_refused(standalones, outlier):
    one, other = standalones
    with between(one, other) as spillway:
        refuse(spillway, outlier(other), ANOTHER)
        ended = run(spillway, "check")
        finding, = [each for each in json.loads(ended.stdout)["findings"] if each["kind"] == "upstream"]
        assert ended.returncode == 1
        assert one.address in finding["what"] and "$SPILLWAY_UPSTREAM_URI" in finding["remedy"]


def test_replica_sets_and_standalones_are_told_apart(cluster, standalones, outlier):
    one, _ = standalones
    with between(cluster.primary, one) as spillway:
        refuse(spillway, outlier(one), ANOTHER)
        kinds = [each["kind"] for each in json.loads(run(spillway, "check").stdout)["findings"]]
        assert "upstream" in kinds and "member" not in kinds


def test_another_replica_set_of_that_name_is_refused(cluster, outlier):
    with Cluster() as other, between(cluster.primary, other.primary) as spillway:
        refuse(spillway, outlier(other.primary), UNCOVERED)


def test_a_server_that_comes_up_later_is_asked_then(standalones, outlier):
    one, other = standalones
    with between(one, other) as spillway:
        whole = outlier(other)
        before = whole()
        one.kill()
        spillway.start(ready=False)
        wait_for(lambda: f"'{one.address}' does not answer" in spillway.admin("/readyz")[1], "the first look")
        one.start()
        wait_for(lambda: ANOTHER in spillway.admin("/readyz")[1], "another look")
        assert spillway.admin("/readyz")[0] == 503 and whole() == before


def test_one_server_by_two_names_is_served(standalones, outlier):
    one, _ = standalones
    with between(one, one) as spillway:
        whole = outlier(one)
        spillway.settings["upstream"]["uri"] = QuotedText(f"mongodb://localhost:{one.port}/")
        spillway.start()
        wait_for(lambda: "tails" in whole()[1], "a move")
        spillway.stop()
        assert run(spillway, "undo", "--execute").returncode == 0
    with between(one, one) as spillway:  # seen from a machine that has no server there
        spillway.settings["listen"][0]["server"] = f"127.0.0.1:{free_port()}"
        spillway.write_file()
        assert run(spillway, "migrate", "--execute").returncode == 0


def test_a_reload_refuses_a_listener_of_another_standalone(standalones):
    one, other = standalones
    with Spillway([one], [RULE], {"upstream": {"uri": QuotedText(f"mongodb://{one.address}/")}}) as spillway:
        spillway.settings["listen"].append({"address": f"127.0.0.1:{free_port()}", "server": other.address})
        spillway.write_file()
        ended = run(spillway, "reload")
        assert ended.returncode == 1 and f"'{other.address}' {ANOTHER}" in ended.stdout + ended.stderr
