//! Tests of `fathom probe` from the command line, with servers that support a timestamp frame, a
//! server that supports none, and an unreachable address.

use crate::common;

use std::net::UdpSocket;
use std::process::Output;

use common::{FathomProcess, fathom};

fn serve(more: &[&str]) -> (FathomProcess, String) {
    let (child, port) = common::serve(more);
    (child, format!("https://localhost:{port}/bytes/1000"))
}

fn probe(args: &[&str]) -> Output {
    fathom().arg("probe").args(args).output().expect("fathom runs")
}

#[test]
fn probe_reports_the_supported_extensions() {
    let (_ours, ours) = serve(&[]);
    let (_theirs, theirs) = serve(&["--timestamps", "timestamp"]);
    let (_plain, plain) = serve(&["--timestamps", "off", "--controller", "native:cubic"]);
    let out = probe(&[&ours, &theirs, &plain, "--insecure", "--timeout", "120s", "--json", "-"]);
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let found: serde_json::Value =
        serde_json::from_slice(&out.stdout).expect("JSON and nothing else");
    let of = |n: usize, field: &str| found["hosts"][n][field].clone();
    let said = |n| {
        (
            of(n, "verdict"),
            of(n, "in_use"),
            found["hosts"][n]["connection"]["enable_timestamp"].clone(),
        )
    };
    assert_eq!(said(0), ("speaks".into(), "sync".into(), 3.into()), "{found}");
    assert_eq!(said(1), ("speaks".into(), "timestamp".into(), 3.into()), "{found}");
    assert_eq!(said(2), ("ignores".into(), "none".into(), serde_json::Value::Null), "{found}");
    for n in 0..3 {
        let connection = &found["hosts"][n]["connection"];
        assert_eq!(
            (&connection["status"], &connection["bytes"]),
            (&200.into(), &1000.into()),
            "{found}"
        );
        // ACK frames are read, whatever was negotiated.
        assert!(connection["ack_frames"].as_u64() > Some(0), "{found}");
    }
    let out = probe(&[&plain, "--insecure", "--timeout", "120s"]);
    let text = String::from_utf8_lossy(&out.stdout);
    assert!(text.contains("ignores them") && text.contains("200, 1000 B"), "{text}");
}

#[test]
fn probe_reports_unreachable_servers_and_bad_input_in_one_line() {
    let nobody = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    let nobody = nobody.local_addr().expect("an address").to_string();
    let out = probe(&[&nobody, "--insecure", "--timeout", "300ms"]);
    assert_eq!(out.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&out.stdout).contains("not reached"));
    for (args, hint) in [
        (&["http://localhost/"][..], "https"),
        (&[], "HOST"),
        (&["localhost", "--timeout", "0s"], "10s"),
        (&["localhost", "--ca", "/nowhere"], "/nowhere"),
    ] {
        let out = probe(args);
        let text = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!(
            (out.status.code(), text.trim().lines().count()),
            (Some(2), 1),
            "{args:?}: {text}"
        );
        assert!(text.contains(hint), "{args:?}: {text}");
    }
}
