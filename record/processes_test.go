package record

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"example.com/splitseal/aead"
)

// Tests of this file measure a process that has the other ends of its connections
// in another one, which is this test binary again: TestChild runs there.

// connKinds are what is compared.
var connKinds = []string{"tcp", "crypto-tls", "Conn"}

// wrap makes one end of connection number i.
func wrap(t testing.TB, kind string, i int, role Role, transport net.Conn) (net.Conn, error) {
	switch kind {
	case "tcp":
		return transport, nil
	case "Conn":
		own, peer := "client", "server"
		if role == RoleServer {
			own, peer = peer, own
		}
		id := strconv.Itoa(i)
		return newConn(t, transport, ConnConfig{
			Role:   role,
			Sealer: appSealer(t, aead.AES128GCM(), own+id, SealerConfig{}),
			Opener: appOpener(t, aead.AES128GCM(), peer+id),
		}), nil
	}
	var c *tls.Conn
	if role == RoleClient {
		c = tls.Client(transport, clientConfig())
	} else {
		c = tls.Server(transport, serverConfig(t))
	}
	return c, c.Handshake()
}

// child is a running TestChild.
type child struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

// startChild runs job in a process of its own.
func startChild(t testing.TB, job string, args ...string) *child {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Skip("the test binary does not know where it is: ", err)
	}
	c := &child{cmd: exec.Command(exe, "-test.run=^TestChild$", "-test.v")}
	c.cmd.Env = append(os.Environ(), "SPLITSEAL_CHILD="+job+" "+strings.Join(args, " "))
	c.cmd.Stderr = os.Stderr
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.out = bufio.NewReader(out)
	if err := c.cmd.Start(); err != nil {
		t.Skip("no other process can be started here: ", err)
	}
	return c
}

// wait waits for the line that begins with word and returns the rest of it.
func (c *child) wait(t testing.TB, word string) string {
	t.Helper()
	for {
		line, err := c.out.ReadString('\n')
		if rest, ok := strings.CutPrefix(line, word+" "); ok {
			return strings.TrimSpace(rest)
		}
		if err != nil {
			t.Fatalf("the other process ended before it said %q: %v", word, err)
		}
	}
}

func (c *child) end() {
	c.in.Close()
	io.Copy(io.Discard, c.out)
	c.cmd.Wait()
}

// TestChild is the other process.
func TestChild(t *testing.T) {
	job := strings.Fields(os.Getenv("SPLITSEAL_CHILD"))
	if len(job) == 0 {
		t.Skip("runs in the processes that other tests start")
	}
	switch job[0] {
	case "idle":
		childIdle(t, job[1], job[2], atoi(t, job[3]), atoi(t, job[4]))
	case "send":
		childSend(t, job[1], job[2], atoi(t, job[3]), atoi(t, job[4]))
	case "receive":
		childReceive(t, job[1], atoi(t, job[2]))
	default:
		t.Fatalf("job %q", job)
	}
}

func atoi(t testing.TB, s string) int {
	t.Helper()
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func atoiEnv(t testing.TB, name string, otherwise int) int {
	if s := os.Getenv(name); s != "" {
		return atoi(t, s)
	}
	return otherwise
}

// childIdle dials the connections of TestIdleMemory, sends and receives, and waits.
func childIdle(t *testing.T, kind, addr string, conns, size int) {
	keep := make([]net.Conn, conns)
	var all sync.WaitGroup
	slots := make(chan struct{}, 32)
	for i := range conns {
		transport, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			// The other side learns which connection it is.
			fmt.Fprintf(transport, "%08d", i)
			c, err := wrap(t, kind, i, RoleClient, transport)
			if err == nil {
				keep[i] = c
				err = exchange(c, size)
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	fmt.Println("\nready .")
	io.Copy(io.Discard, os.Stdin)
	runtime.KeepAlive(keep)
}

// exchange sends and receives size bytes at once.
func exchange(c net.Conn, size int) error {
	sent := make(chan error, 1)
	go func() {
		_, err := io.CopyN(writerOnly{c}, zeroReader{}, int64(size))
		sent <- err
	}()
	_, err := io.CopyN(io.Discard, c, int64(size))
	return errors.Join(err, <-sent)
}

type writerOnly struct{ io.Writer }

type zeroReader struct{}

func (zeroReader) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// TestIdleMemory measures what a connection costs while it waits for data, after
// it has carried some in both directions: heap, and goroutine stacks apart. Each
// connection has a goroutine in its Read, and the other ends are in another
// process.
//
// The default is a small run that holds the bound. The long one:
//
//	SPLITSEAL_IDLE_CONNS=10000 SPLITSEAL_IDLE_KIB=1024 go test -run TestIdleMemory -v -timeout 30m ./record
func TestIdleMemory(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector's memory would be measured too")
	}
	conns := atoiEnv(t, "SPLITSEAL_IDLE_CONNS", 300)
	size := atoiEnv(t, "SPLITSEAL_IDLE_KIB", 64) << 10
	protector := protectorSize(t)
	heap := make(map[string]float64)
	for _, kind := range connKinds {
		h, stack := measureIdle(t, kind, conns, size)
		heap[kind] = h
		t.Logf("%-10s  %6.0f bytes of heap, %5.0f of stack for each of %d connections", kind, h, stack, conns)
	}
	own := heap["Conn"] - heap["tcp"]
	t.Logf("a Conn adds %.0f bytes to its TCP connection: %.0f, and two protectors of %.0f bytes each", own, own-2*protector, protector)
	t.Logf("crypto/tls adds %.0f bytes", heap["crypto-tls"]-heap["tcp"])
	if own-2*protector > 2048 {
		t.Errorf("%.0f bytes besides the protectors, more than 2048", own-2*protector)
	}
	// A key context of up to 2816 bytes, and the 64 of the protector around it.
	if limit := 2816.0 + 64; protector > limit {
		t.Errorf("a protector has %.0f bytes, more than %.0f", protector, limit)
	}
}

// protectorSize returns what one direction's key costs, with the backend in use,
// once it has sealed the largest record twice: the second one makes a key's table.
func protectorSize(t *testing.T) float64 {
	const n = 1000
	keep := make([]*aead.Protector, n)
	keys := aead.TrafficKeys{Key: make([]byte, 16), IV: make([]byte, aead.IVSize)}
	content, out := make([]byte, MaxContentSize), make([]byte, MaxContentSize+1+16)
	before := liveHeap()
	for i := range keep {
		var err error
		if keep[i], err = aead.NewProtector(aead.AES128GCM(), keys); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := keep[i].Seal(out, content, 23, 0); err != nil {
				t.Fatal(err)
			}
		}
	}
	after := liveHeap()
	runtime.KeepAlive(keep)
	return float64(after-before) / n
}

func liveHeap() int64 {
	var m runtime.MemStats
	for range 3 { // pools give up what they hold in the second
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func stackInUse() int64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.StackInuse)
}

// measureIdle returns bytes of heap and stack for each connection.
func measureIdle(t *testing.T, kind string, conns, size int) (heap, stack float64) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	serverConfig(t)
	keep := make([]net.Conn, conns)
	heapBefore, stackBefore := liveHeap(), stackInUse()
	other := startChild(t, "idle", kind, l.Addr().String(), strconv.Itoa(conns), strconv.Itoa(size))
	var exchanged, ended sync.WaitGroup
	for range conns {
		transport, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		exchanged.Add(1)
		ended.Go(func() {
			i, err := serveIdle(t, keep, kind, transport, size)
			exchanged.Done()
			if err != nil {
				t.Error(err)
				return
			}
			waitIdle(keep[i])
		})
	}
	other.wait(t, "ready")
	exchanged.Wait()
	time.Sleep(50 * time.Millisecond) // until all wait
	heapAfter, stackAfter := liveHeap(), stackInUse()
	for _, c := range keep {
		c.Close()
	}
	ended.Wait()
	other.end()
	return float64(heapAfter-heapBefore) / float64(conns), float64(stackAfter-stackBefore) / float64(conns)
}

// serveIdle is the server's part of childIdle.
func serveIdle(t *testing.T, keep []net.Conn, kind string, transport net.Conn, size int) (int, error) {
	id := make([]byte, 8)
	if _, err := io.ReadFull(transport, id); err != nil {
		return 0, err
	}
	i, err := strconv.Atoi(strings.TrimLeft(string(id[:7]), "0") + string(id[7:]))
	if err != nil {
		return 0, err
	}
	c, err := wrap(t, kind, i, RoleServer, transport)
	if err != nil {
		return 0, err
	}
	keep[i] = c
	return i, exchange(c, size)
}

// waitIdle is what a server does with a connection that is idle.
func waitIdle(c net.Conn) {
	p := make([]byte, 1)
	c.Read(p)
}

// TestBulk measures what moving much data through one connection over loopback
// costs, in processor time of the sending and the receiving process and on the
// clock, beside crypto/tls, in turns. It runs if SPLITSEAL_BULK_MIB says how much:
//
//	SPLITSEAL_BULK_MIB=1024 go test -run TestBulk -v -timeout 30m ./record
//
// SPLITSEAL_BULK_ROUNDS is the number of turns, 5 by default. Medians are printed.
func TestBulk(t *testing.T) {
	mib := atoiEnv(t, "SPLITSEAL_BULK_MIB", 0)
	if mib == 0 {
		t.Skip("a measurement; SPLITSEAL_BULK_MIB sets its size")
	}
	for _, size := range []int{16 << 10, 1 << 20} {
		type result struct{ send, receive, wall float64 }
		results := make(map[string][]result)
		for range atoiEnv(t, "SPLITSEAL_BULK_ROUNDS", 5) {
			for _, kind := range connKinds {
				// What a process costs without data is taken off.
				base := runBulk(t, kind, size, 0)
				full := runBulk(t, kind, size, mib<<20)
				gib := float64(mib) / 1024
				results[kind] = append(results[kind], result{
					(full[0] - base[0]) / gib, (full[1] - base[1]) / gib, full[2] / gib,
				})
			}
		}
		median := func(kind string, of func(result) float64) float64 {
			var all []float64
			for _, r := range results[kind] {
				all = append(all, of(r))
			}
			slices.Sort(all)
			return all[len(all)/2]
		}
		for _, kind := range connKinds {
			t.Logf("writes of %7d bytes, %-10s  sender %.3f, receiver %.3f CPU s/GiB, %.3f s/GiB on the clock", size, kind,
				median(kind, func(r result) float64 { return r.send }),
				median(kind, func(r result) float64 { return r.receive }),
				median(kind, func(r result) float64 { return r.wall }))
		}
	}
}

// runBulk returns the processor seconds of the sending and of the receiving
// process, and the seconds that the transfer took.
func runBulk(t *testing.T, kind string, size, total int) [3]float64 {
	receiver := startChild(t, "receive", kind, strconv.Itoa(total))
	addr := receiver.wait(t, "address")
	sender := startChild(t, "send", kind, addr, strconv.Itoa(size), strconv.Itoa(total))
	wall, err := strconv.ParseFloat(receiver.wait(t, "seconds"), 64)
	if err != nil {
		t.Fatal(err)
	}
	cpu := func(c *child) float64 {
		c.end()
		return (c.cmd.ProcessState.UserTime() + c.cmd.ProcessState.SystemTime()).Seconds()
	}
	return [3]float64{cpu(sender), cpu(receiver), wall}
}

func childSend(t *testing.T, kind, addr string, size, total int) {
	transport, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	c, err := wrap(t, kind, 0, RoleClient, transport)
	if err != nil {
		t.Fatal(err)
	}
	p := make([]byte, size)
	for total > 0 {
		n, err := c.Write(p[:min(size, total)])
		if err != nil {
			t.Fatal(err)
		}
		total -= n
	}
	c.Close()
}

func childReceive(t *testing.T, kind string, total int) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	serverConfig(t)
	fmt.Printf("\naddress %v\n", l.Addr())
	transport, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	c, err := wrap(t, kind, 0, RoleServer, transport)
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	p := make([]byte, 64<<10)
	got := 0
	for {
		n, err := c.Read(p)
		got += n
		if err != nil {
			break
		}
	}
	if got != total {
		t.Fatalf("received %d bytes of %d", got, total)
	}
	fmt.Printf("\nseconds %v\n", time.Since(start).Seconds())
	c.Close()
}
