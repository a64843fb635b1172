//! `fathom judge`: judges a controller by the criteria of RFC 9743, or by the test cases of another
//! document.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::num::NonZero;
use std::path::{Path, PathBuf};

use fathom_cc::catalogue;
use fathom_experiments::study::{self, MOST_SEEDS, StudyError};
use fathom_judge::{
    Battery, Depth, Direction, JudgePlan, Profile, Scorecard, Settings, Test, Verdict, changes,
    check_baseline, cpu_per_ack, report, scorecard,
};
use fathom_netsim::backend::Backend;
use fathom_stacks::Stack;

use crate::kernel::{self, Kernel};
use crate::plan::{RESULTS, execute};
use crate::{Failure, numbers, output};

/// Folder of results in the common folder of all studies. All controllers share it, because they
/// share the runs of the references.
const FOLDER: &str = "judge";

/// Judge a congestion controller by the criteria of RFC 9743, by the test cases of the BBR draft
/// (--profile bbr) or by those of RFC 8867 for live media (--profile rmcat), and print its
/// scorecard: a verdict for each criterion, with the reason.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  fathom judge vegas
  fathom judge native:bbr3 --stack noq --against cubic,native:bbr3 --report bbr3.html
  fathom judge cubic --full --json cubic.json
  fathom judge vegas --only 5.2.1 --only 7.1 --seeds 10
  fathom judge mine --baseline last-release.json --junit judge.xml
  fathom judge native:bbr --profile bbr --report bbr.html
  fathom judge scream --profile rmcat

A check passes if the whole 95 % interval over the seeds is within its threshold.
It fails if a wider interval, with a confidence of 95 % for all checks together, is
outside, and is undecided otherwise. Undecided combinations get more seeds. A
criterion has the verdict of its worst check. RFC 9743 gives no thresholds, so they
come from Fathom, each with its reason (--thresholds).

Finished runs are stored at once and not repeated. So the same command continues
after an interruption, and all controllers share the runs of the references.

To judge your own controller, create it with 'fathom new-controller NAME', and run
this command with the program in the new folder.

Exit codes: 0: no criterion failed (the output names undecided criteria); 1: a
criterion failed, or with --strict is undecided; 2: invalid input; 130:
interrupted. With --baseline, only checks that became worse cause exit code 1: they
fail now and did not fail in the baseline.")]
pub(crate) struct Args {
    /// Controller to judge: one of 'fathom controllers' with its options, or a native controller of
    /// the stack, such as native:bbr.
    #[arg(required_unless_present_any = ["thresholds", "criteria"])]
    controller: Option<String>,
    /// Document whose criteria are tested: rfc9743, bbr for the test cases in the appendix of
    /// draft-ietf-ccwg-bbr, or rmcat for the test cases of RFC 8867 (live media).
    #[arg(long, value_name = "PROFILE", default_value_t)]
    profile: Profile,
    /// References: controllers with which the judged controller is compared. It has to be no worse
    /// than the worse of them.
    #[arg(long, value_name = "LIST", default_value = "cubic,reno")]
    against: String,
    /// Stack of all connections (see 'fathom stacks').
    #[arg(long, value_name = "STACK", default_value_t)]
    stack: Stack,
    /// Use few values of each axis, with three seeds, and up to ten for undecided combinations. Takes
    /// minutes. This is the default.
    #[arg(long, conflicts_with = "full")]
    quick: bool,
    /// Use all values of each axis, with ten seeds, and twenty for undecided combinations. Takes an
    /// hour.
    #[arg(long)]
    full: bool,
    /// Number of seeds of each combination, whether they decide it or not.
    #[arg(long, value_name = "N", value_parser = numbers::whole::<u64>(1..=MOST_SEEDS))]
    seeds: Option<u64>,
    /// Judge only one criterion (7.8), the criteria below a section (5.1, '5.2.*') or
    /// one test (5.2.1/one-to-one). May be given several times.
    #[arg(long, value_name = "SECTION")]
    only: Vec<String>,
    /// Backend of the tests: virtual, loopback or netem (docs/backends.md). Tests in real time take
    /// their full duration; tests with queues that a backend lacks are left out.
    #[arg(long, value_name = "BACKEND", default_value_t)]
    backend: Backend,
    /// Kernel for --backend netem: host (needs root and sch_netem), uml (boots User-Mode Linux) or
    /// auto.
    #[arg(long, value_name = "KERNEL", default_value_t, value_enum)]
    kernel: Kernel,
    /// Factor for the times of every test, for a quick look or for real time: above 0 and at most
    /// 1.
    #[arg(long, value_name = "X", value_parser = numbers::scale, default_value_t = 1.0)]
    scale: f64,
    /// Older scorecard of the same controller: report which checks have become better or worse
    /// since. Checks that failed in it do not affect the exit code.
    #[arg(long, value_name = "OLD.json")]
    baseline: Option<PathBuf>,
    /// Exit with code 1 also if a criterion is undecided.
    #[arg(long, conflicts_with = "baseline")]
    strict: bool,
    /// Also measure the CPU time per ACK frame and compare it with the first reference's. The time
    /// depends on the machine, so the scorecard includes it only on request.
    #[arg(long)]
    cpu: bool,
    /// Folder of results.
    #[arg(long, value_name = "DIR", default_value = RESULTS)]
    results: PathBuf,
    /// Number of concurrent runs. [default: one per core]
    #[arg(long, value_name = "N", value_parser = numbers::jobs)]
    jobs: Option<NonZero<usize>>,
    /// Judge by the stored runs, for example after an interruption, and run nothing. Checks whose
    /// runs are not complete are undecided.
    #[arg(long, conflicts_with_all = ["backend", "cpu"])]
    only_stored: bool,
    /// List the thresholds with their reasons, and judge nothing.
    #[arg(long)]
    thresholds: bool,
    /// List the criteria with their requirements and tests, and judge nothing.
    #[arg(long, conflicts_with = "thresholds")]
    criteria: bool,
    /// Write one self-contained HTML file with every value beside its threshold.
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Write JUnit XML for continuous integration; undecided checks are skipped.
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// Write the scorecard as JSON; '-' is standard output, and the text then goes to standard
    /// error.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let battery = Battery::shipped(args.profile);
    let Some(controller) = &args.controller else {
        return output::print(&if args.thresholds {
            thresholds(&battery)
        } else {
            criteria(&battery)
        });
    };
    let text = output::check(&[
        ("--report", args.report.as_deref()),
        ("--junit", args.junit.as_deref()),
        ("--json", args.json.as_deref()),
    ])?;
    let old =
        args.baseline.as_deref().map(|file| read_scorecard("--baseline", file)).transpose()?;
    let settings = Settings {
        controller: controller.clone(),
        against: catalogue::split(&args.against),
        stack: args.stack,
        depth: if args.full { Depth::Full } else { Depth::Quick },
        seeds: args.seeds,
        only: args.only.clone(),
        backend: args.backend,
        scale: args.scale,
    };
    let mut plan = JudgePlan::new(battery, settings).map_err(Failure::input)?;
    if let Some(old) = &old {
        check_baseline(old, &plan).map_err(|e| Failure::input(format!("--baseline: {e}")))?;
    }
    let folder = args.results.join(FOLDER);
    let stored_only = args.only_stored
        || if args.backend == Backend::Netem && args.kernel.is_elsewhere()? {
            run_in_guest(&plan, args, &folder)?;
            true
        } else {
            false
        };
    let judge = |plan: &JudgePlan| match stored_only {
        true => Ok(scorecard(plan, &study::stored(&plan.runs, &folder), &BTreeMap::new())),
        false => judge(plan, &folder, args.jobs),
    };
    let mut card = judge(&plan)?;
    while plan.add_seeds(&card).map_err(Failure::input)? {
        if !stored_only {
            output::say("some checks are undecided: more seeds for these");
        }
        let more = judge(&plan)?;
        // Without new results, there is nothing more to decide.
        if more == card {
            break;
        }
        card = more;
    }
    if args.cpu {
        match cpu_per_ack(&plan) {
            Ok(cpu) => card.add_cpu(cpu, &plan),
            Err(why) => output::say(format!("--cpu: not applicable: {why}")),
        }
    }
    let changed = old.as_ref().map(|old| changes(old, &card));
    output::first_failure([
        text.print(&report::text(&card, changed.as_deref())),
        args.json.as_deref().map_or(Ok(()), |file| output::write_json(Some(file), &card)),
        args.junit.as_deref().map_or(Ok(()), |file| output::write(file, &report::junit(&card))),
        output::write_report(args.report.as_deref(), || report::html(&card, changed.as_deref())),
    ])?;
    if card.cpu.as_ref().is_some_and(|cpu| cpu.verdict == Verdict::Fail) {
        return Err(Failure::run("the CPU time per ACK frame is above its threshold"));
    }
    if let Some(changed) = changed {
        let worse = changed.iter().filter(|change| change.direction == Direction::Worse).count();
        return match worse {
            0 => Ok(()),
            _ => Err(Failure::run(format!("{worse} checks became worse than in the baseline"))),
        };
    }
    match (card.verdict(), card.counts.failed) {
        (Verdict::Fail, failed) => Err(Failure::run(format!("{failed} criteria failed"))),
        _ if args.strict && card.counts.not_decided > 0 => Err(Failure::run(format!(
            "{} criteria are undecided; judge with more --seeds",
            card.counts.not_decided
        ))),
        _ => {
            // Exit code 0 does not mean that every criterion passed.
            card.undecided_must().into_iter().for_each(output::say);
            Ok(())
        }
    }
}

/// Executes the runs that are not stored yet. Then judges the controller by all runs.
fn judge(
    plan: &JudgePlan,
    folder: &Path,
    jobs: Option<NonZero<usize>>,
) -> Result<Scorecard, Failure> {
    let (results, failed) = match execute(&plan.runs, &folder.into(), jobs) {
        Ok(results) => (results, BTreeMap::new()),
        // A failed run also says something about the controller.
        Err(StudyError::Runs { failed, .. }) => {
            let failed = failed.into_iter().map(|f| (f.label, f.error.to_string())).collect();
            (study::stored(&plan.runs, folder), failed)
        }
        Err(e) => return Err(crate::plan::failure(e)),
    };
    Ok(scorecard(plan, &results, &failed))
}

/// Executes the runs in User-Mode Linux, which stores their results in the same folder.
fn run_in_guest(plan: &JudgePlan, args: &Args, folder: &Path) -> Result<(), Failure> {
    let Settings { controller, against, stack, depth, seeds, only, backend, scale } =
        &plan.settings;
    let mut words: Vec<OsString> =
        vec!["judge".into(), controller.into(), format!("--{}", depth.name()).into()];
    let mut give =
        |name: &str, value: &dyn std::fmt::Display| words.push(format!("--{name}={value}").into());
    give("profile", &plan.battery.profile);
    give("against", &against.join(","));
    give("stack", stack);
    give("backend", backend);
    give("scale", scale);
    seeds.iter().for_each(|seeds| give("seeds", seeds));
    only.iter().for_each(|only| give("only", only));
    words.extend(["--results".into(), args.results.clone().into()]);
    match kernel::in_guest(&words.iter().map(OsString::as_os_str).collect::<Vec<_>>()) {
        // Exit code 1 means that criteria failed in the guest. They will also fail here.
        Err(failure) if failure.code != 1 => return Err(failure),
        _ => {}
    }
    let results = study::stored(&plan.runs, folder);
    let missing = plan.runs.len() - results.len();
    if missing > 0 {
        return Err(Failure::run(format!(
            "{missing} of {} runs in User-Mode Linux ended without a result; the reasons are above",
            plan.runs.len()
        )));
    }
    Ok(())
}

/// Reads a scorecard. `of` is the argument that names the scorecard.
pub(crate) fn read_scorecard(of: &str, file: &Path) -> Result<Scorecard, Failure> {
    let name = file.display();
    let text = std::fs::read_to_string(file).map_err(|e| {
        Failure::input(format!("{of} '{name}': {e}; name a file of 'fathom judge --json'"))
    })?;
    Scorecard::from_json(&text).map_err(|e| Failure::input(format!("{of} '{name}': {e}")))
}

/// Lists the thresholds, each with its reason and the tests that use it.
fn thresholds(battery: &Battery) -> String {
    let one = |(name, threshold): (&String, &fathom_judge::Threshold)| {
        let uses = |test: &&Test| test.checks.iter().any(|check| check.threshold == *name);
        let tests: Vec<String> = battery
            .criteria
            .iter()
            .flat_map(|c| c.tests.iter().filter(uses).map(|t| format!("{}/{}", c.section, t.name)))
            .collect();
        let tests = if tests.is_empty() { "--cpu".to_owned() } else { tests.join(", ") };
        let (text, basis) = (threshold.text(), threshold.basis.name());
        format!("{name}: {text} ({basis})\n  {}\n  used by {tests}\n", threshold.reason)
    };
    battery.thresholds.iter().map(one).collect()
}

/// Lists the criteria, each with its tests and their checks.
fn criteria(battery: &Battery) -> String {
    let mut text = String::new();
    for criterion in &battery.criteria {
        text += &format!(
            "{} {} ({})\n  {}\n",
            criterion.section,
            criterion.title,
            criterion.strength.word(),
            criterion.asks
        );
        for test in &criterion.tests {
            text += &format!("  {}: {}\n", test.name, test.says);
            for check in &test.checks {
                let threshold = &battery.thresholds[&check.threshold];
                text += &format!("    {}: {}\n", check.text(), threshold.text());
            }
        }
        if let Some(why) = &criterion.not_applicable {
            text += &format!("  not applicable: {why}\n");
        }
    }
    text
}
