//! Response times by size.

use fathom_metrics::percentile;
use fathom_qlog::ResponseEnd;
use fathom_report::{Axis, Figure, Series};
use serde::Serialize;

use super::chance::quantile_interval;
use super::error::AnalyzeError;
use super::loss::several;
use super::page::{Drawing, Drawn, Page, Sheet, fraction, millis, short_names};
use super::responses::{Class, ResponseTime};
use super::source::Source;

/// Percentiles shown.
const SHOWN: [(f64, &str); 4] = [(0.5, "median"), (0.9, "p90"), (0.95, "p95"), (0.99, "p99")];
/// Maximum number of files side by side; more are merged into one.
const COLUMNS: usize = 6;
/// Maximum number of points of a curve.
const POINTS: usize = 400;

/// Responses of a file in one size class.
#[derive(Clone, Debug, Serialize)]
pub struct OfClass {
    /// Size class.
    pub class: Class,
    /// Number of responses.
    pub count: usize,
    /// Mean response time in milliseconds.
    pub mean_ms: Option<f64>,
    /// Median, 90th, 95th and 99th percentile in milliseconds, each with its 95% interval if there
    /// are enough responses. `None` if fewer than ten responses lie beyond a percentile.
    pub percentiles: Vec<Option<WithInterval>>,
}

/// A value in milliseconds, and its 95% interval if there are enough responses.
pub(crate) type WithInterval = (f64, Option<(f64, f64)>);

/// Result of the analysis of response times.
#[derive(Clone, Debug, Serialize)]
pub struct ResponseAnswer {
    /// Files analysed.
    pub sources: Vec<Source>,
    /// Size classes, by file.
    pub classes: Vec<Vec<OfClass>>,
    /// Caveats to read before using the result.
    pub cautions: Vec<String>,
    #[serde(skip)]
    curves: Vec<Vec<(f64, f64)>>,
}

/// Analyses the response times of the files.
///
/// # Errors
/// Returns an error if a file has no responses.
pub fn response(mut sources: Vec<Source>) -> Result<ResponseAnswer, AnalyzeError> {
    // Among many logs, some belong to connections without requests.
    let all = sources.len();
    if sources.iter().any(|s| s.responses().next().is_some()) {
        sources.retain(|s| !s.is_log() || s.responses().next().is_some());
    }
    if let (left_out @ 1.., Some(first)) = (all - sources.len(), sources.first_mut()) {
        first.cautions.push(format!("{left_out} logs without a response were left out"));
    }
    if let Some(none) = sources.iter().find(|s| s.responses().next().is_none()) {
        return Err(AnalyzeError::Nothing(format!(
            "'{}' has no responses: {}",
            none.name,
            if none.is_log() {
                "it has no events about stream bytes; record packets with STREAM frames, or \
                 stream_data_moved"
            } else {
                "none of its rows is a successful response"
            }
        )));
    }
    if let Some(why) = sources
        .iter()
        .filter(|s| s.until() == Some(ResponseEnd::HandedOver))
        .find_map(Source::misleads)
    {
        return Err(AnalyzeError::Nothing(why));
    }
    // More columns would be unreadable.
    let sources = if sources.len() > COLUMNS {
        let name = format!("{} files", sources.len());
        vec![Source::merged(name, sources)]
    } else {
        sources
    };
    let of_source = |s: &Source| Class::ALL.map(|class| of_class(s, class)).to_vec();
    let mut cautions: Vec<String> = sources.iter().flat_map(|s| s.cautions.clone()).collect();
    cautions.extend(sources.iter().filter_map(Source::misleads));
    for s in sources.iter().filter(|s| s.failed > 0) {
        cautions.push(format!(
            "{}: {} requests without a successful response are left out",
            s.name, s.failed
        ));
    }
    Ok(ResponseAnswer {
        classes: sources.iter().map(of_source).collect(),
        curves: sources.iter().map(|s| curve(&sorted(s.responses()))).collect(),
        cautions,
        sources,
    })
}

fn sorted<'a>(responses: impl Iterator<Item = &'a ResponseTime>) -> Vec<f64> {
    let mut times: Vec<f64> = responses.map(|r| r.ms).collect();
    times.sort_by(f64::total_cmp);
    times
}

fn of_class(source: &Source, class: Class) -> OfClass {
    let times = sorted(source.responses().filter(|r| class.has(r)));
    let mean_ms = (!times.is_empty()).then(|| times.iter().sum::<f64>() / times.len() as f64);
    let at = |q: f64| times.get(((q * times.len() as f64).ceil() as usize).max(1) - 1).copied();
    let shown = |q: f64| {
        Some((percentile::shown(at(q)?, q, times.len() as u64)?, quantile_interval(&times, q)))
    };
    let percentiles = SHOWN.iter().map(|(q, _)| shown(*q)).collect();
    OfClass { class, count: times.len(), mean_ms, percentiles }
}

fn curve(sorted: &[f64]) -> Vec<(f64, f64)> {
    let n = sorted.len();
    let mut places: Vec<usize> = (0..n).step_by(n.div_ceil(POINTS).max(1)).collect();
    places.push(n.saturating_sub(1));
    places.dedup();
    places.into_iter().map(|at| (sorted[at], (at + 1) as f64 / n as f64)).collect()
}

impl ResponseAnswer {
    /// Returns the result as a page.
    pub fn page(&self) -> Page {
        let paths: Vec<&str> = self.sources.iter().map(|s| s.name.as_str()).collect();
        let names = short_names(&paths);
        let figure = Figure {
            x: Axis::logarithmic("response time (ms)"),
            y: fraction(),
            series: names
                .iter()
                .zip(&self.curves)
                .map(|(n, points)| Series::line(n, points.clone()))
                .collect(),
        };
        let note = "All sizes together.".to_owned();
        Page {
            warnings: Vec::new(),
            title: format!("Response times: {}", several(&paths)),
            verdicts: Vec::new(),
            cautions: self.cautions.clone(),
            sheets: self.sheets(&names),
            figures: vec![Drawn {
                title: "Response times".into(),
                note,
                drawing: Drawing::Curves(figure),
            }],
            method: METHOD.iter().map(|m| (*m).to_owned()).collect(),
        }
    }

    fn sheets(&self, names: &[String]) -> Vec<Sheet> {
        let of_class = |(i, class): (usize, &Class)| {
            let there: Vec<&OfClass> = self.classes.iter().map(|of| &of[i]).collect();
            let mut rows =
                vec![("responses".to_owned(), there.iter().map(|c| c.count.to_string()).collect())];
            for (n, (_, name)) in SHOWN.iter().enumerate() {
                rows.push((
                    format!("{name} (ms)"),
                    there.iter().map(|c| shown(c.percentiles.get(n).copied().flatten())).collect(),
                ));
            }
            let means = there.iter().map(|c| c.mean_ms.map_or("–".into(), millis)).collect();
            rows.push(("mean (ms)".to_owned(), means));
            let title = format!("Responses: {}", class.name);
            there.iter().any(|c| c.count > 0).then(|| Sheet {
                title,
                columns: names.to_vec(),
                rows,
            })
        };
        Class::ALL.iter().enumerate().filter_map(of_class).collect()
    }
}

fn shown(percentile: Option<(f64, Option<(f64, f64)>)>) -> String {
    match percentile {
        None => "–".into(),
        Some((at, None)) => millis(at),
        Some((at, Some((low, high)))) => {
            format!("{} ({} to {})", millis(at), millis(low), millis(high))
        }
    }
}

const METHOD: &[&str] = &[
    "Response times from a log run from the first byte of a request to the last byte of its \
     response, as seen by the endpoint that wrote the log (packets with STREAM frames, \
     stream_data_moved). In logs of fathom serve, they run from the request's header to the \
     acknowledgement of the last byte.",
    "Response times from a table are total_ms, counted from the intended start if the table has \
     the column intended_s. The delay of a late client is then included.",
    "A percentile is shown if at least ten responses lie beyond it: p90 needs 100 responses, p95 \
     200 and p99 1000.",
    "The 95 % intervals begin and end at response times of the sample, and assume independent \
     responses. Too few responses give no interval.",
];
