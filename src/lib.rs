//! The `fathom` command as a library. [`run_with`] is the whole interface, for programs that add
//! their own controllers (`fathom new-controller` creates such a program). This crate parses
//! arguments, calls the crates that do the work, and prints their results.

mod advise;
mod allocator;
mod analyze;
mod client_args;
mod compare;
mod completions;
mod controllers;
mod diagnostics;
mod judge;
mod kernel;
mod league;
mod link;
mod load;
mod man;
mod new_controller;
mod numbers;
mod output;
mod path_args;
mod paths;
mod plan;
mod probe;
mod progress;
mod proxy_args;
mod qlog;
mod reproduce;
mod serve;
mod service_manager;
mod signals;
mod stacks;
mod toml_file;
mod usage;
mod version;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use fathom_cc::catalogue::{self, Algorithm};
use fathom_papers::PAPERS;

const FILES: &str = "\
One option per command that names a file accepts '-' for standard output. Symbolic
links are followed, file modes are kept, and devices and FIFOs are written in
place. Exit codes: 1: failure, 2: invalid input, 130: interrupted.";

/// Delay-based congestion controllers for QUIC, and a laboratory to compare them.
#[derive(Parser)]
#[command(name = "fathom", version, long_version = version::long(), arg_required_else_help = true, after_help = FILES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    verbosity: diagnostics::Verbosity,
}

#[derive(Subcommand)]
enum Command {
    /// Recommend a controller for your clients, from logs of your server or for a path.
    Advise(Box<advise::Args>),
    /// Analyze qlog files and load results: delay before loss, response times, comparisons.
    Analyze(Box<analyze::Args>),
    /// Run the same web traffic under several controllers in virtual time and compare response
    /// times.
    Compare(Box<compare::Args>),
    /// Print completions of commands and options for a shell.
    Completions(completions::Args),
    /// List the congestion controllers with their options, requirements and sources.
    Controllers(controllers::Args),
    /// Judge a congestion controller by the criteria of RFC 9743.
    Judge(Box<judge::Args>),
    /// Compare scorecards of controllers in one table.
    League(league::Args),
    /// Emulate a link between clients and a server in real time: delay, queue, loss, reordering,
    /// corruption.
    Link(Box<link::Args>),
    /// Generate HTTP/3 load and report response times.
    Load(Box<load::Args>),
    /// Write manual pages of all commands.
    Man(man::Args),
    /// Create a crate for your own congestion controller, in a clone of Fathom.
    NewController(new_controller::Args),
    /// List the named paths and the link models, with their parameters and sources.
    Paths(paths::Args),
    /// List, show, check and run studies: parameter sweeps that answer one question each.
    Plan(plan::Args),
    /// Probe servers for timestamp extensions, ECN support and ACK behaviour.
    Probe(probe::Args),
    /// Convert qlog files for qvis.
    Qlog(qlog::Args),
    /// Reproduce a paper's experiments: print its tables and figures beside the paper's own, and
    /// check its claims.
    Reproduce(reproduce::Args),
    /// Serve files, synthetic bodies or an upstream server over HTTP/3 with selectable congestion
    /// controllers.
    Serve(Box<serve::Args>),
    /// List the QUIC stacks: capabilities, supported controllers and native controllers.
    Stacks(stacks::Args),
}

/// A failure as shown to the user: one line, and the exit code.
struct Failure {
    line: String,
    code: u8,
}

impl Failure {
    /// Returns a failure for invalid input (exit code 2). The line says what is wrong and gives a
    /// hint.
    fn input(line: impl std::fmt::Display) -> Self {
        Self { line: line.to_string(), code: 2 }
    }

    /// Returns any other failure (exit code 1).
    fn run(line: impl std::fmt::Display) -> Self {
        Self { line: line.to_string(), code: 1 }
    }
}

impl Command {
    fn run(&self) -> Result<(), Failure> {
        match self {
            Self::Advise(args) => advise::run(args),
            Self::Analyze(args) => analyze::run(args),
            Self::Compare(args) => compare::run(args),
            Self::Completions(args) => completions::run(args, Cli::command()),
            Self::Controllers(args) => controllers::run(args),
            Self::Judge(args) => judge::run(args),
            Self::League(args) => league::run(args),
            Self::Link(args) => link::run(args),
            Self::Load(args) => load::run(args),
            Self::Man(args) => man::run(args, Cli::command()),
            Self::NewController(args) => new_controller::run(args),
            Self::Paths(args) => paths::run(args),
            Self::Plan(args) => plan::run(args),
            Self::Probe(args) => probe::run(args),
            Self::Qlog(args) => qlog::run(args),
            Self::Reproduce(args) => reproduce::run(PAPERS, args),
            Self::Serve(args) => serve::run(args),
            Self::Stacks(args) => stacks::run(args),
        }
    }
}

/// Runs the command in the program's arguments. Every command accepts `controllers` by name, in
/// addition to Fathom's own. A process can add controllers only once, by this function or by
/// [`fathom_cc::catalogue::extend`].
///
/// Returns the program's exit code: 0 done, 1 failure, 2 invalid input (including a controller
/// whose name is taken), 130 interrupted. The program chooses its own allocator. `fathom` uses
/// mimalloc, which saves a server a tenth of its CPU time for short connections.
pub fn run_with(controllers: &'static [Algorithm]) -> ExitCode {
    // Do this first, because the arguments may name these controllers.
    let added = catalogue::extend(controllers).map_err(Failure::input);
    let outcome = match Cli::try_parse() {
        Ok(Cli { command, verbosity }) => {
            added.and_then(|()| verbosity.apply()).and_then(|()| command.run())
        }
        Err(e) => return usage::print_error(&e, &Cli::command()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            // This keeps the message on one line.
            output::say(format!("fathom: {}", failure.line.replace('\n', "; ")));
            ExitCode::from(failure.code)
        }
    }
}

/// Parses the arguments of a command line, without the program's name, and runs nothing. Tests
/// check the examples on documentation pages with it.
///
/// # Errors
/// Returns clap's error if the arguments are invalid.
#[doc(hidden)]
pub fn check_command_line(words: &[String]) -> Result<(), clap::Error> {
    let all = std::iter::once("fathom").chain(words.iter().map(String::as_str));
    match Cli::try_parse_from(all) {
        Err(e) if e.use_stderr() => Err(e),
        // Help and version are also valid command lines.
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a command and all commands below it.
    fn all(command: &clap::Command) -> Vec<&clap::Command> {
        let below = command.get_subcommands().filter(|sub| sub.get_name() != "help");
        std::iter::once(command).chain(below.flat_map(all)).collect()
    }

    #[test]
    fn command_examples_in_help_texts_are_valid() {
        let cli = Cli::command();
        let mut parsed = 0;
        for command in all(&cli) {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            for example in help
                .lines()
                .flat_map(|line| line.split("; "))
                .map(str::trim)
                .filter(|l| l.starts_with("fathom "))
            {
                // A gap of two spaces separates an example from its description.
                let example = example.split("  ").next().unwrap_or_default();
                let example = [" > ", " && "]
                    .iter()
                    .fold(example, |e, end| e.split(end).next().unwrap_or_default());
                // Quotes work as in a shell: every second part was quoted and is one word.
                let parts = example.split('\'').enumerate();
                let words: Vec<String> = parts
                    .flat_map(|(i, part)| match i % 2 {
                        0 => part.split_whitespace().map(str::to_owned).collect::<Vec<_>>(),
                        _ => vec![part.to_owned()],
                    })
                    .skip(1)
                    .collect();
                parsed += 1;
                check_command_line(&words).unwrap_or_else(|e| panic!("{example}: {e}"));
            }
        }
        assert!(parsed > 50, "{parsed} examples");
    }

    /// Hints quote commands, such as `'fathom plan list' lists them`. Every quoted command and
    /// option must exist.
    #[test]
    fn commands_named_in_messages_exist() {
        let cli = Cli::command();
        // The quotation is split in two, because the test also searches this file.
        let quote = ["'", "fathom "].concat();
        let (mut found, mut faults) = (0, Vec::new());
        let mut folders = vec![std::path::PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("src")];
        folders.push(std::path::PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("bench"));
        while let Some(folder) = folders.pop() {
            for path in
                std::fs::read_dir(folder).expect("a folder").flatten().map(|entry| entry.path())
            {
                if path.is_dir() && path.file_name().is_some_and(|name| name != "target") {
                    folders.push(path);
                } else if path.extension().is_some_and(|extension| extension == "rs") {
                    let text = std::fs::read_to_string(&path).expect("text");
                    let quoted = text
                        .split(quote.as_str())
                        .skip(1)
                        .filter_map(|rest| rest.split('\'').next());
                    for words in
                        quoted.filter(|words| !words.contains('\n') && !words.contains('{'))
                    {
                        found += 1;
                        faults.extend(
                            unknown(&cli, words)
                                .map(|e| format!("{}: 'fathom {words}': {e}", path.display())),
                        );
                    }
                }
            }
        }
        assert!(faults.is_empty(), "{}", faults.join("\n"));
        assert!(found > 30, "{found} commands");
    }

    /// Returns an error for the first word that should be a command or an option but is neither.
    fn unknown(cli: &clap::Command, words: &str) -> Option<String> {
        let mut at = cli;
        for (i, word) in words.split_whitespace().enumerate() {
            let has = |name: &str| {
                let is = |arg: &clap::Arg| {
                    arg.get_long() == Some(name)
                        || arg.get_all_aliases().is_some_and(|all| all.contains(&name))
                };
                at.get_arguments().any(is) || ["help", "version"].contains(&name)
            };
            if let Some(long) = word.strip_prefix("--") {
                if !has(long.split('=').next().unwrap_or_default()) {
                    return Some(format!("there is no option '{word}'"));
                }
            } else if let Some(sub) = at.find_subcommand(word) {
                at = sub;
            } else if i == 0 || at.has_subcommands() {
                return Some(format!("there is no command '{word}'"));
            }
        }
        None
    }

    /// The commands that are HTTP/3 clients share the definition of their options, so all names and
    /// short names are equal.
    #[test]
    fn client_commands_share_the_same_options() {
        let cli = Cli::command();
        let of = |name: &str| {
            let command = cli.find_subcommand(name).unwrap_or_else(|| panic!("{name}"));
            let names = |arg: &clap::Arg| {
                (
                    arg.get_long().map(str::to_owned),
                    arg.get_short(),
                    arg.get_all_aliases().map(|a| a.join(",")),
                )
            };
            let shared = ["insecure", "ca", "connect_to", "resolve"];
            shared.map(|id| {
                command
                    .get_arguments()
                    .find(|arg| arg.get_id() == id)
                    .map(names)
                    .unwrap_or_else(|| panic!("{name} {id}"))
            })
        };
        assert_eq!(of("load"), of("probe"));
        let ca = &of("probe")[1];
        assert_eq!((of("probe")[0].1, ca.2.as_deref()), (Some('k'), Some("cacert")));
    }

    /// A command has examples of its own, or the command above it has some.
    #[test]
    fn every_command_has_examples() {
        fn check(command: &clap::Command, above: bool) {
            let has =
                command.get_after_help().is_some_and(|help| help.to_string().contains("Example"))
                    || above;
            for sub in command.get_subcommands().filter(|sub| sub.get_name() != "help") {
                check(sub, has && command.get_name() != "fathom");
            }
            assert!(
                has || command.get_name() == "fathom",
                "'{}' has no examples",
                command.get_name()
            );
        }
        check(&Cli::command(), false);
    }

    #[test]
    fn command_line_options_are_consistent() {
        Cli::command().debug_assert();
    }
}
