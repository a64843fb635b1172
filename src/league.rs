//! `fathom league`: compares scorecards.

use std::path::PathBuf;

use fathom_judge::League;

use crate::judge::read_scorecard;
use crate::{Failure, output};

/// Compare scorecards of 'fathom judge --json': write a table of controllers by criterion, then
/// each failure with the command that reproduces it.
#[derive(clap::Args)]
#[command(after_help = "Example:
  for c in cubic reno vegas; do fathom judge $c --json $c.json; done
  fathom league cubic.json reno.json vegas.json --markdown league.md")]
pub(crate) struct Args {
    /// Scorecards made with the same version, depth, seeds, references and criteria.
    #[arg(required = true, value_name = "SCORECARD.json")]
    scorecards: Vec<PathBuf>,
    /// Write the Markdown to this file; '-' is standard output.
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
