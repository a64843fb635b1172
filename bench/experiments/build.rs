//! Finds which versions of the stacks are built in: results name them. Cargo's lock file knows.

use std::path::Path;

/// The crates that make a stack, by the stack's name.
const STACKS: [(&str, &[&str]); 3] =
    [("QUINN", &["quinn", "quinn-proto"]), ("NOQ", &["noq", "noq-proto"]), ("QUICHE", &["quiche"])];

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
