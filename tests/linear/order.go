// What the seen lists say of the order of the appends: it spares the checker a search through all orders.
//
// Values that one operation alone puts in, at the end, stand in each list in the order of their operations: nothing ever
// moves an element. So each such pair that was seen is a pair of operations whose order is known. This takes no order
// away that could explain the history.
package main

// appends put their values at the end, or in the place of the whole list.
var appends = map[string]bool{
	"insert": true, "set list": true, "replace": true, "push": true, "push each": true, "push keep": true, "upsert": true,
	"guard": true, "add to set": true, "find push old": true, "find push new": true,
}

// precedence gives, for each operation, those that must have been before it.
func precedence(operations []Operation) [][]int {
	origin := origins(operations)
	before := make([][]int, len(operations))
	known := map[[2]int]bool{}
	for _, operation := range operations {
		if operation.Result == nil {
			continue
		}
		for _, pair := range succession(operation.Result.List, origin) {
			if !known[pair] {
				known[pair] = true
				before[pair[1]] = append(before[pair[1]], pair[0])
			}
		}
	}
	return before
}

// succession lists the pairs of operations whose values follow one another in a list.
func succession(list []int64, origin map[int64]int) [][2]int {
	var pairs [][2]int
	last := -1
	for _, value := range list {
		number, clear := origin[value]
		if !clear {
			continue
		}
		if last >= 0 && last != number {
			pairs = append(pairs, [2]int{last, number})
		}
		last = number
	}
	return pairs
}

// origins tells which operation put a value in, of those values for which only one can have.
func origins(operations []Operation) map[int64]int {
	origin, disputed := map[int64]int{}, map[int64]bool{}
	for number, operation := range operations {
		for _, value := range putIn(operation.Input) {
			if _, again := origin[value]; again || !appends[operation.Input.Does] {
				disputed[value] = true
			}
			origin[value] = number
		}
	}
	for value := range disputed {
		delete(origin, value)
	}
	return origin
}

// putIn lists the values that an operation may add.
func putIn(in Input) []int64 {
	switch in.Does {
	case "pull", "find pull old", "find pull new":
		return nil
	case "replace one":
		return in.Values[1:]
	}
	return in.Values
}

// Set is a set of small numbers; it is never changed.
type Set []uint64

// With is the set and one more.
func (s Set) With(number int) Set {
	words := number/64 + 1
	if words < len(s) {
		words = len(s)
	}
	larger := make(Set, words)
	copy(larger, s)
	larger[number/64] |= 1 << (number % 64)
	return larger
}

// Has tells whether all the numbers are in it.
func (s Set) Has(numbers []int) bool {
	for _, number := range numbers {
		if number/64 >= len(s) || s[number/64]&(1<<(number%64)) == 0 {
			return false
		}
	}
	return true
}
