//! Who takes part: our endpoints, and peers in folders.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::Deserialize;

use crate::endpoint::Case;

/// A side of a connection.
pub use crate::endpoint::Role as Side;

/// Peers in this repository, from its root.
pub const PEERS: &str = "interop/peers";

/// What a peer's `peer.toml` says.
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

/// A program that obeys the contract.
#[derive(Clone, Debug)]
pub struct Party {
    name: String,
    kind: Kind,
    /// `None` where it can take part; or else why not.
    missing: Option<String>,
    version: Option<String>,
}

#[derive(Clone, Debug)]
enum Kind {
    /// Our endpoint on this stack, with this controller.
    Ours { program: PathBuf, stack: String, controller: Option<String> },
    /// A peer's folder.
    Peer { folder: PathBuf, manifest: Manifest, installed: PathBuf },
}

impl Party {
    /// Our endpoint on a stack.
    pub fn ours(program: &Path, stack: &str) -> Self {
        let kind = Kind::Ours { program: program.to_owned(), stack: stack.to_owned(), controller: None };
        Self { name: stack.to_owned(), kind, missing: None, version: Some(env!("CARGO_PKG_VERSION").into()) }
    }

    /// With this controller, where it is ours.
    #[must_use]
    pub fn with_controller(mut self, name: &str) -> Self {
        if let Kind::Ours { controller, .. } = &mut self.kind {
            *controller = Some(name.to_owned());
        }
        self
    }

    /// The peer in this folder; `installed` is where peers are installed.
    ///
    /// # Errors
    /// Its `peer.toml` cannot be read: one line that names the mend.
    pub fn peer(folder: &Path, installed: &Path) -> Result<Self, String> {
        let file = folder.join("peer.toml");
        let wrong = |why: String| format!("'{}': {why}; mend it as docs/interop.md has it", file.display());
        let text = std::fs::read_to_string(&file).map_err(|e| wrong(e.to_string()))?;
        let manifest: Manifest = toml::from_str(&text).map_err(|e| wrong(e.message().to_owned()))?;
        if let Some(role) = manifest.roles.iter().find(|role| *role != "client" && *role != "server") {
            return Err(wrong(format!("'{role}' is no role")));
        }
        let folder = folder.canonicalize().map_err(|e| wrong(e.to_string()))?;
        let home = installed.join(&manifest.name);
        let version = std::fs::read_to_string(home.join("VERSION")).ok().map(|text| text.trim().to_owned());
        let missing = version.is_none().then(|| "not installed; run with --install".to_owned());
        Ok(Self {
            name: manifest.name.clone(),
            kind: Kind::Peer { folder, manifest, installed: installed.to_owned() },
            missing,
            version,
        })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it is, where it says so.
    pub fn version(&self) -> Option<&str> {
        self.version.as_deref()
    }

    /// What its `peer.toml` notes.
    pub fn notes(&self) -> &str {
        match &self.kind {
            Kind::Ours { .. } => "",
            Kind::Peer { manifest, .. } => &manifest.notes,
        }
    }

    /// It tells facts.
    pub const fn is_ours(&self) -> bool {
        matches!(self.kind, Kind::Ours { .. })
    }

    /// It is what is tested here: a stack that carries our plug-in, or patch.
    pub fn is_subject(&self) -> bool {
        self.is_ours() && !self.name.starts_with("stock-")
    }

    /// Why it cannot take part.
    pub fn missing(&self) -> Option<&str> {
        self.missing.as_deref()
    }

    /// Whether it claims this test in this role.
    pub fn claims(&self, side: Side, case: Case) -> bool {
        let Kind::Peer { manifest, .. } = &self.kind else { return true };
        let own = match side {
            Side::Client => &manifest.client_tests,
            Side::Server => &manifest.server_tests,
        };
        let tests = own.as_ref().or(manifest.tests.as_ref());
        let claimed = |name: &str| tests.is_none_or(|tests| tests.iter().any(|test| test == name));
        manifest.roles.iter().any(|role| role == side.name()) && claimed(case.name())
    }

    /// Installs a peer; what it prints last is its version, or why it cannot be.
    pub fn install(&mut self) {
        let Kind::Peer { folder, installed, .. } = &self.kind else { return };
        let done = Command::new(folder.join("install")).env("FATHOM_PEERS", installed).stdin(Stdio::null()).output();
        let last = |bytes: &[u8]| String::from_utf8_lossy(bytes).lines().last().unwrap_or_default().to_owned();
        (self.missing, self.version) = match done {
            Ok(done) if done.status.success() => (None, Some(last(&done.stdout))),
            Ok(done) => {
                let words = [last(&done.stdout), last(&done.stderr)];
                let why =
                    words.iter().find(|line| !line.is_empty()).cloned().unwrap_or_else(|| done.status.to_string());
                (Some(why), None)
            }
            Err(e) => (Some(format!("{}: {e}", folder.join("install").display())), None),
        };
    }

    /// The command that plays a side; the environment says the rest.
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

/// The peers in a folder, by name; none where there is no such folder.
///
/// # Errors
/// A `peer.toml` cannot be read.
pub fn peers(folder: &Path, installed: &Path) -> Result<Vec<Party>, String> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Ok(Vec::new()) };
    let mut folders: Vec<PathBuf> =
        entries.flatten().map(|e| e.path()).filter(|p| p.join("peer.toml").is_file()).collect();
    folders.sort();
    folders.iter().map(|folder| Party::peer(folder, installed)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(text: &str) -> (tempfile::TempDir, Result<Party, String>) {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("peer.toml"), text).unwrap();
        let party = Party::peer(folder.path(), &folder.path().join("installed"));
        (folder, party)
    }

    #[test]
    fn a_peer_says_what_it_can() {
        let (_folder, party) =
            written("name = \"a\"\nroles = [\"server\", \"client\"]\ntests = [\"retry\"]\nclient-tests = [\"ecn\"]\n");
        let party = party.unwrap();
        assert_eq!((party.name(), party.missing().is_some()), ("a", true));
        assert!(party.claims(Side::Server, Case::Retry) && !party.claims(Side::Client, Case::Retry));
        assert!(party.claims(Side::Client, Case::Ecn) && !party.claims(Side::Server, Case::Ecn));
        let (_folder, party) = written("name = \"a\"\nroles = [\"client\"]\n");
        assert!(!party.unwrap().claims(Side::Server, Case::Handshake));
    }

    #[test]
    fn what_is_wrong_with_a_peer_is_named() {
        for (text, mend) in
            [("name = 1", "peer.toml"), ("name = \"a\"\nroles = [\"x\"]", "no role"), ("x = 1", "unknown field")]
        {
            let error = written(text).1.unwrap_err();
            assert!(error.contains(mend) && !error.contains('\n'), "{text}: {error}");
        }
    }

    #[test]
    fn an_installed_peer_has_a_version_and_one_that_cannot_be_says_why() {
        use std::os::unix::fs::PermissionsExt;
        let (folder, party) = written("name = \"a\"\nroles = [\"client\"]\n");
        let mut party = party.unwrap();
        let script = folder.path().join("install");
        let become_script = |text: &str| {
            std::fs::write(&script, text).unwrap();
            std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
        };
        become_script("#!/bin/sh\necho working\necho wants a compiler\nexit 127\n");
        party.install();
        assert_eq!(party.missing(), Some("wants a compiler"));
        become_script("#!/bin/sh\necho a 1.2\n");
        party.install();
        assert_eq!((party.missing(), party.version()), (None, Some("a 1.2")));
    }
}
