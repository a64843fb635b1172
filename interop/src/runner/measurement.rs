//! Goodput of a file transfer, with and without cross traffic on the same link.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fathom_cc::Invalid;
use fathom_netsim::path::DirectedPath;
use fathom_netsim::relay::RelaySpec;
use serde::Serialize;

use super::error::RunError;
use super::implementation::Implementation;
use super::process::ExitReason;
use super::test_case::{DELAY, QUEUE, RATE};
use super::test_dir::TestDir;
use super::test_run::{CrossTraffic, RunConfig, Started, Testbed};
use super::trace::Capture;
use crate::endpoint::TestName;

/// Size of the file in bytes.
const FILE: u64 = 10 << 20;
/// Time limit for a transfer, which takes about 8.4 s if it has the link to itself.
const TIMEOUT: Duration = Duration::from_secs(120);

/// A kind of measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, strum::Display, strum::EnumString)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "lowercase", parse_err_ty = Invalid, parse_err_fn = unknown)]
pub enum Measurement {
    /// Goodput of a transfer without cross traffic.
    Goodput,
    /// Goodput in competition with a flow of stock quinn with CUBIC that started earlier.
    CrossTraffic,
    /// One-way delays. See [`super::delays`].
    Delays,
}

impl Measurement {
    const fn test_name(self) -> TestName {
        match self {
            Self::Goodput => TestName::Goodput,
            Self::CrossTraffic => TestName::CrossTraffic,
            Self::Delays => TestName::Transfer,
        }
    }
}

fn unknown(s: &str) -> Invalid {
    Invalid::value(s, "is not a measurement").hint("choose goodput, crosstraffic or delays")
}

/// All repetitions of one measurement.
#[derive(Clone, Debug, Serialize)]
pub struct MeasurementResult {
    /// Kind of measurement.
    #[serde(rename = "measure")]
    pub measurement: Measurement,
    /// Client's name.
    pub client: String,
    /// Name of the server, which sends the file.
    pub server: String,
    /// The server's controller.
    pub controller: String,
    /// Goodput of each repetition in kbps.
    pub kbps: Vec<f64>,
    /// Reasons why repetitions failed.
    pub failed: Vec<String>,
}

impl MeasurementResult {
    /// Returns the mean and the sample standard deviation in kbps.
    pub fn mean_and_deviation(&self) -> Option<(f64, f64)> {
        let n = self.kbps.len() as f64;
        if self.kbps.is_empty() {
            return None;
        }
        let mean = self.kbps.iter().sum::<f64>() / n;
        let squares: f64 = self.kbps.iter().map(|x| (x - mean).powi(2)).sum();
        Some((mean, if n > 1.0 { (squares / (n - 1.0)).sqrt() } else { 0.0 }))
    }
}

/// Runs one repetition and returns the goodput in kbps.
///
/// # Errors
/// Returns the reason if the transfer fails.
pub fn run(
    measurement: Measurement,
    client: &Implementation,
    server: &Implementation,
    cubic: &Implementation,
    config: &RunConfig,
) -> Result<f64, RunError> {
    let root = config.log_dir.join(format!("{}-{}-{}", client.name(), server.name(), measurement));
    if root.exists() {
        std::fs::remove_dir_all(&root).map_err(RunError::OldLogs)?;
    }
    let rate = run_in(measurement, client, server, cubic, config, &root);
    if rate.is_ok() && !config.keep {
        let _ = std::fs::remove_dir_all(&root);
    }
    rate
}

fn run_in(
    measurement: Measurement,
    client: &Implementation,
    server: &Implementation,
    cubic: &Implementation,
    config: &RunConfig,
    root: &Path,
) -> Result<f64, RunError> {
    let test_dir = TestDir::new(root, &[FILE], 10, config.seed).map_err(RunError::TestFiles)?;
    let line =
        DirectedPath { link: Some((RATE.into(), QUEUE)), delay: DELAY, ..DirectedPath::default() };
    let link = RelaySpec { down: line.clone(), up: line, events: Vec::new(), seed: config.seed };
    let cross_traffic = match measurement {
        Measurement::Goodput | Measurement::Delays => None,
        Measurement::CrossTraffic => {
            let root = root.join("beside");
            Some(CrossTraffic::new(cubic, &root).map_err(RunError::TestFiles)?)
        }
    };
    let (capture, main) = transfer(
        (client, server),
        measurement.test_name(),
        &test_dir,
        link,
        cross_traffic.as_ref(),
        TIMEOUT,
        &config.stop,
    )?;
    rate(&capture, main).ok_or(RunError::NoPackets)
}

/// Runs one transfer of all files. `cross_traffic`, if given, uses the same link. Returns the
/// capture and the server's address.
pub(super) fn transfer(
    (client, server): (&Implementation, &Implementation),
    test_name: TestName,
    test_dir: &TestDir,
    link: RelaySpec,
    cross_traffic: Option<&CrossTraffic<'_>>,
    timeout: Duration,
    stop: &AtomicBool,
) -> Result<(Capture, SocketAddr), RunError> {
    let started = Testbed::start(client, server, test_name, test_dir, link, cross_traffic, stop)?;
    let mut testbed = match started {
        Started::Ready(testbed) => testbed,
        Started::Unsupported(exit) => {
            return Err(RunError::Exit { process: "the server", exit });
        }
    };
    let exit = testbed.run_client(test_dir, stop, timeout)?;
    let cross_traffic = testbed.cross_traffic_is_running();
    let main = testbed.server_address();
    let (_, (capture, _)) = testbed.stop();
    if stop.load(Ordering::Relaxed) {
        return Err(RunError::Interrupted);
    }
    if exit != ExitReason::Code(0) {
        return Err(RunError::Exit { process: "the client", exit });
    }
    if cross_traffic == Some(false) {
        return Err(RunError::CrossTrafficEnded);
    }
    if let Some(wrong) = test_dir.check_downloads().into_iter().next() {
        return Err(RunError::Download(wrong));
    }
    Ok((capture, main))
}

/// Returns the goodput in kbps, computed as in the official runner. It is the file's size divided
/// by the time from the server's first to its last 1-RTT packet.
fn rate(capture: &Capture, server: SocketAddr) -> Option<f64> {
    let datagrams = capture.datagrams().iter();
    let mut times = datagrams
        .filter(|d| {
            d.server == server
                && !d.to_server
                && d.contents.first().is_some_and(|first| first & 0x80 == 0)
        })
        .map(|d| d.at);
    let first = times.next()?;
    let duration = times.next_back()?.saturating_sub(first);
    (!duration.is_zero()).then(|| FILE as f64 * 8.0 / 1e3 / duration.as_secs_f64())
}

/// Returns the measurements as a table.
pub fn text(all: &[MeasurementResult]) -> String {
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
        let figures = match m.mean_and_deviation() {
            Some((mean, deviation)) => format!("{mean:.0} ± {deviation:.0} of {}", m.kbps.len()),
            None => "failed".into(),
        };
        let _ = writeln!(
            text,
            "{:13}{:14}{:14}{:width$}{figures:>24}",
            m.measurement, m.client, m.server, m.controller
        );
        for why in &m.failed {
            let _ = writeln!(text, "  FAILED: {why}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use fathom_netsim::relay::Passing;

    use super::*;

    #[test]
    fn goodput_is_file_size_over_sending_time() {
        let mut capture = Capture::default();
        let [client, server, other] =
            ["127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"].map(|text| text.parse().unwrap());
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
            capture.record(&Passing {
                at,
                to_server,
                client,
                server,
                ecn: 0,
                contents: &[first],
                leaves: Some(at),
            });
        }
        assert_eq!(rate(&capture, server).map(f64::round), Some(10_000.0));
        assert_eq!(rate(&capture, client), None);
    }

    #[test]
    fn reported_deviation_is_the_sample_standard_deviation() {
        let measured = |kbps: &[f64]| MeasurementResult {
            measurement: Measurement::Goodput,
            client: "a".into(),
            server: "b".into(),
            controller: "c".into(),
            kbps: kbps.to_vec(),
            failed: vec!["it broke".into()],
        };
        assert_eq!(measured(&[9.0, 10.0, 11.0]).mean_and_deviation(), Some((10.0, 1.0)));
        assert_eq!(
            (measured(&[5.0]).mean_and_deviation(), measured(&[]).mean_and_deviation()),
            (Some((5.0, 0.0)), None)
        );
        let text = text(&[measured(&[9.0, 11.0])]);
        assert!(text.contains("10 ± 1 of 2") && text.contains("FAILED: it broke"), "{text}");
    }
}
