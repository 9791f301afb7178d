"""A reload: rules, limits and the log change while clients go on, all of it or nothing."""

import subprocess

import pymongo
import pytest

from support.process import wait_for
from support.spillway import program
from support.threads import Threads


def rule(collection, **options):
    overflow = {"layout": "batches", "link": "main", "array": "part", "batch": {"size": 10},
                **options.pop("overflow", {})}
    return {"name": collection, "namespace": f"shop.{collection}", "array": "list", "threshold": 3,
            "settle": "10ms", "quiet": "10ms", "gc_delay": "100ms", "sweep": "200ms", "existing": "move", **options,
            "overflow": overflow}


RULES = [rule("kept")]


@pytest.fixture(autouse=True)
def unchanged(spillway, direct):
    """Each test ends with RULES in force, and leaves nothing stored."""
    yield
    direct.shop.drop_collection("kept")
    direct.shop.drop_collection("new")
    for name in direct.shop.list_collection_names():
        direct.shop[name].delete_many({})
    assert reload(spillway, rules=RULES)[0] == 0


def reload(spillway, **settings):
    """(exit code, what it prints) of `spillway reload`."""
    spillway.settings.update(settings)
    spillway.write_file()
    done = subprocess.run([program(), "reload", "--config", spillway.file], capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout + done.stderr


def push(collection, identifier, numbers):
    for number in numbers:
        collection.update_one({"_id": identifier}, {"$push": {"list": number}}, upsert=True)


def stored(direct, collection, identifier):
    return direct.shop[collection].find_one({"_id": identifier})["list"]


def test_a_threshold_changes_for_what_is_pushed_and_for_what_is_there(spillway, client, direct):
    push(client.shop.kept, 1, range(8))
    wait_for(lambda: stored(direct, "kept", 1) == [0, 1, 2], "three elements to stay")
    code, said = reload(spillway, rules=[rule("kept", threshold=5)])
    assert (code, said) == (0, "the file holds from now on\n'rules.kept.threshold' is '5', it was '3'\n")
    push(client.shop.kept, 2, range(8))
    wait_for(lambda: stored(direct, "kept", 2) == list(range(5)), "five elements to stay")
    wait_for(lambda: stored(direct, "kept", 1) == list(range(5)), "what was split to get the new threshold")
    assert client.shop.kept.find_one({"_id": 1})["list"] == list(range(8))
    spillway.says("reload: 'rules.kept.threshold' is '5', it was '3'")


def test_a_removed_rule_under_which_documents_are_split_is_refused_by_name(spillway, client, direct):
    push(client.shop.kept, 1, range(8))
    wait_for(lambda: stored(direct, "kept", 1) == [0, 1, 2], "three elements to stay")
    code, said = reload(spillway, rules=[])
    assert code == 1
    assert "nothing is changed" in said and "the array 'list' of 'shop.kept' was spilled under rule 'kept'" in said
    assert client.shop.kept.find_one({"_id": 1})["list"] == list(range(8))
    push(client.shop.kept, 2, range(8))
    wait_for(lambda: stored(direct, "kept", 2) == [0, 1, 2], "the rule to be in force still")
    assert reload(spillway, rules=RULES)[0] == 0


@pytest.mark.parametrize("changed, named", [
    (rule("kept", overflow={"link": "other"}), "link"),
    (rule("kept", overflow={"array": "other"}), "array"),
    (rule("kept", overflow={"collection": "other"}), "overflow"),
    (rule("kept", flag={"field": "more", "value": True}), "flag"),
], ids=["link", "array", "collection", "flag"])
def test_a_layout_that_finds_nothing_of_what_is_split_is_refused_by_name(spillway, client, direct, changed, named):
    push(client.shop.kept, 1, range(8))
    wait_for(lambda: stored(direct, "kept", 1) == [0, 1, 2], "three elements to stay")
    code, said = reload(spillway, rules=[changed])
    assert code == 1 and "rule 'kept'" in said and named in said, said
    assert client.shop.kept.find_one({"_id": 1})["list"] == list(range(8))
    assert reload(spillway, rules=RULES)[0] == 0


def test_a_rule_under_which_nothing_is_split_goes(spillway, client, direct):
    code, said = reload(spillway, rules=[*RULES, rule("new")])
    assert (code, said) == (0, "the file holds from now on\n'rules': 'new' is new\n")
    code, said = reload(spillway, rules=RULES)
    assert (code, said) == (0, "the file holds from now on\n'rules': 'new' is gone\n")
    push(client.shop.new, 1, range(8))
    assert stored(direct, "new", 1) == list(range(8))


class Traffic(Threads):
    """Pushes to `documents` arrays and reads all of them, whole, by cursors of one document a batch."""

    def __init__(self, port, documents=6):
        self.port, self.documents = port, documents
        self.wrong, self.counts = [], [0] * documents
        self.rounds = {"push": 0, "find": 0, "projected": 0, "joined": 0}
        super().__init__(self.run, self.rounds)

    def run(self, name):
        with pymongo.MongoClient("127.0.0.1", self.port, directConnection=True) as client:
            try:
                while not self.over.is_set():
                    getattr(self, name)(client.shop)
                    self.rounds[name] += 1
            except Exception as error:
                self.wrong.append(f"{name}: {error!r}")

    def push(self, shop):
        identifier = self.rounds["push"] % self.documents
        shop.new.update_one({"_id": identifier}, {"$push": {"list": self.counts[identifier]}})
        self.counts[identifier] += 1

    def read(self, ask, array):
        """What was acknowledged before the question has to be there."""
        least = list(self.counts)
        with ask() as cursor:
            for document in cursor:
                found = array(document)
                if found != list(range(len(found))) or len(found) < least[document["_id"]]:
                    self.wrong.append(f"{document['_id']}: {len(found)} of {least[document['_id']]}: {found[:5]}")

    def find(self, shop):
        self.read(lambda: shop.new.find({}, batch_size=1), lambda document: document["list"])

    def projected(self, shop):
        self.read(lambda: shop.new.find({}, {"list": 1}, batch_size=1), lambda document: document["list"])

    def joined(self, shop):
        """A cursor of a collection that no rule names."""
        stage = {"$lookup": {"from": "new", "localField": "_id", "foreignField": "_id", "as": "found"}}
        self.read(lambda: shop.other.aggregate([stage], cursor={"batchSize": 1}),
                  lambda document: document["found"][0]["list"])

    def went_on(self, rounds=5):
        """Until each thread has done so many more rounds."""
        before = dict(self.rounds)
        wait_for(lambda: self.wrong or all(self.rounds[name] >= before[name] + rounds for name in before), "traffic")
        assert not self.wrong, self.wrong[:5]


def test_a_new_rule_moves_nothing_that_an_earlier_read_would_miss(spillway, client, direct):
    for number in range(6):
        direct.shop.new.insert_one({"_id": number, "list": []})
        direct.shop.other.insert_one({"_id": number})
    with Traffic(spillway.port) as traffic:
        traffic.went_on()
        early = [client.shop.new.find({}, {"list": 1}, batch_size=1).sort("_id", 1) for _ in range(3)]
        first = [next(each) for each in early]
        assert reload(spillway, rules=[*RULES, rule("new")])[0] == 0
        spillway.says("reads and operations that began before the new rules go on")
        traffic.went_on(20)
        assert all(len(each["list"]) > 3 for each in direct.shop.new.find({})), "something was moved"
        for one, cursor in zip(first, early):
            for document in [one, *cursor]:
                assert document["list"] == list(range(len(document["list"])))
        spillway.says("tails move under the new rules, too, from now on")
        wait_for(lambda: all(len(each["list"]) <= 3 + 100 and "_spill" in each for each in direct.shop.new.find({})),
                 "tails to be moved")
        traffic.went_on(20)
    assert not traffic.wrong, traffic.wrong[:5]
    for document in client.shop.new.find({}):
        assert document["list"] == list(range(traffic.counts[document["_id"]]))


def test_a_reload_waits_for_an_election(spillway, cluster, direct):
    direct.admin.command("replSetStepDown", 3, force=True)
    assert not cluster.primary.is_primary()
    assert reload(spillway, rules=[rule("kept", threshold=5)])[0] == 0
    assert cluster.primary.is_primary()


def test_reloads_in_a_row_fail_no_operation(spillway, client, direct):
    for number in range(6):
        client.shop.new.insert_one({"_id": number, "list": []})
        client.shop.other.insert_one({"_id": number})
    assert reload(spillway, rules=[*RULES, rule("new")])[0] == 0
    with Traffic(spillway.port) as traffic:
        for turn in range(12):
            code, said = reload(spillway, rules=[*RULES, rule("new", threshold=3 + turn % 2)])
            assert code == 0, said
            traffic.went_on(2)
    assert not traffic.wrong, traffic.wrong[:5]
    for document in client.shop.new.find({}):
        assert document["list"] == list(range(traffic.counts[document["_id"]]))


def paused(spillway, rules):
    wait_for(lambda: spillway.metrics()["spillway_rules_paused"] == rules, f"{rules} rules to be paused")


def test_a_paused_rule_stays_paused_under_another_place_in_the_file(spillway, client, direct):
    def run(command, *names):
        subprocess.run([program(), command, "--config", spillway.file, *names], check=True, capture_output=True)

    run("pause", "kept")
    try:
        paused(spillway, 1)
        assert reload(spillway, rules=[rule("new", existing="move"), rule("kept", threshold=4)])[0] == 0
        push(client.shop.kept, 1, range(8))
        push(client.shop.new, 1, range(8))
        wait_for(lambda: stored(direct, "new", 1) == [0, 1, 2], "the new rule to move")
        assert stored(direct, "kept", 1) == list(range(8))
        paused(spillway, 1)
    finally:
        run("resume")
    wait_for(lambda: stored(direct, "kept", 1) == [0, 1, 2, 3], "the paused rule to go on")
    requests = spillway.admin("/metrics")[1]
    assert 'rule="kept"' in requests and 'rule="new"' in requests
    client.shop.new.delete_many({})
    wait_for(lambda: direct.shop.new_overflow.count_documents({}) == 0, "the overflow to go")


def changes(stream, count=3):
    """The next events, without their resume tokens and times."""
    found = []
    wait_for(lambda: found.append(stream.try_next()) or len([each for each in found if each]) >= count, "events")
    return [{name: each[name] for name in each if name not in ("_id", "clusterTime", "wallTime")}
            for each in found if each]


WATCHES = {"a collection": lambda client, stages: client.shop.kept.watch(stages, max_await_time_ms=50),
           "a database": lambda client, stages: client.shop.watch(stages, max_await_time_ms=50),
           "the cluster": lambda client, stages: client.watch(stages, max_await_time_ms=50)}


@pytest.mark.parametrize("watch", WATCHES)
def test_a_change_stream_with_stages_goes_on_under_other_rules(spillway, client, watch):
    """It is opened anew by the driver where the rules of now can't go on with it."""
    stages = [{"$match": {"fullDocument.k": 1}}, {"$project": {"fullDocument": 1}}]
    number = iter(range(100))

    def insert():
        for k in (0, 1, 0, 1):
            client.shop.kept.insert_one({"_id": next(number), "k": k, "list": [k]})

    with WATCHES[watch](client, stages) as stream:
        assert stream.try_next() is None
        insert()
        assert changes(stream, 2) == [{"fullDocument": {"_id": each, "k": 1, "list": [1]}} for each in (1, 3)]
        code, said = reload(spillway, rules=[])
        assert code == 1 and "a change stream with stages goes on on" in said, said
        assert reload(spillway, rules=[rule("kept", change_streams="as_stored")])[0] == 0
        insert()
        assert changes(stream, 2) == [{"fullDocument": {"_id": each, "k": 1, "list": [1]}} for each in (5, 7)]
        assert reload(spillway, rules=[]) == (0, "the file holds from now on\n'rules': 'kept' is gone\n")
        insert()
        assert changes(stream, 2) == [{"fullDocument": {"_id": each, "k": 1, "list": [1]}} for each in (9, 11)]
        assert reload(spillway, rules=RULES)[0] == 0
        insert()
        assert changes(stream, 2) == [{"fullDocument": {"_id": each, "k": 1, "list": [1]}} for each in (13, 15)]


@pytest.mark.parametrize("stages", [[], [{"$match": {"fullDocument.k": 1}}]], ids=["plain", "stages"])
@pytest.mark.parametrize("watch", WATCHES)
def test_a_rule_that_refuses_change_streams_ends_those_that_are_open(spillway, client, watch, stages):
    with WATCHES[watch](client, stages) as stream:
        assert stream.try_next() is None
        assert reload(spillway, rules=[rule("kept", change_streams="refuse")])[0] == 0
        client.shop.kept.insert_one({"_id": 1, "k": 1})
        with pytest.raises(pymongo.errors.OperationFailure, match="it would show Spillway's own writes") as raised:
            wait_for(lambda: stream.try_next() and False, "the stream to end")
        assert raised.value.code == 115
