//! The output of `fathom --version`.

use std::sync::LazyLock;

use fathom_experiments::provenance;
use fathom_stacks::Stack;

/// Returns the version, the commit and the versions of the stacks.
pub(crate) fn long() -> &'static str {
    static TEXT: LazyLock<String> = LazyLock::new(text);
    &TEXT
}

fn text() -> String {
    let stacks = provenance::stack_versions(Stack::BUILT_IN);
    let stacks: Vec<String> = stacks.into_values().collect();
    format!("{} ({})\n{}", provenance::VERSION, env!("FATHOM_COMMIT"), stacks.join("\n"))
}
