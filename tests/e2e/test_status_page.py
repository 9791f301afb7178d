"""The admin address: a page for people without scripts, the rules as JSON, metrics, and a dashboard that fits them."""

import html.parser
import json
import pathlib
import re
import subprocess
import time

import pymongo
import pytest
from bson import json_util
from pymongo.errors import OperationFailure

from support.process import wait_for
from support.spillway import QuotedText, Spillway

SECRET, TOKEN = "known-to-few", "a-token-for-the-tests"
NASTY = "<b>bold</b> & \"quoted\""
RULE = {"name": "books", "namespace": "shop.books", "array": "list", "threshold": 3, "settle": "20ms",
        "overflow": {"link": "main", "array": "part", "batch": {"size": 10}}}
DASHBOARD = pathlib.Path(__file__).parents[2] / "deploy" / "grafana.json"


class Page(html.parser.HTMLParser):
    """The page's tables by their titles, as rows of texts; everything opened must be closed."""

    VOID = {"meta", "br", "!doctype"}

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.tables, self.text, self.title = [], set(), {}, "", None
        self.attributes = set()
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        if tag not in self.VOID:
            self.open.append(tag)
        if tag == "h2":
            self.title = ""
        elif tag == "table":
            self.tables[self.title.strip()] = []
        elif tag == "tr":
            self.tables[self.title.strip()].append([])
        elif tag == "td":
            self.tables[self.title.strip()][-1].append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data
        if "h2" in self.open:
            self.title += data
        elif "td" in self.open:
            self.tables[self.title.strip()][-1][-1] += data

    def rows(self, title):
        (table,) = (rows for name, rows in self.tables.items() if name.startswith(title))
        return [row for row in table if row]

    def value(self, title, what):
        return next(row[1] for row in self.rows(title) if row[0] == what)


@pytest.fixture(scope="module")
def spillway(cluster):
    began = time.monotonic()
    made = Spillway([cluster.primary], [RULE])
    made.secure_admin(token=TOKEN)
    with made, pymongo.MongoClient("127.0.0.1", made.port, directConnection=True) as client:
        client.shop.books.insert_many([{"_id": name, "list": list(range(length))}
                                       for name, length in ((NASTY, 40), ("long", 30), ("short", 2))])
        client.shop.books.insert_many([{"_id": number, "list": list(range(10))} for number in range(5)])
        wait_for(lambda: made.metrics()["spillway_outliers_total"] == 7, "the tails to move")
        wait_for(lambda: len(longest(made)) == 5, "the longest to be known")
        assert len(client.shop.books.find_one({"_id": "long"})["list"]) == 30
        with pytest.raises(OperationFailure, match="rule 'books'"):
            client.shop.books.create_index("list", unique=True)
        assert uptime(made) <= time.monotonic() - began
        yield made


def page(spillway):
    status, text = spillway.admin("/")
    assert status == 200
    return Page(text)


def uptime(spillway):
    """Seconds; no test of this file takes an hour."""
    said = re.search(r"Spillway\s+\d+\.\d+\.\d+, up for 0 h (\d+) min (\d+) s; ready", page(spillway).text)
    return 60 * int(said[1]) + int(said[2])


def rules(spillway):
    return json.loads(spillway.admin("/rules")[1])["rules"]


def longest(spillway):
    spaces = rules(spillway)[0]["namespaces"]
    return spaces[0]["longest"] if spaces else []


def test_the_page_shows_what_has_happened(spillway):
    shown = page(spillway)
    (rule,) = (row for row in shown.rows("Rules") if "books" in row[0])
    moved = 37 + 27 + 5 * 7
    assert "shop.books: list beyond 3" in rule[0] and "holds" in rule[0] and rule[1:] == ["7", str(moved)]
    assert int(shown.value("Mover", "documents waiting")) >= 0
    assert shown.value("Mover", "lag of the last one moved").endswith(" ms")
    assert int(shown.value("Reads", "documents put together")) >= 1
    assert float(shown.value("Reads", "an overflow query took, on average").split()[0]) > 0
    assert int(shown.value("Traffic", "connections now")) >= 1
    assert int(shown.value("Traffic", "requests refused")) == 1
    (refusal,) = (row for row in shown.rows("Refusals") if "books" in row)
    assert refusal[2] == "1" and "unique index" in refusal[1]
    began = uptime(spillway)
    wait_for(lambda: uptime(spillway) > began, "the next second")


def test_the_biggest_documents_come_first(spillway):
    rows = page(spillway).rows("Biggest documents seen")
    assert [int(row[2]) for row in rows] == [40, 30, 10, 10, 10]
    assert "<b>bold</b>" in rows[0][1] and '"long"' in rows[1][1]


def test_nothing_in_it_runs_or_comes_from_elsewhere(spillway):
    shown = page(spillway)
    assert not shown.tags & {"script", "img", "link", "iframe", "b"} and "viewport" in spillway.admin("/")[1]
    assert not [name for name in shown.attributes if name.startswith("on") or name == "src"]


def test_the_rules_as_json(spillway):
    (rule,) = rules(spillway)
    assert (rule["name"], rule["namespace"], rule["array"], rule["threshold"]) == ("books", "shop.books", "list", 3)
    (space,) = rule["namespaces"]
    assert (space["namespace"], space["overflow"]) == ("shop.books", "shop.books_list_overflow")
    assert (space["fitness"], space["outliers"]) == ("fit", 7)
    assert space["longest"][:2] == [{"_id": NASTY, "elements": 40}, {"_id": "long", "elements": 30}]


def test_without_a_token_no_id_is_shown(cluster, spillway):
    hidden = "hidden: set admin.token_file to see it"
    with Spillway([cluster.primary], [RULE]) as made, \
            pymongo.MongoClient("127.0.0.1", made.port, directConnection=True) as client:
        client.shop.books.insert_one({"_id": SECRET, "list": list(range(9))})
        wait_for(lambda: longest(made), "a document to be known")
        assert {"document": hidden, "elements": 9} in longest(made)
        assert all(entry.keys() == {"document", "elements"} for entry in longest(made))
        rows = page(made).rows("Biggest documents seen")
        assert ["books", hidden, "9"] in rows and {row[1] for row in rows} == {hidden}
        for path in ("/", "/rules", "/connections", "/metrics", "/healthz", "/readyz"):
            status, text = made.admin(path)
            assert status == 200 and SECRET not in text
        client.shop.books.delete_one({"_id": SECRET})


@pytest.mark.parametrize("token", [None, TOKEN])
def test_only_with_a_token_the_servers_words_may_quote_a_document(cluster, token):
    """mongod shows the document for which it can't make an index."""
    with cluster.client() as direct:
        direct.drop_database("maps")
        direct.maps.late_list_overflow.insert_one({"main": SECRET, "part": [{"at": "nowhere"}]})
    made = Spillway([cluster.primary], [RULE, {**RULE, "name": "maps", "namespace": "maps.l*", "overflow": {
        **RULE["overflow"], "indexes": [{"keys": {QuotedText("part.at"): "2dsphere"}}]}}])
    made.secure_admin(token=token)
    with made, pymongo.MongoClient("127.0.0.1", made.port, directConnection=True) as client:
        client.maps.late.insert_one({"list": [1] * 9})
        wait_for(lambda: "unfit" in made.admin("/rules")[1], "the rule to be closed")
        for path in ("/", "/rules"):
            shown = made.admin(path)[1]
            assert (SECRET in shown) == bool(token) and ("(hidden: " in shown) == (not token), shown


def test_what_is_refused_on_the_way_is_counted_too(spillway):
    counter = 'spillway_refusals_total{rule="books",operator="find: CommandNotSupported"}'
    with pymongo.MongoClient("127.0.0.1", spillway.port, directConnection=True) as client:
        before = spillway.metrics()
        with pytest.raises(OperationFailure, match="has elements that are no documents") as refused:
            list(client.shop.books.find({}, {"list.x": 1}).sort("list.x", 1))
        assert refused.value.code == 115
    after = spillway.metrics()
    assert after[counter] == before.get(counter, 0) + 1
    assert after["spillway_commands_refused_total"] == before["spillway_commands_refused_total"] + 1
    assert any("find: CommandNotSupported" in row for row in page(spillway).rows("Refusals"))


def test_its_own_connections_are_those_the_server_sees(cluster, spillway):
    stages = [{"$currentOp": {"allUsers": True, "idleConnections": True}}, {"$match": {"appName": "spillway"}}]
    with cluster.client() as direct:
        seen = {operation["client"] for operation in direct.admin.aggregate(stages)}
    assert seen and seen <= set(json.loads(spillway.admin("/connections")[1])["connections"])


def test_what_is_not_there_says_what_is(spillway):
    status, text = spillway.admin("/nothing")
    assert status == 404 and "/rules" in text


def test_the_dashboard_asks_for_metrics_that_exist(spillway):
    dashboard = json.loads(DASHBOARD.read_text())
    asked = {name for panel in dashboard["panels"] for target in panel["targets"]
             for name in re.findall(r"(?:spillway|process)_\w+", target["expr"])}
    there = {name.split("{")[0] for name in spillway.metrics()}
    assert asked and asked <= there, asked - there
    assert "spillway_request_duration_seconds_bucket" in asked


def operate(spillway, *words):
    run = subprocess.run([spillway.command[0], *words, "--config", str(spillway.file), "--json"],
                         capture_output=True, text=True, timeout=60, check=True)
    return json_util.loads(run.stdout)


def test_status_tells_what_was_spilled(spillway):
    (row,) = [row for row in operate(spillway, "status")["namespaces"] if row["namespace"] == "shop.books"]
    assert (row["rule"], row["state"]) == ("books", "holds")
    assert row["outliers"] >= 7 and row["elements"] >= 37 + 27 + 5 * 7


def test_what_is_explained_finds_what_spillway_finds(spillway, cluster):
    """The command that `explain` prints, sent to mongod by hand, gives the client's answer."""
    pipeline = [{"$unwind": "$list"}, {"$match": {"list": {"$gte": 35}}}]
    command = {"aggregate": "books", "pipeline": pipeline, "cursor": {}, "$db": "shop"}
    (step,) = operate(spillway, "explain", "--live", json_util.dumps(command))["sends"]
    with cluster.client() as direct, pymongo.MongoClient("127.0.0.1", spillway.port, directConnection=True) as client:
        sent = {name: value for name, value in step["sends"].items() if name != "$db"}
        by_hand = direct.shop.command(sent)["cursor"]["firstBatch"]
        found = list(client.shop.books.aggregate(pipeline))
    assert by_hand == found == [{"_id": NASTY, "list": number} for number in range(35, 40)]


def test_what_can_not_hold_is_shown(cluster):
    with cluster.client() as direct:
        direct.drop_database("shop")  # another rule has moved arrays in it
    with Spillway([cluster.primary], [{**RULE, "namespace": "shop.late_*"}]) as made, \
            cluster.client() as direct, \
            pymongo.MongoClient("127.0.0.1", made.port, directConnection=True) as client:
        direct.shop.late_1.create_index("list", unique=True)
        client.shop.late_1.insert_one({"list": [1] * 9})
        wait_for(lambda: [each["fitness"] for each in rules(made)[0]["namespaces"]] == ["unfit"],
                 "the rule to be closed")
        (row,) = (row for row in page(made).rows("Rules") if "late_1" in row[0])
        assert "can't hold" in row[0] and "unique" in row[0]


def test_of_more_than_the_page_shows_the_rest_is_told(cluster):
    many = [{**RULE, "name": f"r{number}", "namespace": f"shop.many{number}", "access": "read-only"}
            for number in range(1005)]
    with Spillway([cluster.primary], many) as made:
        shown = page(made)
        assert len(shown.rows("Rules")) == 200
        assert shown.text.count("… and 805 more namespaces; /rules has all of "
                                "them.") == 2, "there, and of the biggest documents"
        spaces = [[space["namespace"] for space in rule["namespaces"]] for rule in rules(made)]
        assert spaces == [[f"shop.many{number}"] for number in range(1005)]
