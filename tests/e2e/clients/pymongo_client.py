"""PyMongo at work: usage pymongo_client.py URI SECONDS; rounds of everything until the time is up."""

import sys
import time

import pymongo
from bson import ObjectId


def numbers(count):
    return [{"number": i} for i in range(count)]


def arrays(books, identifier):
    books.insert_one({"_id": identifier, "buyers": numbers(8), "last": 1})
    for i in range(8, 16):
        pushed = books.update_one({"_id": identifier}, {"$push": {"buyers": {"number": i}}, "$inc": {"n": 1}})
        assert (pushed.matched_count, pushed.modified_count, pushed.upserted_id) == (1, 1, None)
    whole = {"_id": identifier, "buyers": numbers(16), "last": 1, "n": 8}
    found = books.find_one({"_id": identifier})
    assert found == whole and list(found) == list(whole), found
    assert books.find_one({"_id": identifier}, {"buyers": 0}) == {"_id": identifier, "last": 1, "n": 8}
    assert books.find_one({"_id": identifier}, {"buyers": 1, "_id": 0}) == {"buyers": numbers(16)}
    made = books.bulk_write([
        pymongo.UpdateOne({"_id": identifier}, {"$push": {"buyers": {"number": 16}}}),
        pymongo.UpdateOne({"_id": identifier}, {"$set": {"buyers": numbers(6)}}),
        pymongo.UpdateOne({"_id": [identifier]}, {"$push": {"buyers": 1}}, upsert=False),
    ], ordered=False)
    assert (made.matched_count, made.modified_count) == (2, 2)
    after = books.find_one_and_update(
        {"_id": identifier}, {"$push": {"buyers": {"number": 6}}},
        return_document=pymongo.ReturnDocument.AFTER)
    assert after["buyers"] == numbers(7)


def grow(books, identifier, count):
    """A book that lives through all rounds, so that its tail moves; returns how many it has."""
    if count == 0 or count > 200:
        books.update_one({"_id": identifier}, {"$set": {"buyers": numbers(10)}}, upsert=True)
        count = 10
    books.update_one({"_id": identifier}, {"$push": {"buyers": {"number": count}}})
    assert books.find_one({"_id": identifier}) == {"_id": identifier, "buyers": numbers(count + 1)}
    return count + 1


def transaction(client, books, identifier):
    def body(session):
        books.update_one({"_id": identifier}, {"$push": {"buyers": {"number": 7}}}, session=session)
        assert books.find_one({"_id": identifier}, session=session)["buyers"] == numbers(8)

    with client.start_session() as session:
        session.with_transaction(body)
    assert books.find_one({"_id": identifier})["buyers"] == numbers(8)


def read_on(books, lasting, identifier):
    """Two books, one in each batch: the second comes with a getMore."""
    found = list(books.find({"_id": {"$in": [lasting, identifier]}}, batch_size=1))
    assert sorted(each["_id"] for each in found) == [lasting, identifier], found


def plain(notes):
    identifier = notes.insert_one({"list": [1, 2, 3, 4, 5, 6, 7]}).inserted_id
    notes.update_one({"_id": identifier}, {"$pull": {"list": {"$gt": 3}}})
    assert notes.find_one({"_id": identifier, "list": 2})["list"] == [1, 2, 3]
    notes.delete_one({"_id": identifier})


def main(uri, seconds):
    until = time.monotonic() + seconds
    lasting = f"pymongo {ObjectId()}"
    rounds = count = 0
    with pymongo.MongoClient(uri) as client:
        books = client.shop.books
        while rounds == 0 or time.monotonic() < until:
            count = grow(books, lasting, count)
            identifier = f"pymongo {ObjectId()}"
            arrays(books, identifier)
            transaction(client, books, identifier)
            read_on(books, lasting, identifier)
            assert books.delete_one({"_id": identifier}).deleted_count == 1
            plain(client.shop.notes)
            rounds += 1
    print(f"{rounds} rounds")


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]))
