// The Go driver at work: usage client URI SECONDS; rounds of everything until the time is up.
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

const (
	few    = 8
	many   = 20
	growth = 200
)

type book struct {
	ID     bson.ObjectID `bson:"_id"`
	Buyers []int         `bson:"buyers"`
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func require(right bool, format string, words ...any) {
	if !right {
		must(fmt.Errorf(format, words...))
	}
}

func numbers(count int) []int {
	made := make([]int, count)
	for i := range made {
		made[i] = i
	}
	return made
}

func push(ctx context.Context, books *mongo.Collection, id bson.ObjectID, number int) {
	change := bson.M{"$push": bson.M{"buyers": number}}
	done, err := books.UpdateOne(ctx, bson.M{"_id": id}, change)
	must(err)
	require(done.ModifiedCount == 1, "a push has modified %d", done.ModifiedCount)
}

func requireNumbers(ctx context.Context, books *mongo.Collection, id bson.ObjectID, count int) {
	var found book
	must(books.FindOne(ctx, bson.M{"_id": id}).Decode(&found))
	require(fmt.Sprint(found.Buyers) == fmt.Sprint(numbers(count)), "found %v, not %d", found, count)
}

// A book that lives through the rounds, so that its tail moves; count is how many it has.
func grow(ctx context.Context, books *mongo.Collection, id bson.ObjectID, count int) int {
	if count == 0 || count > growth {
		change := bson.M{"$set": bson.M{"buyers": numbers(few)}}
		_, err := books.UpdateOne(ctx, bson.M{"_id": id}, change, options.UpdateOne().SetUpsert(true))
		must(err)
		count = few
	}
	push(ctx, books, id, count)
	requireNumbers(ctx, books, id, count+1)
	return count + 1
}

func transact(ctx context.Context, client *mongo.Client, books *mongo.Collection, id bson.ObjectID) {
	session, err := client.StartSession()
	must(err)
	defer session.EndSession(ctx)
	_, err = session.WithTransaction(ctx, func(inside context.Context) (any, error) {
		change := bson.M{"$push": bson.M{"buyers": many}}
		if _, err := books.UpdateOne(inside, bson.M{"_id": id}, change); err != nil {
			return nil, err
		}
		return nil, books.FindOne(inside, bson.M{"_id": id}).Err()
	})
	must(err)
	requireNumbers(ctx, books, id, many+1)
}

// Two books, one in each batch: the second comes with a getMore.
func readOn(ctx context.Context, books *mongo.Collection, ids []bson.ObjectID) {
	filter := bson.M{"_id": bson.M{"$in": ids}}
	cursor, err := books.Find(ctx, filter, options.Find().SetBatchSize(1).SetSort(bson.M{"_id": 1}))
	must(err)
	var found []book
	must(cursor.All(ctx, &found))
	require(len(found) == len(ids), "%d books, not %d", len(found), len(ids))
	for _, each := range found {
		require(len(each.Buyers) > few, "the book %v", each)
	}
}

func round(ctx context.Context, client *mongo.Client, books *mongo.Collection, lasting bson.ObjectID) {
	id := bson.NewObjectID()
	_, err := books.InsertOne(ctx, book{id, numbers(few)})
	must(err)
	for i := few; i < many; i++ {
		push(ctx, books, id, i)
	}
	requireNumbers(ctx, books, id, many)
	transact(ctx, client, books, id)
	readOn(ctx, books, []bson.ObjectID{lasting, id})
	_, err = books.DeleteOne(ctx, bson.M{"_id": id})
	must(err)
}

func main() {
	ctx := context.Background()
	require(len(os.Args) == 3, "usage: client URI SECONDS")
	seconds, err := strconv.ParseFloat(os.Args[2], 64)
	must(err)
	client, err := mongo.Connect(options.Client().ApplyURI(os.Args[1]))
	must(err)
	books := client.Database("shop").Collection("books")
	until := time.Now().Add(time.Duration(seconds * float64(time.Second)))
	lasting := bson.NewObjectID()
	rounds, count := 0, 0
	for rounds == 0 || time.Now().Before(until) {
		count = grow(ctx, books, lasting, count)
		round(ctx, client, books, lasting)
		rounds++
	}
	must(client.Disconnect(ctx))
	fmt.Printf("%d rounds\n", rounds)
}
