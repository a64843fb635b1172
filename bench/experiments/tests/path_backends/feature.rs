//! Effects of a path on packets, one effect at a time, as options of the laboratory and of tc.

use std::time::Duration;

use fathom_netsim::link::Capacity;
use fathom_netsim::path::{DirectedPath, Loss, PathSpec, Trace};
use fathom_netsim::sim::WIRE_OVERHEAD;

/// Name of the path that only delays.
pub(crate) const PLAIN: &str = "delay alone";
/// Size of a probe on the wire in bytes: 4 Mbps at 500 probes per second.
pub(crate) const BYTES: usize = 1_000;
pub(crate) const PAYLOAD: usize = BYTES - WIRE_OVERHEAD as usize;
/// Time at which the first probe is sent.
pub(crate) const START: Duration = Duration::from_secs(1);
/// Propagation delay of every path; the options of tc below include it.
const DELAY: &str = "20ms";
/// Default rate, so high that packets do not queue.
const RATE: &str = "1Gbps";

/// Resolution of delays that are not random. Such delays differ between paths only by the
/// microseconds that the machine adds.
const COARSE: Duration = Duration::from_millis(1);

/// Property of the samples that is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Measure {
    /// Time from sending to the first arrival; Kolmogorov-Smirnov test.
    Delay,
    /// Share of probes that never arrived; test of two proportions.
    Lost,
    /// Numbers of consecutive lost probes; test of homogeneity.
    Bursts,
    /// Share of probes that arrived after a probe that was sent later; test of two proportions.
    Overtaken,
    /// Share of probes that arrived more than once; test of two proportions.
    Duplicated,
    /// Share of probes that did not arrive unharmed; test of two proportions.
    Corrupted,
}

impl Measure {
    pub(crate) const fn title(self) -> &'static str {
        match self {
            Self::Delay => "delay",
            Self::Lost => "lost",
            Self::Bursts => "rows of losses",
            Self::Overtaken => "overtaken",
            Self::Duplicated => "arrived twice",
            Self::Corrupted => "not intact",
        }
    }
}

/// One effect of a path.
#[derive(Clone, Debug)]
pub(crate) struct Feature {
    pub(crate) name: &'static str,
    /// Options of the path by name; `event` may occur several times.
    options: Vec<(&'static str, String)>,
    pub(crate) measures: Vec<Measure>,
    /// Trace that replaces the rate.
    trace: Option<Trace>,
    /// Number of probes (`probes`), and the time between them (`gap`).
    pub(crate) probes: u32,
    pub(crate) gap: Duration,
    /// Differences of delays up to this value count as none.
    pub(crate) resolution: Duration,
    /// Number of consecutive probes whose delays depend on each other.
    pub(crate) delays_depend: usize,
    /// Number of consecutive probes whose places in the order of arrival depend on each other.
    pub(crate) places_depend: usize,
    /// Factor by which the dependence of losses reduces the effective number of probes.
    pub(crate) losses_depend: f64,
    /// Arguments with which `tc` has the same effect on `lo`. Empty if `tc` cannot have this
    /// effect.
    pub(crate) tc: Vec<String>,
    /// Quantiles of a distribution table for tc, in units of its deviation.
    pub(crate) quantile: Option<fn(f64) -> f64>,
    /// Whether the netem backend refuses such paths.
    pub(crate) refused_by_netem: bool,
}

impl Feature {
    pub(crate) fn new(
        name: &'static str,
        options: &[(&'static str, &str)],
        measures: &[Measure],
    ) -> Self {
        let options =
            options.iter().map(|(option, value)| (*option, (*value).to_owned())).collect();
        Self {
            name,
            options,
            measures: measures.to_vec(),
            trace: None,
            probes: 5_000,
            gap: Duration::from_millis(2),
            resolution: COARSE,
            delays_depend: 1,
            places_depend: 1,
            losses_depend: 1.0,
            tc: Vec::new(),
            quantile: None,
            refused_by_netem: false,
        }
    }

    /// Sets the options with which the kernel's netem has the same effect.
    fn netem(mut self, words: &str) -> Self {
        self.tc = vec![format!("qdisc add dev lo root netem limit 100000 {words}")];
        self
    }

    /// Returns the path from client to server.
    pub(crate) fn path(&self) -> DirectedPath {
        let mut spec =
            PathSpec { delay: Some(DELAY.into()), rate: Some(RATE.into()), ..PathSpec::default() };
        for (name, value) in &self.options {
            match *name {
                "event" => spec.events.push(value.clone()),
                name => *spec.field(name).expect("an option") = Some(value.clone()),
            }
        }
        let mut path = spec.check().expect("a path").up;
        if let (Some(trace), Some((capacity, _))) = (&self.trace, &mut path.link) {
            *capacity = Capacity::Trace(trace.clone());
        }
        path
    }
}

/// Returns all features, the plain path first.
pub(crate) fn features() -> Vec<Feature> {
    use Measure::{Bursts, Corrupted, Delay, Duplicated, Lost, Overtaken};
    let bursts = "bursts:enter=3%,leave=25%,bad=80%,good=0.5%";
    let in_tc = |loss: &str| {
        format!("delay {DELAY} {}", loss.parse::<Loss>().expect("loss").netem().expect("loss"))
    };
    let many =
        |feature: Feature| Feature { probes: 10_000, gap: Duration::from_millis(1), ..feature };
    // The kernel counts the Ethernet header, but the laboratory does not.
    let with_header = (BYTES + 14) as f64 / BYTES as f64;
    let (police_rate, police_burst) = ((3e6 * with_header) as u64, (20e3 * with_header) as u64);
    vec![
        Feature::new(PLAIN, &[], &[Delay, Lost]).netem(&format!("delay {DELAY}")),
        many(Feature::new("random loss", &[("loss", "5%")], &[Lost, Bursts])).netem(&in_tc("5%")),
        // The correlation of the two states falls by the factor 1 - enter - leave = 0.72 per
        // packet, so variances are at most (2 - 0.28) / 0.28 times as large.
        Feature {
            losses_depend: 1.72 / 0.28,
            ..many(Feature::new("bursts of loss", &[("loss", bursts)], &[Lost, Bursts]))
                .netem(&in_tc(bursts))
        },
        // With a rate, netem keeps the order, as the laboratory does. Its jitter is symmetric about
        // a mean.
        Feature {
            resolution: Duration::ZERO,
            delays_depend: 11,
            ..Feature::new("jitter in order", &[("jitter", "20ms")], &[Delay, Overtaken])
                .netem("delay 30ms 10ms rate 10gbit")
        },
        Feature {
            resolution: Duration::ZERO,
            places_depend: 21,
            ..Feature::new(
                "jitter that reorders",
                &[("jitter", "40ms,reorder")],
                &[Delay, Overtaken],
            )
            .netem("delay 40ms 20ms")
        },
        // The upper half of a normal distribution, as a table for tc.
        Feature {
            resolution: Duration::ZERO,
            places_depend: 31,
            quantile: Some(half_normal),
            ..Feature::new(
                "normal jitter",
                &[("jitter", "normal:15ms,reorder")],
                &[Delay, Overtaken],
            )
            .netem("delay 20ms 15ms distribution fathom")
        },
        // tc's tables end at four deviations. The deviation here is twice the mean, so the table
        // ends at eight means.
        Feature {
            resolution: Duration::ZERO,
            places_depend: 41,
            quantile: Some(|u| -(1.0 - u).ln() / 2.0),
            ..Feature::new(
                "exponential jitter",
                &[("jitter", "exponential:10ms,reorder")],
                &[Delay, Overtaken],
            )
            .netem("delay 20ms 20ms distribution fathom")
        },
        Feature {
            places_depend: 11,
            ..Feature::new("reordering", &[("reorder", "25%")], &[Delay, Overtaken])
                .netem(&format!("delay {DELAY} reorder 25%"))
        },
        Feature::new("duplication", &[("duplicate", "5%")], &[Delay, Duplicated])
            .netem(&format!("delay {DELAY} duplicate 5%")),
        Feature::new("corruption", &[("corrupt", "5%")], &[Corrupted])
            .netem(&format!("delay {DELAY} corrupt 5%")),
        Feature {
            tc: vec![
                format!("qdisc add dev lo root netem delay {DELAY}"),
                "qdisc add dev lo clsact".into(),
                format!(
                    "filter add dev lo egress matchall action police rate {police_rate}bit burst {police_burst} conform-exceed drop"
                ),
            ],
            ..Feature::new("policer", &[("policer", "3Mbps,burst=20kB")], &[Delay, Lost])
        },
        Feature {
            refused_by_netem: true,
            ..Feature::new(
                "steps of the rate",
                &[("rate", "20Mbps"), ("event", "rate:3600kbps@3s"), ("event", "rate:20Mbps@7s")],
                &[Delay, Lost],
            )
        },
        Feature::new("step of the RTT", &[("event", "rtt:120ms@6s")], &[Delay, Lost]),
        Feature::new("blackouts", &[("event", "blackout:300ms@2s every 3s")], &[Delay, Lost]),
        Feature {
            refused_by_netem: true,
            trace: Some(trace()),
            ..Feature::new("trace", &[], &[Delay, Lost])
        },
    ]
}

/// Returns a trace of 24 Mbps that stops for 60 ms every 700 ms, and then has a third of its rate
/// until 400 ms.
fn trace() -> Trace {
    let milliseconds =
        (1..=12_000u32).filter(|ms| !(ms % 700 < 60 || ms % 700 < 400 && ms % 3 > 0));
    Trace::new(milliseconds.flat_map(|ms| [ms; 2]).collect()).expect("a trace")
}

fn half_normal(u: f64) -> f64 {
    use statrs::distribution::{ContinuousCDF, Normal};
    Normal::standard().inverse_cdf(0.5 + u / 2.0)
}
