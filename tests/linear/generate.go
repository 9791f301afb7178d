// Which operation comes next: a key's own mixture of them, with values that mostly are new.
package main

import (
	"fmt"
	"math/rand"
	"sync"
)

// weight says how often a verb is drawn.
type weight struct {
	does string
	of   int
}

// Some keys are mostly appended to, so that their tails move; others are edited all over.
var appending = []weight{
	{"push", 30}, {"push each", 14}, {"upsert", 6}, {"find push new", 7}, {"find push old", 5}, {"guard", 14},
	{"add to set", 12}, {"read", 12}, {"read two", 4}, {"pull", 4}, {"find pull old", 1}, {"set index", 2}, {"pop last", 1},
	{"delete", 1}, {"insert", 1}, {"replace one", 2},
}

var editing = []weight{
	{"push", 16}, {"push each", 8}, {"upsert", 3}, {"find push new", 4}, {"find push old", 4}, {"guard", 10},
	{"add to set", 10}, {"read", 10}, {"read two", 4}, {"pull", 9}, {"find pull old", 3}, {"find pull new", 3},
	{"set index", 6}, {"pop first", 3}, {"pop last", 3}, {"push at", 5}, {"push keep", 2}, {"set list", 2}, {"replace", 2},
	{"delete", 2}, {"find delete", 1}, {"insert", 3}, {"replace one", 6},
}

// Key is one document's life: its operations are counted, and after enough of them another takes its place.
type Key struct {
	lock    sync.Mutex
	name    string
	weights []weight
	made    int
	unknown int
	value   int64
	absent  bool
}

// Limits say when a key has had enough.
type Limits struct {
	Operations, Unknown int
}

// Slot is a place that a few clients share; its key changes.
type Slot struct {
	lock   sync.Mutex
	name   string
	limits Limits
	avoids map[string]bool // verbs
	key    *Key
	names  []string // of all keys so far
}

// Draw gives the next operation and the key it is for.
func (s *Slot) Draw(random *rand.Rand) (*Key, Input) {
	s.lock.Lock()
	if s.key == nil || s.key.worn(s.limits) {
		s.key = &Key{name: fmt.Sprintf("%s-%d", s.name, len(s.names)), weights: s.allowed(appending)}
		s.names = append(s.names, s.key.name)
		if random.Intn(2) == 0 {
			s.key.weights = s.allowed(editing)
		}
	}
	key := s.key
	s.lock.Unlock()
	return key, key.draw(random)
}

func (s *Slot) allowed(weights []weight) []weight {
	var left []weight
	for _, each := range weights {
		if !s.avoids[each.does] {
			left = append(left, each)
		}
	}
	return left
}

func (k *Key) worn(limits Limits) bool {
	k.lock.Lock()
	defer k.lock.Unlock()
	return k.made >= limits.Operations || k.unknown >= limits.Unknown
}

// Saw tells the key what became of an operation.
func (k *Key) Saw(in Input, result *Result) {
	k.lock.Lock()
	defer k.lock.Unlock()
	if result == nil {
		k.unknown++
		return
	}
	switch in.Does {
	case "delete", "find delete":
		k.absent = true
	case "insert", "upsert":
		k.absent = false
	}
}

func (k *Key) draw(random *rand.Rand) Input {
	k.lock.Lock()
	defer k.lock.Unlock()
	k.made++
	if k.made == 1 || k.absent && random.Intn(3) == 0 {
		return k.fill(Input{Does: "insert"}, random)
	}
	return k.fill(Input{Does: pick(k.weights, random)}, random)
}

func pick(weights []weight, random *rand.Rand) string {
	total := 0
	for _, each := range weights {
		total += each.of
	}
	left := random.Intn(total)
	for _, each := range weights {
		if left < each.of {
			return each.does
		}
		left -= each.of
	}
	panic("weights do not add up")
}

// fill gives the operation its values.
func (k *Key) fill(in Input, random *rand.Rand) Input {
	switch in.Does {
	case "push", "upsert", "find push new", "find push old":
		in.Values = k.fresh(1)
	case "push at", "set index":
		in.Values, in.At = k.fresh(1), random.Intn(12)
	case "push keep":
		in.Values, in.At = k.fresh(2), 4+random.Intn(8)
	case "push each":
		in.Values = k.fresh(1 + random.Intn(4))
	case "insert", "set list", "replace":
		in.Values = k.fresh(1 + random.Intn(8))
	case "guard", "add to set":
		in.Values = k.either(random)
	case "pull", "find pull old", "find pull new":
		in.Values = []int64{k.used(random)}
	case "replace one":
		in.Values = append([]int64{k.used(random)}, k.fresh(1)...)
	}
	return in
}

// fresh values were never there.
func (k *Key) fresh(count int) []int64 {
	var values []int64
	for ; count > 0; count-- {
		k.value++
		values = append(values, k.value)
	}
	return values
}

// used is a value of late, which may be there.
func (k *Key) used(random *rand.Rand) int64 {
	recent := int64(20)
	if k.value < recent {
		recent = k.value
	}
	return k.value - random.Int63n(recent+1)
}

func (k *Key) either(random *rand.Rand) []int64 {
	if random.Intn(2) == 0 {
		return k.fresh(1)
	}
	return []int64{k.used(random)}
}
