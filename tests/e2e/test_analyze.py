"""`spillway analyze`: what it counts is what is there, and it says when the pattern does not pay."""

import json
import os
import random
import signal
import socket
import subprocess
import xml.etree.ElementTree

import bson
import pymongo
import pytest
from bson.raw_bson import RawBSONDocument

from support.process import free_port, wait_for
from support.spillway import Spillway, program

CANDIDATES = (5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000)


@pytest.fixture(scope="module")
def shop(cluster):
    with cluster.client() as direct:
        yield direct.shop


def analyze(cluster, *arguments, address=None):
    return subprocess.run([program(), "analyze", f"mongodb://{address or cluster.primary.address}/", *arguments],
                          capture_output=True, text=True, timeout=60, check=False)


def report(cluster, *arguments, address=None):
    run = analyze(cluster, *arguments, "--json", address=address)
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


def fill(collection, lengths, **fields):
    collection.drop()
    collection.insert_many([{"list": list(range(length)), **fields} for length in lengths])


def heavy_tail(count, seed=1):
    """Lengths as such collections have them: most are short, a few are very long."""
    numbers = random.Random(seed)
    return [min(int(numbers.paretovariate(0.9)) - 1, 20000) for _ in range(count)]


def percentile(lengths, share):
    lengths = sorted(lengths)
    return next(length for rank, length in enumerate(lengths, 1) if rank >= share * len(lengths))


def test_what_it_counts_is_what_is_there(cluster, shop):
    lengths = heavy_tail(4000)
    fill(shop.heavy, lengths)
    shop.heavy.insert_many([{"title": "none"}, {"list": None}, {"list": "text"}, {"list": {"a": [1]}}])
    found = report(cluster, "shop.heavy", "list")
    (array,) = found["arrays"]
    assert (found["documents"], found["looked_at"], found["sample"]) == (4004, 4004, False)
    assert (array["documents"], array["missing"], array["not_arrays"]) == (4000, 2, 2)
    assert array["elements"]["all"] == sum(lengths) and array["elements"]["max"] == max(lengths)
    for name, share in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999)):
        assert array["elements"][name] == percentile(lengths, share)
    for row in array["thresholds"]:
        beyond = [length - row["threshold"] for length in lengths if length > row["threshold"]]
        assert (row["documents"], row["elements"]) == (len(beyond), sum(beyond))
        assert row["documents_share"] == pytest.approx(len(beyond) / 4004)
    assert sum(bar["documents"] for bar in array["histogram"]) == 4000
    sizes = list(shop.heavy.aggregate([{"$group": {"_id": None, "all": {"$sum": {"$bsonSize": "$$ROOT"}},
                                                   "most": {"$max": {"$bsonSize": "$$ROOT"}}}}]))
    assert (found["bytes"], found["largest_document"]) == (sizes[0]["all"], sizes[0]["most"])
    assert array["bytes"]["p50"] <= array["bytes"]["p99"] <= array["bytes"]["max"] < found["largest_document"]


def test_names_that_are_hard_to_write(cluster, shop):
    shop.odd.drop()
    shop.odd.insert_many([{"tab\tbell\x07": [1, 2]}, {'quote"\\': {"\x1f": [1]}}])
    shop.odd.insert_one(RawBSONDocument(bson.encode({"latin": [1]}).replace(b"latin", b"lat\xedn")))
    arrays = [array["array"] for array in report(cluster, "shop.odd")["arrays"]]
    assert arrays == ["tab\tbell\x07", 'quote"\\.\x1f']
    (array,) = report(cluster, "shop.odd", "tab\tbell\x07")["arrays"]
    assert array["elements"]["all"] == 2
    run = analyze(cluster, "shop.odd", b"lat\xedn")
    assert run.returncode == 2 and "UTF-8" in run.stderr


def test_where_there_is_no_array_no_bytes_are_told(cluster, shop):
    shop.bare.drop()
    shop.bare.insert_one({"title": "x"})
    said = analyze(cluster, "shop.bare").stdout
    assert "shop.bare: 1 document;" in said and "no array was found" in said and "in all" not in said


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP], ids=lambda number: number.name)
@pytest.mark.parametrize("name", ["analyze", "check"])
def test_ctrl_c_ends_it_as_interrupted(name, number, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(20)
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        file = tmp_path / "spillway.yaml"
        file.touch(mode=0o600)
        file.write_text(f"listen: [{{address: '127.0.0.1:1024', server: '{address}'}}]\nrules: []\n")
        arguments = [f"mongodb://{address}/", "shop.heavy"] if name == "analyze" else ["--config", file]
        with subprocess.Popen([program(), name, *arguments], stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE) as asking:
            connection, _ = silent.accept()
            asking.send_signal(number)
            said = asking.communicate(timeout=20)[1]
            connection.close()
    assert asking.returncode == 128 + number and b"interrupted" in said


def test_it_suggests_the_lowest_threshold_with_few_outliers(cluster, shop):
    lengths = heavy_tail(4000)
    fill(shop.heavy, lengths)
    (array,) = report(cluster, "shop.heavy", "list")["arrays"]
    few = [candidate for candidate in CANDIDATES
           if candidate >= 50 and sum(length > candidate for length in lengths) <= 40]
    assert array["pays"] and array["threshold"] == few[0]


@pytest.mark.parametrize("lengths, verdict", [
    ([3] * 500 + [9] * 20, "too small"),
    ([1000 + number % 100 for number in range(200)], "uniform"),
    ([2] * 900 + [5000] * 100, "too many outliers"),
    ([40] * 1000 + [210] * 5, "slight"),
], ids=lambda value: value if isinstance(value, str) else "")
def test_it_says_plainly_when_the_pattern_does_not_pay(cluster, shop, lengths, verdict):
    fill(shop.other, lengths)
    (array,) = report(cluster, "shop.other", "list")["arrays"]
    assert (array["verdict"], array["pays"]) == (verdict, False) and "threshold" not in array
    said = analyze(cluster, "shop.other", "list").stdout
    assert "the pattern does not pay" in said and "suggestion" not in said


def test_arrays_are_found_by_their_paths(cluster, shop):
    shop.paths.drop()
    shop.paths.insert_many([{"tags": [1, 2], "in": {"deep": {"er": [1] * 5}}, "of": [{"them": [1] * 9}]},
                            {"in": [{"deep": {"er": [7]}}], "_spill": {"tags": {}}}])
    found = report(cluster, "shop.paths")
    arrays = {array["array"]: array for array in found["arrays"]}
    assert set(arrays) == {"in.deep.er", "tags", "of", "in"}
    assert arrays["in.deep.er"]["elements"]["all"] == 5  # a path goes through documents, not through arrays
    assert arrays["in.deep.er"]["not_arrays"] == 1
    assert (found["looked_at"], found["already_split"]) == (2, 1)
    assert "already split" in analyze(cluster, "shop.paths").stdout


def test_what_is_split_is_asked_through_spillway(cluster, shop):
    rule = {"name": "split", "namespace": "shop.split", "array": "list", "threshold": 5, "settle": "5ms",
            "overflow": {"link": "of", "array": "list"}}
    with Spillway([cluster.primary], [rule]) as spillway:
        with pymongo.MongoClient("127.0.0.1", spillway.port) as client:
            client.shop.split.insert_many([{"list": [1] * length} for length in [3] * 300 + [400] * 2])
        wait_for(lambda: shop.split.count_documents({"_spill.list.n": 395}) == 2, "the tails to move")
        for arguments in (("list",), ()):
            (straight,) = report(cluster, "shop.split", *arguments)["arrays"]
            assert straight["verdict"] == "split" and "pays" not in straight
            found = report(cluster, "shop.split", *arguments, address=f"127.0.0.1:{spillway.port}")
            (array,) = found["arrays"]
            assert (found["already_split"], array["elements"]["max"], array["pays"]) == (0, 400, True)
    assert "no verdict" in analyze(cluster, "shop.split").stdout


def test_a_few_large_ones_among_many_as_long(cluster, shop):
    shop.fat.drop()
    shop.fat.insert_many([{"list": ["x" * (300000 if i < 2 else 10)] * 8} for i in range(200)])
    (array,) = report(cluster, "shop.fat")["arrays"]
    assert (array["pays"], array["max_bytes"], array["verdict"]) == (True, 1 << 20, "pays by bytes")
    assert "suggestion: max_bytes: 1MB (2 outliers, 1.00%" in analyze(cluster, "shop.fat").stdout


def test_a_sample_tells_its_error_and_is_right_within_it(cluster, shop):
    """Documents beside large ones must not come up more often than others."""
    lengths = heavy_tail(40000, seed=2)
    fill(shop.large, lengths)
    found = report(cluster, "shop.large", "list", "--sample", "2000")
    (array,) = found["arrays"]
    assert found["sample"] and 1700 < found["looked_at"] < 2300 and found["documents"] == 40000
    for row in array["thresholds"][:4]:
        low, high = row["documents_share_between"]
        true = sum(length > row["threshold"] for length in lengths) / 40000
        wide = high - low
        assert low - wide <= true <= high + wide and low < row["documents_share"] < high
    assert "drawn at random" in analyze(cluster, "shop.large", "list", "--sample", "2000").stdout
    assert not report(cluster, "shop.large", "list", "--sample", "30000")["sample"]  # dearer than all of them


def test_the_histogram_as_text_and_as_a_picture(cluster, shop, tmp_path):
    fill(shop["a<b"], [1] * 300 + [3] * 30 + [700] * 3)
    picture = tmp_path / "lengths.svg"
    said = analyze(cluster, "shop.a<b", "list", "--svg", picture).stdout
    bars = [line.split("|") for line in said.splitlines() if "|" in line]
    assert [bar[0].split() for bar in bars if bar[1]] == [["1", "300"], ["2-3", "30"], ["512-1,023", "3"]]
    drawn = xml.etree.ElementTree.parse(picture).getroot()
    texts = [text.text for text in drawn.iter("{http://www.w3.org/2000/svg}text")]
    assert "shop.a<b: list" in texts and "300" in texts and any("threshold 50" in text for text in texts)


def test_it_only_reads(cluster, shop):
    fill(shop.quiet, heavy_tail(500))
    before = shop.command("dbHash")["collections"]["quiet"]
    shop.command("profile", 2)
    analyze(cluster, "shop.quiet")
    analyze(cluster, "shop.quiet", "list", "--sample", "10")
    shop.command("profile", 0)
    done = {entry["op"] for entry in shop["system.profile"].find({"ns": "shop.quiet"})}
    assert done and done <= {"command", "query", "getmore"}
    assert shop.command("dbHash")["collections"]["quiet"] == before


@pytest.mark.parametrize("arguments, code, said", [
    ((), 2, "URI and NAMESPACE"), (("shop",), 2, "database.collection"), (("shop.a", "b", "c"), 2, "too many"),
    (("shop.a", "--sample", "many"), 2, "--sample"), (("shop.a", "--nonsense"), 2, "unknown option"),
    (("shop.a", "$b"), 2, "path"), (("shop.a", "list", "--svg", "/no/such/folder/x.svg"), 1, "can't be written"),
])
def test_bad_usage_is_told(cluster, arguments, code, said):
    run = analyze(cluster, *arguments)
    assert (run.returncode, said in run.stderr) == (code, True), run.stderr


@pytest.mark.parametrize("password", ["hunter:2", "hunter@2", "hunter/2"])
def test_no_part_of_a_password_is_shown(password):
    run = subprocess.run([program(), "analyze", f"mongodb://ann:{password}@127.0.0.1:1/", "shop.a"],
                         capture_output=True, text=True, timeout=20)
    assert run.returncode == 2 and "percent-encode the user name and password" in run.stderr
    assert "hunter" not in run.stderr and "2@" not in run.stderr


def test_where_it_can_not_look_it_says_so(cluster, shop):
    assert analyze(cluster, "shop.a", address=f"127.0.0.1:{free_port()}").returncode == 3
    shop.create_collection("view", viewOn="a", pipeline=[])
    run = analyze(cluster, "shop.view")
    assert run.returncode == 1 and "view" in run.stderr
    run = analyze(cluster, "shop.nothing")
    assert run.returncode == 0 and "none of this name" in run.stdout
    for names, ended in ((("shop.view", "--json"), "refused"), (("shop.a", "--json", "--nowhere"), "lost")):
        address = f"127.0.0.1:{free_port()}" if names[-1] == "--nowhere" else None
        run = analyze(cluster, *names[:2], address=address)
        assert json.loads(run.stdout)["ended"] == ended and json.loads(run.stdout)["error"] in run.stderr
    assert analyze(cluster, "--help").stdout.startswith("usage: spillway analyze")


def uri_file(tmp_path, uri, mode=0o600):
    file = tmp_path / "uri"
    file.write_text(uri + "\n")
    file.chmod(mode)
    return file


def named(*arguments, uri=None):
    environment = {**os.environ, **({"SPILLWAY_URI": uri} if uri else {})}
    return subprocess.run([program(), "analyze", *map(str, arguments)], capture_output=True, text=True, timeout=60,
                          env=environment)


def test_the_uri_may_come_from_a_file_or_the_environment(cluster, shop, tmp_path):
    fill(shop.few, [1, 2, 3])
    uri = f"mongodb://{cluster.primary.address}/"
    file = uri_file(tmp_path, uri)
    wrong = "mongodb://127.0.0.1:1/"
    for run in (named(uri, "shop.few", "list"), named("--uri-file", file, "shop.few", "list"),
                named("shop.few", "list", uri=uri), named("--uri-file", file, "shop.few", "list", uri=wrong),
                named(uri, "shop.few", "list", uri=wrong)):
        assert (run.returncode, run.stderr) == (0, "")
        assert run.stdout.startswith("shop.few: 3 documents") and "array 'list': in 3 documents" in run.stdout


@pytest.mark.parametrize("arguments, uri, said", [
    (("mongodb://a/", "--uri-file", "FILE", "shop.few"), None, "URI and --uri-file are both given"),
    (("--uri-file", "/no/such/file", "shop.few"), None, "'/no/such/file' cannot be opened: No such file"),
    (("--uri-file", "OPEN", "shop.few"), None, "holds a password and others may read it: chmod 600 it"),
    (("--uri-file", "FILE",), None, "NAMESPACE is needed"), ((), "mongodb://a/", "NAMESPACE is needed"),
    (("shop.few", "a", "b"), "mongodb://a/", "too many arguments"),
    (("shop.few",), None, "URI and NAMESPACE are needed"),
])
def test_what_is_wrong_with_where_the_uri_comes_from_is_told(tmp_path, arguments, uri, said):
    open_file = "OPEN" in arguments
    file = uri_file(tmp_path, "mongodb://ann:hunter2@127.0.0.1:1/", 0o644 if open_file else 0o600)
    run = named(*(file if each in ("FILE", "OPEN") else each for each in arguments), uri=uri)
    assert (run.returncode, said in run.stderr, "hunter2" in run.stderr) == (2, True, False), run.stderr


def test_a_password_on_the_command_line_is_warned_of(cluster, tmp_path):
    uri = f"mongodb://ann:hunter2@{cluster.primary.address}/"
    run = named(uri, "shop.few")
    assert "all users of this machine can see" in run.stderr
    assert "--uri-file" in run.stderr and "SPILLWAY_URI" in run.stderr and "hunter2" not in run.stderr
    for quiet in (named("--uri-file", uri_file(tmp_path, uri), "shop.few"), named("shop.few", uri=uri)):
        assert quiet.returncode == run.returncode and "all users" not in quiet.stderr


def test_its_rule_is_one_that_check_takes(cluster, shop, tmp_path):
    fill(shop.pasted, [5] * 2000 + [5000] * 5)
    run = analyze(cluster, "shop.pasted", "list", "--yaml")
    assert run.returncode == 0 and "threshold: " in run.stdout, run.stderr
    file = tmp_path / "spillway.yaml"
    file.write_text("listen: [{address: 127.0.0.1:1, server: 127.0.0.1:2}]\n" + run.stdout)
    checked = subprocess.run([program(), "check", "--config", file], capture_output=True, text=True, timeout=60,
                             check=False)
    assert checked.returncode == 3 and '  - name: pasted-list' in checked.stdout, "the servers are not there"


@pytest.mark.parametrize(("name", "array", "rules"), [("odd", "main_id", 1), ("odd", "x._id", 1), ("a*b", "list", 0)])
def test_its_rule_can_be_pasted_whatever_the_names_are(cluster, shop, tmp_path, name, array, rules):
    """A '*' in a rule would take other collections in."""
    shop[name].drop()
    outer, dot, inner = array.partition(".")
    shop[name].insert_many({outer: {inner: [1] * length} if dot else [1] * length} for length in [5] * 2000 + [5000])
    run = analyze(cluster, f"shop.{name}", array, "--yaml")
    assert run.returncode == 0 and "the pattern pays" in run.stdout
    file = tmp_path / "spillway.yaml"
    file.write_text("listen: [{address: 127.0.0.1:1, server: 127.0.0.1:2}]\n" + run.stdout)
    checked = subprocess.run([program(), "check", "--config", file, "--json"], capture_output=True, text=True,
                             timeout=60, check=False)
    assert checked.returncode == 3 and len(json.loads(checked.stdout)["rules"]) == rules, checked.stderr


def test_one_form_at_a_time(cluster):
    run = analyze(cluster, "shop.pasted", "--yaml", "--json")
    assert run.returncode == 2 and "choose one" in run.stderr
