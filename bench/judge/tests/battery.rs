//! The shipped battery can be run: at both depths, for our controllers and the stacks' own.

use fathom_judge::{Battery, Depth, JudgePlan, Settings};
use fathom_netsim::backend::Backend;
use fathom_stacks::Stack;

#[test]
fn every_test_is_a_study_at_both_depths() {
    let runs = |depth, controller: &str, stack| {
        let settings = Settings {
            controller: controller.to_owned(),
            against: vec!["cubic".to_owned(), "reno".to_owned()],
            stack,
            depth,
            seeds: None,
            only: Vec::new(),
            backend: Backend::Virtual,
            scale: 1.0,
        };
        let plan = JudgePlan::new(Battery::shipped(), settings);
        plan.unwrap_or_else(|e| panic!("{} of {controller} on {stack}: {e}", depth.name())).runs.len()
    };
    for (controller, stack) in [("vegas", Stack::Quinn), ("native:bbr", Stack::Quinn), ("native:cubic", Stack::Noq)] {
        let (quick, full) = (runs(Depth::Quick, controller, stack), runs(Depth::Full, controller, stack));
        assert!(full > 3 * quick && quick > 100, "{controller} on {stack}: {quick} and {full} runs");
    }
}
