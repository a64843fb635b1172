//! Tests that response times reported by `fathom serve` match those of its clients on every stack,
//! even behind a slow link.

#![cfg(unix)]

use crate::common;

use std::process::{Command, Stdio};

use common::{fathom, serve, start};
use fathom_stacks::Stack;

/// RTT of the link in seconds: much longer than a busy machine keeps a process waiting.
const ROUND_TRIP: f64 = 0.4;
const BODY: u32 = 1_000_000;

/// Requests bodies from this server through a link of 10 Mbps, one after the other. Returns the
/// time that each took at the client, in seconds.
fn load(port: &str, table: &std::path::Path) -> Vec<f64> {
    let to = format!("127.0.0.1:{port}");
    let delay = format!("{}ms", ROUND_TRIP * 500.0);
    let link =
        ["link", "--listen", "127.0.0.1:0", "--to", &to, "--rate", "10Mbps", "--delay", &delay];
    let (_link, through) = start(
        fathom().args(link).args(["--queue", "droptail:2000p"]).stdout(Stdio::null()),
        "relaying ",
    );
    let url = format!("https://{through}/bytes/{BODY}");
    let load = ["load", &url, "--insecure", "-c", "1", "-n", "2", "--timeout", "120s", "--csv"];
    let ran = fathom().args(load).arg(table).output().expect("fathom runs");
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let text = std::fs::read_to_string(table).expect("a table");
    let mut lines = text.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let head = lines.next().expect("a head");
    let place = |name: &str| head.iter().position(|column| *column == name).expect("a column");
    let (service, connect) = (place("service"), place("connect"));
    // Without the handshake, which the server's time does not include.
    lines
        .map(|row| {
            row[service].parse::<f64>().expect("seconds")
                - row[connect].parse::<f64>().unwrap_or(0.0)
        })
        .collect()
}

/// Returns the times in seconds that the logs have under this name.
fn logged(folder: &std::path::Path, name: &str) -> Vec<f64> {
    // A client that waits long for the answer to its first packet sends another packet, for which
    // the server may open another log.
    let files = std::fs::read_dir(folder).expect("logs").map(|file| file.expect("a name").path());
    let text: String = files.map(|file| std::fs::read_to_string(file).expect("text")).collect();
    let responses = text.lines().filter(|line| line.contains("\"fathom:response\""));
    let records = responses
        .map(|line| serde_json::from_str(line.trim_start_matches('\u{1e}')).expect("JSON"));
    records
        .map(|record: serde_json::Value| record["data"][name].as_f64().expect("a time") / 1e3)
        .collect()
}

#[test]
fn server_and_client_times_agree_behind_a_slow_link() {
    for stack in Stack::ALL.iter().map(|stack| stack.name()) {
        let dir = tempfile::tempdir().expect("a folder");
        let (logs, table) = (dir.path().join("logs"), dir.path().join("load.csv"));
        let qlog = logs.to_str().expect("text");
        let (mut server, port) =
            serve(&["--stack", stack, "--controller", "native:cubic", "--qlog", qlog]);
        let client = load(&port, &table);
        let ended = Command::new("kill")
            .args(["-TERM", &server.child.id().to_string()])
            .status()
            .expect("kill runs");
        assert!(ended.success() && server.child.wait().expect("an end").success());
        let acknowledged = logged(&logs, "acknowledged");
        assert_eq!((client.len(), acknowledged.len()), (2, 2), "{stack}");
        for (client, server) in client.iter().zip(&acknowledged) {
            // 8 Mbit take 0.8 s and a round trip.
            assert!(
                *client > 1.0 && (client - server).abs() < ROUND_TRIP,
                "{stack}: client {client} s, server {server} s"
            );
        }
        // The send buffer takes a body before the client has acknowledged all of it; long before
        // for the second body, whose client is known to be fast enough.
        assert!(
            logged(&logs, "handed_over")
                .iter()
                .zip(&acknowledged)
                .all(|(handed, all)| handed < all),
            "{stack}"
        );
    }
}
