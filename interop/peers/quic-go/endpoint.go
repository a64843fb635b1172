// quic-go as client and server of the interop tests.
package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
	"github.com/quic-go/quic-go/qlog"
)

const unsupported = 127

// The longest request line of HTTP/0.9 that is read.
const longestRequest = 4096

var tests = map[string]bool{
	"handshake": true, "transfer": true, "longrtt": true, "retry": true, "resumption": true, "zerortt": true, "http3": true,
	"multiconnect": true, "keyupdate": true, "ecn": true, "goodput": true, "crosstraffic": true,
}

func env(name, without string) string {
	if value := os.Getenv(name); value != "" {
		return value
	}
	return without
}

func quicConfig() *quic.Config {
	return &quic.Config{
		MaxIdleTimeout:       30 * time.Second,
		HandshakeIdleTimeout: 20 * time.Second,
		MaxIncomingStreams:   1000,
		Allow0RTT:            true,
		Tracer:               qlog.DefaultConnectionTracer,
	}
}

func tlsConfig(alpn string) (*tls.Config, error) {
	config := &tls.Config{NextProtos: []string{alpn}, MinVersion: tls.VersionTLS13}
	if keys := os.Getenv("SSLKEYLOGFILE"); keys != "" {
		file, err := os.OpenFile(keys, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			return nil, err
		}
		config.KeyLogWriter = file
	}
	return config, nil
}

func server(test, alpn string) error {
	certs := env("CERTS", "/certs")
	pair, err := tls.LoadX509KeyPair(filepath.Join(certs, "cert.pem"), filepath.Join(certs, "priv.key"))
	if err != nil {
		return err
	}
	config, err := tlsConfig(alpn)
	if err != nil {
		return err
	}
	config.Certificates = []tls.Certificate{pair}
	socket, err := net.ListenPacket("udp", net.JoinHostPort(env("IP", "::"), env("PORT", "443")))
	if err != nil {
		return err
	}
	transport := &quic.Transport{Conn: socket}
	if test == "retry" {
		transport.VerifySourceAddress = func(net.Addr) bool { return true }
	}
	if alpn == "h3" {
		config = http3.ConfigureTLSConfig(config)
	}
	listener, err := transport.ListenEarly(config, quicConfig())
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(env("WWW", "/www"))
	if err != nil {
		return err
	}
	if alpn == "h3" {
		files := &http3.Server{Handler: http.FileServerFS(root.FS())}
		go files.ServeListener(listener)
	} else {
		go func() {
			for {
				connection, err := listener.Accept(context.Background())
				if err != nil {
					return
				}
				go serve(connection, root)
			}
		}()
	}
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGTERM)
	<-end
	return nil
}

// serve answers each stream of a connection: a line with GET and a path, then the file.
func serve(connection *quic.Conn, root *os.Root) {
	for {
		stream, err := connection.AcceptStream(context.Background())
		if err != nil {
			return
		}
		go func() {
			line, err := bufio.NewReader(io.LimitReader(stream, longestRequest)).ReadString('\n')
			words := strings.Fields(line)
			if (err != nil && err != io.EOF) || len(words) != 2 || words[0] != "GET" {
				stream.CancelWrite(1)
				return
			}
			file, err := root.Open(strings.TrimPrefix(words[1], "/"))
			if err != nil {
				stream.CancelWrite(1)
				return
			}
			defer file.Close()
			if _, err := io.Copy(stream, file); err != nil {
				stream.CancelWrite(1)
				return
			}
			stream.Close()
		}()
	}
}

type request struct {
	url  *url.URL
	file string
}

func requests() ([]request, error) {
	var all []request
	for _, each := range strings.Fields(os.Getenv("REQUESTS")) {
		parsed, err := url.Parse(each)
		if err != nil {
			return nil, err
		}
		name := path.Base(parsed.Path)
		if name == "/" || name == "." {
			name = "index.html"
		}
		all = append(all, request{parsed, filepath.Join(env("DOWNLOADS", "/downloads"), name)})
	}
	if len(all) == 0 {
		return nil, errors.New("REQUESTS names no URL")
	}
	return all, nil
}

// tickets tells when the server's session ticket is there.
type tickets struct {
	tls.ClientSessionCache
	came chan struct{}
	once sync.Once
}

func (t *tickets) Put(key string, state *tls.ClientSessionState) {
	t.ClientSessionCache.Put(key, state)
	if state != nil {
		t.once.Do(func() { close(t.came) })
	}
}

func client(test, alpn string) error {
	all, err := requests()
	if err != nil {
		return err
	}
	config, err := tlsConfig(alpn)
	if err != nil {
		return err
	}
	config.ServerName = "localhost"
	if roots, err := os.ReadFile(filepath.Join(env("CERTS", "/certs"), "ca.pem")); err == nil {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(roots) {
			return errors.New("ca.pem holds no certificate")
		}
	} else {
		config.InsecureSkipVerify = true
	}
	store := &tickets{ClientSessionCache: tls.NewLRUClientSessionCache(8), came: make(chan struct{})}
	config.ClientSessionCache = store
	connections := [][]request{all}
	twice := test == "resumption" || test == "zerortt"
	if twice {
		connections = [][]request{all[:1], all[1:]}
	}
	if test == "multiconnect" {
		connections = nil
		for i := range all {
			connections = append(connections, all[i:i+1])
		}
	}
	for number, each := range connections {
		if err := fetch(test, alpn, config, each, twice && number > 0); err != nil {
			return err
		}
		if twice && number == 0 {
			select {
			case <-store.came:
			case <-time.After(2 * time.Second):
				return errors.New("the server sent no session ticket")
			}
		}
	}
	return nil
}

// fetch makes one connection and gets its files over it.
func fetch(test, alpn string, config *tls.Config, all []request, again bool) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	address := net.JoinHostPort(env("FATHOM_ADDRESS", "127.0.0.1"), env443(all[0].url))
	dial := quic.DialAddr
	if again && test == "zerortt" {
		dial = quic.DialAddrEarly
	}
	connection, err := dial(ctx, address, config, quicConfig())
	if err != nil {
		return err
	}
	defer connection.CloseWithError(0, "")
	get := over09(ctx, connection)
	if alpn == "h3" {
		get = over3(ctx, (&http3.Transport{DisableCompression: true}).NewClientConn(connection))
	}
	failed := make(chan error, len(all))
	for _, each := range all {
		go func() { failed <- get(each) }()
	}
	for range all {
		if err := <-failed; err != nil {
			return err
		}
	}
	<-connection.HandshakeComplete()
	state := connection.ConnectionState()
	if again && !state.TLS.DidResume {
		return errors.New("the session was not resumed")
	}
	if again && test == "zerortt" && !state.Used0RTT {
		return errors.New("the server took no 0-RTT")
	}
	return nil
}

func env443(address *url.URL) string {
	if port := address.Port(); port != "" {
		return port
	}
	return "443"
}

func store(name string, body io.Reader) error {
	file, err := os.Create(name)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, body)
	return errors.Join(err, file.Close())
}

func over09(ctx context.Context, connection *quic.Conn) func(request) error {
	return func(wanted request) error {
		stream, err := connection.OpenStreamSync(ctx)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(stream, "GET %s\r\n", wanted.url.Path); err != nil {
			return err
		}
		if err := stream.Close(); err != nil {
			return err
		}
		return store(wanted.file, stream)
	}
}

func over3(ctx context.Context, connection *http3.ClientConn) func(request) error {
	return func(wanted request) error {
		ask, err := http.NewRequestWithContext(ctx, http.MethodGet, wanted.url.String(), nil)
		if err != nil {
			return err
		}
		answer, err := connection.RoundTrip(ask)
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			return fmt.Errorf("%s: %s", wanted.url, answer.Status)
		}
		return store(wanted.file, answer.Body)
	}
}

func main() {
	role, test := os.Getenv("ROLE"), os.Getenv("TESTCASE")
	if (role != "client" && role != "server") || !tests[test] {
		fmt.Fprintf(os.Stderr, "quic-go: no %s of test %q\n", role, test)
		os.Exit(unsupported)
	}
	run, alpn := server, "hq-interop"
	if role == "client" {
		run = client
	}
	if test == "http3" {
		alpn = "h3"
	}
	if err := run(test, alpn); err != nil {
		fmt.Fprintln(os.Stderr, "quic-go:", err)
		os.Exit(1)
	}
}
