//! Where the sources of stock quiche lie on this machine.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The version that the patch is made for.
pub const VERSION: &str = "0.30.0";

/// The folder of stock quiche: what `FATHOM_QUICHE_SOURCE` names, or Cargo's own copy, fetched now if it must be.
pub fn stock(out: &Path) -> Result<PathBuf, String> {
    println!("cargo:rerun-if-env-changed=FATHOM_QUICHE_SOURCE");
    if let Some(given) = std::env::var_os("FATHOM_QUICHE_SOURCE").map(PathBuf::from) {
        println!("cargo:rerun-if-changed={}", given.display());
        return is_stock(&given).then_some(given.clone()).ok_or_else(|| {
            format!(
                "FATHOM_QUICHE_SOURCE={} is not quiche {VERSION}; unset it or name its unpacked sources",
                given.display()
            )
        });
    }
    let registry = registry().ok_or("no home folder, so no Cargo registry; set CARGO_HOME")?;
    if let Some(found) = unpacked(&registry) {
        return Ok(found);
    }
    let why = fetch(out).err();
    unpacked(&registry).ok_or_else(|| {
        format!(
            "quiche {VERSION}'s sources are not in {}{}; run `cargo fetch` with network, or set FATHOM_QUICHE_SOURCE to them",
            registry.display(),
            why.map(|e| format!(" ({e})")).unwrap_or_default()
        )
    })
}

fn registry() -> Option<PathBuf> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| {
        Some(PathBuf::from(std::env::var_os("HOME").or_else(|| std::env::var_os("USERPROFILE"))?).join(".cargo"))
    })?;
    Some(home.join("registry").join("src"))
}

/// Cargo unpacks to `registry/src/<index>/<name>-<version>`.
fn unpacked(registry: &Path) -> Option<PathBuf> {
    let mut indexes: Vec<_> = std::fs::read_dir(registry).ok()?.flatten().map(|e| e.path()).collect();
    indexes.sort();
    indexes.into_iter().map(|index| index.join(format!("quiche-{VERSION}"))).find(|folder| is_stock(folder))
}

fn is_stock(folder: &Path) -> bool {
    let Ok(manifest) = std::fs::read_to_string(folder.join("Cargo.toml")) else { return false };
    let has = |line: &str| manifest.lines().any(|l| l == line);
    has("name = \"quiche\"") && has(&format!("version = \"{VERSION}\""))
}

/// Has Cargo download quiche for a package that asks for nothing else. An adopter's own lock file holds the derived one only.
fn fetch(out: &Path) -> Result<(), String> {
    let folder = out.join("fetch");
    let io = |e: std::io::Error| format!("{}: {e}", folder.display());
    std::fs::create_dir_all(folder.join("src")).map_err(io)?;
    std::fs::write(folder.join("src/lib.rs"), "").map_err(io)?;
    let manifest = format!(
        "[package]\nname = \"fetch\"\nversion = \"0.0.0\"\nedition = \"2021\"\n[workspace]\n[dependencies]\n\
         quiche = {{ version = \"={VERSION}\", default-features = false }}\n"
    );
    std::fs::write(folder.join("Cargo.toml"), manifest).map_err(io)?;
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let target = std::env::var_os("TARGET").expect("Cargo sets it");
    let run = Command::new(cargo).arg("fetch").arg("--target").arg(target).current_dir(&folder).output();
    let run = run.map_err(|e| format!("cargo fetch: {e}"))?;
    let said = String::from_utf8_lossy(&run.stderr);
    if run.status.success() {
        return Ok(());
    }
    Err(format!("cargo fetch: {}", said.lines().find(|l| l.starts_with("error")).unwrap_or("failed")))
}
