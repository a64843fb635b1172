//! `fathom completions`: prints the script with which a shell completes commands and options.

use std::io::Write;

use clap_complete::{Shell, generate};

use crate::{Failure, output};

/// Print completions of commands and options for a shell.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  fathom completions bash > /etc/bash_completion.d/fathom
  fathom completions zsh > \"${fpath[1]}/_fathom\"
  fathom completions fish > ~/.config/fish/completions/fathom.fish")]
pub(crate) struct Args {
    /// Shell.
    shell: Shell,
}

pub(crate) fn run(args: &Args, mut cli: clap::Command) -> Result<(), Failure> {
    let mut text = Vec::new();
    let name = cli.get_name().to_owned();
    generate(args.shell, &mut cli, name, &mut text);
    text.flush().map_err(Failure::run)?;
    output::print(String::from_utf8_lossy(&text).trim_end())
}
