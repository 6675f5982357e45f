//go:build unix

package cryptotls

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// BenchmarkHTTP measures the processor time, user's and system's, of a net/http server
// for a request, over crypto/tls's listener and over a Listener. The servers are
// processes of their own, so that the client, which is crypto/tls's, is not in it. They
// take turns; what is reported is the median turn of each, and the median ratio of two
// neighbours, below 1 if a Listener takes less.
//
// The sizes are those of responses, on 8 connections that are kept; for "connection"
// each request has a new one, and its handshake is in the time.
func BenchmarkHTTP(b *testing.B) {
	servers := []*benchServer{startBenchServer(b, "crypto/tls"), startBenchServer(b, "Listener")}
	for _, bb := range []struct {
		name  string
		size  int
		turn  int // requests
		close bool
	}{
		{"100", 100, 400, false},
		{"10240", 10240, 400, false},
		{"102400", 102400, 160, false},
		{"10485760", 10485760, 8, false},
		{"connection", 100, 80, true},
	} {
		b.Run(bb.name, func(b *testing.B) {
			var times [2][]float64
			var ratios []float64
			for i := range servers {
				servers[i].turn(b, bb.turn, bb.size, bb.close) // opens the connections
			}
			for n := 0; b.Loop(); n++ {
				for i := range servers {
					i ^= n & 1
					times[i] = append(times[i], servers[i].turn(b, bb.turn, bb.size, bb.close))
				}
				ratios = append(ratios, times[1][n]/times[0][n])
			}
			b.ReportMetric(0, "ns/op") // of two turns and the client
			b.ReportMetric(median(times[0]), "tls-cpu-ns/request")
			b.ReportMetric(median(times[1]), "cpu-ns/request")
			b.ReportMetric(median(ratios), "ratio")
		})
	}
}

// benchServer is a server in another process.
type benchServer struct {
	addr    string
	client  *http.Client
	ask     io.Writer
	answers *bufio.Scanner
}

// startBenchServer starts this program again, which becomes a server: see
// [runBenchServer].
func startBenchServer(b *testing.B, listener string) *benchServer {
	exe, err := os.Executable()
	if err != nil {
		b.Skip("the test binary does not know where it is: ", err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), benchServerEnv+"="+listener)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	s := &benchServer{ask: in, answers: bufio.NewScanner(out)}
	s.client = &http.Client{Timeout: waitLimit, Transport: &http.Transport{
		TLSClientConfig:     &tls.Config{InsecureSkipVerify: true}, // our own child, over loopback
		MaxIdleConnsPerHost: benchConns,
	}}
	b.Cleanup(func() {
		s.client.CloseIdleConnections()
		in.Close()
		cmd.Wait()
	})
	s.addr = s.answer(b)
	return s
}

// turn makes requests and returns the processor time that the server took for each, in
// nanoseconds.
func (s *benchServer) turn(b *testing.B, requests, size int, close bool) float64 {
	before := s.cpu(b)
	var clients sync.WaitGroup
	for range benchConns {
		clients.Go(func() {
			for range requests / benchConns {
				if err := s.get(size, close); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	clients.Wait()
	return float64(s.cpu(b)-before) / float64(requests)
}

func (s *benchServer) get(size int, close bool) error {
	req, err := http.NewRequest("GET", "https://"+s.addr+"/"+strconv.Itoa(size), nil)
	if err != nil {
		return err
	}
	req.Close = close
	resp, err := s.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if n, err := io.Copy(io.Discard, resp.Body); err != nil || n != int64(size) {
		return fmt.Errorf("%d bytes of %d: %v", n, size, err)
	}
	return nil
}

// cpu returns the server's processor time so far, in nanoseconds.
func (s *benchServer) cpu(b *testing.B) int64 {
	if _, err := io.WriteString(s.ask, "\n"); err != nil {
		b.Fatal(err)
	}
	n, err := strconv.ParseInt(s.answer(b), 10, 64)
	if err != nil {
		b.Fatal(err)
	}
	return n
}

func (s *benchServer) answer(b *testing.B) string {
	if !s.answers.Scan() {
		b.Fatalf("the server has ended: %v", s.answers.Err())
	}
	return s.answers.Text()
}

func init() {
	if listener := os.Getenv(benchServerEnv); listener != "" {
		runBenchServer(listener)
		os.Exit(0)
	}
}

// runBenchServer serves responses of the size that the path is, over one of the
// listeners. It says its address on the standard output, then its processor time for
// each line of the standard input, and ends with that.
func runBenchServer(listener string) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Println(ln.Addr())
	config := serverConfig()
	if listener == "Listener" {
		ln = NewListener(ln, config, nil)
	} else {
		ln = tls.NewListener(ln, config)
	}
	body := strings.Repeat("0123456789abcdef", 10485760/16)
	go http.Serve(ln, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		size, err := strconv.Atoi(r.URL.Path[1:])
		if err != nil || size < 0 || size > len(body) {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/plain")
		http.ServeContent(w, r, "", time.Time{}, strings.NewReader(body[:size]))
	}))
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		var usage syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
			panic(err)
		}
		fmt.Println(usage.Utime.Nano() + usage.Stime.Nano())
	}
}

func median(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}

const (
	benchServerEnv = "SPLITSEAL_BENCH_SERVER"
	benchConns     = 8
)
