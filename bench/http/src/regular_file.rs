//! Reads whole regular files of limited size. Refuses pipes and devices, because they could block
//! the reader.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;

/// Opens a file without waiting for the other end of a pipe.
///
/// # Errors
/// Returns an error if the file cannot be opened, or is a pipe, a device or a folder.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    // The flag has no effect on regular files.
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let file = File::options().read(true).custom_flags(flags).open(path)?;
    if file.metadata()?.is_file() {
        Ok(file)
    } else {
        Err(io::Error::other("the file is not a regular file"))
    }
}

/// Reads a file of at most this many bytes.
///
/// # Errors
/// Returns the errors of [`open`]. Also returns an error if the file is larger.
pub(crate) fn read(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path)?.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        return Err(io::Error::other(format!("the file is larger than {most} bytes")));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_regular_files_of_bounded_size_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, "12345").unwrap();
        assert_eq!(read(&path, 5).unwrap(), b"12345");
        assert!(read(&path, 4).unwrap_err().to_string().contains("larger than 4 bytes"));
        let pipe = folder.path().join("pipe");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0)
            .unwrap();
        for path in [pipe.as_path(), folder.path(), Path::new("/dev/zero")] {
            assert!(
                read(path, 5).unwrap_err().to_string().contains("not a regular file"),
                "{}",
                path.display()
            );
        }
        assert_eq!(
            read(&folder.path().join("none"), 5).unwrap_err().kind(),
            io::ErrorKind::NotFound
        );
    }
}
