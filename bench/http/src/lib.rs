//! HTTP/3 server and load generator on real sockets.
//!
//! | file | contents |
//! |---|---|
//! | `controller_shares.rs` | controllers with weights that divide the connections |
//! | `identity.rs` | certificate and key, from files or self-signed |
//! | `served_identity.rs` | the current certificate and key, replaced when their files change |
//! | `access_log.rs` | a line for each request |
//! | `line_file.rs` | a file of lines that counts written and lost lines |
//! | `site.rs` | served content: files under a root, synthetic bodies, delays, an upstream server |
//! | `authority.rs` | checks of the host in a request |
//! | `confinement.rs` | whether a path stays below a folder in every reading |
//! | `conditional.rs` | conditional requests and ranges |
//! | `request.rs` | a request as received, over any version of HTTP |
//! | `response.rs` | a response: its status, header fields and body |
//! | `proxy/` | the reverse proxy: requests that an upstream server answers |
//! | `regular_file.rs` | opening files without blocking on pipes or devices |
//! | `files.rs` | served files, with a limit of open descriptors |
//! | `handshake_error.rs` | reasons why a QUIC handshake does not complete |
//! | `descriptors.rs` | division of the process's file descriptors |
//! | `event_loops.rs` | threads that each run the connections of one socket |
//! | `digest.rs` | digests of bodies (RFC 9530) |
//! | `limits.rs` | limits per client and for the whole server |
//! | `metrics/` | Prometheus metrics per controller |
//! | `connection_log.rs` | a connection's qlog: controller and responses |
//! | `http3.rs` | settings of HTTP/3 for both ends |
//! | `timestamps.rs` | the `--timestamps` option |
//! | `server/` | accepting connections, serving requests, shutdown |
//! | `load/` | the load generator |
//! | `probe.rs` | how a server reacts to the timestamp transport parameters |
//! | `stop.rs` | the signal that stops the server or the load generator |
//! | `trust.rs` | TLS of clients: certificate verification and session tickets |
//! | `udp.rs` | UDP sockets with large buffers |

pub mod access_log;
mod authority;
mod conditional;
mod confinement;
pub mod connection_log;
pub mod controller_shares;
pub mod descriptors;
pub mod digest;
pub mod event_loops;
mod files;
pub mod handshake_error;
mod http3;
pub mod identity;
pub mod limits;
mod line_file;
pub mod load;
pub mod metrics;
pub mod probe;
pub mod proxy;
mod regular_file;
pub mod request;
mod response;
pub mod served_identity;
pub mod server;
pub mod site;
mod stop;
pub mod timestamps;
pub mod trust;
pub mod udp;
