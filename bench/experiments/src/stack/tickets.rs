//! Session tickets from before a run: what its clients got on earlier visits.

use std::sync::Arc;
use std::time::Duration;

use fathom_cc::Time;
use fathom_netsim::sim::{Executor, Group, Path};
use fathom_plugin::Observer;

use super::{
    BoxFuture, ClientClock, EndpointSettings, Host, ReportSender, SetupError, Stack, ends,
};

/// Tickets that clients hold when a run begins. Each connection that uses one brings two, so that they last if no more handshakes than
/// this go on at once.
const BEFORE: usize = 256;
/// Long enough for a handshake and [`BEFORE`] tickets over a path without a bottleneck.
const LIMIT: Time = Time::from_millis(60_000);

/// Fills the sessions of the settings' identity from one connection, in a simulation of its own: tickets bind what the server's transport
/// parameters were, so they must come from endpoints like those of the run.
///
/// # Errors
/// The endpoints cannot be made, or bring no tickets.
pub(crate) fn issue_tickets(
    stack: Stack,
    settings: &EndpointSettings<'_>,
) -> Result<(), SetupError> {
    let Some(sessions) = settings.identity.sessions.clone() else { return Ok(()) };
    let mut executor = Executor::new();
    let sim = executor.sim();
    let identity = settings.identity.with_tickets(BEFORE);
    let settings = EndpointSettings {
        sim: &sim,
        identity: &identity,
        // Its link is of the run's network.
        clock: ClientClock::Drifts(0),
        ..settings.clone()
    };
    let (client, server) = (sim.client_socket(), sim.server_socket());
    let [down, up] = [(); 2].map(|()| Path::direct(Duration::from_millis(1)));
    let flow =
        sim.add_flow(sim.add_group(Group { client: client.id(), server: server.id(), down, up }));
    let ends = ends(stack, &settings, client, server, Arc::new(Nobody))?;
    sim.spawn(ends.accept);
    let (task, held) = (sim.clone(), Arc::clone(&sessions));
    sim.spawn(async move {
        let client = ends.connector.open(flow, false).await;
        while client.is_ok() && held.tickets() < BEFORE {
            task.sleep_until(task.time() + Duration::from_millis(1)).await;
        }
        task.stop();
    });
    executor.run(LIMIT);
    if sessions.tickets() < BEFORE {
        return Err(SetupError::Tls(format!("{stack}'s server sent no session tickets")));
    }
    Ok(())
}

/// Follows nothing.
struct Nobody;

impl Host for Nobody {
    fn observer(&self, _: Option<u32>) -> Option<Arc<dyn Observer>> {
        None
    }

    fn began(&self, _: Arc<dyn ReportSender>) -> u64 {
        0
    }

    fn established(&self, _: Option<u32>) {}

    fn writing(&self, _: Option<u32>, _: bool) {}

    fn ended(&self, _: u64) {}

    fn think(&self, _: Option<u32>, _: Option<Time>) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}
