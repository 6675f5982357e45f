// Command host loads the plugin that it is given, lets it seal and open, and
// prints the backend that it used.
package main

import (
	"fmt"
	"os"
	"plugin"
)

func main() {
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(path string) error {
	p, err := plugin.Open(path)
	if err != nil {
		return err
	}
	check, err := p.Lookup("Run")
	if err != nil {
		return err
	}
	backend, err := p.Lookup("Backend")
	if err != nil {
		return err
	}
	if err := check.(func() error)(); err != nil {
		return err
	}
	name, err := backend.(func() (string, error))()
	if err != nil {
		return err
	}
	fmt.Println(name)
	return nil
}
