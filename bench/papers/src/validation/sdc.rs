//! SDC: figure 4.

use fathom_report::{Axis, Series};

use super::{SDC, part};
use crate::claims::exceeds;
use crate::results::BySeed;
use crate::{Artefact, ClaimCheck, Finding, Results, claim, sdc};

const ECN: &str = "TCP with ECN";

fn timeouts(r: &Results, flows: &str, system: &str) -> BySeed {
    r.by_seed(SDC, &[("flows", flows), ("system", system)], sdc::timeouts)
}

pub(super) fn figure_4(r: &Results) -> Artefact {
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

pub(super) const BANDS: &[ClaimCheck] = &[
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
             below one segment after marks, and backoff. From 200 to 500 flows, TCP with ECN has 31 \
             to 34 timeouts per connection in the laboratory, and 31 to 33 in ns-2.35.",
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
             below eight packets, so SDC is as aggressive as TCP. Without spacing, SDC has 0.02 to \
             0.23 times TCP's timeouts, which is inside the band (`validation-sdc-causes`).",
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
