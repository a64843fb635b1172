//! Scenarios that Linux's TCP runs, too (`bench/linux`).

use std::ffi::OsStr;
use std::sync::atomic::AtomicBool;

use fathom_netsim::backend::netem::run_in_guest;

use crate::common::root;
use crate::scenarios::{Curves, Difference, Scenario, X};
use crate::{Delays, LABORATORY_SEEDS, Reference};

pub(crate) const LINUX: Reference = Reference {
    name: "Linux",
    folder: "linux",
    make: "make linux-tcp",
    page: "docs/linux-tcp.md",
    head: HEAD,
    simulates: false,
    delays: Some(Delays { written: "delay = \"20ms\"", of: delay }),
    scenarios: SCENARIOS,
};

/// Returns the delay of the laboratory's bottleneck for a seed: 20 ms, and up to 0.25 ms more or less.
fn delay(seed: u64) -> String {
    let step = (seed - 1) % LABORATORY_SEEDS;
    format!("delay = \"{}us\"", 19_750 + 500 * step / (LABORATORY_SEEDS - 1))
}

const HEAD: &str = "\
# The laboratory's TCP beside Linux's

<!-- Made from bench/results/linux: FATHOM_WRITE=1 cargo test --release -p fathom-papers --test reference -->

`make linux-tcp` runs Linux's TCP and the laboratory's, compares them, and writes this page. Linux's
TCP runs in User-Mode Linux (Debian and Ubuntu: `apt-get install user-mode-linux kmod iproute2`).

**Question.** Do the laboratory's controllers at packet level have the throughput, drops, queue and
timeouts of Linux's controllers with the same names?

**Method.** Both run the same plan in [`bench/linux`](../bench/linux/README.md). In Linux, a run has
three network namespaces: a sender, a router with the bottleneck, and a receiver. The bottleneck is
netem with a rate, a delay and a limit in packets, as in the netem backend
([backends.md](backends.md)). Runs in Linux are in real time. The laboratory's TCP has Linux's
defaults ([validation.md](validation.md#compared-with-linux)). Linux's three runs of a combination
differ by the kernel's timing. In the laboratory, nothing in these scenarios is random. Therefore
its ten runs have delays of 19.75 to 20.25 ms.

**Tolerances.** The tolerances were committed before the first comparison. A tolerance applies to
the difference of the means over the seeds, relative to Linux's mean. No tolerance has been changed.

";

/// A curve for each controller.
const CONTROLLERS: &[(&str, &[&str])] = &[
    ("reno", &["reno"]),
    ("cubic", &["cubic"]),
    ("vegas", &["vegas"]),
    ("highspeed", &["highspeed"]),
];

const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "flows",
        title: "Flows of one controller",
        describes: "One, two or four flows share a drop-tail bottleneck of 10 Mbps with room for 50 \
                    packets. The round trip takes 40 ms without a queue. A run lasts 60 s, of which \
                    the last 40 s count.",
        scripts: &["run.py"],
        link: "left-right",
        group: "flows",
        measures: &["throughput", "drops", "queue", "timeouts"],
        axes: &[("controller", "controller"), ("flows", "flows")],
        figure: Curves { x: X::LastAxis("queue"), caption: "", curves: CONTROLLERS },
        differences: &[
            Difference {
                cause: "**Two flows of Vegas.** In the laboratory, the queue is 12 packets longer. \
                        The cause is not known. The second flow takes the queue of the first one \
                        for a part of its base RTT, so the result depends on the first seconds.",
                cells: &[("queue", &["vegas", "2"])],
            },
            Difference {
                cause: "**Two and four flows of HighSpeed TCP.** Linux drops fewer packets. \
                        Outside slow start, Linux's HighSpeed TCP grows by ACKs and not by \
                        acknowledged segments (`hstcp_cong_avoid` in tcp_highspeed.c), so below 38 \
                        segments it grows half as fast as Reno. With `counting = \"acks\"`, the \
                        laboratory drops 0.09 and 0.33 % (one seed). Above 38 segments, Linux \
                        rounds the growth up to the next row of the table of RFC 3649, which \
                        makes up for the ACKs: one flow agrees.",
                cells: &[("drops", &["highspeed", "2"]), ("drops", &["highspeed", "4"])],
            },
        ],
    },
    Scenario {
        name: "share",
        title: "A flow beside Reno",
        describes: "A flow of each controller and a flow of Reno share the bottleneck, which has \
                    room for 25, 50 or 100 packets. A run lasts 80 s, of which the last 60 s count.",
        scripts: &["run.py"],
        link: "left-right",
        group: "flows",
        measures: &["throughput", "drops", "queue", "share"],
        axes: &[("controller", "controller"), ("buffer", "packets of room")],
        figure: Curves {
            x: X::LastAxis("share"),
            caption: "Vegas gets 28 and 54 % less of the link than in Linux with 50 and 100 \
                      packets of room, which the tolerance of 5 points allows. HighSpeed TCP drops \
                      27 to 35 % more than in Linux with each room.",
            curves: CONTROLLERS,
        },
        differences: &[],
    },
];

#[test]
#[ignore = "takes minutes in User-Mode Linux; make linux-tcp runs it"]
fn linux_runs_the_scenarios() {
    let script = root().join("bench/linux/run.py");
    let words = std::env::var("LINUX_TCP").unwrap_or_default();
    let command: Vec<&OsStr> = [OsStr::new("python3"), script.as_os_str()]
        .into_iter()
        .chain(words.split_whitespace().map(OsStr::new))
        .collect();
    let code = run_in_guest(&command, &AtomicBool::new(false), &mut std::io::stderr());
    assert_eq!(code.expect("a guest"), 0);
}
