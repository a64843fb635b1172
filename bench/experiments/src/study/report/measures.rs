//! Selects the measure, and the group or link, that answers a study.

use std::collections::BTreeSet;

use crate::measures::{MEASURES, Measure, primary};
use crate::study::table::busiest;
use crate::study::{Study, StudyRunResult};

/// A measure and the group or link that it describes.
pub(super) struct Asked {
    /// Name of the group of traffic, or of the link.
    pub(super) of: String,
    pub(super) measure: &'static Measure,
    /// Link from which link measures are read.
    pub(super) link: String,
}

/// Returns one measure for each group of traffic. If the plan ranks by a link measure, returns that
/// measure for the busiest link only.
pub(super) fn asked(study: &Study, results: &[StudyRunResult]) -> Vec<Asked> {
    let link = busiest(&results.iter().collect::<Vec<_>>()).unwrap_or_default();
    let named = study.report.rank_by.as_deref().and_then(Measure::named);
    if let Some(measure) = named.filter(|measure| !measure.is_of_group()) {
        return vec![Asked { of: link.clone(), measure, link }];
    }
    let groups: BTreeSet<&String> =
        results.iter().flat_map(|result| result.outcome.groups.keys()).collect();
    let of = |group: &&String| Asked {
        of: (*group).clone(),
        measure: named.unwrap_or_else(|| suiting(study, group, results)),
        link: link.clone(),
    };
    groups.iter().map(of).collect()
}

/// Returns the measure that ranks a group. This is the measure with which `fathom compare` ranks
/// the workload. It is throughput instead if downloads outlast the run or if no run has a value of
/// the former measure. The parts of a mixed group (`GROUP/CONTROLLER`) have the workload of the
/// group.
fn suiting(study: &Study, group: &str, results: &[StudyRunResult]) -> &'static Measure {
    let throughput = Measure::named("throughput_bps").unwrap_or(&MEASURES[0]);
    let traffic = study
        .points
        .iter()
        .flat_map(|point| &point.scenario.traffic)
        .find(|traffic| Some(&*traffic.name) == group.split('/').next());
    let measure = traffic.map_or(throughput, |traffic| primary(&traffic.workload));
    let has = |measure: &Measure| {
        results.iter().any(|result| measure.of(&result.outcome, group, "").is_some())
    };
    if has(measure) { measure } else { throughput }
}
