//! quiche with Fathom's controllers, chosen by name, and the one-way-delay frame.
//!
//! Everything but [`fathom`] is stock quiche 0.30.0 (BSD-2-Clause, Cloudflare), whose documentation applies, and a patch
//! (`cc/quiche/patch`); `build/` puts the two together. What the patch adds to quiche's own types is listed in [`fathom`].

// Stock's code is not ours to lint.
#![allow(warnings, clippy::all)]

#[warn(warnings, clippy::all, missing_docs, clippy::disallowed_methods, clippy::dbg_macro)]
#[allow(rustdoc::all)]
pub mod fathom;

include!(concat!(env!("OUT_DIR"), "/quiche/lib.rs"));
