//! `fathom new-controller`: creates a crate for a user's controller in the same clone. The crate is
//! a renamed copy of `own/template`.

use std::path::{Path, PathBuf};
use std::{env, fs, io};

use fathom_cc::catalogue;

use crate::{Failure, output};

/// Create a crate for your own congestion controller, in a clone of Fathom.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  fathom new-controller mine
  fathom new-controller mine --fathom ~/src/fathom

Creates own/NAME in the clone: a small controller to start from, its tests, a
program fathom that includes the controller, and a README with the steps to a
scorecard. Git ignores the folder, so make it a repository of its own.")]
pub(crate) struct Args {
    /// The controller's name: lower-case letters, digits and hyphens, beginning with a letter.
    name: String,
    /// A clone of Fathom. [default: the clone that contains the current directory]
    #[arg(long, value_name = "DIR")]
    fathom: Option<PathBuf>,
}

/// Folder of users' controllers in a clone. `TEMPLATE` is the template's folder in it.
const OWN: &str = "own";
const TEMPLATE: &str = "template";
/// Names of the template: of the controller and package, and of the crate in code.
const PLACEHOLDERS: [&str; 2] = ["template-controller", "template_controller"];
/// Maximum length of a name, so that names fit into the columns of tables.
const LONGEST: usize = 40;
/// Names that a crate cannot have: the names of the language's own crates, which it would hide, the
/// name of the template's folder, and `native`, which specs use for a stack's own controllers.
const RESERVED: [&str; 7] = ["alloc", "core", "native", "proc-macro", "std", "template", "test"];
/// Rust's keywords and reserved words in lower case (Rust Reference, "Keywords", edition 2024).
const KEYWORDS: &str = " abstract as async await become box break const continue crate do dyn else enum extern false final fn for gen if impl \
    in let loop macro match mod move mut override priv pub ref return self static struct super trait true try type typeof unsafe unsized use \
    virtual where while yield ";

/// Features of this program that the template also has. With different features, Cargo would
/// rebuild all crates.
const FEATURES: &str = if cfg!(feature = "quiche") { " --features quiche" } else { "" };

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let name = &args.name;
    check_name(name)?;
    let clone = clone(args.fathom.as_deref())?;
    let lock = clone.join("Cargo.lock");
    let locked = fs::read_to_string(&lock).unwrap_or_default();
    if locked.contains(&format!("\nname = \"{name}\"\n")) {
        return Err(Failure::input(format!(
            "the clone has a package '{name}' already; choose another name"
        )));
    }
    let made = clone.join(OWN).join(name);
    let failed = |e: io::Error| match e.kind() {
        io::ErrorKind::AlreadyExists => {
            Failure::input(format!("'{}' exists already; choose another name", made.display()))
        }
        _ => Failure::run(format!("'{}' cannot be written: {e}", made.display())),
    };
    fs::create_dir(&made).map_err(failed)?;
    copy(&clone.join(OWN).join(TEMPLATE), &made, name).map_err(|e| {
        // An incomplete crate would break every build of the clone.
        let _ = fs::remove_dir_all(&made);
        failed(e)
    })?;
    // If this fails, Cargo itself updates the lock file and rebuilds more than necessary.
    let _ = with_package(&locked, name).map(|text| write_as_old(&lock, &text));
    let within = env::current_dir().is_ok_and(|here| here.starts_with(&clone));
    let go = if within { String::new() } else { format!("  cd {}\n", clone.display()) };
    output::print(&format!(
        "'{}' is written. src/lib.rs contains the controller's decision, and README.md explains \
         the rest. Next:\n{go}  cargo test --release -p {name}{FEATURES}\n  cargo run --release -p \
         {name}{FEATURES} -- judge {name}\n",
        made.display()
    ))
}

fn check_name(name: &str) -> Result<(), Failure> {
    let shown = output::plain(name);
    if !catalogue::is_name(name) || name.len() > LONGEST {
        return Err(Failure::input(format!(
            "'{shown}' is not a valid name for a controller; use at most {LONGEST} lower-case \
             letters, digits and hyphens, beginning with a letter"
        )));
    }
    if catalogue::find(name).is_ok() {
        return Err(Failure::input(format!(
            "there is a controller '{shown}' already; choose another name"
        )));
    }
    if RESERVED.contains(&name) || KEYWORDS.contains(&format!(" {name} ")) {
        return Err(Failure::input(format!(
            "'{shown}' is reserved here or in Rust; choose another name"
        )));
    }
    Ok(())
}

/// Returns the clone that `--fathom` names, or the one that contains the current directory.
fn clone(named: Option<&Path>) -> Result<PathBuf, Failure> {
    let is_clone = |dir: &&Path| dir.join(OWN).join(TEMPLATE).join("Cargo.toml").is_file();
    match named {
        Some(dir) => Some(dir).filter(is_clone).map(Path::to_owned).ok_or_else(|| {
            Failure::input(format!(
                "--fathom '{}': the folder is not a clone of Fathom; name the folder of a clone",
                dir.display()
            ))
        }),
        None => env::current_dir()
            .ok()
            .and_then(|here| here.ancestors().find(is_clone).map(Path::to_owned))
            .ok_or_else(|| {
                Failure::input(
                    "the current folder is not in a clone of Fathom; change to a clone, or name a \
                     clone with --fathom DIR",
                )
            }),
    }
}

/// Returns the lock file with an entry for the new package. The entry is a copy of the template's
/// entry, at the place where Cargo would put it.
fn with_package(lock: &str, name: &str) -> Option<String> {
    let [template, _] = PLACEHOLDERS;
    let named = |entry: &str| entry.split('"').nth(1).unwrap_or_default().to_owned();
    const ENTRY: &str = "[[package]]\n";
    let (head, packages) = lock.split_once(ENTRY)?;
    let mut packages: Vec<String> =
        packages.split(ENTRY).map(|entry| entry.trim_end().to_owned()).collect();
    let new = packages.iter().find(|entry| named(entry) == template)?.replacen(template, name, 1);
    let at = packages.partition_point(|entry| *named(entry) < *name);
    packages.insert(at, new);
    let packages: Vec<String> =
        packages.into_iter().map(|entry| format!("{ENTRY}{entry}\n")).collect();
    Some(head.to_owned() + &packages.join("\n"))
}

/// Writes a file and keeps its modification time. A build script reads the versions of stacks from
/// the lock file; with a new modification time, Cargo would rebuild the crates that depend on this
/// script, which takes minutes.
fn write_as_old(path: &Path, text: &str) -> io::Result<()> {
    let modified = fs::metadata(path)?.modified()?;
    fs::write(path, text)?;
    fs::File::options().write(true).open(path)?.set_modified(modified)
}

/// Copies a folder of text files, with the template's name replaced by `name`.
fn copy(from: &Path, to: &Path, name: &str) -> io::Result<()> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let to = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            fs::create_dir(&to)?;
            copy(&entry.path(), &to, name)?;
        } else {
            let text = fs::read_to_string(entry.path())?;
            let [package, code] = PLACEHOLDERS;
            fs::write(to, text.replace(package, name).replace(code, &name.replace('-', "_")))?;
        }
    }
    Ok(())
}
