//! What the allocator keeps of memory that was freed.

use std::env;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// mimalloc keeps pages that are empty for later, and gives them back only while more is requested: a server that 2,000 clients have
/// left kept nine tenths of its largest size for good. These cost no CPU time that could be measured (docs/serve-measured.md).
const SETTINGS: [(&str, &str); 3] = [
    ("MIMALLOC_PURGE_DELAY", "0"),
    ("MIMALLOC_PAGE_FULL_RETAIN", "0"),
    ("MIMALLOC_PAGE_MAX_RECLAIM", "0"),
];

/// Makes the allocator give memory back to the system at once. It reads its settings before `main`, and only from the environment: so this
/// process starts the program anew, under the same process ID, unless the environment has them. Where that cannot be, nothing changes.
pub(crate) fn give_memory_back() {
    let unset: Vec<_> = SETTINGS.iter().filter(|(name, _)| env::var_os(name).is_none()).collect();
    let (Ok(program), mut words) = (env::current_exe(), env::args_os()) else { return };
    if let (false, Some(name)) = (unset.is_empty(), words.next()) {
        let mut command = Command::new(program);
        command.arg0(name).args(words).envs(unset.into_iter().copied());
        // Comes back only where it failed.
        let _ = command.exec();
    }
}
