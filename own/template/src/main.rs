//! `fathom` with one controller more.

fn main() -> std::process::ExitCode {
    fathom::run_with(&[template_controller::ALGORITHM])
}
