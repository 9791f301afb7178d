"""What strikes while clients are at work: Spillways and members killed, primaries deposed, connections cut."""

import collections
import signal

from pymongo.errors import PyMongoError

from support.process import wait_for

COMMANDS = ["find", "aggregate", "getMore", "insert", "update", "delete", "findAndModify"]


class Faults:
    """Each strike waits until what it broke is whole again; `struck` counts them by kind, and as `no successor` the
    pauses in which nobody took over."""

    def __init__(self, cluster, spillways, driver, random):
        self.cluster = cluster
        self.spillways = spillways
        self.driver = driver
        self.random = random
        self.struck = collections.Counter()
        self.kinds = {
            "kill a Spillway": self._kill_spillway,
            "cut clients": self.driver.cut,
            "cut servers": self._cut_servers,
            "step down": self._step_down,
            "kill a member": self._kill_member,
            "pause the primary": self._pause_primary,
        }

    def strike(self, kind):
        self.kinds[kind]()
        self.struck[kind] += 1

    def _kill_spillway(self):
        spillway = self.random.choice(self.spillways)
        spillway.kill()
        spillway.start()

    def _cut_servers(self):
        """The primary closes the connections on which the next commands come."""
        with self._primary().client() as client:
            client.admin.command("configureFailPoint", "failCommand", mode={"times": self.random.randrange(1, 12)},
                                 data={"failCommands": COMMANDS, "closeConnection": True})

    def _step_down(self):
        """By force, it does not wait for those that would follow it."""
        before = self._primary()
        forced = self.random.random() < 0.5
        try:
            with before.client() as client:
                client.admin.command("replSetStepDown", 3, secondaryCatchUpPeriodSecs=0 if forced else 2, force=forced)
        except PyMongoError:
            return  # nobody was ready to follow, or the connection went
        wait_for(self._healthy, "all members", 90, 0.05)

    def _kill_member(self):
        """Mostly the primary: what it alone has is rolled back when it returns."""
        primary = self._primary()
        member = primary if self.random.random() < 0.6 else self.random.choice(self.cluster.members)
        member.kill()
        if member is primary and self.random.random() < 0.5:
            self._successor(member)
        member.start()
        wait_for(self._healthy, "all members", 90, 0.05)

    def _pause_primary(self):
        """It goes on believing that it is the primary, while another is; for a while, where the others wait for it."""
        before = self._primary()
        before.process.send_signal(signal.SIGSTOP)
        try:
            self._outlast(before)
        finally:
            before.process.send_signal(signal.SIGCONT)
        wait_for(self._healthy, "all members", 90, 0.05)

    def _outlast(self, before):
        try:
            self._successor(before, 20)
        except TimeoutError:
            self.struck["no successor"] += 1
            return
        self.driver.advance(20)

    def _primary(self):
        return wait_for(self._find_primary, "a primary", 60, 0.05)

    def _find_primary(self, but=None):
        for member in self.cluster.members:
            if member is not but and hello(member).get("isWritablePrimary"):
                return member
        return None

    def _successor(self, before, seconds=60):
        return wait_for(lambda: self._find_primary(but=before), "another primary", seconds, 0.05)

    def _healthy(self):
        states = [hello(member) for member in self.cluster.members]
        return (all(state.get("isWritablePrimary") or state.get("secondary") for state in states)
                and sum(bool(state.get("isWritablePrimary")) for state in states) == 1)


def hello(member):
    """What the member says of itself; nothing where it does not answer."""
    try:
        with member.client(serverSelectionTimeoutMS=500, socketTimeoutMS=1000) as client:
            return client.admin.command("hello")
    except PyMongoError:
        return {}
