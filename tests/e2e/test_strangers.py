"""What a client may not do at mongod has no effect through Spillway either: mongod's own answer, and nothing made,
moved, looked at or told for it.
"""

import contextlib
import json

import pymongo
import pytest
from bson import Int64

from support import exact
from support.cluster import Cluster
from support.process import wait_for
from support.scram import sign_in
from support.spillway import Spillway
from support.wire import MORE_TO_COME, Connection

pytestmark = pytest.mark.share(3)
PASSWORD = "the same for all"
THROUGH, STRAIGHT = "thru", "drct"  # names of one length: replies are compared as bytes
OVERFLOW = "secret_extra"
RULE = {
    "name": "secret-rule", "namespace": f"{THROUGH}_*.books", "array": "list", "threshold": 3, "settle": "1ms",
    "gc_delay": "0s", "sweep": "off",
    "overflow": {"collection": OVERFLOW, "layout": "batches", "link": "book", "array": "part"},
}
SECRETS = ("secret", "book", "list", "Spillway", "spill")
ON_MAIN = ["find", "insert", "update", "remove"]
# What each user may do in a database of its own, by collection.
USERS = {
    "nobody": None,
    "nothing": {},
    "elsewhere": {"others": [*ON_MAIN, "collMod", "createIndex"]},
    "reader": {"books": ["find"]},
    "writer": {"books": ON_MAIN},
    "both": {"books": ON_MAIN, OVERFLOW: ON_MAIN},
}
DOCUMENTS = [{"_id": 1, "list": [1, 2], "words": "one"}, {"_id": 2, "list": [3], "words": "two"}]
LONG = {"_id": 9, "list": list(range(9))}


def lookup(name):
    return [{"$lookup": {"from": name, "localField": "list", "foreignField": "list", "as": "found"}}]


# What is run on each database; {db} is its name.
COMMANDS = {
    "find": {"find": "books"},
    "find with a limit of time": {"find": "books", "maxTimeMS": 5000, "filter": {"x": 1}},
    "find by a hint": {"find": "books", "hint": "x"},
    "find by the array": {"find": "books", "filter": {"list": 3}},
    "find of a slice": {"find": "books", "projection": {"list": {"$slice": 1}}},
    "find a text": {"find": "books", "filter": {"$text": {"$search": "one"}}},
    "find, refused": {"find": "books", "filter": {"$where": "this.list[0] == 3"}},
    "find in parts, refused": {"find": "books", "filter": {"list": {"$in": [1, 2]}, "$or": [{"list": 1}, {"list": 2}]},
                               "projection": {"list.$": 1}},
    "find, malformed": {"find": "books", "filter": 5},
    "count": {"count": "books", "query": {}},
    "count by the array": {"count": "books", "query": {"list": 3}},
    "count by a hint": {"count": "books", "query": {}, "hint": "x"},
    "distinct": {"distinct": "books", "key": "list"},
    "aggregate": {"aggregate": "books", "pipeline": [{"$match": {"list": 3}}], "cursor": {}},
    "aggregate a text": {"aggregate": "books", "pipeline": [{"$match": {"$text": {"$search": "one"}}}], "cursor": {}},
    "lookup": {"aggregate": "others", "pipeline": lookup("books"), "cursor": {}},
    "union": {"aggregate": "others", "pipeline": [{"$unionWith": "books"}], "cursor": {}},
    "out, refused": {"aggregate": "others", "pipeline": [{"$out": "books"}], "cursor": {}},
    "overflow, read": {"find": OVERFLOW},
    "overflow, written": {"insert": OVERFLOW, "documents": [{"_id": 1}]},
    "change stream": {"aggregate": "books", "pipeline": [{"$changeStream": {}}], "cursor": {}},
    "update": {"update": "books", "updates": [{"q": {"_id": 1}, "u": {"$push": {"list": 3}}}]},
    "update by the array": {"update": "books", "updates": [{"q": {"list": 3}, "u": {"$push": {"list": 4}}}]},
    "update, edits": {"update": "books", "updates": [{"q": {"_id": 1}, "u": {"$pull": {"list": 3}}}]},
    "update, refused": {"update": "books", "updates": [{"q": {"_id": 1}, "u": {"$set": {"_spill.list": 3}}}]},
    "delete": {"delete": "books", "deletes": [{"q": {"_id": 7}, "limit": 1}]},
    "delete by the array": {"delete": "books", "deletes": [{"q": {"list": 77}, "limit": 0}]},
    "findAndModify": {"findAndModify": "books", "query": {"_id": 1}, "update": {"$push": {"list": 4}}},
    "findAndModify, removes": {"findAndModify": "books", "query": {"list": 77}, "remove": True},
    "insert": {"insert": "books", "documents": [LONG]},
    "collMod": {"collMod": "books", "index": {"name": "x", "hidden": True}},
    "collMod, refused": {"collMod": "books", "validator": {"list": 5}},
    "createIndexes": {"createIndexes": "books", "indexes": [{"key": {"list": 1}, "name": "list_1"}]},
    "createIndexes, refused": {"createIndexes": "books",
                               "indexes": [{"key": {"list": 1}, "name": "l", "unique": True}]},
    "create a view, refused": {"create": "view", "viewOn": "books", "pipeline": []},
    "dropIndexes": {"dropIndexes": "books", "index": "list_1"},
    "rename, refused": {"renameCollection": "{db}.books", "to": "{db}.elsewhere"},
    "rename": {"renameCollection": "{db}.books", "to": "{db}.books"},
    "explain": {"explain": {"find": "books", "filter": {"list": 3}}},
    "explain an edit": {"explain": {"update": "books", "updates": [{"q": {"_id": 1}, "u": {"$pull": {"list": 3}}}]}},
    "getMore": {"getMore": Int64(5), "collection": "books"},
    "mapReduce, refused": {"mapReduce": "books", "map": "function(){}", "reduce": "function(){}", "out": {"inline": 1}},
    "applyOps, refused": {"applyOps": [{"op": "i", "ns": "{db}.books", "o": {"_id": 5}}]},
    "capped, refused": {"convertToCapped": "books", "size": 4096},
    "drop": {"drop": "books"},
    "dropDatabase": {"dropDatabase": 1},
}
ON_ADMIN = ("renameCollection", "applyOps")


def named(command, database):
    """The command with the database's name in it, as (database, command)."""
    body = json.loads(json.dumps(command).replace("{db}", database))
    if "getMore" in body:
        body["getMore"] = Int64(body["getMore"])
    return ("admin" if next(iter(body)) in ON_ADMIN else database), body


@pytest.fixture(scope="module")
def cluster():
    with Cluster(secure=True, durable=False) as made:
        with made.client() as direct:
            # Every command in the log, with the application that sent it.
            direct.admin.command({"profile": 0, "slowms": -1, "sampleRate": 1.0})
            direct.admin.command("createUser", "keeper", pwd=PASSWORD,
                                 roles=["readWriteAnyDatabase", "dbAdminAnyDatabase"])
        yield made


@pytest.fixture(scope="module")
def spillway(cluster):
    uri = f"mongodb://keeper:{PASSWORD}@{cluster.primary.address}/?authSource=admin".replace(" ", "%20")
    with Spillway([cluster.primary], [RULE], {"upstream": {"uri": uri}}) as made:
        yield made


@pytest.fixture
def direct(cluster):
    with cluster.client() as client:
        yield client


def databases_of(user):
    return f"{THROUGH}_{user}", f"{STRAIGHT}_{user}"


def make_user(direct, user):
    """Both databases filled and, where it is one, a user who may do the same in both; the database of the user's
    name is emptied."""
    for database in databases_of(user):
        direct.drop_database(database)
        direct[database].books.insert_many(DOCUMENTS)
        direct[database].books.create_index([("words", "text")])
        direct[database].others.insert_one({"list": 3})
    with contextlib.suppress(pymongo.errors.OperationFailure):
        direct.admin.command("dropUser", user)
        direct.admin.command("dropRole", f"role of {user}")
    if USERS[user] is None:
        return
    privileges = [{"resource": {"db": database, "collection": collection}, "actions": actions}
                  for database in databases_of(user) for collection, actions in USERS[user].items()]
    direct.admin.command("createRole", f"role of {user}", roles=[], privileges=privileges)
    direct.admin.command("createUser", user, pwd=PASSWORD, roles=[f"role of {user}"])


@contextlib.contextmanager
def connected(server, user):
    with Connection(server.port) as connection:
        if USERS.get(user) is not None:
            sign_in(connection, user, PASSWORD)
        yield connection


NOT_COMPARED = ("$clusterTime", "operationTime")


def answered(connection, command, database):
    """What is said to the command: the whole error, or that there is none."""
    on, body = named(command, database)
    reply = connection.call(exact.document({**body, "$db": on})).body
    pairs = exact.parse(reply.replace(THROUGH.encode(), STRAIGHT.encode()))
    if exact.plain(exact.get(pairs, "ok")):
        return "done"
    return exact.plain((exact.DOCUMENT, [pair for pair in pairs if pair[0] not in NOT_COMPARED]))


def account_commands(cluster, database):
    """What Spillway's own account, or anything that is no client, has sent on a namespace of the database."""
    log = (cluster.folder / f"{cluster.primary.name}.log").read_text()
    entries = [json.loads(line)["attr"]
               for line in log.splitlines() if '"appName":"spillway"' in line and "command" in line]
    return [entry for entry in entries
            if entry.get("ns", "").startswith(f"{database}.") or entry.get("command", {}).get("$db") == database]


def stored(direct, database):
    """Collections, indexes and documents of a database."""
    return {name: (sorted(direct[database][name].index_information()), list(direct[database][name].find().sort("_id")))
            for name in direct[database].list_collection_names()}


def is_unauthorized(answer):
    return answer != "done" and answer["code"] == 13


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("user", ["nobody", "nothing", "elsewhere"])
def test_a_stranger_gets_mongods_own_answer(cluster, spillway, strangers, user, name):
    through, straight = databases_of(user)
    with connected(spillway, user) as one, connected(cluster.primary, user) as other:
        got, expected = answered(one, COMMANDS[name], through), answered(other, COMMANDS[name], straight)
    assert got == expected
    assert got != "done"


@pytest.fixture(scope="module")
def strangers(cluster, spillway):
    """Users without rights on books; behind their tests nothing of theirs has changed, and nobody has looked at it."""
    users = ("nobody", "nothing", "elsewhere")
    with cluster.client() as direct:
        for user in users:
            make_user(direct, user)
        before = {each: stored(direct, each) for user in users for each in databases_of(user)}
        yield
        assert {each: stored(direct, each) for each in before} == before
        records = str(list(direct.spillway.rules.find()))
        assert not any(f"{THROUGH}_{user}" in records for user in users)
        for user in users:
            assert account_commands(cluster, databases_of(user)[0]) == []


# Who may not read the overflow is told so (13) where mongod would run the command: docs/consistency.md says where.
# What is refused
# with 115 mongod would run.
@pytest.mark.parametrize("user", ["reader", "writer", "both"])
def test_who_has_rights_gets_mongods_verdict(cluster, spillway, direct, user):
    make_user(direct, user)
    through, straight = databases_of(user)
    for name, command in COMMANDS.items():
        for known in (False, True):
            with connected(spillway, user) as one, connected(cluster.primary, user) as other:
                if known:
                    assert answered(one, {"find": "books", "projection": {"_id": 1}}, through) == "done"
                got, expected = answered(one, command, through), answered(other, command, straight)
            if is_unauthorized(expected):
                assert got == expected, name
            elif is_unauthorized(got):
                assert user != "both" and ("overflow" in got["errmsg"]
                                           or OVERFLOW in got["errmsg"]), (name, got, expected)


def test_thirty_databases_of_a_strangers_are_not_made(cluster, spillway, direct):
    before = direct.list_database_names()
    with connected(spillway, "nobody") as connection:
        for number in range(30):
            for name in ("find by a hint", "count", "collMod", "find a text", "insert", "update, edits", "drop"):
                assert answered(connection, COMMANDS[name], f"{THROUGH}_many{number}")["code"] == 13
    assert direct.list_database_names() == before
    assert account_commands(cluster, f"{THROUGH}_many0") == []


@pytest.mark.parametrize("name", ["insert", "update by the array", "update, edits", "update", "delete by the array"])
def test_a_write_without_an_answer_does_nothing_for_a_stranger(cluster, spillway, direct, strangers, name):
    with connected(spillway, "nothing") as connection:
        on, body = named(COMMANDS[name], f"{THROUGH}_nothing")
        request = exact.document({**body, "$db": on, "writeConcern": {"w": 0}})
        assert connection.call(request, flags=MORE_TO_COME) is None
        # Its reply tells that what came before is done.
        assert connection.command("admin", {"ping": 1})["ok"] == 1
    assert sorted(each["_id"] for each in direct[f"{THROUGH}_nothing"].books.find()) == [1, 2]


def test_nothing_is_made_for_a_collection_that_is_not_there(cluster, spillway, direct):
    """Whoever may do all he likes, asks for it: mongod makes nothing either."""
    before = direct.list_database_names()
    with pymongo.MongoClient("127.0.0.1", spillway.port, directConnection=True, username="keeper",
                             password=PASSWORD) as client:
        books = client[f"{THROUGH}_none"].books
        assert books.count_documents({}) == books.count_documents({"list": 3}) == 0
        assert list(books.find({"list": 1}, hint="_id_")) == []
        assert list(books.find({}, hint=[("_id", 1)])) == []
        for operation in (lambda: books.find_one({}, hint="x"), lambda: books.find_one({"$text": {"$search": "x"}})):
            with contextlib.suppress(pymongo.errors.OperationFailure):
                operation()
        books.drop()
        assert books.delete_many({"list": 3}).deleted_count == 0
        assert books.update_many({"list": 3}, {"$pull": {"list": 3}}).modified_count == 0
    assert direct.list_database_names() == before


def test_an_overflow_is_made_when_the_first_tail_moves(cluster, spillway, direct):
    """Behind a look at what was not there yet."""
    database = direct[f"{THROUGH}_late"]
    with pymongo.MongoClient("127.0.0.1", spillway.port, directConnection=True, username="keeper",
                             password=PASSWORD) as client:
        books = client[f"{THROUGH}_late"].books
        with contextlib.suppress(pymongo.errors.OperationFailure):
            books.find_one({}, hint="x")
        assert f"{THROUGH}_late" not in direct.list_database_names()
        books.insert_one(LONG)
        wait_for(lambda: len(database.books.find_one()["list"]) == 3, "the tail to move")
        assert books.find_one() == LONG
    assert len(database[OVERFLOW].index_information()) > 1


@pytest.mark.parametrize("command", [
    {"ping": "books"}, {"buildInfo": "books"}, {"connectionStatus": "books"}, {"nonsense": "books"}, {"find": 5}])
def test_a_command_that_needs_no_rights_opens_nothing(spillway, strangers, command):
    with connected(spillway, "nobody") as connection:
        said = connection.command(f"{THROUGH}_nobody", command)
        assert not any(secret in str(said) for secret in SECRETS if secret != "book"), said
        refused = connection.command(f"{THROUGH}_nobody", COMMANDS["find, refused"])
        assert (refused["code"], refused["errmsg"]) == (13, "command find requires authentication")


def bulk_write_of_the_overflow(spillway, user):
    command = {"bulkWrite": 1, "ops": [{"delete": 0, "filter": {}}],
               "nsInfo": [{"ns": f"{databases_of(user)[0]}.{OVERFLOW}"}]}
    with connected(spillway, user) as connection:
        return connection.command("admin", command)


@pytest.mark.parametrize("user", ["nobody", "nothing", "elsewhere"])
def test_a_bulk_write_tells_a_stranger_of_no_overflow(spillway, strangers, user):
    said = bulk_write_of_the_overflow(spillway, user)
    assert said["code"] == 13 and "Spillway" not in said["errmsg"], said


def test_a_bulk_write_of_the_overflow_is_refused_by_name(spillway, direct):
    for user in ("writer", "both"):
        make_user(direct, user)
    said = bulk_write_of_the_overflow(spillway, "writer")
    assert said["code"] == 13 and "Spillway" not in said["errmsg"], said
    said = bulk_write_of_the_overflow(spillway, "both")
    assert said["code"] == 115 and "secret-rule" in said["errmsg"] and OVERFLOW in said["errmsg"], said


def test_rights_are_not_kept_over_another_sign_in(cluster, spillway, direct):
    """What was accepted of one user says nothing of the next on the same connection."""
    make_user(direct, "both")
    with connected(spillway, "both") as connection:
        assert answered(connection, COMMANDS["find"], f"{THROUGH}_both") == "done"
        assert connection.command("admin", {"logout": 1})["ok"] == 1
        said = connection.command(f"{THROUGH}_both", COMMANDS["find, refused"])
    assert (said["code"], said["errmsg"]) == (13, "command find requires authentication")
