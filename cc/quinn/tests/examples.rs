//! Tests that the examples run to completion.

use std::sync::mpsc;
use std::time::Duration;

#[path = "../examples/adopt.rs"]
mod adopt;
#[path = "../examples/h3.rs"]
mod h3_server;
#[path = "../examples/several.rs"]
mod several;
#[path = "../examples/shaping_socket.rs"]
mod shaping_socket;

type Outcome = Result<(), Box<dyn std::error::Error + Send + Sync>>;

fn ends(example: fn() -> Outcome) {
    let (done, wait) = mpsc::channel();
    std::thread::spawn(move || done.send(example().map_err(|e| e.to_string())));
    // Only a hanging example takes so long.
    assert_eq!(wait.recv_timeout(Duration::from_secs(120)), Ok(Ok(())));
}

#[test]
fn quinn_example_adopt_runs_to_completion() {
    ends(adopt::main);
}

#[test]
fn quinn_example_shaping_socket_runs_to_completion() {
    ends(shaping_socket::main);
}

#[test]
fn quinn_example_several_controllers_runs_to_completion() {
    ends(several::main);
}

#[test]
fn quinn_example_http3_server_runs_to_completion() {
    ends(h3_server::main);
}
