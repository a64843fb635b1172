//! The parts of the first slow start that each controller can have.

use crate::{hystart, rapid_start};

/// Choice of the parts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Startup {
    /// End slow start when RTTs grow.
    pub hystart: hystart::Use,
    /// Grow faster until RTTs grow, and converge after the first congestion.
    pub rapid_start: rapid_start::Use,
}
