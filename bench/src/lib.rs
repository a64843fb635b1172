//! The laboratory: worlds, links, queues, HTTP/3 client and server, workloads, measures, experiments, reports.
//!
//! | folder | what is in it |
//! |---|---|
//! | [`world`] | the virtual world: executor, clock, network, sockets |
//! | [`light`] | light-weight background traffic: packet-level senders instead of stacks |
//! | [`link`] | a link's rate and queue, its counts and series |
//! | [`stack`] | QUIC stacks under the lab's HTTP/3 |
//! | [`workload`] | who asks for what, and when |
//! | [`http`] | the HTTP/3 server and client |
//! | [`measure`] | response times, traces, the checks every run must pass |
//! | [`experiment`] | plans, calibration, runs, comparisons |
//! | [`report`] | tables and the HTML report |

pub mod experiment;
mod hash;
pub mod http;
pub mod light;
pub mod link;
pub mod measure;
pub mod report;
pub mod stack;
pub mod workload;
pub mod world;
