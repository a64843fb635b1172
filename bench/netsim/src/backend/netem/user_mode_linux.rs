//! User-Mode Linux: a kernel that runs as a program and has all of tc's queues, for machines whose
//! own kernel lacks them. The program needs no privileges. Its root file system is the host's, with
//! the rights of the user who runs it.
//!
//! Process 1 is a script generated in this file. It loads the queues' modules, runs one command,
//! and switches the machine off. The command's output goes to files in a folder of the host, which
//! are read while the command runs.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::io::{self, Read, Seek, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::queue;

const PROGRAM: &str = "linux.uml";
const MODULES: &str = "/usr/lib/uml/modules";
/// Kernel modules that links need whatever their queue is. Each queue names its own modules
/// ([`queue::Kind::module`]).
const NEEDED: [&str; 3] = ["veth", "sch_tbf", "sch_netem"];
/// Memory of the guest: enough for two runs of the largest plan that real time allows.
const MEMORY: &str = "2G";
const LOOK: Duration = Duration::from_millis(100);
const WIDE_REGISTERS: &str = include_str!("wide_registers.c");

/// Reason why a command could not be run in a guest. Each message is one line that says how to fix
/// it.
#[derive(Debug, thiserror::Error)]
pub enum GuestError {
    /// The program or its modules are missing.
    #[error(
        "this kernel has no netem, and User-Mode Linux, which has it, is not installed ({0}): \
         apt-get install user-mode-linux kmod iproute2"
    )]
    Missing(String),
    /// The shim for processors with wide registers cannot be built.
    #[error(
        "User-Mode Linux needs a shim for the wide registers of this processor, and 'cc' could not \
         build the shim ({0}): apt-get install gcc libc6-dev"
    )]
    Shim(String),
    /// A file or process operation failed.
    #[error("User-Mode Linux failed: {0}; check that /tmp and /dev/shm have free space")]
    Io(#[from] io::Error),
    /// The guest ended before it had run the command.
    #[error("User-Mode Linux ended before the command ended: {0}; use --backend loopback instead")]
    Died(String),
    /// The run was interrupted.
    #[error("interrupted")]
    Interrupted,
}

/// Runs `command` in a guest, in the current folder, and returns its exit code. Copies the
/// command's standard error to `stderr` while the command runs. Discards its standard output. Ends
/// the guest when `stop` becomes true.
///
/// # Errors
/// Returns a [`GuestError`] if the guest cannot run the command to its end.
pub fn run_in_guest(
    command: &[&OsStr],
    stop: &AtomicBool,
    stderr: &mut dyn Write,
) -> Result<u8, GuestError> {
    let folder = tempfile::Builder::new().prefix("fathom-uml-").tempdir()?;
    let script = folder.path().join("init");
    fs::write(&script, init(folder.path(), &std::env::current_dir()?, &modules()?, command))?;
    make_executable(&script)?;
    let mut guest = boot(&script, folder.path())?;
    let log = folder.path().join("stderr");
    let mut read = 0;
    while guest.0.try_wait()?.is_none() {
        if stop.load(Ordering::Relaxed) {
            return Err(GuestError::Interrupted);
        }
        read += pass_on(&log, read, stderr)?;
        std::thread::sleep(LOOK);
    }
    pass_on(&log, read, stderr)?;
    let code = fs::read_to_string(folder.path().join("code"))
        .ok()
        .and_then(|text| text.trim().parse().ok());
    code.ok_or_else(|| GuestError::Died(last_words(&folder.path().join("console"))))
}

/// Processes of a guest, killed when this value is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // Kill all processes: the kernel, and one process of the host for each address space inside
        // the guest.
        if let Some(group) = Pid::from_raw(self.0.id() as i32) {
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = self.0.wait();
    }
}

fn boot(script: &Path, folder: &Path) -> Result<Running, GuestError> {
    let console = fs::File::create(folder.join("console"))?;
    let mut command = Command::new(PROGRAM);
    command
        .arg(format!("mem={MEMORY}"))
        .args(["rootfstype=hostfs", "rootflags=/", "rw", "con=null", "con0=fd:0,fd:1", "quiet"])
        .arg(format!("init={}", script.display()))
        // The guest's memory is a file. If these variables are unset, the file is in /dev/shm, so
        // that nothing is written to disk.
        .env_remove("TMPDIR")
        .env_remove("TMP")
        .env_remove("TEMP")
        .stdin(Stdio::null())
        .stdout(console.try_clone()?)
        .stderr(console)
        .process_group(0);
    if wide_registers()? {
        command.env("LD_PRELOAD", shim(folder)?);
    }
    let guest = command.spawn().map_err(|e| GuestError::Missing(format!("{PROGRAM}: {e}")))?;
    keep_on_one_processor(&guest);
    Ok(Running(guest))
}

/// Pins the guest to one processor. A guest has one processor, which several host processes emulate
/// while they wait for each other. On one host processor, they run 2.4 times as fast as on two,
/// because on two they wake each other constantly.
fn keep_on_one_processor(guest: &Child) {
    let (Ok(allowed), Some(pid)) = (sched_getaffinity(None), Pid::from_raw(guest.id() as i32))
    else {
        return;
    };
    if let Some(last) = (0..CpuSet::MAX_CPU).rev().find(|cpu| allowed.is_set(*cpu)) {
        let mut one = CpuSet::new();
        one.set(last);
        // Without pinning, the guest is slower but still works.
        let _ = sched_setaffinity(Some(pid), &one);
    }
}

/// Returns whether the processor's registers are wider than User-Mode Linux supports.
fn wide_registers() -> io::Result<bool> {
    let info = fs::read_to_string("/proc/cpuinfo")?;
    let flags = info.lines().find(|line| line.starts_with("flags"));
    Ok(flags.is_some_and(|flags| flags.split_whitespace().any(|flag| flag == "amx_tile")))
}

fn shim(folder: &Path) -> Result<PathBuf, GuestError> {
    let (source, library) = (folder.join("wide_registers.c"), folder.join("wide_registers.so"));
    fs::write(&source, WIDE_REGISTERS)?;
    let built = Command::new("cc")
        .args(["-shared", "-fPIC", "-O2", "-o"])
        .arg(&library)
        .arg(&source)
        .output();
    match built {
        Ok(done) if done.status.success() => Ok(library),
        Ok(done) => Err(GuestError::Shim(first_line(&String::from_utf8_lossy(&done.stderr)))),
        Err(e) => Err(GuestError::Shim(e.to_string())),
    }
}

/// Returns the paths of the modules, in loading order.
fn modules() -> Result<Vec<PathBuf>, GuestError> {
    let missing = |what: &str| GuestError::Missing(format!("{what} is not in {MODULES}"));
    let version = fs::read_dir(MODULES)
        .ok()
        .and_then(|mut found| found.next())
        .ok_or_else(|| missing("no version"))?;
    let kernel = version?.path().join("kernel");
    let places = [kernel.join("drivers/net"), kernel.join("net/sched")];
    let find = |name: &str| {
        let found =
            places.iter().map(|place| place.join(format!("{name}.ko"))).find(|path| path.exists());
        found.ok_or_else(|| missing(&format!("{name}.ko")))
    };
    let of_queues: BTreeSet<&str> = queue::KINDS.iter().filter_map(|kind| kind.module).collect();
    NEEDED
        .into_iter()
        .chain(of_queues.into_iter().filter(|name| !NEEDED.contains(name)))
        .map(find)
        .collect()
}

/// Returns the script that is process 1.
fn init(folder: &Path, cwd: &Path, modules: &[PathBuf], command: &[&OsStr]) -> String {
    let quote = |text: &OsStr| format!("'{}'", text.to_string_lossy().replace('\'', r"'\''"));
    let load: Vec<String> =
        modules.iter().map(|path| format!("insmod {}", quote(path.as_os_str()))).collect();
    let command: Vec<String> = command.iter().map(|word| quote(word)).collect();
    let folder = quote(folder.as_os_str());
    format!(
        "#!/bin/sh
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin TMPDIR={folder}
mount -t proc proc /proc
mount -t sysfs sysfs /sys
{}
ip link set lo up
cd {}
{} >/dev/null 2>{folder}/stderr </dev/null
echo $? >{folder}/code
sync
echo o >/proc/sysrq-trigger
sleep 60
",
        load.join("\n"),
        quote(cwd.as_os_str()),
        command.join(" "),
    )
}

fn make_executable(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(0o700))
}

/// Copies the bytes of a file after offset `from`, and returns their number.
fn pass_on(path: &Path, from: u64, to: &mut dyn Write) -> io::Result<u64> {
    let Ok(mut file) = fs::File::open(path) else { return Ok(0) };
    file.seek(io::SeekFrom::Start(from))?;
    let mut new = Vec::new();
    file.read_to_end(&mut new)?;
    to.write_all(&new)?;
    Ok(new.len() as u64)
}

fn last_words(console: &Path) -> String {
    let text = String::from_utf8_lossy(&fs::read(console).unwrap_or_default()).into_owned();
    let telling = text.lines().rev().find(|line| line.contains("panic") || line.contains("rror"));
    first_line(telling.or_else(|| text.lines().last()).unwrap_or("it said nothing"))
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guest_init_script_quotes_its_arguments() {
        let words: Vec<&OsStr> = ["fathom", "compare", "it's $HOME"].map(OsStr::new).to_vec();
        let text =
            init(Path::new("/tmp/a b"), Path::new("/work"), &[PathBuf::from("/m/veth.ko")], &words);
        assert!(
            text.contains("'fathom' 'compare' 'it'\\''s $HOME' >/dev/null 2>'/tmp/a b'/stderr"),
            "{text}"
        );
        assert!(text.contains("insmod '/m/veth.ko'") && text.contains("cd '/work'"), "{text}");
    }
}
