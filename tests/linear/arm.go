// An arm of the run: the clients of one collection, by one way or by several, and how they are cut off.
package main

import (
	"context"
	"math/rand"
	"net"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readconcern"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"
)

const (
	connectSeconds   = 3  // a monitor waits so long, twice; then what is under way at the server is tried again
	selectionSeconds = 15 // a driver waits for a primary no longer
	attemptSeconds   = 30 // of one operation, with its retries
)

// Arm has a target for each way to the servers, then another for each, by which the driver tries again and again.
type Arm struct {
	Name    string
	Clients []*mongo.Client
	Targets []Target
	Slots   []*Slot
	Cutter  *Cutter
}

// NewArm connects to each URI; with majority, reads are linearizable.
func NewArm(name string, uris []string, collection string, majority bool) (*Arm, error) {
	arm := &Arm{Name: name, Cutter: &Cutter{open: map[net.Conn]bool{}}}
	for _, uri := range uris {
		client, err := connect(uri, arm.Cutter, majority)
		if err != nil {
			return nil, err
		}
		arm.Clients = append(arm.Clients, client)
		arm.Targets = append(arm.Targets, target(client.Database("shop").Collection(collection), majority))
	}
	for _, again := range arm.Targets {
		again.Persists = true
		arm.Targets = append(arm.Targets, again)
	}
	return arm, nil
}

func connect(uri string, cutter *Cutter, majority bool) (*mongo.Client, error) {
	concern := writeconcern.W1()
	if majority {
		concern = writeconcern.Majority()
	}
	settings := options.Client().ApplyURI(uri).SetDialer(cutter).SetWriteConcern(concern).
		SetHeartbeatInterval(500 * time.Millisecond).SetConnectTimeout(connectSeconds * time.Second).
		SetServerSelectionTimeout(selectionSeconds * time.Second)
	return mongo.Connect(settings)
}

// target reads at the primary: a local read there may see what is rolled back later, a linearizable one may not.
func target(collection *mongo.Collection, majority bool) Target {
	reads := collection
	if majority {
		linearizable := options.Collection().SetReadConcern(readconcern.Linearizable())
		reads = collection.Database().Collection(collection.Name(), linearizable)
	}
	return Target{Writes: collection, Reads: reads, Patience: attemptSeconds * time.Second}
}

// Cutter dials for the driver and can close what it dialled, whatever is under way on it.
type Cutter struct {
	lock sync.Mutex
	open map[net.Conn]bool
}

// DialContext is what the driver calls.
func (c *Cutter) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	plain, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	tracked := &trackedConn{Conn: plain, cutter: c}
	c.lock.Lock()
	defer c.lock.Unlock()
	c.open[tracked] = true
	return tracked, nil
}

// Cut closes about half of the connections.
func (c *Cutter) Cut(random *rand.Rand) {
	c.lock.Lock()
	var chosen []net.Conn
	for connection := range c.open {
		if random.Intn(2) == 0 {
			chosen = append(chosen, connection)
		}
	}
	c.lock.Unlock()
	for _, connection := range chosen {
		connection.Close()
	}
}

// trackedConn leaves its cutter's list when it is closed.
type trackedConn struct {
	net.Conn
	cutter *Cutter
}

// Close is called by the driver, or by a cut.
func (t *trackedConn) Close() error {
	t.cutter.lock.Lock()
	delete(t.cutter.open, t)
	t.cutter.lock.Unlock()
	return t.Conn.Close()
}
