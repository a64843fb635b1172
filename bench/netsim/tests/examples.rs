//! Tests that the README's example runs, and that it is as short as the README says.

#![cfg(feature = "quinn")]

#[path = "../examples/quinn.rs"]
#[allow(dead_code, clippy::missing_const_for_fn, reason = "an example, with a main of its own")]
mod quinn;

#[test]
fn runs_of_a_quinn_application_are_repeatable() {
    quinn::main().expect("both runs have the same trace hash");
}

#[test]
fn quinn_example_has_at_most_75_lines() {
    assert!(include_str!("../examples/quinn.rs").lines().count() <= 75);
}
