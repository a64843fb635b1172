//! Connections over TCP that are in their TLS handshake, or say nothing at all: they take no more than a part of the places, so that who
//! completes a handshake is served.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::{Arc, Weak};

use tokio::task::AbortHandle;

/// One part in this many of a server's places, and this many at least.
const PART: usize = 4;
const LEAST: usize = 16;

/// A handshake is under way as long as one of these is there.
pub(super) type UnderWay = Arc<()>;

/// The handshakes of a listener.
#[derive(Debug)]
pub(super) struct Handshakes {
    most: usize,
    /// The oldest first.
    open: VecDeque<Handshake>,
}

#[derive(Debug)]
struct Handshake {
    client: IpAddr,
    task: AbortHandle,
    under_way: Weak<()>,
}

impl Handshakes {
    /// Of a listener with so many places.
    pub(super) fn new(connections: usize) -> Self {
        Self { most: (connections / PART).max(LEAST), open: VecDeque::new() }
    }

    /// One of this client prefix more, which `task` makes. If there are too many then, the oldest of the prefix with the most of them is
    /// aborted.
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
    async fn who_says_nothing_makes_room_for_others() {
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
        // Its handshake is over: it counts no more, whatever it does.
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
