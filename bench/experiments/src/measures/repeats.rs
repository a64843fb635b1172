//! Controllers under which two runs with one seed differ.

use std::collections::BTreeSet;

use super::listed;
use crate::stack::{Controller, Stack};

/// Returns a sentence, without its full stop, with the controllers that draw random numbers without
/// a seed. Returns `None` if these specs include no such controller.
pub fn unseeded_note<'a>(
    controllers: impl IntoIterator<Item = (&'a str, Stack)>,
) -> Option<String> {
    let unseeded: BTreeSet<String> = controllers
        .into_iter()
        .filter(|(spec, stack)| {
            Controller::read(spec, *stack).is_ok_and(|c| !c.is_repeatable(*stack))
        })
        .map(|(spec, stack)| format!("{spec} of {stack}"))
        .collect();
    let names: Vec<String> = unseeded.into_iter().collect();
    let takes = if names.len() > 1 { "take" } else { "takes" };
    (!names.is_empty()).then(|| {
        format!(
            "{} {takes} random numbers from the operating system, which no seed controls, so the \
             same command may give different values each time. The spread over the seeds includes \
             these differences",
            listed(&names)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn note_names_only_controllers_that_ignore_the_seed() {
        let none = [("native:cubic", Stack::Quinn), ("sync", Stack::Noq), ("bbr", Stack::Tcp)];
        assert_eq!(unseeded_note(none), None);
        let note = unseeded_note([("native:bbr", Stack::Quinn), ("native:bbr3", Stack::Noq)]);
        assert!(note.unwrap().starts_with("native:bbr of quinn and native:bbr3 of noq take "));
    }
}
