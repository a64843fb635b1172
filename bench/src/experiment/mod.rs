//! Experiments: a [`Plan`] says what is asked, a cell is one run of it, [`compare`] asks it of several controllers.

mod calibrate;
mod cell;
mod clients;
mod compare;
mod contest;
mod plan;
mod result;
mod servers;
mod shared;
mod topology;
mod traffic;

pub use calibrate::Rates;
pub(crate) use cell::thread_cpu_time;
pub use cell::{Cell, CellError, run};
pub use compare::{CompareError, Stage, compare, compare_until};
pub use contest::{Contender, Contest, ContestResult, contest};
pub use plan::{Connections, Outlet, Plan, PlanError, Timestamps, Workload};
pub(crate) use plan::{parse_bytes, parse_load, parse_window, read_toml};
pub use result::{Comparison, Cost, Missing, Reference, RunResult, SharesOverTime};
pub use shared::Progress;
