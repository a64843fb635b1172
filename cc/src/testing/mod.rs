//! Controllers and a path for tests of adapters, laboratories and controllers. No dependency, no clock.

mod bottleneck;
mod null;
mod recording;

pub use bottleneck::{Bottleneck, Curve, Point};
pub use null::{Null, NullConfig};
pub use recording::{Event, Log, Record, Recording, RecordingConfig};
