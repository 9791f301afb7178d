"""The servers of the soak: a replica set, two Spillways with TLS, and HAProxy before them."""

import contextlib

from support.balancer import Balancer
from support.certificates import Authority
from support.cluster import Cluster
from support.process import wait_for
from support.replica_set import SetSpillway, free_range

RULE = {
    "name": "books", "namespace": "soak.books", "array": "list", "threshold": 50, "settle": "10ms",
    "overflow": {"layout": "batches", "link": "book", "array": "part", "batch": {"size": 100}},
}
# A pooled connection that nobody used since a Spillway was killed is gone before the primary steps down.
OPTIONS = "?replicaSet=rs0&maxIdleTimeMS=30000"
HOLDS, REFUSED = " 1034 reload: ", " 1031 reload: "


class Reload:
    """It is asked for again when it is refused, as where the mover of a busy machine does not come to a stop."""

    def __init__(self, spillway):
        self.spillway = spillway
        self.held, self.refused = self._counts()
        spillway.hang_up()

    def _counts(self):
        said = self.spillway.said()
        return said.count(HOLDS), said.count(REFUSED)

    def holds(self):
        held, refused = self._counts()
        if held == self.held and refused > self.refused:
            self.refused = refused
            self.spillway.hang_up()
        return held > self.held


class World(contextlib.ExitStack):
    """`killed` is the Spillway that is upgraded and killed, `lasting` the one that lives for the whole run."""

    def __enter__(self):
        super().__enter__()
        try:
            self._start()
        except BaseException:
            self.close()
            raise
        return self

    def _start(self):
        self.before = []
        self.authority = self.enter_context(Authority())
        self.cluster = self.enter_context(Cluster(members=3))
        self.first = free_range()
        seed = "mongodb://" + ",".join(member.address for member in self.cluster.members) + "/"
        self.killed, self.lasting = (self._spillway(seed, *each) for each in (("killed", "127.0.0.2"),
                                                                             ("lasting", "127.0.0.3")))
        self.balancer = self.enter_context(Balancer(self.first, [self.killed, self.lasting]))

    def _spillway(self, seed, name, host):
        made = SetSpillway(seed, [RULE], self.first, host, "127.0.0.1", name=name)
        made.settings["replica_set"]["tls"] = {"cert": str(self.authority.cert), "key": str(self.authority.key)}
        return self.enter_context(made)

    @property
    def spillways(self):
        return self.killed, self.lasting

    def uri(self, arm):
        """`through` the Spillways, or `direct`."""
        if arm == "through":
            hosts = (f"127.0.0.1:{self.first + number}" for number in range(3))
            return f"mongodb://{','.join(hosts)}/{OPTIONS}&tls=true&tlsCAFile={self.authority.ca}"
        return f"mongodb://{','.join(member.address for member in self.cluster.members)}/{OPTIONS}"

    def reload(self, number):
        """Another threshold in both files, in turn 50 and 60. Both must hold: no upgrade begins with other rules."""
        for spillway in self.spillways:
            spillway.settings["rules"][0]["threshold"] = 50 + number % 2 * 10
            spillway.write_file()
        for ask in [Reload(spillway) for spillway in self.spillways]:
            wait_for(ask.holds, f"a reload of {ask.spillway.name}", seconds=300, pause=0.2)

    def certificate(self, _):
        """The same names, another key."""
        self.authority.sign("server")
        for spillway in self.spillways:
            spillway.hang_up()

    def upgrade(self, _):
        """A new process serves; the one before ends with its connections."""
        self.before.append(self.killed.upgrade())

    def kill(self, _):
        self.killed.kill()

    def restart(self):
        """What was killed comes back. Those before an upgrade end in their time, and well."""
        self.before = [each for each in self.before if not self._has_ended(each)]
        if not self.killed.running():
            self.killed.start()

    def _has_ended(self, process):
        code = process.poll()
        if code not in (None, 0):
            raise RuntimeError(f"a process before an upgrade ended with {code}: {self.killed.said()[-2000:]}")
        return code is not None

    def failover(self, _):
        with self.cluster.find_primary().client() as client:
            client.admin.command("replSetStepDown", 10, secondaryCatchUpPeriodSecs=5)


def resources(spillway):
    """Its memory in MiB, its open files, its open client connections."""
    process = f"/proc/{spillway.pid}"
    with open(f"{process}/status", encoding="ascii") as status:
        memory = next(int(line.split()[1]) for line in status if line.startswith("VmRSS:"))
    samples = spillway.metrics()
    return {"memory": round(memory / 1024, 1), "files": int(samples["process_open_fds"]),
            "connections": int(samples["spillway_connections_accepted_total"]
                               - samples["spillway_connections_closed_total"])}
