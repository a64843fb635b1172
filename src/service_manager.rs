//! What a service manager such as systemd hands over and wants to hear: sockets (`LISTEN_FDS`), and when the server is ready.

use fathom_http::server::BoundSockets;
use listenfd::ListenFd;
use sd_notify::NotifyState;

use crate::Failure;

/// The sockets it has bound: one for UDP, and one for TCP or none. `None` without a service manager, or without sockets of it.
pub(crate) fn sockets() -> Result<Option<BoundSockets>, Failure> {
    let mut given = ListenFd::from_env();
    let (mut udp, mut tcp) = (None, None);
    for at in 0..given.len() {
        let more = if let Ok(Some(socket)) = given.take_udp_socket(at) {
            udp.replace(socket).is_some()
        } else if let Ok(Some(socket)) = given.take_tcp_listener(at) {
            tcp.replace(socket).is_some()
        } else {
            let line = format!(
                "socket {at} of LISTEN_FDS is neither UDP nor listening TCP; see ListenDatagram= and ListenStream= of the socket unit"
            );
            return Err(Failure::input(line));
        };
        if more {
            let line = "LISTEN_FDS has two sockets of one kind; one server takes one of UDP and one of TCP";
            return Err(Failure::input(line));
        }
    }
    match (udp, tcp) {
        (Some(udp), tcp) => Ok(Some(BoundSockets { udp, tcp })),
        (None, Some(_)) => Err(Failure::input(
            "LISTEN_FDS has no UDP socket, which QUIC needs; add ListenDatagram= to the socket unit",
        )),
        (None, None) => Ok(None),
    }
}

/// Says that the server is ready, where somebody asked (`NOTIFY_SOCKET`).
pub(crate) fn ready() {
    let _ = sd_notify::notify(false, &[NotifyState::Ready]);
}

/// Says that it ends.
pub(crate) fn stopping() {
    let _ = sd_notify::notify(false, &[NotifyState::Stopping]);
}
