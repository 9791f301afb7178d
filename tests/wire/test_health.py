"""`spillway health` asks the running Spillway whether it is ready, as a container's probe does."""
import contextlib
import socket
import ssl
import subprocess
import threading

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


def test_a_certificate_that_was_renewed_on_disk_makes_nobody_ill():
    """The running Spillway shows the one before until it is told."""
    with FakeServer() as server, Authority() as authority:
        spillway = Spillway([server], RULES, {"upstream": {"uri": server.uri}})
        spillway.secure_admin("a-token-of-many-letters", authority)
        with spillway:
            cert, key, _ = authority.sign("renewed")
            authority.cert.write_bytes(cert.read_bytes())
            authority.key.write_bytes(key.read_bytes())
            assert health(spillway) == (0, "ready\n", "")
            spillway.hang_up()
            spillway.says(" 1034 reload: ")
            assert health(spillway) == (0, "ready\n", "")


@contextlib.contextmanager
def hurried(authority, tmp_path):
    """In a Spillway's place: ends each connection behind its half of the handshake of TLS."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority.cert, authority.key)

    def serve(listener):
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listener.accept()
                with connection:
                    come, sent = ssl.MemoryBIO(), ssl.MemoryBIO()
                    come.write(connection.recv(65536))
                    with contextlib.suppress(ssl.SSLWantReadError):
                        context.wrap_bio(come, sent, server_side=True).do_handshake()
                    connection.sendall(sent.read())

    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = threading.Thread(target=serve, args=(listener,))
        server.start()
        file = tmp_path / "spillway.yaml"
        file.touch(mode=0o600)
        file.write_text("listen: [{address: '127.0.0.1:1', server: '127.0.0.1:2'}]\nrules: []\nadmin:\n"
                        f"  address: 127.0.0.1:{listener.getsockname()[1]}\n"
                        f"  tls: {{cert: {authority.cert}, key: {authority.key}}}\n")
        try:
            yield file
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            server.join()


@pytest.mark.parametrize("command, code", [("health", 1), ("reload", 3), ("upgrade", 3), ("status", 3)])
def test_a_connection_that_is_cut_is_no_answer(tmp_path, command, code):
    """OpenSSL writes to a socket that nobody reads any more."""
    with Authority() as authority, hurried(authority, tmp_path) as file:
        run = subprocess.run([program(), command, "--config", file], capture_output=True, text=True, timeout=60,
                             check=False)
        assert (run.returncode, run.stdout) == (code, "") and "answer" in run.stderr


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
