//! Copies stock's sources, applies the patch, redirects the clock.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

/// SHA-256 of stock's published `src/**/*.rs`. The input is, for each file in the order of names:
/// its name with `/`, its length in 8 bytes (most significant first), and its bytes.
const SOURCES: &str = "ca372aedf44b0573bb477b62007bf904696d4608c2ff97c00d796052484ea5cf";

/// Expression with which stock reads the clock, also in comments and tests. Each occurrence is
/// redirected to our clock. `SystemTime::now()`, read once to name the start of a qlog file, stays.
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
pub fn assemble(stock: &Path, patches: &Path, to: &Path) -> Result<(), String> {
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

fn io(path: &Path) -> impl FnOnce(std::io::Error) -> String + '_ {
    move |e| format!("{}: {e}", path.display())
}

fn sorted(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let mut paths: Vec<_> =
        std::fs::read_dir(folder).map_err(io(folder))?.flatten().map(|e| e.path()).collect();
    paths.sort();
    Ok(paths)
}

fn read(folder: &Path, name: &Path, tree: &mut Tree) -> Result<(), String> {
    for path in sorted(folder)? {
        let name = name.join(path.file_name().expect("an entry has a name"));
        if path.is_dir() {
            read(&path, &name, tree)?;
        } else if path.extension().is_some_and(|e| e == "rs") {
            tree.insert(name, std::fs::read_to_string(&path).map_err(io(&path))?);
        }
    }
    Ok(())
}

/// Checks that the sources are those for which the patch was made and reviewed, because they become
/// part of every program built here.
fn check_published(tree: &Tree, stock: &Path) -> Result<(), String> {
    let mut sum = Sha256::new();
    for (name, text) in tree {
        let name = name.to_str().ok_or("a source's name is not UTF-8")?.replace('\\', "/");
        sum.update(name.as_bytes());
        sum.update((text.len() as u64).to_be_bytes());
        sum.update(text.as_bytes());
    }
    let found: String = sum.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    if found == SOURCES {
        return Ok(());
    }
    Err(format!(
        "{} is not quiche {} as published: its sources have SHA-256 {found}, not {SOURCES}; delete that folder and run `cargo fetch`, or set \
         FATHOM_QUICHE_SOURCE to unchanged ones",
        stock.display(),
        super::locate::VERSION
    ))
}

/// Applies one patch file, with diffs of one or several sources.
fn apply(patch: &Path, tree: &mut Tree) -> Result<(), String> {
    let name = patch.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let text = std::fs::read_to_string(patch).map_err(io(patch))?;
    let mut starts: Vec<usize> = text.match_indices("\n--- a/").map(|(at, _)| at + 1).collect();
    if text.starts_with("--- a/") {
        starts.insert(0, 0);
    }
    if starts.is_empty() {
        return Err(format!("patch/{name}: no diff in it"));
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
        let parsed =
            diffy::Patch::from_str(&diff).map_err(|e| format!("patch/{name}: {file}: {e}"))?;
        let old = tree
            .get(Path::new(&file))
            .ok_or_else(|| format!("patch/{name}: stock has no src/{file}"))?;
        let new = diffy::apply(old, &parsed).map_err(|e| {
            format!(
                "patch/{name} does not fit src/{file}: {e}; the patch is for quiche {}",
                super::locate::VERSION
            )
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

/// Checks how often stock's sources contain `text`. Another count means another version of quiche.
fn expect(tree: &Tree, text: &str, times: usize) -> Result<(), String> {
    let found = tree.values().map(|file| file.matches(text).count()).sum::<usize>();
    if found == times {
        Ok(())
    } else {
        Err(format!("`{text}` stands {found} times in quiche's sources, not {times}"))
    }
}

fn replace(tree: &mut Tree, from: &str, to: &str) {
    for text in tree.values_mut().filter(|text| text.contains(from)) {
        *text = text.replace(from, to);
    }
}

/// Removes the attributes and the documentation of lib.rs, because an included file cannot have its
/// own attributes. Our lib.rs has both.
fn own_attributes(tree: &mut Tree) -> Result<(), String> {
    let lib = tree.get_mut(Path::new("lib.rs")).ok_or("stock has no src/lib.rs")?;
    let start = lib
        .find("#[macro_use]\nextern crate log;")
        .ok_or("src/lib.rs does not begin as expected")?;
    if lib[..start].lines().any(|l| !l.is_empty() && !l.starts_with("//") && !l.starts_with("#!["))
    {
        return Err("src/lib.rs has code before `extern crate log`".into());
    }
    *lib = lib.split_off(start);
    Ok(())
}

fn set_clock(tree: &mut Tree) -> Result<(), String> {
    // The patch has removed the clock that `elapsed` reads.
    expect(tree, HIDDEN_CLOCK, 0)?;
    replace(tree, &format!("std::time::{CLOCK}"), CLOCK);
    replace(tree, CLOCK, "crate::fathom::simulation::now()");
    expect(tree, CLOCK, 0)
}

fn name_examples(tree: &mut Tree, stock: &Path) -> Result<(), String> {
    let examples = stock.join("examples");
    let examples =
        examples.to_str().ok_or("the path of quiche's sources is not UTF-8")?.replace('\\', "/");
    replace(tree, EXAMPLES, &format!("\"{examples}/"));
    Ok(())
}

fn write(tree: &Tree, to: &Path) -> Result<(), String> {
    for (name, text) in tree {
        let path = to.join(name);
        let folder = path.parent().expect("below `to`");
        std::fs::create_dir_all(folder).map_err(io(folder))?;
        // Unchanged files keep their time, so that Cargo need not build again.
        if std::fs::read_to_string(&path).ok().as_ref() != Some(text) {
            std::fs::write(&path, text).map_err(io(&path))?;
        }
    }
    Ok(())
}
