"""The followers layout: its counters, the text's own application code, and leaving it again."""

import datetime
import subprocess

import pytest
from bson import Decimal128
from pymongo.errors import OperationFailure

from support.layouts import FOLLOWERS, Example, check_stored, emptied, operate, overflow_of, parts, serving, verify
from support.process import wait_for
from support.spillway import program

APP_COUNTS = ("owner: spillway", "owner: app")
HIDDEN = ("expose: [flag, counters]", "expose: []")
NO_DELAY = ("settle: 10ms", "settle: 0s")
REFERENCE = ("    expose:", '    reference: { field: ref, format: "{_id}_followers" }\n    expose:')
THRESHOLD = 1000


@pytest.fixture
def direct(cluster):
    with emptied(cluster, "social") as database:
        yield database


@pytest.fixture
def served(cluster, direct):
    with serving(cluster, FOLLOWERS, "social") as start:
        yield start


def ids(count, start=0):
    return [f"user{i}" for i in range(start, start + count)]


def rest(direct, identifier, whole):
    def rests():
        main, batches = parts(direct, FOLLOWERS, identifier)
        return main["followers"] == whole[:1000] and [each for part in batches for each in part] == whole[1000:]

    wait_for(rests, f"{identifier} to rest", pause=0.02)


def main_of(direct, identifier):
    return direct.users.find_one({"_id": identifier}, {"_spill": 0})


# ---- the text's own code ----

def add_follower(db, user_id, follower_id):
    user = db.users.find_one({"_id": user_id})
    if len(user["followers"]) < THRESHOLD:
        db.users.update_one({"_id": user_id}, {"$push": {"followers": follower_id}, "$inc": {"followerCount": 1}})
    else:
        handle_overflow(db, user_id, follower_id, user)


def handle_overflow(db, user_id, follower_id, user):
    current = -(-(user["followerCount"] - THRESHOLD + 1) // 1000)
    overflow = db.followerOverflow.find_one({"userId": user_id, "batchNumber": current})
    if not overflow or len(overflow["followers"]) >= 1000:
        db.followerOverflow.insert_one({"userId": user_id, "batchNumber": current + 1 if overflow else current,
                                        "followers": [follower_id], "createdAt": datetime.datetime.now()})
    else:
        db.followerOverflow.update_one({"userId": user_id, "batchNumber": current},
                                       {"$push": {"followers": follower_id}})


def get_all_followers(db, user_id):
    user = db.users.find_one({"_id": user_id})
    followers = list(user["followers"])
    if user.get("hasOverflow"):
        for document in db.followerOverflow.find({"userId": user_id}).sort("batchNumber", 1):
            followers += document["followers"]
    return followers


def get_followers_paginated(db, user_id, page, size):
    user = db.users.find_one({"_id": user_id})
    skip = page * size
    if skip + size <= len(user["followers"]) or not user.get("hasOverflow"):
        return user["followers"][skip:skip + size]
    skip = max(0, skip - THRESHOLD)
    overflow = db.followerOverflow.find_one({"userId": user_id, "batchNumber": skip // 1000 + 1})
    return overflow["followers"][skip % 1000:skip % 1000 + size] if overflow else []


def test_the_texts_code_with_the_flag_hidden(direct, served):
    example, db = served(APP_COUNTS, HIDDEN)
    whole = ids(3500)
    db.users.insert_one({"_id": "ann", "followers": [], "followerCount": 0, "hasOverflow": False, "overflowCount": 0})
    for follower in whole[:20]:
        add_follower(db, "ann", follower)
    for at in range(20, 3500, 348):  # as an application does it that leaves the overflow to Spillway
        more = whole[at:at + 348]
        db.users.update_one({"_id": "ann"},
                            {"$push": {"followers": {"$each": more}}, "$inc": {"followerCount": len(more)}})
    rest(direct, "ann", whole)
    assert main_of(direct, "ann") == {"_id": "ann", "followers": whole[:1000], "followerCount": 3500,
                                      "hasOverflow": True, "overflowCount": 3}
    assert [len(part) for part in overflow_of(direct, FOLLOWERS, "ann")] == [1000, 1000, 500]
    assert db.users.find_one() == {"_id": "ann", "followers": whole, "followerCount": 3500}
    assert get_all_followers(db, "ann") == whole
    for size in (7, 500, 1000):
        pages = [get_followers_paginated(db, "ann", page, size) for page in range(-(-3500 // size))]
        assert [each for page in pages for each in page] == whole
    with pytest.raises(OperationFailure) as refusal:  # what the text writes into the overflow
        add_follower(db, "ann", "one more")
    assert refusal.value.code == 115 and "followers" in str(refusal.value)
    verify(example)


def test_the_texts_code_with_the_flag_shown_would_add_the_overflow_itself(direct, served):
    example, db = served()
    db.users.insert_one({"_id": "ann", "followers": ids(1500)})
    rest(direct, "ann", ids(1500))
    assert get_all_followers(db, "ann") == ids(1500) + ids(500, 1000)
    said = subprocess.run([program(), "check", "--config", example.file], capture_output=True, text=True,
                          timeout=60, check=False).stdout
    assert "the flag 'hasOverflow' is shown to applications" in said
    assert "Spillway keeps 'followerCount' on outliers" in said


def test_pages_by_slice_and_on_the_overflow(direct, served):
    _, db = served()
    whole = ids(4321)
    db.users.insert_one({"_id": "ann", "followers": whole})
    rest(direct, "ann", whole)
    for size in (300, 1000):
        pages = [db.users.find_one({"_id": "ann"}, {"followers": {"$slice": [page * size, size]}})["followers"]
                 for page in range(-(-4321 // size))]
        assert [each for page in pages for each in page] == whole
    found = db.followerOverflow.find({"userId": "ann"}, {"followers": 1, "_id": 0})
    found = found.sort("batchNumber", 1).skip(1).limit(2)
    assert list(found) == [{"followers": whole[2000:3000]}, {"followers": whole[3000:4000]}]
    one = db.followerOverflow.find_one({"userId": "ann", "batchNumber": 4})
    assert one["followers"] == whole[4000:] and isinstance(one["createdAt"], datetime.datetime)
    keys = [(list(index["key"].items()), index.get("unique", False))
            for index in direct.followerOverflow.list_indexes()]
    assert ([("userId", 1), ("batchNumber", 1)], True) in keys and ([("createdAt", 1)], False) in keys


REFUSED = [
    lambda db: db.followerOverflow.insert_one({"userId": "ann", "batchNumber": 9, "followers": []}),
    lambda db: db.followerOverflow.update_one({"userId": "ann"}, {"$push": {"followers": "x"}}),
    lambda db: db.followerOverflow.delete_many({}),
    lambda db: db.users.update_one({"_id": "ann"}, {"$inc": {"followerCount": 1}}),
    lambda db: db.users.update_one({"_id": "ann"}, {"$push": {"followers": "x"}, "$inc": {"followerCount": 1}}),
    lambda db: db.users.update_one({"_id": "ann"}, {"$unset": {"overflowCount": 1}}),
    lambda db: db.users.update_one({"_id": "ann"}, [{"$set": {"overflowCount": 7}}]),
    lambda db: db.users.find_one_and_update({"_id": "ann"}, {"$set": {"followerCount": 0}}),
    lambda db: db.users.update_many({}, {"$rename": {"name": "followerCount"}}),
]


def test_writes_to_what_spillway_keeps_are_refused(direct, served):
    _, db = served()
    db.users.insert_one({"_id": "ann", "followers": ids(1200)})
    rest(direct, "ann", ids(1200))
    for write in REFUSED:
        with pytest.raises(OperationFailure) as refusal:
            write(db)
        assert refusal.value.code == 115
    assert overflow_of(direct, FOLLOWERS, "ann") == [ids(200, 1000)]
    assert main_of(direct, "ann") == {"_id": "ann", "followers": ids(1000), "hasOverflow": True,
                                      "followerCount": 1200, "overflowCount": 1}


def test_counters_are_right_at_rest_and_come_back_as_they_were(direct, served):
    example, db = served(REFERENCE)
    fields = {"hasOverflow": False, "followerCount": 1400.0, "overflowCount": None, "ref": None}
    db.users.insert_many([{"_id": "ann", "followers": ids(1400)}, {"_id": "bob", **fields, "followers": ids(1400)}])
    for name in ("ann", "bob"):
        rest(direct, name, ids(1400))
        db.users.update_one({"_id": name}, {"$push": {"followers": {"$each": ids(900, 1400)}}})
        rest(direct, name, ids(2300))
        counted = {"hasOverflow": True, "followerCount": 2300, "overflowCount": 2, "ref": f"{name}_followers"}
        assert main_of(direct, name) == {"_id": name, "followers": ids(1000), **counted}
        assert db.users.count_documents({"_id": name, "followerCount": 2300}) == 1
        db.users.update_one({"_id": name}, {"$pull": {"followers": {"$in": ids(1200)}}})
        rest(direct, name, ids(1100, 1200))
        assert main_of(direct, name) == {"_id": name, "followers": ids(1000, 1200), **counted,
                                         "followerCount": 1100, "overflowCount": 1}
    verify(example)
    ends = [{"$set": {"followers": ids(3)}}, {"$unset": {"followers": 1}}, {"$set": {"followers": []}},
            {"$push": {"followers": {"$each": [], "$slice": 3}}},
            [{"$set": {"followers": {"$slice": ["$followers", 2]}}}]]
    for name, before in (("ann", {}), ("bob", fields)):
        for end in ends:
            assert db.users.update_one({"_id": name}, end).modified_count == 1
            stored = main_of(direct, name)
            stored.pop("followers", None)
            assert stored == {"_id": name, **before}
            db.users.find_one_and_update({"_id": name}, {"$set": {"followers": ids(1100)}})
            rest(direct, name, ids(1100))
            assert main_of(direct, name)["followerCount"] == 1100
    verify(example)


def test_a_reference_needs_an_id_that_has_a_text(direct, served):
    example, db = served(REFERENCE)
    texts = {7: "7_followers", 2.5: "2.5_followers", True: "true_followers"}
    for identifier in [*texts, b"bytes"]:
        db.users.insert_one({"_id": identifier, "followers": ids(1001)})
        rest(direct, identifier, ids(1001))
        assert main_of(direct, identifier).get("ref") == texts.get(identifier)
    assert "ref" not in db.users.find_one({"_id": 7})
    verify(example)


def test_a_counter_that_was_changed_around_spillway_is_found_and_mended(direct, served):
    example, db = served(REFERENCE)
    breaks = [{"followerCount": 7}, {"overflowCount": "x"}, {"ref": "cid_followers"}]
    for i, change in enumerate(breaks):
        db.users.insert_one({"_id": f"text{i}", "followers": ids(1300)})
        rest(direct, f"text{i}", ids(1300))
        direct.users.update_one({"_id": f"text{i}"}, {"$set": change})
    said = operate(example, "verify", code=1)
    assert "a counter or the reference is not what the overflow says" in said
    for part in ("'followerCount' is 7 instead of 1300", "'overflowCount' is no count, and should be 1",
                 "'ref' does not name"):
        assert part in said
    operate(example, "verify", "--repair", "--execute")
    counted = {"hasOverflow": True, "followerCount": 1300, "overflowCount": 1}
    for name in ("text0", "text1", "text2"):
        assert main_of(direct, name) == {"_id": name, "followers": ids(1000), **counted, "ref": f"{name}_followers"}
    verify(example)


def test_migrate_and_undo_leave_no_trace(cluster, direct):
    fields = [{}, {"followerCount": 1500, "hasOverflow": False, "overflowCount": 0}, {"followerCount": None},
              {"overflowCount": Decimal128("0"), "hasOverflow": False}, {"followerCount": 3.5, "overflowCount": 0.0}]
    documents = [{"_id": i, "followers": ids(700 + 97 * i), **fields[i % 5]} if i % 2 else
                 {"_id": i, **fields[i % 5], "followers": ids(700 + 97 * i)} for i in range(20)]
    direct.users.insert_many(documents)
    before = direct.command("dbHash")["collections"]
    example = Example(cluster.primary, FOLLOWERS)
    example.write_file()
    try:
        operate(example, "migrate")
        assert direct.command("dbHash")["collections"] == before
        operate(example, "migrate", "--execute")
        check_stored(direct, FOLLOWERS, {each["_id"]: each for each in documents})
        operate(example, "verify")
        operate(example, "undo", "--execute")
        assert direct.command("dbHash")["collections"] == before
    finally:
        example.__exit__()


def test_other_counters_need_an_undo_first(direct, served):
    example, db = served()
    db.users.insert_one({"_id": 1, "followers": ids(1001)})
    rest(direct, 1, ids(1001))
    example.stop()
    example.changes = [("      total: followerCount         # elements in all\n", "")]
    assert "followers" in example.refuses_to_start()
    example.changes = []
    example.start()


def test_killed_at_any_moment(direct, served):
    """What is counted is what is linked: both are one update, whoever finishes the move."""
    example, db = served(NO_DELAY)
    documents = {i: {"_id": i, "followers": ids(10)} for i in range(6)}
    db.users.insert_many(list(documents.values()))
    for turn in range(6):
        for i, document in documents.items():
            more = ids(500 + 37 * i, 100000 * turn)
            db.users.update_one({"_id": i}, {"$push": {"followers": {"$each": more}}})
            document["followers"] += more
            if i == turn:
                example.kill()
                example.start()
    check_stored(direct, FOLLOWERS, documents)
    verify(example)
