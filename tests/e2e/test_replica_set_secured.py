"""`replica_set` with an account that has just the role of the pages, with TLS on all ways, and with mongodb+srv://."""

import pytest

from support.certificates import Authority
from support.cluster import ADMINISTRATOR, Cluster
from support.dns import Dns
from support.process import wait_for
from support.replica_set import SetSpillway

RULE = {
    "name": "books", "namespace": "shop.books", "array": "list", "threshold": 5, "settle": "10ms",
    "overflow": {"collection": "tails", "layout": "batches", "link": "book", "array": "part"},
}
PRIVILEGES = [  # as docs/install.md has them
    ("shop", "books", ["find", "update", "listIndexes"]),
    ("shop", "tails", ["find", "insert", "update", "remove", "listIndexes", "createIndex", "dropIndex",
                       "dropCollection"]),
    ("shop", "", ["listCollections"]),
    ("spillway", "rules", ["find", "insert", "update", "remove", "createIndex"]),
]
CLUSTER = ["inprog", "replSetGetStatus"]


@pytest.fixture(scope="module")
def authority():
    with Authority() as made:
        yield made


@pytest.fixture(scope="module")
def cluster(authority):
    """Its members take clients with TLS and without."""
    options = ["--tlsMode", "preferTLS", "--tlsCertificateKeyFile", str(authority.sign("mongod")[2]),
               "--tlsCAFile", str(authority.ca), "--tlsAllowConnectionsWithoutCertificates"]
    with Cluster(members=2, options=options, secure=True) as made, made.client() as direct:
        role = [{"resource": {"db": database, "collection": collection}, "actions": actions}
                for database, collection, actions in PRIVILEGES]
        for name, cluster_wide in (("spillway", CLUSTER), ("weak", CLUSTER[:1])):
            privileges = [*role, {"resource": {"cluster": True}, "actions": cluster_wide}]
            direct.admin.command("createRole", name, privileges=privileges, roles=[])
            direct.admin.command("createUser", name, pwd="secret", roles=[name])
        yield made


def assert_tails_move(cluster, spillway, number, **options):
    """By the driver, as the administrator."""
    with cluster.client() as direct, spillway.client(0, 1, **ADMINISTRATOR, **options) as client:
        wait_for(lambda: client.nodes == spillway.nodes(0, 1), "both members")
        client.shop.books.insert_one({"_id": number, "list": list(range(9))})
        wait_for(lambda: len(direct.shop.books.find_one({"_id": number})["list"]) == 5, "the tail to move")
        assert client.shop.books.find_one({"_id": number})["list"] == list(range(9))


def accepted_with_tls(direct):
    """Connections of one member, in all."""
    return sum(direct.admin.command("serverStatus")["transportSecurity"].values())


def test_the_account_is_that_of_the_seed_and_tls_that_of_the_servers(cluster, authority):
    spillway = SetSpillway(f"mongodb://spillway:secret@{cluster.members[1].address}/?authSource=admin", [RULE])
    spillway.settings["servers"] = {"tls": {"ca": str(authority.ca)}}
    spillway.settings["replica_set"]["tls"] = {"cert": str(authority.cert), "key": str(authority.key)}
    with cluster.client() as direct:
        before = accepted_with_tls(direct)
        with spillway:
            assert_tails_move(cluster, spillway, 1, tls=True, tlsCAFile=str(authority.ca))
            metrics = spillway.metrics()
        opened = metrics["spillway_connections_accepted_total"]
        # Each client's connection has two handshakes; some may not have been asked for the second one yet.
        assert metrics["spillway_tls_handshakes_total"] > opened
        assert accepted_with_tls(direct) - before > opened / 2


def test_without_a_seed_the_upstream_account_leads_to_the_set(cluster):
    uri = f"mongodb://spillway:secret@{cluster.primary.address}/?authSource=admin"
    with SetSpillway(None, [RULE], more={"upstream": {"uri": uri}}) as spillway:
        assert_tails_move(cluster, spillway, 2)


@pytest.mark.parametrize("user, words", [
    ("weak", "grant it replSetGetStatus on the cluster"),
    ("nobody", "the upstream account can't sign in"),
])
def test_an_account_that_may_not_look_refuses_the_start(cluster, user, words):
    spillway = SetSpillway(f"mongodb://{user}:secret@{cluster.primary.address}/?authSource=admin", [RULE])
    try:
        said = spillway.refuses_to_start()
        assert words in said
        assert "secret" not in said
    finally:
        spillway.__exit__(None)


def test_a_seed_in_the_dns_leads_to_the_set(cluster):
    """The records name one member only, and where the account's user is."""
    member = cluster.members[1]
    with Dns([("db.spillway.test", member.port)], "authSource=admin&replicaSet=rs0") as dns:
        spillway = SetSpillway(f"mongodb+srv://spillway:secret@{dns.NAME}/?tls=false", [RULE])
        spillway.environment = dns.environment(spillway.folder)
        with spillway:
            assert_tails_move(cluster, spillway, 3)
            assert dns.asked > 0
