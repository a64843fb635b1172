//! What a run says in the end: data only, so that it can be stored, merged and looked at later.

use std::collections::BTreeMap;
use std::time::Duration;

use fathom_cc::Time;
use fathom_metrics::{
    Distribution, Fairness, MediaOutcome, PageOutcome, RttSample, WindowPoint, round,
};
use fathom_netsim::backend::Punctuality;
use fathom_netsim::link::{LinkBytes, Shares, jain, starved};
use fathom_netsim::path::ImpairmentCounts;
use serde::{Deserialize, Serialize};

use super::background::BackgroundOutcome;
use super::limit_outcome::LimitOutcome;

/// One run. Nothing in it depends on the machine or the wall clock.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// Virtual seconds it took.
    pub seconds: f64,
    /// Virtual seconds of it that counted, without the warm-up; 0 in results of older versions without one.
    #[serde(default)]
    pub counted_seconds: f64,
    /// Router links by name, `left-right` and `right-left`.
    pub links: BTreeMap<String, LinkOutcome>,
    /// Groups of traffic by name. A group with several controllers has an entry per controller besides, `group/controller`.
    pub groups: BTreeMap<String, GroupOutcome>,
    /// Packet-level groups by name, and `group/controller` where a group has several.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub background: BTreeMap<String, BackgroundOutcome>,
    /// How the flows that last as long as the run shared the link that `[keep]` names, where it names one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fairness: Option<Fairness>,
    /// How punctual the machine was, in a real-time run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub punctuality: Option<Punctuality>,
    /// Hash over every step of every packet.
    pub trace_hash: String,
}

impl Outcome {
    /// Returns the virtual seconds that counted: those after the warm-up.
    pub fn counted(&self) -> f64 {
        if self.counted_seconds > 0.0 { self.counted_seconds } else { self.seconds }
    }
}

/// A link.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LinkOutcome {
    /// Packets that arrived.
    pub arrived: u64,
    /// Packets dropped.
    pub dropped: u64,
    /// Packets marked.
    pub marked: u64,
    /// Dropped, percent of those that arrived.
    pub drops_percent: f64,
    /// Mean queue in packets over time.
    pub mean_queue: f64,
    /// Largest queue in packets.
    pub max_queue: usize,
    /// Bytes that it sent, percent of those that it could have: of a rate the time it was sending, of a trace the delivery opportunities
    /// that it used.
    pub utilisation_percent: f64,
    /// Bits per second over it, headers included.
    pub throughput_bps: f64,
    /// Width of the bins below in seconds; 0 where the queue was not kept.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub bin_seconds: f64,
    /// Mean queue in packets per bin.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub queue_mean: Vec<f64>,
    /// Largest queue in packets per bin.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub queue_max: Vec<f64>,
    /// What each flow got of it over time, where that was kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shares: Option<SharesOverTime>,
    /// The delay of each packet, in the order in which they entered it, where that was kept.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub delays: Vec<PacketDelay>,
    /// Its bytes by what their packets were for, where that was kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<LinkBytes>,
    /// Arrivals and drops over time, from the start of the run, where they were kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drops: Option<DropsOverTime>,
    /// What the path did to packets beside queueing them, where it does anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub impairments: Option<ImpairmentOutcome>,
}

/// Packets, by what a path did to them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImpairmentOutcome {
    /// That came in, before anything else.
    pub arrived: u64,
    /// Bursts in which they came, packets within 100 us of each other: `arrived / bursts` is their mean.
    #[serde(default)]
    pub bursts: u64,
    /// Packets of the largest burst.
    #[serde(default)]
    pub largest_burst: u64,
    /// Lost, at random or in bursts.
    pub lost: u64,
    /// Dropped by the policer.
    pub policed: u64,
    /// Larger than the MTU, or in a blackout.
    pub cut_off: u64,
    /// Whose ECN field was cleared.
    pub bleached: u64,
    /// Whose ECN field was changed from ECT(0) to ECT(1).
    #[serde(default)]
    pub remarked: u64,
    /// Whose ECN field was changed to CE, not by a queue.
    #[serde(default)]
    pub ce_set: u64,
    /// That arrived after a packet of their connection that was sent later, whatever reordered them (RFC 4737 §3).
    pub reordered: u64,
    /// Chosen by `reorder`.
    #[serde(default)]
    pub displaced: u64,
    /// That a hold kept back.
    #[serde(default)]
    pub held: u64,
    /// That came twice.
    pub duplicated: u64,
    /// With one bit changed.
    pub corrupted: u64,
}

impl ImpairmentOutcome {
    pub(super) const fn of(counts: &ImpairmentCounts) -> Self {
        let ImpairmentCounts {
            arrived,
            bursts,
            largest_burst,
            lost,
            policed,
            cut_off,
            bleached,
            remarked,
            ce_set,
            reordered,
            displaced,
            held,
            duplicated,
            corrupted,
        } = *counts;
        Self {
            arrived,
            bursts,
            largest_burst,
            lost,
            policed,
            cut_off,
            bleached,
            remarked,
            ce_set,
            reordered,
            displaced,
            held,
            duplicated,
            corrupted,
        }
    }
}

/// Packets that reached a link, and those of them that its queue dropped.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DropsOverTime {
    /// Width of a bin in seconds.
    pub bin_seconds: f64,
    /// Packets that arrived, per bin.
    pub arrived: Vec<u64>,
    /// Packets dropped, per bin.
    pub dropped: Vec<u64>,
}

impl LinkOutcome {
    /// Packets marked, percent of those that arrived.
    pub fn marks_percent(&self) -> f64 {
        percent(self.marked, self.arrived)
    }
}

fn percent(part: u64, whole: u64) -> f64 {
    if whole > 0 { 100.0 * part as f64 / whole as f64 } else { 0.0 }
}

/// How long a packet took over a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PacketDelay {
    /// When it entered the link, in nanoseconds of virtual time.
    pub at_nanos: u64,
    /// What its queue and its own transmission took, in nanoseconds.
    pub delay_nanos: u64,
}

/// How a link was shared over time, of the flows that were there for the whole of a bin, and in packets of what size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SharesOverTime {
    /// Width of a bin in seconds.
    pub bin_seconds: f64,
    /// Flows there, per bin.
    pub flows: Vec<usize>,
    /// Jain's index of their rates, per bin; nothing where nobody was there.
    pub jain: Vec<Option<f64>>,
    /// Percent of them with less than 5 % of the fair rate, per bin.
    pub starved_percent: Vec<Option<f64>>,
    /// UDP payloads in bytes: a tenth, a half and nine tenths of the bin's bytes travelled in packets no larger.
    pub size_p10: Vec<f64>,
    /// See above.
    pub size_median: Vec<f64>,
    /// See above.
    pub size_p90: Vec<f64>,
}

impl SharesOverTime {
    /// `None` when the run was too large to keep its shares.
    pub(super) fn of(shares: &Shares) -> Option<Self> {
        let rates = shares.rates();
        let rounded = |value: Option<f64>| value.map(|v| round(v, 4));
        (!rates.is_empty()).then(|| Self {
            bin_seconds: shares.width(),
            flows: rates.iter().map(Vec::len).collect(),
            jain: rates.iter().map(|r| rounded(jain(r))).collect(),
            starved_percent: rates
                .iter()
                .map(|r| rounded(starved(r).map(|part| part * 100.0)))
                .collect(),
            size_p10: shares.size_quantile(0.1),
            size_median: shares.size_quantile(0.5),
            size_p90: shares.size_quantile(0.9),
        })
    }
}

// The signature is serde's.
#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_zero(x: &f64) -> bool {
    *x == 0.0
}

// The signature is serde's.
#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_no_count(n: &u64) -> bool {
    *n == 0
}

/// A group of traffic, or those of its connections that have one controller.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GroupOutcome {
    /// Load that web traffic offers, where the scenario asks for a load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<ComputedLoad>,
    /// Connections opened.
    pub connections: u64,
    /// Connections that its servers accepted.
    #[serde(default)]
    pub accepted: u64,
    /// Hash over its first requests, as many as the responses at which the run ends: equal for the same requests. Empty where the run
    /// ends at a time.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub request_hash: String,
    /// Responses completed, of requests that began after the warm-up, as all that follows of requests and responses.
    pub responses: u64,
    /// Requests that failed.
    pub failed: u64,
    /// Of them, those whose user gave up waiting.
    #[serde(default, skip_serializing_if = "is_no_count")]
    pub abandoned: u64,
    /// Failed requests by reason: the error of the connection in the stack's words, of HTTP/3, or
    /// of the user who gave up. Their sum is `failed`; empty in results of older versions.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub failures: BTreeMap<String, u64>,
    /// Requests without an outcome when the run ended.
    #[serde(default)]
    pub unfinished: u64,
    /// Bytes of completed bodies.
    pub body_bytes: u64,
    /// Mean size of the completed responses in bytes.
    pub mean_size: f64,
    /// Mean over responses of size / time, in kbit/s (Sync-TCP table 1).
    pub goodput_per_response_kbps: f64,
    /// Response times.
    pub times: Option<Distribution>,
    /// Times to the first byte of responses, from the same start: of pages, that of the page itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_byte: Option<Distribution>,
    /// Page views and their objects, where the group loads pages; its responses and times are those of page views, too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pages: Option<PageOutcome>,
    /// Frames, deadlines and freezes, where the group is live media; its responses are frames.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media: Option<MediaOutcome>,
    /// Response times of responses larger than 25 kB (Sync-TCP figure 9).
    pub times_large: Option<Distribution>,
    /// Bits per second that reached the group's clients, UDP payload, from the end of the warm-up on; of uploads, its servers.
    pub throughput_bps: f64,
    /// The same for each flow, where the group's flows last as long as the run; in the order of their starts.
    pub flows: Vec<FlowOutcome>,
    /// Datagrams that the senders of bodies (servers; of uploads, clients) sent from the end of the warm-up on.
    pub sent: u64,
    /// Datagrams of them that were lost on the way.
    pub lost: u64,
    /// Datagrams that they sent in the first five seconds of each connection, whatever the warm-up
    /// ([`START_UP`](fathom_netsim::sim::START_UP)).
    #[serde(default)]
    pub start_up_sent: u64,
    /// Datagrams of them that were lost on the way.
    #[serde(default)]
    pub start_up_lost: u64,
    /// Probe timeouts that ran out at its senders after the warm-up, as all that follows: as the stack tells, or the silences below where it
    /// tells nothing (quinn, noq).
    pub probe_timeouts: u64,
    /// Packets that left after a silence of a probe timeout with packets in flight: the same count by one rule for every stack.
    pub silences: u64,
    /// Times that its senders backed off: from the last packet before a probe timeout to the first acknowledgement after it, with however
    /// many probe timeouts between. One that the end of the run cuts short is not counted.
    pub backoffs: u64,
    /// How long these were together, in seconds.
    pub backoff_seconds: f64,
    /// What only TCP does, where it is TCP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tcp: Option<TcpOutcome>,
    /// What limited its senders, where they were followed; missing in results of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<LimitOutcome>,
    /// Early (delay-based) window reductions of its senders.
    pub early_reductions: u64,
    /// Window reductions after loss or mark.
    pub loss_reductions: u64,
    /// Senders whose peer agreed to tell them one-way delays.
    #[serde(rename = "hears_one_way")]
    pub one_way_negotiated: u64,
    /// Size in bytes of the response, or number of the flow, whose window is traced.
    pub traced: u64,
    /// That sender's window over time, where it was kept.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub window: Vec<WindowPoint>,
    /// What came of the traced response, where it was kept and completed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traced_end: Option<TracedOutcome>,
    /// Round-trip times and the losses after them, where they were kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rtt: Option<RttOutcome>,
    /// Packet delivery latency of the group's first flow (SDC §3.3), where it was kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<Distribution>,
}

impl GroupOutcome {
    /// Senders whose peer agreed to tell them one-way delays, percent of all that accepted a connection.
    pub fn one_way_percent(&self) -> f64 {
        percent(self.one_way_negotiated, self.accepted)
    }
}

/// What senders of TCP did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TcpOutcome {
    /// Data segments sent again.
    pub retransmitted: u64,
    /// Times that fast recovery began.
    pub fast_recoveries: u64,
    /// Retransmission timeouts of data.
    pub timeouts: u64,
    /// Timeouts of SYNs.
    pub syn_timeouts: u64,
}

impl GroupOutcome {
    /// Timeouts of the senders: TCP's retransmission timeouts of data, else QUIC's probe timeouts.
    pub fn timeouts(&self) -> u64 {
        self.tcp.map_or(self.probe_timeouts, |tcp| tcp.timeouts)
    }
}

impl TcpOutcome {
    /// Returns what was done between `before` and this.
    pub(crate) fn since(&self, before: &Self) -> Self {
        Self {
            retransmitted: self.retransmitted - before.retransmitted,
            fast_recoveries: self.fast_recoveries - before.fast_recoveries,
            timeouts: self.timeouts - before.timeouts,
            syn_timeouts: self.syn_timeouts - before.syn_timeouts,
        }
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.retransmitted += other.retransmitted;
        self.fast_recoveries += other.fast_recoveries;
        self.timeouts += other.timeouts;
        self.syn_timeouts += other.syn_timeouts;
    }
}

/// The load that a group of web traffic offers. It is computed: from what a connection and a byte of its body cost on a network that does
/// not queue, and the requests that the run makes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ComputedLoad {
    /// New connections per second.
    pub connections_per_second: f64,
    /// Bits per second that the percentages are parts of.
    pub of_bps: u64,
    /// Percent wanted.
    pub wanted_percent: f64,
    /// Percent reached.
    pub computed_percent: f64,
}

/// A flow that lasts as long as the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FlowOutcome {
    /// Bits per second that reached its client, UDP payload, from the end of the warm-up on.
    pub throughput_bps: f64,
    /// Datagrams its server sent from the end of the warm-up on.
    pub sent: u64,
    /// Datagrams of them that were lost.
    pub lost: u64,
}

/// A completed response whose sender's window was traced.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct TracedOutcome {
    /// Seconds from opening the connection to the last byte.
    pub seconds: f64,
    /// Datagrams its server sent.
    pub sent: u64,
    /// Datagrams of them that were dropped.
    pub lost: u64,
}

/// The tcpRTT series of the group's one flow (DCA §3.1).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RttOutcome {
    /// Samples in order of time.
    pub samples: Vec<RttSample>,
}

impl RttOutcome {
    /// Puts round-trip times and drops together: a sample is followed by a loss when a packet sent after it, and before the next sample,
    /// was dropped. Several such packets are one loss event (DCA §3.1).
    pub(super) fn new(rtt: &[(Time, Duration)], dropped_when_sent: &[Time]) -> Self {
        let mut lost: Vec<Time> = dropped_when_sent.to_vec();
        lost.sort_unstable();
        let mut lost = lost.into_iter().peekable();
        let samples = rtt.iter().enumerate().map(|(i, (at, sample))| {
            let next = rtt.get(i + 1).map(|(at, _)| *at);
            let mut follows = false;
            // Sent before the first sample: nothing could have shown it.
            while lost.peek().is_some_and(|sent| next.is_none_or(|next| *sent < next)) {
                follows |= lost.next().is_some_and(|sent| sent >= *at);
            }
            RttSample { at: *at, rtt: *sample, loss_follows: follows }
        });
        Self { samples: samples.collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{ScenarioSpec, run};
    use super::*;
    use crate::scenario::Progress;

    #[test]
    fn losses_belong_to_the_last_sample_before_the_packet_was_sent() {
        let ms = Time::from_millis;
        let rtt: Vec<(Time, Duration)> =
            [10, 20, 30, 40].map(|t| (ms(t), Duration::from_millis(5))).to_vec();
        // One before the first sample, a burst of two after the second, out of order, and one after the last.
        let drops = [ms(24), ms(5), ms(22), ms(45)];
        let follows: Vec<bool> =
            RttOutcome::new(&rtt, &drops).samples.iter().map(|s| s.loss_follows).collect();
        assert_eq!(follows, [false, true, false, true]);
        // A packet sent at the instant of a sample is sent after it.
        let follows: Vec<bool> =
            RttOutcome::new(&rtt, &[ms(30)]).samples.iter().map(|s| s.loss_follows).collect();
        assert_eq!(follows, [false, false, true, false]);
    }

    #[test]
    fn a_traced_response_records_its_end() {
        let text = r#"
            stop = "200 responses"
            [network]
            topology = "dumbbell"
            queue = "droptail:20p"
            [keep]
            window = ["web"]
            [[traffic]]
            name = "web"
            from = "left"
            to = "right"
            workload = "web:50% of 10Mbps"
            controller = "reno"
        "#;
        let scenario = ScenarioSpec::from_toml(text).unwrap().check().unwrap();
        let web = run(&scenario, 1, &Progress::default()).unwrap().0.groups.remove("web").unwrap();
        let end = web.traced_end.unwrap();
        // The largest of the first hundred responses: what arrived of its packets carried it, at no more than the link's rate.
        assert!((end.sent - end.lost) * 1_392 > web.traced && web.traced > 25_000, "{end:?}");
        assert!(
            end.seconds > web.traced as f64 * 8.0 / 10e6
                && end.seconds <= web.times.unwrap().max_ms / 1e3 * 1.01
        );
    }

    /// One download of 10 MB over a link that drops, with what `keep` asks for.
    fn download(stack: &str, keep: &str) -> Outcome {
        let text = format!(
            r#"
            stop = "1 responses"
            stack = "{stack}"
            [network]
            topology = "dumbbell"
            link = "5Mbps"
            delay = "20ms"
            queue = "droptail:10p"
            [keep]
            {keep}
            [[traffic]]
            name = "flow"
            from = "left"
            to = "right"
            workload = "flows:1x10MB"
            controller = "reno"
            "#
        );
        let scenario = ScenarioSpec::from_toml(&text).unwrap().check().unwrap();
        run(&scenario, 1, &Progress::default()).unwrap().0
    }

    #[test]
    fn a_link_sorts_its_bytes_by_what_they_are_for() {
        let stacks = if cfg!(feature = "quiche") {
            &["quinn", "noq", "quiche"][..]
        } else {
            &["quinn", "noq"]
        };
        for stack in stacks {
            let outcome = download(stack, r#"bytes = ["left-right", "right-left"]"#);
            let link = &outcome.links["left-right"];
            let bytes = link.bytes.unwrap();
            // A packet is 1420 bytes on the wire and carries 1368 of the body. Nothing was sent again that was not dropped.
            let (needed, dropped) =
                (10_000_000.0 * 1_420.0 / 1_368.0, bytes.dropped.total() as f64);
            assert!(link.dropped > 50, "{stack}: {} drops", link.dropped);
            assert!(
                (bytes.arrived.first_time as f64 / needed - 1.0).abs() < 0.01,
                "{stack}: {bytes:?}"
            );
            assert!(dropped > needed * 0.006, "{stack}: {dropped}");
            assert!(
                (bytes.arrived.duplicate as f64 - dropped).abs() < needed * 0.005,
                "{stack}: {bytes:?}"
            );
            assert!((1_200..10_000).contains(&bytes.arrived.handshake), "{stack}: {bytes:?}");
            assert_eq!(bytes.arrived.other, 0, "{stack}: {bytes:?}");
            // The way back carries acknowledgements and one request.
            let back = outcome.links["right-left"].bytes.unwrap().arrived;
            assert!(
                back.acknowledgements > 100_000 && back.first_time + back.duplicate < 1_000,
                "{stack}: {back:?}"
            );
            // Everything that arrived has a purpose.
            let shown = link.throughput_bps * outcome.seconds / 8.0;
            assert!(
                (bytes.arrived.total() as f64 - dropped - shown).abs() < 10.0,
                "{stack}: {bytes:?} {shown}"
            );
        }
    }

    #[test]
    fn what_is_kept_changes_no_packet() {
        let plain = download("quinn", "");
        let kept = download(
            "quinn",
            r#"bytes = ["left-right"]
            drops = ["left-right"]"#,
        );
        assert_eq!(plain.trace_hash, kept.trace_hash);
        assert!(
            plain.links["left-right"].bytes.is_none() && plain.links["left-right"].drops.is_none()
        );
        let (link, drops) =
            (&kept.links["left-right"], kept.links["left-right"].drops.clone().unwrap());
        assert_eq!(
            (drops.arrived.iter().sum::<u64>(), drops.dropped.iter().sum()),
            (link.arrived, link.dropped)
        );
        assert_eq!(drops.arrived.len(), (kept.seconds / drops.bin_seconds) as usize + 1);
        // A result without them is one of an older version, and reads.
        let text = serde_json::to_string(&plain).unwrap();
        assert!(!text.contains("bytes\":{") && !text.contains("drops\":{"));
        assert_eq!(serde_json::from_str::<Outcome>(&text).unwrap(), plain);
    }

    /// One flow that fills a link of 5 Mbps and 20 ms: the packet delivery latency of it.
    fn latency(stack: &str, queue: &str) -> (Distribution, GroupOutcome) {
        let text = format!(
            r#"
            stop = "20s"
            stack = "{stack}"
            [network]
            topology = "dumbbell"
            link = "5Mbps"
            delay = "20ms"
            queue = "{queue}"
            [keep]
            latency = ["flow"]
            [[traffic]]
            name = "flow"
            from = "left"
            to = "right"
            workload = "flows:1"
            controller = "reno"
            "#
        );
        let scenario = ScenarioSpec::from_toml(&text).unwrap().check().unwrap();
        let flow =
            run(&scenario, 1, &Progress::default()).unwrap().0.groups.remove("flow").unwrap();
        (flow.latency.clone().unwrap(), flow)
    }

    #[test]
    fn packet_delivery_latency_is_propagation_and_queue_and_after_a_loss_another_round_trip() {
        for stack in ["quinn", "noq"] {
            // 2.3 ms to send 1420 bytes, 20 ms of delay, and the queue before: at most 10 packets, with the one that is being sent.
            let (latency, flow) = latency(stack, "droptail:10p");
            assert!(flow.lost > 3, "{stack}: {} losses", flow.lost);
            let whole_queue = 20.0 + 0.23 + 2.28 * 11.0;
            assert!(latency.cdf[0].0 >= 20.1, "{stack}: {:?}", latency.cdf[0]);
            assert!(
                latency.median_ms < whole_queue && latency.p95_ms < whole_queue,
                "{stack}: {latency:?}"
            );
            // What was lost came at least half a round trip later. Nothing was counted twice: nearly every datagram brought one piece.
            assert!(
                latency.max_ms > whole_queue + 20.0 && latency.max_ms < 500.0,
                "{stack}: {}",
                latency.max_ms
            );
            let arrived = flow.sent - flow.lost;
            assert!(
                latency.count <= arrived && latency.count as f64 > 0.97 * arrived as f64,
                "{stack}: {arrived}"
            );
        }
    }

    #[test]
    fn looking_at_datagrams_changes_nothing() {
        let text = |keep: &str| {
            format!(
                "stop = '3s'\n[network]\ntopology = 'dumbbell'\nqueue = 'droptail:10p'\n[keep]\n{keep}\n[[traffic]]\nname = 'flows'\n\
                 from = 'left'\nto = 'right'\nworkload = 'flows:3'\ncontroller = 'sdc'\npacket = 576"
            )
        };
        let hash = |keep| {
            let scenario = ScenarioSpec::from_toml(&text(keep)).unwrap().check().unwrap();
            run(&scenario, 5, &Progress::default()).unwrap().0.trace_hash
        };
        assert_eq!(hash(""), hash("latency = ['flows']"));
    }
}
