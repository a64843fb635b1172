//! The laboratory over [`fathom_netsim`]: stacks, HTTP/3 client and server, workloads, measures, experiments, reports.
//!
//! | folder | what is in it |
//! |---|---|
//! | [`packet_level`] | background traffic from packet-level senders instead of stacks |
//! | [`stack`] | QUIC stacks under the lab's HTTP/3 |
//! | [`http`] | the HTTP/3 server and client |
//! | [`analyze`] | the measures, applied to existing logs |
//! | [`experiment`] | plans, calibration, runs, comparisons |
//! | [`reproduce`] | the papers: tables, figures and claims from studies |
//! | [`scenario`] | routers in a row, traffic over them, and a run of it |
//! | [`study`] | sweeps of scenarios: runs, resuming, estimates |
//! | [`report`] | tables and the HTML report |

pub mod analyze;
pub mod experiment;
pub mod http;
pub mod packet_level;
pub mod report;
pub mod reproduce;
pub mod scenario;
pub mod stack;
pub mod study;
