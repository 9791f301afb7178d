"""TLS on both sides of the client path: certificates, host names, versions, sessions, what is refused."""

import contextlib
import json
import shutil
import socket
import ssl
import subprocess

import pymongo
import pytest

from support import frames
from support.certificates import Authority
from support.cluster import Cluster
from support.peer import End
from support.process import wait_for
from support.spillway import Spillway, program

RULE = {
    "name": "books", "namespace": "shop.books", "array": "list", "threshold": 5, "settle": "10ms",
    "overflow": {"layout": "batches", "link": "book", "array": "part"},
}
WHOLE = list(range(30))
LARGE = [{"n": n, "text": "x" * 1000} for n in range(4000)]


@pytest.fixture(scope="module")
def authority():
    with Authority() as made:
        yield made


@pytest.fixture(scope="module")
def files(authority):
    """(certificate, key, both) by name."""
    return {
        "server": authority.sign("server"),
        "spillway": authority.sign("spillway"),
        "client": authority.sign("client"),
        "elsewhere": authority.sign("elsewhere", "DNS:elsewhere.example.net"),
        "expired": authority.sign("expired", days=-1),
    }


@contextlib.contextmanager
def started_cluster(authority, cert, *more):
    options = ["--tlsMode", "requireTLS", "--tlsCertificateKeyFile", str(cert), "--tlsCAFile", str(authority.ca),
               *more]
    tls = {"tls": True, "tlsCAFile": str(authority.ca), "tlsAllowInvalidHostnames": True}
    if not more:
        tls["tlsCertificateKeyFile"] = str(cert)
    with Cluster(options=options, tls=tls) as made:
        yield made


@pytest.fixture(scope="module")
def cluster(authority, files):
    with started_cluster(authority, files["server"][2], "--tlsAllowConnectionsWithoutCertificates") as made:
        yield made


def secured(cluster, authority, files, listen=None, servers=None, name="spillway"):
    """With TLS on both sides; None takes a key out."""
    cert, key, _ = files[name]
    listen = {"cert": str(cert), "key": str(key), **(listen or {})}
    servers = {"ca": str(authority.ca), **(servers or {})}
    uri = f"mongodb://{cluster.primary.address}/?tls=true&tlsCAFile={authority.ca}&tlsAllowInvalidHostnames=true"
    if "tlsCertificateKeyFile" in cluster.primary.tls:
        uri += f"&tlsCertificateKeyFile={files['client'][2]}"
    made = Spillway([cluster.primary], [RULE], {
        "servers": {"tls": {key: value for key, value in servers.items() if value}}, "upstream": {"uri": uri},
    })
    made.settings["listen"][0]["tls"] = {key: value for key, value in listen.items() if value}
    return made


@pytest.fixture(scope="module")
def spillway(cluster, authority, files):
    with secured(cluster, authority, files) as made:
        yield made


def connect(spillway, authority, **options):
    options = {"tls": True, "tlsCAFile": str(authority.ca), "serverSelectionTimeoutMS": 20000, **options}
    return pymongo.MongoClient("127.0.0.1", spillway.port, directConnection=True, **options)


def context_of(authority, **versions):
    context = ssl.create_default_context(cafile=str(authority.ca))
    for name, value in versions.items():
        setattr(context, name, value)
    return context


@contextlib.contextmanager
def handshaken(spillway, context, name="127.0.0.1", session=None):
    with socket.create_connection(("127.0.0.1", spillway.port), timeout=20) as raw:
        with context.wrap_socket(raw, server_hostname=name, session=session) as made:
            yield made


def greet(made):
    """A session ticket comes with the first answer, at the latest."""
    return End(made).ask(frames.message({"hello": 1, "$db": "admin"}))


def refused(spillway, authority, **options):
    """What the driver says where it finds no server, once it has seen why."""
    def told():
        with connect(spillway, authority, **{"serverSelectionTimeoutMS": 1500, **options}) as client:
            with pytest.raises(pymongo.errors.ServerSelectionTimeoutError) as caught:
                client.admin.command("ping")
        return "found yet" not in str(caught.value) and str(caught.value)
    return wait_for(told, "the driver to be refused")


def test_arrays_are_whole_over_tls(cluster, spillway, authority):
    with connect(spillway, authority) as client, cluster.client() as direct:
        client.shop.books.insert_one({"_id": 1, "list": WHOLE})
        client.shop.books.insert_one({"_id": 2, "list": LARGE})
        wait_for(lambda: "_spill" in direct.shop.books.find_one({"_id": 2}), "the tail to move")
        assert client.shop.books.find_one({"_id": 1})["list"] == WHOLE
        assert client.shop.books.find_one({"_id": 2})["list"] == LARGE
        client.shop.books.update_one({"_id": 2}, {"$push": {"list": 7}})
        assert client.shop.books.find_one({"_id": 2})["list"] == [*LARGE, 7]
    assert spillway.metrics()["spillway_tls_handshakes_total"] >= 2


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_session_is_resumed(spillway, authority, version):
    context = context_of(authority, minimum_version=version, maximum_version=version)
    with handshaken(spillway, context) as made:
        greet(made)
        assert made.version() == version.name.replace("v1_", "v1.")
        session = made.session
    before = spillway.metrics()["spillway_tls_resumed_total"]
    with handshaken(spillway, context, session=session) as made:
        greet(made)
        assert made.session_reused
    assert spillway.metrics()["spillway_tls_resumed_total"] > before


def test_sessions_to_the_server_are_resumed(spillway, authority):
    before = spillway.metrics()["spillway_tls_resumed_total"]
    for _ in range(2):
        with handshaken(spillway, context_of(authority)) as made:
            greet(made)
    assert spillway.metrics()["spillway_tls_resumed_total"] >= before + 1


def test_an_old_version_is_refused(spillway, authority):
    context = context_of(authority, minimum_version=ssl.TLSVersion.TLSv1, maximum_version=ssl.TLSVersion.TLSv1_1)
    context.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.raises((ssl.SSLError, ConnectionError)):
        with handshaken(spillway, context):
            pass


def test_min_version_1_3_refuses_1_2(cluster, authority, files):
    with secured(cluster, authority, files, {"min_version": "1.3"}, {"min_version": "1.3"}) as spillway:
        with pytest.raises((ssl.SSLError, ConnectionError)):
            with handshaken(spillway, context_of(authority, maximum_version=ssl.TLSVersion.TLSv1_2)):
                pass
        with connect(spillway, authority) as client:
            assert client.admin.command("ping")["ok"] == 1.0


def test_a_plain_client_is_closed_counted_and_told(spillway):
    before = spillway.metrics()["spillway_connections_plain_total"]
    with socket.create_connection(("127.0.0.1", spillway.port), timeout=20) as raw:
        end = End(raw)
        end.send(frames.message({"hello": 1, "$db": "admin"}))
        assert end.rest()[0] == b""
    assert spillway.metrics()["spillway_connections_plain_total"] == before + 1
    assert "does not speak TLS" in spillway.said()


def test_bytes_before_the_handshake_are_not_taken(spillway, authority):
    """A command in front of the ClientHello, as of somebody who puts it there on the way."""
    with socket.create_connection(("127.0.0.1", spillway.port), timeout=20) as raw:
        raw.sendall(frames.message({"ping": 1, "$db": "admin"}))
        with pytest.raises((ssl.SSLError, ConnectionError)):
            context_of(authority).wrap_socket(raw, server_hostname="127.0.0.1")


def test_a_client_that_does_not_know_the_authority_ends(spillway):
    with Authority("stranger") as stranger:
        assert "CERTIFICATE_VERIFY_FAILED" in refused(spillway, stranger)


def test_a_client_certificate_may_be_required(cluster, authority, files):
    with secured(cluster, authority, files, {"ca": str(authority.ca), "client_cert": "required"}) as spillway:
        refused(spillway, authority)
        assert "failed in the handshake of TLS" in spillway.said()
        with connect(spillway, authority, tlsCertificateKeyFile=str(files["client"][2])) as client:
            assert client.admin.command("ping")["ok"] == 1.0
        with Authority("stranger") as stranger:
            refused(spillway, authority, tlsCertificateKeyFile=str(stranger.sign("stranger")[2]))


def test_an_optional_client_certificate_must_be_good(cluster, authority, files):
    with secured(cluster, authority, files, {"ca": str(authority.ca), "client_cert": "optional"}) as spillway:
        with connect(spillway, authority) as client:
            assert client.admin.command("ping")["ok"] == 1.0
        refused(spillway, authority, tlsCertificateKeyFile=str(files["expired"][2]))


@contextlib.contextmanager
def apart(spillway):
    """Started, but not ready: clients' connections do not reach the server."""
    try:
        spillway.start(ready=False)
        wait_for(lambda: spillway.admin("/readyz")[0] == 503, "the start")
        wait_for(lambda: "do not reach server" in spillway.said(), "the warning")
        yield spillway
    finally:
        spillway.__exit__(failure=True)


def test_a_server_of_another_authority_gets_nothing(cluster, authority, files):
    with Authority("stranger") as stranger, \
            apart(secured(cluster, authority, files, servers={"ca": str(stranger.ca)})) as spillway:
        refused(spillway, authority)
        assert "no TLS connection to server" in spillway.said() and "certificate" in spillway.said()


def test_a_server_must_have_the_name_that_is_asked_for(cluster, authority, files):
    with apart(secured(cluster, authority, files, servers={"server_name": "db.example.net"})) as spillway:
        refused(spillway, authority)
        assert "mismatch" in spillway.admin("/readyz")[1]


def test_a_servers_certificate_must_have_the_host_of_the_server(authority, files):
    # mongod asks itself whether an index is ready, and would wait for ever for its own name.
    with started_cluster(authority, files["elsewhere"][2], "--tlsAllowConnectionsWithoutCertificates",
                         "--tlsAllowInvalidHostnames") as cluster:
        with secured(cluster, authority, files, servers={"server_name": "elsewhere.example.net"}) as spillway:
            with connect(spillway, authority) as client:
                assert client.admin.command("ping")["ok"] == 1.0
        with apart(secured(cluster, authority, files)) as spillway:
            refused(spillway, authority)
            assert "mismatch" in spillway.said()


def test_spillway_shows_its_certificate_to_a_server_that_wants_one(authority, files):
    cert, key, _ = files["client"]
    with started_cluster(authority, files["server"][2]) as cluster:
        with secured(cluster, authority, files, servers={"cert": str(cert), "key": str(key)}) as spillway:
            with connect(spillway, authority) as client:
                client.shop.books.insert_one({"_id": 1, "list": WHOLE})
                assert client.shop.books.find_one({"_id": 1})["list"] == WHOLE


def test_certificates_are_read_again_and_no_connection_is_dropped(cluster, authority, files):
    cert, key, _ = files["spillway"]
    now_cert, now_key = authority.folder / "now.pem", authority.folder / "now.key"
    shutil.copy(cert, now_cert)
    shutil.copy(key, now_key)
    with secured(cluster, authority, files, {"cert": str(now_cert), "key": str(now_key)}) as spillway:
        with handshaken(spillway, context_of(authority)) as old:
            greet(old)
            serial = old.getpeercert()["serialNumber"]
            now_cert.write_text("no certificate")
            spillway.hang_up()
            wait_for(lambda: "nothing is changed" in spillway.said(), "the refusal")
            assert served_serial(spillway, authority) == serial
            shutil.copy(files["client"][0], now_cert)
            shutil.copy(files["client"][1], now_key)
            spillway.hang_up()
            wait_for(lambda: served_serial(spillway, authority) != serial, "the new certificate")
            greet(old)


def served_serial(spillway, authority):
    with handshaken(spillway, context_of(authority)) as made:
        return made.getpeercert()["serialNumber"]


@pytest.mark.parametrize("listen, said", [
    ({"cert": "/nowhere/cert.pem"}, "/nowhere/cert.pem"),
    ({"key": "/nowhere/key.pem"}, "/nowhere/key.pem"),
    ({"ca": "/nowhere/ca.pem"}, "/nowhere/ca.pem"),
])
def test_a_file_that_is_missing_ends_the_start(cluster, authority, files, listen, said):
    spillway = secured(cluster, authority, files, listen)
    try:
        assert said in spillway.refuses_to_start()
    finally:
        spillway.__exit__(failure=True)


def test_a_key_of_another_certificate_ends_the_start(cluster, authority, files):
    spillway = secured(cluster, authority, files, {"key": str(files["client"][1])})
    try:
        assert "key" in spillway.refuses_to_start()
    finally:
        spillway.__exit__(failure=True)


SUBJECT = "CN=client"
SPECULATION = {"authenticate": 1, "mechanism": "MONGODB-X509", "db": "$external"}


@pytest.fixture(scope="module")
def certified(authority, files):
    """A server on which Spillway's own certificate is a user's who may do everything."""
    with started_cluster(authority, files["server"][2]) as made, made.client() as direct:
        direct["$external"].command("createUser", SUBJECT, roles=[{"role": "root", "db": "admin"}])
        cert, key, _ = files["client"]
        with secured(made, authority, files, servers={"cert": str(cert), "key": str(key)}) as spillway:
            yield made, spillway


def test_a_certificate_of_spillways_is_a_user_of_the_server(certified, authority, files):
    """So it is Spillway that says no below."""
    cluster, _ = certified
    with cluster.client(tlsCertificateKeyFile=str(files["client"][2]), authMechanism="MONGODB-X509") as client:
        assert client.admin.command("connectionStatus")["authInfo"]["authenticatedUsers"]


@pytest.mark.parametrize("body", [
    {"authenticate": 1, "mechanism": "MONGODB-X509"},
    {"authenticate": 1, "user": SUBJECT, "mechanism": "MONGODB-X509"},
    {"authenticate": 1},
    {"saslStart": 1, "mechanism": "MONGODB-X509", "payload": b""},
], ids=lambda body: " ".join(body))
@pytest.mark.parametrize("legacy", [False, True])
def test_nobody_signs_in_by_spillways_certificate(certified, authority, body, legacy):
    _, spillway = certified
    with handshaken(spillway, context_of(authority)) as made:
        end = End(made)
        if legacy:
            end.send(frames.query("$external.$cmd", body))
        else:
            end.send(frames.message({**body, "$db": "$external"}))
        reply = end.frame().plain()
        assert (reply["ok"], reply["code"]) == (0.0, 18)
        assert "Spillway's certificate" in reply["errmsg"]
        assert users(end) == []


def test_a_hello_does_not_sign_in_by_spillways_certificate(certified, authority):
    _, spillway = certified
    with handshaken(spillway, context_of(authority)) as made:
        end = End(made)
        reply = end.ask(frames.message({"hello": 1, "speculativeAuthenticate": SPECULATION, "$db": "admin"})).plain()
        assert reply["ok"] == 1.0 and "speculativeAuthenticate" not in reply
        assert users(end) == []


def users(end):
    return end.ask(frames.message({"connectionStatus": 1, "$db": "admin"})).plain()["authInfo"]["authenticatedUsers"]


def test_a_driver_that_wants_to_sign_in_by_certificate_hears_why_not(certified, authority, files):
    _, spillway = certified
    with connect(spillway, authority, tlsCertificateKeyFile=str(files["client"][2]),
                 authMechanism="MONGODB-X509") as client:
        with pytest.raises(pymongo.errors.OperationFailure, match="MONGODB-X509 cannot pass") as caught:
            client.admin.command("ping")
    assert caught.value.code == 18


def test_plain_needs_tls_on_the_whole_way(cluster, spillway, authority):
    """Over TLS mongod decides; without, Spillway says no before the password goes on."""
    body = {"saslStart": 1, "mechanism": "PLAIN", "payload": b"\0user\0password", "$db": "$external"}
    with handshaken(spillway, context_of(authority)) as made:
        assert "Spillway" not in End(made).ask(frames.message(body)).plain()["errmsg"]
    plain = Spillway([cluster.primary], [RULE], {
        "servers": {"tls": {"ca": str(authority.ca)}},
        "upstream": {"uri": f"mongodb://{cluster.primary.address}/?tls=true&tlsCAFile={authority.ca}"},
    })
    with plain, socket.create_connection(("127.0.0.1", plain.port), timeout=20) as raw:
        reply = End(raw).ask(frames.message(body)).plain()
    assert (reply["code"], "needs TLS" in reply["errmsg"]) == (18, True)


def test_check_and_readyz_tell_of_a_server_that_wants_tls(cluster, authority):
    """The account speaks TLS, clients' connections would go on without."""
    uri = f"mongodb://{cluster.primary.address}/?tls=true&tlsCAFile={authority.ca}"
    with apart(Spillway([cluster.primary], [RULE], {"upstream": {"uri": uri}})) as spillway:
        status, text = spillway.admin("/readyz")
        assert status == 503 and cluster.primary.address in text and "servers.tls" in text
        ended = subprocess.run([program(), "check", "--config", spillway.file, "--json"], capture_output=True,
                               text=True, timeout=60, check=False)
        assert "tls-required" in [each["code"] for each in json.loads(ended.stdout)["findings"]]


@pytest.mark.parametrize("servers", [{}, {"servers": {"tls": {"ca": "?"}}}], ids=["all plain", "only clients by TLS"])
def test_check_and_the_log_say_that_the_account_may_need_tls(cluster, authority, servers):
    if servers:
        servers["servers"]["tls"]["ca"] = str(authority.ca)
    hint = "it may want TLS (servers.tls, or tls=true in the account's URI)"
    more = {"upstream": {"uri": f"mongodb://{cluster.primary.address}/"}, **servers}
    spillway = Spillway([cluster.primary], [RULE], more)
    try:
        spillway.start(ready=False)
        spillway.says(hint)
        ended = subprocess.run([program(), "check", "--config", spillway.file, "--json"], capture_output=True,
                               text=True, timeout=60, check=False)
        assert ended.returncode == 3 and hint in json.loads(ended.stdout)["error"]
    finally:
        spillway.__exit__(failure=True)


def test_a_server_that_comes_to_want_tls_is_found_by_the_next_client(authority, files):
    """As an operator turns TLS on, one step after the other: the account speaks TLS already."""
    options = ["--tlsMode", "preferTLS", "--tlsCertificateKeyFile", str(files["server"][2]), "--tlsCAFile",
               str(authority.ca), "--tlsAllowConnectionsWithoutCertificates"]
    tls = {"tls": True, "tlsCAFile": str(authority.ca)}
    with Cluster(options=options, tls=tls) as cluster, cluster.client() as direct:
        uri = f"mongodb://{cluster.primary.address}/?tls=true&tlsCAFile={authority.ca}"
        with Spillway([cluster.primary], [RULE], {"upstream": {"uri": uri}}) as spillway:
            direct.admin.command("setParameter", 1, tlsMode="requireTLS")
            with pymongo.MongoClient("127.0.0.1", spillway.port, serverSelectionTimeoutMS=1500) as client, \
                    pytest.raises(pymongo.errors.ServerSelectionTimeoutError):
                client.admin.command("ping")
            wait_for(lambda: spillway.admin("/readyz")[0] == 503, "that no client reaches the server")
            assert "servers.tls" in spillway.admin("/readyz")[1]


def test_the_accounts_uri_follows_servers_tls(cluster, authority, files):
    spillway = secured(cluster, authority, files)
    del spillway.settings["upstream"]
    with spillway, connect(spillway, authority) as client, cluster.client() as direct:
        client.shop.books.replace_one({"_id": 9}, {"list": WHOLE}, upsert=True)
        wait_for(lambda: "_spill" in direct.shop.books.find_one({"_id": 9}), "the tail to move")
        assert client.shop.books.find_one({"_id": 9})["list"] == WHOLE
