"""The command line without a server: help, the version, and what is said about mistakes."""
import json
import re
import subprocess

import pytest

from support.certificates import Authority
from support.spillway import program

pytestmark = pytest.mark.share(1)
COMMANDS = ["serve", "reload", "upgrade", "check", "analyze", "migrate", "verify", "undo", "health", "pause", "resume",
            "explain", "status", "top", "suggest"]


def call(*arguments):
    run = subprocess.run([program(), *arguments], capture_output=True, text=True, timeout=60, check=False)
    return run.returncode, run.stdout, run.stderr


@pytest.mark.parametrize("form", [["help"], ["--help"], ["-h"]])
def test_help_lists_every_command(form):
    code, out, err = call(*form)
    assert (code, err) == (0, "")
    assert re.findall(r"^  (\w+) +[a-z]", out, re.M) == COMMANDS


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_has_one_help(name):
    code, out, err = call("help", name)
    assert (code, err) == (0, "")
    assert out.startswith(f"usage: spillway {name} ")
    assert call(name, "-h") == call(name, "--help") == (code, out, err)
    usage = out.split("\n", 1)[0]
    options = re.findall(r"^  (?:-., )?--([a-z-]+)", out.split("\noptions:\n")[1], re.M)
    assert re.findall(r"--([a-z-]+)", usage) + ["help", "version"] == options
    assert re.search(r"^exit codes:\n  0  ", out, re.M)
    assert max(map(len, out.split("\n")[1:])) <= 78


@pytest.mark.parametrize("form", [["-V"], ["--version"],
                                  *([name, letter] for name in COMMANDS for letter in ("-V", "--version"))])
def test_the_version(form):
    code, out, err = call(*form)
    assert (code, err) == (0, "")
    assert re.fullmatch(r"spillway \d+\.\d+\.\d+\n", out)


@pytest.mark.parametrize("arguments, said", [
    ([], "spillway: a command is missing\n'spillway help' lists the commands\n"),
    (["verfy"], "spillway: no such command: 'verfy'; did you mean 'verify'?\n'spillway help' lists the commands\n"),
    (["help", "chek"],
     "spillway: no such command: 'chek'; did you mean 'check'?\n'spillway help' lists the commands\n"),
    (["--verbose"], "spillway: unknown option '--verbose'\n'spillway help' lists the commands\n"),
])
def test_a_command_that_is_none_is_named(arguments, said):
    assert call(*arguments) == (2, "", said)


@pytest.mark.parametrize("arguments, said", [
    (["serve"], "--config FILE is missing"), (["check"], "--config FILE is missing"),
    (["verify", "--config", "f"], "--rule NAME is missing"), (["undo", "--rule", "r"], "--config FILE is missing"),
    (["check", "--config"], "'--config' needs a value"),
    (["check", "--config", "f", "--config", "f"], "--config is given once"),
    (["check", "--json=yes"], "'--json' takes no value"), (["check", "-x"], "unknown option '-x'"),
    (["check", "--rule", "r"], "unknown option '--rule'"),
    (["check", "--password=secret"], "unknown option '--password'"),
    (["serve", "--config", "f", "more"], "too many arguments"), (["analyze", "a", "b", "c", "d"], "too many arguments"),
    (["analyze", "a"], "URI and NAMESPACE are needed"),
    (["analyze", "mongodb://h/", b"shop.caf\xe9"], "NAMESPACE is not UTF-8"),
    (["migrate", "--rate", "0"], "--rate takes a number from 1 to 1000000000"),
    (["migrate", "--max-lag", "1s"], "--max-lag takes a number from 1 to 1000000000"),
    (["migrate", "--config", "f", "--rule", "r", "--resume"], "--resume goes with --execute"),
    (["verify", "--config", "f", "--rule", "r", "--execute"], "--execute goes with --repair"),
    (["verify", "--config", "f", "--rule", "r", "--repair", "--export", "x"], "--export goes with --execute"),
])
def test_a_mistake_is_named_with_the_way_to_help(arguments, said):
    code, out, err = call(*arguments)
    first, usage, hint = err.split("\n", 2)
    assert (code, out) == (2, "")
    assert first == f"spillway {arguments[0]}: {said}"
    assert usage.startswith(f"usage: spillway {arguments[0]} ")
    assert hint == f"'spillway help {arguments[0]}' explains the options\n"


def test_no_password_is_repeated():
    for arguments in (["mongodb://ann:hunter@h/"], ["help", "mongodb://ann:hunter@h/"],
                      ["analyze", "--uri=mongodb://ann:hunter@h/"]):
        code, out, err = call(*arguments)
        assert code == 2 and "hunter" not in out + err


def test_a_help_that_can_not_be_written_is_no_success():
    with open("/dev/full", "w", encoding="utf-8") as full:
        run = subprocess.run([program(), "help"], stdout=full, stderr=subprocess.PIPE, timeout=60, check=False)
    assert run.returncode == 1 and b"could not be written" in run.stderr


@pytest.mark.parametrize("key, what", [("cert", "certificate file"), ("key", "key file"), ("ca", "CA file")])
def test_a_missing_file_of_tls_is_called_missing(tmp_path, key, what):
    with Authority() as authority:
        files = {"cert": authority.sign("both")[2], **({"client_cert": "optional"} if key == "ca" else {}),
                 key: "missing.pem"}
        file = tmp_path / "spillway.yaml"
        file.write_text(json.dumps({"listen": [{"address": "127.0.0.1:1", "server": "127.0.0.1:2",
                                                "tls": {name: str(value) for name, value in files.items()}}],
                                    "rules": []}))
        code, _, err = call("check", "--config", file)
    assert (code, err) == (2, f"TLS: the {what} '{tmp_path}/missing.pem' cannot be used: No such file or directory\n")
