// The clients: all of them at once, until standard input says stop.
package main

import (
	"bufio"
	"fmt"
	"math/rand"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// Plan is what a run is made of.
type Plan struct {
	History         string
	Spillways       []string // a URI for each
	Control         string
	Majority        bool
	Seed            int64
	Slots, Clients  int // of each arm; clients of each slot
	Limits          Limits
	Avoids          map[string]bool // verbs
	ReportEvery     int64
	FinalReadTrials int
}

// Run is one under way.
type Run struct {
	plan     Plan
	recorder *Recorder
	began    time.Time
	arms     []*Arm
	counts   [2]int64
	tickets  chan struct{} // an operation of the first arm allows one of the second
	stopping chan struct{}
	report   sync.Mutex
}

// Drive runs the plan.
func Drive(plan Plan) error {
	recorder, err := NewRecorder(plan.History)
	if err != nil {
		return err
	}
	run := &Run{
		plan: plan, recorder: recorder, began: time.Now(),
		tickets: make(chan struct{}, 64), stopping: make(chan struct{}),
	}
	if err := run.connect(); err != nil {
		return err
	}
	go run.listen()
	run.work()
	if err := run.readAll(); err != nil {
		return err
	}
	return recorder.Close()
}

func (r *Run) connect() error {
	spillway, err := NewArm("spillway", r.plan.Spillways, "books", r.plan.Majority)
	if err != nil {
		return err
	}
	control, err := NewArm("control", []string{r.plan.Control, r.plan.Control}, "plain", r.plan.Majority)
	if err != nil {
		return err
	}
	r.arms = []*Arm{spillway, control}
	for _, arm := range r.arms {
		for i := 0; i < r.plan.Slots; i++ {
			arm.Slots = append(arm.Slots, &Slot{name: fmt.Sprint(i), limits: r.plan.Limits, avoids: r.plan.Avoids})
		}
	}
	return nil
}

// listen obeys standard input: `cut` closes connections, `stop` or its end ends the run.
func (r *Run) listen() {
	random := rand.New(rand.NewSource(-r.plan.Seed))
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() && lines.Text() != "stop" {
		for _, arm := range r.arms {
			arm.Cutter.Cut(random)
		}
	}
	close(r.stopping)
}

func (r *Run) work() {
	var workers sync.WaitGroup
	client := 0
	for number, arm := range r.arms {
		for _, slot := range arm.Slots {
			for i := 0; i < r.plan.Clients; i++ {
				workers.Add(1)
				go func(number, client int, slot *Slot, target Target) {
					defer workers.Done()
					r.workOn(number, client, slot, target)
				}(number, client, slot, arm.Targets[i%len(arm.Targets)])
				client++
			}
		}
	}
	workers.Wait()
}

func (r *Run) workOn(number, client int, slot *Slot, target Target) {
	random := rand.New(rand.NewSource(r.plan.Seed*1000 + int64(client)))
	for r.mayGoOn(number) {
		key, in := slot.Draw(random)
		result := r.perform(r.arms[number].Name, key.name, client, in, target)
		key.Saw(in, result)
		r.count(number)
	}
}

// mayGoOn lets the second arm do as many operations as the first.
func (r *Run) mayGoOn(number int) bool {
	select {
	case <-r.stopping:
		return false
	default:
	}
	if number == 0 {
		return true
	}
	select {
	case <-r.stopping:
		return false
	case <-r.tickets:
		return true
	}
}

func (r *Run) count(number int) {
	count := atomic.AddInt64(&r.counts[number], 1)
	if number == 0 {
		select {
		case r.tickets <- struct{}{}:
		default:
		}
	}
	if count%r.plan.ReportEvery == 0 {
		r.report.Lock()
		defer r.report.Unlock()
		fmt.Println("progress", atomic.LoadInt64(&r.counts[0]), atomic.LoadInt64(&r.counts[1]))
	}
}

// perform does and records one operation; nil if nobody knows what became of it.
func (r *Run) perform(arm, key string, client int, in Input, target Target) *Result {
	operation := Operation{Arm: arm, Key: key, Client: client, Input: in, Call: r.now()}
	result, err := target.Perform(key, in)
	operation.Return = r.now()
	if err != nil {
		operation.Error = err.Error()
	} else {
		operation.Result = &result
	}
	if err := r.recorder.Add(operation); err != nil {
		panic(err)
	}
	return operation.Result
}

func (r *Run) now() int64 {
	return time.Since(r.began).Nanoseconds()
}

// readAll reads each key once more by each way: what was acknowledged must still be there.
func (r *Run) readAll() error {
	fmt.Println("reading")
	for _, arm := range r.arms {
		for way, target := range arm.Targets {
			for _, slot := range arm.Slots {
				for _, name := range slot.names {
					if err := r.readLast(arm.Name, name, -1-way, target); err != nil {
						return err
					}
				}
			}
		}
	}
	return nil
}

func (r *Run) readLast(arm, key string, client int, target Target) error {
	for trial := 0; trial < r.plan.FinalReadTrials; trial++ {
		if r.perform(arm, key, client, Input{Does: "read"}, target) != nil {
			return nil
		}
	}
	return fmt.Errorf("%s: %s cannot be read", arm, key)
}
