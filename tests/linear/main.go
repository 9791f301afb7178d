// Drives clients against a document store and checks that what they saw is linearizable.
//
//	linear drive --history FILE --spillway "URI|URI" --control URI [--concern majority|1] [--seed N]
//	linear check --history FILE --findings FOLDER
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "linear:", err)
		os.Exit(2)
	}
}

func run(words []string) error {
	if len(words) == 0 {
		return fmt.Errorf("drive or check?")
	}
	switch words[0] {
	case "drive":
		return drive(words[1:])
	case "check":
		return check(words[1:])
	}
	return fmt.Errorf("no such command: %s", words[0])
}

func drive(words []string) error {
	flags := flag.NewFlagSet("drive", flag.ContinueOnError)
	plan := Plan{ReportEvery: 20, FinalReadTrials: 5}
	spillways := flags.String("spillway", "", "a URI for each Spillway, with | between them")
	without := flags.String("without", "", "operations to leave out, with | between them")
	concern := flags.String("concern", "majority", "majority or 1")
	flags.StringVar(&plan.History, "history", "", "the file to write")
	flags.StringVar(&plan.Control, "control", "", "the URI of the servers themselves")
	flags.Int64Var(&plan.Seed, "seed", 1, "of what the clients do")
	flags.IntVar(&plan.Slots, "slots", 6, "keys at one time, in each arm")
	flags.IntVar(&plan.Clients, "clients", 4, "clients of each key")
	flags.IntVar(&plan.Limits.Operations, "of-a-key", 200, "operations on a key before the next one")
	flags.IntVar(&plan.Limits.Unknown, "unknown", 4, "operations without an answer on a key before the next one")
	if err := flags.Parse(words); err != nil {
		return err
	}
	plan.Spillways = strings.Split(*spillways, "|")
	plan.Avoids = map[string]bool{}
	for _, verb := range strings.Split(*without, "|") {
		plan.Avoids[verb] = true
	}
	plan.Majority = *concern == "majority"
	return Drive(plan)
}

// check prints a tally of each arm as one line of JSON.
func check(words []string) error {
	flags := flag.NewFlagSet("check", flag.ContinueOnError)
	history := flags.String("history", "", "the file to read")
	folder := flags.String("findings", "", "where histories without an explanation go")
	patience := flags.Duration("patience", time.Minute, "for one key")
	if err := flags.Parse(words); err != nil {
		return err
	}
	operations, err := ReadHistory(*history)
	if err != nil {
		return err
	}
	report := map[string]interface{}{}
	for _, arm := range []string{"spillway", "control"} {
		tally := CheckAll(operations, arm, *patience)
		if report[arm], err = summary(tally, arm, *folder, *patience); err != nil {
			return err
		}
	}
	return json.NewEncoder(os.Stdout).Encode(report)
}

// summary writes each finding down: its history, and a page that shows it.
func summary(tally Tally, arm, folder string, patience time.Duration) (map[string]interface{}, error) {
	violations, undecided := []string{}, []string{}
	for _, finding := range tally.Findings {
		name := filepath.Join(folder, arm+"-"+finding.Key)
		if err := WriteHistory(name+".jsonl", finding.Operations); err != nil {
			return nil, err
		}
		if finding.Undecided {
			undecided = append(undecided, name+".jsonl")
			continue
		}
		if err := Draw(finding.Operations, name+".html", patience); err != nil {
			return nil, err
		}
		violations = append(violations, name+".jsonl")
	}
	return map[string]interface{}{
		"keys": tally.Keys, "operations": tally.Operations, "unknown": tally.Unknown,
		"violations": violations, "undecided": undecided,
	}, nil
}
