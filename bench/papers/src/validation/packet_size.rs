//! Packet size: figures 4.4 to 4.11.

use fathom_report::{Entry, Row};

use super::{PACKET_SIZE, bands, part};
use crate::claims::{above, below};
use crate::results::BySeed;
use crate::{Artefact, ClaimCheck, Finding, Results, claim, packet_size};

fn starved(r: &Results, flows: &str, size: &str, seconds: f64) -> BySeed {
    r.by_seed(PACKET_SIZE, &[("flows", flows), ("packet", size)], |o| {
        packet_size::starved(o, seconds)
    })
}

pub(super) fn starved_flows(r: &Results) -> Artefact {
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

pub(super) const BANDS: &[ClaimCheck] = &[
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
