"""The image, the compose file and the manifests are well-formed, closed, and agree with one another and with serve."""
import json
import re

import pytest

from packages.tools import DEPLOY, run, tool
from support.spillway import program

DOCKERFILE = DEPLOY / "container" / "Dockerfile"
COMPOSE = DEPLOY / "container" / "compose.yaml"
MANIFESTS = sorted((DEPLOY / "kubernetes").glob("*.yaml"))
# The tests' own Python has no YAML.
ASK = "import json, sys, yaml; print(json.dumps(list(yaml.safe_load_all(open(sys.argv[1])))))"
COMPOSE_CHECK = "import sys; from compose_spec import PyCompose as C; C.from_yaml(open(sys.argv[1]).read()).to_spec()"


def documents(file):
    return json.loads(run(tool("python"), "-c", ASK, file))


def pods(file):
    return [each["spec"]["template"]["spec"] for each in documents(file) if each["kind"] == "Deployment"]


def containers(pod):
    return pod.get("initContainers", []) + pod["containers"]


def version():
    return run(program(), "--version").split()[1]


def test_the_linter_finds_nothing_in_the_image():
    assert run(tool("hadolint"), DOCKERFILE) == ""


def test_the_image_is_not_root_and_probes_itself():
    text = DOCKERFILE.read_text()
    last = text[text.rindex("\nFROM "):]
    assert re.search(r"^USER (\d+):\1$", last, re.M)[1] == re.search(r"--uid (\d+) ", last)[1] != "0"
    assert re.search(r'^    CMD \["spillway", "health", "--config", "(.*)"\]', last, re.M)
    assert "apt-get install" in last and "-dev" not in last


def test_the_image_builds_with_what_setup_installs():
    """Each Debian package to build with, of deploy/setup, is in the image; what only tests need is not asked."""
    wanted = re.search(r"build_packages='([^']*)'", (DEPLOY / "setup").read_text())[1].split()
    only_for_tests = {"python3", "python3-venv", "libcurl4", "libssl3"}
    assert set(wanted) - only_for_tests <= set(DOCKERFILE.read_text().split())


def test_compose_is_what_its_specification_says(tmp_path):
    assert run(tool("python"), "-c", COMPOSE_CHECK, COMPOSE) == ""
    wrong = tmp_path / "compose.yaml"
    wrong.write_text(COMPOSE.read_text().replace("read_only:", "readonly:"))
    assert "readonly" in run(tool("python"), "-c", COMPOSE_CHECK, wrong, code=1)


def test_compose_closes_spillway():
    spillway = documents(COMPOSE)[0]["services"]["spillway"]
    assert spillway["read_only"] and spillway["cap_drop"] == ["ALL"]
    assert spillway["image"] == f"spillway:{version()}"
    assert all(each.startswith("127.0.0.1:") for each in spillway["ports"])


@pytest.mark.parametrize("file", MANIFESTS, ids=lambda file: file.name)
def test_manifests_fit_the_schema_of_kubernetes(file, tmp_path):
    said = run(tool("kubernetes-validate"), "--strict", file)
    assert said.count(" passed ") == len(documents(file))
    wrong = tmp_path / file.name
    wrong.write_text(file.read_text().replace("readinessProbe:", "readyProbe:"))
    assert "readyProbe" in run(tool("kubernetes-validate"), "--strict", wrong, code=1)


@pytest.mark.parametrize("file", MANIFESTS, ids=lambda file: file.name)
def test_pods_are_closed_and_probed(file):
    kinds = {each["kind"] for each in documents(file)}
    assert {"Deployment", "PodDisruptionBudget", "ConfigMap", "Secret"} <= kinds
    for pod in pods(file):
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        for each in containers(pod):
            assert each["securityContext"] == {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True,
                                               "capabilities": {"drop": ["ALL"]}}
        spillway = next(each for each in containers(pod) if each["name"] == "spillway")
        assert spillway["image"] == f"spillway:{version()}"
        assert spillway["livenessProbe"]["httpGet"]["path"] == "/healthz"
        assert spillway["readinessProbe"]["httpGet"]["path"] == "/readyz"
        assert pod["terminationGracePeriodSeconds"] > 30  # limits.drain


@pytest.mark.parametrize("file", [DEPLOY / "debian" / "spillway.yaml", DEPLOY / "container" / "spillway.yaml",
                                  *MANIFESTS], ids=lambda file: f"{file.parent.name}-{file.name}")
def test_spillway_understands_its_files(file, tmp_path):
    """No server answers here: `check` then ends with 3, behind the file that it has read."""
    text = file.read_text()
    if file in MANIFESTS:
        text = next(each for each in documents(file) if each["kind"] == "ConfigMap")["data"]["spillway.yaml"]
    text = text.replace("/run/spillway/", f"{tmp_path}/")
    (tmp_path / "admin.token").touch(mode=0o600)
    (tmp_path / "admin.token").write_text("a-token-of-many-letters\n")
    copy = tmp_path / "spillway.yaml"
    text = re.sub(r"server: \S+:\d+", "server: 127.0.0.1:PORT", text)
    for port in range(1, 1 + text.count("PORT")):
        text = text.replace("PORT", str(port), 1)
    copy.write_text(text)
    assert "listen:\n" in run(program(), "check", "--config", copy, code=3)


@pytest.mark.parametrize("file", MANIFESTS, ids=lambda file: file.name)
def test_ports_of_the_pod_are_those_of_the_configuration(file):
    made = documents(file)
    text = next(each for each in made if each["kind"] == "ConfigMap")["data"]["spillway.yaml"]
    inside = {int(port) for port in re.findall(r"address: 0\.0\.0\.0:(\d+)", text)}
    for pod in pods(file):
        spillway = next(each for each in containers(pod) if each["name"] == "spillway")
        assert {each["containerPort"] for each in spillway["ports"]} == inside
    for service in (each for each in made if each["kind"] == "Service"):
        advertised = {int(port) for port in re.findall(r"advertise: \S+:(\d+)", text)}
        assert {each["port"] for each in service["spec"]["ports"]} == advertised
