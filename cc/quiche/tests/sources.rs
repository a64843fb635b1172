//! Sources that the build script accepts as those of stock quiche.

#[allow(dead_code)]
#[path = "../build/assemble.rs"]
mod assemble;
#[allow(dead_code)]
#[path = "../build/error.rs"]
mod error;
#[allow(dead_code)]
#[path = "../build/locate.rs"]
mod locate;

use std::path::Path;

/// Copies a folder.
fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a folder");
    for entry in std::fs::read_dir(from).expect("a folder").flatten() {
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if from.is_dir() {
            copy(&from, &to);
        } else {
            std::fs::write(&to, std::fs::read(&from).expect("a file")).expect("written");
        }
    }
}

#[test]
fn build_stops_if_sources_of_stock_quiche_have_changed() {
    let folder = tempfile::tempdir().expect("a folder");
    let stock = locate::stock(folder.path()).expect("the sources that this crate was built from");
    let patches = Path::new(env!("CARGO_MANIFEST_DIR")).join("patch");
    let build = |stock: &Path| assemble::assemble(stock, &patches, &folder.path().join("quiche"));
    let changed = folder.path().join("changed");
    copy(&stock, &changed);
    build(&changed).expect("a copy is as good");
    // Name, version, number of clock reads and everything that the patch touches are unchanged.
    let file = changed.join("src/minmax.rs");
    let text = std::fs::read_to_string(&file).expect("a file");
    std::fs::write(&file, text + "\n// One line more.\n").expect("written");
    let refused = build(&changed).expect_err("refused");
    assert!(matches!(refused, error::Error::Changed { .. }), "{refused}");
    let text = refused.to_string();
    assert!(text.contains("SHA-256") && text.contains("as published"), "{text}");
    std::fs::remove_file(&file).expect("removed");
    assert!(matches!(build(&changed), Err(error::Error::Changed { .. })));
}

#[test]
fn manifests_are_found_in_cargo_metadata() {
    let said = r#"{"packages":[{"name":"a","manifest_path":"/v/a/Cargo.toml"},{"manifest_path":"C:\\v\\b\\Cargo.toml"}]}"#;
    let found: Vec<_> = locate::manifests(said).collect();
    assert_eq!(found, ["/v/a/Cargo.toml", r"C:\v\b\Cargo.toml"]);
}
