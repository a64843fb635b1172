//! Checks a test's exit codes, downloads and trace against its requirements.

use fathom_netsim::relay::RelayStats;
use serde::{Deserialize, Serialize};

use super::process::ExitReason;
use super::test_case::TestCase;
use super::trace::{Capture, ConnectionTrace, Trace};
use crate::endpoint::Facts;

/// Result of a test.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "verdict", content = "why", rename_all = "kebab-case")]
pub enum TestResult {
    /// All requirements are met.
    Passed,
    /// At least one requirement is not met, for these reasons.
    Failed(Vec<String>),
    /// The client or the server does not support the test.
    Unsupported(String),
    /// The files arrived, but a requirement could not be checked because TLS secrets are missing.
    Unverified(String),
    /// The test did not run.
    Skipped(String),
}

impl TestResult {
    /// Returns the character in the result table.
    pub const fn mark(&self) -> char {
        match self {
            Self::Passed => '✓',
            Self::Failed(_) => '✕',
            Self::Unsupported(_) => '-',
            Self::Unverified(_) => '?',
            Self::Skipped(_) => '·',
        }
    }

    /// Returns the reason in one line, or an empty string if the test passed.
    pub fn why(&self) -> String {
        match self {
            Self::Passed => String::new(),
            Self::Failed(why) => why.join("; "),
            Self::Unsupported(why) | Self::Unverified(why) | Self::Skipped(why) => why.clone(),
        }
    }
}

/// Observations of the runner during a test.
#[derive(Debug)]
pub(super) struct Evidence {
    /// Exit of the client; `None` if the server exited before the client started.
    pub(super) client: Option<ExitReason>,
    pub(super) server: ExitReason,
    pub(super) server_is_ours: bool,
    /// Missing or differing downloads.
    pub(super) downloads: Vec<String>,
    pub(super) trace: Trace,
    pub(super) stats: RelayStats,
    pub(super) client_facts: Option<Facts>,
    pub(super) server_facts: Option<Facts>,
    pub(super) capture: Capture,
}

/// Returns the result of a test.
pub(super) fn check(test_case: TestCase, evidence: &Evidence) -> TestResult {
    match (evidence.client, evidence.server) {
        (Some(ExitReason::Code(127)), _) => return TestResult::Unsupported("the client".into()),
        (None, _) => return TestResult::Unsupported("the server".into()),
        _ => {}
    }
    let mut failures = extension_closes(evidence);
    match evidence.client {
        Some(ExitReason::Code(0)) | None => {}
        Some(exit) => failures.push(format!("the client: {exit}")),
    }
    // The exit code of a peer after SIGTERM does not count.
    let premature = evidence.server == ExitReason::Premature;
    if premature || evidence.server_is_ours && evidence.server != ExitReason::Code(0) {
        failures.push(format!("the server: {}", evidence.server));
    }
    failures.extend(first_few(&evidence.downloads));
    let started = evidence.trace.connections.len();
    if started != test_case.connections() {
        failures
            .push(format!("{started} connections started, expected {}", test_case.connections()));
    }
    let mut requirements = requirements(test_case, evidence);
    failures.append(&mut requirements.failures);
    match (failures.is_empty(), requirements.unverified.is_empty()) {
        (false, _) => TestResult::Failed(failures),
        (true, false) => TestResult::Unverified(requirements.unverified.join("; ")),
        (true, true) => TestResult::Passed,
    }
}

/// Returns the first messages and the number of further ones.
fn first_few(all: &[String]) -> Vec<String> {
    const MOST: usize = 3;
    let mut first_few: Vec<String> = all.iter().take(MOST).cloned().collect();
    if all.len() > MOST {
        first_few.push(format!("and {} more files", all.len() - MOST));
    }
    first_few
}

/// Returns connection closes that a faulty extension may have caused, from the trace and from our
/// endpoints' facts.
fn extension_closes(evidence: &Evidence) -> Vec<String> {
    const OURS: &str = "CLOSED BECAUSE OF OUR EXTENSION?";
    let mut found: Vec<String> = evidence
        .trace
        .protocol_errors()
        .iter()
        .map(|(side, close)| format!("{OURS} the {side} closed with {close}"))
        .collect();
    let reported = [("client", &evidence.client_facts), ("server", &evidence.server_facts)];
    for (side, facts) in reported {
        let closes =
            facts.iter().flat_map(|facts| &facts.connections).filter_map(|c| c.close.as_ref());
        for close in closes.filter(|close| close.protocol_error) {
            found.push(format!(
                "{OURS} the {side} reports: closed by {}, {:#x} '{}'",
                close.by,
                close.code.unwrap_or(0),
                close.reason
            ));
        }
    }
    // A CONNECTION_CLOSE may be sent more than once.
    found.dedup();
    found
}

/// Requirements that are not met, and requirements that could not be checked.
#[derive(Default)]
struct Requirements {
    failures: Vec<String>,
    unverified: Vec<String>,
}

impl Requirements {
    fn require(&mut self, holds: bool, otherwise: &str) {
        if !holds {
            self.failures.push(otherwise.into());
        }
    }

    /// Requires a property that only decrypted packets show, like [`Requirements::require`]. `seen`
    /// is `None` without TLS secrets.
    fn require_seen<T>(&mut self, seen: Option<T>, holds: impl FnOnce(T) -> bool, otherwise: &str) {
        match seen {
            Some(seen) => self.require(holds(seen), otherwise),
            None => self.unverified.push(format!("could not check whether {otherwise}")),
        }
    }
}

/// Returns the connection if 1-RTT packets of both sides could be decrypted.
fn readable(c: &ConnectionTrace) -> Option<&ConnectionTrace> {
    let read = |side: &super::trace::EndpointTrace| {
        side.packets.iter().sum::<u64>() > side.unopened && side.acks > 0
    };
    (c.extensions.is_some() && read(&c.client) && read(&c.server)).then_some(c)
}

/// Returns the requirements of a test, checked against the evidence.
fn requirements(test_case: TestCase, evidence: &Evidence) -> Requirements {
    let mut all = Requirements::default();
    let trace = &evidence.trace;
    let Some(first) = trace.connections.first() else { return all };
    let last = trace.connections.last().unwrap_or(first);
    let (up, down) = (&evidence.stats.up.impairments, &evidence.stats.down.impairments);
    match test_case {
        TestCase::Handshake
        | TestCase::Transfer
        | TestCase::LongRtt
        | TestCase::Multiplexing
        | TestCase::MultiConnect => {}
        TestCase::ChaCha20 => {
            let suite = first.server_hello.as_ref().map(|hello| hello.suite);
            all.require_seen(suite, |suite| suite == 0x1303, "the suite is not ChaCha20");
        }
        TestCase::Retry => {
            all.require(trace.retries() > 0, "no Retry packet was seen");
            all.require(first.token_after_retry, "the client sent no token after the Retry");
        }
        TestCase::Resumption | TestCase::ZeroRtt => {
            let resumed = last.server_hello.as_ref().map(|hello| hello.resumed);
            all.require_seen(
                resumed,
                |resumed| resumed,
                "the second connection did not resume a session",
            );
            all.require(
                first.client_hello.as_ref().is_none_or(|hello| !hello.resumes),
                "the first connection resumed a session",
            );
            if test_case == TestCase::ZeroRtt {
                check_early_data(last, &mut all);
            }
        }
        TestCase::Http3 => {
            let protocol = first.extensions.as_ref().map(|e| e.protocol.as_deref());
            all.require_seen(protocol, |protocol| protocol == Some("h3"), "the protocol is not h3");
        }
        TestCase::KeyUpdate => {
            let seen = readable(first);
            all.require_seen(seen, |c| c.client.key_updates > 0, "the client did not update keys");
            all.require_seen(
                seen,
                |c| c.server.key_updates > 0,
                "the server did not follow the key update",
            );
        }
        TestCase::Ecn => {
            all.require(trace.ect[0] > 0, "the client sent no ECN-marked packet");
            all.require(trace.ect[1] > 0, "the server sent no ECN-marked packet");
            let seen = readable(first);
            all.require_seen(
                seen,
                |c| c.client.acks_with_ecn > 0,
                "the client reported no ECN counts",
            );
            all.require_seen(
                seen,
                |c| c.server.acks_with_ecn > 0,
                "the server reported no ECN counts",
            );
        }
        TestCase::Blackhole => {
            all.require(evidence.stats.cut_off > 0, "nothing was sent during a blackout");
        }
        TestCase::HandshakeLoss | TestCase::TransferLoss => {
            all.require(up.lost + down.lost > 0, "no datagram was lost");
        }
        TestCase::HandshakeCorruption | TestCase::TransferCorruption => {
            all.require(up.corrupted + down.corrupted > 0, "no datagram was corrupted");
        }
        TestCase::RebindPort | TestCase::RebindHandshake => {
            // RFC 9000 §9.3: a server validates the new path when the client's address changes.
            let seen = readable(first);
            all.require_seen(
                seen,
                |c| c.server.challenges > 0,
                "the server did not validate the client's new port",
            );
            all.require_seen(
                seen,
                |c| c.client.responses > 0,
                "the client did not answer from its new port",
            );
        }
    }
    all
}

/// Requires that 0-RTT carried the requests and was accepted.
fn check_early_data(second: &ConnectionTrace, requirements: &mut Requirements) {
    requirements.require(second.client.packets[1] > 0, "no 0-RTT packet was sent");
    let accepted = second.extensions.as_ref().map(|e| e.early_data);
    requirements.require_seen(accepted, |accepted| accepted, "0-RTT was not accepted");
    // Like the official runner, allow at most as many request bytes in 1-RTT packets as in 0-RTT
    // packets.
    let read = second.client.early_bytes > 0;
    let most = second.client.stream_bytes <= second.client.early_bytes;
    requirements.require_seen(
        read.then_some(most),
        |most| most,
        "most requests were sent in 1-RTT packets",
    );
}

#[cfg(test)]
mod tests;
