//! Replacement of the wall clock and the kernel's sockets (`backend/real_time.rs`) in builds
//! without the feature `real-time`. In such builds, no run has them.

use super::network::LinkId;

/// The wall clock and the kernel's sockets. This type has no values.
pub(crate) enum RealTime {}

impl RealTime {
    pub(crate) const fn edge(&self, _socket: u16, _out: bool) -> Option<usize> {
        match *self {}
    }

    pub(crate) const fn link(&self, _link: LinkId) -> Option<usize> {
        match *self {}
    }
}
