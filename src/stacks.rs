//! `fathom stacks`: what each stack offers and each controller needs, read from code.

use fathom_bench::stack::Stack;
use fathom_cc::Signals;
use fathom_cc::catalogue::{CATALOGUE, recipe};

use crate::{Failure, output};

#[derive(clap::Args)]
pub(crate) struct Args {}

pub(crate) fn run(_: &Args) -> Result<(), Failure> {
    output::print(&text()?)
}

/// The signals, as columns.
const SIGNALS: [Signals; 4] = [
    Signals { one_way: true, ..Signals::NONE },
    Signals { ecn: true, ..Signals::NONE },
    Signals { pacing: true, ..Signals::NONE },
    Signals { datagram: true, ..Signals::NONE },
];

fn text() -> Result<String, Failure> {
    let names: Vec<&str> = SIGNALS.iter().flat_map(|s| s.names()).collect();
    let mut text = format!("{:14}", "stack");
    for name in &names {
        text += &format!("{name:>15}");
    }
    text += "  own controllers\n";
    for stack in Stack::ALL {
        text += &format!("{:14}", stack.name());
        for signal in SIGNALS {
            let offered = |by| signal.lacking_in(by).is_none();
            let word = match (offered(stack.offers()), offered(stack.offers_with_outlet())) {
                (true, _) => "yes",
                (false, true) => "outlet",
                (false, false) => "-",
            };
            text += &format!("{word:>15}");
        }
        let natives: Vec<String> = stack.natives().iter().map(|n| format!("native:{n}")).collect();
        text += &format!("  {}\n", natives.join(" "));
    }
    text += &format!("\n{:14}", "controller");
    for name in &names {
        text += &format!("{name:>15}");
    }
    text += "  runs on\n";
    for entry in CATALOGUE {
        let recipe = recipe(entry.name).map_err(Failure::run)?;
        text += &format!("{:14}", entry.name);
        for signal in SIGNALS {
            let needs = signal.lacking_in(recipe.needs()).is_none();
            let wants = signal.lacking_in(recipe.wants()).is_none();
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
        let on: Vec<&str> =
            Stack::ALL.iter().filter(|s| recipe.check(s.offers_with_outlet()).is_ok()).map(|s| s.name()).collect();
        text += &format!("  {}\n", on.join(" "));
    }
    text += "\n\
        One-way delay needs a peer that speaks SYNC_TIMESTAMP or TIMESTAMP; ECN needs a path that keeps its marks.\n\
        outlet: not by the stack itself, but through an Outlet around the endpoint's socket (see docs/). The lab uses one where a\n\
        controller needs it.\n";
    Ok(text)
}
