//! Tests of `fathom link` from the command line: datagrams pass, counts are printed, and invalid
//! input is reported in one line.

use std::io::{self, BufRead, BufReader, Read};
use std::net::{SocketAddr, UdpSocket};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

fn fathom(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_fathom")).args(args).output().expect("fathom runs")
}

fn socket() -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    // Only a relay that hangs takes this long.
    socket.set_read_timeout(Some(Duration::from_secs(120))).expect("a timeout");
    socket
}

/// Starts a relay to `server`, and returns the process and the address on which it listens.
fn relay(server: &UdpSocket, args: &[&str]) -> (Child, SocketAddr) {
    let to = server.local_addr().expect("an address").to_string();
    let mut child = Command::new(env!("CARGO_BIN_EXE_fathom"))
        .args(["link", "--listen", "127.0.0.1:0", "--to", &to, "--json", "-"])
        .args(args)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("fathom runs");
    let mut line = String::new();
    BufReader::new(child.stderr.take().expect("standard error"))
        .read_line(&mut line)
        .expect("a line");
    let address = line.split(' ').nth(1).and_then(|a| a.parse().ok());
    (child, address.unwrap_or_else(|| panic!("no address in '{line}'")))
}

/// Repeats a wait that a signal to this process interrupted: the kernel does not restart waits on
/// sockets with a timeout (signal(7)).
fn again<T>(mut wait: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match wait() {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}

fn interrupt(child: &Child) {
    let done =
        Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill runs");
    assert!(done.success());
}

fn counts(mut child: Child) -> serde_json::Value {
    let mut text = String::new();
    child.stdout.take().expect("standard output").read_to_string(&mut text).expect("text");
    assert!(child.wait().expect("an end").success());
    serde_json::from_str(&text).expect("JSON")
}

#[test]
fn interrupt_ends_the_link_and_prints_its_counts() {
    let (server, client) = (socket(), socket());
    let (child, address) =
        relay(&server, &["--rate", "10Mbps", "--delay", "5ms", "--up-delay", "10ms"]);
    client.send_to(&[7; 100], address).expect("sent");
    let mut buffer = [0; 200];
    let (n, from) = again(|| server.recv_from(&mut buffer)).expect("the datagram");
    server.send_to(&buffer[..n], from).expect("sent");
    assert_eq!(again(|| client.recv(&mut buffer)).expect("the answer"), 100);
    interrupt(&child);
    let counts = counts(child);
    assert_eq!(
        (&counts["to_server"]["forwarded"], &counts["to_clients"]["bytes"]),
        (&1.into(), &100.into()),
        "{counts}"
    );
    assert_eq!((&counts["clients"], &counts["overrun"]), (&1.into(), &0.into()));
}

#[test]
fn commands_change_a_link_while_it_runs() {
    let (server, client) = (socket(), socket());
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("link.sock");
    let path = path.to_str().expect("a name");
    let (child, address) =
        relay(&server, &["--rate", "10Mbps", "--delay", "5ms", "--control", path]);
    let ctl = |commands: &[&str]| {
        let out = fathom(&[&["link", "ctl", path], commands].concat());
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
        (out.status.code(), text(out.stdout), text(out.stderr))
    };
    assert_eq!(ctl(&["up-loss 100%", "rate 1Mbps"]), (Some(0), "ok\nok\n".into(), String::new()));
    for _ in 0..5 {
        client.send_to(&[7; 100], address).expect("sent");
    }
    // A response covers only the datagrams that the relay read before it.
    let lost = || {
        let (_, text, _) = ctl(&["status"]);
        let status: serde_json::Value =
            serde_json::from_str(text.trim().strip_prefix("ok ").expect("ok")).expect("JSON");
        status["to_server"]["lost"] == 5
    };
    while !lost() {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(ctl(&["up-loss none"]).1, "ok\n");
    client.send_to(&[8; 100], address).expect("sent");
    let mut buffer = [0; 200];
    let (n, _) = again(|| server.recv_from(&mut buffer)).expect("the datagram");
    assert_eq!((n, buffer[0]), (100, 8));
    let (code, _, error) = ctl(&["loss two"]);
    assert!(code == Some(2) && error.contains("loss: ") && error.lines().count() == 1, "{error}");
    interrupt(&child);
    let counts = counts(child);
    let up = &counts["to_server"];
    assert_eq!((&up["lost"], &up["forwarded"]), (&5.into(), &1.into()), "{counts}");
    assert!(up["delay_seconds"]["p50"].as_f64().expect("a delay") >= 0.005, "{counts}");
    assert!(counts["relay"]["cpu_seconds"].as_f64().expect("CPU time") > 0.0, "{counts}");
    assert!(!std::path::Path::new(path).exists(), "the socket goes with the link");
    let (code, _, error) = ctl(&["status"]);
    assert!(code == Some(2) && error.contains("--control"), "{error}");
}

#[test]
fn link_ends_after_its_configured_duration() {
    let (child, _) = relay(&socket(), &["--for", "200ms"]);
    assert_eq!(&counts(child)["to_server"]["arrived"], 0);
}

#[test]
fn link_loses_the_configured_fraction_of_datagrams() {
    let (server, client) = (socket(), socket());
    let (child, address) = relay(&server, &["--loss", "100%", "--up-loss", "0%"]);
    client.send_to(&[7; 100], address).expect("sent");
    let mut buffer = [0; 200];
    let (_, from) = again(|| server.recv_from(&mut buffer)).expect("the datagram");
    for _ in 0..10 {
        server.send_to(&[7; 100], from).expect("sent");
    }
    // A datagram that passes afterwards shows that they have arrived.
    client.send_to(&[7; 100], address).expect("sent");
    again(|| server.recv_from(&mut buffer)).expect("the datagram");
    interrupt(&child);
    let counts = counts(child);
    let (down, up) = (&counts["to_clients"], &counts["to_server"]);
    assert_eq!(
        (&down["lost"], &down["forwarded"], &up["forwarded"]),
        (&10.into(), &0.into(), &2.into()),
        "{counts}"
    );
}

#[test]
fn link_to_its_own_address_is_refused() {
    for (listen, to) in
        [("127.0.0.1", "localhost"), ("0.0.0.0", "127.0.0.1"), ("127.0.0.1", "0.0.0.0")]
    {
        let port = socket().local_addr().expect("an address").port();
        let [listen, to] = [listen, to].map(|host| format!("{host}:{port}"));
        // The relay would forward to itself without end.
        let out = fathom(&["link", "--listen", &listen, "--to", &to, "--for", "60s"]);
        let line = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!((out.status.code(), line.lines().count()), (Some(2), 1), "{line}");
        assert!(line.contains("the relay itself listens"), "{line}");
    }
}

/// Sends from a new client, and answers from the server. Returns whether both datagrams arrived
/// before the timeouts.
#[cfg(target_os = "linux")]
fn passes(client: &UdpSocket, server: &UdpSocket, address: SocketAddr) -> bool {
    client.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout");
    client.send_to(b"?", address).expect("sent");
    let mut buffer = [0; 10];
    let Ok((_, from)) = again(|| server.recv_from(&mut buffer)) else { return false };
    server.send_to(b"!", from).expect("sent");
    again(|| client.recv(&mut buffer)).is_ok()
}

#[cfg(target_os = "linux")]
#[test]
fn new_clients_replace_idle_ones_when_descriptors_run_out() {
    let server = socket();
    server.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout");
    let (child, address) = relay(&server, &[]);
    let pid = child.id().to_string();
    let limit = |to: &str| {
        let done =
            Command::new("prlimit").args(["--pid", &pid, &format!("--nofile={to}")]).status();
        assert!(done.expect("prlimit runs (util-linux)").success());
    };
    limit("40");
    // More clients than the relay may have sockets for. The sockets stay open, because a freed port
    // could be assigned to the next client, which would then not be a new client.
    let clients: Vec<UdpSocket> = std::iter::repeat_with(socket).take(90).collect();
    for (n, client) in clients[..60].iter().enumerate() {
        assert!(passes(client, &server, address), "client {n} was not served");
    }
    // Now the relay has more open sockets than it may wait for.
    limit("20");
    for (n, client) in clients[60..].iter().enumerate() {
        assert!(passes(client, &server, address), "client {n} was not served after the limit fell");
    }
    let done = Command::new("kill").args(["-INT", &pid]).status().expect("kill runs");
    assert!(done.success());
    assert_eq!(counts(child)["clients"], 90);
}

#[test]
fn invalid_link_input_gives_one_line_with_a_fix() {
    let good = ["link", "--listen", "127.0.0.1:0", "--to", "127.0.0.1:9"];
    let taken = socket();
    let taken = taken.local_addr().expect("an address").to_string();
    let cases: [(&[&str], &str); 9] = [
        (&["--loss", "5"], "such as 1%"),
        (&["--queue", "droptail:10p"], "add --rate"),
        (&["--rate", "fast"], "10Mbps"),
        (&["--rate", "1kbps"], "from 10kbps"),
        (&["--fault", "flood@1s"], "write blackout:2s@10s"),
        (&["--delay", "10"], "10ms"),
        (&["--json", "/nowhere/x.json"], "cannot write"),
        (&["--up-queue", "red:min=1p"], "add --rate"),
        (&["--up-rate", "1Mbps", "--queue", "fifo"], "fifo"),
    ];
    for (more, hint) in cases {
        let out = fathom(&[&good[..], more].concat());
        let line = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!((out.status.code(), line.lines().count()), (Some(2), 1), "{more:?}: {line}");
        assert!(line.contains(hint), "{more:?}: {line}");
    }
    for (listen, to, hint) in
        [(taken.as_str(), "127.0.0.1:9", "free port"), ("127.0.0.1:0", "nowhere", "127.0.0.1:4433")]
    {
        let out = fathom(&["link", "--listen", listen, "--to", to]);
        let line = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!((out.status.code(), line.lines().count()), (Some(2), 1), "{line}");
        assert!(line.contains(hint), "{line}");
    }
}
