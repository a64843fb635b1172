//! The example runs, and in good time.

use std::sync::mpsc;
use std::time::Duration;

#[path = "../examples/adopt.rs"]
mod adopt;

#[test]
fn the_example_ends_well_within_two_seconds() {
    let (done, wait) = mpsc::channel();
    std::thread::spawn(move || done.send(adopt::main().map_err(|e| e.to_string())));
    assert_eq!(wait.recv_timeout(Duration::from_secs(2)), Ok(Ok(())));
}
