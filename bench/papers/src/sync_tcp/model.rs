//! Figures 4 and 5: the sizes and round trips of the requests that PackMime generates. No run is
//! needed.

use std::sync::LazyLock;
use std::time::Duration;

use fathom_report::{Axis, Series};
use fathom_traffic::{Options, PackMime};

use crate::{Artefact, Results};

/// Requests of one of the paper's runs (§4.2).
const REQUESTS: usize = 250_000;
/// New connections per second at a load of 90 % in the paper (§4.2: 110).
const RATE: f64 = 110.0;
/// Propagation delay that the topology adds to each round trip (§4.2).
const TOPOLOGY: Duration = Duration::from_millis(14);
/// Seed of the requests.
const SEED: u64 = 1;
/// Points of a distribution, besides its largest value.
const POINTS: usize = 300;

/// Sizes of responses in bytes and round trips in milliseconds, each in ascending order. They are
/// generated once.
static REQUESTED: LazyLock<[Vec<f64>; 2]> = LazyLock::new(|| {
    let model = PackMime::new(RATE, SEED, Options::default()).expect("a rate in range");
    let (mut sizes, mut rtts): (Vec<f64>, Vec<f64>) = model
        .take(REQUESTS)
        .map(|request| {
            let rtt = request.rtt() + TOPOLOGY;
            (request.response_bytes as f64, rtt.as_secs_f64() * 1e3)
        })
        .unzip();
    sizes.sort_by(f64::total_cmp);
    rtts.sort_by(f64::total_cmp);
    [sizes, rtts]
});

fn distribution(name: &str, sorted: &[f64]) -> Series {
    let rank = |point: usize| (point * (sorted.len() - 1)) / POINTS;
    let at = |rank: usize| (sorted[rank], (rank + 1) as f64 / sorted.len() as f64);
    Series {
        name: name.to_owned(),
        points: (0..=POINTS).map(|point| at(rank(point))).collect(),
        spread: None,
        scatter: false,
    }
}

fn median(sorted: &[f64]) -> f64 {
    sorted[sorted.len() / 2]
}

fn figure(title: &str, label: &str, name: &str, sorted: &[f64], note: String) -> Artefact {
    let axes = [Axis::logarithmic(label), Axis::linear("fraction of requests")];
    Artefact::figure(title, axes, [distribution(name, sorted)], note)
}

/// Draws figure 4: the sizes of responses.
pub(super) fn sizes(_: &Results) -> Artefact {
    let [sizes, _] = &*REQUESTED;
    let largest = sizes.last().copied().unwrap_or_default();
    let note = format!(
        "{REQUESTS} requests of the model at {RATE} connections per second, seed {SEED}. The \
         median is {:.0} bytes and the largest response has {:.0} MB. Paper: under 1 kB, and \
         almost 50 MB.",
        median(sizes),
        largest / 1e6,
    );
    figure("HTTP response sizes", "response size (B)", "PackMime", sizes, note)
}

/// Draws figure 5: the minimum round trips of connections.
pub(super) fn round_trips(_: &Results) -> Artefact {
    let [_, rtts] = &*REQUESTED;
    let [shortest, longest] = [rtts.first(), rtts.last()].map(|rtt| rtt.copied().unwrap_or(0.0));
    let note = format!(
        "{REQUESTS} requests of the model at {RATE} connections per second, seed {SEED}, with the \
         topology's {} ms. The shortest round trip has {shortest:.0} ms, the median {:.0} ms and \
         the longest {:.1} s. Paper: 15 ms, 78 ms and over 9 s, which agrees if these numbers \
         include the topology.",
        TOPOLOGY.as_millis(),
        median(rtts),
        longest / 1e3,
    );
    figure("Minimum round-trip times", "round-trip time (ms)", "PackMime", rtts, note)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sync-TCP §4.2: a median below 1 kB and almost 50 MB at most; round trips of 15 ms at least
    /// and 78 ms in the median. The longest of 250,000 depends on the seed.
    #[test]
    fn model_has_the_papers_sizes_and_round_trips() {
        let [sizes, rtts] = &*REQUESTED;
        assert!(median(sizes) < 1_000.0, "{}", median(sizes));
        assert!(sizes[REQUESTS - 1] > 10e6, "{}", sizes[REQUESTS - 1]);
        assert!((14.0..16.0).contains(&rtts[0]), "{}", rtts[0]);
        assert!((70.0..86.0).contains(&median(rtts)), "{}", median(rtts));
        assert!(rtts[REQUESTS - 1] > 5_000.0, "{}", rtts[REQUESTS - 1]);
    }
}
