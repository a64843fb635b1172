//! The laboratory: one engine for all experiments. A scenario is run, a study is a sweep of scenarios, a comparison is a study that is built in.
//!
//! | folder | what is in it |
//! |---|---|
//! | [`scenario`] | routers in a row, traffic over them, and a run of it |
//! | [`study`] | sweeps of scenarios: runs, resuming, estimates |
//! | [`compare`] | several controllers on one bottleneck: plan, runs, report |
//! | [`measures`] | what runs are judged by: measures, changes, limits, failures |
//! | [`stack`] | QUIC stacks under the laboratory's HTTP/3 |
//! | [`provenance`] | versions of what made a result |
//! | [`http`] | the HTTP/3 server and client |

pub mod compare;
pub mod http;
mod json;
pub mod measures;
pub mod provenance;
pub mod scenario;
pub mod stack;
pub mod study;
