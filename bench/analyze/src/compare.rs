//! Comparison of several files, each with the first.

use fathom_metrics::{DelayEvent, Latencies, indication};
use fathom_qlog::ResponseEnd;
use fathom_report::{Axis, Figure, Series};
use serde::Serialize;

use super::chance::{Draw, Statistic, mean, quantile, ratio_interval};
use super::error::AnalyzeError;
use super::page::{Drawing, Drawn, Page, Sheet, fraction, millis, short_names};
use super::source::Source;

/// A value of a file, compared with the first file's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Compared {
    /// Value; `None` if the file does not contain it.
    pub value: Option<f64>,
    /// Value divided by the first file's value.
    pub ratio: Option<f64>,
    /// 95% interval of the ratio.
    pub interval: Option<(f64, f64)>,
}

/// A row of a comparison.
#[derive(Clone, Debug, Serialize)]
pub struct Measure {
    /// Name and unit of the measure.
    pub name: &'static str,
    /// Values by file.
    pub files: Vec<Compared>,
}

/// Result of a comparison of files.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// Files compared.
    pub sources: Vec<Source>,
    /// Measured values.
    pub measures: Vec<Measure>,
    /// Caveats to read before using the result.
    pub cautions: Vec<String>,
    #[serde(skip)]
    figures: Vec<Drawn>,
}

/// Values of a file to compare.
pub(super) struct Values {
    rtts: Vec<f64>,
    responses: Vec<f64>,
    sent: Option<u64>,
    lost: u64,
    losses: u64,
    window: Option<f64>,
    predicted: Option<f64>,
}

/// Selector of one kind of values of a file.
type Part = fn(&Values) -> &[f64];

impl Values {
    pub(super) fn of(source: &Source) -> Self {
        let connections = || source.connections.iter();
        let samples = || connections().flat_map(|c| &c.series.samples);
        let sent: u64 = connections().filter_map(|c| c.sent).sum();
        let windows: Vec<f64> = connections().filter_map(|c| c.window).collect();
        let indications: Vec<_> =
            connections().map(|c| indication(&c.series.samples, DelayEvent::default())).collect();
        let (losses, predicted) =
            indications.iter().fold((0, 0), |(l, f), i| (l + i.losses, f + i.predicted));
        Self {
            rtts: samples().map(|s| s.rtt.as_secs_f64() * 1e3).collect(),
            responses: source.responses().map(|r| r.ms).collect(),
            sent: (sent > 0).then_some(sent),
            lost: connections().map(|c| c.series.lost).sum(),
            losses: connections().map(|c| c.loss_events).sum(),
            window: (!windows.is_empty())
                .then(|| windows.iter().sum::<f64>() / windows.len() as f64),
            predicted: (losses > 0).then(|| predicted as f64 / losses as f64 * 100.0),
        }
    }
}

/// Compares files.
///
/// # Errors
/// Returns an error if there is only one file, or if a file has neither round trips nor responses.
pub fn compare(sources: Vec<Source>) -> Result<Comparison, AnalyzeError> {
    if sources.len() < 2 {
        return Err(AnalyzeError::Nothing("name at least two files to compare".into()));
    }
    let mut all: Vec<Values> = sources.iter().map(Values::of).collect();
    if let Some(at) =
        all.iter().position(|v| v.rtts.is_empty() && v.responses.is_empty() && v.window.is_none())
    {
        let name = &sources[at].name;
        return Err(AnalyzeError::Nothing(format!(
            "'{name}' has neither round trips nor responses; nothing can be compared"
        )));
    }
    let mut cautions: Vec<String> = sources.iter().flat_map(|s| s.cautions.clone()).collect();
    cautions.extend(sources.iter().filter_map(Source::misleads));
    if let Some(why) = not_comparable(&sources) {
        cautions.push(why);
        all.iter_mut().for_each(|values| values.responses.clear());
    }
    let measures = measures(&all);
    if measures.is_empty() {
        return Err(AnalyzeError::Nothing(cautions.join(" ")));
    }
    cautions.push(
        "Unless the files were recorded in turns, they also differ because the network changed \
         between the recordings."
            .into(),
    );
    let names = short_names(&sources.iter().map(|s| s.name.as_str()).collect::<Vec<_>>());
    Ok(Comparison { measures, figures: figures(&all, &names), cautions, sources })
}

/// Returns the reason why response times of these files must not be compared, if any.
pub(super) fn not_comparable(sources: &[Source]) -> Option<String> {
    let mut kinds: Vec<ResponseEnd> = sources.iter().filter_map(Source::until).collect();
    kinds.sort();
    kinds.dedup();
    if kinds.first() == Some(&ResponseEnd::HandedOver) {
        return Some(
            "Response times are not compared: some of them end when the server's QUIC stack \
             accepted the last byte, not when the client received it."
                .into(),
        );
    }
    let ends = |until: &ResponseEnd| match until {
        ResponseEnd::HandedOver => "when the QUIC stack accepted the last byte",
        ResponseEnd::Sent => "when the server sent the last byte",
        ResponseEnd::Acknowledged => "when the last byte was acknowledged",
        ResponseEnd::Received => "when the client received the last byte",
    };
    let all: Vec<&str> = kinds.iter().map(ends).collect();
    (all.len() > 1).then(|| {
        format!("Response times are not compared: some of them end {}.", all.join(", others "))
    })
}

fn measures(all: &[Values]) -> Vec<Measure> {
    let p95 = |v: &mut [f64]| quantile(v, 0.95);
    let p99 = |v: &mut [f64]| quantile(v, 0.99);
    let median = |v: &mut [f64]| quantile(v, 0.5);
    let queueing = |v: &mut [f64]| {
        let least = v.iter().copied().fold(f64::INFINITY, f64::min);
        mean(v).map(|m| m - least)
    };
    let rtt: Part = |v| &v.rtts;
    let response: Part = |v| &v.responses;
    let mut rows = vec![
        by_value("response time, median (ms)", all, response, Draw::Single, &median),
        by_value("response time, mean (ms)", all, response, Draw::Single, &mean),
        by_value("response time, p95 (ms)", all, response, Draw::Single, &p95),
        by_value("response time, p99 (ms)", all, response, Draw::Single, &p99),
        by_value("round trip, median (ms)", all, rtt, Draw::Blocks, &median),
        by_value("round trip, mean (ms)", all, rtt, Draw::Blocks, &mean),
        by_value("round trip, p95 (ms)", all, rtt, Draw::Blocks, &p95),
        by_value("mean round trip minus the smallest (ms)", all, rtt, Draw::Blocks, &queueing),
        losses(all),
        plain("losses predicted by delay (%)", all, |v| v.predicted),
        plain("congestion window, mean (kB)", all, |v| v.window.map(|w| w / 1e3)),
    ];
    rows.retain(|row| row.files.iter().any(|f| f.value.is_some()));
    rows
}

fn ratio(value: Option<f64>, first: Option<f64>) -> Option<f64> {
    value.zip(first.filter(|f| *f != 0.0)).map(|(v, f)| v / f)
}

fn plain(name: &'static str, all: &[Values], of: impl Fn(&Values) -> Option<f64>) -> Measure {
    let first = all.first().and_then(&of);
    let compared = |(i, v): (usize, &Values)| {
        let value = of(v);
        Compared { value, ratio: if i > 0 { ratio(value, first) } else { None }, interval: None }
    };
    Measure { name, files: all.iter().enumerate().map(compared).collect() }
}

fn by_value(
    name: &'static str,
    all: &[Values],
    of: Part,
    draw: Draw,
    statistic: Statistic<'_>,
) -> Measure {
    let mut row = plain(name, all, |v| statistic(&mut of(v).to_vec()));
    for (file, values) in row.files.iter_mut().zip(all).skip(1) {
        file.interval =
            file.ratio.and_then(|_| ratio_interval(of(&all[0]), of(values), draw, statistic));
    }
    row
}

/// Compares loss rates. The interval treats bursts, not packets, as independent.
fn losses(all: &[Values]) -> Measure {
    let mut row =
        plain("packets lost (%)", all, |v| v.sent.map(|sent| v.lost as f64 / sent as f64 * 100.0));
    let first = all[0].losses as f64;
    for (file, values) in row.files.iter_mut().zip(all).skip(1) {
        let here = values.losses as f64;
        file.interval = file.ratio.filter(|_| first >= 5.0 && here >= 5.0).map(|ratio| {
            let half = 1.96 * (1.0 / first + 1.0 / here).sqrt();
            (ratio * (-half).exp(), ratio * half.exp())
        });
    }
    row
}

pub(super) fn figures(all: &[Values], names: &[String]) -> Vec<Drawn> {
    let draw = |title: &str, label: &str, of: Part| {
        let curve = |(values, name): (&Values, &String)| {
            let mut latencies = Latencies::default();
            of(values)
                .iter()
                .filter_map(|ms| std::time::Duration::try_from_secs_f64(ms / 1e3).ok())
                .for_each(|d| latencies.record(d));
            (latencies.count() > 0).then(|| Series::line(name, latencies.distribution().cdf))
        };
        let series: Vec<_> = all.iter().zip(names).filter_map(curve).collect();
        let figure = Figure { x: Axis::logarithmic(label), y: fraction(), series };
        (!figure.series.is_empty()).then(|| Drawn {
            title: title.into(),
            note: String::new(),
            drawing: Drawing::Curves(figure),
        })
    };
    let responses = draw("Response times", "response time (ms)", |v| &v.responses);
    let rtts = draw("Round trips", "round trip (ms)", |v| &v.rtts);
    responses.into_iter().chain(rtts).collect()
}

impl Comparison {
    /// Returns the result as a page.
    pub fn page(&self) -> Page {
        let paths: Vec<&str> = self.sources.iter().map(|s| s.name.as_str()).collect();
        let names = short_names(&paths);
        let rows = self
            .measures
            .iter()
            .map(|m| (m.name.to_owned(), m.files.iter().map(shown).collect()))
            .collect();
        Page {
            warnings: Vec::new(),
            title: format!("{} against {}", names[1..].join(", "), names[0]),
            verdicts: self.words(&names),
            cautions: self.cautions.clone(),
            sheets: vec![Sheet {
                title: format!("Each against {}", names[0]),
                columns: names,
                rows,
            }],
            figures: self.figures.clone(),
            method: METHOD.iter().map(|m| (*m).to_owned()).collect(),
        }
    }

    /// Describes the differences that exceed their interval.
    fn words(&self, names: &[String]) -> Vec<String> {
        let mut words = Vec::new();
        for (i, name) in names.iter().enumerate().skip(1) {
            let differs = |m: &Measure| {
                let f = m.files[i];
                let (low, high) = f.interval.filter(|(low, high)| *low > 1.0 || *high < 1.0)?;
                let change = |r: f64| (r - 1.0) * 100.0;
                Some(format!(
                    "{} {:+.0} % ({:+.0} to {:+.0})",
                    unitless(m.name),
                    change(f.ratio?),
                    change(low),
                    change(high)
                ))
            };
            let found: Vec<String> = self.measures.iter().filter_map(differs).collect();
            words.push(if found.is_empty() {
                format!("{name}: no measure differs from {} beyond its 95 % interval.", names[0])
            } else {
                format!("{name}, against {}: {}.", names[0], found.join(", "))
            });
        }
        words
    }
}

fn unitless(name: &str) -> &str {
    name.rsplit_once(" (").map_or(name, |(name, _)| name)
}

fn shown(c: &Compared) -> String {
    let Some(value) = c.value else { return "–".into() };
    let value = if value < 1.0 { format!("{value:.3}") } else { millis(value) };
    match (c.ratio, c.interval) {
        (Some(ratio), Some((low, high))) => format!("{value} (x{ratio:.2}, {low:.2} to {high:.2})"),
        (Some(ratio), None) => format!("{value} (x{ratio:.2})"),
        _ => value,
    }
}

const METHOD: &[&str] = &[
    "x is the ratio to the first file, with its 95 % interval. Intervals of response times come \
     from resampling responses. Intervals of round trips come from resampling stretches of a \
     fiftieth of the log, because successive round trips are similar. Intervals of loss rates \
     assume independent loss events.",
    "About one interval in twenty misses the true value by chance, so a single small difference \
     among a dozen measures means little.",
    "The values of very long files are thinned evenly before resampling, which makes intervals \
     wider.",
];
