"""serve as root: refused where other machines can connect, unless it is asked for; told of where only this one can."""

import os

import pytest

from support.peer import FakeServer, Relay
from support.spillway import Spillway
from wire.conftest import RULES

ELSEWHERE = "192.0.2.1"  # of no machine: who is let through can't listen there
AS_ROOT = [] if os.getuid() == 0 else ["unshare", "--user", "--map-root-user"]
AS_ANOTHER = ["setpriv", "--reuid=65534", "--clear-groups"] if os.getuid() == 0 else []


def ends(wrapper, options=(), environment=None, admin=False):
    """The exit code of serve on an address that is not this machine's, and what it says."""
    with FakeServer() as server:
        spillway = Spillway([server], RULES, {"upstream": {"uri": server.uri}}, environment=environment)
        if admin:
            spillway.settings["admin"] = f"{ELSEWHERE}:{spillway.admin_port}"
        else:
            spillway.settings["listen"][0]["address"] = f"{ELSEWHERE}:{spillway.port}"
        spillway.folder.chmod(0o711)
        spillway.command = [*wrapper, *spillway.command, *options]
        spillway.write_file()
        if wrapper == AS_ANOTHER and wrapper:
            os.chown(spillway.file, 65534, 65534)
        spillway.start(ready=False)
        code = spillway.process.wait(60)
        said = spillway.said()
        spillway.__exit__()
        return code, said


@pytest.mark.parametrize("admin", [False, True])
def test_root_does_not_serve_where_other_machines_can_connect(admin):
    code, said = ends(AS_ROOT, admin=admin)
    assert code == 2
    assert f"serve does not run as root on '{ELSEWHERE}:" in said
    assert "run it as a user of its own" in said and "--allow-root" in said


@pytest.mark.parametrize("options, environment", [(["--allow-root"], None), ([], {"SPILLWAY_ALLOW_ROOT": "1"})])
def test_root_serves_there_if_it_is_asked_for(options, environment):
    code, said = ends(AS_ROOT, options, environment)
    assert (code, "cannot listen on" in said, "serve runs as root" in said) == (1, True, True)


def test_other_users_serve_there():
    code, said = ends(AS_ANOTHER)
    assert (code, "cannot listen on" in said, "root" in said) == (1, True, False)


def test_on_this_machine_alone_root_serves_and_is_told_of_it():
    with Relay(RULES, wrapper=AS_ROOT) as relay:
        assert relay.spillway.says("serve runs as root; run it as a user of its own")
