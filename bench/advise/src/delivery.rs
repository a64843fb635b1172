//! Bytes delivered by a connection over time, in bins, and the delivery rate while the path was
//! full.

use fathom_metrics::median;

/// Maximum number of bins per connection; beyond it, pairs of bins are merged.
const BINS: usize = 1 << 13;
/// Initial width of a bin in milliseconds.
const WIDTH: f64 = 1.0;
/// Minimum length of a window in base round trips, so that it covers a controller's round.
const ROUND_TRIPS: f64 = 3.0;
/// Minimum length of a window in milliseconds, because acknowledgements come in pairs and bursts.
const SHORTEST: f64 = 50.0;
/// Minimum length of a window in bins and in samples.
const LEAST_BINS: f64 = 8.0;
const LEAST_SAMPLES: f64 = 5.0;
/// Minimum number of packets in the queue throughout a window in which the link was never idle.
const STANDING: f64 = 2.0;
/// Difference between round-trip times in milliseconds that is treated as noise from timers and
/// from the other end's processing (our choice).
const NOISE_MS: f64 = 0.5;
const NOISE_PART: f64 = 0.02;

/// A time interval of a connection.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Bin {
    /// Index of the bin: it begins after `at` widths.
    at: u64,
    /// Bytes acknowledged, sent, received and lost in the bin.
    pub(crate) acked: f64,
    pub(crate) sent: f64,
    pub(crate) received: f64,
    pub(crate) lost: f64,
    /// Bytes in flight at the end of the bin, if the log contains them.
    pub(crate) in_flight: Option<f64>,
    /// Smallest round trip in the bin, in milliseconds.
    pub(crate) rtt: Option<f64>,
}

impl Bin {
    fn merge(&mut self, later: &Self) {
        self.acked += later.acked;
        self.sent += later.sent;
        self.received += later.received;
        self.lost += later.lost;
        self.in_flight = later.in_flight.or(self.in_flight);
        self.sample(later.rtt);
    }

    pub(crate) fn sample(&mut self, rtt: Option<f64>) {
        self.rtt = match (self.rtt, rtt) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
    }
}

/// Bins with at least one event.
#[derive(Clone, Debug)]
pub(crate) struct Bins {
    width: f64,
    bins: Vec<Bin>,
}

impl Default for Bins {
    fn default() -> Self {
        Self { width: WIDTH, bins: Vec::new() }
    }
}

/// Source of the number of delivered bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RateSource {
    /// Bytes acknowledged according to the log or its ACK frames.
    Acknowledged,
    /// Bytes received according to a client's log.
    Received,
    /// Bytes sent minus bytes lost and in flight.
    SentLessInFlight,
    /// Bytes sent minus bytes lost.
    Sent,
    /// Bytes in flight, or the window, divided by the round trip.
    FlightOverRtt,
}

impl RateSource {
    /// Returns the source in words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Acknowledged => "bytes acknowledged",
            Self::Received => "bytes received",
            Self::SentLessInFlight => "bytes sent, minus bytes in flight and bytes lost",
            Self::Sent => "bytes sent",
            Self::FlightOverRtt => "bytes in flight divided by the round-trip time",
        }
    }
}

/// Delivery rate of a connection, computed from its windows, in bytes per second without IP and UDP
/// headers.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Delivered {
    /// Median over the windows with a standing queue throughout.
    pub(crate) full: Option<f64>,
    /// Highest rate of any window.
    pub(crate) highest: Option<f64>,
}

impl Bins {
    /// Returns the bin of this time in milliseconds. Times must not decrease.
    pub(crate) fn at(&mut self, ms: f64) -> &mut Bin {
        if self.bins.len() >= BINS {
            self.coarsen();
        }
        let at = (ms.max(0.0) / self.width) as u64;
        if self.bins.last().is_none_or(|last| last.at < at) {
            self.bins.push(Bin { at, ..Bin::default() });
        }
        let last = self.bins.len() - 1;
        &mut self.bins[last]
    }

    fn coarsen(&mut self) {
        self.width *= 2.0;
        let mut merged: Vec<Bin> = Vec::with_capacity(BINS / 2);
        for bin in &self.bins {
            let at = bin.at / 2;
            match merged.last_mut().filter(|last| last.at == at) {
                Some(last) => last.merge(bin),
                None => merged.push(Bin { at, ..*bin }),
            }
        }
        self.bins = merged;
    }

    pub(crate) fn sum(&self, of: impl Fn(&Bin) -> f64) -> f64 {
        self.bins.iter().map(of).sum()
    }

    /// Discards the round trips recorded so far.
    pub(crate) fn forget_round_trips(&mut self) {
        self.bins.iter_mut().for_each(|bin| bin.rtt = None);
    }

    /// Returns the total bytes delivered, from this source.
    pub(crate) fn total(&self, source: RateSource) -> f64 {
        self.delivered(source).iter().sum()
    }

    /// Returns the bytes delivered in each bin, from this source.
    fn delivered(&self, source: RateSource) -> Vec<f64> {
        let mut before = (0.0, 0.0);
        let one = |(i, bin): (usize, &Bin)| match source {
            RateSource::Acknowledged => bin.acked,
            RateSource::Received => bin.received,
            RateSource::Sent => (bin.sent - bin.lost).max(0.0),
            RateSource::SentLessInFlight => {
                let (sent, delivered) = (before.0 + bin.sent - bin.lost, before.1);
                let now = bin.in_flight.map_or(delivered, |flight| (sent - flight).max(delivered));
                before = (sent, now);
                now - delivered
            }
            RateSource::FlightOverRtt => {
                let next =
                    self.bins.get(i + 1).map_or(0, |next| next.at - bin.at) as f64 * self.width;
                let rate = bin.in_flight.zip(bin.rtt).map_or(0.0, |(flight, rtt)| flight / rtt);
                rate * next.min(2.0 * bin.rtt.unwrap_or(0.0))
            }
        };
        self.bins.iter().enumerate().map(one).collect()
    }

    /// Returns the rate while the path was full. If every round trip of a window exceeds the
    /// smallest one by at least two packets' transmission time, the link was never idle. `base` is
    /// the smallest round trip in milliseconds, and `packet` is the size of a full packet in bytes.
    pub(crate) fn rate(&self, source: RateSource, base: f64, packet: f64) -> Delivered {
        let delivered = self.delivered(source);
        let window = self.window(base);
        let mut full = Vec::new();
        let mut highest: Option<f64> = None;
        let mut next = 0.0;
        for (i, bin) in self.bins.iter().enumerate() {
            let from = bin.at as f64 * self.width;
            if from < next {
                continue;
            }
            next = from + window / 4.0;
            let inside =
                self.bins[i..].partition_point(|bin| bin.at as f64 * self.width < from + window);
            let Some(w) =
                Window::of(&self.bins[i..i + inside], &delivered[i..i + inside], self.width)
            else {
                continue;
            };
            if w.ms < window / 2.0 || w.gap > window / 2.0 {
                continue;
            }
            highest = Some(highest.map_or(w.rate(), |highest| highest.max(w.rate())));
            if w.samples as f64 >= LEAST_SAMPLES.min(w.bins as f64) && w.stands(base, packet) {
                full.push(w.rate());
            }
        }
        Delivered { full: median(&full), highest: highest.filter(|rate| *rate > 0.0) }
    }

    /// Returns the length of a window in milliseconds.
    fn window(&self, base: f64) -> f64 {
        let gaps: Vec<f64> = (self.bins.windows(2))
            .map(|pair| (pair[1].at - pair[0].at) as f64 * self.width)
            .collect();
        let gap = median(&gaps).unwrap_or(0.0);
        (ROUND_TRIPS * base).max(SHORTEST).max(LEAST_BINS * self.width).max(LEAST_SAMPLES * gap)
    }
}

/// Returns whether a round trip that exceeds the base by `above` ms indicates a queue rather than
/// noise. `packet_ms` is the transmission time of a packet.
pub(crate) fn is_queue(above: f64, base: f64, packet_ms: f64) -> bool {
    above >= (STANDING * packet_ms).max(NOISE_MS + NOISE_PART * base)
}

/// A sequence of bins.
struct Window {
    bytes: f64,
    ms: f64,
    /// Longest time without events.
    gap: f64,
    least_rtt: Option<f64>,
    samples: usize,
    bins: usize,
}

impl Window {
    /// Measures between the first and the last bin. The bytes of the first bin are left out because
    /// they arrived before its end.
    fn of(bins: &[Bin], delivered: &[f64], width: f64) -> Option<Self> {
        let (first, last) = (bins.first()?, bins.last()?);
        let samples = bins.iter().filter_map(|bin| bin.rtt);
        Some(Self {
            bytes: delivered[1..].iter().sum(),
            ms: (last.at - first.at) as f64 * width,
            gap: bins
                .windows(2)
                .map(|pair| (pair[1].at - pair[0].at) as f64 * width)
                .fold(0.0, f64::max),
            least_rtt: samples.clone().reduce(f64::min),
            samples: samples.count(),
            bins: bins.len(),
        })
    }

    /// Returns the bytes per second.
    fn rate(&self) -> f64 {
        self.bytes * 1e3 / self.ms
    }

    fn stands(&self, base: f64, packet: f64) -> bool {
        let packet_ms = 1e3 * packet / self.rate();
        self.rate() > 0.0 && self.least_rtt.is_some_and(|rtt| is_queue(rtt - base, base, packet_ms))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the bins of a second of acknowledgements of 1,250 bytes at 1 MB/s (10 Mbps, without
    /// headers). `rtt` gives the round trip of each acknowledgement.
    fn steady(rtt: impl Fn(f64) -> f64) -> Bins {
        let mut bins = Bins::default();
        for i in 0..800 {
            let at = f64::from(i) * 1.25;
            let bin = bins.at(at);
            bin.acked += 1_250.0;
            bin.sample(Some(rtt(at)));
        }
        bins
    }

    #[test]
    fn link_rate_is_measured_only_while_a_queue_stands() {
        let full = steady(|at| 20.0 + at / 10.0).rate(RateSource::Acknowledged, 20.0, 1_250.0);
        assert!((full.full.unwrap() / 1e6 - 1.0).abs() < 0.02, "{full:?}");
        let idle = steady(|at| 20.0 + at % 2.0).rate(RateSource::Acknowledged, 20.0, 1_250.0);
        assert!(
            idle.full.is_none() && (idle.highest.unwrap() / 1e6 - 1.0).abs() < 0.04,
            "{idle:?}"
        );
    }

    #[test]
    fn merging_time_bins_keeps_all_acked_bytes() {
        let mut bins = Bins::default();
        for i in 0..100_000 {
            bins.at(f64::from(i)).acked += 1.0;
        }
        assert!(bins.bins.len() <= BINS);
        assert_eq!(bins.sum(|bin| bin.acked), 100_000.0);
        let rate = bins.rate(RateSource::Acknowledged, 20.0, 1.0).highest.unwrap();
        assert!((rate / 1_000.0 - 1.0).abs() < 0.15, "{rate}");
    }

    #[test]
    fn delivered_bytes_are_sent_bytes_minus_growth_of_in_flight() {
        let mut bins = Bins::default();
        for i in 0..10 {
            let bin = bins.at(f64::from(i));
            bin.sent = 100.0;
            bin.in_flight = Some(100.0);
        }
        assert_eq!(bins.delivered(RateSource::SentLessInFlight).iter().sum::<f64>(), 900.0);
    }
}
