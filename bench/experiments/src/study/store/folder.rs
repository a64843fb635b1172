//! A folder of files. Each file is written under a temporary name and then renamed or linked, so
//! that a reader finds the whole file or none, even after an interruption.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::{Entry, Files, RUNNING, temporary};

#[derive(Debug)]
pub(super) struct Folder(PathBuf);

impl Folder {
    pub(super) fn new(folder: &Path) -> Self {
        Self(folder.to_owned())
    }

    /// Writes a file under a temporary name that no other process uses, neither on this machine nor
    /// on another machine that shares the folder. Then calls `name_it` with the temporary and the
    /// final path.
    fn write(
        &self,
        name: &str,
        bytes: &[u8],
        name_it: impl FnOnce(&Path, &Path) -> io::Result<bool>,
    ) -> io::Result<bool> {
        let what = match name.strip_suffix(RUNNING) {
            Some(_) => &RUNNING[1..],
            None => name.trim_start_matches('.').split(['.', '-']).next().unwrap_or(name),
        };
        let temporary = self.0.join(temporary(what));
        let written =
            fs::write(&temporary, bytes).and_then(|()| name_it(&temporary, &self.0.join(name)));
        // By now the file has its final name, or another file already had that name. If clocks were
        // changed, another process may also have removed the temporary file as a leftover.
        match fs::remove_file(&temporary) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => written.and(Err(e)),
            _ => written,
        }
    }
}

impl Files for Folder {
    fn prepare(&self) -> io::Result<()> {
        fs::create_dir_all(&self.0)
    }

    fn each(
        &self,
        names: &[String],
        take: &mut dyn FnMut(usize, io::Result<Option<Vec<u8>>>),
    ) -> io::Result<()> {
        for (i, name) in names.iter().enumerate() {
            let read = match fs::read(self.0.join(name)) {
                Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
                read => read.map(Some),
            };
            take(i, read);
        }
        Ok(())
    }

    fn create(&self, name: &str, bytes: &[u8]) -> io::Result<bool> {
        self.write(name, bytes, |temporary, file| match fs::hard_link(temporary, file) {
            Ok(()) => Ok(true),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            // On a file system without hard links, the last of two simultaneous writers succeeds.
            Err(_) if fs::symlink_metadata(file).is_ok() => Ok(false),
            Err(_) => fs::rename(temporary, file).map(|()| true),
        })
    }

    fn replace(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        self.write(name, bytes, |temporary, file| fs::rename(temporary, file).map(|()| true))
            .map(drop)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        match fs::remove_file(self.0.join(name)) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
            _ => Ok(()),
        }
    }

    fn list(&self) -> io::Result<Vec<Entry>> {
        let entries = match fs::read_dir(&self.0) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let entry = |entry: io::Result<fs::DirEntry>| {
            let entry = entry.ok()?;
            // Skip a file that has been removed.
            let modified = entry.metadata().and_then(|file| file.modified()).ok()?;
            Some(Entry { name: entry.file_name().into_string().ok()?, modified })
        };
        Ok(entries.filter_map(entry).collect())
    }

    fn place(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }
}
