//! The certificate and key for new handshakes. When their files change, a running server replaces
//! them.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::RwLock;
use rustls::ServerConfig;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::identity::{
    ALPN, Identity, IdentityError, ring_provider, server_config, with_early_data,
};
#[cfg(feature = "quiche")]
use crate::identity::{BoringKeys, boring_context};

/// Interval at which the files are checked. A change is loaded when it is this old. A certificate
/// and its key are written one after the other, and the delay ensures that they are read together.
const INTERVAL: Duration = Duration::from_secs(1);
/// Time after which an access to the files is reported as stalled. The access continues, and no
/// further access starts in the meantime.
const PATIENCE: Duration = Duration::from_secs(5);
/// Longest wait before unusable files are read again although they look unchanged. The first wait
/// is [`INTERVAL`], and each further wait is twice as long.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// A handle to the keys of a server's handshakes. Clones share the keys.
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
        let key = CertifiedKey::from_der(
            identity.chain.clone(),
            identity.key.clone_key(),
            &ring_provider(),
        );
        let rustls = Arc::new(key.map_err(IdentityError::Mismatch)?);
        rustls.keys_match().map_err(IdentityError::Mismatch)?;
        #[cfg(feature = "quiche")]
        let boring = {
            let keys = identity.boring_keys().map_err(|e| IdentityError::boring_error(&e))?;
            // Detect a rejection by BoringSSL here rather than in a handshake.
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
    /// Returns a handle that starts with this identity.
    ///
    /// # Errors
    /// Returns an error if certificate and key do not match.
    pub fn new(identity: &Identity) -> Result<Self, IdentityError> {
        Ok(Self(Arc::new(RwLock::new(Keys::new(identity)?))))
    }

    /// Uses this identity for handshakes from now on. Does not affect open connections and
    /// handshakes that have already begun.
    ///
    /// # Errors
    /// Returns an error if certificate and key do not match. The previous identity then stays.
    pub fn replace(&self, identity: &Identity) -> Result<(), IdentityError> {
        let keys = Keys::new(identity)?;
        *self.0.write() = keys;
        Ok(())
    }

    fn config(&self, protocols: &[&[u8]]) -> Result<ServerConfig, IdentityError> {
        server_config(ring_provider(), protocols, |builder| {
            Ok(builder.with_cert_resolver(Arc::new(self.clone())))
        })
    }

    /// Returns a TLS 1.3 configuration for HTTP/3 over a stack with rustls. With `early_data`,
    /// returning clients may use 0-RTT.
    pub(crate) fn http3(&self, early_data: bool) -> Result<Arc<ServerConfig>, IdentityError> {
        let config = self.config(&[ALPN])?;
        Ok(Arc::new(if early_data { with_early_data(config) } else { config }))
    }

    /// Returns a TLS 1.3 configuration for HTTP/2 and HTTP/1.1 over TCP.
    pub(crate) fn tcp(&self) -> Result<Arc<ServerConfig>, IdentityError> {
        Ok(Arc::new(self.config(&[b"h2", b"http/1.1"])?))
    }

    /// Returns a TLS 1.3 configuration for BoringSSL. Connections get the certificate when the
    /// client's first message has arrived.
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
    /// State of both files before they were first read.
    first: [Mark; 2],
}

/// Mark that distinguishes the states of a file. The mark is that of a link's target, because ACME
/// clients replace links. The time of the last status change (ctime) also reveals a changed mode or
/// owner. `None` if the file cannot be inspected.
type Mark = Option<[i128; 4]>;

fn mark(path: &Path) -> Mark {
    use std::os::unix::fs::MetadataExt;
    let meta = std::fs::metadata(path).ok()?;
    let time = |seconds: i64, nanoseconds: i64| {
        i128::from(seconds) * 1_000_000_000 + i128::from(nanoseconds)
    };
    let (modified, changed) =
        (time(meta.mtime(), meta.mtime_nsec()), time(meta.ctime(), meta.ctime_nsec()));
    Some([modified, changed, meta.len().into(), meta.ino().into()])
}

impl IdentityFiles {
    /// Returns the files of a chain and its key in PEM. Call this before the files are first read,
    /// so that every later change is noticed.
    pub fn new(certificates: &Path, key: &Path) -> Self {
        let first = [mark(certificates), mark(key)];
        Self { certificates: certificates.to_owned(), key: key.to_owned(), first }
    }

    /// Returns the file of the chain.
    pub fn certificates(&self) -> &Path {
        &self.certificates
    }

    fn marks(&self) -> [Mark; 2] {
        [mark(&self.certificates), mark(&self.key)]
    }

    /// Reads the files and replaces the served identity.
    ///
    /// # Errors
    /// Returns an error if the files are not a certificate and its key. The served identity then
    /// stays.
    pub fn load(&self, into: &ServedIdentity) -> Result<(), IdentityError> {
        into.replace(&Identity::read(&self.certificates, &self.key)?)
    }

    /// Loads the files whenever they have changed and when `now` is notified, and reports the
    /// result. Files that could not be used are tried again at growing intervals. This function
    /// never returns. It never blocks its task, because a separate thread reads the files.
    pub async fn watch(
        &self,
        into: &ServedIdentity,
        now: &tokio::sync::Notify,
        report: impl Fn(Result<(), IdentityError>),
    ) -> std::convert::Infallible {
        let (mut loaded, mut seen) = (self.first, self.first);
        let mut failed: Option<Failure> = None;
        loop {
            let asked = tokio::select! {
                () = now.notified() => true,
                () = tokio::time::sleep(INTERVAL) => false,
            };
            let files = self.clone();
            let Some(marks) = self.patiently(move || files.marks(), &report).await else {
                continue;
            };
            // Wait until the change is complete.
            let changed = marks != loaded && marks == seen;
            let again = failed.as_ref().is_some_and(|failed| failed.again <= Instant::now());
            seen = marks;
            if !asked && !changed && !again {
                continue;
            }
            let (files, into) = (self.clone(), into.clone());
            let Some(result) = self.patiently(move || files.load(&into), &report).await else {
                continue;
            };
            loaded = marks;
            // Report a repeated failure only once.
            let next = result
                .as_ref()
                .err()
                .map(|e| Failure::after(failed.as_ref().filter(|_| !changed && !asked), e));
            let known = failed
                .as_ref()
                .is_some_and(|failed| next.as_ref().is_some_and(|next| next.line == failed.line));
            if !known || asked || changed {
                report(result);
            }
            failed = next;
        }
    }

    /// Runs `work` on a separate thread and returns its result, or `None` if there is no result.
    /// Work that stalls is reported, but still waited for.
    async fn patiently<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
        report: &impl Fn(Result<(), IdentityError>),
    ) -> Option<T> {
        let (send, mut done) = oneshot::channel();
        // Use a thread outside the runtime, because the runtime waits for its own threads when it
        // ends.
        let thread = std::thread::Builder::new().name("certificates".into());
        thread.spawn(move || drop(send.send(work()))).ok()?;
        if let Ok(found) = tokio::time::timeout(PATIENCE, &mut done).await {
            return found.ok();
        }
        report(Err(IdentityError::Stalled(self.certificates.clone(), PATIENCE)));
        done.await.ok()
    }
}

/// A failed attempt to use the files.
struct Failure {
    line: String,
    wait: Duration,
    again: Instant,
}

impl Failure {
    fn after(before: Option<&Self>, e: &IdentityError) -> Self {
        let wait = before.map_or(INTERVAL, |before| (before.wait * 2).min(LONGEST_WAIT));
        Self { line: e.to_string(), wait, again: Instant::now() + wait }
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

    /// Work that stalls, like a file on a lost network disk, delays its reader and nothing else.
    #[tokio::test]
    async fn stalled_certificate_files_delay_only_their_reader() {
        let folder = tempfile::tempdir().unwrap();
        let files = IdentityFiles::new(&folder.path().join("a"), &folder.path().join("b"));
        let (release, held) = std::sync::mpsc::channel::<()>();
        let said = Mutex::new(Vec::new());
        let report =
            |result: Result<(), IdentityError>| said.lock().push(result.unwrap_err().to_string());
        let mut stalled = std::pin::pin!(files.patiently(move || held.recv().is_ok(), &report));
        tokio::select! {
            _ = stalled.as_mut() => panic!("the disk does not respond"),
            () = async {
                while said.lock().is_empty() {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            } => {}
        }
        assert!(said.lock()[0].contains("does not respond"), "{:?}", said.lock());
        release.send(()).unwrap();
        assert_eq!(stalled.await, Some(true));
        assert_eq!(said.lock().len(), 1);
    }

    #[tokio::test]
    async fn failed_certificate_load_is_retried_with_unchanged_files() {
        let folder = tempfile::tempdir().unwrap();
        let (certificates, key) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
        std::fs::write(&certificates, pem("one").0).unwrap();
        std::fs::write(&key, pem("two").1).unwrap();
        let e = Identity::read(&certificates, &key).unwrap().server().unwrap_err();
        let mut failure = Failure::after(None, &e);
        let mut waits = Vec::new();
        for _ in 0..8 {
            waits.push(failure.wait.as_secs());
            failure = Failure::after(Some(&failure), &e);
        }
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 60, 60]);
        // A changed mode is a change too.
        let before = mark(&key);
        std::fs::set_permissions(&key, std::os::unix::fs::PermissionsExt::from_mode(0o600))
            .unwrap();
        assert_ne!(mark(&key), before);
    }

    #[tokio::test]
    async fn changed_certificates_are_loaded_and_invalid_ones_ignored() {
        let folder = tempfile::tempdir().unwrap();
        let (certificates, key_file) =
            (folder.path().join("cert.pem"), folder.path().join("key.pem"));
        let (cert, key) = pem("one");
        std::fs::write(&certificates, &cert).unwrap();
        std::fs::write(&key_file, &key).unwrap();
        let files = IdentityFiles::new(&certificates, &key_file);
        let served =
            ServedIdentity::new(&Identity::read(&files.certificates, &files.key).unwrap()).unwrap();
        let leaf = || served.0.read().rustls.cert[0].clone();
        let (first, said, now) = (leaf(), Mutex::new(Vec::new()), Notify::new());
        let watched = files
            .watch(&served, &now, |result| said.lock().push(result.map_err(|e| e.to_string())));
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
            // The first key belongs to another certificate, and the second file has no certificate.
            for (path, text) in
                [(&files.key, pem("three").1), (&files.certificates, "nothing".to_owned())]
            {
                let lines = said.lock().len() + 1;
                std::fs::write(path, text).unwrap();
                until(lines).await;
                assert!(
                    said.lock().last().unwrap().as_ref().is_err_and(|line| !line.contains('\n'))
                );
                assert_eq!(leaf(), second);
            }
            std::fs::write(&files.key, &key).unwrap();
            std::fs::write(&files.certificates, &cert).unwrap();
            now.notify_one();
            until(4).await;
            assert_eq!(leaf(), second);
            // The server has no permission to read these files yet, as after `install -m 600`.
            // Neither their length nor their modification time changes later. Root may read
            // everything, so this test puts a folder in the way.
            let (cert, key) = pem("four");
            std::fs::remove_file(&files.key).unwrap();
            std::fs::create_dir(&files.key).unwrap();
            std::fs::write(&files.certificates, &cert).unwrap();
            until(5).await;
            assert_eq!(leaf(), second);
            std::fs::remove_dir(&files.key).unwrap();
            std::fs::write(&files.key, &key).unwrap();
            until(6).await;
            assert!(said.lock()[5].is_ok(), "{:?}", said.lock());
            assert_ne!(leaf(), second);
        };
        tokio::time::timeout(Duration::from_secs(120), async {
            tokio::select! { never = watched => match never {}, () = test => {} }
        })
        .await
        .unwrap();
    }
}
