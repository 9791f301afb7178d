"""What MongoDB's manual shows of the update operators on arrays, on plain and on ruled arrays alike.

An example is the documents that it begins with and its commands. The array is called `list`, or
`kept.list` where a path through a document is meant; the data are ours.
"""

import pytest
from bson import DatetimeMS, Decimal128, Int64, Regex

from support.twins import twins

pytestmark = pytest.mark.share(3)
ONE = {"_id": 1}
DAY = 86400000


def update(change, query=None, **options):
    return {"update": "books", "updates": [{"q": ONE if query is None else query, "u": change, **options}]}


def every(change, query=None, **options):
    return update(change, query or {}, multi=True, **options)


def updates(*statements, **options):
    return {"update": "books", "updates": list(statements), **options}


def modify(change, query=None, **options):
    return {"findAndModify": "books", "query": ONE if query is None else query, "update": change, **options}


def marks():
    """Three pupils' marks, by which much of the manual goes."""
    return [{"_id": 1, "list": [85, 80, 80, 95]}, {"_id": 2, "list": [88, 90, 92]},
            {"_id": 3, "list": [85, 100, 90, 100]}]


def exams():
    return [
        {"_id": 1, "list": [{"mark": 80, "mean": 75, "std": 6}, {"mark": 85, "mean": 90, "std": 4},
                            {"mark": 85, "mean": 85, "std": 6}]},
        {"_id": 2, "list": [{"mark": 90, "mean": 75, "std": 6}, {"mark": 87, "mean": 90, "std": 3},
                            {"mark": 91, "mean": 85, "std": 4}]},
    ]


def papers():
    return [
        {"_id": 1, "list": [{"kind": "quiz", "points": [10, 8, 5]}, {"kind": "quiz", "points": [8, 9, 6]},
                            {"kind": "essay", "points": [5, 4, 9]}]},
        {"_id": 2, "kept": {"list": [{"kind": "quiz", "points": [8, 8, 8]},
                                     {"kind": "essay", "points": [10, 1]}, {"kind": "quiz", "points": []}]}},
    ]


def quizzes():
    return [{"_id": 1, "list": [{"id": 1, "score": 6}, {"id": 2, "score": 9}, {"id": 3, "score": 4}]}]


def letters(text="abcde", **more):
    return [{"_id": 1, "title": "t", "list": list(text), **more}]


def numbers(*values, **more):
    return [{"_id": 1, "list": list(values), **more}]


POSITIONAL = {
    "the first match is set": (marks(), [update({"$set": {"list.$": 82}}, {"_id": 1, "list": 80})]),
    "a field of the matching element": (
        exams(), [update({"$set": {"list.$.std": 6}}, {"_id": 1, "list.mark": 85})]),
    "an element by several of its fields": (exams(), [
        update({"$set": {"list.$.std": 9}},
               {"_id": 1, "list": {"$elemMatch": {"mark": {"$lte": 90}, "mean": {"$gt": 80}}}})]),
    "the last of several arrays in the filter decides": (
        [{"_id": 1, "ids": [1, 2], "marks": [90, 95], "list": [2021, 2020, 2019]}],
        [update({"$set": {"list.$": 2022}}, {"ids": 1, "marks": 95, "list": 2021}),
         update({"$set": {"list.$": 2023}}, {"list": 2020, "ids": 1, "marks": 95})]),
    "another array's position": (
        [{"_id": 1, "ids": [1, 2, 3], "list": [5, 6, 7]}],
        [update({"$set": {"list.$": 9}}, {"_id": 1, "ids": 3}), update({"$inc": {"ids.$": 9}}, {"_id": 1, "list": 9})]),
    "unset leaves null": (marks(), [update({"$unset": {"list.$": ""}}, {"_id": 1, "list": 95})]),
    "in many documents": (marks(), [every({"$inc": {"list.$": 1}}, {"list": {"$gte": 90}})]),
    "nothing in the filter to go by": (marks(), [update({"$set": {"list.$": 1}})]),
    "not with an upsert": (marks(), [
        update({"$set": {"list.$": 1}}, {"_id": 9, "list": 80}, upsert=True),
        modify({"$set": {"list.$": 1}}, {"_id": 9, "list": 80}, upsert=True)]),
    "through a document": (
        [{"_id": 1, "kept": {"list": [{"n": 1}, {"n": 2}, {"n": 3}]}}],
        [update({"$inc": {"kept.list.$.n": 5}}, {"kept.list.n": 3})]),
}
ALL = {
    "every element": (marks(), [every({"$inc": {"list.$[]": 10}})]),
    "a field of every element": (exams(), [every({"$inc": {"list.$[].std": -2}})]),
    "where the filter is a negation": (marks(), [every({"$inc": {"list.$[]": 10}}, {"list": {"$ne": 100}})]),
    "with an identifier below": (papers(), [
        every({"$inc": {"list.$[].points.$[p]": 2}}, {"list": {"$exists": True}}, arrayFilters=[{"p": {"$gte": 8}}]),
        update({"$inc": {"kept.list.$[].points.$[p]": 2}}, {"_id": 2}, arrayFilters=[{"p": {"$gte": 8}}])]),
    "every element of every element": (papers(), [update({"$mul": {"list.$[].points.$[]": 2}})]),
    "an upsert whose filter holds the array": (marks(), [
        update({"$set": {"list.$[]": 10}}, {"_id": 7, "list": [5, 8, 9, 11]}, upsert=True),
        update({"$set": {"list.$[]": 10}}, {"list": [5, 8, 9]}, upsert=True, multi=True)]),
    "an upsert without an array": (marks(), [update({"$set": {"list.$[]": 10}}, {"_id": 7}, upsert=True)]),
    "not an array": ([{"_id": 1, "list": 5}, {"_id": 2}], [
        update({"$set": {"list.$[]": 10}}), update({"$set": {"list.$[]": 10}}, {"_id": 2})]),
}
FILTERED = {
    "elements that match": (marks(), [
        every({"$set": {"list.$[e]": 99}}, arrayFilters=[{"e": {"$gte": 95}}]),
        every({"$set": {"list.$[e]": 98}}, {"list": {"$gte": 99}}, arrayFilters=[{"e": {"$gte": 99}}])]),
    "documents that match": (exams(), [
        every({"$set": {"list.$[e].mean": 100}}, arrayFilters=[{"e.mark": {"$gte": 85}}])]),
    "by several conditions": (exams(), [
        every({"$inc": {"list.$[e].std": -1}}, arrayFilters=[{"e.mark": {"$gte": 80}, "e.std": {"$gt": 5}}])]),
    "by a negation": (
        [{"_id": 1, "list": [{"level": "Master"}, {"level": "Bachelor"}]},
         {"_id": 2, "list": [{"level": "Bachelor"}, {"level": "Master"}, {"level": "PhD"}]}],
        [every({"$set": {"list.$[d].asked": 1}}, arrayFilters=[{"d.level": {"$ne": "Bachelor"}}]),
         every({"$unset": {"list.$[d].asked": 1}}, arrayFilters=[{"d.level": {"$not": {"$eq": "PhD"}}}])]),
    "in nested arrays": (papers(), [
        update({"$inc": {"list.$[t].points.$[p]": 2}}, arrayFilters=[{"t.kind": "quiz"}, {"p": {"$gte": 8}}]),
        update({"$inc": {"kept.list.$[t].points.$[]": 2}}, {"_id": 2}, arrayFilters=[{"t.kind": "quiz"}]),
        update({"$set": {"list.0.points.$[p]": 0}}, arrayFilters=[{"p": 5}])]),
    "two arrays at once": (
        [{"_id": 1, "list": [1, 5, 9], "kept": {"list": [{"n": 2}, {"n": 6}]}}],
        [update({"$set": {"list.$[a]": 0, "kept.list.$[b].n": 0}},
                arrayFilters=[{"a": {"$gt": 4}}, {"b.n": {"$lt": 4}}])]),
    "an upsert": (marks(), [
        update({"$set": {"list.$[e]": 2}}, {"_id": 8, "list": [0, 1, 0]}, upsert=True, arrayFilters=[{"e": 0}]),
        update({"$set": {"list.$[e]": 2}}, {"_id": 9}, upsert=True, arrayFilters=[{"e": 0}])]),
    "no filter, one too many, a bad name": (marks(), [
        update({"$set": {"list.$[e]": 2}}),
        update({"$set": {"list.$[e]": 2}}, arrayFilters=[{"e": 80}, {"x": 1}]),
        update({"$set": {"list.$[E]": 2}}, arrayFilters=[{"E": 80}]),
        update({"$set": {"list.$[e]": 2}}, arrayFilters=[{"e": 80}, {"e": 85}])]),
    "filters for nothing ruled": (marks(), [update({"$set": {"other.$[e]": 2}}, arrayFilters=[{"e": 80}])]),
    "with a collation": (letters(), [
        update({"$set": {"list.$[e]": "z"}}, arrayFilters=[{"e": "C"}], collation={"locale": "en", "strength": 2})]),
    "statements of one command": (marks(), [updates(
        {"q": {}, "u": {"$set": {"list.$[e]": 100}}, "arrayFilters": [{"e": {"$gte": 90}}], "multi": True},
        {"q": {"_id": 2}, "u": {"$inc": {"list.$[e]": -1}}, "arrayFilters": [{"e": {"$lt": 90}}]},
        {"q": {"_id": 3}, "u": {"$push": {"list": 1}}})]),
}
ADD_TO_SET = {
    "a new value": (letters(), [update({"$addToSet": {"list": "x"}})]),
    "a value that is there": (letters(), [update({"$addToSet": {"list": "a"}}), update({"$addToSet": {"list": "e"}})]),
    "an array is one element": (letters(), [
        update({"$addToSet": {"list": ["c", "d"]}}), update({"$addToSet": {"list": ["c", "d"]}})]),
    "each of several": (letters(), [update({"$addToSet": {"list": {"$each": ["c", "x", "x", "e", "y"]}}})]),
    "no array yet": ([{"_id": 1}], [
        update({"$addToSet": {"list": "x"}}), update({"$addToSet": {"kept.list": {"$each": [1, 1, 2, 3]}}})]),
    "not an array": ([{"_id": 1, "list": "red"}], [update({"$addToSet": {"list": "c"}})]),
    "repeated values stay": (letters("abbab"), [
        update({"$addToSet": {"list": "b"}}), update({"$addToSet": {"list": "c"}})]),
    "documents are equal field by field": (quizzes(), [
        update({"$addToSet": {"list": {"id": 3, "score": 4}}}),
        update({"$addToSet": {"list": {"score": 4, "id": 3}}}),
        update({"$addToSet": {"list": {"id": Int64(3), "score": 4.0}}})]),
    "numbers of any type are equal": (numbers(1, 2, 3, 4), [
        update({"$addToSet": {"list": 4.0}}), update({"$addToSet": {"list": Decimal128("3")}}),
        update({"$addToSet": {"list": {"$each": [Int64(2), 5, 5.0]}}})]),
    "a collation decides": (letters(), [
        update({"$addToSet": {"list": "E"}}, collation={"locale": "en", "strength": 2}),
        update({"$addToSet": {"list": "E"}})]),
    "null and a missing field": (numbers(1, None, {}, {"a": None}), [
        update({"$addToSet": {"list": None}}), update({"$addToSet": {"list": {"a": None}}}),
        update({"$addToSet": {"list": {"b": None}}})]),
    "beside other fields": (letters(), [
        update({"$addToSet": {"list": "e", "kept.list": 1}, "$set": {"title": "u"}, "$inc": {"n": 1}})]),
    "in many documents": (marks(), [every({"$addToSet": {"list": 90}})]),
    "an upsert": ([], [update({"$addToSet": {"list": {"$each": [1, 2, 2, 3]}}}, upsert=True),
                       update({"$addToSet": {"list": 3}}, upsert=True)]),
}
POP = {
    "the first": (numbers(8, 9, 10), [update({"$pop": {"list": -1}})]),
    "the last": (numbers(8, 9, 10, 11), [update({"$pop": {"list": 1}}), update({"$pop": {"list": 1}})]),
    "down to nothing and beyond": (numbers(1, 2, 3), [update({"$pop": {"list": 1}})] * 4),
    "from both arrays": ([{"_id": 1, "list": [1, 2, 3], "kept": {"list": [4, 5, 6]}}],
                         [update({"$pop": {"list": 1, "kept.list": -1}})]),
    "no array, not an array, not one": ([{"_id": 1, "kept": {"list": 5}}], [
        update({"$pop": {"list": 1}}), update({"$pop": {"kept.list": 1}}), update({"$pop": {"list": 2}}),
        update({"$pop": {"list": "x"}})]),
    "of an array within an element": (papers(), [update({"$pop": {"list.2.points": 1}})]),
}
PULL = {
    "all values of a list": (
        [{"_id": 1, "list": ["pear", "plum", "kiwi", "plum", "fig"], "kept": {"list": ["leek", "corn", "chard"]}},
         {"_id": 2, "list": ["plum", "fig", "date"], "kept": {"list": ["corn", "bean", "corn"]}}],
        [every({"$pull": {"list": {"$in": ["pear", "fig"]}, "kept.list": "corn"}})]),
    "by a comparison": (numbers(3, 5, 6, 7, 7, 8), [update({"$pull": {"list": {"$gte": 6}}})]),
    "documents by their fields": (
        [{"_id": 1, "list": [{"item": "A", "score": 5}, {"item": "B", "score": 8, "note": "hard"}]},
         {"_id": 2, "list": [{"item": "C", "score": 8}, {"item": "B", "score": 4}, {"item": "B", "score": 8}]}],
        [every({"$pull": {"list": {"score": 8, "item": "B"}}})]),
    "documents by arrays within": (
        [{"_id": 1, "list": [{"item": "A", "answers": [{"q": 1, "a": 4}, {"q": 2, "a": 6}]},
                             {"item": "B", "answers": [{"q": 1, "a": 8}, {"q": 2, "a": 9}]},
                             {"item": "C", "answers": [{"q": 1, "a": 8}, {"q": 2, "a": 8}, {"q": 2, "a": 1}]}]}],
        [update({"$pull": {"list": {"answers": {"$elemMatch": {"q": 2, "a": {"$gte": 8}}}}}})]),
    "in bulk": (numbers(3, 5, 6, 7, 7, 8), [updates(
        {"q": ONE, "u": {"$pull": {"list": {"$gte": 8}}}}, {"q": ONE, "u": {"$pull": {"list": 3}}},
        {"q": ONE, "u": {"$pull": {"list": 99}}})]),
    "nothing matches": (letters(), [update({"$pull": {"list": "x"}})]),
    "a whole document is no subset": (quizzes(), [
        update({"$pull": {"list": {"id": 2}}}), update({"$pull": {"list": {"$eq": {"id": 1}}}}),
        update({"$pull": {"list": {"$eq": {"id": 3, "score": 4}}}})]),
    "an array means itself, in order": (numbers(1, [1, 2], [2, 1], 2, [[1, 2]]), [
        update({"$pull": {"list": [1, 2]}}), update({"$pull": {"list": 2}})]),
    "by pattern, type and null": (numbers("abc", "xbc", None, 4, {"a": 1}), [
        update({"$pull": {"list": Regex("^a")}}), update({"$pull": {"list": {"$type": "number"}}}),
        update({"$pull": {"list": None}})]),
    "with a collation": (letters(), [update({"$pull": {"list": "D"}}, collation={"locale": "en", "strength": 2})]),
    "everything": (letters(), [update({"$pull": {"list": {"$exists": True}}})]),
    "from every element's array": (papers(), [update({"$pull": {"list.$[].points": {"$gte": 8}}})]),
    "no array, not an array": ([{"_id": 1, "kept": {"list": 5}}], [
        update({"$pull": {"list": 1}}), update({"$pull": {"kept.list": 5}})]),
    "many documents by value": (marks(), [every({"$pull": {"list": 90}}, {"list": 90})]),
}
PULL_ALL = {
    "every instance": (numbers(0, 2, 5, 5, 1, 0), [update({"$pullAll": {"list": [0, 5]}})]),
    "documents whole": (quizzes(), [
        update({"$pullAll": {"list": [{"id": 2, "score": 9}, {"score": 4, "id": 3}]}})]),
    "none, and not a list": (letters(), [update({"$pullAll": {"list": []}}), update({"$pullAll": {"list": "a"}})]),
}
PUSH = {
    "a value": (letters(), [update({"$push": {"list": "z"}})]),
    "to all documents": (marks(), [every({"$push": {"list": 95}})]),
    "several values": (letters(), [update({"$push": {"list": {"$each": [90, 92, 85]}}})]),
    "an array as one element": (letters(), [update({"$push": {"list": ["x", "y"]}})]),
    "several modifiers": (quizzes(), [update({"$push": {"list": {
        "$each": [{"id": 5, "score": 8}, {"id": 6, "score": 7}, {"id": 7, "score": 6}],
        "$sort": {"score": -1}, "$slice": 3}}})]),
    "all modifiers": (numbers(5, 3, 9, 1), [
        update({"$push": {"list": {"$each": [7, 2], "$position": 1, "$sort": 1, "$slice": -4}}})]),
    "no array yet": ([{"_id": 1}], [update({"$push": {"list": 1, "kept.list": {"$each": [1, 2, 3, 4]}}})]),
    "not an array": ([{"_id": 1, "list": 5}], [update({"$push": {"list": 1}})]),
    "into an element's array": (papers(), [
        update({"$push": {"list.0.points": 99}}), update({"$push": {"list.2.points": {"$each": [1], "$position": 0}}}),
        update({"$push": {"list.$[e].points": 7}}, arrayFilters=[{"e.kind": "essay"}])]),
    "two arrays, one of them sorted": ([{"_id": 1, "list": [3, 2, 1], "kept": {"list": [3, 2, 1]}}], [
        update({"$push": {"list": 4, "kept.list": {"$each": [], "$sort": 1}}})]),
    "a clause that is wrong": (letters(), [
        update({"$push": {"list": {"$each": 5}}}), update({"$push": {"list": {"$each": [1], "$slice": "x"}}}),
        update({"$push": {"list": {"$position": 0}}}), update({"$push": {"list": {"$each": [1], "$sort": 2}}}),
        update({"$push": {"list": {"$each": [1], "$wrong": 1}}}),
        update({"$push": {"list": {"$each": [1], "$position": 1.5}}})]),
}
POSITION = {
    "at the start": (numbers(100), [update({"$push": {"list": {"$each": [50, 60, 70], "$position": 0}}})]),
    "in the middle": (numbers(50, 60, 70, 100), [update({"$push": {"list": {"$each": [20, 30], "$position": 2}}})]),
    "from the end": (numbers(50, 60, 20, 30, 70, 100), [
        update({"$push": {"list": {"$each": [90, 80], "$position": -2}}})]),
    "beyond both ends": (numbers(1, 2, 3), [
        update({"$push": {"list": {"$each": [4], "$position": 99}}}),
        update({"$push": {"list": {"$each": [0], "$position": -99}}})]),
}
SLICE = {
    "the last ones": (numbers(40, 50, 60), [update({"$push": {"list": {"$each": [80, 78, 86], "$slice": -5}}})]),
    "the first ones": (numbers(89, 90), [update({"$push": {"list": {"$each": [100, 20], "$slice": 3}}})]),
    "only a slice": (numbers(89, 70, 100, 20), [
        update({"$push": {"list": {"$each": [], "$slice": -3}}}),
        update({"$push": {"list": {"$each": [], "$slice": 1}}})]),
    "to nothing": (numbers(89, 70, 100), [update({"$push": {"list": {"$each": [1], "$slice": 0}}})]),
    "longer than the array": (numbers(1, 2, 3), [
        update({"$push": {"list": {"$each": [4], "$slice": 9}}}),
        update({"$push": {"list": {"$each": [5], "$slice": -9}}})]),
}
SORT = {
    "documents by a field": (quizzes(), [update({"$push": {"list": {
        "$each": [{"id": 3, "score": 8}, {"id": 4, "score": 7}, {"id": 5, "score": 6}], "$sort": {"score": 1}}}})]),
    "values": (numbers(89, 70, 89, 50), [update({"$push": {"list": {"$each": [40, 60], "$sort": 1}}})]),
    "only a sort": (numbers(89, 70, 100, 20), [update({"$push": {"list": {"$each": [], "$sort": -1}}})]),
    "by several fields, some missing": (
        [{"_id": 1, "list": [{"a": 2, "b": {"c": 1}}, {"b": {"c": 3}}, {"a": 1}, 7, {"a": 2, "b": {"c": 0}}]}],
        [update({"$push": {"list": {"$each": [{"a": 1, "b": {"c": 9}}], "$sort": {"a": -1, "b.c": 1}}}})]),
    "by the order of types, with a collation": (numbers("b", 2, None, "A", "a", 1.5), [
        update({"$push": {"list": {"$each": ["B"], "$sort": 1}}}, collation={"locale": "en", "strength": 1})]),
}
SET = {
    "elements": (
        [{"_id": 1, "title": "t", "list": ["coats", "outer", "clothing"], "kept": {"list": [{"by": "A", "stars": 4}]}}],
        [update({"$set": {"list.1": "rain", "kept.list.0.stars": 2}})]),
    "the last and the next": (letters(), [update({"$set": {"list.4": "y"}}), update({"$set": {"list.5": "z"}})]),
    "far beyond the end": (letters(), [update({"$set": {"list.8": "z"}})]),
    "a field beyond the end": (quizzes(), [update({"$set": {"list.5.score": 3}})]),
    "the whole array": (letters(), [
        update({"$set": {"list": [1, 2, 3, 4, 5, 6], "title": "u"}}), update({"$set": {"list": [1]}}),
        update({"$set": {"list": []}}), update({"$set": {"list": "text"}}),
        update({"$set": {"list": list(range(9))}})]),
    "the same again": (letters(), [update({"$set": {"list.4": "e"}})]),
    "the same array again": (letters(), [update({"$set": {"list": list("abcde")}})]),
    "a parent": ([{"_id": 1, "kept": {"list": [1, 2, 3], "x": 1}}], [
        update({"$set": {"kept": {"list": [4, 5, 6, 7]}}}), update({"$set": {"kept": {"x": 2}}})]),
    "a name on an array": (letters(), [update({"$set": {"list.name": 1}})]),
    "two ways at once": (letters(), [
        update({"$set": {"list.0": 1, "list": []}}), update({"$set": {"list.0": 1}, "$push": {"list": 2}}),
        update({"$set": {"list.0": 1, "list.1": 2}, "$unset": {"list.3": 1}})]),
    "an empty path, a dollar": (letters(), [update({"$set": {"list.": 1}}), update({"$set": {"list.$x": 1}})]),
    "nothing": (letters(), [update({"$set": {}}), update({"$pull": {}, "$set": {"title": "u"}})]),
}
FIELDS = {
    "$unset an element, a field, the array, the parent": (
        [{"_id": 1, "list": [1, 2, 3], "kept": {"list": [{"a": 1, "b": 1}, {"a": 2}, {"a": 3}]}}],
        [update({"$unset": {"list.0": "", "kept.list.2.a": ""}}), update({"$unset": {"list.7": ""}}),
         update({"$unset": {"list": ""}}), update({"$unset": {"list": ""}}), update({"$unset": {"kept": ""}})]),
    "$inc": (numbers(1, 2.5, 3, "x"), [
        update({"$inc": {"list.2": 5, "n": -2}}), update({"$inc": {"list.1": 1}}), update({"$inc": {"list.3": 1}}),
        update({"$inc": {"list.6": 4}})]),
    "$mul": (
        [{"_id": 1, "list": [{"price": Decimal128("10.99"), "n": 25}, {"price": 2.5, "n": 4}, {"n": Int64(4)}]}],
        [update({"$mul": {"list.0.price": Decimal128("1.25"), "list.0.n": 2}}),
         update({"$mul": {"list.2.price": 100, "list.1.n": 2.5}}), update({"$mul": {"list.$[].n": 3}})]),
    "$min and $max": (numbers(800, 200, 500), [
        update({"$min": {"list.0": 150}}), update({"$max": {"list.1": 950}}), update({"$max": {"list.2": 500}}),
        update({"$min": {"list.$[]": 300}})]),
    "$min and $max of dates": (
        [{"_id": 1, "list": [DatetimeMS(10 * DAY), DatetimeMS(20 * DAY), DatetimeMS(30 * DAY)]}],
        [update({"$min": {"list.2": DatetimeMS(5 * DAY)}}), update({"$max": {"list.0": DatetimeMS(15 * DAY)}})]),
    "$min and $max of the whole array": (numbers(5, 6, 7), [
        update({"$min": {"list": [4, 9]}}), update({"$max": {"list": [5, 1, 1, 1]}}), update({"$max": {"list": 3}}),
        update({"$min": {"list": 3}})]),
    "$rename": (
        [{"_id": 1, "alias": ["a", "b", "c"], "kept": {"list": [1, 2, 3], "x": 1}}, {"_id": 2, "list": [1, 2, 3]}],
        [update({"$rename": {"alias": "list"}}), update({"$rename": {"kept.list": "kept.old"}}),
         update({"$rename": {"list": "kept.list"}}, {"_id": 2}), update({"$rename": {"kept": "was"}}, {"_id": 2})]),
    "$rename of an element is refused": (letters(), [
        update({"$rename": {"list.0": "x"}}), update({"$rename": {"title": "list.0"}}),
        update({"$rename": {"list": "list.x"}})]),
    "$rename of what is not there": (letters(), [update({"$rename": {"wife": "list"}})]),
    "$bit": (numbers(13, 3, 1, Int64(5)), [
        update({"$bit": {"list.0": {"and": 10}}}), update({"$bit": {"list.1": {"or": 5}}}),
        update({"$bit": {"list.2": {"xor": 5}, "list.3": {"or": Int64(8)}}}), update({"$bit": {"list.$[]": {"or": 1}}}),
        update({"$bit": {"list": {"or": 1}}})]),
    "$currentDate": (
        [{"_id": 1, "list": [{"at": None}, {"at": None}, {"at": 5}]}],
        [update({"$currentDate": {"list.1.at": True, "list.2.at": {"$type": "timestamp"}}, "$set": {"list.0.at": 7}}),
         update({"$currentDate": {"list.$[].at": {"$type": "date"}}}), update({"$currentDate": {"list": True}})]),
    "$setOnInsert": ([], [
        update({"$set": {"item": "apple"}, "$setOnInsert": {"list": [1, 2, 3, 4]}}, upsert=True),
        update({"$set": {"item": "pear"}, "$setOnInsert": {"list": [9]}}, upsert=True),
        update({"$setOnInsert": {"kept.list": [1, 2, 3]}}, {"_id": 2}, upsert=True),
        update({"$setOnInsert": {"list.0": 7}}, {"_id": 3, "list": [1, 2, 3]}, upsert=True),
        update({"$setOnInsert": {"list": [1]}, "$push": {"kept.list": 4}}, upsert=True)]),
}
PIPELINES = {
    "values appended and a sum": ([{"_id": 1, "list": [8, 6, 4]}, {"_id": 2, "list": []}], [
        every([{"$set": {"list": {"$concatArrays": ["$list", [8, 6]]}}}]),
        every([{"$set": {"total": {"$sum": "$list"}, "best": {"$max": "$list"}, "seen": "$$NOW"}}])]),
    "a grade from an average": (marks(), [every([
        {"$set": {"average": {"$trunc": [{"$avg": "$list"}, 0]}}},
        {"$set": {"grade": {"$switch": {"branches": [
            {"case": {"$gte": ["$average", 93]}, "then": "A"}, {"case": {"$gte": ["$average", 90]}, "then": "B"}],
            "default": "C"}}}}])]),
    "each value converted": (numbers(4, 12, 17, -3), [update([{"$addFields": {"fahrenheit": {"$map": {
        "input": "$list", "as": "c", "in": {"$add": [{"$multiply": ["$$c", 1.8]}, 32]}}}}}])]),
    "converted in place": (numbers(4, 12, 17), [
        update([{"$set": {"list": {"$map": {"input": "$list", "in": {"$add": ["$$this", 1]}}}}}])]),
    "filtered, sliced, reversed": (numbers(1, 2, 3, 4, 5, 6), [
        update([{"$set": {"list": {"$filter": {"input": "$list", "cond": {"$ne": ["$$this", 4]}}}}}]),
        update([{"$set": {"list": {"$reverseArray": "$list"}}}]),
        update([{"$set": {"list": {"$slice": ["$list", 2]}}}])]),
    "missing fields filled in": ([{"_id": 1, "list": [1, 2, 3]}, {"_id": 2, "kept": {"list": [1, 2, 3], "x": 1}}], [
        every([{"$replaceRoot": {"newRoot": {"$mergeObjects": [{"list": [0], "n": 0}, "$$ROOT"]}}},
               {"$set": {"n": {"$add": ["$n", 1]}}}]),
        every([{"$replaceWith": {"_id": "$_id", "copy": "$list", "kept": "$kept"}}])]),
    "fields taken away": ([{"_id": 1, "x": 1, "list": [1, 2, 3], "kept": {"list": [1, 2, 3]}}], [
        update([{"$unset": ["x", "kept"]}]), update([{"$unset": "list"}])]),
    "a projection": ([{"_id": 1, "x": 1, "list": [1, 2, 3], "kept": {"list": [1, 2, 3]}}], [
        update([{"$project": {"list": 1}}]), update([{"$project": {"n": {"$size": "$list"}}}])]),
    "with variables": (numbers(1, 2, 3, 4), [updates(
        {"q": ONE, "u": [{"$set": {"list": {"$concatArrays": ["$list", ["$$x"]]}, "n": "$$y"}}], "c": {"x": 9}},
        let={"y": 4})]),
    "a literal array": (letters(), [update([{"$set": {"list": [1, 2, 3, 4], "n": {"$literal": "$x"}}}])]),
    "a document is set in each element": (quizzes(), [update([{"$set": {"list": {"new": 1}}}])]),
    "a field of each element": (quizzes(), [update([{"$set": {"list.seen": True, "list.score": "$_id"}}])]),
    "an upsert": ([], [update([{"$set": {"list": [1, 2, 3, 4], "n": {"$size": {"$ifNull": ["$list", []]}}}}],
                              upsert=True),
                       update([{"$set": {"n": {"$size": "$list"}}}], upsert=True)]),
    "elements by index are fields": (numbers(1, 2, 3), [update([{"$set": {"list.0": 5}}])]),
    "not a stage of updates": (letters(), [update([{"$match": {"a": 1}}]),
                                           update([{"$set": {"n": {"$size": "$title"}}}])]),
}
MODIFY = {
    "the old and the new image": (numbers(1, 2, 3, 4), [
        modify({"$push": {"list": 5}}), modify({"$pull": {"list": 2}}, new=True),
        modify({"$pop": {"list": -1}}), modify({"$set": {"list.1": 9}}, new=True),
        modify({"$unset": {"list": 1}}), modify({"$push": {"list": {"$each": [1, 2, 3, 4]}}}, new=True)]),
    "the first by a sort": (
        [{"_id": 1, "rank": 3, "list": [1, 2, 3]}, {"_id": 2, "rank": 1, "list": [4, 5, 6]},
         {"_id": 3, "rank": 2, "list": [7, 8, 9]}],
        [modify({"$inc": {"list.$[]": 1}}, {"rank": {"$gt": 0}}, sort={"rank": 1}),
         modify({"$pop": {"list": 1}}, {"rank": {"$gt": 1}}, sort={"rank": -1}, new=True),
         {"findAndModify": "books", "query": {"rank": {"$gt": 0}}, "sort": {"rank": 1}, "remove": True}]),
    "an upsert": (numbers(1), [
        modify({"$push": {"list": {"$each": [3, 1, 2], "$sort": 1}}, "$inc": {"n": 1}}, {"_id": 5}, upsert=True),
        modify({"$addToSet": {"list": 3}}, {"_id": 5}, upsert=True, new=True),
        modify({"$addToSet": {"list": 3}}, {"_id": 6}, upsert=True, new=True)]),
    "nothing there": (numbers(1), [modify({"$pull": {"list": 1}}, {"_id": 5}),
                                   modify({"$pull": {"list": 1}}, {"_id": 5}, new=True)]),
    "array filters": (exams(), [
        modify({"$set": {"list.$[e].mean": 100}}, arrayFilters=[{"e.mark": {"$gte": 85}}], new=True),
        modify({"$set": {"list.$[e].mean": 7}}, arrayFilters=[{"e.mark": {"$gte": 850}}])]),
    "a pipeline": (marks(), [
        modify([{"$set": {"total": {"$sum": "$list"}}}], new=True),
        modify([{"$set": {"list": {"$concatArrays": ["$list", ["$total"]]}}}])]),
    "a match on the array": (marks(), [
        modify({"$set": {"list.$": 1}}, {"list": 100}, new=True),
        modify({"$pull": {"list": 90}}, {"list": {"$size": 3}}),
        {"findAndModify": "books", "query": {"list": {"$gt": 94}}, "remove": True}]),
    "some fields": (letters(), [
        modify({"$pull": {"list": "b"}}, fields={"title": 1}),
        modify({"$pull": {"list": "c"}}, fields={"list": 1}, new=True),
        modify({"$pull": {"list": "a"}}, fields={"list": 0}, new=True)]),
    "the lower-case name": (letters(), [{"findandmodify": "books", "query": ONE, "update": {"$pop": {"list": -1}},
                                         "new": True}]),
    "a replacement": (letters(), [modify({"list": [1, 2, 3, 4], "x": 1}, new=True), modify({"x": 2})]),
    "with a collation": (letters(), [
        modify({"$pull": {"list": "B"}}, {"title": "T"}, collation={"locale": "en", "strength": 2}, new=True)]),
    "an error": (letters(), [modify({"$inc": {"list.0": 1}}), modify({"$push": {"title": 1}})]),
}
COMMAND = {
    "statements one after the other": (marks(), [
        updates({"q": {"_id": 1}, "u": {"$pull": {"list": 80}}},
                {"q": {"_id": 9}, "u": {"$push": {"list": 1}}, "upsert": True},
                {"q": {}, "u": {"$pop": {"list": 1}}, "multi": True}, {"q": {"_id": 2}, "u": {"list": [1, 2, 3]}},
                {"q": {"_id": 2}, "u": {"$addToSet": {"list": {"$each": [3, 4]}}}})]),
    "ordered, with an error in the middle": (marks(), [updates(
        {"q": {"_id": 1}, "u": {"$pop": {"list": 1}}}, {"q": {"_id": 2}, "u": {"$inc": {"list": 1}}},
        {"q": {"_id": 3}, "u": {"$pop": {"list": 1}}})]),
    "unordered, with errors": (marks(), [updates(
        {"q": {"_id": 2}, "u": {"$inc": {"list": 1}}}, {"q": {"_id": 1}, "u": {"$pop": {"list": 1}}},
        {"q": {"_id": 9}, "u": {"$set": {"list.$[]": 1}}, "upsert": True},
        {"q": {"_id": 8}, "u": {"$set": {"list.1": 1}}, "upsert": True},
        {"q": {"_id": 3}, "u": {"$pull": {"list": 100}}}, ordered=False)]),
    "guards": (letters(), [
        update({"$push": {"list": "e"}}, {"_id": 1, "list": {"$ne": "e"}}),
        update({"$push": {"list": "f"}}, {"_id": 1, "list": {"$ne": "f"}}),
        update({"$push": {"list": "g"}}, {"_id": 1, "list.6": {"$exists": False}}),
        update({"$push": {"list": "h"}}, {"_id": 1, "list.6": {"$exists": False}}),
        update({"$push": {"list": "h"}}, {"_id": 1, "$expr": {"$lt": [{"$size": "$list"}, 7]}})]),
    "filters that look into the array": (marks(), [
        every({"$push": {"list": 1}}, {"list": {"$all": [85, 100]}}), every({"$inc": {"n": 1}}, {"list": {"$size": 3}}),
        every({"$inc": {"n": 1}}, {"list": {"$elemMatch": {"$gt": 80, "$lt": 86}}}),
        every({"$inc": {"n": 1}}, {"list.3": 95}),
        every({"$inc": {"n": 1}}, {"list": {"$not": {"$gt": 95}}}), every({"$inc": {"n": 1}}, {"list": [88, 90, 92]}),
        {"delete": "books", "deletes": [{"q": {"list": 92}, "limit": 1}, {"q": {"list.1": 100}, "limit": 0}]}]),
}
PAGES = {
    "$": POSITIONAL, "$[]": ALL, "$[identifier]": FILTERED, "$addToSet": ADD_TO_SET, "$pop": POP, "$pull": PULL,
    "$pullAll": PULL_ALL, "$push": PUSH, "$position": POSITION, "$slice": SLICE, "$sort": SORT, "$set": SET,
    "fields": FIELDS, "pipelines": PIPELINES, "findAndModify": MODIFY, "update": COMMAND,
}
EXAMPLES = {f"{page}: {name}": example for page, examples in PAGES.items() for name, example in examples.items()}


@pytest.fixture(scope="module")
def arms():
    with twins() as made:
        yield made


@pytest.mark.parametrize("name", EXAMPLES)
def test_example(arms, name):
    arms.run(*EXAMPLES[name])
