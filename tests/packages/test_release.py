"""A release has a tag, archives, a .deb, a bill of materials and checksums; a dry run leaves the repository alone."""
import datetime
import json
import re
import shutil
import subprocess

import pytest

from packages.tools import BUILD, ROOT, run, tool
from support.process import new_folder, remove_folder
from support.spillway import program

VERSION = run(program(), "--version").split()[1]
SCHEMA = ("import sys; from cyclonedx.schema import SchemaVersion as V; from cyclonedx.validation.json import "
          "JsonStrictValidator as J; e = J(V.V1_5).validate_str(open(sys.argv[1]).read()); print(e or 'valid')")


class Repository:
    """A copy of this source with a history of its own."""

    def __init__(self):
        self.folder = new_folder("release")
        self.source = self.folder / "source"
        shutil.copytree(ROOT, self.source, ignore=shutil.ignore_patterns("build", ".git", "__pycache__"))
        self.git("init", "--quiet")
        self.git("config", "user.name", "A maintainer")
        self.git("config", "user.email", "maintainer@localhost")
        self.git("config", "commit.gpgsign", "false")
        self.commit()

    def git(self, *words):
        return run("git", *words, cwd=self.source)

    def commit(self):
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--message", "all of it")

    def edit(self, name, old, new):
        file = self.source / name
        assert old in file.read_text()
        file.write_text(file.read_text().replace(old, new, 1))

    def release(self, *options, code=0):
        return run("deploy/release", *options, "--build", BUILD, cwd=self.source, code=code)

    def state(self):
        return self.git("rev-parse", "HEAD"), self.git("tag"), self.git("status", "--porcelain")


@pytest.fixture
def repository():
    made = Repository()
    yield made
    remove_folder(made.folder)


@pytest.fixture(scope="module")
def dry():
    """(the repository, its state before, what a dry run said, its folder)"""
    made = Repository()
    before = made.state()
    to = made.folder / "files"
    said = made.release("--dry-run", "--to", to)
    yield made, before, said, to
    remove_folder(made.folder)


def test_a_dry_run_changes_nothing_and_says_what_the_tag_would_say(dry):
    made, before, said, _ = dry
    assert made.state() == before
    assert f"nothing is tagged. The tag v{VERSION} would say:" in said
    assert "- **Proxy.** Clients connect to Spillway as to mongod" in said


def test_the_files_are_there_with_their_checksums(dry):
    to = dry[-1]
    found = {file.name for file in to.iterdir()}
    assert {f"spillway-{VERSION}.tar.gz", f"spillway-{VERSION}.cdx.json", "SHA256SUMS"} <= found
    assert len([name for name in found if re.fullmatch(rf"spillway_{VERSION}_\w+\.deb", name)]) == 1
    assert len([name for name in found if re.fullmatch(rf"spillway-{VERSION}-linux-\w+\.tar\.gz", name)]) == 1
    assert run("sha256sum", "--check", "SHA256SUMS", cwd=to).count(": OK") == len(found) - 1 == 4


def names_in(archive):
    return run("tar", "--list", "--file", archive).splitlines()


def test_the_archives_hold_source_and_program(dry):
    to = dry[-1]
    source = names_in(to / f"spillway-{VERSION}.tar.gz")
    assert {f"spillway-{VERSION}/{each}" for each in ("CMakeLists.txt", "proxy/main.c", "LICENSE")} <= set(source)
    assert not any(re.search(r"/(build|\.git)/", name) for name in source)
    binary = names_in(next(to.glob("spillway-*-linux-*.tar.gz")))
    assert [name for name in binary if name.endswith("/bin/spillway")]
    assert not any("/etc/" in name for name in binary)


def test_the_bill_of_materials_names_each_library_with_its_version(dry):
    file = dry[-1] / f"spillway-{VERSION}.cdx.json"
    assert run(tool("python"), "-c", SCHEMA, file) == "valid\n"
    bill = json.loads(file.read_text())
    versions = {each["name"]: each["version"] for each in bill["components"]}
    for package in ("libuv1", "libmongoc-1.0-0", "libssl3", "libfyaml0", "libmicrohttpd12", "zlib1g"):
        assert versions[package] == run("dpkg-query", "--show", "--showformat=${Version}", package)
    needs = {each["ref"]: each["dependsOn"] for each in bill["dependencies"]}
    own = needs[bill["metadata"]["component"]["bom-ref"]]
    assert [each for each in own if "/libuv1@" in each]


def test_a_release_dates_the_changelog_and_tags_the_commit(repository):
    said = repository.release("--to", repository.folder / "files")
    assert f"tagged v{VERSION}" in said
    assert repository.git("cat-file", "-t", f"v{VERSION}") == "tag\n"
    assert repository.git("rev-parse", f"v{VERSION}^{{commit}}") == repository.git("rev-parse", "HEAD")
    assert "- **Proxy.**" in repository.git("tag", "--list", "--format=%(contents)", f"v{VERSION}")
    today = datetime.datetime.now(datetime.UTC).date()
    changelog = (repository.source / "CHANGELOG.md").read_text()
    heading = re.search(rf"^## {re.escape(VERSION)} \((.*)\)$", changelog, re.M)[1]
    assert abs(datetime.date.fromisoformat(heading) - today) <= datetime.timedelta(days=1)
    assert repository.git("status", "--porcelain") == ""
    archive = repository.folder / "files" / f"spillway-{VERSION}.tar.gz"
    inside = subprocess.run(["tar", "--extract", "--to-stdout", "--file", archive, f"spillway-{VERSION}/CHANGELOG.md"],
                            capture_output=True, text=True, check=True, timeout=60).stdout
    assert f"## {VERSION} ({heading})" in inside


def test_what_is_not_ready_is_refused(repository):
    (repository.source / "new").touch()
    assert "files are changed or new" in repository.release("--dry-run", code=1)
    (repository.source / "new").unlink()
    repository.git("tag", f"v{VERSION}")
    assert f"the tag v{VERSION} exists" in repository.release("--dry-run", code=1)
    repository.edit("CMakeLists.txt", f"VERSION {VERSION}", "VERSION 9.9.9")
    repository.commit()
    assert "CHANGELOG.md has no section '## 9.9.9'" in repository.release("--dry-run", code=1)
