//! Unmodified tokio-quiche on the derived quiche: see `examples/` and `docs/quiche.md`.
