//! The README's example runs, and is as short as the README says.

#![cfg(feature = "quinn")]

#[path = "../examples/quinn.rs"]
#[allow(dead_code, clippy::missing_const_for_fn, reason = "an example, with a main of its own")]
mod quinn;

#[test]
fn a_quinn_application_runs_twice_the_same() {
    quinn::main().expect("both runs have the same trace hash");
}

#[test]
fn the_example_has_75_lines_at_most() {
    assert!(include_str!("../examples/quinn.rs").lines().count() <= 75);
}
