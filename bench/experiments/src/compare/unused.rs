//! Options of a comparison that have no effect with its workload or network. Comparisons refuse
//! these options. `scenario/unused.rs` refuses options without effect in scenarios, for studies
//! too.
//!
//! | option | used by | not used by |
//! |---|---|---|
//! | `load` | `packmime`, `page` | `media`, `upload`, `bulk`, workloads with their own load |
//! | `responses` | `packmime`, `page` | `media`, `upload`, `bulk`: they end by themselves |
//! | `reference` | `packmime` on the built-in network | any other workload, any path |
//! | `connections persistent` | `packmime`, `upload`, `bulk` | `page`, `media`: always persistent |
//! | `server-delay` | `packmime` | any other workload |
//!
//! No other option depends on the workload. This module refuses `load` and `responses`;
//! `Plan::check` (`plan.rs`) refuses the other options of the table.

use fathom_cc::Invalid;

use super::plan::{Checked, Plan};
use crate::scenario::ResponseKind;

/// Check of an option: why it has no effect, and what to write instead; `None` if it has an effect.
type Why = fn(&Plan, &Checked) -> Option<String>;

/// Checks of options that every plan has, by their names on the command line.
const BY_NAME: [(&str, Why); 2] = [("load", load), ("responses", responses)];

impl Plan {
    /// Checks every field, refuses options that this plan does not use, and returns the number of
    /// runs. The run on the uncongested network counts too. Every plan has a load and a number of
    /// responses, so these two are refused only if `given` names them (`load`, `responses`) because
    /// the command line sets them.
    ///
    /// # Errors
    /// Returns an error if the plan is wrong, or names the first option without effect.
    pub fn validate_given(&self, given: &[&str]) -> Result<usize, Invalid> {
        let checked = self.check()?;
        self.study(&checked)?;
        for (name, why) in BY_NAME {
            if let Some(why) = given.contains(&name).then(|| why(self, &checked)).flatten() {
                return Err(Invalid::because(why).in_field(name));
            }
        }
        let runs = checked.runs.len() * self.backends.len() * self.seeds as usize;
        Ok(runs + usize::from(checked.has_reference()))
    }
}

fn load(plan: &Plan, _: &Checked) -> Option<String> {
    let kind = plan.kind();
    (!plan.has_load()).then(|| match kind {
        "page" | "pages" => {
            format!(
                "'{}' already sets the number of pages, so --load has no effect; leave --load out, \
                 or write --workload page",
                plan.workload
            )
        }
        _ => format!(
            "the numbers of {kind} already set its size, so --load has no effect; leave --load \
             out, or write --workload packmime or page"
        ),
    })
}

fn responses(plan: &Plan, checked: &Checked) -> Option<String> {
    let own = checked.workload.requests()?;
    let numbers = match checked.workload.model().response_kind() {
        ResponseKind::Frame => "'media:4 at 2Mbps 30fps deadline 100ms for 60s'",
        ResponseKind::Upload => "uploads:40x5MB@4s",
        _ => "bulk:8x20MB@100ms",
    };
    Some(format!(
        "{} ends after its own {own} responses, so --responses has no effect; leave --responses \
         out, or write a workload such as {numbers}",
        plan.kind()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{Connections, Timestamps};
    use crate::stack::Stack;

    fn plan(change: impl FnOnce(&mut Plan)) -> Plan {
        let mut plan = Plan::default();
        change(&mut plan);
        plan
    }

    #[test]
    fn plan_options_without_effect_are_refused_with_a_hint() {
        let path = |p: &mut Plan, name: &str, value: &str| {
            *p.path.field(name).unwrap() = Some(value.into());
        };
        let media = "media:1 at 2Mbps 30fps deadline 100ms for 5s";
        let cases = [
            (plan(|p| p.workload = "bulk".into()), "load", "leave --load out"),
            (plan(|p| p.workload = media.into()), "load", "leave --load out"),
            (plan(|p| p.workload = "pages:2/s".into()), "load", "--workload page"),
            (plan(|p| p.workload = "upload".into()), "responses", "its own 20 responses"),
            (plan(|p| p.workload = media.into()), "responses", "its own 150 responses"),
            (
                plan(|p| (p.reference, p.workload) = ("1Gbps".into(), "bulk".into())),
                "",
                "leave it out",
            ),
            (
                plan(|p| {
                    p.reference = "1Gbps".into();
                    path(p, "preset", "lte");
                }),
                "",
                "only the built-in",
            ),
            (plan(|p| (p.server_delay, p.workload) = (true, "bulk".into())), "", "server-delay: "),
            (
                plan(|p| (p.connections, p.workload) = (Connections::Persistent, "page".into())),
                "",
                "connections: ",
            ),
            (
                plan(|p| {
                    (p.timestamps, p.controllers) = (Timestamps::Paper, vec!["native:cubic".into()])
                }),
                "",
                "so 'paper' has no effect",
            ),
            (
                plan(|p| {
                    path(p, "rtt", "0ms");
                    path(p, "reorder", "1%");
                }),
                "",
                "path.reorder: ",
            ),
            (
                plan(|p| (p.mtu_discovery, p.stacks) = (true, vec![Stack::Tcp])),
                "",
                "mtu-discovery: none of",
            ),
            (plan(|p| (p.gso, p.stacks) = (Some(16), vec![Stack::Tcp])), "", "gso: none of"),
            (plan(|p| p.path.events = vec!["mtu:1400@1s".into()]), "", "mtu:1250@20s"),
            (plan(|p| p.path.events = vec!["blackout:0s@1s".into()]), "", "lasts no time"),
            (plan(|p| p.path.events = vec!["hold:0s@1s".into()]), "", "lasts no time"),
            (
                plan(|p| p.workload = "media:1 at 2Mbps 30fps deadline 7ms for 5s".into()),
                "",
                "one-way delay of 7ms",
            ),
        ];
        for (plan, given, says) in cases {
            let text = plan.validate_given(&[given]).unwrap_err().to_string();
            assert!(text.contains(says) && !text.contains('\n'), "{says}: {text}");
        }
    }

    #[test]
    fn plan_options_with_an_effect_are_accepted() {
        for (plan, given) in [
            (plan(|p| p.reference = "200Mbps".into()), &["load", "responses"][..]),
            (plan(|p| p.workload = "page".into()), &["load", "responses"]),
            (plan(|p| p.workload = "page:resume=0rtt".into()), &["load", "responses"]),
            (plan(|p| p.workload = "pages:2/s".into()), &["responses"]),
            (plan(|p| (p.connections, p.workload) = (Connections::Persistent, "bulk".into())), &[]),
            (plan(|p| p.timestamps = Timestamps::Paper), &[]),
            (
                plan(|p| {
                    (p.timestamps, p.controllers) = (Timestamps::Off, vec!["native:cubic".into()])
                }),
                &[],
            ),
            (plan(|p| p.path.events = vec!["mtu:1250@1s".into(), "blackout:1s@1s".into()]), &[]),
            (plan(|p| p.workload = "media:1 at 2Mbps 30fps deadline 8ms for 5s".into()), &[]),
        ] {
            plan.validate_given(given).unwrap();
            // The text of the plan leaves out all options without effect.
            let written = plan.study_text().unwrap();
            Plan::from_toml(&written).unwrap().validate_given(&[]).unwrap();
        }
    }
}
