//! Files of a folder: the files to read, and the names of those left out.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::error::{AnalyzeError, FileError};

/// Name extensions of logs and tables, and of compressed files.
const NAMES: [&str; 3] = ["sqlog", "qlog", "csv"];
const PACKED: [&str; 3] = ["gz", "zst", "zstd"];
const PACKED_OTHERWISE: [&str; 5] = ["xz", "bz2", "zip", "lz4", "br"];
/// Maximum number of names listed per reason.
const NAMED: usize = 3;

/// Reason why a file was left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Why {
    NoEvent,
    Unreadable,
    Packed,
    Folder,
    Foreign,
}

impl Why {
    /// Returns the noun for one or several such files.
    const fn words(self, one: bool) -> &'static str {
        match (self, one) {
            (Self::NoEvent, true) => "log without an event",
            (Self::NoEvent, false) => "logs without an event",
            (Self::Unreadable, true) => "file that cannot be read",
            (Self::Unreadable, false) => "files that cannot be read",
            (Self::Packed, true) => "file with an unsupported compression",
            (Self::Packed, false) => "files with an unsupported compression",
            (Self::Folder, true) => "folder",
            (Self::Folder, false) => "folders",
            (Self::Foreign, true) => "file not named .qlog, .sqlog or .csv",
            (Self::Foreign, false) => "files not named .qlog, .sqlog or .csv",
        }
    }
}

/// Files left out of a folder or of the named files.
#[derive(Clone, Debug, Default)]
pub struct LeftOut {
    by_kind: BTreeMap<Why, (u64, Vec<String>)>,
}

impl LeftOut {
    fn add(&mut self, why: Why, name: String) {
        let (count, names) = self.by_kind.entry(why).or_default();
        *count += 1;
        if names.len() < NAMED {
            names.push(name);
        }
    }

    /// Adds a file that could not be read.
    pub fn failed(&mut self, path: &Path, why: &AnalyzeError) {
        let name = format!(
            "'{}'",
            path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().escape_debug()
        );
        match why {
            AnalyzeError::Empty(..) => self.add(Why::NoEvent, name),
            AnalyzeError::File(_, why) => self.add(Why::Unreadable, format!("{name} {why}")),
            AnalyzeError::Nothing(why) => self.add(Why::Unreadable, format!("{name} {why}")),
        }
    }

    /// Describes the files left out, such as `1 log without an event ('a.sqlog')`; returns `None`
    /// if there are none.
    pub fn words(&self) -> Option<String> {
        let each = |(why, (count, names)): (&Why, &(u64, Vec<String>))| {
            let more = count - names.len() as u64;
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            format!("{count} {} ({}{more})", why.words(*count == 1), names.join(", "))
        };
        let all: Vec<String> = self.by_kind.iter().map(each).collect();
        (!all.is_empty()).then(|| all.join(", "))
    }
}

/// Returns the logs and tables of a folder in the order of their names, and the other files.
///
/// # Errors
/// Returns an error if the folder cannot be read, or has no file that could be a log or table; the
/// error then lists the contents in one line.
pub fn files_of(folder: &Path) -> Result<(Vec<PathBuf>, LeftOut), AnalyzeError> {
    let wrong = |why: FileError| AnalyzeError::File(folder.display().to_string(), why);
    let there = std::fs::read_dir(folder).map_err(|e| wrong(e.into()))?;
    let mut all: Vec<PathBuf> = there.flatten().map(|entry| entry.path()).collect();
    all.sort();
    let (mut files, mut left_out) = (Vec::new(), LeftOut::default());
    for path in all {
        let name =
            format!("'{}'", path.file_name().unwrap_or_default().to_string_lossy().escape_debug());
        match std::fs::metadata(&path) {
            Err(e) => left_out.add(Why::Unreadable, format!("{name} cannot be read: {e}")),
            Ok(kind) if kind.is_dir() => left_out.add(Why::Folder, name),
            // Reading a pipe in a folder would block.
            Ok(kind) if !kind.is_file() => {
                left_out.add(Why::Unreadable, format!("{name} is not a regular file"))
            }
            Ok(_) => match kind_of(&path) {
                Ok(()) => files.push(path),
                Err(why) => left_out.add(why, name),
            },
        }
    }
    match files.is_empty() {
        true => Err(wrong(FileError::NoLogs(left_out.words()))),
        false => Ok((files, left_out)),
    }
}

fn kind_of(path: &Path) -> Result<(), Why> {
    let end = |path: &Path| {
        path.extension().map(|e| e.to_string_lossy().to_ascii_lowercase()).unwrap_or_default()
    };
    let is = |of: &[&str], end: &str| of.contains(&end);
    let last = end(path);
    if is(&NAMES, &last) {
        return Ok(());
    }
    let before = path.file_stem().map(|stem| end(Path::new(stem))).unwrap_or_default();
    match is(&NAMES, &before) {
        true if is(&PACKED, &last) => Ok(()),
        true if is(&PACKED_OTHERWISE, &last) => Err(Why::Packed),
        _ => Err(Why::Foreign),
    }
}

/// Maximum number of lines of one kind.
const SHOWN: usize = 2;

/// Groups lines about files, each `NAME: TEXT`, and keeps at most two of a kind. Lines that differ
/// only in their numbers are of one kind. The last line of a kind tells how many more files have
/// a similar line.
pub fn grouped(lines: Vec<String>) -> Vec<String> {
    let kind = |line: &str| {
        let text = line.split_once(": ").map_or(line, |(_, text)| text);
        text.split(|c: char| c.is_ascii_digit()).next().unwrap_or(text).to_owned()
    };
    let mut kinds: Vec<(String, Vec<String>, u64)> = Vec::new();
    for line in lines {
        let of = kind(&line);
        match kinds.iter_mut().find(|(known, ..)| *known == of) {
            Some((_, shown, _)) if shown.len() < SHOWN => shown.push(line),
            Some((.., more)) => *more += 1,
            None => kinds.push((of, vec![line], 0)),
        }
    }
    let each = |(_, mut shown, more): (String, Vec<String>, u64)| {
        if more > 0
            && let Some(last) = shown.last_mut()
        {
            last.push_str(&format!(
                " ({more} more {} a line like this one.)",
                if more == 1 { "log has" } else { "logs have" }
            ));
        }
        shown
    };
    kinds.into_iter().flat_map(each).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn similar_warnings_are_merged_and_counted() {
        let line = |n: u32| {
            format!("{n}.sqlog: the round trips of the log are in seconds: the metrics show 0.0{n}")
        };
        let other = "a.sqlog: ends in the middle".to_owned();
        let lines = grouped((1..6).map(line).chain([other.clone()]).collect());
        assert_eq!(
            lines,
            [line(1), format!("{} (3 more logs have a line like this one.)", line(2)), other]
        );
    }

    #[test]
    fn files_skipped_in_a_folder_are_named() {
        let folder = std::env::temp_dir().join(format!("fathom-inputs-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("old")).unwrap();
        for name in ["a.sqlog", "b.qlog.gz", "c.csv.zst", "d.sqlog.xz", "e.txt", "f.gz"] {
            std::fs::write(folder.join(name), "").unwrap();
        }
        let (files, left_out) = files_of(&folder).unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
        let names: Vec<_> =
            files.iter().map(|file| file.file_name().unwrap().to_str().unwrap()).collect();
        assert_eq!(names, ["a.sqlog", "b.qlog.gz", "c.csv.zst"]);
        let words = left_out.words().unwrap();
        for part in [
            "1 file with an unsupported compression ('d.sqlog.xz')",
            "1 folder ('old')",
            "('e.txt', 'f.gz')",
        ] {
            assert!(words.contains(part), "{words}");
        }
    }
}
