//! The examples run to completion.

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
fn a_quinn_application_adopts_a_controller() {
    ends(adopt::main);
}

#[test]
fn packets_leave_through_a_shaping_socket() {
    ends(shaping_socket::main);
}

#[test]
fn controllers_share_an_endpoint() {
    ends(several::main);
}

#[test]
fn http_3_is_served() {
    ends(h3_server::main);
}
