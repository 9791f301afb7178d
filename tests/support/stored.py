"""Spilled documents as the movers leave them, written straight to mongod: for sizes that would take long to push."""

import os

from bson.binary import Binary


def store(database, rule, identifier, head, parts, tail=(), **more):
    """A document whose array is `head`, then the elements of all parts (one batch each), then `tail`."""
    generation = Binary(os.urandom(16))
    keys = rule["overflow"]
    batches, moved = [], 0
    for number, part in enumerate(parts, 1):
        batches.append({keys["link"]: identifier, keys["array"]: list(part),
                        "_spill": {"i": number, "g": generation, "p": moved}})
        moved += len(part)
    for batch in batches:
        database[keys["collection"]].insert_one(batch)
    state = {rule["array"].replace(".", "/"): {"g": generation, "h": len(head), "n": moved}}
    database[rule["namespace"].partition(".")[2]].insert_one(
        {"_id": identifier, **more, rule["array"]: [*head, *tail], "_spill": state})
