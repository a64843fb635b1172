//! Experiments: a [`Plan`] says what is asked, a [`RunSpec`] is one run of it, [`compare`] runs it with several controllers.

mod calibrate;
mod clients;
mod compare;
mod plan;
mod result;
mod run;
mod servers;
mod shared_bottleneck;
mod state;
mod topology;
mod traffic;

pub use calibrate::Rates;
pub use compare::{CompareError, Stage, compare, compare_until};
pub use plan::{Connections, Plan, PlanError, Shaping, Timestamps, Workload};
pub(crate) use plan::{parse_bytes, parse_load, parse_window, read_toml, toml_message};
pub use result::{Comparison, Cost, Missing, Reference, RunResult, SharesOverTime};
pub(crate) use run::thread_cpu_time;
pub use run::{RunError, RunSpec, run};
pub use shared_bottleneck::{CompetingFlow, SharedBottleneck, SharedBottleneckResult, shared_bottleneck};
pub use state::Progress;
