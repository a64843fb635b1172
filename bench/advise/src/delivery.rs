//! What a connection delivered over time, in bins, and at which rate it did while its path was full.

/// Bins kept of a connection: with more, two become one.
const BINS: usize = 1 << 13;
/// Width of a bin at first, in milliseconds.
const WIDTH: f64 = 1.0;
/// A window is at least so many base round trips long, so that a controller's round is in it.
const ROUND_TRIPS: f64 = 3.0;
/// And at least so long, in milliseconds: acknowledgements come in pairs and bursts.
const SHORTEST: f64 = 50.0;
/// And so many bins and samples.
const LEAST_BINS: f64 = 8.0;
const LEAST_SAMPLES: f64 = 5.0;
/// Packets that stand in the queue all through a window in which the link was never idle.
const STANDING: f64 = 2.0;
/// Differences of round trips that say nothing (ours): timers and the other end's processing.
const NOISE_MS: f64 = 0.5;
const NOISE_PART: f64 = 0.02;

/// A part of a connection's time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Bin {
    /// Its number: it begins after so many widths.
    at: u64,
    /// Bytes acknowledged, sent, received and lost in it.
    pub(crate) acked: f64,
    pub(crate) sent: f64,
    pub(crate) received: f64,
    pub(crate) lost: f64,
    /// Bytes in flight at its end, where the log says so.
    pub(crate) in_flight: Option<f64>,
    /// The smallest round trip in it, in milliseconds.
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

/// The bins in which something happened.
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

/// Where the bytes come from that are taken for delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RateSource {
    /// Bytes that the log says were acknowledged, or whose ACK frames it has.
    Acknowledged,
    /// Bytes that a client's log says were received.
    Received,
    /// Bytes sent, less those lost and in flight.
    SentLessInFlight,
    /// Bytes sent.
    Sent,
    /// Bytes in flight, or the window, over the round trip.
    FlightOverRtt,
}

impl RateSource {
    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Acknowledged => "bytes acknowledged",
            Self::Received => "bytes received",
            Self::SentLessInFlight => "bytes sent less those in flight and lost",
            Self::Sent => "bytes sent",
            Self::FlightOverRtt => "bytes in flight over the round trip",
        }
    }
}

/// What the windows of a connection say of its rate, in bytes per second without IP and UDP headers.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Delivered {
    /// The median over the windows in which a queue stood all the time.
    pub(crate) full: Option<f64>,
    /// The highest of any window.
    pub(crate) highest: Option<f64>,
}

impl Bins {
    /// The bin of this moment, in milliseconds. Moments do not go back.
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

    /// Leaves out the round trips so far.
    pub(crate) fn forget_round_trips(&mut self) {
        self.bins.iter_mut().for_each(|bin| bin.rtt = None);
    }

    /// Bytes delivered in all, by this source.
    pub(crate) fn total(&self, source: RateSource) -> f64 {
        self.delivered(source).iter().sum()
    }

    /// Bytes delivered in each bin, by this source.
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

    /// The rate while the path was full: while no round trip of a window was within two packets' time of the smallest one, the link was
    /// never idle. `base` is the smallest round trip in milliseconds, `packet` a full packet's bytes.
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
        Delivered {
            full: crate::profile::median(&mut full),
            highest: highest.filter(|rate| *rate > 0.0),
        }
    }

    /// How long a window is, in milliseconds.
    fn window(&self, base: f64) -> f64 {
        let mut gaps: Vec<f64> = (self.bins.windows(2))
            .map(|pair| (pair[1].at - pair[0].at) as f64 * self.width)
            .collect();
        let gap = crate::profile::median(&mut gaps).unwrap_or(0.0);
        (ROUND_TRIPS * base).max(SHORTEST).max(LEAST_BINS * self.width).max(LEAST_SAMPLES * gap)
    }
}

/// Whether this much above the smallest round trip is a queue, and no noise, where a packet takes `packet_ms`.
pub(crate) fn is_queue(above: f64, base: f64, packet_ms: f64) -> bool {
    above >= (STANDING * packet_ms).max(NOISE_MS + NOISE_PART * base)
}

/// A stretch of bins.
struct Window {
    bytes: f64,
    ms: f64,
    /// Longest time in which nothing happened.
    gap: f64,
    least_rtt: Option<f64>,
    samples: usize,
    bins: usize,
}

impl Window {
    /// Between its first and last bin: what came in the first came before.
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

    /// Bytes per second.
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

    /// Acknowledgements of 1,250 bytes at 1 MB/s (10 Mbps) for a second, with this round trip at each.
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
    fn a_standing_queue_makes_a_rate_believed() {
        let full = steady(|at| 20.0 + at / 10.0).rate(RateSource::Acknowledged, 20.0, 1_250.0);
        assert!((full.full.unwrap() / 1e6 - 1.0).abs() < 0.02, "{full:?}");
        let idle = steady(|at| 20.0 + at % 2.0).rate(RateSource::Acknowledged, 20.0, 1_250.0);
        assert!(
            idle.full.is_none() && (idle.highest.unwrap() / 1e6 - 1.0).abs() < 0.04,
            "{idle:?}"
        );
    }

    #[test]
    fn coarser_bins_keep_all_bytes() {
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
    fn sent_less_in_flight_is_what_arrived() {
        let mut bins = Bins::default();
        for i in 0..10 {
            let bin = bins.at(f64::from(i));
            bin.sent = 100.0;
            bin.in_flight = Some(100.0);
        }
        assert_eq!(bins.delivered(RateSource::SentLessInFlight).iter().sum::<f64>(), 900.0);
    }
}
