//! The implementations that the runner runs: our endpoints, and the peers in `interop/peers`.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use fathom_cc::Invalid;
use serde::Deserialize;

use crate::endpoint::TestName;

pub use crate::endpoint::Role;

/// Directory of the peers, relative to the repository's root.
pub const PEERS: &str = "interop/peers";

/// Contents of a peer's `peer.toml`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Manifest {
    name: String,
    roles: Vec<String>,
    #[serde(default)]
    tests: Option<Vec<String>>,
    #[serde(default)]
    client_tests: Option<Vec<String>>,
    #[serde(default)]
    server_tests: Option<Vec<String>>,
    #[serde(default)]
    notes: String,
}

/// A program that runs a client or a server according to the quic-interop-runner's rules.
#[derive(Clone, Debug)]
pub struct Implementation {
    name: String,
    kind: Kind,
    /// Reason why the implementation cannot run; `None` if it can.
    unavailable: Option<String>,
    version: Option<String>,
}

#[derive(Clone, Debug)]
enum Kind {
    /// Our endpoint on a stack, with a controller.
    Ours { program: PathBuf, stack: String, controller: Option<String> },
    /// A peer: its directory, its `peer.toml`, and the directory in which peers are installed.
    Peer { folder: PathBuf, manifest: Manifest, installed: PathBuf },
}

impl Implementation {
    /// Returns our endpoint on a stack.
    pub fn ours(program: &Path, stack: &str) -> Self {
        let kind =
            Kind::Ours { program: program.to_owned(), stack: stack.to_owned(), controller: None };
        Self {
            name: stack.to_owned(),
            kind,
            unavailable: None,
            version: Some(env!("CARGO_PKG_VERSION").into()),
        }
    }

    /// Returns our endpoint with another controller. Returns `None` for a peer, because a peer
    /// chooses its own controller.
    pub fn with_controller(&self, name: &str) -> Option<Self> {
        let mut endpoint = self.clone();
        let Kind::Ours { controller, .. } = &mut endpoint.kind else { return None };
        *controller = Some(name.to_owned());
        Some(endpoint)
    }

    /// Reads the peer in `folder`. `installed` is the directory in which peers are installed.
    ///
    /// # Errors
    /// Returns an error if the peer's `peer.toml` cannot be read or parsed.
    pub fn peer(folder: &Path, installed: &Path) -> Result<Self, Invalid> {
        let file = folder.join("peer.toml");
        let wrong = |error| in_described_file(error, &file);
        let io_error = |e: std::io::Error| wrong(Invalid::because(e.to_string()));
        let text = std::fs::read_to_string(&file).map_err(io_error)?;
        let manifest: Manifest =
            toml::from_str(&text).map_err(|e| wrong(Invalid::because(e.message().to_owned())))?;
        if let Some(role) =
            manifest.roles.iter().find(|role| *role != "client" && *role != "server")
        {
            return Err(wrong(Invalid::value(role, "is not a role")));
        }
        let folder = folder.canonicalize().map_err(io_error)?;
        let home = installed.join(&manifest.name);
        let version =
            std::fs::read_to_string(home.join("VERSION")).ok().map(|text| text.trim().to_owned());
        let unavailable = version.is_none().then(|| "not installed; run with --install".to_owned());
        Ok(Self {
            name: manifest.name.clone(),
            kind: Kind::Peer { folder, manifest, installed: installed.to_owned() },
            unavailable,
            version,
        })
    }

    /// Returns the name on the command line.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the version, if known.
    pub fn version(&self) -> Option<&str> {
        self.version.as_deref()
    }

    /// Returns the notes in `peer.toml`.
    pub fn notes(&self) -> &str {
        match &self.kind {
            Kind::Ours { .. } => "",
            Kind::Peer { manifest, .. } => &manifest.notes,
        }
    }

    /// Returns whether the implementation is `fathom-endpoint`, which writes `facts.json`.
    pub const fn is_ours(&self) -> bool {
        matches!(self.kind, Kind::Ours { .. })
    }

    /// Returns whether the implementation is under test: a stack with our plug-in or patch.
    pub fn is_under_test(&self) -> bool {
        self.is_ours() && !self.name.starts_with("stock-")
    }

    /// Returns the reason why the implementation cannot run, or `None` if it can.
    pub fn unavailable(&self) -> Option<&str> {
        self.unavailable.as_deref()
    }

    /// Returns whether the implementation supports a test in a role, according to its `peer.toml`.
    pub fn supports(&self, role: Role, test_name: TestName) -> bool {
        let Kind::Peer { manifest, .. } = &self.kind else { return true };
        let own = match role {
            Role::Client => &manifest.client_tests,
            Role::Server => &manifest.server_tests,
        };
        let tests = own.as_ref().or(manifest.tests.as_ref());
        let claimed = |name: &str| tests.is_none_or(|tests| tests.iter().any(|test| test == name));
        manifest.roles.iter().any(|known| known == role.as_ref()) && claimed(test_name.as_ref())
    }

    /// Runs a peer's `install` script. The last line of output is the version, or the reason for a
    /// failure.
    pub fn install(&mut self) {
        let Kind::Peer { folder, installed, .. } = &self.kind else { return };
        let done = Command::new(folder.join("install"))
            .env("FATHOM_PEERS", installed)
            .stdin(Stdio::null())
            .output();
        let last = |bytes: &[u8]| {
            String::from_utf8_lossy(bytes).lines().last().unwrap_or_default().to_owned()
        };
        (self.unavailable, self.version) = match done {
            Ok(done) if done.status.success() => (None, Some(last(&done.stdout))),
            Ok(done) => {
                let words = [last(&done.stdout), last(&done.stderr)];
                let why = words
                    .iter()
                    .find(|line| !line.is_empty())
                    .cloned()
                    .unwrap_or_else(|| done.status.to_string());
                (Some(why), None)
            }
            Err(e) => (Some(format!("{}: {e}", folder.join("install").display())), None),
        };
    }

    /// Returns the command that starts the endpoint, which environment variables configure.
    pub(super) fn command(&self) -> Command {
        match &self.kind {
            Kind::Ours { program, stack, controller } => {
                let mut command = Command::new(program);
                command.args(["--stack", stack]);
                if let Some(controller) = controller {
                    command.args(["--controller", controller]);
                }
                command
            }
            Kind::Peer { folder, installed, .. } => {
                let mut command = Command::new(folder.join("run"));
                command.env("FATHOM_PEERS", installed);
                command
            }
        }
    }
}

/// Adds the name of a file, and the name of the page that describes the format of the file.
pub(super) fn in_described_file(error: Invalid, file: &Path) -> Invalid {
    let error = if error.hint.is_empty() {
        error.hint("docs/interop.md describes the format")
    } else {
        error
    };
    error.in_field(format!("'{}'", file.display()))
}

/// Returns the peers in a directory, sorted by name, or none if the directory does not exist.
///
/// # Errors
/// Returns an error if a `peer.toml` cannot be read or parsed.
pub fn peers(folder: &Path, installed: &Path) -> Result<Vec<Implementation>, Invalid> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Ok(Vec::new()) };
    let mut folders: Vec<PathBuf> =
        entries.flatten().map(|e| e.path()).filter(|p| p.join("peer.toml").is_file()).collect();
    folders.sort();
    folders.iter().map(|folder| Implementation::peer(folder, installed)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(text: &str) -> (tempfile::TempDir, Result<Implementation, Invalid>) {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("peer.toml"), text).unwrap();
        let implementation = Implementation::peer(folder.path(), &folder.path().join("installed"));
        (folder, implementation)
    }

    #[test]
    fn peer_toml_declares_supported_tests() {
        let (_folder, implementation) = written(
            "name = \"a\"\nroles = [\"server\", \"client\"]\ntests = [\"retry\"]\nclient-tests = [\"ecn\"]\n",
        );
        let implementation = implementation.unwrap();
        assert_eq!((implementation.name(), implementation.unavailable().is_some()), ("a", true));
        assert!(
            implementation.supports(Role::Server, TestName::Retry)
                && !implementation.supports(Role::Client, TestName::Retry)
        );
        assert!(
            implementation.supports(Role::Client, TestName::Ecn)
                && !implementation.supports(Role::Server, TestName::Ecn)
        );
        let (_folder, implementation) = written("name = \"a\"\nroles = [\"client\"]\n");
        assert!(!implementation.unwrap().supports(Role::Server, TestName::Handshake));
    }

    #[test]
    fn invalid_peer_toml_is_reported() {
        for (text, hint) in [
            ("name = 1", "peer.toml"),
            ("name = \"a\"\nroles = [\"x\"]", "is not a role"),
            ("x = 1", "unknown field"),
        ] {
            let error = written(text).1.unwrap_err().to_string();
            assert!(error.contains(hint) && !error.contains('\n'), "{text}: {error}");
        }
    }

    #[test]
    fn install_script_reports_version_or_reason() {
        use std::os::unix::fs::PermissionsExt;
        let (folder, implementation) = written("name = \"a\"\nroles = [\"client\"]\n");
        let mut implementation = implementation.unwrap();
        let script = folder.path().join("install");
        let become_script = |text: &str| {
            std::fs::write(&script, text).unwrap();
            std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
        };
        become_script("#!/bin/sh\necho working\necho wants a compiler\nexit 127\n");
        implementation.install();
        assert_eq!(implementation.unavailable(), Some("wants a compiler"));
        become_script("#!/bin/sh\necho a 1.2\n");
        implementation.install();
        assert_eq!((implementation.unavailable(), implementation.version()), (None, Some("a 1.2")));
    }
}
