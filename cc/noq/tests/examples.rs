//! The examples run, and in good time.

use std::sync::mpsc;
use std::time::Duration;

#[path = "../examples/adopt.rs"]
mod adopt;
#[path = "../examples/h3.rs"]
mod h3_server;
#[path = "../examples/outlet.rs"]
mod outlet;

type Outcome = Result<(), Box<dyn std::error::Error + Send + Sync>>;

fn ends_within_two_seconds(example: fn() -> Outcome) {
    let (done, wait) = mpsc::channel();
    std::thread::spawn(move || done.send(example().map_err(|e| e.to_string())));
    assert_eq!(wait.recv_timeout(Duration::from_secs(2)), Ok(Ok(())));
}

#[test]
fn a_controller_is_adopted() {
    ends_within_two_seconds(adopt::main);
}

#[test]
fn packets_leave_through_an_outlet() {
    ends_within_two_seconds(outlet::main);
}

#[test]
fn http_3_is_served() {
    ends_within_two_seconds(h3_server::main);
}
