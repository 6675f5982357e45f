package record

import "fmt"

// These methods keep content out of logs. They read nothing that ever changes, so a
// program may print a Conn in use.

// Format prints the role and the suite, whatever the verb, and no content.
//
// fmt does not call it for a Conn in an unexported field, for which it prints an
// address, but what waits to be read if the verb does not fit a pointer, as %s does not.
func (c *Conn) Format(s fmt.State, verb rune) {
	if c.suite == nil {
		fmt.Fprint(s, "record.Conn(not made by NewConn)")
		return
	}
	fmt.Fprintf(s, "record.Conn(%v, %s)", c.role, c.suite.Name())
}

// Format prints the name of the type, whatever the verb, and no content.
func (r *Reader) Format(s fmt.State, verb rune) { fmt.Fprint(s, "record.Reader") }

// Format prints the name of the type, whatever the verb, and no message.
func (r *HandshakeReader) Format(s fmt.State, verb rune) { fmt.Fprint(s, "record.HandshakeReader") }
