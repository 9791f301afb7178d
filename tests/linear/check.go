// Is there an order of the operations, each between its call and its return, that explains all results?
package main

import (
	"fmt"
	"sort"
	"time"

	"github.com/anishathalye/porcupine"
)

// step is what the model is asked: an operation, its number, and the numbers of those that were before it.
type step struct {
	Input
	number int
	before []int
}

// outcome is what the model sees of a result.
type outcome struct {
	result *Result
}

// progress is the document and which operations have been; these follow from the order, and don't make a state another.
type progress struct {
	State
	done Set
}

// documentModel is one key's document. What got no answer may take effect at any time later, or, at the very end, never
// matter.
var documentModel = porcupine.Model{
	Init: func() interface{} { return progress{} },
	Step: func(state, input, output interface{}) (bool, interface{}) {
		now, asked := state.(progress), input.(step)
		if !now.done.Has(asked.before) {
			return false, state
		}
		next, expected := Apply(now.State, asked.Input)
		seen := output.(outcome).result
		return seen == nil || seen.equals(expected), progress{next, now.done.With(asked.number)}
	},
	Equal: func(a, b interface{}) bool {
		one, two := a.(progress), b.(progress)
		return one.Exists == two.Exists && sameList(one.List, two.List)
	},
	DescribeOperation: func(input, output interface{}) string {
		return describe(input.(step).Input, output.(outcome).result)
	},
	DescribeState: func(state interface{}) string {
		if !state.(progress).Exists {
			return "none"
		}
		return fmt.Sprint(state.(progress).List)
	},
}

// Finding is a key whose history has no explanation, or none was found in time.
type Finding struct {
	Key        string
	Undecided  bool
	Operations []Operation // the shortest beginning that already has none
}

// Tally is what a check of one arm found.
type Tally struct {
	Keys, Operations, Unknown int
	Findings                  []Finding
}

func describe(in Input, result *Result) string {
	text := in.Does
	if len(in.Values) > 0 {
		text += fmt.Sprint(" ", in.Values)
	}
	if in.At > 0 {
		text += fmt.Sprint(" at ", in.At)
	}
	return text + " -> " + describeResult(result)
}

func describeResult(result *Result) string {
	switch {
	case result == nil:
		return "?"
	case result.Found:
		return fmt.Sprint(result.List)
	case result.Duplicate:
		return "duplicate"
	case result.Upserted:
		return "upserted"
	}
	return fmt.Sprintf("n %d, modified %d", result.Matched, result.Modified)
}

// explained asks porcupine; what got no answer returns after all else. It may never have happened: an explanation without
// what nothing points to is one, and mostly there; the many places such an operation could have are tried only where it is not.
func explained(operations []Operation, patience time.Duration) porcupine.CheckResult {
	likely := likely(operations)
	if len(likely) < len(operations) &&
		porcupine.CheckOperationsTimeout(documentModel, events(likely), patience/4) == porcupine.Ok {
		return porcupine.Ok
	}
	return porcupine.CheckOperationsTimeout(documentModel, events(operations), patience)
}

// likely leaves out what got no answer, unless a value was seen more often than what was answered can have put it in.
func likely(operations []Operation) []Operation {
	explained, seen := map[int64]int{}, map[int64]int{}
	for _, operation := range operations {
		if operation.Result == nil {
			continue
		}
		for _, value := range putIn(operation.Input) {
			explained[value]++
		}
		for value, times := range occurrences(operation.Result.List) {
			if times > seen[value] {
				seen[value] = times
			}
		}
	}
	var left []Operation
	for _, operation := range operations {
		needed := operation.Result != nil
		for _, value := range putIn(operation.Input) {
			needed = needed || seen[value] > explained[value]
		}
		if needed {
			left = append(left, operation)
		}
	}
	return left
}

func occurrences(list []int64) map[int64]int {
	times := map[int64]int{}
	for _, value := range list {
		times[value]++
	}
	return times
}

func events(operations []Operation) []porcupine.Operation {
	var all []porcupine.Operation
	last := lastReturn(operations)
	before := precedence(operations)
	for number, operation := range operations {
		end := operation.Return
		if operation.Result == nil {
			end = last + 1
		}
		all = append(all, porcupine.Operation{
			ClientId: operation.Client, Input: step{operation.Input, number, before[number]}, Call: operation.Call,
			Output: outcome{operation.Result}, Return: end,
		})
	}
	return all
}

func lastReturn(operations []Operation) int64 {
	var last int64
	for _, operation := range operations {
		if operation.Return > last {
			last = operation.Return
		}
	}
	return last
}

// beginning is the history as it stood at a moment: what had not returned then is unknown.
func beginning(operations []Operation, moment int64) []Operation {
	var begun []Operation
	for _, operation := range operations {
		if operation.Call > moment {
			continue
		}
		if operation.Return > moment {
			operation.Result = nil
		}
		begun = append(begun, operation)
	}
	return begun
}

// shortest finds the first return that nothing explains; the last operation of what it gives back is that one.
func shortest(operations []Operation, patience time.Duration) []Operation {
	sort.Slice(operations, func(i, j int) bool { return operations[i].Return < operations[j].Return })
	first := sort.Search(len(operations), func(i int) bool {
		return explained(beginning(operations, operations[i].Return), patience) == porcupine.Illegal
	})
	if first == len(operations) {
		return operations
	}
	return beginning(operations, operations[first].Return)
}

// CheckAll checks each key of one arm by itself.
func CheckAll(operations []Operation, arm string, patience time.Duration) Tally {
	byKey := map[string][]Operation{}
	tally := Tally{}
	for _, operation := range operations {
		if operation.Arm != arm {
			continue
		}
		byKey[operation.Key] = append(byKey[operation.Key], operation)
		tally.Operations++
		if operation.Result == nil {
			tally.Unknown++
		}
	}
	tally.Keys = len(byKey)
	for key, each := range byKey {
		switch explained(each, patience) {
		case porcupine.Illegal:
			tally.Findings = append(tally.Findings, Finding{Key: key, Operations: shortest(each, patience)})
		case porcupine.Unknown:
			tally.Findings = append(tally.Findings, Finding{Key: key, Undecided: true, Operations: each})
		}
	}
	return tally
}

// Draw writes porcupine's page of a history.
func Draw(operations []Operation, path string, patience time.Duration) error {
	_, info := porcupine.CheckOperationsVerbose(documentModel, events(operations), patience)
	return porcupine.VisualizePath(documentModel, info, path)
}
