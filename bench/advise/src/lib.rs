//! Recommends a congestion controller for a server's clients, based on the server's logs.
//!
//! | file | contents |
//! |---|---|
//! | `logs.rs` | logs and tables as observations |
//! | `observe.rs` | path properties derived from a connection's log |
//! | `delivery.rs` | bytes delivered over time, and the rate while the path was full |
//! | `table.rs` | connections as a table |
//! | `profile.rs` | distributions over connections, classes of clients |
//! | `workload.rs` | sizes of responses, requests per connection |
//! | `scenario.rs` | classes with their paths, in an editable file |
//! | `advice.rs` | the runs, the ranking over all clients, the recommendation |
//! | `page.rs` | profile and advice as shown to the user |

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
