//! Admission control: which connection attempts are accepted, which must validate their address
//! with a Retry, and which are refused.
//!
//! Clients are counted by address prefix. Source addresses can be spoofed until the handshake is
//! complete or a Retry was answered (RFC 9000 §8.1). Therefore, connections without a validated
//! address never cause a refusal. They only make further clients of the same prefix validate their
//! address. Otherwise, an attacker could lock out a client by spoofing the client's address.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use tokio::time::Instant;

use crate::limits::Limits;
use crate::metrics::Metrics;

/// Decision on a connection attempt.
#[derive(Debug)]
pub(super) enum AdmissionDecision {
    /// Accept the attempt. The guard counts the connection until it is dropped.
    Accept(AdmissionGuard),
    /// Let the client validate its address first.
    Retry,
    /// Refuse the attempt.
    Refuse,
}

/// Admission control of a server: counts its connections and enforces its limits.
pub(super) struct AdmissionControl {
    limits: Limits,
    metrics: Arc<Metrics>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    open: usize,
    handshakes: usize,
    clients: HashMap<IpAddr, Client>,
    attempts: Option<Attempts>,
}

/// Number of connections of a client prefix.
#[derive(Clone, Copy, Default)]
struct Client {
    proved: usize,
    unproved: usize,
}

/// Token bucket for attempts without a validated address. It holds at most one second's tokens.
struct Attempts {
    left: f64,
    at: Instant,
}

impl Attempts {
    /// Takes a token. Returns whether a token was left.
    fn take(&mut self, now: Instant, per_second: u32) -> bool {
        let most = f64::from(per_second);
        self.left =
            most.min(self.left + now.saturating_duration_since(self.at).as_secs_f64() * most);
        self.at = now;
        let some = self.left >= 1.0;
        self.left -= f64::from(u8::from(some));
        some
    }
}

impl AdmissionControl {
    pub(super) fn new(limits: Limits, metrics: Arc<Metrics>) -> Arc<Self> {
        Arc::new(Self { limits, metrics, state: Mutex::default() })
    }

    /// Decides on a connection attempt from this address. `proved` tells whether the address is
    /// validated. Counts Retries and refusals.
    pub(super) fn decide(
        self: &Arc<Self>,
        from: SocketAddr,
        proved: bool,
        now: Instant,
    ) -> AdmissionDecision {
        let Limits { connections, handshakes, unvalidated_per_second, .. } = self.limits;
        let (prefix, bound) = (self.limits.client_prefix.of(from.ip()), self.bound(from.ip()));
        let mut state = self.state();
        let client = state.clients.get(&prefix).copied().unwrap_or_default();
        if state.open >= connections {
            self.metrics.refused();
            return AdmissionDecision::Refuse;
        }
        if client.proved >= bound {
            self.metrics.refused_for_client();
            return AdmissionDecision::Refuse;
        }
        let many = state.handshakes >= handshakes || client.proved + client.unproved >= bound;
        if !proved {
            let bucket = state
                .attempts
                .get_or_insert(Attempts { left: unvalidated_per_second.into(), at: now });
            if many || !bucket.take(now, unvalidated_per_second) {
                self.metrics.retried();
                return AdmissionDecision::Retry;
            }
        }
        state.open += 1;
        state.handshakes += 1;
        let client = state.clients.entry(prefix).or_default();
        *(if proved { &mut client.proved } else { &mut client.unproved }) += 1;
        AdmissionDecision::Accept(AdmissionGuard {
            of: Arc::clone(self),
            prefix,
            proved,
            in_handshake: true,
        })
    }

    /// Returns the limit of connections for this client prefix.
    fn bound(&self, ip: IpAddr) -> usize {
        match self.limits.connections_per_client {
            Some(bound) => bound,
            None if is_private(ip) => usize::MAX,
            None => Limits::per_client_by_default(self.limits.connections),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

/// Returns whether an address is not public. Such an address belongs to a laboratory, or to a proxy
/// that all clients share.
fn is_private(ip: IpAddr) -> bool {
    /// Returns whether an address is shared between a carrier and its customers (RFC 6598).
    const fn is_shared(ip: Ipv4Addr) -> bool {
        let [a, b, ..] = ip.octets();
        a == 100 && b & 0xc0 == 64
    }
    match ip.to_canonical() {
        IpAddr::V4(ip) => {
            ip.is_loopback() || ip.is_private() || ip.is_link_local() || is_shared(ip)
        }
        IpAddr::V6(ip) => ip.is_loopback() || ip.is_unique_local() || ip.is_unicast_link_local(),
    }
}

/// Guard that counts an accepted connection until it is dropped.
pub(super) struct AdmissionGuard {
    of: Arc<AdmissionControl>,
    prefix: IpAddr,
    proved: bool,
    in_handshake: bool,
}

impl std::fmt::Debug for AdmissionGuard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Place").field("prefix", &self.prefix).finish_non_exhaustive()
    }
}

impl AdmissionGuard {
    /// Records that the handshake is complete, which also validates the client's address.
    pub(super) fn connected(&mut self) {
        let mut state = self.of.state();
        if std::mem::take(&mut self.in_handshake) {
            state.handshakes -= 1;
        }
        if !std::mem::replace(&mut self.proved, true)
            && let Some(client) = state.clients.get_mut(&self.prefix)
        {
            client.unproved -= 1;
            client.proved += 1;
        }
    }
}

impl Drop for AdmissionGuard {
    fn drop(&mut self) {
        let mut state = self.of.state();
        state.open -= 1;
        state.handshakes -= usize::from(self.in_handshake);
        if let Some(client) = state.clients.get_mut(&self.prefix) {
            *(if self.proved { &mut client.proved } else { &mut client.unproved }) -= 1;
            if client.proved + client.unproved == 0 {
                state.clients.remove(&self.prefix);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn admission(limits: Limits) -> (Arc<AdmissionControl>, Arc<Metrics>) {
        let metrics = Arc::new(Metrics::new());
        (AdmissionControl::new(limits, Arc::clone(&metrics)), metrics)
    }

    fn from(ip: &str) -> SocketAddr {
        SocketAddr::new(ip.parse().unwrap(), 4000)
    }

    #[track_caller]
    fn guard(verdict: AdmissionDecision) -> AdmissionGuard {
        match verdict {
            AdmissionDecision::Accept(guard) => guard,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn many_connection_attempts_per_second_lead_to_retries() {
        let (admission, metrics) =
            admission(Limits { unvalidated_per_second: 100, ..Limits::default() });
        let start = Instant::now();
        let mut accepted = 0;
        // There are 10,000 attempts in a second, and each attempt gives its place back at once.
        for n in 0..10_000 {
            let now = start + Duration::from_micros(100 * n);
            accepted += u32::from(matches!(
                admission.decide(from("192.0.2.1"), false, now),
                AdmissionDecision::Accept(_)
            ));
        }
        assert!((199..=200).contains(&accepted), "the burst and a second's worth, not {accepted}");
        assert!(metrics.text().contains(&format!("fathom_retries_total {}", 10_000 - accepted)));
        let now = start + Duration::from_secs(1);
        drop(guard(admission.decide(from("192.0.2.1"), true, now)));
        drop(guard(admission.decide(from("192.0.2.1"), false, now + Duration::from_secs(1))));
    }

    #[test]
    fn client_prefix_is_limited_to_its_share_of_connections() {
        let (admission, metrics) = admission(Limits { connections: 1_000, ..Limits::default() });
        let now = Instant::now();
        let many = |ips: &[&str]| {
            let mut guards = Vec::new();
            while let AdmissionDecision::Accept(guard) =
                admission.decide(from(ips[guards.len() % ips.len()]), true, now)
            {
                guards.push(guard);
            }
            guards
        };
        let ours = many(&["2001:db8:0:1::1", "2001:db8:0:2::1", "2001:db8:0:ff::9"]);
        assert_eq!(ours.len(), 20);
        assert_eq!(many(&["2001:db8:0:100::1"]).len(), 20, "another /56");
        assert_eq!(many(&["192.0.2.1", "::ffff:192.0.2.1"]).len(), 20);
        assert!(metrics.text().contains("fathom_connections_refused_client_total 3"));
        drop(ours);
        assert_eq!(many(&["2001:db8::1"]).len(), 20, "places come back");
        let all = many(&[
            "127.0.0.1",
            "10.1.1.1",
            "192.168.0.1",
            "100.64.0.1",
            "fd00::1",
            "fe80::1",
            "::1",
        ]);
        assert_eq!(all.len(), 1_000);
        drop(all);
        assert!(admission.state().clients.is_empty());
    }

    #[test]
    fn explicit_connection_limit_applies_to_every_address() {
        let (admission, _) =
            admission(Limits { connections_per_client: Some(2), ..Limits::default() });
        let now = Instant::now();
        let _places = [0, 1].map(|_| guard(admission.decide(from("127.0.0.1"), true, now)));
        assert!(matches!(
            admission.decide(from("127.0.0.1"), true, now),
            AdmissionDecision::Refuse
        ));
        drop(guard(admission.decide(from("127.0.0.2"), true, now)));
    }

    #[test]
    fn spoofed_addresses_never_cause_refusal_of_the_real_client() {
        let (admission, _) =
            admission(Limits { connections_per_client: Some(4), ..Limits::default() });
        let (now, client) = (Instant::now(), from("192.0.2.1"));
        let mut forged = [0; 4].map(|_| guard(admission.decide(client, false, now)));
        assert!(
            matches!(admission.decide(client, false, now), AdmissionDecision::Retry),
            "prove it"
        );
        let proved = [0; 4].map(|_| guard(admission.decide(client, true, now)));
        assert!(matches!(admission.decide(client, true, now), AdmissionDecision::Refuse));
        drop(proved);
        forged[0].connected();
        assert_eq!(admission.state().handshakes, 3);
        drop(forged);
        let state = admission.state();
        assert_eq!((state.open, state.handshakes, state.clients.len()), (0, 0, 0));
    }
}
