//! Tests of `fathom serve` from the command line: the server prints its address, ends on a signal,
//! and names errors. `bench/http/tests` tests its responses.

use crate::common;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::process::{Command, Output, Stdio};

fn fathom(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_fathom")).args(args).output().expect("fathom runs")
}

#[test]
fn serve_prints_its_address_and_stops_on_sigterm() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_fathom"))
        .args([
            "serve",
            "--listen",
            "127.0.0.1:0",
            "--metrics",
            "127.0.0.1:0",
            "--controller",
            "reno=1,native:cubic=1",
        ])
        .stderr(Stdio::piped())
        .spawn()
        .expect("fathom runs");
    let mut lines = BufReader::new(child.stderr.take().expect("standard error")).lines();
    let mut line = || lines.next().expect("a line").expect("text");
    assert!(line().contains("on quinn with reno=1,native:cubic=1"));
    assert!(line().contains("--ignore-certificate-errors-spki-list="));
    let metrics = line();
    let at = metrics
        .strip_prefix("metrics at http://")
        .and_then(|m| m.strip_suffix("/metrics"))
        .expect("an address");
    let mut stream = TcpStream::connect(at).expect("a connection");
    stream.write_all(b"GET /metrics HTTP/1.1\r\nhost: x\r\n\r\n").expect("sent");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("text");
    assert!(
        text.starts_with("HTTP/1.1 200") && text.contains("fathom_connections_refused_total 0"),
        "{text}"
    );
    let kill =
        Command::new("kill").args(["-TERM", &child.id().to_string()]).status().expect("kill runs");
    assert!(kill.success() && line().contains("stopping"));
    assert!(child.wait().expect("an end").success());
}

/// Runs a command while nobody reads its standard error, and returns its exit code. If `endless`, a
/// signal ends it.
fn unread(args: &[&str], endless: bool) -> Option<i32> {
    let mut child = Command::new(env!("CARGO_BIN_EXE_fathom"))
        .args(args)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("fathom runs");
    drop(child.stderr.take());
    if endless {
        common::when_it_catches("TERM", child.id());
        // tokio loses a signal that arrives after its handler is installed and before a task
        // listens, so the signal is sent again, much later.
        for _ in 0..12 {
            let kill = Command::new("kill")
                .args(["-TERM", &child.id().to_string()])
                .status()
                .expect("kill runs");
            assert!(kill.success());
            for _ in 0..1_000 {
                if let Some(ended) = child.try_wait().expect("a state") {
                    return ended.code();
                }
                std::thread::sleep(std::time::Duration::from_millis(10));
            }
        }
        let _ = child.kill();
    }
    child.wait().expect("an end").code()
}

#[test]
fn closed_stderr_does_not_stop_the_server() {
    let nobody = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    let nobody = nobody.local_addr().expect("an address").to_string();
    assert_eq!(unread(&["serve", "--listen", "127.0.0.1:0"], true), Some(0));
    assert_eq!(
        unread(&["link", "--listen", "127.0.0.1:0", "--to", &nobody, "--for", "200ms"], false),
        Some(0)
    );
    let url = format!("https://{nobody}/");
    assert_eq!(
        unread(&["load", &url, "--insecure", "--timeout", "200ms"], false),
        Some(1),
        "said, not panicked"
    );
}

/// Acts as systemd does: passes sockets from descriptor 3 on, and a socket for the server's
/// notifications.
#[test]
fn sockets_of_a_service_manager_are_served() {
    let (udp, tcp) = loop {
        let udp = UdpSocket::bind("127.0.0.1:0").expect("a free port");
        // The port may be taken for TCP.
        if let Ok(tcp) = std::net::TcpListener::bind(udp.local_addr().expect("an address")) {
            break (udp, tcp);
        }
    };
    let address = udp.local_addr().expect("an address");
    let folder = tempfile::tempdir().expect("a folder");
    let notify =
        std::os::unix::net::UnixDatagram::bind(folder.path().join("notify")).expect("a socket");
    notify.set_read_timeout(Some(std::time::Duration::from_secs(120))).expect("a time-out");
    let script = r#"LISTEN_PID=$$ LISTEN_FDS=2 exec "$0" serve 3<&0 4<&1 </dev/null >/dev/null"#;
    let child = Command::new("sh")
        .args(["-c", script, env!("CARGO_BIN_EXE_fathom")])
        .env("NOTIFY_SOCKET", folder.path().join("notify"))
        .stdin(std::os::fd::OwnedFd::from(udp))
        .stdout(std::os::fd::OwnedFd::from(tcp))
        .stderr(Stdio::piped())
        .spawn()
        .expect("a shell");
    let mut said = [0; 64];
    let length = notify.recv(&mut said).expect("READY within two minutes");
    assert_eq!(&said[..length], b"READY=1\n");
    let url = format!("https://{address}/bytes/1000");
    let loaded = fathom(&["load", &url, "--insecure", "-n", "3", "-c", "1"]);
    assert!(loaded.status.success(), "{}", String::from_utf8_lossy(&loaded.stderr));
    // Over TCP, the server answers data that are not TLS with an alert (RFC 8446 §5.1).
    let mut stream = TcpStream::connect(address).expect("a connection");
    stream.write_all(b"GET / HTTP/1.1\r\n\r\n").expect("sent");
    let mut first = [0];
    stream.read_exact(&mut first).expect("an answer");
    assert_eq!(first, [21]);
    let pid = child.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().expect("kill runs").success());
    let length = notify.recv(&mut said).expect("STOPPING within two minutes");
    assert_eq!(&said[..length], b"STOPPING=1\n");
    assert!(child.wait_with_output().expect("an end").status.success());
}

/// Otherwise the server would wait at its start until someone reads the pipe, and could not be
/// ended.
#[test]
fn access_log_pipe_without_a_reader_is_refused_by_serve() {
    let folder = tempfile::tempdir().expect("a folder");
    let pipe = folder.path().join("log").to_str().expect("text").to_owned();
    assert!(Command::new("mkfifo").arg(&pipe).status().expect("mkfifo runs").success());
    let refused = fathom(&["serve", "--listen", "127.0.0.1:0", "--access-log", &pipe]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(refused.status.code() == Some(2) && said.contains("a pipe without a reader"), "{said}");
    let refused = fathom(&["serve", "--listen", "127.0.0.1:0", "--cert", &pipe, "--key", &pipe]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(refused.status.code() == Some(2) && said.contains("not a regular file"), "{said}");
}

#[test]
fn invalid_serve_input_gives_one_line_with_a_hint() {
    let taken = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    let taken = taken.local_addr().expect("an address").to_string();
    let here = env!("CARGO_MANIFEST_DIR").to_owned() + "/Cargo.toml";
    let cases: [(&[&str], &str); 27] = [
        (&["--proxy", "127.0.0.1:8080"], "http://127.0.0.1:8080"),
        (&["--proxy", "http://host/path"], "has a path"),
        (&["--proxy", "http://127.0.0.1:1", "--root", "src"], "--proxy-path"),
        (&["--proxy", "http://127.0.0.1:1", "--proxy-path", "api"], "/api"),
        (&["--proxy", "https://127.0.0.1:1", "--proxy-ca", &here], "PEM"),
        (&["--proxy", "h2c://127.0.0.1:1", "--proxy-ca", &here], "has no TLS"),
        (&["--proxy-timeout", "1s"], "--proxy"),
        (&["--access-log", "/nowhere/log"], "a folder you can write to"),
        (&["--access-log", "-", "--access-log-format", "xml"], "combined or json"),
        (&["--tcp", "--no-tcp"], "--no-tcp"),
        (&["--alt-svc-port", "0"], "write 1 to"),
        (&["--controller", "snyc"], "sync"),
        (&["--controller", "sync=0"], "weight"),
        (&["--controller", "native:bbr3"], "native:bbr"),
        (&["--stack", "msquic"], "quinn"),
        (&["--timestamps", "fat"], "any, lean, paper, timestamp, receive or off"),
        (&["--timestamps", "off", "--controller", "sync"], "set a mode for the extension"),
        (&["--root", "/nowhere"], "name a folder"),
        (&["--root", &here], "not a folder"),
        (&["--cert", &here, "--key", &here], "PEM"),
        (&["--listen", &taken], "free port"),
        (&["--idle", "10"], "10ms"),
        (&["--max-per-client", "0"], "write 1 to"),
        (&["--client-prefix", "33,56"], "32,56"),
        (&["--header-timeout", "0s"], "a longer time"),
        (&["--request-timeout", "0s"], "a longer time"),
        (&["--qlog-files", "7"], "--qlog"),
    ];
    let quiche: (&[&str], &str) = if cfg!(feature = "quiche") {
        (&["--stack", "quiche", "--zero-rtt"], "quinn or noq")
    } else {
        (&["--stack", "quiche"], "--features quiche")
    };
    for (more, hint) in cases.into_iter().chain([quiche]) {
        let free: &[&str] =
            if more.contains(&"--listen") { &[] } else { &["--listen", "127.0.0.1:0"] };
        let out = fathom(&[&["serve"][..], free, more].concat());
        let line = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!((out.status.code(), line.lines().count()), (Some(2), 1), "{more:?}: {line}");
        assert!(line.contains(hint), "{more:?}: {line}");
    }
}
