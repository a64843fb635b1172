//! `fathom link` from the command line: datagrams go through, counts come out, bad input is told in one line.

use std::io::{BufRead, BufReader, Read};
use std::net::{SocketAddr, UdpSocket};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

fn fathom(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_fathom")).args(args).output().expect("fathom runs")
}

fn socket() -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    socket.set_read_timeout(Some(Duration::from_secs(5))).expect("a timeout");
    socket
}

/// A relay towards `server`, and where it listens.
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
    BufReader::new(child.stderr.take().expect("standard error")).read_line(&mut line).expect("a line");
    let address = line.split(' ').nth(1).and_then(|a| a.parse().ok());
    (child, address.unwrap_or_else(|| panic!("no address in '{line}'")))
}

fn counts(mut child: Child) -> serde_json::Value {
    let mut text = String::new();
    child.stdout.take().expect("standard output").read_to_string(&mut text).expect("text");
    assert!(child.wait().expect("an end").success());
    serde_json::from_str(&text).expect("JSON")
}

#[test]
fn datagrams_pass_and_an_interrupt_ends_it_with_its_counts() {
    let (server, client) = (socket(), socket());
    let (child, address) = relay(&server, &["--rate", "10Mbps", "--delay", "5ms", "--up-delay", "10ms"]);
    client.send_to(&[7; 100], address).expect("sent");
    let mut buffer = [0; 200];
    let (n, from) = server.recv_from(&mut buffer).expect("the datagram");
    server.send_to(&buffer[..n], from).expect("sent");
    assert_eq!(client.recv(&mut buffer).expect("the answer"), 100);
    let done = Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill runs");
    assert!(done.success());
    let counts = counts(child);
    assert_eq!(
        (&counts["to_server"]["forwarded"], &counts["to_clients"]["bytes"]),
        (&1.into(), &100.into()),
        "{counts}"
    );
    assert_eq!((&counts["clients"], &counts["overrun"]), (&1.into(), &0.into()));
}

#[test]
fn it_ends_by_itself_and_loses_what_it_should() {
    let (server, client) = (socket(), socket());
    let (child, address) = relay(&server, &["--for", "1s", "--up-loss", "100%"]);
    for _ in 0..10 {
        client.send_to(&[7; 100], address).expect("sent");
    }
    let counts = counts(child);
    assert_eq!((&counts["to_server"]["lost"], &counts["to_server"]["forwarded"]), (&10.into(), &0.into()), "{counts}");
}

#[test]
fn bad_input_is_told_in_one_line_that_names_the_mend() {
    let good = ["link", "--listen", "127.0.0.1:0", "--to", "127.0.0.1:9"];
    let taken = socket();
    let taken = taken.local_addr().expect("an address").to_string();
    let cases: [(&[&str], &str); 9] = [
        (&["--loss", "5"], "such as 1%"),
        (&["--queue", "droptail:10p"], "add --rate"),
        (&["--rate", "fast"], "10Mbps"),
        (&["--rate", "1kbps"], "larger"),
        (&["--fault", "flood@1s"], "write blackout:2s@10s"),
        (&["--delay", "10"], "10ms"),
        (&["--json", "/nowhere/x.json"], "cannot write"),
        (&["--up-queue", "red:min=1p"], "add --rate"),
        (&["--up-rate", "1Mbps", "--queue", "fifo"], "fifo"),
    ];
    for (more, mend) in cases {
        let out = fathom(&[&good[..], more].concat());
        let line = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!((out.status.code(), line.lines().count()), (Some(2), 1), "{more:?}: {line}");
        assert!(line.contains(mend), "{more:?}: {line}");
    }
    for (listen, to, mend) in
        [(taken.as_str(), "127.0.0.1:9", "free port"), ("127.0.0.1:0", "nowhere", "127.0.0.1:4433")]
    {
        let out = fathom(&["link", "--listen", listen, "--to", to]);
        let line = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!((out.status.code(), line.lines().count()), (Some(2), 1), "{line}");
        assert!(line.contains(mend), "{line}");
    }
}
