//! Location of results, as a user writes it.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use fathom_cc::Invalid;

/// Location of results: a folder, or a prefix in an object store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Location {
    /// A folder: `results`, `file:///mnt/results`.
    Folder(PathBuf),
    /// A URL without a slash at the end: `s3://bucket/prefix`, `gs://bucket/prefix`,
    /// `az://container/prefix`.
    Objects(String),
}

/// URL schemes of object stores.
const SCHEMES: [&str; 3] = ["s3", "gs", "az"];

impl Location {
    /// Returns the location of the study with this name.
    #[must_use]
    pub fn join(&self, name: &str) -> Self {
        match self {
            Self::Folder(folder) => Self::Folder(folder.join(name)),
            Self::Objects(url) => Self::Objects(format!("{url}/{name}")),
        }
    }

    /// Returns advice for users whose location cannot be used.
    pub(crate) fn hint(&self) -> &'static str {
        match self {
            Self::Folder(_) => "name a folder you can write to",
            Self::Objects(url) if url.starts_with("gs:") => {
                "check the bucket's name, and check that GOOGLE_APPLICATION_CREDENTIALS names the \
                 key file of a service account"
            }
            Self::Objects(url) if url.starts_with("az:") => {
                "check the container's name, AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY"
            }
            Self::Objects(_) => {
                "check the bucket's name, AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION, and AWS_ENDPOINT_URL \
                 if the server is not Amazon's (profiles in ~/.aws are not read)"
            }
        }
    }
}

impl From<&Path> for Location {
    fn from(folder: &Path) -> Self {
        Self::Folder(folder.to_owned())
    }
}

impl FromStr for Location {
    type Err = Invalid;

    fn from_str(s: &str) -> Result<Self, Invalid> {
        let Some((scheme, rest)) = s.split_once("://") else { return Ok(Self::Folder(s.into())) };
        match scheme {
            "file" if rest.starts_with('/') => Ok(Self::Folder(rest.into())),
            scheme if SCHEMES.contains(&scheme) && !rest.trim_matches('/').is_empty() => {
                Ok(Self::Objects(s.trim_end_matches('/').to_owned()))
            }
            _ => Err(Invalid::value(s, "is not a valid location for results").hint(
                "write a folder, or s3://bucket/prefix, gs://bucket/prefix, \
                 az://container/prefix, file:///folder",
            )),
        }
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder(folder) => write!(f, "{}", folder.display()),
            Self::Objects(url) => f.write_str(url),
        }
    }
}
