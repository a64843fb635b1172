//! The test cases, with their files, links and timeouts. The parameters are the
//! quic-interop-runner's, unless seconds suffice instead of minutes.

use std::time::Duration;

use fathom_cc::{Invalid, Rate};
use fathom_netsim::path::{DirectedPath, Impairments, Loss, PathEvent};
use fathom_netsim::queue::QueueSpec;
use fathom_netsim::relay::RelaySpec;
use strum::VariantArray as _;

use crate::endpoint::TestName;

const KB: u64 = 1_000;
const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// A test case of the runner, in the order of the official table. This table does not have
/// `rebind-handshake` or a separate `multiconnect`.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    strum::AsRefStr,
    strum::Display,
    strum::EnumString,
    strum::VariantArray,
)]
#[strum(serialize_all = "lowercase", parse_err_ty = Invalid, parse_err_fn = unknown)]
pub enum TestCase {
    /// A handshake and one small file.
    Handshake,
    /// A transfer of 10 MiB in three concurrent files.
    Transfer,
    /// A handshake with a round-trip time of 1.5 s.
    LongRtt,
    /// A transfer with only ChaCha20 enabled.
    ChaCha20,
    /// A transfer of about two thousand files on one connection.
    Multiplexing,
    /// A transfer after a Retry.
    Retry,
    /// A second connection, which resumes the session of the first one.
    Resumption,
    /// A second connection with requests in 0-RTT packets.
    ZeroRtt,
    /// A transfer over HTTP/3.
    Http3,
    /// A transfer with blackouts of the link.
    Blackhole,
    /// A transfer with a key update.
    KeyUpdate,
    /// A transfer with ECN.
    Ecn,
    /// A transfer with a separate connection for each file.
    MultiConnect,
    /// Handshakes under loss.
    HandshakeLoss,
    /// A transfer under loss.
    TransferLoss,
    /// Handshakes with corrupted datagrams.
    HandshakeCorruption,
    /// A transfer with corrupted datagrams.
    TransferCorruption,
    /// A transfer during which the client's port changes several times (NAT rebinding).
    #[strum(serialize = "rebind-port")]
    RebindPort,
    /// A transfer in which the client's port changes right after the handshake (NAT rebinding).
    #[strum(serialize = "rebind-handshake")]
    RebindHandshake,
}

fn unknown(name: &str) -> Invalid {
    let all = TestCase::VARIANTS
        .iter()
        .map(|test_case| test_case.as_ref())
        .collect::<Vec<_>>()
        .join(", ");
    Invalid::value(name, "is not a test case").hint(format!("choose one of {all}"))
}

impl TestCase {
    /// Returns the abbreviation in the result table, as in the official runner.
    pub const fn abbreviation(self) -> &'static str {
        match self {
            Self::Handshake => "H",
            Self::Transfer => "DC",
            Self::LongRtt => "LR",
            Self::ChaCha20 => "C20",
            Self::Multiplexing => "M",
            Self::Retry => "S",
            Self::Resumption => "R",
            Self::ZeroRtt => "Z",
            Self::Http3 => "3",
            Self::Blackhole => "B",
            Self::KeyUpdate => "U",
            Self::Ecn => "E",
            Self::MultiConnect => "MC",
            Self::HandshakeLoss => "L1",
            Self::TransferLoss => "L2",
            Self::HandshakeCorruption => "C1",
            Self::TransferCorruption => "C2",
            Self::RebindPort => "BP",
            Self::RebindHandshake => "BH",
        }
    }

    /// Returns the value of TESTCASE for the endpoints. Several test cases share one value.
    pub const fn test_name(self) -> TestName {
        match self {
            Self::Handshake => TestName::Handshake,
            Self::LongRtt => TestName::LongRtt,
            Self::ChaCha20 => TestName::ChaCha20,
            Self::Retry => TestName::Retry,
            Self::Resumption => TestName::Resumption,
            Self::ZeroRtt => TestName::ZeroRtt,
            Self::Http3 => TestName::Http3,
            Self::KeyUpdate => TestName::KeyUpdate,
            Self::Ecn => TestName::Ecn,
            Self::MultiConnect | Self::HandshakeLoss | Self::HandshakeCorruption => {
                TestName::MultiConnect
            }
            Self::Transfer
            | Self::Multiplexing
            | Self::Blackhole
            | Self::TransferLoss
            | Self::TransferCorruption
            | Self::RebindPort
            | Self::RebindHandshake => TestName::Transfer,
        }
    }

    /// Returns the sizes of the files in bytes and the length of their names.
    pub fn files(self) -> (Vec<u64>, usize) {
        match self {
            Self::Handshake | Self::LongRtt | Self::Retry => (vec![KIB], 10),
            Self::Transfer => (vec![2 * MIB, 3 * MIB, 5 * MIB], 10),
            Self::ChaCha20 | Self::KeyUpdate => (vec![3 * MIB], 10),
            Self::Multiplexing => (vec![32; 1_999], 6),
            Self::Resumption => (vec![5 * KIB, 10 * KIB], 10),
            // Because of the long names, the requests need more than one 0-RTT packet.
            Self::ZeroRtt => (vec![32; 40], 250),
            Self::Http3 => (vec![5 * KIB, 10 * KIB, 500 * KIB], 10),
            Self::Blackhole | Self::RebindPort => (vec![10 * MIB], 10),
            Self::Ecn => (vec![100 * KB], 10),
            Self::MultiConnect => (vec![KIB; 10], 10),
            // The official runner uses fifty files, each of which takes seconds.
            Self::HandshakeLoss | Self::HandshakeCorruption => (vec![KIB; 10], 10),
            Self::TransferLoss | Self::TransferCorruption | Self::RebindHandshake => {
                (vec![2 * MIB], 10)
            }
        }
    }

    /// Returns the number of connections that the client makes.
    pub fn connections(self) -> usize {
        match self.test_name() {
            TestName::MultiConnect => self.files().0.len(),
            TestName::Resumption | TestName::ZeroRtt => 2,
            _ => 1,
        }
    }

    /// Returns the emulated link.
    pub fn link(self, seed: u64) -> RelaySpec {
        // At most three consecutive packets are affected, as in the official runner's simulator.
        let bad = |loss, corrupt| Impairments {
            loss: Loss::Random(loss),
            corrupt,
            in_a_row: Some(3),
            ..Impairments::default()
        };
        let impairments = match self {
            Self::HandshakeLoss => bad(0.3, 0.0),
            Self::TransferLoss => bad(0.02, 0.0),
            Self::HandshakeCorruption => bad(0.0, 0.3),
            Self::TransferCorruption => bad(0.0, 0.02),
            _ => Impairments::default(),
        };
        let line = DirectedPath {
            link: Some((RATE.into(), QUEUE)),
            delay: if self == Self::LongRtt { Duration::from_millis(750) } else { DELAY },
            impairments,
        };
        let seconds = |n: u64| Duration::from_secs(n);
        let events = match self {
            // After every five seconds, the link is blacked out for two seconds.
            Self::Blackhole => {
                vec![PathEvent::Blackout {
                    at: seconds(5),
                    lasts: seconds(2),
                    every: Some(seconds(7)),
                }]
            }
            // The port changes after 1 s, and then every 5 s.
            Self::RebindPort => {
                (0..12).map(|n| PathEvent::Rebind { at: seconds(1 + 5 * n) }).collect()
            }
            Self::RebindHandshake => vec![PathEvent::RebindAfterHandshake],
            _ => Vec::new(),
        };
        RelaySpec { down: line.clone(), up: line, events, seed }
    }

    /// Returns the time limit for the client.
    pub const fn timeout(self) -> Duration {
        Duration::from_secs(match self {
            Self::HandshakeLoss | Self::HandshakeCorruption => 240,
            Self::Blackhole | Self::RebindPort | Self::TransferLoss | Self::TransferCorruption => {
                90
            }
            _ => 60,
        })
    }
}

/// Rate of the official runner's link.
pub const RATE: Rate = Rate::from_bits_per_sec(10_000_000);
/// One-way delay of the official runner's link.
pub const DELAY: Duration = Duration::from_millis(15);
/// Queue of the official runner's link.
pub const QUEUE: QueueSpec = QueueSpec::droptail_packets(25);

#[cfg(test)]
mod tests {
    use std::str::FromStr as _;

    use super::*;

    #[test]
    fn test_case_names_parse_and_abbreviations_are_unique() {
        for test_case in TestCase::VARIANTS {
            assert_eq!(test_case.as_ref().parse(), Ok(*test_case));
            assert_eq!(
                TestCase::VARIANTS
                    .iter()
                    .filter(|other| other.abbreviation() == test_case.abbreviation())
                    .count(),
                1
            );
        }
        assert!(TestCase::from_str("flood").unwrap_err().hint.contains("handshake, transfer"));
    }
}
