"""With TLS, too: while one side stalls the other is not read, and memory stays where it was."""

import socket

import pytest

from support import frames
from support.openssl import TLS_1_3, Client
from support.peer import DEADLINE
from support.secured import SIDES, SecuredRelay
from wire.conftest import RULES
from wire.test_backpressure import Writer, arrives_everywhere, insert_of, pass_one, stall
from wire.test_tls_streams import OK, ask_at_once

FLOOD = 1 << 25  # bytes
ALLOWED = 384 << 10  # one buffer more than without TLS, and a record in OpenSSL


class SealedWriter(Writer):
    def run(self):
        while self.sent < len(self.data):
            part = self.data[self.sent:self.sent + (1 << 18)]
            self.end.send(part)
            self.sent += len(part)


@pytest.fixture(scope="module", params=SIDES)
def relay(request):
    with SecuredRelay(request.param, RULES) as made:
        yield made


@pytest.mark.parametrize("direction", ["request", "reply"])
def test_a_side_that_stalls_costs_no_memory(relay, session, direction):
    stall(relay, session, direction, SealedWriter, ALLOWED)


def test_both_ways_at_once(relay, session):
    client, server = session
    pass_one(client, server)
    longest = insert_of(frames.LONGEST)
    before = relay.private_memory()
    writers = [SealedWriter(end, longest) for end in session]
    for writer in writers:
        writer.wait_until_stuck()
    assert relay.private_memory() - before <= 2 * ALLOWED
    assert arrives_everywhere(session, longest)
    for writer in writers:
        writer.join()


def test_a_first_request_that_came_with_the_handshake_is_not_kept():
    request = insert_of(60_000)
    with SecuredRelay("client") as relay:
        before = [relay.private_memory()]
        for _ in range(2):
            for _ in range(100):
                client = relay.raw()
                ask_at_once(client, relay.seen, request)
                server = relay.server.accept()
                assert server.take(len(request)) == request
                server.send(OK)
            before.append(relay.private_memory())
        assert (before[2] - before[1]) / 100 <= 40 << 10


def test_a_flood_of_key_updates_is_cut_off():
    """Each is answered, and who reads no answers would have them kept for ever."""
    with SecuredRelay("client") as relay, socket.socket() as near:
        before = relay.private_memory()
        near.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        near.settimeout(DEADLINE)
        near.connect(("127.0.0.1", relay.spillway.port))
        with Client(near, TLS_1_3) as tls:
            server = relay.server.accept()
            sent = 0
            with pytest.raises(ConnectionError):
                while sent < FLOOD:
                    for _ in range(500):
                        tls.update_keys()
                    sealed = tls.sealed()
                    near.sendall(sealed)
                    sent += len(sealed)
            assert server.rest() == (b"", "reset")
        assert relay.private_memory() - before < 1 << 20
