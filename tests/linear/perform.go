// An operation done by the MongoDB driver, and what its reply says.
package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// Document is what is stored.
type Document struct {
	ID   string   `bson:"_id"`
	List []*int64 `bson:"list"`
}

// Target is a collection as one client reaches it: writes, and reads that are as strong as the run asks.
type Target struct {
	Writes, Reads *mongo.Collection
	Patience      time.Duration
	Persists      bool // the driver tries again until the patience is over, not once
}

// malformed is a document without its list: no history explains it.
const malformed = -2

// Perform does the operation; an error leaves open whether it was done.
func (t Target) Perform(key string, in Input) (Result, error) {
	ctx, cancel := t.limit()
	defer cancel()
	switch in.Does {
	case "read", "read two":
		return t.read(ctx, key, in)
	case "insert":
		return t.insert(ctx, key, in)
	case "delete":
		return t.remove(ctx, key)
	case "find delete":
		return image(t.Writes.FindOneAndDelete(ctx, bson.M{"_id": key}))
	case "replace":
		return updated(t.Writes.ReplaceOne(ctx, bson.M{"_id": key}, bson.M{"list": in.Values}))
	}
	return t.change(ctx, key, in)
}

// limit ends an operation when the patience is over. With a deadline the driver tries again until then, else once.
func (t Target) limit() (context.Context, context.CancelFunc) {
	if t.Persists {
		return context.WithTimeout(context.Background(), t.Patience)
	}
	ctx, cancel := context.WithCancel(context.Background())
	over := time.AfterFunc(t.Patience, cancel)
	return ctx, func() {
		over.Stop()
		cancel()
	}
}

func (t Target) read(ctx context.Context, key string, in Input) (Result, error) {
	if in.Does == "read" {
		return image(t.Reads.FindOne(ctx, bson.M{"_id": key}))
	}
	cursor, err := t.Reads.Aggregate(ctx, bson.A{bson.M{"$match": bson.M{"_id": key}}})
	if err != nil {
		return Result{}, err
	}
	var documents []Document
	if err := cursor.All(ctx, &documents); err != nil || len(documents) == 0 {
		return Result{}, err
	}
	return seen(documents[0]), nil
}

func (t Target) insert(ctx context.Context, key string, in Input) (Result, error) {
	_, err := t.Writes.InsertOne(ctx, bson.M{"_id": key, "list": in.Values})
	if mongo.IsDuplicateKeyError(err) {
		return Result{Duplicate: true}, nil
	}
	return Result{}, err
}

func (t Target) remove(ctx context.Context, key string) (Result, error) {
	reply, err := t.Writes.DeleteOne(ctx, bson.M{"_id": key})
	if err != nil {
		return Result{}, err
	}
	return Result{Matched: reply.DeletedCount}, nil
}

// change is any of the updates by operators, as an update or as a findAndModify.
func (t Target) change(ctx context.Context, key string, in Input) (Result, error) {
	filter, update := bson.M{"_id": key}, changeOf(in)
	switch in.Does {
	case "find push old", "find pull old":
		return image(t.Writes.FindOneAndUpdate(ctx, filter, update))
	case "find push new", "find pull new":
		after := options.FindOneAndUpdate().SetReturnDocument(options.After)
		return image(t.Writes.FindOneAndUpdate(ctx, filter, update, after))
	case "upsert":
		return updated(t.Writes.UpdateOne(ctx, filter, update, options.UpdateOne().SetUpsert(true)))
	case "guard":
		filter["list"] = bson.M{"$ne": in.Values[0]}
	case "replace one":
		filter["list"] = in.Values[0]
	}
	return updated(t.Writes.UpdateOne(ctx, filter, update))
}

func changeOf(in Input) bson.M {
	switch in.Does {
	case "pull", "find pull old", "find pull new":
		return bson.M{"$pull": bson.M{"list": in.Values[0]}}
	case "add to set":
		return bson.M{"$addToSet": bson.M{"list": in.Values[0]}}
	case "pop first":
		return bson.M{"$pop": bson.M{"list": -1}}
	case "pop last":
		return bson.M{"$pop": bson.M{"list": 1}}
	case "set list":
		return bson.M{"$set": bson.M{"list": in.Values}}
	case "set index":
		return bson.M{"$set": bson.M{fmt.Sprintf("list.%d", in.At): in.Values[0]}}
	case "replace one":
		return bson.M{"$set": bson.M{"list.$": in.Values[1]}}
	}
	return bson.M{"$push": bson.M{"list": pushOf(in)}}
}

func pushOf(in Input) interface{} {
	switch in.Does {
	case "push each":
		return bson.M{"$each": in.Values}
	case "push at":
		return bson.M{"$each": in.Values, "$position": in.At}
	case "push keep":
		return bson.M{"$each": in.Values, "$slice": -in.At}
	}
	return in.Values[0]
}

func updated(reply *mongo.UpdateResult, err error) (Result, error) {
	if err != nil {
		return Result{}, err
	}
	return Result{
		Matched: reply.MatchedCount, Modified: reply.ModifiedCount, Upserted: reply.UpsertedCount == 1,
	}, nil
}

func image(reply *mongo.SingleResult) (Result, error) {
	var document Document
	if err := reply.Decode(&document); errors.Is(err, mongo.ErrNoDocuments) {
		return Result{}, nil
	} else if err != nil {
		return Result{}, err
	}
	return seen(document), nil
}

func seen(document Document) Result {
	result := Result{Found: true}
	if document.List == nil {
		result.List = []int64{malformed}
	}
	for _, value := range document.List {
		if value == nil {
			result.List = append(result.List, Null)
		} else {
			result.List = append(result.List, *value)
		}
	}
	return result
}
