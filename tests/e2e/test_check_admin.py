"""`spillway check` on the admin address: who could use it, its files, and the Spillway that answers there."""

import json
import subprocess

import pytest

from support.certificates import Authority
from support.process import free_port
from support.spillway import Spillway, program

RULE = {"name": "books", "namespace": "shop.books", "array": "list", "threshold": 3,
        "overflow": {"link": "main", "array": "part"}}
TOKEN = "correct-horse-battery-staple"


@pytest.fixture(scope="module")
def authority():
    with Authority() as made:
        yield made


@pytest.fixture
def spillway(cluster):
    """Its file only: the program is not started."""
    made = Spillway([cluster.primary], [RULE])
    yield made
    made.__exit__()


def check(spillway, *options):
    return subprocess.run([program(), "check", "--config", spillway.file, *options], capture_output=True, text=True,
                          timeout=60, check=False)


def look(spillway):
    ended = check(spillway, "--json")
    assert ended.returncode in (0, 1), ended.stderr
    return json.loads(ended.stdout)


def admin_findings(spillway):
    spillway.write_file()
    found = [each for each in look(spillway)["findings"] if each["kind"] == "admin"]
    return {each["code"]: each["what"] + ": " + each["remedy"] for each in found}


@pytest.mark.parametrize("host", ["0.0.0.0", "[::]"])
def test_an_address_that_other_machines_reach(spillway, authority, host):
    def findings(**admin):
        spillway.secure_admin(**admin)
        spillway.settings["admin"]["address"] = f"{host}:9117"
        return admin_findings(spillway)

    found = findings()
    assert list(found) == ["admin-open"] and f"'{host}:9117'" in found["admin-open"]
    assert "set admin.token_file" in found["admin-open"]
    found = findings(token=TOKEN)
    assert list(found) == ["admin-clear"] and "set admin.tls" in found["admin-clear"]
    assert findings(authority=authority).keys() == {"admin-open"}
    assert findings(token=TOKEN, authority=authority) == {}


@pytest.mark.parametrize("address", ["127.0.0.1:9117", "127.1.2.3:9117", "[::1]:9117", "localhost:9117", "off"])
def test_a_local_address_is_no_finding(spillway, address):
    spillway.settings["admin"] = address
    assert admin_findings(spillway) == {}


def test_files_that_are_wrong(spillway, authority):
    spillway.secure_admin(token=TOKEN)
    token = spillway.folder / "token"
    token.chmod(0o644)
    assert "'admin.token_file' 'token' holds a secret and others may read it" in admin_findings(spillway)["admin-files"]
    token.chmod(0o600)
    assert admin_findings(spillway) == {}
    _, other, _ = authority.sign("other")
    spillway.secure_admin(tls={"cert": str(authority.cert), "key": str(other)})
    assert "is not the key of the certificate" in admin_findings(spillway)["admin-files"]
    spillway.secure_admin(tls={"cert": "nowhere", "key": str(other)})
    assert "'admin.tls.cert' 'nowhere' cannot be opened" in admin_findings(spillway)["admin-files"]


def test_without_a_server_the_admin_address_is_looked_at():
    class Nobody:
        address = f"127.0.0.1:{free_port()}"

    made = Spillway([Nobody], [RULE], {"admin": "0.0.0.0:9117"})
    try:
        made.write_file()
        ended = check(made)
        assert ended.returncode == 3 and "asks for no token" in ended.stdout
        assert "only the file was checked" in ended.stderr
        assert [each["code"] for each in json.loads(check(made, "--json").stdout)["findings"]] == ["admin-open"]
    finally:
        made.__exit__()


def silent(spillway):
    return "spillway-silent" in [note["code"] for note in look(spillway)["notes"]]


@pytest.mark.parametrize("token", [None, TOKEN])
@pytest.mark.parametrize("tls", [False, True])
def test_the_running_spillway_is_asked_with_token_and_tls(spillway, authority, token, tls):
    spillway.secure_admin(token=token, authority=authority if tls else None)
    spillway.write_file()
    assert silent(spillway)
    spillway.start()
    assert not silent(spillway)
    if tls:  # somebody else's certificate, even of the same CA, gets no token
        cert, key, _ = authority.sign("stranger")
        spillway.settings["admin"]["tls"] = {"cert": str(cert), "key": str(key)}
        spillway.write_file()
        assert silent(spillway)
    elif token:
        (spillway.folder / "token").write_text(TOKEN + "x")
        assert silent(spillway)
