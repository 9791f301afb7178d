"""`spillway migrate`: the outliers that are there already, moved while applications go on."""

import json
import re
import signal
import subprocess
import threading

import pymongo
import pytest
from bson import encode
from bson.raw_bson import RawBSONDocument

from support import outliers
from support.layouts import close_cursors
from support.operate import RULE, Operator, found, generation, on_a_terminal
from support.process import free_port, wait_for
from support.spillway import QuotedText, Spillway, program
from support.verify import verify


def snapshot(client):
    """What every database holds, byte for byte."""
    names = [name for name in client.list_database_names() if name not in ("admin", "config", "local")]
    return {name: client[name].command("dbHash")["collections"] for name in names}


def whole(cluster, rule):
    """What a client sees, by _id."""
    with Spillway([cluster.primary], [{**rule, "sweep": "off"}]) as spillway:
        with pymongo.MongoClient("127.0.0.1", spillway.port, directConnection=True,
                                 document_class=RawBSONDocument) as client:
            return sorted(bytes(each.raw) for each in client.shop.books.find())


def test_a_plan_writes_nothing_and_tells_what_is_done(cluster, operator, shop):
    shop.books.insert_many(outliers.documents(400, 7))
    before = snapshot(shop.client)
    original = sorted(bytes(each.raw)
                      for each in shop.get_collection("books", codec_options=shop.codec_options.with_options(
        document_class=RawBSONDocument)).find())
    plan = operator.run("migrate", code=0)
    assert snapshot(shop.client) == before
    lengths = [len(each["list"]) for each in outliers.documents(400, 7) if isinstance(each.get("list"), list)]
    assert plan["documents"] == sum(length > 3 for length in lengths)
    assert plan["elements"] == sum(length - 3 for length in lengths if length > 3)
    done = operator.run("migrate", "--execute", code=0)
    assert (done["documents"], done["elements"]) == (plan["documents"], plan["elements"])
    assert not verify(shop.client, RULE)
    assert operator.run("verify", code=0)["spilled"] == done["documents"]
    assert operator.run("migrate", "--execute", code=0)["documents"] == 0
    assert whole(cluster, RULE) == original


def spilled_under_another(shop):
    shop.client.spillway.rules.insert_one({
        "_id": {"namespace": "shop.books", "array": "list"}, "format": 1, "rule": "books",
        "layout": {"overflow": "shop.others", "kind": "batches", "link": "book", "array": "part"}})
    shop.others.insert_one({"book": 1, "part": [4], "_spill": {"g": 1, "p": 0, "i": 1}})


def split_by_hand(shop, batches):
    shop.books.insert_one({"_id": 2, "list": [1, 2, 3], "outlier": True})
    shop.tails.insert_many({"book": 2, "part": [4]} for _ in range(batches))


@pytest.mark.parametrize(("spoil", "reason"), [
    (lambda shop: shop.books.create_index("list", unique=True), "its unique index 'list_1'"),
    (lambda shop: shop.create_collection("books", validator={"_spill": {"$exists": False}}),
     "its validator refuses the field '_spill'"),
    (lambda shop: shop.create_collection("tails", clusteredIndex={"key": {"_id": 1}, "unique": True}),
     "it is a clustered collection"),
    (lambda shop: shop.tails.create_index([("book", 1), ("_spill.i", 1)]), "index"),
    (lambda shop: split_by_hand(shop, 2), "unique index of"),
    (spilled_under_another, "another layout"),
], ids=["index", "validator", "clustered", "another index", "twins", "layout"])
def test_a_plan_says_where_the_rule_can_not_hold(operator, shop, spoil, reason):
    spoil(shop)
    shop.books.insert_one({"_id": 1, "list": list(range(9))})
    before = snapshot(shop.client)
    plan = operator.run("migrate", code=1)
    assert snapshot(shop.client) == before
    done = operator.run("migrate", "--execute", code=1)
    for report in (plan, done):
        assert reason in next(each for each in report["findings"] if each["code"] == "unfit")["examples"][0]["detail"]
    assert {name: plan[name]
            for name in ("documents", "adopted")} == {name: done[name] for name in ("documents", "adopted")}
    assert found(plan) == found(done)


def test_a_plan_makes_no_collection(operator, shop):
    shop.books.insert_one({"_id": 1, "list": list(range(9))})
    split_by_hand(shop, 1)
    shop.tails.create_index("book")
    before = snapshot(shop.client)
    assert operator.run("migrate", code=0)["adopted"] == 1
    shop.tails.drop()
    assert operator.run("migrate", code=1)["documents"] == 1
    assert snapshot(shop.client)["shop"] == {"books": before["shop"]["books"]}


def text(operator, name, *options):
    return subprocess.run(operator.command(name, *options), capture_output=True, text=True, timeout=60,
                          check=False).stdout


def test_the_text_of_a_plan_says_that_it_is_one(operator, shop):
    shop.books.insert_one({"_id": 1, "list": list(range(9))})
    plan = "nothing was written, --execute does it"
    assert plan in text(operator, "migrate") and plan not in text(operator, "migrate", "--execute")
    assert plan not in text(operator, "verify") and plan in text(operator, "verify", "--repair")
    assert plan in text(operator, "undo") and plan not in text(operator, "undo", "--execute")


def test_how_it_ended_is_in_the_report(cluster, operator, shop):
    shop.books.insert_many({"_id": i, "list": list(range(9))} for i in range(50))
    assert operator.run("migrate", code=0)["ended"] == "done"
    migrate = operator.start_command([*operator.command("migrate", "--execute", "--json"), "--rate", "10"])
    wait_for(lambda: shop.books.find_one({"_spill": {"$exists": True}}), "a move")
    migrate.send_signal(signal.SIGHUP)
    assert json.loads(migrate.communicate()[0])["ended"] == "interrupted" and migrate.returncode == 4
    nowhere = {"upstream": {"uri": f"mongodb://127.0.0.1:{free_port()}/?serverSelectionTimeoutMS=500"}}
    with Operator(cluster, **nowhere) as lost:
        report = lost.run("verify", code=3)
    assert report["ended"] == "lost" and report["error"] and report["findings"] == []


def test_a_rule_that_is_not_there_has_a_report(operator):
    run = subprocess.run(operator.command("verify", "--json", rule="none"), capture_output=True, text=True,
                         timeout=60, check=False)
    said = json.loads(run.stdout)
    assert run.returncode == 2 and (said["command"], said["ended"]) == ("verify", "bad file")
    assert said["error"].endswith("has no rule 'none'") and said["error"] in run.stderr


def test_progress_moves_within_a_page(operator, shop):
    shop.books.insert_many({"_id": i, "list": list(range(9))} for i in range(60))
    code, said = on_a_terminal(operator.command("migrate", "--execute", "--rate", "30"))
    assert code == 0
    looked = [int(each) for each in re.findall(r"(\d+) of about 60 documents \(\d+ %\) looked at", said)]
    assert any(0 < each < 60 for each in looked) and looked == sorted(looked) and "s to go" in said


def test_progress_on_a_terminal_is_true_and_says_what_it_waits_for(cluster, shop):
    shop.books.insert_one({"_id": 1, "list": list(range(9))})
    with Operator(cluster, [{**RULE, "gc_delay": "1500ms"}]) as operator:
        operator.run("migrate", "--execute", code=0)
        code, said = on_a_terminal(operator.command("undo", "--execute"))
    assert code == 0
    assert "waiting 2 s" in said and "(gc_delay)" in said
    shown = re.findall(r"(\d+) of about (\d+) documents \(\d+ %\) looked at", said)
    assert shown and all(int(looked) <= int(total) == 1 for looked, total in shown)
    assert "lag 0 ms" in said


@pytest.mark.parametrize("options", [["migrate", "--rate", "99999999999999999999"],
                                     ["migrate", "--max-lag", "9223372036854775807"],
                                     ["migrate", "--rate", "0"], ["verify", "--export", "file"],
                                     ["verify", "--repair", "--export", "file"], ["undo", "--config", "other.yaml"],
                                     ["migrate", "--rule", "other"]])
def test_what_can_not_be_meant_is_bad_usage(operator, options):
    run = subprocess.run(operator.command(*options), capture_output=True, text=True, timeout=60, check=False)
    assert run.returncode == 2 and "spillway" in run.stderr and not run.stdout


@pytest.mark.parametrize("name", ["serve", "check", "analyze", "migrate", "verify", "undo"])
def test_each_command_tells_its_version_and_its_usage(name):
    version = subprocess.run([program(), name, "--version"], capture_output=True, text=True, check=True).stdout
    assert re.fullmatch(r"spillway \d+\.\d+\.\d+\n", version)
    assert "usage: spillway" in subprocess.run([program(), name, "--help"], capture_output=True, text=True,
                                               check=True).stdout


def test_a_report_that_can_not_be_written_is_no_success(operator, shop):
    with open("/dev/full", "w", encoding="utf-8") as full:
        for options in ([], ["--json"]):
            run = subprocess.run(operator.command("verify", *options), stdout=full, stderr=subprocess.PIPE, timeout=60,
                                 check=False)
            assert run.returncode == 1 and b"could not be written" in run.stderr


def test_what_stays_is_listed(operator, shop):
    twice = encode({"_id": "twice", "list": [1, 2, 3, 4], "outlier": 1, "outlies": 2}).replace(b"outlies", b"outlier")
    shop.books.insert_one(RawBSONDocument(twice))
    shop.books.insert_one({"_id": "good", "list": [1, 2, 3, 4]})
    shop.books.insert_one({"_id": "by hand", "list": [1, 2, 3, 4]})
    shop.tails.insert_one({"book": "by hand", "part": [4], "batchNumber": 1})
    report = operator.run("migrate", code=1)
    assert found(report) == {("split by hand", "unfinished"): 1, ("never moved", "unfinished"): 1}
    report = operator.run("migrate", "--execute", code=1)
    assert found(report) == {("split by hand", "unfinished"): 1, ("never moved", "unfinished"): 1}
    assert shop.books.find_one({"_id": "by hand"}) == {"_id": "by hand", "list": [1, 2, 3, 4]}
    assert shop.books.find_one({"_id": "twice"})["list"] == [1, 2, 3, 4]
    assert shop.books.find_one({"_id": "good"})["list"] == [1, 2, 3]


def test_who_is_found(cluster, shop):
    """By length, by size, and what a state says; not by a field that is called like the element behind the
    threshold."""
    state = {"list": {"g": generation(), "h": 3, "n": 0}}
    stay = [{"_id": "short", "list": [1, 2, 3]}, {"_id": "large elsewhere", "list": [1], "text": "x" * 2000},
            {"_id": "numbered", "list": [{"3": 1}, {"3": 1}]}, {"_id": "no array", "list": {"3": 1, "4": "x" * 2000}}]
    shop.books.insert_many([*stay, {"_id": "long", "list": [1, 2, 3, 4]},
                            {"_id": "large", "list": ["x" * 700, "y" * 700]},
                            {"_id": "empty state", "list": [1], "_spill": {}},
                            {"_id": "nothing", "list": [1], "_spill": state}])

    def moved():
        return {each["_id"]: each["_spill"]["list"]["n"] for each in shop.books.find({"_spill": {"$exists": True}})}

    with Operator(cluster, [{**RULE, "max_bytes": "1KB"}]) as operator:
        operator.run("migrate", "--execute", code=0)
        assert moved() == {"long": 1, "large": 1}
        assert [each for each in shop.books.find() if each["_id"] in [other["_id"] for other in stay]] == stay
        shop.books.update_one({"_id": "large"}, {"$push": {"list": "z"}})
        operator.run("migrate", "--execute", code=0)
        assert moved() == {"long": 1, "large": 2}


def test_a_collection_that_the_rule_cannot_hold_on(operator, shop):
    shop.books.create_index("list", unique=True)
    shop.books.insert_one({"_id": 1, "list": [1, 2, 3, 4]})
    report = operator.run("migrate", "--execute", code=1)
    assert found(report) == {("unfit", "unfinished"): 1}
    assert shop.list_collection_names() == ["books"]


def test_a_tail_that_the_server_refuses_to_cut_is_not_moved(operator, shop):
    shop.books.insert_one({"_id": 1, "list": list(range(20))})
    operator.run("migrate", "--execute", code=0)
    shop.books.update_one({"_id": 1}, {"$push": {"list": {"$each": list(range(20, 30))}}})
    shop.command("collMod", "books", validator={"allowed": True})
    report = operator.run("migrate", "--execute", code=1)
    assert (found(report), report["documents"], report["elements"]) == ({("not moved", "unfinished"): 1}, 0, 0)
    assert "validation" in report["findings"][0]["examples"][0]["detail"]
    shop.command("collMod", "books", validator={})
    assert operator.run("migrate", "--execute", code=0)["documents"] == 1


def test_another_layout_is_refused(cluster, operator, shop):
    shop.books.insert_one({"_id": 1, "list": [1, 2, 3, 4]})
    operator.run("migrate", "--execute", code=0)
    shop.books.insert_one({"_id": 2, "list": [1, 2, 3, 4]})
    before = shop.command("dbHash", collections=["books", "tails"])["md5"]
    other = {**RULE, "overflow": {**RULE["overflow"], "array": "another"}}
    with Operator(cluster, [other]) as changed:
        assert found(changed.run("migrate", "--execute", code=1)) == {("unfit", "unfinished"): 1}
    limits = {"threshold": 99}
    shop.client.spillway.rules.update_one({}, {"$set": {"checkpoint": {"from": 1, "limits": limits}}})
    with Operator(cluster, [{**RULE, "threshold": 2}]) as raised:
        assert found(raised.run("migrate", "--execute", "--resume", code=1)) == {("changed", "unfinished"): 1}
        assert shop.command("dbHash", collections=["books", "tails"])["md5"] == before
        assert raised.run("migrate", "--execute", code=0)["documents"] == 1


def test_a_pattern_does_not_mean_the_servers_collections(cluster, shop):
    """`*s` would be that of the oplog, too, of transactions and of Spillway's own rules."""
    everywhere = {**RULE, "namespace": QuotedText("*.*s"),
                  "overflow": {**RULE["overflow"], "collection": "{collection}_tails"}}
    shop.books.insert_one({"_id": 1, "list": list(range(9))})
    ours = {name: sorted(shop.client[name].list_collection_names()) for name in ("admin", "config", "local")}
    with Operator(cluster, [everywhere]) as operator:
        assert operator.run("migrate", "--execute", code=0)["documents"] == 1
        assert operator.run("verify", code=0)["documents"] == 1
        with Spillway([cluster.primary], [{**everywhere, "sweep": "100ms"}]) as spillway:
            wait_for(lambda: spillway.metrics()["spillway_sweeps_total"] >= 1, "a sweep")
            assert spillway.metrics()["spillway_unfit_namespaces"] == 0
        assert operator.run("undo", "--execute", code=0)["documents"] == 1
    assert {name: sorted(shop.client[name].list_collection_names()) for name in ours} == ours
    assert shop.list_collection_names() == ["books"]
    assert shop.client.spillway.list_collection_names() in ([], ["rules"])


def test_a_pattern_passes_views_and_time_series_over(cluster, shop):
    overflow = {**RULE["overflow"], "collection": "{collection}_tails"}
    pattern = {**RULE, "namespace": "shop.*", "overflow": overflow}
    shop.books.insert_one({"_id": 1, "list": list(range(9))})
    shop.create_collection("a_measures", timeseries={"timeField": "at"})
    shop.create_collection("seen", viewOn="books")
    with Operator(cluster, [pattern]) as operator:
        assert operator.run("migrate", code=0)["documents"] == 1
        assert operator.run("migrate", "--execute", code=0)["documents"] == 1
        assert operator.run("verify", code=0)["documents"] == 1
        assert operator.run("undo", code=0)["documents"] == 1
        assert operator.run("undo", "--execute", code=0)["documents"] == 1
    assert shop.books.find_one()["list"] == list(range(9))


def place(shop):
    record = shop.client.spillway.rules.find_one({"_id": {"namespace": "shop.books", "array": "list"}})
    return record and record.get("checkpoint", {}).get("from")


def test_interrupted_and_resumed(operator, shop):
    shop.books.insert_many({"_id": i, "list": [1] * (9 if i % 20 == 0 else 2)} for i in range(4000))
    migrate = operator.start("migrate", "--execute", "--rate", "100")
    wait_for(lambda: (place(shop) or 0) >= 1000, "a place to go on from")
    migrate.send_signal(signal.SIGINT)
    assert "interrupted" in migrate.communicate()[1]
    assert migrate.returncode == 4
    assert place(shop) >= 1000
    moved = shop.books.count_documents({"_spill.list.n": {"$gt": 0}})
    assert 50 <= moved < 200
    shop.books.insert_one({"_id": -1, "list": [1] * 9})  # behind the place: left to the sweep
    done = operator.run("migrate", "--execute", "--resume", code=0)
    assert moved + done["documents"] == 200
    assert place(shop) is None
    assert "_spill" not in shop.books.find_one({"_id": -1})


def test_killed_anywhere(cluster, operator, shop):
    shop.books.insert_many(outliers.documents(300, 8))
    original = whole(cluster, {**RULE, "threshold": 10**6, "max_bytes": "15MB"})
    shop.client.drop_database("spillway")
    for count in (5, 20, 40):
        migrate = operator.start("migrate", "--execute", "--resume")
        wait_for(lambda: shop.books.count_documents({"_spill": {"$exists": True}}) > count, "some to be moved")
        migrate.kill()
        migrate.communicate()
    operator.run("migrate", "--execute", "--resume", "--max-lag", "10", code=0)
    assert not verify(shop.client, RULE)
    assert whole(cluster, RULE) == original


class Traffic(threading.Thread):
    """Pushes, edits and reads of some documents through Spillway, and what their arrays must be then."""

    def __init__(self, port, identifiers):
        super().__init__()
        self.port, self.stopped, self.failure = port, threading.Event(), None
        self.arrays = {identifier: list(range(30)) for identifier in identifiers}

    def run(self):
        try:
            with pymongo.MongoClient("127.0.0.1", self.port, directConnection=True) as client:
                number = 100
                while not self.stopped.is_set():
                    for identifier, array in self.arrays.items():
                        self.work(client.shop.books, identifier, array, number)
                        number += 1
        except Exception as error:
            self.failure = error

    def work(self, books, identifier, array, number):
        if number % 7 == 0:
            books.update_one({"_id": identifier}, {"$set": {"list.5": number}})
            array[5] = number
        elif number % 11 == 0:
            books.update_one({"_id": identifier}, {"$pop": {"list": -1}})
            array.pop(0)
        else:
            books.update_one({"_id": identifier}, {"$push": {"list": number}})
            array.append(number)
        assert books.find_one({"_id": identifier})["list"] == array


def test_under_traffic(cluster, operator, shop):
    close_cursors(shop.client)  # of those that were killed
    shop.books.insert_many({"_id": i, "list": list(range(30))} for i in range(300))
    lazy = {**RULE, "settle": "50ms", "quiet": "50ms", "sweep": "off"}
    with Spillway([cluster.primary], [lazy]) as spillway:
        threads = [Traffic(spillway.port, range(start, 300, 40)) for start in (0, 1)]
        for each in threads:
            each.start()
        operator.run("migrate", "--execute", "--rate", "150", code=0)
        for each in threads:
            each.stopped.set()
            each.join()
        assert [each.failure for each in threads] == [None, None]
        with pymongo.MongoClient("127.0.0.1", spillway.port, directConnection=True) as client:
            seen = {each["_id"]: each["list"] for each in client.shop.books.find()}
    for each in threads:
        for identifier, array in each.arrays.items():
            assert seen.pop(identifier) == array
    assert all(array == list(range(30)) for array in seen.values())
    assert operator.run("verify", "--repair", "--execute", code=0)["findings"] == []
