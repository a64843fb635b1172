//! `docs/ns2.md` and its figures.

use std::fmt::Write;

use fathom_metrics::Estimate;
use fathom_report::{Axis, Figure, Series, capitalised, standalone, wrapped};

use crate::scenarios::X;
use crate::{Comparison, MEASURES, Tolerance, measure, within};

/// Longest line of a paragraph.
const WIDTH: usize = 100;

const HEAD: &str = "\
# The laboratory beside ns-2

<!-- Made from bench/results/ns2: FATHOM_WRITE=1 cargo test --release -p fathom-papers --test ns2 -->

`make ns2` runs ns-2 and the laboratory, compares them, and writes this page. ns-2 has to be
installed (Debian and Ubuntu: `apt-get install ns2`).

**Question.** The papers behind Fathom used ns-2. Does the laboratory's TCP have the throughput,
drops, queue and timeouts of ns-2's TCP in the same scenario?

**Method.** Both simulators run the same plan in [`bench/ns2`](../bench/ns2/README.md). A script
translates the plan into arguments for ns-2 and refuses fields that it cannot translate. Throughput,
drops and queue are those of the bottleneck.

**Tolerances.** The tolerances were committed before the first comparison, after an earlier look at
other scripts with one seed. A tolerance applies to the difference of the means over the seeds,
relative to ns-2's mean. No tolerance has been changed.

";

/// Returns the page.
pub(crate) fn page(comparisons: &[Comparison], tolerances: &[Tolerance]) -> String {
    let mut page = HEAD.to_owned();
    page += "| measure | tolerance | reason of the tolerance |\n|---|---|---|\n";
    for tolerance in tolerances {
        let only = comparisons.iter().map(|c| c.scenario);
        let only = only.filter(|s| Some(s.name) == tolerance.scenario.as_deref());
        let only: String = only.map(|s| format!(" ({})", s.title.to_lowercase())).collect();
        let (name, text) = (measure(&tolerance.measure).heading, tolerance.text());
        writeln!(page, "| {name}{only} | {text} | {} |", tolerance.reason).expect("written");
    }
    page += "\nThe table shows how many combinations are inside each tolerance.\n\n| scenario |";
    for measure in MEASURES {
        write!(page, " {} |", measure.heading).expect("written");
    }
    page += &format!("\n|---|{}\n", "---|".repeat(MEASURES.len()));
    for comparison in comparisons {
        write!(page, "| {} |", comparison.scenario.title).expect("written");
        let own = comparison.scenario.tolerances(tolerances);
        for measure in MEASURES {
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
    page += &cost(comparisons);
    for comparison in comparisons {
        page += &comparison.tables(tolerances);
    }
    page
}

fn cost(comparisons: &[Comparison]) -> String {
    let files = format!(
        "The simulator is {}. `bench/results/ns2/` has the commands of ns-2 (`.json`), and the \
         measures of each run of ns-2 (`.csv`) and of the laboratory (`-laboratory.csv`).",
        comparisons[0].ns2.simulator,
    );
    let mut text = format!(
        "\n## Cost\n\n{}\
         | scenario | runs | CPU time of ns-2 | CPU time of the laboratory | ratio |\n\
         |---|---|---|---|---|\n",
        paragraphs(&files),
    );
    for Comparison { scenario, ns2, ours, cells } in comparisons {
        let runs: usize = cells.iter().map(|cell| cell.ns2.len()).sum();
        let minutes = [ns2.cpu_seconds, ours.cpu_seconds].map(|seconds| seconds / 60.0);
        writeln!(
            text,
            "| {} | {runs} | {:.1} min | {:.1} min | {:.1} |",
            scenario.title,
            minutes[0],
            minutes[1],
            minutes[0] / minutes[1]
        )
        .expect("written");
    }
    text
}

/// Returns the difference of the laboratory's mean from ns-2's, in percent of ns-2's.
fn apart(ns2: &Estimate, ours: &Estimate) -> String {
    if ns2.mean == 0.0 {
        return if ours.mean == 0.0 { "0 %" } else { "-" }.to_owned();
    }
    format!("{:+.1} %", 100.0 * (ours.mean / ns2.mean - 1.0))
}

/// Returns paragraphs with short lines.
fn paragraphs(text: &str) -> String {
    text.split("\n\n").map(|text| wrapped(text, WIDTH).join("\n") + "\n\n").collect()
}

impl Comparison {
    /// Returns how many combinations are inside a tolerance, and the number of all.
    fn inside(&self, tolerance: &Tolerance) -> (usize, usize) {
        let inside = self.cells.iter().filter(|cell| {
            let (ns2, ours) = cell.estimates(measure(&tolerance.measure).column);
            tolerance.agrees(&ns2, &ours)
        });
        (inside.count(), self.cells.len())
    }

    /// Returns the headings of the axes.
    fn axes(&self) -> String {
        self.scenario.axes.iter().map(|(_, heading)| format!(" {heading} |")).collect()
    }

    /// Returns the description, the figure, and the differences above the tolerances.
    fn section(&self) -> String {
        let scenario = self.scenario;
        let seeds = self.cells[0].ns2.len();
        let mut text = format!("\n## {}\n\n{}", scenario.title, paragraphs(scenario.describes));
        let caption = format!("{} Means over {seeds} seeds.", scenario.figure.caption);
        let shows = match scenario.figure.x {
            X::LastAxis(name) => measure(name).heading,
            X::ResponseTimes(_) => "distribution of response times",
        };
        write!(
            text,
            "![{} in ns-2 and in the laboratory](../{})\n\n{}\n\n",
            capitalised(shows),
            scenario.results(".svg"),
            caption.trim(),
        )
        .expect("written");
        if scenario.differences.is_empty() {
            text += "No difference exceeds its tolerance.\n";
        }
        for difference in scenario.differences {
            write!(
                text,
                "{}| measure |{} ns-2 | laboratory | difference |\n|---|{}---|---|---|\n",
                paragraphs(difference.cause),
                self.axes(),
                "---|".repeat(scenario.axes.len()),
            )
            .expect("written");
            for (measure, key) in difference.cells {
                let cell = self.cells.iter().find(|cell| cell.is(key)).expect("a cell of the plan");
                let measure = self::measure(measure);
                let ((ns2, ours), name) = (cell.estimates(measure.column), measure.heading);
                let (key, apart) = (key.join(" | "), apart(&ns2, &ours));
                writeln!(text, "| {name} | {key} | {ns2:.3} | {ours:.3} | {apart} |")
                    .expect("written");
            }
            text += "\n";
        }
        text.trim_end().to_owned() + "\n"
    }

    fn tables(&self, tolerances: &[Tolerance]) -> String {
        let seeds = self.cells[0].ns2.len();
        let mut text = format!(
            "\n## All results: {}\n\nMeans over {seeds} seeds with 95 % intervals.\n",
            self.scenario.title
        );
        for tolerance in self.scenario.tolerances(tolerances) {
            write!(
                text,
                "\n|{} {}: ns-2 | laboratory | difference | tolerance | holds |\n|{}---|---|---|---|---|\n",
                self.axes(),
                measure(&tolerance.measure).heading,
                "---|".repeat(self.scenario.axes.len()),
            )
            .expect("written");
            for cell in &self.cells {
                let (ns2, ours) = cell.estimates(measure(&tolerance.measure).column);
                let holds = if tolerance.agrees(&ns2, &ours) { "yes" } else { "**no**" };
                let (key, apart, percent) =
                    (cell.key.join(" | "), apart(&ns2, &ours), tolerance.percent);
                writeln!(
                    text,
                    "| {key} | {ns2:.3} | {ours:.3} | {apart} | {percent} % | {holds} |"
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
        let [ns2, ours] = comparison.curves(key);
        assert!(!ns2.is_empty(), "{}: no results of {key:?}", comparison.scenario.name);
        let ns2 = Series::of_estimates(format!("{name}, ns-2"), ns2);
        // Some options exist only in the laboratory.
        if !series.iter().any(|drawn| drawn.points == ns2.points) {
            series.push(ns2);
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
    /// Returns the points of a curve in ns-2 and in the laboratory, with the means over the seeds.
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
