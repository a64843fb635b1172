//! Finds the sources of stock quiche on this machine.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::error::{CargoError, Error};

/// Version of quiche for which the patch is made.
pub const VERSION: &str = "0.30.0";

/// Returns the folder of stock quiche. The first existing folder of these is used:
/// - the folder in `FATHOM_QUICHE_SOURCE`;
/// - Cargo's own copy in its registry;
/// - the folder that Cargo reports, which may be vendored or come from a registry that replaces
///   crates.io. Cargo downloads it if necessary.
///
/// [`crate::assemble`] checks that the sources are the published ones.
pub fn stock(out: &Path) -> Result<PathBuf, Error> {
    println!("cargo:rerun-if-env-changed=FATHOM_QUICHE_SOURCE");
    if let Some(given) = std::env::var_os("FATHOM_QUICHE_SOURCE").map(PathBuf::from) {
        println!("cargo:rerun-if-changed={}", given.display());
        return if is_stock(&given) { Ok(given) } else { Err(Error::NotStock(given)) };
    }
    let registry = registry();
    if let Some(found) = registry.as_deref().and_then(unpacked) {
        return Ok(found);
    }
    asked_of_cargo(out).map_err(|why| Error::NotFound { registry, why })
}

fn registry() -> Option<PathBuf> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| {
        Some(
            PathBuf::from(std::env::var_os("HOME").or_else(|| std::env::var_os("USERPROFILE"))?)
                .join(".cargo"),
        )
    })?;
    Some(home.join("registry").join("src"))
}

/// Finds the folder to which Cargo unpacked the crate: `registry/src/<index>/<name>-<version>`.
fn unpacked(registry: &Path) -> Option<PathBuf> {
    let mut indexes: Vec<_> =
        std::fs::read_dir(registry).ok()?.flatten().map(|e| e.path()).collect();
    indexes.sort();
    indexes
        .into_iter()
        .map(|index| index.join(format!("quiche-{VERSION}")))
        .find(|folder| is_stock(folder))
}

fn is_stock(folder: &Path) -> bool {
    let Ok(manifest) = std::fs::read_to_string(folder.join("Cargo.toml")) else { return false };
    let has = |line: &str| manifest.lines().any(|l| l == line);
    has("name = \"quiche\"") && has(&format!("version = \"{VERSION}\""))
}

/// Asks Cargo for the folder of quiche. To do so, makes quiche the only dependency of a package,
/// because an adopter's own lock file contains only the derived quiche. Cargo uses the settings
/// above the folder in which it runs, such as `[source]` of a workspace with vendored sources. The
/// settings above the build's output folder are tried first, and then those above this package.
fn asked_of_cargo(out: &Path) -> Result<PathBuf, CargoError> {
    let folder = out.join("fetch");
    let io = |e| CargoError::Io(folder.clone(), e);
    std::fs::create_dir_all(folder.join("src")).map_err(io)?;
    std::fs::write(folder.join("src/lib.rs"), "").map_err(io)?;
    let manifest = format!(
        "[package]\nname = \"fetch\"\nversion = \"0.0.0\"\nedition = \"2021\"\n[workspace]\n[dependencies]\n\
         quiche = {{ version = \"={VERSION}\", default-features = false }}\n"
    );
    std::fs::write(folder.join("Cargo.toml"), manifest).map_err(io)?;
    let package = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").expect("Cargo sets it"));
    match metadata(&folder, &folder) {
        Ok(found) => Ok(found),
        Err(e) => metadata(&folder, &package).map_err(|_| e),
    }
}

/// Makes Cargo describe the package in `folder` and all its dependencies. Cargo runs in the folder
/// `from` and downloads missing packages.
fn metadata(folder: &Path, from: &Path) -> Result<PathBuf, CargoError> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let target = std::env::var_os("TARGET").expect("Cargo sets it");
    let mut run = Command::new(cargo);
    run.args(["metadata", "--format-version", "1", "--filter-platform"]).arg(target);
    run.arg("--manifest-path").arg(folder.join("Cargo.toml")).current_dir(from);
    let run = run.output().map_err(CargoError::Run)?;
    if !run.status.success() {
        let said = String::from_utf8_lossy(&run.stderr);
        let line = said.lines().find(|l| l.starts_with("error")).unwrap_or("failed");
        return Err(CargoError::Failed(line.to_owned()));
    }
    let described = String::from_utf8_lossy(&run.stdout);
    let found = manifests(&described)
        .filter_map(|manifest| Some(Path::new(&manifest).parent()?.to_path_buf()))
        .find(|folder| is_stock(folder));
    found.ok_or(CargoError::Unknown)
}

/// Returns every `manifest_path` in Cargo's description, which is JSON on one line.
pub fn manifests(described: &str) -> impl Iterator<Item = String> + '_ {
    const KEY: &str = "\"manifest_path\":\"";
    described.match_indices(KEY).map(|(at, _)| {
        let mut path = String::new();
        let mut chars = described[at + KEY.len()..].chars();
        while let Some(c) = chars.next().filter(|c| *c != '"') {
            // In a path, only backslashes and quotes are escaped. A path with other escapes is not
            // found.
            path.push(if c == '\\' { chars.next().unwrap_or(c) } else { c });
        }
        path
    })
}
