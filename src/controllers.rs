//! `fathom controllers`: lists the catalogue of congestion controllers.

use fathom_cc::catalogue::{self, Algorithm, find};

use crate::{Failure, output};

#[derive(clap::Args)]
#[command(after_help = "Examples:
  fathom controllers
  fathom controllers sync
  fathom compare --controllers sync:signal=either,vegas:alpha=2,native:cubic")]
pub(crate) struct Args {
    /// Show only this controller.
    name: Option<String>,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let text = match &args.name {
        Some(name) => describe(find(name).map_err(Failure::input)?),
        None => catalogue::all().map(describe).collect::<Vec<_>>().join("\n"),
    };
    output::print(&text)
}

fn describe(entry: &Algorithm) -> String {
    let needs = entry.required.names();
    let needs = if needs.is_empty() {
        "only acknowledgements and losses".to_owned()
    } else {
        needs.join(", ")
    };
    let mut text = format!(
        "{}: {}\n  source  {}\n  needs   {needs}\n",
        entry.name, entry.summary, entry.source
    );
    for o in entry.options {
        text += &format!("  {}={}  ({}) {}\n", o.name, o.default, o.values, o.about);
    }
    if !entry.options.is_empty() {
        let first = &entry.options[0];
        text += &format!("  use     {}:{}={}\n", entry.name, first.name, first.default);
    }
    text
}
