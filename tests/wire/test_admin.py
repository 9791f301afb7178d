"""Who may ask the admin address what: names, sites, methods, the token, TLS, and how long a slow one holds a place."""

import base64
import contextlib
import hashlib
import re
import socket
import ssl
import subprocess
import threading

import pytest

from support.certificates import Authority
from support.peer import Relay
from support.process import wait_for
from wire.conftest import RULES

pytestmark = pytest.mark.share(1)
TOKEN = "correct-horse-battery-staple"
PAGES = ["/", "/rules", "/connections", "/suggestions", "/metrics", "/nothing"]
HEALTH = {"/healthz": b"ok\n", "/readyz": b"ready\n"}


class Reply:
    def __init__(self, data):
        head, _, self.body = data.partition(b"\r\n\r\n")
        first, *lines = head.decode().split("\r\n")
        self.status = int(first.split()[1])
        self.headers = [tuple(line.split(": ", 1)) for line in lines]

    def header(self, name):
        return [value for key, value in self.headers if key.lower() == name.lower()]


def ask(spillway, path="/rules", *headers, method="GET", version="1.1"):
    """The reply to a request with exactly these headers."""
    lines = [f"{method} {path} HTTP/{version}", *headers, "Connection: close", "", ""]
    with socket.create_connection(("127.0.0.1", spillway.admin_port), 60) as connection:
        connection.sendall("\r\n".join(lines).encode())
        return Reply(connection.makefile("rb").read())


@contextlib.contextmanager
def secured(**admin):
    relay = Relay(RULES)
    relay.spillway.secure_admin(**admin)
    with relay:
        yield relay.spillway


@pytest.fixture(scope="module")
def plain():
    with secured(hosts=["spillway.example", "[fd00::17]"]) as spillway:
        yield spillway


@pytest.fixture(scope="module")
def guarded():
    with secured(token=TOKEN) as spillway:
        yield spillway


@pytest.fixture(scope="module")
def authority():
    with Authority() as made:
        yield made


# ---- names ----

@pytest.mark.parametrize("host", [
    "localhost", "LOCALHOST:9117", "localhost.:1", "127.0.0.1", "127.0.0.1:80", "[::1]", "[::1]:9117",
    "[0:0:0:0:0:0:0:1]", "spillway.example", "Spillway.Example:9117", "[fd00::17]:9117", "[FD00:0::17]"])
def test_its_own_names_are_answered_with_any_port(plain, host):
    assert ask(plain, "/rules", f"Host: {host}").status == 200


@pytest.mark.parametrize("host", [
    "evil.example", "evil.example:9117", "localhost.evil.example", "127.0.0.1.evil.example", "spillway.example.org",
    "x@localhost", "localhost:80@evil.example", "localhost:x", "[::1]x", "[::1", "[fd00::18]", "10.0.0.1", "::",
    "localhost..", "", ".", "a" * 300])
@pytest.mark.parametrize("path", PAGES)
def test_other_names_are_not(plain, path, host):
    reply = ask(plain, path, f"Host: {host}")
    assert reply.status == 421 and b"admin.hosts" in reply.body


def test_the_address_of_the_file_is_a_name():
    relay = Relay(RULES)
    relay.spillway.settings["admin"] = f"127.9.9.9:{relay.spillway.admin_port}"
    relay.spillway.ready = lambda: "listening on" in relay.spillway.said()
    with relay:
        for host, status in (("127.9.9.9", 200), ("127.9.9.8", 421)):
            with socket.create_connection(("127.9.9.9", relay.spillway.admin_port), 60) as connection:
                connection.sendall(f"GET /rules HTTP/1.0\r\nHost: {host}\r\n\r\n".encode())
                assert Reply(connection.makefile("rb").read()).status == status


@pytest.mark.parametrize("path", PAGES)
def test_without_a_name_there_is_nothing_but_health(plain, path):
    for version in ("1.0", "1.1"):
        reply = ask(plain, path, version=version)
        assert reply.status == 421 and b"admin.hosts" in reply.body


def test_two_names_are_none(plain):
    assert ask(plain, "/rules", "Host: localhost", "Host: evil.example").status in (400, 421)


@pytest.mark.parametrize("path", HEALTH)
@pytest.mark.parametrize("headers", [[], ["Host: 10.1.2.3:9117"], ["Host: evil.example"]])
def test_probes_need_no_name(plain, guarded, path, headers):
    for spillway in (plain, guarded):
        reply = ask(spillway, path, *headers, version="1.0")
        assert (reply.status, reply.body) == (200, HEALTH[path])


def test_why_it_is_not_ready_is_told_to_those_who_may_see_more():
    relay = Relay(RULES)
    relay.server.replies["hello"] = lambda _: {"ok": 0.0, "code": 13436, "errmsg": "not yet"}
    spillway = relay.spillway
    spillway.secure_admin(token=TOKEN)
    spillway.ready = lambda: spillway.admin("/readyz")[0] == 503
    with relay.server:
        try:
            spillway.start()
            status, text = spillway.admin("/readyz")
            assert status == 503 and text.startswith("not ready: ")
            for headers in (["Host: localhost"], ["Host: evil.example"], []):
                reply = ask(spillway, "/readyz", *headers, version="1.0")
                assert (reply.status, reply.body) == (503, b"not ready\n")
        finally:
            spillway.__exit__()


# ---- sites and methods ----

@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "TRACE", "PATCH"])
def test_nothing_but_get_and_head(plain, method):
    reply = ask(plain, "/rules", "Host: localhost", method=method)
    assert reply.status == 405 and reply.header("Allow") == ["GET, HEAD"]


def test_head_has_no_body(plain):
    reply = ask(plain, "/rules", "Host: localhost", method="HEAD")
    assert (reply.status, reply.body) == (200, b"")


NAVIGATION = ["Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document"]


@pytest.mark.parametrize("site,path,more,status", [
    ("cross-site", "/rules", ["Sec-Fetch-Mode: no-cors", "Sec-Fetch-Dest: script"], 403),
    ("same-site", "/rules", ["Sec-Fetch-Mode: cors", "Sec-Fetch-Dest: empty"], 403),
    ("cross-site", "/", ["Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: iframe"], 403),
    ("cross-site", "/", [], 403),
    ("cross-site", "/metrics", NAVIGATION, 403),
    ("cross-site", "/", NAVIGATION, 200),
    ("same-origin", "/rules", NAVIGATION, 200),
    ("none", "/rules", NAVIGATION, 200),
])
def test_other_sites_may_only_lead_to_the_status_page(plain, site, path, more, status):
    assert ask(plain, path, "Host: localhost", f"Sec-Fetch-Site: {site}", *more).status == status


def test_the_token_of_a_browser_is_not_for_other_sites(guarded):
    reply = ask(guarded, "/rules", "Host: localhost", f"Authorization: Bearer {TOKEN}", "Sec-Fetch-Site: cross-site")
    assert reply.status == 403


@pytest.mark.parametrize("path", [*PAGES, *HEALTH])
def test_no_page_may_read_frame_or_keep_what_is_answered(plain, path):
    reply = ask(plain, path, "Host: localhost", "Origin: http://evil.example")
    assert not [name for name, _ in reply.headers if name.lower().startswith("access-control-")]
    assert reply.header("X-Content-Type-Options") == ["nosniff"]
    assert reply.header("X-Frame-Options") == ["DENY"]
    assert reply.header("Referrer-Policy") == ["no-referrer"]
    assert reply.header("Cache-Control") == ["no-store"]
    assert reply.header("Cross-Origin-Resource-Policy") == ["same-origin"]
    (policy,) = reply.header("Content-Security-Policy")
    assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy and "unsafe" not in policy


def test_the_policy_of_the_status_page_allows_its_one_style(plain):
    reply = ask(plain, "/", "Host: localhost")
    (style,) = re.findall(rb"<style>(.*?)</style>", reply.body, re.S)
    digest = base64.b64encode(hashlib.sha256(style).digest()).decode()
    (policy,) = reply.header("Content-Security-Policy")
    assert re.findall(r"style-src ([^;]*);", policy) == [f"'sha256-{digest}'"]
    assert not re.findall(rb"\sstyle=", reply.body)


# ---- the token ----

def basic(text):
    return "Basic " + base64.b64encode(text.encode()).decode()


@pytest.mark.parametrize("authorization", [
    f"Bearer {TOKEN}", f"bearer  {TOKEN}", basic(f"anyone:{TOKEN}"), basic(f":{TOKEN}")])
@pytest.mark.parametrize("host", ["localhost", "10.1.2.3:9117"])
def test_with_the_token_everything_is_answered_under_any_name(guarded, authorization, host):
    for path in PAGES[:-1]:
        assert ask(guarded, path, f"Host: {host}", f"Authorization: {authorization}").status == 200


@pytest.mark.parametrize("authorization", [
    None, "", "Bearer", "Bearer ", f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}", f"Bearer {TOKEN.upper()}", TOKEN,
    f"Basic {TOKEN}", basic(TOKEN), basic("anyone:wrong"), basic(f"{TOKEN}:"), basic(f"a:{TOKEN}x"), "Basic ====",
    "Basic =", "Basic", f"Digest {TOKEN}"])
@pytest.mark.parametrize("path", PAGES)
def test_without_it_nothing_is(guarded, path, authorization):
    reply = ask(guarded, path, "Host: localhost", *([f"Authorization: {authorization}"] if authorization else []))
    assert reply.status == 401 and b"admin.token_file" in reply.body
    assert [challenge.split()[0] for challenge in reply.header("WWW-Authenticate")] == ["Bearer", "Basic"]


def test_a_stranger_without_the_token_is_not_asked_for_it(guarded):
    reply = ask(guarded, "/", "Host: evil.example")
    assert reply.status == 421 and not reply.header("WWW-Authenticate")


def test_the_token_is_in_no_log(guarded):
    assert TOKEN not in guarded.said()


# ---- files that are wrong ----

def refusal(spillway, servers):
    with servers:
        try:
            said = spillway.refuses_to_start()
        finally:
            spillway.__exit__()
    return said


WRONG_TOKENS = {
    "others may read it": (TOKEN, 0o640),
    "fewer than 16 characters": (TOKEN[:15], 0o600),
    "is empty": ("\n", 0o600),
    "without spaces": (TOKEN + " " + TOKEN, 0o600),
    "cannot be opened": (None, 0o600),
}


@pytest.mark.parametrize("words", WRONG_TOKENS)
def test_a_wrong_token_file_ends_the_start(words):
    text, mode = WRONG_TOKENS[words]
    relay = Relay(RULES)
    relay.spillway.secure_admin(token_file="tokens/mine")
    file = relay.spillway.folder / "tokens" / "mine"
    file.parent.mkdir()
    if text:
        file.write_text(text)
        file.chmod(mode)
    said = refusal(relay.spillway, relay.server)
    assert "'admin.token_file' 'tokens/mine' " in said and words in said and TOKEN not in said


@pytest.mark.parametrize("key,words", [
    ("cert", "no certificate in PEM form"), ("key", "no private key in PEM form"), ("other", "not the key of"),
    ("open", "others may read it"), ("locked", "without a passphrase"), ("missing", "cannot be opened")])
def test_a_wrong_certificate_or_key_ends_the_start(authority, key, words):
    cert, other, _ = authority.sign("other")
    text = authority.key.read_bytes()
    if key == "other":
        text = other.read_bytes()
    elif key == "key":
        text = authority.cert.read_bytes()
    elif key == "locked":
        text = subprocess.run(["openssl", "ec", "-aes256", "-passout", "pass:x", "-in", authority.key],
                              check=True, capture_output=True).stdout
    relay = Relay(RULES)
    file = relay.spillway.folder / "server.key"
    if key != "missing":
        file.write_bytes(text)
        file.chmod(0o644 if key == "open" else 0o600)
    tls = {"cert": "server.key" if key == "cert" else str(authority.cert), "key": "server.key"}
    relay.spillway.secure_admin(tls=tls)
    said = refusal(relay.spillway, relay.server)
    assert f"'admin.tls.{'cert' if key == 'cert' else 'key'}' 'server.key' " in said and words in said
    assert cert.exists()


# ---- TLS ----

VERSIONS = ["-tls1", "-tls1_1", "-tls1_2", "-tls1_3"]


def speaks(port, version):
    """Whether a client that knows one version of TLS, and all its old ciphers, gets through."""
    ended = subprocess.run(["openssl", "s_client", "-connect", f"127.0.0.1:{port}", version,
                            "-cipher", "ALL:@SECLEVEL=0"], input="", capture_output=True, text=True, timeout=60,
                           check=False)
    return "\nSSL handshake has read" in ended.stdout and "Cipher is (NONE)" not in ended.stdout


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion.TLSv1:DeprecationWarning")
def test_the_client_of_the_next_test_knows_the_old_versions(authority):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1
    context.set_ciphers("ALL:@SECLEVEL=0")
    context.load_cert_chain(authority.cert, authority.key)

    def serve(listener):
        for _ in VERSIONS:
            connection, _ = listener.accept()
            with contextlib.suppress(OSError), context.wrap_socket(connection, server_side=True) as secure:
                secure.recv(1)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = threading.Thread(target=serve, args=(listener,))
        server.start()
        assert [version for version in VERSIONS if speaks(listener.getsockname()[1], version)] == VERSIONS
        server.join()


@pytest.mark.parametrize("least,spoken", [(None, ["-tls1_2", "-tls1_3"]), ("1.2", ["-tls1_2", "-tls1_3"]),
                                          ("1.3", ["-tls1_3"])])
def test_tls_has_a_least_version(authority, least, spoken):
    with secured(authority=authority, token=TOKEN, **({"tls": {"min_version": least}} if least else {})) as spillway:
        assert [version for version in VERSIONS if speaks(spillway.admin_port, version)] == spoken
        assert spillway.admin("/rules")[0] == 200
        spillway.admin_headers = {}
        assert spillway.admin("/rules")[0] == 401 and spillway.admin("/healthz") == (200, "ok\n")


def test_another_certificate_is_taken_when_nobody_has_asked_for_a_while(authority):
    """The configuration that the latest request saw is gone by then: SIGHUP asks nothing of the admin address."""
    with secured(authority=authority, token=TOKEN, tls={"min_version": "1.3"}) as spillway:
        for count in (1, 2):
            spillway.hang_up()
            wait_for(lambda: spillway.said().count(" 1034 reload: ") == count, "the file to be taken")
            assert count == 2 or spillway.admin("/rules")[0] == 200
        cert, key, _ = authority.sign("another")
        spillway.settings["admin"]["tls"].update(cert=str(cert), key=str(key))
        spillway.write_file()
        spillway.hang_up()
        spillway.says(" 1035 reload: 'admin.tls.key' is ")
        assert [version for version in VERSIONS[2:] if speaks(spillway.admin_port, version)] == ["-tls1_3"]
        assert spillway.admin("/rules")[0] == 200


def test_nobody_else_can_be_taken_for_it(authority):
    with secured(authority=authority) as spillway:
        context = ssl.create_default_context()
        with socket.create_connection(("127.0.0.1", spillway.admin_port), 60) as connection, \
                pytest.raises(ssl.SSLCertVerificationError):
            context.wrap_socket(connection, server_hostname="127.0.0.1")


def test_without_tls_there_is_no_answer(authority):
    with secured(authority=authority) as spillway, \
            socket.create_connection(("127.0.0.1", spillway.admin_port), 60) as connection:
        connection.sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
        assert not connection.makefile("rb").read().startswith(b"HTTP")


# ---- slow ones ----

class Slow:
    """Connections that have begun a request, or a handshake, and send a byte each second: none is ever silent."""

    def __init__(self, port, count, addresses, beginning):
        self.ended = threading.Event()
        self.connections = []
        for number in range(count):
            source = (f"127.0.0.{1 + number % addresses}", 0)
            self.connections.append(socket.create_connection(("127.0.0.1", port), 60, source))
            self.send(self.connections[-1], beginning)
        self.thread = threading.Thread(target=self.run)

    @staticmethod
    def send(connection, data):
        with contextlib.suppress(ConnectionError):
            connection.sendall(data)

    def run(self):
        while not self.ended.wait(1):
            for connection in self.connections:
                self.send(connection, b"x")

    def __enter__(self):
        self.thread.start()

    def __exit__(self, *_):
        self.ended.set()
        self.thread.join()
        for connection in self.connections:
            connection.close()


@pytest.mark.parametrize("tls", [False, True])
@pytest.mark.parametrize("addresses", [1, 6])
def test_slow_ones_give_way_to_newcomers(authority, tls, addresses):
    """More than the limits allow, of one client address or of several."""
    beginning = b"\x16\x03\x01\x02\x00" if tls else b"GET / HT"
    with secured(**({"authority": authority} if tls else {})) as spillway, \
            Slow(spillway.admin_port, 600, addresses, beginning):
        assert spillway.admin("/healthz") == (200, "ok\n")
        assert spillway.admin("/readyz")[0] == 200


# ---- other machines ----

@pytest.mark.parametrize("form", ["0.0.0.0", "[::]"])
def test_an_address_that_other_machines_reach_is_warned_of(authority, form):
    def said(**admin):
        relay = Relay(RULES)
        relay.spillway.environment["SPILLWAY_ALLOW_ROOT"] = "1"
        relay.spillway.secure_admin(**admin)
        relay.spillway.settings["admin"]["address"] = f"{form}:{relay.spillway.admin_port}"
        relay.spillway.ready = lambda: "listening on" in relay.spillway.said()
        with relay:
            return re.findall(r"warning \d{4} (the admin address .*)", relay.spillway.said())

    (open_to_all,) = said()
    assert "asks for no token: set admin.token_file" in open_to_all and form in open_to_all
    (clear,) = said(token=TOKEN)
    assert "without TLS" in clear and "set admin.tls" in clear
    assert said(token=TOKEN, authority=authority) == []


def test_a_local_address_is_not(plain):
    assert " the admin address" not in plain.said()
