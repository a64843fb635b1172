//! Tests of the files of results. A path keeps its kind of file, and all measurements are reported
//! even if a file cannot be written.
#![cfg(unix)]

use crate::common;

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use common::serve;

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Creates a folder with a small log in it.
fn folder() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("requests.csv");
    let mut rows =
        "intended,start,connect,first_byte,service,response,bytes,result,connection,path\n"
            .to_owned();
    for i in 0..10 {
        rows += &format!("{i},{i},0.01,0.02,0.03,0.03,1000,200,1,/\n");
    }
    fs::write(&log, rows).expect("written");
    (folder, log)
}

/// Runs `fathom analyze response LOG` with more arguments, from a shell that executes `shell`
/// first.
fn analyze(shell: &str, log: &Path, more: &[&str]) -> Output {
    let mut command = Command::new("sh");
    let script = format!("{shell}; exec \"$0\" \"$@\"");
    command
        .args(["-c", &script, env!("CARGO_BIN_EXE_fathom"), "analyze", "response"])
        .arg(log)
        .args(more);
    command.output().expect("a shell")
}

fn written(path: &Path) -> serde_json::Value {
    serde_json::from_str(&fs::read_to_string(path).expect("a file")).expect("JSON")
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("a file").permissions().mode() & 0o7777
}

#[test]
fn devices_are_written_without_being_replaced() {
    let (_folder, log) = folder();
    let out = analyze(":", &log, &["--json", "/dev/null", "--report", "/dev/null"]);
    assert!(out.status.success(), "{}", text(&out.stderr));
    assert!(fs::metadata("/dev/null").expect("a device").file_type().is_char_device());
    // Writing to this device fails. The error is reported after the text.
    let out = analyze(":", &log, &["--json", "/dev/full"]);
    assert_eq!(out.status.code(), Some(1), "{}", text(&out.stderr));
    assert!(
        text(&out.stderr).contains("/dev/full") && text(&out.stdout).contains("10"),
        "{}",
        text(&out.stderr)
    );
    assert!(fs::metadata("/dev/full").expect("a device").file_type().is_char_device());
}

#[test]
fn fifo_is_written_in_place() {
    let (folder, log) = folder();
    let fifo = folder.path().join("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().expect("mkfifo").success());
    let path = fifo.clone();
    let reader = std::thread::spawn(move || {
        let mut text = String::new();
        File::open(path).and_then(|mut file| file.read_to_string(&mut text)).map(|_| text)
    });
    let out = analyze(":", &log, &["--json", fifo.to_str().expect("utf-8")]);
    assert!(out.status.success(), "{}", text(&out.stderr));
    let read = reader.join().expect("a reader").expect("read");
    serde_json::from_str::<serde_json::Value>(&read).expect("JSON");
    assert!(fs::symlink_metadata(&fifo).expect("there").file_type().is_fifo());
}

#[test]
fn symbolic_links_are_followed_when_writing() {
    let (folder, log) = folder();
    let at = |name: &str| folder.path().join(name);
    fs::create_dir(at("elsewhere")).expect("a folder");
    fs::write(at("elsewhere/old.json"), "old").expect("written");
    for (link, target) in
        [("a.json", "elsewhere/old.json"), ("b.json", "elsewhere/new.json"), ("c.json", "b.json")]
    {
        symlink(target, at(link)).expect("a link");
        let out = analyze(":", &log, &["--json", at(link).to_str().expect("utf-8")]);
        assert!(out.status.success(), "{link}: {}", text(&out.stderr));
        assert_eq!(fs::read_link(at(link)).expect("still a link"), Path::new(target));
        written(&at(link));
    }
    for name in ["old.json", "new.json"] {
        assert!(fs::symlink_metadata(at("elsewhere").join(name)).expect("there").is_file());
    }
    assert_eq!(
        fs::read_dir(at("elsewhere")).expect("a folder").count(),
        2,
        "a temporary file is left"
    );
}

#[test]
fn writing_keeps_file_modes_and_applies_the_umask() {
    let (folder, log) = folder();
    let at = |name: &str| folder.path().join(name);
    for (name, umask, before, after) in [
        ("private", "022", Some(0o600), 0o600),
        ("group", "077", Some(0o664), 0o664),
        ("new", "022", None, 0o644),
        ("hidden", "077", None, 0o600),
        ("shared", "002", None, 0o664),
    ] {
        let path = at(name);
        if let Some(mode) = before {
            fs::write(&path, "old").expect("written");
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("a mode");
        }
        let out =
            analyze(&format!("umask {umask}"), &log, &["--json", path.to_str().expect("utf-8")]);
        assert!(out.status.success(), "{name}: {}", text(&out.stderr));
        assert_eq!(format!("{:o}", mode(&path)), format!("{after:o}"), "{name}");
        written(&path);
    }
}

#[test]
fn files_are_replaced_atomically_and_hard_links_kept() {
    let (folder, log) = folder();
    let at = |name: &str| folder.path().join(name);
    fs::write(at("alone"), "old").expect("written");
    fs::write(at("one"), "old").expect("written");
    fs::hard_link(at("one"), at("other")).expect("a link");
    let inode = |name: &str| fs::metadata(at(name)).expect("a file").ino();
    let (alone, one) = (inode("alone"), inode("one"));
    for name in ["alone", "one"] {
        let out = analyze(":", &log, &["--json", at(name).to_str().expect("utf-8")]);
        assert!(out.status.success(), "{}", text(&out.stderr));
    }
    assert_ne!(inode("alone"), alone, "it was written in place: a reader could see half of it");
    assert_eq!((inode("one"), inode("other")), (one, one));
    assert_eq!(written(&at("one")), written(&at("other")));
}

#[test]
fn dash_means_standard_output_and_works_once() {
    let (folder, log) = folder();
    let out = analyze(":", &log, &["--json", "-"]);
    serde_json::from_slice::<serde_json::Value>(&out.stdout).expect("JSON and nothing else");
    assert!(!out.stderr.is_empty(), "the text is on standard error");
    let out = analyze(":", &log, &["--report", "-"]);
    assert!(
        text(&out.stdout).starts_with("<!DOCTYPE html>") && !out.stderr.is_empty(),
        "{}",
        text(&out.stdout)
    );
    // Standard output may also be given by its name, and the file behind it is not replaced.
    let to = folder.path().join("out");
    let out = analyze(&format!("exec >{}", to.display()), &log, &["--json", "/dev/stdout"]);
    assert!(out.status.success(), "{}", text(&out.stderr));
    written(&to);
    for (one, other, says) in [
        ("-", "-", "standard output takes only one"),
        ("-", "/dev/stdout", "standard output takes only one"),
        ("x.json", "./x.json", "the same file"),
    ] {
        let out = analyze(
            &format!("cd {}", folder.path().display()),
            &log,
            &["--json", one, "--report", other],
        );
        assert_eq!(
            (out.status.code(), text(&out.stdout)),
            (Some(2), String::new()),
            "{one} {other}"
        );
        assert!(text(&out.stderr).contains(says), "{}", text(&out.stderr));
    }
    assert!(!folder.path().join("-").exists());
}

#[test]
fn load_prints_results_despite_a_full_disk() {
    let (_server, port) = serve(&[]);
    let url = format!("https://localhost:{port}/bytes/100");
    for option in ["--csv", "--hlog", "--hgrm", "--json"] {
        let args = ["load", &url, "--insecure", "-n", "20", option, "/dev/full"];
        let out = common::fathom().args(args).output().expect("fathom runs");
        let (table, err) = (text(&out.stdout), text(&out.stderr));
        assert_eq!(out.status.code(), Some(1), "{option}: {err}");
        assert!(table.contains("20 complete, 0 failed"), "{option}: {table}");
        assert!(err.contains("cannot write") && err.contains("No space left"), "{option}: {err}");
    }
}

#[test]
fn load_writes_csv_to_standard_output() {
    let (_server, port) = serve(&[]);
    let url = format!("https://localhost:{port}/bytes/100");
    let folder = tempfile::tempdir().expect("a folder");
    let args = ["load", &url, "--insecure", "-n", "20", "--csv", "-"];
    let out = common::fathom().args(args).current_dir(folder.path()).output().expect("fathom runs");
    assert!(out.status.success(), "{}", text(&out.stderr));
    assert_eq!(text(&out.stdout).lines().count(), 21, "{}", text(&out.stdout));
    assert!(text(&out.stderr).contains("20 complete"), "{}", text(&out.stderr));
    assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 0);
}

#[test]
fn closed_pipe_is_not_an_error() {
    let (_folder, log) = folder();
    for args in [
        &["controllers"][..],
        &["plan", "list"],
        &["analyze", "response", log.to_str().expect("utf-8"), "--json", "-"],
    ] {
        let mut child = common::fathom()
            .args(args)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("fathom runs");
        drop(child.stdout.take());
        let out = child.wait_with_output().expect("an end");
        assert!(
            out.status.success() && !text(&out.stderr).contains("panicked"),
            "{args:?}: {}",
            text(&out.stderr)
        );
    }
}

#[test]
fn unwritable_log_folder_is_reported() {
    let folder = tempfile::tempdir().expect("a folder");
    let logs = folder.path().join("logs");
    let logs = logs.to_str().expect("utf-8");
    for (words, says) in [(&[][..], true), (&["-q"][..], false)] {
        let (mut server, port) = serve(&[&["--qlog", logs], words].concat());
        fs::remove_dir_all(logs).expect("removed");
        let url = format!("https://localhost:{port}/bytes/100");
        let args = ["load", &url, "--insecure", "-n", "5"];
        let out = common::fathom().args(args).output().expect("fathom runs");
        assert!(out.status.success(), "{}", text(&out.stderr));
        let kill = Command::new("kill")
            .args(["-TERM", &server.child.id().to_string()])
            .status()
            .expect("kill runs");
        assert!(kill.success());
        let said = server.rest();
        assert_eq!(
            said.contains("WARN fathom_qlog") && said.contains("cannot be written"),
            says,
            "{said}"
        );
    }
}
