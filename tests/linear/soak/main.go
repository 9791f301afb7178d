// The Go driver at work for the soak: usage soak URI DATABASE PREFIX COUNT PACE SEED. It does what
// tests/soak/client.py does, and prints the same lines.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand"
	"os"
	"reflect"
	"strconv"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"
)

const longest = 400

type fields map[string]any

type book struct {
	List []int `bson:"list"`
}

var (
	printed sync.Mutex
	over    = make(chan struct{})
	counted struct {
		sync.Mutex
		done    int
		longest time.Duration
	}
)

func tell(what fields) {
	what["at"] = float64(time.Now().UnixMilli()) / 1000
	line, err := json.Marshal(what)
	if err != nil {
		panic(err)
	}
	printed.Lock()
	defer printed.Unlock()
	fmt.Println(string(line))
}

func cut(text string) string {
	if len(text) > 300 {
		return text[:300]
	}
	return text
}

func pause(length time.Duration) {
	select {
	case <-over:
	case <-time.After(length):
	}
}

func ended() bool {
	select {
	case <-over:
		return true
	default:
		return false
	}
}

type worker struct {
	client  *mongo.Client
	books   *mongo.Collection
	name    string
	pace    float64
	random  *rand.Rand
	version int
	array   []int
	number  int
}

func newWorker(uri, database, name string, pace float64, seed int64) *worker {
	set := options.Client().ApplyURI(uri).SetMaxPoolSize(2)
	set.SetWriteConcern(writeconcern.Majority())
	client, err := mongo.Connect(set)
	if err != nil {
		panic(err)
	}
	return &worker{client: client, books: client.Database(database).Collection("books"), name: name, pace: pace,
		random: rand.New(rand.NewSource(seed)), array: []int{}}
}

// attempt: whether the operation succeeded
func (w *worker) attempt(what string, operation func() error) bool {
	began := time.Now()
	if err := operation(); err != nil {
		tell(fields{"failed": what, "error": cut(err.Error())})
		return false
	}
	counted.Lock()
	defer counted.Unlock()
	counted.done++
	if took := time.Since(began); took > counted.longest {
		counted.longest = took
	}
	return true
}

func (w *worker) certainly(what string, operation func() error) {
	for !w.attempt(what, operation) {
		time.Sleep(200 * time.Millisecond)
	}
}

func (w *worker) wrong(what string, found any) {
	tail := w.array
	if len(tail) > 8 {
		tail = tail[len(tail)-8:]
	}
	tell(fields{"wrong": what, "document": w.name, "found": cut(fmt.Sprint(found)), "expected": fmt.Sprint(tail)})
}

func (w *worker) same(what string, found, expected []int) {
	if len(found)+len(expected) > 0 && !reflect.DeepEqual(found, expected) {
		w.wrong(what, found)
	}
}

func (w *worker) update(query, change bson.M, upsert bool) (int64, error) {
	set := options.UpdateOne().SetUpsert(upsert)
	result, err := w.books.UpdateOne(context.Background(), query, change, set)
	if err != nil {
		return 0, err
	}
	return result.MatchedCount, nil
}

func (w *worker) read(what string, set *options.FindOneOptionsBuilder) ([]int, bool) {
	var found book
	done := w.attempt(what, func() error {
		return w.books.FindOne(context.Background(), bson.M{"_id": w.name}, set).Decode(&found)
	})
	return found.List, done
}

func (w *worker) readCertainly() []int {
	for {
		if found, done := w.read("find", options.FindOne()); done {
			return found
		}
		time.Sleep(200 * time.Millisecond)
	}
}

// write does this change, which leaves the array as `after`.
func (w *worker) write(what string, change bson.M, after []int) {
	set, given := change["$set"].(bson.M)
	if !given {
		set = bson.M{}
	}
	set["v"] = w.version + 1
	change["$set"] = set
	var matched int64
	done := w.attempt(what, func() (err error) {
		matched, err = w.update(bson.M{"_id": w.name, "v": w.version}, change, false)
		return err
	})
	if !done {
		w.findOut(after)
		return
	}
	if matched != 1 {
		w.wrong(what, matched)
	}
	w.version++
	w.array = after
}

// findOut: whether a write that failed was done; no earlier one can be done behind the next version.
func (w *worker) findOut(after []int) {
	query := bson.M{"_id": w.name, "v": bson.M{"$in": []int{w.version, w.version + 1, w.version + 2}}}
	w.version += 2
	w.certainly("fence", func() error {
		_, err := w.update(query, bson.M{"$set": bson.M{"v": w.version}}, false)
		return err
	})
	found := w.readCertainly()
	if len(found) == len(after) && (len(found) == 0 || reflect.DeepEqual(found, after)) {
		w.array = after
	}
	w.same("after a failure", found, w.array)
}

func (w *worker) change() {
	if len(w.array) >= longest {
		w.write("empty", bson.M{"$set": bson.M{"list": bson.A{}}}, []int{})
		return
	}
	if len(w.array) == 0 || w.random.Intn(6) > 0 {
		w.number++
		after := append(append([]int{}, w.array...), w.number)
		w.write("push", bson.M{"$push": bson.M{"list": w.number}}, after)
		return
	}
	gone := w.array[w.random.Intn(len(w.array))]
	after := []int{}
	for _, each := range w.array {
		if each != gone {
			after = append(after, each)
		}
	}
	w.write("pull", bson.M{"$pull": bson.M{"list": gone}}, after)
}

func (w *worker) step() {
	draw := w.random.Float64()
	if draw < 0.6 {
		w.change()
	} else if draw < 0.8 {
		page := options.FindOne().SetProjection(bson.M{"list": bson.M{"$slice": -5}})
		expected := w.array
		if len(expected) > 5 {
			expected = expected[len(expected)-5:]
		}
		if found, done := w.read("page", page); done {
			w.same("page", found, expected)
		}
	} else if found, done := w.read("find", options.FindOne()); done {
		w.same("find", found, w.array)
	}
}

func (w *worker) run() {
	w.certainly("insert", func() error {
		_, err := w.update(bson.M{"_id": w.name}, bson.M{"$setOnInsert": bson.M{"list": bson.A{}, "v": 0}}, true)
		return err
	})
	period := time.Duration(float64(time.Second) / w.pace)
	pause(time.Duration(w.random.Float64() * float64(period)))
	for !ended() {
		began := time.Now()
		w.step()
		pause(period - time.Since(began))
	}
	w.same("end", w.readCertainly(), w.array)
	if err := w.client.Disconnect(context.Background()); err != nil {
		tell(fields{"failed": "disconnect", "error": cut(err.Error())})
	}
}

func eachSecond() {
	for range time.Tick(time.Second) {
		counted.Lock()
		done, took := counted.done, counted.longest
		counted.done, counted.longest = 0, 0
		counted.Unlock()
		tell(fields{"done": done, "longest": took.Milliseconds()})
	}
}

func main() {
	uri, database, prefix := os.Args[1], os.Args[2], os.Args[3]
	count, _ := strconv.Atoi(os.Args[4])
	pace, _ := strconv.ParseFloat(os.Args[5], 64)
	seed, _ := strconv.ParseInt(os.Args[6], 10, 64)
	var all sync.WaitGroup
	for i := 0; i < count; i++ {
		made := newWorker(uri, database, fmt.Sprintf("%s%d", prefix, i), pace, seed+int64(i))
		all.Add(1)
		go func() {
			defer all.Done()
			made.run()
		}()
	}
	go eachSecond()
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		panic(err)
	}
	close(over)
	all.Wait()
	tell(fields{"over": count})
}
