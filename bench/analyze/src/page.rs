//! An answer before it is printed.

use fathom_report::{Axis, Figure, Whiskers};

/// An answer as a reader sees it.
#[derive(Clone, Debug, Default)]
pub struct Page {
    /// The question.
    pub title: String,
    /// What was converted, contradicts itself or was left out: it stands before the answer.
    pub warnings: Vec<String>,
    /// The answer in words.
    pub verdicts: Vec<String>,
    /// What to know before it is believed.
    pub cautions: Vec<String>,
    /// Numbers.
    pub sheets: Vec<Sheet>,
    /// Plots.
    pub figures: Vec<Drawn>,
    /// How the numbers came about.
    pub method: Vec<String>,
}

/// A table of text.
#[derive(Clone, Debug)]
pub struct Sheet {
    /// What it shows.
    pub title: String,
    /// Heads of the columns after the first.
    pub columns: Vec<String>,
    /// Label and cells of each row.
    pub rows: Vec<(String, Vec<String>)>,
}

/// A plot.
#[derive(Clone, Debug)]
pub struct Drawn {
    /// What it shows.
    pub title: String,
    /// What to look for.
    pub note: String,
    /// The plot itself.
    pub drawing: Drawing,
}

/// What a plot consists of.
#[derive(Clone, Debug)]
pub enum Drawing {
    /// Curves.
    Curves(Figure),
    /// Values with their intervals, a row each.
    Whiskers(Whiskers),
}

/// A share in percent.
pub(super) fn percent(share: f64) -> String {
    let shown = 100.0 * share;
    if shown >= 10.0 || shown == 0.0 { format!("{shown:.0} %") } else { format!("{shown:.2} %") }
}

/// An interval of shares in percent.
pub(super) fn percents((low, high): (f64, f64)) -> String {
    format!("{} to {}", percent(low).trim_end_matches(" %"), percent(high))
}

/// Milliseconds with three digits that count.
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
    Axis::linear("fraction that is no longer").over(0.0, 1.0)
}

/// Names of files, shortened to what tells them apart.
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
