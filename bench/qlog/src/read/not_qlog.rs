//! Identification of files that are not qlog, with one line of advice for each.

/// Byte sequences with which no text begins, and the kind of file that each identifies.
const MAGIC: &[(&[u8], &str)] = &[
    (b"\x1f\x8b", "the file is compressed twice; decompress it once, for example with gunzip"),
    (
        b"\x28\xb5\x2f\xfd",
        "the file is compressed twice; decompress it once, for example with unzstd",
    ),
    (
        b"\xfd7zXZ\0",
        "the file is compressed with xz, which is not supported; decompress it first, for example \
         with unxz",
    ),
    (
        b"BZh",
        "the file is compressed with bzip2, which is not supported; decompress it first, for \
         example with bunzip2",
    ),
    (
        b"\x04\x22\x4d\x18",
        "the file is compressed with lz4, which is not supported; decompress it first, for example \
         with unlz4",
    ),
    (b"PK\x03\x04", "the file is a zip archive; unpack it and name the folder"),
    (b"\xd4\xc3\xb2\xa1", CAPTURE),
    (b"\xa1\xb2\xc3\xd4", CAPTURE),
    (b"\x4d\x3c\xb2\xa1", CAPTURE),
    (b"\xa1\xb2\x3c\x4d", CAPTURE),
    (b"\x0a\x0d\x0d\x0a", CAPTURE),
    (
        b"\xff\xfe",
        "the file is UTF-16; convert it to UTF-8, for example with iconv -f UTF-16 -t UTF-8",
    ),
    (
        b"\xfe\xff",
        "the file is UTF-16; convert it to UTF-8, for example with iconv -f UTF-16 -t UTF-8",
    ),
];

const CAPTURE: &str = "the file is a packet capture, in which QUIC packets are encrypted; record \
    qlog at the server (docs/qlog.md)";

const SCRIPT: &str = "the file is JavaScript, as qlog was before draft-00 (2019), which is not \
    supported; record current qlog";

/// Identifies a file that is not qlog by its first bytes. Returns words that follow "it is not
/// qlog:". Returns `None` if the file may be qlog or a table.
pub fn by_bytes(begins: &[u8]) -> Option<&'static str> {
    if let Some((_, what)) = MAGIC.iter().find(|(magic, _)| begins.starts_with(magic)) {
        return Some(what);
    }
    if begins.get(257..262) == Some(b"ustar") {
        return Some("the file is a tar archive; unpack it and name the folder");
    }
    let text = begins.trim_ascii_start();
    let words: [&[u8]; 8] =
        [b"var ", b"let ", b"const ", b"window.", b"module.", b"export ", b"//", b"/*"];
    if words.iter().any(|word| text.starts_with(word)) {
        return Some(SCRIPT);
    }
    match text.first() {
        Some(b'<') => Some("the file is HTML or XML"),
        Some(b'[') => Some(
            "the rows begin with '[' but the header is missing; keep the first line of the log, or \
             the whole document",
        ),
        _ => None,
    }
}

/// Identifies a JSON document without traces by the keys of its object.
pub(super) fn by_keys(keys: &[String]) -> Option<&'static str> {
    let has = |key: &str| keys.iter().any(|k| k.eq_ignore_ascii_case(key));
    if has("constants") {
        return Some(
            "the file is Chrome's NetLog, not qlog; record qlog at the server (docs/qlog.md)",
        );
    }
    if has("log") && keys.len() == 1 {
        return Some("the file is an HTTP archive (HAR), not qlog");
    }
    if has("traceEvents") {
        return Some("the file is a trace of Chrome's profiler, not qlog");
    }
    let old = ["events", "fields", "connectionid", "starttime", "vantagepoint", "qlogversion"];
    let is_old =
        old.iter().filter(|key| has(key)).count() >= 2 || (has("connections") && !has("trace"));
    is_old.then_some(
        "the file is qlog from before draft-00 (2019), which is not supported; record current qlog",
    )
}
