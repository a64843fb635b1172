//! The result as text, tables and figures.

use super::{ControllerComparison, ControllerGroup, ControllerMeasure, ControllerTable, NOT_NAMED};
use crate::page::{Page, Sheet, millis};
use crate::responses::Class;

impl ControllerComparison {
    /// Returns the result as a page.
    pub fn page(&self) -> Page {
        let names: Vec<&str> =
            self.controllers.iter().map(|g| g.controller.as_deref().unwrap_or(NOT_NAMED)).collect();
        let differences = names.iter().skip(1).map(|name| format!("{name} − {}", names[0]));
        let columns: Vec<String> =
            names.iter().map(|n| (*n).to_owned()).chain(differences).collect();
        let count = |g: &ControllerGroup| g.connections.to_string();
        let connections = self.controllers.iter().map(count).collect();
        let counts = Sheet {
            title: "Logs".into(),
            columns: columns[..names.len()].to_vec(),
            rows: vec![("connections".into(), connections)],
        };
        let row = |m: &ControllerMeasure| {
            let values = m.controllers.iter().map(|c| shown(c.value, c.interval, ""));
            let differences = m
                .controllers
                .iter()
                .skip(1)
                .map(|c| shown(c.difference, c.difference_interval, "+"));
            (m.name.clone(), values.chain(differences).collect())
        };
        let sheet = |t: &ControllerTable| Sheet {
            title: t.title.clone(),
            columns: columns.clone(),
            rows: t.measures.iter().map(row).collect(),
        };
        Page {
            warnings: Vec::new(),
            title: format!("By controller: {}", names.join(", ")),
            verdicts: self.words(&names),
            cautions: self.cautions.clone(),
            sheets: std::iter::once(counts).chain(self.tables.iter().map(sheet)).collect(),
            figures: self.figures.clone(),
            method: METHOD.iter().map(|m| (*m).to_owned()).collect(),
        }
    }

    /// Describes the differences that exceed their interval, for all responses together and for
    /// connections.
    fn words(&self, names: &[&str]) -> Vec<String> {
        let of_sizes = |t: &&ControllerTable| {
            Class::ALL[1..].iter().all(|class| !t.title.ends_with(class.name))
        };
        let told: Vec<&ControllerTable> = self.tables.iter().filter(of_sizes).collect();
        let word = |(i, name): (usize, &&str)| {
            let mut found = Vec::new();
            for (table, m) in told.iter().flat_map(|t| t.measures.iter().map(move |m| (t, m))) {
                let Some((low, high)) = m.controllers[i].difference_interval else { continue };
                if low > 0.0 || high < 0.0 {
                    let what = if table.title.starts_with("Response times") {
                        "response time, "
                    } else {
                        ""
                    };
                    found.push(format!(
                        "{what}{} {}",
                        m.name,
                        shown(m.controllers[i].difference, Some((low, high)), "+")
                    ));
                }
            }
            match found.is_empty() {
                true => {
                    format!(
                        "{name}: no measure differs from {} beyond its 95 % interval.",
                        names[0]
                    )
                }
                false => format!("{name}, against {}: {}.", names[0], found.join("; ")),
            }
        };
        names.iter().enumerate().skip(1).map(word).collect()
    }
}

/// Formats a value and its interval; `plus` precedes positive values.
fn shown(value: Option<f64>, interval: Option<(f64, f64)>, plus: &str) -> String {
    let signed = |v: f64| {
        let digits =
            if v.abs() < 1.0 && v != 0.0 { format!("{:.3}", v.abs()) } else { millis(v.abs()) };
        format!("{}{digits}", if v < 0.0 { "-" } else { plus })
    };
    match (value, interval) {
        (None, _) => "–".into(),
        // A count.
        (Some(value), None) if plus.is_empty() && value.fract() == 0.0 => value.to_string(),
        (Some(value), None) => signed(value),
        (Some(value), Some((low, high))) => {
            format!("{} ({} to {})", signed(value), signed(low), signed(high))
        }
    }
}

const METHOD: &[&str] = &[
    "Intervals (95 %) come from resampling whole connections, because the values of one connection \
     are similar. A controller with fewer than ten connections has no interval, and a percentile \
     near the largest values has none. The last columns show differences from the first \
     controller, each with its own interval.",
    "A server with weights assigns controllers to connections at random, so all controllers serve \
     the same kind of clients at the same time. But a controller that requires one-way delays \
     refuses clients without the timestamp extension, so its clients differ from those of the \
     other controllers.",
    "Response times run from the request's header to the acknowledgement of the last byte.",
    "About one interval in twenty misses the true value by chance, so a single small difference \
     among many measures means little. Very large sets of values are thinned evenly before \
     resampling, which makes intervals wider.",
];
