//! quiche with Fathom's controllers, chosen by name, and with timestamp frames.
//!
//! Everything except [`fathom`] is stock quiche 0.30.0 (BSD-2-Clause, Cloudflare) with a patch
//! (`cc/quiche/patch`). Stock's documentation applies. `build/` combines the two. [`fathom`] lists
//! what the patch adds to quiche's own types.

// Stock's code is not linted here.
#![allow(warnings, clippy::all)]

#[warn(warnings, clippy::all, missing_docs, clippy::disallowed_methods, clippy::dbg_macro)]
#[allow(rustdoc::all)]
pub mod fathom;

include!(concat!(env!("OUT_DIR"), "/quiche/lib.rs"));
