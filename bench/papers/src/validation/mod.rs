//! Validation of the laboratory: the papers' scenarios with TCP, and bands around the papers'
//! numbers. The bands were written before the first run. docs/validation.md explains the source of
//! each band and the reason for each miss. Each paper has a file.

mod dca;
mod ghstcp;
mod packet_size;
mod sdc;
mod sync_tcp;

use fathom_metrics::round;

use crate::claims::between;
use crate::results::BySeed;
use crate::{ArtefactSpec, Finding, Paper, Verdict, spec};

const SYNC_TCP: &str = "validation-sync-tcp";
const SYNC_TCP_75: &str = "validation-sync-tcp-75";
const LARGEST: &str = "validation-sync-tcp-largest";
const DCA: &str = "validation-dca";
const SDC: &str = "validation-sdc";
const PACKET_SIZE: &str = "validation-packet-size";
const GHSTCP: &str = "validation-ghstcp";

pub(crate) const PAPER: Paper = Paper {
    name: "validation",
    citation: "The five papers' own results, with TCP at packet level instead of QUIC",
    artefacts: ARTEFACTS,
    claims: &[sync_tcp::BANDS, dca::BANDS, sdc::BANDS, packet_size::BANDS, ghstcp::BANDS],
    departures: DEPARTURES,
    changes: &[],
};

const DEPARTURES: &[&str] = &[
    "TCP is this project's own implementation at packet level, with the same controllers as QUIC. \
     Settings that a paper does not state are those of ns-2 in the paper's year. The head of each \
     study lists these settings.",
    "A loss reduces the window to half of the window, not to half of the bytes in flight \
     (RFC 5681 §3.1, equation 4).",
    "The rate of new connections for a load is computed from the sizes of requests and responses \
     in the model, and from their overhead on the wire per connection and per byte. Two downloads \
     without queueing measure this overhead. The Sync-TCP paper instead runs its network at 100 \
     Mbps and counts the traffic.",
    "Sync-TCP's timestamp option takes 12 bytes of each segment.",
    "The models of DCA's paths were tuned with TCP's Reno. DUAL follows its description in the \
     Vegas paper. Timeouts are at least 1 s, as in ns-2 since 2001. The DCA paper is from 2000 and \
     did not have this minimum.",
    "The papers do not give the starts of flows. Here the starts are spread over two seconds for \
     SDC, one second for packet size and ten seconds for gHSTCP.",
    "Packets of 278 bytes stand for the thesis's 250 bytes.",
];

const ARTEFACTS: &[ArtefactSpec] = &[
    spec(
        "sync-tcp",
        "Sync-TCP table 1: 90 % load, 1 bottleneck, 250,000 responses",
        &[SYNC_TCP],
        sync_tcp::table_1,
    ),
    spec(
        "figure sync-tcp",
        "Sync-TCP figure 7: response times of the same runs",
        &[SYNC_TCP],
        |r| {
            let title = "250,000 web responses at 90 % load, TCP";
            crate::sync_tcp::response_times_of(r, SYNC_TCP, "90", title)
        },
    ),
    spec(
        "figure sync-tcp-75",
        "Sync-TCP figure 6: response times at 75 % load",
        &[SYNC_TCP_75],
        |r| {
            let title = "250,000 web responses at 75 % load, TCP";
            crate::sync_tcp::response_times_of(r, SYNC_TCP_75, "75", title)
        },
    ),
    spec(
        "largest",
        "Sync-TCP figure 10: the largest response at 85 % load",
        &[LARGEST],
        sync_tcp::largest,
    ),
    spec(
        "dca",
        "DCA table 4-4 and the first row of table 4-1: change of throughput",
        &[DCA],
        dca::table_4_4,
    ),
    spec("sdc", "SDC figure 4: timeouts per connection", &[SDC], sdc::figure_4),
    spec(
        "packet-size",
        "Packet size figures 4.4 to 4.11: starved flows",
        &[PACKET_SIZE],
        packet_size::starved_flows,
    ),
    spec(
        "ghstcp",
        "gHSTCP figures 2 and 3: throughput of the groups",
        &[GHSTCP],
        ghstcp::throughput,
    ),
];

/// Tests whether each of these numbers lies in its band: held if its whole interval is inside, not
/// held if its whole interval is outside. One seed decides nothing. A band that contains zero is
/// marked, because a sender without the paper's rule would hit it, too.
fn bands<const N: usize>(unit: &str, cases: [(&str, BySeed, f64, f64); N]) -> Finding {
    Finding::together(cases.map(|(what, values, low, high)| {
        if values.estimate().is_none() {
            return Finding::new(Verdict::Undecided, format!("{what} not measured"));
        }
        let verdict = between(values.estimate(), low, high);
        let zero = if low <= 0.0 && high >= 0.0 { ", which contains 0" } else { "" };
        let band = format!("band {} to {}{zero}", round(low, 1), round(high, 1));
        part(verdict, &values, &format!("{what} {values} {unit} ({band})"))
    }))
}

/// Creates the finding of a part of a claim; its numbers say whether the part holds. `values` are
/// the numbers on which it depends.
fn part(verdict: Verdict, values: &BySeed, numbers: &str) -> Finding {
    let word = match (verdict, values.estimate()) {
        (_, None) => return Finding::new(verdict, numbers),
        (Verdict::Held, _) => "yes",
        (Verdict::NotHeld, _) => "no",
        _ => "undecided",
    };
    Finding::new(verdict, format!("{numbers}: {word}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::seeds;
    use Verdict::{Held, NotHeld, Undecided};

    #[test]
    fn validation_band_is_judged_by_the_whole_interval() {
        // Mean 10, half width 2.48.
        let of = |low, high| {
            let finding = bands("ms", [("time", seeds([9.0, 10.0, 11.0]), low, high)]);
            (finding.verdict, finding.numbers)
        };
        let found = |verdict, band: &str, word: &str| {
            (verdict, format!("time 10 ± 2 ms (band {band}): {word}"))
        };
        assert_eq!(of(7.0, 13.0), found(Held, "7 to 13", "yes"));
        assert_eq!(of(9.5, 10.5), found(Undecided, "9.5 to 10.5", "undecided"));
        assert_eq!(of(12.6, 13.0), found(NotHeld, "12.6 to 13", "no"));
        assert_eq!(of(-20.0, 20.0), found(Held, "-20 to 20, which contains 0", "yes"));
        let one = bands("ms", [("time", seeds([10.0]), 0.0, 20.0)]);
        assert_eq!(one.verdict, Undecided);
        let none = bands("ms", [("time", seeds([]), 1.0, 20.0)]);
        assert_eq!((none.verdict, none.numbers.as_str()), (Undecided, "time not measured"));
    }
}
