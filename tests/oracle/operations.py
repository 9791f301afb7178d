"""Makes random operations: what issue by issue Spillway must do as mongod does.

An operation is a dictionary that can be written as JSON (to_json) and run again:

    does        "command", "again", "transaction", "wait", "check", "delay" or "overlap"
    command     the command's (name, value) pairs, without $db and session fields
    labels      the operators it stands for in the count of what was covered
    targets     the `_id`s it is about, None where it may be about any document
    form        how it is framed: see FORM
    steps, end  of a transaction: its commands and "commit" or "abort"
    may_refuse  true where the documents decide whether Spillway can tell: 115 is as good an answer
    of          of "again": the number of the retryable command that is sent once more
    elsewhere   of "again": through the other Spillway
    slows, by   of "delay": which of the movers' commands mongod takes its time with, the next time one
                comes, and milliseconds
    array,      of "overlap": whose last batch is stored once more, and how many of its elements are not
    keeps
"""

from oracle import bits, values
from oracle.array_reads import ArrayReads, named
from oracle.edits import Edits, condition
from support import exact

FORM = {
    "sequence": None,  # the field that travels as a document sequence
    "sequence_first": False,
    "checksum": False,
    "compressor": None,
    "more_to_come": False,
    "connection": 0,  # which of the arm's connections
    "times": 1,  # sent so often, a retry each
    "retryable": None,  # number of the retryable command; the arm gives it a session of its own
    "distinct": False,  # under a collation, any of equal values may stand for all
    "drain": None,  # batchSize of the getMores that follow
}
SEQUENCES = {"insert": "documents", "update": "updates", "delete": "deletes"}
COMPRESSORS = ("snappy", "zlib", "zstd")


class Generator:
    """Makes the operations of one episode on one layout."""

    def __init__(self, rng, layout, episode, reads, multis):
        self.rng = rng
        self.weights = _WEIGHTS_OF_READS if reads or rng.random() < 0.2 else _WEIGHTS
        # Writes mostly mean several documents, by conditions on their arrays.
        self.multis = multis or rng.random() < 0.1
        self.layout = layout
        self.arrays = layout.arrays
        self.ids = values.Identifiers(rng, episode)
        # Which of two fields of one name an inclusion returns depends on what else it names.
        self.repeats_names = rng.random() < 0.15
        self.edits = Edits(rng, pipelines=not self.repeats_names)
        # Whatever names its documents by `_id`, and goes through one Spillway, is not left to the
        # sweep: of a filter that matches no more nobody knows what it found, and a Spillway that
        # remembers how much room an array has does not see what another one pushes.
        self.strict = not self.multis and rng.random() < 0.6
        self.serial = 0
        self.retryables = []
        self.wholes = []
        self.reads = ArrayReads(rng, self.ids.known)
        self.next = []

    def operations(self, count):
        """`count` operations; documents first, so that there is something to work on."""
        made = [self._short_filling(), *(self.read_array() for _ in range(4))] if self._chance(0.3) else []
        made += [self._filling() for _ in range(6 if self.multis else 3)]
        while len(made) < count:
            made.append(self._one())
            if self.rng.random() < 0.3:
                made.append({"does": "check"})
        return made + self.next[::-1]  # what belongs to the last one

    def _filling(self):
        documents = [self._document(identifier) for identifier in self.ids.known]
        documents = self.rng.sample(documents, 2)
        return self._command("insert", [("documents", documents), ("ordered", False)], ["insert_many"])

    def _short_filling(self):
        """Documents whose arrays stay where they are: what is read then meets ordinary documents alone."""
        documents = []
        for identifier in self.rng.sample(self.ids.known, 2):
            parts = [("_id", identifier), ("k", self.rng.randrange(4)), ("n", self.rng.randrange(5)), ("z", [1, 2])]
            for path in self.arrays:
                length = self.rng.randrange(self.layout.threshold + 1)
                parts.append(values.with_array(path, [values.element(self.rng) for _ in range(length)]))
            documents.append((exact.DOCUMENT, exact.pairs_of(parts)))
        return self._command("insert", [("documents", documents)], ["insert_many"])

    def _one(self):
        if self.next:
            return self.next.pop()
        kinds, weights = zip(*self.weights)
        return self.rng.choices(kinds, weights)[0](self)

    # parts

    def _chance(self, probability):
        return self.rng.random() < probability

    def _next_serial(self):
        self.serial += 1
        return self.serial

    def _array(self):
        return self.rng.choice(self.arrays)

    def _document(self, identifier):
        parts = values.document(
            self.rng, identifier, self.arrays, self._next_serial(), self.repeats_names)
        return exact.DOCUMENT, exact.pairs_of(parts)

    def _replacement(self):
        serial = self._next_serial()
        parts = values.fields(self.rng, self.arrays, serial, self.repeats_names)
        return exact.DOCUMENT, exact.pairs_of(parts + [("serial", serial)])

    def _filter(self):
        """A filter that reads no ruled array, and the `_id`s it names."""
        choice = 0 if self.strict else self.rng.random()
        named = 0.1 if self.multis else 0.7
        if choice < named:
            identifier = self.ids.as_asked(self.rng)
            extra = {"k": self.rng.randrange(4)} if self._chance(0.1) else {}
            return {"_id": identifier, **extra}, [identifier]
        if choice < named + 0.08:
            chosen = self.rng.sample(self.ids.known, 2)
            return {"_id": {"$in": chosen}}, chosen
        return self.rng.choice((
            {"k": self.rng.randrange(4)},
            {"n": {"$gte": self.rng.randrange(4)}},
            {"$or": [{"k": 1}, {"n": 2}]},
            {"z": 2, "k": {"$ne": 1}},
            {"s": {"$exists": False}},
            {},
        )), None

    def _write_filter(self):
        """A write's filter: often with a condition on an array, whose label comes third."""
        query, targets = self._filter()
        if not self._chance(0.6 if self.multis else 0.25):
            return query, targets, []
        if self.multis and self._chance(0.5):
            query = {}
        parts = condition(self.rng, self._array())
        query = {**query, **parts} if not set(query) & set(parts) else {"$and": [query, parts]}
        return query, targets, ["filter_array"]

    def _other_operators(self):
        """Update operators on fields under no rule."""
        rng = self.rng
        all_of_them = [
            {"$set": {"s": values.scalar(rng)}}, {"$set": {"o.p": rng.randrange(9), "k": rng.randrange(4)}},
            {"$inc": {"n": rng.choice((1, 0, 1.5))}}, {"$unset": {"s": ""}}, {"$unset": {"absent": 1}},
            {"$setOnInsert": {"new": True}}, {"$currentDate": {"at": True}},
            {"$currentDate": {"at": {"$type": "timestamp"}}}, {"$push": {"z": 3}},
            {"$addToSet": {"z": 2}}, {"$pull": {"z": 1}}, {"$pop": {"z": 1}}, {"$mul": {"n": 2}},
            {"$max": {"n": 3}}, {"$rename": {"o": "p"}}, {"$bit": {"k": {"xor": 1}}},
            {"$inc": {"s": 1}},  # fails where s is no number
        ]
        merged = {}
        for part in rng.sample(all_of_them, rng.choice((1, 1, 2, 3))):
            for operator, change in part.items():
                merged.setdefault(operator, {}).update(change)
        return merged

    def _pushed(self, path):
        if self._chance(0.5):
            return {path: values.element(self.rng)}, "push"
        items = values.elements(self.rng, 8)
        return {path: {"$each": items}}, "push_each"

    def _push(self):
        """A plain push, alone or with other operators."""
        change, label = self._pushed(self._array())
        if len(self.arrays) > 1 and self._chance(0.2):
            for path in self.arrays:
                change.update(self._pushed(path)[0])
            label = "push_both"
        update = {"$push": change}
        if self._chance(0.4):
            label = "push_mixed"
            for operator, more in self._other_operators().items():
                update.setdefault(operator, {}).update(more)
        if self._chance(0.3):
            update = dict(self.rng.sample(list(update.items()), len(update)))
        return update, label

    def _whole(self):
        """A whole-array write: $set or $unset of an array, or of what it lies in."""
        path = self._array()
        prefix = path.partition(".")[0]
        serial = self._next_serial()
        if prefix != path and self._chance(0.6):
            if self._chance(0.3):
                return {"$unset": {prefix: ""}}, "unset_prefix"
            inner = {"x": 1, **values.with_array(path, values.fresh_elements(self.rng, serial, self.repeats_names))[1]}
            odd = values.odd_parent(self.rng)
            return {"$set": {prefix: inner if self._chance(0.8) else odd}}, "set_prefix"
        if self._chance(0.25):
            return {"$unset": {path: self.rng.choice((1, "", True))}}, "unset_array"
        items = values.fresh_elements(self.rng, serial, self.repeats_names)
        whole = items if self._chance(0.85) else values.not_an_array(self.rng)
        return {"$set": {path: whole}}, "set_array"

    def _modification(self):
        """An update document with operators, and its label."""
        choice = self.rng.random()
        if choice < 0.65:
            return self._push()
        if choice < 0.85:
            update, label = self._whole()
            if self._chance(0.3):
                for operator, more in self._other_operators().items():
                    update.setdefault(operator, {}).update(more)
            return update, label
        return self._other_operators(), "other"

    def _statement(self, upsert=False):
        """One statement of `update`, its labels and targets."""
        query, targets, labels = self._write_filter()
        if labels and self._chance(0.1):
            # mongod takes the position from whichever array the filter looked into last.
            query = {**query, **self.rng.choice(({}, {"z": 2}))}
            statement = {"q": query, "u": {self.rng.choice(("$set", "$inc")): {"z.$": 7}}}
            labels = [*labels, "other_positional"]
        elif self._chance(0.35):
            statement, more = self._edit(query)
            labels += more
        elif self._chance(0.15):
            statement, labels = {"q": query, "u": self._replacement()}, [*labels, "replace"]
        else:
            update, label = self._modification()
            statement, labels = {"q": query, "u": update}, [*labels, label]
        several = isinstance(statement["u"], (dict, list)) and self._chance(0.85 if self.multis else 0.2)
        # Whether several documents get one time or two, by which they can be sorted, hangs on mongod's clock.
        if several and "$currentDate" not in statement["u"]:
            statement["multi"] = True
            labels.append("multi")
        if upsert or self._chance(0.15):
            statement["upsert"] = True
            labels.append("upsert")
        if self._chance(0.05):
            statement["hint"] = {"_id": 1}
        if not self.strict and self._chance(0.1):
            statement["collation"] = {"locale": "en", "strength": 1}
        return statement, labels, targets

    def _edit(self, query):
        """A statement that needs the array whole, and its labels."""
        update, label, more = self.edits.one(self._array())
        if isinstance(update, dict) and self._chance(0.3):
            for operator, change in self._other_operators().items():
                update.setdefault(operator, {}).update(change)
        return {"q": query, "u": update, **more}, [label]

    def _command(self, name, arguments, labels, targets=None, **form):
        """A command in a random form."""
        pairs = [(name, self.layout.collection)] + arguments
        if self._chance(0.1):
            pairs.append(("comment", {"why": "oracle"}))
        if self._chance(0.05):
            pairs.append(("maxTimeMS", 60000))
        reads = name in ("find", "count", "distinct", "aggregate")
        shape = dict(FORM, connection=self.rng.randrange(2) if reads or not self.strict else 0)
        if name in SEQUENCES and self._chance(0.5):
            shape["sequence"] = SEQUENCES[name]
            shape["sequence_first"] = self._chance(0.2)
            labels = labels + ["sequence"]
        shape["checksum"] = self._chance(0.05)
        if self._chance(0.15):
            shape["compressor"] = self.rng.choice(COMPRESSORS)
            labels = labels + ["compressed"]
        shape.update(form)
        return {
            "does": "command", "command": exact.pairs_of(pairs), "labels": labels, "form": shape,
            "kind": name, "targets": targets and [exact.value_of(target) for target in targets],
        }

    def _as_retryable(self, operation, replays=True):
        """Often makes a write a retryable one: sent twice at once, or once more later."""
        if not self._chance(0.3):
            return operation
        form = operation["form"]
        form["retryable"] = self._next_serial()
        if replays and self._chance(0.6):
            form["times"] = 2
            operation["labels"].append("retried")
        return operation

    # writes

    def update(self):
        statement, labels, targets = self._statement()
        operation = self._command("update", [("updates", [statement])], labels, targets)
        if "multi" in statement:
            return operation
        operation = self._as_retryable(operation)
        if operation["form"]["retryable"]:
            self.retryables.append(operation["form"]["retryable"])
        return operation

    def upsert(self):
        statement, labels, targets = self._statement(upsert=True)
        operation = self._command("update", [("updates", [statement])], labels, targets)
        return operation if "multi" in statement else self._as_retryable(operation)

    def bulk_update(self):
        made = [self._statement() for _ in range(self.rng.randrange(2, 6))]
        ordered = self._chance(0.5)
        targets = [target for _, _, some in made for target in some or []]
        whole = all(some is not None for _, _, some in made)
        arguments = [("updates", [statement for statement, _, _ in made]), ("ordered", ordered)]
        labels = ["bulk_ordered" if ordered else "bulk_unordered", *_labels_of(labels for _, labels, _ in made)]
        operation = self._command("update", arguments, labels, targets if whole else None)
        operation["kind"] = "bulk"
        if any("multi" in statement for statement, _, _ in made):
            return operation
        return self._as_retryable(operation)

    def bulk_edits(self):
        """Edits of several documents in one retryable command, in any order: they may be sent together."""
        chosen = self.rng.sample(self.ids.known, self.rng.randrange(2, 6))
        made = [self._edit({"_id": identifier}) for identifier in chosen]
        arguments = [("updates", [statement for statement, _ in made]), ("ordered", False)]
        operation = self._command("update", arguments, ["bulk_unordered", *_labels_of(labels for _, labels in made)],
                                  chosen)
        operation["kind"] = "bulk"
        operation["form"]["retryable"] = self._next_serial()
        return operation

    def _op(self):
        """An op of a bulkWrite, its labels and targets."""
        choice = self.rng.random()
        if choice < 0.15:
            identifier = self.ids.one(self.rng)
            return {"insert": 0, "document": self._document(identifier)}, ["insert_one"], [identifier]
        if choice < 0.25:
            query, targets, labels = self._write_filter()
            return {"delete": 0, "filter": query or {"k": 3},
                    "multi": self._chance(0.8 if self.multis else 0.3)}, [*labels, "delete_one"], targets
        statement, labels, targets = self._statement()
        names = {"q": "filter", "u": "updateMods"}
        return {"update": 0, **{names.get(name, name): value for name, value in statement.items()}}, labels, targets

    def bulk_write(self):
        """mongod 8.0's; see bulk_writes.py."""
        made = [self._op() for _ in range(self.rng.randrange(1, 6))]
        targets = [target for _, _, some in made for target in some or []]
        whole = all(some is not None for _, _, some in made)
        arguments = [("ops", [op for op, _, _ in made]), ("nsInfo", [{"ns": self.layout.collection}]),
                     ("ordered", self._chance(0.5)), ("errorsOnly", self._chance(0.3))]
        operation = self._command("bulkWrite", arguments, ["bulk_write", *_labels_of(labels for _, labels, _ in made)],
                                  targets if whole else None)
        operation["command"][0] = ("bulkWrite", exact.value_of(1))
        operation["form"]["sequence"] = "ops" if self._chance(0.5) else None
        return operation if any(op.get("multi") for op, _, _ in made) else self._as_retryable(operation)

    def insert(self):
        count = self.rng.choice((1, 1, 2, 4))
        chosen = [self.ids.one(self.rng) for _ in range(count)]
        documents = [self._document(identifier) for identifier in chosen]
        if not self.strict and self._chance(0.1):
            without = values.fields(self.rng, self.arrays, self._next_serial(), self.repeats_names)
            documents.append((exact.DOCUMENT, exact.pairs_of(without)))
        arguments = [("documents", documents)]
        if self._chance(0.5):
            arguments.append(("ordered", self._chance(0.5)))
        label = "insert_one" if len(documents) == 1 else "insert_many"
        return self._as_retryable(self._command("insert", arguments, [label], chosen))

    def delete(self):
        many = self._chance(0.8 if self.multis else 0.4)
        query, targets, labels = self._write_filter()
        if query == {}:
            query = {"k": 3}
        statements = [{"q": query, "limit": 0 if many else 1}]
        if self._chance(0.2):
            statements.append({"q": {"_id": self.ids.one(self.rng)}, "limit": 1})
            targets = None
        label = "delete_many" if many else "delete_one"
        operation = self._command("delete", [("deletes", statements)], [label, *labels], targets)
        return operation if many else self._as_retryable(operation)

    def unacknowledged(self):
        """w: 0 with moreToCome, as drivers send it, and without, as a shell may."""
        identifier = self.ids.one(self.rng)
        more = {}
        if self._chance(0.3):
            update, label, more = self.edits.one(self._array())
        elif self._chance(0.15):
            update, label = self._replacement(), "replace"
        else:
            update, label = self._modification()
        statement = {"q": {"_id": identifier}, "u": update, **more}
        if self._chance(0.2):
            statement["upsert"] = True
        arguments = [("updates", [statement]), ("writeConcern", {"w": 0})]
        operation = self._command("update", arguments, [], [identifier])
        operation["kind"] = "w: 0"
        operation["form"]["more_to_come"] = self._chance(0.7)
        silent = operation["form"]["more_to_come"]
        operation["labels"] += [label, "unacknowledged" if silent else "unacknowledged_answered"]
        return operation

    def find_and_modify(self):
        query, targets, filtered = self._write_filter()
        arguments = [("query", query)]
        path = self._array()
        if self._chance(0.3):
            sorts = [{"_id": 1}, {"n": -1, "_id": 1}]
            # Under a collation mongod makes no sort key of a Symbol, and sorts nothing that _id names.
            if not self.layout.collation:
                sorts += [{path: 1, "_id": 1}, {f"{path}.x": -1, "_id": 1}]
            arguments.append(("sort", self.rng.choice(sorts)))
        if self._chance(0.4):
            cuts = {path: {"$slice": 2}}, {path: {"$slice": [1, 2]}}, {path: {"$elemMatch": {"$gte": 1}}}
            cut = not self.repeats_names and self._chance(0.3)
            arguments.append(("fields", self.rng.choice(cuts) if cut else self._projection()[0]))
        ending = self._chance(0.15)
        label = "remove" if ending else self._modify_arguments(arguments)
        if ending:
            arguments.append(("remove", True))
        # Such an image is of a generation that ends with the command: gc_delay keeps its batches.
        dies = ending or not label.startswith(("push", "other"))
        new = self._chance(0.5) and not ending
        if dies and not new and not self.layout.keeps_images:
            return self.update()
        if new:
            arguments.append(("new", True))
        name = "findandmodify" if self._chance(0.1) else "findAndModify"
        labels = ["fam_new" if new else "fam_old", label, *filtered]
        operation = self._command(name, arguments, labels, targets)
        operation["kind"] = "findAndModify"
        return self._as_retryable(operation, self.layout.keeps_images or not dies)

    def _modify_arguments(self, arguments):
        more = {}
        if self._chance(0.3):
            update, label, more = self.edits.one(self._array())
        elif self._chance(0.3):
            update, label = self._replacement(), "replace"
        elif self._chance(0.3):
            update, label = self._whole()
        else:
            update, label = self._modification()
        arguments += [("update", update), *more.items()]
        if self._chance(0.2):
            arguments.append(("upsert", True))
        return label

    def again(self):
        """A retryable command once more, later than a driver would."""
        if not self.retryables:
            return self.update()
        return {"does": "again", "of": self.rng.choice(self.retryables), "elsewhere": not self.strict,
                "labels": ["retried_late"], "kind": "again", "targets": None}

    def transaction(self):
        steps = []
        for _ in range(self.rng.randrange(1, 5)):
            make = self.rng.choice(_TRANSACTION_STEPS)
            step = make(self)
            if step["does"] == "command":
                steps.append(_plain_step(step))
        end = self.rng.choice(("commit", "commit", "abort"))
        labels = [f"transaction_{end}", *_labels_of(step["labels"] for step in steps)]
        return {"does": "transaction", "steps": steps, "end": end, "targets": None, "labels": labels,
                "kind": "transaction"}

    # reads

    def _projection(self):
        """A projection that returns ruled arrays whole or not at all, and its label."""
        rng = self.rng
        path = self._array()
        prefix = path.partition(".")[0]
        choices = [
            ({path: 0}, "array_excluded"), ({path: 0, "n": 0}, "array_excluded"),
            ({path: False, "_id": 0}, "array_excluded"), ({"n": 1}, "array_not_included"),
            ({"_id": 0, "n": 1}, "array_not_included"), ({"_id": 1}, "array_not_included"),
            ({"n": 1, path: 1}, "array_included"), ({path: 1}, "array_included"),
            ({path: True, "_id": 0}, "array_included_without_id"), ({"_id": 0}, "id_excluded"),
            ({"n": 0}, "other_excluded"), ({"z": 0, "k": 0}, "other_excluded"), ({}, "empty_projection"),
        ]
        if prefix != path:
            choices += [
                ({prefix: 1}, "prefix_included"), ({prefix: 0}, "prefix_excluded"),
                ({f"{prefix}.x": 1}, "array_not_included"), ({f"{prefix}.x": 0}, "other_excluded"),
                ({"_id": 0, prefix: 1}, "array_included_without_id"),
                ({path: 1, f"{prefix}.x": 1}, "array_included"),
            ]
        if self.repeats_names:
            choices = [choice for choice in choices if 1 not in choice[0].values()]
        return rng.choice(choices)

    def find(self):
        query, targets = self._filter()
        arguments, labels, form = [], ["find"], {}
        if self._chance(0.85):
            arguments.append(("filter", query))
        else:
            targets = None
        if self._chance(0.6):
            projection, label = self._projection()
            arguments.append(("projection", projection))
            labels.append(f"find_{label}")
        if self._chance(0.3):
            sort = self.rng.choice(({"k": 1, "_id": 1}, {"_id": -1}, {"n": -1, "_id": 1}))
            arguments.append(("sort", sort))
            labels.append("find_sorted")
        for name in ("skip", "limit"):
            if self._chance(0.15):
                arguments.append((name, self.rng.randrange(1, 4)))
        if self._chance(0.4):
            arguments.append(("batchSize", self.rng.randrange(4)))
            labels.append("find_paged")
            form["drain"] = self.rng.randrange(1, 4)
        if self._chance(0.1):
            arguments.append(("singleBatch", True))
            labels.append("find_single_batch")
        self.rng.shuffle(arguments)
        operation = self._command("find", arguments, labels, targets)
        operation["form"].update(form)
        return operation

    def count(self):
        query, targets = self._filter()
        choice = self.rng.random()
        if choice < 0.3:
            return self._command("count", [("query", query)], ["count"], targets)
        if choice < 0.6:
            arguments = [("key", self.rng.choice(("n", "k", "z", "_id"))), ("query", query)]
            return self._command("distinct", arguments, ["distinct"], targets)
        if choice < 0.85:
            stages = [{"$match": query}, *self.rng.sample(({"$sort": {"_id": 1}}, {"$limit": 3}), 1)]
            size = {"batchSize": 1} if self._chance(0.5) else {}
            arguments = [("pipeline", stages), ("cursor", size)]
            return self._command("aggregate", arguments, ["aggregate_whole"], targets, drain=2)
        stages = [{"$match": query}, {"$group": {"_id": 1, "n": {"$sum": 1}}}]
        arguments = [("pipeline", stages), ("cursor", {})]
        return self._command("aggregate", arguments, ["aggregate_count"], targets)

    def refill(self):
        """Makes an array long, and sees to it that its tail has moved when the next operation comes."""
        identifier = self.ids.one(self.rng)
        path = self._array()
        long = [values.element(self.rng) for _ in range(self.rng.randrange(6, 12))]
        long.append(f"fresh {self._next_serial()}")
        prefix = path.partition(".")[0]
        if prefix != path and self._chance(0.4):
            change, label = {prefix: {"x": 1, **values.with_array(path, long)[1]}}, "set_prefix"
        else:
            change, label = {path: long}, "set_array"
        statement = {"q": {"_id": identifier}, "u": {"$set": change}}
        operation = self._command("update", [("updates", [statement])], [label], [identifier])
        operation["settles"] = True
        self.wholes.append((identifier, statement["u"]))
        return operation

    def same(self):
        """An array or document is set once more to what it was set to lately: often nothing changes."""
        if not self.wholes or self._chance(0.3):
            identifier = self.ids.one(self.rng)
            operation = self._command(
                "update", [("updates", [{"q": {"_id": identifier}, "u": self._replacement()}])],
                ["replace"], [identifier])
            operation["settles"] = True
            self.wholes.append((identifier, operation["command"][1][1][1][0][1][1][1][1]))
            return operation
        identifier, update = self.rng.choice(self.wholes[-2:])
        named = self.strict or self._chance(0.5)  # what else names it is the sweep's
        query = {"_id": identifier} if named else {"_id": {"$in": [identifier, 0]}, "k": {"$exists": True}}
        statement = {"q": query, "u": update}
        if self._chance(0.2) and not isinstance(update, tuple):
            statement["multi"] = True
        return self._command("update", [("updates", [statement])], ["set_same"], [identifier])

    def read_array(self):
        """A read that needs arrays whole. Repeated names don't survive a pipeline."""
        if self.repeats_names:
            return self.find()
        path = self._array()
        if self._chance(0.15):
            name, arguments, labels, form = self.reads.join(path, self.layout.collection)
        else:
            name, arguments, labels, form = self.reads.one(path)
        may_refuse = form.pop("may_refuse", False)
        labels += sorted(set(named(dict(arguments), path)))
        operation = self._command(name, arguments, labels, None, **form)
        # Under a collation mongod sorts no Symbol, and what a distinct stands for has to be sorted.
        symbols = name == "distinct" and self.layout.collation is not None
        # Behind these, mongod reads a mask in one way or in the other.
        behind = "asks bits by high bytes" in labels and {"stage $limit", "stage $skip"} & set(labels)
        operation["may_refuse"] = (may_refuse or "find_positional" in labels or _includes_inner(arguments, path)
                                   or symbols or bool(behind))
        return operation

    def read_behind_push(self):
        """What was pushed just now still stands behind the head when it is read."""
        identifier, path = self.ids.one(self.rng), self._array()
        items = [values.element(self.rng) for _ in range(self.rng.randrange(1, 4))]
        statement = {"q": {"_id": identifier}, "u": {"$push": {path: {"$each": items}}}}
        self.next = [self.read_array() for _ in range(self.rng.randrange(1, 3))]
        return self._command("update", [("updates", [statement])], ["push_each"], [identifier])

    def find_by_array(self):
        """A find that needs arrays whole, and whose reply is compared as it is."""
        operation = self.read_array()
        command = operation["command"]
        plain = command[0][0] == "find" and exact.get(command, "limit") is None and not operation.get("may_refuse")
        return operation if plain else self.find()

    def delay(self):
        """Movers meet each other where one of them comes late."""
        slows = self.rng.choice(("update", "update", "insert", "find", "delete"))
        by = self.rng.choice((20, 60))
        if not self.strict and self._chance(0.4):
            self.next = self._rivals()
            slows, by = "update", 200
        return {"does": "delay", "slows": slows, "by": by, "labels": ["delay"], "targets": None}

    def _rivals(self):
        """Long pushes to one document, through one Spillway and through the other, and one more
        when a tail has moved.
        """
        identifier, path = self.ids.one(self.rng), self._array()
        made = []
        for connection in (0, 1, self.rng.randrange(2)):
            items = [values.element(self.rng) for _ in range(self.layout.threshold + 2)]
            statement = {"q": {"_id": identifier}, "u": {"$push": {path: {"$each": items}}}}
            made.append(self._command("update", [("updates", [statement])], ["push_each"], [identifier],
                                      connection=connection))
        made[1]["settles"] = True
        return made[::-1]

    def overlap(self):
        """A document's last elements are stored in another batch, too, as by a mover with another batch size. The
        push behind it lets a mover see that."""
        identifier, path = self.ids.one(self.rng), self._array()
        items = [values.element(self.rng) for _ in range(self.layout.threshold + 2)]
        statement = {"q": {"_id": identifier}, "u": {"$push": {path: {"$each": items}}}}
        self.next = [self._command("update", [("updates", [statement])], ["push_each"], [identifier])]
        for _ in range(self.rng.randrange(3)):
            self.next.append(self.read_array())
        return {"does": "overlap", "array": path, "keeps": self.rng.randrange(3), "labels": ["overlap"],
                "targets": [exact.value_of(identifier)]}

    def wait(self):
        return {"does": "wait", "labels": ["wait"], "targets": None}


def _includes_inner(arguments, path):
    """What mongod makes of elements that are no documents hangs on its plan there."""
    return any(f"'{path}.x': {way}" in str(arguments) for way in (1, -1))


def _labels_of(lists):
    """Each label once."""
    return sorted({label for labels in lists for label in labels})


def _plain_step(operation):
    """A transaction's step: plainly framed, sent once, over the transaction's connection."""
    kept = ("sequence", "sequence_first", "compressor", "drain")
    form = {key: operation["form"][key] for key in kept}
    return {**operation, "form": dict(FORM, **form)}


_WEIGHTS = [
    (Generator.update, 30), (Generator.upsert, 6), (Generator.bulk_update, 10),
    (Generator.insert, 8), (Generator.delete, 5), (Generator.unacknowledged, 4),
    (Generator.find_and_modify, 16), (Generator.again, 3), (Generator.transaction, 7),
    (Generator.find, 18), (Generator.count, 5), (Generator.wait, 8), (Generator.refill, 12), (Generator.same, 5),
    (Generator.read_array, 16), (Generator.delay, 4), (Generator.bulk_write, 6),
    (Generator.overlap, 8), (Generator.read_behind_push, 4), (Generator.bulk_edits, 4),
]
_WEIGHTS_OF_READS = [*_WEIGHTS, (Generator.read_array, 120), (Generator.refill, 20), (Generator.read_behind_push, 30)]
_TRANSACTION_STEPS = [
    Generator.update, Generator.update, Generator.bulk_update, Generator.insert, Generator.find,
    Generator.find_by_array, Generator.find_by_array, Generator.find_and_modify, Generator.delete, Generator.bulk_write,
]


# What every run must have covered in every layout, on ordinary and on spilled documents.
EXPECTED_LABELS = [
    "push", "push_each", "push_mixed", "set_array", "set_same", "unset_array", "replace", "other", "multi", "upsert",
    "bulk_ordered", "bulk_unordered", "bulk_write", "sequence", "compressed", "retried", "insert_many", "delete_one",
    "delete_many", "unacknowledged", "fam_old", "fam_new", "transaction_commit", "transaction_abort",
    "find", "find_array_excluded", "find_array_included", "find_array_included_without_id",
    "find_array_not_included", "find_sorted", "find_paged", "count", "distinct",
    "edit_push", "edit_pull", "edit_pull_all", "edit_pop", "edit_add_to_set", "edit_index", "edit_every",
    "edit_filtered", "edit_positional", "other_positional", "edit_rename", "edit_whole", "edit_pipeline",
    "filter_array",
    "find_by_array", "find_member", "find_foremost", "find_computed", "find_window", "find_positional",
    "count_by_array",
    "distinct_of_array", "distinct_by_array", "aggregate_array",
    "aggregate_joined", "aggregate_matched",
]
_CHANGES = [label for label in EXPECTED_LABELS if label.startswith("edit_")] + ["push", "set_array", "replace"]
# What each kind of command must have had in it.
EXPECTED_IN = {
    "update": [*_CHANGES, "filter_array"], "bulk": [*_CHANGES, "filter_array"],
    "bulkWrite": [*_CHANGES, "filter_array"],
    "findAndModify": [*_CHANGES, "filter_array"], "transaction": [*_CHANGES, "filter_array"],
    "w: 0": _CHANGES, "delete": ["filter_array"],
}
# What reads of arrays must have named, by where they did, on ordinary and on spilled documents.
_EXPECTED_OF_READS = {
    "asks": [
        "$all", "$and", "$elemMatch", "$exists", "$expr", "$gt", "$gte", "$in", "$lt", "$mod", "$ne", "$nin", "$nor",
        "$not",
        "$or", "$size", "$type", "a field", "a field to be", "a place", "a place to be", "the array", "the array to be",
        *bits.OPERATORS, "bits by a number", "bits by a list", "bits by binary", "bits by high bytes",
        *(f"for {kind}" for kind in values.TYPES.values() if kind not in ("object", "array")),
    ],
    "computes": [
        "$arrayElemAt", "$cond", "$eq", "$gt", "$in", "$isArray", "$lt", "$mergeObjects", "$push", "$size", "$slice",
        "$sortArray", "$type"
    ],
    "meets": [
        "$and", "$elemMatch", "$exists", "$expr", "$gt", "$gte", "$lt", "$mod", "$ne", "$nin", "$nor", "$not", "$or",
        "$regex", "$size", "$type", "a field", "a field to be", "a place", "the array", "the array to be",
        "bits by high bytes"
    ],
    "projects": [
        "$cond", "$elemMatch", "$filter", "$first", "$gte", "$in", "$isArray", "$literal", "$lt", "$not", "$size",
        "$slice",
        "$type"
    ],
    "stage": [
        "$addFields", "$count", "$facet", "$fill", "$graphLookup", "$group", "$limit", "$lookup", "$match", "$project",
        "$redact", "$replaceRoot", "$replaceWith", "$set", "$setWindowFields", "$sort", "$unionWith", "$unset",
        "$unwind"
    ],
}
EXPECTED_READS = [f"{where} {name}" for where, names in _EXPECTED_OF_READS.items() for name in names]
EXPECTED_OF_DOTTED = ["set_prefix", "unset_prefix", "find_prefix_included", "find_prefix_excluded"]
EXPECTED_OF_TWO = ["push_both"]


def _value_to_json(pairs):
    return {"text": exact.show_document(pairs), "bson": exact.encode(pairs).hex()}


def to_json(operation):
    made = dict(operation)
    if "command" in made:
        made["command"] = _value_to_json(made["command"])
    if made.get("targets"):
        pairs = [(str(i), target) for i, target in enumerate(made["targets"])]
        made["targets"] = _value_to_json(pairs)
    if "steps" in made:
        made["steps"] = [to_json(step) for step in made["steps"]]
    return made


def _value_from_json(value):
    return exact.parse(bytes.fromhex(value["bson"]))


def from_json(operation):
    made = dict(operation)
    if "command" in made:
        made["command"] = _value_from_json(made["command"])
    if made.get("targets"):
        made["targets"] = [value for _, value in _value_from_json(made["targets"])]
    if "steps" in made:
        made["steps"] = [from_json(step) for step in made["steps"]]
    return made
