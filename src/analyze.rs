//! `fathom analyze`: analyses existing logs and tables.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use fathom_analyze::report;
use fathom_analyze::{
    AnalyzeError, Kept, LeftOut, Page, Source, by_controller, compare, gather, gather_folder,
    grouped, loss_delay, response,
};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use crate::{Failure, output};

/// Size of files in bytes from which a progress bar is shown while they are read.
const LARGE: u64 = 20 << 20;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  fathom analyze loss-delay server.qlog --report loss.html
  fathom analyze response logs/*.sqlog
  fathom analyze compare reno.csv sync.csv --json -

Logs are qlog files of any stack: .qlog (one JSON document) or .sqlog (JSON text
sequences), of any draft, plain or compressed (.gz, .zst). Tables are files
of 'fathom load --csv'. A folder stands for all logs and tables in it; '-' is
standard input.")]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand)]
enum What {
    /// Show whether delay predicted loss on this path, and the cost of a controller that reacts to
    /// delay.
    #[command(after_help = "Examples:
  fathom analyze loss-delay server.qlog
  fathom analyze loss-delay logs/*.sqlog --report loss.html

Repeats the analysis that Martin, Nilsson and Rhee made for the Internet of 1999
(the DCA paper). It shows how often the round-trip time rises before a loss, how
often this happens by chance, the delay before and after losses, and the predicted
change of throughput.")]
    LossDelay(Question),
    /// Show how long responses took, by size.
    #[command(after_help = "Examples:
  fathom analyze response client.sqlog
  fathom analyze response load.csv --json -

In a log, a response time runs from the first byte of a request to the last byte
of its response, as STREAM frames or the events of fathom serve show. In a table,
a response time runs from the intended start.")]
    Response(Question),
    /// Compare the measures of several files with those of the first file.
    #[command(after_help = "Examples:
  fathom analyze compare reno.sqlog sync.sqlog
  fathom analyze compare logs-reno logs-sync
  fathom analyze compare before.csv after.csv --report change.html
  fathom analyze compare logs --by controller

--by controller reads the logs of one 'fathom serve --qlog' that divides its
connections among controllers. It prints response times, round trips and losses
of each controller, with intervals over connections, and the differences from
the first.")]
    Compare(Compare),
}

#[derive(clap::Args)]
struct Compare {
    #[command(flatten)]
    question: Question,
    /// Compare by file or by controller. With 'controller', all files come from one server, and
    /// each connection belongs to the controller that its log names.
    #[arg(long, value_name = "WHAT", default_value = "file")]
    by: By,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum By {
    File,
    Controller,
}

#[derive(clap::Args)]
struct Question {
    /// Logs (.qlog, .sqlog) or tables (.csv); a folder stands for all logs and tables in it and
    /// counts as one file.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Write the results as JSON; '-' is standard output, and the text then goes to standard error.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write one self-contained HTML file with plots.
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    match &args.what {
        What::LossDelay(q) => answer(q, loss_delay, |a| a.page()),
        What::Response(q) => answer(q, response, |a| a.page()),
        What::Compare(Compare { question: q, by: By::File }) => answer(q, compare, |a| a.page()),
        What::Compare(Compare { question: q, by: By::Controller }) => {
            answer(q, by_controller, |a| a.page())
        }
    }
}

/// An answer in JSON. The warnings come first.
#[derive(Serialize)]
struct Warned<'a, A> {
    warnings: &'a [String],
    #[serde(flatten)]
    answer: &'a A,
}

fn answer<A: Serialize>(
    question: &Question,
    analyze: impl FnOnce(Vec<Source>) -> Result<A, AnalyzeError>,
    page: impl FnOnce(&A) -> Page,
) -> Result<(), Failure> {
    let text = output::check(&[
        ("--report", question.report.as_deref()),
        ("--json", question.json.as_deref()),
    ])?;
    let (sources, full) = read(&question.files)?;
    let warnings =
        grouped(sources.iter().flat_map(|source| source.warnings.iter().cloned()).collect());
    let answer = analyze(sources).map_err(Failure::input)?;
    let mut page = Page { warnings: warnings.clone(), ..page(&answer) };
    if full {
        page.cautions.push(
            "These files contain more data than fathom keeps in memory; the last part was left out."
                .into(),
        );
    }
    publish(question, text, &Warned { warnings: &warnings, answer: &answer }, &page)
}

/// Returns a progress bar over the bytes of files. It is hidden if the files are small, or if
/// standard error is not a terminal.
pub(crate) fn reading_bar(files: &[PathBuf]) -> ProgressBar {
    let size = files.iter().map(|f| size(f)).sum();
    let bar = if size >= LARGE && std::io::stderr().is_terminal() {
        ProgressBar::new(size)
    } else {
        ProgressBar::hidden()
    };
    let bar = output::bar(bar);
    let style = ProgressStyle::with_template("{bar:40} {bytes} of {total_bytes}, {eta} left");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar
}

/// Returns the size in bytes of a file, or of all files in a folder.
fn size(path: &Path) -> u64 {
    let of = |path: &Path| std::fs::metadata(path).map_or(0, |m| m.len());
    let inside = || {
        std::fs::read_dir(path).into_iter().flatten().flatten().map(|entry| of(&entry.path())).sum()
    };
    if path.is_dir() { inside() } else { of(path) }
}

fn read(files: &[PathBuf]) -> Result<(Vec<Source>, bool), Failure> {
    let bar = reading_bar(files);
    let mut kept = Kept::default();
    let mut sources: Vec<Source> = Vec::new();
    let (mut left_out, mut empty) = (LeftOut::default(), None);
    for file in files {
        let read = if file.is_dir() { gather_folder } else { gather };
        match read(file, &mut kept, &mut |n| bar.inc(n)) {
            Ok(source) => sources.push(source),
            // One of many logs (`logs/*.sqlog`) may be empty, for example that of a connection that
            // was never established. This does not prevent the analysis of the other logs.
            Err(e @ AnalyzeError::Empty(..)) if files.len() > 1 => {
                left_out.failed(file, &e);
                empty = Some(e);
            }
            Err(e) => return Err(Failure::input(e)),
        }
    }
    bar.finish_and_clear();
    match (sources.first_mut(), empty) {
        (None, Some(e)) => return Err(Failure::input(e)),
        (None, None) => {}
        (Some(first), _) => {
            first.warnings.extend(left_out.words().map(|words| format!("left out: {words}")))
        }
    }
    Ok((sources, kept.full))
}

fn publish(
    question: &Question,
    text: output::Text,
    answer: &impl Serialize,
    page: &Page,
) -> Result<(), Failure> {
    output::first_failure([
        text.print(&report::text(page)),
        output::write_json(question.json.as_deref(), answer),
        output::write_report(question.report.as_deref(), || report::html(page)),
    ])
}
