//! The signal that stops a server or a load generator.

use tokio::sync::watch;

/// Waits for the stop signal. A dropped sender counts as the signal.
pub(crate) async fn stopped(stop: &mut watch::Receiver<bool>) {
    let _ = stop.wait_for(|stop| *stop).await;
}
