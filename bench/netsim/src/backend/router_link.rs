//! A link that the kernel may replace.

use std::time::Duration;

use fathom_units::Rate;

use crate::queue::QueueSpec;
use crate::sim::LinkId;

/// A link of an experiment that the kernel can emulate.
#[derive(Clone, Copy, Debug)]
pub struct RouterLink {
    /// The simulated link, which keeps the counts.
    pub link: LinkId,
    /// Rate of the link.
    pub rate: Rate,
    /// Queue in front of the link.
    pub queue: QueueSpec,
    /// Fixed delay that the kernel adds before the queue. The paths of the experiment do not
    /// include this delay.
    pub delay: Duration,
}
