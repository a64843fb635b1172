//! A link that a kernel may take over.

use std::time::Duration;

use fathom_units::Rate;

use crate::queue::QueueSpec;
use crate::sim::LinkId;

/// A link of an experiment that the kernel can be.
#[derive(Clone, Copy, Debug)]
pub struct RouterLink {
    /// The link, for its counts.
    pub link: LinkId,
    /// Its rate.
    pub rate: Rate,
    /// The queue in front of it.
    pub queue: QueueSpec,
    /// Fixed delay that the kernel adds before the queue; the experiment's own paths leave it out.
    pub delay: Duration,
}
