//! Figures as numbers: the ranges of the axes, and the values of the curves at round values of x.

use fathom_metrics::Estimate;

use crate::data::{Axis, Figure, Series};
use crate::grid::{Column, Grid, NOTHING};
use crate::scale::{Scale, estimate_within, number, side_by_side};

/// Maximum number of x values in a table.
const COLUMNS: usize = 8;
/// Maximum number of different x values in a row of measurements. Curves with more x values are
/// treated as lines.
const MEASURED: usize = 40;

/// Returns both axes of a figure; `None` if there is nothing to draw.
pub(crate) fn scales(figure: &Figure) -> Option<(Scale, Scale)> {
    let xs = || figure.series.iter().flat_map(|s| &s.points).map(|p| p.0);
    let x = range(&figure.x, xs(), false)?;
    let y = match figure.y.range {
        None if is_distribution(figure) && !figure.y.log => (0.0, full(figure)),
        _ => range(
            &figure.y,
            figure.series.iter().flat_map(|series| heights(&figure.y, series)),
            true,
        )?,
    };
    let x = Scale::new(x, figure.x.log)?;
    let x = if figure.x.log && figure.x.with_zero { x.with_zero() } else { x };
    let counts = xs().all(|x| x.fract() == 0.0);
    Some((if counts { x.of_whole_numbers() } else { x }, Scale::new(y, figure.y.log)?))
}

/// Returns the y values of the points and the ends of their intervals.
fn heights(axis: &Axis, series: &Series) -> impl Iterator<Item = f64> {
    let half = |i: usize| series.spread.as_ref().and_then(|s| s.get(i)).copied().unwrap_or(0.0);
    series.points.iter().enumerate().flat_map(move |(i, (_, y))| {
        let (low, high) = axis.ends(*y, half(i));
        [low, *y, high]
    })
}

/// Returns the range of an axis for values that are compared by position rather than by height. It
/// covers all values plus a margin.
pub(crate) fn fitting_range(axis: &Axis, values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    range(axis, values, false)
}

/// Returns the axis's own range if it has one. Otherwise, returns the range of the values plus a
/// margin.
fn range(axis: &Axis, values: impl Iterator<Item = f64>, from_zero: bool) -> Option<(f64, f64)> {
    if axis.range.is_some() {
        return axis.range;
    }
    let shown = values.filter(|v| v.is_finite() && (!axis.log || *v > 0.0));
    let (low, high) =
        shown.fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), v| (l.min(v), h.max(v)));
    if low > high {
        return None;
    }
    if axis.log {
        let pad = (high / low).powf(0.03).max(1.05);
        return Some((low / pad, high * pad));
    }
    let pad = if high > low { 0.04 * (high - low) } else { 0.5 * high.abs().max(1.0) };
    // Heights are best compared from zero, unless the differences then become too small.
    let low =
        if low >= 0.0 && (low < pad || (from_zero && low < 0.6 * high)) { 0.0 } else { low - pad };
    // An axis never extends below the measure's lower bound.
    let low = axis.bounds.least.filter(|least| low < *least && *least <= high).unwrap_or(low);
    Some((low, high + pad))
}

/// Returns whether every curve is a distribution that rises from a fraction to the whole.
pub(crate) fn is_distribution(figure: &Figure) -> bool {
    let rises = |s: &Series| {
        s.points.len() > 2 && s.points.windows(2).all(|p| p[0].0 <= p[1].0 && p[0].1 <= p[1].1)
    };
    let top = |s: &Series| s.points.last().map_or(0.0, |p| p.1);
    let all = full(figure);
    let label = figure.y.label.to_lowercase();
    let said = ["fraction", "cumulative", "probability", "cdf", "%", "percent"]
        .iter()
        .any(|word| label.contains(word));
    let inside =
        |s: &Series| (0.9 * all..=all * (1.0 + 1e-9)).contains(&top(s)) && s.points[0].1 >= 0.0;
    !figure.series.is_empty()
        && said
        && figure.series.iter().all(|s| !s.scatter && rises(s) && inside(s))
}

/// Returns the value that stands for the whole: 1, or 100 if a curve exceeds 1.
fn full(figure: &Figure) -> f64 {
    let top = figure.series.iter().flat_map(|s| &s.points).map(|p| p.1).fold(0.0, f64::max);
    if top > 1.0 + 1e-9 { 100.0 } else { 1.0 }
}

impl From<&Figure> for Grid {
    /// Tabulates the curves at round values of x. Clouds of points are summarised in separate rows.
    fn from(figure: &Figure) -> Self {
        grid(figure)
    }
}

fn grid(figure: &Figure) -> Grid {
    let mut xs: Vec<f64> =
        figure.series.iter().flat_map(|s| s.points.iter().map(|p| p.0)).collect();
    xs.retain(|x| x.is_finite());
    xs.sort_by(f64::total_cmp);
    xs.dedup();
    let most = figure.series.iter().map(|s| s.points.len()).max().unwrap_or(0);
    let cloud = figure.series.iter().any(|s| s.scatter && (xs.len() > MEASURED || repeats(s)));
    if cloud {
        return clouds(figure);
    }
    let labels = figure.series.iter().map(|s| s.name.clone()).collect();
    let Some((scale, _)) = scales(figure) else {
        return Grid { corner: String::new(), labels, columns: Vec::new() };
    };
    let measured = xs.len() <= MEASURED.min(2 * most.max(1));
    let at = if measured { nearest(&xs, &scale) } else { scale.ticks(COLUMNS) };
    let whole = is_distribution(figure);
    let write =
        side_by_side(figure.series.iter().flat_map(|s| s.points.iter().map(|p| p.1)), figure.y.log);
    let cell = |s: &Series, x: f64| {
        let text = if measured {
            measurement(&figure.y, s, x, &write)
        } else {
            height(s, x, &scale, whole).map(&write)
        };
        text.unwrap_or_else(|| NOTHING.to_owned())
    };
    let columns = at.iter().map(|&x| Column {
        over: String::new(),
        name: number(x),
        cells: figure.series.iter().map(|s| cell(s, x)).collect(),
    });
    Grid {
        corner: format!("{} by {}", figure.y.label, figure.x.label),
        labels,
        columns: columns.collect(),
    }
}

/// Returns whether several points have the same x.
fn repeats(series: &Series) -> bool {
    let mut xs: Vec<f64> = series.points.iter().map(|p| p.0).collect();
    xs.sort_by(f64::total_cmp);
    xs.windows(2).any(|pair| pair[0] == pair[1])
}

/// Returns the measured x values that are nearest to round values.
fn nearest(xs: &[f64], scale: &Scale) -> Vec<f64> {
    let placed: Vec<(f64, f64)> = xs.iter().filter_map(|&x| Some((scale.place(x)?, x))).collect();
    if placed.len() <= COLUMNS {
        return placed.into_iter().map(|(_, x)| x).collect();
    }
    let mut chosen: Vec<f64> = Vec::new();
    for tick in scale.ticks(COLUMNS).into_iter().filter_map(|v| scale.place(v)) {
        let near = placed.iter().min_by(|a, b| (a.0 - tick).abs().total_cmp(&(b.0 - tick).abs()));
        if let Some((_, x)) = near.filter(|(_, x)| !chosen.contains(x)) {
            chosen.push(*x);
        }
    }
    chosen
}

/// Returns the point at this x, with its interval.
fn measurement(
    axis: &Axis,
    series: &Series,
    x: f64,
    write: impl Fn(f64) -> String,
) -> Option<String> {
    let i = series.points.iter().position(|p| p.0 == x)?;
    let mean = series.points[i].1;
    let spread = series.spread.as_ref().and_then(|s| s.get(i)).copied();
    Some(match spread {
        Some(half) => estimate_within(
            &Estimate { n: 2, mean, deviation: None, half_width: Some(half) },
            &axis.bounds,
        ),
        None => write(mean),
    })
}

/// Returns the height of a curve at this x. Between two points, the curve is a straight line in
/// axis coordinates, as it is drawn. A complete distribution continues beyond its ends.
fn height(series: &Series, x: f64, scale: &Scale, whole: bool) -> Option<f64> {
    let at = scale.place(x)?;
    let place = |p: &(f64, f64)| scale.place(p.0);
    let (first, last) = (series.points.first()?, series.points.last()?);
    if whole && place(first)? > at {
        return (first.1 <= 0.01 * last.1).then_some(0.0);
    }
    if whole && place(last)? < at {
        return Some(last.1).filter(|y| *y >= 0.99 && (*y <= 1.0 || *y >= 99.0));
    }
    let pair = series
        .points
        .windows(2)
        .find(|p| place(&p[0]).is_some_and(|a| a <= at) && place(&p[1]) >= Some(at))?;
    let (a, b) = (place(&pair[0])?, place(&pair[1])?);
    Some(if b > a { pair[0].1 + (pair[1].1 - pair[0].1) * (at - a) / (b - a) } else { pair[1].1 })
}

/// Summarises clouds of points by their number of points and their location.
fn clouds(figure: &Figure) -> Grid {
    let column = |over: &str, name: &str, of: &dyn Fn(&Series) -> Option<f64>| Column {
        over: over.to_owned(),
        name: name.to_owned(),
        cells: figure.series.iter().map(|s| of(s).map_or(NOTHING.to_owned(), number)).collect(),
    };
    let rank = |values: Vec<f64>, part: f64| {
        let mut values = values;
        values.retain(|v| v.is_finite());
        values.sort_by(f64::total_cmp);
        let last = values.len().checked_sub(1)?;
        Some(values[(part * last as f64).round() as usize])
    };
    let x = |part: f64| move |s: &Series| rank(s.points.iter().map(|p| p.0).collect(), part);
    let y = |part: f64| move |s: &Series| rank(s.points.iter().map(|p| p.1).collect(), part);
    let (over_x, over_y) = (figure.x.label.as_str(), figure.y.label.as_str());
    Grid {
        corner: String::new(),
        labels: figure.series.iter().map(|s| s.name.clone()).collect(),
        columns: vec![
            column("", "points", &|s| Some(s.points.len() as f64)),
            column(over_x, "least", &x(0.0)),
            column(over_x, "most", &x(1.0)),
            column(over_y, "least", &y(0.0)),
            column(over_y, "median", &y(0.5)),
            column(over_y, "most", &y(1.0)),
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(log: bool, label: &str, series: Vec<Series>) -> Figure {
        Figure { x: Axis { log, ..Axis::linear("x") }, y: Axis::linear(label), series }
    }

    fn series(points: &[(f64, f64)]) -> Series {
        Series::line("a", points.to_vec())
    }

    fn cells(grid: &Grid) -> Vec<(&str, &str)> {
        grid.columns.iter().map(|c| (c.name.as_str(), c.cells[0].as_str())).collect()
    }

    #[test]
    fn table_of_a_figure_shows_measurements_at_their_exact_x() {
        let few = figure(false, "y", vec![series(&[(1.0, 2.0), (3.0, 0.5)])]);
        assert_eq!(cells(&grid(&few)), [("1", "2.000"), ("3", "0.500")]);
        let mut with_spread = few.clone();
        with_spread.series[0].spread = Some(vec![0.25, 0.0]);
        with_spread.series.push(series(&[(1.0, 7.0)]));
        let grid = grid(&with_spread);
        assert_eq!(cells(&grid), [("1", "2.00 ± 0.25"), ("3", "0.500 ± 0.000")]);
        assert_eq!(grid.columns[1].cells[1], NOTHING, "the second curve has no such point");
    }

    #[test]
    fn table_of_a_figure_picks_measurements_near_round_x_values() {
        let points: Vec<(f64, f64)> =
            (0..=20).map(|i| (f64::from(i) * 5.0 + 1.0, f64::from(i))).collect();
        let shown = grid(&figure(false, "y", vec![series(&points)]));
        // The round values from 0 to 105 are 0, 20, 40, 60, 80, 100; the measured values are 1, 6,
        // 11 and so on.
        assert_eq!(
            cells(&shown),
            [("1", "0"), ("21", "4"), ("41", "8"), ("61", "12"), ("81", "16"), ("101", "20")]
        );
    }

    #[test]
    fn table_values_between_points_are_interpolated_as_drawn() {
        // y = log10 x at 100 points away from the round values. The line is straight on a
        // logarithmic axis, so the values between points are exact.
        let points: Vec<(f64, f64)> =
            (0..100).map(|i| f64::from(i) / 33.0).map(|at| (10f64.powf(at), at)).collect();
        let shown = grid(&figure(true, "y", vec![series(&points)]));
        let at_30 = cells(&shown).into_iter().find(|c| c.0 == "30").unwrap().1;
        assert_eq!(at_30, "1.477", "log10 of 30 is 1.4771, of 1000 it is 3");
    }

    #[test]
    fn distribution_curves_continue_beyond_their_ends() {
        let curve = |from: i32| -> Vec<(f64, f64)> {
            (from..=from + 50).map(|i| (f64::from(i) + 0.5, f64::from(i - from) / 50.0)).collect()
        };
        let figure =
            figure(false, "fraction no slower", vec![series(&curve(0)), series(&curve(50))]);
        assert!(is_distribution(&figure));
        assert_eq!(scales(&figure).unwrap().1.ends(), (0.0, 1.0));
        let shown = grid(&figure);
        let at_100 = shown.columns.iter().find(|c| c.name == "100").unwrap();
        assert_eq!(at_100.cells, ["1.000", "0.990"]);
        let at_20 = shown.columns.iter().find(|c| c.name == "20").unwrap();
        assert_eq!(at_20.cells, ["0.390", "0.000"]);
    }

    #[test]
    fn rising_curves_are_not_mistaken_for_distributions() {
        let rising = vec![series(&[(0.0, 0.0), (1.0, 0.5), (2.0, 1.0)])];
        assert!(!is_distribution(&figure(false, "Jain's index", rising)));
        let over = vec![series(&[(0.0, 0.0), (1.0, 50.0), (2.0, 140.0)])];
        assert!(!is_distribution(&figure(false, "percent", over)));
    }

    #[test]
    fn point_clouds_are_summarised_in_tables() {
        let mut cloud =
            series(&(0..99).map(|i| (f64::from(i % 10), f64::from(i))).collect::<Vec<_>>());
        cloud.scatter = true;
        let shown = grid(&figure(false, "y", vec![cloud]));
        let expected = [
            ("points", "99"),
            ("least", "0"),
            ("most", "9"),
            ("least", "0"),
            ("median", "49"),
            ("most", "98"),
        ];
        assert_eq!(cells(&shown), expected);
    }

    #[test]
    fn empty_figures_have_no_axes() {
        assert!(scales(&figure(false, "y", vec![series(&[])])).is_none());
        assert!(grid(&figure(true, "y", vec![series(&[(0.0, 1.0)])])).columns.is_empty());
        assert!(
            scales(&figure(false, "y", vec![series(&[(5.0, 5.0)])])).is_some(),
            "a point is something"
        );
    }
}
