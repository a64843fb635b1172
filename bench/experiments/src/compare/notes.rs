//! Notes to read before the ranking: influences on the result other than the controllers.

use super::beside::Beside;
use super::result::Comparison;
use crate::measures::unseeded_note;
use crate::stack::Stack;

impl Comparison {
    /// Returns the notes that a report states before its conclusion, one sentence each, without its
    /// full stop.
    pub fn notes(&self) -> Vec<String> {
        let late = self.late_events().into_iter().map(|(_, line)| line);
        let all = late.chain(self.full_other_direction()).chain(self.unpaired());
        let beside: Vec<Beside> =
            self.plan.beside.iter().filter_map(|text| Beside::read(text).ok()).collect();
        let crossing =
            beside.iter().filter_map(Beside::controller).flat_map(|(controller, tcp)| {
                let stacks = self.plan.stacks.iter();
                stacks.map(move |stack| (controller, if tcp { Stack::Tcp } else { *stack }))
            });
        let compared = self.runs.iter().map(|run| (&*run.controller, run.stack));
        let unseeded = unseeded_note(compared.chain(crossing));
        all.chain(self.decisive_limits()).chain(unseeded).collect()
    }

    /// Returns whether the path may reorder packets with bodies.
    pub(super) fn path_reorders(&self) -> bool {
        let Ok(checked) = self.plan.check() else { return false };
        let Some(path) = &checked.path else { return false };
        let way = if checked.workload.goes_up() { &path.up } else { &path.down };
        let does = &way.impairments;
        !does.reorder.is_none() || (does.jitter.reorders && !does.jitter.is_none())
    }
}
