//! quiche's controllers by name.

use std::sync::Arc;

use quiche::CongestionControlAlgorithm;
use quiche::fathom::algorithm_of;

use crate::controller::Controller;

/// quiche's own controllers.
pub(crate) const NATIVES: &[&str] = &["reno", "cubic", "bbr2"];

/// A controller as quiche's configuration takes it.
///
/// # Errors
/// One of ours needs what quiche lacks; one line.
pub fn algorithm(controller: &Controller) -> Result<CongestionControlAlgorithm, String> {
    match controller {
        Controller::Fathom(config) => algorithm_of(Arc::clone(config)).map_err(|e| e.to_string()),
        Controller::Native("cubic") => Ok(CongestionControlAlgorithm::CUBIC),
        Controller::Native("bbr2") => Ok(CongestionControlAlgorithm::Bbr2Gcongestion),
        Controller::Native(_) => Ok(CongestionControlAlgorithm::Reno),
    }
}

/// Whether quiche must pace for it. Only BBR needs that: the others' windows are all there is to them, and ours pace themselves.
pub fn needs_pacing(algorithm: CongestionControlAlgorithm) -> bool {
    algorithm == CongestionControlAlgorithm::Bbr2Gcongestion
}
