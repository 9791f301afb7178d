"""Users and their rights: mongod decides through Spillway as it does directly, and no secret is ever said."""

import contextlib
import json
import os
import pathlib
import subprocess

import pymongo
import pytest
from bson import Int64
from pymongo.errors import OperationFailure

from support.cluster import ADMINISTRATOR, Cluster
from support.process import wait_for
from support.shim import Shim
from support.spillway import Spillway

pytestmark = pytest.mark.share(3)
CANARY = "canary"  # in every password and every document: what no log may hold
RULE = {
    "name": "books", "namespace": "shop.books", "array": "list", "threshold": 3, "settle": "10ms",
    "gc_delay": "0s",
    "overflow": {"collection": "more", "layout": "batches", "link": "book", "array": "part"},
}
WHOLE = [f"{CANARY} {number}" for number in range(10)]
ON_BOOKS = {
    "createRole": "on books", "roles": [], "privileges": [{
        "resource": {"db": "shop", "collection": "books"},
        "actions": ["find", "insert", "update", "remove", "createIndex", "dropCollection"],
    }],
}
USERS = {
    "nothing": [], "reader": [{"role": "read", "db": "shop"}], "books only": ["on books"],
    "writer": [{"role": "readWrite", "db": "shop"}],
    "elsewhere": [{"role": "readWrite", "db": "other"}],
}
MECHANISMS = ("SCRAM-SHA-1", "SCRAM-SHA-256")
SHELL = (
    "const books = db.getSiblingDB('shop').books;"
    "books.updateOne({_id: 'shell'}, {$push: {list: 'one'}}, {upsert: true});"
    "print(EJSON.stringify({list: books.findOne({_id: 'shell'}).list}));"
)


def password(user):
    return f"{CANARY} of {user}"


def uri(user, address, secret=None, more=""):
    secret = secret or password(user)
    return f"mongodb://{user}:{secret}@{address}/".replace(" ", "%20") + f"?authSource=admin{more}"


@pytest.fixture(scope="module")
def cluster():
    with Cluster(secure=True) as made:
        with made.client() as direct:
            direct.admin.command(ON_BOOKS)
            for name, roles in USERS.items():
                direct.admin.command("createUser", name, pwd=password(name), roles=roles)
            direct.admin.command("createUser", "keeper", pwd=password("keeper"),
                                 roles=[*USERS["writer"], {"role": "readWrite", "db": "spillway"}])
            for mechanism in MECHANISMS:
                direct.admin.command("createUser", mechanism, pwd=password(mechanism), mechanisms=[mechanism],
                                     roles=USERS["writer"])
        yield made


@pytest.fixture(scope="module")
def start(cluster):
    """Makes Spillways that say all they can; none of them may have said a secret when the module is done."""
    with contextlib.ExitStack() as stack:
        made = []

        def new_spillway(upstream, servers=(), **options):
            more = {"log": {"level": "debug"}, **({"upstream": upstream} if upstream else {})}
            spillway = Spillway(servers or [cluster.primary], [RULE], more, **options)
            stack.callback(spillway.__exit__)
            made.append(spillway)
            return spillway

        yield new_spillway
        for spillway in made:
            assert CANARY not in spillway.said()
            assert ADMINISTRATOR["password"] not in spillway.said()


@pytest.fixture(scope="module")
def spillway(cluster, start):
    made = start({"uri": uri("keeper", cluster.primary.address)})
    made.start()
    return made


@pytest.fixture
def sign_in():
    """Makes PyMongo clients of a user, or of nobody."""
    with contextlib.ExitStack() as stack:

        def new_client(server, user=None, **options):
            if user:
                options = {"username": user, "password": password(user), **options}
            return stack.enter_context(pymongo.MongoClient(
                "127.0.0.1", server.port, directConnection=True, serverSelectionTimeoutMS=10000, **options))

        yield new_client


@pytest.fixture
def books(spillway, direct):
    """An ordinary document and one whose tail has moved."""
    direct.shop.books.delete_many({})
    direct.shop.more.delete_many({})
    direct.shop.books.insert_many([{"_id": "short", "list": WHOLE[:2]}, {"_id": "long", "list": WHOLE}])
    with pymongo.MongoClient(uri("writer", spillway.address)) as client:
        client.shop.books.update_one({"_id": "long"}, {"$push": {"list": WHOLE[0]}})
    wait_for(lambda: has_moved(direct, "long"), "the tail to move")


def has_moved(direct, identifier):
    return len(direct.shop.books.find_one({"_id": identifier})["list"]) == 3


def outcome(operation, *arguments, **options):
    """What mongod says to it: its error, or that it is done."""
    try:
        operation(*arguments, **options)
    except OperationFailure as error:
        return error.code, error.details["codeName"], error.details["errmsg"]
    return "done"


def counts(direct, mechanism):
    """How often clients have signed in by it, and how often speculatively."""
    security = direct.admin.command("serverStatus")["security"]["authentication"]["mechanisms"][mechanism]
    return security["authenticate"]["successful"], security["speculativeAuthenticate"]["successful"]


def node(where):
    program = pathlib.Path(__file__).parent / "clients" / "sign_in.js"
    run = subprocess.run([os.environ["NODE"], program, where], capture_output=True, text=True, timeout=60)
    return json.loads(run.stdout)


def mongosh(where):
    command = [os.environ["MONGOSH"], where, "--quiet", "--norc", "--eval", SHELL]
    run = subprocess.run(command, capture_output=True, text=True, timeout=60)
    return json.loads(run.stdout) if run.returncode == 0 else {"message": run.stderr}


# Signing in.

# What PyMongo speculates on without being told is SCRAM-SHA-256, which a user of the other can't.
@pytest.mark.parametrize("mechanism, speculative", [*((each, True) for each in MECHANISMS), ("SCRAM-SHA-1", False)])
def test_pymongo_signs_in(spillway, direct, sign_in, mechanism, speculative):
    before = counts(direct, mechanism)
    options = {"authMechanism": mechanism} if speculative else {}
    client = sign_in(spillway, mechanism, **options)
    identifier = f"{mechanism} {speculative}"
    client.shop.books.update_one({"_id": identifier}, {"$push": {"list": 1}}, upsert=True)
    assert client.shop.books.find_one({"_id": identifier})["list"] == [1]
    after = counts(direct, mechanism)
    assert after[0] > before[0]
    assert (after[1] > before[1]) == speculative


@pytest.mark.parametrize("client, more", [(node, ""), (node, "&authMechanism={}"), (mongosh, "")])
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_other_clients_sign_in(spillway, direct, client, mechanism, more):
    direct.shop.books.delete_many({})
    where = uri(mechanism, spillway.address, more="&directConnection=true" + more.format(mechanism))
    assert client(where) == {"list": ["one"]}


def test_a_wrong_password_is_mongods_error(spillway, cluster, sign_in):
    for mechanism in MECHANISMS:
        options = {"password": f"wrong {CANARY}", "authMechanism": mechanism}
        through, straight = (
            outcome(sign_in(server, mechanism, **options).admin.command, "ping")
            for server in (spillway, cluster.primary))
        assert through == straight
        assert through[:2] == (18, "AuthenticationFailed")


@pytest.mark.parametrize("client", [node, mongosh])
def test_a_wrong_password_is_mongods_error_to_others(spillway, cluster, client):
    through, straight = (
        client(uri("writer", server.address, secret=f"wrong {CANARY}", more="&directConnection=true"))
        for server in (spillway, cluster.primary))
    assert through == straight
    assert "Authentication failed" in through["message"]


# What users may.

OPERATIONS = {
    "find": lambda books, name: books.find_one({"_id": "short"}),
    "find all": lambda books, name: books.find({}, {"_id": 1}).to_list(),
    # First, since it is denied once the tail has moved, which may be after the next push.
    "push and look": lambda books, name: books.find_one_and_update({"_id": "short"}, {"$push": {"list": name}}),
    "push": lambda books, name: books.update_one({"_id": "short"}, {"$push": {"list": name}}),
    "push to a long one": lambda books, name: books.update_one({"_id": "long"}, {"$push": {"list": name}}),
    "replace": lambda books, name: books.replace_one({"_id": name}, {"list": WHOLE}, upsert=True),
    "set": lambda books, name: books.update_one({"_id": "short"}, {"$set": {"list": [name]}}),
    "insert": lambda books, name: books.insert_one({"_id": f"of {name}", "list": WHOLE}),
    "delete": lambda books, name: books.delete_one({"_id": f"of {name}"}),
}


def without_command(result):
    """mongod's error repeats the command, whose session and documents differ."""
    return result if result == "done" else (*result[:2], result[2].partition(" to execute command")[0])


@pytest.mark.parametrize("user", [None, *USERS])
def test_mongod_allows_and_denies_as_it_does_directly(spillway, cluster, sign_in, books, user):
    through, straight = (sign_in(server, user).shop.books for server in (spillway, cluster.primary))
    seen = {}
    for name, operation in OPERATIONS.items():
        seen[name] = without_command(outcome(operation, through, f"{user} through"))
        assert seen[name] == without_command(outcome(operation, straight, f"{user} straight")), name
    denied = {name for name, result in seen.items() if result != "done"}
    assert all(seen[name][0] == 13 for name in denied)
    everything = set(OPERATIONS)
    allowed = {"reader": {"find", "find all"}, "books only": everything, "writer": everything}
    assert everything - denied == allowed.get(user, set())


READS = {
    "find": lambda books: books.find_one({"_id": "long"}),
    "some of the elements' document": lambda books: books.find_one({"_id": "long"}, {"list": 1}),
    "find all": lambda books: books.find().to_list(),
}


def test_who_may_not_read_the_overflow_is_told_and_never_served_short(spillway, sign_in, books):
    of_user = sign_in(spillway, "books only").shop.books
    for name, read in READS.items():
        code, code_name, message = outcome(read, of_user)
        assert (code, code_name) == (13, "Unauthorized"), name
        assert "more" in message
        assert CANARY not in message
    assert of_user.find_one({"_id": "short"})["list"] == WHOLE[:2]
    assert of_user.find_one({"_id": "long"}, {"list": 0}) == {"_id": "long"}
    for stage in ({"$project": {"list": 0}}, {"$unset": "list"}):
        assert list(of_user.aggregate([{"$match": {"_id": "long"}}, stage])) == [{"_id": "long"}]
    assert of_user.update_one({"_id": "long"}, {"$push": {"list": "more"}}).modified_count == 1
    whole = sign_in(spillway, "writer").shop.books.find_one({"_id": "long"})["list"]
    assert whole == [*WHOLE, WHOLE[0], "more"]


EDITS = {
    "fold back": ({"_id": "long"}, {"$pull": {"list": WHOLE[5]}}),
    "probe": ({"_id": "long"}, {"$addToSet": {"list": WHOLE[5]}}),
    "settle": ({"_id": "long", "list": {"$size": 11}}, {"$push": {"list": "last"}}),
    "search": ({"list": WHOLE[5]}, {"$pop": {"list": 1}}),
}


@pytest.mark.parametrize("edit", EDITS)
def test_an_edit_without_the_right_to_the_overflow_has_no_half_effect(spillway, direct, sign_in, books, edit):
    query, change = EDITS[edit]
    before = direct.shop.books.find_one({"_id": "long"}), list(direct.shop.more.find())
    of_user = sign_in(spillway, "books only").shop.books
    for operation in (of_user.update_one, of_user.find_one_and_update):
        code, code_name, message = outcome(operation, query, change)
        assert (code, code_name) == (13, "Unauthorized")
        assert "more" in message or "overflow" in message
        assert CANARY not in message
    assert (direct.shop.books.find_one({"_id": "long"}), list(direct.shop.more.find())) == before
    assert of_user.update_one({"_id": "short"}, {"$pull": {"list": WHOLE[0]}}).modified_count == 1


LOOKS = {
    "push": lambda books: books.find_one_and_update({"_id": "long"}, {"$push": {"list": "last"}}),
    "another field": lambda books: books.find_one_and_update({"_id": "long"}, {"$inc": {"z": 1}}),
    "replace": lambda books: books.find_one_and_replace({"_id": "long"}, {"z": 1}),
    "remove": lambda books: books.find_one_and_delete({"_id": "long"}),
    "by a sort": lambda books: books.find_one_and_update({}, {"$inc": {"z": 1}}, sort=[("_id", 1)]),
}


@pytest.mark.parametrize("retries", [True, False])
@pytest.mark.parametrize("look", LOOKS)
def test_what_looks_as_it_writes_has_no_half_effect_without_the_right_to_the_overflow(
        spillway, direct, sign_in, books, look, retries):
    before = direct.shop.books.find_one({"_id": "long"}), list(direct.shop.more.find())
    of_user = sign_in(spillway, "books only", retryWrites=retries).shop.books
    code, code_name, message = outcome(LOOKS[look], of_user)
    assert (code, code_name) == (13, "Unauthorized")
    assert "overflow" in message
    assert (direct.shop.books.find_one({"_id": "long"}), list(direct.shop.more.find())) == before
    assert of_user.find_one_and_update({"_id": "short"}, {"$inc": {"z": 1}})["list"] == WHOLE[:2]
    assert of_user.find_one_and_update({"_id": "long"}, {"$inc": {"z": 1}}, {"z": 1}) == {"_id": "long"}


def test_the_right_to_the_overflow_is_asked_once_a_connection(cluster, start, sign_in, books):
    with Shim(cluster.primary.port) as shim:
        spillway = start({"uri": uri("keeper", cluster.primary.address)}, [shim])
        spillway.start()
        client = sign_in(spillway, "writer", maxPoolSize=1, serverMonitoringMode="poll")
        client.shop.books.find_one({"_id": "short"})
        shim.restart()
        for _ in range(3):
            client.shop.books.find_one_and_update({"_id": "short"}, {"$inc": {"z": 1}})
        connection = {each.connection for each in shim.requests if each.name == "findAndModify"}
        assert len(connection) == 1
        sent = [each.name for each in shim.requests if each.connection in connection and not each.handshake()]
    assert sent == ["find", *["findAndModify"] * 3]


def test_nothing_is_sent_beside_a_clients_own_commands_before_it_signs_in(cluster, start, sign_in):
    """Each command of somebody who has not signed in reaches mongod once, and nothing else does."""
    account = {"uri": uri("writer", cluster.primary.address)}
    with Shim(cluster.primary.port) as shim:
        spillway = start(account, [shim])
        spillway.start()
        spillway.says("may not see whether reads go on")  # the account asks no more
        books = sign_in(spillway, serverMonitoringMode="poll", retryWrites=False, retryReads=False).shop.books
        sent = set()
        operations = [lambda operation=each: operation(books, "nobody") for each in OPERATIONS.values()]
        for operation in [*operations, *(lambda read=each: read(books) for each in READS.values())]:
            shim.restart()
            assert outcome(operation)[0] == 13
            commands = [request.name for request in shim.requests if not request.handshake()]
            assert len(commands) == 1
            sent.update(commands)
    assert sent == {"find", "update", "insert", "delete", "findAndModify"}


def test_users_never_share_a_server_connection(spillway, direct, sign_in, books):
    """A connection of mongod's belongs to one user as long as it lives, and ends with its client."""
    seen = set()
    for user in ("writer", "reader", "writer", "reader"):
        client = sign_in(spillway, user, maxPoolSize=1)
        assert len(client.shop.books.find_one({"_id": "long"})["list"]) == 11
        status = client.admin.command("connectionStatus")["authInfo"]["authenticatedUsers"]
        assert status == [{"user": user, "db": "admin"}]
        address = client.admin.command("whatsmyuri")["you"]
        assert address not in seen
        seen.add(address)
    nobody = sign_in(spillway, maxPoolSize=1)
    assert nobody.admin.command("connectionStatus")["authInfo"]["authenticatedUsers"] == []
    client.close()
    wait_for(lambda: address not in clients_of(direct), "the server connection to end with its client's")


def clients_of(direct):
    stages = [{"$currentOp": {"allUsers": True, "idleConnections": True}}]
    return {operation.get("client") for operation in direct.admin.aggregate(stages)}


# The account of Spillway's own.

@pytest.mark.parametrize("given", ["uri", "uri_file", "environment"])
def test_the_mover_signs_in(cluster, start, sign_in, direct, given):
    account = uri("writer", cluster.primary.address)
    environment = {"SPILLWAY_UPSTREAM_URI": account} if given == "environment" else None
    spillway = start({"uri": {"uri": account}, "uri_file": {"uri_file": "account"}}.get(given),
                     environment=environment)
    file = spillway.folder / "account"
    file.touch(mode=0o600)
    file.write_text(f"{account}\n")
    spillway.start()
    with pymongo.MongoClient(uri("writer", spillway.address)) as client:
        client.shop.books.replace_one({"_id": given}, {"list": WHOLE}, upsert=True)
    wait_for(lambda: has_moved(direct, given), "the tail to move")
    assert CANARY not in spillway.admin("/metrics")[1]
    check = subprocess.run([spillway.command[0], "check", "--config", spillway.file], capture_output=True,
                           text=True, timeout=30, env=spillway.environment)
    assert check.returncode == 1 and "insert, update, remove on 'spillway.rules'" in check.stdout
    assert CANARY not in check.stdout + check.stderr
    assert "writer:***@" in check.stdout
    assert spillway.stop() == 0


@pytest.mark.parametrize("user, secret, said", [
    ("writer", f"wrong {CANARY}", ["upstream", "Authentication failed", "user and password"]),
    ("reader", None, ["rule 'books'", "'shop.books'", "may not update", "the role that 'spillway check' prints"]),
    ("books only", None, ["rule 'books'", "'shop.books'", "may not list", "the role that 'spillway check' prints"]),
    (None, None, ["rule 'books'", "'shop.books'", "may not list", "the role that 'spillway check' prints"]),
])
def test_an_account_that_can_not_do_the_work_is_told_at_start(cluster, start, user, secret, said):
    spillway = start({"uri": uri(user, cluster.primary.address, secret)} if user else None)
    output = spillway.refuses_to_start()
    assert [words for words in said if words not in output] == [], output


def test_who_may_change_a_collection_needs_no_rights_on_its_overflow(spillway, direct, sign_in, books):
    """The overflow is tended by the upstream account: an index there, and what a drop leaves."""
    own = sign_in(spillway, "books only").shop.books
    own.create_index("list")
    assert "spillway:list_1" in direct.shop.more.index_information()
    assert direct.shop.more.find_one()
    own.drop()
    assert not direct.shop.more.find_one()
    for change in (lambda: sign_in(spillway, "reader").shop.command("drop", "books"),
                   lambda: sign_in(spillway, "reader").shop.books.create_index("list")):
        assert outcome(change)[0] == 13


@pytest.mark.parametrize("user, held", [("writer", True), ("books only", False)])
@pytest.mark.parametrize("in_transaction", [False, True])
def test_results_of_a_bulk_write_wait_in_a_cursor_if_the_user_may_read_the_database(spillway, books, sign_in, user,
                                                                                    held, in_transaction):
    client = sign_in(spillway, user)
    ops = [{"update": 0, "filter": {"_id": name}, "updateMods": {"$push": {"list": WHOLE[0]}}}
           for name in ("long", "short", "none")]
    with client.start_session() as session:
        if in_transaction:
            session.start_transaction()
        reply = client.admin.command({"bulkWrite": 1, "ops": ops, "nsInfo": [{"ns": "shop.books"}],
                                      "cursor": {"batchSize": 1}}, session=session)
        cursor = reply["cursor"]
        assert bool(cursor["id"]) == held and [item["n"]
                                               for item in cursor["firstBatch"]] == ([1] if held else [1, 1, 0])
        if held:
            more = client.shop.command({"getMore": Int64(cursor["id"]), "collection": cursor["ns"].split(".", 1)[1]},
                                       session=session)
            assert [item["n"] for item in more["cursor"]["nextBatch"]] == [1, 0] and not more["cursor"]["id"]
        if in_transaction:
            session.commit_transaction()
    assert len(client.shop.books.find_one({"_id": "short"})["list"]) == 3
