"""Each kind of user, each command, on a ruled collection with a spilled document: mongod's verdict is the same as
direct, and nothing is sent for a user that the user could not have sent.
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
from support.wire import Connection

PASSWORD = "the same for all"
THROUGH, STRAIGHT = "thru", "drct"  # names of one length: replies are compared as texts
OVERFLOW = "overflow"
RULE = {
    "name": "lists", "namespace": f"{THROUGH}.books", "array": "list", "threshold": 3, "settle": "1ms",
    "gc_delay": "0s", "sweep": "off", "quiet": "1ms",
    "overflow": {"collection": OVERFLOW, "layout": "batches", "link": "book", "array": "part"},
}
SHORT, LONG = {"_id": 1, "list": [1, 2], "x": 1}, {"_id": 9, "list": list(range(9)), "x": 9}
READ = ["find", "collStats", "listIndexes", "changeStream"]
WRITE = [*READ, "insert", "update", "remove", "createCollection", "createIndex", "dropCollection", "dropIndex",
         "convertToCapped", "renameCollectionSameDB"]
# What each user may do in both databases, by collection; or a role in them; None does not sign in.
USERS = {
    "nobody": None,
    "elsewhere": "other",
    "view": {"seen": ["find"]},
    "read": "read",
    "main": {"books": WRITE},
    "both": "readWrite",
}
WITHOUT_RIGHTS = ("nobody", "elsewhere", "view")
PULL = {"q": {"_id": 9}, "u": {"$pull": {"list": 5}}}


def aggregate(*stages, on="books"):
    return {"aggregate": on, "pipeline": list(stages), "cursor": {}}


def find_and(**more):
    return {"findAndModify": "books", "query": {"_id": 9}, **more}


LOOKUP = {"$lookup": {"from": "books", "localField": "x", "foreignField": "list", "as": "found"}}
COMMANDS = {
    "find": {"find": "books"},
    "find one": {"find": "books", "filter": {"_id": 9}, "limit": 1},
    "find by the array": {"find": "books", "filter": {"list": 7}},
    "find a slice": {"find": "books", "projection": {"list": {"$slice": -2}}},
    "find by a hint": {"find": "books", "hint": "x_1"},
    "find, malformed": {"find": "books", "filter": 5},
    "find the view": {"find": "seen"},
    "count": {"count": "books", "query": {}},
    "count by the array": {"count": "books", "query": {"list": 7}},
    "count the view": {"count": "seen", "query": {}},
    "distinct": {"distinct": "books", "key": "list"},
    "aggregate": aggregate({"$unwind": "$list"}, {"$group": {"_id": "$list"}}),
    "lookup": aggregate(LOOKUP, on="others"),
    "union": aggregate({"$unionWith": "books"}, on="others"),
    "out": aggregate({"$out": "copies"}),
    "out of another": aggregate({"$out": "books"}, on="others"),
    "merge": aggregate({"$merge": "books"}, on="others"),
    "merge elsewhere": aggregate({"$merge": "copies"}),
    "insert": {"insert": "books", "documents": [{"_id": 20, "list": [1]}]},
    "insert a duplicate": {"insert": "books", "documents": [{"_id": 1}]},
    "push": {"update": "books", "updates": [{"q": {"_id": 9}, "u": {"$push": {"list": 10}}}]},
    "edit": {"update": "books", "updates": [PULL]},
    "edit by the array": {"update": "books", "updates": [{"q": {"list": 7}, "u": {"$set": {"list.$": 70}}}]},
    "edit all": {"update": "books", "updates": [{"q": {}, "u": {"$pop": {"list": 1}}, "multi": True}]},
    "update, malformed": {"update": "books", "updates": [{"q": {}, "u": {"$nonsense": 1}}]},
    "delete": {"delete": "books", "deletes": [{"q": {"_id": 9}, "limit": 1}]},
    "delete by the array": {"delete": "books", "deletes": [{"q": {"list": 7}, "limit": 0}]},
    "findAndModify": find_and(update={"$push": {"list": 11}}),
    "findAndModify, edits": find_and(update={"$pull": {"list": 5}}, new=True),
    "findAndModify, removes": find_and(remove=True),
    "bulkWrite": {"bulkWrite": 1, "ops": [{"update": 0, "filter": {"_id": 9}, "updateMods": PULL["u"]}],
                  "nsInfo": [{"ns": "{db}.books"}]},
    "getMore": {"getMore": Int64(5), "collection": "books"},
    "killCursors": {"killCursors": "books", "cursors": [Int64(5)]},
    "explain": {"explain": {"find": "books", "filter": {"list": 7}}},
    "explain an edit": {"explain": {"update": "books", "updates": [PULL]}},
    "createIndexes": {"createIndexes": "books", "indexes": [{"key": {"list": 1}, "name": "list_1"}]},
    "dropIndexes": {"dropIndexes": "books", "index": "x_1"},
    "listIndexes": {"listIndexes": "books"},
    "collMod": {"collMod": "books", "index": {"name": "x_1", "hidden": True}},
    "create": {"create": "books"},
    "create another": {"create": "made"},
    "create a view": {"create": "made", "viewOn": "books", "pipeline": []},
    "drop": {"drop": "books"},
    "drop the overflow": {"drop": OVERFLOW},
    "find in the overflow": {"find": OVERFLOW},
    "insert into the overflow": {"insert": OVERFLOW, "documents": [{"_id": 5}]},
    "rename": {"renameCollection": "{db}.books", "to": "{db}.made"},
    "rename onto itself": {"renameCollection": "{db}.books", "to": "{db}.books"},
    "convertToCapped": {"convertToCapped": "books", "size": 4096},
    "collStats": {"collStats": "books"},
    "validate": {"validate": "books"},
    "dbStats": {"dbStats": 1},
    "listCollections": {"listCollections": 1},
    "listCollections by name": {"listCollections": 1, "nameOnly": True, "authorizedCollections": True},
    "mapReduce": {"mapReduce": "books", "map": "function(){}", "reduce": "function(){}", "out": {"inline": 1}},
    "applyOps": {"applyOps": [{"op": "i", "ns": "{db}.books", "o": {"_id": 5}}]},
    "change stream": aggregate({"$changeStream": {}}),
    "commitTransaction": {"commitTransaction": 1},
    "abortTransaction": {"abortTransaction": 1},
    "endSessions": {"endSessions": []},
    "planCacheClear": {"planCacheClear": "books"},
    "hello": {"hello": 1},
    "ping": {"ping": 1},
    "buildInfo": {"buildInfo": 1},
    "serverStatus": {"serverStatus": 1},
    "no command": {"nonsense": "books"},
    "dropDatabase": {"dropDatabase": 1},
}
ON_ADMIN = ("bulkWrite", "renameCollection", "applyOps", "commitTransaction", "abortTransaction", "serverStatus")
# What mongod runs and Spillway refuses on a ruled collection (115): docs/compatibility.md.
REFUSED = {"out of another", "mapReduce", "applyOps", "convertToCapped", "create a view", "rename",
           "drop the overflow", "find in the overflow", "insert into the overflow"}
# What a user needs the overflow for (13): docs/consistency.md.
NEEDS_OVERFLOW = {
    "find", "find one", "find by the array", "find a slice", "find by a hint", "count by the array", "distinct",
    "aggregate", "edit", "edit by the array", "edit all", "delete by the array", "findAndModify",
    "findAndModify, edits", "findAndModify, removes", "explain", "explain an edit", "rename",
}
# mongod 6.0 says 59 to these. Spillway serves a bulkWrite, and refuses what it does not know; who has no rights gets
# mongod's 13 for an older command.
NOT_KNOWN = {"bulkWrite", "no command"}
HANDSHAKE = ("hello", "isMaster", "saslStart", "saslContinue")
NOT_COMPARED = ("$clusterTime", "operationTime")


class Log:
    """What a server has run, as its log tells: it tells of every command."""

    def __init__(self, cluster):
        self.path = cluster.folder / f"{cluster.primary.name}.log"
        self.entries = []
        self.read = 0

    def news(self):
        with self.path.open("rb") as file:
            file.seek(self.read)
            data = file.read()
        whole = data[:data.rfind(b"\n") + 1]
        self.read += len(whole)
        for line in whole.splitlines():
            entry = json.loads(line)
            if entry.get("msg") == "Slow query" and "command" in entry["attr"]:
                self.entries.append((entry["ctx"], entry["attr"]))

    def of_connection(self, number):
        """The commands of a connection without its handshake."""
        self.news()
        return [attr for ctx, attr in self.entries
                if ctx == f"conn{number}" and next(iter(attr["command"])) not in HANDSHAKE]

    def of_account(self):
        """What Spillway's own account has run in the ruled database, without its look for views."""
        self.news()
        return [attr for _, attr in self.entries
                if attr.get("appName") == "spillway" and attr["command"].get("$db") == THROUGH
                and "listCollections" not in attr["command"]]


def named(command, database):
    """The command with the database's name in it, as (database, command)."""
    def fill(value):
        if isinstance(value, dict):
            return {key: fill(each) for key, each in value.items()}
        if isinstance(value, list):
            return [fill(each) for each in value]
        return value.replace("{db}", database) if isinstance(value, str) else value

    return ("admin" if next(iter(command)) in ON_ADMIN else database), fill(command)


def answered(connection, command, database):
    """What is said to the command: the whole error, or that there is none."""
    on, body = named(command, database)
    reply = connection.call(exact.document({**body, "$db": on})).body
    pairs = exact.parse(reply.replace(THROUGH.encode(), STRAIGHT.encode()))
    if exact.plain(exact.get(pairs, "ok")):
        errors = exact.get(pairs, "writeErrors")
        return "done" if errors is None else {"writeErrors": exact.plain(errors)}
    return exact.plain((exact.DOCUMENT, [pair for pair in pairs if pair[0] not in NOT_COMPARED]))


@pytest.fixture(scope="module")
def cluster():
    with Cluster(secure=True, durable=False) as made:
        with made.client() as direct:
            direct.admin.command({"profile": 0, "slowms": -1, "sampleRate": 1.0})
            direct.admin.command("createUser", "keeper", pwd=PASSWORD,
                                 roles=["readWriteAnyDatabase", "dbAdminAnyDatabase"])
            for user, rights in USERS.items():
                make_user(direct, user, rights)
        yield made


def make_user(direct, user, rights):
    databases = (THROUGH, STRAIGHT)
    if rights is None:
        return
    if rights == "other":
        roles = [{"role": "readWrite", "db": "other"}]
    elif isinstance(rights, str):
        roles = [{"role": rights, "db": database} for database in databases]
    else:
        privileges = [{"resource": {"db": database, "collection": collection}, "actions": actions}
                      for database in databases for collection, actions in rights.items()]
        direct.admin.command("createRole", f"role of {user}", roles=[], privileges=privileges)
        roles = [f"role of {user}"]
    direct.admin.command("createUser", user, pwd=PASSWORD, roles=roles)


@pytest.fixture(scope="module")
def spillway(cluster):
    uri = f"mongodb://keeper:{PASSWORD}@{cluster.primary.address}/?authSource=admin".replace(" ", "%20")
    with Spillway([cluster.primary], [RULE], {"upstream": {"uri": uri}}) as made:
        yield made


@pytest.fixture(scope="module")
def log(cluster):
    return Log(cluster)


class Stage:
    """Both databases, filled: one ordinary and one spilled document, a view without the array."""

    def __init__(self, cluster, spillway):
        self.direct = cluster.client()
        self.keeper = pymongo.MongoClient("127.0.0.1", spillway.port, directConnection=True, username="keeper",
                                          password=PASSWORD)
        self.clean = False

    def fill(self):
        for database in (self.keeper[THROUGH], self.direct[STRAIGHT]):
            for name in ("made", "copies", "others", "seen", "books"):
                database[name].drop()
            self.direct[database.name][OVERFLOW].drop()
            database.books.insert_many([SHORT, LONG])
            database.books.create_index("x", name="x_1")
            database.others.insert_one({"_id": 30, "x": 7})
            self.direct[database.name].command({"create": "seen", "viewOn": "books",
                                                "pipeline": [{"$project": {"x": 1}}]})
        self.direct[STRAIGHT].create_collection(OVERFLOW)
        books = self.direct[THROUGH].books
        wait_for(lambda: len(books.find_one(9)["list"]) == 3 and books.find_one(9)["_spill"]["list"]["n"] == 6,
                 "the tail to move")
        self.clean = True

    def ready(self):
        if not self.clean:
            self.fill()

    def close(self):
        self.direct.close()
        self.keeper.close()


@pytest.fixture(scope="module")
def stage(cluster, spillway):
    with contextlib.closing(Stage(cluster, spillway)) as made:
        yield made


def run(server, user, command, database):
    """The answer, and the server's number of the connection."""
    with Connection(server.port) as connection:
        if USERS[user] is not None:
            sign_in(connection, user, PASSWORD)
        return answered(connection, command, database), int(connection.hello["connectionId"])


def code_of(answer):
    if answer == "done":
        return 0
    return answer["writeErrors"][0]["code"] if "writeErrors" in answer else answer["code"]


def is_denied(answer):
    return code_of(answer) == 13


def check_verdict(user, name, got, expected):
    if got == expected:
        return
    assert not is_denied(expected), (name, got, expected)
    if name in NOT_KNOWN:
        assert is_denied(got) or code_of(got) in (0, 115), (name, got, expected)
    elif is_denied(got):
        assert user == "main" and name in NEEDS_OVERFLOW and OVERFLOW in str(got), (name, got, expected)
    else:
        assert code_of(got) == 115 and name in REFUSED, (name, got, expected)


def check_sent(user, name, sent):
    """Whoever is denied a command has sent one, and nothing else was sent for it.

    mongod's error quotes the command: a list goes out once with a condition more, and once for the client's own error.
    """
    if name.startswith("listCollections"):
        sent = [each for each in sent if "$nor" not in each["command"].get("filter", {})]
    asked = {"bulkWrite": "update"}.get(next(iter(COMMANDS[name])), next(iter(COMMANDS[name])))
    assert len(sent) == 1, (user, name, sent)
    assert all(next(iter(each["command"])) == asked for each in sent), (user, name, sent)


def causes_nothing(spillway, log, user, command):
    """Nor does the account send anything because of a denied command. By itself it looks at collections now and then;
    what a command causes, it causes each time."""
    for _ in range(3):
        before = len(log.of_account())
        run(spillway, user, command, THROUGH)
        if len(log.of_account()) == before:
            return True
    return False


@pytest.mark.share(4)
@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("user", USERS)
def test_mongods_verdict_is_the_same_as_direct(cluster, spillway, stage, log, user, name):
    stage.ready()
    before = len(log.of_account())
    got, number = run(spillway, user, COMMANDS[name], THROUGH)
    after = log.of_account()
    expected, _ = run(cluster.primary, user, COMMANDS[name], STRAIGHT)
    stage.clean = is_denied(got) and is_denied(expected)
    check_verdict(user, name, got, expected)
    if is_denied(expected):
        check_sent(user, name, log.of_connection(number))
        assert len(after) == before or causes_nothing(spillway, log, user, COMMANDS[name]), after[before:]
