//! Client and server on quiche, patched and stock. quiche does no I/O and has no runtime, so one thread does everything.
//!
//! | file | what is in it |
//! |---|---|
//! | `api.rs` | the interface to both quiche crates |
//! | `bindings.rs` | its implementation for each crate |
//! | `socket.rs` | the UDP socket and the paced send queue |
//! | `client.rs`, `server.rs` | client and server |

mod api;
mod bindings;
mod client;
mod server;
mod socket;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use boring::ssl::{SslContext, SslContextBuilder, SslMethod, SslVersion};
use fathom_http::identity::log_secrets;

use super::facts::{Close, Connection, FactsLog};
use super::{Outcome, Role, Setup, tls};
use api::{ConnectionStatus, QuicheConnection};

/// Runs the endpoint on the stack's quiche crate.
pub(super) fn run(setup: &Arc<Setup>, facts_log: &Arc<FactsLog>, stop: &AtomicBool) -> Outcome {
    if setup.stack.stock {
        on::<bindings::stock::Connection>(setup, facts_log, stop)
    } else {
        on::<bindings::derived::Connection>(setup, facts_log, stop)
    }
}

fn on<Q: QuicheConnection>(setup: &Setup, facts_log: &FactsLog, stop: &AtomicBool) -> Outcome {
    match setup.role {
        Role::Client => client::run::<Q>(setup, facts_log, stop),
        Role::Server => server::run::<Q>(setup, facts_log, stop),
    }
}

/// The client's TLS context, and whether it verifies the server's certificate.
fn client_tls(setup: &Setup) -> Result<(SslContextBuilder, bool), String> {
    let wrong = |e: &dyn std::fmt::Display| e.to_string().trim().replace('\n', "; ");
    let mut context = SslContext::builder(SslMethod::tls()).map_err(|e| wrong(&e))?;
    context.set_min_proto_version(Some(SslVersion::TLS1_3)).map_err(|e| wrong(&e))?;
    log_secrets(&mut context);
    let authority = setup.certs.join("ca.pem");
    let verifies = authority.is_file();
    if verifies {
        context.set_ca_file(&authority).map_err(|e| format!("'{}': {}", authority.display(), wrong(&e)))?;
    }
    Ok((context, verifies))
}

fn server_tls(setup: &Setup) -> Result<SslContextBuilder, String> {
    tls::identity(setup)?.boring().map_err(|e| e.to_string())
}

/// Records a connection's status.
fn record_facts(status: &ConnectionStatus, facts: &mut Connection) {
    facts.complete = status.established;
    if let Some(report) = &status.report {
        facts.add_monitor_report(report);
    }
    facts.resumed = status.established.then_some(status.resumed);
    facts.protocol = status.protocol.clone().or(facts.protocol.take());
    facts.bytes_sent = Some(status.sent);
    facts.bytes_received = Some(status.received);
    if status.closed {
        facts.close = Some(match &status.error {
            // The first packet was invalid, so there is no connection.
            Some((_, _, code, _)) if status.received == 0 => {
                Close::without_code("us", "refused", &format!("error {code:#x} on the first packet"))
            }
            Some((by, transport, code, reason)) => Close::with_code(by, *transport, *code, reason),
            None if status.timed_out => Close::without_code("nobody", "timeout", ""),
            None => Close::without_code("us", "other", ""),
        });
    }
}
