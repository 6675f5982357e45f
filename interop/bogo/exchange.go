package main

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
)

// exchange does what the options say with a connection, up to the end of what the
// runner sends. It leaves the Close to its caller.
func exchange(p *peer, t *transport, o *options) error {
	if o.exportSize > 0 {
		var context []byte
		if o.useExportContext {
			context = []byte(o.exportContext)
		}
		material, err := p.keying(o.exportLabel, context, o.exportSize)
		if err != nil {
			return err
		}
		if err := write(p, material); err != nil {
			return err
		}
	}
	if o.exportSecrets {
		theirs, ours, err := p.secrets()
		if err != nil {
			return err
		}
		text := binary.LittleEndian.AppendUint16(nil, uint16(len(theirs)))
		if err := write(p, append(append(text, theirs...), ours...)); err != nil {
			return err
		}
	}
	if o.sendAlert {
		return p.conn.SendAlert(alertDecompressionFailure)
	}
	if o.recordSizes {
		content := bytes.Repeat([]byte{0x42}, 32769)
		for _, size := range []int{0, 1, 255, 256, 257, 16383, 16384, 16385, 32767, 32768, 32769} {
			if err := write(p, content[:size]); err != nil {
				return err
			}
		}
		return nil
	}
	pending := func() error { return nil }
	switch {
	case o.unfinishedWrite:
		stuck := t.stall()
		written := make(chan error, 1)
		go func() { written <- write(p, []byte(o.initialWrite)) }()
		<-stuck
		pending = func() error {
			t.release()
			return <-written
		}
	case o.writesFirst:
		for range o.repeatInitialWrite {
			if err := write(p, []byte(o.initialWrite)); err != nil {
				return err
			}
		}
	}
	if o.shutsDown {
		return shutDown(p, o)
	}
	e := &echo{peer: p, options: o, pending: pending}
	var err error
	if o.writeTo {
		_, err = p.conn.WriteTo(e)
		for isTimeout(err) {
			_, err = p.conn.WriteTo(e)
		}
	} else {
		err = e.run()
	}
	if err == nil && e.pending != nil {
		err = e.pending()
	}
	return err
}

// alertDecompressionFailure has no use in TLS 1.3, and is the one that the runner wants.
const alertDecompressionFailure = 30

// shutDown ends the writing side first and waits for the runner to do so, if it is
// to be checked.
func shutDown(p *peer, o *options) error {
	if err := p.conn.CloseWrite(); err != nil {
		return err
	}
	if !o.checkCloseNotify {
		return nil
	}
	switch n, err := read(p.conn, make([]byte, 512)); {
	case err == io.EOF:
		return nil
	case err != nil:
		return err
	default:
		return fmt.Errorf("%d bytes of application data on shutdown", n)
	}
}

// echo returns to the runner what it sends, each byte inverted.
type echo struct {
	*peer
	*options
	pending func() error // what to do when the first data have arrived
}

func (e *echo) run() error {
	size := 512
	if e.readSize > 0 {
		size = e.readSize
	}
	var from io.Reader = e.conn
	if e.peek {
		from = &peeker{Reader: bufio.NewReader(e.conn)}
	}
	for {
		if e.keyUpdateRead {
			if err := e.conn.KeyUpdate(false); err != nil {
				return err
			}
		}
		buf := make([]byte, size)
		n, err := read(from, buf)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if _, err := e.Write(buf[:n]); err != nil {
			return err
		}
	}
}

// peeker peeks before it reads.
type peeker struct{ *bufio.Reader }

func (p *peeker) Read(b []byte) (int, error) {
	if _, err := p.Peek(1); err != nil {
		return 0, err
	}
	return p.Reader.Read(b)
}

// Write implements io.Writer.
func (e *echo) Write(p []byte) (int, error) {
	if e.pending != nil {
		if err := e.pending(); err != nil {
			return 0, err
		}
		e.pending = nil
	}
	if e.keyUpdate {
		if err := e.conn.KeyUpdate(false); err != nil {
			return 0, err
		}
	}
	reply := make([]byte, len(p))
	for i := range p {
		reply[i] = ^p[i]
	}
	return len(p), write(e.peer, reply)
}

// read reads until there is something or an error that does not pass.
func read(r io.Reader, p []byte) (n int, err error) {
	for {
		n, err = r.Read(p)
		if n > 0 {
			return n, nil
		}
		if !isTimeout(err) {
			return 0, err
		}
	}
}

func write(p *peer, content []byte) error {
	n, err := p.conn.Write(content)
	if err == nil && n < len(content) {
		err = io.ErrShortWrite
	}
	return err
}

func isTimeout(err error) bool {
	var n net.Error
	return errors.Is(err, os.ErrDeadlineExceeded) && errors.As(err, &n) && n.Timeout()
}
