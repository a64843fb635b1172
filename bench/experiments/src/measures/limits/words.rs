//! Limits in words.

use super::super::listed;
use super::evidence::Evidence;
use super::{MOSTLY, WORTH_SAYING};

/// Minimum share of the time at which a limit appears in a controller's line.
const IN_LINE: f64 = 0.05;
/// Fraction of the largest mean packet size below which packets are mentioned as small.
const SMALL_PACKET: f64 = 0.8;
/// Minimum ratio of an initial window to the smallest one at which initial windows are mentioned.
const LARGER: f64 = 2.0;
/// Minimum utilisation, in percent, of a link that counts as full.
const FULL_PERCENT: f64 = 90.0;

fn percent(part: u64, whole: u64) -> String {
    let value = if whole > 0 { 100.0 * part as f64 / whole as f64 } else { 0.0 };
    if part == 0 {
        "none".to_owned()
    } else {
        format!("{} %", fathom_metrics::significant_text(value, 2))
    }
}

fn mbps(bps: f64) -> String {
    format!("{} Mbps", fathom_metrics::significant_text(bps / 1e6, 2))
}

fn kilobytes(bytes: f64) -> String {
    format!("{} kB", fathom_metrics::significant_text(bytes / 1e3, 3))
}

impl Evidence {
    /// Returns the limits of one controller as a line: `random loss (...), 82 % of the time;
    /// pacing, 12 % of the time; initial window 240 kB (the smallest of all controllers: 14 kB)`.
    pub(crate) fn line(&self, all: &[Self]) -> String {
        let mut parts: Vec<(f64, String)> = Vec::new();
        let mut add = |share: f64, text: String| {
            if share >= IN_LINE {
                parts.push((share, format!("{text}, {:.0} % of the time", 100.0 * share)));
            }
        };
        let window = self.share("congestion_window");
        let slow_start = self.share("slow_start");
        match self.window_cause(all) {
            // Packets that a blackout drops are neither acknowledged nor declared lost.
            Some(cause) if self.is_mostly_cut_off() => add(window + slow_start, cause),
            Some(cause) => {
                add(window, cause);
                add(slow_start, "the congestion window in slow start".to_owned());
            }
            None if window >= slow_start => {
                add(window + slow_start, "the congestion window".to_owned())
            }
            None => add(window + slow_start, "the congestion window in slow start".to_owned()),
        }
        let pace =
            self.pace_bps.map_or_else(String::new, |bps| format!(" ({} on average)", mbps(bps)));
        add(self.share("pacing"), format!("pacing{pace}"));
        add(self.share("flow_control"), "flow control".to_owned());
        add(
            self.share("application"),
            "the application, which had nothing left to send".to_owned(),
        );
        add(self.share("handshake"), "the handshake".to_owned());
        parts.sort_by(|a, b| b.0.total_cmp(&a.0));
        let cause = if self.shares().is_empty() { self.window_cause(all) } else { None };
        let parts = parts.into_iter().map(|(_, text)| text).chain(cause).chain(self.details(all));
        parts.collect::<Vec<_>>().join("; ")
    }

    /// Returns the cause that kept the congestion window small; `None` if no cause is known.
    fn window_cause(&self, all: &[Self]) -> Option<String> {
        if self.is_mostly_spurious() {
            return Some(self.spurious_loss());
        }
        let losses = [self.path_lost, self.policed, self.cut_off, self.dropped];
        let most = losses.into_iter().max().unwrap_or(0);
        let of = |n| percent(n, self.arrived);
        let (cuts, early) = (self.cuts, self.early);
        if most > 0 && self.path_lost == most {
            let allowed = self
                .mathis_bps(all)
                .map_or_else(String::new, |bps| format!("; Mathis allows about {}", mbps(bps)));
            return Some(format!(
                "random loss ({} of packets lost on the path, {} by the queue{allowed})",
                of(self.path_lost),
                of(self.dropped)
            ));
        }
        if most > 0 && self.policed == most {
            return Some(format!("the policer ({} of packets dropped)", of(self.policed)));
        }
        if most > 0 && self.cut_off == most {
            return Some(format!("blackouts or the MTU ({} of packets dropped)", of(self.cut_off)));
        }
        if early > cuts {
            return Some(format!(
                "queueing delay ({early} window reductions before loss, {cuts} after loss)"
            ));
        }
        if most > 0 {
            let used = if self.used_percent >= FULL_PERCENT {
                "the link, which is full"
            } else {
                "the queue"
            };
            return Some(format!(
                "{used} ({} of packets dropped, {:.0} % of the link used)",
                of(most),
                self.used_percent
            ));
        }
        if self.marked > 0 && cuts > 0 {
            return Some(format!("ECN marks ({} of packets marked)", of(self.marked)));
        }
        if self.used_percent >= FULL_PERCENT {
            return Some(format!(
                "the link, which is full ({:.0} % used, nothing dropped)",
                self.used_percent
            ));
        }
        (early > 0).then(|| format!("queueing delay ({early} window reductions before loss)"))
    }

    fn spurious_loss(&self) -> String {
        let why = if self.overtakes { "spurious loss by reordering" } else { "spurious loss" };
        let (spurious, declared) = (self.spurious().unwrap_or(0), self.declared.unwrap_or(0));
        let cuts = match (self.lost_nothing(), self.cuts) {
            (_, 0) => String::new(),
            (true, cuts) => format!("all {cuts} window reductions followed spurious losses, "),
            (false, cuts) => format!("{cuts} cuts, "),
        };
        format!("{why} ({cuts}{spurious} of {declared} packets declared lost arrived after all)")
    }

    /// Returns the rate of one Reno transfer with this loss: `sqrt(3/2) MSS / (RTT sqrt p)`
    /// (Mathis, Semke, Mahdavi and Ott 1997, "The Macroscopic Behavior of the TCP Congestion
    /// Avoidance Algorithm"). The segment size is the largest mean packet size of all controllers,
    /// because some stacks send smaller packets than the path can carry.
    fn mathis_bps(&self, all: &[Self]) -> Option<f64> {
        let lost = self.path_lost + self.policed + self.cut_off + self.dropped;
        let p = lost as f64 / self.arrived.max(1) as f64;
        let size = all.iter().filter_map(|of| of.packet_bytes).reduce(f64::max)?;
        let rtt = self.rtt_ms? / 1e3;
        (p > 0.0 && rtt > 0.0).then(|| 1.5f64.sqrt() * size * 8.0 / (rtt * p.sqrt()))
    }

    /// Returns further details in which this controller differs from the others.
    fn details(&self, all: &[Self]) -> Vec<String> {
        let mut more = Vec::new();
        if self.undone > 0 && !self.label.contains("bbr") {
            more.push(format!("{} of {} reductions undone", self.undone, self.cuts));
        }
        if let Some(first) = self.first_window {
            let least = all.iter().filter_map(|of| of.first_window).fold(f64::INFINITY, f64::min);
            if first >= LARGER * least {
                more.push(format!(
                    "initial window {} (the smallest of all controllers: {})",
                    kilobytes(first),
                    kilobytes(least)
                ));
            }
        }
        if let Some(bytes) = self.packet_bytes {
            let largest = all.iter().filter_map(|of| of.packet_bytes).fold(0.0, f64::max);
            if bytes < SMALL_PACKET * largest {
                more.push(format!(
                    "packets of {bytes:.0} B on average (the largest average of all controllers: \
                     {largest:.0} B)"
                ));
            }
        }
        if let Some(of_use) = self.of_use_percent().filter(|of_use| *of_use < 90.0) {
            more.push(format!(
                "{of_use:.0} % of the arrived data was useful; the rest arrived twice or too late"
            ));
        }
        if self.lost_early > 0 {
            more.push(format!(
                "{} declared lost in the first ten round trips of connections",
                kilobytes(self.lost_early as f64)
            ));
        }
        if let Some(rtt) = self.rtt_ms {
            more.push(format!("average RTT {} ms", fathom_metrics::significant_text(rtt, 3)));
        }
        more
    }
}

/// Returns the labels as `a, b and c`, or their number if there are many.
fn names(of: &[&Evidence], all: &[Evidence]) -> String {
    const NAMED: usize = 3;
    match of.len() {
        n if n <= NAMED => listed(&of.iter().map(|of| of.label.clone()).collect::<Vec<_>>()),
        n if n == all.len() => format!("all {n}"),
        n => format!("{n} of {}", all.len()),
    }
}

/// Returns the range of shares: `43 %`, or `12 to 43 %`.
fn range(shares: &[f64]) -> String {
    let (low, high) =
        shares.iter().fold((f64::INFINITY, 0.0_f64), |(l, h), s| (l.min(*s), h.max(*s)));
    let (low, high) = (format!("{:.0}", 100.0 * low), format!("{:.0}", 100.0 * high));
    if low == high { format!("{high} %") } else { format!("{low} to {high} %") }
}

pub(super) fn flow_control(all: &[Evidence]) -> Option<String> {
    let limited: Vec<&Evidence> =
        all.iter().filter(|of| of.share("flow_control") > WORTH_SAYING).collect();
    let shares: Vec<f64> = limited.iter().map(|of| of.share("flow_control")).collect();
    (!limited.is_empty()).then(|| {
        format!(
            "flow control, not the congestion controller, was the limit for {} of the time under \
             {}: the receiver's window (--max-window) is smaller than the path needs, so the \
             ranking also depends on this window",
            range(&shares),
            names(&limited, all)
        )
    })
}

/// Returns a sentence if most declared losses were spurious. The stack's loss detection then
/// decides the ranking.
pub(super) fn spurious(all: &[Evidence]) -> Option<String> {
    let limited: Vec<&Evidence> = all.iter().filter(|of| of.is_mostly_spurious()).collect();
    let parts: Vec<f64> = (limited.iter())
        .filter_map(|of| Some(of.spurious()? as f64 / of.declared?.max(1) as f64))
        .collect();
    let why = if limited.iter().any(|of| of.overtakes) {
        ", because the path reorders packets"
    } else {
        ""
    };
    (!limited.is_empty()).then(|| {
        format!(
            "{} of the packets that senders declared lost under {} arrived after all{why}: the \
             loss detection of the stack, not the congestion controller, determines these results",
            range(&parts),
            names(&limited, all)
        )
    })
}

/// Returns a sentence if window reductions were undone although packets were lost.
pub(super) fn undone(all: &[Evidence]) -> Option<String> {
    let forgives: Vec<&Evidence> =
        all.iter().filter(|of| of.is_mostly_undone() && !of.is_mostly_spurious()).collect();
    let (undone, cuts) =
        forgives.iter().fold((0, 0), |(undone, cuts), of| (undone + of.undone, cuts + of.cuts));
    (!forgives.is_empty()).then(|| {
        format!(
            "{} undid {undone} of {cuts} window reductions although packets were lost, so it sends \
             more than loss-based congestion control allows (docs/quiche.md)",
            names(&forgives, all)
        )
    })
}

/// Returns a sentence if responses fit in the initial windows of only some controllers.
pub(super) fn first_windows(all: &[Evidence]) -> Option<String> {
    let least = all.iter().filter_map(|of| of.first_window).fold(f64::INFINITY, f64::min);
    let large = |of: &&Evidence| {
        of.first_window.is_some_and(|first| first >= LARGER * least && of.mean_size <= first)
    };
    let large: Vec<&Evidence> =
        all.iter().filter(large).filter(|of| of.mean_size > least).collect();
    let first = large.iter().filter_map(|of| of.first_window).fold(0.0, f64::max);
    let size = large.first()?.mean_size;
    Some(format!(
        "responses of {} on average fit in the initial window of {} ({}; the smallest initial \
         window is {}): the initial window determines these results, not the reaction to congestion",
        kilobytes(size),
        names(&large, all),
        kilobytes(first),
        kilobytes(least)
    ))
}

/// Returns a sentence if the machine was late in a real-time run.
pub(super) fn machine(all: &[Evidence]) -> Option<String> {
    let late = |of: &&Evidence| {
        of.late_ms.zip(of.rtt_ms).is_some_and(|(late, rtt)| late > WORTH_SAYING * rtt)
    };
    let late: Vec<&Evidence> = all.iter().filter(late).collect();
    let worst = late.iter().filter_map(|of| of.late_ms).fold(0.0, f64::max);
    (!late.is_empty()).then(|| {
        format!(
            "in real time, the machine executed events up to {worst:.1} ms late (99th percentile) \
             under {}, more than a tenth of the round-trip time, so the results also depend on the \
             CPU",
            names(&late, all)
        )
    })
}

/// Returns a sentence if senders had nothing to send for most of the time. Smaller shares appear in
/// the lines of limits, because the last round trip of every response is idle. Handshakes are left
/// out. Short responses spend most of their time in handshakes, but the queues that controllers
/// fill still decide their response times.
pub(super) fn nothing_to_send(all: &[Evidence]) -> Option<String> {
    let limited: Vec<&Evidence> =
        all.iter().filter(|of| of.share("application") > MOSTLY).collect();
    let idle: Vec<f64> = limited.iter().map(|of| of.share("application")).collect();
    (!limited.is_empty()).then(|| {
        format!(
            "senders had nothing to send for {} of the time under {}, so the controller had little \
             influence",
            range(&idle),
            names(&limited, all)
        )
    })
}
