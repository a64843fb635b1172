//! Reasons why the kernel's links are not available.

use super::qdisc::NoQdisc;

/// Reason why the kernel's links are not available. Each message is one line that says how to fix
/// it.
#[derive(Debug, thiserror::Error)]
pub enum NetemError {
    /// The system refused to create a namespace, which requires privileges.
    #[error(
        "cannot make a network namespace: {0}; run as root, or with --kernel uml, which needs no privileges"
    )]
    Namespace(std::io::Error),
    /// A tool is missing or failed.
    #[error("'{tool} {what}' failed: {why}; {hint}")]
    Tool {
        /// Name of the tool: `ip` or `tc`.
        tool: &'static str,
        /// Arguments of the tool.
        what: String,
        /// First line of the tool's error output, or the reason why it did not start.
        why: String,
        /// Hint that tells the user how to fix the problem.
        hint: &'static str,
    },
    /// tc has no such queue.
    #[error(transparent)]
    Queue(#[from] NoQdisc),
    /// A socket in a namespace failed.
    #[error(
        "cannot open a socket in a network namespace: {0}; check whether a limit applies to \
        this process's sockets"
    )]
    Socket(#[from] std::io::Error),
    /// The link was built but carries no datagrams.
    #[error(
        "the emulated link carries no packets; check whether a firewall filters packets in new \
         network namespaces"
    )]
    Silent,
}
