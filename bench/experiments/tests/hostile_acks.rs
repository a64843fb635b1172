//! Receivers misreport in their ACK frames: they acknowledge packets that they do not have,
//! misreport marks, or misreport the time for which they held the frame.
//!
//! Packet-level senders of the laboratory share a link with one honest Reno flow, in virtual time.
//! Each controller's gain from a misreport is compared with Reno's gain from the same misreport. No
//! controller may gain more than Reno. The stacks' own defence, skipped packet numbers, is not
//! tested here.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::Duration;

use fathom_cc::{Capabilities, OneWayDelay, Start, Time};
use fathom_packet_level::{Ack, AckOptions, Packet, Ranges, Receiver, Sender, SenderOptions};

const DATAGRAM: u16 = 1_200;
/// Transmission time of a packet at 10 Mbps.
const SENDING: Duration = Duration::from_micros(960);
/// Propagation delay in each direction.
const DELAY: Duration = Duration::from_millis(20);
/// Packets that the queue holds (`QUEUE`), and the minimum length at which a marking queue marks
/// packets (`MARKS`).
const QUEUE: usize = 60;
const MARKS: usize = 20;
/// Packets that flow control allows: eight times the capacity of link and queue. Nothing else
/// limits the sender if a receiver acknowledges lost packets.
const MOST: u32 = 800;
const MAX_ACK_DELAY: Duration = Duration::from_millis(25);
const RUN: Time = Time::from_millis(60_000);
/// Number of runs. The honest flow begins at a different time in each run.
const SEEDS: u64 = 2;
/// Largest gain over Reno that a misreport may have: 5 %.
const GAIN: f64 = 1.05;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ClockMisreport {
    None,
    /// Acknowledges all sent packets, even lost ones, at the time at which they would arrive
    /// without a queue.
    Optimistic,
    /// Reports timestamps as if no packet ever waited in a queue.
    EmptyQueue,
    /// Never reports a mark.
    HidesMarks,
    /// Reports every packet as marked.
    OnlyMarks,
    /// Claims to have held every acknowledgement for the longest permitted time.
    SaysHeld,
    /// Holds every acknowledgement for 25 ms more without reporting this.
    Holds,
    /// Holds acknowledgements in the same way, but only in every other second: round-trip times
    /// fall again and again.
    HoldsAndReleases,
}

const MISREPORTS: [ClockMisreport; 7] = [
    ClockMisreport::Optimistic,
    ClockMisreport::EmptyQueue,
    ClockMisreport::HidesMarks,
    ClockMisreport::OnlyMarks,
    ClockMisreport::SaysHeld,
    ClockMisreport::Holds,
    ClockMisreport::HoldsAndReleases,
];

enum Event {
    Arrives { flow: usize, packet: Packet, marked: bool },
    AckIsDue(usize),
    Ack(usize, Ack),
    Timer(usize),
}

struct Flow {
    sender: Sender,
    receiver: Receiver,
    misreport: ClockMisreport,
    starts: Time,
    /// Time at which the timer is set to expire.
    timer: Option<Time>,
    /// Packets that the bottleneck's queue admitted.
    passed: u64,
}

struct Lab {
    now: Time,
    events: BinaryHeap<Reverse<(Time, usize)>>,
    /// Events in the order in which they were scheduled.
    what: Vec<Option<Event>>,
    /// Departure times of the packets in the bottleneck.
    leaves: VecDeque<Time>,
    marks: bool,
    flows: Vec<Flow>,
}

impl Lab {
    fn at(&mut self, when: Time, event: Event) {
        self.events.push(Reverse((when, self.what.len())));
        self.what.push(Some(event));
    }

    fn flow(&mut self, controller: &str, misreport: ClockMisreport, starts: Time) {
        let provided = Capabilities::ALL;
        let controller_config = fathom_cc::catalogue::parse(controller).expect("known");
        let controller = controller_config
            .start(&Start { now: starts, datagram: DATAGRAM, provided })
            .expect("all is offered");
        let options = SenderOptions {
            packet: DATAGRAM,
            max_window: Some(MOST),
            max_ack_delay: MAX_ACK_DELAY,
            handshake: false,
            ecn: self.marks,
        };
        let mut sender = Sender::new(controller, options);
        sender.offer(1 << 40);
        let receiver = Receiver::new(AckOptions::default());
        self.flows.push(Flow { sender, receiver, misreport, starts, timer: None, passed: 0 });
        self.at(starts, Event::Timer(self.flows.len() - 1));
    }

    fn send(&mut self, flow: usize) {
        if self.now < self.flows[flow].starts {
            return;
        }
        while let Some(packet) = self.flows[flow].sender.poll_send(self.now) {
            if self.flows[flow].misreport == ClockMisreport::Optimistic {
                let ack = Ack {
                    ranges: Ranges::from_slice(&[(0, packet.number)]),
                    delay: Duration::ZERO,
                    one_way: OneWayDelay::from_nanos(DELAY.as_nanos() as i64),
                    received: packet.number + 1,
                    ce: 0,
                };
                self.at(self.now + DELAY + DELAY, Event::Ack(flow, ack));
            }
            while self.leaves.front().is_some_and(|left| *left <= self.now) {
                self.leaves.pop_front();
            }
            if self.leaves.len() == QUEUE {
                continue;
            }
            let marked = self.marks && self.leaves.len() >= MARKS;
            let left = self.leaves.back().copied().unwrap_or(self.now).max(self.now) + SENDING;
            self.leaves.push_back(left);
            self.flows[flow].passed += 1;
            self.at(left + DELAY, Event::Arrives { flow, packet, marked });
        }
        let due = self.flows[flow].sender.timeout().map(|due| due.max(self.now));
        if let Some(due) = due.filter(|due| self.flows[flow].timer.is_none_or(|set| *due < set)) {
            self.flows[flow].timer = Some(due);
            self.at(due, Event::Timer(flow));
        }
    }

    /// Sends an acknowledgement, with the receiver's misreport.
    fn acknowledge(&mut self, flow: usize) {
        let (now, misreport) = (self.now, self.flows[flow].misreport);
        let mut ack = self.flows[flow].receiver.ack(now);
        let mut held = Duration::ZERO;
        let odd_second = now.as_nanos() / 1_000_000_000 % 2 == 1;
        match misreport {
            ClockMisreport::None => {}
            // An optimistic receiver has already acknowledged the packet.
            ClockMisreport::Optimistic => return,
            ClockMisreport::EmptyQueue => {
                ack.one_way = OneWayDelay::from_nanos((SENDING + DELAY).as_nanos() as i64)
            }
            ClockMisreport::HidesMarks => ack.ce = 0,
            ClockMisreport::OnlyMarks => ack.ce = ack.received,
            ClockMisreport::SaysHeld => ack.delay = MAX_ACK_DELAY,
            ClockMisreport::Holds => held = MAX_ACK_DELAY,
            ClockMisreport::HoldsAndReleases if odd_second => held = MAX_ACK_DELAY,
            ClockMisreport::HoldsAndReleases => {}
        }
        self.at(now + held + DELAY, Event::Ack(flow, ack));
    }

    fn run(mut self) -> Vec<f64> {
        while let Some(Reverse((now, id))) =
            self.events.pop().filter(|Reverse((now, _))| *now <= RUN)
        {
            self.now = now;
            match self.what[id].take() {
                Some(Event::Arrives { flow, packet, marked }) => {
                    let receiver = &mut self.flows[flow].receiver;
                    if receiver.on_data(now, packet.number, packet.sent, marked) {
                        self.acknowledge(flow);
                    } else if let Some(due) = receiver.timeout() {
                        self.at(due, Event::AckIsDue(flow));
                    }
                }
                Some(Event::AckIsDue(flow)) => {
                    let due = self.flows[flow].receiver.timeout().is_some_and(|due| due <= now);
                    if due {
                        self.acknowledge(flow);
                    }
                }
                Some(Event::Ack(flow, ack)) => {
                    self.flows[flow].sender.on_ack(now, &ack);
                    self.send(flow);
                }
                Some(Event::Timer(flow)) => {
                    if self.flows[flow].timer.is_some_and(|set| set <= now) {
                        self.flows[flow].timer = None;
                    }
                    if self.flows[flow].sender.timeout().is_some_and(|due| due <= now) {
                        self.flows[flow].sender.on_timeout(now);
                    }
                    self.send(flow);
                }
                None => {}
            }
        }
        let most = RUN.as_nanos() as f64 / SENDING.as_nanos() as f64;
        self.flows.iter().map(|flow| flow.passed as f64 / most).collect()
    }
}

/// Returns the share of the link that a flow gets beside an honest Reno flow.
fn share(controller: &str, misreport: ClockMisreport, marks: bool) -> f64 {
    let of = |seed| {
        let (events, what, leaves) = (BinaryHeap::new(), Vec::new(), VecDeque::new());
        let mut lab = Lab { now: Time::ZERO, events, what, leaves, marks, flows: Vec::new() };
        lab.flow(controller, misreport, Time::ZERO);
        lab.flow("reno", ClockMisreport::None, Time::from_millis(300 * seed));
        lab.run()[0]
    };
    (1..=SEEDS).map(of).sum::<f64>() / SEEDS as f64
}

#[test]
fn false_acks_gain_no_more_from_sync_than_from_reno() {
    for marks in [false, true] {
        let honest = share("reno", ClockMisreport::None, marks);
        println!("{}: reno {honest:.3}", if marks { "a queue that marks" } else { "drop-tail" });
        let renos = MISREPORTS.map(|misreport| (misreport, share("reno", misreport, marks)));
        for controller in ["sync", "sync:signal=rtt", "sync:signal=either"] {
            println!(
                "  {controller}, honest: {:.3}",
                share(controller, ClockMisreport::None, marks)
            );
            for (misreport, reno) in renos {
                let got = share(controller, misreport, marks);
                println!("    {misreport:?}: {got:.3}, reno with it {reno:.3}");
                assert!(
                    got <= GAIN * reno.max(honest),
                    "{controller}, {misreport:?}: {got:.3}, Reno {reno:.3} and {honest:.3}"
                );
            }
        }
    }
}

#[test]
fn false_acks_reach_the_sender() {
    for misreport in MISREPORTS {
        let changed = ["reno", "sync", "sync:signal=rtt"].into_iter().any(|controller| {
            share(controller, misreport, true).to_bits()
                != share(controller, ClockMisreport::None, true).to_bits()
        });
        assert!(changed, "{misreport:?} changes nothing");
    }
}
