// What clients did and what they saw, as lines of JSON: one operation a line.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"os"
	"sync"
)

// Null stands in lists for the nulls that fill up an array before an index that is set.
const Null = -1

// Input is what was asked of the document.
type Input struct {
	Does   string  `json:"does"`
	Values []int64 `json:"values,omitempty"`
	At     int     `json:"at,omitempty"`
}

// Result is what was answered.
type Result struct {
	Matched   int64   `json:"matched,omitempty"`
	Modified  int64   `json:"modified,omitempty"`
	Upserted  bool    `json:"upserted,omitempty"`
	Duplicate bool    `json:"duplicate,omitempty"`
	Found     bool    `json:"found,omitempty"`
	List      []int64 `json:"list,omitempty"`
}

// Operation is one of a history; nobody knows whether it was done if Result is nil.
type Operation struct {
	Arm    string  `json:"arm"`
	Key    string  `json:"key"`
	Client int     `json:"client"`
	Call   int64   `json:"call"`   // nanoseconds since the start
	Return int64   `json:"return"` // when it was answered or given up
	Input  Input   `json:"input"`
	Result *Result `json:"result"`
	Error  string  `json:"error,omitempty"`
}

// Recorder writes operations of many clients into one file.
type Recorder struct {
	lock   sync.Mutex
	file   *os.File
	buffer *bufio.Writer
	lines  *json.Encoder
}

// NewRecorder makes the file.
func NewRecorder(path string) (*Recorder, error) {
	file, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	buffer := bufio.NewWriter(file)
	return &Recorder{file: file, buffer: buffer, lines: json.NewEncoder(buffer)}, nil
}

// Add writes one operation.
func (r *Recorder) Add(operation Operation) error {
	r.lock.Lock()
	defer r.lock.Unlock()
	return r.lines.Encode(operation)
}

// Close ends the file.
func (r *Recorder) Close() error {
	if err := r.buffer.Flush(); err != nil {
		return err
	}
	return r.file.Close()
}

// WriteHistory makes a file of these operations.
func WriteHistory(path string, operations []Operation) error {
	recorder, err := NewRecorder(path)
	if err != nil {
		return err
	}
	for _, operation := range operations {
		if err := recorder.Add(operation); err != nil {
			return err
		}
	}
	return recorder.Close()
}

// ReadHistory reads all of a file.
func ReadHistory(path string) ([]Operation, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	lines := json.NewDecoder(bufio.NewReader(file))
	var operations []Operation
	for {
		var operation Operation
		err := lines.Decode(&operation)
		if errors.Is(err, io.EOF) {
			return operations, nil
		}
		if err != nil {
			return nil, err
		}
		operations = append(operations, operation)
	}
}
