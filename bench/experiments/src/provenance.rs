//! Versions of the software that made a result. Every JSON file contains them.

use std::collections::BTreeMap;

use crate::stack::Stack;

/// Version of the JSON format of `fathom compare` and `fathom plan run`. It rises when a field
/// changes its name or meaning, but not when a field is added.
pub const SCHEMA: u32 = 4;
/// Version of fathom.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Returns the crates that make up each stack, with their versions:
/// `quinn 0.11.9, quinn-proto 0.11.13`.
pub fn stack_versions(stacks: &[Stack]) -> BTreeMap<String, String> {
    stacks.iter().map(|stack| (stack.name().to_owned(), stack.crates().to_owned())).collect()
}
