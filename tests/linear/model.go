// What mongod would do: one document that is there or not, with one list.
package main

// State is the document; a state is never changed, only replaced by another.
type State struct {
	Exists bool
	List   []int64
}

// verbs are the operations: each gives the state after it and what the client must see.
var verbs = map[string]func(State, Input) (State, Result){
	"insert":        insert,
	"delete":        remove,
	"replace":       onDocument(func(list []int64, in Input) []int64 { return in.Values }),
	"set list":      onDocument(func(list []int64, in Input) []int64 { return in.Values }),
	"push":          onDocument(push),
	"push each":     onDocument(push),
	"push at":       onDocument(pushAt),
	"push keep":     onDocument(pushKeep),
	"pull":          onDocument(pull),
	"add to set":    onDocument(addToSet),
	"pop first":     onDocument(func(list []int64, _ Input) []int64 { return list[min(1, len(list)):] }),
	"pop last":      onDocument(func(list []int64, _ Input) []int64 { return list[:len(list)-min(1, len(list))] }),
	"set index":     onDocument(setIndex),
	"upsert":        upsert,
	"guard":         guard,
	"replace one":   replaceOne,
	"read":          read,
	"read two":      read,
	"find push old": showing(onDocument(push), false),
	"find push new": showing(onDocument(push), true),
	"find pull old": showing(onDocument(pull), false),
	"find pull new": showing(onDocument(pull), true),
	"find delete":   showing(remove, false),
}

// Apply does the operation.
func Apply(state State, in Input) (State, Result) {
	return verbs[in.Does](state, in)
}

// onDocument makes a verb of what happens to the list of a document that is there.
func onDocument(change func([]int64, Input) []int64) func(State, Input) (State, Result) {
	return func(state State, in Input) (State, Result) {
		if !state.Exists {
			return state, Result{}
		}
		list := change(state.List, in)
		if sameList(list, state.List) {
			return state, Result{Matched: 1}
		}
		return State{true, list}, Result{Matched: 1, Modified: 1}
	}
}

// showing makes a findAndModify of a verb: what is seen is the document before or after it.
func showing(verb func(State, Input) (State, Result), after bool) func(State, Input) (State, Result) {
	return func(state State, in Input) (State, Result) {
		next, _ := verb(state, in)
		if after {
			return next, Result{Found: next.Exists, List: next.List}
		}
		return next, Result{Found: state.Exists, List: state.List}
	}
}

func insert(state State, in Input) (State, Result) {
	if state.Exists {
		return state, Result{Duplicate: true}
	}
	return State{true, in.Values}, Result{}
}

func remove(state State, _ Input) (State, Result) {
	if !state.Exists {
		return state, Result{}
	}
	return State{}, Result{Matched: 1}
}

func upsert(state State, in Input) (State, Result) {
	if !state.Exists {
		return State{true, in.Values}, Result{Upserted: true}
	}
	return onDocument(push)(state, in)
}

func guard(state State, in Input) (State, Result) {
	if !state.Exists || contains(state.List, in.Values[0]) {
		return state, Result{}
	}
	return onDocument(push)(state, in)
}

// replaceOne puts a value in the place of the first that equals another: {list: old}, {$set: {"list.$": new}}.
func replaceOne(state State, in Input) (State, Result) {
	for i, value := range state.List {
		if value == in.Values[0] {
			return onDocument(setIndex)(state, Input{Values: in.Values[1:], At: i})
		}
	}
	return state, Result{}
}

func read(state State, _ Input) (State, Result) {
	return state, Result{Found: state.Exists, List: state.List}
}

func push(list []int64, in Input) []int64 {
	return joined(list, in.Values)
}

func pushAt(list []int64, in Input) []int64 {
	at := min(in.At, len(list))
	return joined(list[:at], in.Values, list[at:])
}

// pushKeep pushes and keeps no more than the last At values.
func pushKeep(list []int64, in Input) []int64 {
	all := joined(list, in.Values)
	return all[len(all)-min(in.At, len(all)):]
}

func pull(list []int64, in Input) []int64 {
	var kept []int64
	for _, value := range list {
		if value != in.Values[0] {
			kept = append(kept, value)
		}
	}
	return kept
}

func addToSet(list []int64, in Input) []int64 {
	if contains(list, in.Values[0]) {
		return list
	}
	return joined(list, in.Values)
}

func setIndex(list []int64, in Input) []int64 {
	changed := joined(list)
	for len(changed) <= in.At {
		changed = append(changed, Null)
	}
	changed[in.At] = in.Values[0]
	return changed
}

func joined(parts ...[]int64) []int64 {
	var all []int64
	for _, part := range parts {
		all = append(all, part...)
	}
	return all
}

func contains(list []int64, value int64) bool {
	for _, each := range list {
		if each == value {
			return true
		}
	}
	return false
}

func sameList(a, b []int64) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

func (r Result) equals(other Result) bool {
	return r.Matched == other.Matched && r.Modified == other.Modified && r.Upserted == other.Upserted &&
		r.Duplicate == other.Duplicate && r.Found == other.Found && sameList(r.List, other.List)
}

func min(a, b int) int {
	if a < b {
		return a
	}
	return b
}
