//! Tests of loads on a server in the same process: the server of `fathom serve`, and servers that
//! misbehave.

mod misbehaving_servers;
mod own_server;

use std::io::Write;
use std::net::SocketAddr;
use std::num::NonZeroU8;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fathom_http::identity::Identity;
use fathom_http::limits::Limits;
use fathom_http::load::{
    self, Arrival, FailureKind, LoadConfig, LoadError, LoadReport, Origin, Outputs, PoolSize,
    Progress, STREAM_WINDOW, Spacing, Timestamps, Traffic,
};
use fathom_http::metrics::Metrics;
use fathom_http::probe;
use fathom_http::server::{Server, Settings};
use fathom_http::site::Site;
use fathom_http::trust::Trust;
use fathom_http::udp;
use fathom_qlog::LogFolder;
use fathom_stacks::Stack;
use http::Uri;
use http::uri::Authority;
use quinn::crypto::rustls::QuicServerConfig;
use quinn::{VarInt, WriteError};
use tokio::sync::{mpsc, watch};

use crate::common::{PATIENCE, settings};

struct Running {
    address: SocketAddr,
    metrics: Arc<Metrics>,
    stop: watch::Sender<bool>,
    task: tokio::task::JoinHandle<()>,
}

fn serve(stack: Stack, controller: &str, limits: Limits) -> Running {
    serve_as(Identity::self_signed(&[]).unwrap(), stack, controller, limits)
}

fn serve_as(identity: Identity, stack: Stack, controller: &str, limits: Limits) -> Running {
    serve_site(identity, stack, controller, limits, Site::new(None, limits).unwrap())
}

fn serve_site(
    identity: Identity,
    stack: Stack,
    controller: &str,
    limits: Limits,
    site: Site,
) -> Running {
    serve_offering(Timestamps::Any, (identity, stack, controller), limits, site, None)
}

fn serve_offering(
    timestamps: Timestamps,
    (identity, stack, controller): (Identity, Stack, &str),
    limits: Limits,
    site: Site,
    logs: Option<&Arc<LogFolder>>,
) -> Running {
    let settings = Settings {
        identity,
        site,
        timestamps,
        logs: logs.cloned(),
        ..settings(stack, controller, None, limits)
    };
    let metrics = Arc::clone(&settings.metrics);
    let server = Server::bind(settings).unwrap();
    let (address, (stop, stopped)) = (server.address(), watch::channel(false));
    let task = tokio::spawn(server.serve(stopped, Duration::from_secs(1)));
    Running { address, metrics, stop, task }
}

fn origin(address: SocketAddr) -> Origin {
    Origin::new(Authority::from_static("localhost"), address)
}

fn config(address: SocketAddr, traffic: Traffic) -> LoadConfig {
    LoadConfig {
        stack: Stack::Quinn,
        origin: origin(address),
        threads: NonZeroU8::new(2).unwrap(),
        traffic,
        warm_up: Duration::ZERO,
        duration: None,
        requests: None,
        timeout: PATIENCE,
        timestamps: Timestamps::Lean,
        trust: Trust::Insecure,
        zero_rtt: false,
        check_digests: false,
        headers: http::HeaderMap::new(),
        stream_window: STREAM_WINDOW,
    }
}

fn closed(address: SocketAddr, connections: usize, streams: usize, paths: &[&str]) -> Traffic {
    let urls = paths.iter().map(|path| origin(address).url(path).unwrap()).collect();
    Traffic::Closed(PoolSize { connections, streams }, urls)
}

fn at_rate(address: SocketAddr, rate: f64, path: &str, kept: Option<PoolSize>) -> Traffic {
    let urls: Vec<Uri> = vec![origin(address).url(path).unwrap()];
    Traffic::Open(Box::new(load::at_rate(rate, Spacing::Even, 1, urls)), kept)
}

async fn run(config: LoadConfig) -> Result<LoadReport, LoadError> {
    let (_stop, stopped) = watch::channel(false);
    load::run(config, Outputs::default(), stopped, |_| {}).await
}

fn failures(outcome: &LoadReport, kind: FailureKind) -> u64 {
    outcome.counts.failures[kind as usize].0
}

/// A file in memory.
#[derive(Clone, Default)]
struct Memory(Arc<Mutex<Vec<u8>>>);

impl Write for Memory {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Memory {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}
