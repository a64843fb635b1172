//! What makes a world one of real time: [`Ground`] put into practice.

use std::time::Duration;

use fathom_cc::Rate;

use crate::link::QueueSpec;
use crate::world::{Executor, Ground, LinkId};

/// A link of an experiment that the kernel can be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RouterLink {
    /// The link, for its counts.
    pub(crate) link: LinkId,
    /// Its rate.
    pub(crate) rate: Rate,
    /// The queue in front of it.
    pub(crate) queue: QueueSpec,
    /// Fixed delay that the kernel adds before the queue; the experiment's own paths leave it out.
    pub(crate) delay: Duration,
}

/// Why a run cannot be in real time. Each message is one line that names the mend.
#[derive(Debug, thiserror::Error)]
pub enum GroundError {
    /// Sockets on loopback.
    #[error("sockets on loopback: {0}; see whether another program limits this one's sockets")]
    Sockets(#[from] std::io::Error),
    /// The kernel's links.
    #[cfg(target_os = "linux")]
    #[error(transparent)]
    Netem(#[from] crate::netem::NetemError),
    /// Not Linux.
    #[error("only Linux has netem; run it in --world relay")]
    NotLinux,
}

/// Puts a world that is set up on its ground. `router` are the links that are the kernel's in netem's world.
pub(crate) fn enter(executor: &mut Executor, ground: Ground, router: &[RouterLink]) -> Result<(), GroundError> {
    match ground {
        Ground::Virtual => {}
        Ground::Relay => executor.through_loopback()?,
        #[cfg(target_os = "linux")]
        Ground::Netem => {
            let links = router.iter().map(crate::netem::build).collect::<Result<_, _>>()?;
            executor.through_kernel_links(links)?;
        }
        #[cfg(not(target_os = "linux"))]
        Ground::Netem => return Err(GroundError::NotLinux),
    }
    Ok(())
}
