//! Figures 1.1 and 1.2: what the size of packets costs in headers and brings in packets per window.
//! No run is needed.

use fathom_netsim::sim::WIRE_OVERHEAD;
use fathom_report::{Axis, Series};

use crate::{Artefact, Results};

/// Header bytes of TCP and IP (§1.2: at least 40).
const TCP: f64 = 40.0;
/// Bytes of a QUIC packet around its data: short header with a connection ID of eight bytes and a
/// packet number of two (RFC 9000 §17.3), type, stream, offset and length of a STREAM frame of up
/// to seven bytes (§19.8), and the tag of 16 bytes (RFC 9001 §5.3).
const QUIC: f64 = (1 + 8 + 2 + 7 + 16) as f64;
/// Sizes of packets in bytes (figure 1.2, a to c).
const SIZES: [u32; 3] = [1500, 500, 250];
/// Fair shares in kbps. The thesis has "several average bandwidth levels".
const SHARES: [u32; 2] = [100, 400];

fn line(name: String, points: impl IntoIterator<Item = (f64, f64)>) -> Series {
    Series { name, points: points.into_iter().collect(), spread: None, scatter: false }
}

/// Draws figure 1.1: the percentage of a packet that its headers take.
pub(super) fn headers(_: &Results) -> Artefact {
    let sizes = || (2..=30).map(|n| f64::from(n * 50));
    let of = |name: &str, bytes: f64| {
        line(name.to_owned(), sizes().map(|size| (size, 100.0 * bytes / size)))
    };
    Artefact::figure(
        "Overhead of headers",
        [Axis::linear("packet size (B)"), Axis::linear("headers (% of the packet)")],
        [of("TCP and IP", TCP), of("QUIC, UDP and IP", f64::from(WIRE_OVERHEAD) + QUIC)],
        "Computed, without runs: 40 bytes with TCP, as in the thesis, and 62 bytes with QUIC \
         (connection IDs of eight bytes).",
    )
}

/// Draws figure 1.2: the average window for a fair share, `share * round trip / size` (equation
/// 1.1).
pub(super) fn windows(_: &Results) -> Artefact {
    let of = |(share, size): (u32, u32)| {
        let packets = f64::from(share) * 1e3 / 8.0 / f64::from(size);
        let round_trips = (0..=20).map(|n| f64::from(n) * 20.0);
        line(format!("{share} kbps, {size} B"), round_trips.map(|ms| (ms, packets * ms / 1e3)))
    };
    let all = SHARES.into_iter().flat_map(|share| SIZES.map(|size| (share, size)));
    Artefact::figure(
        "Average window over the round-trip time",
        [Axis::linear("round-trip time (ms)"), Axis::linear("window (packets)")],
        all.map(of).collect::<Vec<_>>(),
        "Computed, without runs. With a window in the low single digits, a loss leads to a timeout \
         (§1.4). The thesis does not state its rates; these are 100 and 400 kbps.",
    )
}
