//! `fathom stacks`: the capabilities that each stack provides and each controller requires.

use fathom_cc::Capabilities;
use fathom_cc::catalogue;
use fathom_stacks::{Controller, Stack};

use crate::{Failure, output};

#[derive(clap::Args)]
#[command(after_help = "Example:
  fathom stacks

'shaping' means that a shaping socket provides a feature that the stack itself lacks;
docs/stacks.md compares the stacks.")]
pub(crate) struct Args {}

pub(crate) fn run(_: &Args) -> Result<(), Failure> {
    output::print(&text()?)
}

/// Capabilities that are columns of the tables.
const CAPABILITIES: [Capabilities; 5] = [
    Capabilities { one_way: true, ..Capabilities::NONE },
    Capabilities { ecn: true, ..Capabilities::NONE },
    Capabilities { pacing: true, ..Capabilities::NONE },
    Capabilities { datagram: true, ..Capabilities::NONE },
    Capabilities { l4s: true, ..Capabilities::NONE },
];

fn text() -> Result<String, Failure> {
    let names: Vec<&str> = CAPABILITIES.iter().flat_map(|s| s.names()).collect();
    let mut text = format!("{:14}", "stack");
    for name in &names {
        text += &format!("{name:>15}");
    }
    text += "  own controllers\n";
    for stack in Stack::BUILT_IN {
        text += &format!("{:14}", stack.name());
        for capability in CAPABILITIES {
            let provided = |by| capability.lacking_in(by).is_none();
            let word = match (provided(stack.provided()), provided(stack.provided_with_shaping())) {
                (true, _) => "yes",
                (false, true) => "shaping",
                (false, false) => "-",
            };
            text += &format!("{word:>15}");
        }
        let natives: Vec<String> =
            stack.natives().iter().map(|name| Controller::Native(name).spec()).collect();
        text += format!("  {}", natives.join(" ")).trim_end();
        text += "\n";
    }
    text += &format!("\n{:14}", "controller");
    for name in &names {
        text += &format!("{name:>15}");
    }
    text += "  runs on\n";
    for entry in catalogue::all() {
        let controller_config = catalogue::parse(entry.name).map_err(Failure::run)?;
        text += &format!("{:14}", entry.name);
        for capability in CAPABILITIES {
            let needs = capability.lacking_in(controller_config.required()).is_none();
            let wants = capability.lacking_in(controller_config.optional()).is_none();
            text += &format!(
                "{:>15}",
                if needs {
                    "needs"
                } else if wants {
                    "uses"
                } else {
                    "-"
                }
            );
        }
        let on: Vec<&str> = Stack::BUILT_IN
            .iter()
            .filter(|s| controller_config.check(s.provided_with_shaping()).is_ok())
            .map(|s| s.name())
            .collect();
        text += &format!("  {}\n", on.join(" "));
    }
    text += "\n\
        tcp is TCP at packet level, in the laboratory only: 'fathom compare --stack tcp', or stack = \"tcp\" in a study.\n\
        One-way delay needs a peer that speaks SYNC_TIMESTAMP, TIMESTAMP or ACK_RECEIVE_TIMESTAMPS; ECN needs a path that keeps its marks.\n\
        shaping: provided by a ShapingSocket around the endpoint's socket, not by the stack itself (see docs/). The lab uses one if a\n\
        controller needs it.\n";
    Ok(text)
}
