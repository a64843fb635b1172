//! Compares bulk transfers of derived and stock quiche over loopback, in pairs that run one after
//! the other in alternating order.
//!
//! `cargo bench -p fathom-quiche-stock --bench loopback [-- PAIRS MEGABYTES]`. CPU time is the sum
//! over the threads of both ends. Single ratios contain the machine's noise, so read their median
//! and quartiles.

// This benchmark measures real time.
#![allow(clippy::disallowed_methods)]

use std::net::UdpSocket;
use std::path::Path;
use std::time::Duration;

/// Time that one transfer took.
#[derive(Clone, Copy)]
struct Took {
    wall: Duration,
    cpu: Duration,
}

/// Defines `mod $name` with a transfer over the quiche at `$quiche`.
macro_rules! transfer_over {
    ($name:ident, $quiche:path) => {
        mod $name {
            use std::net::UdpSocket;
            use std::path::Path;
            use std::time::{Duration, Instant};

            use $quiche as quiche;

            use super::{IDLE, Took, cpu_of_this_thread};

            fn config(identity: &Path, algorithm: &str) -> quiche::Config {
                let mut config =
                    quiche::Config::new(quiche::PROTOCOL_VERSION).expect("a configuration");
                let file = |name: &str| identity.join(name).to_str().expect("a path").to_owned();
                config.load_cert_chain_from_pem_file(&file("cert.pem")).expect("a certificate");
                config.load_priv_key_from_pem_file(&file("key.pem")).expect("a key");
                config.set_application_protos(&[b"bulk"]).expect("a protocol");
                config.set_cc_algorithm_name(algorithm).expect("an algorithm");
                config.set_max_idle_timeout(IDLE.as_millis() as u64);
                config.set_max_recv_udp_payload_size(1_350);
                config.set_max_send_udp_payload_size(1_350);
                config.set_initial_max_data(1 << 30);
                config.set_initial_max_stream_data_bidi_local(1 << 26);
                config.set_initial_max_stream_data_bidi_remote(1 << 26);
                config.set_max_connection_window(1 << 30);
                config.set_max_stream_window(1 << 26);
                config.set_initial_max_streams_bidi(4);
                config.verify_peer(false);
                config
            }

            struct End {
                socket: UdpSocket,
                connection: quiche::Connection,
                buffer: Vec<u8>,
            }

            impl End {
                fn send(&mut self) {
                    while let Ok((len, info)) = self.connection.send(&mut self.buffer) {
                        // A full socket buffer drops the packet, as a network would.
                        let _ = self.socket.send_to(&self.buffer[..len], info.to);
                    }
                }

                /// Waits for a datagram or the timer, then receives all available datagrams.
                fn receive(&mut self) {
                    let wait = self
                        .connection
                        .timeout()
                        .unwrap_or(IDLE)
                        .clamp(Duration::from_micros(100), IDLE);
                    self.socket.set_read_timeout(Some(wait)).expect("a timeout");
                    let local = self.socket.local_addr().expect("an address");
                    let mut first = true;
                    for _ in 0..64 {
                        match self.socket.recv_from(&mut self.buffer) {
                            Ok((len, from)) => {
                                let _ = self.connection.recv(
                                    &mut self.buffer[..len],
                                    quiche::RecvInfo { from, to: local },
                                );
                            }
                            Err(_) if first => self.connection.on_timeout(),
                            Err(_) => break,
                        }
                        if std::mem::take(&mut first) {
                            self.socket.set_nonblocking(true).expect("a socket");
                        }
                    }
                    self.socket.set_nonblocking(false).expect("a socket");
                }
            }

            /// Sends `bytes` from server to client.
            pub(super) fn run(identity: &Path, algorithm: &str, bytes: usize) -> Took {
                let socket = || UdpSocket::bind("127.0.0.1:0").expect("a socket");
                let (near, far) = (socket(), socket());
                let (here, there) =
                    (near.local_addr().expect("an address"), far.local_addr().expect("an address"));
                let begin = (Instant::now(), cpu_of_this_thread());
                let (folder, name) = (identity.to_owned(), algorithm.to_owned());
                let server = std::thread::spawn(move || serve(far, &folder, &name, bytes));
                let mut config = config(identity, algorithm);
                let id = quiche::ConnectionId::from_ref(&[7; 16]);
                let connection = quiche::connect(Some("localhost"), &id, here, there, &mut config)
                    .expect("a connection");
                let mut end = End { socket: near, connection, buffer: vec![0; 65_535] };
                let (mut requested, mut got) = (false, 0);
                let mut sink = vec![0; 1 << 16];
                while got < bytes {
                    end.send();
                    end.receive();
                    assert!(!end.connection.is_closed(), "{:?}", end.connection.peer_error());
                    if end.connection.is_established()
                        && !std::mem::replace(&mut requested, end.connection.is_established())
                    {
                        end.connection.stream_send(0, b"go", true).expect("a request");
                    }
                    while let Ok((len, _)) = end.connection.stream_recv(0, &mut sink) {
                        got += len;
                    }
                }
                let wall = begin.0.elapsed();
                let _ = end.connection.close(true, 0, b"done");
                end.send();
                let cpu = cpu_of_this_thread() - begin.1 + server.join().expect("a server");
                Took { wall, cpu }
            }

            fn serve(
                socket: UdpSocket,
                identity: &Path,
                algorithm: &str,
                bytes: usize,
            ) -> Duration {
                let begin = cpu_of_this_thread();
                let mut config = config(identity, algorithm);
                let mut buffer = vec![0; 65_535];
                let (len, from) = socket.recv_from(&mut buffer).expect("a first datagram");
                let to = socket.local_addr().expect("an address");
                let id = quiche::ConnectionId::from_ref(&[9; 16]);
                let mut connection =
                    quiche::accept(&id, None, to, from, &mut config).expect("a connection");
                connection
                    .recv(&mut buffer[..len], quiche::RecvInfo { from, to })
                    .expect("an Initial packet");
                let mut end = End { socket, connection, buffer };
                let body = vec![42; 1 << 16];
                let mut left = bytes;
                while !end.connection.is_closed() {
                    end.send();
                    end.receive();
                    while left > 0 && end.connection.is_established() {
                        match end.connection.stream_send(
                            0,
                            &body[..left.min(body.len())],
                            left <= body.len(),
                        ) {
                            Ok(len) => left -= len,
                            Err(_) => break,
                        }
                    }
                }
                cpu_of_this_thread() - begin
            }
        }
    };
}

transfer_over!(over_stock, fathom_quiche_stock::quiche);
transfer_over!(over_derived, derived);

const IDLE: Duration = Duration::from_secs(5);

fn cpu_of_this_thread() -> Duration {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(t.tv_sec.unsigned_abs(), t.tv_nsec.unsigned_abs() as u32)
}

/// Writes a certificate and its key to files.
fn identity(folder: &Path) {
    let made =
        rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).expect("a certificate");
    std::fs::write(folder.join("cert.pem"), made.cert.pem()).expect("a file");
    std::fs::write(folder.join("key.pem"), made.signing_key.serialize_pem()).expect("a file");
}

/// Returns the lower quartile, the median and the upper quartile.
fn quartiles(mut values: Vec<f64>) -> [f64; 3] {
    values.sort_by(f64::total_cmp);
    [1, 2, 3].map(|q| values[(values.len() - 1) * q / 4])
}

fn main() {
    // Skip the flag that `cargo bench` adds.
    let mut numbers = std::env::args().skip(1).filter_map(|a| a.parse::<usize>().ok());
    let pairs = numbers.next().unwrap_or(15).max(1);
    let bytes = numbers.next().unwrap_or(200).max(1) * 1_000_000;
    let folder = tempfile::tempdir().expect("a folder");
    identity(folder.path());
    UdpSocket::bind("127.0.0.1:0").expect("loopback");
    type Run = fn(&Path, &str, usize) -> Took;
    let (stock, derived): (Run, Run) = (over_stock::run, over_derived::run);
    let cases: [(&str, Run, &str, Run, &str); 5] = [
        ("stock against itself, cubic", stock, "cubic", stock, "cubic"),
        ("derived against stock, cubic", stock, "cubic", derived, "cubic"),
        ("derived against stock, reno", stock, "reno", derived, "reno"),
        ("our cubic, frames on, against stock's", stock, "cubic", derived, "fathom:cubic"),
        ("our reno, frames on, against stock's", stock, "reno", derived, "fathom:reno"),
    ];
    println!(
        "{pairs} pairs of {} MB over loopback; ratios: lower quartile, median, upper quartile",
        bytes / 1_000_000
    );
    for (name, a, with_a, b, with_b) in cases {
        let (mut wall, mut cpu) = (Vec::new(), Vec::new());
        let mut rate = Vec::new();
        for pair in 0..pairs {
            let first = |second: bool| {
                if second {
                    b(folder.path(), with_b, bytes)
                } else {
                    a(folder.path(), with_a, bytes)
                }
            };
            let (one, other) = if pair % 2 == 0 {
                let one = first(false);
                (one, first(true))
            } else {
                let other = first(true);
                (first(false), other)
            };
            wall.push(other.wall.as_secs_f64() / one.wall.as_secs_f64());
            cpu.push(other.cpu.as_secs_f64() / one.cpu.as_secs_f64());
            rate.push(bytes as f64 * 8e-6 / other.wall.as_secs_f64());
        }
        let text = |v: [f64; 3]| v.map(|x| format!("{x:.4}")).join(" ");
        let [_, rate, _] = quartiles(rate);
        println!(
            "{name}: time {}, CPU {}; median {rate:.0} Mbit/s",
            text(quartiles(wall)),
            text(quartiles(cpu))
        );
    }
}
