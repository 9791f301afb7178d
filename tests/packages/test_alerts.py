"""The alert rules and the dashboard ask for metrics that exist; alerts fire in trouble, and none if all is well."""
import json
import re

from packages.tools import DEPLOY, ROOT, run, tool

RULES = DEPLOY / "alerts.yml"
ALERTS = re.findall(r"^ +- alert: (\w+)$", RULES.read_text(), re.M)


def metrics():
    """Those of the page; tests/style/metrics compares the page with the program."""
    return set(re.findall(r"^\| `(spillway_\w+)", (ROOT / "docs/operate.md").read_text(), re.M))


def asked(text):
    """The metrics that are asked for; of a histogram, its own name."""
    return {re.sub(r"_(bucket|count|sum)$", "", name) for name in re.findall(r"\bspillway_\w+", text)}


def test_promtool_understands_the_rules():
    assert f"{len(ALERTS)} rules found" in run(tool("promtool"), "check", "rules", RULES)


def test_each_alert_fires_in_trouble_and_none_if_all_is_well(tmp_path):
    text = (ROOT / "tests/packages/alerts.yaml").read_text()
    file = tmp_path / "test.yaml"
    file.write_text(text.replace("RULES", str(RULES)).replace("COUNT", str(len(ALERTS))))
    assert "SUCCESS" in run(tool("promtool"), "test", "rules", file)
    file.write_text(text.replace("RULES", str(RULES)).replace("COUNT", str(len(ALERTS) + 1)))
    assert "FAILED" in run(tool("promtool"), "test", "rules", file, code=1)


def test_alerts_and_dashboard_ask_for_metrics_that_exist():
    dashboard = json.loads((DEPLOY / "grafana.json").read_text())
    exprs = [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", [])]
    in_alerts = asked("\n".join(re.findall(r"^ +expr: (.*)$", RULES.read_text(), re.M)))
    assert len(ALERTS) > 5 and in_alerts and asked("\n".join(exprs))
    assert (in_alerts | asked("\n".join(exprs))) - metrics() == set()


def test_each_alert_says_what_to_do():
    assert len(re.findall(r'^ +description: ".{30,}"$', RULES.read_text(), re.M)) == len(ALERTS)
