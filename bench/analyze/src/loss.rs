//! Analysis of whether delay predicted loss on a path, and of the cost of acting on it: DCA §3,
//! applied to logs.
//!
//! The measures are those of [`fathom_metrics`]; several connections are combined loss by loss. In
//! addition to the paper, the result contains the share that chance alone would predict, because
//! the paper's 7 to 18% of losses predicted mean little without the frequency of rises in general.

use std::collections::BTreeMap;
use std::time::Duration;

use fathom_cc::dca::Epoch;
use fathom_metrics::{
    Counts, DelayEvent, Distribution, LAGS, Latencies, Prediction, Replay, RttSample, SendRate,
    Timeouts, events, percentile, predict, replay,
};
use fathom_report::{Axis, Figure, Series};
use serde::Serialize;

use super::chance::{Marked, piece_interval, rotation_test, share_interval};
use super::error::AnalyzeError;
use super::page::{Drawing, Drawn, Page, Sheet, fraction, millis, percent, percents};
use super::source::Source;

/// Minimum number of losses, and of round trips, for a result.
const FEW_LOSSES: u64 = 10;
const FEW_SAMPLES: usize = 200;
/// Number of round trips per piece, for the interval of the cost.
const PIECE: usize = 200;

/// Conclusion from the logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The data are too few for a conclusion.
    TooLittle,
    /// Rises of the round trip preceded losses no more often than by chance.
    NoBetterThanChance,
    /// Rises preceded losses more often than by chance. The interval does not exclude that they
    /// preceded fewer than half of the losses, or less than 1.5 times the share expected by chance.
    Weakly,
    /// Rises preceded more than half of the losses, and more than 1.5 times the share expected by
    /// chance.
    Predicts,
}

/// Result of the analysis of delay and loss.
#[derive(Clone, Debug, Serialize)]
pub struct LossAnswer {
    /// Files analysed.
    pub sources: Vec<Source>,
    /// Conclusion.
    pub verdict: Verdict,
    /// Number of round trips.
    pub samples: usize,
    /// Packets sent, if every log with losses contains the number.
    pub sent: Option<u64>,
    /// Packets declared lost.
    pub lost: u64,
    /// Losses with enough earlier round trips. A burst between two round trips is one loss.
    pub losses: u64,
    /// Losses preceded by a rise.
    #[serde(rename = "foretold")]
    pub predicted: u64,
    /// Share of the losses preceded by a rise, P\[sampledRTT(2) > windowAVG(20) + std\]
    /// (DCA §3.2.1).
    pub share: Option<f64>,
    /// 95% interval of the share, assuming independent losses.
    pub interval: Option<(f64, f64)>,
    /// Share of all round trips that are rises. Chance alone would predict this share of the
    /// losses.
    pub by_chance: Option<f64>,
    /// Probability that chance predicts as many losses, from a rotation test of both series.
    pub p_value: Option<f64>,
    /// Decisions that DCA's detector would have made.
    pub detector: Replay,
    /// Predicted change of the send rate (DCA §3.3).
    pub cost: Option<Prediction>,
    /// 95% interval of the change, in percent.
    pub cost_interval: Option<(f64, f64)>,
    /// Mean round trip at each lag from a loss, relative to the mean round trip, with half of its
    /// 95% interval.
    pub lags: Vec<Lag>,
    /// Distribution of all round trips.
    pub all: Distribution,
    /// Distribution of the mean of the two round trips before each loss.
    pub before_loss: Distribution,
    /// Caveats to read before using the result.
    pub cautions: Vec<String>,
}

/// Delay at one lag.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Lag {
    /// Distance from the loss in round trips; negative before the loss, never 0.
    pub lag: i32,
    /// Mean relative to the mean of all round trips.
    pub relative: f64,
    /// Half of the 95% interval of `relative`.
    pub half_width: f64,
    /// Number of losses with a round trip at this lag.
    pub losses: u64,
}

/// Analyses whether delay predicted loss in the logs.
///
/// # Errors
/// Returns an error if a file is not a log.
pub fn loss_delay(sources: Vec<Source>) -> Result<LossAnswer, AnalyzeError> {
    if let Some(table) = sources.iter().find(|s| !s.is_log()) {
        return Err(AnalyzeError::Nothing(format!(
            "'{}' is a table of responses and has no round trips; name qlog files, or use 'fathom analyze response'",
            table.name
        )));
    }
    let series: Vec<&[RttSample]> = of_connections(&sources, |c| c.series.samples.as_slice());
    let event = DelayEvent::default();
    let marked: Vec<Marked> = series.iter().map(|s| marked(s, event)).collect();
    let losses = marked.iter().map(|m| m.places.len() as u64).sum();
    let predicted =
        marked.iter().map(|m| m.places.iter().filter(|at| m.yes[**at]).count() as u64).sum();
    let judged: usize = marked.iter().map(|m| m.yes.len()).sum();
    let rises = marked.iter().flat_map(|m| &m.yes).filter(|yes| **yes).count();
    let share = |part: f64, of: f64| (of > 0.0).then(|| part / of);
    let samples = series.iter().map(|s| s.len()).sum();
    let interval = share_interval(predicted, losses);
    let p_value = if losses > 0 { rotation_test(&marked) } else { None };
    let by_chance = share(rises as f64, judged as f64);
    let verdict = judge(samples, losses, interval, by_chance.zip(p_value));
    let detector =
        series.iter().map(|s| replay(s, event, Epoch::Average)).fold(Replay::default(), sum);
    let (all, before_loss) = distributions(&series);
    let pieces = pieces(&sources);
    let whole: Vec<&Piece> = pieces.iter().collect();
    let mut answer = LossAnswer {
        verdict,
        samples,
        sent: sent(&sources),
        lost: sources.iter().flat_map(|s| &s.connections).map(|c| c.series.lost).sum(),
        losses,
        predicted,
        share: share(predicted as f64, losses as f64),
        interval,
        by_chance,
        p_value,
        detector,
        cost: cost(&whole),
        cost_interval: piece_interval(&pieces, |drawn| cost(drawn).map(|p| p.degradation_percent)),
        lags: lags(&series),
        all,
        before_loss,
        cautions: Vec::new(),
        sources,
    };
    answer.cautions = cautions(&answer);
    Ok(answer)
}

fn of_connections<'a, T>(sources: &'a [Source], of: impl Fn(&'a super::Connection) -> T) -> Vec<T> {
    sources.iter().flat_map(|s| &s.connections).map(of).collect()
}

/// Returns whether each round trip is a rise, from the first one with enough earlier round trips,
/// and the positions of the round trips that a loss followed.
fn marked(samples: &[RttSample], event: DelayEvent) -> Marked {
    let all = events(samples, event);
    let from = all.iter().position(Option::is_some).unwrap_or(all.len());
    let places = (from..samples.len()).filter(|at| samples[*at].loss_follows).map(|at| at - from);
    Marked {
        yes: all[from..].iter().map(|yes| *yes == Some(true)).collect(),
        places: places.collect(),
    }
}

fn judge(
    samples: usize,
    losses: u64,
    interval: Option<(f64, f64)>,
    chance: Option<(f64, f64)>,
) -> Verdict {
    match (interval, chance) {
        _ if losses < FEW_LOSSES || samples < FEW_SAMPLES => Verdict::TooLittle,
        (Some((low, _)), Some((share, p))) if p < 0.05 && low > 0.5 && low > 1.5 * share => {
            Verdict::Predicts
        }
        (Some(_), Some((_, p))) if p < 0.05 => Verdict::Weakly,
        (Some(_), Some(_)) => Verdict::NoBetterThanChance,
        _ => Verdict::TooLittle,
    }
}

fn sum(a: Replay, b: Replay) -> Replay {
    Replay {
        losses: a.losses + b.losses,
        reactions: a.reactions + b.reactions,
        avoided: a.avoided + b.avoided,
        avoided_by_reaction: a.avoided_by_reaction + b.avoided_by_reaction,
    }
}

fn distributions(series: &[&[RttSample]]) -> (Distribution, Distribution) {
    let (mut all, mut before) = (Latencies::default(), Latencies::default());
    for samples in series {
        samples.iter().for_each(|s| all.record(s.rtt));
        // sampledRTT(2).
        let pairs = samples.windows(2).filter(|pair| pair[1].loss_follows);
        pairs.for_each(|pair| before.record((pair[0].rtt + pair[1].rtt) / 2));
    }
    (all.distribution(), before.distribution())
}

/// Returns the packets sent; `None` if a log with losses does not contain the number.
fn sent(sources: &[Source]) -> Option<u64> {
    let connections = || sources.iter().flat_map(|s| &s.connections);
    let known = connections().all(|c| c.sent.is_some() || c.series.lost == 0);
    let sum: u64 = connections().filter_map(|c| c.sent).sum();
    (known && sum > 0).then_some(sum)
}

/// Part of a connection with the counts for the prediction.
struct Piece {
    samples: f64,
    /// Sum of the round trips, and sum of their distances from the overall mean, in seconds.
    rtt: f64,
    off: f64,
    counts: Replay,
    /// Packets sent, spread evenly.
    sent: f64,
    lost: f64,
}

/// Splits every connection into pieces. The packets of a connection are spread evenly over its
/// round trips, and its lost packets over its losses.
fn pieces(sources: &[Source]) -> Vec<Piece> {
    let connections =
        || sources.iter().flat_map(|s| &s.connections).filter(|c| !c.series.samples.is_empty());
    let rtts = || {
        connections()
            .filter(|c| c.sent.is_some())
            .flat_map(|c| &c.series.samples)
            .map(|s| s.rtt.as_secs_f64())
    };
    let mean = rtts().sum::<f64>() / rtts().count() as f64;
    let mut pieces = Vec::new();
    for connection in connections() {
        let samples = &connection.series.samples;
        let Some(sent) = connection.sent else { continue };
        let losses = samples.iter().filter(|s| s.loss_follows).count().max(1) as f64;
        for part in samples.chunks(PIECE) {
            let counts = replay(part, DelayEvent::default(), Epoch::Average);
            let rtts = || part.iter().map(|s| s.rtt.as_secs_f64());
            pieces.push(Piece {
                samples: part.len() as f64,
                rtt: rtts().sum(),
                off: rtts().map(|rtt| (rtt - mean).abs()).sum(),
                sent: sent as f64 * part.len() as f64 / samples.len() as f64,
                lost: connection.series.lost as f64 * counts.losses as f64 / losses,
                counts,
            });
        }
    }
    pieces
}

/// Returns the change of the send rate that DCA would cause, by the model of DCA §3.3. No maximum
/// window applies, because QUIC receivers enlarge theirs on demand.
fn cost(pieces: &[&Piece]) -> Option<Prediction> {
    let n: f64 = pieces.iter().map(|p| p.samples).sum();
    let mean = pieces.iter().map(|p| p.rtt).sum::<f64>() / n;
    let off = pieces.iter().map(|p| p.off).sum::<f64>() / n;
    let path = SendRate {
        rtt: Duration::try_from_secs_f64(mean).ok()?,
        // RFC 9002 §6.2.1: smoothed round trip, four times the mean deviation, the peer's maximum
        // delay.
        timeout: Duration::try_from_secs_f64(mean + 4.0 * off).ok()? + Duration::from_millis(25),
        packets_per_ack: 2.0,
        max_window: None,
    };
    let total = |of: fn(&Piece) -> f64| pieces.iter().map(|p| of(p)).sum::<f64>().round() as u64;
    let counts = Counts {
        sent: total(|p| p.sent),
        retransmits: total(|p| p.lost),
        reactions: total(|p| p.counts.reactions as f64),
        avoided: total(|p| p.counts.avoided as f64),
    };
    predict(&path, counts, Timeouts::OfLosses)
}

/// Returns the delay by lag. Each loss counts once, and each round trip is relative to the mean of
/// its own connection.
fn lags(series: &[&[RttSample]]) -> Vec<Lag> {
    let mut sums: BTreeMap<i32, (f64, f64, u64)> = BTreeMap::new();
    for samples in series {
        let mean = samples.iter().map(|s| s.rtt.as_secs_f64()).sum::<f64>() / samples.len() as f64;
        for (at, _) in samples.iter().enumerate().filter(|(_, s)| s.loss_follows) {
            for lag in (-(LAGS as i32)..=LAGS as i32).filter(|lag| *lag != 0) {
                // Lag -1 is the sample after which the packet was lost.
                let place = at.checked_add_signed(if lag < 0 { lag + 1 } else { lag } as isize);
                let Some(sample) = place.and_then(|place| samples.get(place)) else { continue };
                let relative = sample.rtt.as_secs_f64() / mean;
                let sum = sums.entry(lag).or_default();
                *sum = (sum.0 + relative, sum.1 + relative * relative, sum.2 + 1);
            }
        }
    }
    let lag = |(lag, (total, squares, losses)): (i32, (f64, f64, u64))| {
        let n = losses as f64;
        let mean = total / n;
        let variance = ((squares - n * mean * mean) / (n - 1.0).max(1.0)).max(0.0);
        Lag { lag, relative: mean, half_width: 1.96 * (variance / n).sqrt(), losses }
    };
    // Leave out means of fewer than three losses.
    sums.into_iter().filter(|(_, sum)| sum.2 >= 3 && sum.0.is_finite()).map(lag).collect()
}

fn cautions(a: &LossAnswer) -> Vec<String> {
    let mut all: Vec<String> = a.sources.iter().flat_map(|s| s.cautions.clone()).collect();
    let connections = || a.sources.iter().flat_map(|s| &s.connections);
    if a.samples == 0 && connections().any(|c| c.only_smoothed) {
        all.push(
            "The logs contain only smoothed round-trip times, which react too late and too little \
             for this analysis. Under 'fathom serve', the stack's own controllers log only \
             smoothed values."
                .into(),
        );
    } else if a.samples < FEW_SAMPLES {
        all.push(format!("Round trips: {}; at least {FEW_SAMPLES} are needed.", a.samples));
    }
    if a.losses < FEW_LOSSES {
        all.push(format!(
            "Losses with enough round trips before them: {}; at least {FEW_LOSSES} are needed.",
            a.losses
        ));
    }
    let guessed: u64 = connections().map(|c| c.guessed_losses).sum();
    let events: u64 = connections().map(|c| c.loss_events).sum();
    if guessed > 0 {
        all.push(format!(
            "For {guessed} of {events} loss events, the log does not say when the lost packet was \
             sent. The analysis assumes one round trip before the loss.",
        ));
    }
    if a.sent.is_none() && a.lost > 0 {
        all.push(
            "No cost can be predicted: the logs do not say how many packets were sent.".into(),
        );
    }
    all
}

impl LossAnswer {
    fn words(&self) -> Vec<String> {
        let chance = self.by_chance.unwrap_or(0.0);
        let numbers = match (self.share, self.interval) {
            (Some(share), Some(interval)) => format!(
                "the round-trip time rose before {} of {} losses ({}, 95 % interval {}); chance alone would give {}",
                self.predicted,
                self.losses,
                percent(share),
                percents(interval),
                percent(chance),
            ),
            _ => format!("{} losses, {} round trips", self.losses, self.samples),
        };
        let p = self.p_value.map_or(String::new(), |p| format!(" (p = {p:.3})"));
        let first = match self.verdict {
            Verdict::TooLittle => format!(
                "These logs have too few data to say whether delay predicts loss: {numbers}."
            ),
            Verdict::NoBetterThanChance => {
                format!("Delay did not predict loss here: {numbers}{p}.")
            }
            Verdict::Weakly => {
                format!("Delay is related to loss here, but too weakly to act on: {numbers}{p}.")
            }
            Verdict::Predicts => format!("Delay predicted loss here: {numbers}{p}."),
        };
        let mut words = vec![first];
        if self.verdict != Verdict::TooLittle {
            words.extend(self.cost_in_words());
        }
        words
    }

    fn cost_in_words(&self) -> Option<String> {
        let cost = self.cost?;
        let interval = self.cost_interval.map_or(String::new(), |(low, high)| {
            format!(" (95 % interval {low:.0} to {high:.0} %)")
        });
        let d = &self.detector;
        let near =
            if d.reactions > 0 { d.avoided_by_reaction as f64 / d.reactions as f64 } else { 0.0 };
        Some(format!(
            "A controller that cuts its window at such rises would have made {} cuts for {} \
             losses, with {:.2} losses on average within a round trip of a cut. By the model of \
             DCA §3.3, its throughput would have changed by {:+.0} %{interval}.",
            d.reactions, d.losses, near, cost.degradation_percent,
        ))
    }

    /// Returns the result as a page.
    pub fn page(&self) -> Page {
        let names: Vec<&str> = self.sources.iter().map(|s| s.name.as_str()).collect();
        Page {
            warnings: Vec::new(),
            title: format!("Did delay predict loss? {}", several(&names)),
            verdicts: self.words(),
            cautions: self.cautions.clone(),
            sheets: vec![self.sheet()],
            figures: self.figures(),
            method: METHOD.iter().map(|m| (*m).to_owned()).collect(),
        }
    }

    fn sheet(&self) -> Sheet {
        let or = |text: Option<String>| text.unwrap_or_else(|| "unknown".into());
        let row = |label: &str, text: String| (label.to_owned(), vec![text]);
        let connections: usize = self.sources.iter().map(|s| s.connections.len()).sum();
        let at = |lag: i32| self.lags.iter().find(|l| l.lag == lag);
        let relative = |l: &Lag| format!("{:.3} ± {:.3}", l.relative, l.half_width);
        let rate = self.sent.map(|sent| {
            format!("{} of {sent} ({})", self.lost, percent(self.lost as f64 / sent as f64))
        });
        let mut rows = vec![
            row("connections", connections.to_string()),
            row("round trips", self.samples.to_string()),
            row("packets lost", rate.unwrap_or_else(|| self.lost.to_string())),
            row("losses (bursts count once)", self.losses.to_string()),
            row("  losses after a rise in the round-trip time", self.predicted.to_string()),
            row("  share of losses after a rise", or(self.share.map(percent))),
            row("  95 % interval of this share", or(self.interval.map(percents))),
            row("share of round trips that are rises", or(self.by_chance.map(percent))),
            row(
                "probability of as many such losses by chance (p)",
                or(self.p_value.map(|p| format!("{p:.4}"))),
            ),
            row(
                "round trip, median (ms)",
                or((self.all.count > 0).then(|| millis(self.all.median_ms))),
            ),
            row(
                "  p95 (ms)",
                or(percentile::shown(self.all.p95_ms, 0.95, self.all.count).map(millis)),
            ),
            row(
                "  round trip before losses, median (ms)",
                or((self.before_loss.count > 0).then(|| millis(self.before_loss.median_ms))),
            ),
            row("round trip at a loss, relative to the mean", or(at(-1).map(relative))),
            row("  ten round trips before a loss", or(at(-10).map(relative))),
            row("cuts by DCA's detector", self.detector.reactions.to_string()),
            row(
                "  losses within a round trip of a cut",
                self.detector.avoided_by_reaction.to_string(),
            ),
        ];
        if let Some(cost) = &self.cost {
            rows.push(row(
                "predicted change of throughput (%)",
                format!("{:+.1}", cost.degradation_percent),
            ));
            let text = self.cost_interval.map(|(low, high)| format!("{low:+.1} to {high:+.1}"));
            rows.push(row("  95 % interval (%)", or(text)));
        }
        Sheet { title: "Numbers".into(), columns: vec!["value".into()], rows }
    }

    fn figures(&self) -> Vec<Drawn> {
        let mut all = Vec::new();
        if self.lags.len() > 2 {
            let points = self.lags.iter().map(|l| (f64::from(l.lag), l.relative)).collect();
            let spread = Some(self.lags.iter().map(|l| l.half_width).collect());
            let series = Series { spread, ..Series::line("mean, with its 95 % interval", points) };
            let figure = Figure {
                x: Axis::linear("distance from a loss (round-trip samples)"),
                y: Axis::linear("round trip relative to the mean"),
                series: vec![series],
            };
            let note = "If delay predicts loss, the curve rises well above 1 on the left of 0. On \
                        the right of 0, the queue has dropped packets and the sender has cut its \
                        window.";
            all.push(Drawn {
                title: "Delay before and after losses".into(),
                note: note.into(),
                drawing: Drawing::Curves(figure),
            });
        }
        if self.before_loss.count > 0 {
            let figure = Figure {
                x: Axis::linear("round trip (ms)"),
                y: fraction(),
                series: vec![
                    Series::line("all", self.all.cdf.clone()),
                    Series::line(
                        "mean of the two round trips before a loss",
                        self.before_loss.cdf.clone(),
                    ),
                ],
            };
            let note = "If losses follow high delay, the curve of the round trips before losses is far to \
                 the right of the curve of all round trips.";
            all.push(Drawn {
                title: "All round trips, and round trips before losses".into(),
                note: note.into(),
                drawing: Drawing::Curves(figure),
            });
        }
        all
    }
}

const METHOD: &[&str] = &[
    "A rise: the mean of the last two round trips exceeds the mean of the last twenty by more than \
     their standard deviation (DCA §3.2.1).",
    "Losses between two round-trip samples count as one loss. A loss with fewer than twenty round \
     trips before it is not judged.",
    "The interval of the share is that of Clopper and Pearson, which assumes independent losses. p \
     comes from 1,999 rotations of the losses against the round trips; a rotation keeps bursts \
     together.",
    "The intervals of the curve around losses assume independent losses. If losses come in bursts, \
     these intervals are too narrow.",
    "The cost follows the model of Padhye et al. without a maximum window: DCA's cuts are added to \
     the losses, and the losses that DCA avoids are subtracted. The interval of the cost comes \
     from resampling stretches of 200 round trips.",
    "qlog does not say how many packets an ACK acknowledged. In logs of other programs than \
     fathom, every new round-trip time is therefore one sample.",
];

/// Abbreviates a list of names to one line.
pub(super) fn several(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [first, rest @ ..] => format!("{first} and {} more", rest.len()),
    }
}
