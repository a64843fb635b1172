//! Tests of tokio programs that run over the simulation.

#![cfg(all(feature = "quinn", feature = "tokio"))]

use std::time::Duration;

use fathom_netsim::Time;
use fathom_netsim::sim::{Ended, Executor};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep};

#[path = "../examples/tokio.rs"]
#[allow(dead_code, clippy::missing_const_for_fn, reason = "an example, with a main of its own")]
mod example;

const LIMIT: Time = Time::from_millis(60_000);

#[test]
fn tokio_program_runs_identically_twice() {
    example::main().expect("both runs have the same trace hash");
}

#[test]
fn tokio_example_has_at_most_25_lines_of_glue() {
    let text = include_str!("../examples/tokio.rs");
    let glue = text.split("fn simulate()").nth(1).and_then(|rest| rest.split("\n}\n").next());
    let lines = glue.expect("the function").lines().filter(|line| !line.is_empty()).count();
    assert!(lines <= 25, "{lines} lines");
}

#[test]
fn tokio_and_simulation_clocks_show_the_same_time() {
    let mut executor = Executor::new();
    let sim = executor.sim();
    // The program begins at a time that is not a whole millisecond.
    executor.run(Time::from_micros(1_234));
    assert_eq!(executor.block_on(sim.sleep_until(Time::from_micros(1_234)), LIMIT), Ok(()));
    let program = async {
        let (began, since) = (Instant::now(), sim.time());
        let mut seen = Vec::new();
        for micros in [700, 1_000, 2_345] {
            let task = sim.clone();
            let until = sim.time() + Duration::from_micros(micros);
            let (tell, told) = oneshot::channel();
            sim.spawn(async move {
                task.sleep_until(until).await;
                let _ = tell.send(());
            });
            told.await.expect("sent");
            assert_eq!(sim.time(), until);
            assert_eq!(began.elapsed(), sim.time().since(since));
            tokio::spawn(sleep(Duration::from_millis(3))).await.expect("no panic");
            assert_eq!(began.elapsed(), sim.time().since(since));
            seen.push(began.elapsed());
        }
        seen
    };
    // tokio's timers end at whole milliseconds.
    let expected = [4, 8, 14].map(Duration::from_millis);
    assert_eq!(executor.block_on_tokio(program, LIMIT).expect("ends"), expected);
}

#[test]
fn simulated_tasks_have_no_tokio_budget() {
    let mut executor = Executor::new();
    let sim = executor.sim();
    let program = async {
        let (send, mut receive) = mpsc::unbounded_channel();
        let (back, mut sums) = mpsc::unbounded_channel();
        sim.spawn(async move {
            while let Some(n) = receive.recv().await {
                let _ = back.send(n);
            }
        });
        tokio::spawn(async move {
            for n in 0..10_000_u64 {
                let _ = send.send(n);
            }
        });
        let mut sum = 0;
        while let Some(n) = sums.recv().await {
            sum += n;
        }
        sum
    };
    assert_eq!(executor.block_on_tokio(program, LIMIT), Ok(49_995_000));
}

#[test]
fn program_that_waits_forever_ends_at_the_time_limit() {
    let mut executor = Executor::new();
    let sim = executor.sim();
    let limit = Time::from_millis(100);
    let never = std::future::pending::<()>();
    assert_eq!(executor.block_on_tokio(never, limit), Err(Ended::TimeLimit));
    assert_eq!(sim.time(), limit);
}
