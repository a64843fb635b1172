//! A signature that is computed once and then reused.

use rustls::sign::{Signer, SigningKey};
use rustls::{SignatureAlgorithm, SignatureScheme};

/// A signing key that returns the same signature for every message. The signature is as long as any
/// Ed25519 signature. The key works only with clients that do not verify signatures.
#[derive(Clone, Debug)]
pub(super) struct OneSignature(Vec<u8>);

impl OneSignature {
    /// Returns the signature of `key` for an empty message, or `None` if `key` does not sign with
    /// Ed25519.
    pub(super) fn of(key: &dyn SigningKey) -> Option<Self> {
        key.choose_scheme(&[SignatureScheme::ED25519])?.sign(&[]).ok().map(Self)
    }
}

impl SigningKey for OneSignature {
    fn choose_scheme(&self, offered: &[SignatureScheme]) -> Option<Box<dyn Signer>> {
        offered.contains(&SignatureScheme::ED25519).then(|| Box::new(self.clone()) as _)
    }

    fn algorithm(&self) -> SignatureAlgorithm {
        SignatureAlgorithm::ED25519
    }
}

impl Signer for OneSignature {
    fn sign(&self, _: &[u8]) -> Result<Vec<u8>, rustls::Error> {
        Ok(self.0.clone())
    }

    fn scheme(&self) -> SignatureScheme {
        SignatureScheme::ED25519
    }
}

#[cfg(test)]
mod tests {
    use rustls::crypto::ring::sign::any_eddsa_type;
    use rustls::pki_types::PrivatePkcs8KeyDer;

    use super::*;

    #[test]
    fn simulated_signatures_are_constant_and_have_real_length() {
        let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ED25519).unwrap().serialize_der();
        let real = any_eddsa_type(&PrivatePkcs8KeyDer::from(key)).unwrap();
        let one = OneSignature::of(&*real).unwrap();
        let sign = |key: &dyn SigningKey, message| {
            key.choose_scheme(&[SignatureScheme::ED25519]).unwrap().sign(message).unwrap()
        };
        assert_eq!(sign(&one, b"a"), sign(&one, b"b"));
        assert_eq!(sign(&one, b"a").len(), sign(&*real, b"a").len());
        assert!(one.choose_scheme(&[SignatureScheme::ECDSA_NISTP256_SHA256]).is_none());
    }
}
