//! Goodput: one file, several times, alone and beside another flow on the same link.

use std::fmt::Write as _;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fathom_bench::relay::{LineSpec, RelaySpec};
use serde::Serialize;

use super::cell::{Beside, Ground, Pair, Start};
use super::party::Party;
use super::process::Exit;
use super::stage::Stage;
use super::trial::{DELAY, QUEUE, RATE};
use super::wire::Capture;
use crate::endpoint::Case;

/// The file, in bytes.
const FILE: u64 = 10 << 20;
/// What a transfer may take: ten times what the link needs.
const PATIENCE: Duration = Duration::from_secs(120);

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Measure {
    /// Nobody else is there.
    Goodput,
    /// Stock quinn's CUBIC is at work when the file begins.
    CrossTraffic,
    /// One-way delays: see [`super::delays`].
    Delays,
}

impl Measure {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Goodput => "goodput",
            Self::CrossTraffic => "crosstraffic",
            Self::Delays => "delays",
        }
    }

    const fn case(self) -> Case {
        match self {
            Self::Goodput => Case::Goodput,
            Self::CrossTraffic => Case::CrossTraffic,
            Self::Delays => Case::Transfer,
        }
    }
}

impl std::str::FromStr for Measure {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, String> {
        let found = [Self::Goodput, Self::CrossTraffic, Self::Delays].into_iter().find(|measure| measure.name() == s);
        found.ok_or_else(|| format!("'{}' is no measurement; write goodput, crosstraffic or delays", s.escape_debug()))
    }
}

/// Repetitions of one measurement.
#[derive(Clone, Debug, Serialize)]
pub struct Measured {
    /// What.
    pub measure: Measure,
    /// Client.
    pub client: String,
    /// Server: the one that sends.
    pub server: String,
    /// The server's controller.
    pub controller: String,
    /// Each repetition, in kbps.
    pub kbps: Vec<f64>,
    /// Repetitions that failed, and why.
    pub failed: Vec<String>,
}

impl Measured {
    /// Mean and deviation (of the sample) in kbps.
    pub fn spread(&self) -> Option<(f64, f64)> {
        let n = self.kbps.len() as f64;
        if self.kbps.is_empty() {
            return None;
        }
        let mean = self.kbps.iter().sum::<f64>() / n;
        let squares: f64 = self.kbps.iter().map(|x| (x - mean).powi(2)).sum();
        Some((mean, if n > 1.0 { (squares / (n - 1.0)).sqrt() } else { 0.0 }))
    }
}

/// Measures once.
///
/// # Errors
/// It failed, and why.
pub fn once(measure: Measure, client: &Party, server: &Party, cubic: &Party, ground: &Ground) -> Result<f64, String> {
    let root = ground.folder.join(format!("{}-{}-{}", client.name(), server.name(), measure.name()));
    if root.exists() {
        std::fs::remove_dir_all(&root).map_err(|e| format!("an old folder: {e}"))?;
    }
    let rate = play(measure, client, server, cubic, ground, &root);
    if rate.is_ok() && !ground.keep {
        let _ = std::fs::remove_dir_all(&root);
    }
    rate
}

fn play(
    measure: Measure,
    client: &Party,
    server: &Party,
    cubic: &Party,
    ground: &Ground,
    root: &Path,
) -> Result<f64, String> {
    let failed = |what: &'static str| move |e: io::Error| format!("{what}: {e}");
    let stage = Stage::new(root, &[FILE], 10, ground.seed).map_err(failed("files"))?;
    let line = LineSpec { link: Some((RATE, QUEUE)), delay: DELAY, ..LineSpec::default() };
    let link = RelaySpec { down: line, up: line, faults: Vec::new(), seed: ground.seed };
    let beside = match measure {
        Measure::Goodput | Measure::Delays => None,
        Measure::CrossTraffic => Some(Beside::new(cubic, &root.join("beside")).map_err(failed("files"))?),
    };
    let (capture, main) =
        transfer((client, server), measure.case(), &stage, link, beside.as_ref(), PATIENCE, &ground.stop)?;
    rate(&capture, main).ok_or_else(|| "no packets were seen".into())
}

/// Lets a client fetch all files, perhaps beside another flow; what passed the relay, and where the server was.
pub(super) fn transfer(
    (client, server): (&Party, &Party),
    case: Case,
    stage: &Stage,
    link: RelaySpec,
    beside: Option<&Beside<'_>>,
    patience: Duration,
    stop: &AtomicBool,
) -> Result<(Capture, SocketAddr), String> {
    let started = Pair::start(client, server, case, stage, link, beside, stop)?;
    let mut pair = match started {
        Start::Up(pair) => pair,
        Start::Refused(exit) => return Err(format!("the server: {exit}")),
    };
    let exit = pair.client(stage, stop, patience).map_err(|e| format!("the client: {e}"))?;
    let beside = pair.beside_is_at_work();
    let main = pair.server();
    let (_, (capture, _)) = pair.end();
    if stop.load(Ordering::Relaxed) {
        return Err("stopped".into());
    }
    if exit != Exit::Code(0) {
        return Err(format!("the client: {exit}"));
    }
    if beside == Some(false) {
        return Err("the other flow ended too soon".into());
    }
    if let Some(wrong) = stage.check_downloads().into_iter().next() {
        return Err(wrong);
    }
    Ok((capture, main))
}

/// As the official runner: the file's size over the time from the server's first 1-RTT packet to its last, in kbps.
fn rate(capture: &Capture, server: SocketAddr) -> Option<f64> {
    let datagrams = capture.datagrams().iter();
    let mut times = datagrams
        .filter(|d| d.server == server && !d.to_server && d.contents.first().is_some_and(|first| first & 0x80 == 0))
        .map(|d| d.at);
    let first = times.next()?;
    let took = times.next_back()?.saturating_sub(first);
    (!took.is_zero()).then(|| FILE as f64 * 8.0 / 1e3 / took.as_secs_f64())
}

/// The measurements as a table.
pub fn text(all: &[Measured]) -> String {
    let mut text = String::new();
    if all.is_empty() {
        return text;
    }
    let width = all.iter().map(|m| m.controller.len()).max().unwrap_or(0).max(10) + 2;
    let _ = writeln!(
        text,
        "{:13}{:14}{:14}{:width$}{:>24}",
        "measurement", "client", "server", "controller", "kbps, deviation"
    );
    for m in all {
        let figures = match m.spread() {
            Some((mean, deviation)) => format!("{mean:.0} ± {deviation:.0} of {}", m.kbps.len()),
            None => "failed".into(),
        };
        let _ =
            writeln!(text, "{:13}{:14}{:14}{:width$}{figures:>24}", m.measure.name(), m.client, m.server, m.controller);
        for why in &m.failed {
            let _ = writeln!(text, "  FAILED: {why}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use fathom_bench::relay::Passing;

    use super::*;

    #[test]
    fn goodput_is_the_file_over_the_servers_time() {
        let mut capture = Capture::default();
        let [client, server, other] = ["127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"].map(|text| text.parse().unwrap());
        for (at, to_server, server, first) in [
            (0, false, server, 0xc0),
            (1_000, false, server, 0x40),
            (5_000, false, server, 0x40),
            // 10 MiB at 10 Mbps.
            (1_000 + 8_388_608, false, server, 0x40),
            (20_000_000, true, server, 0x40),
            (20_000_000, false, other, 0x40),
        ] {
            let at = Duration::from_micros(at);
            capture.note(&Passing { at, to_server, client, server, ecn: 0, contents: &[first], leaves: Some(at) });
        }
        assert_eq!(rate(&capture, server).map(f64::round), Some(10_000.0));
        assert_eq!(rate(&capture, client), None);
    }

    #[test]
    fn the_deviation_is_that_of_the_sample() {
        let measured = |kbps: &[f64]| Measured {
            measure: Measure::Goodput,
            client: "a".into(),
            server: "b".into(),
            controller: "c".into(),
            kbps: kbps.to_vec(),
            failed: vec!["it broke".into()],
        };
        assert_eq!(measured(&[9.0, 10.0, 11.0]).spread(), Some((10.0, 1.0)));
        assert_eq!((measured(&[5.0]).spread(), measured(&[]).spread()), (Some((5.0, 0.0)), None));
        let text = text(&[measured(&[9.0, 11.0])]);
        assert!(text.contains("10 ± 1 of 2") && text.contains("FAILED: it broke"), "{text}");
    }
}
