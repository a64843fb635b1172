//! Copies the sources of stock quiche, applies the patch, and redirects the clock.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::error::Error;

/// SHA-256 of stock's published `src/**/*.rs`. The input is, for each file in the order of names:
/// its name with `/`, its length in 8 bytes (most significant first), and its bytes.
const SOURCES: &str = "ca372aedf44b0573bb477b62007bf904696d4608c2ff97c00d796052484ea5cf";

/// Expression with which stock reads the clock, also in comments and tests. Each occurrence is
/// redirected to our clock. `SystemTime::now()` is not changed, because it is read only once, for
/// the start time in a qlog file.
const CLOCK: &str = "Instant::now()";
const CLOCK_READS: usize = 106;
/// Expression that also reads the clock.
const HIDDEN_CLOCK: &str = ".elapsed()";
/// Prefix of the certificates that stock's tests read, relative to its package.
const EXAMPLES: &str = "\"examples/";
const EXAMPLES_READ: usize = 240;

type Tree = BTreeMap<PathBuf, String>;

/// Writes the derived sources to `to`. `patches` is a folder of unified diffs, applied in the order
/// of their names.
pub fn assemble(stock: &Path, patches: &Path, to: &Path) -> Result<(), Error> {
    let mut tree = Tree::new();
    read(&stock.join("src"), Path::new(""), &mut tree)?;
    check_published(&tree, stock)?;
    expect(&tree, CLOCK, CLOCK_READS)?;
    expect(&tree, HIDDEN_CLOCK, 1)?;
    expect(&tree, EXAMPLES, EXAMPLES_READ)?;
    for patch in sorted(patches)?.iter().filter(|p| p.extension().is_some_and(|e| e == "patch")) {
        apply(patch, &mut tree)?;
    }
    own_attributes(&mut tree)?;
    set_clock(&mut tree)?;
    name_examples(&mut tree, stock)?;
    write(&tree, to)
}

fn sorted(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut paths: Vec<_> =
        std::fs::read_dir(folder).map_err(Error::io(folder))?.flatten().map(|e| e.path()).collect();
    paths.sort();
    Ok(paths)
}

fn read(folder: &Path, name: &Path, tree: &mut Tree) -> Result<(), Error> {
    for path in sorted(folder)? {
        let name = name.join(path.file_name().expect("an entry has a name"));
        if path.is_dir() {
            read(&path, &name, tree)?;
        } else if path.extension().is_some_and(|e| e == "rs") {
            tree.insert(name, std::fs::read_to_string(&path).map_err(Error::io(&path))?);
        }
    }
    Ok(())
}

/// Checks that the sources are those for which the patch was made and reviewed, because they become
/// part of every program built here.
fn check_published(tree: &Tree, stock: &Path) -> Result<(), Error> {
    let mut sum = Sha256::new();
    for (name, text) in tree {
        let name = name.to_str().ok_or_else(|| Error::NotUtf8(name.clone()))?.replace('\\', "/");
        sum.update(name.as_bytes());
        sum.update((text.len() as u64).to_be_bytes());
        sum.update(text.as_bytes());
    }
    let found: String = sum.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    if found == SOURCES {
        return Ok(());
    }
    Err(Error::Changed { stock: stock.to_owned(), found, published: SOURCES })
}

/// Applies one patch file, with diffs of one or several sources.
fn apply(patch: &Path, tree: &mut Tree) -> Result<(), Error> {
    let name = || patch.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let text = std::fs::read_to_string(patch).map_err(Error::io(patch))?;
    let mut starts: Vec<usize> = text.match_indices("\n--- a/").map(|(at, _)| at + 1).collect();
    if text.starts_with("--- a/") {
        starts.insert(0, 0);
    }
    if starts.is_empty() {
        return Err(Error::NoDiff { patch: name() });
    }
    let ends = starts.iter().skip(1).copied().chain([text.len()]);
    for (start, end) in starts.iter().zip(ends) {
        let diff = body(&text[*start..end]);
        let file = diff
            .lines()
            .next()
            .unwrap_or_default()
            .trim_start_matches("--- a/src/")
            .trim()
            .to_owned();
        let parsed = diffy::Patch::from_str(&diff).map_err(|why| Error::BadDiff {
            patch: name(),
            file: file.clone(),
            why,
        })?;
        let old = tree
            .get(Path::new(&file))
            .ok_or_else(|| Error::NoFile { patch: name(), file: file.clone() })?;
        let new = diffy::apply(old, &parsed).map_err(|why| Error::DoesNotFit {
            patch: name(),
            file: file.clone(),
            why,
        })?;
        tree.insert(PathBuf::from(file), new);
    }
    Ok(())
}

/// Returns a file's diff without git's lines after it.
fn body(diff: &str) -> String {
    let mut lines: Vec<&str> = diff.lines().take_while(|l| !l.starts_with("diff --git")).collect();
    lines.push("");
    lines.join("\n")
}

/// Checks how often stock's sources contain `text`. A different count means a different version of
/// quiche.
fn expect(tree: &Tree, text: &'static str, expected: usize) -> Result<(), Error> {
    let found = tree.values().map(|file| file.matches(text).count()).sum::<usize>();
    if found == expected {
        Ok(())
    } else {
        Err(Error::Count { text, found, expected })
    }
}

fn replace(tree: &mut Tree, from: &str, to: &str) {
    for text in tree.values_mut().filter(|text| text.contains(from)) {
        *text = text.replace(from, to);
    }
}

/// Removes the attributes and the documentation of `lib.rs`, because an included file cannot have
/// its own attributes. Our `lib.rs` has both.
fn own_attributes(tree: &mut Tree) -> Result<(), Error> {
    let lib = tree.get_mut(Path::new("lib.rs")).ok_or(Error::Beginning)?;
    let start = lib.find("#[macro_use]\nextern crate log;").ok_or(Error::Beginning)?;
    if lib[..start].lines().any(|l| !l.is_empty() && !l.starts_with("//") && !l.starts_with("#!["))
    {
        return Err(Error::Beginning);
    }
    *lib = lib.split_off(start);
    Ok(())
}

fn set_clock(tree: &mut Tree) -> Result<(), Error> {
    // The patch has removed the clock that `elapsed` reads.
    expect(tree, HIDDEN_CLOCK, 0)?;
    replace(tree, &format!("std::time::{CLOCK}"), CLOCK);
    replace(tree, CLOCK, "crate::fathom::simulation::now()");
    expect(tree, CLOCK, 0)
}

fn name_examples(tree: &mut Tree, stock: &Path) -> Result<(), Error> {
    let examples = stock.join("examples");
    let examples =
        examples.to_str().ok_or_else(|| Error::NotUtf8(examples.clone()))?.replace('\\', "/");
    replace(tree, EXAMPLES, &format!("\"{examples}/"));
    Ok(())
}

fn write(tree: &Tree, to: &Path) -> Result<(), Error> {
    for (name, text) in tree {
        let path = to.join(name);
        let folder = path.parent().expect("below `to`");
        std::fs::create_dir_all(folder).map_err(Error::io(folder))?;
        // Unchanged files keep their modification time, so that Cargo need not build them again.
        if std::fs::read_to_string(&path).ok().as_ref() != Some(text) {
            std::fs::write(&path, text).map_err(Error::io(&path))?;
        }
    }
    Ok(())
}
