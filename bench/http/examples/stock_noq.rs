//! A minimal HTTP/3 server on unmodified noq and h3: the baseline for `fathom serve --stack noq`
//! (docs/serve-measured.md).
//!
//! `cargo run --release -p fathom-http --example stock_noq [ADDRESS]` answers every request for
//! `/bytes/N` with N zeros. The server has no limits and no metrics, and its certificate is
//! generated. Do not use it in production.

use h3_noq as h3_stack;
use noq as stack;

include!("stock/server.rs");
