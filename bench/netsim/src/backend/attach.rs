//! Attaches a configured simulation to its [`Backend`].

use super::name::Backend;
use super::router_link::RouterLink;
use crate::sim::Executor;

/// Reason why a run cannot use a real-time backend. Each message is one line that says how to fix
/// it.
#[derive(Debug, thiserror::Error)]
pub enum BackendError {
    /// A socket on loopback failed.
    #[error(
        "cannot open sockets on loopback: {0}; check whether a limit applies to this process's \
        sockets"
    )]
    Sockets(#[from] std::io::Error),
    /// The kernel's links are not available.
    #[cfg(target_os = "linux")]
    #[error(transparent)]
    Netem(#[from] super::netem::NetemError),
    /// The system is not Linux.
    #[error("only Linux has netem; use --backend loopback")]
    NotLinux,
}

/// Attaches a configured simulation to its backend. On the netem backend, the kernel replaces the
/// links in `router`.
pub fn attach(
    executor: &mut Executor,
    backend: Backend,
    router: &[RouterLink],
) -> Result<(), BackendError> {
    match backend {
        Backend::Virtual => {}
        Backend::Loopback => executor.through_loopback()?,
        #[cfg(target_os = "linux")]
        Backend::Netem => {
            let links = router.iter().map(super::netem::build).collect::<Result<_, _>>()?;
            executor.through_kernel_links(links)?;
        }
        #[cfg(not(target_os = "linux"))]
        Backend::Netem => return Err(BackendError::NotLinux),
    }
    Ok(())
}
