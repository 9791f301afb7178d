"""Spillway is killed, or cut off, between any two commands of its mover, also while clients push."""

import contextlib
import threading

import pytest

from support import crash, share
from support.cluster import Cluster
from support.process import wait_for
from support.shim import CUT_AFTER, CUT_BEFORE, Shim

WRITES = {"update", "insert", "delete"}


@pytest.fixture(scope="module", params=[1, 0], ids=["replica set", "standalone"])
def cluster(request):
    with Cluster(request.param) as made:
        yield made


@pytest.fixture
def shim(cluster):
    with Shim(cluster.primary.port) as made:
        yield made


class Killer:
    """Kills Spillway at its mover's command number `at`: before mongod sees it, or before its answer comes back."""

    def __init__(self, spillway, at, verdict):
        self.spillway = spillway
        self.left = at
        self.verdict = verdict
        self.lock = threading.Lock()

    def struck(self):
        return self.left <= 0

    def __call__(self, request):
        if self.verdict == CUT_AFTER and request.name not in WRITES:
            return None
        with self.lock:
            self.left -= 1
            if self.left != 0:
                return None
        self.spillway.process.kill()
        return self.verdict


def live_and_die(cluster, direct, shim, at, verdict):
    """One life of Spillway that ends at that command, and one that goes on; False where no such command came."""
    crash.seed(direct)
    with contextlib.ExitStack() as stack:
        spillway = crash.behind(cluster, shim)
        stack.push(spillway.__exit__)
        killer = Killer(spillway, at, verdict)
        shim.restart(killer)
        spillway.start(ready=False)
        pusher = crash.Pusher(spillway.port, crash.concern(cluster))
        pusher.start()
        wait_for(lambda: killer.struck() or not pusher.is_alive() and crash.at_rest(direct),
                 "the fault, or rest", pause=0.02)
        shim.restart()
        if killer.struck():
            spillway.kill()
            spillway.start()
        pusher.join()
        by_id = wait_for(lambda: crash.at_rest(direct), f"rest after {at}", pause=0.02)
    crash.require_whole(by_id)
    pusher.require_kept(by_id.get("pushed", []))
    return killer.struck()


@pytest.mark.parametrize("verdict", [CUT_BEFORE, CUT_AFTER])
def test_killed_at_every_command_it_continues_where_it_was(cluster, direct, shim, verdict):
    # Every one on a replica set; a standalone differs in its concerns alone. Of an ordinary run's share each way to
    # be killed has another.
    step = share.part(4, every=1) if cluster.replica_set else share.part(7, every=3)
    at = 1 if verdict == CUT_BEFORE else min(step, 3)
    while live_and_die(cluster, direct, shim, at, verdict):
        at += step
    assert at > 15, "fewer commands than the cases need"


def test_cut_off_at_every_command_it_begins_again(cluster, shim):
    struck = crash.move_through(crash.Cutter, cluster, shim)
    about = {step[0] for _, step in struck}
    assert {"born", "grown", "stored", "edited", "pushed", "garbage"} <= about
    assert len(struck) > 30, struck
