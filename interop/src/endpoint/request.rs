//! Requested URLs and the files for their responses.

use std::path::{Path, PathBuf};

use fathom_cc::Invalid;
use http::Uri;

/// A request of the client.
#[derive(Clone, Debug)]
pub struct Request {
    /// URL.
    pub url: Uri,
    /// File for the response.
    pub file: PathBuf,
}

impl Request {
    /// Returns a request for `url`. The file in `folder` has the name of the last segment of the
    /// URL's path.
    pub(crate) fn new(url: Uri, folder: &Path) -> Result<Self, Invalid> {
        let name = url.path().rsplit('/').next().unwrap_or_default();
        // The environment is trusted, but a file name outside the directory would still be a
        // mistake.
        if matches!(name, "" | "." | "..") || name.contains(['\\', '\0', '%']) {
            return Err(Invalid::value(&url.to_string(), "has no file name in its path")
                .hint("use a URL such as https://localhost/a.bin"));
        }
        Ok(Self { file: folder.join(name), url })
    }

    /// Returns the path of the URL.
    pub fn path(&self) -> &str {
        self.url.path()
    }
}
