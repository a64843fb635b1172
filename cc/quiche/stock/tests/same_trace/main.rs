//! With a controller of stock's own, the derived crate sends exactly what stock sends: each
//! datagram at the same nanosecond and of the same size.
//!
//! Both crates run in the same simulated network with the same clock and the same random bytes
//! ([`host`]), in all four pairings. The network has a queue that overflows, random loss, an outage
//! with probe timeouts, and path MTU discovery. Not compared are the bytes themselves, which are
//! encrypted with different keys in each run, and the behaviour after a change of path.

// The source of time depends on std and the C library. This test replaces glibc's `clock_gettime`.
#![cfg(all(target_os = "linux", target_env = "gnu"))]

mod ends;
mod host;
mod network;

use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use derived::fathom::simulation::{self, ConnectionRng};
use ends::{Application, Exchange, Setup, on_derived, on_stock};
use network::{ConnectionStats, End, Link, Outcome, run};

const CONTROLLERS: [&str; 3] = ["reno", "cubic", "bbr2"];
const SEED: u64 = 11;

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Returns a setup with long transfers both ways beside short ones.
fn setup(application: Application, controller: &'static str) -> Setup {
    let mut exchanges = vec![
        Exchange { start: ms(0), up: 300, down: 900_000 },
        Exchange { start: ms(100), up: 400_000, down: 1_000 },
    ];
    exchanges.extend((0..20).map(|i| Exchange {
        start: ms(200 + 90 * i),
        up: 0,
        down: 500 << (i % 8),
    }));
    Setup {
        application,
        exchanges,
        controller,
        hystart: true,
        pacing: true,
        pmtud: false,
        mtu: 1350,
    }
}

/// Returns a link of 10 Mbit/s with an RTT of 40 ms and a queue of 20 ms, which slow start
/// overflows.
fn link() -> Link {
    Link {
        bytes_per_second: 1_250_000,
        delay: ms(20),
        queue_bytes: 25_000,
        longest: 1500,
        one_lost_in: 0,
        outage: [ms(0); 2],
    }
}

type Make = fn(&Setup, bool) -> Box<dyn End>;

fn between(client: Make, server: Make, setup: &Setup, link: &Link, seed: u64) -> Outcome {
    run([&|| client(setup, false), &|| server(setup, true)], link, seed)
}

fn stock(setup: &Setup, link: &Link) -> Outcome {
    between(on_stock::make, on_stock::make, setup, link, SEED)
}

/// Checks that every pairing sends what stock sends to stock. Returns the outcome of stock.
fn compare(what: &str, setup: &Setup, link: &Link) -> Outcome {
    let stock = stock(setup, link);
    let whole = |n: fn(&Exchange) -> usize| setup.exchanges.iter().map(n).sum::<usize>() as u64;
    assert!(
        stock.client.read > whole(|x| x.down) && stock.server.read > whole(|x| x.up),
        "{what}: not all arrived"
    );
    let pairs: [(&str, Make, Make); 3] = [
        ("derived, derived", on_derived::make, on_derived::make),
        ("derived, stock", on_derived::make, on_stock::make),
        ("stock, derived", on_stock::make, on_derived::make),
    ];
    for (pair, client, server) in pairs {
        let other = between(client, server, setup, link, SEED);
        let same = stock.trace.iter().zip(&other.trace).take_while(|(a, b)| a == b).count();
        assert_eq!(
            stock.trace.get(same),
            other.trace.get(same),
            "{what}, {pair}: departure {same} of {} and {}, after {:?}",
            stock.trace.len(),
            other.trace.len(),
            stock.trace[same.saturating_sub(3)..same].iter().collect::<Vec<_>>()
        );
        assert_eq!(
            (stock.client, stock.server),
            (other.client, other.server),
            "{what}, {pair}: the books"
        );
    }
    stock
}

fn every_network(controller: &'static str) {
    for application in [Application::Raw, Application::H3] {
        let setup = setup(application, controller);
        let name = |network: &str| format!("{controller}, {application:?}, {network}");
        let ends =
            |o: &Outcome, check: fn(&ConnectionStats) -> bool| check(&o.client) && check(&o.server);

        let queue = compare(&name("full queue"), &setup, &link());
        assert!(ends(&queue, |b| b.lost > 10 && b.retransmitted > 10_000), "{queue:?}");

        let outage =
            Link { one_lost_in: 40, outage: [ms(900), ms(2500)], queue_bytes: 60_000, ..link() };
        let plain = Setup { hystart: false, pacing: false, ..setup.clone() };
        let outage = compare(&name("random loss and outage"), &plain, &outage);
        assert!(ends(&outage, |b| b.lost > 10 && b.ptos > 2), "{outage:?}");

        let narrow = Link { longest: 1400, ..link() };
        let narrow =
            compare(&name("MTU of 1400"), &Setup { pmtud: true, mtu: 1500, ..setup }, &narrow);
        assert!(ends(&narrow, |b| (1300..=1400).contains(&b.mtu)), "{narrow:?}");
        assert!(narrow.trace.iter().any(|d| d.size == 1500), "the MTU is looked for");
    }
}

#[test]
fn reno_sends_the_same_packets_as_on_stock_quiche() {
    every_network(CONTROLLERS[0]);
}

#[test]
fn cubic_sends_the_same_packets_as_on_stock_quiche() {
    every_network(CONTROLLERS[1]);
}

#[test]
fn bbr2_sends_the_same_packets_as_on_stock_quiche() {
    every_network(CONTROLLERS[2]);
}

/// Traces are sensitive: they repeat, and they differ if the controller, one of its parameters or a
/// random number differs.
#[test]
fn packet_traces_repeat_and_differ_with_any_input() {
    let reno = setup(Application::H3, "reno");
    let link = link();
    let first = stock(&reno, &link);
    assert_eq!(first, stock(&reno, &link), "it repeats");
    let seed = between(on_stock::make, on_stock::make, &reno, &link, SEED + 1);
    assert_ne!(first.trace, seed.trace, "sizes depend on GREASE, so the seed reaches stock");
    for (what, other) in [
        ("controller", Setup { controller: "cubic", ..reno.clone() }),
        ("HyStart++", Setup { hystart: false, ..reno.clone() }),
    ] {
        assert_ne!(first.trace, stock(&other, &link).trace, "{what}");
    }
    let faster = Link { bytes_per_second: 1_250_001, ..link };
    assert_ne!(first.trace, stock(&reno, &faster).trace, "a nanosecond per packet");
}

/// A derived endpoint inside of `simulation::run_at`.
struct Inside {
    end: Box<dyn End>,
    start: Instant,
    rng: ConnectionRng,
    /// Number of reads of the host's clock inside.
    clock_reads: Rc<Cell<u64>>,
}

impl Inside {
    fn make(setup: &Setup, server: bool, clock_reads: &Rc<Cell<u64>>) -> Box<dyn End> {
        #[allow(clippy::disallowed_methods)] // The host's clock is the simulation's here.
        let start = Instant::now();
        let mut rng = ConnectionRng::new(server.into());
        let before = host::reads().clock;
        let end = simulation::run_at(start, &mut rng, || on_derived::make(setup, server));
        assert_eq!(host::reads().clock, before + 1, "the one of `make` itself");
        Box::new(Self { end, start, rng, clock_reads: clock_reads.clone() })
    }

    fn at<T>(&mut self, work: impl FnOnce(&mut dyn End) -> T) -> T {
        let now = self.start + host::now().expect("inside of a simulation");
        let before = host::reads().clock;
        let done = simulation::run_at(now, &mut self.rng, || work(&mut *self.end));
        self.clock_reads.set(self.clock_reads.get() + host::reads().clock - before);
        done
    }
}

impl End for Inside {
    fn work(&mut self, now: Duration) {
        self.at(|end| end.work(now));
    }

    fn send(&mut self, to: &mut [u8]) -> Option<(usize, Duration)> {
        self.at(|end| end.send(to))
    }

    fn receive(&mut self, datagram: &mut [u8]) {
        self.at(|end| end.receive(datagram));
    }

    fn timeout(&mut self) -> Option<Duration> {
        self.at(|end| end.timeout())
    }

    fn time_out(&mut self) {
        self.at(|end| end.time_out());
    }

    fn wake(&self) -> Option<Duration> {
        self.end.wake()
    }

    fn closed(&self) -> bool {
        self.end.closed()
    }

    fn stats(&self) -> ConnectionStats {
        self.end.stats()
    }
}

/// Inside of `simulation::run_at`, the derived crate never asks the host for the time, whereas
/// stock asks all the time.
#[test]
fn simulation_never_reads_the_host_clock() {
    let outage = Link { one_lost_in: 40, outage: [ms(900), ms(2500)], ..link() };
    for controller in CONTROLLERS {
        let setup = setup(Application::H3, controller);
        let before = host::reads();
        let by_stock = stock(&setup, &outage);
        let after = host::reads();
        assert!(after.clock - before.clock > by_stock.trace.len() as u64, "the count counts");
        assert!(after.random - before.random > 20, "the count counts");

        let clock_reads = Rc::new(Cell::new(0));
        let inside = || {
            run(
                [&|| Inside::make(&setup, false, &clock_reads), &|| {
                    Inside::make(&setup, true, &clock_reads)
                }],
                &outage,
                SEED,
            )
        };
        let once = inside();
        assert_eq!(clock_reads.get(), 0, "{controller}");
        assert!(once.client.ptos > 2 && once.client.lost > 10, "{once:?}");
        assert_eq!(once, inside(), "{controller}: same seed, same packets");
    }
}
