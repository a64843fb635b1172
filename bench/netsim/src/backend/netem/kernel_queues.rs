//! Comparison of the kernel's FQ-CoDel and PIE with the lab's, under the same packets.
//!
//! A guest of User-Mode Linux sends datagrams at set times through links of its kernel, without
//! feedback, and records when each was sent and received. The same packets, at their actual send
//! times, then pass through the lab's queues in virtual time, so that both are offered the same
//! packets even if the machine is late. A late machine also slows the kernel's links: such a run is
//! repeated.
//!
//! The comparison covers the mean wait, from the sending of a packet until its own transmission
//! begins, and the number of drops. The kernel's token bucket releases a packet when its
//! transmission would begin.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use fathom_units::Rate;
use quinn_udp::RecvMeta;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::qdisc::BUCKET;
use super::user_mode_linux::{GuestError, run_in_guest};
use super::wire::Wire;
use crate::queue::{Admission, AnyQueue, Arrival, QueueSpec, Queued, Scheduler};
use crate::sim::WIRE_OVERHEAD;

/// Rate at which 1000 bytes take 2 ms.
const RATE: Rate = Rate::from_bits_per_sec(4_000_000);
const BYTES: u32 = 1_000;
const TRANSMISSION: u64 = 2_000_000;
const SECOND: u64 = 1_000_000_000;
const LENGTH: u64 = 30 * SECOND;
/// The kernel's queues, and the lab's equivalents. The kernel's clock in User-Mode Linux ticks
/// every 10 ms. PIE rounds its time between updates up to whole ticks, and a timer expires one tick
/// after its set time, so that none is early (Linux since 4.8, `kernel/time/timer.c`). With 15 ms
/// it therefore updates every 30 ms, and the lab's equivalent is set to 30 ms.
const QUEUES: [[&str; 2]; 3] = [
    ["fq-codel:ecn=off"; 2],
    ["pie:ecn=off", "pie:tupdate=30ms,ecn=off"],
    ["pie:target=50ms,ecn=off", "pie:target=50ms,tupdate=30ms,ecn=off"],
];
const SCENARIOS: [&str; 3] =
    ["one flow at 110 %", "four flows at 50, 30, 20 and 16 %", "bursts at 200 %, 85 % in the mean"];
/// Environment variable that names the results file to a guest.
const RESULTS: &str = "FATHOM_KERNEL_QUEUES";
/// Fraction of the links' capacity that must be carried while packets always wait. Below it the
/// guest was not scheduled in time, so that its links were slower than configured: such a run says
/// nothing about queues.
const CARRIED: f64 = 0.99;
/// Mean lateness of the guest's timers, in nanoseconds, above which a run is repeated for the same
/// reason.
const LATE: u64 = 300_000;
const TRIES: usize = 3;
/// Largest relative difference allowed in both figures.
const TOLERANCE: f64 = 0.1;
/// Number of runs of the lab's random queues from which a mean is taken.
const SEEDS: u64 = 10;
const UNKNOWN: u64 = 200_000;

/// Returns send times and flows of the packets, in order.
fn schedule(scenario: usize) -> Vec<(u64, u32)> {
    let mut packets = Vec::new();
    let mut steady = |flow: u32, per_second: u64| {
        let gap = SECOND / per_second;
        // Flows begin at different times.
        packets.extend((0..LENGTH / gap).map(|n| (n * gap + u64::from(flow) * 7_000_000, flow)));
    };
    match scenario {
        0 => steady(0, 550),
        1 => [250, 150, 100, 80]
            .into_iter()
            .enumerate()
            .for_each(|(flow, rate)| steady(flow as u32, rate)),
        _ => {
            // On and off for exponential times with means of 150 and 203 ms, at most three times
            // the mean.
            let mut rng = Pcg64Mcg::seed_from_u64(1);
            let mut spell =
                |mean: f64| (mean * (-rng.random::<f64>().max(1e-9).ln()).min(3.0)) as u64;
            let mut at = 0;
            while at < LENGTH {
                let end = at + spell(150e6);
                while at < end {
                    packets.push((at, 0));
                    at += SECOND / 1_000;
                }
                at += spell(203e6);
            }
        }
    }
    packets.sort_unstable();
    packets
}

/// A datagram: its run and flow, its send time, and its arrival time.
#[derive(Clone, Copy, Debug)]
struct Passage {
    run: usize,
    flow: u32,
    sent: u64,
    came: Option<u64>,
}

/// Sends all datagrams in a guest. Returns their passages, and the mean lateness of the guest's
/// timers.
// This function works in real time.
#[allow(clippy::disallowed_methods)]
fn send_all(wires: &[Wire], datagrams: &[(u64, usize, u32)]) -> (Vec<Passage>, u64) {
    let to: Vec<_> = wires.iter().map(|wire| wire.to.io().local_addr().unwrap()).collect();
    let start = Instant::now();
    let now = || start.elapsed().as_nanos() as u64;
    let (mut passages, mut looked, mut late) =
        (Vec::<Passage>::with_capacity(datagrams.len()), 0, (0, 0));
    let (mut contents, mut buffers) = ([0; (BYTES - WIRE_OVERHEAD) as usize], [vec![0; 1 << 16]]);
    while looked < LENGTH + 3 * SECOND {
        let next = datagrams.get(passages.len()).map_or(looked + SECOND / 10, |next| next.0);
        let timeout = next.saturating_sub(now()).min(SECOND / 10);
        let timespec = Timespec { tv_sec: 0, tv_nsec: timeout as i64 };
        let mut polled: Vec<_> =
            wires.iter().map(|wire| PollFd::new(wire.to.io(), PollFlags::IN)).collect();
        let before = now();
        let ready = poll(&mut polled, Some(&timespec));
        looked = now();
        if timeout > 0 && ready.is_ok_and(|ready| ready == 0) {
            late = (late.0 + (looked - before).saturating_sub(timeout), late.1 + 1);
        }
        for wire in wires {
            let mut metas = [RecvMeta::default()];
            while wire.to.receive(&mut buffers, &mut metas) > 0 {
                let came = now();
                for datagram in buffers[0][..metas[0].len].chunks(metas[0].stride.max(1)) {
                    let number = u32::from_le_bytes(datagram[..4].try_into().unwrap());
                    passages[number as usize].came = Some(came);
                }
            }
        }
        while let Some((_, run, flow)) =
            datagrams.get(passages.len()).filter(|next| next.0 <= now())
        {
            contents[..4].copy_from_slice(&(passages.len() as u32).to_le_bytes());
            let wire = &wires[*run];
            let from = (*flow as usize)
                .checked_sub(1)
                .and_then(|n| wire.others.get(n))
                .unwrap_or(&wire.from);
            passages.push(Passage { run: *run, flow: *flow, sent: now(), came: None });
            from.send(to[*run], None, &contents).unwrap();
        }
    }
    (passages, late.0 / late.1.max(1))
}

/// Returns the runs, by queues and scenario.
fn runs() -> Vec<([&'static str; 2], usize)> {
    QUEUES
        .iter()
        .flat_map(|queues| (0..SCENARIOS.len()).map(|scenario| (*queues, scenario)))
        .collect()
}

/// Runs in a guest; outside of a guest there is nothing to do.
#[test]
fn kernel_side() {
    let Some(file) = std::env::var_os(RESULTS) else { return };
    let (mut wires, mut datagrams) = (Vec::new(), Vec::new());
    for (number, ([queue, _], scenario)) in runs().into_iter().enumerate() {
        wires.push(Wire::new(RATE, &queue.parse().unwrap(), Duration::ZERO).unwrap());
        datagrams.extend(
            schedule(scenario).into_iter().map(|(at, flow)| (at + SECOND / 2, number, flow)),
        );
    }
    datagrams.sort_unstable();
    let (passages, late) = send_all(&wires, &datagrams);
    let mut text = format!("{late}\n");
    for Passage { run, flow, sent, came } in passages {
        writeln!(text, "{run} {flow} {sent} {}", came.unwrap_or(0)).unwrap();
    }
    fs::write(file, text).unwrap();
}

fn read(file: &Path) -> (Vec<Passage>, u64) {
    let text = fs::read_to_string(file).unwrap();
    let mut lines = text.lines();
    let late = lines.next().unwrap().parse().unwrap();
    let passage = |line: &str| {
        let numbers: Vec<u64> = line.split(' ').map(|number| number.parse().unwrap()).collect();
        let came = Some(numbers[3]).filter(|came| *came > 0);
        Passage { run: numbers[0] as usize, flow: numbers[1] as u32, sent: numbers[2], came }
    };
    (lines.map(passage).collect(), late)
}

/// Mean wait in milliseconds, and drops.
#[derive(Clone, Copy, Debug, Default)]
struct Figures {
    wait: f64,
    drops: f64,
}

impl Figures {
    fn of(waits: &[u64], offered: usize) -> Self {
        let wait = waits.iter().sum::<u64>() as f64 / waits.len() as f64 / 1e6;
        Self { wait, drops: (offered - waits.len()) as f64 }
    }

    fn add(&mut self, other: Self) {
        self.wait += other.wait;
        self.drops += other.drops;
    }
}

/// A token bucket like the kernel's: computes when the packet that it has taken from its queue is
/// released. Times are in nanoseconds, and tokens are in nanoseconds of transmission.
struct Bucket {
    size: u64,
    tokens: u64,
    at: u64,
}

impl Bucket {
    fn release(&mut self, taken: u64) -> u64 {
        let now = taken.max(self.at);
        self.tokens = (self.tokens + (now - self.at)).min(self.size);
        let out = now + TRANSMISSION.saturating_sub(self.tokens);
        self.tokens = self.tokens.saturating_sub(TRANSMISSION);
        self.at = out;
        out
    }
}

/// Returns the figures of the lab's queue for the same packets, behind a bucket of `bucket` bytes.
/// The bucket takes the next packet when it releases one, or when a packet arrives and the bucket
/// holds none.
fn ours(queue: &str, passages: &[Passage], seed: u64, bucket: u64) -> Figures {
    let size = RATE.time_for(bucket).as_nanos() as u64;
    let mut bucket = Bucket { size, tokens: size, at: 0 };
    let mut waits = Vec::new();
    match queue.parse::<QueueSpec>().unwrap().build(RATE, seed) {
        AnyQueue::Scheduler(mut queue) => {
            let (mut free, mut dropped) = (0, Vec::new());
            let mut taken: Option<Queued> = None;
            let mut until = |queue: &mut Box<dyn Scheduler>,
                             taken: &mut Option<Queued>,
                             now: u64,
                             free: &mut u64| {
                while taken.is_some() && *free <= now {
                    let at = *free;
                    *taken = queue.dequeue(at, &mut Vec::new()).map(|(packet, _)| packet);
                    if let Some(packet) = taken {
                        *free = bucket.release(at);
                        waits.push(*free - packet.arrived);
                    }
                }
            };
            for (number, passage) in passages.iter().enumerate() {
                let (now, flow) = (passage.sent, u64::from(passage.flow));
                until(&mut queue, &mut taken, now, &mut free);
                let packet =
                    Queued { packet: number as u32, bytes: BYTES, flow, ecn: None, arrived: now };
                queue.enqueue(packet, usize::from(taken.is_some()), &mut dropped);
                if taken.is_none() {
                    (taken, free) = (Some(packet), now);
                    until(&mut queue, &mut taken, now, &mut free);
                }
            }
            until(&mut queue, &mut taken, u64::MAX, &mut free);
        }
        AnyQueue::Fifo(mut queue) => {
            // Release times of the packets still present. The next packet is taken when the last of
            // them is released.
            let mut there = VecDeque::new();
            for passage in passages {
                let now = passage.sent;
                while there.front().is_some_and(|out| *out <= now) {
                    there.pop_front();
                }
                let taken = there.back().copied().unwrap_or(now);
                let arrival = Arrival {
                    now,
                    bytes: BYTES,
                    ecn_capable: false,
                    queued_packets: there.len(),
                    queued_bytes: there.len() as u64 * u64::from(BYTES),
                    idle: 0,
                    wait: taken - now,
                };
                if queue.admit(&arrival) != Admission::Drop {
                    there.push_back(bucket.release(taken));
                    waits.push(there.back().unwrap() - now);
                }
            }
        }
    }
    Figures::of(&waits, passages.len())
}

/// Returns the mean over seeds. The drops of a queue depend on its whole history, and the exact
/// time at which the guest's kernel received a packet is unknown. Each seed therefore delays the
/// packets by up to 0.2 ms.
fn ours_in_the_mean(queue: &str, passages: &[Passage], bucket: u64) -> Figures {
    let mut all = Figures::default();
    for seed in 0..SEEDS {
        let mut rng = Pcg64Mcg::seed_from_u64(seed);
        let mut last = 0;
        let later = passages.iter().map(|passage| {
            last = last.max(passage.sent + rng.random_range(0..=UNKNOWN));
            Passage { sent: last, ..*passage }
        });
        all.add(ours(queue, &later.collect::<Vec<_>>(), seed, bucket));
    }
    Figures { wait: all.wait / SEEDS as f64, drops: all.drops / SEEDS as f64 }
}

/// Needs `user-mode-linux`, which `make test` installs; without it there is nothing to compare
/// with.
#[test]
fn the_kernels_queues_agree_with_ours() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("passages");
    let test = std::env::current_exe().unwrap().display().to_string();
    let variable = format!("{RESULTS}={}", file.display());
    let name = concat!(module_path!(), "::kernel_side");
    let name = name.split_once("::").unwrap().1;
    let command = ["env", &variable, &test, "--exact", name, "--nocapture"].map(OsStr::new);
    // Figures of the kernel's queue, of the lab's, and of the lab's on a link, summed over tries.
    let mut sums = vec![[Figures::default(); 3]; runs().len()];
    let mut misses = Vec::new();
    let mut good = 0;
    for _ in 0..TRIES {
        let mut said = Vec::new();
        match run_in_guest(&command, &AtomicBool::new(false), &mut said) {
            Ok(0) => {}
            Err(why @ (GuestError::Missing(_) | GuestError::Shim(_))) => {
                return println!("skipped: {why}");
            }
            other => panic!("{other:?}: {}", String::from_utf8_lossy(&said)),
        }
        let (passages, late) = read(&file);
        let mut by_run = BTreeMap::<usize, Vec<Passage>>::new();
        passages
            .into_iter()
            .for_each(|passage| by_run.entry(passage.run).or_default().push(passage));
        let overloaded =
            runs().into_iter().zip(by_run.values()).filter(|((_, scenario), _)| *scenario == 0);
        let came = overloaded
            .map(|(_, passages)| passages.iter().filter(|passage| passage.came.is_some()).count());
        let carried = came.min().unwrap_or(0) as f64 * TRANSMISSION as f64 / LENGTH as f64;
        println!(
            "links carried {:.1} %; timers were {:.2} ms late in the mean",
            carried * 100.0,
            late as f64 / 1e6
        );
        if carried < CARRIED || late > LATE {
            continue;
        }
        good += 1;
        misses.clear();
        for ((([queue, ours], scenario), passages), sums) in
            runs().into_iter().zip(by_run.values()).zip(&mut sums)
        {
            let waits: Vec<u64> =
                passages.iter().filter_map(|p| p.came.map(|came| came - p.sent)).collect();
            sums[0].add(Figures::of(&waits, passages.len()));
            sums[1].add(ours_in_the_mean(ours, passages, u64::from(BUCKET)));
            sums[2].add(ours_in_the_mean(ours, passages, 0));
            let mean =
                |of: fn(&Figures) -> f64| sums.each_ref().map(|sum| of(sum) / f64::from(good));
            let (waits, drops) = (mean(|sum| sum.wait), mean(|sum| sum.drops));
            let ratios = [waits[1] / waits[0], drops[1] / drops[0]];
            println!(
                "{queue}, {}: wait {:.1} ms, the kernel's {:.1} ({:.3}), on a link {:.1}; {:.0} of {} dropped, the kernel's {:.0} \
                 ({:.3}), on a link {:.0}",
                SCENARIOS[scenario],
                waits[1],
                waits[0],
                ratios[0],
                waits[2],
                drops[1],
                passages.len(),
                drops[0],
                ratios[1],
                drops[2]
            );
            if ratios.iter().any(|ratio| (ratio - 1.0).abs() > TOLERANCE) {
                misses.push((queue, SCENARIOS[scenario], ratios));
            }
        }
        if misses.is_empty() {
            return;
        }
    }
    assert!(misses.is_empty(), "{misses:?}");
}
