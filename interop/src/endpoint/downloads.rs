//! Where clients put what they fetch.

use std::path::{Path, PathBuf};

use http::Uri;

/// A file that a client fetches.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// Where from.
    pub url: Uri,
    /// Where to.
    pub file: PathBuf,
}

impl Wanted {
    /// `url`, stored in `folder` under the last part of its path.
    pub(crate) fn new(url: Uri, folder: &Path) -> Result<Self, String> {
        let name = url.path().rsplit('/').next().unwrap_or_default();
        // The environment is ours to trust, but a name that leads elsewhere is a mistake all the same.
        if matches!(name, "" | "." | "..") || name.contains(['\\', '\0', '%']) {
            return Err(format!("'{url}' names no file by its last part; write one such as https://localhost/a.bin"));
        }
        Ok(Self { file: folder.join(name), url })
    }

    /// The path asked for.
    pub fn path(&self) -> &str {
        self.url.path()
    }
}
