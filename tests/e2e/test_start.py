"""Starts that can't be good end with the reason and what to do; what turns up later is refused, or served."""

import signal
import socket

import pymongo
import pytest
from pymongo.errors import OperationFailure

from support.cluster import Cluster
from support.process import wait_for
from support.spillway import Spillway

CHANGE = "; or take the rule out of the file"


def rule(name, namespace=None, **options):
    return {
        "name": name, "namespace": namespace or f"shop.{name}", "array": "list", "threshold": 3,
        "settle": "10ms", "gc_delay": "0s",
        "overflow": {"layout": "batches", "link": "book", "array": "part"}, **options,
    }


@pytest.fixture(scope="module")
def direct(cluster):
    with cluster.client() as client:
        yield client


def connect(spillway):
    return pymongo.MongoClient("127.0.0.1", spillway.port, directConnection=True)


def said_at_start(cluster, rules, **settings):
    spillway = Spillway([cluster.primary], rules, settings)
    try:
        return spillway.refuses_to_start()
    finally:
        spillway.__exit__()


UNFIT = {
    "unique": (
        lambda shop: shop.unique.create_index("list", unique=True), "its unique index 'list_1'"),
    "part": (
        lambda shop: shop.part.create_index("isbn", unique=True, partialFilterExpression={"list": 1}),
        "its unique index 'isbn_1'"),
    "judging": (
        lambda shop: shop.create_collection("judging", validator={"list.0": {"$exists": True}}),
        "its validator looks at 'list'"),
    "closed": (
        lambda shop: shop.create_collection("closed", validator={"$jsonSchema": {
            "properties": {"_id": {}, "title": {}}, "additionalProperties": False}}),
        "its validator"),
    "viewed": (
        lambda shop: shop.create_collection("viewed", viewOn="books", pipeline=[]), "it is a view"),
    "capped": (
        lambda shop: shop.create_collection("capped", capped=True, size=4096), "it is a capped collection"),
    "times": (
        lambda shop: shop.create_collection("times", timeseries={"timeField": "at"}),
        "it is a time series collection"),
    "fading": (
        lambda shop: shop.fading.create_index("list.at", expireAfterSeconds=1), "its TTL index 'list.at_1'"),
    "searched": (
        lambda shop: shop.searched.create_index([("list", "text")]), "its text index 'list_text'"),
}


@pytest.mark.parametrize("name", UNFIT)
def test_a_rule_that_can_not_hold_is_told_at_start(cluster, direct, name):
    make, reason = UNFIT[name]
    make(direct.shop)
    output = said_at_start(cluster, [rule("good"), rule(name)])
    assert f"rule '{name}' can't hold on 'shop.{name}': {reason}" in output
    assert CHANGE in output
    assert output.count(reason) == 1


def test_an_overflow_that_can_not_hold_is_told_at_start(cluster, direct):
    direct.shop.bad_list_overflow.create_index("part", unique=True)
    output = said_at_start(cluster, [rule("bad")])
    assert "rule 'bad' can't hold on 'shop.bad_list_overflow': its unique index 'part_1'" in output


def test_an_overflow_with_a_batch_twice_is_told_at_start(cluster, direct):
    direct.shop.twice_list_overflow.insert_many([{"book": 1, "_spill": {"i": 1}} for _ in range(2)])
    output = said_at_start(cluster, [rule("twice")])
    assert "rule 'twice' can't hold on 'shop.twice_list_overflow'" in output
    assert "the unique index of link and batch can't be made" in output


@pytest.mark.parametrize("taken", ["listen", "admin"])
def test_an_address_in_use_is_told_at_start(cluster, taken):
    with socket.create_server(("127.0.0.1", 0)) as other:
        address = f"127.0.0.1:{other.getsockname()[1]}"
        listen = [{"address": address, "server": cluster.primary.address}]
        output = said_at_start(cluster, [rule("good")], **{taken: {"listen": listen, "admin": address}[taken]})
    assert f"'{address}'" in output
    assert "listen" in output


def test_two_spillways_on_one_address(cluster):
    with Spillway([cluster.primary], [rule("good")]) as first:
        listen = [{"address": first.address, "server": cluster.primary.address}]
        output = said_at_start(cluster, [rule("good")], listen=listen)
        assert f"cannot listen on '{first.address}': Address already in use" in output
        assert first.ready()


class NotReady(Spillway):
    """One whose server is not there yet."""

    def start(self, ready=False):
        super().start(ready)


@pytest.fixture
def late():
    """A standalone that is to be started by the test."""
    made = Cluster(members=0)
    yield made
    made.__exit__()


def test_it_waits_for_a_server_that_comes_later(late):
    with NotReady([late.primary], [rule("good")]) as spillway:
        wait_for(lambda: spillway.admin("/healthz")[0] == 200, "the admin address")
        status, text = spillway.admin("/readyz")
        assert status == 503
        assert "not ready: " in text and late.primary.address in text
        wait_for(lambda: "can't be looked at yet" in spillway.said(), "it to be said")
        late.primary.start()
        wait_for(spillway.ready, "Spillway to see the server")
        with connect(spillway) as client, late.client() as direct:
            client.shop.good.insert_one({"_id": 1, "list": list(range(10))})
            wait_for(lambda: len(direct.shop.good.find_one()["list"]) == 3, "the tail to move")
            assert client.shop.good.find_one()["list"] == list(range(10))


def test_a_signal_ends_it_while_it_still_looks(cluster, direct):
    """Thousands of namespaces take minutes."""
    many = [rule(f"many{number}") for number in range(600)]
    with NotReady([cluster.primary], many):
        wait_for(lambda: "many" in "".join(direct.shop.list_collection_names()), "the first overflow to be made")
    assert len(direct.shop.list_collection_names()) < len(many)


def test_it_is_not_ready_while_no_server_answers(late):
    late.primary.start()
    with Spillway([late.primary], [rule("good")]) as spillway:
        late.primary.process.send_signal(signal.SIGSTOP)
        try:
            text = wait_for(lambda: spillway.admin("/readyz")[1] if not spillway.ready() else "", "it to be seen")
            assert text.startswith("not ready: no server has answered for 6 seconds")
            assert spillway.admin("/healthz")[0] == 200
        finally:
            late.primary.process.send_signal(signal.SIGCONT)
        wait_for(spillway.ready, "the server to be seen again")


def test_a_server_that_comes_later_and_is_not_good(late):
    """Nothing is written to a ruled array before all is well."""
    late.primary.start()
    with late.client() as direct:
        UNFIT["unique"][0](direct.shop)
    late.primary.stop()
    with NotReady([late.primary], [rule("unique"), rule("good")]) as spillway:
        wait_for(lambda: "can't be looked at yet" in spillway.said(), "the first look")
        late.primary.start()
        wait_for(lambda: "can't hold" in spillway.said(), "the next look")
        status, text = spillway.admin("/readyz")
        assert status == 503
        assert "its unique index 'list_1'" in text
        with connect(spillway) as client, late.client() as direct:
            require_closed(client.shop)
            direct.shop.unique.drop_index("list_1")
            wait_for(spillway.ready, "the third look")
            client.shop.unique.update_one({"_id": 1}, {"$push": {"list": 1}}, upsert=True)


def require_closed(shop):
    with pytest.raises(OperationFailure, match="its unique index 'list_1'"):
        shop.unique.update_one({"_id": 1}, {"$push": {"list": 1}}, upsert=True)
    with pytest.raises(OperationFailure, match="not ready") as raised:
        shop.good.update_one({"_id": 1}, {"$push": {"list": 1}}, upsert=True)
    assert raised.value.code == 365
    assert shop.notes.insert_one({"_id": 1}).acknowledged


def refused(books):
    """Why a push is refused; None where it is not."""
    try:
        books.update_one({"_id": 1}, {"$push": {"list": 0}})
    except OperationFailure as error:
        assert error.code == 115
        return error.details["errmsg"]
    return None


def test_an_index_that_comes_later(cluster, direct):
    """Spillway refuses to make it; one made straight at mongod is seen by the next look."""
    with Spillway([cluster.primary], [rule("later", sweep="1s")]) as spillway, connect(spillway) as client:
        books = client.shop.later
        books.insert_one({"_id": 1, "list": [1, 2]})
        with pytest.raises(OperationFailure, match="rule 'later' on 'shop.later': a unique index"):
            books.create_index("list", unique=True)
        assert refused(books) is None
        direct.shop.later.create_index("list", unique=True)
        reason = wait_for(lambda: refused(books), "pushes to be refused")
        for words in ("rule 'later'", "'shop.later'", "its unique index 'list_1'", CHANGE):
            assert words in reason
        samples = spillway.metrics()
        assert samples["spillway_unfit_namespaces"] == 1
        assert samples['spillway_refusals_total{rule="later",operator="unfit"}'] >= 1
        assert spillway.says("can't hold")
        assert spillway.said().count("can't hold") == 1
        assert books.update_one({"_id": 1}, {"$set": {"title": "a"}}).modified_count == 1
        assert books.find_one({"_id": 1})["list"][:2] == [1, 2]
        direct.shop.later.drop_index("list_1")
        wait_for(lambda: refused(books) is None, "pushes to be taken again")
        assert spillway.metrics()["spillway_unfit_namespaces"] == 0


def test_what_the_server_keeps_refusing_the_mover_is_told_once(cluster, direct):
    direct.drop_database("shop")  # other rules have moved arrays in it
    with Spillway([cluster.primary], [rule("stuck")]) as spillway, connect(spillway) as client:
        direct.shop.command("collMod", "stuck_list_overflow", validator={"part": {"$exists": False}})
        client.shop.stuck.insert_many([{"_id": number, "list": list(range(10))} for number in range(3)])
        wait_for(lambda: "tails don't move" in spillway.said(), "it to be said")
        errors = spillway.metrics()["spillway_move_errors_total"]
        wait_for(lambda: spillway.metrics()["spillway_move_errors_total"] > errors + 3, "more of them")
        (line,) = (line for line in spillway.said().splitlines() if "tails don't move" in line)
        assert " warning 4001 mover: 'shop.stuck': rule 'stuck': tails don't move: code 121: Document failed" in line
        assert "(0 more like it since the last line); a validator is in the way" in line
        direct.shop.command("collMod", "stuck_list_overflow", validator={})
        wait_for(lambda: len(direct.shop.stuck.find_one({"_id": 2})["list"]) == 3, "the tails to move")


def test_a_namespace_of_a_pattern_that_appears_later_is_served(cluster, direct):
    """Its overflow's unique index is there before the first batch."""
    direct.drop_database("shop")  # other rules have moved arrays in it
    posts = rule("posts", "tenant_*.posts", sweep="off")
    with Spillway([cluster.primary], [posts]) as spillway, connect(spillway) as client:
        for database in ("tenant_1", "tenant_2", "tenant_3"):
            client[database].posts.insert_one({"_id": 1, "list": list(range(10))})
            wait_for(lambda: len(direct[database].posts.find_one()["list"]) == 3, "the tail to move")
            assert client[database].posts.find_one()["list"] == list(range(10))
            require_index_first(direct, database)


def require_index_first(direct, database):
    """By the oplog."""
    overflow = f"{database}.posts_list_overflow"
    entries = direct.local["oplog.rs"].find({"ns": {"$in": [f"{database}.$cmd", overflow]}}).sort("$natural", 1)
    kinds = ["insert" if entry["ns"] == overflow else next(iter(entry["o"])) for entry in entries]
    assert kinds.index("createIndexes") < kinds.index("insert")
    keys = [(dict(index["key"]), index.get("unique")) for index in direct[database].posts_list_overflow.list_indexes()]
    assert ({"book": 1, "_spill.i": 1}, True) in keys
