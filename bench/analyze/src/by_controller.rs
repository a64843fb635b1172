//! Comparison by controller of the logs of a server that divides its connections among controllers.

mod page;

use std::collections::BTreeMap;

use fathom_qlog::ResponseEnd;
use fathom_stacks::ControllerSpec;
use serde::Serialize;

use super::chance::{VALUES, mean, piece_difference, piece_interval, quantile, quantile_interval};
use super::compare::{Values, figures, not_comparable};
use super::connection::Connection;
use super::error::AnalyzeError;
use super::page::Drawn;
use super::responses::Class;
use super::source::Source;

/// Name for connections whose log names no controller.
const NOT_NAMED: &str = "not named";

/// A value for a controller's connections, compared with the first controller's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct OfController {
    /// Value; `None` if the logs do not contain it.
    pub value: Option<f64>,
    /// 95% interval of the value; `None` below ten connections and for quantiles near the largest
    /// values.
    pub interval: Option<(f64, f64)>,
    /// Value minus the first controller's value.
    pub difference: Option<f64>,
    /// 95% interval of the difference.
    pub difference_interval: Option<(f64, f64)>,
}

/// A row of a table.
#[derive(Clone, Debug, Serialize)]
pub struct ControllerMeasure {
    /// Name and unit of the measure.
    pub name: String,
    /// Values by controller.
    pub controllers: Vec<OfController>,
}

/// A table of related measures.
#[derive(Clone, Debug, Serialize)]
pub struct ControllerTable {
    /// Title of the table.
    pub title: String,
    /// Rows of the table.
    pub measures: Vec<ControllerMeasure>,
}

/// The connections of a controller.
#[derive(Clone, Debug, Serialize)]
pub struct ControllerGroup {
    /// Controller with its options; `None` for connections whose log names none.
    pub controller: Option<String>,
    /// Number of connections with logs.
    pub connections: usize,
    /// Number of responses in these logs.
    pub responses: usize,
}

/// Result of a comparison by controller.
#[derive(Clone, Debug, Serialize)]
pub struct ControllerComparison {
    /// Controllers in the order of the tables' columns: native ones first, then by name; unnamed
    /// ones last.
    pub controllers: Vec<ControllerGroup>,
    /// Measured values.
    pub tables: Vec<ControllerTable>,
    /// Caveats to read before using the result.
    pub cautions: Vec<String>,
    #[serde(skip)]
    figures: Vec<Drawn>,
}

/// Compares the connections of a server, controller by controller.
///
/// # Errors
/// Returns an error if a file is a table, no log names a controller, or there are neither round
/// trips nor responses.
pub fn by_controller(sources: Vec<Source>) -> Result<ControllerComparison, AnalyzeError> {
    if let Some(table) = sources.iter().find(|s| !s.rows.is_empty() || s.failed > 0) {
        let name = &table.name;
        return Err(AnalyzeError::Nothing(format!(
            "'{name}' contains a table, and tables do not name controllers; give logs of 'fathom \
             serve --qlog'"
        )));
    }
    let mut cautions: Vec<String> = sources.iter().flat_map(|s| s.cautions.clone()).collect();
    let groups = grouped(sources);
    if groups.iter().all(|(controller, _)| controller.is_none()) {
        return Err(AnalyzeError::Nothing(
            "no log names its controller; only logs of 'fathom serve --qlog' do. For other logs, \
             compare one folder per controller"
                .into(),
        ));
    }
    let controllers = groups.iter().map(|(controller, source)| ControllerGroup {
        controller: controller.clone(),
        connections: source.connections.len(),
        responses: source.responses().count(),
    });
    let controllers: Vec<ControllerGroup> = controllers.collect();
    let mut sources: Vec<Source> = groups.into_iter().map(|(_, source)| source).collect();
    if let [only] = &sources[..] {
        cautions.push(format!(
            "All connections use the controller {}, so there is nothing to compare it with.",
            only.name
        ));
    }
    cautions.extend(sources.iter().filter_map(Source::misleads));
    let handed_over = sources.iter().any(|s| s.until() == Some(ResponseEnd::HandedOver));
    if let Some(why) = not_comparable(&sources).filter(|_| sources.len() > 1 || handed_over) {
        cautions.push(why);
        sources.iter_mut().flat_map(|s| &mut s.connections).for_each(|c| c.responses.clear());
    }
    let tables = tables(&sources);
    if tables.is_empty() {
        cautions.insert(0, "the logs have neither round trips nor responses.".into());
        return Err(AnalyzeError::Nothing(cautions.join(" ")));
    }
    let names: Vec<String> = sources.iter().map(|s| s.name.clone()).collect();
    let values: Vec<Values> = sources.iter().map(Values::of).collect();
    Ok(ControllerComparison { controllers, tables, cautions, figures: figures(&values, &names) })
}

/// Returns one source per controller, in display order.
fn grouped(sources: Vec<Source>) -> Vec<(Option<String>, Source)> {
    let mut groups: BTreeMap<(bool, bool, Option<String>), Source> = BTreeMap::new();
    for source in sources {
        let is_log = source.events;
        for connection in source.connections {
            let controller = connection.controller.clone();
            let native = controller.as_deref().is_some_and(|c| ControllerSpec::from(c).is_native());
            let name = controller.clone().unwrap_or_else(|| NOT_NAMED.into());
            let group = groups.entry((controller.is_none(), !native, controller));
            let group =
                group.or_insert_with(|| Source { name, events: is_log, ..Source::default() });
            group.connections.push(connection);
        }
    }
    groups.into_iter().map(|((_, _, controller), source)| (controller, source)).collect()
}

fn tables(groups: &[Source]) -> Vec<ControllerTable> {
    let mut tables: Vec<ControllerTable> =
        Class::ALL.map(|class| response_table(groups, class)).into();
    tables.push(connection_table(groups));
    for table in &mut tables {
        table.measures.retain(|m| m.controllers.iter().any(|c| c.value.is_some()));
    }
    // Without responses, only their count would remain.
    tables.retain(|t| t.measures.iter().any(|m| m.name != "responses"));
    tables
}

/// Returns the response times of a size class.
fn response_table(groups: &[Source], class: Class) -> ControllerTable {
    let of = |c: &Connection| c.responses.iter().filter(|r| class.has(r)).map(|r| r.ms).collect();
    let counts = groups.iter().map(|s| OfController {
        value: Some(s.responses().filter(|r| class.has(r)).count() as f64),
        ..OfController::default()
    });
    let mut measures =
        vec![ControllerMeasure { name: "responses".into(), controllers: counts.collect() }];
    let shown = [
        ("median", Of::Quantile(0.5)),
        ("p90", Of::Quantile(0.9)),
        ("p95", Of::Quantile(0.95)),
        ("p99", Of::Quantile(0.99)),
        ("mean", Of::Mean),
    ];
    measures.extend(
        shown.map(|(name, statistic)| by_value(format!("{name} (ms)"), groups, of, statistic)),
    );
    ControllerTable { title: format!("Response times: {}", class.name), measures }
}

fn connection_table(groups: &[Source]) -> ControllerTable {
    let rtts =
        |c: &Connection| c.series.samples.iter().map(|s| s.rtt.as_secs_f64() * 1e3).collect();
    // Clients are at different distances, so each connection has its own minimum round trip.
    let queueing = |c: &Connection| {
        let all: Vec<f64> = rtts(c);
        let least = all.iter().copied().fold(f64::INFINITY, f64::min);
        all.into_iter().map(|rtt| rtt - least).collect()
    };
    let lost = |drawn: &[&&Connection]| {
        let sent: u64 = drawn.iter().filter_map(|c| c.sent).sum();
        let lost: u64 = drawn.iter().filter(|c| c.sent.is_some()).map(|c| c.series.lost).sum();
        (sent > 0).then(|| lost as f64 / sent as f64 * 100.0)
    };
    let window = |drawn: &[&&Connection]| {
        mean(&mut drawn.iter().filter_map(|c| c.window).collect::<Vec<f64>>())
    };
    let connections: Vec<Vec<&Connection>> =
        groups.iter().map(|s| s.connections.iter().collect()).collect();
    let measures = vec![
        by_value("round trip, median (ms)".into(), groups, rtts, Of::Quantile(0.5)),
        by_value("round trip, mean (ms)".into(), groups, rtts, Of::Mean),
        by_value("round trip, p95 (ms)".into(), groups, rtts, Of::Quantile(0.95)),
        by_value(
            "mean round trip minus the connection's smallest (ms)".into(),
            groups,
            queueing,
            Of::Mean,
        ),
        measure("packets lost (%)".into(), &connections, &connections, lost),
        measure("congestion window, mean (kB)".into(), &connections, &connections, |c| {
            Some(window(c)? / 1e3)
        }),
    ];
    ControllerTable { title: "Round trips, losses, windows".into(), measures }
}

/// Statistic of values.
#[derive(Clone, Copy)]
enum Of {
    Mean,
    Quantile(f64),
}

impl Of {
    fn value(self, values: &mut [f64]) -> Option<f64> {
        match self {
            Self::Mean => mean(values),
            Self::Quantile(q) => quantile(values, q),
        }
    }

    /// Returns whether there are enough values for an interval; a quantile near the largest values
    /// has none.
    fn has_interval(self, values: &mut [f64]) -> bool {
        let Self::Quantile(q) = self else { return true };
        values.sort_by(f64::total_cmp);
        quantile_interval(values, q).is_some()
    }
}

/// Measures a statistic over the values of all connections; each connection has several values.
fn by_value(
    name: String,
    groups: &[Source],
    values: impl Fn(&Connection) -> Vec<f64>,
    of: Of,
) -> ControllerMeasure {
    let all: Vec<Vec<Vec<f64>>> =
        groups.iter().map(|s| s.connections.iter().map(&values).collect()).collect();
    let drawn = |pieces: &Vec<Vec<f64>>| match of.has_interval(&mut pieces.concat()) {
        true => thinned(pieces),
        false => Vec::new(),
    };
    let drawn: Vec<Vec<Vec<f64>>> = all.iter().map(drawn).collect();
    measure(name, &all, &drawn, |pieces| {
        of.value(&mut pieces.iter().copied().flatten().copied().collect::<Vec<f64>>())
    })
}

/// Thins the values evenly to a number that a bootstrap can resample often; values stay with their
/// connections.
fn thinned(pieces: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let step = pieces.iter().map(Vec::len).sum::<usize>().div_ceil(VALUES).max(1);
    let mut at = 0;
    let mut is_kept = || {
        at += 1;
        at % step == 0
    };
    pieces.iter().map(|values| values.iter().copied().filter(|_| is_kept()).collect()).collect()
}

/// Measures a statistic of pieces, one piece per connection. The intervals come from resampling
/// `drawn`.
fn measure<T>(
    name: String,
    all: &[Vec<T>],
    drawn: &[Vec<T>],
    made: impl Fn(&[&T]) -> Option<f64>,
) -> ControllerMeasure {
    let value = |pieces: &[T]| made(&pieces.iter().collect::<Vec<&T>>());
    let first = all.first().and_then(|pieces| value(pieces));
    let of = |(i, pieces): (usize, &Vec<T>)| {
        let value = value(pieces);
        let difference = value.zip(first).filter(|_| i > 0).map(|(v, f)| v - f);
        OfController {
            value,
            interval: value.and_then(|_| piece_interval(&drawn[i], &made)),
            difference,
            difference_interval: difference
                .and_then(|_| piece_difference(&drawn[0], &drawn[i], &made)),
        }
    };
    ControllerMeasure { name, controllers: all.iter().enumerate().map(of).collect() }
}

#[cfg(test)]
mod tests;
