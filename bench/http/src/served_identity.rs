//! The certificate and key that handshakes use now: replaced while a server runs, when their files change.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use parking_lot::RwLock;
use rustls::ServerConfig;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use crate::identity::{ALPN, Identity, IdentityError, ring_provider, server_config, with_early_data};
#[cfg(feature = "quiche")]
use crate::identity::{BoringKeys, boring_context};

/// How often files are looked at. A change is taken up when it is this old, so that a certificate and its key, which are written one after
/// the other, are read together.
const INTERVAL: Duration = Duration::from_secs(1);

/// A handle to what a server's handshakes use: clones are the same.
#[derive(Clone, Debug)]
pub struct ServedIdentity(Arc<RwLock<Keys>>);

#[derive(Clone)]
struct Keys {
    rustls: Arc<CertifiedKey>,
    #[cfg(feature = "quiche")]
    boring: Arc<BoringKeys>,
}

impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Keys")
    }
}

impl Keys {
    fn new(identity: &Identity) -> Result<Self, IdentityError> {
        let key = CertifiedKey::from_der(identity.chain.clone(), identity.key.clone_key(), &ring_provider());
        let rustls = Arc::new(key.map_err(IdentityError::Mismatch)?);
        rustls.keys_match().map_err(IdentityError::Mismatch)?;
        #[cfg(feature = "quiche")]
        let boring = {
            let keys = identity.boring_keys().map_err(|e| IdentityError::boring_error(&e))?;
            // What it does not take is known here, and not in a handshake.
            keys.context().map_err(|e| IdentityError::boring_error(&e))?;
            Arc::new(keys)
        };
        Ok(Self {
            rustls,
            #[cfg(feature = "quiche")]
            boring,
        })
    }
}

impl ResolvesServerCert for ServedIdentity {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0.read().rustls))
    }
}

impl ServedIdentity {
    /// Begins with this one.
    ///
    /// # Errors
    /// Certificate and key do not go together.
    pub fn new(identity: &Identity) -> Result<Self, IdentityError> {
        Ok(Self(Arc::new(RwLock::new(Keys::new(identity)?))))
    }

    /// Handshakes from now on use this one. Those that have begun, and connections, are not disturbed.
    ///
    /// # Errors
    /// Certificate and key do not go together: the one before stays.
    pub fn replace(&self, identity: &Identity) -> Result<(), IdentityError> {
        let keys = Keys::new(identity)?;
        *self.0.write() = keys;
        Ok(())
    }

    fn config(&self, protocols: &[&[u8]]) -> Result<ServerConfig, IdentityError> {
        server_config(ring_provider(), protocols, |builder| Ok(builder.with_cert_resolver(Arc::new(self.clone()))))
    }

    /// TLS 1.3 for HTTP/3 over a stack with rustls. With `early_data`, clients that come again may send at once (0-RTT).
    pub(crate) fn http3(&self, early_data: bool) -> Result<Arc<ServerConfig>, IdentityError> {
        let config = self.config(&[ALPN])?;
        Ok(Arc::new(if early_data { with_early_data(config) } else { config }))
    }

    /// TLS 1.3 for HTTP/2 and HTTP/1.1 over TCP.
    pub(crate) fn tcp(&self) -> Result<Arc<ServerConfig>, IdentityError> {
        Ok(Arc::new(self.config(&[b"h2", b"http/1.1"])?))
    }

    /// TLS 1.3 on BoringSSL, whose connections ask for the certificate when their client's first message is there.
    #[cfg(feature = "quiche")]
    pub(crate) fn boring(&self) -> Result<boring::ssl::SslContextBuilder, IdentityError> {
        let mut context = boring_context().map_err(|e| IdentityError::boring_error(&e))?;
        let current = self.clone();
        context.set_select_certificate_callback(move |mut hello| {
            let keys = Arc::clone(&current.0.read().boring);
            let ssl = hello.ssl_mut();
            let mut set = || {
                ssl.set_certificate(&keys.leaf)?;
                keys.above.iter().try_for_each(|above| ssl.add_chain_cert(above))?;
                ssl.set_private_key(&keys.key)
            };
            set().map_err(|_: boring::error::ErrorStack| boring::ssl::SelectCertError::ERROR)
        });
        Ok(context)
    }
}

/// The files of a certificate and its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdentityFiles {
    certificates: PathBuf,
    key: PathBuf,
    /// Their state before they were first read.
    first: [Mark; 2],
}

/// What tells one state of a file from another: links are followed, as ACME clients replace them.
type Mark = Option<(SystemTime, u64, u64)>;

fn mark(path: &Path) -> Mark {
    use std::os::unix::fs::MetadataExt;
    let meta = std::fs::metadata(path).ok()?;
    Some((meta.modified().ok()?, meta.len(), meta.ino()))
}

impl IdentityFiles {
    /// A chain and its key in PEM. To be made before they are read: what changes from here on is taken up.
    pub fn new(certificates: &Path, key: &Path) -> Self {
        let first = [mark(certificates), mark(key)];
        Self { certificates: certificates.to_owned(), key: key.to_owned(), first }
    }

    /// The file of the chain.
    pub fn certificates(&self) -> &Path {
        &self.certificates
    }

    fn marks(&self) -> [Mark; 2] {
        [mark(&self.certificates), mark(&self.key)]
    }

    /// Reads them and puts them into use.
    ///
    /// # Errors
    /// They are no certificate and its key: what is served stays.
    pub fn load(&self, into: &ServedIdentity) -> Result<(), IdentityError> {
        into.replace(&Identity::read(&self.certificates, &self.key)?)
    }

    /// Puts them into use whenever they have changed, and when `now` is notified; says how it went. Never ends.
    pub async fn watch(
        &self,
        into: &ServedIdentity,
        now: &tokio::sync::Notify,
        report: impl Fn(Result<(), IdentityError>),
    ) -> std::convert::Infallible {
        let (mut loaded, mut seen) = (self.first, self.first);
        loop {
            let asked = tokio::select! {
                () = now.notified() => true,
                () = tokio::time::sleep(INTERVAL) => false,
            };
            let marks = self.marks();
            // A change that goes on is waited out.
            if asked || (marks != loaded && marks == seen) {
                loaded = marks;
                report(self.load(into));
            }
            seen = marks;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use parking_lot::Mutex;
    use tokio::sync::Notify;

    fn pem(name: &str) -> (String, String) {
        let signed = rcgen::generate_simple_self_signed(vec![name.to_owned()]).unwrap();
        (signed.cert.pem(), signed.signing_key.serialize_pem())
    }

    #[tokio::test]
    async fn changed_files_are_taken_up_and_broken_ones_are_not() {
        let folder = tempfile::tempdir().unwrap();
        let (certificates, key_file) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
        let (cert, key) = pem("one");
        std::fs::write(&certificates, &cert).unwrap();
        std::fs::write(&key_file, &key).unwrap();
        let files = IdentityFiles::new(&certificates, &key_file);
        let served = ServedIdentity::new(&Identity::read(&files.certificates, &files.key).unwrap()).unwrap();
        let leaf = || served.0.read().rustls.cert[0].clone();
        let (first, said, now) = (leaf(), Mutex::new(Vec::new()), Notify::new());
        let watched = files.watch(&served, &now, |result| said.lock().push(result.map_err(|e| e.to_string())));
        let test = async {
            let until = async |lines: usize| {
                while said.lock().len() < lines {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            };
            let (cert, key) = pem("two");
            std::fs::write(&files.certificates, &cert).unwrap();
            std::fs::write(&files.key, &key).unwrap();
            until(1).await;
            let second = leaf();
            assert_ne!(first, second);
            // A key of another certificate, and no certificate at all.
            for (path, text) in [(&files.key, pem("three").1), (&files.certificates, "nothing".to_owned())] {
                let lines = said.lock().len() + 1;
                std::fs::write(path, text).unwrap();
                until(lines).await;
                assert!(said.lock().last().unwrap().as_ref().is_err_and(|line| !line.contains('\n')));
                assert_eq!(leaf(), second);
            }
            std::fs::write(&files.key, &key).unwrap();
            std::fs::write(&files.certificates, &cert).unwrap();
            now.notify_one();
            until(4).await;
            assert_eq!(leaf(), second);
        };
        tokio::time::timeout(Duration::from_secs(120), async {
            tokio::select! { never = watched => match never {}, () = test => {} }
        })
        .await
        .unwrap();
    }
}
