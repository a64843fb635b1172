//! Sends probes in the laboratory's simulation, in virtual time or over links of the kernel.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use fathom_cc::Time;
use fathom_netsim::backend::{Backend, RouterLink, attach};
use fathom_netsim::link::Link;
use fathom_netsim::path::Impairer;
use fathom_netsim::sim::{Executor, Group, Path, server_address};
use parking_lot::Mutex;

use super::feature::{Feature, START};
use super::sample::Sample;

/// Sends the probes of all features at once, each over its own link.
pub(crate) fn run(features: &[Feature], seed: u64, backend: Backend) -> Vec<Sample> {
    let mut executor = Executor::new();
    let sim = executor.sim();
    let (mut samples, mut routers) = (Vec::new(), Vec::new());
    for (feature, seed) in features.iter().zip(1_000 * seed..) {
        let path = feature.path();
        let (capacity, queue) = path.link.expect("all have a rate");
        let rate = capacity.nominal();
        let link = sim.add_link(Link::new(capacity.of_seed(seed), queue.build(rate, seed)));
        sim.impair(link, Impairer::new(path.impairments, path.delay, seed));
        routers.push(RouterLink { link, rate, queue, delay: Duration::ZERO });
        let (client, server) = (sim.client_socket(), sim.server_socket());
        let up = Path::over(link, path.delay);
        let group = sim.add_group(Group {
            client: client.id(),
            server: server.id(),
            down: Path::default(),
            up,
        });
        let to = server_address(sim.add_flow(group));
        let sample = Arc::new(Mutex::new(Sample::default()));
        let (sends, clock, probes, gap) =
            (Arc::clone(&sample), sim.clone(), feature.probes, feature.gap);
        sim.spawn(async move {
            for number in 0..probes {
                clock.sleep_until(Time::ZERO + START + gap * number).await;
                let contents = sends.lock().on_sent(clock.time().as_nanos());
                client.send(to, None, None, &contents, None);
            }
        });
        let (receives, clock) = (Arc::clone(&sample), sim.clone());
        sim.spawn(async move {
            loop {
                poll_fn(|cx| {
                    let now = clock.time().as_nanos();
                    let came = server.receive(64, cx.waker(), |_, bytes, _| {
                        receives.lock().on_arrival(now, bytes)
                    });
                    came.map_or(Poll::Pending, |_| Poll::Ready(()))
                })
                .await;
            }
        });
        samples.push(sample);
    }
    attach(&mut executor, backend, &routers).expect("a backend");
    executor.run(Time::from_millis(60_000));
    samples.iter().map(|sample| sample.lock().clone()).collect()
}
