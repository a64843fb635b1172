//! Why a kernel's links cannot be had.

use super::qdisc::NoQdisc;

/// Why a kernel's links cannot be had. Each message is one line that says how to fix it.
#[derive(Debug, thiserror::Error)]
pub enum NetemError {
    /// Namespaces need privileges.
    #[error(
        "cannot make a network namespace: {0}; run as root, or with --kernel uml, which needs no privileges"
    )]
    Namespace(std::io::Error),
    /// A tool that is not there or refuses.
    #[error("'{tool} {what}' failed: {why}; {hint}")]
    Tool {
        /// `ip` or `tc`.
        tool: &'static str,
        /// Its arguments.
        what: String,
        /// What it said.
        why: String,
        /// How to fix it.
        hint: &'static str,
    },
    /// A queue that tc does not have.
    #[error(transparent)]
    Queue(#[from] NoQdisc),
    /// A socket in a namespace.
    #[error("a socket in a namespace: {0}; see whether another program limits this one's sockets")]
    Socket(#[from] std::io::Error),
    /// What was built does not carry a datagram.
    #[error(
        "the link that was built carries nothing: see whether a firewall filters in new namespaces"
    )]
    Silent,
}
