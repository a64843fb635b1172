//! The parts of the first slow start that each controller can have.

use crate::{hystart, rapid_start, search};

/// Choice of the parts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Startup {
    /// End slow start when RTTs grow.
    pub hystart: hystart::Use,
    /// End slow start when deliveries no longer double.
    pub search: search::Use,
    /// Grow faster until RTTs grow, and converge after the first congestion.
    pub rapid_start: rapid_start::Use,
}
