//! The `fathom` command.

/// Memory allocator: mimalloc saves a tenth of the CPU time of short connections, which make
/// hundreds of small allocations.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    fathom::run_with(&[])
}
