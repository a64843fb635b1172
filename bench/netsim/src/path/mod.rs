//! What a path does to packets besides queueing them, in virtual time as in the relay and, where tc has it, in netem.
//!
//! | file | what is in it |
//! |---|---|
//! | `spec.rs` | a path as users write it: rates, base RTT, queue, and everything below, for each direction |
//! | `presets.rs` | paths with a name: DSL, cable, fibre, Wi-Fi, LTE, LEO, GEO, data centre |
//! | `impairer.rs` | one direction at work: what becomes of each packet. Pure |
//! | `loss.rs`, `jitter.rs`, `policer.rs`, `reorder.rs`, `ecn.rs`, `overtaken.rs` | its parts |
//! | `event.rs` | what changes at a set time: blackouts, holds, MTU, rate, RTT |
//! | `trace.rs` | rate traces in Mahimahi's format |
//! | `trace_formats.rs` | names other formats, and how to convert them |
//! | `models.rs` | traces made by published models of Wi-Fi, LTE and LEO links |

mod ecn;
mod event;
mod impairer;
mod jitter;
mod loss;
mod models;
mod overtaken;
mod policer;
mod presets;
mod reorder;
mod spec;
mod trace;
mod trace_formats;

pub use ecn::EcnField;
pub use event::{PathEvent, parse_rate};
pub use impairer::{Departure, DropCause, Impairer, ImpairmentCounts, Impairments};
pub use jitter::{Jitter, Shape};
pub use loss::Loss;
pub use models::{MODELS, Model};
pub use policer::Policer;
pub use presets::{PRESETS, Preset};
pub use reorder::{Distance, Leaving, Reorder};
pub use spec::{DirectedPath, Path, PathSpec, parse_range};
pub use trace::Trace;

pub(crate) use trace::TraceCursor;
