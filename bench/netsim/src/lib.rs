//! Network simulator for QUIC stacks: links with a rate and a queue, in virtual or real time.
//!
//! A stack takes its clock, timers, tasks and UDP sockets from [`sim::SimHandle`] instead of from
//! the operating system. In virtual time, the same program and seeds give the same packets at the
//! same nanoseconds ([`sim::SimHandle::trace_hash`]). The README lists the random numbers that need
//! a seed.
//!
//! | module | contents |
//! |---|---|
//! | [`sim`] | clock, event queue, tasks, timers, sockets, flows and their addresses, the forwarding of packets |
//! | `ecn` | the ECN codepoint of a packet |
//! | [`link`] | a link: rate, counts and time series |
//! | [`queue`] | queue disciplines, one file each |
//! | [`path`] | paths as users write them; effects besides queueing: loss, jitter, traces, events |
//! | `trace` | links whose rate follows a trace or a model |
//! | `backend` | the same links in real time: the kernel's loopback, or the kernel's own links (netem) |
//! | `relay` | the same links between UDP sockets of this host, for unsimulated programs |
//! | `udp`, `kernel` | kernel UDP sockets with ECN; kernel counts of UDP drops and CPU time |
//! | [`runtime`] | clock, timers, tasks and sockets for a stack without I/O: in the simulation, on tokio |
//!
//! | feature | contents |
//! |---|---|
//! | `quinn`, `noq` | the simulation as the runtime of these stacks |
//! | `tokio` | `Executor::block_on_tokio`, for tokio programs |
//! | `real-time` (default) | `backend`, `udp`, `kernel` |
//! | `relay` (default) | `relay`; includes `real-time` |
//! | `tokio-sockets` | tokio and the kernel's sockets as a `runtime`; includes `real-time` |
//!
//! With `default-features = false`, only the virtual network remains.
//!
//! # A program of your own
//!
//! Sockets need no stack. [`sim::Executor::block_on`] runs a future in virtual time:
//!
//! ```
//! use fathom_netsim::path::PathSpec;
//! use fathom_netsim::sim::{Executor, Group, server_address};
//! use fathom_netsim::Time;
//!
//! let mut executor = Executor::new();
//! let sim = executor.sim();
//! let path = PathSpec {
//!     rate: Some("10Mbps".into()),
//!     rtt: Some("40ms".into()),
//!     ..PathSpec::default()
//! };
//! let (down, up) = sim.add_path(&path.check_simulated()?, 1);
//! let (client, server) = (sim.client_socket(), sim.server_socket());
//! let group = Group { client: client.id(), server: server.id(), down, up };
//! let flow = sim.add_flow(sim.add_group(group));
//!
//! let echo = server.clone();
//! sim.spawn(async move {
//!     let (datagram, received) = echo.recv().await;
//!     echo.send(received.from, received.to, None, &datagram, None);
//! });
//! let answer = async {
//!     client.send(server_address(flow), None, None, &[7; 1_222], None);
//!     client.recv().await.0.len()
//! };
//! assert_eq!(executor.block_on(answer, Time::from_millis(1_000)), Ok(1_222));
//! // Two propagation delays, and the packet of 1250 bytes on both links: 1 ms each.
//! assert_eq!(sim.time(), Time::from_millis(42));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # A named path, with events
//!
//! ```
//! # let sim = fathom_netsim::sim::Executor::new().sim();
//! use fathom_netsim::path::{PathSpec, Preset};
//!
//! let mut path = PathSpec { loss: Some("1%".into()), ..PathSpec::default() };
//! path.preset = Some("lte".into()); // Preset::named("lte") shows its options
//! path.events.push("blackout:3s@10s".into());
//! let (down, up) = sim.add_path(&path.check_simulated()?, 1);
//! # assert!(Preset::named("lte").is_ok());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # quinn and noq
//!
//! The handle is the stack's runtime, and its sockets are the stack's sockets. On noq, use `Box`
//! instead of `Arc`.
//!
#![cfg_attr(feature = "quinn", doc = "```no_run")]
#![cfg_attr(not(feature = "quinn"), doc = "```ignore")]
//! # use std::sync::Arc;
//! # use fathom_netsim::sim::{SimHandle, SimSocket};
//! # use quinn::{Endpoint, EndpointConfig, ServerConfig};
//! fn endpoint(
//!     sim: &SimHandle,
//!     socket: SimSocket,
//!     server: Option<ServerConfig>,
//! ) -> std::io::Result<Endpoint> {
//!     let mut config = EndpointConfig::default();
//!     config.rng_seed(Some([1; 32])); // another seed for each endpoint
//!     let runtime = Arc::new(sim.clone());
//!     Endpoint::new_with_abstract_socket(config, server, Arc::new(socket), runtime)
//! }
//! ```
//!
//! # A tokio program
//!
//! Programs that use `tokio::spawn` and `tokio::time` run unchanged; both clocks show the same time:
//!
#![cfg_attr(feature = "tokio", doc = "```")]
#![cfg_attr(not(feature = "tokio"), doc = "```ignore")]
//! # use std::time::Duration;
//! # use fathom_netsim::sim::Executor;
//! # use fathom_netsim::Time;
//! let mut executor = Executor::new();
//! let program = async {
//!     let task = tokio::spawn(tokio::time::sleep(Duration::from_secs(60)));
//!     task.await.expect("no panic");
//! };
//! assert_eq!(executor.block_on_tokio(program, Time::from_millis(120_000)), Ok(()));
//! assert_eq!(executor.sim().time(), Time::from_millis(60_000));
//! ```
//!
//! # Fathom's plug-ins
//!
//! A plug-in reads a clock while it seals packets. In a simulation, give the plug-in the endpoint's
//! runtime. Otherwise, it reads the wall clock, logs a warning and reports `clock_error`:
//!
#![cfg_attr(feature = "quinn", doc = "```no_run")]
#![cfg_attr(not(feature = "quinn"), doc = "```ignore")]
//! # use std::sync::Arc;
//! # let sim = fathom_netsim::sim::Executor::new().sim();
//! let plugin = fathom_quinn::Plugin::named("sync:signal=either")?
//!     .with_runtime(Arc::new(sim.clone()));
//! # Ok::<(), fathom_quinn::PluginError>(())
//! ```
//!
//! # Rebinding, migration, servers that dial
//!
//! ```
//! # use fathom_netsim::sim::{Executor, Group, Path, server_address};
//! # use std::time::Duration;
//! # let sim = Executor::new().sim();
//! # let (a, b) = (sim.client_socket(), sim.server_socket());
//! # let (down, up) = (Path::direct(Duration::ZERO), Path::direct(Duration::ZERO));
//! let group = sim.add_group(Group { client: a.id(), server: b.id(), down: down.clone(), up: up.clone() });
//! // From here on, servers see `a` at a new port, and what they send to the old port is lost.
//! sim.rebind(a.id());
//! // The client moves to another socket, such as from Wi-Fi to LTE (`Endpoint::rebind_abstract`).
//! let other = sim.client_socket();
//! sim.set_group(group, Group { client: other.id(), server: b.id(), down: down.clone(), up: up.clone() });
//! // Connections that `b` opens to `a`.
//! let back = sim.add_flow(sim.add_group(Group { client: b.id(), server: a.id(), down: up, up: down }));
//! let address = server_address(back); // of `a`, for `b`
//! ```

#![cfg_attr(not(feature = "relay"), allow(dead_code, reason = "some parts only serve the relay"))]

mod adapters;
#[cfg(feature = "real-time")]
pub mod backend;
mod ecn;
pub mod hash;
#[cfg(feature = "real-time")]
pub mod kernel;
pub mod link;
mod nanos;
pub mod path;
pub mod queue;
#[cfg(feature = "relay")]
pub mod relay;
pub mod runtime;
pub mod sim;
mod trace;
#[cfg(feature = "real-time")]
pub mod udp;

pub use fathom_units::{Invalid, Rate, Time};
