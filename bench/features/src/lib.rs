//! Names features of dependencies, and has no code: see its `Cargo.toml`.
