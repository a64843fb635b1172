//! Options that select the runs of a study and their length. The commands `check`, `runs`,
//! `status`, `emit` and `run` share them.

use fathom_cc::Invalid;
use fathom_experiments::study::{self, Part, RunFilter, Study, StudyRun};
use fathom_netsim::backend::Backend;
use fathom_stacks::Stack;

use crate::{numbers, output};

/// Options of one call that override those of the study.
#[derive(clap::Args)]
pub(super) struct Options {
    /// Factor for the duration or the number of responses of every run, for a quick look: above 0
    /// and at most 1. [default: 1]
    #[arg(long, value_name = "X", value_parser = numbers::scale)]
    scale: Option<f64>,
    /// Select only runs with this value of an axis, or with this fingerprint (see 'fathom plan
    /// runs'). May be given several times: a run is selected if it has one of the given
    /// values of each given axis and, if fingerprints are given, one of the fingerprints.
    #[arg(long, value_name = "AXIS=VALUE|FINGERPRINT")]
    only: Vec<RunFilter>,
    /// Number of seeds of each combination, instead of the study's number.
    #[arg(long, value_name = "N", value_parser = numbers::whole::<u64>(1..=study::MOST_SEEDS))]
    seeds: Option<u64>,
    /// First seed, instead of the study's first seed (1 unless the study sets it).
    #[arg(long, value_name = "S", value_parser = numbers::seed)]
    seed: Option<u64>,
    /// Stack of both endpoints, instead of the study's stack (see 'fathom stacks').
    #[arg(long, value_name = "STACK")]
    stack: Option<Stack>,
    /// Backend, instead of the study's backend: virtual, loopback or netem (see 'fathom compare
    /// --help'). Runs in real time are executed one at a time.
    #[arg(long, alias = "world", value_name = "BACKEND")]
    backend: Option<Backend>,
}

/// Options of one call, with a part of the runs.
#[derive(clap::Args)]
pub(super) struct PartOptions {
    #[command(flatten)]
    pub(super) all: Options,
    /// Select only one part of the runs: 2/5 is the second of five parts. The fingerprint of a run
    /// determines its part.
    #[arg(long, value_name = "I/N")]
    pub(super) part: Option<Part>,
}

impl PartOptions {
    pub(super) fn apply(&self, study: Study) -> Result<(Study, Vec<StudyRun>), Invalid> {
        let (study, runs) = self.all.apply(study)?;
        Ok((study, in_part(runs, self.part)))
    }
}

pub(super) fn in_part(runs: Vec<StudyRun>, of: Option<Part>) -> Vec<StudyRun> {
    match of {
        Some(of) => study::part(runs, of),
        None => runs,
    }
}

impl Options {
    pub(super) fn scale(&self) -> f64 {
        self.scale.unwrap_or(1.0)
    }

    /// Returns whether the user named runs one by one, by fingerprint.
    pub(super) fn names_runs(&self) -> bool {
        self.only.iter().any(|only| matches!(only, RunFilter::Fingerprint(_)))
    }

    /// Returns the options as words of a command line.
    pub(super) fn words(&self) -> Vec<String> {
        let mut words = Vec::new();
        let mut give = |name: &str, value: Option<String>| {
            words.extend(value.map(|value| format!("--{name}={value}")))
        };
        give("scale", self.scale.map(|x| x.to_string()));
        for only in &self.only {
            give("only", Some(only.to_string()));
        }
        give("seeds", self.seeds.map(|n| n.to_string()));
        give("seed", self.seed.map(|n| n.to_string()));
        give("stack", self.stack.map(|stack| stack.to_string()));
        give("backend", self.backend.map(|backend| backend.to_string()));
        words
    }

    /// Returns the study with these options applied, and its selected runs.
    pub(super) fn apply(&self, mut study: Study) -> Result<(Study, Vec<StudyRun>), Invalid> {
        if let Some(seeds) = self.seeds {
            study = study.with_seeds(seeds)?;
        }
        if let Some(seed) = self.seed {
            study = study.with_seed(seed)?;
        }
        if let Some(stack) = self.stack {
            study = study.with_stack(stack)?;
        }
        if let Some(backend) = self.backend {
            study = study.with_backend(backend)?;
        }
        if study.absent > 0 {
            output::say(format!(
                "{}: this build lacks quiche, so {} combinations are left out; build with \
                 --features quiche to run them",
                study.name, study.absent
            ));
        }
        let runs = study::only(study.runs(self.scale())?, &self.only)?;
        Ok((study, runs))
    }
}
