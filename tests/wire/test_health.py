"""`spillway health` asks the running Spillway whether it is ready, as a container's probe does."""
import subprocess

import pytest

from support.certificates import Authority
from support.peer import FakeServer
from support.process import wait_for
from support.spillway import Spillway, program
from wire.conftest import RULES


def health(spillway):
    run = subprocess.run([program(), "health", "--config", spillway.file], capture_output=True, text=True, timeout=60,
                         check=False)
    return run.returncode, run.stdout, run.stderr


@pytest.mark.parametrize("guarded", [False, True])
def test_it_is_healthy_while_it_is_ready(guarded):
    with FakeServer() as server, Authority() as authority:
        spillway = Spillway([server], RULES, {"upstream": {"uri": server.uri}})
        if guarded:
            spillway.secure_admin("a-token-of-many-letters", authority)
        with spillway:
            assert health(spillway) == (0, "ready\n", "")
            spillway.stop()
            code, said, told = health(spillway)
            assert (code, said) == (1, "")
            assert f"'127.0.0.1:{spillway.admin_port}' does not answer that Spillway is ready" in told
            spillway.start()


def test_a_spillway_whose_servers_do_not_answer_is_not_healthy(unserved):
    wait_for(lambda: unserved.admin("/readyz")[0] == 503, "an admin address that is not ready")
    assert health(unserved)[0] == 1


def test_without_an_admin_address_nobody_can_be_asked():
    with FakeServer() as server:
        spillway = Spillway([server], RULES, {"upstream": {"uri": server.uri}})
        del spillway.settings["admin"]
        spillway.write_file()
        code, said, told = health(spillway)
        assert (code, said) == (2, "")
        assert "the file has no 'admin'" in told
        spillway.__exit__()


def test_a_wrong_file_is_named(tmp_path):
    (tmp_path / "wrong.yaml").write_text("listen: 5\n")
    run = subprocess.run([program(), "health", "--config", tmp_path / "wrong.yaml"], capture_output=True, text=True,
                         timeout=60, check=False)
    assert run.returncode == 2 and "wrong.yaml:1" in run.stderr
