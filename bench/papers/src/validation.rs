//! Validation of the laboratory: the papers' scenarios with TCP, and bands around the papers'
//! numbers. The bands were written before the first run. docs/validation.md explains the source of
//! each band and the reason for each miss.

use fathom_metrics::{Estimate, round};
use fathom_report::{Axis, Entry, Row, Series};

use crate::claims::{above, all, below, between, exceeds};
use crate::dca::{throughput_change, timeout_change};
use crate::results::{BySeed, Measure};
use crate::{
    Artefact, ArtefactSpec, ClaimCheck, Finding, Paper, Results, Verdict, claim, packet_size, sdc,
    spec, sync_tcp,
};

const SYNC_TCP: &str = "validation-sync-tcp";
const SYNC_TCP_75: &str = "validation-sync-tcp-75";
const LARGEST: &str = "validation-sync-tcp-largest";
const DCA: &str = "validation-dca";
const SDC: &str = "validation-sdc";
const PACKET_SIZE: &str = "validation-packet-size";
const GHSTCP: &str = "validation-ghstcp";

pub(crate) const PAPER: Paper = Paper {
    name: "validation",
    citation: "The five papers' own results, with TCP at packet level instead of QUIC",
    artefacts: ARTEFACTS,
    claims: &[SYNC_TCP_BANDS, DCA_BANDS, SDC_BANDS, PACKET_SIZE_BANDS, GHSTCP_BANDS],
    departures: DEPARTURES,
    changes: &[],
};

const DEPARTURES: &[&str] = &[
    "TCP is this project's own implementation at packet level, with the same controllers as QUIC. \
     Settings that a paper does not state are those of ns-2 in the paper's year. The head of each \
     study lists these settings.",
    "A loss reduces the window to half of the window, not to half of the bytes in flight \
     (RFC 5681 §3.1, equation 4).",
    "The rate of new connections for a load is computed from the sizes of requests and responses \
     in the model, and from their overhead on the wire per connection and per byte. Two downloads \
     without queueing measure this overhead. The Sync-TCP paper instead runs its network at 100 \
     Mbps and counts the traffic.",
    "Sync-TCP's timestamp option takes 12 bytes of each segment.",
    "The models of DCA's paths were tuned with TCP's Reno. DUAL follows its description in the \
     Vegas paper. Timeouts are at least 1 s, as in ns-2 since 2001. The DCA paper is from 2000 and \
     did not have this minimum.",
    "The papers do not give the starts of flows. Here the starts are spread over two seconds for \
     SDC, one second for packet size and ten seconds for gHSTCP.",
    "Packets of 278 bytes stand for the thesis's 250 bytes.",
];

const ARTEFACTS: &[ArtefactSpec] = &[
    spec(
        "sync-tcp",
        "Sync-TCP table 1: 90 % load, 1 bottleneck, 250,000 responses",
        &[SYNC_TCP],
        sync_tcp_table,
    ),
    spec(
        "figure sync-tcp",
        "Sync-TCP figure 7: response times of the same runs",
        &[SYNC_TCP],
        |r| {
            let title = "250,000 web responses at 90 % load, TCP";
            sync_tcp::response_times_of(r, SYNC_TCP, "90", title)
        },
    ),
    spec(
        "figure sync-tcp-75",
        "Sync-TCP figure 6: response times at 75 % load",
        &[SYNC_TCP_75],
        |r| {
            let title = "250,000 web responses at 75 % load, TCP";
            sync_tcp::response_times_of(r, SYNC_TCP_75, "75", title)
        },
    ),
    spec(
        "largest",
        "Sync-TCP figure 10: the largest response at 85 % load",
        &[LARGEST],
        largest_table,
    ),
    spec(
        "dca",
        "DCA table 4-4 and the first row of table 4-1: change of throughput",
        &[DCA],
        dca_table,
    ),
    spec("sdc", "SDC figure 4: timeouts per connection", &[SDC], sdc_figure),
    spec(
        "packet-size",
        "Packet size figures 4.4 to 4.11: starved flows",
        &[PACKET_SIZE],
        packet_size_table,
    ),
    spec("ghstcp", "gHSTCP figures 2 and 3: throughput of the groups", &[GHSTCP], ghstcp_table),
];

/// Tests whether each of these numbers lies in its band: held if its whole interval is inside, not
/// held if its whole interval is outside. One seed decides nothing. A band that contains zero is
/// marked, because a sender without the paper's rule would hit it, too.
fn bands<const N: usize>(unit: &str, cases: [(&str, BySeed, f64, f64); N]) -> Finding {
    Finding::together(cases.map(|(what, values, low, high)| {
        if values.estimate().is_none() {
            return Finding::new(Verdict::Undecided, format!("{what} not measured"));
        }
        let verdict = between(values.estimate(), low, high);
        let zero = if low <= 0.0 && high >= 0.0 { ", which contains 0" } else { "" };
        let band = format!("band {} to {}{zero}", round(low, 1), round(high, 1));
        part(verdict, &values, &format!("{what} {values} {unit} ({band})"))
    }))
}

/// Creates the finding of a part of a claim; its numbers say whether the part holds. `values` are
/// the numbers on which it depends.
fn part(verdict: Verdict, values: &BySeed, numbers: &str) -> Finding {
    let word = match (verdict, values.estimate()) {
        (_, None) => return Finding::new(verdict, numbers),
        (Verdict::Held, _) => "yes",
        (Verdict::NotHeld, _) => "no",
        _ => "undecided",
    };
    Finding::new(verdict, format!("{numbers}: {word}"))
}

// Sync-TCP, table 1.

fn system(r: &Results, system: &str, of: Measure) -> BySeed {
    r.by_seed(SYNC_TCP, &[("load", "90"), ("system", system)], of)
}

fn sync_tcp_table(r: &Results) -> Artefact {
    sync_tcp::table_1_of("90 % total load, 1 bottleneck", |name, of| system(r, name, of))
}

/// Returns the losses and the time of the largest response, by seed.
fn largest_table(r: &Results) -> Artefact {
    let of = |system: &str, of: Measure| r.by_seed(LARGEST, &[("system", system)], of);
    let systems = &sync_tcp::SYSTEMS[..3];
    let columns: Vec<(String, BySeed)> = [
        ("lost packets in %", sync_tcp::largest_lost as Measure),
        ("time in s", sync_tcp::largest_seconds),
    ]
    .into_iter()
    .flat_map(|(what, measure)| {
        systems.iter().map(move |system| (format!("{system}, {what}"), of(system, measure)))
    })
    .collect();
    let key = [("system", systems[0])];
    let rows = r.outcomes(LARGEST, &key).map(|(seed, _)| {
        let value =
            |values: &BySeed| Estimate::of(&values.get(seed).into_iter().collect::<Vec<_>>());
        Row::new(
            format!("seed {seed}"),
            columns.iter().map(|(_, values)| Entry::new(value(values), "")),
        )
    });
    let note = "The largest response to the first half of the requests. Without a number, the \
                response was not complete when the run ended.";
    let headings = columns.iter().map(|(heading, _)| heading.as_str());
    Artefact::table("The largest response at 85 % load", headings, rows, note)
}

/// Tests each of the paper's three systems against a band around the paper's number. The band
/// extends by `part` of this number or by `least`, whichever is more.
fn of_systems(
    r: &Results,
    unit: &str,
    of: Measure,
    paper: [f64; 3],
    part: f64,
    least: f64,
) -> Finding {
    let cases = [0, 1, 2].map(|i| {
        let off = (paper[i] * part).max(least);
        (sync_tcp::SYSTEMS[i], system(r, sync_tcp::SYSTEMS[i], of), paper[i] - off, paper[i] + off)
    });
    bands(unit, cases)
}

const SYNC_TCP_BANDS: &[ClaimCheck] = &[
    claim("tcp-workload", "Sync-TCP §4.2, figures 4 and 5", &[SYNC_TCP])
        .says(
            "Responses have 7256 bytes on average. On links of 100 Mbps, their median time is 230 \
             ms and their mean time 406 ms.",
        )
        .test(
            "The mean size is within 15 % of the paper's, and the times are within a fifth. The \
             mean size varies by 6 % from seed to seed, because its distribution has a heavy \
             tail.",
        )
        .asks(|r| {
            Finding::together([
                bands("B", [("size", system(r, "100 Mbps", sync_tcp::size), 6_168.0, 8_344.0)]),
                bands(
                    "ms",
                    [
                        ("median", system(r, "100 Mbps", sync_tcp::median), 184.0, 276.0),
                        ("mean", system(r, "100 Mbps", sync_tcp::mean), 324.9, 487.3),
                    ],
                ),
            ])
        }),
    claim("tcp-sync-drops", "Sync-TCP table 1", &[SYNC_TCP])
        .says(
            "At R0, 3.9 % of the packets are dropped with Reno, 13.9 % with SACK-ARED-ECN and 2.0 \
             % with Sync-TCP.",
        )
        .test(
            "Each percentage differs from the paper's by at most one point or a quarter of the \
             paper's number, whichever is larger.",
        )
        .cause(
            "ns-2.35 does not reach these drops with Reno and SACK-ARED-ECN either. The remaining \
             difference is between the paper and ns-2.35, or in a setting that the paper does not \
             state.",
        )
        .asks(|r| of_systems(r, "%", sync_tcp::drops, [3.9, 13.9, 2.0], 0.25, 1.0)),
    claim("tcp-sync-queues", "Sync-TCP table 1", &[SYNC_TCP])
        .says(
            "The mean queue at R0 is 64 packets with Reno, 19 with SACK-ARED-ECN and 54 with \
             Sync-TCP.",
        )
        .test("Each mean queue length is within 25 % of the paper's.")
        .cause(
            "SACK-ARED-ECN's queue is below the band. The cause is not known. With ns-2's \
             `mean_pktsize_` of 500 bytes, which the study uses, it is 3 packets longer than with \
             1420 bytes (`validation-red-causes`).",
        )
        .asks(|r| of_systems(r, "packets", sync_tcp::queue, [64.4, 19.4, 53.9], 0.25, 0.0)),
    claim("tcp-sync-medians", "Sync-TCP table 1", &[SYNC_TCP])
        .says(
            "The median response time is 430 ms with Reno, 810 ms with SACK-ARED-ECN and 390 ms \
             with Sync-TCP.",
        )
        .test("Each median is within 20 % of the paper's.")
        .cause(
            "SACK-ARED-ECN is faster than in the paper, and in ns-2.35 it is faster still. The \
             cause is not known.",
        )
        .asks(|r| of_systems(r, "ms", sync_tcp::median, [430.0, 810.0, 390.0], 0.2, 0.0)),
    claim("tcp-sync-order", "Sync-TCP §5.1", &[SYNC_TCP])
        .says(
            "Sync-TCP has fewer drops, a smaller queue, and shorter median and mean response times \
             than Reno.",
        )
        .test(
            "Each of the four numbers is smaller with Sync-TCP than with Reno, compared seed by \
             seed.",
        )
        .asks(|r| {
            let rows: [(&str, Measure); 4] = [
                ("drops", sync_tcp::drops),
                ("queue", sync_tcp::queue),
                ("median", sync_tcp::median),
                ("mean", sync_tcp::mean),
            ];
            Finding::together(rows.map(|(what, of)| {
                let (reno, sync) = (system(r, "Reno", of), system(r, "Sync-TCP", of));
                part(exceeds(&reno, &sync), &sync, &format!("{what} {reno} and {sync}"))
            }))
            .named("Reno and Sync-TCP")
        }),
];

// DCA, table 4-4.

fn change(r: &Results, path: &str, controller: &str) -> BySeed {
    r.by_seed(DCA, &[("path", path), ("controller", controller)], throughput_change)
}

/// Controller, the paper's name for it, and its change of throughput over Emory and over ASU with
/// their 95% intervals.
type PaperChange = (&'static str, &'static str, [(f64, f64, f64); 2]);

const TABLE_4_4: [PaperChange; 3] = [
    ("dca", "DCA, 50 %", [(-37.0, -42.0, -31.0), (-13.2, -19.8, -6.6)]),
    ("vegas", "Vegas-CAM", [(-21.0, -27.0, -15.0), (-7.3, -20.3, 5.8)]),
    ("dual", "DUAL", [(-14.2, -22.9, -5.43), (-18.0, -23.3, -12.9)]),
];

fn dca_table(r: &Results) -> Artefact {
    let row = |controller, name, paper: [String; 2]| {
        let ours = ["emory", "asu"].map(|path| change(r, path, controller).estimate());
        Row::new(name, ours.into_iter().zip(paper).map(|(ours, paper)| Entry::new(ours, &paper)))
    };
    let interval = |(mean, low, high): (f64, f64, f64)| format!("{mean} ({low} to {high})");
    let rows = TABLE_4_4
        .map(|(controller, name, paper)| row(controller, name, paper.map(interval)))
        .into_iter()
        .chain([row("newreno", "NewReno (§4.4)", ["76", "-"].map(str::to_owned))]);
    let note = "Change of throughput in percent, relative to a Reno connection at the same time. \
                The paper's 95 % intervals are in parentheses.";
    Artefact::table("Change of throughput", ["Emory", "ASU"], rows, note)
}

/// Tests against the paper's interval, extended on each side by half of its width.
fn as_the_paper(r: &Results, controller: &str) -> Finding {
    let row = TABLE_4_4.iter().find(|(name, ..)| *name == controller).expect("a row of the table");
    let band = |path: usize, name: &'static str| {
        let (_, low, high) = row.2[path];
        let more = (high - low) / 2.0;
        (name, change(r, ["emory", "asu"][path], controller), low - more, high + more)
    };
    bands("%", [band(0, "Emory"), band(1, "ASU")])
}

const DCA_BANDS: &[ClaimCheck] = &[
    claim("tcp-dca-newreno", "DCA §4.4", &[DCA])
        .says(
            "Over Emory, NewReno has 76 % more throughput than Reno and about 65 % fewer timeouts.",
        )
        .test("Each number differs from the paper's by at most a quarter.")
        .asks(|r| {
            let timeouts =
                r.by_seed(DCA, &[("path", "emory"), ("controller", "newreno")], timeout_change);
            let throughput = change(r, "emory", "newreno");
            bands(
                "%",
                [("throughput", throughput, 57.0, 95.0), ("timeouts", timeouts, -81.25, -48.75)],
            )
        }),
    claim("tcp-dca-vegas", "DCA table 4-4", &[DCA])
        .says(
            "Beside Reno, Vegas-CAM loses 21 % (15 to 27) of throughput over Emory and 7.3 % (-5.8 \
             to 20.3) over ASU.",
        )
        .test(
            "Each number is in the paper's interval, extended on each side by half of the \
             interval's width.",
        )
        .cause(crate::dca::NS2_VEGAS)
        .asks(|r| as_the_paper(r, "vegas")),
    claim("tcp-dca-dual", "DCA table 4-4", &[DCA])
        .says(
            "Beside Reno, DUAL loses 14.2 % (5.4 to 22.9) of throughput over Emory and 18 % (12.9 \
             to 23.3) over ASU.",
        )
        .test(
            "Each number is in the paper's interval, extended on each side by half of the \
             interval's width.",
        )
        .asks(|r| as_the_paper(r, "dual")),
    claim("tcp-dca-dca", "DCA table 4-1", &[DCA])
        .says(
            "Beside Reno, DCA loses 37 % (31 to 42) of throughput over Emory and 13.2 % (6.6 to \
             19.8) over ASU.",
        )
        .test(
            "Each number is in the paper's interval, extended on each side by half of the \
             interval's width.",
        )
        .cause(
            "The cause is not known. The change of throughput depends on how windows grow: it is \
             -29 % with growth by bytes, and -44 % with ACKs after 25 ms instead of 100 ms. ns-2 \
             has neither of these (`validation-dca-causes`).",
        )
        .asks(|r| as_the_paper(r, "dca")),
];

// SDC, figure 4.

const ECN: &str = "TCP with ECN";

fn timeouts(r: &Results, flows: &str, system: &str) -> BySeed {
    r.by_seed(SDC, &[("flows", flows), ("system", system)], sdc::timeouts)
}

fn sdc_figure(r: &Results) -> Artefact {
    let series: Vec<Series> = [ECN, "SDC"]
        .iter()
        .map(|system| r.curve(SDC, "flows", &[("system", system)], system, sdc::timeouts))
        .collect();
    let axes = [Axis::linear("Flows"), Axis::linear("Timeouts per connection in 100 s")];
    Artefact::figure(
        "Timeouts per connection",
        axes,
        series,
        "Means over the seeds with 95 % intervals.",
    )
}

const SDC_BANDS: &[ClaimCheck] = &[
    claim("tcp-sdc-rise", "SDC §3.1, figure 4", &[SDC])
        .says("With ECN, timeouts increase rapidly when there are more than 30 flows.")
        .test(
            "TCP with ECN has more than twice as many timeouts per connection at 70 flows as at \
             30, and more than three times as many at 100 flows.",
        )
        .asks(|r| {
            let few = timeouts(r, "30", ECN);
            let steps = [("70", 2.0), ("100", 3.0)].map(|(flows, times)| {
                let many = timeouts(r, flows, ECN);
                let verdict = exceeds(&many, &few.map(|t| t * times));
                part(verdict, &many, &format!("{flows} flows {many}"))
            });
            let together = Finding::together(steps);
            Finding {
                numbers: format!("timeouts per connection: 30 flows {few}; {}", together.numbers),
                ..together
            }
        }),
    claim("tcp-sdc-fall", "SDC §3.1, figure 4", &[SDC])
        .says(
            "With more than 200 flows, timeouts per connection become fewer, because connections \
             spend their time backing off.",
        )
        .test("TCP with ECN has fewer timeouts per connection at 400 and at 500 flows than at 200.")
        .cause(
            "ns-2.35 does not have this fall either. Both of the paper's causes exist here: windows \
             below one segment after marks, and backoff. From 150 flows on, TCP with ECN has 31 to \
             33 timeouts per connection in the laboratory and in ns-2.35.",
        )
        .asks(|r| {
            let most = timeouts(r, "200", ECN);
            Finding::together(["400", "500"].map(|flows| {
                let fewer = timeouts(r, flows, ECN);
                let numbers = format!("200 flows {most} and {flows} flows {fewer}");
                part(exceeds(&most, &fewer), &fewer, &numbers)
            }))
            .named("timeouts per connection")
        }),
    claim("tcp-sdc-few", "SDC §3.1, figure 4", &[SDC])
        .says("With SDC, the number of timeouts per connection stays small.")
        .test("From 70 to 500 flows, SDC has less than a third of the timeouts of TCP with ECN.")
        .cause(
            "ns-2 spaces marks (`wait=on`). With this spacing, the queue stays near RED's upper \
             threshold from 200 flows on, and drops packets. After a timeout, SDC's window is \
             below eight packets, so SDC is as aggressive as TCP. Without spacing, SDC has 0.08 to \
             0.32 times TCP's timeouts, which is inside the band (`validation-sdc-causes`).",
        )
        .asks(|r| {
            Finding::together(["70", "100", "200", "500"].map(|flows| {
                let (ecn, sdc) = (timeouts(r, flows, ECN), timeouts(r, flows, "SDC"));
                let verdict = exceeds(&ecn.map(|t| t / 3.0), &sdc);
                part(verdict, &sdc, &format!("{flows} flows {ecn} and {sdc}"))
            }))
            .named("timeouts per connection of TCP with ECN and of SDC")
        }),
];

// Packet size, figures 4.4 to 4.11.

fn starved(r: &Results, flows: &str, size: &str, seconds: f64) -> BySeed {
    r.by_seed(PACKET_SIZE, &[("flows", flows), ("packet", size)], |o| {
        packet_size::starved(o, seconds)
    })
}

fn packet_size_table(r: &Results) -> Artefact {
    let rows = ["50", "100", "150", "200", "400"].into_iter().flat_map(|flows| {
        [1.0, 10.0].map(|seconds| {
            let cells = packet_size::SIZES
                .map(|size| Entry::new(starved(r, flows, size, seconds).estimate(), ""));
            Row::new(format!("{flows} flows, {seconds} s"), cells)
        })
    });
    let note = "Percentage of flows below 5 % of their share in windows of 1 and 10 s, by bytes \
                per packet. In the thesis, with 400 flows of 1500 bytes, about 50 % starve in \
                windows of 1 s and over 20 % in windows of 10 s. With 200 flows, 10 % starve in \
                windows of 10 s.";
    Artefact::table("Starved flows", packet_size::SIZES, rows, note)
}

const PACKET_SIZE_BANDS: &[ClaimCheck] = &[
    claim("tcp-size-starved", "Packet size §4.3.1, figure 4.7", &[PACKET_SIZE])
        .says(
            "With 400 flows of 1500-byte packets, about 50 % of the flows starve completely in \
             windows of 1 s.",
        )
        .test("40 to 60 % of the flows get less than 5 % of their share.")
        .asks(|r| bands("%", [("1500 B", starved(r, "400", "1500", 1.0), 40.0, 60.0)])),
    claim("tcp-size-long-windows", "Packet size §4.3.1, figures 4.10 and 4.11", &[PACKET_SIZE])
        .says(
            "In windows of 10 s, 10 % of 200 flows with 1500-byte packets starve. With 400 flows \
             of 1500-byte or of 1000-byte packets, over 20 % starve.",
        )
        .test(
            "5 to 15 % of the 200 flows starve, and more than 20 % of the 400 flows with each \
             packet size.",
        )
        .asks(|r| {
            let over = ["1500", "1000"].map(|size| {
                let percent = starved(r, "400", size, 10.0);
                let numbers = format!("400 flows of {size} B {percent} % (over 20)");
                part(above(&percent, 20.0), &percent, &numbers)
            });
            Finding::together(
                [bands("%", [("200 flows", starved(r, "200", "1500", 10.0), 5.0, 15.0)])]
                    .into_iter()
                    .chain(over),
            )
        }),
    claim("tcp-size-small", "Packet size §4.3.1, figure 4.7", &[PACKET_SIZE])
        .says("With 400 flows of 500-byte or of 250-byte packets, next to no flow starves.")
        .test("Less than 5 % of the flows starve in windows of 1 s.")
        .cause(crate::packet_size::PHASE)
        .asks(|r| {
            Finding::together(["500", "278"].map(|size| {
                let percent = starved(r, "400", size, 1.0);
                part(below(&percent, 5.0), &percent, &format!("{size} B {percent} % (below 5)"))
            }))
        }),
];

// gHSTCP, figures 2 and 3.

const CASES: [&str; 5] = ["1: Reno", "2: HSTCP", "3: HSTCP+SACK", "4: gHSTCP", "5: gHSTCP+SACK"];
const DELAYS: [&str; 3] = ["25ms", "50ms", "100ms"];

fn mbps(r: &Results, delay: &str, case: &str, group: &str) -> BySeed {
    r.by_seed(GHSTCP, &[("delay", delay), ("case", case)], |o| {
        Some(o.groups.get(group)?.throughput_bps / 1e6)
    })
}

fn total(r: &Results, delay: &str, case: &str) -> BySeed {
    let (a, b) = (mbps(r, delay, case, "S1"), mbps(r, delay, case, "S2"));
    a.zip(&b, |a, b| Some(a + b))
}

fn ghstcp_table(r: &Results) -> Artefact {
    let rows = DELAYS.into_iter().flat_map(|delay| {
        CASES.map(|case| {
            let groups =
                ["S1", "S2"].map(|group| Entry::new(mbps(r, delay, case, group).estimate(), ""));
            let both = Entry::new(total(r, delay, case).estimate(), "");
            Row::new(format!("{delay}, case {case}"), groups.into_iter().chain([both]))
        })
    });
    let note = "Throughput in Mbps. S1 has five Reno flows behind access links of 100 Mbps. S2 has \
                five flows of the case's controller behind access links of 1 Gbps.";
    Artefact::table("Throughput of the groups", ["S1", "S2", "both"], rows, note)
}

/// Tests whether the first number is larger than the second at every delay.
fn at_every_delay(what: &str, of: impl Fn(&str) -> (BySeed, BySeed)) -> Finding {
    let each = DELAYS.map(|delay| {
        let (more, less) = of(delay);
        part(exceeds(&more, &less), &less, &format!("{delay} {more} and {less}"))
    });
    Finding::together(each).named(what)
}

const GHSTCP_BANDS: &[ClaimCheck] = &[
    claim("tcp-hstcp-reno-alone", "gHSTCP §3.1, figure 2, case 1", &[GHSTCP])
        .says(
            "With Reno in both groups, S1 fully uses its access links, and S2 does not use the \
             remaining capacity.",
        )
        .test(
            "At 50 and 100 ms, S1 has more than 90 % of 500 Mbps, and both groups together have \
             less than 95 % of 2.5 Gbps. The paper's bars for 25 ms cannot be read.",
        )
        .asks(|r| {
            Finding::together(["50ms", "100ms"].map(|delay| {
                let (one, both) = (mbps(r, delay, CASES[0], "S1"), total(r, delay, CASES[0]));
                let verdict = all([above(&one, 450.0), below(&both, 2_375.0)]);
                part(verdict, &one, &format!("{delay}: S1 {one}, both {both} Mbps"))
            }))
        }),
    claim("tcp-hstcp-hurts-reno", "gHSTCP §3.1, figure 2, cases 1 and 2", &[GHSTCP])
        .says(
            "With HighSpeed TCP without SACK in S2, S1 loses most of its throughput, and both \
             groups together have less.",
        )
        .test(
            "At every delay, S1 has less than three quarters of its throughput in case 1, and both \
             groups together have less than in case 1.",
        )
        .asks(|r| {
            Finding::together([
                at_every_delay("three quarters of S1", |d| {
                    (mbps(r, d, CASES[0], "S1").map(|m| m * 0.75), mbps(r, d, CASES[1], "S1"))
                }),
                at_every_delay("both", |d| (total(r, d, CASES[0]), total(r, d, CASES[1]))),
            ])
        }),
    claim("tcp-hstcp-sack", "gHSTCP §3.1, figure 2, cases 2 and 3", &[GHSTCP])
        .says(
            "With SACK, S2 achieves very high throughput, and S1 has less throughput than without \
             SACK.",
        )
        .test("At every delay, S2 has more throughput in case 3 than in case 2, and S1 has less.")
        .asks(|r| {
            Finding::together([
                at_every_delay("S2", |d| (mbps(r, d, CASES[2], "S2"), mbps(r, d, CASES[1], "S2"))),
                at_every_delay("S1", |d| (mbps(r, d, CASES[1], "S1"), mbps(r, d, CASES[2], "S1"))),
            ])
        }),
    claim("tcp-ghstcp-better", "gHSTCP §3.3, figure 3, cases 2 and 4", &[GHSTCP])
        .says("Without SACK, both groups have more throughput with gHSTCP than with HighSpeed TCP.")
        .test("At every delay, S1 and S2 have more throughput in case 4 than in case 2.")
        .asks(|r| {
            Finding::together(["S1", "S2"].map(|group| {
                at_every_delay(group, |d| {
                    (mbps(r, d, CASES[3], group), mbps(r, d, CASES[1], group))
                })
            }))
        }),
    claim("tcp-ghstcp-sack", "gHSTCP §3.3, figure 3, cases 3 and 5", &[GHSTCP])
        .says("With SACK, gHSTCP leaves Reno much more throughput, and the total stays the same.")
        .test(
            "At every delay, S1 has more than 1.5 times as much throughput in case 5 as in case 3, \
             and both groups together have at least 95 % of their throughput in case 3.",
        )
        .asks(|r| {
            Finding::together([
                at_every_delay("S1", |d| {
                    (mbps(r, d, CASES[4], "S1"), mbps(r, d, CASES[2], "S1").map(|m| m * 1.5))
                }),
                at_every_delay("both", |d| {
                    (total(r, d, CASES[4]), total(r, d, CASES[2]).map(|m| m * 0.95))
                }),
            ])
        }),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::seeds;
    use Verdict::{Held, NotHeld, Undecided};

    #[test]
    fn validation_band_is_judged_by_the_whole_interval() {
        // Mean 10, half width 2.48.
        let of = |low, high| {
            let finding = bands("ms", [("time", seeds([9.0, 10.0, 11.0]), low, high)]);
            (finding.verdict, finding.numbers)
        };
        let found = |verdict, band: &str, word: &str| {
            (verdict, format!("time 10 ± 2 ms (band {band}): {word}"))
        };
        assert_eq!(of(7.0, 13.0), found(Held, "7 to 13", "yes"));
        assert_eq!(of(9.5, 10.5), found(Undecided, "9.5 to 10.5", "undecided"));
        assert_eq!(of(12.6, 13.0), found(NotHeld, "12.6 to 13", "no"));
        assert_eq!(of(-20.0, 20.0), found(Held, "-20 to 20, which contains 0", "yes"));
        let one = bands("ms", [("time", seeds([10.0]), 0.0, 20.0)]);
        assert_eq!(one.verdict, Undecided);
        let none = bands("ms", [("time", seeds([]), 1.0, 20.0)]);
        assert_eq!((none.verdict, none.numbers.as_str()), (Undecided, "time not measured"));
    }
}
