"""Every form in which MongoEngine saves and updates lists: usage mongoengine_saves.py URI DATABASE.

Makes a document for each form, says "made", waits for a line, then prints what became of each form.
"""

import sys

import mongoengine
from bson import json_util
from mongoengine import (
    Document,
    DynamicField,
    EmbeddedDocument,
    EmbeddedDocumentField,
    EmbeddedDocumentListField,
    IntField,
    ListField,
    Q,
    StringField,
)


class Part(EmbeddedDocument):
    number = IntField()
    text = StringField()
    marks = ListField(IntField())


class Kept(EmbeddedDocument):
    list = EmbeddedDocumentListField(Part)


class Book(Document):
    meta = {"collection": "books", "auto_create_index": False}
    id = IntField(primary_key=True)
    title = StringField()
    version = IntField(default=0)
    list = ListField(IntField())
    kept = EmbeddedDocumentField(Kept)


class Mixed(Document):
    meta = {"collection": "books", "auto_create_index": False, "strict": False}
    id = IntField(primary_key=True)
    list = DynamicField()


def part(number, text="part"):
    return Part(number=number, text=text, marks=[number, 1, 2])


def saved(change, model=Book):
    """A form that loads its document, changes it and saves what has changed."""
    def form(key):
        book = model.objects.get(id=key)
        change(book)
        book.save()
        return book.to_mongo()
    return form


def element(name, change):
    """A form that changes one embedded document."""
    def edit(book):
        found = book.kept.list.get(number=name)
        change(found)
    return saved(edit)


def atomic(query=None, method="update_one", **update):
    """A form that updates by a query set."""
    def form(key):
        return getattr(Book.objects(Q(id=key) & (query or Q())), method)(**update)
    return form


def modified(query=None, **update):
    """A form that updates and gets an image."""
    def form(key):
        found = Book.objects(Q(id=key) & (query or Q())).modify(**update)
        return found and found.to_mongo()
    return form


def on_document(method, **arguments):
    def form(key):
        book = Book.objects.get(id=key)
        return [getattr(book, method)(**arguments), book.to_mongo()]
    return form


def set_item(index, value):
    return lambda book: book.list.__setitem__(index, value)


SAVES = {
    "append": saved(lambda book: book.list.append(8)),
    "extend": saved(lambda book: book.list.extend([8, 9])),
    "insert": saved(lambda book: book.list.insert(2, 50)),
    "remove": saved(lambda book: book.list.remove(3)),
    "pop": saved(lambda book: book.list.pop()),
    "pop the first": saved(lambda book: book.list.pop(0)),
    "delete an index": saved(lambda book: book.list.__delitem__(4)),
    "delete a slice": saved(lambda book: book.list.__delitem__(slice(1, 4))),
    "a slice": saved(set_item(slice(2, 4), [7, 7, 7])),
    "sort": saved(lambda book: book.list.sort(reverse=True)),
    "reverse": saved(lambda book: book.list.reverse()),
    "an index": saved(set_item(1, 50)),
    "the last": saved(set_item(-1, 50)),
    "two indexes": saved(lambda book: (set_item(1, 50)(book), set_item(6, 60)(book))),
    "an index and an append": saved(lambda book: (set_item(1, 50)(book), book.list.append(8))),
    "an index and the title": saved(lambda book: (set_item(5, 50)(book), setattr(book, "title", "b"))),
    "another list": saved(lambda book: setattr(book, "list", [9, 8, 7, 6, 5, 4, 3, 2])),
    "a shorter list": saved(lambda book: setattr(book, "list", [1])),
    "an empty list": saved(lambda book: setattr(book, "list", [])),
    "cleared": saved(lambda book: book.list.clear()),
    "no list": saved(lambda book: setattr(book, "list", None)),
    "no parent": saved(lambda book: setattr(book, "kept", None)),
    "another field": saved(lambda book: setattr(book, "title", "b")),
    "nothing": saved(lambda book: None),
    "an embedded field": element(6, lambda found: setattr(found, "text", "changed")),
    "an embedded field away": element(6, lambda found: setattr(found, "text", None)),
    "an embedded list": element(6, lambda found: found.marks.append(5)),
    "an embedded index": element(6, lambda found: found.marks.__setitem__(0, 5)),
    "an embedded document replaced": saved(lambda book: book.kept.list.__setitem__(4, part(44))),
    "create": saved(lambda book: book.kept.list.create(number=90, text="new")),
    "filter and update": saved(lambda book: book.kept.list.filter(text="part").update(text="all")),
    "filter and delete": saved(lambda book: book.kept.list.filter(number=5).delete()),
    "exclude and delete": saved(lambda book: book.kept.list.exclude(number=5).delete()),
    "pop of an embedded document": saved(lambda book: book.kept.list.pop(2)),
    "embedded documents away": saved(lambda book: setattr(book.kept, "list", [])),
    "dynamic by index": saved(set_item(5, {"a": 1}), Mixed),
    "dynamic to a dictionary": saved(lambda book: setattr(book, "list", {"a": 1}), Mixed),
    "a condition that holds": lambda key: conditional(key, {"version": 0}),
    "a condition that does not": lambda key: conditional(key, {"version": 7}),
    "again and again": lambda key: again(key),
}
UPDATES = {
    "push": atomic(push__list=8),
    "push all": atomic(push_all__list=[8, 9]),
    "push at a position": atomic(push__list__0=[-1, 0]),
    "push an embedded document": atomic(push__kept__list=part(90)),
    "push into an embedded document": atomic(push__kept__list__5__marks=7),
    "pull": atomic(pull__list=3),
    "pull greater ones": atomic(pull__list__gt=3),
    "pull all": atomic(pull_all__list=[1, 6, 77]),
    "pull embedded documents": atomic(pull__kept__list__number=4),
    "pull embedded documents of several": atomic(pull__kept__list__number__in=[2, 6]),
    "pull nothing": atomic(pull__list=77),
    "pop": atomic(pop__list=1),
    "pop the first": atomic(pop__list=-1),
    "add to set": atomic(add_to_set__list=8),
    "add to set what is there": atomic(add_to_set__list=6),
    "add several to set": atomic(add_to_set__list=[6, 8, 9, 8]),
    "set": atomic(set__list=[4, 3, 2, 1]),
    "unset": atomic(unset__list=1),
    "set an index": atomic(set__list__1=50),
    "increment an index": atomic(inc__list__6=10),
    "multiply an index": atomic(mul__list__6=10),
    "minimum and maximum": atomic(min__list__6=1, max__list__5=99),
    "set an embedded field": atomic(set__kept__list__5__text="c"),
    "unset an embedded field": atomic(unset__kept__list__5__text=1),
    "rename": atomic(rename__title="name"),
    "the position": lambda key: Mixed.objects(id=key, list=6).update_one(set__list__S=60),
    "the position of an embedded document": atomic(Q(kept__list__number=6), set__kept__list__S__text="c"),
    "increment at the position": atomic(Q(kept__list__number=6), inc__kept__list__S__number=10),
    "the position by a match of several": atomic(
        Q(kept__list__match={"number": 5, "text": "part"}), set__kept__list__S__text="c"),
    "two kinds at once": atomic(push__list=8, set__title="b", inc__version=1, pop__kept__list=1),
    "a guard": atomic(Q(list__ne=8), push__list=8),
    "a guard that holds back": atomic(Q(list__ne=6), push__list=6),
    "a size": atomic(Q(list__size=7), push__list=8),
    "an index that is free": atomic(Q(__raw__={"list.6": {"$exists": False}}), push__list=8),
    "many": atomic(method="update", pull__list=5, full_result=False),
    "raw": atomic(__raw__={"$push": {"list": {"$each": [3], "$sort": -1, "$slice": 5}}}),
    "a raw pipeline": atomic(__raw__=[{"$set": {"list": {"$concatArrays": ["$list", [8]]}}}]),
    "array filters": atomic(__raw__={"$set": {"kept.list.$[e].text": "c"}}, array_filters=[{"e.number": {"$gt": 4}}]),
    "a new document": lambda key: Book.objects(id=key + 5000).upsert_one(push_all__list=[1, 2, 3, 4]).to_mongo(),
    "an old document": lambda key: Book.objects(id=key).upsert_one(pull__list=3).to_mongo(),
    "set on insert": lambda key: Book.objects(id=key + 6000).update_one(
        upsert=True, set_on_insert__list=[1, 2, 3, 4], set__title="n"),
    "modify before": modified(pull__list=3),
    "modify after": modified(new=True, pull__list=3, inc__version=1),
    "modify by position": modified(Q(kept__list__number=6), new=True, set__kept__list__S__text="c"),
    "modify in vain": modified(Q(version=9), new=True, push__list=8),
    "modify and delete": modified(remove=True),
    "modify a new document": lambda key: Book.objects(id=key + 7000).modify(
        upsert=True, new=True, push_all__list=[1, 2, 3], set__title="n").to_mongo(),
    "modify a document": on_document("modify", push__list=8),
    "modify a document by pull": on_document("modify", pull__kept__list__number=5),
    "modify a document on a condition": on_document("modify", query={"version": 3}, pop__list=1),
    "update a document": on_document("update", pull__list=3, push__kept__list__0__marks=8),
    "delete": lambda key: Book.objects(id=key).delete(),
}
FORMS = {**{f"save: {name}": form for name, form in SAVES.items()},
         **{f"update: {name}": form for name, form in UPDATES.items()}}


def conditional(key, condition):
    book = Book.objects.get(id=key)
    book.list.pop(2)
    book.version += 1
    book.save(save_condition=condition)
    return book.to_mongo()


def again(key):
    book = Book.objects.get(id=key)
    steps = [
        lambda: book.list.append(8), lambda: set_item(6, 60)(book), lambda: book.list.pop(0),
        lambda: book.kept.list.pop(3), lambda: setattr(book.kept.list[0], "text", "first"), lambda: book.list.sort(),
    ]
    for step in steps:
        step()
        book.save()
        book.reload()
    return book.to_mongo()


def outcome(form, key):
    try:
        return {"gave": form(key)}
    except Exception as error:
        return {"threw": type(error).__name__, "said": str(error)}


def main(uri, database):
    mongoengine.connect(database, host=uri)
    Book.objects.insert([
        Book(id=key, title=name, list=[1, 2, 3, 4, 5, 6, 7], kept=Kept(list=[part(i) for i in range(1, 8)]))
        for key, name in enumerate(FORMS)
    ])
    print("made", flush=True)
    sys.stdin.readline()
    for key, (name, form) in enumerate(FORMS.items()):
        print(json_util.dumps({"name": name, **outcome(form, key)}))


if __name__ == "__main__":
    main(*sys.argv[1:])
