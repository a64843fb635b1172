//! Routes packets to connections; accepts and refuses connections, sends Retry.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use fathom_plugin::Extension;
use quiche::h3;
use quiche::{ConnectionId, Header, RetryConnectionIds};
use tokio::sync::{mpsc, watch};
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::Instant;

use super::connection::{self, NewConnection};
use super::endpoint::{ServerEndpoint, ShareConfig};
use super::quic::Quic;
use super::socket::{LARGEST, Packet, PacketPath, Socket};
use super::stateless::{RetryTokens, refusal};
use crate::server::ServerContext;
use crate::server::admission::{AdmissionControl, AdmissionDecision, AdmissionGuard};
use crate::server::response::ConnectionContext;

/// Length of the connection IDs given here, as quinn's.
const CID_LEN: usize = 8;
/// A client's first datagram is no shorter (RFC 9000 §14.1), nor the connection ID it makes up (§7.2).
const MIN_INITIAL_DATAGRAM: usize = 1_200;
const MIN_INITIAL_DCID: usize = 8;
/// Packets that wait for a connection's task; more are lost.
const QUEUE: usize = 128;

/// Routes the packets of a socket to its connections, and accepts new ones.
pub(super) struct PacketRouter {
    socket: Arc<Socket>,
    share_configs: Vec<ShareConfig>,
    extension: Extension,
    http: Arc<h3::Config>,
    server: Arc<ServerContext>,
    stop: watch::Receiver<bool>,
    closed: watch::Receiver<bool>,
    tokens: RetryTokens,
    began: Instant,
    admission: Arc<AdmissionControl>,
    /// Connections by the identifiers that packets are addressed to.
    routes: HashMap<Vec<u8>, mpsc::Sender<Packet>>,
    pub(super) connections: JoinSet<()>,
    /// The identifiers of each.
    ids: HashMap<Id, [Vec<u8>; 2]>,
    ending: bool,
}

impl PacketRouter {
    pub(super) fn new(
        endpoint: ServerEndpoint,
        server: Arc<ServerContext>,
        stop: watch::Receiver<bool>,
        closed: watch::Receiver<bool>,
    ) -> Self {
        let admission = AdmissionControl::new(server.limits, Arc::clone(&server.metrics));
        Self {
            socket: endpoint.socket,
            share_configs: endpoint.share_configs,
            extension: endpoint.extension,
            http: Arc::new(endpoint.http),
            server,
            stop,
            closed,
            tokens: RetryTokens::new(),
            began: Instant::now(),
            admission,
            routes: HashMap::new(),
            connections: JoinSet::new(),
            ids: HashMap::new(),
            ending: false,
        }
    }

    /// New clients are refused from here on.
    pub(super) fn end(&mut self) {
        self.ending = true;
    }

    /// A connection's task is over.
    pub(super) fn forget(&mut self, ended: &Result<(Id, ()), JoinError>) {
        let id = match ended {
            Ok((id, ())) => *id,
            Err(e) => e.id(),
        };
        for id in self.ids.remove(&id).into_iter().flatten() {
            self.routes.remove(&id);
        }
    }

    /// Takes a packet to its connection, or begins one.
    pub(super) fn route(&mut self, packet: &mut [u8], path: PacketPath) {
        let Some(id) = addressed(packet) else { return };
        match self.routes.get(id) {
            // A connection that does not keep up loses packets, as in a router.
            Some(to) => drop(to.try_send(Packet { bytes: packet.to_vec(), path })),
            None => drop(self.begin(packet, path)),
        }
    }

    /// Handles a packet that belongs to no connection; `None` if no connection comes of it.
    fn begin(&mut self, packet: &mut [u8], path: PacketPath) -> Option<()> {
        let long = packet.first()? & 0x80 != 0;
        if !long || packet.len() < MIN_INITIAL_DATAGRAM {
            return None;
        }
        let header = Header::from_slice(packet, CID_LEN).ok()?;
        if header.ty == quiche::Type::VersionNegotiation {
            return None;
        }
        if !quiche::version_is_supported(header.version) {
            let mut answer = [0; LARGEST];
            let len = quiche::negotiate_version(&header.scid, &header.dcid, &mut answer).ok()?;
            self.reply(path, &answer[..len]);
            return None;
        }
        if header.ty != quiche::Type::Initial || header.dcid.len() < MIN_INITIAL_DCID {
            return None;
        }
        let refuse = || refusal(&header.dcid, &header.scid).map(|packet| self.reply(path, &packet));
        if self.ending {
            return refuse();
        }
        let token = header.token.as_deref().unwrap_or_default();
        let original = self.tokens.check(self.began.elapsed(), token, path.from, &header.dcid);
        match self.admission.decide(path.from, original.is_some(), Instant::now()) {
            AdmissionDecision::Accept(admission_guard) => {
                self.accept(&header, original, Packet { bytes: packet.to_vec(), path }, admission_guard)
            }
            AdmissionDecision::Retry => self.retry(&header, path),
            AdmissionDecision::Refuse => refuse(),
        }
    }

    /// Replies to the sender of a packet that came on this path.
    fn reply(&self, path: PacketPath, packet: &[u8]) {
        self.socket.try_send(PacketPath { from: path.to, to: path.from, ecn: 0 }, packet);
    }

    fn retry(&self, header: &Header<'_>, path: PacketPath) -> Option<()> {
        let given: [u8; CID_LEN] = rand::random();
        let token = self.tokens.make(self.began.elapsed(), path.from, &header.dcid, &given);
        let mut answer = [0; LARGEST];
        let given = ConnectionId::from_ref(&given);
        let len = quiche::retry(&header.scid, &header.dcid, &given, &token, header.version, &mut answer).ok()?;
        self.reply(path, &answer[..len]);
        None
    }

    fn accept(
        &mut self,
        header: &Header<'_>,
        original: Option<&[u8]>,
        first: Packet,
        admission_guard: AdmissionGuard,
    ) -> Option<()> {
        let id = self.unused();
        let share = self.server.shares.pick(rand::random::<f64>());
        let name = hexadecimal(original.unwrap_or(&header.dcid));
        let context = Arc::new(ConnectionContext::new(Arc::clone(&self.server), share, name));
        let share_config = &mut self.share_configs[share];
        let extension = self.extension;
        let setup = |observer| quiche::fathom::ConnectionConfig { observer, extension, ..Default::default() };
        if share_config.fathom_controller {
            share_config.config.set_fathom(setup(context.observer()));
        }
        let (here, peer): (SocketAddr, SocketAddr) = (first.path.to, first.path.from);
        let own = ConnectionId::from_ref(&id);
        let quic: Result<Quic, _> = match original {
            Some(original) => {
                let original = ConnectionId::from_ref(original);
                let ids = RetryConnectionIds { original_destination_cid: &original, retry_source_cid: &header.dcid };
                quiche::accept_with_retry(&own, ids, here, peer, &mut share_config.config)
            }
            None => quiche::accept_with_buf_factory(&own, None, here, peer, &mut share_config.config),
        };
        if share_config.fathom_controller {
            // The log ends with its connection, not with the next one.
            share_config.config.set_fathom(setup(None));
        }
        let (to, inbox) = mpsc::channel(QUEUE);
        let new = NewConnection {
            quic: quic.ok()?,
            fathom_controller: share_config.fathom_controller,
            context,
            inbox,
            admission_guard,
            socket: Arc::clone(&self.socket),
            http: Arc::clone(&self.http),
            stop: self.stop.clone(),
            closed: self.closed.clone(),
        };
        // An empty queue has room.
        let _ = to.try_send(first);
        let task = self.connections.spawn(connection::run(new));
        let ids = [id.to_vec(), header.dcid.to_vec()];
        for id in &ids {
            self.routes.insert(id.clone(), to.clone());
        }
        self.ids.insert(task.id(), ids);
        Some(())
    }

    /// An identifier that is nobody's.
    fn unused(&self) -> [u8; CID_LEN] {
        loop {
            let id: [u8; CID_LEN] = rand::random();
            if !self.routes.contains_key(&id[..]) {
                return id;
            }
        }
    }
}

/// The identifier a packet is addressed to (RFC 8999 §5).
fn addressed(packet: &[u8]) -> Option<&[u8]> {
    let long = packet.first()? & 0x80 != 0;
    if long { packet.get(6..6 + usize::from(*packet.get(5)?)) } else { packet.get(1..1 + CID_LEN) }
}

fn hexadecimal(id: &[u8]) -> String {
    id.iter().map(|byte| format!("{byte:02x}")).collect()
}
