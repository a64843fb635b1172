//! Fingerprint input for user-defined controllers, whose code may change while results are kept.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::LazyLock;

use fathom_cc::catalogue;
use fathom_netsim::hash::StableHash;

use crate::scenario::Scenario;
use crate::stack::Controller;

/// Hash of the program's file, so that another build does not reuse these results. If the file
/// cannot be read, the hash is random, and no stored result is reused.
static PROGRAM: LazyLock<u64> = LazyLock::new(|| {
    let program = std::env::current_exe().and_then(std::fs::read);
    program.map_or_else(
        |_| RandomState::new().hash_one(0),
        |program| {
            let mut hash = StableHash::default();
            hash.add_bytes(&program);
            hash.value()
        },
    )
});

/// Returns text for the fingerprint of a scenario with user-defined controllers: the hash of the
/// program. Returns an empty string if all controllers are Fathom's or built into a stack.
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
