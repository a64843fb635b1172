//! `fathom link --control`: a Unix socket that accepts one-line commands while the link runs. Also
//! `fathom link ctl`, which sends these commands.
//!
//! A process that can open the socket can change the link, so only the owner can open it. The
//! numbers of clients and waiting commands, the length of lines and the time for answers are
//! limited.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::time::Duration;

use fathom_cc::Invalid;
use fathom_netsim::relay::{COMMANDS, Reply, Request};

use super::report;
use crate::{Failure, output};

/// Maximum number of simultaneous clients.
const MOST_CLIENTS: usize = 4;
/// Maximum length of a command in bytes.
const LONGEST_LINE: u64 = 256;
/// Maximum number of commands that wait for the link.
const MOST_WAITING: usize = 16;
/// Maximum time between two commands of a client. It is also the maximum time for a client to read
/// an answer.
const SILENT: Duration = Duration::from_secs(60);
const SLOW: Duration = Duration::from_secs(2);
/// Maximum time for the link to answer. The link looks for commands at least every 50 ms.
const ANSWER: Duration = Duration::from_secs(10);

/// A control socket in the file system. Dropping this value removes the socket.
#[derive(Debug)]
pub(super) struct ControlSocket {
    path: PathBuf,
    inode: u64,
}

impl Drop for ControlSocket {
    fn drop(&mut self) {
        // In the meantime, another link may have created its socket at this path.
        if std::fs::symlink_metadata(&self.path).is_ok_and(|found| found.ino() == self.inode) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Listens at `path`, and returns a receiver of the commands.
///
/// # Errors
/// Returns an error if something other than an abandoned socket is at `path`, or if the socket
/// cannot be created.
pub(super) fn listen(path: &Path) -> Result<(ControlSocket, Receiver<Request>), Failure> {
    let wrong =
        |e: &dyn std::fmt::Display| Failure::input(format!("--control: '{}': {e}", path.display()));
    make_room(path).map_err(|e| wrong(&e))?;
    let (listener, inode) = bind(path).map_err(|e| match e.kind() {
        io::ErrorKind::InvalidInput => {
            wrong(&"the path is too long for a socket; name a shorter one, such as /tmp/link.sock")
        }
        _ => wrong(&format!("{e}; name a file in a folder that you may write to")),
    })?;
    let socket = ControlSocket { path: path.to_owned(), inode };
    let (requests, waiting) = mpsc::sync_channel(MOST_WAITING);
    std::thread::spawn(move || accept(&listener, &requests));
    Ok((socket, waiting))
}

/// Removes an abandoned socket, on which no process listens.
///
/// # Errors
/// Returns an error if something else is at `path`, or if the socket cannot be removed.
fn make_room(path: &Path) -> Result<(), Invalid> {
    let Ok(found) = std::fs::symlink_metadata(path) else { return Ok(()) };
    if !found.file_type().is_socket() {
        return Err(
            Invalid::because("the file exists and is not a socket").hint("name another file")
        );
    }
    match UnixStream::connect(path) {
        Ok(_) => Err(Invalid::because("another program listens on this socket")
            .hint("name another file, or end it")),
        Err(e) if e.kind() == io::ErrorKind::ConnectionRefused => std::fs::remove_file(path)
            .map_err(|e| {
                let kept = format!("the socket of a link that has ended cannot be removed: {e}");
                Invalid::because(kept).hint("remove it")
            }),
        Err(e) => Err(Invalid::because(format!("cannot connect to the existing socket: {e}"))
            .hint("name another file")),
    }
}

/// Creates the socket in a private folder, and moves it to `path` once only its owner can open it.
/// Also returns its inode number.
fn bind(path: &Path) -> io::Result<(UnixListener, u64)> {
    let folder =
        path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let private = tempfile::Builder::new().prefix(".fathom-").tempdir_in(folder)?;
    let made = private.path().join("s");
    let listener = UnixListener::bind(&made)?;
    std::fs::set_permissions(&made, std::fs::Permissions::from_mode(0o600))?;
    let inode = std::fs::symlink_metadata(&made)?.ino();
    std::fs::rename(&made, path)?;
    Ok((listener, inode))
}

fn accept(listener: &UnixListener, requests: &SyncSender<Request>) {
    let clients = Arc::new(AtomicUsize::new(0));
    for client in listener.incoming() {
        let Ok(mut client) = client else {
            // No descriptor is free, but one may become free later.
            std::thread::sleep(Duration::from_millis(100));
            continue;
        };
        if clients.fetch_add(1, Ordering::Relaxed) >= MOST_CLIENTS {
            clients.fetch_sub(1, Ordering::Relaxed);
            let _ = client.set_write_timeout(Some(SLOW));
            let _ = writeln!(
                client,
                "error: {MOST_CLIENTS} clients are already connected; end one of them"
            );
            continue;
        }
        let (requests, counted) = (requests.clone(), Arc::clone(&clients));
        let talks = std::thread::Builder::new().spawn(move || {
            // If a client leaves, is silent or does not read, only its own connection ends.
            let _ = talk(&client, &requests);
            counted.fetch_sub(1, Ordering::Relaxed);
        });
        if talks.is_err() {
            clients.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// Answers each line of a client with one line.
fn talk(client: &UnixStream, requests: &SyncSender<Request>) -> io::Result<()> {
    client.set_read_timeout(Some(SILENT))?;
    client.set_write_timeout(Some(SLOW))?;
    let (mut reader, mut writer) =
        (BufReader::with_capacity(LONGEST_LINE as usize, client), client);
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = (&mut reader).take(LONGEST_LINE + 1).read_until(b'\n', &mut line)?;
        if read == 0 {
            return Ok(());
        }
        if line.len() as u64 > LONGEST_LINE {
            // Close the connection, because the rest of the line would be taken for a command.
            return writeln!(
                writer,
                "error: a command has at most {LONGEST_LINE} bytes; write a shorter one"
            );
        }
        match std::str::from_utf8(&line).map(str::trim) {
            Ok("") => {}
            Ok(command) => writeln!(writer, "{}", answer(command, requests))?,
            Err(_) => {
                writeln!(writer, "error: the command is not UTF-8; write one such as 'rate 5Mbps'")?
            }
        }
    }
}

fn answer(command: &str, requests: &SyncSender<Request>) -> String {
    let (reply, answer) = mpsc::channel();
    if requests.try_send(Request { command: command.to_owned(), reply }).is_err() {
        return "error: the link has too many pending commands, or has ended; try again".into();
    }
    match answer.recv_timeout(ANSWER) {
        Ok(Ok(Reply::Done)) => "ok".into(),
        Ok(Ok(Reply::Help)) => format!("ok {COMMANDS}"),
        Ok(Ok(Reply::Status(stats))) => format!("ok {}", report::json(&stats)),
        Ok(Err(e)) => format!("error: {}", output::plain(&e.to_string())),
        Err(_) => "error: the link does not answer; it may have ended".into(),
    }
}

/// Send commands to a link that runs with --control.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  fathom link ctl /tmp/link.sock 'rate 5Mbps' 'loss 2%'
  fathom link ctl /tmp/link.sock 'blackout 3s'
  fathom link ctl /tmp/link.sock status

'help' lists the commands. The exit code is 0 if all commands were executed, and 2
if a command was refused; the commands before it remain in effect.")]
pub(super) struct SendArgs {
    /// Socket that 'fathom link --control' named.
    #[arg(value_name = "PATH")]
    socket: PathBuf,
    /// Commands in order; quote each command that has a space.
    #[arg(value_name = "COMMAND", required = true)]
    commands: Vec<String>,
}

pub(super) fn send(args: &SendArgs) -> Result<(), Failure> {
    let wrong =
        |e: &dyn std::fmt::Display| Failure::input(format!("'{}': {e}", args.socket.display()));
    let socket = UnixStream::connect(&args.socket)
        .map_err(|e| wrong(&format!("{e}; name the socket of 'fathom link --control'")))?;
    let lost = |e: io::Error| wrong(&format!("the link does not answer: {e}"));
    socket.set_read_timeout(Some(ANSWER + SLOW)).map_err(lost)?;
    let (mut reader, mut writer) = (BufReader::new(&socket), &socket);
    for command in &args.commands {
        if command.trim().is_empty() || command.contains('\n') {
            return Err(Failure::input(format!(
                "'{}' is not one command; write one such as 'rate 5Mbps'",
                command.escape_debug()
            )));
        }
        writeln!(writer, "{command}").map_err(lost)?;
        let mut line = String::new();
        if reader.read_line(&mut line).map_err(lost)? == 0 {
            return Err(wrong(&"the link has closed the connection"));
        }
        let line = output::plain(line.trim_end());
        if let Some(error) = line.strip_prefix("error: ") {
            return Err(Failure::input(error));
        }
        output::print(&format!("{line}\n"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use fathom_cc::Invalid;
    use fathom_netsim::relay::CommandError;

    use super::*;

    /// Starts a link that obeys every command except 'no'.
    fn serve(path: &Path) -> ControlSocket {
        let (socket, requests) = listen(path).unwrap_or_else(|e| panic!("{}", e.line));
        std::thread::spawn(move || {
            for request in requests {
                let no = request.command == "no";
                let error = CommandError::Value(Invalid::because("it is refused").in_field("no"));
                let _ = request.reply.send(if no { Err(error) } else { Ok(Reply::Done) });
            }
        });
        socket
    }

    fn ask(client: &mut UnixStream, bytes: &[u8]) -> String {
        client.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        client.write_all(bytes).unwrap();
        let mut line = String::new();
        BufReader::new(&*client).read_line(&mut line).unwrap();
        line
    }

    #[test]
    fn control_socket_is_private_and_removed_at_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("link.sock");
        let socket = serve(&path);
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let error = listen(&path).unwrap_err().line;
        assert!(error.contains("another program listens on this socket"), "{error}");
        drop(socket);
        assert!(!path.exists());
        // No other file is left, and the socket of a killed link is replaced.
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        drop(UnixListener::bind(&path).unwrap());
        drop(serve(&path));
        std::fs::write(&path, "a file").unwrap();
        assert!(listen(&path).unwrap_err().line.contains("is not a socket"));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "a file");
    }

    #[test]
    fn command_length_and_client_count_are_bounded() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("link.sock");
        let _socket = serve(&path);
        let mut client = UnixStream::connect(&path).unwrap();
        assert_eq!(ask(&mut client, b"\n  \nrate 5Mbps\n"), "ok\n");
        assert_eq!(ask(&mut client, b"no\n"), "error: no: it is refused\n");
        assert!(ask(&mut client, b"\xff\xfe\n").contains("not UTF-8"));
        assert!(ask(&mut client, &[b'x'; 300]).contains("at most 256 bytes"));
        // The connection is closed after a line that was too long.
        let mut left = Vec::new();
        let _ = client.read_to_end(&mut left);
        drop(client);
        let mut others: Vec<UnixStream> = Vec::new();
        // The closed connection may still count for a moment.
        while others.len() < MOST_CLIENTS {
            let mut other = UnixStream::connect(&path).unwrap();
            if ask(&mut other, b"rate 1Mbps\n") == "ok\n" {
                others.push(other);
            }
        }
        let mut refused = String::new();
        BufReader::new(UnixStream::connect(&path).unwrap()).read_line(&mut refused).unwrap();
        assert!(refused.contains("4 clients are already connected"), "{refused}");
        assert_eq!(ask(&mut others[0], b"loss 1%\n"), "ok\n");
    }
}
