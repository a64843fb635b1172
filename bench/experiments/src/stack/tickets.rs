//! Session tickets that clients hold when a run begins, as if from earlier visits.

use std::sync::Arc;
use std::time::Duration;

use fathom_cc::Time;
use fathom_netsim::sim::{Executor, Group, Path};
use fathom_plugin::Observer;

use super::{
    BoxFuture, ClientClock, EndpointSettings, Host, ReportSender, SetupError, Stack, ends,
};

/// Number of tickets that clients hold when a run begins. A connection that uses one ticket brings
/// two, so the tickets suffice if at most this many handshakes run at the same time.
const BEFORE: usize = 256;
/// Time limit for obtaining the tickets. It is long enough for a handshake and [`BEFORE`] tickets
/// over a path without a bottleneck.
const LIMIT: Time = Time::from_millis(60_000);

/// Fills the sessions of the settings' identity with the tickets of one connection, in a simulation
/// of its own. Tickets contain the server's transport parameters, so they must come from endpoints
/// like those of the run.
///
/// # Errors
/// Returns an error if the endpoints cannot be made or send no tickets.
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
        // The run's clock may refer to a link of the run's network, which does not exist here.
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
        return Err(SetupError::NoTickets(stack));
    }
    Ok(())
}

/// A host that observes nothing.
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
