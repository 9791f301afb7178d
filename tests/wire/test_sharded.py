"""A mongos, or a member of a shard, is no server for Spillway: `serve` says so and ends."""

import pytest

from support.peer import HELLO, FakeServer
from support.spillway import Spillway
from wire.conftest import RULES

REASON = "is part of a sharded cluster, which Spillway does not serve: use a replica set"


@pytest.mark.parametrize("through", ["listen", "replica_set"])
@pytest.mark.parametrize("hello, sharding", [
    ({**HELLO, "msg": "isdbgrid"}, {}),
    ({**HELLO, "setName": "shard0"}, {"enabled": True, "shardName": "shard0"}),
], ids=["mongos", "shard"])
def test_serve_refuses_a_sharded_cluster(through, hello, sharding):
    with FakeServer(hello) as server:
        if through == "replica_set" and "setName" in hello:
            hello.update({"hosts": [server.uri[10:-1]], "me": server.uri[10:-1]})
        server.replies["shardingState"] = lambda command: {**sharding, "ok": 1.0}
        spillway = Spillway([server], RULES, {"upstream": {"uri": server.uri}})
        if through == "replica_set":
            del spillway.settings["listen"]
            spillway.settings["replica_set"] = {"listen": f"127.0.0.1:{spillway.port}-{spillway.port}"}
        with_end(spillway, lambda: assert_refused(spillway))


def assert_refused(spillway):
    said = spillway.refuses_to_start()
    assert REASON in said
    assert "listening on" not in said


def with_end(spillway, check):
    try:
        check()
    finally:
        spillway.__exit__(None)


def test_a_mongos_behind_a_listener_is_noticed_although_the_account_reaches_a_member():
    """The account's server and that of the listener differ."""
    with FakeServer({**HELLO, "setName": "rs0"}) as member, FakeServer({**HELLO, "msg": "isdbgrid"}) as router:
        spillway = Spillway([router], RULES, {"upstream": {"uri": member.uri}})
        with_end(spillway, lambda: assert_refused(spillway))
