//! Relay on the path that records, delays and drops the server's datagrams.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::net::UdpSocket;

/// A datagram of the server's, as it reached the relay.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Datagram {
    pub(crate) at: Instant,
    pub(crate) bytes: usize,
    /// Whether the datagram begins with a 1-RTT packet. Long headers belong to the handshake.
    pub(crate) one_rtt: bool,
}

/// Relay between a client and a server, active until dropped.
pub(crate) struct Relay {
    pub(crate) address: SocketAddr,
    seen: Arc<Mutex<Vec<Datagram>>>,
    task: tokio::task::JoinHandle<()>,
}

#[allow(clippy::disallowed_methods)]
fn now() -> Instant {
    Instant::now()
}

impl Relay {
    /// Starts a relay that delays each datagram to the client by `delay`. The `n`th datagram with a
    /// 1-RTT packet passes if `passes(n)`.
    pub(crate) async fn to(server: SocketAddr, delay: Duration, passes: fn(usize) -> bool) -> Self {
        let any = "127.0.0.1:0";
        let (front, back) = (
            UdpSocket::bind(any).await.expect("a socket"),
            UdpSocket::bind(any).await.expect("a socket"),
        );
        back.connect(server).await.expect("connected");
        let (address, seen) =
            (front.local_addr().expect("bound"), Arc::new(Mutex::new(Vec::new())));
        let log = Arc::clone(&seen);
        let task = tokio::spawn(async move {
            let front = Arc::new(front);
            let (late, mut queue) =
                tokio::sync::mpsc::unbounded_channel::<(Instant, Vec<u8>, SocketAddr)>();
            let to_client = Arc::clone(&front);
            tokio::spawn(async move {
                while let Some((due, datagram, client)) = queue.recv().await {
                    tokio::time::sleep_until(due.into()).await;
                    let _ = to_client.send_to(&datagram, client).await;
                }
            });
            let (mut up, mut down) = ([0; 65_535], [0; 65_535]);
            let (mut client, mut count) = (None, 0);
            loop {
                tokio::select! {
                    Ok((bytes, from)) = front.recv_from(&mut up) => {
                        client = Some(from);
                        let _ = back.send(&up[..bytes]).await;
                    }
                    Ok(bytes) = back.recv(&mut down) => {
                        let one_rtt = down[0] & 0x80 == 0;
                        log.lock().expect("unpoisoned").push(Datagram { at: now(), bytes, one_rtt });
                        count += usize::from(one_rtt);
                        let Some(client) = client.filter(|_| !one_rtt || passes(count)) else { continue };
                        if delay.is_zero() {
                            let _ = front.send_to(&down[..bytes], client).await;
                        } else {
                            let _ = late.send((now() + delay, down[..bytes].to_vec(), client));
                        }
                    }
                }
            }
        });
        Self { address, seen, task }
    }

    /// Returns the server's datagrams with 1-RTT packets, in order.
    pub(crate) fn one_rtt(&self) -> Vec<Datagram> {
        self.seen.lock().expect("unpoisoned").iter().filter(|d| d.one_rtt).copied().collect()
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.task.abort();
    }
}
