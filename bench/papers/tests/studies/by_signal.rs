//! Parts of the pages that compare one-way delays with round-trip times: tables with the named paths
//! across and the controllers down, and curves by the queue on the way back. Names of controllers
//! are such as `Copa, one-way` and `Copa, RTT`; in files, a comma is a semicolon.

use fathom_metrics::{Bounds, Estimate};
use fathom_report::{Axis, Figure, Series, standalone};

use crate::common::{Row, by_seed, estimate, named, table, values};

const NAMED_PATHS: [&str; 5] = ["dsl", "cable", "wifi", "lte", "leo"];

/// Returns the controllers as in the file and as on the page.
fn controllers(rows: &[Row]) -> Vec<(String, String)> {
    let names = values(rows, "controller").into_iter();
    names.map(|name| (name.clone(), name.replace(';', ","))).collect()
}

/// Returns a table with a column per path. A row has a name, and a function of a path that returns
/// its cell.
pub(crate) fn over_paths<F: Fn(&str) -> String>(
    rows: impl IntoIterator<Item = (String, F)>,
) -> String {
    let rows = rows.into_iter().map(|(name, cell)| named(name, NAMED_PATHS.map(cell)));
    table(named("", NAMED_PATHS.map(str::to_owned)), rows)
}

/// Returns a table of all controllers. `other` is the axis and value of the other traffic, and
/// `cell` makes a cell from the key of its rows.
pub(crate) fn by_controller(
    rows: &[Row],
    other: (&str, &str),
    cell: impl Fn(&[(&str, &str)]) -> String,
) -> String {
    let cell = &cell;
    over_paths(controllers(rows).into_iter().map(|(file, name)| {
        let of = move |path: &str| cell(&[("path", path), other, ("controller", file.as_str())]);
        (name, of)
    }))
}

/// Returns a table of the differences of a column, one-way minus RTT, paired by seed.
pub(crate) fn pairs(
    rows: &[Row],
    other: (&str, &str),
    controllers: &[&str],
    column: &str,
    digits: usize,
) -> String {
    over_paths(controllers.iter().map(|controller| {
        let of = move |path: &str| {
            let [one_way, rtt] = ["one-way", "RTT"].map(|signal| {
                let controller = format!("{controller}; {signal}");
                by_seed(rows, &[("path", path), other, ("controller", &controller)], column)
            });
            let of = |(seed, value): (&String, &f64)| value - rtt[seed];
            let differences: Vec<f64> = one_way.iter().map(of).collect();
            format!("{:.digits$}", Estimate::of(&differences).expect("pairs"))
        };
        ((*controller).to_owned(), of)
    }))
}

/// Returns the curves of a column by the length of the queue on the way back (`up-queue`).
pub(crate) fn by_queue(rows: &[Row], column: &str, title: &str) -> String {
    let queues = values(rows, "up-queue");
    let curve = |(file, name): (String, String)| {
        let point = |queue: &String| {
            let key = [("up-queue", queue.as_str()), ("controller", file.as_str())];
            Some((queue.parse::<f64>().ok()?, estimate(rows, &key, column)?))
        };
        Series::of_estimates(name, queues.iter().filter_map(point))
    };
    let series = controllers(rows).into_iter().map(curve).collect();
    let x = Axis::logarithmic("queue on the way back in packets");
    let y = Axis::linear(title).within(Bounds::NOT_NEGATIVE);
    standalone(&Figure { x, y, series }).expect("curves")
}
