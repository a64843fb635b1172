//! Reads the versions of the stacks from Cargo's lock file, because results name them.

use std::path::Path;

/// The crates that make up a stack. `Stack::properties` in `src/stack.rs` reads each entry.
const STACKS: &[(&str, &[&str])] = &[
    ("QUINN", &["quinn", "quinn-proto"]),
    ("NOQ", &["noq", "noq-proto"]),
    ("QUICHE", &["quiche"]),
];

fn main() {
    let lock = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../Cargo.lock");
    println!("cargo::rerun-if-changed={}", lock.display());
    println!("cargo::rerun-if-changed=build.rs");
    let text = std::fs::read_to_string(&lock).unwrap_or_default();
    let packages: Vec<&str> = text.split("[[package]]").collect();
    let field = |package: &str, name: &str| {
        let line = package.lines().find_map(|line| line.strip_prefix(&format!("{name} = \"")))?;
        Some(line.trim_end_matches('"').to_owned())
    };
    let version = |name: &str| {
        let of_name: Vec<&&str> =
            packages.iter().filter(|p| field(p, "name").as_deref() == Some(name)).collect();
        // There are two packages named quiche; ours does not come from a registry.
        let ours = of_name.iter().find(|p| field(p, "source").is_none()).or(of_name.first())?;
        field(ours, "version")
    };
    for (stack, crates) in STACKS {
        let found = crates.iter().filter_map(|name| Some(format!("{name} {}", version(name)?)));
        println!("cargo::rustc-env=FATHOM_CRATES_{stack}={}", found.collect::<Vec<_>>().join(", "));
    }
}
