//! The laboratory's TLS: real handshakes whose messages have the same sizes in every run.
//!
//! The certificate uses Ed25519 because its signatures always have 64 bytes. ECDSA signatures vary
//! in length, which would change the sizes of packets. The serial number and the dates of the
//! certificate are fixed for the same reason. Servers send no session tickets unless a workload
//! resumes sessions: connections in the paper carry one request and never resume.
//!
//! Both ends run in one process and exchange no secrets, so work that only protects secrets is done
//! once. Every connection has the same key share and the same server signature, and clients do not
//! verify the signature. All messages have their usual sizes, and a short connection takes about
//! 30% less CPU time.

mod one_exchange;
mod one_signature;
mod recording;
mod sessions;

use std::sync::Arc;

use fathom_metrics::Sealed;
use parking_lot::Mutex;
use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::ring::cipher_suite::TLS13_AES_128_GCM_SHA256;
use rustls::crypto::ring::sign::any_eddsa_type;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{
    ClientConfig, DigitallySignedStruct, ServerConfig, SignatureScheme, SupportedCipherSuite,
};

use super::ALPN;
use one_exchange::OneExchange;
use one_signature::OneSignature;
use recording::recording_suite;
pub(crate) use sessions::Sessions;
use sessions::Stopped;

/// Number of tickets that a server sends on each connection: the default of rustls and OpenSSL.
const TICKETS: usize = 2;

/// A self-signed server identity, and a client configuration that trusts only this identity.
#[derive(Debug)]
pub struct Identity {
    /// Configuration of servers.
    pub server: Arc<ServerConfig>,
    /// Configuration of clients.
    pub client: Arc<ClientConfig>,
    /// Certificate of the server, for stacks that do not use rustls.
    pub(crate) certificate: CertificateDer<'static>,
    /// Private key of the server: the 32 bytes of an Ed25519 key (RFC 8032 §5.1.5).
    pub(crate) secret: [u8; 32],
    /// Sessions that connections can resume; `None` if they do not resume sessions.
    pub(crate) sessions: Option<Arc<Sessions>>,
}

/// Error when an identity is generated.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// The certificate could not be made.
    #[error("certificate: {0}")]
    Certificate(#[from] rcgen::Error),
    /// The TLS configuration is invalid.
    #[error("TLS: {0}")]
    Tls(#[from] rustls::Error),
}

impl Identity {
    /// Returns an identity with a new key and a certificate for `lab.test`.
    ///
    /// # Errors
    /// Returns an error if the cryptography library fails.
    pub fn generate() -> Result<Self, IdentityError> {
        Self::of(&TLS13_AES_128_GCM_SHA256)
    }

    /// Returns an identity like [`Identity::generate`]. Its servers also record which stream bytes
    /// their packets carry.
    ///
    /// # Errors
    /// Returns the errors of [`Identity::generate`].
    pub(crate) fn recording(sealed: &Arc<Mutex<Sealed>>) -> Result<Self, IdentityError> {
        recording_suite(sealed).map_or_else(Self::generate, |suite| Self::of(&suite))
    }

    /// Returns an identity whose servers use this cipher suite.
    fn of(suite: &SupportedCipherSuite) -> Result<Self, IdentityError> {
        let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ED25519)?;
        let mut params = rcgen::CertificateParams::new(vec!["lab.test".to_owned()])?;
        params.serial_number = Some(rcgen::SerialNumber::from(1u64));
        params.not_before = rcgen::date_time_ymd(2020, 1, 1);
        params.not_after = rcgen::date_time_ymd(2120, 1, 1);
        let certificate = params.self_signed(&key)?.der().clone();
        let key = key.serialize_der();
        let secret = secret(&key);
        let key = any_eddsa_type(&PrivatePkcs8KeyDer::from(key))?;
        let key = OneSignature::of(&*key)
            .ok_or_else(|| rustls::Error::General("the key is not an Ed25519 key".into()))?;
        let certified = CertifiedKey::new(vec![certificate.clone()], Arc::new(key));
        let provider = Arc::new(CryptoProvider {
            // One suite and one group, which most servers choose; both are fast with AES in
            // hardware. (By default, rustls takes AES-256 with SHA-384, whose key schedule alone
            // takes a tenth of the CPU time of a short connection.)
            cipher_suites: vec![TLS13_AES_128_GCM_SHA256],
            kx_groups: vec![&OneExchange],
            ..ring::default_provider()
        });

        let servers =
            CryptoProvider { cipher_suites: vec![*suite], ..CryptoProvider::clone(&provider) };
        let mut server = ServerConfig::builder_with_provider(Arc::new(servers))
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(SingleCertAndKey::from(certified)));
        server.alpn_protocols = vec![ALPN.to_vec()];
        server.send_tls13_tickets = 0;

        let pinned = Arc::new(Pinned(certificate.clone()));
        let mut client = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .dangerous()
            .with_custom_certificate_verifier(pinned)
            .with_no_client_auth();
        client.alpn_protocols = vec![ALPN.to_vec()];
        client.resumption = Resumption::disabled();
        Ok(Self {
            server: Arc::new(server),
            client: Arc::new(client),
            certificate,
            secret,
            sessions: None,
        })
    }

    /// Returns the same identity, but with sessions that later connections resume. If `early` is
    /// set, resumed connections also use early data (0-RTT).
    pub(crate) fn resuming(&self, early: bool) -> Self {
        let sessions = Arc::new(Sessions::default());
        let mut server = ServerConfig::clone(&self.server);
        server.send_tls13_tickets = TICKETS;
        server.session_storage = Arc::clone(&sessions) as _;
        // In QUIC, a ticket permits early data only with this value (RFC 9001 §4.6.1).
        server.max_early_data_size = if early { u32::MAX } else { 0 };
        server.time_provider = Arc::new(Stopped);
        let mut client = ClientConfig::clone(&self.client);
        client.resumption = Resumption::store(Arc::clone(&sessions) as _);
        client.enable_early_data = early;
        client.time_provider = Arc::new(Stopped);
        let (server, client) = (Arc::new(server), Arc::new(client));
        Self {
            server,
            client,
            certificate: self.certificate.clone(),
            secret: self.secret,
            sessions: Some(sessions),
        }
    }

    /// Returns the same identity, whose servers send this many tickets on each connection.
    pub(crate) fn with_tickets(&self, tickets: usize) -> Self {
        let mut server = ServerConfig::clone(&self.server);
        server.send_tls13_tickets = tickets;
        let (server, client, sessions) =
            (Arc::new(server), Arc::clone(&self.client), self.sessions.clone());
        Self {
            server,
            client,
            certificate: self.certificate.clone(),
            secret: self.secret,
            sessions,
        }
    }

    /// Returns whether clients that hold a ticket send requests as early data.
    pub(crate) fn early_data(&self) -> bool {
        self.client.enable_early_data
    }
}

/// Returns the private key inside the PKCS #8 file of an Ed25519 key. The key is at a fixed
/// position because the headers around it have fixed sizes (RFC 8410 §7).
fn secret(pkcs8: &[u8]) -> [u8; 32] {
    pkcs8.get(16..48).and_then(|bytes| bytes.try_into().ok()).expect("an Ed25519 key in PKCS #8")
}

/// Certificate verifier that trusts one certificate, byte for byte.
#[derive(Debug)]
struct Pinned(CertificateDer<'static>);

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        if *end_entity == self.0 {
            Ok(ServerCertVerified::assertion())
        } else {
            Err(rustls::Error::InvalidCertificate(rustls::CertificateError::UnknownIssuer))
        }
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(rustls::Error::General("QUIC cannot use TLS 1.2".into()))
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }
}
