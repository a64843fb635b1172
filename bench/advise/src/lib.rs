//! From logs of a server to the congestion controller that serves its clients best.
//!
//! | file | what is in it |
//! |---|---|
//! | `logs.rs` | logs and tables as observations |
//! | `observe.rs` | what a connection's log shows of its path |
//! | `delivery.rs` | what it delivered over time, and its rate while the path was full |
//! | `table.rs` | connections as a table |
//! | `profile.rs` | distributions over connections, classes of clients |
//! | `workload.rs` | sizes of responses, requests of a connection |
//! | `scenario.rs` | classes with their paths, in a file that can be edited |
//! | `advice.rs` | the runs, the ranking over all clients, the answer |
//! | `page.rs` | profile and advice as a reader sees them |

mod advice;
mod delivery;
mod logs;
mod observe;
mod page;
mod profile;
mod scenario;
mod table;
mod workload;

pub use advice::{Advice, ClassAdvice, Effect, InClass, Overall, advise};
pub use delivery::RateSource;
pub use logs::Observed;
pub use observe::{Observation, Observer};
pub use page::{cautions, implausible};
pub use profile::{Class, MOST_CLASSES, Profile, Spread};
pub use scenario::{ClassPath, Scenario, available, default_controller};
pub use workload::Objects;
