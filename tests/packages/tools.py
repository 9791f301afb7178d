"""What the tests of packages share: where things are, and how a tool is asked."""
import os
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
BUILD = pathlib.Path(os.environ["SPILLWAY_BUILD"])


def run(*words, code=0, **more):
    """What the command says on both outputs; it must end with this code."""
    done = subprocess.run([str(word) for word in words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=120, check=False, **more)
    assert done.returncode == code, f"{words[0]} ended with {done.returncode}: {done.stdout[-4000:]}"
    return done.stdout


def tool(name):
    """A tool that `deploy/setup packages` got."""
    return pathlib.Path(os.environ["PACKAGE_TOOLS"]) / name


def build_deb(folder):
    """The .deb of the build under test."""
    run("cpack", "-G", "DEB", "-B", folder, cwd=BUILD)
    return next(folder.glob("spillway_*.deb"))
