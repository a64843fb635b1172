//! `fathom paths`: lists the named paths and the link models.

use std::path::PathBuf;
use std::time::Duration;

use fathom_netsim::path::{MODELS, Model, PRESETS, Preset};

use crate::{Failure, numbers, output};

/// List the named paths and the link models, with their parameters and sources.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  fathom paths
  fathom paths lte
  fathom paths --trace lte --seconds 60 --seed 3 --output lte.trace
  fathom compare --path lte --rtt 80ms
  fathom link --listen 127.0.0.1:4434 --to 127.0.0.1:4433 --trace lte.trace --rtt 50ms

The options of a path are those of 'fathom compare' and 'fathom link'. An option
given there overrides the option of the path.")]
pub(crate) struct Args {
    /// Show only this path.
    name: Option<String>,
    /// Write a trace of this model (lte, wifi or leo) in Mahimahi's format, instead of listing the
    /// paths.
    #[arg(long, value_name = "MODEL", conflicts_with = "name")]
    trace: Option<String>,
    /// Length of the trace.
    #[arg(long, value_name = "N", default_value_t = 120, requires = "trace", value_parser = numbers::whole::<u64>(1..=3_600))]
    seconds: u64,
    /// Seed of the trace.
    #[arg(long, value_name = "N", default_value_t = 1, requires = "trace", value_parser = numbers::seed)]
    seed: u64,
    /// Output file of the trace; '-' is standard output.
    #[arg(long, short, value_name = "FILE", default_value = "-", requires = "trace")]
    output: PathBuf,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    if let Some(model) = &args.trace {
        output::check(&[("--output", Some(args.output.as_path()))])?;
        let model =
            Model::named(model.strip_prefix("model:").unwrap_or(model)).map_err(Failure::input)?;
        return output::write(
            &args.output,
            &model.trace(args.seed, Duration::from_secs(args.seconds)).to_text(),
        );
    }
    match &args.name {
        Some(name) => output::print(&preset(Preset::named(name).map_err(Failure::input)?)),
        None => {
            let paths: Vec<String> = PRESETS.iter().map(preset).collect();
            output::print(&format!("{}\n{}", paths.join("\n"), models()))
        }
    }
}

fn preset(preset: &Preset) -> String {
    let options: Vec<String> =
        preset.options.iter().map(|(name, value)| format!("--{name} {value}")).collect();
    format!(
        "{}: {}\n  options {}\n  source  {}\n",
        preset.name,
        preset.about,
        options.join(" "),
        preset.source
    )
}

fn models() -> String {
    let model = |model: &Model| {
        let mean = model.trace(1, Duration::from_secs(120)).mean_rate().bits_per_sec() as f64 / 1e6;
        format!(
            "model:{}: {}; seed 1 has {mean:.1} Mbps on average\n  source  {}\n",
            model.name, model.about, model.source
        )
    };
    MODELS.iter().map(model).collect::<Vec<_>>().join("\n")
}
