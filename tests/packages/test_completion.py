"""bash and zsh complete every command and every option that the help names."""
import re
import subprocess

import pytest

from packages.tools import DEPLOY, run
from support.spillway import program

BASH = DEPLOY / "completion" / "spillway.bash"
ZSH = DEPLOY / "completion" / "_spillway"
PROGRAM = program()
COMMANDS = re.findall(r"^  (\w+) +[a-z]", run(PROGRAM, "help"), re.M)

# What _arguments and _describe would offer, without a terminal.
ZSH_ASKED = """
_arguments() { for each; do print -r -- "${${each%%\\[*}%%:*}"; done }
_describe() { local -a list; list=(${(P)${@[-1]}}); for each in $list; do print -r -- "${each%%:*}"; done }
complete_it() { local -a words; words=("$@"); local CURRENT=$#; source "$file" }
"""


def options_of(command):
    help_text = run(PROGRAM, "help", command).split("\noptions:\n")[1]
    return set(re.findall(r"--[a-z-]+", "\n".join(re.findall(r"^  (?:-., )?--[a-z-]+", help_text, re.M))))


def ask_bash(*words, folder=None):
    script = (f'source "{BASH}"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _spillway; '
              'printf "%s\\n" "${COMPREPLY[@]}"')
    return set(subprocess.run(["bash", "-c", script, "bash", *words], capture_output=True, text=True, timeout=60,
                              check=True, cwd=folder).stdout.split())


def ask_zsh(*words):
    script = f'file="{ZSH}"\n{ZSH_ASKED}\ncomplete_it "$@"'
    run_ = subprocess.run(["zsh", "-f", "-c", script, "zsh", *words], capture_output=True, text=True, timeout=60,
                          check=True)
    assert run_.stderr == ""
    return set(run_.stdout.split())


def test_bash_completes_commands():
    assert set(COMMANDS) <= ask_bash("spillway", "")
    assert ask_bash("spillway", "ver") == {"verify"}
    assert ask_bash("spillway", "help", "ver") == {"verify"}


@pytest.mark.parametrize("command", COMMANDS)
def test_bash_completes_options(command):
    assert ask_bash("spillway", command, "--") == options_of(command)


def test_bash_completes_files_where_an_option_takes_one(tmp_path):
    (tmp_path / "shop.yaml").touch()
    assert ask_bash("spillway", "check", "--config", "sh", folder=tmp_path) == {"shop.yaml"}
    assert ask_bash("spillway", "verify", "--rule", "sh", folder=tmp_path) == set()


def test_zsh_completes_commands():
    assert set(COMMANDS) <= ask_zsh("spillway", "")
    assert set(COMMANDS) <= ask_zsh("spillway", "help", "")


@pytest.mark.parametrize("command", COMMANDS)
def test_zsh_completes_options(command):
    assert {each for each in ask_zsh("spillway", command, "") if each.startswith("--")} == options_of(command)
