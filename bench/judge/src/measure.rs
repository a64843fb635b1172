//! Measures that tests read from a run's outcome: the measures of `fathom compare`, and some that
//! only verdicts need.

use fathom_cc::Invalid;
use fathom_experiments::measures::Measure;
use fathom_experiments::scenario::{GroupOutcome, LinkOutcome, Outcome};
use fathom_netsim::link::jain;

/// Size of a full packet on the wire in bits, which converts queues in packets to times. It is 1420
/// bytes (Sync-TCP §4.4), the default packet size of scenarios.
const PACKET_BITS: f64 = 1_420.0 * 8.0;
/// Link to which shares of groups refer. Downloads cross this link.
const LINK: &str = "left-right";

/// A number computed from an outcome.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Quantity<'a> {
    /// A measure of `fathom compare`, for a group or a link.
    Compared(&'static Measure, &'a str),
    /// Throughput of a group in percent of the total throughput of this group and another one.
    Share(&'a str, &'a str),
    /// Throughput of a group in percent of the link's rate.
    LinkShare(&'a str),
    /// Bytes of completed bodies over the measured time, in percent of the link's rate.
    Goodput(&'a str),
    /// Jain's index of the throughputs of a group's flows, in percent.
    Jain(&'a str),
    /// Throughput of the slowest flow in percent of the group's mean.
    SlowestFlow(&'a str),
    /// Mean queueing delay of a link in milliseconds: its mean queue length at the link's rate.
    QueueDelay(&'a str),
    /// Queueing delay of a link in milliseconds that this share of the time does not exceed. The
    /// scenario keeps the link's queue, whose means over bins stand for the time.
    QueueQuantile(&'a str, f64),
    /// Number of packets stopped by a link's blackouts and MTU.
    CutOff(&'a str),
    /// Failed requests in percent of all requests that ended.
    Failed(&'a str),
}

/// Requests by outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Requests {
    pub(crate) completed: u64,
    pub(crate) failed: u64,
    /// Requests that had not ended when the run ended.
    pub(crate) unfinished: u64,
}

impl Requests {
    pub(crate) fn all(&self) -> u64 {
        self.completed + self.failed + self.unfinished
    }

    /// Returns the fraction of the completed and failed requests that failed.
    pub(crate) fn failed_part(&self) -> f64 {
        self.failed as f64 / (self.completed + self.failed).max(1) as f64
    }
}

impl std::ops::AddAssign for Requests {
    fn add_assign(&mut self, other: Self) {
        self.completed += other.completed;
        self.failed += other.failed;
        self.unfinished += other.unfinished;
    }
}

impl<'a> Quantity<'a> {
    /// Returns the quantity with this name.
    pub(crate) fn named(name: &str, of: &'a str, beside: Option<&'a str>) -> Result<Self, Invalid> {
        if let ("share_percent", Some(beside)) = (name, beside) {
            return Ok(Self::Share(of, beside));
        }
        if beside.is_some() {
            return Err(Invalid::because(format!("'{name}' measures one group; remove beside")));
        }
        match name {
            "share_percent" => Err(Invalid::because(
                "share_percent compares two groups; name the other group in beside",
            )),
            "link_share_percent" => Ok(Self::LinkShare(of)),
            "goodput_percent" => Ok(Self::Goodput(of)),
            "jain_percent" => Ok(Self::Jain(of)),
            "slowest_flow_percent" => Ok(Self::SlowestFlow(of)),
            "queue_mean_ms" => Ok(Self::QueueDelay(of)),
            "queue_p50_ms" => Ok(Self::QueueQuantile(of, 0.5)),
            "queue_least_ms" => Ok(Self::QueueQuantile(of, 0.0)),
            "cut_off_packets" => Ok(Self::CutOff(of)),
            "requests_failed_percent" => Ok(Self::Failed(of)),
            _ => match Measure::named(name) {
                Some(measure) => Ok(Self::Compared(measure, of)),
                None => Err(Invalid::value(name, "is not a measure")),
            },
        }
    }

    /// Returns the value of the quantity in this outcome; `None` if the run has none.
    pub(crate) fn of(&self, outcome: &Outcome) -> Option<f64> {
        let group = |name: &str| outcome.groups.get(name);
        let link = |name: &str| outcome.links.get(name);
        let value = match *self {
            Self::Compared(measure, name) => measure.of(outcome, name, name)?,
            Self::Share(one, other) => {
                let (one, other) = (group(one)?.throughput_bps, group(other)?.throughput_bps);
                percent(one, one + other)?
            }
            Self::LinkShare(name) => percent(group(name)?.throughput_bps, rate(link(LINK)?)?)?,
            Self::Goodput(name) => {
                let sent = group(name)?.body_bytes as f64 * 8.0;
                percent(sent, rate(link(LINK)?)? * outcome.counted())?
            }
            Self::Jain(name) => 100.0 * jain(&flows(group(name)?))?,
            Self::SlowestFlow(name) => {
                let flows = flows(group(name)?);
                let mean = flows.iter().sum::<f64>() / flows.len() as f64;
                percent(flows.iter().copied().reduce(f64::min)?, mean)?
            }
            Self::QueueDelay(name) => {
                let link = link(name)?;
                1e3 * link.mean_queue * PACKET_BITS / rate(link)?
            }
            Self::QueueQuantile(name, quantile) => {
                let link = link(name)?;
                let warm_up = outcome.seconds - outcome.counted();
                let first = (warm_up / link.bin_seconds).ceil() as usize;
                let mut bins = link.queue_mean.get(first..)?.to_vec();
                bins.sort_by(f64::total_cmp);
                // Nearest rank.
                let rank = (quantile * bins.len() as f64).ceil() as usize;
                let packets = bins.get(rank.saturating_sub(1))?;
                1e3 * packets * PACKET_BITS / rate(link)?
            }
            Self::CutOff(name) => link(name)?.impairments?.cut_off as f64,
            Self::Failed(name) => {
                let group = group(name)?;
                percent(group.failed as f64, (group.failed + group.responses) as f64)?
            }
        };
        value.is_finite().then_some(value)
    }

    /// Returns the counts of requests behind a quantity that leaves failed requests out: completed,
    /// failed and unfinished ones. Returns `None` for all other quantities.
    pub(crate) fn requests(&self, outcome: &Outcome) -> Option<Requests> {
        let Self::Compared(measure, name) = self else { return None };
        let group =
            outcome.groups.get(*name).filter(|_| measure.population.leaves_failures_out())?;
        Some(Requests {
            completed: group.responses,
            failed: group.failed,
            unfinished: group.unfinished,
        })
    }

    /// Returns the unit of the values.
    pub(crate) fn unit(&self) -> &'static str {
        match self {
            Self::Compared(measure, _) => measure.unit,
            Self::QueueDelay(_) | Self::QueueQuantile(..) => "ms",
            Self::CutOff(_) => "packets",
            _ => "%",
        }
    }

    /// Describes the quantity in words.
    pub(crate) fn text(&self) -> String {
        let of = |what: &str, name: &str| match name {
            "subject" => what.to_owned(),
            other => format!("{what} of {other}"),
        };
        match self {
            Self::Compared(measure, name) if measure.is_of_group() => of(measure.name, name),
            Self::Compared(measure, _) => measure.name.to_owned(),
            Self::Share(one, other) => of(&format!("share beside {other}"), one),
            Self::LinkShare(name) => of("share of the link", name),
            Self::Goodput(name) => of("goodput of the link", name),
            Self::Jain(name) => of("Jain's index of flows", name),
            Self::SlowestFlow(name) => of("rate of the slowest flow relative to the mean", name),
            Self::QueueDelay(_) => "mean queueing delay".to_owned(),
            Self::QueueQuantile(_, 0.0) => "least queueing delay".to_owned(),
            Self::QueueQuantile(..) => "median queueing delay".to_owned(),
            Self::CutOff(_) => "packets dropped by blackouts and the MTU".to_owned(),
            Self::Failed(name) => of("requests failed", name),
        }
    }
}

fn percent(part: f64, whole: f64) -> Option<f64> {
    (whole > 0.0).then(|| 100.0 * part / whole)
}

/// Returns the rate of a link in bits per second. In results of older versions, it is the throughput
/// divided by the utilisation.
fn rate(link: &LinkOutcome) -> Option<f64> {
    if link.rate_bps > 0.0 {
        return Some(link.rate_bps);
    }
    (link.utilisation_percent > 0.0).then(|| 100.0 * link.throughput_bps / link.utilisation_percent)
}

/// Returns the rates of a group's flows, or of its live streams: their frames in time.
fn flows(group: &GroupOutcome) -> Vec<f64> {
    if let Some(media) = &group.media {
        return media.met_kbps_of_streams.clone();
    }
    group.flows.iter().map(|flow| flow.throughput_bps).collect()
}

#[cfg(test)]
mod tests {
    use fathom_experiments::scenario::FlowOutcome;

    use super::*;

    fn outcome() -> Outcome {
        let flow = |bps: f64| FlowOutcome { throughput_bps: bps, ..FlowOutcome::default() };
        let subject = GroupOutcome {
            throughput_bps: 6e6,
            flows: vec![flow(4e6), flow(2e6)],
            body_bytes: 5_000_000,
            failed: 1,
            responses: 3,
            ..GroupOutcome::default()
        };
        let rival = GroupOutcome { throughput_bps: 2e6, ..GroupOutcome::default() };
        let link = LinkOutcome {
            arrived: 10,
            throughput_bps: 8e6,
            utilisation_percent: 80.0,
            mean_queue: 50.0,
            bin_seconds: 2.0,
            queue_mean: vec![0.0, 0.0, 30.0, 50.0, 10.0, 20.0, 40.0],
            ..LinkOutcome::default()
        };
        Outcome {
            seconds: 14.0,
            counted_seconds: 10.0,
            groups: [("subject".to_owned(), subject), ("rival".to_owned(), rival)].into(),
            links: [(LINK.to_owned(), link)].into(),
            ..Outcome::default()
        }
    }

    #[test]
    fn judged_quantities_match_hand_calculation() {
        let value =
            |name: &str, of, beside| Quantity::named(name, of, beside).unwrap().of(&outcome());
        assert_eq!(value("share_percent", "subject", Some("rival")), Some(75.0));
        assert_eq!(value("link_share_percent", "subject", None), Some(60.0));
        // 40 Mbit in 10 s on a link of 10 Mbps.
        assert_eq!(value("goodput_percent", "subject", None), Some(40.0));
        assert_eq!(value("jain_percent", "subject", None), Some(90.0));
        assert!(
            (value("slowest_flow_percent", "subject", None).unwrap() - 200.0 / 3.0).abs() < 1e-9
        );
        assert_eq!(value("queue_mean_ms", LINK, None), Some(56.8));
        // The first four of the 14 seconds are not counted.
        assert_eq!(value("queue_p50_ms", LINK, None), Some(34.08));
        assert_eq!(value("queue_least_ms", LINK, None), Some(11.36));
        assert_eq!(value("requests_failed_percent", "subject", None), Some(25.0));
        assert_eq!(value("throughput_bps", "rival", None), Some(2e6));
        assert_eq!(value("cut_off_packets", LINK, None), None, "a path without impairments");
        assert_eq!(value("jain_percent", "nobody", None), None);
    }

    #[test]
    fn unknown_measure_names_are_refused() {
        for (name, beside, says) in [
            ("speed", None, "'speed' is not a measure"),
            ("share_percent", None, "name the other group in beside"),
            ("jain_percent", Some("rival"), "measures one group"),
        ] {
            let error = Quantity::named(name, "subject", beside).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
    }
}
