//! Limits the TCP connections that are in their TLS handshake or send nothing at all to a part of
//! the connection places. The other places stay free for clients that complete a handshake.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::{Arc, Weak};

use tokio::task::AbortHandle;

/// Divisor for the places that handshakes may take: one in this many of a server's places. It is
/// also the minimum number of places for handshakes.
const PART: usize = 4;
const LEAST: usize = 16;

/// Marker of a handshake in progress. It is dropped when the handshake ends.
pub(super) type UnderWay = Arc<()>;

/// Handshakes in progress on a listener.
#[derive(Debug)]
pub(super) struct Handshakes {
    most: usize,
    /// Handshakes in progress, the oldest first.
    open: VecDeque<Handshake>,
}

#[derive(Debug)]
struct Handshake {
    client: IpAddr,
    task: AbortHandle,
    under_way: Weak<()>,
}

impl Handshakes {
    /// Returns the handshakes of a listener with this many places.
    pub(super) fn new(connections: usize) -> Self {
        Self { most: (connections / PART).max(LEAST), open: VecDeque::new() }
    }

    /// Adds a handshake of this client prefix, which runs in `task`. If there are then too many
    /// handshakes, aborts the oldest handshake of the prefix that has the most.
    pub(super) fn add(&mut self, client: IpAddr, task: AbortHandle, under_way: &UnderWay) {
        self.open.push_back(Handshake { client, task, under_way: Arc::downgrade(under_way) });
        if self.open.len() <= self.most {
            return;
        }
        self.open.retain(|handshake| handshake.under_way.strong_count() > 0);
        while self.open.len() > self.most {
            let mut clients: HashMap<IpAddr, usize> = HashMap::new();
            self.open
                .iter()
                .for_each(|handshake| *clients.entry(handshake.client).or_default() += 1);
            let greedy =
                clients.into_iter().max_by_key(|(_, count)| *count).map(|(client, _)| client);
            let oldest = self.open.iter().position(|handshake| Some(handshake.client) == greedy);
            let Some(oldest) = oldest.and_then(|oldest| self.open.remove(oldest)) else { return };
            oldest.task.abort();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use tokio::task::JoinSet;

    #[tokio::test]
    async fn silent_tls_handshakes_make_room_for_other_clients() {
        let mut handshakes = Handshakes::new(80);
        let (mut tasks, mut open) = (JoinSet::new(), Vec::new());
        let client = |n: u8| IpAddr::from([192, 0, 2, n]);
        let mut begin = |handshakes: &mut Handshakes, n: u8| {
            let under_way = UnderWay::default();
            let task = tasks.spawn(std::future::pending::<()>());
            handshakes.add(client(n), task.clone(), &under_way);
            (task, under_way)
        };
        let (honest, done) = (begin(&mut handshakes, 9), begin(&mut handshakes, 1));
        // This handshake is over, so it no longer counts.
        let (done, over) = done;
        drop(over);
        for _ in 0..100 {
            open.push(begin(&mut handshakes, 1));
        }
        for _ in 0..81 {
            assert!(tasks.join_next().await.unwrap().unwrap_err().is_cancelled());
        }
        assert_eq!(handshakes.open.len(), 20);
        assert!(!honest.0.is_finished() && !done.is_finished());
        let left = open.iter().filter(|(task, _)| !task.is_finished()).count();
        assert_eq!(left, 19, "of the one with too many");
        assert!(open[..81].iter().all(|(task, _)| task.is_finished()), "the oldest");
    }
}
