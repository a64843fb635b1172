//! Session tickets of both ends of a group's connections (RFC 8446 §4.6.1).

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use rustls::NamedGroup;
use rustls::client::{ClientSessionStore, Tls12ClientSessionValue, Tls13ClientSessionValue};
use rustls::pki_types::{ServerName, UnixTime};
use rustls::server::StoresServerSessions;
use rustls::time_provider::TimeProvider;

/// Maximum number of tickets that clients keep, and of sessions that the server keeps. The oldest
/// ones are dropped first. The server keeps more sessions, because some tickets are still in
/// transit.
const CLIENT_KEEPS: usize = 1_024;
const SERVER_KEEPS: usize = 4 * CLIENT_KEEPS;

/// Tickets that all clients share, and the server's sessions. A ticket is used once, as RFC 8446
/// §C.4 requires. The next connection takes the newest ticket. Tickets have random contents, but
/// fixed lengths.
#[derive(Default)]
pub(crate) struct Sessions {
    /// Whether the client that connects next holds a ticket.
    offered: AtomicBool,
    tickets: Mutex<VecDeque<Tls13ClientSessionValue>>,
    sessions: Mutex<VecDeque<(Vec<u8>, Vec<u8>)>>,
}

impl Sessions {
    /// Sets whether the client that connects next holds a ticket.
    pub(crate) fn offer(&self, offered: bool) {
        self.offered.store(offered, Ordering::Relaxed);
    }

    /// Returns the number of tickets that clients hold.
    pub(crate) fn tickets(&self) -> usize {
        self.tickets.lock().len()
    }
}

impl fmt::Debug for Sessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sessions").field("tickets", &self.tickets()).finish_non_exhaustive()
    }
}

/// Adds a value. Drops the oldest value if there are already `most`.
fn keep<T>(kept: &mut VecDeque<T>, value: T, most: usize) {
    if kept.len() == most {
        kept.pop_front();
    }
    kept.push_back(value);
}

impl ClientSessionStore for Sessions {
    fn set_kx_hint(&self, _: ServerName<'static>, _: NamedGroup) {}

    fn kx_hint(&self, _: &ServerName<'_>) -> Option<NamedGroup> {
        None
    }

    fn set_tls12_session(&self, _: ServerName<'static>, _: Tls12ClientSessionValue) {}

    fn tls12_session(&self, _: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        None
    }

    fn remove_tls12_session(&self, _: &ServerName<'static>) {}

    fn insert_tls13_ticket(&self, _: ServerName<'static>, ticket: Tls13ClientSessionValue) {
        keep(&mut self.tickets.lock(), ticket, CLIENT_KEEPS);
    }

    fn take_tls13_ticket(&self, _: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        let offered = self.offered.load(Ordering::Relaxed);
        offered.then(|| self.tickets.lock().pop_back()).flatten()
    }
}

impl StoresServerSessions for Sessions {
    fn put(&self, id: Vec<u8>, session: Vec<u8>) -> bool {
        keep(&mut self.sessions.lock(), (id, session), SERVER_KEEPS);
        true
    }

    fn get(&self, id: &[u8]) -> Option<Vec<u8>> {
        let sessions = self.sessions.lock();
        sessions.iter().rev().find(|(kept, _)| kept == id).map(|(_, session)| session.clone())
    }

    fn take(&self, id: &[u8]) -> Option<Vec<u8>> {
        let mut sessions = self.sessions.lock();
        let at = sessions.iter().rposition(|(kept, _)| kept == id)?;
        sessions.remove(at).map(|(_, session)| session)
    }

    fn can_cache(&self) -> bool {
        true
    }
}

/// A clock that stands still. Tickets therefore neither age nor expire, however long a run takes.
#[derive(Debug)]
pub(super) struct Stopped;

impl TimeProvider for Stopped {
    fn current_time(&self) -> Option<UnixTime> {
        // 2026-01-01, within the validity of the certificate.
        Some(UnixTime::since_unix_epoch(std::time::Duration::from_secs(1_767_225_600)))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rustls::quic::{ClientConnection, Connection, ServerConnection, Version};

    use super::super::Identity;

    /// Returns the bytes of both ends' handshake messages, and whether the session was resumed.
    fn handshake(identity: &Identity, ticket: bool) -> ([usize; 2], bool) {
        identity.sessions.as_ref().unwrap().offer(ticket);
        let name = "lab.test".try_into().unwrap();
        let client =
            ClientConnection::new(Arc::clone(&identity.client), Version::V1, name, Vec::new())
                .unwrap();
        let server =
            ServerConnection::new(Arc::clone(&identity.server), Version::V1, Vec::new()).unwrap();
        let (mut client, mut server) = (Connection::from(client), Connection::from(server));
        let mut bytes = [0; 2];
        let mut quiet = false;
        while !quiet {
            quiet = true;
            for side in [0, 1] {
                // The peer must read messages written before a key change separately from later
                // ones.
                loop {
                    let mut flight = Vec::new();
                    let (from, to) = if side == 0 {
                        (&mut client, &mut server)
                    } else {
                        (&mut server, &mut client)
                    };
                    let keys = from.write_hs(&mut flight);
                    if flight.is_empty() && keys.is_none() {
                        break;
                    }
                    // Tickets are sent after the handshake, so their bytes are not counted.
                    bytes[side] +=
                        if from.is_handshaking() || keys.is_some() { flight.len() } else { 0 };
                    to.read_hs(&flight).unwrap();
                    quiet = false;
                }
            }
        }
        assert!(!client.is_handshaking() && !server.is_handshaking());
        (bytes, client.handshake_kind() == Some(rustls::HandshakeKind::Resumed))
    }

    #[test]
    fn resumed_tls_handshake_sends_no_certificate() {
        let identity = Identity::generate().unwrap().resuming(true);
        let (full, resumed) = handshake(&identity, true);
        assert!(!resumed, "there is no ticket yet");
        let (short, resumed) = handshake(&identity, true);
        assert!(resumed);
        assert!(full[1] - short[1] > identity.certificate.len(), "{full:?} {short:?}");
        // The client's first message contains the ticket.
        assert!(short[0] > full[0], "{full:?} {short:?}");
        assert!(!handshake(&identity, false).1, "the client holds none");
        assert_eq!(
            handshake(&identity, true),
            (short, true),
            "tickets and what they cost have one length"
        );
    }

    #[test]
    fn tls_session_store_uses_bounded_memory() {
        let identity = Identity::generate().unwrap().resuming(false);
        for _ in 0..super::CLIENT_KEEPS {
            handshake(&identity, false);
        }
        let sessions = identity.sessions.as_ref().unwrap();
        assert_eq!(sessions.tickets(), super::CLIENT_KEEPS);
        assert!(handshake(&identity, true).1, "the last tickets are those that the server knows");
    }
}
