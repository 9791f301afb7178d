"""A reload opens, changes and closes listeners while clients go on; what a start refuses, it refuses."""

import shutil
import socket
import subprocess

import pymongo
import pytest
from pymongo.errors import AutoReconnect

from support.certificates import Authority
from support.cluster import Cluster
from support.process import free_port, wait_for
from support.spillway import Spillway, program

RULE = {
    "name": "books", "namespace": "shop.books", "array": "list", "threshold": 5, "settle": "10ms",
    "overflow": {"layout": "batches", "link": "book", "array": "part", "batch": {"size": 10}},
}
WHOLE = list(range(40))
FREE = 64  # CONFIG_LISTEN_FREE


@pytest.fixture(scope="module")
def cluster():
    with Cluster(members=3) as made:
        yield made


@pytest.fixture(scope="module")
def running(cluster):
    """With a split document. Spillway's own account does not follow from `listen`."""
    account = f"mongodb://{','.join(member.address for member in cluster.members)}/?replicaSet=rs0"
    with Spillway(cluster.members, [RULE], {"upstream": {"uri": account}}) as made, cluster.client() as direct:
        with pymongo.MongoClient(made.address, directConnection=True) as client:
            client.shop.books.insert_one({"_id": 1, "list": WHOLE})
        wait_for(lambda: len(direct.shop.books.find_one({"_id": 1})["list"]) == 5, "the tail to move")
        yield made


@pytest.fixture
def spillway(running):
    """Each test ends with the listeners of the start."""
    before = running.settings["listen"]
    yield running
    assert reload(running, before)[0] == 0


def reload(spillway, listen):
    """(exit code, what it prints) of `spillway reload` with this `listen`."""
    spillway.settings["listen"] = listen
    spillway.write_file()
    done = subprocess.run([program(), "reload", "--config", spillway.file], capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout + done.stderr


def refused(spillway, listen):
    """Why. Nothing has changed."""
    before = spillway.settings["listen"]
    code, said = reload(spillway, listen)
    assert code == 1 and said.startswith("nothing is changed:\n")
    spillway.settings["listen"] = before
    for entry in before:
        assert read(entry["address"]) == WHOLE
    return said


def first(spillway, **changes):
    """`listen` with changes to its first entry."""
    entry, *rest = spillway.settings["listen"]
    return [{**entry, **changes}, *rest]


def free_address():
    return f"127.0.0.1:{free_port()}"


def client_of(address, **options):
    return pymongo.MongoClient(address, directConnection=True, serverSelectionTimeoutMS=20000, **options)


def read(address, **options):
    with client_of(address, **options) as client:
        return client.shop.books.find_one({"_id": 1})["list"]


def is_closed(address):
    with pymongo.MongoClient(address, directConnection=True, serverSelectionTimeoutMS=300) as client:
        try:
            client.admin.command("ping")
        except AutoReconnect as error:
            return "refused" in str(error)
    return False


def hide_last(cluster):
    """The last member is one that hello does not list: it may go without a listener."""
    with cluster.client() as direct:
        config = direct.admin.command("replSetGetConfig")["config"]
        config["members"][-1].update(hidden=True, priority=0)
        config["version"] += 1
        direct.admin.command("replSetReconfig", config)
    for member in cluster.members:
        wait_for(lambda: len(hosts(member.address)) == len(cluster.members) - 1, "it to be hidden")  # noqa: B023


def hosts(address):
    with client_of(address) as client:
        return set(client.admin.command("hello")["hosts"])


def test_a_listener_moves_to_another_address_and_its_connections_stay(spillway):
    old, new = spillway.address, free_address()
    with client_of(old, maxPoolSize=1) as client:
        with client.start_session() as session:
            cursor = client.shop.books.aggregate([{"$match": {"_id": 1}}, {"$unwind": "$list"}], batchSize=2,
                                                 session=session)
            next(cursor)
            code, said = reload(spillway, first(spillway, address=new, advertise=new))
            assert code == 0
            assert f"'listen': '{new}' is new\n" in said and f"'listen': '{old}' is gone\n" in said
            assert [each["list"] for each in cursor] == WHOLE[1:]
    assert read(new) == WHOLE
    wait_for(lambda: is_closed(old), "the address of before to be closed")
    assert new in hosts(new) and old not in hosts(new)
    spillway.says(f"2001 listening on '{new}' for server")


def test_drivers_are_told_another_name_at_once(spillway):
    other = spillway.settings["listen"][1]["address"]
    assert reload(spillway, first(spillway, advertise="books.example.net:27017"))[0] == 0
    assert "books.example.net:27017" in hosts(spillway.address) and spillway.address not in hosts(other)


def test_drivers_go_to_the_server_that_an_address_has_now(spillway):
    one, two, three = spillway.settings["listen"]
    with client_of(one["address"]) as client:
        def server():
            return f"127.0.0.1:{client.admin.command('getCmdLineOpts')['parsed']['net']['port']}"

        assert server() == one["server"]
        swapped = [{**one, "server": two["server"]}, {**two, "server": one["server"]}, three]
        assert reload(spillway, swapped)[0] == 0
        wait_for(lambda: server() == two["server"], "the driver to connect anew", seconds=20)


def test_tls_begins_and_ends_at_the_same_address(spillway):
    with Authority() as authority, client_of(spillway.address) as plain:
        for file in (authority.cert, authority.key):
            shutil.copy(file, spillway.folder)
        assert plain.shop.books.find_one({"_id": 1})["list"] == WHOLE
        tls = {"cert": authority.cert.name, "key": authority.key.name}
        assert reload(spillway, first(spillway, tls=tls))[0] == 0
        assert plain.shop.books.find_one({"_id": 1})["list"] == WHOLE  # on its open connection
        assert read(spillway.address, tls=True, tlsCAFile=str(authority.ca)) == WHOLE
        with pymongo.MongoClient(spillway.address, directConnection=True, serverSelectionTimeoutMS=300) as late:
            with pytest.raises(AutoReconnect):
                late.admin.command("ping")
        (spillway.folder / authority.cert.name).unlink()
        before = [{key: value for key, value in entry.items() if key != "tls"} for entry in spillway.settings["listen"]]
        assert reload(spillway, before)[0] == 0  # no file of a closed listener counts
        assert read(spillway.address) == WHOLE


def test_a_load_balancer_is_named_while_clients_are_served(spillway):
    assert reload(spillway, first(spillway, proxy_protocol_from=["127.0.0.1"]))[0] == 0
    with pymongo.MongoClient(spillway.address, directConnection=True, serverSelectionTimeoutMS=300) as client:
        with pytest.raises(AutoReconnect):
            client.admin.command("ping")
    spillway.says("the PROXY protocol")


def test_an_address_in_use_changes_nothing(spillway):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        said = refused(spillway, first(spillway, address=address, advertise=address))
    assert f"cannot listen on '{address}': Address already in use" in said


def test_a_listener_whose_certificate_is_missing_changes_nothing(spillway):
    said = refused(spillway, first(spillway, tls={"cert": "no-such-file.pem"}))
    assert "no-such-file.pem" in said


def test_a_member_of_the_set_keeps_a_listener(spillway, cluster):
    said = refused(spillway, spillway.settings["listen"][:2])
    assert f"'{cluster.members[2].address}' is a member of the replica set, but no entry of 'listen' stands" in said


def test_a_listener_in_front_of_a_server_that_is_down_waits_for_it(spillway):
    more = {"address": free_address(), "server": free_address()}
    assert reload(spillway, [*spillway.settings["listen"], more])[0] == 0
    assert read(spillway.address) == WHOLE
    spillway.says(f"clients' connections do not reach server '{more['server']}'")


def test_a_new_rule_waits_for_reads_by_a_listener_that_is_gone():
    """No entry stands before the server any more, but a connection to it, and so its cursor, goes on."""
    with Cluster(members=2) as cluster:
        hide_last(cluster)
        account = {"uri": f"mongodb://{cluster.primary.address}/?replicaSet=rs0"}
        with Spillway(cluster.members, (), {"upstream": account}) as spillway:
            seen, hidden = spillway.settings["listen"]
            with client_of(spillway.address, w=2) as client:
                client.shop.books.insert_many({"_id": number, "list": WHOLE} for number in range(10))
            with client_of(hidden["address"], maxPoolSize=1) as client:
                cursor = client.shop.books.find({}, {"list": 1}, batch_size=2)
                assert next(cursor)["list"] == WHOLE
                spillway.settings["rules"] = [{**RULE, "existing": "move"}]
                assert reload(spillway, [seen])[0] == 0
                spillway.says("until they have ended, no tail moves under these rules")
                assert [each["list"] for each in cursor] == [WHOLE] * 9
            spillway.says("tails move under the new rules, too")


@pytest.mark.usefixtures("running")  # has split a document
def test_so_many_other_listeners_need_an_upgrade(cluster):
    with Spillway(cluster.members, [RULE]) as spillway:
        start = spillway.settings["listen"]
        for number in range(FREE):
            assert reload(spillway, first(spillway, advertise=f"books.example.net:{number + 1}"))[0] == 0
        said = refused(spillway, first(spillway, advertise="other.example.net:1"))
        assert f"no room for so many other listeners: {FREE} may come by reloads since its start" in said
        assert reload(spillway, first(spillway, advertise="books.example.net:1"))[0] == 0  # it was there before
        assert reload(spillway, start)[0] == 0


def test_an_account_that_follows_from_the_listeners_needs_an_upgrade(cluster):
    with Spillway(cluster.members, [RULE]) as spillway:
        listen = first(spillway, server=f"localhost:{cluster.members[0].port}")
        assert reload(spillway, [*reversed(spillway.settings["listen"])])[0] == 0  # the same servers
        code, said = reload(spillway, listen)
        assert code == 1 and "'upstream.uri' is 'mongodb://" in said and ",localhost:" in said
        assert "a running process does not change it; 'spillway upgrade' starts one that does" in said
