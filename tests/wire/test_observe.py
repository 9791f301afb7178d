"""What is observed of arrays without a rule, in commands that pass: /suggestions, and the rules to paste."""

import json
import subprocess

import pytest

from support import frames
from support.frames import message
from support.peer import Relay, agree
from wire.conftest import RULES

EVERY = {"workers": 2, "observe": {"sample": 1}}


def push(collection, number, array="fans", value=5, **more):
    return message({"update": collection, "$db": "shop", **more},
                   [("updates", [{"q": {"_id": number}, "u": {"$push": {array: value}}}])], 7)


def send(pair, request):
    client, server = pair
    client.send(request)
    server.answer(server.frame(), {"n": 1, "nModified": 1, "ok": 1.0})
    client.frame()


def suggestions(relay):
    status, text = relay.spillway.admin("/suggestions")
    assert status == 200
    return json.loads(text)


@pytest.fixture(scope="module")
def observing():
    with Relay(RULES, EVERY) as relay:
        yield relay


def test_growing_arrays_are_counted_over_all_loops(observing):
    pairs = [observing.connect_known() for _ in range(4)]
    for number in range(60):
        send(pairs[number % 4], push("users", 1, value={"$each": [1, 2]}))
    send(pairs[0], push("users", 2))
    send(pairs[0], push("books", 1, array="fans"))      # a ruled collection, another array
    send(pairs[0], push("books", 1, array="buyers"))
    said = suggestions(observing)
    assert said["sample"] == 1.0 and said["seconds"] >= 0
    found = {(each["namespace"], each["array"]): each for each in said["arrays"]}
    assert set(found) == {("shop.users", "fans")}
    users = found["shop.users", "fans"]
    assert (users["pushes"], users["elements"], users["grown"]) == (61, 121, [120, 1])
    assert "shop.users: fans" in observing.spillway.admin("/")[1]


def test_a_suggested_rule_is_one_that_check_takes(observing, tmp_path):
    pair = observing.connect_known()
    send(pair, push("odd \"name\": #1", 1, array="a.the 'fans'", value={"$each": [0] * 200}))
    rules = [each["rule"] for each in suggestions(observing)["arrays"] if "rule" in each]
    assert any("odd" in rule for rule in rules)
    file = tmp_path / "spillway.yaml"
    file.write_text("listen: [{address: 127.0.0.1:1, server: 127.0.0.1:2}]\nrules:\n" + "".join(rules))
    checked = subprocess.run([observing.spillway.command[0], "check", "--config", file], capture_output=True,
                             text=True, timeout=60, check=False)
    assert checked.returncode == 3, "the file is right, the server is not there:\n" + checked.stdout
    assert checked.stdout.count("  - name: ") == len(rules)


def suggest(spillway, *arguments):
    return subprocess.run([spillway.command[0], "suggest", "--config", spillway.file, *arguments], capture_output=True,
                          text=True, timeout=60, check=False)


def test_suggest_prints_rules_to_paste(observing, tmp_path):
    pair = observing.connect_known()
    for _ in range(2):
        send(pair, push("told", 1, value={"$each": [0] * 90}))
    said = suggest(observing.spillway)
    assert said.returncode == 0 and "# shop.told: fans: about 180 elements pushed, 180 of them" in said.stdout
    assert '\n    namespace: "shop.told"\n' in said.stdout
    file = tmp_path / "spillway.yaml"
    file.write_text("listen: [{address: 127.0.0.1:1, server: 127.0.0.1:2}]\nrules:\n" + said.stdout)
    checked = subprocess.run([observing.spillway.command[0], "check", "--config", file], capture_output=True,
                             text=True, timeout=60, check=False)
    assert checked.returncode == 3, "the file is right, the server is not there:\n" + checked.stdout
    assert '    namespace: &quot;shop.told&quot;\n' in observing.spillway.admin("/")[1]
    assert json.loads(suggest(observing.spillway, "--json").stdout)["sample"] == 1


def test_suggest_says_that_nothing_is_observed(relay):
    said = suggest(relay.spillway)
    assert (said.returncode, said.stdout) == (1, "") and "observe.sample" in said.stderr


def test_compressed_commands_are_seen(observing):
    client, server = observing.connect_known()
    agree(client, server)
    for name in frames.PACKERS:
        client.send(frames.compressed(push("packed", 1), name))
        server.answer(server.frame(), {"n": 1, "ok": 1.0})
        client.frame()
    found = {each["namespace"]: each["pushes"] for each in suggestions(observing)["arrays"]}
    assert found["shop.packed"] == len(frames.PACKERS)


def test_names_of_clients_are_escaped(observing):
    send(observing.connect_known(), push("<b>", 1, value={"$each": [0] * 1000}))
    page = observing.spillway.admin("/")[1]
    assert "&lt;b&gt;" in page and "<b>" not in page


def test_what_somebody_sends_who_tries_to_sign_in_does_not_count(observing):
    client, server = observing.connect_known()
    client.send(message({"saslStart": 1, "mechanism": "SCRAM-SHA-256", "payload": b"x", "$db": "admin"}, (), 3))
    server.answer(server.frame(), {"ok": 0.0, "code": 18, "errmsg": "Authentication failed."})
    client.frame()
    send((client, server), push("stranger", 1))
    assert "shop.stranger" not in {each["namespace"] for each in suggestions(observing)["arrays"]}


def test_where_others_sign_in_somebody_who_does_not_is_not_counted():
    """He may be anybody, and mongod refuses what he sends."""
    with Relay(RULES, EVERY) as relay:
        stranger = relay.connect()
        send(stranger, push("before", 1))
        client, server = relay.connect()
        client.send(message({"saslStart": 1, "mechanism": "SCRAM-SHA-256", "payload": b"x", "$db": "admin"}, (), 3))
        server.answer(server.frame(), {"conversationId": 1, "done": True, "ok": 1.0})
        client.frame()
        send(stranger, push("stranger", 1))
        send((client, server), push("user", 1))
        assert {each["namespace"] for each in suggestions(relay)["arrays"]} == {"shop.before", "shop.user"}


def test_nothing_is_observed_unless_asked_for(relay, session):
    send(session, push("users", 1))
    assert suggestions(relay) == {"sample": 0.0, "seconds": 0, "arrays": []}
    assert "without a rule" not in relay.spillway.admin("/")[1]


def test_a_sample_is_about_as_large_as_it_should_be():
    with Relay(RULES, {"workers": 1, "observe": {"sample": 0.1}}) as relay:
        pair = relay.connect_known()
        for _ in range(1000):
            send(pair, push("users", 1))
        assert 50 < suggestions(relay)["arrays"][0]["pushes"] < 170
