//! `fathom qlog`: converts qlog files.

use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use fathom_qlog::{ExportError, export};

use crate::{Failure, output};

#[derive(clap::Args)]
#[command(after_help = "Example:
  fathom qlog export server.sqlog --to qvis --output server.qlog")]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand)]
enum What {
    /// Convert a qlog file to another format.
    Export(Export),
}

/// Convert a qlog file of any stack to another format.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  fathom qlog export logs/c0ffee_server.sqlog --to qvis
  fathom qlog export server.qlog --to qvis --output -

qvis reads qlog 0.3: one JSON document with that draft's event names. Current
stacks and fathom serve write newer event names as JSON text sequences.")]
struct Export {
    /// qlog file to read: .qlog or .sqlog, plain or compressed (.gz, .zst); '-' is standard input.
    file: PathBuf,
    /// Output format.
    #[arg(long, value_name = "FORM")]
    to: Form,
    /// Output file; '-' is standard output. [default: NAME.qvis.qlog beside the log]
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Form {
    /// qlog 0.3 as one JSON document.
    Qvis,
}

/// Returns the default output file, which is next to the log. Its name is the log's name without
/// the suffix of the compression, and with the extension `.qvis.qlog`. For standard input, returns
/// standard output.
fn beside(log: &Path) -> PathBuf {
    if log.as_os_str() == "-" {
        return log.to_owned();
    }
    let is_packed = log
        .extension()
        .is_some_and(|end| ["gz", "zst", "zstd"].iter().any(|packed| end == *packed));
    let plain = if is_packed { log.with_extension("") } else { log.to_owned() };
    plain.with_extension("qvis.qlog")
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let What::Export(args) = &args.what;
    let Form::Qvis = args.to;
    let to = args.output.clone().unwrap_or_else(|| beside(&args.file));
    if to == args.file {
        return Err(Failure::input(format!(
            "'{}' would be overwritten; name another file with --output",
            to.display()
        )));
    }
    output::check(&[("--output", Some(&to))])?;
    let failed = |e: ExportError| {
        let line = format!("'{}' {e}", args.file.display());
        if matches!(e, ExportError::Write(_)) { Failure::run(line) } else { Failure::input(line) }
    };
    let write = |into: &mut (dyn Write + Send)| {
        let mut into = BufWriter::new(into);
        let summary = export(&args.file, &mut into, &mut |_| {}).map_err(failed)?;
        into.flush().map_err(|e| failed(e.into()))?;
        Ok(summary)
    };
    let summary = output::write_with(&to, write)?;
    if to != Path::new("-") {
        output::say(format!("{}: {} events", to.display(), summary.events));
    }
    for warning in &summary.warnings {
        output::say(format!("warning: {}", output::plain(warning)));
    }
    if let Some(m) = summary.malformed {
        let (records, first, why) = (m.records, m.first, output::plain(&m.why.to_string()));
        output::say(format!(
            "skipped {records} unreadable records; the first of them is record {first}: {why}"
        ));
    }
    Ok(())
}
