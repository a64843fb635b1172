//! What the paper says of these experiments. The predicates are in `predicates.rs`.

use super::super::Results;
use super::super::claims::{ClaimCheck, Finding};
use super::predicates;
use super::simulated::loss_change;
use super::verdicts::below_zero;
use super::{ALONE, ASU, EMORY, PAIRED, PAIRED_ALTERED, REDUCTIONS, SHARES};

const fn check(
    id: &'static str,
    source: &'static str,
    says: &'static str,
    test: &'static str,
    studies: &'static [&'static str],
    predicate: fn(&Results) -> Finding,
) -> ClaimCheck {
    ClaimCheck { id, source, says, test, studies, predicate }
}

pub(super) const CLAIMS: &[ClaimCheck] = &[
    check(
        "dca-few-losses-foretold",
        "DCA §3.2.1",
        "On average over the times of day, a significant rise of the round trip comes before 7 to 18 % of the losses of a path.",
        "the indication metric, averaged over the five levels, lies with its interval in .07 to .18 on both paths",
        &[EMORY, ASU],
        predicates::few_losses_predicted,
    ),
    check(
        "dca-asu-foretells-least",
        "DCA §3.2.1",
        "The congested path 7 (ASU) predicts its losses least.",
        "the indication metric of ASU, averaged over the levels, is below that of Emory, seed by seed",
        &[EMORY, ASU],
        predicates::asu_predicts_least,
    ),
    check(
        "dca-models-foretell-as-paths",
        "DCA §4.1",
        "The models show about the correlation between losses and rising round trips that the measured paths show.",
        "at the tuned level the indication metric lies with its interval in the span of the paper's row of table 3-4 (ours)",
        &[EMORY, ASU],
        predicates::models_predict_as_paths,
    ),
    check(
        "dca-predicted-to-lose",
        "DCA §3.3, table 3-5",
        "DCA is predicted to cost 4 to 70 % of the throughput.",
        "on both paths and at every level the predicted change lies below zero",
        &[EMORY, ASU],
        predicates::predicted_to_lose,
    ),
    check(
        "dca-congestion-costs-less",
        "DCA §3.3, table 3-5",
        "The predicted degradation becomes smaller as the loss rate grows.",
        "it is smaller on ASU than on Emory (over all levels), and on each path smaller at 120 % than at 80 %, seed by seed",
        &[EMORY, ASU],
        predicates::congestion_costs_less,
    ),
    check(
        "dca-rise-after-the-loss",
        "DCA §3.2.2, figures 3-1 and 3-2",
        "Samples taken after the lost packet was sent are higher than those before it; path 7 peaks around lag +1.",
        "the relative delay at lag +1 is above that at lag -1, on both paths, seed by seed",
        &[EMORY, ASU],
        predicates::rise_after_the_loss,
    ),
    check(
        "dca-emory-early-rise",
        "DCA §3.2.2, figure 3-1",
        "On path 1 the delay is somewhat raised at lag -1 and more at lag -10.",
        "on Emory the relative delay at lag -1 is above 1 and that at lag -10 above that at -1, seed by seed",
        &[EMORY],
        predicates::emory_early_rise,
    ),
    check(
        "dca-losses-after-short-round-trips",
        "DCA §3.2.3, figure 3-3",
        "Round trips before losses are not restricted to the longest.",
        "on Emory more than 10 % (ours) of the losses come after a sampledRTT(2) no longer than the median round trip",
        &[EMORY],
        predicates::losses_after_short_round_trips,
    ),
    check(
        "dca-degrades",
        "DCA §4.3, table 4-1",
        "With a reduction of 50 %, DCA gets less than the Reno connection beside it, on both paths.",
        "the change of throughput at 50 % lies below zero on both paths",
        &[PAIRED],
        predicates::degrades,
    ),
    check(
        "dca-smaller-reductions-cost-less",
        "DCA §4.3, table 4-1",
        "A smaller reduction costs less throughput.",
        "the change of throughput at 12.5 % is above that at 50 %, on both paths, seed by seed",
        &[PAIRED],
        predicates::smaller_reductions_cost_less,
    ),
    check(
        "dca-emory-loses-less",
        "DCA §4.3, table 4-2",
        "Over the Emory path DCA lowers the loss rate of its connection by roughly 7 %.",
        "the change of the loss rate at 50 % lies below zero on Emory",
        &[PAIRED],
        |results| predicates::on_path(results, "emory", REDUCTIONS[0].1, loss_change, below_zero),
    ),
    check(
        "dca-small-reduction-avoids-nothing",
        "DCA §4.3, table 4-2",
        "Over the Emory path a reduction of 12.5 % does not appear to lower the loss rate.",
        "the change of the loss rate at 12.5 % does not lie below zero beyond its interval",
        &[PAIRED],
        predicates::small_reduction_avoids_nothing,
    ),
    check(
        "dca-asu-avoids-less",
        "DCA §4.3, table 4-2",
        "DCA avoids fewer losses over the ASU path.",
        "the change of the loss rate at 50 % is higher on ASU than on Emory, seed by seed",
        &[PAIRED],
        predicates::asu_avoids_less,
    ),
    check(
        "dca-asu-varies-more",
        "DCA §4.3, table 4-2",
        "Over the ASU path the changes of the loss rate vary more with the lower reductions.",
        "their deviation at 25 and at 12.5 % is above that at 50 % by an F test at 5 % (ours)",
        &[PAIRED],
        predicates::asu_varies_more,
    ),
    check(
        "dca-altered-degrades",
        "DCA §4.3, table 4-3",
        "Where web users are the load, DCA degrades throughput significantly under both levels of congestion.",
        "the change of throughput lies below zero at both levels",
        &[PAIRED_ALTERED],
        predicates::altered_degrades,
    ),
    check(
        "dca-altered-light-loses-less",
        "DCA §4.3",
        "In the less congested case DCA is somewhat successful at avoiding loss: up to 30 % of the losses.",
        "the loss rate of DCA is below that of Reno in the lightly congested case, run by run",
        &[PAIRED_ALTERED],
        predicates::altered_light_loses_less,
    ),
    check(
        "dca-altered-foretells-more",
        "DCA §4.3",
        "On the altered model losses are predicted significantly more often than on the measured path.",
        "the indication metric of the DCA connection is above that of Reno on Emory (tuned level) at both levels, seed by seed",
        &[PAIRED_ALTERED, EMORY],
        predicates::altered_predicts_more,
    ),
    check(
        "dca-vegas-and-dual-degrade",
        "DCA §4.4, table 4-4",
        "Both Vegas-CAM and DUAL get less than the Reno connection beside them.",
        "the change of throughput lies below zero for both on both paths",
        &[PAIRED],
        predicates::vegas_and_dual_degrade,
    ),
    check(
        "dca-vegas-and-dual-lose-less-than-dca",
        "DCA §4.4",
        "The decrease with Vegas-CAM and DUAL is not as large as with DCA.",
        "the change of throughput of both is above that of DCA (50 %) on both paths, seed by seed",
        &[PAIRED],
        predicates::lose_less_than_dca,
    ),
    check(
        "dca-vegas-loses-less-on-asu",
        "DCA §4.4, table 4-4",
        "Vegas-CAM loses less throughput over the congested ASU path than over Emory.",
        "its change of throughput on ASU is above that on Emory, seed by seed",
        &[PAIRED],
        predicates::vegas_loses_less_on_asu,
    ),
    check(
        "dca-vegas-altered-loses-little",
        "DCA §4.4, table 4-5",
        "On the altered, heavily congested model Vegas-CAM loses much less (1 %) than on Emory.",
        "its change of throughput there is above that on Emory, seed by seed",
        &[PAIRED, PAIRED_ALTERED],
        predicates::vegas_altered_loses_little,
    ),
    check(
        "dca-one-flow-changes-nothing",
        "DCA §4.5",
        "One DCA connection in place of a Reno connection leaves losses, mean queues and queue oscillations essentially unchanged.",
        "all three change by less than 10 % (ours), intervals included, on both paths, run by run",
        &[ALONE],
        predicates::one_flow_changes_nothing,
    ),
    check(
        "dca-loss-falls",
        "DCA §4.5, figure 4-7",
        "Enough DCA lowers the loss rate of the link.",
        "under heavy congestion the loss rate with all users on DCA is below that with none, seed by seed",
        &[SHARES],
        |results| Finding::of(below_zero, predicates::drop_at(results, "DCA, heavy", "100%")),
    ),
    check(
        "dca-loss-falls-from-10-percent",
        "DCA §4.5, figure 4-7",
        "The loss rate begins to fall only when at least 10 % of the arriving traffic is DCA.",
        "under heavy congestion the smallest share with a loss rate below that of no DCA, beyond its interval, is 10 % or more",
        &[SHARES],
        predicates::falls_from_ten_percent,
    ),
    check(
        "dca-vegas-inactive",
        "DCA §4.5, figure 4-7",
        "Vegas is essentially inactive: the loss rate stays as it is however many use it.",
        "with all users on Vegas the loss rate changes by less than 10 % (ours), interval included, seed by seed",
        &[SHARES],
        predicates::vegas_inactive,
    ),
    check(
        "dca-light-needs-more",
        "DCA §4.5, figure 4-7",
        "Under light congestion an even larger share of DCA is needed before the loss rate falls.",
        "the smallest share with a loss rate below that of no DCA, beyond its interval, is larger under light congestion",
        &[SHARES],
        predicates::light_needs_more,
    ),
];

/// For tests: the predicate of this name.
#[cfg(test)]
pub(super) fn answer(id: &str, results: &Results) -> Finding {
    let check = CLAIMS.iter().find(|check| check.id == id).unwrap_or_else(|| panic!("no claim {id}"));
    (check.predicate)(results)
}

/// For tests: names and studies of all claims.
#[cfg(test)]
pub(super) fn names() -> Vec<(&'static str, &'static [&'static str])> {
    CLAIMS.iter().map(|check| (check.id, check.studies)).collect()
}
