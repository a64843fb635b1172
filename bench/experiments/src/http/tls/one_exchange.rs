//! A key exchange that is computed once and then reused.

use std::sync::LazyLock;

use rustls::crypto::ring::kx_group::X25519;
use rustls::crypto::{ActiveKeyExchange, SharedSecret, SupportedKxGroup};
use rustls::{NamedGroup, PeerMisbehaved};

/// X25519 with the same key pair on both ends of every connection.
#[derive(Debug)]
pub(super) struct OneExchange;

/// A public key, and the secret that the key pair shares with itself.
type Halves = (Vec<u8>, Vec<u8>);

/// Public half of the only key pair, and the secret that this key pair shares with itself.
static SHARED: LazyLock<Result<Halves, rustls::Error>> = LazyLock::new(|| {
    let key = X25519.start()?;
    let public = key.pub_key().to_vec();
    let secret = key.complete(&public)?;
    Ok((public, secret.secret_bytes().to_vec()))
});

impl SupportedKxGroup for OneExchange {
    fn start(&self) -> Result<Box<dyn ActiveKeyExchange>, rustls::Error> {
        let (public, secret) = SHARED.as_ref().map_err(Clone::clone)?;
        Ok(Box::new(Shared { public, secret }))
    }

    fn name(&self) -> NamedGroup {
        NamedGroup::X25519
    }
}

struct Shared {
    public: &'static [u8],
    secret: &'static [u8],
}

impl ActiveKeyExchange for Shared {
    fn complete(self: Box<Self>, peer: &[u8]) -> Result<SharedSecret, rustls::Error> {
        if peer == self.public {
            Ok(self.secret.into())
        } else {
            Err(PeerMisbehaved::InvalidKeyShare.into())
        }
    }

    fn pub_key(&self) -> &[u8] {
        self.public
    }

    fn group(&self) -> NamedGroup {
        NamedGroup::X25519
    }
}
