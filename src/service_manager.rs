//! Communication with a service manager such as systemd. Takes over its sockets (`LISTEN_FDS`), and
//! reports when the server is ready or stopping (`NOTIFY_SOCKET`).

use fathom_http::server::BoundSockets;
use listenfd::ListenFd;
use sd_notify::NotifyState;

use crate::Failure;

/// Returns the sockets that a service manager has bound: one for UDP, and at most one for TCP.
/// Returns `None` if it has passed none.
///
/// # Errors
/// Returns an error if there are two sockets of the same kind, a socket of an unknown kind, or only
/// a TCP socket.
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
            let line = "LISTEN_FDS has two sockets of the same kind; a server takes one UDP socket \
                and one TCP socket";
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

/// Reports that the server is ready, if a service manager requested it (`NOTIFY_SOCKET`).
pub(crate) fn ready() {
    let _ = sd_notify::notify(false, &[NotifyState::Ready]);
}

/// Reports that the server is stopping, if a service manager requested it.
pub(crate) fn stopping() {
    let _ = sd_notify::notify(false, &[NotifyState::Stopping]);
}
