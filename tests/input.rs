//! Tests of invalid input of every kind. The program ends with exit code 2 and one line in its own
//! words, which names the accepted values and the help to read.

use crate::common;

use std::path::Path;

use common::fathom;

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Phrases of Rust's libraries, and advice that does not help.
const NOT_OURS: &[&str] = &[
    "invalid digit",
    "non-zero type",
    "number too large",
    "target type",
    "invalid float",
    "socket address syntax",
    "-- -",
    "see 'fathom --help'",
];

fn refused(args: &[&str], says: &[&str]) {
    let out = fathom().args(args).output().expect("fathom runs");
    let (line, words) = (text(&out.stderr), args.join(" "));
    assert_eq!(out.status.code(), Some(2), "fathom {words}: {line}");
    assert_eq!(
        (text(&out.stdout), line.lines().count()),
        (String::new(), 1),
        "fathom {words}: {line}"
    );
    for said in says {
        assert!(line.contains(said), "fathom {words}: '{said}' is not in: {line}");
    }
    for word in NOT_OURS {
        assert!(!line.contains(word), "fathom {words}: '{word}' is in: {line}");
    }
}

#[test]
fn invalid_numbers_are_rejected_with_their_range() {
    let url = "https://127.0.0.1:9/";
    let cases: &[(&[&str], &[&str])] = &[
        (
            &["compare", "--link", "-5Mbps"],
            &["'-5Mbps' for '--link'", "negative", "such as 5Mbps", "fathom compare --help"],
        ),
        (&["compare", "--link=-5Mbps"], &["'-5Mbps' is negative", "10Mbps"]),
        (&["compare", "--responses", "-1"], &["'-1' for '--responses'", "negative"]),
        (
            &["compare", "--responses", "1e3"],
            &["not a whole number", "1 to 10000000", "fathom compare --help"],
        ),
        (&["compare", "--responses", "99999999999999999999"], &["out of range", "1 to 10000000"]),
        (&["compare", "--seed", "abc"], &["'abc' is not a whole number", "write 0 to"]),
        (
            &["plan", "run", "sdc-figure-4", "--jobs", "0"],
            &["write 1 to 1024", "fathom plan run --help"],
        ),
        (&["plan", "run", "sdc-figure-4", "--jobs", "many"], &["write 1 to 1024"]),
        (
            &["plan", "check", "sdc-figure-4", "--seeds", "99999999999999999999"],
            &["write 1 to 10000"],
        ),
        (&["plan", "check", "sdc-figure-4", "--scale", "half"], &["at most 1, such as 0.1"]),
        (&["reproduce", "sdc", "--jobs", "0"], &["write 1 to 1024", "fathom reproduce --help"]),
        (&["reproduce", "sdc", "--scale", "x"], &["at most 1, such as 0.1"]),
        (&["load", url, "--seed", "1.5"], &["not a whole number"]),
        (&["load", url, "-c", "-1"], &["'-1' for '-c'", "negative"]),
        (&["load", url, "-d", "10"], &["has no unit", "10ms"]),
        (&["probe", "localhost", "--requests", "21"], &["write 1 to 20"]),
        (&["probe", "localhost", "--timeout", "0s"], &["such as 10s"]),
        (&["serve", "--max-connections", "0"], &["write 1 to"]),
        (&["serve", "--idle", "0s"], &["such as 10s"]),
        (&["serve", "--listen", "localhost"], &["127.0.0.1:4433", "fathom serve --help"]),
        (
            &["link", "--listen", "127.0.0.1:0", "--to", "127.0.0.1:9", "--for", "0s"],
            &["such as 10s"],
        ),
        (
            &["link", "--listen", "here", "--to", "127.0.0.1:9"],
            &["127.0.0.1:4433", "fathom link --help"],
        ),
        (
            &["link", "--listen", "127.0.0.1:0", "--to", "127.0.0.1:9", "--loss", "-1%"],
            &["'-1%' for '--loss'", "negative"],
        ),
        (
            &["link", "--listen", "127.0.0.1:0", "--to", "127.0.0.1:9", "--rate", "10MB"],
            &["counts bytes", "10Mbps"],
        ),
        (&["compare", "--colour"], &["--colour", "fathom compare --help"]),
        (&["qlog", "export", "x.qlog", "--to", "pdf"], &["qvis", "fathom qlog export --help"]),
    ];
    for (args, says) in cases {
        refused(args, says);
    }
}

#[test]
fn errors_suggest_similar_names_and_valid_values() {
    let cases: &[(&[&str], &[&str])] = &[
        (&["compare", "--controllers", "bbr"], &["write native:bbr ", "fathom stacks"]),
        (&["serve", "--controller", "bbr"], &["write native:bbr "]),
        (&["compare", "--workload", "bulk:99999999x1MB"], &["1 to 1000000"]),
        (
            &["compare", "--link", "1Gbps", "--reference", "100Mbps"],
            &["--reference 10Gbps", "leave it out"],
        ),
        (&["compare", "--load", "1"], &["90%"]),
        (&["plan", "run", "sdc-figur-4"], &["did you mean 'sdc-figure-4'?", "fathom plan list"]),
        (&["plan", "check", "sdc-figur-4"], &["did you mean 'sdc-figure-4'?"]),
        (&["plan", "show", "sdc-figur-4"], &["did you mean 'sdc-figure-4'?"]),
        (&["analyse"], &["analyze"]),
    ];
    for (args, says) in cases {
        refused_but_help(args, says);
    }
}

/// Like [`refused`], but permits a reference to the help of the whole program.
fn refused_but_help(args: &[&str], says: &[&str]) {
    let out = fathom().args(args).output().expect("fathom runs");
    let line = text(&out.stderr);
    assert_eq!((out.status.code(), line.lines().count()), (Some(2), 1), "{args:?}: {line}");
    for said in says {
        assert!(line.contains(said), "{args:?}: '{said}' is not in: {line}");
    }
}

#[test]
fn rates_loads_and_links_accept_common_notations() {
    for link in ["10mbit", "10M", "10Mb", "10mbps"] {
        let args = [
            "compare",
            "--link",
            link,
            "--load",
            "0.9",
            "--controllers",
            "reno",
            "--responses",
            "20",
            "--seeds",
            "1",
        ];
        let out = fathom().args(args).output().expect("fathom runs");
        assert!(out.status.success(), "{link}: {}", text(&out.stderr));
    }
    // The reference follows the link unless it is set.
    let args = [
        "compare",
        "--link",
        "1Gbps",
        "--controllers",
        "reno",
        "--responses",
        "20",
        "--seeds",
        "1",
    ];
    let out = fathom().args(args).output().expect("fathom runs");
    assert!(
        out.status.success() && text(&out.stdout).contains("uncongested, 10Gbps"),
        "{}",
        text(&out.stderr)
    );
    let args = [
        "compare",
        "--link",
        "200Mbps",
        "--reference",
        "1Gbps",
        "--controllers",
        "reno",
        "--responses",
        "20",
        "--seeds",
        "1",
    ];
    let out = fathom().args(args).output().expect("fathom runs");
    assert!(
        out.status.success() && text(&out.stdout).contains("uncongested, 1Gbps"),
        "{}",
        text(&out.stderr)
    );
}

#[test]
fn compare_and_plan_read_plans_alike() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    let run =
        |words: &[&str], path: &Path| fathom().args(words).arg(path).output().expect("fathom runs");
    std::fs::write(at("empty.toml"), "# nothing yet\n\n").expect("written");
    std::fs::write(at("latin.toml"), b"# caf\xe9\nseed = 1\n").expect("written");
    for (name, says) in [
        ("empty.toml", "the file is empty"),
        ("latin.toml", "UTF-8"),
        ("none.toml", "name a TOML file"),
    ] {
        for words in [&["compare"][..], &["plan", "check"], &["plan", "run"]] {
            let out = run(words, &at(name));
            let line = text(&out.stderr);
            assert_eq!(
                (out.status.code(), line.lines().count()),
                (Some(2), 1),
                "{words:?} {name}: {line}"
            );
            assert!(line.contains(says), "{words:?} {name}: {line}");
        }
    }
    // A file name may have any bytes.
    #[cfg(unix)]
    {
        use std::os::unix::ffi::OsStrExt;
        let name = folder.path().join(std::ffi::OsStr::from_bytes(b"caf\xe9.toml"));
        let plan = concat!(env!("CARGO_MANIFEST_DIR"), "/bench/plans/web-90.toml");
        let plan = std::fs::read_to_string(plan).expect("a plan");
        std::fs::write(&name, plan.replace("4000 responses", "20 responses")).expect("written");
        for words in [&["compare"][..], &["plan", "check"]] {
            let out = run(words, &name);
            assert!(out.status.success(), "{words:?}: {}", text(&out.stderr));
        }
    }
}

#[test]
fn certificate_failure_names_the_option_to_use() {
    let (_server, port) = common::serve(&[]);
    let out = fathom().args(["probe", &format!("localhost:{port}")]).output().expect("fathom runs");
    let said = text(&out.stderr);
    assert_eq!(out.status.code(), Some(1), "{said}");
    assert!(said.contains("--insecure") && said.contains("--ca"), "{said}");
}
