//! With a controller of stock's own, the derived crate sends what stock sends: every datagram, at the same nanosecond, of the same size.
//!
//! Both run in the same simulated network with the same clock and randomness ([`host`]), in all four pairings, through losses,
//! a full queue, an outage with probe timeouts and path MTU discovery.

// glibc's `clock_gettime` is what std calls here.
#![cfg(all(target_os = "linux", target_env = "gnu"))]

mod ends;
mod host;
mod network;

use std::time::Duration;

use ends::{Application, Exchange, Setup, on_derived, on_stock};
use network::{Link, Outcome, run};

const CONTROLLERS: [&str; 3] = ["reno", "cubic", "bbr2"];

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Long transfers both ways beside short ones.
fn setup(application: Application, controller: &'static str) -> Setup {
    let mut exchanges = vec![
        Exchange { start: ms(0), up: 300, down: 2_000_000 },
        Exchange { start: ms(100), up: 700_000, down: 1_000 },
    ];
    exchanges.extend((0..20).map(|i| Exchange { start: ms(200 + 150 * i), up: 0, down: 500 << (i % 8) }));
    Setup { application, exchanges, controller, hystart: true, pacing: true, pmtud: false, mtu: 1350 }
}

fn link() -> Link {
    Link { bytes_per_second: 1_250_000, delay: ms(20), queue_bytes: 25_000, longest: 1500, one_lost_in: 0, outage: [ms(0); 2] }
}

#[test]
fn smoke() {
    for c in CONTROLLERS {
        for a in [Application::Raw, Application::H3] {
            let setup = setup(a, c);
            let link = link();
            let stock = |server| { let setup = setup.clone(); move || on_stock::make(&setup, server) };
            let derived = |server| { let setup = setup.clone(); move || on_derived::make(&setup, server) };
            let r0 = host::reads();
            let a = run([&stock(false), &stock(true)], &link, 1);
            let r1 = host::reads();
            let b = run([&derived(false), &derived(true)], &link, 1);
            println!("{} {:?} {:?} {:?} {:?} {}", a.trace.len(), a.client, a.server, r0, r1, a == b);
        }
    }
}
