//! The examples run, and in good time.

use std::sync::mpsc;
use std::time::Duration;

#[path = "../examples/adopt.rs"]
mod adopt;
#[path = "../examples/h3.rs"]
mod h3_both;

type Outcome = Result<(), Box<dyn std::error::Error + Send + Sync>>;

fn ends_within_ten_seconds(example: fn() -> Outcome) {
    let (done, wait) = mpsc::channel();
    std::thread::spawn(move || done.send(example().map_err(|e| e.to_string())));
    assert_eq!(wait.recv_timeout(Duration::from_secs(10)), Ok(Ok(())));
}

#[test]
fn a_controller_is_adopted_in_quiche() {
    ends_within_ten_seconds(adopt::main);
}

#[test]
fn megabytes_come_over_http_3_with_tokio_quiche() {
    ends_within_ten_seconds(h3_both::main);
}
