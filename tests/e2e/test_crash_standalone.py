"""A standalone mongod is killed and restarted between any two commands of the mover.

A driver that reconnects without a word would cut elements here that are stored nowhere, or remove some that are
needed."""

import threading

from support import crash, share
from support.cluster import Cluster
from support.process import wait_for
from support.shim import Shim


def test_a_restart_between_any_two_commands_loses_nothing():
    with Cluster(0) as cluster, Shim(cluster.primary.port) as shim:
        struck = crash.move_through(crash.Restarter, cluster, shim)
    about = {step[0] for _, step in struck}
    assert {"born", "grown", "stored", "edited", "pushed", "garbage"} <= about
    assert len(struck) > share.part(8, every=30), struck


def test_what_is_removed_was_found_on_the_same_connection():
    """Time passes between looking for garbage and removing it: enough for a driver to see that its connection is
    closed, and to make another one."""
    with Cluster(0) as cluster, Shim(cluster.primary.port) as shim, cluster.client() as direct:
        restarts = []

        def restart():
            cluster.primary.kill()
            cluster.primary.start()

        def close_after(pass_on):
            pass_on()
            restarts.append(threading.Thread(target=restart))
            restarts[0].start()
            return True

        def hook(request):
            looked = crash.step_of(request) == ("garbage", "find", "books", "all")
            return close_after if looked and not restarts else None

        crash.seed(direct)
        # A round that waits for garbage would use the connection meanwhile.
        direct.shop.books.delete_one({"_id": "edited"})
        direct.shop.more_books.delete_many({"book": "edited"})
        direct.shop.more_books.insert_one(crash.batch("gone", 1, 0, [200, 201], crash.generation()))
        shim.restart(hook)
        with crash.behind(cluster, shim, gc_delay="4s", sweep="300ms"):
            by_id = wait_for(lambda: crash.resting(direct), "rest", 100, 0.1)
            restarts[0].join()
        crash.require_pinned(shim.requests)
    assert set(by_id) == {"born", "grown", "stored", "short"}
