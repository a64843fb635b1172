//! Crypto provider that seals like ring until it is switched to fail. It never seals packets of
//! other paths.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustls::crypto::{CipherSuiteCommon, CryptoProvider};
use rustls::quic::{Algorithm, HeaderProtectionKey, PacketKey, Tag};
use rustls::{CipherSuite, Error, SupportedCipherSuite, Tls13CipherSuite};

/// Switch that makes the provider fail from the time at which it is set.
pub type Switch = Arc<AtomicBool>;

struct Failing {
    switch: Switch,
    inner: &'static dyn Algorithm,
}

impl Algorithm for Failing {
    fn packet_key(
        &self,
        key: rustls::crypto::cipher::AeadKey,
        iv: rustls::crypto::cipher::Iv,
    ) -> Box<dyn PacketKey> {
        Box::new(Key { switch: Arc::clone(&self.switch), inner: self.inner.packet_key(key, iv) })
    }

    fn header_protection_key(
        &self,
        key: rustls::crypto::cipher::AeadKey,
    ) -> Box<dyn HeaderProtectionKey> {
        self.inner.header_protection_key(key)
    }

    fn aead_key_len(&self) -> usize {
        self.inner.aead_key_len()
    }
}

struct Key {
    switch: Switch,
    inner: Box<dyn PacketKey>,
}

impl PacketKey for Key {
    fn encrypt_in_place(
        &self,
        number: u64,
        header: &[u8],
        payload: &mut [u8],
    ) -> Result<Tag, Error> {
        if self.switch.load(Ordering::Relaxed) {
            return Err(Error::EncryptError);
        }
        self.inner.encrypt_in_place(number, header, payload)
    }

    fn decrypt_in_place<'a>(
        &self,
        number: u64,
        header: &[u8],
        payload: &'a mut [u8],
    ) -> Result<&'a [u8], Error> {
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

/// Returns a provider with only ring's TLS 1.3 suite of this name, and with these keys for QUIC.
fn only(
    suite: CipherSuite,
    quic: impl FnOnce(&'static dyn Algorithm) -> Option<&'static dyn Algorithm>,
) -> CryptoProvider {
    let mut provider = rustls::crypto::ring::default_provider();
    provider.cipher_suites.retain(|s| s.suite() == suite);
    let stock = provider.cipher_suites[0].tls13().expect("a TLS 1.3 suite");
    let made = Tls13CipherSuite {
        common: CipherSuiteCommon {
            suite,
            hash_provider: stock.common.hash_provider,
            confidentiality_limit: stock.common.confidentiality_limit,
        },
        hkdf_provider: stock.hkdf_provider,
        aead_alg: stock.aead_alg,
        quic: quic(stock.quic.expect("a suite for QUIC")),
    };
    provider.cipher_suites = vec![SupportedCipherSuite::Tls13(Box::leak(Box::new(made)))];
    provider
}

/// Returns a provider with only this suite, and the switch that makes it fail.
pub fn provider(suite: CipherSuite) -> (Arc<CryptoProvider>, Switch) {
    let switch = Switch::default();
    let fails = Arc::clone(&switch);
    let provider = only(suite, |inner| Some(Box::leak(Box::new(Failing { switch: fails, inner }))));
    (Arc::new(provider), switch)
}

/// Returns a provider that supports TLS 1.3 but not QUIC.
pub fn without_quic() -> Arc<CryptoProvider> {
    Arc::new(only(CipherSuite::TLS13_AES_128_GCM_SHA256, |_| None))
}

/// Returns ring's suite for Initial packets.
pub fn initial() -> rustls::quic::Suite {
    let provider = rustls::crypto::ring::default_provider();
    let found =
        provider.cipher_suites.iter().find(|s| s.suite() == CipherSuite::TLS13_AES_128_GCM_SHA256);
    found.and_then(|s| s.tls13()?.quic_suite()).expect("ring has it")
}
