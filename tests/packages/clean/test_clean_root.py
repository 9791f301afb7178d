"""A newcomer installs the .deb on a bare Debian 12, writes a file, starts it and uses it. clean_root runs this."""
import json
import os
import re
import subprocess

import pytest

from packages.tools import build_deb, run
from support.cluster import Cluster
from support.process import adopt_orphans, new_folder, remove_folder, wait_for
from support.spillway import Spillway

FILE = "/etc/spillway/spillway.yaml"
AS_SPILLWAY = ("--userspec=spillway:spillway",)
RULE = {"name": "sales", "namespace": "shop.sales", "array": "buyers", "threshold": 3, "settle": "20ms",
        "overflow": {"layout": "batches", "link": "book", "array": "part"}}
PUSH = """
for (let i = 0; i < 10; i++) db.sales.updateOne({_id: 1}, {$push: {buyers: i}}, {upsert: true});
print(JSON.stringify(db.sales.findOne({_id: 1})));
"""
READ = "print(JSON.stringify(db.sales.findOne({_id: 1})))"


class Root:
    """A bare Debian 12 in a folder."""

    def __init__(self):
        self.folder = new_folder("clean-root")
        run("tar", "--extract", "--file", os.environ["CLEAN_ROOT"], "--directory", self.folder)

    def call(self, *words, code=0, options=()):
        environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C"}
        return run("chroot", *options, self.folder, *words, code=code, env=environment)

    def install(self, deb, *more):
        run("cp", deb, self.folder / "spillway.deb")
        return self.call("apt-get", "install", "--yes", "-o", "Dpkg::Use-Pty=0", *more,
                         "/spillway.deb")

    def path(self, absolute):
        return self.folder / absolute.lstrip("/")


@pytest.fixture(scope="module")
def deb(tmp_path_factory):
    assert os.getuid() == 0, "only root can enter a clean root"
    return build_deb(tmp_path_factory.mktemp("deb"))


@pytest.fixture(scope="module")
def root(deb):
    made = Root()
    try:
        made.said = made.install(deb)
        yield made
    finally:
        remove_folder(made.folder)


@pytest.fixture(scope="module")
def cluster():
    with Cluster() as made:
        yield made


@pytest.fixture
def spillway(root, cluster):
    """serve of the package, as the user spillway, with the package's file edited."""
    made = Spillway([cluster.primary], [RULE])
    made.file = root.path(FILE)
    made.command = ["chroot", *AS_SPILLWAY, root.folder, "/usr/bin/spillway", "serve", "--config", FILE]
    with made:
        yield made


def mongosh(port, script):
    said = run(os.environ["MONGOSH"], f"mongodb://127.0.0.1:{port}/shop?replicaSet=rs0", "--quiet", "--norc", "--eval",
               script)
    return json.loads(said.splitlines()[-1])


def owner_and_mode(root, path):
    return root.call("stat", "--format=%U:%G %a", path).strip()


def test_the_package_installs_with_what_it_needs(root):
    assert "systemctl enable --now spillway" in root.said
    assert re.fullmatch(r"spillway \d+\.\d+\.\d+\n", root.call("spillway", "--version", options=AS_SPILLWAY))
    assert root.call("dpkg-query", "--show", "--showformat=${Status}", "spillway") == "install ok installed"
    assert "not found" not in root.call("ldd", "/usr/bin/spillway")


def test_the_user_and_the_files_are_as_debian_has_them(root):
    assert root.call("getent", "passwd", "spillway").strip().endswith(":/nonexistent:/usr/sbin/nologin")
    assert owner_and_mode(root, "/etc/spillway") == "root:spillway 750"
    assert owner_and_mode(root, FILE) == "root:spillway 640"


def test_the_service_waits_until_it_is_configured(root):
    enabled = list(root.path("/etc/systemd/system").rglob("spillway.service"))
    assert enabled == []
    assert "/usr/bin/spillway" not in subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, timeout=60,
                                                     check=True).stdout.replace(str(root.folder), "")


def test_check_looks_at_the_file_as_it_comes(root):
    said = root.call("spillway", "check", "--config", FILE, options=AS_SPILLWAY, code=3)
    assert "rules: []" in said and "no server answers" in said


def test_it_serves_mongosh(root, cluster, spillway):
    whole = {"_id": 1, "buyers": list(range(10))}
    assert mongosh(spillway.port, PUSH) == whole
    direct = cluster.client()["shop"]
    wait_for(lambda: len(direct["sales"].find_one({"_id": 1})["buyers"]) == 3, "the tail to move")
    assert mongosh(spillway.port, READ) == whole
    assert "ready" in root.call("spillway", "health", "--config", FILE, options=AS_SPILLWAY)
    said = root.call("spillway", "check", "--config", FILE, options=AS_SPILLWAY, code=1)
    assert "not come through this Spillway" in said  # the test's own connection to mongod
    assert "landlock" not in spillway.said() and "root" not in spillway.said()
    assert spillway.stop() == 0
    spillway.start()


# What is asked of each command, in an order in which an operator may ask; the exit code, and words of what it says.
COMMANDS = [
    (("status",), 0, "SPILLED"),
    (("suggest",), 1, ""),
    (("explain", '{"find": "sales", "filter": {"_id": 1}}', "--db", "shop"), 0, "outliers in its reply"),
    (("explain", '{"find": "sales", "filter": {"_id": 1}}', "--db", "shop", "--live"), 0, "outliers in its reply"),
    (("pause", "sales"), 0, "paused"),
    (("resume",), 0, "goes on"),
    (("reload",), 0, "holds from now on"),
    (("verify", "--rule", "sales"), 0, "spilled 1"),
    (("migrate", "--rule", "sales"), 0, "nothing was written"),
    (("migrate", "--rule", "sales", "--execute"), 0, "documents 0"),
    (("undo", "--rule", "sales"), 0, "documents 1"),
]


def test_every_command_works(root, cluster, spillway):
    adopt_orphans()
    direct = cluster.client()["shop"]
    mongosh(spillway.port, PUSH)
    wait_for(lambda: len(direct["sales"].find_one({"_id": 1})["buyers"]) == 3, "the tail to move")
    for (name, *words), code, said in COMMANDS:
        assert said in root.call("spillway", name, *words, "--config", FILE, options=AS_SPILLWAY, code=code), name
    assert "serves from now on" in root.call("spillway", "upgrade", "--config", FILE, options=AS_SPILLWAY)
    assert spillway.upgraded().wait(30) == 0
    uri = f"mongodb://127.0.0.1:{spillway.port}/?replicaSet=rs0"
    assert "buyers" in root.call("spillway", "analyze", uri, "shop.sales", options=AS_SPILLWAY)
    assert "needs a terminal" in root.call("spillway", "top", "--config", FILE, options=AS_SPILLWAY, code=2)


def test_an_upgrade_keeps_the_file(root, deb):
    before = root.path(FILE).read_text()
    root.path(FILE).write_text(before + "# mine\n")
    root.install(deb, "--reinstall")
    assert root.path(FILE).read_text() == before + "# mine\n"
    assert owner_and_mode(root, FILE) == "root:spillway 640"


def test_it_goes_without_a_trace_of_its_own(root):
    link = root.path("/etc/systemd/system/multi-user.target.wants/spillway.service")
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to("/lib/systemd/system/spillway.service")  # as `systemctl enable` does
    root.call("apt-get", "remove", "--yes", "spillway")
    assert not root.path("/usr/bin/spillway").exists() and root.path(FILE).exists()
    root.call("apt-get", "purge", "--yes", "spillway")
    assert not root.path("/etc/spillway").exists()
    assert not os.path.lexists(link)
