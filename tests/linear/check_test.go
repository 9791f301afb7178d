// The checker believes what can have happened, and nothing else.
package main

import (
	"math/rand"
	"testing"
	"time"
)

const patience = 20 * time.Second

// lived is a history as one key's clients may see it: each operation happens somewhere between its call and its return.
func lived(seed int64, count int) []Operation {
	random := rand.New(rand.NewSource(seed))
	slot := &Slot{name: "key", limits: Limits{Operations: count + 1, Unknown: count}}
	var state State
	var operations []Operation
	for i := 0; i < count; i++ {
		key, in := slot.Draw(random)
		var result Result
		state, result = Apply(state, in)
		key.Saw(in, &result)
		moment := int64(100 * (i + 1))
		operations = append(operations, Operation{
			Arm: "spillway", Key: key.name, Client: i, Input: in, Result: &result,
			Call: moment - random.Int63n(250), Return: moment + random.Int63n(250),
		})
	}
	end := int64(100*count + 1000)
	_, result := Apply(state, Input{Does: "read"})
	last := Operation{Arm: "spillway", Key: "key-0", Call: end, Return: end + 1, Input: Input{Does: "read"}, Result: &result}
	return append(operations, last)
}

func violations(operations []Operation) int {
	tally := CheckAll(operations, "spillway", patience)
	count := 0
	for _, finding := range tally.Findings {
		if !finding.Undecided {
			count++
		}
	}
	return count
}

func TestWhatHappenedIsBelieved(t *testing.T) {
	for seed := int64(0); seed < 20; seed++ {
		if violations(lived(seed, 200)) != 0 {
			t.Errorf("seed %d: rejected", seed)
		}
	}
}

func TestAnOperationWithoutAnAnswerMayHaveHappenedOrNot(t *testing.T) {
	push := Operation{Call: 20, Return: 30, Input: Input{Does: "push", Values: []int64{3}}}
	for _, list := range [][]int64{{1, 2}, {1, 2, 3}} {
		if violations(history(push, seeing(40, list...))) != 0 {
			t.Errorf("%v rejected", list)
		}
	}
	if violations(history(push, seeing(40, 1, 2, 3), seeing(50, 1, 2))) != 1 {
		t.Error("it is there and then it is not")
	}
	if violations(history(push, seeing(40, 1, 2, 3, 3))) != 1 {
		t.Error("it is there twice")
	}
}

func TestAnOperationWithoutAnAnswerIsLeftOutOnlyWhereNothingPointsToIt(t *testing.T) {
	unseen := Operation{Call: 20, Return: 30, Input: Input{Does: "push", Values: []int64{4}}}
	seen := Operation{Call: 20, Return: 30, Input: Input{Does: "push", Values: []int64{3}}}
	pull := Operation{Call: 20, Return: 30, Input: Input{Does: "pull", Values: []int64{1}}}
	again := Operation{Call: 20, Return: 30, Input: Input{Does: "push", Values: []int64{2}}}
	if left := likely(history(again, seeing(40, 1, 2, 2))); len(left) != 3 {
		t.Errorf("left: %v", left)
	}
	if left := likely(history(unseen, seen, pull, seeing(40, 1, 2, 3))); len(left) != 3 || left[1].Input.Values[0] != 3 {
		t.Errorf("left: %v", left)
	}
	if violations(history(pull, seeing(40, 2))) != 0 {
		t.Error("it may have happened all the same")
	}
}

func TestWhatCannotHaveHappenedIsRejected(t *testing.T) {
	push := Operation{Call: 20, Return: 30, Input: Input{Does: "push", Values: []int64{3}},
		Result: &Result{Matched: 1, Modified: 1}}
	other := Operation{Call: 32, Return: 35, Input: Input{Does: "push", Values: []int64{4}},
		Result: &Result{Matched: 1, Modified: 1}}
	for name, list := range map[string][]int64{
		"lost": {1, 2, 4}, "doubled": {1, 2, 3, 3, 4}, "reordered": {1, 2, 4, 3}, "torn": {1, 2}, "a stranger": {1, 2, 3, 4, 5},
	} {
		if violations(history(push, other, seeing(40, list...))) != 1 {
			t.Errorf("%s: believed", name)
		}
	}
	if violations(history(push, other, seeing(40, 1, 2, 3, 4))) != 0 {
		t.Error("the truth is rejected")
	}
}

func TestAGuardThatLetsAValueInTwiceIsRejected(t *testing.T) {
	guard := Operation{Call: 20, Return: 30, Input: Input{Does: "guard", Values: []int64{2}},
		Result: &Result{Matched: 1, Modified: 1}}
	if violations(history(guard)) != 1 {
		t.Error("believed")
	}
}

func TestAStaleReadIsRejected(t *testing.T) {
	push := Operation{Call: 20, Return: 30, Input: Input{Does: "push", Values: []int64{3}},
		Result: &Result{Matched: 1, Modified: 1}}
	if violations(history(push, seeing(31, 1, 2), seeing(40, 1, 2, 3))) != 1 {
		t.Error("believed")
	}
}

// Each damage is done to the lists of a long history, one at a time.
func TestDamageInALongHistoryIsRejected(t *testing.T) {
	for name, damage := range map[string]func([]int64) []int64{
		"lost":      func(list []int64) []int64 { return joined(list[:1], list[2:]) },
		"doubled":   func(list []int64) []int64 { return joined(list[:2], list[1:]) },
		"reordered": func(list []int64) []int64 { return joined(list[1:2], list[:1], list[2:]) },
		"cut":       func(list []int64) []int64 { return list[:len(list)-1] },
	} {
		for seed := int64(0); seed < 10; seed++ {
			operations := lived(seed, 200)
			last := operations[len(operations)-1].Result
			if len(last.List) < 3 {
				continue
			}
			last.List = damage(last.List)
			if violations(operations) != 1 {
				t.Errorf("%s, seed %d: believed", name, seed)
			}
		}
	}
}

// history begins with a document [1, 2].
func history(more ...Operation) []Operation {
	first := Operation{Call: 0, Return: 10, Input: Input{Does: "insert", Values: []int64{1, 2}}, Result: &Result{}}
	all := append([]Operation{first}, more...)
	for i := range all {
		all[i].Arm, all[i].Key, all[i].Client = "spillway", "key", i
	}
	return all
}

func seeing(at int64, list ...int64) Operation {
	return Operation{Call: at, Return: at + 5, Input: Input{Does: "read"}, Result: &Result{Found: true, List: list}}
}
