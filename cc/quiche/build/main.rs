//! Assembles the crate: stock quiche's sources, our patch, and a clock that can be set.
//!
//! If a part does not fit, the build stops with an error that names the part.

mod assemble;
mod error;
mod locate;

use std::path::Path;

fn main() {
    println!("cargo:rerun-if-changed=build");
    println!("cargo:rerun-if-changed=patch");
    // Like stock's own build script, detect the version of BoringSSL that the boring crate
    // provides, and link it.
    println!("cargo::rustc-check-cfg=cfg(boring_v5)");
    if cfg!(feature = "boringssl-boring-crate") {
        if std::env::var("DEP_BORINGSSL_VERSION_MAJOR").as_deref() == Ok("5") {
            println!("cargo:rustc-cfg=boring_v5");
        }
        println!("cargo:rustc-link-lib=static=ssl");
        println!("cargo:rustc-link-lib=static=crypto");
    }
    let out = std::env::var_os("OUT_DIR").expect("Cargo sets it");
    let manifest = std::env::var_os("CARGO_MANIFEST_DIR").expect("Cargo sets it");
    let done = locate::stock(Path::new(&out)).and_then(|stock| {
        assemble::assemble(
            &stock,
            &Path::new(&manifest).join("patch"),
            &Path::new(&out).join("quiche"),
        )
    });
    if let Err(e) = done {
        eprintln!("error: {e}");
        std::process::exit(1);
    }
}
