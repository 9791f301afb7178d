"""Arrays that were edited in place, written by hand in the layout of support.operate.RULE, and what they hold.

docs/internals/spill-protocol.md, "Edits in place", in Python: no part of Spillway is asked."""

import os

from bson.binary import Binary
from bson.int64 import Int64


def empty(direct, *more):
    """The database of support.operate.RULE without a document; `more` collections, too."""
    for collection in ("books", "tails", *more):
        direct.shop[collection].delete_many({})
    direct.shop.tails.create_index([("book", 1), ("_spill.i", 1)], unique=True)
    return direct.shop


def name():
    return Binary(os.urandom(16), 0)


def state_of(main):
    """The fields of `e`, also of a document that was never edited in place."""
    state = main["_spill"]["list"]
    return dict(state["e"]) if "e" in state else {
        "g": state["g"], "l": None, "b": state["n"], "h": state["h"], "n": state["n"], "r": 0, "v": 0}


def counts(batch, state):
    own = batch["_spill"]
    bound = state["b"] if own["g"] == state["g"] else state["n"]
    return own["g"] in (state["g"], state["l"]) and own["p"] < bound and own.get("e", 0) <= state["v"] \
        and own.get("u", state["v"] + 1) > state["v"]


def end_of(batch, state):
    own = batch["_spill"]
    return min(own["p"] + own.get("w", len(batch["part"])), state["b"] if own["g"] == state["g"] else state["n"])


def pieces(shop, state, identifier):
    """[(batch, elements, positions)] that count, in order."""
    found, reached = [], 0
    counting = sorted((each for each in shop.tails.find({"book": identifier}) if counts(each, state)),
                      key=lambda each: (each["_spill"]["g"] == state["g"], each["_spill"]["p"]))
    while reached < state["n"]:
        batch = next(each for each in counting if each["_spill"]["p"] <= reached < end_of(each, state))
        own, end = batch["_spill"], end_of(batch, state)
        if own["g"] == state["g"]:
            end = min([end, *(each["_spill"]["p"] for each in counting
                              if each["_spill"]["g"] != state["g"] and each["_spill"]["p"] > reached)])
        elements = batch["part"][reached - own["p"]:end - own["p"]]
        if "w" in own:
            assert (reached, end) == (own["p"], end_of(batch, state)), own
            elements = batch["part"]
        found.append((batch, elements, end - reached))
        reached = end
    return found


def array_of(shop, identifier):
    main = shop.books.find_one({"_id": identifier})
    if "list" not in main.get("_spill", {}):
        return main["list"]
    state = state_of(main)
    overflow = [each for _, elements, _ in pieces(shop, state, identifier) for each in elements]
    assert len(overflow) == state["n"] - state["r"], state
    return main["list"][:state["h"]] + overflow + main["list"][state["h"]:]


def edit_in_place(shop, identifier, change, pending=False):
    """`change` makes of a part of the array what it is after the edit. `pending`: X2 does not come."""
    main = shop.books.find_one({"_id": identifier})
    state, stored = state_of(main), main["_spill"]["list"]
    state["l"] = state["l"] or name()
    shop.tails.delete_many({"book": identifier, "_spill.g": state["l"], "_spill.e": {"$gt": state["v"]}})
    shop.tails.update_many({"book": identifier, "_spill.u": {"$gt": state["v"]}}, {"$unset": {"_spill.u": 1}})
    head, tail = change(main["list"][:state["h"]]), change(main["list"][state["h"]:])
    lowest = min([0, *(each["_spill"]["i"] for each in shop.tails.find({"book": identifier}, {"_spill": 1}))])
    gone = 0
    for batch, elements, width in pieces(shop, state, identifier):
        after = change(elements)
        if after == elements:
            continue
        lowest -= 1
        gone += len(elements) - len(after)
        own = {"g": state["l"], "p": batch["_spill"]["p"], "i": lowest, "e": state["v"] + 1, "w": Int64(width)}
        shop.tails.insert_one({"book": identifier, "part": after, "_spill": own})
        shop.tails.update_one({"_id": batch["_id"]}, {"$set": {"_spill.u": state["v"] + 1}})
    kept = {each: stored[each] for each in ("a", "b", "t") if each in stored and not isinstance(stored[each], int)}
    after = {**state, "v": state["v"] + 1, "h": len(head), "r": state["r"] + gone}
    numbers = {each: Int64(value) for each, value in (state if pending else after).items() if each in "bhnr"}
    editions = {**(state if pending else after), **numbers, **({"w": name()} if pending else {})}
    shop.books.update_one({"_id": identifier}, {"$set": {
        "_spill.list": {"e": editions, **kept}, **({} if pending else {"list": head + tail})}})


def without(*gone):
    return lambda part: [each for each in part if each not in gone]


def raised(*which):
    return lambda part: [each + 100 if each in which else each for each in part]
