//! One-way delays over asymmetric links. The delays that the timestamps report are compared with
//! the delays that the link caused.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use fathom_cc::Rate;
use fathom_frames::ack_delay;
use fathom_netsim::path::DirectedPath;
use fathom_netsim::queue::QueueSpec;
use fathom_netsim::relay::RelaySpec;
use serde::Serialize;

use super::error::RunError;
use super::implementation::Implementation;
use super::measurement::{Measurement, transfer};
use super::test_dir::TestDir;
use super::test_run::{RunConfig, secrets};
use super::trace::{ConnectionTrace, EndpointTrace, SendTimestamp, Trace, TransportParameters};
use crate::endpoint::TestName;

/// Size of the file in bytes, which takes about 4 s at 10 Mbps.
const FILE: u64 = 5 << 20;
/// Time limit for a transfer.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Minimum number of samples for a direction to count. A downloading client has fewer samples,
/// because most of its packets are not ack-eliciting.
const MIN_SAMPLES: usize = 20;
/// Largest error in ms that is allowed for 95 % of the samples. The remaining samples may have
/// larger errors because of scheduling, since both endpoints share this machine's cores.
const MAX_ERROR: Duration = Duration::from_millis(5);

/// Direction in which packets queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, strum::Display, strum::VariantArray)]
#[serde(rename_all = "kebab-case")]
pub enum DelayScenario {
    /// Packets queue on the way to the client: those of the file.
    #[strum(serialize = "queue down")]
    QueueDown,
    /// Packets queue on the way to the server: the acknowledgements.
    #[strum(serialize = "queue up")]
    QueueUp,
}

impl DelayScenario {
    /// Returns the link. Down, it has 40 ms and 10 Mbps. Up, it has 10 ms, and either more or less
    /// bandwidth than acknowledgements need.
    fn link(self, seed: u64) -> RelaySpec {
        let line = |bits: u64, delay: u64| DirectedPath {
            link: Some((Rate::from_bits_per_sec(bits).into(), QueueSpec::droptail_packets(100))),
            delay: Duration::from_millis(delay),
            ..DirectedPath::default()
        };
        let up = match self {
            Self::QueueDown => 10_000_000,
            Self::QueueUp => 200_000,
        };
        RelaySpec { down: line(10_000_000, 40), up: line(up, 10), events: Vec::new(), seed }
    }
}

/// Mean and maximum in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct MeanMax {
    /// Mean in milliseconds.
    pub mean: f64,
    /// Maximum in milliseconds.
    #[serde(rename = "most")]
    pub max: f64,
}

impl MeanMax {
    fn of(millis: &[f64]) -> Option<Self> {
        let max = millis.iter().copied().reduce(f64::max)?;
        Some(Self { mean: millis.iter().sum::<f64>() / millis.len() as f64, max })
    }
}

/// Delays in one direction, from the receiver's timestamps, in milliseconds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DirectionDelays {
    /// Sender of the packets: `server` or `client`.
    pub from: &'static str,
    /// Frame that carries the timestamps.
    pub frame: &'static str,
    /// Number of packets with a reported delay.
    pub samples: usize,
    /// Queueing delay of these packets in the link, by the link's clock.
    pub waited: MeanMax,
    /// Queueing delay in the reverse direction in the same time, which must not appear in the
    /// reported delays.
    pub back: MeanMax,
    /// Difference between the delays from the timestamps and the delays of the link, without the
    /// constant clock offset. The values are the median, the 95th percentile and the maximum.
    pub error: [f64; 3],
    /// Sender's own estimate of the queueing delay, from its qlog; `None` unless the sender is one
    /// of our endpoints.
    pub estimated: Option<MeanMax>,
}

/// Both directions of one transfer.
#[derive(Clone, Debug, Serialize)]
pub struct DelayReport {
    /// Type of the measurement, which is [`Measurement::Delays`].
    #[serde(rename = "measure")]
    pub measurement: Measurement,
    /// Scenario of the transfer.
    #[serde(rename = "course")]
    pub scenario: DelayScenario,
    /// Client's name.
    pub client: String,
    /// Server's name.
    pub server: String,
    /// Delays of the server's packets, followed by those of the client's packets. A direction
    /// without timestamps is missing.
    #[serde(rename = "ways")]
    pub directions: Vec<DirectionDelays>,
    /// Reason why the measurement failed or is inaccurate.
    pub failed: Option<String>,
}

/// Measures one scenario.
pub fn run(
    scenario: DelayScenario,
    client: &Implementation,
    server: &Implementation,
    config: &RunConfig,
) -> DelayReport {
    let root = config.log_dir.join(format!(
        "{}-{}-{}",
        client.name(),
        server.name(),
        scenario.to_string().replace(' ', "-")
    ));
    let found = run_in(scenario, client, server, config, &root);
    let (directions, failed) = match found {
        Ok(directions) => {
            let errors: Vec<String> = directions.iter().filter_map(accuracy_error).collect();
            (directions, (!errors.is_empty()).then(|| errors.join("; ")))
        }
        Err(error) => (Vec::new(), Some(error.to_string())),
    };
    if failed.is_none() && !config.keep {
        let _ = std::fs::remove_dir_all(&root);
    }
    let (client, server) = (client.name().into(), server.name().into());
    DelayReport { measurement: Measurement::Delays, scenario, client, server, directions, failed }
}

fn accuracy_error(direction: &DirectionDelays) -> Option<String> {
    let max_error = millis(MAX_ERROR);
    if direction.samples < MIN_SAMPLES {
        let few = || {
            format!(
                "only {} timestamps arrived for the {}'s packets, fewer than {MIN_SAMPLES}",
                direction.samples, direction.from
            )
        };
        return (direction.from == "server").then(few);
    }
    let [_, max, _] = direction.error;
    (max > max_error).then(|| {
        format!(
            "more than 5 % of the timestamps for the {}'s packets are off by over {max_error} ms",
            direction.from
        )
    })
}

fn run_in(
    scenario: DelayScenario,
    client: &Implementation,
    server: &Implementation,
    config: &RunConfig,
    root: &Path,
) -> Result<Vec<DirectionDelays>, RunError> {
    if root.exists() {
        std::fs::remove_dir_all(root).map_err(RunError::OldLogs)?;
    }
    let test_dir = TestDir::new(root, &[FILE], 10, config.seed).map_err(RunError::TestFiles)?;
    let link = scenario.link(config.seed);
    let (capture, _) = transfer(
        (client, server),
        TestName::Transfer,
        &test_dir,
        link,
        None,
        TIMEOUT,
        &config.stop,
    )?;
    let trace = Trace::read(&capture, &secrets(&test_dir));
    std::fs::write(root.join("relay.txt"), &trace.log).map_err(RunError::PacketLog)?;
    let connection = trace.connections.first().ok_or(RunError::NoConnection)?;
    let mut directions = directions_of(connection);
    for direction in &mut directions {
        direction.estimated =
            MeanMax::of(&estimates(&test_dir.folder(direction.from).join("qlog")));
    }
    if directions.is_empty() {
        return Err(RunError::NoTimestamps);
    }
    Ok(directions)
}

/// Returns the delays in both directions of a connection.
fn directions_of(connection: &ConnectionTrace) -> Vec<DirectionDelays> {
    let parameters = |found: Option<&TransportParameters>| found.and_then(|p| p.ack_delay_exponent);
    let clients = parameters(connection.client_hello.as_ref().map(|hello| &hello.parameters));
    let servers =
        parameters(connection.extensions.as_ref().map(|extensions| &extensions.parameters));
    let (client, server) = (&connection.client, &connection.server);
    let down = clients.and_then(|exponent| direction("server", server, client, exponent));
    let up = servers.and_then(|exponent| direction("client", client, server, exponent));
    down.into_iter().chain(up).collect()
}

/// Returns the delays of `sender`'s packets, from `receiver`'s timestamps. `exponent` is the
/// receiver's ack_delay_exponent.
fn direction(
    from: &'static str,
    sender: &EndpointTrace,
    receiver: &EndpointTrace,
    exponent: u8,
) -> Option<DirectionDelays> {
    let mut relayed = sender.relayed.clone();
    relayed.sort_by_key(|packet| packet.number);
    let mut frame = "";
    let (mut offsets, mut transits) = (Vec::new(), Vec::new());
    for ack in &receiver.timestamped_acks {
        let Ok(at) =
            relayed.binary_search_by_key(&ack.largest_acknowledged, |packet| packet.number)
        else {
            continue;
        };
        let packet = relayed[at];
        let Some(departed) = packet.departed.filter(|_| packet.ack_eliciting) else { continue };
        let sent;
        (frame, sent) = match ack.timestamp {
            SendTimestamp::Sync(micros) => ("SYNC_TIMESTAMP", micros),
            SendTimestamp::Timestamp(timestamp) => ("TIMESTAMP", timestamp.micros(exponent)),
        };
        let arrived = sent.wrapping_sub(ack_delay(ack.raw_delay, exponent).as_micros() as u32);
        // This is the difference between the timestamp and the link's time. Without errors, the
        // difference is constant. It is modulo 2^32 microseconds, like the timestamps.
        offsets.push(arrived.wrapping_sub(departed.as_micros() as u32));
        transits.push(millis(departed.saturating_sub(packet.arrived)));
    }
    let first = *offsets.first()?;
    let mut errors: Vec<f64> =
        offsets.iter().map(|off| f64::from(off.wrapping_sub(first) as i32) / 1e3).collect();
    errors.sort_by(f64::total_cmp);
    let middle = errors[errors.len() / 2];
    for error in &mut errors {
        *error = (*error - middle).abs();
    }
    errors.sort_by(f64::total_cmp);
    let part = |part: f64| errors[((errors.len() - 1) as f64 * part).round() as usize];
    let back = receiver
        .relayed
        .iter()
        .filter_map(|packet| Some(millis(packet.departed?.saturating_sub(packet.arrived))));
    Some(DirectionDelays {
        from,
        frame,
        samples: offsets.len(),
        waited: queueing(&transits)?,
        back: queueing(&back.collect::<Vec<_>>())?,
        error: [part(0.5), part(0.95), part(1.0)],
        estimated: None,
    })
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// Returns queueing delays: transit times minus the smallest transit time.
fn queueing(transits: &[f64]) -> Option<MeanMax> {
    let least = transits.iter().copied().fold(f64::INFINITY, f64::min);
    MeanMax::of(&transits.iter().map(|transit| transit - least).collect::<Vec<_>>())
}

/// Returns the queueing delays in ms that the plug-in reported to controllers, from the qlogs in a
/// directory. The qlogs of peers have no such delays.
fn estimates(folder: &Path) -> Vec<f64> {
    let mut found = Vec::new();
    for file in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let _ = fathom_qlog::read(&file.path(), &mut |_| {}, &mut |logged| {
            if (logged.category, logged.name) == ("fathom", "one_way_delay") {
                found.extend(logged.data["queueing_delay"].as_f64());
            }
        });
    }
    found
}

/// Returns the measurements as a table.
pub fn text(all: &[DelayReport]) -> String {
    let mut text = String::new();
    if all.is_empty() {
        return text;
    }
    let _ = writeln!(
        text,
        "{:12}{:10}{:10}{:8}{:16}{:>8}{:>16}{:>16}{:>16}{:>24}",
        "link",
        "client",
        "server",
        "from",
        "frame",
        "samples",
        "queueing, max",
        "estimated, max",
        "reverse, max",
        "error: p50, p95, max"
    );
    let spread = |of: MeanMax| format!("{:.1}, {:.1} ms", of.mean, of.max);
    for one in all {
        for direction in &one.directions {
            let estimated = direction.estimated.map_or_else(|| "-".into(), spread);
            let [half, max, all] = direction.error;
            let _ = writeln!(
                text,
                "{:12}{:10}{:10}{:8}{:16}{:>8}{:>16}{estimated:>16}{:>16}{:>24}",
                one.scenario,
                one.client,
                one.server,
                direction.from,
                direction.frame,
                direction.samples,
                spread(direction.waited),
                spread(direction.back),
                format!("{half:.2}, {max:.2}, {all:.2} ms"),
            );
        }
        if let Some(why) = &one.failed {
            let _ = writeln!(
                text,
                "{:12}{:10}{:10}FAILED: {why}",
                one.scenario, one.client, one.server
            );
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use fathom_frames::Timestamp;

    use super::super::trace::{RelayedPacket, TimestampedAck};
    use super::*;

    /// Returns the delays of packets that leave the link after 40 ms and their queueing delay. The
    /// timestamps come from a clock that is 7 s ahead, and each is `late` by some time in
    /// microseconds.
    fn synthetic(queueing: &[u64], late: &[i64]) -> DirectionDelays {
        let (mut sender, mut receiver) = (EndpointTrace::default(), EndpointTrace::default());
        for (number, (wait, late)) in queueing.iter().zip(late).enumerate() {
            let arrived = Duration::from_millis(10 * number as u64);
            let departed = arrived + Duration::from_millis(40 + wait);
            let number = number as u64;
            sender.relayed.push(RelayedPacket {
                number,
                arrived,
                departed: Some(departed),
                ack_eliciting: true,
            });
            // With an ACK delay of 8 ms.
            let sent = (departed.as_micros() as i64 + 7_000_000 + 8_000 + late) as u64;
            let timestamp = SendTimestamp::Timestamp(Timestamp { scaled: sent >> 3 });
            receiver.timestamped_acks.push(TimestampedAck {
                largest_acknowledged: number,
                raw_delay: 1_000,
                timestamp,
            });
            receiver.relayed.push(RelayedPacket {
                number,
                arrived: departed,
                departed: Some(departed),
                ack_eliciting: false,
            });
        }
        direction("server", &sender, &receiver, 3).unwrap()
    }

    #[test]
    fn constant_clock_offset_causes_no_delay_error() {
        let queueing = [0, 10, 30, 20, 0, 0].repeat(4);
        let direction = synthetic(&queueing, &[0; 24]);
        assert_eq!((direction.samples, direction.waited), (24, MeanMax { mean: 10.0, max: 30.0 }));
        assert!(direction.error[2] < 0.01, "{direction:?}");
        assert_eq!(accuracy_error(&direction), None);
        // One in six timestamps is 20 ms off, which is more than the permitted 5 % of timestamps.
        let direction = synthetic(&queueing, &[0, 0, 20_000, 0, 0, 0].repeat(4));
        assert!(
            (direction.error[2] - 20.0).abs() < 0.01 && direction.error[0] < 0.01,
            "{direction:?}"
        );
        assert!(accuracy_error(&direction).is_some_and(|why| why.contains("the server's packets")));
        assert!(
            accuracy_error(&synthetic(&[0, 0], &[0, 0]))
                .is_some_and(|why| why.starts_with("only 2 timestamps"))
        );
    }

    #[test]
    fn lost_and_non_eliciting_packets_give_no_delay_sample() {
        let at = Duration::from_millis(5);
        let mut sender = EndpointTrace::default();
        sender.relayed.push(RelayedPacket {
            number: 0,
            arrived: at,
            departed: None,
            ack_eliciting: true,
        });
        sender.relayed.push(RelayedPacket {
            number: 1,
            arrived: at,
            departed: Some(at),
            ack_eliciting: false,
        });
        let mut receiver = EndpointTrace::default();
        for largest_acknowledged in 0..3 {
            receiver.timestamped_acks.push(TimestampedAck {
                largest_acknowledged,
                raw_delay: 0,
                timestamp: SendTimestamp::Sync(9),
            });
        }
        assert_eq!(direction("client", &sender, &receiver, 3), None);
    }
}
