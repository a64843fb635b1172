//! Controllers and a path for tests of adapters, laboratories and controllers. No dependency, no clock.

mod bottleneck;
pub mod broken;
pub mod contract;
mod null;
mod recording;
pub mod script;

pub use bottleneck::{Bottleneck, Curve, Point};
pub use broken::BROKEN;
pub use null::{Null, NullConfig};
pub use recording::{Event, Log, Record, Recording, RecordingConfig};
