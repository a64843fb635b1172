//! Test controllers, a simulated path and contract tests, for tests of adapters, laboratories and
//! controllers. They have no dependencies and read no clock.

pub mod ack_load;
mod bottleneck;
pub mod broken;
pub mod contract;
mod fixed;
mod null;
mod recording;
pub mod script;

pub use bottleneck::{Bottleneck, Curve, Point};
pub use broken::BROKEN;
pub use fixed::Fixed;
pub use null::{Null, NullConfig};
pub use recording::{Event, Log, Record, Recording, RecordingConfig};
