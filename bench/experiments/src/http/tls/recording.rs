//! A cipher suite whose keys record which stream bytes they encrypt.

use std::sync::Arc;

use parking_lot::Mutex;
use rustls::crypto::cipher::{AeadKey, Iv};
use rustls::crypto::ring::cipher_suite::TLS13_AES_128_GCM_SHA256;
use rustls::quic::{Algorithm, HeaderProtectionKey, PacketKey, Tag};
use rustls::{CipherSuiteCommon, SupportedCipherSuite, Tls13CipherSuite};

use fathom_metrics::{Sealed, pieces};

/// Returns the cipher suite with keys that record what they encrypt in `sealed`. rustls needs
/// suites with a static lifetime, so each call leaks a few bytes.
pub(super) fn recording_suite(sealed: &Arc<Mutex<Sealed>>) -> Option<SupportedCipherSuite> {
    let Tls13CipherSuite { common, hkdf_provider, aead_alg, quic, .. } =
        TLS13_AES_128_GCM_SHA256.tls13()?;
    let algorithm = Box::leak(Box::new(Recording { inner: (*quic)?, sealed: Arc::clone(sealed) }));
    let common = CipherSuiteCommon {
        suite: common.suite,
        hash_provider: common.hash_provider,
        confidentiality_limit: common.confidentiality_limit,
    };
    let (hkdf_provider, aead_alg) = (*hkdf_provider, *aead_alg);
    let suite = Tls13CipherSuite { common, hkdf_provider, aead_alg, quic: Some(algorithm) };
    Some(SupportedCipherSuite::Tls13(Box::leak(Box::new(suite))))
}

/// A QUIC algorithm, or one of its keys, that records what is encrypted.
struct Recording<T> {
    inner: T,
    sealed: Arc<Mutex<Sealed>>,
}

impl Algorithm for Recording<&'static dyn Algorithm> {
    fn packet_key(&self, key: AeadKey, iv: Iv) -> Box<dyn PacketKey> {
        Box::new(Recording {
            inner: self.inner.packet_key(key, iv),
            sealed: Arc::clone(&self.sealed),
        })
    }

    fn header_protection_key(&self, key: AeadKey) -> Box<dyn HeaderProtectionKey> {
        self.inner.header_protection_key(key)
    }

    fn aead_key_len(&self) -> usize {
        self.inner.aead_key_len()
    }
}

impl PacketKey for Recording<Box<dyn PacketKey>> {
    fn encrypt_in_place(
        &self,
        number: u64,
        header: &[u8],
        payload: &mut [u8],
    ) -> Result<Tag, rustls::Error> {
        let pieces = pieces(payload);
        let tag = self.inner.encrypt_in_place(number, header, payload)?;
        self.sealed.lock().note(tag.as_ref(), pieces);
        Ok(tag)
    }

    fn decrypt_in_place<'a>(
        &self,
        number: u64,
        header: &[u8],
        payload: &'a mut [u8],
    ) -> Result<&'a [u8], rustls::Error> {
        self.inner.decrypt_in_place(number, header, payload)
    }

    fn tag_len(&self) -> usize {
        self.inner.tag_len()
    }

    fn confidentiality_limit(&self) -> u64 {
        self.inner.confidentiality_limit()
    }

    fn integrity_limit(&self) -> u64 {
        self.inner.integrity_limit()
    }
}
