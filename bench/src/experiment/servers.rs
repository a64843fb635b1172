//! The servers of a run: each connection gets its own controller, and every sender is asked at the end what it did.

use std::sync::{Arc, PoisonError};

use fathom_quinn::{Observer, ServerPlug};
use quinn::Endpoint;

use super::shared::Shared;
use crate::http::serve;

/// Accepts connections and serves each.
pub(super) async fn accept(shared: Arc<Shared>, endpoint: Endpoint, plug: ServerPlug, forward: bool) {
    while let Some(incoming) = endpoint.accept().await {
        let flow = incoming.local_ip().and_then(crate::world::flow_of);
        let traced =
            forward && flow.is_some() && *shared.traced_flow.lock().unwrap_or_else(PoisonError::into_inner) == flow;
        let observer = traced.then(|| Arc::clone(&shared.window) as Arc<dyn Observer>);
        // A refused attempt shows on the client's side.
        let Ok((connecting, probe)) = plug.accept_observed(incoming, shared.transport(), observer) else { continue };
        let task = Arc::clone(&shared);
        let id = if forward { shared.sender_began(probe) } else { 0 };
        shared.world.spawn(async move {
            if let Ok(connection) = connecting.await {
                let think = || think(&task, flow);
                // The client reports what fails.
                let _ = serve(connection, think).await;
            }
            if forward {
                task.sender_ended(id);
            }
        });
    }
}

async fn think(shared: &Shared, flow: Option<u32>) {
    let delay = flow.and_then(|f| shared.delays.lock().unwrap_or_else(PoisonError::into_inner).get(&f).copied());
    if let Some(delay) = delay.filter(|d| !d.is_zero()) {
        shared.world.sleep_until(shared.world.time() + delay).await;
    }
}
