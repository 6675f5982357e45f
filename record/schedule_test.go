package record

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"testing"

	"example.com/splitseal/aead"
)

// TestSchedules runs thousands of connections, each of them by a schedule that a
// seed decides: what both sides call, and what their transports do to it. After
// every call the outcome is compared with a model of what a connection is.
//
// SPLITSEAL_SCHEDULES sets how many are run, SPLITSEAL_SCHEDULE_SEED one to run
// again alone.
func TestSchedules(t *testing.T) {
	if seed := os.Getenv("SPLITSEAL_SCHEDULE_SEED"); seed != "" {
		n, err := strconv.ParseUint(seed, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		runSchedule(t, n)
		return
	}
	runs := 2000
	if n := os.Getenv("SPLITSEAL_SCHEDULES"); n != "" {
		var err error
		if runs, err = strconv.Atoi(n); err != nil {
			t.Fatal(err)
		}
	} else if testing.Short() || raceEnabled {
		runs = 500
	}
	outcomes := make(map[string]int)
	for seed := range runs {
		outcomes[runSchedule(t, uint64(seed))]++
		if t.Failed() {
			t.Fatalf("with SPLITSEAL_SCHEDULE_SEED=%d", seed)
		}
	}
	for fault := faultNone; fault < faultCount; fault++ {
		if outcomes[fault.String()] < runs/50 {
			t.Errorf("only %d runs with the fault %v", outcomes[fault.String()], fault)
		}
	}
}

// laneFault is what goes wrong in one direction of a transport.
type laneFault int

const (
	faultNone       laneFault = iota
	faultShortWrite           // a write takes less and returns no error
	faultWriteError           // a write takes less and returns an error
	faultWriteDeadline
	faultReadError
	faultCut     // the end comes early
	faultCorrupt // a byte changes
	faultCount
)

func (f laneFault) String() string {
	return [...]string{"none", "short write", "write error", "write deadline", "read error", "cut", "corrupt"}[f]
}

var errLane = errors.New("lane broken")

// lane is one direction of a transport, in memory.
type lane struct {
	rand    *rand.Rand
	data    []byte // written, not read
	written int    // bytes ever
	read    int
	pace    int  // the most bytes that a read returns, of a slow peer; 0 is any number
	closed  bool // by the writer
	fault   laneFault
	at      int // the byte at which the fault comes
	struck  bool
}

func (l *lane) write(p []byte) (int, error) {
	if l.closed {
		return 0, net.ErrClosed
	}
	n, err := len(p), error(nil)
	if l.fault >= faultShortWrite && l.fault <= faultWriteDeadline && l.written+len(p) > l.at {
		l.struck = true
		n = max(0, l.at-l.written)
		err = [...]error{nil, errLane, os.ErrDeadlineExceeded}[l.fault-faultShortWrite]
		l.at = 0
	}
	l.data = append(l.data, p[:n]...)
	l.written += n
	return n, err
}

func (l *lane) readInto(p []byte) (int, error) {
	if l.rand.IntN(6) == 0 {
		return 0, os.ErrDeadlineExceeded
	}
	n := min(len(p), len(l.data))
	if n > 1 && l.rand.IntN(2) == 0 {
		n = 1 + l.rand.IntN(n)
	}
	if l.pace > 0 {
		n = min(n, l.pace)
	}
	if l.fault == faultReadError || l.fault == faultCut {
		n = min(n, l.at-l.read)
		if l.read == l.at {
			l.struck = true
			if l.fault == faultCut {
				return 0, io.EOF
			}
			return 0, errLane
		}
	}
	if n == 0 {
		if l.closed {
			return 0, io.EOF
		}
		return 0, os.ErrDeadlineExceeded
	}
	copy(p, l.data[:n])
	l.data = l.data[n:]
	if l.fault == faultCorrupt && l.read <= l.at && l.at < l.read+n {
		l.struck = true
		p[l.at-l.read] ^= byte(1 + l.rand.IntN(255))
	}
	l.read += n
	var err error
	if l.closed && len(l.data) == 0 && l.rand.IntN(2) == 0 && l.fault != faultReadError {
		err = io.EOF // together with the last bytes
	}
	return n, err
}

// laneConn is one end of two lanes.
type laneConn struct {
	stub
	in, out *lane
}

func (c *laneConn) Read(p []byte) (int, error)  { return c.in.readInto(p) }
func (c *laneConn) Write(p []byte) (int, error) { return c.out.write(p) }
func (c *laneConn) Close() error                { c.out.closed = true; return nil }

// modelSide is what is known of one side of a connection.
type modelSide struct {
	t    *testing.T
	name string
	conn *Conn
	cfg  ConnConfig   // of conn, and of those that go on after an Export
	seal SealerConfig // of their Sealers
	out  *lane
	peer *modelSide

	sent     []byte // content counted by this side's writes
	received int    // content read from the peer
	into     *shortWriter
	messages []sentMessage
	whole    int // of them, those whose call returned no error
	handled  int // messages of the peer
	alerts   []Alert

	writeErr error // final
	readErr  error // final
	halfShut bool
	alerted  bool // SendAlert has ended the connection
	closed   bool
}

// sentMessage is a handshake message and how much content was sent before it.
type sentMessage struct {
	text []byte
	at   int
}

// runSchedule runs one connection and returns its fault.
func runSchedule(t *testing.T, seed uint64) string {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 9846))
	fault := laneFault(r.IntN(int(faultCount)))
	up, down := &lane{rand: r}, &lane{rand: r}
	if r.IntN(2) == 0 {
		up.fault = fault
	} else {
		down.fault = fault
	}
	up.at, down.at = r.IntN(60_000), r.IntN(60_000)
	if r.IntN(2) == 0 {
		up.at, down.at = up.at%300, down.at%300
	}
	for _, l := range []*lane{up, down} {
		if r.IntN(8) == 0 {
			l.pace = 1 + r.IntN(100)
		}
	}
	connect := func(role Role, s *modelSide, transport *laneConn) {
		limit := 0
		if r.IntN(3) == 0 {
			limit = 64 + r.IntN(2000)
		}
		var padding func(int) int
		if r.IntN(3) == 0 {
			padding = PadToMultiple(1 + r.IntN(300))
		}
		name := "client"
		if role == RoleServer {
			name = "server"
		}
		s.seal = SealerConfig{Padding: padding, RecordSizeLimit: limit, SoftLimit: uint64(1 + r.IntN(40))}
		s.cfg = ConnConfig{
			Role:                role,
			Sealer:              appSealer(t, scheduleSuite, name, s.seal),
			OnAlert:             func(a Alert, sent bool) { s.alert(a, sent) },
			DynamicRecordSizing: r.IntN(4) == 0,
			KeepBuffer:          r.IntN(4) == 0,
			HandleMessage:       func(_ *Conn, m []byte) error { s.handle(m); return nil },
		}
		s.conn = newConn(t, transport, s.cfg)
	}
	client, server := &modelSide{t: t, name: "client", out: up}, &modelSide{t: t, name: "server", out: down}
	client.peer, server.peer = server, client
	connect(RoleClient, client, &laneConn{in: down, out: up})
	connect(RoleServer, server, &laneConn{in: up, out: down})

	for range 10 + r.IntN(60) {
		s := client
		if r.IntN(2) == 0 {
			s = server
		}
		s.step(r)
		if t.Failed() {
			return fault.String()
		}
	}
	// Whatever is still to be read is read, and both sides are closed.
	for _, s := range []*modelSide{client, server} {
		if !s.closed {
			s.noteWrite("CloseWrite", s.conn.CloseWrite())
		}
	}
	for idle := 0; idle < 30; idle++ { // in a row, deadlines among them
		for _, s := range []*modelSide{client, server} {
			before := [3]int{s.received, len(s.peer.out.data), s.conn.in.end - s.conn.in.start}
			if !s.closed && s.readErr == nil {
				s.read(r, 1+r.IntN(40_000))
			}
			if before != [3]int{s.received, len(s.peer.out.data), s.conn.in.end - s.conn.in.start} {
				idle = 0
			}
		}
		if t.Failed() {
			return fault.String()
		}
	}
	client.finish()
	server.finish()
	for _, s := range []*modelSide{client, server} {
		if s.conn.in.b != nil && s.conn.in.config.KeepBuffer == false && s.conn.in.err != nil {
			t.Error("a buffer is still there")
		}
		if !s.closed {
			s.conn.Close()
		}
		if s.conn.in.opener.keys != nil || s.conn.out.sealer.keys != nil {
			t.Errorf("%s: keys are still there", s.name)
		}
	}
	return fault.String()
}

// step makes one call of s's and checks it.
func (s *modelSide) step(r *rand.Rand) {
	if s.closed {
		if n, err := s.conn.Write([]byte("x")); n != 0 || err != net.ErrClosed {
			s.t.Errorf("%s: Write after Close: %d, %v", s.name, n, err)
		}
		return
	}
	size := r.IntN(200)
	if r.IntN(8) == 0 {
		size = r.IntN(40_000)
	}
	data := scheduleData[len(s.sent)%1000:][:size]
	switch op := r.IntN(23); {
	case op < 5:
		n, err := s.conn.Write(data)
		s.noteSent(data, n, err)
	case op < 7:
		pieces, rest := net.Buffers{}, data
		for len(rest) > 0 {
			n := r.IntN(min(len(rest), 600) + 1)
			pieces, rest = append(pieces, rest[:n]), rest[n:]
		}
		n, err := s.conn.WriteBuffers(pieces)
		s.noteSent(data, int(n), err)
	case op < 8:
		n, err := s.conn.ReadFrom(&randomReader{rand: r, r: bytes.NewReader(data)})
		s.noteSent(data, int(n), err)
	case op < 16:
		s.read(r, r.IntN(500))
	case op < 17:
		s.read(r, r.IntN(50_000))
	case op < 18:
		s.noteWrite("KeyUpdate", s.conn.KeyUpdate(r.IntN(2) == 0))
	case op < 19:
		s.writeHandshake(message(uint8(50+r.IntN(200)), size%2000))
	case op < 20:
		s.export()
	case op < 21 && r.IntN(10) == 0:
		s.noteWrite("CloseWrite", s.conn.CloseWrite())
		s.halfShut = s.halfShut || s.writeErr == nil
	case op < 22 && r.IntN(40) == 0:
		s.conn.Close()
		s.closed = true
	case op < 23 && r.IntN(20) == 0:
		s.sendAlert()
	}
}

// noteSent checks a call that sends data.
func (s *modelSide) noteSent(data []byte, n int, err error) {
	if n < 0 || n > len(data) || err == nil && n < len(data) {
		s.t.Fatalf("%s: count %d of %d, %v", s.name, n, len(data), err)
	}
	s.sent = append(s.sent, data[:n]...)
	if len(data) == 0 && n == 0 && err == nil {
		return // says nothing
	}
	s.noteWrite("Write", err)
}

// writeHandshake sends a message.
func (s *modelSide) writeHandshake(m []byte) {
	if s.writeErr == nil && !s.halfShut {
		s.messages = append(s.messages, sentMessage{m, len(s.sent)})
	}
	err := s.conn.WriteHandshake(m)
	if err == nil {
		s.whole = len(s.messages)
	}
	s.noteWrite("WriteHandshake", err)
}

// handle checks a message of the peer, which comes behind the data that was sent before
// it and in front of all other.
func (s *modelSide) handle(m []byte) {
	received := s.received
	if s.into != nil {
		received += len(s.into.data)
	}
	from := s.peer.messages[s.handled:]
	if len(from) == 0 || !bytes.Equal(m, from[0].text) || received != from[0].at {
		s.t.Errorf("%s: message %d differs, or does not belong behind %d bytes", s.name, s.handled, received)
		return
	}
	s.handled++
}

// sendAlert ends the connection. What ended a direction before stays its error.
func (s *modelSide) sendAlert() {
	readErr := s.conn.in.err
	if err := s.conn.SendAlert(AlertInternalError); err != nil {
		if !s.ended(err) {
			s.t.Errorf("%s: SendAlert: %v out of nothing", s.name, err)
		}
		return
	}
	s.alerted = true
	if s.writeErr == nil && !s.halfShut {
		s.writeErr = errAlertSent
		if len(s.alerts) == 0 && !s.out.struck {
			s.t.Errorf("%s: SendAlert has sent nothing", s.name)
		}
	}
	if s.readErr = readErr; readErr == nil {
		s.readErr = errAlertSent
	}
}

// ended reports whether err is what has ended the connection or one direction. A Read may
// have found it behind the data that it returned.
func (s *modelSide) ended(err error) bool {
	return err == s.writeErr || err == s.readErr || err == s.conn.in.err || err == s.conn.in.opener.Err() ||
		s.halfShut && err == ErrClosed || s.alerted && err == errAlertSent
}

// export has another Conn go on, unless a direction has ended or something is partly
// through.
func (s *modelSide) export() {
	old, in := s.conn, &s.conn.in
	partial := in.start < in.end || len(in.plain) > 0 || in.held != nil || in.opener.HandshakePartial()
	sealer, opener, err := old.Export()
	if err != nil {
		if !s.ended(err) && !(partial && err == ErrHandshakePartial) {
			s.t.Errorf("%s: Export: %v out of nothing", s.name, err)
		}
		return
	}
	if s.writeErr != nil || s.readErr != nil || s.halfShut {
		s.t.Errorf("%s: exported after %v and %v", s.name, s.writeErr, s.readErr)
	}
	cfg := s.cfg
	if cfg.Sealer, err = ImportSealer(sealer, s.seal); err == nil {
		cfg.Opener, cfg.Unread, err = ImportOpener(opener, OpenerConfig{})
	}
	if err != nil {
		s.t.Fatal(err)
	}
	s.conn = newConn(s.t, old.NetConn(), cfg)
	n, err := old.Write([]byte("x"))
	if closeErr := old.Close(); n != 0 || err != ErrExported || closeErr != ErrExported {
		s.t.Errorf("%s: after Export: %d, %v, %v", s.name, n, err, closeErr)
	}
}

// noteWrite checks the error of a call that writes.
func (s *modelSide) noteWrite(call string, err error) {
	// A Read may have found it behind the data that it returned.
	readErr := s.conn.in.err
	switch {
	case s.writeErr != nil && s.writeErr != err:
		s.t.Errorf("%s: %s: %v after %v", s.name, call, err, s.writeErr)
	case s.halfShut && err != ErrClosed && err != readErr && !(call == "CloseWrite" && err == nil):
		s.t.Errorf("%s: %s: %v after CloseWrite", s.name, call, err)
	case err == nil, s.halfShut, err == s.writeErr:
	default:
		var transport *TransportError
		if !errors.As(err, &transport) && err != readErr {
			s.t.Errorf("%s: %s: %v out of nothing", s.name, call, err)
		}
		if transport != nil && !s.out.struck {
			s.t.Errorf("%s: %s: %v of a transport that works", s.name, call, err)
		}
		if isTemporary(err) {
			s.t.Errorf("%s: %s: temporary error %v", s.name, call, err)
		}
		s.writeErr = err
	}
}

// read reads once and checks it against what the peer has sent.
func (s *modelSide) read(r *rand.Rand, size int) {
	p := make([]byte, size)
	var n int
	var err error
	if r.IntN(5) == 0 && size > 0 {
		w := &shortWriter{room: size}
		s.into = w
		var m int64
		m, err = s.conn.WriteTo(w)
		s.into = nil
		n = copy(p, w.data)
		if int(m) != n {
			s.t.Errorf("%s: WriteTo says %d and has written %d", s.name, m, n)
		}
		if err == errFull {
			err = nil
		} else if err == nil {
			err = io.EOF
		}
	} else {
		n, err = s.conn.Read(p)
		if n > 0 && err != nil {
			s.t.Errorf("%s: %d bytes and %v", s.name, n, err)
		}
		if n == 0 && err == nil && size > 0 {
			s.t.Errorf("%s: nothing and no error", s.name)
		}
	}
	from := s.peer.sent
	if s.received+n > len(from) || !bytes.Equal(p[:n], from[s.received:s.received+n]) {
		s.t.Errorf("%s: received what was not sent, or not counted: %d bytes after %d of %d", s.name, n, s.received, len(from))
		return
	}
	s.received += n
	if err == nil || size == 0 {
		return
	}
	if isTimeout(err) {
		if s.readErr != nil {
			s.t.Errorf("%s: a deadline after %v", s.name, s.readErr)
		}
		return
	}
	if s.readErr != nil && err != s.readErr {
		s.t.Errorf("%s: Read: %v after %v", s.name, err, s.readErr)
	}
	if n > 0 && s.readErr != nil {
		s.t.Errorf("%s: data after %v", s.name, s.readErr)
	}
	s.readErr = err
}

func (s *modelSide) alert(a Alert, sent bool) {
	if sent {
		s.alerts = append(s.alerts, a)
	}
}

// finish checks a side when all is over.
func (s *modelSide) finish() {
	in, from := s.peer.out, s.peer
	all := s.received == len(from.sent) && s.handled >= from.whole
	_, broken := from.writeErr.(*TransportError)
	switch {
	case s.closed:
	case broken:
		// What was counted arrives, all of it and no more.
		if !all && s.readErr == nil {
			s.t.Errorf("%s: received %d of the %d bytes and %d of the %d messages that the peer counted (%v)",
				s.name, s.received, len(from.sent), s.handled, from.whole, from.writeErr)
		}
		if s.readErr == io.EOF && !from.closed {
			s.t.Errorf("%s: a clean end of a broken direction", s.name)
		}
	case !in.struck && from.alerted && len(from.alerts) > 0 && from.alerts[0].IsError() && !s.alerted:
		var received *AlertError
		if !errors.As(s.readErr, &received) || received.Alert != from.alerts[0] || !all {
			s.t.Errorf("%s: %v after %d of %d bytes, and the peer has sent %v", s.name, s.readErr, s.received, len(from.sent), from.alerts)
		}
	case !in.struck && s.readErr == io.EOF:
		if !all {
			s.t.Errorf("%s: the end after %d of %d bytes, %d of %d messages", s.name, s.received, len(from.sent), s.handled, from.whole)
		}
		if a, b := s.conn.in.opener.Generation(), from.conn.out.sealer.Generation(); a != b {
			s.t.Errorf("%s: %d key updates, the peer has made %d", s.name, a, b)
		}
	case in.struck && in.fault == faultCut && s.readErr == io.EOF,
		in.struck && in.fault == faultCorrupt && s.readErr == io.EOF && s.received < len(from.sent):
		s.t.Errorf("%s: a clean end for a %v", s.name, in.fault)
	case in.struck && in.fault == faultReadError && s.readErr != nil && !errors.Is(s.readErr, errLane) && !s.alerted:
		s.t.Errorf("%s: %v for a read error", s.name, s.readErr)
	case !in.struck && s.readErr == nil && from.writeErr == nil && s.writeErr == nil:
		s.t.Errorf("%s: no end, after %d of %d bytes", s.name, s.received, len(from.sent))
	}
	switch {
	case len(s.alerts) > 1:
		s.t.Errorf("%s: sent alerts %v", s.name, s.alerts)
	case len(s.alerts) == 1 && s.alerts[0].IsError() && s.alerted:
		if s.alerts[0] != AlertInternalError {
			s.t.Errorf("%s: sent %v for internal_error", s.name, s.alerts[0])
		}
	case len(s.alerts) == 1 && s.alerts[0].IsError():
		if want, ok := AlertOf(s.readErr); !ok || want != s.alerts[0] {
			s.t.Errorf("%s: sent %v for %v", s.name, s.alerts[0], s.readErr)
		}
		if !in.struck {
			s.t.Errorf("%s: sent %v to a peer that did nothing wrong", s.name, s.alerts[0])
		}
	}
}

// shortWriter takes so many bytes.
type shortWriter struct {
	data []byte
	room int
}

var errFull = errors.New("full")

func (w *shortWriter) Write(p []byte) (int, error) {
	n := min(len(p), w.room)
	w.data = append(w.data, p[:n]...)
	w.room -= n
	if w.room == 0 {
		return n, errFull
	}
	return n, nil
}

var (
	scheduleSuite = aead.AES128GCM()
	scheduleData  = pattern(50_000)
)
