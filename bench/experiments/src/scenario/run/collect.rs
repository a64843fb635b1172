//! Computes the outcome of a run from the counts of its parts.

use std::sync::Arc;
use std::time::Duration;

use fathom_cc::Time;
use fathom_metrics::{
    Fairness, GroupBytes, LiveStream, MediaOutcome, PageStats, Responses, WINDOWS, fair_by_packets,
    round,
};
use fathom_netsim::link::{CountedBytes, Drops, LinkStats, Logged};
use fathom_netsim::sim::{FlowSpans, SimHandle, WIRE_OVERHEAD};

use super::super::limit_outcome::LimitOutcome;
use super::super::outcome::{
    DropsOverTime, FlowOutcome, GroupOutcome, ImpairmentOutcome, LinkOutcome, Outcome, PacketDelay,
    RttOutcome, SharesOverTime,
};
use super::super::sender_watch::SenderTimes;
use super::super::state::{ControllerGroup, FailureReasons};
use super::super::{ResponseKind, Traffic};
use super::{BuiltGroup, Run};
use crate::stack::{SenderReport, Stack};

impl Run<'_> {
    pub(super) fn collect(&self) -> Outcome {
        let sim = self.sim();
        let warm_up = self.state.at_warm_up.lock();
        let seconds = sim.time().as_secs_f64();
        let counted = (seconds - self.scenario.warm_up.as_secs_f64()).max(1e-9);
        let links = self.links.iter().map(|(name, link)| {
            let stats = sim.link_stats(*link);
            let mut outcome = link_outcome(&stats, warm_up.links.get(link), seconds, counted);
            let before = warm_up.impairments.get(link).copied().unwrap_or_default();
            outcome.impairments = sim
                .impairment_counts(*link)
                .map(|counts| ImpairmentOutcome::of(&counts.since(&before)));
            if self.scenario.keep.delays.contains(name) {
                let delay = |packet: Logged| PacketDelay {
                    at_nanos: packet.arrived.as_nanos(),
                    delay_nanos: packet.delay.as_nanos() as u64,
                    l4s: packet.l4s,
                };
                outcome.delays = sim.link_log(*link).into_iter().map(delay).collect();
            }
            (name.clone(), outcome)
        });
        let times = (self.scenario.warm_up, counted);
        let mut groups = std::collections::BTreeMap::new();
        for (traffic, built) in self.scenario.traffic.iter().zip(&self.groups) {
            let of = |parts: &[&Arc<ControllerGroup>]| {
                group_outcome(&sim, traffic, parts, times, built.traced)
            };
            let mut whole = of(&built.parts.iter().collect::<Vec<_>>());
            whole.latency = built
                .delivery
                .as_deref()
                .map(|delivery| delivery.lock().latencies().distribution());
            whole.load = built.load;
            if self.state.wanted.is_some() {
                let requests = built.requests.lock();
                whole.request_hash = format!("{:016x}", requests.value());
            }
            groups.insert(traffic.name.clone(), whole);
            if built.parts.len() > 1 {
                let parts = traffic.mix.iter().zip(&built.parts);
                groups.extend(
                    parts.map(|((_, c), part)| {
                        (format!("{}/{}", traffic.name, c.spec()), of(&[part]))
                    }),
                );
            }
        }
        Outcome {
            seconds: round(seconds, 6),
            counted_seconds: round(counted, 6),
            punctuality: self.executor.punctuality(),
            links: links.collect(),
            groups,
            background: self.packet_level.outcomes(&warm_up.background, counted),
            fairness: self.fairness(),
            trace_hash: format!("{:016x}", sim.trace_hash()),
        }
    }

    /// Returns the fairness among the downloads that are open at the end of the run: their shares
    /// of the link in `keep.shares` after the warm-up.
    fn fairness(&self) -> Option<Fairness> {
        let name = self.scenario.keep.shares.as_ref()?;
        let (_, link) = self.links.iter().find(|(link, _)| link == name)?;
        let chain = &self.scenario.chain;
        let (from, to, _) = chain.directed().find(|(_, _, link)| link == name)?;
        let shares = self.sim().link_stats(*link).shares?;
        let groups: Vec<Sharing> = (self.scenario.traffic.iter().zip(&self.groups))
            .filter_map(|(traffic, built)| sharing(traffic, built))
            .collect();
        let counts: Vec<(usize, u32)> =
            groups.iter().map(|(_, size, flows)| (flows.len(), *size)).collect();
        let fair =
            fair_by_packets(chain.links[from.min(to)].rate.bits_per_sec() as f64 / 8.0, &counts);
        let tenth = |d: Duration| d.as_millis() as usize / 100;
        let tenths = tenth(self.scenario.warm_up)..tenth(self.sim().time().since(Time::ZERO));
        let counted = CountedBytes::Wire { overhead: WIRE_OVERHEAD };
        let groups = groups.into_iter().zip(fair).map(|((name, _, flows), fair)| {
            let flows =
                flows.into_iter().map(|flow| shares.tenths(flow as usize, tenths.clone(), counted));
            Some(GroupBytes { name, fair, flows: flows.collect::<Option<_>>()? })
        });
        Fairness::of(&groups.collect::<Option<Vec<_>>>()?, &WINDOWS)
    }
}

/// Flows on a shared link: the name of their group, the size of their packets on the wire, and the
/// numbers of the flows.
type Sharing = (String, u32, Vec<u32>);

fn sharing(traffic: &Traffic, built: &BuiltGroup) -> Option<Sharing> {
    let flows = built.parts.iter().flat_map(|part| part.stats().open.clone()).collect();
    let size = u32::from(traffic.datagram) + WIRE_OVERHEAD;
    traffic.workload.model().is_long().then(|| (traffic.name.clone(), size, flows))
}

fn link_outcome(
    now: &LinkStats,
    before: Option<&LinkStats>,
    seconds: f64,
    counted: f64,
) -> LinkOutcome {
    let since = |of: fn(&LinkStats) -> u64| of(now) - before.map_or(0, of);
    let (arrived, dropped) = (since(|l| l.arrived), since(|l| l.dropped));
    // The mean covers the whole run, so the part before the end of the warm-up is subtracted.
    let queue =
        now.mean_queue * seconds - before.map_or(0.0, |l| l.mean_queue * (seconds - counted));
    let percent =
        |part: f64, whole: f64| round(if whole > 0.0 { 100.0 * part / whole } else { 0.0 }, 4);
    let series = now.queue_series.as_ref();
    let width = series.map_or(0.0, fathom_netsim::link::Series::width);
    LinkOutcome {
        arrived,
        dropped,
        marked: since(|l| l.marked),
        drops_percent: percent(dropped as f64, arrived as f64),
        mean_queue: round(queue / counted, 3),
        max_queue: now.max_queue,
        utilisation_percent: percent(now.utilisation_since(before).unwrap_or(0.0), 1.0),
        throughput_bps: round(since(|l| l.bytes) as f64 * 8.0 / counted, 0),
        rate_bps: {
            let before = before.map_or(0.0, |before| before.capacity_bytes);
            round((now.capacity_bytes - before) * 8.0 / counted, 0)
        },
        bin_seconds: width,
        queue_mean: series
            .map_or_else(Vec::new, |s| s.bins().iter().map(|b| round(b.sum / width, 2)).collect()),
        queue_max: series.map_or_else(Vec::new, |s| s.bins().iter().map(|b| b.max).collect()),
        shares: now.shares.as_ref().and_then(SharesOverTime::of),
        delays: Vec::new(),
        impairments: None,
        bytes: now.by_purpose.map(|bytes| {
            let before = before.and_then(|l| l.by_purpose).unwrap_or_default();
            bytes.since(&before)
        }),
        drops: now.drops.as_ref().map(|drops| DropsOverTime {
            bin_seconds: Drops::WIDTH,
            arrived: drops.bins.iter().map(|(arrived, _)| *arrived).collect(),
            dropped: drops.bins.iter().map(|(_, dropped)| *dropped).collect(),
        }),
    }
}

/// Returns the outcome of the connections of some controllers of a group.
fn group_outcome(
    sim: &SimHandle,
    traffic: &Traffic,
    parts: &[&Arc<ControllerGroup>],
    (warm_up, counted): (Duration, f64),
    traced: u64,
) -> GroupOutcome {
    let outcome = GroupOutcome { traced, ..GroupOutcome::default() };
    let mut totals = Totals { outcome, ..Totals::default() };
    for part in parts {
        totals.add_requests(part);
        totals.add_connections(traffic, part);
        totals.add_packets(sim, traffic, part, counted);
        totals.add_traces(sim, part);
    }
    totals.outcome(sim, traffic, Time::ZERO + warm_up, counted)
}

/// Totals over the connections of several controllers.
#[derive(Default)]
struct Totals {
    /// Counts that are sums.
    outcome: GroupOutcome,
    responses: Responses,
    pages: PageStats,
    streams: Vec<LiveStream>,
    failures: FailureReasons,
    packets: FlowSpans,
    senders: SenderReport,
    limited: SenderTimes,
}

impl Totals {
    fn add_requests(&mut self, part: &ControllerGroup) {
        let (stats, outcome) = (part.stats(), &mut self.outcome);
        self.responses.merge(&stats.responses);
        if let Some(pages) = &stats.pages {
            self.pages.merge(pages);
        }
        self.streams.extend_from_slice(&stats.live);
        outcome.unfinished += stats.begun.saturating_sub(stats.responses.count() + stats.failed);
        outcome.failed += stats.failed;
        outcome.abandoned += stats.abandoned;
        outcome.timed_out += stats.timed_out;
        self.failures.merge(&stats.failures);
    }

    fn add_connections(&mut self, traffic: &Traffic, part: &ControllerGroup) {
        let since = part.counters().since(&part.at_warm_up.lock());
        let senders = part.stats().senders.totals();
        let outcome = &mut self.outcome;
        self.limited.add(&since.limited);
        self.senders.add(&since.senders);
        outcome.connections += since.connections;
        outcome.accepted += senders.began;
        outcome.one_way_negotiated += senders.did.one_way_negotiated;
        outcome.early_reductions += since.senders.early_reductions;
        outcome.loss_reductions += since.senders.reductions;
        if traffic.stack == Stack::Tcp {
            outcome.tcp.get_or_insert_default().add(&since.senders.tcp);
        }
        outcome.probe_timeouts += since.probe_timeouts;
        outcome.silences += since.silences;
        outcome.backoffs += since.backoffs;
        outcome.backoff_seconds += since.backed_off.as_secs_f64();
    }

    /// Adds the packets of all flows and, if flows are long, the counts of each open flow.
    fn add_packets(
        &mut self,
        sim: &SimHandle,
        traffic: &Traffic,
        part: &ControllerGroup,
        counted: f64,
    ) {
        let stats = part.stats();
        self.packets += stats.over;
        for flow in &stats.open {
            let spans = sim.flow_spans(*flow);
            self.packets += spans;
            if traffic.workload.model().is_long() {
                self.outcome.flows.push(FlowOutcome {
                    throughput_bps: throughput(&spans, counted),
                    sent: spans.counted.sent,
                    lost: spans.counted.lost(),
                });
            }
        }
    }

    /// Adds the RTT series and the window of a traced flow.
    fn add_traces(&mut self, sim: &SimHandle, part: &ControllerGroup) {
        if let Some(rtt) = part.record.rtt() {
            let flow = part.stats().open.first().copied();
            self.outcome.rtt = flow.map(|flow| RttOutcome::new(&rtt, &sim.drops(flow)));
        }
        let window = part.window.points();
        if !window.is_empty() {
            self.outcome.window = window;
            self.outcome.traced_end = *part.traced_end.lock();
        }
    }

    fn outcome(
        self,
        sim: &SimHandle,
        traffic: &Traffic,
        warm_up_end: Time,
        counted: f64,
    ) -> GroupOutcome {
        let Self { outcome, responses, pages, streams, failures, packets, senders, limited } = self;
        let any = responses.count() > 0;
        let loads_pages = traffic.workload.model().response_kind() == ResponseKind::Page;
        GroupOutcome {
            failures: failures.into_counts(),
            limits: LimitOutcome::of(traffic, &senders, &limited, packets.counted.delivered),
            sent: packets.counted.sent,
            lost: packets.counted.lost(),
            start_up_sent: packets.start_up.sent,
            start_up_lost: packets.start_up.lost(),
            backoff_seconds: round(outcome.backoff_seconds, 6),
            responses: responses.count(),
            body_bytes: responses.bytes(),
            mean_size: round(responses.mean_size(), 1),
            goodput_per_response_kbps: round(responses.goodput_kbps(), 3),
            times: any.then(|| responses.all()),
            first_byte: any.then(|| responses.first_bytes()),
            pages: loads_pages.then(|| pages.outcome()),
            media: MediaOutcome::of(streams.iter(), warm_up_end, sim.time()),
            times_large: (responses.large().count > 0).then(|| responses.large()),
            throughput_bps: throughput(&packets, counted),
            ..outcome
        }
    }
}

/// Returns the rate in bits per second, from the bytes that arrived in a counted time of this many
/// seconds.
fn throughput(packets: &FlowSpans, counted: f64) -> f64 {
    round(packets.counted.delivered as f64 * 8.0 / counted, 0)
}
