//! What made a result: said in every JSON file.

use std::collections::BTreeMap;

use crate::stack::Stack;

/// Raised when a field of the JSON of `fathom compare` or `fathom plan run` gets another name or meaning; new fields do not raise it.
pub const SCHEMA: u32 = 3;
/// Of fathom.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The crates that make each stack, with their versions: `quinn 0.11.9, quinn-proto 0.11.13`.
pub fn stack_versions(stacks: &[Stack]) -> BTreeMap<String, String> {
    let crates = |stack: Stack| match stack {
        Stack::Quinn => env!("FATHOM_CRATES_QUINN"),
        Stack::Noq => env!("FATHOM_CRATES_NOQ"),
        #[cfg(feature = "quiche")]
        Stack::Quiche => env!("FATHOM_CRATES_QUICHE"),
        // At packet level: ours.
        _ => concat!("fathom ", env!("CARGO_PKG_VERSION")),
    };
    stacks.iter().map(|stack| (stack.name().to_owned(), crates(*stack).to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_stacks_are_found() {
        let found = stack_versions(&[Stack::Quinn, Stack::Noq, Stack::Tcp]);
        assert!(
            found["quinn"].starts_with("quinn 0.11.")
                && found["quinn"].contains("quinn-proto 0.11."),
            "{found:?}"
        );
        assert!(
            found["noq"].starts_with("noq 1.") && found["tcp"].starts_with("fathom "),
            "{found:?}"
        );
    }
}
