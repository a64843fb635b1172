//! `fathom league`: scorecards beside each other.

use std::path::PathBuf;

use fathom_judge::League;

use crate::judge::read_scorecard;
use crate::{Failure, output};

/// Set scorecards of 'fathom judge --json' beside each other: controllers by criterion, then what failed and the command that shows it.
#[derive(clap::Args)]
#[command(after_help = "Example:
  for c in cubic reno vegas; do fathom judge $c --json $c.json; done
  fathom league cubic.json reno.json vegas.json --markdown league.md")]
pub(crate) struct Args {
    /// Scorecards, all made alike: one version, depth, seeds and references.
    #[arg(required = true, value_name = "SCORECARD.json")]
    scorecards: Vec<PathBuf>,
    /// Write it to this file.
    #[arg(long, value_name = "FILE", default_value = "-")]
    markdown: PathBuf,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let cards = args
        .scorecards
        .iter()
        .map(|file| read_scorecard("scorecard", file))
        .collect::<Result<_, _>>()?;
    let league = League::new(cards).map_err(Failure::input)?;
    output::write(&args.markdown, &league.markdown("fathom"))
}
