// Package project has no code, only tests of the repository as a whole: that
// imports point one way, that documentation links and commands lead somewhere,
// and that the root module needs what it says.
package project
