//! A minimal HTTP/3 server on unmodified quinn and h3: the baseline for `fathom serve --stack quinn`
//! (docs/serve-measured.md).
//!
//! `cargo run --release -p fathom-http --example stock_quinn [ADDRESS]` answers every request for
//! `/bytes/N` with N zeros. The server has no limits and no metrics, and its certificate is
//! generated. Do not use it in production.

use h3_quinn as h3_stack;
use quinn as stack;

include!("stock/server.rs");
