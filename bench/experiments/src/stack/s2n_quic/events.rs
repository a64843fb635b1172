//! Senders as s2n-quic's events show them.

use std::net::SocketAddr;
use std::sync::Arc;

use fathom_netsim::sim::{SimHandle, flow_of};
use fathom_stacks::{Monitor, NativeMonitor, NativeWatch};
use s2n_quic::provider::event::events::{
    Congestion, ConnectionClosed, ConnectionStarted, RecoveryMetrics, SlowStartExited,
};
use s2n_quic::provider::event::{ConnectionInfo, ConnectionMeta, Subscriber};
use s2n_quic_core::path::LocalAddress;

use crate::stack::Host;

/// Tells the experiment of a server's connections.
pub(super) struct ServerEvents {
    sim: SimHandle,
    host: Arc<dyn Host>,
}

impl ServerEvents {
    pub(super) fn new(sim: SimHandle, host: Arc<dyn Host>) -> Self {
        Self { sim, host }
    }
}

/// A connection's sender.
pub(super) struct Sender {
    id: u64,
    watch: NativeWatch,
    window: u64,
    /// The window at which slow start ended, or what was left of it since: s2n-quic does not tell its threshold.
    threshold: Option<u64>,
    /// A loss or mark came since the window was last reported.
    congested: bool,
}

impl Subscriber for ServerEvents {
    /// There is one once the connection has a path.
    type ConnectionContext = Option<Sender>;

    fn create_connection_context(&mut self, _: &ConnectionMeta, _: &ConnectionInfo<'_>) -> Option<Sender> {
        None
    }

    fn on_connection_started(
        &mut self,
        sender: &mut Option<Sender>,
        _: &ConnectionMeta,
        event: &ConnectionStarted<'_>,
    ) {
        let here = SocketAddr::from(LocalAddress::from(event.path.local_addr.clone()));
        let (sim, monitor) = (self.sim.clone(), Arc::new(NativeMonitor::default()));
        let watch = NativeWatch {
            clock: Arc::new(move || sim.time()),
            observer: self.host.observer(flow_of(here.ip())),
            monitor: Arc::clone(&monitor),
        };
        let id = self.host.began(Arc::new(Monitor::Native(monitor)));
        *sender = Some(Sender { id, watch, window: 0, threshold: None, congested: false });
    }

    fn on_recovery_metrics(&mut self, sender: &mut Option<Sender>, _: &ConnectionMeta, event: &RecoveryMetrics<'_>) {
        let Some(sender) = sender else { return };
        let window = u64::from(event.congestion_window);
        if std::mem::take(&mut sender.congested) {
            sender.watch.reduced(sender.window, window);
        }
        sender.window = window;
        sender.threshold = sender.threshold.map(|threshold| threshold.min(window));
        sender.watch.record(window, sender.threshold);
    }

    fn on_congestion(&mut self, sender: &mut Option<Sender>, _: &ConnectionMeta, _: &Congestion<'_>) {
        if let Some(sender) = sender {
            sender.congested = true;
        }
    }

    fn on_slow_start_exited(&mut self, sender: &mut Option<Sender>, _: &ConnectionMeta, event: &SlowStartExited) {
        if let Some(sender) = sender {
            sender.threshold = Some(event.congestion_window.into());
        }
    }

    fn on_connection_closed(&mut self, sender: &mut Option<Sender>, _: &ConnectionMeta, _: &ConnectionClosed) {
        if let Some(sender) = sender.take() {
            self.host.ended(sender.id);
        }
    }
}
