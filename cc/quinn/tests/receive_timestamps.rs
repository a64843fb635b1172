//! Reads the ACK_RECEIVE_TIMESTAMPS frames of a whole connection with a second reader, written only
//! from the draft's layout and without code of `fathom-frames`. The second reader must find the
//! same content as the codec, and the times at which the packets arrived.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use fathom_quinn::{Clock, Extension, InUse, Plugin, ReceiveTimestamps, SystemClock};
use quinn::{Endpoint, TransportConfig};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::quic::{Algorithm, HeaderProtectionKey, PacketKey, Tag};
use rustls::{SupportedCipherSuite, Tls13CipherSuite};

/// Content of an ACK_RECEIVE_TIMESTAMPS frame, with every packet number and time written out.
#[derive(Debug, PartialEq, Eq)]
struct Read {
    acknowledged: Vec<(u64, u64)>,
    delay: u64,
    ecn: Option<[u64; 3]>,
    /// Packet number and units since the epoch, in the frame's order.
    arrivals: Vec<(u64, u64)>,
    /// Length of the frame in bytes.
    len: usize,
}

/// Reads a variable-length integer (RFC 9000 §16), whose first two bits encode its length.
fn int(bytes: &[u8], at: &mut usize) -> u64 {
    let len = 1 << (bytes[*at] >> 6);
    let mut value = u64::from(bytes[*at] & 0x3f);
    for byte in &bytes[*at + 1..*at + len] {
        value = value * 256 + u64::from(*byte);
    }
    *at += len;
    value
}

/// Reads the frame at the start of `bytes`, in the layout of draft-ietf-quic-receive-ts-02; `None`
/// for another frame.
fn read(bytes: &[u8]) -> Option<Read> {
    let mut at = 0;
    let ecn = match bytes.get(..4)? {
        [0x83, 0x17, 0x83, 0x07] => false,
        [0x83, 0x17, 0x83, 0x08] => true,
        _ => return None,
    };
    at += 4;
    let largest = int(bytes, &mut at);
    let delay = int(bytes, &mut at);
    let ranges = int(bytes, &mut at);
    let mut low = largest - int(bytes, &mut at);
    let mut acknowledged = vec![(low, largest)];
    for _ in 0..ranges {
        let high = low - int(bytes, &mut at) - 2;
        low = high - int(bytes, &mut at);
        acknowledged.push((low, high));
    }
    let ecn = ecn.then(|| [int(bytes, &mut at), int(bytes, &mut at), int(bytes, &mut at)]);
    let mut arrivals: Vec<(u64, u64)> = Vec::new();
    for _ in 0..int(bytes, &mut at) {
        let mut packet = largest - int(bytes, &mut at);
        for _ in 0..int(bytes, &mut at) {
            let delta = int(bytes, &mut at);
            // The first time of a frame counts from the epoch. Every other one counts back from the
            // time before it.
            let time = arrivals.last().map_or(delta, |(_, before)| before - delta);
            arrivals.push((packet, time));
            packet = packet.wrapping_sub(1);
        }
    }
    Some(Read { acknowledged, delay, ecn, arrivals, len: at })
}

/// The draft's examples: packets 87 to 91 and 96 to 100, in units of 1 and of 8 us, with ECN counts
/// and without.
#[test]
fn independent_parser_reads_the_examples_of_the_draft() {
    let plain = [
        0x83, 0x17, 0x83, 0x07, 0x40, 0x64, 0x00, 0x01, 0x04, 0x03, 0x04, 0x02, 0x00, 0x05, 0x41,
        0x7c, 0x0a, 0x0a, 0x05, 0x05, 0x09, 0x05, 0x14, 0x0a, 0x0a, 0x05, 0x05,
    ];
    let found = read(&plain).expect("the frame");
    let times = [380, 370, 360, 355, 350, 330, 320, 310, 305, 300];
    let packets = (96..=100).rev().chain((87..=91).rev());
    assert_eq!(found.arrivals, packets.zip(times).collect::<Vec<_>>());
    assert_eq!(
        (found.acknowledged, found.ecn, found.len),
        (vec![(96, 100), (87, 91)], None, plain.len())
    );
    let ecn = [
        0x83, 0x17, 0x83, 0x08, 0x40, 0x64, 0x00, 0x01, 0x04, 0x03, 0x04, 0x0a, 0x00, 0x01, 0x02,
        0x00, 0x05, 0x30, 0x01, 0x02, 0x00, 0x01, 0x09, 0x05, 0x02, 0x02, 0x01, 0x00, 0x01,
    ];
    let found = read(&ecn).expect("the frame");
    assert_eq!((found.ecn, found.len), (Some([10, 0, 1]), ecn.len()));
    assert_eq!(
        found.arrivals.iter().map(|a| a.1).collect::<Vec<_>>(),
        [48, 47, 45, 45, 44, 42, 40, 39, 39, 38]
    );
    let none = read(&[0x83, 0x17, 0x83, 0x07, 5, 0, 0, 0, 0]).expect("the frame");
    assert_eq!((none.acknowledged, none.arrivals, none.len), (vec![(5, 5)], vec![], 9));
    assert_eq!(read(&[0x02, 5, 0, 0, 0]), None);
}

/// 1-RTT packets that one side's TLS has opened, as they were on the wire: their number and
/// payload, and how many were opened so far.
#[derive(Default)]
struct Opened {
    packets: Mutex<Vec<(u64, Vec<u8>)>>,
    count: AtomicU64,
}

impl Opened {
    fn record(&self, number: u64, header: &[u8], payload: &[u8]) {
        // Record only packets with short headers (RFC 9000 §17.3).
        if header[0] & 0x80 == 0 {
            self.packets.lock().expect("whole").push((number, payload.to_vec()));
            self.count.fetch_add(1, Ordering::SeqCst);
        }
    }
}

/// Clock that advances by one millisecond with every packet opened. A packet's arrival time thus
/// depends only on its position, not on the speed of the machine.
struct PacketClock(Instant, Arc<Opened>);

impl Clock for PacketClock {
    fn now(&self) -> Instant {
        self.0 + Duration::from_millis(self.1.count.load(Ordering::SeqCst))
    }
}

/// Key of ring that also records the packets it opens.
struct Recording<K: ?Sized> {
    opened: Arc<Opened>,
    inner: Box<K>,
}

impl PacketKey for Recording<dyn PacketKey> {
    fn encrypt_in_place(
        &self,
        number: u64,
        header: &[u8],
        payload: &mut [u8],
    ) -> Result<Tag, rustls::Error> {
        self.inner.encrypt_in_place(number, header, payload)
    }

    fn decrypt_in_place<'a>(
        &self,
        number: u64,
        header: &[u8],
        payload: &'a mut [u8],
    ) -> Result<&'a [u8], rustls::Error> {
        let opened = self.inner.decrypt_in_place(number, header, payload)?;
        self.opened.record(number, header, opened);
        Ok(opened)
    }

    fn tag_len(&self) -> usize {
        self.inner.tag_len()
    }

    fn confidentiality_limit(&self) -> u64 {
        self.inner.confidentiality_limit()
    }

    fn integrity_limit(&self) -> u64 {
        self.inner.integrity_limit()
    }
}

struct RecordingAlgorithm {
    opened: Arc<Opened>,
    inner: &'static dyn Algorithm,
}

impl Algorithm for RecordingAlgorithm {
    fn packet_key(
        &self,
        key: rustls::crypto::cipher::AeadKey,
        iv: rustls::crypto::cipher::Iv,
    ) -> Box<dyn PacketKey> {
        Box::new(Recording {
            opened: Arc::clone(&self.opened),
            inner: self.inner.packet_key(key, iv),
        })
    }

    fn header_protection_key(
        &self,
        key: rustls::crypto::cipher::AeadKey,
    ) -> Box<dyn HeaderProtectionKey> {
        self.inner.header_protection_key(key)
    }

    fn aead_key_len(&self) -> usize {
        self.inner.aead_key_len()
    }
}

/// Returns ring's provider with only AES-128-GCM, whose keys record the packets they open.
fn provider(opened: &Arc<Opened>) -> Arc<rustls::crypto::CryptoProvider> {
    let mut provider = rustls::crypto::ring::default_provider();
    let suite = provider
        .cipher_suites
        .iter()
        .filter_map(SupportedCipherSuite::tls13)
        .find(|suite| suite.common.suite == rustls::CipherSuite::TLS13_AES_128_GCM_SHA256)
        .expect("QUIC's own");
    let inner = suite.quic.expect("for QUIC");
    let algorithm = Box::leak(Box::new(RecordingAlgorithm { opened: Arc::clone(opened), inner }));
    let common = rustls::crypto::CipherSuiteCommon { ..suite.common };
    let recording = Tls13CipherSuite {
        common,
        hkdf_provider: suite.hkdf_provider,
        aead_alg: suite.aead_alg,
        quic: Some(algorithm),
    };
    provider.cipher_suites = vec![SupportedCipherSuite::Tls13(Box::leak(Box::new(recording)))];
    Arc::new(provider)
}

fn plugin(receive_timestamps: ReceiveTimestamps) -> Plugin {
    let extension = Extension { receive_timestamps: Some(receive_timestamps), ..Extension::OFF };
    Plugin::named("reno").expect("a plug-in").with_extension(extension).expect("an extension")
}

/// Uploads one megabyte from a client that asks for `wanted`. Returns the packets that server and
/// client opened.
async fn upload(wanted: ReceiveTimestamps) -> [Arc<Opened>; 2] {
    let opened: [Arc<Opened>; 2] = std::array::from_fn(|_| Arc::default());
    let signed =
        rcgen::generate_simple_self_signed(vec!["localhost".into()]).expect("a certificate");
    let certificate: CertificateDer<'static> = signed.cert.der().clone();
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(signed.signing_key.serialize_der()));
    let server_tls = rustls::ServerConfig::builder_with_provider(provider(&opened[0]))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .expect("TLS 1.3")
        .with_no_client_auth()
        .with_single_cert(vec![certificate.clone()], key)
        .expect("a server");
    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificate).expect("a root");
    let client_tls = rustls::ClientConfig::builder_with_provider(provider(&opened[1]))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .expect("TLS 1.3")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let clock = Arc::new(PacketClock(SystemClock.now(), Arc::clone(&opened[0])));
    let server = plugin(ReceiveTimestamps::default())
        .with_clock(clock)
        .server(Arc::new(server_tls))
        .expect("a server");
    let any = "127.0.0.1:0".parse().expect("an address");
    let endpoint = Endpoint::server(server.config(), any).expect("an endpoint");
    let to = endpoint.local_addr().expect("bound");
    let serving = async {
        let incoming = endpoint.accept().await.expect("a client");
        let (connecting, monitor) =
            server.accept(incoming, TransportConfig::default()).expect("accepted");
        let connection = connecting.await.expect("a handshake");
        let mut recv = connection.accept_uni().await.expect("a stream");
        assert_eq!(recv.read_to_end(2_000_000).await.expect("read").len(), 1_000_000);
        connection.closed().await;
        monitor.report()
    };
    let client = plugin(wanted).client(Arc::new(client_tls)).expect("a client");
    let sending = async {
        let endpoint = Endpoint::client(any).expect("a client");
        let (connecting, _) = client
            .connect(&endpoint, TransportConfig::default(), to, "localhost")
            .expect("a connection begun");
        let connection = connecting.await.expect("a handshake");
        let mut send = connection.open_uni().await.expect("a stream");
        send.write_all(&vec![7; 1_000_000]).await.expect("written");
        send.finish().expect("open");
        send.stopped().await.expect("all of it acknowledged");
        connection.close(0u32.into(), b"");
        endpoint.wait_idle().await;
    };
    let run = async { tokio::join!(serving, sending).0 };
    // Only a hanging test takes so long.
    let report = tokio::time::timeout(Duration::from_secs(120), run).await.expect("done in time");
    assert!(report.in_use == InUse::Receive && report.stamps_sent > 3, "{report:?}");
    opened
}

#[tokio::test]
async fn independent_parser_and_codec_agree_on_a_connection() {
    for wanted in [(1, 3), (32, 0), (3, 0), (32, 5)] {
        let wanted = ReceiveTimestamps { max_per_ack: wanted.0, exponent: wanted.1 };
        let [server, client] = upload(wanted).await;
        // Maps each packet to the server's clock when the packet was opened, in milliseconds.
        let mut arrived: HashMap<u64, u64> = HashMap::new();
        for (place, (number, _)) in server.packets.lock().expect("whole").iter().enumerate() {
            arrived.entry(*number).or_insert(place as u64 + 1);
        }
        let (mut frames, mut arrivals, mut bytes, mut epochs) = (0u64, 0, 0, Vec::new());
        let mut told = HashMap::new();
        for (_, payload) in client.packets.lock().expect("whole").iter() {
            // PADDING, PING and IMMEDIATE_ACK may precede the frame.
            let start =
                payload.iter().take_while(|byte| matches!(byte, 0x00 | 0x01 | 0x1f)).count();
            let Some(found) = read(&payload[start..]) else { continue };
            let (frame, len) =
                fathom_frames::AckReceiveTimestamps::decode(&payload[start..]).expect("our own");
            let ranges: Vec<_> =
                frame.ack.ranges().map(|range| (*range.start(), *range.end())).collect();
            assert_eq!(
                (found.len, &found.acknowledged, found.delay),
                (len, &ranges, frame.ack.raw_delay)
            );
            assert_eq!(found.ecn, frame.ack.ecn.map(|ecn| [ecn.ect0, ecn.ect1, ecn.ce]));
            let unit = 1 << wanted.exponent;
            let codec: Vec<_> =
                frame.receipts(wanted.exponent).map(|r| (r.packet, r.micros)).collect();
            let scaled: Vec<_> =
                found.arrivals.iter().map(|(packet, time)| (*packet, time * unit)).collect();
            assert_eq!(scaled, codec);
            assert!(!scaled.is_empty() && scaled.len() as u64 <= wanted.max_per_ack, "{scaled:?}");
            for (packet, micros) in scaled {
                assert!(
                    found.acknowledged.iter().any(|(low, high)| (*low..=*high).contains(&packet)),
                    "{found:?}"
                );
                assert_eq!(
                    told.insert(packet, micros),
                    None,
                    "each packet is told of once: {packet}"
                );
                epochs.push((1_000 * arrived[&packet]).wrapping_sub(micros).wrapping_add(unit));
                arrivals += 1;
            }
            bytes += len as u64;
            frames += 1;
        }
        // All times have the same epoch, within one unit; our clock rounds up.
        let (least, most) =
            (epochs.iter().min().expect("frames"), epochs.iter().max().expect("frames"));
        assert!(most - least < 1 << wanted.exponent, "{wanted:?}: epochs from {least} to {most}");
        assert!(frames > 3, "{wanted:?}: {frames} frames");
        println!(
            "{wanted:?}: {frames} frames with {arrivals} times, {:.1} bytes each",
            bytes as f64 / frames as f64
        );
    }
}
