package record

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
)

// TestAlertTable holds the table of alerts complete: every exported error of the
// package's sources has exactly one row, and no row is for anything else.
func TestAlertTable(t *testing.T) {
	declared, rows := make(map[string]bool), make(map[string]int)
	fset := token.NewFileSet()
	names, err := fs.Glob(os.DirFS("."), "*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(fset, name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range file.Decls {
			gen, ok := decl.(*ast.GenDecl)
			if !ok || gen.Tok != token.VAR {
				continue
			}
			for _, spec := range gen.Specs {
				for i, id := range spec.(*ast.ValueSpec).Names {
					if strings.HasPrefix(id.Name, "Err") {
						declared[id.Name] = true
					}
					if id.Name != "alertTable" {
						continue
					}
					for _, elt := range spec.(*ast.ValueSpec).Values[i].(*ast.CompositeLit).Elts {
						rows[elt.(*ast.CompositeLit).Elts[0].(*ast.Ident).Name]++
					}
				}
			}
		}
	}
	if len(declared) < 30 {
		t.Errorf("only %d exported errors found", len(declared))
	}
	for name := range declared {
		if rows[name] != 1 {
			t.Errorf("%s has %d rows in alertTable", name, rows[name])
		}
	}
	for name := range rows {
		if !declared[name] {
			t.Errorf("alertTable has a row for %s, which is not an exported error", name)
		}
	}
}

// TestAlertOf finds for each error the alert that the specification asks for.
//
// "The phrases "terminate the connection with an X alert" and "abort the handshake
// with an X alert" mean that the implementation MUST send alert X if it sends any
// alert." (RFC 9846, Section 6.2)
func TestAlertOf(t *testing.T) {
	seen := make(map[error]bool)
	for _, row := range alertTable {
		if seen[row.err] || row.err == nil || !strings.HasPrefix(row.err.Error(), "record: ") {
			t.Errorf("row of %v", row.err)
		}
		seen[row.err] = true
		for _, err := range []error{row.err, fmt.Errorf("reading from %s: %w", "peer", row.err), errors.Join(errors.New("x"), row.err)} {
			if a, ok := AlertOf(err); a != row.alert || ok != row.send {
				t.Errorf("AlertOf(%v) = %v, %v", err, a, ok)
			}
			if !errors.Is(err, row.err) {
				t.Errorf("%v is not %v", err, row.err)
			}
			var temporary interface{ Temporary() bool }
			if errors.As(err, &temporary) && temporary.Temporary() {
				t.Errorf("%v is temporary", err)
			}
			var timeout interface{ Timeout() bool }
			if errors.As(err, &timeout) && timeout.Timeout() {
				t.Errorf("%v is a timeout", err)
			}
		}
		// Of two errors the first one counts, wherever the table has them.
		other := errors.Join(errors.New("x"), fmt.Errorf("%w, %w", row.err, ErrUnexpectedRecordType))
		want := row.alert
		if !row.send {
			want = AlertUnexpectedMessage
		}
		if a, ok := AlertOf(other); a != want || !ok {
			t.Errorf("AlertOf(%v) = %v, %v", other, a, ok)
		}
		if !row.send && row.alert != 0 {
			t.Errorf("%v: an alert that is not sent", row.err)
		}
	}
	for _, err := range []error{nil, errors.New("other"), fs.ErrClosed} {
		if a, ok := AlertOf(err); ok || a != 0 {
			t.Errorf("AlertOf(%v) = %v, %v: a default", err, a, ok)
		}
	}
}

func TestNames(t *testing.T) {
	for a, want := range map[Alert]string{
		0: "close_notify", 10: "unexpected_message", 20: "bad_record_mac", 22: "record_overflow",
		40: "handshake_failure", 42: "bad_certificate", 47: "illegal_parameter", 50: "decode_error",
		80: "internal_error", 90: "user_canceled", 109: "missing_extension", 117: "general_error",
		120: "no_application_protocol", 1: "alert 1", 255: "alert 255",
	} {
		if a.String() != want {
			t.Errorf("alert %d is %q", uint8(a), a)
		}
	}
	if len(alertNames) != 28 { // the list of RFC 9846, Section 6
		t.Errorf("%d alerts", len(alertNames))
	}
	for a := range 256 {
		if want := a != 0 && a != 90; Alert(a).IsError() != want {
			t.Errorf("IsError of %v", Alert(a))
		}
	}
	for _, test := range []struct{ got, want string }{
		{ContentTypeChangeCipherSpec.String(), "change_cipher_spec"}, {ContentTypeAlert.String(), "alert"},
		{ContentTypeHandshake.String(), "handshake"}, {ContentTypeApplicationData.String(), "application_data"},
		{ContentType(0).String(), "content type 0"}, {ContentType(100).String(), "content type 100"},
		{EpochPlaintext.String(), "plaintext"}, {EpochEarly.String(), "early"}, {EpochHandshake.String(), "handshake"},
		{EpochApplication.String(), "application"}, {Epoch(9).String(), "epoch 9"},
		{(&AlertError{50}).Error(), "record: peer sent alert decode_error"}, {(&AlertError{30}).Error(), "record: peer sent alert 30"},
	} {
		if test.got != test.want {
			t.Errorf("%q, want %q", test.got, test.want)
		}
	}
}

type fakeTimeout struct{ timeout bool }

func (e fakeTimeout) Error() string { return "fake" }
func (e fakeTimeout) Timeout() bool { return e.timeout }

// TestIsTimeout: the timeouts that a Read survives.
func TestIsTimeout(t *testing.T) {
	for _, test := range []struct {
		err  error
		want bool
	}{
		{os.ErrDeadlineExceeded, true},
		{fmt.Errorf("read: %w", os.ErrDeadlineExceeded), true},
		{fakeTimeout{true}, true},
		{fmt.Errorf("read: %w", fakeTimeout{true}), true},
		{&net.OpError{Op: "read", Err: fakeTimeout{true}}, true},
		{fakeTimeout{false}, false},
		{fmt.Errorf("read: %w", fakeTimeout{false}), false},
		{errors.Join(fakeTimeout{false}, os.ErrDeadlineExceeded), true},
		// A dead connection says that it timed out.
		{&net.OpError{Op: "read", Err: os.NewSyscallError("read", syscall.ETIMEDOUT)}, false},
		{fmt.Errorf("read: %w", syscall.ETIMEDOUT), false},
		{io.EOF, false},
		{nil, false},
	} {
		if got := isTimeout(test.err); got != test.want {
			t.Errorf("%v: %v", test.err, got)
		}
	}
}
