//! This crate has no code. Its `Cargo.toml` names features of dependencies.
