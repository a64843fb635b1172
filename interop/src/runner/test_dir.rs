//! The directory of a test: files, certificates, downloads and logs.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// A file that the server offers, and its SHA-256.
#[derive(Clone, Debug)]
pub(super) struct ServedFile {
    pub(super) name: String,
    pub(super) digest: Vec<u8>,
}

/// The directory tree of one test run.
#[derive(Debug)]
pub(super) struct TestDir {
    root: PathBuf,
    pub(super) files: Vec<ServedFile>,
}

impl TestDir {
    /// Creates the tree in the empty directory `root`, with random files of these sizes. The same
    /// seed always gives the same files.
    pub(super) fn new(
        root: &Path,
        sizes: &[u64],
        name_length: usize,
        seed: u64,
    ) -> io::Result<Self> {
        for folder in ["www", "certs", "downloads", "client", "server"] {
            fs::create_dir_all(root.join(folder))?;
        }
        certificates(&root.join("certs"))?;
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let mut files = Vec::with_capacity(sizes.len());
        for (number, size) in sizes.iter().enumerate() {
            // Random letters pad the name to its length.
            let tail = (0..name_length.saturating_sub(4))
                .map(|_| char::from(random.random_range(b'a'..=b'z')));
            let name = format!("{number:04}{}", tail.collect::<String>());
            let mut contents = vec![0; usize::try_from(*size).map_err(io::Error::other)?];
            random.fill(&mut contents[..]);
            fs::write(root.join("www").join(&name), &contents)?;
            files.push(ServedFile { name, digest: digest(&contents) });
        }
        Ok(Self { root: root.to_owned(), files })
    }

    pub(super) fn folder(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// Returns one message for each download that is missing or differs from the served file.
    pub(super) fn check_downloads(&self) -> Vec<String> {
        let folder = self.folder("downloads");
        let wrong = |file: &ServedFile| match fs::read(folder.join(&file.name)) {
            Err(_) => Some(format!("{} did not arrive", brief(&file.name))),
            Ok(contents) if digest(&contents) != file.digest => {
                let size =
                    fs::metadata(self.folder("www").join(&file.name)).map_or(0, |meta| meta.len());
                Some(format!(
                    "{} differs: {} bytes, expected {size}",
                    brief(&file.name),
                    contents.len()
                ))
            }
            Ok(_) => None,
        };
        self.files.iter().filter_map(wrong).collect()
    }
}

fn brief(name: &str) -> &str {
    name.get(..12).unwrap_or(name)
}

fn digest(contents: &[u8]) -> Vec<u8> {
    ring::digest::digest(&ring::digest::SHA256, contents).as_ref().to_vec()
}

/// Writes a CA certificate and a leaf certificate for `localhost`, both on P-256, which every stack
/// supports.
fn certificates(folder: &Path) -> io::Result<()> {
    let wrong = io::Error::other::<rcgen::Error>;
    let key = || rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).map_err(wrong);
    let mut authority = rcgen::CertificateParams::new(Vec::new()).map_err(wrong)?;
    authority.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    authority.key_usages =
        vec![rcgen::KeyUsagePurpose::KeyCertSign, rcgen::KeyUsagePurpose::DigitalSignature];
    authority.distinguished_name.push(rcgen::DnType::CommonName, "interop authority");
    let authority = rcgen::CertifiedIssuer::self_signed(authority, key()?).map_err(wrong)?;
    let mut leaf = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).map_err(wrong)?;
    leaf.distinguished_name.push(rcgen::DnType::CommonName, "localhost");
    // Set no key usage. The correct key usage would be digitalSignature alone, but kwik then
    // rejects a certificate with an EC key.
    leaf.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ServerAuth];
    leaf.use_authority_key_identifier_extension = true;
    let leaf_key = key()?;
    let certificate = leaf.signed_by(&leaf_key, &authority).map_err(wrong)?;
    fs::write(folder.join("cert.pem"), certificate.pem())?;
    fs::write(folder.join("priv.key"), leaf_key.serialize_pem())?;
    fs::write(folder.join("ca.pem"), authority.pem())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_dir_has_valid_certificates_and_checks_downloads() {
        let folder = tempfile::tempdir().unwrap();
        let test_dir = TestDir::new(folder.path(), &[0, 10, 3_000], 20, 1).unwrap();
        let certs = test_dir.folder("certs");
        let identity =
            fathom_http::identity::Identity::read(&certs.join("cert.pem"), &certs.join("priv.key"))
                .unwrap();
        assert!(identity.server().is_ok());
        assert!(
            fathom_http::trust::Trust::File(certs.join("ca.pem"))
                .tls_config(b"h3", rustls::crypto::ring::default_provider().into())
                .is_ok()
        );
        assert!(test_dir.files.iter().all(|file| file.name.len() == 20));
        assert_eq!(test_dir.check_downloads().len(), 3);
        for file in &test_dir.files {
            fs::copy(
                test_dir.folder("www").join(&file.name),
                test_dir.folder("downloads").join(&file.name),
            )
            .unwrap();
        }
        assert!(test_dir.check_downloads().is_empty());
        let mut contents = fs::read(test_dir.folder("www").join(&test_dir.files[2].name)).unwrap();
        contents[1_000] ^= 1;
        fs::write(test_dir.folder("downloads").join(&test_dir.files[2].name), contents).unwrap();
        assert!(test_dir.check_downloads()[0].contains("3000 bytes, expected 3000"));
    }
}
