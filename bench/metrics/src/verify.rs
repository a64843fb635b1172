//! Consistency checks at the end of every run. A run that fails a check has no result.

use fathom_netsim::link::LinkStats;
use fathom_netsim::sim::NetStats;

/// Returns the bookkeeping errors of a finished run. The result is empty if there are no errors.
pub fn verify(net: &NetStats, links: &[(String, LinkStats, Option<usize>, usize)]) -> Vec<String> {
    let mut errors = Vec::new();
    // A packet that a stack has read counts as delivered. `in_transit` is counted in the packet
    // store and not derived from the other counts.
    let accounted =
        net.delivered + net.dropped + net.impaired + net.unroutable + net.lost + net.in_transit;
    if net.sent + net.duplicated != accounted {
        errors.push(format!(
            "{} packets were sent, but {accounted} packets are accounted for ({net:?})",
            net.sent
        ));
    }
    if net.unroutable != 0 {
        errors.push(format!("{} packets arrived for flows that do not exist", net.unroutable));
    }
    let dropped: u64 = links.iter().map(|(_, l, _, _)| l.dropped).sum();
    if dropped != net.dropped {
        errors.push(format!(
            "links dropped {dropped} packets, but the network counted {}",
            net.dropped
        ));
    }
    for (name, l, limit, queued) in links {
        if l.arrived != l.admitted + l.dropped {
            errors.push(format!(
                "{name}: {} arrived, {} admitted, {} dropped",
                l.arrived, l.admitted, l.dropped
            ));
        }
        if l.admitted != l.departed + *queued as u64 {
            errors.push(format!(
                "{name}: {} admitted, {} departed, {queued} queued",
                l.admitted, l.departed
            ));
        }
        if limit.is_some_and(|limit| l.max_queue > limit) {
            errors.push(format!(
                "{name}: the queue held {} packets, its limit is {limit:?}",
                l.max_queue
            ));
        }
    }
    errors
}
