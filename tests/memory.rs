//! Tests the memory that `fathom serve` keeps after its clients have left.
#![cfg(target_os = "linux")]

use crate::common;

use std::process::Stdio;
use std::time::Duration;

use common::{fathom, serve};
use fathom_stacks::Stack;

/// Number of attempts, 100 ms apart; high enough for a machine that is busy with other work.
const PATIENCE: usize = 1_200;

/// Returns a value of a process's status in KiB.
fn kib(process: u32, name: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).expect("a status");
    let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("a line");
    line.split_whitespace().find_map(|word| word.parse().ok()).expect("a number")
}

#[test]
fn serve_releases_memory_after_clients_leave() {
    for stack in Stack::ALL.iter().map(|stack| stack.name()) {
        let (server, port) = serve(&["--stack", stack]);
        let process = server.child.id();
        let before = kib(process, "VmRSS:");
        let url = format!("https://localhost:{port}/bytes/10000");
        let load = [
            "load",
            &url,
            "--insecure",
            "-c",
            "1000",
            "-n",
            "3000",
            "--timeout",
            "600s",
            "--json",
            "-",
        ];
        let load = fathom().args(load).stderr(Stdio::null()).stdout(Stdio::null()).status();
        assert!(load.expect("a load").success(), "{stack}");
        let most = kib(process, "VmHWM:");
        assert!(most > before + 20_000, "{stack}: {before} KiB, then {most}: nothing to give back");
        // Connections whose close was lost end at the idle timeout.
        let kept = || (kib(process, "VmRSS:") - before) as f64 / (most - before) as f64;
        let back = (0..PATIENCE).any(|_| {
            std::thread::sleep(Duration::from_millis(100));
            kept() < 0.65
        });
        assert!(
            back,
            "{stack}: {before} KiB before, {most} at most, {} after",
            kib(process, "VmRSS:")
        );
    }
}
