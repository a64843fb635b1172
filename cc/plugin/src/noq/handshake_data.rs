//! noq's own `HandshakeData`, filled with our values.
//!
//! Applications call `Connection::handshake_data` to learn the protocol, and downcast the result to
//! noq's type. This type is `#[non_exhaustive]`, so code outside noq can change a value but cannot
//! create one. One of noq's own sessions therefore provides an instance on demand. This session
//! reads one ClientHello and does not continue the handshake. It is created on first use, once per
//! process, and takes the CPU time of half a handshake.

use std::any::Any;
use std::sync::{Arc, LazyLock};

use noq::crypto::rustls::{HandshakeData, QuicClientConfig, QuicServerConfig};
use noq::crypto::{ClientConfig as _, ServerConfig as _, Session};
use noq_proto::Side;
use noq_proto::transport_parameters::TransportParameters;
use rustls::pki_types::CertificateDer;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::{CertifiedKey, Signer, SigningKey};
use rustls::{SignatureAlgorithm, SignatureScheme};

#[cfg(all(feature = "aws-lc-rs", not(feature = "ring")))]
use rustls::crypto::aws_lc_rs as provider;
#[cfg(feature = "ring")]
use rustls::crypto::ring as provider;

static SESSION: LazyLock<Option<Box<dyn Session>>> = LazyLock::new(session_after_client_hello);

/// Converts our handshake data to noq's type. Returns our type only if noq's session failed to read
/// its own ClientHello, which a test rules out.
pub(crate) fn to_noq(ours: crate::HandshakeData) -> Box<dyn Any> {
    let empty = SESSION
        .as_ref()
        .and_then(|session| session.handshake_data()?.downcast::<HandshakeData>().ok());
    let Some(mut data) = empty else { return Box::new(ours) };
    data.protocol = ours.protocol;
    data.server_name = ours.server_name;
    data.negotiated_key_exchange_group = ours.group;
    data
}

/// Returns a server's session that has read a ClientHello. The client that sent it exists only in
/// this function.
fn session_after_client_hello() -> Option<Box<dyn Session>> {
    let provider = Arc::new(provider::default_provider());
    let tls13 = &[&rustls::version::TLS13];
    let parameters = TransportParameters::read(Side::Client, &mut &[][..]).ok()?;

    let client = rustls::ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(tls13)
        .ok()?
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth();
    let mut client = QuicClientConfig::try_from(client)
        .ok()?
        .start_session(1, "nobody.invalid", &parameters)
        .ok()?;
    let mut hello = Vec::new();
    client.write_handshake(&mut hello);

    let server = rustls::ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(tls13)
        .ok()?
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(NoIdentity));
    let mut server = QuicServerConfig::try_from(server).ok()?.start_session(1, &parameters);
    server.read_handshake(&hello).ok()?.then_some(server)
}

/// Identity without a certificate or a key; its signatures are never sent.
#[derive(Debug)]
struct NoIdentity;

impl ResolvesServerCert for NoIdentity {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::new(CertifiedKey::new(vec![CertificateDer::from(Vec::new())], Arc::new(Self))))
    }
}

impl SigningKey for NoIdentity {
    fn choose_scheme(&self, _: &[SignatureScheme]) -> Option<Box<dyn Signer>> {
        Some(Box::new(Self))
    }

    fn algorithm(&self) -> SignatureAlgorithm {
        SignatureAlgorithm::ED25519
    }
}

impl Signer for NoIdentity {
    fn sign(&self, _: &[u8]) -> Result<Vec<u8>, rustls::Error> {
        Ok(Vec::new())
    }

    fn scheme(&self) -> SignatureScheme {
        SignatureScheme::ED25519
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handshake_data_are_converted_to_the_type_of_noq() {
        for name in ["h3", "other"] {
            let data = to_noq(crate::HandshakeData {
                protocol: Some(name.as_bytes().to_vec()),
                server_name: None,
                group: Some(rustls::NamedGroup::X25519),
            });
            let data = data.downcast::<HandshakeData>().expect("noq's type");
            assert_eq!(data.protocol.as_deref(), Some(name.as_bytes()));
            assert_eq!(data.server_name, None);
            assert_eq!(data.negotiated_key_exchange_group, Some(rustls::NamedGroup::X25519));
        }
    }
}
