"""`spillway explain` says what the server then gets from the running Spillway, byte for byte."""

import json
import subprocess

import bson
import pytest
from bson import json_util

from support import exact
from support.frames import message
from support.peer import Relay
from wire.conftest import RULES

SERVED = {
    "a plain find": {"find": "books", "filter": {"_id": 7}},
    "a find that projects": {"find": "books", "filter": {"_id": 7}, "projection": {"buyers": {"$slice": -2}}},
    "a find by the array": {"find": "books", "filter": {"buyers": "ann"}, "sort": {"_id": 1}},
    "a count by the array": {"count": "books", "query": {"buyers": "ann"}},
    "a pipeline": {"aggregate": "books", "pipeline": [{"$unwind": "$buyers"}], "cursor": {}},
    "a push": {"update": "books", "updates": [{"q": {"_id": 7}, "u": {"$push": {"buyers": "eve"}}}]},
    "a pull": {"update": "books", "updates": [{"q": {"_id": 7}, "u": {"$pull": {"buyers": "eve"}}}]},
    "a findAndModify": {"findAndModify": "books", "query": {"_id": 7}, "update": {"$pull": {"buyers": "eve"}}},
    "a delete": {"delete": "books", "deletes": [{"q": {"buyers": "eve"}, "limit": 1}]},
    "an explain": {"explain": {"find": "books", "filter": {"buyers": "ann"}}},
}
REFUSED = {
    "a find with $where": {"find": "books", "filter": {"$where": "secret"}},
    "a mapReduce": {"mapReduce": "books", "map": "x", "reduce": "y", "out": {"inline": 1}},
}


def explained(spillway, command, *more, code=0):
    arguments = [spillway.command[0], "explain", "--config", str(spillway.file), "--json", *more,
                 json_util.dumps(command)]
    run = subprocess.run(arguments, capture_output=True, text=True, timeout=60)
    assert run.returncode == code, run.stderr
    return json.loads(run.stdout)


def in_form(command):
    """As both sides may show it: without types of numbers."""
    return json.loads(json_util.dumps(command, json_options=json_util.RELAXED_JSON_OPTIONS))


@pytest.mark.parametrize("name", SERVED)
def test_what_is_explained_is_what_the_server_gets(relay, session, name):
    client, server = session
    command = {**SERVED[name], "$db": "shop"}
    said = explained(relay.spillway, command)
    assert said["verdict"] == "rewritten" and said["rule"] == "book-sales" and said["namespace"] == "shop.books"
    client.send(message(command))
    sent = server.frame()
    assert said["sends"][0]["sends"] == in_form(bson.decode(sent.body))
    assert explained(relay.spillway, command, "--live")["sends"] == said["sends"]


@pytest.mark.parametrize("name", REFUSED)
def test_a_refusal_is_explained_in_the_words_of_the_error(relay, session, name):
    client, server = session
    command = {**REFUSED[name], "$db": "shop"}
    said = explained(relay.spillway, command, code=1)
    client.send(message(command))
    if "find" in command:  # mongod may refuse it itself
        server.answer(server.frame(), {"ok": 1.0})
    error = client.frame().plain()
    assert (said["verdict"], said["why"], said["code"]) == ("refused", error["errmsg"], error["code"])
    assert said["codeName"] == error["codeName"]


def test_a_command_without_a_rule_is_forwarded(relay):
    for command in ({"find": "others", "filter": {"buyers": 1}}, {"ping": 1}, {"hello": 1}):
        assert explained(relay.spillway, command, "--db", "shop")["verdict"] == "forwarded", command


def test_what_an_imagined_outlier_leads_to_is_told(relay):
    command = {**SERVED["a pull"], "$db": "shop"}
    steps = explained(relay.spillway, command)["outlier"]
    names = [next(iter(step["sends"])) if "sends" in step else step["does"] for step in steps]
    assert names == ["find", "find", "update", "update", "answers"]
    assert steps[1]["sends"]["find"] == "extra" and steps[1]["sends"]["filter"]["book"] == {"$in": [7]}
    assert steps[2]["sends"]["updates"][0]["u"]["$push"]["buyers"]["$position"] == 0


def test_lines_for_people_name_verdict_rule_and_commands(relay):
    arguments = [relay.spillway.command[0], "explain", "--config", str(relay.spillway.file), "--db", "shop",
                 '{"find": "books"}']
    said = subprocess.run(arguments, capture_output=True, text=True, timeout=60, check=True).stdout
    assert said.startswith("rewritten: ") and "rule 'book-sales' on 'shop.books'" in said
    assert '  1. sends { "find" : "books", "$db" : "shop" }\n' in said
    assert "answers with the array put together from document and overflow\n" in said


def test_what_is_no_command_is_bad_usage(relay):
    for bad in (("{",), ('{"find": "books"}',), ()):
        run = subprocess.run([relay.spillway.command[0], "explain", "--config", str(relay.spillway.file), *bad],
                             capture_output=True, text=True, timeout=60)
        assert run.returncode == 2 and run.stderr.startswith("spillway explain: "), run.stderr


def test_a_namespace_whose_rule_does_not_hold_is_refused_live_only():
    def capped(command):
        found = {"name": "posts", "type": "collection", "options": {"capped": True, "size": 4096}}
        batch = [found] if command["$db"] == "tenant_1" else []
        return {"cursor": {"id": exact.Raw(exact.INT64, bytes(8)), "ns": "x.y", "firstBatch": batch}, "ok": 1.0}

    made = Relay(RULES, {"workers": 1})
    made.server.replies["listCollections"] = capped
    with made as relay:
        push = {"update": "posts", "updates": [{"q": {"_id": 7}, "u": {"$push": {"comments": 1}}}], "$db": "tenant_1"}
        client, server = relay.connect_known()
        client.send(message(push))
        server.answer(server.frame(), {"n": 1, "nModified": 1, "ok": 1.0})
        client.frame()
        relay.spillway.says("can't hold on 'tenant_1.posts'")
        assert explained(relay.spillway, push)["verdict"] == "rewritten"
        said = explained(relay.spillway, push, "--live", code=1)
        assert said["verdict"] == "refused" and "hidden: set admin.token_file" in said["why"], said


def test_without_a_running_spillway_live_says_where_it_asked(relay):
    text = relay.spillway.file.read_text().replace(str(relay.spillway.admin_port), "1")
    file = relay.spillway.file.with_name("nobody.yaml")
    file.write_text(text)
    run = subprocess.run([relay.spillway.command[0], "explain", "--config", str(file), "--live", "--db", "shop",
                          '{"find": "books"}'], capture_output=True, text=True, timeout=60)
    assert run.returncode == 3 and "admin address '127.0.0.1:1'" in run.stderr, run.stderr


def test_a_command_that_is_too_long_to_be_asked_for_is_no_silence(relay):
    command = json.dumps({"find": "books", "filter": {"title": "x" * 40000}})
    said = subprocess.run([relay.spillway.command[0], "explain", "--config", str(relay.spillway.file), "--live",
                           "--db", "shop", command], capture_output=True, text=True, timeout=60)
    assert (said.returncode, said.stdout) == (2, "") and "the command is too long" in said.stderr, said.stderr
