"""The commands that further libraries and applications send for their arrays, on plain and on ruled ones alike.

What they send is reconstructed by hand, since these libraries are not Python's or Node.js's, or are
old; their arrays are called `list` and `kept.list` here.
"""

import pytest
from bson import DatetimeMS, Regex

from support.twins import twins

pytestmark = pytest.mark.share(2)
ONE = {"_id": 1}
SEVEN = [1, 2, 3, 4, 5, 6, 7]


def write(change, query=None, **options):
    return {"q": ONE if query is None else query, "u": change, **options}


def update(change, query=None, **options):
    return bulk(write(change, query, **options))


def bulk(*statements, **options):
    return {"update": "books", "updates": list(statements), "ordered": True, **options}


def modify(change, query=None, **options):
    return {"findAndModify": "books", "query": ONE if query is None else query, "update": change, **options}


def parts(*numbers):
    return [{"_id": number, "text": f"part {number}"} for number in numbers]


def book(**more):
    return {"_id": 1, "__v": 5, "title": "t", "list": SEVEN, "kept": {"list": parts(*SEVEN)}, **more}


def keyed(**more):
    """NodeBB's objects are found by a name of their own."""
    return [{"_id": 1, "_key": "posts", "list": ["d", "b", "a", "c", "b"], **more},
            {"_id": 2, "_key": "votes", "list": ["a", "b", "e", "f"]}, {"_id": 3, "_key": "title", "value": 1}]


def tokens():
    return [
        {"_id": number, "kept": {"list": [
            {"hash": f"{number}{letter}", "when": DatetimeMS(1000 * i)} for i, letter in enumerate("abcdef")]}}
        for number in (1, 2)
    ]


POSTS, VOTES = {"_key": "posts"}, {"_key": "votes"}
VERSION = {"_id": 1, "__v": 5}
BUMP = {"__v": 1}

MONGOOSE_OLD = {
    "5: push": ([book()], [update({"$push": {"list": {"$each": [8]}}, "$inc": BUMP}, upsert=False, multi=False)]),
    "5: two pulls": ([book()], [
        update({"$pullAll": {"list": [3, 5]}, "$inc": BUMP}, upsert=False, multi=False),
        update({"$pull": {"kept.list": {"_id": {"$in": [2, 7]}}}, "$inc": BUMP}, upsert=False, multi=False)]),
    "6: a pull is the whole array, by its version": ([book()], [
        update({"$set": {"list": [1, 2, 4, 5, 6, 7]}, "$inc": BUMP}, VERSION),
        update({"$set": {"list": [2, 4, 5, 6, 7]}, "$inc": BUMP}, VERSION)]),
    "an index, by its version": ([book()], [
        update({"$set": {"list.5": 50}}, VERSION), update({"$set": {"list.5": 51}}, {"_id": 1, "__v": 4})]),
    "a subdocument and another array": ([book()], [
        update({"$set": {"kept.list.5.text": "c"}, "$push": {"list": {"$each": [8]}}, "$inc": BUMP}, VERSION)]),
    "a subdocument read by $elemMatch": ([book()], [
        update({"$set": {"kept.list.$.text": "c"}}, {**VERSION, "kept.list": {"$elemMatch": {"_id": 6}}})]),
    "unset": ([book()], [update({"$unset": {"list": 1}})]),
    "an upsert sets the other arrays": ([], [
        update({"$push": {"list": 8}, "$setOnInsert": {"kept.list": [], "__v": 0}}, upsert=True),
        update({"$push": {"list": 9}, "$setOnInsert": {"kept.list": [], "__v": 0}}, upsert=True)]),
}
DOCTRINE = {
    "pushAll inserts": ([book()], [update({"$push": {"list": {"$each": [8, 9]}}}),
                                   update({"$push": {"kept.list": {"$each": parts(8)}, "list": {"$each": [1]}}})]),
    "addToSet inserts": ([book()], [update({"$addToSet": {"list": {"$each": [7, 8, 9, 8]}}})]),
    "a removal leaves null, then pulls it": ([book()], [
        update({"$unset": {"list.5": True, "list.0": True}}), update({"$pull": {"list": None}})]),
    "removals from two": ([book()], [
        update({"$unset": {"list.6": True, "kept.list.3": True}}),
        update({"$pull": {"list": None, "kept.list": None}})]),
    "set": ([book()], [update({"$set": {"list": [1, 2, 3], "kept.list": parts(1, 2, 3, 4)}}),
                       update({"$unset": {"list": True, "kept.list": True}})]),
    "by the version": ([book()], [
        update({"$set": {"list.5": 50, "__v": 6}}, VERSION), update({"$set": {"list.5": 51, "__v": 7}}, VERSION)]),
    "an embedded field": ([book()], [update({"$set": {"kept.list.4.text": "c", "kept.list.0.text": "d"}})]),
}
NODEBB = {
    "prepend": (keyed(), [
        update({"$push": {"list": {"$each": ["x"], "$position": 0}}}, POSTS, upsert=True),
        update({"$push": {"list": {"$each": ["y", "z"], "$position": 0}}}, POSTS, upsert=True)]),
    "append": (keyed(), [update({"$push": {"list": "x"}}, POSTS, upsert=True),
                         update({"$push": {"list": {"$each": ["y", "z"]}}}, POSTS, upsert=True),
                         update({"$push": {"list": {"$each": ["y", "z", "x"]}}}, {"_id": 9, "_key": "new"},
                                upsert=True)]),
    "remove the last": (keyed(), [update({"$pop": {"list": 1}}, POSTS)] * 3),
    "remove all of a value": (keyed(), [update({"$pull": {"list": "b"}}, POSTS),
                                        update({"$pull": {"list": {"$in": ["a", "c", "x"]}}}, POSTS)]),
    "trim": (keyed(), [{"find": "books", "filter": POSTS, "projection": {"list": 1}},
                       update({"$set": {"list": ["b", "a", "c"]}}, POSTS)]),
    "add to a set": (keyed(), [update({"$addToSet": {"list": {"$each": ["c", "x", "d"]}}}, POSTS, upsert=True)]),
    "add to several sets": (keyed(), [bulk(
        *(write({"$addToSet": {"list": {"$each": ["c", "x"]}}}, key, upsert=True)
          for key in (POSTS, VOTES, {"_id": 9, "_key": "new"})),
        ordered=False)]),
    "several values to several sets": (keyed(), [bulk(
        write({"$addToSet": {"list": {"$each": ["b", "x"]}}}, POSTS, upsert=True),
        write({"$addToSet": {"list": {"$each": ["f", "e"]}}}, VOTES, upsert=True), ordered=False)]),
    "remove from a set": (keyed(), [update({"$pullAll": {"list": ["b", "x", "c"]}}, POSTS),
                                    update({"$pullAll": {"list": ["x"]}}, POSTS)]),
    "remove from several sets": (keyed(), [
        update({"$pull": {"list": "b"}}, {"_key": {"$in": ["posts", "votes", "none"]}}, multi=True),
        update({"$pullAll": {"list": ["a", "e"]}}, {"_key": {"$in": ["posts", "votes"]}}, multi=True)]),
    "remove different values": (keyed(), [bulk(
        write({"$pull": {"list": {"$in": ["d", "c"]}}}, POSTS), write({"$pull": {"list": {"$in": ["f"]}}}, VOTES),
        ordered=False)]),
}
ODMS = {
    "Spring replaces": ([book()], [
        update({"title": "b", "list": [1, 2, 3, 4], "kept": {"list": parts(1, 2, 3)}}, upsert=True),
        update({"title": "n", "list": SEVEN}, {"_id": 9}, upsert=True)]),
    "TypeORM sets every column": ([book()], [
        update({"$set": {"title": "b", "list": [1, 2, 3, 4, 5, 6, 7, 8], "kept": {"list": parts(1, 2, 3)}}},
               multi=True, upsert=True)]),
    "MikroORM sets the list": ([book()], [
        update({"$set": {"list": [7, 6, 5, 4, 3]}}, multi=True),
        update({"$set": {"list": [7], "title": "b"}}, multi=True)]),
    "Parse gets the image after": ([book()], [
        modify({"$push": {"list": {"$each": [8, 9]}}}, new=True),
        modify({"$addToSet": {"list": {"$each": [7, 8, 10]}}}, new=True),
        modify({"$pullAll": {"list": [1, 10]}}, new=True),
        modify({"$set": {"list": [1, 2, 3, 4]}, "$inc": BUMP}, new=True)]),
    "Laravel embeds": ([book()], [
        update({"$push": {"kept.list": {"_id": 8, "text": "new"}}}, multi=True),
        update({"$addToSet": {"list": 9}}, multi=True),
        update({"$set": {"kept.list.$.text": "c"}}, {"_id": 1, "kept.list._id": 6}, multi=True),
        update({"$pull": {"kept.list": {"_id": {"$in": [2, 8]}}}}, multi=True)]),
    "Mongoid edits by position": ([book()], [
        update({"$set": {"kept.list.0.text": "c", "kept.list.6.text": "d"}}),
        update({"$pull": {"kept.list": {"_id": 4}}}), update({"$push": {"kept.list": {"$each": parts(8, 9)}}}),
        update({"$set": {"kept.list.$.text": "e"}}, {"_id": 1, "kept.list._id": 9})]),
    "Prisma updates by pipelines": ([book()], [
        update([{"$set": {"list": {"$concatArrays": [{"$ifNull": ["$list", []]}, [8, 9]]}}}], {"_id": {"$in": [1]}},
               multi=True),
        update([{"$set": {"title": "b"}}, {"$set": {"list": [1, 2, 3, 4]}}], multi=True),
        update([{"$set": {"kept.list": {"$filter": {"input": "$kept.list", "cond": {"$ne": ["$$this._id", 4]}}}}}],
               multi=True)]),
}
APPLICATIONS = {
    "Meteor's tokens": (tokens(), [
        update({"$addToSet": {"kept.list": {"hash": "1x", "when": DatetimeMS(9000)}}, "$set": {"seen": 1}}),
        update({"$pull": {"kept.list": {"hash": "1b"}}}),
        update({"$pullAll": {"kept.list": [{"hash": "1a", "when": DatetimeMS(0)}]}}),
        update({"$pull": {"kept.list": {"$or": [{"when": {"$lt": DatetimeMS(3000)}}, {"hash": "2f"}]}}},
               {"kept.list.when": {"$lt": DatetimeMS(3000)}}, multi=True),
        update({"$pull": {"kept.list": {"hash": {"$in": ["1x", "none"]}}}}, {"kept.list.hash": "1x"}),
        update({"$set": {"kept.list": []}})]),
    "a guard that makes a push idempotent": ([book()], [
        update({"$push": {"kept.list": {"_id": 8}}}, {"_id": 1, "kept.list._id": {"$ne": 8}}),
        update({"$push": {"kept.list": {"_id": 8}}}, {"_id": 1, "kept.list._id": {"$ne": 8}})]),
    "a cap on the length": ([book()], [
        update({"$push": {"list": 8}}, {"_id": 1, "list.7": {"$exists": False}}),
        update({"$push": {"list": 9}}, {"_id": 1, "list.7": {"$exists": False}}),
        update({"$push": {"list": 9}}, {"_id": 1, "$expr": {"$lt": [{"$size": "$list"}, 9]}})]),
    "a member's clean-up": ([book(), {"_id": 2, "list": [6, 6, 8, 9]}, {"_id": 3, "list": [1]}], [
        update({"$pull": {"list": 6}, "$inc": {"n": -1}}, {"list": 6}, multi=True),
        update({"$pull": {"list": 6}}, {"list": 6}, multi=True)]),
    "a counter of the application's own": ([book(n=7)], [
        update({"$push": {"list": 8}, "$inc": {"n": 1}}), update({"$pull": {"list": 2}, "$inc": {"n": -1}})]),
    "a like given and taken": ([book()], [
        update({"$addToSet": {"list": 8}, "$inc": {"n": 1}}, {"_id": 1, "list": {"$ne": 8}}),
        update({"$addToSet": {"list": 8}, "$inc": {"n": 1}}, {"_id": 1, "list": {"$ne": 8}}),
        update({"$pull": {"list": 8}, "$inc": {"n": -1}}, {"_id": 1, "list": 8}),
        update({"$pull": {"list": 8}, "$inc": {"n": -1}}, {"_id": 1, "list": 8})]),
    "messages in front, the oldest cut": ([book()], [
        update({"$push": {"list": {"$each": [0], "$position": 0, "$slice": 5}}}),
        update({"$push": {"kept.list": {"$each": parts(8), "$slice": -4}}, "$set": {"title": "b"}})]),
    "a rollup by index": ([book()], [bulk(
        write({"$push": {"list": 8, "kept.list.6.points": {"$each": [[1, 2]]}}, "$inc": {"n": 1, "kept.list.6.n": 1},
               "$set": {"title": "b"}}, upsert=True),
        write({"$push": {"list": 9, "kept.list.6.points": [3, 4]}, "$inc": {"n": 1, "kept.list.6.n": 1}},
              upsert=True))]),
    "feedback on a message": ([book()], [
        update({"$set": {"kept.list.5.feedback": {"good": True}}}),
        update({"$set": {"kept.list.$[m].text": "edited", "title": "b"}}, arrayFilters=[{"m._id": 6}]),
        modify({"$set": {"kept.list.$.text": "again"}}, {"_id": 1, "kept.list._id": 7}, new=True)]),
    "a text replaced where it matches": ([book()], [
        update({"$set": {"kept.list.$[m].text": "none"}}, {"kept.list.text": Regex("^part [67]")}, multi=True,
               arrayFilters=[{"m.text": Regex("[67]$")}])]),
}
IN_ONE_PARENT = [book(kept={"list": parts(*SEVEN), "more": SEVEN})]
CUT = {"list": {"$slice": 1}}
SEVERAL_ARRAYS = {
    "all set at once": (IN_ONE_PARENT, [
        update({"$set": {"kept": {"list": parts(*SEVEN), "more": [1, 2, 3, 4, 5, 6, 8]}}}),
        update([{"$set": {"n": {"$size": "$kept.list"}, "m": {"$size": "$kept.more"}}}])]),
    "edited at once": (IN_ONE_PARENT, [
        update({"$pull": {"kept.list": {"_id": 3}, "kept.more": 7, "list": 7}}),
        modify({"$set": {"kept.list.0.text": "a", "kept.more.5": "b"}})]),
    "one by the other": (IN_ONE_PARENT, [
        update({"$set": {"n": 1}}, {"_id": 1, "kept.list._id": 7, "kept.more": 7}),
        update({"$pop": {"kept.more": 1}}, {"_id": 1, "kept.list._id": 7})]),
    "their parent renamed": (IN_ONE_PARENT, [update({"$rename": {"kept": "left"}})]),
    "an image cut in one": (IN_ONE_PARENT, [
        modify({"$set": {"n": 1}}, fields=CUT), modify({"$set": {"n": 2}}, fields={**CUT, "kept.more": 1}, new=True),
        modify({"$set": {"n": 3}}, fields={"kept": 1, "size": {"$size": "$list"}, "_id": 0}),
        {"findAndModify": "books", "query": ONE, "remove": True, "fields": {**CUT, "kept.more": 1}}]),
    "an image cut where another array matched": ([book(notes=parts(*SEVEN))], [
        modify({"$set": {"n": 1}}, {"_id": 1, "list": 6}, fields={"notes.$": 1}),
        modify({"$push": {"list": 8}}, {"list": {"$gt": 4}}, fields={"notes.$": 1, "_id": 0}, sort={"n": 1}),
        {"findAndModify": "books", "query": {"_id": 1, "kept.list._id": 7}, "remove": True, "fields": {"notes.$": 1}}]),
    "$setOnInsert of what is in one": (IN_ONE_PARENT, [
        update({"$setOnInsert": {"list.$[].$[]": 1}}), update({"$setOnInsert": {"kept.list.3.text.$[]": 1}})]),
}
LIBRARIES = {"Mongoose": MONGOOSE_OLD, "Doctrine": DOCTRINE, "NodeBB": NODEBB, "ODM": ODMS, "application": APPLICATIONS,
             "several arrays": SEVERAL_ARRAYS}
SHAPES = {f"{library}: {name}": shape for library, shapes in LIBRARIES.items() for name, shape in shapes.items()}


@pytest.fixture(scope="module")
def arms():
    with twins() as made:
        yield made


@pytest.mark.parametrize("name", SHAPES)
def test_shape(arms, name):
    arms.run(*SHAPES[name])
