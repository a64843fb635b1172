//! Pages about the comparisons (`docs/ns2.md`) and their figures.

use std::fmt::Write;

use fathom_metrics::Estimate;
use fathom_report::{Axis, Figure, Series, capitalised, standalone, wrapped};

use crate::scenarios::X;
use crate::{Comparison, MEASURES, Measure, Reference, Tolerance, measure, within};

/// Longest line of a paragraph.
const WIDTH: usize = 100;

/// Returns the page.
pub(crate) fn page(
    reference: &Reference,
    comparisons: &[Comparison],
    tolerances: &[Tolerance],
) -> String {
    let mut page = reference.head.to_owned();
    page += "| measure | tolerance | reason of the tolerance |\n|---|---|---|\n";
    for tolerance in tolerances {
        let only = comparisons.iter().map(|c| c.scenario);
        let only = only.filter(|s| Some(s.name) == tolerance.scenario.as_deref());
        let only: String = only.map(|s| format!(" ({})", s.title.to_lowercase())).collect();
        let (name, text) = (measure(&tolerance.measure).heading, tolerance.text());
        writeln!(page, "| {name}{only} | {text} | {} |", tolerance.reason).expect("written");
    }
    page += "\nThe table shows how many combinations are inside each tolerance.\n\n| scenario |";
    let used = |measure: &&Measure| {
        comparisons.iter().any(|comparison| comparison.scenario.measures.contains(&measure.name))
    };
    let measures: Vec<&Measure> = MEASURES.iter().filter(used).collect();
    for measure in &measures {
        write!(page, " {} |", measure.heading).expect("written");
    }
    page += &format!("\n|---|{}\n", "---|".repeat(measures.len()));
    for comparison in comparisons {
        write!(page, "| {} |", comparison.scenario.title).expect("written");
        let own = comparison.scenario.tolerances(tolerances);
        for measure in &measures {
            match own.iter().find(|tolerance| tolerance.measure == measure.name) {
                Some(tolerance) => {
                    let (inside, all) = comparison.inside(tolerance);
                    write!(page, " {inside} of {all} |").expect("written");
                }
                None => page += " |",
            }
        }
        page += "\n";
    }
    for comparison in comparisons {
        page += &comparison.section();
    }
    page += &cost(reference, comparisons);
    for comparison in comparisons {
        page += &comparison.tables(tolerances);
    }
    page
}

fn cost(reference: &Reference, comparisons: &[Comparison]) -> String {
    let Reference { name, folder, simulates, .. } = reference;
    let files = format!(
        "{name} here is {}. `bench/results/{folder}/` has the commands or settings of each run \
         (`.json`), and the measures of each run of {name} (`.csv`) and of the laboratory \
         (`-laboratory.csv`).",
        comparisons[0].theirs.simulator,
    );
    let (time, ratio) = if *simulates {
        (format!("CPU time of {name}"), [" ratio |", "---|"])
    } else {
        ("time of the runs".to_owned(), ["", ""])
    };
    let mut text = format!(
        "\n## Cost\n\n{}\
         | scenario | runs | {time} | CPU time of the laboratory |{}\n\
         |---|---|---|---|{}\n",
        paragraphs(&files),
        ratio[0],
        ratio[1],
    );
    for Comparison { scenario, theirs, ours, cells, .. } in comparisons {
        let runs: usize = cells.iter().map(|cell| cell.theirs.len()).sum();
        let [theirs, ours] = [theirs.cpu_seconds, ours.cpu_seconds];
        let ratio = if *simulates { format!(" {:.1} |", theirs / ours) } else { String::new() };
        let (title, theirs, ours) = (scenario.title, duration(theirs), duration(ours));
        writeln!(text, "| {title} | {runs} | {theirs} | {ours} |{ratio}").expect("written");
    }
    text
}

fn duration(seconds: f64) -> String {
    if seconds < 60.0 { format!("{seconds:.0} s") } else { format!("{:.1} min", seconds / 60.0) }
}

/// Returns the difference of the laboratory's mean from the reference's, in percent of the
/// latter.
fn apart(theirs: &Estimate, ours: &Estimate) -> String {
    if theirs.mean == 0.0 {
        return if ours.mean == 0.0 { "0 %" } else { "-" }.to_owned();
    }
    format!("{:+.1} %", 100.0 * (ours.mean / theirs.mean - 1.0))
}

/// Returns paragraphs with short lines.
fn paragraphs(text: &str) -> String {
    text.split("\n\n").map(|text| wrapped(text, WIDTH).join("\n") + "\n\n").collect()
}

impl Comparison {
    /// Returns how many combinations are inside a tolerance, and the number of all.
    fn inside(&self, tolerance: &Tolerance) -> (usize, usize) {
        let inside = self.cells.iter().filter(|cell| {
            let (theirs, ours) = cell.estimates(measure(&tolerance.measure).column);
            tolerance.agrees(&theirs, &ours)
        });
        (inside.count(), self.cells.len())
    }

    /// Returns the numbers of runs of each combination.
    fn seeds(&self) -> String {
        let (theirs, ours) = (self.cells[0].theirs.len(), self.cells[0].ours.len());
        if theirs == ours {
            return format!("{theirs} seeds");
        }
        format!("{theirs} runs of {} and {ours} of the laboratory", self.reference.name)
    }

    /// Returns the headings of the axes.
    fn axes(&self) -> String {
        self.scenario.axes.iter().map(|(_, heading)| format!(" {heading} |")).collect()
    }

    /// Returns the description, the figure, and the differences above the tolerances.
    fn section(&self) -> String {
        let (scenario, them) = (self.scenario, self.reference.name);
        let seeds = self.seeds();
        let mut text = format!("\n## {}\n\n{}", scenario.title, paragraphs(scenario.describes));
        let caption = format!("{} Means over {seeds}.", scenario.figure.caption);
        let shows = match scenario.figure.x {
            X::LastAxis(name) => measure(name).heading,
            X::ResponseTimes(_) => "distribution of response times",
        };
        write!(
            text,
            "![{} in {them} and in the laboratory](../{})\n\n{}\n\n",
            capitalised(shows),
            self.reference.results(scenario, ".svg"),
            caption.trim(),
        )
        .expect("written");
        if scenario.differences.is_empty() {
            text += "No difference exceeds its tolerance.\n";
        }
        for difference in scenario.differences {
            write!(
                text,
                "{}| measure |{} {them} | laboratory | difference |\n|---|{}---|---|---|\n",
                paragraphs(difference.cause),
                self.axes(),
                "---|".repeat(scenario.axes.len()),
            )
            .expect("written");
            for (measure, key) in difference.cells {
                let cell = self.cells.iter().find(|cell| cell.is(key)).expect("a cell of the plan");
                let measure = self::measure(measure);
                let ((theirs, ours), name) = (cell.estimates(measure.column), measure.heading);
                let (key, apart) = (key.join(" | "), apart(&theirs, &ours));
                writeln!(text, "| {name} | {key} | {theirs:.3} | {ours:.3} | {apart} |")
                    .expect("written");
            }
            text += "\n";
        }
        text.trim_end().to_owned() + "\n"
    }

    fn tables(&self, tolerances: &[Tolerance]) -> String {
        let seeds = self.seeds();
        let mut text = format!(
            "\n## All results: {}\n\nMeans over {seeds}, with 95 % intervals.\n",
            self.scenario.title
        );
        for tolerance in self.scenario.tolerances(tolerances) {
            write!(
                text,
                "\n|{} {}: {} | laboratory | difference | tolerance | holds |\n|{}---|---|---|---|---|\n",
                self.axes(),
                measure(&tolerance.measure).heading,
                self.reference.name,
                "---|".repeat(self.scenario.axes.len()),
            )
            .expect("written");
            for cell in &self.cells {
                let (theirs, ours) = cell.estimates(measure(&tolerance.measure).column);
                let holds = if tolerance.agrees(&theirs, &ours) { "yes" } else { "**no**" };
                let (key, apart, percent) =
                    (cell.key.join(" | "), apart(&theirs, &ours), tolerance.percent);
                writeln!(
                    text,
                    "| {key} | {theirs:.3} | {ours:.3} | {apart} | {percent} % | {holds} |"
                )
                .expect("written");
            }
        }
        text
    }
}

/// Returns the figure of a scenario.
pub(crate) fn figure(comparison: &Comparison) -> String {
    let figure = &comparison.scenario.figure;
    let mut series: Vec<Series> = Vec::new();
    for (name, key) in figure.curves {
        let [theirs, ours] = comparison.curves(key);
        assert!(!theirs.is_empty(), "{}: no results of {key:?}", comparison.scenario.name);
        let theirs = Series::of_estimates(format!("{name}, {}", comparison.reference.name), theirs);
        // Some options exist only in the laboratory.
        if !series.iter().any(|drawn| drawn.points == theirs.points) {
            series.push(theirs);
        }
        series.push(Series::of_estimates(format!("{name}, laboratory"), ours));
    }
    let (x, y) = match figure.x {
        X::LastAxis(name) => (comparison.scenario.last_axis(), measure(name).heading),
        X::ResponseTimes(_) => ("response time in ms", "fraction of responses"),
    };
    standalone(&Figure { x: Axis::linear(x), y: Axis::linear(y), series }).expect("curves")
}

impl Comparison {
    /// Returns the points of a curve in the reference and in the laboratory, with the means over the seeds.
    fn curves(&self, key: &[&str]) -> [Vec<(f64, Estimate)>; 2] {
        let points: Vec<(f64, (Estimate, Estimate))> = match self.scenario.figure.x {
            X::LastAxis(name) => (self.cells.iter())
                .filter_map(|cell| {
                    let (x, rest) = cell.key.split_last()?;
                    let same = rest.iter().map(String::as_str).eq(key.iter().copied());
                    same.then_some((x.parse().ok()?, cell.estimates(measure(name).column)))
                })
                .collect(),
            X::ResponseTimes(times) => {
                let cell = self.cells.iter().find(|cell| cell.is(key)).expect("a cell of the plan");
                times.iter().map(|ms| (f64::from(*ms), cell.estimates(&within(*ms)))).collect()
            }
        };
        [|both: (Estimate, Estimate)| both.0, |both: (Estimate, Estimate)| both.1]
            .map(|of| points.iter().map(|(x, both)| (*x, of(*both))).collect())
    }
}
