//! Files of a crate do not import each other in circles, so each file can be read after the files
//! that it imports.
//!
//! An import of a parent module does not count, and neither do test modules.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::common::files_below;

/// Modules by path, such as `["sim", "core"]`, with the modules that each module imports.
type Imports = BTreeMap<Vec<String>, BTreeSet<Vec<String>>>;

/// Returns the folders below `root` that contain a `Cargo.toml` and a folder `src`.
fn crates(root: &Path) -> Vec<PathBuf> {
    let manifests = files_below(root).into_iter().filter(|file| file.ends_with("Cargo.toml"));
    let folders = manifests.filter_map(|file| Some(file.parent()?.to_owned()));
    folders.filter(|folder| folder.join("src").is_dir()).collect()
}

/// Returns the source files below `folder`, by module.
fn modules(folder: &Path) -> BTreeMap<Vec<String>, PathBuf> {
    let sources =
        files_below(folder).into_iter().filter(|f| f.extension().is_some_and(|e| e == "rs"));
    let named = sources.map(|file| {
        let path = file.strip_prefix(folder).expect("inside").with_extension("");
        let mut module: Vec<String> =
            path.iter().map(|name| name.to_str().expect("a name in UTF-8").to_owned()).collect();
        module.pop_if(|name| ["mod", "lib", "main"].contains(&name.as_str()));
        (module, file)
    });
    named.collect()
}

/// Returns the paths of a `use` tree: `a::{b, c::d}` is `a::b` and `a::c::d`.
fn paths(tree: &str) -> Vec<String> {
    let Some((before, inside)) = tree.split_once('{') else { return vec![tree.to_owned()] };
    let inside = inside.strip_suffix('}').unwrap_or(inside);
    let (mut all, mut depth, mut start) = (Vec::new(), 0, 0);
    for (at, character) in inside.char_indices().chain([(inside.len(), ',')]) {
        match character {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                all.extend(paths(&inside[start..at]).iter().map(|path| format!("{before}{path}")));
                start = at + 1;
            }
            _ => {}
        }
    }
    all
}

/// Returns the trees of the `use` lines of a file, without blanks and without its test module.
fn trees(text: &str) -> Vec<String> {
    let code = text.split("#[cfg(test)]").next().unwrap_or_default();
    let mut found: Vec<String> = Vec::new();
    let mut is_open = false;
    for line in code.lines().map(|line| line.split("//").next().unwrap_or_default().trim()) {
        let public = line.strip_prefix("pub").and_then(|rest| rest.split_once("use "));
        let public = public.filter(|(between, _)| !between.trim().contains(' '));
        let begun = line.strip_prefix("use ").or(public.map(|(_, tree)| tree));
        if let Some(tree) = begun {
            found.push(String::new());
            is_open = true;
            extend(&mut found, &mut is_open, tree);
        } else if is_open {
            extend(&mut found, &mut is_open, line);
        }
    }
    found
}

/// Adds a part of a `use` line to the last tree, up to the semicolon.
fn extend(trees: &mut [String], is_open: &mut bool, part: &str) {
    let (part, ends) = part.split_once(';').map_or((part, false), |(part, _)| (part, true));
    *is_open = !ends;
    if let Some(tree) = trees.last_mut() {
        tree.extend(part.chars().filter(|character| !character.is_whitespace()));
    }
}

/// Returns the paths in a file's code, outside `use` lines, that begin with `crate`.
fn inline_paths(text: &str) -> Vec<String> {
    let code = text.split("#[cfg(test)]").next().unwrap_or_default();
    let lines = code.lines().map(|line| line.split("//").next().unwrap_or_default());
    let of_crate = lines.flat_map(|line| line.split("crate::").skip(1));
    let is_path = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    of_crate
        .map(|rest| format!("crate::{}", rest.split(|c| !is_path(c)).next().unwrap_or_default()))
        .collect()
}

/// Returns the other modules that each module imports.
fn imports(modules: &BTreeMap<Vec<String>, PathBuf>) -> Imports {
    let of = |module: &Vec<String>, file: &PathBuf| {
        let text = std::fs::read_to_string(file).expect("a source file");
        let mut used = BTreeSet::new();
        let of_lines = trees(&text).iter().flat_map(|tree| paths(tree)).collect::<Vec<_>>();
        for path in of_lines.into_iter().chain(inline_paths(&text)) {
            let mut words = path.split("::").map(str::to_owned).peekable();
            let mut base = module.clone();
            match words.peek().map(String::as_str) {
                Some("crate") => base.clear(),
                Some("self" | "super") => {}
                Some(child) if modules.contains_key(&[&base[..], &[child.to_owned()]].concat()) => {
                }
                _ => continue,
            }
            while let Some(word) = words.next_if(|w| ["crate", "self", "super"].contains(&&**w)) {
                if word == "super" {
                    base.pop();
                }
            }
            base.extend(words);
            while !modules.contains_key(&base) && !base.is_empty() {
                base.pop();
            }
            if !module.starts_with(&base) {
                used.insert(base);
            }
        }
        (module.clone(), used)
    };
    modules.iter().map(|(module, file)| of(module, file)).collect()
}

/// Returns a circle of imports that begins and ends at `module`, if there is one.
fn circle(imports: &Imports, module: &Vec<String>) -> Option<Vec<Vec<String>>> {
    let mut from: BTreeMap<&Vec<String>, &Vec<String>> = BTreeMap::new();
    let mut open = vec![module];
    while let Some(at) = open.pop() {
        for next in imports.get(at).into_iter().flatten() {
            if next == module {
                let mut way = vec![module.clone(), at.clone()];
                while let Some(before) = way.last().and_then(|last| from.get(last)) {
                    way.push((*before).clone());
                }
                way.reverse();
                return Some(way);
            }
            if !from.contains_key(next) {
                from.insert(next, at);
                open.push(next);
            }
        }
    }
    None
}

#[test]
fn source_files_do_not_import_each_other_in_circles() {
    let mut found = Vec::new();
    let mut files = 0;
    for folder in crates(Path::new(env!("CARGO_MANIFEST_DIR"))) {
        let modules = modules(&folder.join("src"));
        files += modules.len();
        let imports = imports(&modules);
        let circles = modules.keys().filter_map(|module| circle(&imports, module));
        found.extend(circles.map(|way| {
            let names: Vec<String> = way.iter().map(|module| module.join("::")).collect();
            format!("{}: {}", folder.display(), names.join(" -> "))
        }));
    }
    assert!(files > 500, "only {files} files were found");
    assert!(found.is_empty(), "files import each other:\n{}", found.join("\n"));
}

#[test]
fn import_circles_and_trees_are_recognised() {
    let text = "use super::{b::{C, D}, e};\npub(crate) use crate::a::B;\nlet x = 1; // use nothing;\n\
                #[cfg(test)]\nmod tests { use super::f; }";
    let all: Vec<String> = trees(text).iter().flat_map(|tree| paths(tree)).collect();
    assert_eq!(all, ["super::b::C", "super::b::D", "super::e", "crate::a::B"]);
    assert_eq!(inline_paths("let x = crate::a::f(1); // crate::b::g"), ["crate::a::f"]);
    let module = |name: &str| vec![name.to_owned()];
    let imports = [("a", "b"), ("b", "c"), ("c", "b")]
        .map(|(from, to)| (module(from), BTreeSet::from([module(to)])));
    let imports = Imports::from(imports);
    assert_eq!(circle(&imports, &module("a")), None);
    assert_eq!(circle(&imports, &module("b")).map(|way| way.len()), Some(3));
}
