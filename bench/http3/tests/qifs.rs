//! Encoded field sections of other QPACK encoders (<https://github.com/qpackers/qifs>).
//!
//! `tests/qifs` has a selection, with its licence: files of the draft whose format is that of
//! RFC 9204. Some encoders rely on a table that begins with its full capacity, which later drafts
//! changed. To decode all files of a clone, and to see the counts:
//! `FATHOM_QIFS=CLONE cargo test --release -p fathom-http3 qifs -- --nocapture`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use fathom_http3::qpack::{Decoded, Decoder, FieldSection, Limits};

const LIMITS: Limits = Limits { bytes: 1 << 20, fields: 1_000 };

type Fields = Vec<(Vec<u8>, Vec<u8>)>;

/// Returns the capacity of the table and the number of streams that may be blocked. A name ends
/// like `.out.4096.100.1`; minhq's names have the size of the evictable part after the capacity.
/// Returns `None` for other files.
fn parameters(name: &str) -> Option<(usize, usize)> {
    let numbers: Vec<usize> = name.split('.').filter_map(|part| part.parse().ok()).collect();
    let blocked = if name.contains("minhq") { 2 } else { 1 };
    Some((*numbers.first()?, *numbers.get(blocked)?))
}

/// Decodes a file: blocks of a stream ID, a length and data; stream 0 is the encoder stream. With
/// `initial`, the table begins with its full capacity, as in early drafts of QPACK.
fn decoded(
    file: &[u8],
    (capacity, blocked): (usize, usize),
    initial: bool,
) -> Result<BTreeMap<u64, Fields>, String> {
    let mut decoder = Decoder::new(capacity, blocked);
    if initial {
        // Set Dynamic Table Capacity (RFC 9204 §4.3.1).
        let mut instruction = vec![0x3f];
        let mut rest = capacity - 31;
        while rest > 0x7f {
            instruction.push(rest as u8 | 0x80);
            rest >>= 7;
        }
        instruction.push(rest as u8);
        decoder.encoder_stream(&instruction).map_err(|error| error.to_string())?;
    }
    let (mut sections, mut waiting) = (BTreeMap::new(), Vec::new());
    let mut rest = file;
    while !rest.is_empty() {
        let (header, after) = rest.split_at(12);
        let stream = u64::from_be_bytes(header[..8].try_into().unwrap());
        let length = u32::from_be_bytes(header[8..].try_into().unwrap()) as usize;
        let (data, after) = after.split_at(length);
        rest = after;
        if stream == 0 {
            for chunk in data.chunks(7) {
                decoder.encoder_stream(chunk).map_err(|error| error.to_string())?;
            }
        } else {
            waiting.push((stream, data));
        }
        let mut still = Vec::new();
        for (stream, data) in waiting {
            let mut section = FieldSection::new();
            match decoder.decode(stream, data, LIMITS, &mut section) {
                Ok(Decoded::Blocked(_)) => still.push((stream, data)),
                Ok(Decoded::Whole) => {
                    let fields = section.iter().map(|(n, v)| (n.to_vec(), v.to_vec())).collect();
                    assert!(sections.insert(stream, fields).is_none(), "one section per stream");
                }
                Err(error) => return Err(format!("stream {stream}: {error}")),
            }
        }
        waiting = still;
    }
    if waiting.is_empty() { Ok(sections) } else { Err("sections are still blocked".into()) }
}

/// Reads a QIF: a field per line, and an empty line after each section.
fn qif(text: &[u8]) -> Vec<Fields> {
    let (mut sections, mut fields) = (Vec::new(), Vec::new());
    for line in text.split(|byte| *byte == b'\n') {
        match line.iter().position(|byte| *byte == b'\t') {
            _ if line.first() == Some(&b'#') => {}
            Some(tab) => fields.push((line[..tab].to_vec(), line[tab + 1..].to_vec())),
            None if !fields.is_empty() => sections.push(std::mem::take(&mut fields)),
            None => {}
        }
    }
    if !fields.is_empty() {
        sections.push(fields);
    }
    sections
}

fn files(directory: &Path, to: &mut Vec<PathBuf>) {
    let mut entries: Vec<_> = fs::read_dir(directory).unwrap().map(|e| e.unwrap()).collect();
    entries.sort_by_key(fs::DirEntry::path);
    for entry in entries {
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            files(&entry.path(), to);
        } else if kind.is_file() && entry.path().file_name().unwrap().as_encoded_bytes()[0] != b'.'
        {
            to.push(entry.path());
        }
    }
}

/// Describes the first field that differs.
fn difference(name: &str, found: &BTreeMap<u64, Fields>, wanted: &[Fields]) -> String {
    let wanted: Vec<_> = wanted.iter().flatten().collect();
    let found: Vec<_> = found.values().flatten().collect();
    let at = (0..).find(|at| found.get(*at) != wanted.get(*at)).unwrap_or_default();
    let shown = |field: Option<&&(Vec<u8>, Vec<u8>)>| match field {
        Some((name, value)) => format!("{}: {}", name.escape_ascii(), value.escape_ascii()),
        None => "nothing".into(),
    };
    format!("{name}: {} instead of {}", shown(found.get(at)), shown(wanted.get(at)))
}

/// Files of one encoder.
#[derive(Debug, Default)]
struct Count {
    /// Decoded as RFC 9204 says, and equal to the QIF.
    decoded: usize,
    /// The same, with a table that begins with its full capacity.
    with_initial_capacity: usize,
    sections: usize,
    /// Other fields than the QIF's.
    different: Vec<String>,
    failed: Vec<String>,
}

#[test]
fn sections_of_other_encoders_are_decoded() {
    let all = std::env::var_os("FATHOM_QIFS").map(PathBuf::from);
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/qifs");
    let root = all.as_ref().unwrap_or(&root);
    let mut paths = Vec::new();
    files(&root.join("encoded"), &mut paths);
    let mut counts = BTreeMap::<String, Count>::new();
    for path in &paths {
        let relative = path.strip_prefix(root).unwrap().display().to_string();
        let name = path.file_name().unwrap().to_str().unwrap();
        let Some(parameters) = parameters(name) else { continue };
        let source = match name.split('.').next() {
            // The examples of RFC 9204, which another test compares.
            Some("examples") => None,
            Some(source) => Some(root.join("qifs").join(source).with_extension("qif")),
            None => continue,
        };
        let bytes = fs::read(path).unwrap();
        let count = counts.entry(path.parent().unwrap().display().to_string()).or_default();
        let (mut result, mut initial) = (decoded(&bytes, parameters, false), false);
        if result.is_err() && parameters.0 > 31 {
            let other = decoded(&bytes, parameters, true);
            if other.is_ok() {
                (result, initial) = (other, true);
            }
        }
        match result {
            Ok(sections) => {
                let wanted = source.map(|source| qif(&fs::read(source).unwrap()));
                if let Some(wanted) = wanted.filter(|wanted| !sections.values().eq(wanted)) {
                    count.different.push(difference(&relative, &sections, &wanted));
                    continue;
                }
                count.sections += sections.len();
                if initial {
                    count.with_initial_capacity += 1;
                } else {
                    count.decoded += 1;
                }
            }
            Err(error) => count.failed.push(format!("{relative}: {error}")),
        }
    }
    for (encoder, count) in &counts {
        println!("{encoder}: {count:#?}");
    }
    let sum = |of: fn(&Count) -> usize| counts.values().map(of).sum::<usize>();
    println!(
        "{} files decoded, {} of them with an initial capacity; {} sections; {} files differ, {} \
         failed",
        sum(|count| count.decoded + count.with_initial_capacity),
        sum(|count| count.with_initial_capacity),
        sum(|count| count.sections),
        sum(|count| count.different.len()),
        sum(|count| count.failed.len()),
    );
    if all.is_none() {
        assert_eq!(counts.len(), 7, "six encoders, and the examples");
        for count in counts.values() {
            assert!(count.sections > 0);
            assert!(count.different.is_empty() && count.failed.is_empty(), "{count:?}");
        }
    }
}

/// Two files of the original ten and two are left out: they refer to entries that the static table
/// of RFC 9204 has.
#[test]
fn invalid_files_are_refused() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/qifs/encoded/errors");
    let mut paths = Vec::new();
    files(&root, &mut paths);
    assert_eq!(paths.len(), 10);
    for path in paths {
        let refused = decoded(&fs::read(&path).unwrap(), (4_096, 100), false);
        assert!(refused.is_err(), "{}: {refused:?}", path.display());
    }
}
