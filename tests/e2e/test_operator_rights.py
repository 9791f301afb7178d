"""The operator's commands and accounts that may not do all: what was not done is said, never called done."""

import contextlib
import subprocess

import pymongo
import pytest

from support.cluster import ADMINISTRATOR, Cluster
from support.operate import RULE, Operator
from support.process import wait_for
from support.spillway import QuotedText, Spillway, program

ALL = ["find", "insert", "update", "remove", "listIndexes", "createIndex", "dropIndex", "dropCollection"]


def privilege(database, collection, actions):
    return {"resource": {"db": database, "collection": collection}, "actions": actions}


TENANTS = ("tenant_1", "tenant_2", "tenant_3")


def accounts():
    """What each may do; nothing on `spillway.rules` but where said."""
    common = [privilege("shop", "books", ALL), privilege("shop", "", ["listCollections"]),
              {"resource": {"cluster": True}, "actions": ["listDatabases", "inprog"]}]
    return {
        "no record": [*common, privilege("shop", "tails", ALL)],
        "no drop": [*common, privilege("shop", "tails", ALL[:-1]), privilege("spillway", "rules", ALL)],
        "no forgetting": [*common, privilege("shop", "tails", ALL), privilege("spillway", "", ["createIndex"]),
                          privilege("spillway", "rules", ["find", "insert", "update"])],
        "no removal": [*common, privilege("shop", "tails", [each for each in ALL if each != "remove"])],
        "blind": [*common[1:], privilege("shop", "tails", ALL), privilege("shop", "others", ALL)],
        "records read": [*common, privilege("shop", "tails", ALL), privilege("spillway", "rules", ["find"])],
        "astray": [*common, privilege("shop", "tails", ALL), privilege("shop", "others", ALL)],
        "unseeing": [*common[:-1], privilege("shop", "tails", ALL), privilege("spillway", "rules", ALL)],
        "reader": [privilege("shop", "", ["find", "listIndexes", "listCollections"]),
                   privilege("spillway", "rules", ["find"])],
        "other": [privilege("shop", "others", ALL), privilege("shop", "more", ALL), *common[1:],
                  privilege("spillway", "rules", ALL)],
        "tenants": [{"resource": {"cluster": True}, "actions": ["listDatabases", "inprog"]},
                    privilege("spillway", "rules", ALL),
                    *(privilege(tenant, "", [*ALL, "listCollections"]) for tenant in TENANTS)],
        "visitor": [*(privilege("tenant_1", name, ALL) for name in ("books", "tails", "books_tails")),
                    privilege("spillway", "rules", ALL)],
    }


@pytest.fixture(scope="module")
def cluster():
    with Cluster(secure=True) as made, made.client() as direct:
        for name, privileges in accounts().items():
            direct.admin.command("createRole", name, privileges=privileges, roles=[])
            direct.admin.command("createUser", name, pwd="secret", roles=[name])
        yield made


@pytest.fixture
def shop(shop):
    shop.books.insert_many({"_id": i, "list": list(range(9))} for i in range(5))
    return shop


def upstream(cluster, account):
    return {"uri": f"mongodb://{account.replace(' ', '%20')}:secret@{cluster.primary.address}/?authSource=admin"}


@contextlib.contextmanager
def operating(cluster, account):
    with Operator(cluster, upstream=upstream(cluster, account)) as operator:
        yield operator


def test_a_record_that_may_not_be_removed_is_told(cluster, shop):
    with operating(cluster, "no forgetting") as operator:
        operator.run("migrate", "--execute", code=0)
        report = operator.run("undo", "--execute", code=0)
    assert [each["code"] for each in report["notes"]] == ["record"]
    assert shop.client.spillway.rules.count_documents({}) == 1 and "tails" not in shop.list_collection_names()


def test_without_the_record_all_but_resume_works(cluster, shop):
    shop.books.insert_one({"_id": "split", "list": [0, 1, 2], "outlier": True})
    shop.tails.insert_one({"book": "split", "part": [3, 4]})
    with operating(cluster, "no record") as operator:
        done = operator.run("migrate", "--execute", code=0)
        assert (done["documents"], done["adopted"]) == (5, 1)
        assert shop.books.count_documents({"_spill": {"$exists": True}}) == 6
        assert operator.run("undo", "--execute", code=0)["documents"] == 6
    assert shop.list_collection_names() == ["books"]


WRONG = {**RULE, "namespace": "shop.others", "sweep": "100ms", "settle": "5ms", "quiet": "5ms"}


def sweep_twice(spillway):
    before = spillway.metrics()["spillway_sweeps_total"]
    wait_for(lambda: spillway.metrics()["spillway_sweeps_total"] >= before + 2, "two sweeps")


def test_without_the_record_nothing_of_anothers_is_collected(cluster, shop):
    """The rule's own collection has documents with the same _ids; the other's may not be read."""
    with operating(cluster, "no record") as operator:
        operator.run("migrate", "--execute", code=0)
    before = shop.command("dbHash", collections=["tails"])["md5"]
    shop.others.insert_many({"_id": i, "list": [0]} for i in (1, 2))
    with Spillway([cluster.primary], [WRONG], {"upstream": upstream(cluster, "blind")}) as spillway:
        with pymongo.MongoClient("127.0.0.1", spillway.port, directConnection=True, **ADMINISTRATOR) as through:
            through.shop.others.update_one({"_id": 2}, {"$push": {"list": {"$each": list(range(9))}}})
            sweep_twice(spillway)
            wait_for(lambda: spillway.metrics()["spillway_mover_queue"] == 0, "the mover to rest")
            assert through.shop.others.find_one({"_id": 2})["list"] == [0, *range(9)]
            through.shop.others.delete_one({"_id": 1})
            sweep_twice(spillway)
            through.shop.others.drop()
        assert spillway.says("overflow of documents that are gone is not collected")
        assert spillway.says("nothing is moved there")
    assert shop.command("dbHash", collections=["tails"])["md5"] == before


def test_without_the_record_documents_of_another_refuse_the_rule(cluster, shop):
    with operating(cluster, "no record") as operator:
        operator.run("migrate", "--execute", code=0)
    spillway = Spillway([cluster.primary], [WRONG], {"upstream": upstream(cluster, "astray")})
    try:
        assert "documents of 'shop.books' refer to its overflow 'shop.tails'" in spillway.refuses_to_start()
    finally:
        spillway.__exit__()


def test_a_record_that_may_not_be_changed_says_whose_the_overflow_is(cluster, shop):
    with operating(cluster, "no drop") as operator:
        operator.run("migrate", "--execute", code=0)
    shop.books.delete_one({"_id": 3})
    changed = {**RULE, "threshold": 4, "sweep": "100ms"}
    with Spillway([cluster.primary], [changed], {"upstream": upstream(cluster, "records read")}):
        wait_for(lambda: not shop.tails.find_one({"book": 3}), "the orphans to go")
    assert shop.client.spillway.rules.find_one()["limits"]["threshold"] == 3


def test_an_overflow_that_may_not_be_dropped_is_said(cluster, shop):
    with operating(cluster, "no drop") as operator:
        operator.run("migrate", "--execute", code=0)
        ended = operator.start("undo", "--execute")
        said = ended.communicate(timeout=60)[1]
        assert ended.returncode == 1 and "not authorized" in said and "secret" not in said
    assert shop.tails.estimated_document_count() == 0
    assert shop.client.spillway.rules.count_documents({}) == 1


def test_an_overflow_that_may_not_be_emptied_is_said(cluster, shop):
    with operating(cluster, "no drop") as operator:
        operator.run("migrate", "--execute", code=0)
    with operating(cluster, "no removal") as operator:
        ended = operator.start("undo", "--execute")
        said = ended.communicate(timeout=60)[1]
        assert ended.returncode == 1 and "not authorized" in said
    assert shop.tails.estimated_document_count() == 10


def test_who_may_not_ask_for_the_lag_is_told_before_anything_moves(cluster, shop):
    with operating(cluster, "no drop") as operator:
        report = operator.run("migrate", "--execute", "--max-lag", "5", code=1)
        assert report["ended"] == "refused" and "not authorized" in report["error"]
        assert report["documents"] == 0 and shop.list_collection_names() == ["books"]
        assert operator.run("migrate", "--execute", code=0)["documents"] == 5


def test_a_rule_that_is_gone_and_its_overflow_out_of_reach(cluster, shop):
    with operating(cluster, "no drop") as operator:
        operator.run("migrate", "--execute", code=0)
    others = {**RULE, "name": "others", "namespace": "shop.others",
              "overflow": {**RULE["overflow"], "collection": "more"}}
    spillway = Spillway([cluster.primary], [others], {"upstream": upstream(cluster, "other")})
    try:
        assert "spilled under rule 'books', which is gone" in spillway.refuses_to_start()
    finally:
        spillway.__exit__()


def test_a_rule_that_may_only_be_read_needs_no_rights_to_write(cluster, shop):
    with operating(cluster, "no drop") as operator:
        operator.run("migrate", "--execute", code=0)
    before = shop.client.shop.command("dbHash")["md5"], shop.client.spillway.command("dbHash")["md5"]
    with Spillway([cluster.primary], [{**RULE, "access": "read-only"}],
                  {"upstream": upstream(cluster, "reader")}) as spillway:
        with pymongo.MongoClient("127.0.0.1", spillway.port, directConnection=True, **ADMINISTRATOR) as through:
            assert [each["list"] for each in through.shop.books.find()] == [list(range(9))] * 5
    assert (shop.client.shop.command("dbHash")["md5"], shop.client.spillway.command("dbHash")["md5"]) == before


def test_a_database_of_a_pattern_that_is_out_of_reach_does_not_keep_the_others_from_undo(cluster, shop):
    for tenant in TENANTS:
        shop.client[tenant].books.insert_many({"_id": i, "list": list(range(9))} for i in range(3))
    pattern = {**RULE, "namespace": QuotedText("tenant_*.books"),
               "overflow": {**RULE["overflow"], "collection": "tails"}}
    grants = {"privileges": [privilege("tenant_2", "", [*ALL, "listCollections"])]}
    with Operator(cluster, [pattern], upstream=upstream(cluster, "tenants")) as operator:
        assert operator.run("migrate", "--execute", code=0)["documents"] == 9
        shop.client.admin.command("revokePrivilegesFromRole", "tenants", **grants)
        for command in (["verify"], ["undo"], ["undo", "--execute"]):
            report = operator.run(*command, code=1)
            assert report["documents"] == 6 and report["ended"] == "refused"
            assert "not authorized on tenant_2" in report["error"]
            listed = {each["namespace"] for finding in report["findings"] for each in finding["examples"]}
            assert "tenant_2" in listed and listed <= {"tenant_2", "tenant_2.books"}
        assert [len(shop.client[tenant].books.find_one()["list"]) for tenant in TENANTS] == [9, 3, 9]
        shop.client.admin.command("grantPrivilegesToRole", "tenants", **grants)
        assert operator.run("undo", "--execute", code=0)["documents"] == 3


@pytest.mark.parametrize(("namespace", "unseen", "documents"),
                         [("tenant_*.books", {"tenant_*", "tenant_1"}, 9), ("tenant_1.book*", {"tenant_1"}, 6)])
def test_what_an_account_is_not_shown_of_a_pattern_is_not_called_well(cluster, shop, namespace, unseen, documents):
    """mongod lists what the account has rights on, and does not say that there is more."""
    for tenant in TENANTS:
        shop.client.drop_database(tenant)
        for name in ("books", "books2"):
            shop.client[tenant][name].insert_many({"_id": i, "list": list(range(9))} for i in range(3))
    pattern = {**RULE, "namespace": QuotedText(namespace), "overflow": {
        **RULE["overflow"], "collection": "tails" if namespace.endswith("books") else QuotedText("{collection}_tails")}}
    with Operator(cluster, [pattern], upstream=upstream(cluster, "tenants")) as operator:
        assert operator.run("migrate", "--execute", code=0)["documents"] == documents
        assert operator.run("verify", code=0)["documents"] == documents
    with Operator(cluster, [pattern], upstream=upstream(cluster, "visitor")) as operator:
        report = operator.run("verify", code=1)
        assert report["documents"] == 3 and report["ended"] == "refused"
        [passed] = [finding for finding in report["findings"] if finding["name"] == "passed-over"]
        assert {each["namespace"] for each in passed["examples"]} == unseen
    for tenant in TENANTS:
        shop.client.drop_database(tenant)


def test_an_analyze_that_is_refused_says_no_more_than_what(cluster, shop):
    uri = upstream(cluster, "other")["uri"]
    for json in ([], ["--json"]):
        ended = subprocess.run([program(), "analyze", *json, uri, "shop.books"], capture_output=True, text=True,
                               timeout=60, check=False)
        assert ended.returncode == 1 and "not authorized on shop to execute command { " in ended.stderr
        assert "lsid" not in ended.stdout + ended.stderr and "signature" not in ended.stdout + ended.stderr


def test_an_account_that_may_not_see_cursors_is_warned_of(cluster, shop):
    """A start with a new rule cannot wait for what nobody sees."""
    rules = [{**RULE, "sweep": "100ms", "settle": "5ms"}]
    with Spillway([cluster.primary], rules, {"upstream": upstream(cluster, "unseeing")}) as spillway:
        spillway.says("give the account the action 'inprog' on the cluster")
        with pymongo.MongoClient("127.0.0.1", spillway.port, directConnection=True, **ADMINISTRATOR) as through:
            through.shop.books.update_one({"_id": 1}, {"$push": {"list": 9}})
        wait_for(lambda: len(shop.books.find_one({"_id": 1})["list"]) == 3, "the tail to move")
