//! Everything that s2n-quic draws at random, seeded.

use std::convert::Infallible;

use rand::{Rng as _, SeedableRng as _};
use rand_pcg::Pcg64;
use s2n_quic::provider::{connection_id, random, stateless_reset_token};
use s2n_quic_core::connection::LocalId;
use s2n_quic_core::connection::id::ConnectionInfo;
use s2n_quic_core::stateless_reset::{Token, token};

/// Length of connection IDs, as quinn's.
const CID: usize = 8;

/// Random bits for one of the purposes.
pub(super) struct Random(Pcg64);

impl Random {
    /// Of an endpoint's seed; `part` tells its generators apart.
    pub(super) fn new(mut seed: [u8; 32], part: u8) -> Self {
        seed[10] ^= part;
        Self(Pcg64::from_seed(seed))
    }

    fn bytes<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        self.0.fill_bytes(&mut bytes);
        bytes
    }
}

impl random::Generator for Random {
    fn public_random_fill(&mut self, dest: &mut [u8]) {
        self.0.fill_bytes(dest);
    }

    fn private_random_fill(&mut self, dest: &mut [u8]) {
        self.0.fill_bytes(dest);
    }
}

impl random::Provider for Random {
    type Generator = Self;
    type Error = Infallible;

    fn start(self) -> Result<Self, Infallible> {
        Ok(self)
    }
}

impl connection_id::Generator for Random {
    fn generate(&mut self, _: &ConnectionInfo<'_>) -> LocalId {
        LocalId::try_from_bytes(&self.bytes::<CID>()).expect("a length that QUIC allows")
    }
}

impl connection_id::Validator for Random {
    fn validate(&self, _: &ConnectionInfo<'_>, buffer: &[u8]) -> Option<usize> {
        (buffer.len() >= CID).then_some(CID)
    }
}

impl token::Generator for Random {
    // As s2n-quic has it by default: a token nobody can make again is never sent.
    const ENABLED: bool = false;

    fn generate(&mut self, _: &[u8]) -> Token {
        Token::from(self.bytes())
    }
}

impl stateless_reset_token::Provider for Random {
    type Generator = Self;
    type Error = Infallible;

    fn start(self) -> Result<Self, Infallible> {
        Ok(self)
    }
}
