//! Tests that the examples run to completion.

use std::sync::mpsc;
use std::time::Duration;

#[path = "../examples/adopt.rs"]
mod adopt;
#[path = "../examples/h3.rs"]
mod h3_both;

type Outcome = Result<(), Box<dyn std::error::Error + Send + Sync>>;

fn ends(example: fn() -> Outcome) {
    let (done, wait) = mpsc::channel();
    std::thread::spawn(move || done.send(example().map_err(|e| e.to_string())));
    // Only a hanging example takes so long.
    assert_eq!(wait.recv_timeout(Duration::from_secs(120)), Ok(Ok(())));
}

#[test]
fn quiche_example_adopt_runs_to_completion() {
    ends(adopt::main);
}

#[test]
fn tokio_quiche_transfers_megabytes_over_http_3() {
    ends(h3_both::main);
}
