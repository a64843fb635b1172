//! The laboratory: simulator, links, queues, HTTP/3 client and server, workloads, measures, experiments, reports.
//!
//! | folder | what is in it |
//! |---|---|
//! | [`sim`] | the simulator: executor, clock, network, sockets; in virtual or in real time |
//! | [`packet_level`] | background traffic from packet-level senders instead of stacks |
//! | [`link`] | a link's rate and queue, its counts and series |
//! | [`stack`] | QUIC stacks under the lab's HTTP/3 |
//! | [`workload`] | requests and when they start |
//! | [`http`] | the HTTP/3 server and client |
//! | [`measure`] | response times, fairness, delay before loss, models, confidence; the checks every run must pass |
//! | [`relay`] | the same links in real time: a relay between UDP sockets |
//! | [`udp`] | the kernel's sockets under it |
//! | [`realtime`] | connects a simulation to the real-time backends |
//! | [`netem`] | the same links as the kernel has them: namespaces and tc, on this kernel or in User-Mode Linux |
//! | [`analyze`] | the measures, applied to existing logs |
//! | [`experiment`] | plans, calibration, runs, comparisons |
//! | [`reproduce`] | the papers: tables, figures and claims from studies |
//! | [`scenario`] | routers in a row, traffic over them, and a run of it |
//! | [`study`] | sweeps of scenarios: runs, resuming, estimates |
//! | [`report`] | tables and the HTML report |

pub mod analyze;
pub mod experiment;
mod hash;
pub mod http;
pub mod link;
pub mod measure;
#[cfg(target_os = "linux")]
pub mod netem;
pub mod packet_level;
pub mod realtime;
pub mod relay;
pub mod report;
pub mod reproduce;
pub mod scenario;
pub mod sim;
pub mod stack;
pub mod study;
pub mod udp;
pub mod workload;
