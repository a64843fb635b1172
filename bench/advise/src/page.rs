//! The profile and the advice as shown to the user.

use fathom_analyze::{Drawing, Drawn, Page, Sheet};
use fathom_cc::Rate;
use fathom_metrics::{Bounds, percentile};
use fathom_report::{Axis, Pen, Whisker, Whiskers};

use crate::Observed;
use crate::advice::{Advice, Effect, InClass, Overall, same};
use crate::profile::{Class, Profile, SHOWN, Spread};
use crate::scenario::Scenario;

/// Number of controllers above which some of the 95% intervals may miss the true value by chance.
const MANY: usize = 6;

/// Lists the caveats of a profile, to be read before its numbers are used.
pub fn cautions(profile: &Profile, observed: &Observed, scenario: &Scenario) -> Vec<String> {
    let part = |n: usize| percent(n as f64 / profile.connections.max(1) as f64);
    let mut lines = observed.cautions.clone();
    if let [_, _, ..] = &observed.titles[..] {
        lines.push(format!(
            "The logs come from several servers or controllers ({}), and this page mixes their \
             results. The advice compares with {}. To compare with another controller, name it \
             with --current, or give the logs of one controller at a time.",
            observed.titles.join("; "),
            scenario.current
        ));
    }
    if profile.measured == 0 {
        lines.push(
            "No connection filled its path, so each rate is the highest rate seen, and the paths \
             may be faster. Controllers differ only when paths are full."
                .into(),
        );
    } else if profile.measured < profile.connections {
        lines.push(format!(
            "{} of the connections never filled their path; each counts in the class with the \
             nearest round-trip time.",
            part(profile.connections - profile.measured)
        ));
    }
    if profile.without_rtt > 0 {
        lines.push(format!(
            "{} of the connections have no round-trip time in their log, so they belong to no \
             class.",
            part(profile.without_rtt)
        ));
    }
    if profile.classes.iter().any(|class| class.measured < 5) {
        lines.push("A class has fewer than five connections that filled their path.".into());
    }
    if profile.response_bytes.count == 0 && scenario.workload.starts_with(crate::workload::PREFIX) {
        lines.push(
            "These logs contain no responses, so each connection counts as one response with all \
             its bytes."
                .into(),
        );
    }
    lines.extend(BLIND.iter().map(|line| (*line).to_owned()));
    lines
}

/// Plausible ranges for clients on networks: round trips in milliseconds, longer than within a
/// rack, and rates in bits per second, no lower than those of GPRS.
const ROUND_TRIPS: std::ops::Range<f64> = 0.1..10_000.0;
const RATES: std::ops::Range<f64> = 20e3..100e9;

/// Returns warnings about classes with implausible paths. Advice for them is based on misleading
/// logs, unless client and server are on one machine.
pub fn implausible(profile: &Profile) -> Vec<String> {
    let is_odd =
        |class: &&Class| !ROUND_TRIPS.contains(&class.rtt_ms) || !RATES.contains(&class.rate_bps);
    let line = |class: &Class| {
        format!(
            "{} of the clients would have a round-trip time of {} ms and a rate of {}, which is \
             implausible for a client on a network. The logs may use other units than they \
             declare. Do not act on the advice for these clients.",
            percent(class.share),
            number(class.rtt_ms),
            rate(class.rate_bps)
        )
    };
    profile.classes.iter().filter(is_odd).map(line).collect()
}

/// Information that no server log contains.
const BLIND: &[&str] = &[
    "Logs show connections, not clients: a client with many connections counts as many clients.",
    "Logs show neither other traffic on a client's link nor the rate from client to server. The \
     simulation assumes no other traffic and the same rate in both directions.",
    "Losses at a short queue count as random losses of the path. Losses at a queue that drops \
     early (CoDel, RED) look the same.",
    "If the rate of a path changes during a connection, the median rate is used. To simulate such \
     changes, edit the path in the scenario (trace, events, jitter).",
    "Logs do not show what clients would have requested over a faster path.",
];

impl Profile {
    /// Returns the profile as tables.
    pub fn sheets(&self) -> Vec<Sheet> {
        let heads = SHOWN.iter().map(|part| format!("p{:.0}", part * 100.0));
        let row = |name: &str, spread: &Spread, text: fn(f64) -> String| {
            let cell = |(part, value): (&f64, &f64)| {
                percentile::shown(*value, *part, spread.count as u64)
                    .map_or_else(|| "–".to_owned(), text)
            };
            let cells = SHOWN.iter().zip(&spread.quantiles).map(cell);
            (spread.count > 0).then(|| {
                (name.to_owned(), std::iter::once(spread.count.to_string()).chain(cells).collect())
            })
        };
        let rows = [
            row("smallest round trip (ms)", &self.rtt_ms, number),
            row("rate while the path was full", &self.rate_bps, rate),
            row("packets lost (%)", &self.loss, |part| number(100.0 * part)),
            row("response (bytes)", &self.response_bytes, |bytes| format!("{bytes:.0}")),
            row("requests of a connection", &self.requests, |n| format!("{n:.0}")),
            row("between requests (ms)", &self.request_gap_ms, number),
            row("between connections (ms)", &self.connection_gap_ms, number),
        ];
        let seen = Sheet {
            title: "What the logs show".into(),
            columns: std::iter::once("of".to_owned()).chain(heads).collect(),
            rows: rows.into_iter().flatten().collect(),
        };
        let class = |class: &Class| {
            let queue =
                class.queue_bytes.map_or("–".into(), |bytes| format!("{:.0} kB", bytes / 1e3));
            let counted = format!("{} ({})", class.connections, class.measured);
            let cells = [
                percent(class.share),
                counted,
                number(class.rtt_ms),
                rate(class.rate_bps),
                number(100.0 * class.loss),
                queue,
            ];
            (format!("{}, {} ms", rate(class.rate_bps), number(class.rtt_ms)), cells.into())
        };
        let columns = ["share", "connections (full)", "RTT ms", "rate", "loss %", "queue"]
            .map(str::to_owned)
            .into();
        let classes = Sheet {
            title: "Classes of clients".into(),
            columns,
            rows: self.classes.iter().map(class).collect(),
        };
        vec![seen, classes]
    }
}

impl Advice {
    /// Returns the advice as a page. If the advice is based on logs, the page includes their
    /// profile and caveats. `warnings` are shown before the result.
    pub fn page(
        &self,
        profile: Option<&Profile>,
        warnings: &[String],
        cautions: &[String],
    ) -> Page {
        let mut sheets = profile.map(Profile::sheets).unwrap_or_default();
        sheets.push(self.overall_sheet());
        sheets.extend(self.class_sheets());
        let mut notes: Vec<String> = cautions.to_vec();
        for class in &self.classes {
            notes.extend(class.notes.iter().map(|note| format!("{}: {note}", class.name)));
        }
        if self.overall.len() > MANY {
            notes.push(format!(
                "With {} controllers, about one interval in twenty misses the true value by \
                 chance: repeat close comparisons with more seeds.",
                self.overall.len()
            ));
        }
        Page {
            title: format!("Advice for {} on {}", self.scenario.current, self.scenario.stack),
            warnings: warnings.to_vec(),
            verdicts: self.verdicts(),
            cautions: notes,
            sheets,
            figures: self.figures(),
            method: METHOD.iter().map(|line| (*line).to_owned()).collect(),
        }
    }

    /// Returns the recommendation in sentences.
    pub fn verdicts(&self) -> Vec<String> {
        let current = &self.scenario.current;
        let Some(best) =
            self.take.as_ref().and_then(|take| self.overall.iter().find(|o| o.controller == *take))
        else {
            let why = match self.scenario.seeds {
                1 => "one seed gives no interval; use more seeds",
                _ => "over all clients, no other controller is better beyond its 95 % interval",
            };
            return vec![
                format!("Stay with {current}: {why}."),
                format!("fathom serve {}", self.flags),
            ];
        };
        let change = best.effect.map_or_else(String::new, |effect| effect.text());
        let mut lines = vec![format!(
            "Use {}: over all clients, its {} differs by {change} from that of {current}.",
            best.controller, self.measure
        )];
        let same = (1.0 - best.better_for - best.worse_for).max(0.0);
        let mut whom = format!(
            "Beyond its 95 % interval, it is better for {} of the clients",
            percent(best.better_for)
        );
        if best.worse_for > 0.0 {
            whom += &format!(" and worse for {}", percent(best.worse_for));
        }
        if same > 0.005 {
            whom += &format!("; for {} of the clients, no difference is certain", percent(same));
        }
        lines.push(whom + ".");
        let tied: Vec<&str> = self
            .overall
            .iter()
            .filter(|o| o.tied && o.controller != *current)
            .map(|o| o.controller.as_str())
            .collect();
        if !tied.is_empty() {
            lines.push(format!(
                "Over all clients, these controllers cannot be told apart from the best: {}.",
                tied.join(", ")
            ));
        }
        lines.push(format!("fathom serve {}", self.flags));
        lines
    }

    fn overall_sheet(&self) -> Sheet {
        let row = |o: &Overall| {
            let change = o.effect.map_or_else(|| "current".into(), |effect| effect.text());
            let mark = if o.tied { "~" } else { "" };
            (
                format!("{}{mark}", o.controller),
                vec![change, percent(o.better_for), percent(o.worse_for)],
            )
        };
        let against = format!("{} against {}", self.measure, self.scenario.current);
        let columns = vec![against, "better for".into(), "worse for".into()];
        Sheet { title: "All clients".into(), columns, rows: self.overall.iter().map(row).collect() }
    }

    fn class_sheets(&self) -> impl Iterator<Item = Sheet> + '_ {
        self.classes.iter().map(|class| {
            let row = |r: &InClass| {
                let value = r.value.map_or_else(
                    || "–".into(),
                    |(mean, half)| {
                        let ends = half
                            .map(|half| Bounds::NOT_NEGATIVE.cut(mean, (mean - half, mean + half)));
                        match (half, ends) {
                            (Some(half), Some((_, false))) => {
                                format!("{} ± {}", number(mean), number(half))
                            }
                            // Clip at zero, because no measure is negative.
                            (_, Some(((low, high), true))) => {
                                format!("{} ({} to {})", number(mean), number(low), number(high))
                            }
                            _ => number(mean),
                        }
                    },
                );
                let change = r.effect.map_or_else(
                    || {
                        if same(&r.controller, &self.scenario.current) {
                            "current".into()
                        } else {
                            "–".into()
                        }
                    },
                    |e| e.text(),
                );
                (format!("{}{}", r.controller, if r.tied { "~" } else { "" }), vec![value, change])
            };
            let columns = vec![format!("{} ({})", self.measure, self.unit), "change".into()];
            let title = format!("{}: {} of the clients", class.name, percent(class.share));
            Sheet { title, columns, rows: class.ranking.iter().map(row).collect() }
        })
    }

    /// Plots the effect of each controller, over all clients and, if there are several classes, in
    /// each class.
    fn figures(&self) -> Vec<Drawn> {
        let all = self.overall.iter().map(|o| (&*o.controller, o.effect));
        let mut figures = vec![self.figure("all clients", all.collect())];
        if self.classes.len() > 1 {
            figures.extend(self.classes.iter().map(|class| {
                let ranking = class.ranking.iter().map(|r| (&*r.controller, r.effect));
                self.figure(&class.name, ranking.collect())
            }));
        }
        figures
    }

    fn figure(&self, whom: &str, effects: Vec<(&str, Option<Effect>)>) -> Drawn {
        let unit = if self.unit == "%" { "points" } else { "%" };
        let row = |(controller, effect): (&str, Option<Effect>)| {
            effect.map(|effect| Whisker {
                name: controller.to_owned(),
                value: Some(effect.percent),
                interval: effect.interval_percent,
                samples: Vec::new(),
                note: effect.text(),
                pen: Pen::Of(0),
            })
        };
        Drawn {
            title: format!("Change of the {} for {whom}", self.measure),
            note: format!(
                "The best controller is at the top. Values left of zero are better than {}.",
                self.scenario.current
            ),
            drawing: Drawing::Whiskers(Whiskers {
                axis: Axis::linear(format!("change ({unit})")),
                mark: Some((0.0, self.scenario.current.clone())),
                rows: effects.into_iter().filter_map(row).collect(),
            }),
        }
    }
}

/// Formats a fraction in percent.
fn percent(part: f64) -> String {
    let percent = 100.0 * part;
    if percent > 0.0 && percent < 1.0 {
        format!("{percent:.1} %")
    } else {
        format!("{percent:.0} %")
    }
}

/// Formats a number to three significant digits.
fn number(value: f64) -> String {
    let digits = (2 - value.abs().max(1e-3).log10().floor() as i32).clamp(0, 3) as usize;
    format!("{value:.digits$}")
}

fn rate(bps: f64) -> String {
    let digits = 10f64.powf(bps.max(1.0).log10().floor() - 2.0);
    Rate::from_bits_per_sec(((bps / digits).round() * digits) as u64).to_string()
}

const METHOD: &[&str] = &[
    "Round trip: the smallest round-trip time of the connection, minus the transmission time of a \
     full packet at the connection's rate.",
    "Rate: bytes delivered per time, including IP and UDP headers, in a window of three base round \
     trips (at least 50 ms). A window counts only if the link was never idle in it, so that every \
     round-trip time exceeds the smallest one by at least the transmission time of two packets. \
     The rate of a connection is the median of its windows.",
    "Loss: lost packets as a fraction of acknowledged and lost packets, while the round-trip time \
     was below the middle between its minimum and its 90th percentile. A loss rate needs at least \
     three losses.",
    "Classes: connections are split by least squares on the logarithms of round-trip time and \
     rate. A split is kept if the means of its two parts differ by at least half and each part has \
     at least a twentieth of the connections.",
    "Advice: connections with the sizes and numbers of the logs cross each class's path in virtual \
     time, under every controller and with the same seeds. For all clients, the ratios of each \
     seed are averaged by the shares of the classes. The 95 % intervals are Student's t over the \
     seeds. They show how exact the means of the simulation are, not how similar tomorrow's \
     clients are to those in the logs.",
];
