//! Profile of a server's clients: distributions over its connections, and classes of clients by
//! round trip and rate.

use std::collections::HashSet;
use std::ptr;

use fathom_metrics::median;
use serde::Serialize;

use crate::logs::Observed;
use crate::observe::Observation;

/// Maximum number of classes. Each costs runs, and readers can only compare a few.
pub const MOST_CLASSES: usize = 6;
/// Minimum share of the connections in a class.
const LEAST_SHARE: f64 = 0.05;
/// Minimum ratio between the means of two classes, in rate or round trip.
const APART: f64 = 1.5;
/// Maximum ratio of a connection's observed rate to the rate of its class.
const TOLERANCE: f64 = 1.1;
/// Quantiles shown of distributions.
pub(crate) const SHOWN: [f64; 5] = [0.05, 0.25, 0.5, 0.75, 0.95];

/// Returns the value that this fraction of the sorted values does not exceed.
pub(crate) fn quantile(sorted: &[f64], part: f64) -> Option<f64> {
    sorted.get(((part * sorted.len() as f64).ceil() as usize).max(1) - 1).copied()
}

/// A distribution of values.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Spread {
    /// Number of values.
    pub count: usize,
    /// 5th, 25th, 50th, 75th and 95th percentiles.
    pub quantiles: Vec<f64>,
}

impl Spread {
    fn of(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        Self {
            count: values.len(),
            quantiles: SHOWN.iter().filter_map(|part| quantile(&values, *part)).collect(),
        }
    }
}

/// Clients with similar paths.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Class {
    /// Share of the connections.
    pub share: f64,
    /// Number of connections.
    pub connections: usize,
    /// Number of connections whose path was full for a while, so that their rate is known.
    pub measured: usize,
    /// Median base round trip in milliseconds.
    pub rtt_ms: f64,
    /// Median rate in bits per second, or the median of the highest observed rates if no rate is
    /// known.
    pub rate_bps: f64,
    /// Random loss of the paths, as a fraction of the packets.
    pub loss: f64,
    /// Median of the longest queues in bytes, over connections with losses at the queue and no
    /// random loss.
    pub queue_bytes: Option<f64>,
}

/// Profile of a server's clients.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Profile {
    /// Number of connections.
    pub connections: usize,
    /// Number of connections without a round trip, which are in no class.
    pub without_rtt: usize,
    /// Number of connections whose path was full for a while, so that their rate is known.
    pub measured: usize,
    /// Base round trips in milliseconds.
    pub rtt_ms: Spread,
    /// Known rates in bits per second.
    pub rate_bps: Spread,
    /// Fractions of packets lost.
    pub loss: Spread,
    /// Sizes of responses in bytes.
    pub response_bytes: Spread,
    /// Requests per connection.
    pub requests: Spread,
    /// Milliseconds between requests of a connection.
    pub request_gap_ms: Spread,
    /// Milliseconds between the starts of connections, if logs contain them.
    pub connection_gap_ms: Spread,
    /// Classes of clients, largest first.
    pub classes: Vec<Class>,
}

/// A connection as a point: logarithms of round trip and rate.
#[derive(Clone, Copy, Debug)]
struct Point<'a> {
    at: [f64; 2],
    of: &'a Observation,
}

impl Profile {
    /// Builds the profile of the observations, with at most `most_classes` classes.
    pub fn of(observed: &Observed, most_classes: usize) -> Self {
        let all = &observed.connections;
        let each =
            |of: fn(&Observation) -> Option<f64>| Spread::of(all.iter().filter_map(of).collect());
        let mut begins: Vec<f64> = all.iter().filter_map(|c| c.began_ms).collect();
        begins.sort_by(f64::total_cmp);
        let sizes = all.iter().flat_map(|c| &c.responses).chain(&observed.responses);
        Self {
            connections: all.len(),
            without_rtt: all.iter().filter(|c| c.rtt_ms.is_none()).count(),
            measured: all.iter().filter(|c| c.rate_bps.is_some()).count(),
            rtt_ms: each(|c| c.rtt_ms),
            rate_bps: each(|c| c.rate_bps),
            loss: each(Observation::loss),
            response_bytes: Spread::of(sizes.map(|bytes| *bytes as f64).collect()),
            requests: each(|c| (!c.responses.is_empty()).then_some(c.responses.len() as f64)),
            request_gap_ms: Spread::of(
                all.iter().flat_map(|c| c.gaps_ms.iter().copied()).collect(),
            ),
            connection_gap_ms: Spread::of(
                begins.windows(2).map(|pair| pair[1] - pair[0]).collect(),
            ),
            classes: classes(all, most_classes),
        }
    }
}

fn point(of: &Observation, rate: Option<f64>) -> Option<Point<'_>> {
    Some(Point {
        at: [of.rtt_ms.filter(|rtt| *rtt > 0.0)?.ln(), rate.filter(|rate| *rate > 0.0)?.ln()],
        of,
    })
}

/// Returns the classes of connections with a known rate. All other connections are added to the
/// class with the nearest round trip and a sufficient rate.
fn classes(all: &[Observation], most: usize) -> Vec<Class> {
    let known: Vec<Point<'_>> = all.iter().filter_map(|c| point(c, c.rate_bps)).collect();
    // If no path was ever full, use the highest observed rates.
    let seen = || all.iter().filter_map(|c| point(c, c.seen_bps)).collect();
    let points = if known.is_empty() { seen() } else { known };
    if points.is_empty() {
        return Vec::new();
    }
    let mut groups = split(points, most.clamp(1, MOST_CLASSES));
    let middles: Vec<[f64; 2]> = groups.iter().map(|group| middle(group)).collect();
    let members: HashSet<*const Observation> =
        groups.iter().flatten().map(|point| ptr::from_ref(point.of)).collect();
    let others = all.iter().filter(|c| !members.contains(&ptr::from_ref(*c)));
    for other in others {
        let Some(rtt) = other.rtt_ms.filter(|rtt| *rtt > 0.0).map(f64::ln) else { continue };
        let seen = other.seen_bps.map_or(f64::NEG_INFINITY, |rate| (rate / TOLERANCE).ln());
        let far = |middle: &[f64; 2]| (middle[0] - rtt).abs() + (seen - middle[1]).max(0.0);
        let nearest =
            (0..middles.len()).min_by(|a, b| far(&middles[*a]).total_cmp(&far(&middles[*b])));
        if let Some(nearest) = nearest {
            groups[nearest].push(Point { at: [rtt, middles[nearest][1]], of: other });
        }
    }
    let count: usize = groups.iter().map(Vec::len).sum();
    let mut classes: Vec<Class> =
        groups.iter().zip(&middles).map(|(group, middle)| class(group, *middle, count)).collect();
    classes.sort_by(|a, b| b.share.total_cmp(&a.share).then(a.rtt_ms.total_cmp(&b.rtt_ms)));
    classes
}

fn middle(group: &[Point<'_>]) -> [f64; 2] {
    [0, 1].map(|dim| {
        median(&group.iter().map(|point| point.at[dim]).collect::<Vec<f64>>()).unwrap_or(0.0)
    })
}

/// Summarises a class. `[rtt, rate]` is the middle of the connections that define the class, and
/// `all` is the number of connections in all classes.
fn class(group: &[Point<'_>], [rtt, rate]: [f64; 2], all: usize) -> Class {
    let with_loss: Vec<(f64, f64)> =
        group.iter().filter_map(|p| Some((p.of.random_loss?, p.of.sent.max(1) as f64))).collect();
    let packets: f64 = with_loss.iter().map(|(_, sent)| sent).sum();
    let queues: Vec<f64> = group.iter().filter_map(|point| point.of.queue_bytes).collect();
    Class {
        share: group.len() as f64 / all as f64,
        connections: group.len(),
        measured: group.iter().filter(|point| point.of.rate_bps.is_some()).count(),
        rtt_ms: rtt.exp(),
        rate_bps: rate.exp(),
        loss: with_loss.iter().map(|(loss, sent)| loss * sent).sum::<f64>() / packets.max(1.0),
        queue_bytes: median(&queues),
    }
}

/// Splits groups of points in two, repeatedly. Each split minimises the squared distances of the
/// logarithms within the two groups, and both groups must be large enough and far enough apart.
fn split(points: Vec<Point<'_>>, most: usize) -> Vec<Vec<Point<'_>>> {
    let least = ((LEAST_SHARE * points.len() as f64).ceil() as usize).max(1);
    let mut groups = vec![points];
    while groups.len() < most {
        let cut = |(i, group): (usize, &Vec<Point<'_>>)| {
            (0..2)
                .filter_map(move |dim| Some((i, best_cut(group, dim, least)?)))
                .collect::<Vec<_>>()
        };
        let best =
            groups.iter().enumerate().flat_map(cut).max_by(|a, b| a.1.gain.total_cmp(&b.1.gain));
        let Some((i, cut)) = best else { break };
        let (low, high) =
            groups.swap_remove(i).into_iter().partition(|point| point.at[cut.dim] < cut.below);
        groups.extend([low, high]);
    }
    groups
}

/// Position of a cut of a group in one dimension.
struct Cut {
    dim: usize,
    below: f64,
    gain: f64,
}

fn best_cut(group: &[Point<'_>], dim: usize, least: usize) -> Option<Cut> {
    let mut values: Vec<f64> = group.iter().map(|point| point.at[dim]).collect();
    values.sort_by(f64::total_cmp);
    let (n, sum) = (values.len(), values.iter().sum::<f64>());
    let (mut before, mut best) = (0.0, None::<Cut>);
    for i in 1..n {
        before += values[i - 1];
        let (low, high) = (before / i as f64, (sum - before) / (n - i) as f64);
        if i < least || n - i < least || values[i] <= values[i - 1] || high - low < APART.ln() {
            continue;
        }
        // Reduction of the sum of squares: the part between the two means.
        let gain = (i * (n - i)) as f64 / n as f64 * (high - low).powi(2);
        if best.as_ref().is_none_or(|best| gain > best.gain) {
            best = Some(Cut { dim, below: values[i], gain });
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(rtt: f64, rate: Option<f64>) -> Observation {
        Observation {
            rtt_ms: Some(rtt),
            rate_bps: rate,
            random_loss: Some(0.01),
            sent: 10,
            ..Observation::default()
        }
    }

    fn profile(connections: Vec<Observation>) -> Profile {
        Profile::of(&Observed { connections, ..Observed::default() }, 4)
    }

    #[test]
    fn path_classes_and_their_connection_shares_are_recovered() {
        let near = |i: u32| 1.0 + f64::from(i % 7) / 100.0;
        let mut all: Vec<Observation> =
            (0..60).map(|i| seen(20.0 * near(i), Some(10e6 * near(i + 3)))).collect();
        all.extend((0..30).map(|i| seen(80.0 * near(i), Some(2e6 * near(i)))));
        all.extend((0..10).map(|i| seen(80.0 * near(i), None)));
        let found = profile(all);
        assert_eq!((found.connections, found.measured, found.classes.len()), (100, 90, 2));
        let [near, far] = &found.classes[..] else { panic!("{found:?}") };
        assert!((near.share - 0.6).abs() < 1e-9 && (far.share - 0.4).abs() < 1e-9, "{found:?}");
        assert!(
            (near.rtt_ms / 20.0 - 1.0).abs() < 0.05 && (near.rate_bps / 10e6 - 1.0).abs() < 0.05,
            "{near:?}"
        );
        assert!(
            (far.rtt_ms / 80.0 - 1.0).abs() < 0.05 && (far.rate_bps / 2e6 - 1.0).abs() < 0.05,
            "{far:?}"
        );
        assert_eq!((far.measured, far.connections), (30, 40));
        assert!((near.loss - 0.01).abs() < 1e-9);
    }

    #[test]
    fn similar_paths_form_one_class() {
        let found = profile((0..50).map(|i| seen(30.0 + f64::from(i % 5), Some(5e6))).collect());
        assert_eq!(found.classes.len(), 1);
        assert!(profile(vec![Observation::default()]).classes.is_empty());
    }

    #[test]
    fn medians_and_quantiles_match_hand_calculation() {
        assert_eq!(
            (median(&[]), median(&[3.0, 1.0]), median(&[5.0, 1.0, 2.0])),
            (None, Some(2.0), Some(2.0))
        );
        let spread = Spread::of((1..=100).map(f64::from).collect());
        assert_eq!((spread.count, spread.quantiles), (100, vec![5.0, 25.0, 50.0, 75.0, 95.0]));
    }
}
