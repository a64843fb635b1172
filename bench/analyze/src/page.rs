//! A result before it is printed.

use fathom_report::{Axis, Figure, Whiskers};

/// A result as shown to the user.
#[derive(Clone, Debug, Default)]
pub struct Page {
    /// Question that the result answers.
    pub title: String,
    /// Conversions, contradictions and omissions, shown before the result.
    pub warnings: Vec<String>,
    /// Result in words.
    pub verdicts: Vec<String>,
    /// Caveats to read before using the result.
    pub cautions: Vec<String>,
    /// Tables of numbers.
    pub sheets: Vec<Sheet>,
    /// Plots.
    pub figures: Vec<Drawn>,
    /// Notes on the method.
    pub method: Vec<String>,
}

/// A table of text.
#[derive(Clone, Debug)]
pub struct Sheet {
    /// Title of the table.
    pub title: String,
    /// Headings of all columns except the first.
    pub columns: Vec<String>,
    /// Label and cells of each row.
    pub rows: Vec<(String, Vec<String>)>,
}

/// A plot.
#[derive(Clone, Debug)]
pub struct Drawn {
    /// Title of the plot.
    pub title: String,
    /// Hint for reading the plot.
    pub note: String,
    /// Plot itself.
    pub drawing: Drawing,
}

/// Contents of a plot.
#[derive(Clone, Debug)]
pub enum Drawing {
    /// Curves.
    Curves(Figure),
    /// Values with their intervals, one per row.
    Whiskers(Whiskers),
}

/// Formats a share in percent.
pub(super) fn percent(share: f64) -> String {
    let shown = 100.0 * share;
    if shown >= 10.0 || shown == 0.0 { format!("{shown:.0} %") } else { format!("{shown:.2} %") }
}

/// Formats an interval of shares in percent.
pub(super) fn percents((low, high): (f64, f64)) -> String {
    format!("{} to {}", percent(low).trim_end_matches(" %"), percent(high))
}

/// Formats milliseconds to three significant digits.
pub(super) fn millis(ms: f64) -> String {
    let digits = if ms >= 100.0 {
        0
    } else if ms >= 10.0 {
        1
    } else {
        2
    };
    format!("{ms:.digits$}")
}

pub(super) fn fraction() -> Axis {
    Axis::linear("fraction of samples at or below").over(0.0, 1.0)
}

/// Shortens the names of files to the parts that distinguish them.
pub(super) fn short_names(paths: &[&str]) -> Vec<String> {
    let of = |name: &dyn Fn(&str) -> String| paths.iter().map(|p| name(p)).collect::<Vec<String>>();
    let last = |p: &str| p.trim_end_matches('/').rsplit('/').next().unwrap_or(p).to_owned();
    let ends = |p: &str| {
        let all: Vec<char> = last(p).chars().collect();
        if all.len() <= 30 {
            return last(p);
        }
        all[..12].iter().chain(['…'].iter()).chain(&all[all.len() - 13..]).collect()
    };
    let unique =
        |names: &Vec<String>| names.iter().all(|n| names.iter().filter(|m| *m == n).count() == 1);
    let forms = [of(&ends), of(&last)];
    forms.into_iter().find(unique).unwrap_or_else(|| of(&|p: &str| p.to_owned()))
}
