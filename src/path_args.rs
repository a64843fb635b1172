//! Options of a path. They are the same in all commands that have a path.

use fathom_cc::Invalid;
use fathom_netsim::path::PathSpec;

use crate::Failure;

/// Options of a path. An option without 'up-' applies to both directions; an option with 'up-'
/// applies only to the direction from clients to servers.
#[derive(clap::Args, Clone, Debug, Default)]
#[group(skip)]
#[command(next_help_heading = "Path")]
pub(crate) struct PathArgs {
    /// A named path, which the options below override: dsl, cable, fibre, wifi, lte, leo, geo,
    /// datacenter ('fathom paths' lists their parameters).
    #[arg(long = "path", value_name = "NAME")]
    preset: Option<String>,
    /// Base RTT, such as 30ms, or a range that contains each client's RTT: 20ms..80ms.
    #[arg(long, value_name = "TIME")]
    rtt: Option<String>,
    /// Propagation delay of each direction, instead of --rtt.
    #[arg(long, value_name = "TIME")]
    delay: Option<String>,
    /// Rate of the link, such as 20Mbps.
    #[arg(long, value_name = "RATE")]
    rate: Option<String>,
    /// A trace instead of a rate: a file in Mahimahi's format, or a model of a link (model:lte,
    /// model:wifi, model:leo).
    #[arg(long, value_name = "FILE")]
    trace: Option<String>,
    /// Fraction of packets that are lost, such as 1%, or lost in bursts: bursts:loss=1%,length=4.
    #[arg(long, value_name = "PART")]
    loss: Option<String>,
    /// Random extra delay: 5ms (uniform, up to 5 ms), normal:5ms, exponential:5ms; with ',reorder',
    /// packets may overtake each other.
    #[arg(long, value_name = "TIME")]
    jitter: Option<String>,
    /// Fraction of packets that skip the propagation delay and so overtake other packets, such as
    /// 1%. With a distance, such as 1%,distance=3, these packets arrive after that number of later
    /// packets instead, or after a time limit, such as within=50ms.
    #[arg(long, value_name = "PART")]
    reorder: Option<String>,
    /// Fraction of packets that are duplicated.
    #[arg(long, value_name = "PART")]
    duplicate: Option<String>,
    /// Fraction of packets that are corrupted: one bit is flipped.
    #[arg(long, value_name = "PART")]
    corrupt: Option<String>,
    /// Drop packets above a rate instead of queueing them: 10Mbps,burst=100kB.
    #[arg(long, value_name = "RATE,burst=SIZE")]
    policer: Option<String>,
    /// Treatment of ECN fields: pass, bleach (cleared), remark (ECT(0) becomes ECT(1)), ce (all
    /// marked), or hide (marks of the queue undone).
    #[arg(long, value_name = "HOW")]
    ecn: Option<String>,
    /// Change of the path at a given time: blackout:2s@10s, 'blackout:100ms@5s every 15s',
    /// hold:200ms@10s (packets are kept, then arrive together), mtu:1250@20s, rate:5Mbps@10s,
    /// up-rate:1Mbps@10s, rtt:100ms@10s. May be given several times.
    #[arg(long = "event", alias = "fault", value_name = "EVENT")]
    events: Vec<String>,
    #[command(flatten)]
    up: Up,
}

/// Options for the direction from clients to servers, if it differs.
#[derive(clap::Args, Clone, Debug, Default)]
#[group(skip)]
#[command(next_help_heading = "Path from clients to servers, if different")]
struct Up {
    #[arg(long, value_name = "TIME")]
    up_delay: Option<String>,
    #[arg(long, value_name = "RATE")]
    up_rate: Option<String>,
    #[arg(long, value_name = "FILE")]
    up_trace: Option<String>,
    #[arg(long, value_name = "QUEUE")]
    up_queue: Option<String>,
    #[arg(long, value_name = "PART")]
    up_loss: Option<String>,
    #[arg(long, value_name = "TIME")]
    up_jitter: Option<String>,
    #[arg(long, value_name = "PART")]
    up_reorder: Option<String>,
    #[arg(long, value_name = "PART")]
    up_duplicate: Option<String>,
    #[arg(long, value_name = "PART")]
    up_corrupt: Option<String>,
    #[arg(long, value_name = "RATE,burst=SIZE")]
    up_policer: Option<String>,
    #[arg(long, value_name = "HOW")]
    up_ecn: Option<String>,
}

impl PathArgs {
    /// Returns the path in the form of a plan.
    pub(crate) fn spec(&self, queue: Option<&String>) -> PathSpec {
        let Self {
            preset,
            rtt,
            delay,
            rate,
            trace,
            loss,
            jitter,
            reorder,
            duplicate,
            corrupt,
            policer,
            ecn,
            events,
            up,
        } = self.clone();
        PathSpec {
            preset,
            rtt,
            delay,
            up_delay: up.up_delay,
            rate,
            up_rate: up.up_rate,
            trace,
            up_trace: up.up_trace,
            queue: queue.cloned(),
            up_queue: up.up_queue,
            loss,
            up_loss: up.up_loss,
            jitter,
            up_jitter: up.up_jitter,
            reorder,
            up_reorder: up.up_reorder,
            duplicate,
            up_duplicate: up.up_duplicate,
            corrupt,
            up_corrupt: up.up_corrupt,
            policer,
            up_policer: up.up_policer,
            ecn,
            up_ecn: up.up_ecn,
            events,
        }
    }
}

/// Reports the error of a path's field as an error of the command-line option that set it.
pub(crate) fn wrong(mut e: Invalid) -> Failure {
    // Hints that name a field name its command-line option here.
    e.hint = e.hint.replace("add rate,", "add --rate,").replace("add rtt,", "add --rtt,").into();
    if let Some(field) = e.fields.first_mut()
        && (PathSpec::OPTIONS.contains(&&**field) || field == "event")
    {
        *field = format!("--{field}").into();
    }
    Failure::input(e)
}
