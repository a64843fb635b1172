//! Controllers that are not Fathom's: their code changes while results are kept.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::LazyLock;

use fathom_cc::catalogue;
use fathom_netsim::hash::StableHash;

use crate::scenario::Scenario;
use crate::stack::Controller;

/// This program, as its file is: another build, other results. Where it cannot be read, nothing is taken for the same.
static PROGRAM: LazyLock<u64> = LazyLock::new(|| {
    let program = std::env::current_exe().and_then(std::fs::read);
    program.map_or_else(
        |_| RandomState::new().hash_one(0),
        |program| {
            let mut hash = StableHash::default();
            program.iter().for_each(|byte| hash.add(u64::from(*byte)));
            hash.value()
        },
    )
});

/// What the outcome of a scenario depends on that no name tells; empty where all controllers are Fathom's or stacks' own.
pub(super) fn own_code_text(scenario: &Scenario) -> String {
    let traffic =
        scenario.traffic.iter().flat_map(|t| &t.mix).filter_map(
            |(_, controller)| match controller {
                Controller::Fathom(config) => Some(config),
                Controller::Native(_) => None,
            },
        );
    let background = scenario.background.iter().flat_map(|b| &b.mix).map(|(_, config)| config);
    if traffic.chain(background).any(|config| catalogue::is_added(&config.spec())) {
        format!("program {:016x}", *PROGRAM)
    } else {
        String::new()
    }
}
