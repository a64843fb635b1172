//! The rules of `deny.toml` that need no network, checked against Cargo's metadata of every
//! dependency on every platform. `make deny` checks the same rules with cargo-deny and adds
//! advisories, but cargo-deny is not installed everywhere, and these rules must always be checked.

use std::collections::BTreeSet;
use std::process::Command;

use serde::Deserialize;
use spdx::{Expression, LicenseReq, Licensee};

/// Source of the crates that do not belong to this workspace.
const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    version: String,
    license: Option<String>,
    /// Source of the package; `None` for a crate of this workspace.
    source: Option<String>,
    dependencies: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Dependency {
    name: String,
    req: String,
    path: Option<String>,
}

#[derive(Deserialize)]
struct Rules {
    licenses: Licenses,
    bans: Bans,
}

#[derive(Deserialize)]
struct Licenses {
    allow: Vec<String>,
}

#[derive(Deserialize)]
struct Bans {
    deny: Vec<String>,
}

/// Features of a build with everything, including baselines of the laboratory.
const ALL: &[&str] = &["--all-features"];
/// Features of the program that ships.
const SHIPPED: &[&str] = &["--features", "quiche"];

fn metadata(features: &[&str]) -> Metadata {
    let out = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--locked", "--offline"])
        .args(features)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo runs");
    assert!(
        out.status.success(),
        "{}\nrun 'cargo fetch --locked'",
        String::from_utf8_lossy(&out.stderr)
    );
    serde_json::from_slice(&out.stdout).expect("cargo's metadata")
}

fn rules() -> Rules {
    toml::from_str(include_str!("../deny.toml")).expect("deny.toml")
}

/// Returns whether an allowed licence satisfies a requirement.
fn allows(allowed: &[Licensee], required: &LicenseReq) -> bool {
    allowed.iter().any(|licensee| licensee.satisfies(required))
}

/// Returns the error in the licence of a package, if there is one.
fn unlicensed(license: Option<&str>, allowed: &[Licensee]) -> Option<String> {
    let Some(license) = license else { return Some("names no licence".into()) };
    // Before SPDX, Cargo treated a slash as OR.
    let expression = match Expression::parse(&license.replace('/', " OR ")) {
        Ok(expression) => expression,
        Err(e) => {
            return Some(format!(
                "has the licence '{license}', which SPDX does not know: {}",
                e.reason
            ));
        }
    };
    let allowed = expression.evaluate(|required| allows(allowed, required));
    (!allowed).then(|| format!("has the licence '{license}', which deny.toml does not allow"))
}

fn licensees(rules: &Rules) -> Vec<Licensee> {
    let parse =
        |id: &String| Licensee::parse(id).unwrap_or_else(|e| panic!("deny.toml: '{id}': {e}"));
    rules.licenses.allow.iter().map(parse).collect()
}

fn assert_none(wrong: &BTreeSet<String>) {
    assert!(wrong.is_empty(), "{}", wrong.iter().map(|w| format!("{w}\n")).collect::<String>());
}

#[test]
fn every_dependency_has_an_allowed_licence() {
    let allowed = licensees(&rules());
    let packages = metadata(ALL).packages;
    assert!(packages.len() > 100, "cargo lists {} packages only", packages.len());
    let wrong = packages.iter().filter_map(|p| {
        unlicensed(p.license.as_deref(), &allowed)
            .map(|why| format!("{} {} {why}", p.name, p.version))
    });
    assert_none(&wrong.collect());
}

#[test]
fn shipped_program_has_no_banned_dependency() {
    let banned = rules().bans.deny;
    let wrong = metadata(SHIPPED).packages.into_iter().filter(|p| banned.contains(&p.name));
    assert_none(
        &wrong.map(|p| format!("{} {} is banned by deny.toml", p.name, p.version)).collect(),
    );
    // With all features, AWS-LC is a dependency: features determine what Cargo lists.
    assert!(metadata(ALL).packages.iter().any(|p| banned.contains(&p.name)));
}

#[test]
fn no_dependency_has_an_unknown_source() {
    let wrong = metadata(ALL).packages.into_iter().filter_map(|p| match &p.source {
        Some(source) if source != REGISTRY => {
            Some(format!("{} {} comes from {source}", p.name, p.version))
        }
        _ => None,
    });
    assert_none(&wrong.collect());
}

#[test]
fn no_workspace_crate_accepts_any_version_of_a_dependency() {
    let ours = metadata(ALL).packages.into_iter().filter(|p| p.source.is_none());
    let wrong = ours.flat_map(|p| {
        let wild = p.dependencies.into_iter().filter(|d| d.req == "*" && d.path.is_none());
        wild.map(|d| format!("{} takes any version of {}", p.name, d.name)).collect::<Vec<_>>()
    });
    assert_none(&wrong.collect());
}

#[test]
fn unallowed_licences_are_detected() {
    let allowed = licensees(&rules());
    assert_eq!(unlicensed(Some("GPL-3.0-only OR MIT/Apache-2.0"), &allowed), None);
    for license in [None, Some("GPL-3.0-only"), Some("MIT AND AGPL-3.0-only"), Some("My own")] {
        assert!(unlicensed(license, &allowed).is_some(), "{license:?}");
    }
}
