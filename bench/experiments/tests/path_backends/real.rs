//! Sends probes between sockets of the kernel, in real time.
// These columns measure real time.
#![allow(clippy::disallowed_methods)]

use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use fathom_netsim::relay::{Relay, RelaySpec};
use nix::sched::{CloneFlags, unshare};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::feature::{Feature, START};
use super::sample::Sample;

/// Time after the last probe, longer than any delay.
const REST: Duration = Duration::from_secs(2);
/// Number of entries of tc's tables (`TABLE`), and their unit (`TABLE_UNIT`; iproute2,
/// `netem/normal.c`).
const TABLE: u32 = 4_096;
const TABLE_UNIT: f64 = 8_192.0;
/// Folder of the modules of User-Mode Linux; the folder of its version is inside.
const MODULES: &str = "/usr/lib/uml/modules";

/// A path from one socket to another.
struct Channel {
    from: UdpSocket,
    via: SocketAddr,
    to: UdpSocket,
    /// Start of the channel's time.
    began: Instant,
}

/// Sends the probes through relays, one for each feature.
pub(crate) fn over_relays(features: &[Feature], seed: u64) -> Vec<Sample> {
    let stop = Arc::new(AtomicBool::new(false));
    let (mut channels, mut threads) = (Vec::new(), Vec::new());
    for (feature, seed) in features.iter().zip(1_000 * seed..) {
        let [from, to] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
        let spec = RelaySpec { up: feature.path(), seed, ..RelaySpec::default() };
        let mut relay =
            Relay::bind("127.0.0.1:0".parse().unwrap(), to.local_addr().unwrap(), spec).unwrap();
        channels.push(Channel { from, via: relay.address().unwrap(), to, began: Instant::now() });
        let stop = Arc::clone(&stop);
        threads.push(std::thread::spawn(move || relay.run(&stop, None, |_, _| {})));
    }
    let samples = exchange(features, &channels);
    stop.store(true, Ordering::Relaxed);
    threads.into_iter().for_each(|thread| thread.join().unwrap().unwrap());
    samples
}

/// Sends the probes through the kernel's own netem, with a network namespace for each feature. Runs
/// in a guest as root.
pub(crate) fn over_netem(features: &[Feature]) -> Vec<Sample> {
    let kernel = std::fs::read_dir(MODULES)
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path()
        .join("kernel/net/sched");
    for module in ["sch_ingress", "cls_matchall", "act_police"] {
        // A module may be loaded already. If a module is missing, tc reports the error.
        let _ = Command::new("insmod").arg(kernel.join(format!("{module}.ko"))).output();
    }
    let channels: Vec<Channel> = features.iter().map(netem_channel).collect();
    exchange(features, &channels)
}

fn netem_channel(feature: &Feature) -> Channel {
    let tables = tempfile::tempdir().unwrap();
    if let Some(quantile) = feature.quantile {
        let entry = |n: u32| {
            (quantile((f64::from(n) + 0.5) / f64::from(TABLE)) * TABLE_UNIT).min(32_767.0) as i16
        };
        let text: String = (0..TABLE).map(|n| format!("{}\n", entry(n))).collect();
        std::fs::write(tables.path().join("fathom.dist"), text).unwrap();
    }
    // The thread has its own network namespace, which its sockets keep.
    let made = std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            unshare(CloneFlags::CLONE_NEWNET).unwrap();
            run("ip", "link set lo up", tables.path());
            feature.tc.iter().for_each(|words| run("tc", words, tables.path()));
            [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap())
        });
        thread.join().unwrap()
    });
    let [from, to] = made;
    Channel { from, via: to.local_addr().unwrap(), to, began: Instant::now() }
}

fn run(tool: &str, words: &str, tables: &Path) {
    let done =
        Command::new(tool).args(words.split(' ')).env("TC_LIB_DIR", tables).output().unwrap();
    assert!(done.status.success(), "{tool} {words}: {}", String::from_utf8_lossy(&done.stderr));
}

/// Sends every probe at its time and records the arrivals.
fn exchange(features: &[Feature], channels: &[Channel]) -> Vec<Sample> {
    let mut samples = vec![Sample::default(); features.len()];
    let (mut next, mut buffer) = (vec![0; features.len()], [0; 2_000]);
    channels.iter().for_each(|channel| channel.to.set_nonblocking(true).unwrap());
    let due = |place: usize, next: &[u32]| {
        let feature = &features[place];
        (next[place] < feature.probes)
            .then(|| channels[place].began + START + feature.gap * next[place])
    };
    let mut ends = Instant::now() + REST;
    while Instant::now() < ends {
        let first = (0..features.len()).filter_map(|place| due(place, &next)).min();
        let timeout = first.unwrap_or(ends).saturating_duration_since(Instant::now());
        let timespec = Timespec {
            tv_sec: timeout.as_secs() as i64,
            tv_nsec: i64::from(timeout.subsec_nanos()),
        };
        let mut polled: Vec<_> =
            channels.iter().map(|channel| PollFd::new(&channel.to, PollFlags::IN)).collect();
        poll(&mut polled, Some(&timespec)).unwrap();
        for (channel, sample) in channels.iter().zip(&mut samples) {
            while let Ok(len) = channel.to.recv(&mut buffer) {
                sample.on_arrival(channel.began.elapsed().as_nanos() as u64, &buffer[..len]);
            }
        }
        for place in 0..features.len() {
            let channel = &channels[place];
            while due(place, &next).is_some_and(|due| due <= Instant::now()) {
                next[place] += 1;
                let contents = samples[place].on_sent(channel.began.elapsed().as_nanos() as u64);
                channel.from.send_to(&contents, channel.via).unwrap();
            }
        }
        if first.is_some() {
            ends = Instant::now() + REST;
        }
    }
    samples
}
