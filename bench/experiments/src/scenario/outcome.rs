//! The outcome of a run. It is only data, so that it can be stored, merged and analysed later.

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
use crate::tcp::TcpOutcome;

/// Outcome of one run. In virtual time, the outcome depends on neither the machine nor the wall
/// clock.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// Duration of the run in virtual seconds.
    pub seconds: f64,
    /// Virtual seconds after the warm-up, to which the counts refer; 0 in results of older
    /// versions, whose runs have no warm-up.
    #[serde(default)]
    pub counted_seconds: f64,
    /// Router links by name, such as `left-right` and `right-left`.
    pub links: BTreeMap<String, LinkOutcome>,
    /// Groups of traffic by name. A group with several controllers also has an entry for each
    /// controller, `group/controller`.
    pub groups: BTreeMap<String, GroupOutcome>,
    /// Packet-level groups by name. A group with several controllers also has an entry for each
    /// controller, `group/controller`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub background: BTreeMap<String, BackgroundOutcome>,
    /// Fairness among the downloads that are open at the end of the run, on the link that `[keep]`
    /// names under `shares`; `None` if the scenario names no link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fairness: Option<Fairness>,
    /// Punctuality of the machine in a real-time run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub punctuality: Option<Punctuality>,
    /// Hash over every step of every packet.
    pub trace_hash: String,
}

impl Outcome {
    /// Returns the virtual seconds after the warm-up, to which the counts refer.
    pub fn counted(&self) -> f64 {
        if self.counted_seconds > 0.0 { self.counted_seconds } else { self.seconds }
    }
}

/// Outcome of a link.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LinkOutcome {
    /// Packets that arrived.
    pub arrived: u64,
    /// Packets dropped.
    pub dropped: u64,
    /// Packets marked.
    pub marked: u64,
    /// Dropped packets in percent of the packets that arrived.
    pub drops_percent: f64,
    /// Time average of the queue in packets.
    pub mean_queue: f64,
    /// Largest queue in packets, over the whole run.
    pub max_queue: usize,
    /// Bytes sent in percent of the bytes that the link could have sent. For a link with a rate,
    /// this is the share of time spent sending; for a link with a trace, the share of delivery
    /// opportunities used.
    pub utilisation_percent: f64,
    /// Bits per second, headers included, that entered the queue and were not dropped. Over a short
    /// time in which the queue grows or shrinks, this differs from what the link sent.
    pub throughput_bps: f64,
    /// Mean rate of the link in bits per second, with all its changes; 0 in results of older
    /// versions.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub rate_bps: f64,
    /// Width in seconds of the bins of `queue_mean` and `queue_max`; 0 if the queue was not kept.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub bin_seconds: f64,
    /// Mean number of packets in the queue, per bin.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub queue_mean: Vec<f64>,
    /// Largest number of packets in the queue, per bin.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub queue_max: Vec<f64>,
    /// Rates of the flows over time, if they were kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shares: Option<SharesOverTime>,
    /// Delay of each packet, in the order of arrival, if delays were kept.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub delays: Vec<PacketDelay>,
    /// Bytes on the link by the purpose of their packets, if these counts were kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<LinkBytes>,
    /// Arrivals and drops over time, from the start of the run, if these counts were kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drops: Option<DropsOverTime>,
    /// Counts of packets that the path impaired by means other than queueing; `None` if the path
    /// has no impairments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub impairments: Option<ImpairmentOutcome>,
}

/// Counts of packets, by the impairment that a path applied to them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImpairmentOutcome {
    /// Packets that arrived at the path, before any impairment.
    pub arrived: u64,
    /// Number of bursts of arriving packets. The packets of a burst follow each other within 100
    /// us, and `arrived / bursts` is the mean size of a burst.
    #[serde(default)]
    pub bursts: u64,
    /// Number of packets in the largest burst.
    #[serde(default)]
    pub largest_burst: u64,
    /// Packets lost at random or in bursts.
    pub lost: u64,
    /// Packets dropped by the policer.
    pub policed: u64,
    /// Packets dropped because they were larger than the MTU or arrived in a blackout.
    pub cut_off: u64,
    /// Packets whose ECN field was cleared.
    pub bleached: u64,
    /// Packets whose ECN field was changed from ECT(0) to ECT(1).
    #[serde(default)]
    pub remarked: u64,
    /// Packets whose ECN field was changed to CE by an impairment, not by a queue.
    #[serde(default)]
    pub ce_set: u64,
    /// Packets that the queue marked, and whose mark was undone behind the link.
    #[serde(default)]
    pub hidden: u64,
    /// Packets that arrived after a packet of the same connection that was sent later, whatever the
    /// reason (RFC 4737 §3).
    pub reordered: u64,
    /// Packets selected by `reorder`.
    #[serde(default)]
    pub displaced: u64,
    /// Packets delayed by a hold.
    #[serde(default)]
    pub held: u64,
    /// Packets that arrived twice.
    pub duplicated: u64,
    /// Packets with one changed bit.
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
            hidden,
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
            hidden,
            reordered,
            displaced,
            held,
            duplicated,
            corrupted,
        }
    }
}

/// Packets that arrived at a link, and packets that the link's queue dropped, over time.
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
    /// Returns the marked packets in percent of the packets that arrived.
    pub fn marks_percent(&self) -> f64 {
        percent(self.marked, self.arrived)
    }
}

fn percent(part: u64, whole: u64) -> f64 {
    if whole > 0 { 100.0 * part as f64 / whole as f64 } else { 0.0 }
}

/// Delay of a packet on a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PacketDelay {
    /// Time at which the packet arrived at the link, in nanoseconds of virtual time.
    pub at_nanos: u64,
    /// Time in the queue and in transmission, in nanoseconds.
    pub delay_nanos: u64,
    /// Whether a queue that schedules received the packet as ECT(1) or CE.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub l4s: bool,
}

/// Flows' shares of a link over time, and the sizes of their packets. A bin includes the flows that
/// were open during the whole bin.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SharesOverTime {
    /// Width of a bin in seconds.
    pub bin_seconds: f64,
    /// Number of flows, per bin.
    pub flows: Vec<usize>,
    /// Jain's index of the flows' rates, per bin; `None` without flows.
    pub jain: Vec<Option<f64>>,
    /// Percentage of flows with less than 5% of the fair rate, per bin; `None` without flows.
    pub starved_percent: Vec<Option<f64>>,
    /// 10th percentile of the UDP payload in bytes, weighted by bytes: a tenth of the bin's bytes
    /// travelled in packets of at most this size.
    pub size_p10: Vec<f64>,
    /// Median of the UDP payload in bytes, weighted by bytes.
    pub size_median: Vec<f64>,
    /// 90th percentile of the UDP payload in bytes, weighted by bytes.
    pub size_p90: Vec<f64>,
}

impl SharesOverTime {
    /// Returns the shares, or `None` if the run was too large to keep them.
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

// The signature is required by serde.
#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_zero(x: &f64) -> bool {
    *x == 0.0
}

// The signature is required by serde.
#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_no_count(n: &u64) -> bool {
    *n == 0
}

/// Outcome of a group of traffic, or of its connections with one controller.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GroupOutcome {
    /// Load that the web traffic offers, if the scenario requests a load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<ComputedLoad>,
    /// Connections that were open at the end of the warm-up or were opened later.
    pub connections: u64,
    /// Connections that the servers accepted; for uploads, connections that the clients began.
    /// Includes the warm-up.
    #[serde(default)]
    pub accepted: u64,
    /// Hash over the group's first requests, as many as every run begins before its end. Equal
    /// requests have equal hashes. Empty if the run ends at a time.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub request_hash: String,
    /// Completed responses to requests that began after the warm-up. All other counts of requests
    /// and responses exclude the warm-up, too.
    pub responses: u64,
    /// Requests that failed.
    pub failed: u64,
    /// Requests that failed because the user gave up waiting.
    #[serde(default, skip_serializing_if = "is_no_count")]
    pub abandoned: u64,
    /// Requests that failed because the connection timed out; 0 in results of older versions.
    #[serde(default, skip_serializing_if = "is_no_count")]
    pub timed_out: u64,
    /// Failed requests by reason: the error of the connection in the stack's words, an HTTP/3
    /// error, or a user who gave up. The counts add up to `failed`. Empty in results of older
    /// versions.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub failures: BTreeMap<String, u64>,
    /// Requests that had neither completed nor failed when the run ended.
    #[serde(default)]
    pub unfinished: u64,
    /// Bytes of completed bodies.
    pub body_bytes: u64,
    /// Mean size of the completed responses in bytes.
    pub mean_size: f64,
    /// Mean over responses of size divided by response time, in kbit/s (Sync-TCP table 1).
    pub goodput_per_response_kbps: f64,
    /// Response times.
    pub times: Option<Distribution>,
    /// Times from the start of a response to its first byte. For pages, times to the first byte of
    /// the page itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_byte: Option<Distribution>,
    /// Page views and their objects, if the group loads pages. Responses and times are then those
    /// of page views.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pages: Option<PageOutcome>,
    /// Frames, deadlines and freezes, if the group is live media. Responses are then frames.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media: Option<MediaOutcome>,
    /// Response times of responses larger than 25 kB (Sync-TCP figure 9).
    pub times_large: Option<Distribution>,
    /// Rate of UDP payload in bits per second that reached the group's clients (for uploads, its
    /// servers) after the warm-up.
    pub throughput_bps: f64,
    /// Outcome of each download that is open at the end of the run, by controller and in the order
    /// of their starts.
    pub flows: Vec<FlowOutcome>,
    /// Datagrams that the senders of bodies (servers; for uploads, clients) sent after the warm-up.
    pub sent: u64,
    /// Datagrams of the senders of bodies that were lost on the way.
    pub lost: u64,
    /// Datagrams that the senders of bodies sent in the first five seconds of each connection,
    /// including the warm-up ([`START_UP`](fathom_netsim::sim::START_UP)).
    #[serde(default)]
    pub start_up_sent: u64,
    /// Datagrams of the first five seconds of each connection that were lost on the way.
    #[serde(default)]
    pub start_up_lost: u64,
    /// Probe timeouts of the senders after the warm-up, as the stack reports them. For stacks that
    /// report none (quinn, noq), the number of `silences`. All fields from this one to
    /// `loss_reductions` exclude the warm-up.
    pub probe_timeouts: u64,
    /// Packets sent with other packets in flight after a silence as long as the probe timeout. The
    /// same rule applies to every stack.
    pub silences: u64,
    /// Number of backoffs of the senders. A backoff lasts from the last packet before a probe
    /// timeout to the first acknowledgement after it, with any number of probe timeouts in between.
    /// A backoff that is unfinished at the end of the run is not counted.
    pub backoffs: u64,
    /// Total duration of the backoffs in seconds.
    pub backoff_seconds: f64,
    /// Counts that only TCP has, if the stack is TCP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tcp: Option<TcpOutcome>,
    /// Limits of the senders, if they were observed; missing in results of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<LimitOutcome>,
    /// Early (delay-based) window reductions of the senders.
    pub early_reductions: u64,
    /// Window reductions after losses or marks.
    pub loss_reductions: u64,
    /// Senders whose peer agreed to report one-way delays. Includes the warm-up.
    #[serde(rename = "hears_one_way")]
    pub one_way_negotiated: u64,
    /// Size in bytes of the response, or number of the flow, whose sender's window is traced.
    pub traced: u64,
    /// Window of the traced sender over time, if it was kept.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub window: Vec<WindowPoint>,
    /// Outcome of the traced response, if it was kept and completed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traced_end: Option<TracedOutcome>,
    /// Round-trip times, each with the losses after it, if they were kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rtt: Option<RttOutcome>,
    /// Packet delivery latency of the group's first flow (SDC §3.3), if it was kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<Distribution>,
}

impl GroupOutcome {
    /// Returns the senders whose peer agreed to report one-way delays, in percent of the accepted
    /// connections.
    pub fn one_way_percent(&self) -> f64 {
        percent(self.one_way_negotiated, self.accepted)
    }

    /// Returns the timeouts of the senders: TCP's retransmission timeouts of data, or QUIC's probe
    /// timeouts.
    pub fn timeouts(&self) -> u64 {
        self.tcp.map_or(self.probe_timeouts, |tcp| tcp.timeouts)
    }
}

/// The load that a group of web traffic offers. The load is computed from the requests of the run
/// and from two costs on a network without queues: bytes on the wire per connection, and bytes on
/// the wire per byte of a body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ComputedLoad {
    /// New connections per second.
    pub connections_per_second: f64,
    /// Rate in bits per second that the percentages refer to.
    pub of_bps: u64,
    /// Wanted load in percent.
    pub wanted_percent: f64,
    /// Load of the run's requests in percent.
    pub computed_percent: f64,
}

/// Outcome of a download that is open at the end of the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FlowOutcome {
    /// Rate of UDP payload in bits per second that reached the client after the warm-up.
    pub throughput_bps: f64,
    /// Datagrams that the server sent after the warm-up.
    pub sent: u64,
    /// Datagrams of the server that were lost.
    pub lost: u64,
}

/// Outcome of a completed response whose sender's window was traced.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct TracedOutcome {
    /// Seconds from the start of the request to the last byte of the response.
    pub seconds: f64,
    /// Datagrams that the server sent on the connection.
    pub sent: u64,
    /// Datagrams of the server that were dropped.
    pub lost: u64,
}

/// The tcpRTT series of the first flow of the group (DCA §3.1).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RttOutcome {
    /// Samples in the order of time.
    pub samples: Vec<RttSample>,
}

impl RttOutcome {
    /// Combines round-trip times and drops. A loss follows a sample if a packet sent after this
    /// sample and before the next one was dropped. Several such packets are one loss event (DCA
    /// §3.1).
    pub(super) fn new(rtt: &[(Time, Duration)], dropped_when_sent: &[Time]) -> Self {
        let mut lost: Vec<Time> = dropped_when_sent.to_vec();
        lost.sort_unstable();
        let mut lost = lost.into_iter().peekable();
        let samples = rtt.iter().enumerate().map(|(i, (at, sample))| {
            let next = rtt.get(i + 1).map(|(at, _)| *at);
            let mut follows = false;
            // Packets sent before the first sample follow no sample, so their losses do not count.
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
    fn losses_are_assigned_to_last_rtt_sample_before_sending() {
        let ms = Time::from_millis;
        let rtt: Vec<(Time, Duration)> =
            [10, 20, 30, 40].map(|t| (ms(t), Duration::from_millis(5))).to_vec();
        // One loss comes before the first sample, a burst of two losses (out of order) comes after
        // the second sample, and one loss comes after the last sample.
        let drops = [ms(24), ms(5), ms(22), ms(45)];
        let follows: Vec<bool> =
            RttOutcome::new(&rtt, &drops).samples.iter().map(|s| s.loss_follows).collect();
        assert_eq!(follows, [false, true, false, true]);
        // A packet sent at the time of a sample counts as sent after it.
        let follows: Vec<bool> =
            RttOutcome::new(&rtt, &[ms(30)]).samples.iter().map(|s| s.loss_follows).collect();
        assert_eq!(follows, [false, false, true, false]);
    }

    #[test]
    fn traced_response_records_when_it_ended() {
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
        // The traced response is the largest of the first 100 responses. The packets that arrived
        // carried the whole response, at no more than the link's rate.
        assert!((end.sent - end.lost) * 1_392 > web.traced && web.traced > 25_000, "{end:?}");
        assert!(
            end.seconds > web.traced as f64 * 8.0 / 10e6
                && end.seconds <= web.times.unwrap().max_ms / 1e3 * 1.01
        );
    }

    /// Runs one download of 10 MB over a link that drops packets. `keep` is the content of
    /// `[keep]`.
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
    fn link_counts_bytes_by_purpose() {
        let stacks = if cfg!(feature = "quiche") {
            &["quinn", "noq", "quiche"][..]
        } else {
            &["quinn", "noq"]
        };
        for stack in stacks {
            let outcome = download(stack, r#"bytes = ["left-right", "right-left"]"#);
            let link = &outcome.links["left-right"];
            let bytes = link.bytes.unwrap();
            // A packet has 1420 bytes on the wire and carries 1368 bytes of the body. Only dropped
            // packets were sent again.
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
            // Every byte that arrived has a purpose.
            let shown = link.throughput_bps * outcome.seconds / 8.0;
            assert!(
                (bytes.arrived.total() as f64 - dropped - shown).abs() < 10.0,
                "{stack}: {bytes:?} {shown}"
            );
        }
    }

    #[test]
    fn keeping_extra_data_leaves_the_packet_trace_unchanged() {
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
        // Results of older versions lack these fields and still parse.
        let text = serde_json::to_string(&plain).unwrap();
        assert!(!text.contains("bytes\":{") && !text.contains("drops\":{"));
        assert_eq!(serde_json::from_str::<Outcome>(&text).unwrap(), plain);
    }

    /// Runs one flow that fills a link of 5 Mbps and 20 ms; returns its packet delivery latency.
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
    fn each_loss_adds_a_round_trip_to_delivery_latency() {
        for stack in ["quinn", "noq"] {
            // 2.3 ms to send 1420 bytes, 20 ms of delay, and the queue ahead: at most 10 packets,
            // including the one in transmission.
            let (latency, flow) = latency(stack, "droptail:10p");
            assert!(flow.lost > 3, "{stack}: {} losses", flow.lost);
            let whole_queue = 20.0 + 0.23 + 2.28 * 11.0;
            assert!(latency.cdf[0].0 >= 20.1, "{stack}: {:?}", latency.cdf[0]);
            assert!(
                latency.median_ms < whole_queue && latency.p95_ms < whole_queue,
                "{stack}: {latency:?}"
            );
            // Lost data arrived at least half a round trip later. Nothing was counted twice: nearly
            // every datagram brought one piece.
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
    fn recording_at_a_link_leaves_the_packet_trace_unchanged() {
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
