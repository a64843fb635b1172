//! `fathom` with controllers that are broken on purpose: `cargo run --release --example broken -- judge ignores-loss`.

fn main() -> std::process::ExitCode {
    fathom::run_with(fathom_cc::testing::BROKEN)
}
