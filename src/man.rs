//! `fathom man`: writes manual pages of all commands.

use std::fs;
use std::path::{Path, PathBuf};

use clap_mangen::Man;

use crate::{Failure, output};

/// Write manual pages: one for fathom and one for each command.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  fathom man /usr/local/share/man/man1
  fathom man . && man ./fathom-serve.1")]
pub(crate) struct Args {
    /// Folder for the pages; it is created if it does not exist. Existing pages of the same names
    /// are replaced.
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

pub(crate) fn run(args: &Args, mut cli: clap::Command) -> Result<(), Failure> {
    let folder = &args.folder;
    fs::create_dir_all(folder).map_err(|e| {
        Failure::input(format!("'{}' cannot be created: {e}; name a folder", folder.display()))
    })?;
    // This gives each command its full name, including the names of its parent commands.
    cli.build();
    let mut pages = 0;
    write_pages(&cli, folder, &mut pages)?;
    output::say(format!("{pages} pages in {}", folder.display()));
    Ok(())
}

fn write_pages(command: &clap::Command, folder: &Path, pages: &mut usize) -> Result<(), Failure> {
    let name = command.get_display_name().unwrap_or(command.get_name());
    let mut page = Vec::new();
    let source = concat!("fathom ", env!("CARGO_PKG_VERSION"));
    Man::new(command.clone())
        .source(source)
        .manual("Fathom")
        .render(&mut page)
        .map_err(Failure::run)?;
    output::write(&folder.join(format!("{name}.1")), &String::from_utf8_lossy(&page))?;
    *pages += 1;
    let shown = |c: &&clap::Command| !c.is_hide_set() && c.get_name() != "help";
    command
        .get_subcommands()
        .filter(shown)
        .try_for_each(|command| write_pages(command, folder, pages))
}
