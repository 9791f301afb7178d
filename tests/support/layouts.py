"""The published layouts: what mongod must hold at rest, field by field, of a document as its application knows it."""

import contextlib
import datetime
import pathlib
import subprocess

import pymongo

from support.process import wait_for
from support.spillway import Spillway, program

EXAMPLES = pathlib.Path(__file__).parents[2] / "deploy" / "examples"
QUICK = "settle: 10ms\n    quiet: 10ms\n    gc_delay: 0s\n    sweep: 200ms\n    existing: move\n    threshold:"
BATCH = 1000


class Layout:
    """What a text publishes; the example file must bring just this about."""

    def __init__(self, example, rule, main, overflow, threshold, flag):
        self.file = EXAMPLES / f"{example}.yaml"
        self.rule, self.database, self.main, self.overflow = rule, "shop", main, overflow
        self.threshold, self.flag = threshold, {"has_extras": flag}
        self.array, self.extra, self.link = "customers_purchased", "customers_purchased_extra", "book_id"
        self.number, self.exposed = "_spill.i", False
        self.head = threshold  # elements that an outlier keeps
        self.rounds = 4        # of a random history

    def item(self, number):
        """An element; no two are the same."""
        return f"user{number}"

    def take_array(self, document):
        """The elements that an overflow document holds, which are taken out of it."""
        return document.pop(self.extra)

    def cut(self, tail):
        """The tail as the overflow documents have it."""
        return [tail[i:i + BATCH] for i in range(0, len(tail), BATCH)]

    def outlier_fields(self, document, batches):
        """What the main document of an outlier has beside its array."""
        return self.flag

    def batch_fields(self, number):
        """What an overflow document has beside its link and array, as far as it can be told."""
        return {}

    def fresh_fields(self, random, count):
        """What an application writes into a new document, of the fields that Spillway writes."""
        return {}

    def stored(self, document):
        """(the main document, its overflow arrays) for a document as the application knows it."""
        whole = document.get(self.array)
        if not isinstance(whole, list) or len(whole) <= self.threshold:
            return document, []
        batches = self.cut(whole[self.head:])
        return {**document, self.array: whole[:self.head], **self.outlier_fields(document, batches)}, batches

    def shown(self, document):
        """The document as Spillway gives it."""
        if self.exposed and self.array in document:
            return {**self.stored(document)[0], self.array: document[self.array]}
        return document


class Followers(Layout):
    """Numbered batches, counters, and a flag that ordinary documents have, too."""

    def __init__(self):
        super().__init__("followers", "followers", "users", "followerOverflow", 1000, True)
        self.database, self.array, self.extra, self.link = "social", "followers", "followers", "userId"
        self.flag, self.number, self.exposed = {"hasOverflow": True}, "batchNumber", True

    def outlier_fields(self, document, batches):
        return {"hasOverflow": True, "followerCount": len(document[self.array]), "overflowCount": len(batches)}

    def batch_fields(self, number):
        return {"batchNumber": number}

    def fresh_fields(self, random, count):
        schema = {"followerCount": count, "hasOverflow": False, "overflowCount": 0}
        return random.choice([schema, {}, {"followerCount": float(count)}])


class Comments(Layout):
    """An array that is emptied, a document an element, a counter and a reference."""

    def __init__(self):
        super().__init__("comments", "comments", "posts", "post_comments", 100, True)
        self.database, self.array, self.link = "blog", "comments", "post_id"
        self.flag, self.number, self.exposed, self.head = {"outlier": True}, "_spill.p", True, 0
        self.rounds = 2

    def item(self, number):
        return {"author": f"user{number % 7}", "text": f"comment {number}",
                "created_at": datetime.datetime(2026, 4, 26) + datetime.timedelta(minutes=number * 7919 % 1440)}

    def shown(self, document):
        """The flag and the reference are hidden."""
        fields = super().shown(document)
        return {name: value for name, value in fields.items() if name in document or name == "comment_count"}

    def take_array(self, document):
        own = {name: document.pop(name) for name in list(document) if name not in ("_id", "_spill", self.link)}
        return [document["_spill"].pop("v", own)]

    def cut(self, tail):
        return [[each] for each in tail]

    def outlier_fields(self, document, batches):
        return {"outlier": True, "comment_count": len(document[self.array]),
                "comments_ref": f"{document['_id']}_comments"}

    def fresh_fields(self, random, count):
        return random.choice([{"comment_count": count}, {}])


MANUAL = Layout("manual", "book-sales", "sales", "extra_sales", 50, True)
LEGACY = Layout("legacy-books", "legacy-books", "books", "book_extras", 1000, "true")
LEGACY.exposed = True
FOLLOWERS = Followers()
COMMENTS = Comments()


class Example(Spillway):
    """A Spillway with an example file: only addresses and times are other ones, and what a test names."""

    def __init__(self, server, layout, *changes):
        super().__init__([server])
        self.layout, self.server, self.changes = layout, server, changes

    def write_file(self):
        text = self.layout.file.read_text()
        for old, new in ((":27117", f":{self.port}"), (":27017", f":{self.server.port}"),
                         (":9117", f":{self.admin_port}"), ("threshold:", QUICK), *self.changes):
            assert old in text
            text = text.replace(old, new)
        self.file.touch(mode=0o600)
        self.file.write_text(text)


def close_cursors(client):
    """Those of a Spillway that was killed: `migrate` waits until reads of before have ended."""
    left = client.admin.aggregate([{"$currentOp": {"idleCursors": True}}, {"$match": {"type": "idleCursor"}}])
    for each in list(left):
        database, collection = each["ns"].split(".", 1)
        client[database].command("killCursors", collection, cursors=[each["cursor"]["cursorId"]])


@contextlib.contextmanager
def emptied(cluster, name):
    """The database straight at mongod, and nothing is known of it. It is read as the operator's commands read it."""
    with cluster.client() as client:
        close_cursors(client)
    with cluster.client(readConcernLevel="majority") as client:
        client.drop_database(name)
        client.drop_database("spillway")
        yield client[name]


@contextlib.contextmanager
def serving(cluster, layout, name):
    """Gives what starts a Spillway with changes to the example, and gives it and the database through it."""
    with contextlib.ExitStack() as stack:
        def start(*changes):
            example = stack.enter_context(Example(cluster.primary, layout, *changes))
            through = stack.enter_context(pymongo.MongoClient("127.0.0.1", example.port, directConnection=True))
            return example, through[name]

        yield start


def operate(example, command, *options, code=0):
    """One of the operator's commands, which must end with this code; what it said."""
    ran = subprocess.run([program(), command, "--config", example.file, "--rule", example.layout.rule, *options],
                         capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == code, ran.stdout + ran.stderr
    return ran.stdout


def verify(example):
    """What `spillway verify` says must be that all is well."""
    operate(example, "verify")


def overflow_of(direct, layout, identifier):
    """The overflow arrays in order; each document must have the published fields and `_spill`, no others."""
    arrays, position = [], 0
    batches = direct[layout.overflow].find({layout.link: identifier}).sort(layout.number)
    for number, batch in enumerate(batches, 1):
        array, state = layout.take_array(batch), batch.pop("_spill")
        if layout is FOLLOWERS:
            assert isinstance(batch.pop("createdAt"), datetime.datetime)
        assert batch == {"_id": batch["_id"], layout.link: identifier, **layout.batch_fields(number)}
        assert set(state) == ({"g", "p", "i"} if layout.number == "_spill.i" else {"g", "p"})
        assert (state.get("i", number), state["p"]) == (number, position)
        arrays.append(array)
        position += len(array)
    return arrays


def parts(direct, layout, identifier):
    """What stands in mongod of one document: (main without `_spill`, overflow arrays)."""
    main = direct[layout.main].find_one({"_id": identifier}) or {}
    batches = direct[layout.overflow].find({layout.link: identifier}).sort(layout.number)
    arrays = [layout.take_array(batch) for batch in batches]
    main.pop("_spill", None)
    return main, arrays


def wait_for_layout(direct, layout, documents):
    for document in documents.values():
        wait_for(lambda: parts(direct, layout, document["_id"]) == layout.stored(document),
                 f"{document['_id']} of {len(document.get(layout.array) or [])} to rest", pause=0.02)


def check_stored(direct, layout, documents):
    """Every document in mongod is the model's, and there is no other."""
    wait_for_layout(direct, layout, documents)
    assert {each["_id"] for each in direct[layout.main].find({}, {"_id": 1})} == set(documents)
    wait_for(lambda: set(direct[layout.overflow].distinct(layout.link)) <= set(documents),
             "the deleted ones' overflow to go")
    for document in documents.values():
        stored = direct[layout.main].find_one({"_id": document["_id"]})
        main, batches = layout.stored(document)
        state = stored.pop("_spill", None)
        assert stored == main
        assert overflow_of(direct, layout, document["_id"]) == batches
        assert (state is not None) == bool(batches)
        if state:
            assert list(state) == [layout.array]
            assert (state[layout.array]["h"], state[layout.array]["n"]) == (layout.head, sum(map(len, batches)))
