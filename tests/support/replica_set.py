"""A Spillway before a whole replica set (`replica_set` in its file), and clients that find it."""

import socket

import pymongo
from pymongo.errors import PyMongoError

from support.process import free_port
from support.spillway import Spillway

PORTS = 5  # more than a test's set has members
ADDRESSES = ("127.0.0.1", "127.0.0.2", "127.0.0.3")


def free_range():
    """The first of PORTS free ports in a row, on all ADDRESSES."""
    while True:
        first = free_port()
        if all(_is_free(address, first + i) for address in ADDRESSES for i in range(PORTS)):
            return first


def _is_free(address, port):
    with socket.socket() as probe:
        try:
            probe.bind((address, port))
        except OSError:
            return False
    return True


class SetSpillway(Spillway):
    """`seed` leads to the set. It listens on `host`; `advertise` is what clients are told, if that is another one."""

    def __init__(self, seed, rules=(), first=None, host="127.0.0.1", advertise=None, ports=PORTS, more=None, **options):
        super().__init__([], rules, more, **options)
        self.host, self.first = host, first or free_range()
        del self.settings["listen"]
        section = {"listen": f"{host}:{self.first}-{self.first + ports - 1}", **({"seed": seed} if seed else {})}
        self.settings["replica_set"] = {**section, **({"advertise": advertise} if advertise else {})}

    def client(self, *ids, **options):
        return pymongo.MongoClient(set_uri(self.host, self.first, *ids), serverSelectionTimeoutMS=20000, **options)

    def listens(self, number):
        """Whether the member with this `_id` can be reached."""
        try:
            with pymongo.MongoClient(self.host, self.first + number, directConnection=True,
                                     serverSelectionTimeoutMS=300) as client:
                return client.admin.command("ping")["ok"] == 1.0
        except PyMongoError:
            return False

    def accepts(self, number):
        """Whether somebody listens for the member; it may answer nothing yet."""
        with socket.socket() as probe:
            return probe.connect_ex((self.host, self.first + number)) == 0

    def nodes(self, *ids):
        """As a driver has the members with these `_id`s."""
        return {(self.host, self.first + number) for number in ids}


def set_uri(host, first, *ids):
    seeds = ",".join(f"{host}:{first + number}" for number in ids)
    return f"mongodb://{seeds}/?replicaSet=rs0&heartbeatFrequencyMS=500"
