//! A minimal HTTP/3 server on unchanged quiche, against which `fathom serve --stack quiche` is
//! measured (docs/serve-measured.md).
//!
//! `cargo run --release -p fathom-quiche-stock --example stock_quiche [ADDRESS]` answers every
//! request for `/bytes/N` with N zeros. It uses one thread and one loop, as in quiche's own
//! examples, and sends packets of the same size in one call. It has no limits and no metrics, and
//! makes its own certificate: not for production.

// The server runs in real time.
#![allow(clippy::disallowed_methods)]

use std::collections::{BTreeMap, HashMap};
use std::error::Error;
use std::io::IoSliceMut;
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use quiche::h3::{self, Header, NameValue};
use quiche::{ConnectionId, RecvInfo};
use quinn_udp::{RecvMeta, Transmit, UdpSocketState};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

type Outcome<T> = Result<T, Box<dyn Error>>;

/// Largest packet sent, and bytes passed to a stream at once, as in `fathom serve`.
const PACKET: usize = 1350;
const CHUNK: usize = 64 * 1024;
static ZEROS: [u8; CHUNK] = [0; CHUNK];
/// Maximum number of packets that leave in one call.
const TOGETHER: usize = 16;
/// Room for datagrams that the kernel returns as one.
const SERIES: usize = 64 * 1024;

struct Client {
    quic: quiche::Connection,
    http: Option<h3::Connection>,
    /// Bytes of each response that remain to be sent.
    left: BTreeMap<u64, usize>,
}

fn main() -> Outcome<()> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:0".into());
    let socket = UdpSocket::bind(address)?;
    socket.set_nonblocking(true)?;
    let state = UdpSocketState::new((&socket).into())?;
    let _ = state.set_recv_buffer_size((&socket).into(), 4 << 20);
    let _ = state.set_send_buffer_size((&socket).into(), 4 << 20);
    eprintln!("serving https://{}/", socket.local_addr()?);
    serve(&socket, &state)
}

fn serve(socket: &UdpSocket, state: &UdpSocketState) -> Outcome<()> {
    let local = socket.local_addr()?;
    let mut config = config()?;
    let http = h3::Config::new()?;
    let mut clients: Vec<Option<Client>> = Vec::new();
    let mut by_id: HashMap<Vec<u8>, usize> = HashMap::new();
    let mut random = Random(Instant::now().elapsed().as_nanos() as u64 | 1);
    let mut buffers = vec![vec![0; SERIES]; 8];
    let mut metas = [RecvMeta::default(); 8];
    let mut out = vec![0; (TOGETHER + 1) * PACKET];
    loop {
        let due = clients.iter().flatten().filter_map(|client| client.quic.timeout()).min();
        let due = due.unwrap_or(Duration::from_secs(1));
        let timeout =
            Timespec { tv_sec: due.as_secs().try_into()?, tv_nsec: due.subsec_nanos().into() };
        poll(&mut [PollFd::new(socket, PollFlags::IN)], Some(&timeout))?;
        loop {
            let mut rest = buffers.iter_mut();
            let mut slices: [IoSliceMut<'_>; 8] = std::array::from_fn(|_| {
                IoSliceMut::new(rest.next().map_or(&mut [], |b| &mut b[..]))
            });
            let Ok(count) = state.recv(socket.into(), &mut slices, &mut metas) else { break };
            for (buffer, meta) in buffers.iter_mut().zip(&metas).take(count) {
                for packet in buffer[..meta.len].chunks_mut(meta.stride.max(1)) {
                    let Ok(header) = quiche::Header::from_slice(packet, quiche::MAX_CONN_ID_LEN)
                    else {
                        continue;
                    };
                    let known = by_id.get(&header.dcid[..]).copied();
                    let index = match known {
                        Some(index) => index,
                        None if header.ty == quiche::Type::Initial => {
                            let id = random.id();
                            let scid = ConnectionId::from_ref(&id);
                            let quic = quiche::accept(&scid, None, local, meta.addr, &mut config)?;
                            clients.push(Some(Client { quic, http: None, left: BTreeMap::new() }));
                            by_id.insert(header.dcid.to_vec(), clients.len() - 1);
                            by_id.insert(id.to_vec(), clients.len() - 1);
                            clients.len() - 1
                        }
                        None => continue,
                    };
                    if let Some(client) = &mut clients[index] {
                        let _ = client.quic.recv(packet, RecvInfo { from: meta.addr, to: local });
                    }
                }
            }
        }
        for (index, slot) in clients.iter_mut().enumerate() {
            let Some(client) = slot else { continue };
            if client.quic.timeout() == Some(Duration::ZERO) {
                client.quic.on_timeout();
            }
            client.answer(&http);
            client.send(socket, state, &mut out);
            if client.quic.is_closed() {
                *slot = None;
                by_id.retain(|_, i| *i != index);
            }
        }
    }
}

impl Client {
    fn answer(&mut self, config: &h3::Config) {
        if self.http.is_none() && self.quic.is_established() {
            self.http = h3::Connection::with_transport(&mut self.quic, config).ok();
        }
        let Some(http) = &mut self.http else { return };
        while let Ok((stream, event)) = http.poll(&mut self.quic) {
            let h3::Event::Headers { list, .. } = event else { continue };
            let path = list.iter().find(|field| field.name() == b":path");
            let size = path.and_then(|p| {
                std::str::from_utf8(p.value()).ok()?.strip_prefix("/bytes/")?.parse().ok()
            });
            let (status, length) = size.map_or(("404", 0), |length: usize| ("200", length));
            let length_told = length.to_string();
            let head = [
                Header::new(b":status", status.as_bytes()),
                Header::new(b"content-length", length_told.as_bytes()),
            ];
            if http.send_response(&mut self.quic, stream, &head, length == 0).is_ok() && length > 0
            {
                self.left.insert(stream, length);
            }
        }
        let quic = &mut self.quic;
        self.left.retain(|stream, left| {
            while *left > 0 {
                let piece = CHUNK.min(*left);
                match http.send_body(quic, *stream, &ZEROS[..piece], piece == *left) {
                    Ok(sent) => *left -= sent,
                    Err(h3::Error::Done) => return true,
                    Err(_) => return false,
                }
            }
            false
        });
    }

    /// Sends all waiting packets; packets of the same size leave in one call.
    fn send(&mut self, socket: &UdpSocket, state: &UdpSocketState, out: &mut [u8]) {
        let most = state.max_gso_segments().clamp(1, TOGETHER);
        loop {
            let (mut filled, mut count, mut segment, mut to) = (0, 0, 0, None);
            while count < most {
                let Ok((len, info)) = self.quic.send(&mut out[filled..filled + PACKET]) else {
                    break;
                };
                if count == 0 {
                    (segment, to) = (len, Some(info.to));
                }
                if len > segment {
                    // This packet is larger than those before, so it is sent alone.
                    transmit(socket, state, to, segment, &out[..filled]);
                    transmit(socket, state, Some(info.to), len, &out[filled..filled + len]);
                    (filled, count) = (0, 0);
                    continue;
                }
                filled += len;
                count += 1;
                if len < segment {
                    break;
                }
            }
            if filled == 0 {
                return;
            }
            transmit(socket, state, to, segment, &out[..filled]);
        }
    }
}

fn transmit(
    socket: &UdpSocket,
    state: &UdpSocketState,
    to: Option<SocketAddr>,
    segment: usize,
    contents: &[u8],
) {
    let (Some(destination), false) = (to, contents.is_empty()) else { return };
    let segment_size = (contents.len() > segment).then_some(segment);
    // Packets that the kernel does not accept are lost, as they could be in the network.
    let _ = state.send(
        socket.into(),
        &Transmit { destination, ecn: None, contents, segment_size, src_ip: None },
    );
}

/// Returns quiche's default configuration, with the limits that `fathom serve` also grants, and
/// CUBIC.
fn config() -> Outcome<quiche::Config> {
    let signed = rcgen::generate_simple_self_signed(vec!["localhost".into()])?;
    let folder = tempfile::tempdir()?;
    let (cert, key) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
    std::fs::write(&cert, signed.cert.pem())?;
    std::fs::write(&key, signed.signing_key.serialize_pem())?;
    let text = |path: &std::path::Path| {
        path.to_str().map(str::to_owned).ok_or("the temporary folder's name is not UTF-8")
    };
    let mut config = quiche::Config::new(quiche::PROTOCOL_VERSION)?;
    config.load_cert_chain_from_pem_file(&text(&cert)?)?;
    config.load_priv_key_from_pem_file(&text(&key)?)?;
    config.set_application_protos(h3::APPLICATION_PROTOCOL)?;
    config.set_cc_algorithm(quiche::CongestionControlAlgorithm::CUBIC);
    config.enable_pacing(false);
    config.set_max_send_udp_payload_size(PACKET);
    config.set_max_recv_udp_payload_size(1500);
    config.set_max_idle_timeout(30_000);
    config.set_initial_max_data(256 << 10);
    config.set_initial_max_stream_data_bidi_remote(128 << 10);
    config.set_initial_max_stream_data_uni(128 << 10);
    config.set_initial_max_streams_bidi(100);
    config.set_initial_max_streams_uni(8);
    Ok(config)
}

/// Generator of distinct connection IDs. Here they need not be unpredictable.
struct Random(u64);

impl Random {
    fn id(&mut self) -> [u8; quiche::MAX_CONN_ID_LEN] {
        std::array::from_fn(|_| {
            // Marsaglia's xorshift64.
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            (self.0 >> 32) as u8
        })
    }
}
