//! Scenarios that ns-2 runs, too (`bench/ns2`).

use crate::Reference;
use crate::scenarios::{Curves, Difference, Scenario, X};

pub(crate) const NS2: Reference = Reference {
    name: "ns-2",
    folder: "ns2",
    make: "make ns2",
    page: "docs/ns2.md",
    head: HEAD,
    simulates: true,
    delays: None,
    scenarios: SCENARIOS,
};

const HEAD: &str = "\
# The laboratory beside ns-2

<!-- Made from bench/results/ns2: FATHOM_WRITE=1 cargo test --release -p fathom-papers --test reference -->

`make ns2` runs ns-2 and the laboratory, compares them, and writes this page. ns-2 has to be
installed (Debian and Ubuntu: `apt-get install ns2`).

**Question.** The papers behind Fathom used ns-2. Does the laboratory's TCP have the throughput,
drops, queue and timeouts of ns-2's TCP in the same scenario?

**Method.** Both simulators run the same plan in [`bench/ns2`](../bench/ns2/README.md). A script
translates the plan into arguments for ns-2 and refuses fields that it cannot translate. Throughput,
drops and queue are those of the bottleneck.

**Tolerances.** The tolerances were committed before the first comparison, after an earlier look at
other scripts with one seed. A tolerance applies to the difference of the means over the seeds,
relative to ns-2's mean. No tolerance has been changed.

";

/// Measures of long flows.
const FLOWS: &[&str] = &["throughput", "drops", "queue", "timeouts"];
const FLOWS_TCL: &[&str] = &["common.tcl", "flows.tcl"];

const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "long-flows",
        title: "Long flows over drop-tail",
        describes: "Long flows with Reno's window share a drop-tail bottleneck of 10 Mbps with \
                    room for 50 packets. The sweep covers recoveries, one ACK per one or two \
                    segments, and 1 to 20 flows. A run lasts 120 s, of which the last 100 s count.\
                    \n\n\
                    The first comparison had five seeds. The plan now has 20 seeds, because two \
                    flows synchronise with some seeds and not with others. In the first comparison, \
                    the laboratory's SACK ignored `limited-transmit = false`, and had up to 49 % \
                    more drops than ns-2 without limited transmit.",
        scripts: FLOWS_TCL,
        link: "left-right",
        group: "flows",
        measures: FLOWS,
        axes: &[("recovery", "recovery"), ("ack", "segments per ACK"), ("flows", "flows")],
        figure: Curves {
            x: X::LastAxis("drops"),
            caption: "One ACK per segment.",
            curves: &[
                ("reno", &["reno", "1"]),
                ("newreno", &["newreno", "1"]),
                ("sack", &["sack", "1"]),
            ],
        },
        differences: &[Difference {
            cause: "**SACK without limited transmit** has more drops with 20 flows. A likely cause \
                    is the count of outstanding segments in recovery: RFC 6675 §4 excludes lost \
                    segments, ns-2 (`tcp-sack1.cc`) includes them until a partial ACK. No stored \
                    run tests this cause.",
            cells: &[("drops", &["sack without limited transmit", "1", "20"])],
        }],
    },
    Scenario {
        name: "ecn-flows",
        title: "Many flows over RED, with and without ECN",
        describes: "30 to 500 flows with NewReno share a bottleneck of 10 Mbps with RED: the \
                    network and the settings of SDC's figure 4. A run lasts 100 s, and all of it \
                    counts. 400 and 500 flows, `pass=2p` and `least-window = 0` were added after \
                    the first comparison.",
        scripts: FLOWS_TCL,
        link: "left-right",
        group: "flows",
        measures: FLOWS,
        axes: &[("ecn", "ECN"), ("flows", "flows")],
        figure: Curves {
            x: X::LastAxis("timeouts"),
            caption: "",
            curves: &[
                ("without ECN", &["off"]),
                ("with ECN", &["on"]),
                ("with ECN, least-window 0", &["on with least-window 0"]),
            ],
        },
        differences: &[
            Difference {
                cause: "**Smallest window after a mark.** The laboratory's window falls to two \
                        segments by default (RFC 9002 §7.2), ns-2's to less than one. With \
                        `least-window = 0`, the laboratory is inside these tolerances.",
                cells: &[("drops", &["on", "70"]), ("drops", &["on", "100"])],
            },
            Difference {
                cause: "**30 flows with ECN.** In ns-2, a mark at a window of less than two \
                        segments leaves a window of less than one (`slowdown` in tcp.cc). The \
                        sender is then silent until its timer expires, and this counts as a \
                        timeout. In the laboratory, two thirds of the timeouts with this rule have \
                        this cause. With \
                        `least-window = 0`, the laboratory does the same. The remaining \
                        timeouts are at the start, where ns-2 drops more packets: after a \
                        timeout, an old echo of a mark makes ns-2 inflate its window. The \
                        laboratory does not copy this.",
                cells: &[
                    ("drops", &["on with least-window 0", "30"]),
                    ("drops", &["on with least-window 1", "30"]),
                    ("timeouts", &["on", "30"]),
                    ("timeouts", &["on with least-window 1", "30"]),
                ],
            },
        ],
    },
    Scenario {
        name: "vegas-flows",
        title: "Long flows of Vegas over drop-tail",
        describes: "Flows of Vegas (`vegas:params=ns2`) share a drop-tail bottleneck of 10 Mbps \
                    with room for 50 packets. A run lasts 120 s, of which the last 100 s count. \
                    ns-2's Vegas has its own recovery; the laboratory has NewReno's.\n\n\
                    `transit=flight` was added to the plan after the first comparison.",
        scripts: FLOWS_TCL,
        link: "left-right",
        group: "flows",
        measures: FLOWS,
        axes: &[("transit", "transit"), ("ack", "segments per ACK"), ("flows", "flows")],
        figure: Curves {
            x: X::LastAxis("throughput"),
            caption: "One ACK per two segments.",
            curves: &[("transit=window", &["window", "2"]), ("transit=flight", &["flight", "2"])],
        },
        differences: &[
            Difference {
                cause: "**Packets in transit.** With `transit=window`, the default, the \
                        laboratory's Vegas multiplies the window by the queueing delay. One \
                        flow with an ACK per two segments then fills only 54 % of the link. \
                        ns-2 counts the packets in flight (`transit=flight`), and with this \
                        rule the laboratory fills the link, too. If an ACK ends a round and \
                        acknowledges two packets, ns-2's count is one less, and the window \
                        grows. A likely reason why the window otherwise stops is that segments \
                        travel in pairs, so the second waits for the first. With 20 packets in \
                        the window, this is half a packet in the queue, which ns-2's formula \
                        rounds to 1 = `alpha`.",
                cells: &[
                    ("throughput", &["window", "2", "1"]),
                    ("throughput", &["window", "2", "2"]),
                    ("queue", &["window", "2", "1"]),
                    ("queue", &["window", "2", "2"]),
                    ("queue", &["window", "2", "10"]),
                ],
            },
            Difference {
                cause: "**Which queue inside the band.** All flows keep the link busy. Any \
                        queue from `alpha` to `beta` packets per flow is an equilibrium of \
                        Vegas, and the base RTT of a late flow includes the queue of the \
                        earlier ones. Which of them is reached depends on the order of the \
                        first packets. With ten flows and `transit=window`, the queue is \
                        sometimes full in the laboratory, so it drops 0.005 % of the packets. \
                        No stored run tests this cause.",
                cells: &[
                    ("queue", &["window", "1", "1"]),
                    ("queue", &["window", "1", "5"]),
                    ("queue", &["window", "1", "10"]),
                    ("drops", &["window", "1", "10"]),
                    ("queue", &["flight", "1", "1"]),
                    ("queue", &["flight", "1", "5"]),
                    ("queue", &["flight", "2", "5"]),
                ],
            },
        ],
    },
    Scenario {
        name: "highspeed-flows",
        title: "HighSpeed TCP and Reno with large windows",
        describes: "Flows of Reno or HighSpeed TCP with SACK share a drop-tail bottleneck of \
                    100 Mbps with room for 200 packets. The round trip takes about 50 ms, or 420 \
                    packets. A run lasts 120 s, of which the last 100 s count.\n\n\
                    The first comparison had five seeds, with which ns-2 had three to four times \
                    the timeouts of the laboratory. The plan now has 20 seeds. The flow whose \
                    packets reach the full queue first after each departure gets most of the link \
                    (phase effects), so the results depend on the drawn delays of the access \
                    links. With the laboratory's delays, ns-2 has the laboratory's timeouts (these \
                    runs are not stored).",
        scripts: FLOWS_TCL,
        link: "left-right",
        group: "flows",
        measures: FLOWS,
        axes: &[("controller", "controller"), ("flows", "flows")],
        figure: Curves {
            x: X::LastAxis("drops"),
            caption: "",
            curves: &[("reno", &["reno"]), ("highspeed", &["highspeed"])],
        },
        differences: &[Difference {
            cause: "**One flow of Reno** loses one or two of a million packets.",
            cells: &[("drops", &["reno", "1"])],
        }],
    },
    Scenario {
        name: "adaptive-red",
        title: "Adaptive RED",
        describes: "Flows of NewReno share a bottleneck of 10 Mbps with Adaptive RED, with \
                    thresholds of 5 and 15 packets. A run lasts 120 s, of which the last 100 s \
                    count. Above the upper threshold, ns-2's slope begins at the initial `maxp` \
                    (`slope=initial`). The laboratory's slope begins at the present `maxp` by \
                    default.\n\n\
                    `pass=2p` was added to the laboratory and to the plan after the first \
                    comparison, which showed the difference in throughput.",
        scripts: FLOWS_TCL,
        link: "left-right",
        group: "flows",
        measures: FLOWS,
        axes: &[("rules", "rules"), ("flows", "flows")],
        figure: Curves {
            x: X::LastAxis("throughput"),
            caption: "",
            curves: &[
                ("defaults", &["defaults"]),
                ("slope=initial and pass=2p", &["slope=initial and pass=2p"]),
            ],
        },
        differences: &[
            Difference {
                cause: "**Drops from a short queue.** With 30 or 60 flows, the laboratory's \
                        link is idle for up to 45 % of the time. After an overload, the \
                        average is above twice the upper threshold, and then the laboratory \
                        drops every packet, as the paper of RED says, even if the queue is \
                        empty. In ns-2 (`red.cc`, `enque`), a packet that finds at most one \
                        waiting packet always passes. With `pass=2p`, the laboratory does the \
                        same, and throughput and drops are ns-2's.",
                cells: &[
                    ("throughput", &["defaults", "30"]),
                    ("throughput", &["defaults", "60"]),
                    ("drops", &["defaults", "60"]),
                    ("throughput", &["slope=initial", "30"]),
                    ("throughput", &["slope=initial", "60"]),
                    ("drops", &["slope=initial", "60"]),
                ],
            },
            Difference {
                cause: "**The packet in transmission.** The laboratory's thresholds include \
                        the packet in transmission, ns-2's do not. So the laboratory's queue \
                        is one packet shorter with the same thresholds, which is 10 % of this \
                        queue.",
                cells: &[
                    ("queue", &["defaults", "5"]),
                    ("queue", &["defaults", "10"]),
                    ("queue", &["defaults", "30"]),
                    ("queue", &["defaults", "60"]),
                    ("queue", &["slope=initial", "5"]),
                    ("queue", &["slope=initial", "10"]),
                    ("queue", &["slope=initial", "30"]),
                    ("queue", &["slope=initial", "60"]),
                    ("queue", &["slope=initial and pass=2p", "60"]),
                ],
            },
            Difference {
                cause: "**Five flows.** The laboratory has a third more timeouts. The cause is \
                        not known.",
                cells: &[
                    ("timeouts", &["defaults", "5"]),
                    ("timeouts", &["slope=initial", "5"]),
                    ("timeouts", &["slope=initial and pass=2p", "5"]),
                ],
            },
        ],
    },
    Scenario {
        name: "starved-flows",
        title: "Starved flows with large and small packets",
        describes: "200 and 400 flows of NewReno share a drop-tail bottleneck of 25 Mbps with room \
                    for 125 packets, as in the thesis on packet size. A flow starves in a window \
                    of 1 or 10 s if it gets less than 5 % of its share. A run lasts 110 s, of which \
                    the last 100 s count.",
        scripts: FLOWS_TCL,
        link: "left-right",
        group: "flows",
        measures: &["throughput", "drops", "queue", "timeouts", "starved-1s", "starved-10s"],
        axes: &[("flows", "flows"), ("packet", "bytes per packet")],
        figure: Curves {
            x: X::LastAxis("starved-1s"),
            caption: "",
            curves: &[("400 flows", &["400"]), ("200 flows", &["200"])],
        },
        differences: &[Difference {
            cause: "**Timeouts.** The laboratory has 12 to 32 % more timeouts in all eight \
                    combinations, and only the largest difference exceeds the tolerance. With 200 \
                    flows of 1500 bytes, it drops 3.6 % more packets, and 14 instead of 17 % of \
                    the flows starve for 10 s. The cause is not known.",
            cells: &[("timeouts", &["200", "1500"])],
        }],
    },
    Scenario {
        name: "web",
        title: "Web traffic",
        describes: "PackMime requests arrive at a fixed rate in each direction of the Sync-TCP \
                    paper's network, and each has its own connection. 110 per second is the \
                    paper's rate, and 126 per second loads the links with 90 %. A run has 30,000 \
                    responses.",
        scripts: &["common.tcl", "web.tcl"],
        link: "r0-r1",
        group: "forward",
        measures: &["throughput", "drops", "queue", "median", "mean", "size"],
        axes: &[("rate", "connections/s"), ("system", "system")],
        figure: Curves {
            x: X::ResponseTimes(&[
                100, 200, 300, 400, 500, 600, 700, 800, 900, 1000, 1100, 1200, 1300, 1400,
            ]),
            caption: "126 connections per second.",
            curves: &[
                ("Reno", &["126", "Reno"]),
                ("SACK-ARED-ECN", &["126", "SACK-ARED-ECN"]),
                ("100 Mbps", &["126", "100 Mbps"]),
            ],
        },
        differences: &[],
    },
];
