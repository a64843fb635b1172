//! Certificate verification and session tickets of a client.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{
    ClientSessionStore, Resumption, Tls12ClientSessionValue, Tls13ClientSessionValue,
};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, NamedGroup, RootCertStore, SignatureScheme};

use crate::identity::ALPN;

/// Certificates that a client accepts.
#[derive(Clone, Debug, Default)]
pub enum Trust {
    /// Certificates that chain to the platform's root certificates.
    #[default]
    Platform,
    /// Certificates that chain to a certificate in this PEM file.
    File(PathBuf),
    /// Any certificate.
    Insecure,
}

impl Trust {
    /// Returns the certificates that the options `--ca` and `--insecure` select.
    pub fn from_options(ca: Option<&Path>, insecure: bool) -> Self {
        match ca {
            Some(file) => Self::File(file.to_owned()),
            None if insecure => Self::Insecure,
            None => Self::Platform,
        }
    }

    /// Returns a TLS 1.3 client configuration for HTTP/3 only. Secrets are logged to the file in
    /// the environment variable SSLKEYLOGFILE. Without `zero_rtt`, no session is resumed, so every
    /// handshake is a full one.
    pub(super) fn client(&self, zero_rtt: bool) -> Result<Arc<ClientConfig>, TrustError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = self.tls_config(ALPN, provider)?;
        config.enable_early_data = zero_rtt;
        config.resumption = if zero_rtt {
            Resumption::store(Arc::new(TicketStore::default()))
        } else {
            Resumption::disabled()
        };
        Ok(Arc::new(config))
    }

    /// Returns a TLS 1.3 client configuration for this protocol and cryptography provider. Secrets
    /// are logged to the file in the environment variable SSLKEYLOGFILE. Resumption and 0-RTT have
    /// rustls's defaults.
    ///
    /// # Errors
    /// Returns an error if there are no certificates to trust.
    pub fn tls_config(
        &self,
        protocol: &[u8],
        provider: Arc<CryptoProvider>,
    ) -> Result<ClientConfig, TrustError> {
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(TrustError::Tls)?;
        let builder = match self.roots()? {
            Some(roots) => builder.with_root_certificates(roots),
            None => builder
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(AcceptAnyCertificate(provider))),
        };
        let mut config = builder.with_no_client_auth();
        config.alpn_protocols = vec![protocol.to_vec()];
        config.key_log = Arc::new(rustls::KeyLogFile::new());
        Ok(config)
    }

    fn roots(&self) -> Result<Option<RootCertStore>, TrustError> {
        let mut roots = RootCertStore::empty();
        match self {
            Self::Insecure => return Ok(None),
            Self::Platform => {
                let (found, _) =
                    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
                if found == 0 {
                    return Err(TrustError::NoPlatformRoots);
                }
            }
            Self::File(path) => {
                let wrong = |why| TrustError::File { path: path.clone(), why };
                let found = CertificateDer::pem_file_iter(path)
                    .and_then(Iterator::collect::<Result<Vec<_>, _>>);
                for certificate in found.map_err(|e| wrong(e.into()))? {
                    roots.add(certificate).map_err(|e| wrong(e.into()))?;
                }
                if roots.is_empty() {
                    return Err(wrong(CertificateError::None));
                }
            }
        }
        Ok(Some(roots))
    }
}

/// Reason why a client has no certificates to trust. Each message is one line with a hint.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    /// The platform has no root certificates.
    #[error(
        "this platform has no root certificates; name a file of root certificates with --ca, or \
         accept any certificate with --insecure"
    )]
    NoPlatformRoots,
    /// The file cannot be used.
    #[error("'{}' contains no certificate in PEM: {why}; name a file that contains one", path.display())]
    File {
        /// Path of the file.
        path: PathBuf,
        /// Error of the file.
        why: CertificateError,
    },
    /// The cryptography provider does not support TLS 1.3.
    #[error(transparent)]
    Tls(rustls::Error),
}

/// Reason why a file of root certificates cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// The file cannot be read as PEM.
    #[error(transparent)]
    Pem(#[from] rustls::pki_types::pem::Error),
    /// A certificate is invalid.
    #[error(transparent)]
    Invalid(#[from] rustls::Error),
    /// The file has no certificate.
    #[error("there is none")]
    None,
}

/// A verifier that accepts any certificate. It still verifies the handshake signature.
#[derive(Debug)]
struct AcceptAnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AcceptAnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls12_signature(
            message,
            cert,
            dss,
            &self.0.signature_verification_algorithms,
        )
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls13_signature(
            message,
            cert,
            dss,
            &self.0.signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// Number of tickets kept per server; older ones are dropped. rustls's own store keeps eight per
/// server, which is too few if many connections start at once.
const TICKETS: usize = 4096;

/// Tickets of one server, each used once (RFC 8446 §C.4).
#[derive(Default)]
pub struct TicketStore {
    tickets: Mutex<VecDeque<Tls13ClientSessionValue>>,
    group: Mutex<Option<NamedGroup>>,
}

impl TicketStore {
    /// Returns whether the store holds a ticket.
    pub fn any(&self) -> bool {
        !locked(&self.tickets).is_empty()
    }
}

impl std::fmt::Debug for TicketStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Tickets")
    }
}

fn locked<T>(mutex: &Mutex<T>) -> parking_lot::MutexGuard<'_, T> {
    mutex.lock()
}

impl ClientSessionStore for TicketStore {
    fn set_kx_hint(&self, _: ServerName<'static>, group: NamedGroup) {
        *locked(&self.group) = Some(group);
    }

    fn kx_hint(&self, _: &ServerName<'_>) -> Option<NamedGroup> {
        *locked(&self.group)
    }

    // QUIC never uses TLS 1.2.
    fn set_tls12_session(&self, _: ServerName<'static>, _: Tls12ClientSessionValue) {}

    fn tls12_session(&self, _: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        None
    }

    fn remove_tls12_session(&self, _: &ServerName<'static>) {}

    fn insert_tls13_ticket(&self, _: ServerName<'static>, ticket: Tls13ClientSessionValue) {
        let mut tickets = locked(&self.tickets);
        if tickets.len() == TICKETS {
            tickets.pop_front();
        }
        tickets.push_back(ticket);
    }

    fn take_tls13_ticket(&self, _: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        locked(&self.tickets).pop_back()
    }
}
