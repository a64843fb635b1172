//! A workspace of another project, below this one's target folder: unpacked packages, and programs
//! that use them.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::adoption::Adoption;

/// Published crates, each after the crates that it uses.
pub(crate) const CRATES: [&str; 8] = [
    "fathom-units",
    "fathom-cc",
    "fathom-frames",
    "fathom-netsim",
    "fathom-plugin",
    "fathom-quinn",
    "h3-noq",
    "fathom-noq",
];

/// Size of the file that servers serve.
const BYTES: usize = 1_000_000;

pub(crate) fn repository() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Runs a command, which must succeed, and returns its standard output.
pub(crate) fn run(program: &str, args: &[&str], folder: &Path) -> String {
    let out = Command::new(program)
        .args(args)
        .current_dir(folder)
        .output()
        .unwrap_or_else(|e| panic!("{program}: {e}"));
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{program} {}\n{said}", args.join(" "));
    String::from_utf8(out.stdout).expect("text")
}

/// Packages every crate, and returns the folder of the packages.
fn package() -> PathBuf {
    let crates = CRATES.iter().flat_map(|name| ["-p", name]);
    // The packages are verified below, where they are used. Verification here would build each once
    // more.
    let args: Vec<&str> =
        ["package", "--locked", "--allow-dirty", "--no-verify"].into_iter().chain(crates).collect();
    run(env!("CARGO"), &args, &repository());
    repository().join("target/package")
}

/// Returns lines of a manifest's `[patch]` that replace crates of the registry with packages.
fn patches() -> String {
    CRATES.iter().map(|name| format!("{name} = {{ path = \"crates/{name}-0.1.0\" }}\n")).collect()
}

/// Returns the folder of a dependency of the workspace in `folder`, as Cargo fetched it.
fn sources(folder: &Path, name: &str) -> PathBuf {
    let metadata: serde_json::Value =
        serde_json::from_str(&run(env!("CARGO"), &["metadata", "--format-version", "1"], folder))
            .expect("Cargo's metadata");
    let packages = metadata["packages"].as_array().expect("packages");
    let found = packages
        .iter()
        .find(|package| package["name"] == name)
        .unwrap_or_else(|| panic!("no {name}"));
    let manifest = found["manifest_path"].as_str().expect("a path");
    Path::new(manifest).parent().expect("a folder").to_owned()
}

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
    fs::write(path, text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
}

fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder");
    for entry in fs::read_dir(from).expect("a folder").flatten() {
        fs::copy(entry.path(), to.join(entry.file_name())).expect("copied");
    }
}

/// A server, which is ended on drop.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(crate) struct Workspace(PathBuf);

impl Workspace {
    /// Creates a workspace without sources, and keeps earlier build results.
    pub(crate) fn create(folder: &str) -> Self {
        let folder = repository().join(folder);
        fs::create_dir_all(&folder).expect("a folder");
        // Build results stay; only the sources are made anew.
        for part in ["crates", "quinn", "noq", "client"] {
            let _ = fs::remove_dir_all(folder.join(part));
        }
        Self(folder)
    }

    /// Writes the manifest, which replaces crates of the registry with packages.
    pub(crate) fn write_manifest(&self) {
        let patches = patches();
        let manifest = format!(
            "[workspace]\nmembers = [\"quinn\", \"noq\", \"client\"]\nresolver = \"3\"\n\n# A registry would have them.\n[patch.crates-io]\n{patches}"
        );
        write(&self.0.join("Cargo.toml"), &manifest);
        // Dependencies of both workspaces have the tested versions; all others have the newest.
        fs::copy(repository().join("Cargo.lock"), self.0.join("Cargo.lock")).expect("copied");
    }

    /// Unpacks every crate as it would be uploaded.
    pub(crate) fn unpack_packages(&self) {
        let (packages, to) = (package(), self.0.join("crates"));
        fs::create_dir_all(&to).expect("a folder");
        for name in CRATES {
            let archive = packages.join(format!("{name}-0.1.0.crate"));
            // All files of a package have the same time, so Cargo would take changed files for
            // those that it built before.
            run(
                "tar",
                &["-xzmf", &archive.to_string_lossy(), "-C", &to.to_string_lossy()],
                &self.0,
            );
        }
    }

    /// Writes a program from the stack's own server example, and returns the number of changed
    /// lines.
    pub(crate) fn adopt(&self, adoption: &Adoption) -> usize {
        let stack = adoption.stack;
        let examples = sources(&repository(), stack).join("examples");
        let source = fs::read_to_string(examples.join("server.rs")).expect("the example");
        let (changed, lines) = adoption.apply(&source);
        let folder = self.0.join(stack);
        write(&folder.join("src/main.rs"), &changed);
        copy_folder(&examples.join("common"), &folder.join("src/common"));
        let version = if stack == "quinn" { "0.11" } else { "1.4" };
        let manifest = format!(
            r#"[package]
name = "{stack}-server"
version = "0.1.0"
edition = "2024"

[features]
ring = ["fathom-{stack}/ring", "{stack}/rustls-ring", "rcgen/ring", "rustls", "rustls-ring"]
aws-lc-rs = ["fathom-{stack}/aws-lc-rs", "{stack}/rustls-aws-lc-rs", "rcgen/aws_lc_rs", "rustls", "rustls-aws-lc-rs"]
# The examples ask for these features of their own stack.
rustls = []
rustls-ring = []
rustls-aws-lc-rs = []

[dependencies]
fathom-{stack} = {{ version = "0.1", default-features = false }}

# What the example asks for.
anyhow = "1"
clap = {{ version = "4", features = ["derive"] }}
directories-next = "2"
proto = {{ package = "{stack}-proto", version = "{version}", default-features = false }}
{stack} = {{ version = "{version}", default-features = false, features = ["runtime-tokio"] }}
rcgen = {{ version = "0.14", default-features = false, features = ["crypto", "pem"] }}
rustls = {{ version = "0.23", default-features = false, features = ["std"] }}
tokio = {{ version = "1", features = ["macros", "rt-multi-thread", "time"] }}
tokio-stream = "0.1"
tracing = "0.1"
tracing-futures = {{ version = "0.2", default-features = false, features = ["std-future"] }}
tracing-subscriber = {{ version = "0.3", features = ["env-filter"] }}
url = "2"
"#
        );
        write(&folder.join("Cargo.toml"), &manifest);
        lines
    }

    /// Writes a client of the packaged plug-in, and the examples of the packaged network.
    pub(crate) fn write_client(&self) {
        let folder = self.0.join("client");
        write(&folder.join("src/bin/fetch.rs"), include_str!("fetch.rs"));
        let examples = self.0.join("crates/fathom-netsim-0.1.0/examples");
        for (example, bin) in [("quinn.rs", "simulate.rs"), ("tokio.rs", "simulate_tokio.rs")] {
            let text = fs::read_to_string(examples.join(example)).expect("packaged");
            write(&folder.join("src/bin").join(bin), &text);
        }
        let manifest = r#"[package]
name = "client"
version = "0.1.0"
edition = "2024"

[features]
ring = ["fathom-quinn/ring", "quinn/rustls-ring", "rcgen/ring"]
aws-lc-rs = ["fathom-quinn/aws-lc-rs", "quinn/rustls-aws-lc-rs", "rcgen/aws_lc_rs"]

[dependencies]
anyhow = "1"
fathom-cc = "0.1"
fathom-frames = "0.1"
fathom-netsim = { version = "0.1", default-features = false, features = ["quinn", "tokio"] }
fathom-quinn = { version = "0.1", default-features = false }
fathom-units = "0.1"
h3-noq = "0.1"
quinn = { version = "0.11", default-features = false, features = ["runtime-tokio"] }
rcgen = { version = "0.14", default-features = false, features = ["crypto", "pem"] }
rustls = { version = "0.23", default-features = false, features = ["std"] }
tokio = { version = "1", features = ["macros", "rt-multi-thread", "time"] }
"#;
        write(&folder.join("Cargo.toml"), manifest);
    }

    /// Writes programs with frameworks that accept connections themselves.
    pub(crate) fn write_frameworks(&self) {
        let patches = patches();
        write(&self.0.join("src/bin/salvo.rs"), include_str!("salvo.rs"));
        write(&self.0.join("src/bin/iroh.rs"), include_str!("iroh.rs"));
        let manifest = format!(
            r#"[package]
name = "frameworks"
version = "0.1.0"
edition = "2024"

[workspace]

[dependencies]
anyhow = "1"
fathom-noq = "0.1"
fathom-quinn = "0.1"
iroh = {{ version = "1.4", default-features = false, features = ["tls-ring"] }}
rcgen = {{ version = "0.14", default-features = false, features = ["crypto", "pem", "ring"] }}
rustls = {{ version = "0.23", default-features = false, features = ["ring", "std"] }}
salvo = {{ version = "1.1", default-features = false, features = ["quinn", "ring", "server"] }}
tokio = {{ version = "1", features = ["macros", "rt-multi-thread"] }}

[patch.crates-io]
{patches}"#
        );
        write(&self.0.join("Cargo.toml"), &manifest);
        fs::copy(repository().join("Cargo.lock"), self.0.join("Cargo.lock")).expect("copied");
    }

    /// Checks that salvo responds over HTTP/3 and that both ends exchange one-way delays, which
    /// shows that the controller is Fathom's.
    pub(crate) fn serve_salvo(&self) {
        let mut server = Command::new(self.0.join("target/release/salvo"))
            .stdout(Stdio::piped())
            .spawn()
            .map(Server)
            .expect("the server runs");
        let mut address = String::new();
        BufReader::new(server.0.stdout.take().expect("standard output"))
            .read_line(&mut address)
            .expect("its address");
        let port = address.trim().rsplit(':').next().expect("a port");
        let url = format!("https://localhost:{port}/body");
        let load = ["load", &url, "--insecure", "-n", "3", "--json", "-"];
        let loaded: serde_json::Value =
            serde_json::from_str(&run(env!("CARGO_BIN_EXE_fathom"), &load, &self.0)).expect("JSON");
        assert_eq!(loaded["requests"]["completed"], 3, "{loaded}");
        assert_eq!(loaded["connections"]["one_way"], 1, "{loaded}");
        println!("salvo: 3 responses over HTTP/3, one-way delays exchanged");
    }

    /// Runs Cargo. Builds without `--release` are the fastest, and nothing is measured in them.
    pub(crate) fn cargo(&self, args: &[&str]) -> String {
        run(env!("CARGO"), &[args, &["--config", "profile.dev.debug=0"]].concat(), &self.0)
    }

    /// Checks that the client receives every byte of a file that the server sends, and that both
    /// ends exchange one-way delays.
    pub(crate) fn serve_and_fetch(&self, stack: &str, provider: &str) {
        let site = tempfile::tempdir().expect("a folder");
        let body: Vec<u8> =
            (0..BYTES).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        fs::write(site.path().join("file"), &body).expect("written");
        let programs = self.0.join("target/debug");
        let mut server = Command::new(programs.join(format!("{stack}-server")))
            .args(["--listen", "127.0.0.1:0"])
            .arg(site.path())
            // The example keeps its certificate in this folder.
            .env("XDG_DATA_HOME", site.path())
            .stderr(Stdio::piped())
            .spawn()
            .map(Server)
            .expect("the server runs");
        let said = BufReader::new(server.0.stderr.take().expect("standard error"));
        let address = said
            .lines()
            .map_while(Result::ok)
            .find_map(|line| Some(line.strip_prefix("listening on ")?.to_owned()));
        let address = address.unwrap_or_else(|| panic!("{stack}'s server did not listen"));
        let certificate = site.path().join(format!("{stack}-examples/cert.der"));
        let fetched = run(
            &programs.join("fetch").to_string_lossy(),
            &[&address, &certificate.to_string_lossy(), "/file"],
            &self.0,
        );
        print!("{stack} with {provider}: {fetched}");
        let digest = body
            .iter()
            .fold(0, |sum: u64, byte| sum.wrapping_mul(31).wrapping_add(u64::from(*byte)));
        assert_eq!(fetched.trim(), format!("{BYTES} bytes, digest {digest}, one-way delays: Sync"));
    }

    /// Writes tokio-quiche's own server example with the derived quiche, and returns the number of
    /// changed lines.
    pub(crate) fn adopt_tokio_quiche(&self) -> usize {
        let quiche = repository().join("cc/quiche");
        let examples = sources(&quiche.join("tokio"), "tokio-quiche").join("examples");
        copy_folder(&examples.join("async_http3_server"), &self.0.join("src"));
        for file in ["cert.crt", "cert.key"] {
            write(
                &self.0.join("examples").join(file),
                &fs::read_to_string(examples.join(file)).expect("the example's"),
            );
        }
        let changed = format!("quiche = {{ path = \"{}\" }}\n", quiche.display());
        let manifest = format!(
            r#"[package]
name = "tokio-quiche-server"
version = "0.1.0"
edition = "2021"

[workspace]

[dependencies]
clap = {{ version = "4", features = ["derive"] }}
env_logger = {{ version = "0.11", default-features = false, features = ["auto-color", "humantime"] }}
futures = "0.3"
futures-util = {{ version = "0.3", features = ["sink"] }}
http = "1"
http-body = "1"
http-body-util = "0.1"
log = "0.4"
regex = "1"
tokio = {{ version = "1", features = ["macros", "net", "rt-multi-thread"] }}
tokio-util = "0.7"
quiche = "0.30"
tokio-quiche = {{ version = "0.20", default-features = false }}

[patch.crates-io]
{changed}
[profile.release]
lto = "off"
debug = "line-tables-only"
[profile.release.build-override]
opt-level = 0
debug = false
"#
        );
        write(&self.0.join("Cargo.toml"), &manifest);
        // With the same versions, most of the build below is done already.
        fs::copy(quiche.join("tokio/Cargo.lock"), self.0.join("Cargo.lock")).expect("copied");
        changed.lines().count()
    }

    /// Checks that the server responds to requests under one of Fathom's controllers.
    pub(crate) fn serve_tokio_quiche(&self) {
        let target = repository().join("target");
        // `make test-tokio-quiche` has built the same crates there.
        let target = target.to_string_lossy();
        run(env!("CARGO"), &["build", "--release", "--target-dir", &target], &self.0);
        let program = Path::new(&*target).join("release/tokio-quiche-server");
        let address = free_address();
        let _server = Command::new(program)
            .args(["--address", &address, "--cc-algorithm", "sync:signal=either"])
            .spawn()
            .map(Server)
            .expect("the server runs");
        let url = format!("https://{address}/stream-bytes/100000");
        let load = ["load", &url, "--insecure", "-n", "3", "--json", "-"];
        // Repeat until the server listens.
        let loaded = (0..60).find_map(|_| {
            let out = Command::new(env!("CARGO_BIN_EXE_fathom"))
                .args(load)
                .output()
                .expect("fathom runs");
            out.status.success().then(|| String::from_utf8(out.stdout).expect("text"))
        });
        let loaded: serde_json::Value =
            serde_json::from_str(&loaded.expect("an answer in time")).expect("JSON");
        assert_eq!(loaded["requests"]["completed"], 3, "{loaded}");
        // Both ends exchange one-way delays, which shows that the controller is Fathom's.
        assert_eq!(loaded["connections"]["one_way"], 1, "{loaded}");
    }
}

/// Returns a loopback address that was free a moment ago.
fn free_address() -> String {
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").expect("a free port");
    socket.local_addr().expect("bound").to_string()
}
