//! Tests that `fathom new-controller` writes a copy of `own/template` under another name. The
//! workspace builds and tests `own/template` itself.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::common::files_below;

const REPOSITORY: &str = env!("CARGO_MANIFEST_DIR");
const FILES: [&str; 6] = [
    "Cargo.toml",
    "README.md",
    "src/lib.rs",
    "src/main.rs",
    "tests/controller.rs",
    "tests/program.rs",
];

/// Creates a folder with the files of a clone that the command needs.
fn clone() -> tempfile::TempDir {
    let clone = tempfile::tempdir().expect("a folder");
    for file in FILES {
        let file = Path::new("own/template").join(file);
        let to = clone.path().join(&file);
        fs::create_dir_all(to.parent().expect("a folder")).expect("made");
        fs::copy(Path::new(REPOSITORY).join(file), to).expect("copied");
    }
    fs::copy(Path::new(REPOSITORY).join("Cargo.lock"), clone.path().join("Cargo.lock"))
        .expect("copied");
    clone
}

fn new_controller(args: &[&str], from: &Path) -> Output {
    let mut fathom = Command::new(env!("CARGO_BIN_EXE_fathom"));
    fathom.arg("new-controller").args(args).current_dir(from).output().expect("fathom runs")
}

/// Returns the files below a folder, by their paths inside it.
fn files(folder: &Path) -> Vec<String> {
    let inside = |file: PathBuf| {
        file.strip_prefix(folder).expect("inside").to_str().expect("text").to_owned()
    };
    files_below(folder).into_iter().map(inside).collect()
}

#[test]
fn controller_template_is_written_under_another_name() {
    let clone = clone();
    let old = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000);
    let lock =
        fs::File::options().write(true).open(clone.path().join("Cargo.lock")).expect("a file");
    lock.set_modified(old).expect("set");
    // The command works in any folder of the clone.
    let out = new_controller(&["my-own-2"], &clone.path().join("own"));
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    // The commands name the features of the program that wrote them. With other features, Cargo
    // would build everything again.
    let features = if cfg!(feature = "quiche") { " --features quiche" } else { "" };
    for command in [
        "cargo test --release -p my-own-2FEATURES\n",
        "cargo run --release -p my-own-2FEATURES -- judge my-own-2",
    ] {
        let command = command.replace("FEATURES", features);
        assert!(
            String::from_utf8_lossy(&out.stdout).contains(&command),
            "{}",
            String::from_utf8_lossy(&out.stdout)
        );
    }
    let made = clone.path().join("own/my-own-2");
    assert_eq!(files(&made), FILES);
    for file in FILES {
        let text = fs::read_to_string(made.join(file)).expect("text");
        let template = fs::read_to_string(Path::new(REPOSITORY).join("own/template").join(file))
            .expect("text");
        assert!(!text.contains("template"), "{file}");
        assert_eq!(
            text.replace("my-own-2", "template-controller")
                .replace("my_own_2", "template_controller"),
            template
        );
    }
    // The lock file has the entry that Cargo would add, and its time is unchanged.
    let lock = clone.path().join("Cargo.lock");
    let (before, after) =
        (fs::read_to_string(Path::new(REPOSITORY).join("Cargo.lock")), fs::read_to_string(&lock));
    let entry = "[[package]]\nname = \"my-own-2\"\nversion = \"0.1.0\"\ndependencies = [\n \"fathom\",\n \"fathom-cc\",\n]\n\n";
    let after = after.expect("text");
    assert_eq!(after.replace(entry, ""), before.expect("text"));
    let names: Vec<&str> = after.lines().filter_map(|line| line.strip_prefix("name = ")).collect();
    assert!(names.contains(&"\"my-own-2\"") && names.is_sorted());
    assert_eq!(fs::metadata(&lock).expect("there").modified().expect("a time"), old);
    let main = fs::read_to_string(made.join("src/main.rs")).expect("text");
    assert!(main.contains("run_with(&[my_own_2::ALGORITHM])"), "{main}");
}

#[test]
fn invalid_names_and_folders_are_refused_in_one_line() {
    let clone = clone();
    let elsewhere = tempfile::tempdir().expect("a folder");
    let (here, there) = (clone.path(), elsewhere.path());
    assert!(new_controller(&["mine"], here).status.success());
    let long = "a".repeat(41);
    let cases: [(&[&str], &Path, &str); 11] = [
        (&["mine"], here, "already"),
        (&["reno"], here, "controller 'reno' already"),
        (&["ghstcp"], here, "controller 'ghstcp' already"),
        (&["tokio"], here, "package 'tokio' already"),
        (&["Mine"], here, "not a valid name for a controller"),
        (&["../mine"], here, "not a valid name for a controller"),
        (&[&long], here, "at most 40"),
        (&["match"], here, "is reserved"),
        (&["native"], here, "is reserved"),
        (&["other"], there, "--fathom DIR"),
        (&["other", "--fathom", "/nowhere"], here, "name the folder of a clone"),
    ];
    for (args, from, hint) in cases {
        let out = new_controller(args, from);
        let line = String::from_utf8_lossy(&out.stderr);
        assert_eq!((out.status.code(), line.lines().count()), (Some(2), 1), "{args:?}: {line}");
        assert!(line.contains(hint), "{args:?}: {line}");
    }
    // Outside a clone, the command takes the folder of one, and the next steps begin with `cd`.
    let out = new_controller(&["other", "--fathom", here.to_str().expect("text")], there);
    assert!(out.status.success() && String::from_utf8_lossy(&out.stdout).contains("  cd "));
    assert_eq!(
        files(&here.join("own")).len(),
        3 * FILES.len(),
        "nothing is left of what was refused"
    );
}
