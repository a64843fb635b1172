//! Reports invalid arguments in one line with a hint.

use std::process::ExitCode;

use clap::Command;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::output;

/// Prints help and version like clap, and other errors in one line with a hint. Returns the exit
/// code.
pub(crate) fn print_error(e: &clap::Error, cli: &Command) -> ExitCode {
    if !e.use_stderr() || e.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        let _ = e.print();
        return ExitCode::from(if e.use_stderr() { 2 } else { 0 });
    }
    let words: Vec<String> =
        std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    let what = negative(e, &words).unwrap_or_else(|| in_a_line(e));
    output::say(format!("fathom: {}; see '{} --help'", output::plain(&what), command(cli, &words)));
    ExitCode::from(2)
}

/// Returns clap's error in one line, without the usage and without the reference to the help.
fn in_a_line(e: &clap::Error) -> String {
    let text = e.render().to_string();
    let mut lines = text.lines().map(str::trim).filter(|l| !l.is_empty());
    let first =
        lines.next().unwrap_or("invalid arguments").trim_start_matches("error: ").to_owned();
    let over = |l: &str| l.starts_with("Usage:") || l.starts_with("For more information");
    // Leave out the tip to pass a value after `--`, because none of our options takes a value that
    // looks like an option.
    let more: Vec<&str> =
        lines.take_while(|l| !over(l)).filter(|l| !l.starts_with("tip: to pass")).collect();
    if more.is_empty() { first } else { format!("{first} {}", more.join(" ")) }
}

/// Returns the error for a negative number, which clap interprets as an unknown option.
fn negative(e: &clap::Error, words: &[String]) -> Option<String> {
    let ContextValue::String(unknown) = e.get(ContextKind::InvalidArg)? else { return None };
    let is_number = |word: &str| {
        word.strip_prefix('-')
            .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit() || c == '.'))
    };
    if e.kind() != ErrorKind::UnknownArgument || !is_number(unknown) {
        return None;
    }
    let at = words.iter().position(|word| is_number(word) && word.starts_with(unknown.as_str()))?;
    let (number, option) = (&words[at], at.checked_sub(1).map(|before| &words[before]));
    let of = option
        .filter(|word| word.starts_with('-') && !is_number(word))
        .map(|word| format!(" for '{word}'"));
    let of = of.unwrap_or_default();
    Some(format!(
        "invalid value '{number}'{of}: the number is negative; write it without the minus sign, \
         such as {}",
        &number[1..]
    ))
}

/// Returns the full name of the subcommand in `words`, as users call it.
fn command(cli: &Command, words: &[String]) -> String {
    let (mut at, mut name) = (cli, cli.get_name().to_owned());
    for word in words.iter().filter(|word| !word.starts_with('-')) {
        match at.find_subcommand(word) {
            Some(next) => {
                name = format!("{name} {}", next.get_name());
                at = next;
            }
            None => break,
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_errors_name_the_subcommand() {
        let cli =
            Command::new("fathom").subcommand(Command::new("plan").subcommand(Command::new("run")));
        let named = |words: &[&str]| {
            command(&cli, &words.iter().map(|w| (*w).to_owned()).collect::<Vec<_>>())
        };
        assert_eq!(named(&["plan", "run", "x", "--scale", "2"]), "fathom plan run");
        assert_eq!(named(&["-v", "plan", "rum"]), "fathom plan");
        assert_eq!(named(&["plam"]), "fathom");
    }
}
