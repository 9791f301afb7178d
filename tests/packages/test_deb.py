"""The .deb holds what an operator expects where Debian has it, and lintian finds no error in it."""
import gzip
import io
import re
import subprocess
import tarfile

import pytest

from packages.tools import DEPLOY, build_deb, run
from support.spillway import program

EXPECTED = ["usr/bin/spillway", "lib/systemd/system/spillway.service", "etc/spillway/spillway.yaml",
            "usr/share/man/man1/spillway.1.gz", "usr/share/man/man5/spillway.yaml.5.gz",
            "usr/share/bash-completion/completions/spillway", "usr/share/zsh/vendor-completions/_spillway",
            "usr/share/doc/spillway/copyright", "usr/share/doc/spillway/changelog.gz", "usr/share/doc/spillway/NEWS.gz",
            "usr/share/doc/spillway/examples/manual.yaml", "usr/share/doc/spillway/examples/alerts.yml",
            "usr/share/doc/spillway/examples/grafana.json"]


@pytest.fixture(scope="module")
def deb(tmp_path_factory):
    return build_deb(tmp_path_factory.mktemp("deb"))


@pytest.fixture(scope="module")
def unpacked(deb, tmp_path_factory):
    folder = tmp_path_factory.mktemp("unpacked")
    run("dpkg-deb", "--raw-extract", deb, folder)
    return folder


def test_lintian_finds_nothing(deb):
    assert run("lintian", "--allow-root", "--fail-on", "error,warning", deb) == ""


def test_everything_is_in_its_place(unpacked):
    found = {str(file.relative_to(unpacked)) for file in unpacked.rglob("*") if file.is_file()}
    assert set(EXPECTED) <= found
    outside = {each for each in found if not each.startswith(("usr/", "etc/spillway/", "lib/systemd/", "DEBIAN/"))}
    assert outside == set()


def test_the_package_is_of_this_version_and_needs_its_libraries(unpacked):
    control = (unpacked / "DEBIAN/control").read_text()
    assert re.search(r"^Version: (.*)$", control, re.M)[1] == run(program(), "--version").split()[1]
    assert re.search(r"^Package: spillway$", control, re.M)
    needs = re.search(r"^Depends: (.*)$", control, re.M)[1]
    for each in ("adduser", "libc6 (>= ", "libmongoc-1.0-0 (>= ", "libuv1 (>= ", "libssl3 (>= ", "libmicrohttpd12 "):
        assert each in needs
    changelog = gzip.decompress((unpacked / "usr/share/doc/spillway/changelog.gz").read_bytes()).decode()
    assert changelog.startswith("spillway (")
    assert run("dpkg-parsechangelog", "-l", "-", "-S", "Version", input=changelog).strip() in control


def test_the_configuration_is_the_administrators_and_closed(deb, unpacked):
    assert (unpacked / "DEBIAN/conffiles").read_text() == "/etc/spillway/spillway.yaml\n"
    packed = subprocess.run(["dpkg-deb", "--fsys-tarfile", deb], capture_output=True, check=True, timeout=60).stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as tar:
        modes = {member.name: member.mode for member in tar}
    assert modes["./etc/spillway/spillway.yaml"] == 0o640
    assert modes["./usr/bin/spillway"] == 0o755


def test_the_unit_starts_what_is_in_the_package(unpacked):
    unit = (unpacked / "lib/systemd/system/spillway.service").read_text()
    assert unit == (DEPLOY / "systemd/spillway.service").read_text()
    words = re.search(r"^ExecStart=(.*)$", unit, re.M)[1].split()
    assert (unpacked / words[0].lstrip("/")).is_file() and (unpacked / words[-1].lstrip("/")).is_file()


def test_the_program_in_the_package_is_the_one_that_was_built(unpacked):
    assert run(unpacked / "usr/bin/spillway", "help") == run(program(), "help")
