"""`replica_set`: members are found from a seed, and each has a listener as long as it exists."""

import functools
import json
import socket
import subprocess

import pymongo
import pytest
from pymongo.errors import PyMongoError

from support.cluster import Cluster, Mongod
from support.failing import HeldNames
from support.process import free_port, wait_for
from support.replica_set import PORTS, SetSpillway
from support.spillway import program

RULE = {
    "name": "books", "namespace": "shop.books", "array": "list", "threshold": 5, "settle": "10ms",
    "gc_delay": "1s",
    "overflow": {"layout": "batches", "link": "book", "array": "part", "batch": {"size": 10}},
}
WHOLE = list(range(40))
@pytest.fixture(scope="module")
def cluster():
    with Cluster(members=3) as made:
        yield made


@pytest.fixture(scope="module")
def spillway(cluster):
    """Its one seed is a secondary."""
    with SetSpillway(f"mongodb://{cluster.members[2].address}/", [RULE]) as made:
        yield made


def test_a_driver_finds_every_member_at_the_port_of_its_id(cluster, spillway):
    with spillway.client(1) as client, cluster.client() as direct:
        wait_for(lambda: client.nodes == spillway.nodes(0, 1, 2), "all members")
        assert client.primary == ("127.0.0.1", spillway.first)
        books = client.shop.get_collection("books", write_concern=pymongo.WriteConcern(3))
        books.replace_one({"_id": 1}, {"list": WHOLE}, upsert=True)
        wait_for(lambda: len(direct.shop.books.find_one({"_id": 1})["list"]) == 5, "the tail to move")
        assert books.find_one({"_id": 1})["list"] == WHOLE
    assert [spillway.listens(number) for number in range(PORTS)] == [True] * 3 + [False] * 2


def test_the_start_line_and_status_name_the_listeners(cluster, spillway):
    """Of five ports two have no member, and so no server to be named."""
    spillway.says(f"listeners: '127.0.0.1:{spillway.first}-{spillway.first + PORTS - 1}'")
    said = subprocess.run([program(), "status", "--json", "--config", spillway.file], capture_output=True, text=True,
                          timeout=60, check=True)
    assert json.loads(said.stdout)["listeners"] == [
        {"address": f"127.0.0.1:{spillway.first + number}", "server": member.address}
        for number, member in enumerate(cluster.members)]


def add(cluster, member, **options):
    with cluster.client() as direct:
        config = direct.admin.command("replSetGetConfig")["config"]
        config["version"] += 1
        number = options.pop("_id", max(each["_id"] for each in config["members"]) + 1)
        config["members"].append({"_id": number, "host": member.address, **options})
        direct.admin.command("replSetReconfig", config)


def remove(cluster, member):
    with cluster.client() as direct:
        config = direct.admin.command("replSetGetConfig")["config"]
        config["version"] += 1
        config["members"] = [each for each in config["members"] if each["host"] != member.address]
        direct.admin.command("replSetReconfig", config)


@pytest.fixture
def fourth(cluster):
    member = Mongod(cluster.folder, f"further{free_port()}", "rs0")
    member.start()
    yield member
    member.kill()


def test_a_listener_appears_and_disappears_with_its_member(cluster, spillway, fourth):
    add(cluster, fourth, priority=0)
    wait_for(lambda: spillway.listens(3), "a listener of the fourth member")
    with spillway.client(0) as client:
        wait_for(lambda: client.nodes == spillway.nodes(0, 1, 2, 3), "four members")
        open_one = pymongo.MongoClient("127.0.0.1", spillway.first + 3, directConnection=True)
        open_one.admin.command("ping")
        remove(cluster, fourth)
        wait_for(lambda: not spillway.listens(3), "the listener to close")
        wait_for(lambda: client.nodes == spillway.nodes(0, 1, 2), "three members again")
    open_one.close()
    spillway.says(f"member '{fourth.address}' (_id 3) is gone")


def test_files_that_are_read_meanwhile_keep_no_listener_from_its_member():
    """What opens the listener holds no configuration that a reload frees: its name is looked up for long."""
    names = HeldNames()
    environment = {**names.environment, "MALLOC_PERTURB_": "165"}
    with Cluster(members=2) as cluster, SetSpillway(f"mongodb://{cluster.primary.address}/", [RULE], host="set.test",
                                                    environment=environment) as made:
        listens = functools.partial(accepts, made.first + 1)
        reload(made, 1)
        remove(cluster, cluster.members[1])
        wait_for(lambda: not listens(), "the listener to close")
        names.set(held=1, asked=0)
        add(cluster, cluster.members[1], _id=1)
        wait_for(lambda: names.get("asked"), "the listener's name to be looked up")
        reload(made, 2)
        names.set(held=0)
        wait_for(listens, "the listener to open again")
        assert " 1012 " not in made.said()
    names.close()


def accepts(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def reload(spillway, count):
    spillway.hang_up()
    wait_for(lambda: spillway.said().count(" 1034 reload: ") == count, "the file to be taken")


def test_a_hidden_member_has_a_listener_that_no_driver_finds_by_itself(cluster, spillway, fourth):
    with cluster.client() as direct:
        before = max(each["_id"] for each in direct.admin.command("replSetGetConfig")["config"]["members"])
    add(cluster, fourth, priority=0, hidden=True)
    wait_for(lambda: spillway.listens(before + 1), "a listener of the hidden member")
    with spillway.client(0) as client:
        wait_for(lambda: client.nodes == spillway.nodes(0, 1, 2), "the members that are not hidden")
    remove(cluster, fourth)
    wait_for(lambda: not spillway.listens(before + 1), "the listener to close")


def test_it_is_not_ready_before_the_members_are_known():
    spillway = SetSpillway(f"mongodb://127.0.0.1:{free_port()}/", [RULE])
    try:
        spillway.start(ready=False)
        spillway.says("can't be looked at yet; trying on: none of the servers that the seed leads to answers")
        status, text = wait_for(lambda: spillway.admin("/readyz")[0] and spillway.admin("/readyz"), "the admin address")
        assert status == 503
        assert "none of the servers" in text
        assert [spillway.accepts(number) for number in range(PORTS)] == [False] * PORTS
        assert spillway.stop() == 0
    finally:
        spillway.__exit__(None)


def check(spillway):
    run = subprocess.run([program(), "check", "--config", spillway.file, "--json"], capture_output=True, text=True,
                         timeout=60, check=False)
    return json.loads(run.stdout)


def test_check_shows_members_and_their_ports(cluster, spillway):
    report = check(spillway)
    addresses = [f"127.0.0.1:{spillway.first + number}" for number in range(3)]
    assert report["members"] == [
        {"_id": number, "server": member.address, "address": address, "advertise": address}
        for number, (member, address) in enumerate(zip(cluster.members, addresses))
    ]
    assert [each for each in report["findings"] if each["kind"] in ("member", "server", "upstream")] == []
    text = subprocess.run([program(), "check", "--config", spillway.file], capture_output=True, text=True,
                          timeout=60, check=False).stdout
    assert f"  _id 1, '{cluster.members[1].address}': clients reach it by '{addresses[1]}'\n" in text


def test_a_member_without_a_port_refuses_the_start(cluster):
    spillway = SetSpillway(f"mongodb://{cluster.primary.address}/", [RULE], ports=2)
    spillway.settings["replica_set"]["others"] = "allow"
    try:
        said = spillway.refuses_to_start()
        assert f"member '{cluster.members[2].address}' of the replica set has the _id 2" in said
        assert "has 2 ports, for the _ids 0 to 1" in said
        found = [each["code"] for each in check(spillway)["findings"] if each["kind"] == "member"]
        assert found == ["members-unserved"]
    finally:
        spillway.__exit__(None)


def test_a_standalone_is_no_replica_set():
    with Cluster(members=0) as standalone:
        spillway = SetSpillway(f"mongodb://{standalone.primary.address}/", [RULE])
        try:
            assert "is no member of a replica set: use 'listen'" in spillway.refuses_to_start()
        finally:
            spillway.__exit__(None)


def test_operator_commands_find_the_primary_by_a_seed_that_is_none(cluster, spillway):
    with spillway.client(0) as client, cluster.client() as direct:
        client.shop.books.replace_one({"_id": 9}, {"list": WHOLE}, upsert=True)
        wait_for(lambda: len(direct.shop.books.find_one({"_id": 9})["list"]) == 5, "the tail to move")
    run = subprocess.run([program(), "verify", "--config", spillway.file, "--rule", "books", "--json"],
                         capture_output=True, text=True, timeout=60, check=False)
    assert run.returncode == 0, run.stdout + run.stderr


def test_a_spillway_that_advertises_other_addresses_is_refused_unless_it_is_allowed(cluster, spillway):
    """Why: a driver that is given both keeps the addresses of one, and finds no server when that one ends."""
    apart = SetSpillway(f"mongodb://{cluster.primary.address}/", [RULE], host="127.0.0.2")
    try:
        said = apart.refuses_to_start()
        assert f"another Spillway before this replica set advertises '127.0.0.1:{spillway.first}', and this one" in said
        assert [each["code"] for each in check(apart)["findings"] if each["kind"] == "member"] == ["members-unserved"]
        apart.settings["replica_set"]["others"] = "allow"
        apart.start()
        assert_a_driver_keeps_the_addresses_of_one(spillway, apart)
    finally:
        apart.__exit__(None)
        if not spillway.running():
            spillway.start()


def assert_a_driver_keeps_the_addresses_of_one(one, other):
    seeds = f"{one.host}:{one.first},{other.host}:{other.first}"
    with pymongo.MongoClient(f"mongodb://{seeds}/?replicaSet=rs0&heartbeatFrequencyMS=500",
                             serverSelectionTimeoutMS=2000) as client:
        wait_for(lambda: client.nodes in (one.nodes(0, 1, 2), other.nodes(0, 1, 2)), "the members by one Spillway")
        used = one if client.nodes == one.nodes(0, 1, 2) else other
        used.stop()
        with pytest.raises(PyMongoError):
            client.shop.books.find_one()


def test_members_are_known_without_a_primary_and_through_others_than_the_seed(cluster, spillway):
    """Two of three are gone, the seed among them: a restarted Spillway still serves the one that is left."""
    for member in cluster.members[1:]:
        member.kill()
    try:
        wait_for(lambda: not cluster.find_primary(), "the primary to step down")
        spillway.stop()
        spillway.settings["replica_set"]["seed"] = f"mongodb://{cluster.members[2].address},{cluster.primary.address}/"
        spillway.start(ready=False)
        wait_for(lambda: spillway.accepts(0), "the listener of the member that is left")
        wait_for(lambda: spillway.admin("/readyz")[0], "the admin address")
        assert spillway.admin("/readyz")[0] == 503
    finally:
        for member in cluster.members[1:]:
            member.start()
        cluster.wait_for_first()
    wait_for(spillway.ready, "readiness")
    wait_for(lambda: all(spillway.listens(number) for number in range(3)), "all listeners")


def test_an_upgrade_takes_over_the_members_listeners(cluster, spillway):
    with spillway.client(1, retryWrites=False, retryReads=False) as client:
        books = client.shop.books
        books.replace_one({"_id": "upgraded"}, {"list": []}, upsert=True)
        before = spillway.upgrade()
        for number in range(200):
            books.update_one({"_id": "upgraded"}, {"$push": {"list": number}})
        assert books.find_one({"_id": "upgraded"})["list"] == list(range(200))
        assert before.wait(60) == 0
    wait_for(lambda: [spillway.listens(number) for number in range(3)] == [True] * 3, "every member's listener")
