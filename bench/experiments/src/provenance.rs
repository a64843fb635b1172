//! Versions of the software that made a result. Every JSON file contains them.

use std::collections::BTreeMap;

use crate::stack::Stack;

/// Version of the JSON of `fathom compare` and `fathom plan run`. It rises when a field gets
/// another name or meaning, but not for a new field.
pub const SCHEMA: u32 = 4;
/// Version of fathom.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Returns the crates that make up each stack, with their versions:
/// `quinn 0.11.9, quinn-proto 0.11.13`.
pub fn stack_versions(stacks: &[Stack]) -> BTreeMap<String, String> {
    let crates = |stack: Stack| match stack {
        Stack::Quinn => env!("FATHOM_CRATES_QUINN"),
        Stack::Noq => env!("FATHOM_CRATES_NOQ"),
        #[cfg(feature = "quiche")]
        Stack::Quiche => env!("FATHOM_CRATES_QUICHE"),
        // Stacks at packet level are part of fathom.
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
