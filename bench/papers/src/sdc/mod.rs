//! SDC (Kung, Tan, Hsiao 2003), its §3: timeouts, drops, the bias against long round trips,
//! competition, an adaptive queue.
//!
//! | file | contents |
//! |---|---|
//! | `figures.rs` | figures and tables |
//! | `claims.rs` | claims of the paper |

mod claims;
mod figures;
#[cfg(test)]
mod tests;

use fathom_experiments::scenario::{GroupOutcome, Outcome};
use fathom_metrics::Distribution;

use crate::{Change, Paper};

const FIGURE_4: &str = "sdc-figure-4";
const FIGURE_9: &str = "sdc-figure-9";
const FIGURE_10: &str = "sdc-figure-10";
const FIGURE_11: &str = "sdc-figure-11";
const FIGURE_12: &str = "sdc-figure-12";
const LATENCY: &str = "sdc-latency";
const WINDOWS: &str = "sdc-windows";
const ALONE: &str = "sdc-alone";

/// Values of the axis `system`.
const TCP: &str = "TCP with ECN";
const SDC: &str = "SDC";

pub(crate) const PAPER: Paper = Paper {
    name: "sdc",
    citation: "H.T. Kung, K.-S. Tan, P.-H. Hsiao: TCP with sender-based delay control. Computer Communications 26 (2003) 1614-1621",
    artefacts: figures::ARTEFACTS,
    claims: &[claims::CLAIMS],
    departures: DEPARTURES,
    changes: CHANGES,
};

const CHANGES: &[Change] = &[
    Change {
        id: "red-waits",
        says: "RED had `wait=off`. With an equal average queue, this marks about three times as \
               many packets as ns-2's default, `wait=on`, which the studies have now.",
    },
    Change {
        id: "delay-kept-in-persistent-congestion",
        says: "SDC changed its delay in persistent congestion; without this, runs with about 300 \
               flows or more have other results.",
    },
    Change {
        id: "ack-delay-taken-off",
        says: "Round-trip times that a controller gets included the peer's acknowledgement delay \
               (RFC 9002 §5.3), so single samples were up to 25 ms larger.",
    },
];

const DEPARTURES: &[&str] = &[
    "Figures 7 and 8 follow stream bytes, because QUIC does not retransmit a lost packet, but its \
     data. The laboratory has the TLS keys and reads which bytes a packet carries. The unit of \
     latency is the data that a packet carries for the first time. The data of a packet counts as \
     delivered when the first byte of this data has arrived.",
    "Latency begins when a packet enters its first link. Latency excludes the delay that SDC adds \
     before the link, because the paper's averages for SDC are below this delay.",
    "The flows are QUIC connections of real stacks, not ns-2's TCP agents. QUIC detects losses by \
     packet number (RFC 9002 §6.1), which has the effect of both selective acknowledgements and \
     Limited Transmit. So \"TCP with ECN\" here recovers from losses from which NewReno could not \
     recover.",
    "Probe timeouts (RFC 9002 §6.2) stand for retransmission timeouts. A TCP timeout reduces the \
     window to one packet and begins slow start. A probe timeout sends probes and does not change \
     the window. In QUIC, only persistent congestion reduces the window to its minimum.",
    "A probe timeout has the length of the round-trip time plus four deviations and 25 ms. ns-2's \
     TCP waits for 200 ms or more.",
    "The stack does not report probe timeouts. So the laboratory counts a timeout if a packet \
     leaves after a pause of at least the probe timeout while other packets are in flight.",
    "SDC delays packets in front of the socket. For the stack, delayed packets are in flight, and \
     its probe timer runs. If the added delay increases suddenly, the timer can expire although no \
     packet was lost. Such timeouts are counted.",
    "A mark at a window of one packet causes no timeout here, because QUIC's smallest window is \
     two packets (RFC 9002 §7.2), and a mark never stops the sender.",
    "The length of a timeout (figure 5) is the length of a backoff, from the last packet before a \
     probe timeout to the first acknowledgement after the timeout. A backoff that has not ended at \
     the end of the run is not counted.",
    "Timeouts during handshakes, and timeouts before a connection's first round-trip sample, are \
     not counted.",
    "The initial window is 10 packets (RFC 9002 §7.2). Receivers acknowledge every second packet, \
     or acknowledge after 25 ms. ns-2's receivers acknowledge every packet.",
    "A flow begins with a TLS handshake in packets of 1200 bytes or more. Acknowledgements are \
     QUIC packets of about 60 bytes in the opposite direction.",
    "Packets have 576 bytes, including 28 bytes of IP and UDP headers and about 25 bytes of QUIC's \
     overhead. The sender's shaping socket trims the stack's packets to this size, and also delays \
     them for SDC.",
    "The number of drops includes all dropped datagrams of the servers, also handshakes and \
     acknowledgements.",
    "The paper does not give the start times of flows, the steps above 100 flows, or the steps of \
     the ratios of round trips. We chose them. The start times are spread over two seconds.",
    "In figures 9 and 10, the delay of the group with long round trips is split evenly between \
     both ends. The round trips are those of the paper's table 2.",
    "In figure 11, the factor applies only in the phase with a large window. The paper does not \
     say how it applied the factor in the phase with a small window.",
    "The virtual queue of figure 12 holds 57,600 bytes, which are 100 packets. The paper does not \
     give the size of its virtual queue.",
];

/// Returns a number of the only group, `flows`, per connection.
fn per_connection(outcome: &Outcome, of: impl Fn(&GroupOutcome) -> f64) -> Option<f64> {
    let group = outcome.groups.get("flows").filter(|g| g.connections > 0)?;
    Some(of(group) / group.connections as f64)
}

/// Returns the timeouts per connection: data timeouts of TCP, probe timeouts of QUIC.
pub(crate) fn timeouts(outcome: &Outcome) -> Option<f64> {
    per_connection(outcome, |g| g.timeouts() as f64)
}

/// Returns the dropped datagrams per connection.
fn drops(outcome: &Outcome) -> Option<f64> {
    per_connection(outcome, |g| g.lost as f64)
}

/// Returns the packet delivery latency of one flow.
fn latency(outcome: &Outcome) -> Option<&Distribution> {
    outcome.groups.get("flows")?.latency.as_ref()
}

/// Returns the mean packet delivery latency in seconds.
fn mean_latency(outcome: &Outcome) -> Option<f64> {
    Some(latency(outcome)?.mean_ms / 1e3)
}

/// Returns the longest packet delivery latency in seconds.
fn worst_latency(outcome: &Outcome) -> Option<f64> {
    Some(latency(outcome)?.max_ms / 1e3)
}

/// Returns the mean length of a backoff in seconds; `None` if there was none.
fn backoff(outcome: &Outcome) -> Option<f64> {
    let group = outcome.groups.get("flows").filter(|g| g.backoffs > 0)?;
    Some(group.backoff_seconds / group.backoffs as f64)
}

/// Returns the bandwidth of one group divided by that of another; `None` if the other got nothing.
fn ratio(outcome: &Outcome, one: &str, other: &str) -> Option<f64> {
    let rate = |name: &str| outcome.groups.get(name).map(|g| g.throughput_bps);
    rate(other).filter(|bps| *bps > 0.0).and_then(|other| Some(rate(one)? / other))
}

/// Returns the bandwidth of group 1, whose round trip is 6 ms, divided by that of group 2.
fn near_over_far(outcome: &Outcome) -> Option<f64> {
    ratio(outcome, "near", "far")
}

/// Returns the bandwidth of the SDC flows in percent of the TCP flows'.
fn sdc_percent(outcome: &Outcome) -> Option<f64> {
    Some(100.0 * ratio(outcome, "SDC", "TCP")?)
}

/// Returns the throughput of the lone flow, in Mbps.
fn alone_mbps(outcome: &Outcome) -> Option<f64> {
    Some(outcome.groups.get("flow")?.throughput_bps / 1e6)
}

/// UDP payload of a packet of 576 bytes.
const DATAGRAM: u64 = 576 - 28;
/// Seconds after which the first slow start is over; our choice.
const SETTLED: f64 = 10.0;

/// Returns the percentage of the time after [`SETTLED`] in which the traced window satisfies
/// `test`, given in packets.
fn window_percent(outcome: &Outcome, test: impl Fn(f64) -> bool) -> Option<f64> {
    let points = &outcome.groups.get("flows")?.window;
    let ends = points.iter().skip(1).map(|p| p.at).chain([outcome.seconds]);
    let (mut all, mut some) = (0.0, 0.0);
    for (point, end) in points.iter().zip(ends) {
        let time = (end - point.at.max(SETTLED)).max(0.0);
        all += time;
        if test(point.window as f64 / DATAGRAM as f64) {
            some += time;
        }
    }
    (all > 0.0).then(|| 100.0 * some / all)
}

/// Returns the percentage of time with a window above four packets.
fn above_four(outcome: &Outcome) -> Option<f64> {
    window_percent(outcome, |packets| packets > 4.0)
}

/// Returns the percentage of time with a window of eight packets or more, with half a percent
/// allowed for rounding.
fn eight_or_more(outcome: &Outcome) -> Option<f64> {
    window_percent(outcome, |packets| packets >= 7.96)
}
