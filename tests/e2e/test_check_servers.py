"""`spillway check` on the servers: every finding is provoked, says what to do, and goes once that is done."""

import contextlib
import json
import re
import subprocess

import pymongo
import pytest

from support.cluster import Cluster
from support.peer import HELLO, FakeServer
from support.process import free_port, wait_for
from support.spillway import Spillway, program

pytestmark = pytest.mark.share(2)
MEGABYTE = 1 << 20


def rule(name="books", namespace=None, **more):
    return {"name": name, "namespace": namespace or f"shop.{name}", "array": "list", "threshold": 3,
            "overflow": {"link": "main", "array": "part", **more.pop("overflow", {})}, **more}


@pytest.fixture(scope="module")
def cluster():
    with Cluster(2) as made:
        yield made


@pytest.fixture(scope="module")
def shop(cluster):
    with cluster.client() as direct:
        yield direct.shop


@contextlib.contextmanager
def configured(servers, *rules, **more):
    """A Spillway's file; the program itself is not started."""
    spillway = Spillway(servers, rules, more)
    try:
        spillway.write_file()
        yield spillway
    finally:
        spillway.__exit__()


def check(spillway, *options):
    return subprocess.run([program(), "check", "--config", spillway.file, *options], capture_output=True,
                          text=True, timeout=60, check=False)


def look(spillway):
    """What check says, as JSON; its exit code must say the same."""
    run = check(spillway, "--json")
    said = json.loads(run.stdout)
    assert run.returncode == (1 if said["findings"] else 0), run.stderr
    return said


def findings(servers, *rules, **more):
    with configured(servers, *rules, **more) as spillway:
        found = look(spillway)["findings"]
    assert all(finding["remedy"] for finding in found)
    return found


def kinds(found):
    return [finding["kind"] for finding in found]


def test_where_all_is_well_nothing_is_found(cluster, shop):
    shop.well.insert_one({"list": [1]})
    with configured(cluster.members, rule("well")) as spillway:
        run = check(spillway)
    assert run.returncode == 0 and "nothing found that needs doing" in run.stdout
    assert "the servers ask for no account" in run.stdout
    assert "name: well" in run.stdout and "threshold: 3" in run.stdout  # the rules with their defaults


# What a collection can have that stands in a rule's way: (code, words), how it is made and how it is mended.
IN_THE_WAY = {
    "unique": (("index-over-array", "unique"), lambda shop: shop.unique.create_index("list.isbn", unique=True),
               lambda shop: shop.unique.drop_index("list.isbn_1")),
    "old": (("index-over-array", "TTL"), lambda shop: shop.old.create_index("list.at", expireAfterSeconds=60),
            lambda shop: shop.old.drop_index("list.at_1")),
    "capped": (("collection-is-capped", "capped"),
               lambda shop: shop.create_collection("capped", capped=True, size=9999),
               lambda shop: shop.capped.drop()),
    "closed": (("validator-refuses-state", "_spill"), lambda shop: shop.create_collection("closed", validator={
        "$jsonSchema": {"additionalProperties": False, "properties": {"_id": {}, "title": {}}}}),
        lambda shop: shop.command("collMod", "closed", validator={})),
    "fenced": (("overflow-refused", "refuses what would be moved there of the document { \"_id\" : 1 }"),
               lambda shop: (shop.fenced.insert_one({"_id": 1, "list": list(range(9))}),
                             shop.create_collection("fenced_list_overflow", validator={"part": {"$exists": False}})),
               lambda shop: shop.command("collMod", "fenced_list_overflow", validator={"part": {"$type": "array"}})),
    "flagged": (("validator-refuses-field", "the flag 'more'"),
                lambda shop: shop.create_collection("flagged", validator={
        "more": {"$exists": False}}), lambda shop: shop.command("collMod", "flagged", validator={})),
    "indexed": (("overflow-index-missing", 'keys: { "part.isbn": 1 }'),
                lambda shop: shop.indexed.create_index([("title", 1), ("list.isbn", 1)]),
                lambda shop: shop.indexed_list_overflow.create_index("part.isbn")),
    "tailed": (("overflow-index-unique", "could refuse elements"),
               lambda shop: shop.tailed_list_overflow.create_index("part", unique=True),
               lambda shop: shop.tailed_list_overflow.drop_index("part_1")),
    "taken": (("overflow-index-blocked", "and is not unique"),
              lambda shop: shop.taken_list_overflow.create_index([("main", 1), ("_spill.i", 1)]),
              lambda shop: shop.taken_list_overflow.drop_index("main_1__spill.i_1")),
    "sparse": (("overflow-index-blocked", "it is sparse"),
               lambda shop: shop.sparse_list_overflow.create_index([("main", 1), ("_spill.i", 1)], unique=True,
                                                                   sparse=True, name="mine"),
               lambda shop: shop.sparse_list_overflow.drop_index("mine")),
    "hidden": (("overflow-index-hidden", "hidden: false"),
               lambda shop: (shop.hidden_list_overflow.create_index([("main", 1), ("_spill.i", 1)], unique=True,
                                                                    hidden=True),
                             shop.hidden_list_overflow.create_index([("main", 1), ("_spill.i", 1)], sparse=True,
                                                                    name="mine")),
               lambda shop: shop.hidden_list_overflow.create_index([("main", 1), ("_spill.i", 1)], name="will do")),
    "seen": (("short-view", "'shop.over' reads or returns the array 'list'"),
             lambda shop: shop.create_collection("over", viewOn="seen", pipeline=[]),
             lambda shop: shop.over.drop()),
    "joined": (("short-view", "'shop.joins' reads or returns the array 'list'"), lambda shop: shop.create_collection(
        "joins", viewOn="none", pipeline=[{"$lookup": {"from": "joined", "as": "a", "pipeline": []}}]),
        lambda shop: shop.joins.drop()),
    "large": (("large-document", "at 16 MB writes fail"),
              lambda shop: shop.large.insert_one({"_id": 1, "list": ["x" * MEGABYTE] * 13}),
              lambda shop: shop.large.delete_many({})),
    "wide": (("large-document", "move other fields of it elsewhere"),
             lambda shop: shop.wide.insert_one({"_id": 1, "list": [1], "other": ["x" * MEGABYTE] * 13}),
             lambda shop: shop.wide.delete_many({})),
    "twice": (("foreign-overflow", "Spillway did not write"),
              lambda shop: shop.twice_list_overflow.insert_one({"main": 1, "part": [1]}),
              lambda shop: shop.twice_list_overflow.drop()),
}


@pytest.mark.parametrize("name", IN_THE_WAY)
def test_what_stands_in_a_rules_way_is_found_until_it_is_mended(cluster, shop, name):
    (code, words), make, mend = IN_THE_WAY[name]
    ruled = rule(name, flag={"field": "more", "value": True})
    make(shop)
    (finding,) = findings(cluster.members, ruled)
    assert (finding["code"], finding["rule"]) == (code, name)
    assert words in finding["what"] + finding["remedy"]
    mend(shop)
    assert findings(cluster.members, ruled) == []


def test_where_the_overflow_lies_elsewhere_or_is_fenced_it_is_noted(cluster, shop):
    shop.client.apart.create_collection("tails", validator={"main": {"$type": "int"}})
    shop.apart.insert_one({"_id": 1, "list": [{"a": 1}] * 9})
    for layout in ("batches", "elements"):
        overflow = {"collection": "apart.tails", "link": "main", "layout": layout}
        ruled = {**rule("apart"), "overflow": {**overflow, **({"array": "part"} if layout == "batches" else {})}}
        with configured(cluster.members, ruled) as spillway:
            said = look(spillway)
        assert said["findings"] == [] and {"overflow-database", "validator"} <= set(kinds(said["notes"]))


def test_of_many_the_first_are_named_and_the_rest_is_counted(cluster, shop):
    shop.many_list_overflow.insert_many({"main": i, "part": [1]} for i in range(23))
    with configured(cluster.members, rule("many")) as spillway:
        said = look(spillway)
    assert kinds(said["findings"]) == ["foreign-overflow"] * 20
    assert any(re.fullmatch("and 3 more .*", note["what"])
               for note in said["notes"] if note["kind"] == "more"), said["notes"]
    shop.many_list_overflow.drop()


def test_a_view_over_a_view_is_found(cluster, shop):
    shop.create_collection("first", viewOn="base", pipeline=[])
    shop.create_collection("second", viewOn="first", pipeline=[])
    found = findings(cluster.members, rule("base"))
    assert {re.search("view '(.*?)'", finding["what"])[1] for finding in found} == {"shop.first", "shop.second"}


def test_a_view_of_other_fields_is_no_finding(cluster, shop):
    shop.create_collection("titles", viewOn="titled", pipeline=[{"$project": {"title": 1}}])
    shop.create_collection("of_titles", viewOn="titles", pipeline=[{"$match": {"title": "x"}}])
    assert findings(cluster.members, rule("titled")) == []


def test_an_index_that_the_rule_asks_for_is_not_missed(cluster, shop):
    shop.wanted.create_index("list")
    assert kinds(findings(cluster.members, rule("wanted"))) == ["overflow-index"]
    assert findings(cluster.members, rule("wanted", overflow={"indexes": [{"keys": {"part": 1}}]})) == []
    shop.wild.create_index("$**")
    with configured(cluster.members, rule("wild")) as spillway:
        said = look(spillway)
    assert said["findings"] == [] and any("the wildcard index '$**_1'" in note["what"] for note in said["notes"])


def test_the_published_index_of_link_and_number_is_the_one_that_is_there_anyway(cluster, shop):
    ruled = rule("numbered", settle="10ms",
                 overflow={"batch": {"field": "n"}, "indexes": [{"keys": {"main": 1, "n": 1}}]})
    assert findings(cluster.members, ruled) == []
    shop.numbered.insert_one({"_id": 1, "list": list(range(9))})
    with Spillway(cluster.members, [ruled]):  # which starts, and moves
        wait_for(lambda: "_spill" in shop.numbered.find_one(), "a move")
    assert shop.numbered_list_overflow.index_information()["main_1_n_1"]["unique"]
    shop.client.drop_database("spillway")


TAKEN = {"main_1_at_-1": [("at", 1)], "mine": [("main", 1), ("at", -1)]}


@pytest.mark.parametrize("name, options, count", [
    ("mine", {}, 0), ("mine", {"sparse": True}, 0), ("mine", {"hidden": True}, 1), ("main_1_at_-1", {}, 1)])
def test_an_index_of_the_rules_that_stands_there_already(cluster, shop, name, options, count):
    """Whatever it is called; what has its name, or is hidden, is found, and keeps nothing from being served."""
    shop.asked_list_overflow.drop()
    shop.asked.drop()
    shop.asked_list_overflow.create_index(TAKEN[name], name=name, **options)
    ruled = rule("asked", settle="10ms", overflow={"indexes": [{"keys": {"main": 1, "at": -1}}]})
    found = findings(cluster.members, ruled)
    assert kinds(found) == ["overflow-index"] * count and all(f"'{name}'" in finding["what"] for finding in found)
    shop.asked.insert_one({"_id": 1, "list": list(range(9))})
    with Spillway(cluster.members, [ruled]) as spillway:
        wait_for(lambda: "_spill" in shop.asked.find_one(), "a move")
        if count:
            assert spillway.says("an index of the rule could not be made")
        else:
            assert "an index of the rule could not be made" not in spillway.said()
    made = set(shop.asked_list_overflow.index_information()) - {"_id_", "main_1__spill.i_1"}
    assert made == {name} | ({"main_1_at_-1"} if options.get("sparse") else set())
    shop.client.drop_database("spillway")
    shop.asked.drop()


def operate(name, spillway, ruled):
    return subprocess.run([program(), name, "--config", spillway.file, "--rule", ruled, "--execute"],
                          capture_output=True, text=True, timeout=60, check=False)


def test_what_is_spilled_under_another_rule_is_found_as_serve_finds_it(cluster, shop):
    ruled = rule("spilled", gc_delay="0s")
    shop.spilled.insert_one({"_id": 1, "list": list(range(9))})
    with configured(cluster.members, ruled) as spillway:
        assert operate("migrate", spillway, "spilled").returncode == 0
        assert look(spillway)["findings"] == []
    flag = {"field": "more", "value": True}
    others = [rule("posts"), rule("spilled", overflow={"link": "other"}), rule("spilled", overflow={"array": "tail"}),
              rule("spilled", flag=flag), rule("posts", overflow={"collection": "spilled_list_overflow"})]
    for other in others:
        found = findings(cluster.members, other)
        assert "record" in kinds(found), other
        # The unique index that the tails are found by is never called too much.
        assert "index" not in kinds(found), found
        with configured(cluster.members, other) as spillway:
            said = spillway.refuses_to_start()
        assert any(finding["remedy"] in said or finding["what"].removeprefix("it ") in said
                   for finding in found), (found, said)
        assert "take the rule out" not in said
    with configured(cluster.members, ruled) as spillway:
        assert operate("undo", spillway, "spilled").returncode == 0
    assert findings(cluster.members, others[1]) == []


def test_a_pattern_is_looked_at_on_what_it_matches(cluster, shop):
    shop.client.tenant_1.posts.create_index("list", unique=True)
    shop.client.tenant_2.posts.insert_one({})
    (finding,) = findings(cluster.members, rule("posts", "tenant_*.posts"))
    assert "tenant_1.posts" in finding["what"]


def test_what_is_shown_to_applications_is_noted(cluster):
    ruled = rule("books", flag={"field": "more", "value": True}, expose=["flag"])
    with configured(cluster.members, ruled) as spillway:
        said = look(spillway)
    assert said["findings"] == [] and "exposed" in kinds(said["notes"])
    ruled = rule("books", reference={"field": "ref", "format": "{_id}_list"}, expose=["reference"])
    with configured(cluster.members, ruled) as spillway:
        (note,) = [note for note in look(spillway)["notes"] if note["kind"] == "exposed"]
    assert "names no collection" in note["what"] and "find nothing" in note["what"]


def test_who_keeps_the_counters_is_noted(cluster):
    for counters, words in (({"total": "sold"}, "write owner: app"),
                            ({"total": "sold", "owner": "app"}, "the application keeps 'sold' itself")):
        with configured(cluster.members, rule("books", counters=counters)) as spillway:
            (note,) = [note for note in look(spillway)["notes"] if note["kind"] == "counters"]
        assert words in note["what"]


# The servers as such.

def test_a_member_without_a_listener_is_found(cluster):
    (finding,) = findings(cluster.members[:1], rule())
    assert finding["kind"] == "member" and cluster.members[1].address in finding["what"]


def test_a_server_that_does_not_answer_is_found(cluster):
    class Nobody:
        address = f"127.0.0.1:{free_port()}"

    (finding,) = findings([*cluster.members, Nobody], rule())
    assert finding["kind"] == "server" and Nobody.address in finding["what"]


def fake(version, **hello):
    server = FakeServer(hello={**HELLO, **hello})
    server.replies["buildInfo"] = lambda command: {"version": version, "ok": 1.0}
    return server


def test_versions_are_judged():
    with fake("4.4.29") as old, fake("6.0.5") as new:
        upstream = {"uri": new.uri}
        (finding,) = findings([old], rule(), upstream=upstream)
        assert finding["kind"] == "version" and "4.4.29" in finding["what"] and "6.0" in finding["remedy"]
        with fake("7.0.1") as newer:
            (finding,) = findings([new, newer], rule(), upstream=upstream)
        assert "6.0.5 and 7.0.1" in finding["what"]
        assert findings([new], rule(), upstream=upstream) == []


def test_sharding_is_found():
    with fake("6.0.5", msg="isdbgrid") as router:
        assert kinds(findings([router], rule(), upstream={"uri": router.uri})) == ["sharding"]
    with fake("6.0.5") as shard:
        shard.replies["shardingState"] = lambda command: {"enabled": True, "ok": 1.0}
        assert kinds(findings([shard], rule(), upstream={"uri": shard.uri})) == ["sharding"]


def test_clients_that_go_around_are_told_from_those_that_come_through(cluster):
    with Spillway(cluster.members, [rule("clients")]) as spillway, \
            pymongo.MongoClient("127.0.0.1", spillway.port, directConnection=True, appname="good") as through, \
            cluster.client(appname="nightly export") as around, \
            cluster.members[1].client(appname="report", readPreference="secondary") as aside:
        for client in (through, around, aside):
            client.shop.clients.find_one()
        found = look(spillway)["findings"]
        names = [finding["what"] for finding in found]
        assert set(kinds(found)) == {"direct-client"}
        for application in ("'nightly export'", "'report'"):
            assert any(application in name and "PyMongo" in name and "127.0.0.1" in name for name in names)
        assert not any("'good'" in name for name in names)
        with contextlib.ExitStack() as stack:
            for number in range(23):  # beside the connections of this test's own
                stack.enter_context(cluster.client(appname=f"crowd {number}")).admin.command("ping")
            said = look(spillway)
            named = {finding["what"] for finding in said["findings"] if finding["kind"] == "direct-client"}
            assert len(named) == 20
            assert any(re.fullmatch(r"and \d+ more connections that go around", note["what"])
                       for note in said["notes"]), said["notes"]


def test_a_server_that_is_lost_meanwhile_is_told():
    with fake("6.0.5") as server:
        def lose(command):
            server.refuse()
            raise OSError(command)
        server.replies["listCollections"] = lose
        with configured([server], rule(), upstream={"uri": server.uri}) as spillway:
            run = check(spillway)
            assert run.returncode == 3 and "the server was lost meanwhile" in run.stderr, run.stderr


def test_where_no_server_answers_only_the_file_is_checked(cluster):
    class Nobody:
        address = f"127.0.0.1:{free_port()}"

    with configured([Nobody], rule()) as spillway:
        run = check(spillway)
        assert run.returncode == 3 and "name: books" in run.stdout and "only the file" in run.stderr
        said = json.loads(check(spillway, "--json").stdout)
        assert (said["connected"], said["ended"]) == (False, "lost") and said["error"]
        assert said["rules"][0]["max_bytes"] == MEGABYTE and said["rules"][0]["overflow"]["layout"] == "batches"
        spillway.file.write_text("rules: 7\n")
        run = check(spillway)
        assert run.returncode == 2 and "spillway.yaml:1:" in run.stderr
        said = json.loads(check(spillway, "--json").stdout)
        assert said["ended"] == "bad file" and "spillway.yaml:1:" in said["error"]
    assert subprocess.run([program(), "check"], capture_output=True, check=False).returncode == 2


def test_it_only_reads(cluster, shop):
    names = set(shop.client.list_database_names())
    before = shop.command("dbHash")["collections"]
    findings(cluster.members, rule("never"), rule("large"))
    assert shop.command("dbHash")["collections"] == before and set(shop.client.list_database_names()) == names


def test_an_upstream_that_takes_no_writes_is_named(cluster):
    secondary = next(member for member in cluster.members if member is not cluster.find_primary())
    with configured(cluster.members, rule(),
                    upstream={"uri": f"mongodb://{secondary.address}/?directConnection=true"}) as spillway:
        run = operate("migrate", spillway, "books")
    assert run.returncode == 3 and f"'{secondary.address}' does not take writes" in run.stderr, run.stderr


# Rights.

@pytest.fixture(scope="module")
def guarded():
    with Cluster(secure=True) as made:
        yield made


def test_the_role_that_is_printed_is_enough(guarded):
    rules = [rule("books", gc_delay="0s"), rule("posts", "blog.posts", overflow={"collection": "other.posts"})]
    with guarded.client() as administrator:
        administrator.admin.command("createUser", "mover", pwd="secret", roles=[{"role": "read", "db": "shop"}])
        upstream = {"uri": f"mongodb://mover:secret@{guarded.primary.address}/?authSource=admin"}
        with configured([guarded.primary], *rules, upstream=upstream) as spillway:
            notes = [note["what"] for note in look(spillway)["notes"]]
        for words in ("the collections of 'blog' could not be looked at",
                      "the indexes of 'other.posts' could not be looked at",
                      "documents that are never moved could not be looked for",
                      "documents near 16 MB could not be looked for",
                      "overflow documents that Spillway did not write could not be looked for"):
            assert any(note.startswith(f"{words}: not authorized on") and note.endswith(": ... }")
                       for note in notes), words
        assert not any("lsid" in note or "signature" in note for note in notes)
        (finding,) = findings([guarded.primary], *rules, upstream=upstream)
        assert finding["kind"] == "rights"
        for words in ("update on 'shop.books'", "createIndex, dropIndex, dropCollection on 'other.posts'",
                      "listCollections on database 'blog'", "insert, update, remove on 'spillway.rules'",
                      "inprog, replSetGetStatus on the cluster"):
            assert words in finding["what"]
        role = json.loads(re.search(r"createRole\((.*?)\);", finding["remedy"])[1])
        administrator.admin.command("createRole", role["role"], privileges=role["privileges"], roles=role["roles"])
        administrator.admin.command("grantRolesToUser", "mover", roles=["spillway"])
        administrator.admin.command("revokeRolesFromUser", "mover", roles=[{"role": "read", "db": "shop"}])
        administrator.shop.books.insert_one({"_id": 1, "list": list(range(9))})
        assert "db.getSiblingDB('admin').grantRolesToUser('mover'" in finding["remedy"]
        # Another rule: the role is there already, and the account has it.
        (finding,) = findings([guarded.primary], *rules, rule("new", "news.items"), upstream=upstream)
        assert "updateRole('spillway', {" in finding["remedy"] and "grantRolesToUser" not in finding["remedy"]
        role = json.loads(re.search(r"updateRole\('spillway', (.*?)\);", finding["remedy"])[1])
        administrator.admin.command("updateRole", "spillway", **role)
        assert findings([guarded.primary], *rules, rule("new", "news.items"), upstream=upstream) == []
    with configured([guarded.primary], *rules, upstream=upstream) as spillway:
        said = look(spillway)
        assert said["findings"] == []
        spillway.start()  # it is enough for serve, too
        with guarded.client() as administrator:
            wait_for(lambda: "_spill" in administrator.shop.books.find_one(), "a move")
            assert administrator.spillway.rules.count_documents({}) == 2
            assert "layout.overflow_1" in administrator.spillway.rules.index_information()
        with guarded.client() as administrator:
            inprog = {"privileges": [{"resource": {"cluster": True}, "actions": ["inprog"]}]}
            administrator.admin.command("revokePrivilegesFromRole", "spillway", **inprog)
            said = look(spillway)
            assert any(note["what"].startswith("who is connected could not be looked at")
                       for note in said["notes"]), said["notes"]
            administrator.admin.command("grantPrivilegesToRole", "spillway", **inprog)
        spillway.stop(20)
        for command in ("migrate", "verify", "undo"):
            execute = {"migrate": ["--execute", "--max-lag", "5"], "undo": ["--execute"]}.get(command, [])
            run = subprocess.run([program(), command, "--config", spillway.file, "--rule", "books", *execute],
                                 capture_output=True, text=True, timeout=60, check=False)
            assert run.returncode == 0, run.stderr
        with guarded.client() as administrator:
            assert administrator.shop.list_collection_names() == ["books"]
            assert administrator.shop.books.find_one() == {"_id": 1, "list": list(range(9))}
            assert administrator.spillway.rules.distinct("rule") == ["posts"]


def test_a_pattern_needs_rights_on_what_it_matches(guarded):
    ruled = rule("posts", "tenant_*.posts", overflow={"collection": "tails"})
    actions = {"posts": ["find", "update", "listIndexes"], "": ["listCollections"],
               "tails": ["find", "insert", "update", "remove", "listIndexes", "createIndex", "dropIndex",
                                       "dropCollection"]}
    common = [{"resource": {"cluster": True}, "actions": ["listDatabases", "inprog", "replSetGetStatus"]},
              {"resource": {"db": "spillway", "collection": "rules"},
               "actions": ["find", "insert", "update", "remove"]}]
    upstream = {"uri": f"mongodb://tenant:secret@{guarded.primary.address}/?authSource=tenants"}
    with guarded.client() as administrator:
        administrator.drop_database("spillway")
        for name in ("tenant_1", "tenant_2"):
            administrator[name].posts.insert_one({"list": [1]})
        administrator.admin.command("createRole", "tenants", privileges=common, roles=[])
        administrator.tenants.command("createUser", "tenant", pwd="secret", roles=[{"role": "tenants", "db": "admin"}])
        found = findings([guarded.primary], ruled, upstream=upstream)
        assert kinds(found) == ["rights"], found
        (finding,) = found
        assert "update, listIndexes on 'tenant_1.posts'" in finding["what"] and "'tenant_2.posts'" in finding["what"]
        assert "db.getSiblingDB('tenants').grantRolesToUser('tenant'" in finding["remedy"]
        for databases in ((), ("tenant_1",), ("tenant_1", "tenant_2"), ("",)):
            given = [{"resource": {"db": database, "collection": collection}, "actions": each}
                     for database in databases for collection, each in actions.items()]
            administrator.admin.command("updateRole", "tenants", privileges=common + given)
            found = kinds(findings([guarded.primary], ruled, upstream=upstream))
            assert ("rights" in found) == (len(databases) < 2 and "" not in databases), databases
        for name in ("tenant_1", "tenant_2"):
            administrator.drop_database(name)


def test_a_wrong_password_is_called_that(guarded):
    upstream = {"uri": f"mongodb://administrator:wrong@{guarded.primary.address}/?authSource=admin"}
    with configured([guarded.primary], rule(), upstream=upstream) as spillway:
        run = check(spillway)
    assert run.returncode == 3 and "look at its user and password" in run.stderr and "no server" not in run.stderr


def test_a_missing_account_is_found(guarded):
    (finding,) = findings([guarded.primary], rule())
    assert finding["kind"] == "rights" and "names none" in finding["what"] and "createRole" in finding["remedy"]
    found = findings([guarded.primary], rule("posts", "tenant_*.posts", overflow={"collection": "tails"}))
    assert any(each["kind"] == "unseen" and "which databases 'tenant_*' matches could not be seen" in each["what"]
               for each in found), found
