//! Effects of a path on packets other than queueing. They apply in virtual time, in the relay and,
//! if tc supports them, in netem.
//!
//! | file | contents |
//! |---|---|
//! | `spec.rs` | a path as users write it: rates, base RTT, queue and impairments, per direction |
//! | `presets.rs` | named paths: DSL, cable, fibre, Wi-Fi, LTE, LEO, GEO, data centre |
//! | `impairer.rs` | the impairments of one direction as a pure state machine, packet by packet |
//! | `loss.rs`, `jitter.rs`, `policer.rs`, `reorder.rs`, `ecn.rs`, `overtaken.rs` | the parts of impairments |
//! | `departure.rs` | a packet as it leaves the link, and as it departs behind the impairments |
//! | `event.rs` | changes at a set time: blackouts, holds, MTU, rate, RTT |

mod departure;
mod ecn;
mod event;
mod impairer;
mod jitter;
mod loss;
mod overtaken;
mod policer;
mod presets;
mod reorder;
mod spec;

pub use crate::trace::{MODELS, Model, Trace, TraceError};
pub use departure::{Departure, Leaving};
pub use ecn::EcnField;
pub use event::{PathEvent, parse_rate};
pub use impairer::{DropCause, Impairer, ImpairmentCounts, Impairments};
pub use jitter::{Jitter, Shape};
pub use loss::Loss;
pub use policer::Policer;
pub use presets::{PRESETS, Preset};
pub use reorder::{Distance, Reorder};
pub use spec::{CheckedPath, DirectedPath, PathSpec, parse_range};
