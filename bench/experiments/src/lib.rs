//! The laboratory: one engine for all experiments. It runs scenarios. A study is a sweep of a
//! scenario, and a comparison is a built-in study.
//!
//! | module | contents |
//! |---|---|
//! | [`scenario`] | routers in a row, the traffic over them, and one run of it |
//! | [`study`] | sweeps of scenarios: runs, resumption, estimates |
//! | [`compare`] | several controllers on one bottleneck: plan, runs, report |
//! | [`measures`] | measures, changes, limits and failures, by which runs are judged |
//! | [`stack`] | QUIC stacks under the laboratory's HTTP/3 |
//! | [`provenance`] | versions of the software that made a result |
//! | [`http`] | the HTTP/3 server and client |
//! | `flow_control`, `tcp` | the largest window of a sender; settings and counts of TCP |

pub mod compare;
mod flow_control;
pub mod http;
mod json;
pub mod measures;
pub mod provenance;
pub mod scenario;
pub mod stack;
pub mod study;
mod tcp;
