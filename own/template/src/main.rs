//! `fathom` with one additional controller.

fn main() -> std::process::ExitCode {
    fathom::run_with(&[template_controller::ALGORITHM])
}
