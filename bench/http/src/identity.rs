//! A server's certificate and key.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base64::Engine;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WantsServerCert;
use rustls::{ConfigBuilder, ServerConfig};

use crate::regular_file;

/// HTTP/3's ALPN token (RFC 9114 §3.1).
pub const ALPN: &[u8] = b"h3";

/// Number of session tickets that a server remembers. Each takes less than a kilobyte.
const TICKETS: usize = 16_384;

/// Maximum size in bytes of a file with certificates or a key. Typical chains have about ten
/// thousand bytes.
const MOST: u64 = 1 << 20;

/// Reason why a server has no certificate and key. Each message is one line with a hint.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// A file cannot be parsed, or does not hold PEM of this kind.
    #[error("'{path}' contains no {what} in PEM: {why}; name a file that contains one", path = path.display())]
    File {
        /// Path of the file.
        path: PathBuf,
        /// Expected contents.
        what: &'static str,
        /// Reason why the contents are wrong.
        why: String,
    },
    /// A file cannot be read.
    #[error("the {what} '{path}' cannot be read: {why}; name a file that the server's user may read", path = path.display())]
    Unreadable {
        /// Path of the file.
        path: PathBuf,
        /// Expected contents.
        what: &'static str,
        /// Error of the system.
        why: std::io::Error,
    },
    /// The files could not be read within this time.
    #[error(
        "'{path}' and its key cannot be read within {limit:?} because the disk does not respond; \
         fathom loads the files when the disk responds again", path = .0.display(), limit = .1)]
    Stalled(PathBuf, std::time::Duration),
    /// The key is encrypted with a password, which nobody can type when a server starts.
    #[error("the private key '{}' is encrypted; decrypt it first: openssl pkey -in KEY -out PLAIN", .0.display())]
    Encrypted(PathBuf),
    /// rustls rejects the certificate or key.
    #[error("certificate and key do not match: {0}; name the private key of this certificate")]
    Mismatch(rustls::Error),
    /// BoringSSL, which quiche uses, rejects the certificate or key.
    #[error(
        "BoringSSL rejects the certificate or key: {0}; use another certificate and key, or \
        another stack"
    )]
    BoringSsl(String),
    /// No certificate could be generated.
    #[error("cannot generate a certificate: {0}")]
    Generate(#[from] rcgen::Error),
}

impl IdentityError {
    /// Returns an error of BoringSSL as one line.
    #[cfg(feature = "quiche")]
    pub(crate) fn boring_error(why: &dyn std::fmt::Display) -> Self {
        // An error stack has one line per error.
        Self::BoringSsl(why.to_string().trim().replace('\n', "; "))
    }
}

/// Returns whether a PEM file's key is encrypted with a password (RFC 7468 §11, and the older form
/// with a header).
fn is_encrypted(pem: &[u8]) -> bool {
    let text = String::from_utf8_lossy(pem);
    text.contains("BEGIN ENCRYPTED PRIVATE KEY") || text.contains("Proc-Type: 4,ENCRYPTED")
}

/// A certificate chain and its key.
#[derive(Debug)]
pub struct Identity {
    pub(crate) chain: Vec<CertificateDer<'static>>,
    pub(crate) key: PrivateKeyDer<'static>,
    /// Public key of the leaf certificate, in the encoding of the certificate; `None` unless the
    /// certificate was generated here.
    public_key: Option<Vec<u8>>,
}

impl Identity {
    /// Reads a chain and a key from PEM files.
    ///
    /// # Errors
    /// Returns an error if a file cannot be read or has other contents.
    pub fn read(certificates: &Path, key: &Path) -> Result<Self, IdentityError> {
        let file = |path: &Path, what, why: String| IdentityError::File {
            path: path.to_owned(),
            what,
            why,
        };
        let read = |path: &Path, what| {
            let unreadable = |why| IdentityError::Unreadable { path: path.to_owned(), what, why };
            regular_file::read(path, MOST).map_err(unreadable)
        };
        let pem = read(certificates, "certificate")?;
        let chain = CertificateDer::pem_slice_iter(&pem)
            .collect::<Result<Vec<_>, _>>()
            .map_err(|e| file(certificates, "certificate", e.to_string()))?;
        if chain.is_empty() {
            return Err(file(certificates, "certificate", "there is none".into()));
        }
        let pem = read(key, "private key")?;
        let key = PrivateKeyDer::from_pem_slice(&pem).map_err(|e| match e {
            rustls::pki_types::pem::Error::NoItemsFound if is_encrypted(&pem) => {
                IdentityError::Encrypted(key.to_owned())
            }
            e => file(key, "private key", e.to_string()),
        })?;
        Ok(Self { chain, key, public_key: None })
    }

    /// Generates a certificate for `localhost` and these addresses, with an ECDSA key on P-256,
    /// which browsers support. The certificate is valid for two weeks, because browsers accept no
    /// longer validity if they identify a certificate by its hash.
    ///
    /// # Errors
    /// Returns an error if the cryptography library refuses.
    // The certificate becomes valid at the current time.
    #[allow(clippy::disallowed_methods)]
    pub fn self_signed(addresses: &[IpAddr]) -> Result<Self, IdentityError> {
        let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256)?;
        let names = std::iter::once("localhost".to_owned())
            .chain(addresses.iter().map(ToString::to_string));
        let mut params = rcgen::CertificateParams::new(names.collect::<Vec<_>>())?;
        let now = std::time::SystemTime::now();
        let day = std::time::Duration::from_secs(86_400);
        params.not_before = (now - day).into();
        params.not_after = (now + 13 * day).into();
        let certificate = params.self_signed(&key)?;
        let public_key = Some(rcgen::PublicKeyData::subject_public_key_info(&key));
        let key = PrivateKeyDer::Pkcs8(key.serialize_der().into());
        Ok(Self { chain: vec![certificate.der().clone()], key, public_key })
    }

    /// Returns the SHA-256 hash of the public key in base64, for Chromium's
    /// `--ignore-certificate-errors-spki-list`. Returns `None` unless the certificate was generated
    /// here.
    pub fn key_hash(&self) -> Option<String> {
        let digest = ring::digest::digest(&ring::digest::SHA256, self.public_key.as_ref()?);
        Some(base64::engine::general_purpose::STANDARD.encode(digest.as_ref()))
    }

    /// Returns the leaf certificate.
    pub fn certificate(&self) -> Option<&CertificateDer<'static>> {
        self.chain.first()
    }

    /// Returns a TLS 1.3 server configuration for BoringSSL, without a list of protocols. Secrets
    /// are logged as in [`Identity::server`].
    ///
    /// # Errors
    /// Returns an error if BoringSSL rejects the certificate or key.
    #[cfg(feature = "quiche")]
    pub fn boring(&self) -> Result<boring::ssl::SslContextBuilder, IdentityError> {
        let made = || self.boring_keys()?.context();
        made().map_err(|e| IdentityError::boring_error(&e))
    }

    #[cfg(feature = "quiche")]
    pub(crate) fn boring_keys(&self) -> Result<BoringKeys, boring::error::ErrorStack> {
        let mut chain = self
            .chain
            .iter()
            .map(|der| boring::x509::X509::from_der(der))
            .collect::<Result<Vec<_>, _>>()?;
        // The chain is never empty, because the code that reads or creates identities ensures this.
        let leaf = chain.remove(0);
        let key = boring::pkey::PKey::private_key_from_der(self.key.secret_der())?;
        Ok(BoringKeys { leaf, above: chain, key })
    }

    /// Returns a TLS 1.3 server configuration for HTTP/3 only. Secrets are logged to the file in
    /// the environment variable SSLKEYLOGFILE.
    ///
    /// # Errors
    /// Returns an error if certificate and key do not match.
    pub fn server(&self) -> Result<Arc<ServerConfig>, IdentityError> {
        self.tls_config(ALPN, ring_provider()).map(Arc::new)
    }

    /// Returns the configuration of [`Identity::server`], with 0-RTT for returning clients.
    ///
    /// # Errors
    /// Returns an error if certificate and key do not match.
    pub fn server_with_early_data(&self) -> Result<Arc<ServerConfig>, IdentityError> {
        self.tls_config(ALPN, ring_provider()).map(|config| Arc::new(with_early_data(config)))
    }

    /// Returns the configuration of [`Identity::server`], for another protocol and cryptography
    /// provider.
    ///
    /// # Errors
    /// Returns an error if certificate and key do not match.
    pub fn tls_config(
        &self,
        protocol: &[u8],
        provider: Arc<CryptoProvider>,
    ) -> Result<ServerConfig, IdentityError> {
        server_config(provider, &[protocol], |builder| {
            builder.with_single_cert(self.chain.clone(), self.key.clone_key())
        })
    }
}

/// Returns a TLS 1.3 server configuration; `identify` sets the source of the certificate. Secrets
/// are logged as in [`Identity::server`].
pub(crate) fn server_config(
    provider: Arc<CryptoProvider>,
    protocols: &[&[u8]],
    identify: impl FnOnce(
        ConfigBuilder<ServerConfig, WantsServerCert>,
    ) -> Result<ServerConfig, rustls::Error>,
) -> Result<ServerConfig, IdentityError> {
    let builder = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(IdentityError::Mismatch)?;
    let mut config = identify(builder.with_no_client_auth()).map_err(IdentityError::Mismatch)?;
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
    config.key_log = Arc::new(rustls::KeyLogFile::new());
    Ok(config)
}

pub(crate) fn ring_provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// Returns the configuration with 0-RTT for returning clients.
pub fn with_early_data(mut config: ServerConfig) -> ServerConfig {
    // This is the only value that QUIC allows (RFC 9001 §4.6.1).
    config.max_early_data_size = u32::MAX;
    // rustls accepts early data only with tickets that it remembers, and each of them only once.
    // This prevents replays.
    config.session_storage = rustls::server::ServerSessionMemoryCache::new(TICKETS);
    config
}

/// A certificate chain and its key, for BoringSSL.
#[cfg(feature = "quiche")]
pub(crate) struct BoringKeys {
    pub(crate) leaf: boring::x509::X509,
    pub(crate) above: Vec<boring::x509::X509>,
    pub(crate) key: boring::pkey::PKey<boring::pkey::Private>,
}

#[cfg(feature = "quiche")]
impl BoringKeys {
    /// Returns a context for connections. All of these connections use this certificate and key.
    pub(crate) fn context(
        &self,
    ) -> Result<boring::ssl::SslContextBuilder, boring::error::ErrorStack> {
        let mut context = boring_context()?;
        context.set_certificate(&self.leaf)?;
        self.above.iter().try_for_each(|above| context.add_extra_chain_cert(above.clone()))?;
        context.set_private_key(&self.key)?;
        context.check_private_key()?;
        Ok(context)
    }
}

/// Returns a TLS 1.3 context without a certificate.
#[cfg(feature = "quiche")]
pub(crate) fn boring_context() -> Result<boring::ssl::SslContextBuilder, boring::error::ErrorStack>
{
    let mut context = boring::ssl::SslContext::builder(boring::ssl::SslMethod::tls())?;
    context.set_min_proto_version(Some(boring::ssl::SslVersion::TLS1_3))?;
    log_secrets(&mut context);
    Ok(context)
}

/// Logs TLS secrets for BoringSSL, as rustls's `KeyLogFile` does.
#[cfg(feature = "quiche")]
pub fn log_secrets(context: &mut boring::ssl::SslContextBuilder) {
    use parking_lot::Mutex;
    use std::io::Write;

    if let Some(path) = std::env::var_os("SSLKEYLOGFILE")
        && let Ok(file) = std::fs::File::options().append(true).create(true).open(path)
    {
        let file = Mutex::new(file);
        context.set_keylog_callback(move |_, line| {
            let _ = writeln!(file.lock(), "{line}");
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn self_signed_identity_serves_http3_and_reports_its_key_hash() {
        let made = Identity::self_signed(&["127.0.0.1".parse().unwrap()]).unwrap();
        assert_eq!(made.server().unwrap().alpn_protocols, [ALPN]);
        let hash = made.key_hash().unwrap();
        assert_eq!((hash.len(), hash.ends_with('=')), (44, true), "{hash}");
        assert_ne!(hash, Identity::self_signed(&[]).unwrap().key_hash().unwrap());
    }

    #[test]
    fn errors_name_the_invalid_pem_file() {
        let folder = tempfile::tempdir().unwrap();
        let signed = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let (cert, key) = (
            write("cert.pem", &signed.cert.pem()),
            write("key.pem", &signed.signing_key.serialize_pem()),
        );
        assert!(Identity::read(&cert, &key).unwrap().server().is_ok());
        let error = |cert: &Path, key: &Path| Identity::read(cert, key).unwrap_err().to_string();
        assert!(
            error(&key, &key).contains("key.pem") && error(&cert, &cert).contains("private key")
        );
        assert!(error(&folder.path().join("none"), &key).contains("none"));
        assert!(error(&write("empty.pem", ""), &key).contains("certificate"));
        let other = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        let boring_error = write("other.pem", &other.signing_key.serialize_pem());
        assert!(
            Identity::read(&cert, &boring_error)
                .unwrap()
                .server()
                .unwrap_err()
                .to_string()
                .contains("do not match")
        );
    }
}
