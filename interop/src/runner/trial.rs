//! The tests: files, link, time. Figures are the quic-interop-runner's, but where it takes minutes for what seconds show.

use std::time::Duration;

use fathom_bench::link::QueueSpec;
use fathom_bench::relay::{Fault, LineSpec, RelaySpec};
use fathom_cc::Rate;

use crate::endpoint::Case;

const KB: u64 = 1_000;
const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// A test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Trial {
    /// One small file.
    Handshake,
    /// 10 MiB in three files at once.
    Transfer,
    /// A handshake over 1.5 s.
    LongRtt,
    /// ChaCha20 only.
    ChaCha20,
    /// Two thousand files on one connection.
    Multiplexing,
    /// Retry.
    Retry,
    /// A second connection goes on from the first.
    Resumption,
    /// 0-RTT.
    ZeroRtt,
    /// HTTP/3.
    Http3,
    /// The link goes dark.
    Blackhole,
    /// Key update.
    KeyUpdate,
    /// ECN.
    Ecn,
    /// A connection for each file.
    MultiConnect,
    /// Handshakes under loss.
    HandshakeLoss,
    /// A transfer under loss.
    TransferLoss,
    /// Handshakes under damage.
    HandshakeCorruption,
    /// A transfer under damage.
    TransferCorruption,
    /// The server sees the client at other ports.
    RebindPort,
    /// The server sees the client at another port right after the handshake.
    RebindHandshake,
}

impl Trial {
    /// All, in the order of the official table.
    pub const ALL: [Self; 19] = [
        Self::Handshake,
        Self::Transfer,
        Self::LongRtt,
        Self::ChaCha20,
        Self::Multiplexing,
        Self::Retry,
        Self::Resumption,
        Self::ZeroRtt,
        Self::Http3,
        Self::Blackhole,
        Self::KeyUpdate,
        Self::Ecn,
        Self::MultiConnect,
        Self::HandshakeLoss,
        Self::TransferLoss,
        Self::HandshakeCorruption,
        Self::TransferCorruption,
        Self::RebindPort,
        Self::RebindHandshake,
    ];

    /// Name and letters, as the official runner has them; `multiconnect` by itself and `rebind-handshake` it has not.
    pub const fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::Handshake => ("handshake", "H"),
            Self::Transfer => ("transfer", "DC"),
            Self::LongRtt => ("longrtt", "LR"),
            Self::ChaCha20 => ("chacha20", "C20"),
            Self::Multiplexing => ("multiplexing", "M"),
            Self::Retry => ("retry", "S"),
            Self::Resumption => ("resumption", "R"),
            Self::ZeroRtt => ("zerortt", "Z"),
            Self::Http3 => ("http3", "3"),
            Self::Blackhole => ("blackhole", "B"),
            Self::KeyUpdate => ("keyupdate", "U"),
            Self::Ecn => ("ecn", "E"),
            Self::MultiConnect => ("multiconnect", "MC"),
            Self::HandshakeLoss => ("handshakeloss", "L1"),
            Self::TransferLoss => ("transferloss", "L2"),
            Self::HandshakeCorruption => ("handshakecorruption", "C1"),
            Self::TransferCorruption => ("transfercorruption", "C2"),
            Self::RebindPort => ("rebind-port", "BP"),
            Self::RebindHandshake => ("rebind-handshake", "BH"),
        }
    }

    /// Its name.
    pub const fn name(self) -> &'static str {
        self.names().0
    }

    /// Its letters.
    pub const fn letters(self) -> &'static str {
        self.names().1
    }

    /// The one of this name.
    ///
    /// # Errors
    /// There is none; the message names all.
    pub fn named(name: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|trial| trial.name() == name).ok_or_else(|| {
            let all = Self::ALL.map(Self::name).join(", ");
            format!("'{}' is no test; write one of {all}", name.escape_debug())
        })
    }

    /// What endpoints are told.
    pub const fn case(self) -> Case {
        match self {
            Self::Handshake => Case::Handshake,
            Self::LongRtt => Case::LongRtt,
            Self::ChaCha20 => Case::ChaCha20,
            Self::Retry => Case::Retry,
            Self::Resumption => Case::Resumption,
            Self::ZeroRtt => Case::ZeroRtt,
            Self::Http3 => Case::Http3,
            Self::KeyUpdate => Case::KeyUpdate,
            Self::Ecn => Case::Ecn,
            Self::MultiConnect | Self::HandshakeLoss | Self::HandshakeCorruption => Case::MultiConnect,
            Self::Transfer
            | Self::Multiplexing
            | Self::Blackhole
            | Self::TransferLoss
            | Self::TransferCorruption
            | Self::RebindPort
            | Self::RebindHandshake => Case::Transfer,
        }
    }

    /// Sizes of the files, and how long their names are.
    pub fn files(self) -> (Vec<u64>, usize) {
        match self {
            Self::Handshake | Self::LongRtt | Self::Retry => (vec![KIB], 10),
            Self::Transfer => (vec![2 * MIB, 3 * MIB, 5 * MIB], 10),
            Self::ChaCha20 | Self::KeyUpdate => (vec![3 * MIB], 10),
            Self::Multiplexing => (vec![32; 1_999], 6),
            Self::Resumption => (vec![5 * KIB, 10 * KIB], 10),
            // Long names: requests that do not fit into the first 0-RTT packet show.
            Self::ZeroRtt => (vec![32; 40], 250),
            Self::Http3 => (vec![5 * KIB, 10 * KIB, 500 * KIB], 10),
            Self::Blackhole | Self::RebindPort => (vec![10 * MIB], 10),
            Self::Ecn => (vec![100 * KB], 10),
            Self::MultiConnect => (vec![KIB; 10], 10),
            // The official runner makes fifty; each takes seconds.
            Self::HandshakeLoss | Self::HandshakeCorruption => (vec![KIB; 10], 10),
            Self::TransferLoss | Self::TransferCorruption | Self::RebindHandshake => (vec![2 * MIB], 10),
        }
    }

    /// Connections that the client makes.
    pub fn connections(self) -> usize {
        match self.case() {
            Case::MultiConnect => self.files().0.len(),
            Case::Resumption | Case::ZeroRtt => 2,
            _ => 1,
        }
    }

    /// What happens to datagrams.
    pub fn link(self, seed: u64) -> RelaySpec {
        let line = LineSpec {
            link: Some((RATE, QUEUE)),
            delay: if self == Self::LongRtt { Duration::from_millis(750) } else { DELAY },
            ..LineSpec::default()
        };
        let line = match self {
            Self::HandshakeLoss => LineSpec { loss: 0.3, in_a_row: Some(3), ..line },
            Self::TransferLoss => LineSpec { loss: 0.02, in_a_row: Some(3), ..line },
            Self::HandshakeCorruption => LineSpec { corrupt: 0.3, in_a_row: Some(3), ..line },
            Self::TransferCorruption => LineSpec { corrupt: 0.02, in_a_row: Some(3), ..line },
            _ => line,
        };
        let seconds = |n: u64| Duration::from_secs(n);
        let faults = match self {
            // Five seconds of light, two of darkness.
            Self::Blackhole => (0..12).map(|n| Fault::Blackout { at: seconds(5 + 7 * n), lasts: seconds(2) }).collect(),
            // First after a second, then every five.
            Self::RebindPort => (0..12).map(|n| Fault::Rebind { at: seconds(1 + 5 * n) }).collect(),
            Self::RebindHandshake => vec![Fault::RebindAfterHandshake],
            _ => Vec::new(),
        };
        RelaySpec { down: line, up: line, faults, seed }
    }

    /// How long the client may take.
    pub const fn patience(self) -> Duration {
        Duration::from_secs(match self {
            Self::HandshakeLoss | Self::HandshakeCorruption => 240,
            Self::Blackhole | Self::RebindPort | Self::TransferLoss | Self::TransferCorruption => 90,
            _ => 60,
        })
    }
}

/// The official runner's link: 10 Mbps, 15 ms, 25 packets.
pub const RATE: Rate = Rate::from_bits_per_sec(10_000_000);
/// See [`RATE`].
pub const DELAY: Duration = Duration::from_millis(15);
/// See [`RATE`].
pub const QUEUE: QueueSpec = QueueSpec::droptail_packets(25);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_found_by_their_names_and_letters_differ() {
        for trial in Trial::ALL {
            assert_eq!(Trial::named(trial.name()), Ok(trial));
            assert_eq!(Trial::ALL.iter().filter(|other| other.letters() == trial.letters()).count(), 1);
        }
        assert!(Trial::named("flood").unwrap_err().contains("handshake, transfer"));
    }
}
