//! Tests that a page and all its parts arrive from `fathom serve` over HTTP/3, as Chromium itself
//! reports.
//!
//! The test needs headless Chromium, which `make chromium` installs before it runs the test.

#![cfg(target_os = "linux")]

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::{Duration, Instant};

const AGAIN: &str = "run again: make chromium";
/// Names of the browser on Debian and other systems. The first is Chromium without windows, the
/// smallest one.
const NAMES: [&str; 5] =
    ["chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "chrome"];
/// A browser that takes longer than this hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// A page that reports the protocol, status and size of each of its parts.
const PAGE: &str = r#"<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>fathom</title>
<link rel="stylesheet" href="style.css">
<script src="script.js"></script>
</head><body><p id="text">text</p><img id="image" src="image.png" alt=""><img id="large" src="large.svg" alt=""><pre id="report"></pre>
<script>
addEventListener('load', () => {
  const lines = [];
  for (const kind of ['navigation', 'resource'])
    for (const entry of performance.getEntriesByType(kind))
      lines.push(`${entry.nextHopProtocol} ${entry.responseStatus} ${entry.decodedBodySize} ${new URL(entry.name).pathname}`);
  lines.push('colour ' + getComputedStyle(document.getElementById('text')).color);
  lines.push('image ' + document.getElementById('image').naturalWidth + ' ' + document.getElementById('large').naturalWidth);
  lines.push('script ' + (window.scriptRan === true));
  document.getElementById('report').textContent = '\n' + lines.join('\n') + '\n';
});
</script></body></html>
"#;
const STYLE: &str = "#text { color: rgb(1, 2, 3); }\n";
const SCRIPT: &str = "window.scriptRan = true;\n";
/// One grey pixel.
const IMAGE: [u8; 67] = [
    137, 80, 78, 71, 13, 10, 26, 10, 0, 0, 0, 13, 73, 72, 68, 82, 0, 0, 0, 1, 0, 0, 0, 1, 8, 0, 0,
    0, 0, 58, 126, 155, 85, 0, 0, 0, 10, 73, 68, 65, 84, 120, 156, 99, 104, 0, 0, 0, 130, 0, 129,
    119, 205, 114, 182, 0, 0, 0, 0, 73, 69, 78, 68, 174, 66, 96, 130,
];

/// Returns an image of half a megabyte: enough packets to involve the controllers.
fn large() -> String {
    let comment = "a line that is there to be long\n".repeat(16_384);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"7\" height=\"7\"><!--{comment}--></svg>\n"
    )
}

/// A process, which is ended on drop.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

struct Server {
    _child: Ended,
    _stderr: BufReader<ChildStderr>,
    url: String,
    /// Options for Chromium that the server prints.
    options: Vec<String>,
}

fn serve(root: &Path, listen: &str, stack: &str, controller: &str) -> Server {
    let mut child = Command::new(env!("CARGO_BIN_EXE_fathom"))
        .args(["serve", "--listen", listen, "--stack", stack, "--controller", controller, "--root"])
        .arg(root)
        .stderr(Stdio::piped())
        .spawn()
        .expect("fathom runs");
    let mut stderr = BufReader::new(child.stderr.take().expect("standard error"));
    let mut line = || {
        let mut line = String::new();
        stderr.read_line(&mut line).expect("a line");
        line
    };
    let (serving, made) = (line(), line());
    let url = serving
        .split(' ')
        .find(|word| word.starts_with("https://"))
        .expect("an address")
        .to_owned();
    // As a shell reads them: one option is quoted.
    let quoted = made.split('"').skip(1).step_by(2);
    let plain = made.split('"').step_by(2).flat_map(str::split_whitespace);
    let options =
        plain.chain(quoted).filter(|word| word.starts_with("--")).map(str::to_owned).collect();
    Server { _child: Ended(child), _stderr: stderr, url, options }
}

fn chromium() -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = NAMES.iter().find_map(|name| {
        std::env::split_paths(&path).map(|dir| dir.join(name)).find(|f| f.is_file())
    });
    found.unwrap_or_else(|| {
        panic!("there is none of {NAMES:?} in PATH: `make chromium` installs one on Debian as root")
    })
}

/// Returns the page as the browser has it after loading.
// A browser that hangs is ended in real time.
#[allow(clippy::disallowed_methods)]
fn dump(browser: &Path, server: &Server) -> String {
    let profile = tempfile::tempdir().expect("a folder");
    let log = tempfile::NamedTempFile::new().expect("a file");
    let child = Command::new(browser)
        // The sandbox does not start as root. The page loaded here is our own.
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--no-first-run",
            "--disable-dev-shm-usage",
        ])
        // The browser sends requests to this server only.
        .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
        .args([
            "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost",
            "--no-proxy-server",
        ])
        // Chromium accepts a key by its hash only with a separate profile.
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .args(&server.options)
        .args(["--dump-dom", &server.url])
        .stdout(Stdio::piped())
        .stderr(log.reopen().expect("the file"))
        .spawn();
    let mut child = Ended(child.expect("the browser runs"));
    let mut stdout = child.0.stdout.take().expect("standard output");
    let reader = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        stdout.read_to_end(&mut bytes).map(|_| String::from_utf8_lossy(&bytes).into_owned())
    });
    let until = Instant::now() + PATIENCE;
    while child.0.try_wait().expect("a state").is_none() {
        if Instant::now() > until {
            drop(child);
            let said = std::fs::read_to_string(log.path()).unwrap_or_default();
            panic!("the browser was not done within {PATIENCE:?}: {said}\n{AGAIN}");
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let dom = reader.join().expect("the reader ends").expect("text");
    if !dom.contains("id=\"report\"") {
        let said = std::fs::read_to_string(log.path()).unwrap_or_default();
        panic!("the browser did not load the page: {dom}\n{said}\n{AGAIN}");
    }
    dom
}

#[test]
#[ignore = "wants headless Chromium: make chromium"]
fn chromium_loads_a_page_over_http3_on_each_stack() {
    let (browser, folder) = (chromium(), tempfile::tempdir().expect("a folder"));
    let version = Command::new(&browser).arg("--version").output().expect("the browser runs");
    println!("{}: {}", browser.display(), String::from_utf8_lossy(&version.stdout).trim());
    let large = large();
    let parts: [(&str, &[u8]); 5] = [
        ("index.html", PAGE.as_bytes()),
        ("style.css", STYLE.as_bytes()),
        ("script.js", SCRIPT.as_bytes()),
        ("image.png", &IMAGE),
        ("large.svg", large.as_bytes()),
    ];
    for (name, bytes) in parts {
        std::fs::write(folder.path().join(name), bytes).expect("written");
    }
    // The printed options are valid for both names of the server.
    let servers: [(&str, &str, &str); 5] = [
        ("quinn", "127.0.0.1:0", "127.0.0.1"),
        ("quinn", "127.0.0.1:0", "localhost"),
        ("noq", "[::1]:0", "localhost"),
        ("noq", "[::]:0", "localhost"),
        ("quiche", "127.0.0.1:0", "localhost"),
    ];
    let servers =
        servers.iter().filter(|(stack, ..)| cfg!(feature = "quiche") || *stack != "quiche");
    for (stack, listen, name) in servers {
        for controller in ["sync:signal=either", "native:cubic"] {
            let mut server = serve(folder.path(), listen, stack, controller);
            for address in ["127.0.0.1", "[::1]", "[::]"] {
                server.url = server.url.replace(address, name);
            }
            let dom = dump(&browser, &server);
            let report = dom
                .split_once("<pre id=\"report\">")
                .and_then(|(_, rest)| rest.split_once("</pre>"));
            let (report, _) = report.unwrap_or_else(|| panic!("no report in {dom}\n{AGAIN}"));
            println!("\n{stack}, {controller}: {}{}", server.url, report);
            let mut wanted: Vec<String> = parts
                .iter()
                .map(|(name, bytes)| {
                    format!("h3 200 {} /{}", bytes.len(), name.replace("index.html", ""))
                })
                .collect();
            wanted.extend(["colour rgb(1, 2, 3)", "image 1 7", "script true"].map(str::to_owned));
            let mut found: Vec<&str> = report.lines().filter(|line| !line.is_empty()).collect();
            wanted.sort();
            found.sort_unstable();
            assert_eq!(
                found, wanted,
                "{stack} with {controller}: not all of it came whole over HTTP/3\n{AGAIN}"
            );
        }
    }
}
