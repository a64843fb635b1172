//! One-way delays over links that differ by direction: what stamps say of packets, beside what the link did to them.

use std::fmt::Write as _;
use std::io;
use std::path::Path;
use std::time::Duration;

use fathom_bench::link::QueueSpec;
use fathom_bench::relay::{LineSpec, RelaySpec};
use fathom_cc::Rate;
use fathom_frames::ack_delay;
use serde::Serialize;

use super::cell::{Ground, secrets};
use super::measure::{Measure, transfer};
use super::party::Party;
use super::stage::Stage;
use super::wire::{Conversation, Parameters, Side, Stamp, Wire};
use crate::endpoint::Case;

/// The file, in bytes: four seconds at 10 Mbps.
const FILE: u64 = 5 << 20;
/// What a transfer may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// Fewer samples say nothing. A client that asks for a file has fewer: most of its packets ask for no acknowledgement.
const FEWEST: usize = 20;
/// A sample further off than this is wrong, and one in twenty may be: both ends share this machine's cores.
const BEARABLE: Duration = Duration::from_millis(5);

/// Where packets wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Course {
    /// On the way to the client, behind the file.
    QueueDown,
    /// On the way to the server: acknowledgements behind each other.
    QueueUp,
}

impl Course {
    /// All.
    pub const ALL: [Self; 2] = [Self::QueueDown, Self::QueueUp];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::QueueDown => "queue down",
            Self::QueueUp => "queue up",
        }
    }

    /// 40 ms down and 10 ms up; 10 Mbps down, and up either much more than acknowledgements need or less.
    fn link(self, seed: u64) -> RelaySpec {
        let line = |bits: u64, delay: u64| LineSpec {
            link: Some((Rate::from_bits_per_sec(bits), QueueSpec::droptail_packets(100))),
            delay: Duration::from_millis(delay),
            ..LineSpec::default()
        };
        let up = match self {
            Self::QueueDown => 10_000_000,
            Self::QueueUp => 200_000,
        };
        RelaySpec { down: line(10_000_000, 40), up: line(up, 10), faults: Vec::new(), seed }
    }
}

/// Mean and most, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// Mean.
    pub mean: f64,
    /// Most.
    pub most: f64,
}

impl Spread {
    fn of(millis: &[f64]) -> Option<Self> {
        let most = millis.iter().copied().reduce(f64::max)?;
        Some(Self { mean: millis.iter().sum::<f64>() / millis.len() as f64, most })
    }
}

/// What the stamps of one side say of the other's packets. Times are in milliseconds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Way {
    /// Whose packets: `server` or `client`.
    pub from: &'static str,
    /// The frame.
    pub frame: &'static str,
    /// Packets whose delay was told.
    pub samples: usize,
    /// How long these waited in the link, by the link's own clock.
    pub waited: Spread,
    /// The same of the packets that came back: no part of the delay that is told.
    pub back: Spread,
    /// How far stamps and link are apart, but for the constant that two clocks differ by: at most so far for half of all samples, for
    /// nineteen of twenty, for all.
    pub error: [f64; 3],
    /// What the sender's own estimator made of it, from its qlog, where the sender is ours.
    pub estimated: Option<Spread>,
}

/// Both ways over one link.
#[derive(Clone, Debug, Serialize)]
pub struct Delays {
    /// [`Measure::Delays`].
    pub measure: Measure,
    /// The link.
    pub course: Course,
    /// Client.
    pub client: String,
    /// Server.
    pub server: String,
    /// Packets of the server, then of the client, where stamps speak of them.
    pub ways: Vec<Way>,
    /// Why there is nothing, or what is wrong.
    pub failed: Option<String>,
}

/// Measures one course.
pub fn once(course: Course, client: &Party, server: &Party, ground: &Ground) -> Delays {
    let root = ground.folder.join(format!("{}-{}-{}", client.name(), server.name(), course.name().replace(' ', "-")));
    let found = play(course, client, server, ground, &root);
    let (ways, failed) = match found {
        Ok(ways) => {
            let wrong: Vec<String> = ways.iter().filter_map(wrong).collect();
            (ways, (!wrong.is_empty()).then(|| wrong.join("; ")))
        }
        Err(why) => (Vec::new(), Some(why)),
    };
    if failed.is_none() && !ground.keep {
        let _ = std::fs::remove_dir_all(&root);
    }
    let (client, server) = (client.name().into(), server.name().into());
    Delays { measure: Measure::Delays, course, client, server, ways, failed }
}

fn wrong(way: &Way) -> Option<String> {
    let bearable = millis(BEARABLE);
    if way.samples < FEWEST {
        let few = || format!("{} stamps about the {}'s packets, fewer than {FEWEST}", way.samples, way.from);
        return (way.from == "server").then(few);
    }
    let [_, most, _] = way.error;
    (most > bearable)
        .then(|| format!("one in twenty stamps about the {}'s packets is over {bearable} ms off", way.from))
}

fn play(course: Course, client: &Party, server: &Party, ground: &Ground, root: &Path) -> Result<Vec<Way>, String> {
    let failed = |what: &'static str| move |e: io::Error| format!("{what}: {e}");
    if root.exists() {
        std::fs::remove_dir_all(root).map_err(failed("an old folder"))?;
    }
    let stage = Stage::new(root, &[FILE], 10, ground.seed).map_err(failed("files"))?;
    let link = course.link(ground.seed);
    let (capture, _) = transfer((client, server), Case::Transfer, &stage, link, None, PATIENCE, &ground.stop)?;
    let wire = Wire::read(&capture, &secrets(&stage));
    let written = std::fs::write(root.join("relay.txt"), &wire.log);
    written.map_err(failed("what passed the relay"))?;
    let connection = wire.connections.first().ok_or("no connection was seen")?;
    let mut ways = of(connection);
    for way in &mut ways {
        way.estimated = Spread::of(&estimates(&stage.folder(way.from).join("qlog")));
    }
    if ways.is_empty() {
        return Err("neither side stamps its packets".into());
    }
    Ok(ways)
}

/// Both ways of a connection.
fn of(connection: &Conversation) -> Vec<Way> {
    let parameters = |found: Option<&Parameters>| found.and_then(|p| p.ack_delay_exponent);
    let clients = parameters(connection.client_hello.as_ref().map(|hello| &hello.parameters));
    let servers = parameters(connection.extensions.as_ref().map(|extensions| &extensions.parameters));
    let (client, server) = (&connection.client, &connection.server);
    let down = clients.and_then(|exponent| way("server", server, client, exponent));
    let up = servers.and_then(|exponent| way("client", client, server, exponent));
    down.into_iter().chain(up).collect()
}

/// What `teller`, whose exponent this is, says of `sender`'s packets.
fn way(from: &'static str, sender: &Side, teller: &Side, exponent: u8) -> Option<Way> {
    let mut passages = sender.passages.clone();
    passages.sort_by_key(|passage| passage.number);
    let mut frame = "";
    let (mut offs, mut transits) = (Vec::new(), Vec::new());
    for claim in &teller.claims {
        let Ok(at) = passages.binary_search_by_key(&claim.acknowledged, |passage| passage.number) else { continue };
        let passage = passages[at];
        let Some(left) = passage.left.filter(|_| passage.eliciting) else { continue };
        let sent;
        (frame, sent) = match claim.stamp {
            Stamp::Sync(micros) => ("SYNC_TIMESTAMP", micros),
            Stamp::Timestamp(stamp) => ("TIMESTAMP", stamp.micros(exponent)),
        };
        let arrived = sent.wrapping_sub(ack_delay(claim.raw_delay, exponent).as_micros() as u32);
        // What the stamp says less what the link says: a constant, but for errors. Modulo 2^32 microseconds, as the stamps are.
        offs.push(arrived.wrapping_sub(left.as_micros() as u32));
        transits.push(millis(left.saturating_sub(passage.came)));
    }
    let first = *offs.first()?;
    let mut errors: Vec<f64> = offs.iter().map(|off| f64::from(off.wrapping_sub(first) as i32) / 1e3).collect();
    errors.sort_by(f64::total_cmp);
    let middle = errors[errors.len() / 2];
    for error in &mut errors {
        *error = (*error - middle).abs();
    }
    errors.sort_by(f64::total_cmp);
    let part = |part: f64| errors[((errors.len() - 1) as f64 * part).round() as usize];
    let back = teller.passages.iter().filter_map(|passage| Some(millis(passage.left?.saturating_sub(passage.came))));
    Some(Way {
        from,
        frame,
        samples: offs.len(),
        waited: waits(&transits)?,
        back: waits(&back.collect::<Vec<_>>())?,
        error: [part(0.5), part(0.95), part(1.0)],
        estimated: None,
    })
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// What transits take beyond the least of them.
fn waits(transits: &[f64]) -> Option<Spread> {
    let least = transits.iter().copied().fold(f64::INFINITY, f64::min);
    Spread::of(&transits.iter().map(|transit| transit - least).collect::<Vec<_>>())
}

/// Queueing delays in ms that controllers were told, by the qlogs in a folder. Peers' have none.
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

/// The measurements as a table.
pub fn text(all: &[Delays]) -> String {
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
        "by",
        "samples",
        "waited, most",
        "told, most",
        "back, most",
        "off by: p50, p95, max"
    );
    let spread = |of: Spread| format!("{:.1}, {:.1} ms", of.mean, of.most);
    for one in all {
        for way in &one.ways {
            let told = way.estimated.map_or_else(|| "-".into(), spread);
            let [half, most, all] = way.error;
            let _ = writeln!(
                text,
                "{:12}{:10}{:10}{:8}{:16}{:>8}{:>16}{told:>16}{:>16}{:>24}",
                one.course.name(),
                one.client,
                one.server,
                way.from,
                way.frame,
                way.samples,
                spread(way.waited),
                spread(way.back),
                format!("{half:.2}, {most:.2}, {all:.2} ms"),
            );
        }
        if let Some(why) = &one.failed {
            let _ = writeln!(text, "{:12}{:10}{:10}FAILED: {why}", one.course.name(), one.client, one.server);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use fathom_frames::Timestamp;

    use super::super::wire::{Claim, Passage};
    use super::*;

    /// Packets that leave the link after 40 ms and what they wait, and stamps of a clock that is 7 s ahead less `late` of each.
    fn told(waits: &[u64], late: &[i64]) -> Way {
        let (mut sender, mut teller) = (Side::default(), Side::default());
        for (number, (wait, late)) in waits.iter().zip(late).enumerate() {
            let came = Duration::from_millis(10 * number as u64);
            let left = came + Duration::from_millis(40 + wait);
            let number = number as u64;
            sender.passages.push(Passage { number, came, left: Some(left), eliciting: true });
            // Held back for 8 ms.
            let stamped = (left.as_micros() as i64 + 7_000_000 + 8_000 + late) as u64;
            let stamp = Stamp::Timestamp(Timestamp { scaled: stamped >> 3 });
            teller.claims.push(Claim { acknowledged: number, raw_delay: 1_000, stamp });
            teller.passages.push(Passage { number, came: left, left: Some(left), eliciting: false });
        }
        way("server", &sender, &teller, 3).unwrap()
    }

    #[test]
    fn clocks_may_differ_and_delays_may_not() {
        let waits = [0, 10, 30, 20, 0, 0].repeat(4);
        let way = told(&waits, &[0; 24]);
        assert_eq!((way.samples, way.waited), (24, Spread { mean: 10.0, most: 30.0 }));
        assert!(way.error[2] < 0.01, "{way:?}");
        assert_eq!(wrong(&way), None);
        // One of six is 20 ms off: that is more than one in twenty.
        let way = told(&waits, &[0, 0, 20_000, 0, 0, 0].repeat(4));
        assert!((way.error[2] - 20.0).abs() < 0.01 && way.error[0] < 0.01, "{way:?}");
        assert!(wrong(&way).is_some_and(|why| why.contains("the server's packets")));
        assert!(wrong(&told(&[0, 0], &[0, 0])).is_some_and(|why| why.starts_with("2 stamps")));
    }

    #[test]
    fn lost_packets_and_pure_acknowledgements_do_not_count() {
        let at = Duration::from_millis(5);
        let mut sender = Side::default();
        sender.passages.push(Passage { number: 0, came: at, left: None, eliciting: true });
        sender.passages.push(Passage { number: 1, came: at, left: Some(at), eliciting: false });
        let mut teller = Side::default();
        for acknowledged in 0..3 {
            teller.claims.push(Claim { acknowledged, raw_delay: 0, stamp: Stamp::Sync(9) });
        }
        assert_eq!(way("client", &sender, &teller, 3), None);
    }
}
