//! The crates as `cargo package` makes them, in a workspace outside this one, as other projects
//! adopt them. A few changed lines are enough to use a controller in the server examples of quinn,
//! noq and tokio-quiche. The examples of quinn and noq are built with ring and with AWS-LC.
//!
//! Builds everything anew and fetches crates that nothing else here needs: `make test-packages`.

mod adoption;
mod outside;

use std::fs;

use adoption::{Adoption, NOQ, QUINN};
use outside::{Workspace, repository, run};

/// Largest number of lines of a server's example that may change.
const MOST_LINES: usize = 5;

#[test]
#[ignore = "make test-packages"]
fn crates_can_be_adopted_from_their_packages() {
    let workspace = Workspace::create("target/outside");
    workspace.write_manifest();
    workspace.unpack_packages();
    let servers = [QUINN, NOQ].map(|adoption| (workspace.adopt(&adoption), adoption));
    for (lines, Adoption { stack, .. }) in &servers {
        println!("{stack}'s own server example: {lines} lines changed");
        assert!(*lines <= MOST_LINES, "{stack}: {lines} lines changed");
    }
    workspace.write_client();
    for provider in ["ring", "aws-lc-rs"] {
        workspace.cargo(&["build", "--workspace", "--no-default-features", "--features", provider]);
        for (_, Adoption { stack, .. }) in &servers {
            workspace.serve_and_fetch(stack, provider);
        }
        // Run the examples of the packaged network crate.
        for bin in ["simulate", "simulate_tokio"] {
            let args = ["run", "--bin", bin, "--no-default-features", "--features", provider];
            workspace.cargo(&args);
        }
    }
}

/// salvo owns the accept loop and takes quinn's configuration. iroh also owns TLS and takes noq's
/// factory of controllers.
#[test]
#[ignore = "make test-packages-frameworks"]
fn frameworks_accepting_connections_take_a_controller() {
    let workspace = Workspace::create("target/outside-frameworks");
    workspace.unpack_packages();
    workspace.write_frameworks();
    workspace.cargo(&["build", "--release"]);
    workspace.serve_salvo();
    let said = workspace.cargo(&["run", "--release", "--bin", "iroh"]);
    println!("iroh: {said}");
    assert!(
        said.starts_with("1000000 bytes under ") && said.to_lowercase().contains("vegas"),
        "{said}"
    );
}

/// quiche does not support plug-ins: `[patch.crates-io]` names the derived quiche, and the server
/// does not change.
#[test]
#[ignore = "make test-packages-tokio-quiche"]
fn tokio_quiche_server_takes_a_controller_by_one_manifest_line() {
    let workspace = Workspace::create("target/outside-quiche");
    let lines = workspace.adopt_tokio_quiche();
    println!("tokio-quiche's own server example: {lines} line of Cargo.toml");
    assert!(lines <= MOST_LINES);
    workspace.serve_tokio_quiche();
}

#[test]
fn packaged_crates_have_registry_metadata() {
    let metadata = run(
        env!("CARGO"),
        &["metadata", "--format-version", "1", "--no-deps", "--locked", "--offline"],
        &repository(),
    );
    let metadata: serde_json::Value = serde_json::from_str(&metadata).expect("Cargo's metadata");
    let packages = metadata["packages"].as_array().expect("packages");
    let mut published: Vec<&str> = Vec::new();
    for package in packages.iter().filter(|package| package["publish"].is_null()) {
        let name = package["name"].as_str().expect("a name");
        let folder = std::path::Path::new(package["manifest_path"].as_str().expect("a path"))
            .parent()
            .expect("a folder");
        for field in ["description", "license", "readme", "rust_version"] {
            assert!(package[field].is_string(), "{name}: {field} is missing in Cargo.toml");
        }
        for list in ["keywords", "categories"] {
            let count = package[list].as_array().map_or(0, Vec::len);
            assert!(
                (1..=5).contains(&count),
                "{name}: {count} {list}, a registry takes one to five"
            );
        }
        for file in ["README.md", "LICENSE-MIT", "LICENSE-APACHE"] {
            assert!(
                !fs::read_to_string(folder.join(file)).unwrap_or_default().is_empty(),
                "{name}: {file}"
            );
        }
        for dependency in package["dependencies"].as_array().expect("dependencies") {
            // A registry needs versions. Cargo reports a path without a version as `*`. Development
            // dependencies without a version are left out of a package.
            let versioned = dependency["req"] != "*" || dependency["kind"] == "dev";
            assert!(versioned, "{name}: {} has no version", dependency["name"]);
        }
        published.push(name);
    }
    published.sort_unstable();
    let mut wanted = outside::CRATES.to_vec();
    wanted.sort_unstable();
    assert_eq!(published, wanted);
}
