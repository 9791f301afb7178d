"""A one-node replica set is killed and restarted between any two commands of the mover."""

from support import crash, share
from support.cluster import Cluster
from support.shim import Shim


def test_a_restart_between_any_two_commands_loses_nothing():
    with Cluster(1) as cluster, Shim(cluster.primary.port) as shim:
        struck = crash.move_through(crash.Restarter, cluster, shim)
    about = {step[0] for _, step in struck}
    assert {"born", "grown", "stored", "edited", "pushed", "garbage"} <= about
    assert len(struck) > share.part(8, every=30), struck
