//! Whether what passed the relay is what the test asks.

use fathom_bench::relay::RelayStats;
use serde::{Deserialize, Serialize};

use super::process::Exit;
use super::trial::Trial;
use super::wire::{Capture, Conversation, Wire};
use crate::endpoint::Facts;

/// What became of a test.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "verdict", content = "why", rename_all = "kebab-case")]
pub enum Verdict {
    /// All that the test asks was seen.
    Passed,
    /// It was not, and why.
    Failed(Vec<String>),
    /// A side does not do it.
    Unsupported(String),
    /// Files are there, but what the test is about was not to be seen.
    Unverified(String),
    /// It was not played.
    Skipped(String),
}

impl Verdict {
    /// A character for the table.
    pub const fn mark(&self) -> char {
        match self {
            Self::Passed => '✓',
            Self::Failed(_) => '✕',
            Self::Unsupported(_) => '-',
            Self::Unverified(_) => '?',
            Self::Skipped(_) => '·',
        }
    }

    /// Why, in one line.
    pub fn why(&self) -> String {
        match self {
            Self::Passed => String::new(),
            Self::Failed(why) => why.join("; "),
            Self::Unsupported(why) | Self::Unverified(why) | Self::Skipped(why) => why.clone(),
        }
    }
}

/// What was seen of a test.
#[derive(Debug)]
pub(super) struct Evidence {
    /// `None`: the server refused before there was one.
    pub(super) client: Option<Exit>,
    pub(super) server: Exit,
    pub(super) server_is_ours: bool,
    /// What is wrong with the files.
    pub(super) downloads: Vec<String>,
    pub(super) wire: Wire,
    pub(super) stats: RelayStats,
    pub(super) client_facts: Option<Facts>,
    pub(super) server_facts: Option<Facts>,
    pub(super) capture: Capture,
}

/// The verdict.
pub(super) fn judge(trial: Trial, evidence: &Evidence) -> Verdict {
    match (evidence.client, evidence.server) {
        (Some(Exit::Code(127)), _) => return Verdict::Unsupported("the client".into()),
        (None, _) => return Verdict::Unsupported("the server".into()),
        _ => {}
    }
    let mut wrong = faults(evidence);
    match evidence.client {
        Some(Exit::Code(0)) | None => {}
        Some(exit) => wrong.push(format!("the client: {exit}")),
    }
    // How peers answer the request to end is their own affair.
    let soon = evidence.server == Exit::TooSoon;
    if soon || evidence.server_is_ours && evidence.server != Exit::Code(0) {
        wrong.push(format!("the server: {}", evidence.server));
    }
    wrong.extend(some(&evidence.downloads));
    let made = evidence.wire.connections.len();
    if made != trial.connections() {
        wrong.push(format!("{made} connections began, not {}", trial.connections()));
    }
    let mut asked = Asked::default();
    ask(trial, evidence, &mut asked);
    wrong.append(&mut asked.wrong);
    match (wrong.is_empty(), asked.unseen.is_empty()) {
        (false, _) => Verdict::Failed(wrong),
        (true, false) => Verdict::Unverified(asked.unseen.join("; ")),
        (true, true) => Verdict::Passed,
    }
}

/// The first of many.
fn some(all: &[String]) -> Vec<String> {
    const MOST: usize = 3;
    let mut some: Vec<String> = all.iter().take(MOST).cloned().collect();
    if all.len() > MOST {
        some.push(format!("and {} more files", all.len() - MOST));
    }
    some
}

/// Closes that an extension which goes wrong ends in: seen on the wire, or told by one of ours.
fn faults(evidence: &Evidence) -> Vec<String> {
    const OURS: &str = "CLOSED BECAUSE OF OUR EXTENSION?";
    let mut found: Vec<String> =
        evidence.wire.faults().iter().map(|(side, close)| format!("{OURS} the {side} closed with {close}")).collect();
    let told = [("client", &evidence.client_facts), ("server", &evidence.server_facts)];
    for (side, facts) in told {
        let closes = facts.iter().flat_map(|facts| &facts.connections).filter_map(|c| c.close.as_ref());
        for close in closes.filter(|close| close.fault) {
            found.push(format!(
                "{OURS} the {side} says: by {}, {:#x} '{}'",
                close.by,
                close.code.unwrap_or(0),
                close.reason
            ));
        }
    }
    // Retransmissions say the same again.
    found.dedup();
    found
}

/// What the test asks for: what is known not to be so, and what nobody can tell.
#[derive(Default)]
struct Asked {
    wrong: Vec<String>,
    unseen: Vec<String>,
}

impl Asked {
    fn want(&mut self, holds: bool, otherwise: &str) {
        if !holds {
            self.wrong.push(otherwise.into());
        }
    }

    /// As [`Asked::want`], where it takes secrets to tell.
    fn want_seen<T>(&mut self, seen: Option<T>, holds: impl FnOnce(T) -> bool, otherwise: &str) {
        match seen {
            Some(seen) => self.want(holds(seen), otherwise),
            None => self.unseen.push(format!("not to be seen whether {otherwise}")),
        }
    }
}

/// 1-RTT packets of both sides could be read.
fn readable(c: &Conversation) -> Option<&Conversation> {
    let read = |side: &super::wire::Side| side.packets.iter().sum::<u64>() > side.unopened && side.acks > 0;
    (c.extensions.is_some() && read(&c.client) && read(&c.server)).then_some(c)
}

fn ask(trial: Trial, evidence: &Evidence, asked: &mut Asked) {
    let wire = &evidence.wire;
    let Some(first) = wire.connections.first() else { return };
    let last = wire.connections.last().unwrap_or(first);
    let stats = &evidence.stats;
    match trial {
        Trial::Handshake | Trial::Transfer | Trial::LongRtt | Trial::Multiplexing | Trial::MultiConnect => {}
        Trial::ChaCha20 => {
            let suite = first.server_hello.as_ref().map(|hello| hello.suite);
            asked.want_seen(suite, |suite| suite == 0x1303, "the suite is not ChaCha20");
        }
        Trial::Retry => {
            asked.want(wire.retries() > 0, "no Retry packet came");
            asked.want(first.token_after_retry, "the client brought no token after the Retry");
        }
        Trial::Resumption | Trial::ZeroRtt => {
            let resumed = last.server_hello.as_ref().map(|hello| hello.resumed);
            asked.want_seen(resumed, |resumed| resumed, "the second connection went on from nothing");
            asked.want(
                first.client_hello.as_ref().is_none_or(|hello| !hello.resumes),
                "the first connection went on from something",
            );
            if trial == Trial::ZeroRtt {
                early(last, asked);
            }
        }
        Trial::Http3 => {
            let protocol = first.extensions.as_ref().map(|e| e.protocol.as_deref());
            asked.want_seen(protocol, |protocol| protocol == Some("h3"), "the protocol is not h3");
        }
        Trial::KeyUpdate => {
            let seen = readable(first);
            asked.want_seen(seen, |c| c.client.key_updates > 0, "the client did not update keys");
            asked.want_seen(seen, |c| c.server.key_updates > 0, "the server did not follow the key update");
        }
        Trial::Ecn => {
            asked.want(wire.ect[0] > 0, "the client marked no packet");
            asked.want(wire.ect[1] > 0, "the server marked no packet");
            let seen = readable(first);
            asked.want_seen(seen, |c| c.client.acks_with_ecn > 0, "the client reported no counts");
            asked.want_seen(seen, |c| c.server.acks_with_ecn > 0, "the server reported no counts");
        }
        Trial::Blackhole => {
            asked.want(stats.cut_off > 0, "nothing was sent in the dark");
        }
        Trial::HandshakeLoss | Trial::TransferLoss => {
            asked.want(stats.up.lost + stats.down.lost > 0, "nothing was lost");
        }
        Trial::HandshakeCorruption | Trial::TransferCorruption => {
            asked.want(stats.up.corrupted + stats.down.corrupted > 0, "nothing was damaged");
        }
        Trial::RebindPort | Trial::RebindHandshake => {
            // RFC 9000 §9.3: a server validates a path that it sees a peer on anew.
            let seen = readable(first);
            asked.want_seen(seen, |c| c.server.challenges > 0, "the server did not validate the client's new port");
            asked.want_seen(seen, |c| c.client.responses > 0, "the client did not answer from its new port");
        }
    }
}

/// 0-RTT carried the requests, and was taken.
fn early(second: &Conversation, asked: &mut Asked) {
    asked.want(second.client.packets[1] > 0, "no 0-RTT packet was sent");
    let taken = second.extensions.as_ref().map(|e| e.early_data);
    asked.want_seen(taken, |taken| taken, "0-RTT was not taken");
    // As the official runner: no more in 1-RTT packets than in 0-RTT ones.
    let read = second.client.early_bytes > 0;
    let most = second.client.stream_bytes <= second.client.early_bytes;
    asked.want_seen(read.then_some(most), |most| most, "most requests went in 1-RTT packets");
}

#[cfg(test)]
mod tests;
