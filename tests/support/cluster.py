"""Starts mongod for a test: standalone, a one-node or a larger replica set, on free ports."""

import os

import pymongo
from pymongo.errors import AutoReconnect, PyMongoError

from support.process import Process, build_folder, free_port, new_folder, remove_folder, wait_for

SET_NAME = "rs0"
# mongod's own words, and smaller files: it reads a whole one, which is mostly empty, when it starts after a kill.
JOURNAL = "log=(enabled=true,remove=true,path=journal,compressor=snappy,file_max=16MB)"
ADMINISTRATOR = {"username": "administrator", "password": "secret of the administrator"}


def mongod_program():
    return os.environ.get("MONGOD", "mongod")


def _key_file(folder):
    """What members know each other by; a set that has it asks clients who they are."""
    path = folder / "key"
    path.write_text("c2VjcmV0IG9mIHRoZSBtZW1iZXJz\n")
    path.chmod(0o600)
    return path


class Mongod(Process):
    """One mongod; `replica_set` is its set's name, or None for a standalone."""

    def __init__(self, folder, name, replica_set, options=(), tls=None, flush_ms=10):
        self.port = free_port()
        self.credentials = {}
        self.tls = tls or {}  # how clients connect
        data = folder / name
        data.mkdir()
        command = [
            mongod_program(), "--dbpath", data, "--port", self.port, "--bind_ip", "127.0.0.1",
            "--nounixsocket", "--wiredTigerCacheSizeGB", "0.5", "--wiredTigerEngineConfigString", JOURNAL,
            "--logpath", folder / f"{name}.log", "--logappend", "--setParameter", "enableTestCommands=1",
            "--setParameter", "diagnosticDataCollectionEnabled=false", "--journalCommitInterval", flush_ms,
        ]
        if replica_set:
            command += ["--replSet", replica_set, "--oplogSize", "512"]
        short_start = build_folder() / "tests" / "libshort_start.so"
        environment = {**os.environ, "LD_PRELOAD": str(short_start)} if short_start.exists() else None
        super().__init__(name, command + list(options), folder, environment)

    @property
    def address(self):
        return f"127.0.0.1:{self.port}"

    def client(self, **options):
        """A PyMongo client straight to this one server."""
        options = {"serverSelectionTimeoutMS": 20000, **self.tls, **self.credentials, **options}
        return pymongo.MongoClient("127.0.0.1", self.port, directConnection=True, **options)

    def is_primary(self):
        with self.client() as client:
            try:
                return client.admin.command("hello")["isWritablePrimary"]
            except AutoReconnect:
                return False  # it closes its connections as it changes its state

    def start(self):
        super().start()
        wait_for(self._answers, f"{self.name} to answer", pause=0.05)

    def _answers(self):
        self.require_running()
        try:
            with pymongo.MongoClient("127.0.0.1", self.port, directConnection=True,
                                     serverSelectionTimeoutMS=1000, **self.tls) as client:
                return client.admin.command("ping")
        except PyMongoError:
            return False


class Cluster:
    """Context manager: `members` mongods as one replica set, or one standalone (members=0).

    A `secure` replica set has users: client() signs in as the administrator. One that is not `durable`
    calls a write a majority's before its journal has it: for tests in which no server ends. `tls` are the
    options by which PyMongo connects to one that wants TLS. `flush_ms` says how often mongod flushes its journal
    unasked (its default is 100): a drop of a database waits for that.
    """

    def __init__(self, members=1, options=(), secure=False, durable=True, tls=None, flush_ms=10):
        self.folder = new_folder("mongod")
        self.replica_set = SET_NAME if members else None
        self.secure = secure
        self.durable = durable
        if secure:
            options = [*options, "--keyFile", _key_file(self.folder)]
        self.members = [
            Mongod(self.folder, f"mongod{i}", self.replica_set, options, tls, flush_ms)
            for i in range(max(members, 1))
        ]

    def __enter__(self):
        try:
            for member in self.members:
                member.start()
            if self.replica_set:
                self._initiate()
            if self.secure:
                self._add_administrator()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for member in self.members:
            if member.process:
                member.kill()
        remove_folder(self.folder)

    def _initiate(self):
        members = [
            # The first is preferred, so that a test knows the primary.
            {"_id": i, "host": member.address, "priority": 2 if i == 0 else 1}
            for i, member in enumerate(self.members)
        ]
        settings = {"electionTimeoutMillis": 2000, "heartbeatIntervalMillis": 500}
        with self.members[0].client() as client:
            client.admin.command("replSetInitiate", {
                "_id": self.replica_set, "members": members, "settings": settings,
                "writeConcernMajorityJournalDefault": self.durable,
            })
        self.wait_for_primary()

    def _add_administrator(self):
        """As long as there is no user, one may be made from the same machine."""
        name, password = ADMINISTRATOR.values()
        with self.client() as client:
            client.admin.command("createUser", name, pwd=password, roles=["root"])
        for member in self.members:
            member.credentials = ADMINISTRATOR

    def wait_for_primary(self):
        """Until the first member is primary and the others are secondaries."""
        with self.members[0].client() as client:
            wait_for(lambda: client.admin.command("hello")["isWritablePrimary"], "a primary", pause=0.05)
        for member in self.members[1:]:
            with member.client() as client:
                wait_for(lambda: client.admin.command("hello")["secondary"], "a secondary", pause=0.05)

    @property
    def primary(self):
        return self.members[0]

    def find_primary(self):
        """The member that says so; None while there is none."""
        return next((member for member in self.members if member.running() and member.is_primary()), None)

    def wait_for_another(self, before):
        return wait_for(lambda: self.find_primary() not in (None, before) and self.find_primary(),
                        "another primary", pause=0.05)

    def wait_for_first(self):
        """The first member takes over again, being preferred."""
        wait_for(lambda: self.find_primary() is self.primary, "the first member to take over", pause=0.05)

    def step_down(self, seconds=3):
        """The primary of now gives way; the new one, once there is one."""
        before = wait_for(self.find_primary, "a primary", pause=0.05)
        with before.client() as client:
            client.admin.command("replSetStepDown", seconds, secondaryCatchUpPeriodSecs=2)
        return self.wait_for_another(before)

    def client(self, **options):
        return self.primary.client(**options)
