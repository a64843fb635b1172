//! Tests that every citation has the form `<source> §<section>` and names an existing section.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The sections cited, by source. The titles are for the reader who checks a new line here.
const SECTIONS: &[(&str, &str, &str)] = &[
    ("Copa", "2.1", "Target Rate and Update Rule"),
    ("Copa", "2.2", "Competing with Buffer-Filling Schemes"),
    ("Rapid Start", "3.2", "Increasing the Congestion Window"),
    ("Rapid Start", "3.3", "Congestion Handling"),
    ("Rapid Start", "3.3.1", "Reduction Factors"),
    ("RFC 3649", "5", "Modifying the TCP Response Function"),
    (
        "RFC 3649",
        "7",
        "Translating the HighSpeed Response Function into Congestion Control Parameters",
    ),
    ("RFC 3649", "B", "A Table for a(w) and b(w)"),
    ("DCA", "3.1", "Data Collection Methodology"),
    ("DCA", "3.2.1", "Loss Conditioned Delay Indication Metric"),
    ("DCA", "3.3", "Throughput Analysis"),
    ("DCA", "4.3", "Simulating the TCP/DCA Protocol"),
    ("DCA", "4.4", "Simulating the TCP/Vegas and TCP/Dual Protocols"),
    ("RFC 5681", "4.1", "Restarting Idle Connections"),
    ("RFC 6298", "2", "The Basic Algorithm"),
    ("RFC 6817", "2.4.2", "A More Detailed Description (of the sender)"),
    ("RFC 8257", "3.3", "Processing Echoed Congestion Indications on the Sender"),
    ("RFC 8257", "5", "Deployment Issues"),
    ("RFC 9000", "9.4", "Loss Detection and Congestion Control (on a new path)"),
    ("RFC 9000", "13.4.2", "ECN Validation"),
    ("RFC 9000", "18.2", "Transport Parameter Definitions (max_ack_delay)"),
    ("RFC 9000", "19.3.2", "ECN Counts"),
    ("RFC 9002", "5.2", "Estimating min_rtt"),
    ("RFC 9002", "5.3", "Estimating smoothed_rtt and rttvar"),
    ("RFC 9002", "6.2", "Probe Timeout"),
    ("RFC 9002", "7", "Congestion Control"),
    ("RFC 9002", "7.1", "Explicit Congestion Notification"),
    ("RFC 9002", "7.2", "Initial and Minimum Congestion Window"),
    ("RFC 9002", "7.3", "Congestion Control States"),
    ("RFC 9002", "7.3.1", "Slow Start"),
    ("RFC 9002", "7.3.2", "Recovery"),
    ("RFC 9002", "7.3.3", "Congestion Avoidance"),
    ("RFC 9002", "7.6", "Persistent Congestion"),
    ("RFC 9002", "7.6.2", "Establishing Persistent Congestion"),
    ("RFC 9002", "7.8", "Underutilizing the Congestion Window"),
    ("RFC 9002", "B.5", "On Packet Acknowledgment"),
    ("RFC 9002", "B.6", "On New Congestion Event"),
    ("RFC 9002", "B.8", "On Packets Lost"),
    ("RFC 9406", "4.2", "HyStart++ Algorithm Details"),
    ("RFC 9406", "4.3", "Tuning Constants and Other Considerations"),
    ("GCC", "5.2", "Pre-filtering"),
    ("GCC", "5.3", "Arrival-time filter"),
    ("GCC", "5.4", "Over-use detector"),
    ("GCC", "5.5", "Rate control"),
    ("GCC", "5.6", "Parameters settings"),
    ("GCC", "6", "Loss-based control"),
    ("LEDBAT++", "4", "LEDBAT++ Mechanisms"),
    ("Packet size", "1.2", "Packet Size and Throughput"),
    ("Packet size", "1.4", "Large Packets Considered Harmful"),
    ("Packet size", "4.3.1", "Round One Experiments"),
    ("SCReAMv2", "4.2.1", "Congestion Detection: Delay, Data Unit Loss and ECN-CE"),
    ("SCReAMv2", "4.2.2", "Reference Window Update"),
    ("SCReAMv2", "4.3.1", "Send Window Calculation"),
    ("SCReAMv2", "4.3.2", "Packet Pacing"),
    ("SCReAMv2", "4.4", "Media Rate Control"),
    ("SEARCH", "3.2", "SEARCH Algorithm"),
    ("SDC", "2.1", "Two-phase control for SDC"),
    ("SDC", "2.2", "SDC algorithm"),
    ("SDC", "3.5", "Bandwidth competition with traditional TCP"),
    ("RFC 9438", "4", "CUBIC Congestion Control"),
    ("RFC 9438", "4.2", "Window Increase Function"),
    ("RFC 9438", "4.3", "Reno-Friendly Region"),
    ("RFC 9438", "4.6", "Multiplicative Decrease"),
    ("RFC 9438", "4.7", "Fast Convergence"),
    ("RFC 9438", "4.8", "Timeout"),
    ("RFC 9438", "4.9.2", "Spurious Fast Retransmits"),
    ("RFC 9438", "4.10", "Slow Start"),
    ("RFC 9438", "5", "Discussion"),
    ("RFC 9438", "5.8", "Behavior for Application-Limited Flows"),
    ("Sync-TCP", "3", "Sync-TCP"),
    ("Sync-TCP", "3.1", "OTTs vs RTTs"),
    ("Sync-TCP", "3.3", "Congestion detection"),
    ("Sync-TCP", "3.4", "Congestion reaction"),
    ("Sync-TCP", "5.1", "Single bottleneck"),
    ("gHSTCP", "3.2", "gHSTCP Description"),
];

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a source folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|e| e == "rs")
            && !path.ends_with("tests/citations.rs")
        {
            found.push(path);
        }
    }
}

/// Returns the section after a section sign, without the punctuation that ends a sentence.
fn section(after: &str) -> &str {
    let end = after.find(|c: char| !(c.is_ascii_alphanumeric() || c == '.')).unwrap_or(after.len());
    after[..end].trim_end_matches('.')
}

#[test]
fn every_citation_names_an_existing_section() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    for folder in ["src", "tests"] {
        sources(&root.join(folder), &mut files);
    }
    let mut used = BTreeSet::new();
    let mut wrong = Vec::new();
    for file in &files {
        let text = fs::read_to_string(file).expect("a source file");
        for (number, line) in text.lines().enumerate() {
            for (at, sign) in line.match_indices('§') {
                let (before, section) = (line[..at].trim_end(), section(&line[at + sign.len()..]));
                match SECTIONS
                    .iter()
                    .find(|(source, known, _)| before.ends_with(source) && *known == section)
                {
                    Some(entry) => drop(used.insert(entry)),
                    None => {
                        wrong.push(format!("{}:{}: {}", file.display(), number + 1, line.trim()))
                    }
                }
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "not '<source> §<section>' of the table in this test:\n{}",
        wrong.join("\n")
    );
    let unused: Vec<_> = SECTIONS.iter().filter(|entry| !used.contains(entry)).collect();
    assert!(unused.is_empty(), "cited nowhere: {unused:?}");
}
