//! Served content: files under a root, synthetic bodies, delays, and an upstream server behind a
//! proxy.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use http::header::ALLOW;
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode};
use percent_encoding::percent_decode_str;

use crate::conditional::{self, Conditions, Representation, Selection};
use crate::confinement::stays_below;
use crate::descriptors::Descriptors;
use crate::event_loops;
pub use crate::files::ServedFile;
use crate::files::{Files, is_missing, is_shown};
use crate::limits::Limits;
use crate::proxy::Proxy;
use crate::request::SiteRequest;
pub use crate::response::{Body, SiteResponse};
use crate::response::{RETRY_AFTER, plain};
use tokio::sync::mpsc;

/// Methods that are supported for local content.
const ALLOWED: HeaderValue = HeaderValue::from_static("GET, HEAD, OPTIONS");

/// A root folder and synthetic content.
#[derive(Clone, Debug)]
pub struct Site {
    root: Option<PathBuf>,
    limits: Limits,
    files: Files,
    proxy: Option<ProxiedPaths>,
}

/// The paths that a proxy answers.
#[derive(Clone, Debug)]
struct ProxiedPaths {
    proxy: Proxy,
    /// Prefix of the proxied paths. It ends at a segment boundary.
    prefix: String,
}

impl ProxiedPaths {
    fn has(&self, path: &str) -> bool {
        let rest = path.strip_prefix(self.prefix.as_str());
        let all = self.prefix == "/";
        // The target `*` means the whole server. Only OPTIONS may use it.
        rest.is_some_and(|rest| {
            self.prefix.ends_with('/') || rest.is_empty() || rest.starts_with('/')
        }) || (all && path == "*")
    }

    /// Returns whether this path may be sent to the upstream server. A path that leads out of the
    /// prefix would reach content that must not be proxied.
    fn confines(&self, path: &str) -> bool {
        self.prefix == "/" || stays_below(path, &self.prefix)
    }
}

/// Reason why a root folder cannot be served. Each message is one line with a hint.
#[derive(Debug, thiserror::Error)]
pub enum RootError {
    /// The folder cannot be read.
    #[error("root '{}': {why}; name a folder you can read", root.display())]
    Unreadable {
        /// Path of the root.
        root: PathBuf,
        /// Error of the system.
        why: io::Error,
    },
    /// The path is that of a file.
    #[error("root '{}' is a file, not a folder; name the folder that contains the file", .0.display())]
    NotAFolder(PathBuf),
}

/// Returns the canonical path of a root folder.
fn root_folder(root: &Path) -> Result<PathBuf, RootError> {
    match root.canonicalize() {
        Ok(folder) if folder.is_dir() => Ok(folder),
        Ok(_) => Err(RootError::NotAFolder(root.to_owned())),
        Err(why) => Err(RootError::Unreadable { root: root.to_owned(), why }),
    }
}

impl Site {
    /// Returns a site that serves `/bytes/N` and `/delay/MS/bytes/N`, and the files under `root` if
    /// there is a root.
    ///
    /// # Errors
    /// Returns an error if the root is not a readable folder.
    pub fn new(root: Option<&Path>, limits: Limits) -> Result<Self, RootError> {
        Ok(Self {
            root: root.map(root_folder).transpose()?,
            limits,
            files: Files::new(Descriptors::of_process(event_loops::cores())),
            proxy: None,
        })
    }

    /// Limits the descriptors for files. By default, the limit follows the process's limit.
    #[must_use]
    pub fn with_descriptors(mut self, descriptors: Descriptors) -> Self {
        self.files = Files::new(descriptors);
        self
    }

    /// Adds a proxy for paths that begin with `prefix`. The prefix `/` covers all paths, including
    /// synthetic ones.
    #[must_use]
    pub fn with_proxy(mut self, proxy: Proxy, prefix: &str) -> Self {
        self.proxy = Some(ProxiedPaths { proxy, prefix: prefix.to_owned() });
        self
    }

    /// Returns whether an upstream server answers this path. Such an answer may take long.
    pub fn is_proxied(&self, path: &str) -> bool {
        self.proxy.as_ref().is_some_and(|proxied| proxied.has(path))
    }

    /// Returns whether the site reads the bodies of requests.
    pub(crate) const fn reads_bodies(&self) -> bool {
        self.proxy.is_some()
    }

    /// Returns the upstream server's response if the path is proxied, and otherwise the response of
    /// [`Site::answer`]. Interim responses (1xx) go to `interim`.
    pub async fn forward(
        &self,
        request: SiteRequest,
        interim: mpsc::Sender<Response<()>>,
    ) -> SiteResponse {
        match &self.proxy {
            Some(proxied) if proxied.has(request.uri.path()) => {
                if !proxied.confines(request.uri.path()) {
                    return plain(
                        StatusCode::BAD_REQUEST,
                        &format!("the path leads out of {}\n", proxied.prefix),
                    );
                }
                proxied.proxy.forward(request, interim).await
            }
            _ => self.answer(&request.method, request.uri.path(), &request.headers).await,
        }
    }

    /// Returns the response to a request for local content. `path` is as received, still
    /// percent-encoded, without a query. Only the conditions and the range in `headers` are used.
    pub async fn answer(&self, method: &Method, path: &str, headers: &HeaderMap) -> SiteResponse {
        match *method {
            Method::GET | Method::HEAD => {}
            Method::OPTIONS => {
                let headers = HeaderMap::from_iter([(ALLOW, ALLOWED)]);
                return SiteResponse::without_content(StatusCode::NO_CONTENT, headers);
            }
            _ => {
                let mut answer = plain(
                    StatusCode::METHOD_NOT_ALLOWED,
                    "only GET, HEAD and OPTIONS are supported\n",
                );
                answer.headers.insert(ALLOW, ALLOWED);
                return answer;
            }
        }
        let conditions = Conditions::read(method, headers);
        let answer = match synthetic(path, &self.limits) {
            Some(Ok((wait, length))) => {
                let representation = Representation { length, validators: None };
                let selection = conditions.select(&representation);
                SiteResponse {
                    wait,
                    ..select(selection, &representation, "application/octet-stream", Body::Zeros)
                }
            }
            Some(Err(error)) => plain(StatusCode::BAD_REQUEST, &format!("{error}\n")),
            None => self.file(path, method == Method::GET, conditions).await,
        };
        if method == Method::HEAD { SiteResponse { body: Body::Empty, ..answer } } else { answer }
    }

    async fn file(&self, path: &str, wanted: bool, conditions: Conditions) -> SiteResponse {
        let nothing = || plain(StatusCode::NOT_FOUND, "not found\n");
        if !path.is_empty() && !stays_below(path, "/") {
            return plain(StatusCode::BAD_REQUEST, "the path leads out of the root\n");
        }
        let (Some(root), Some(inside)) = (self.root.as_deref(), inside(path)) else {
            return nothing();
        };
        let choose = move |representation: &Representation| {
            let selection = conditions.select(representation);
            let range = match &selection {
                Selection::Whole if wanted => 0..representation.length,
                Selection::Part(range) => range.clone(),
                _ => 0..0,
            };
            (selection, range)
        };
        match self.files.open(root, inside, choose).await {
            Ok(Some((file, representation, selection))) => {
                let content_type =
                    mime_guess::from_path(file.path()).first_or_octet_stream().to_string();
                select(selection, &representation, &content_type, |_| Body::File(file))
            }
            Ok(None) => nothing(),
            Err(e) if is_missing(&e) => nothing(),
            Err(e) => {
                tracing::debug!("a file under '{}': {e}", root.display());
                let mut answer = plain(
                    StatusCode::SERVICE_UNAVAILABLE,
                    "the file is temporarily unavailable; try again\n",
                );
                answer
                    .headers
                    .insert(http::header::RETRY_AFTER, HeaderValue::from_static(RETRY_AFTER));
                answer
            }
        }
    }
}

/// Returns the response for the selected part of a representation. `body` creates a body of this
/// many bytes.
fn select(
    selection: Selection,
    of: &Representation,
    content_type: &str,
    body: impl FnOnce(u64) -> Body,
) -> SiteResponse {
    let mut answer = match selection {
        Selection::Whole => {
            SiteResponse::new(StatusCode::OK, content_type, of.length, body(of.length))
        }
        Selection::Part(part) => {
            let length = part.end - part.start;
            let mut answer =
                SiteResponse::new(StatusCode::PARTIAL_CONTENT, content_type, length, body(length));
            conditional::add_content_range(Some(&part), of.length, &mut answer.headers);
            answer
        }
        Selection::NotModified => {
            SiteResponse::without_content(StatusCode::NOT_MODIFIED, HeaderMap::new())
        }
        Selection::PreconditionFailed => {
            return plain(
                StatusCode::PRECONDITION_FAILED,
                "the precondition of the request does not hold\n",
            );
        }
        Selection::Unsatisfiable => {
            let text = format!("the range is outside the {} bytes of the content\n", of.length);
            let mut answer = plain(StatusCode::RANGE_NOT_SATISFIABLE, &text);
            conditional::add_content_range(None, of.length, &mut answer.headers);
            return answer;
        }
    };
    conditional::describe(of, &mut answer.headers);
    answer
}

/// Returns the part of a path below the root, or `None` for hidden files and paths that lead up.
fn inside(path: &str) -> Option<PathBuf> {
    let decoded = percent_decode_str(path).decode_utf8().ok()?;
    if decoded.contains(['\0', '\\']) {
        return None;
    }
    let relative = Path::new(decoded.trim_start_matches('/'));
    relative.components().all(is_shown).then(|| relative.to_owned())
}

/// Reason why a path of a synthetic body has no response.
#[derive(Debug, thiserror::Error)]
enum SyntheticError {
    /// The delay or the length is not a whole number.
    #[error("write /bytes/N or /delay/MS/bytes/N with whole numbers N and MS")]
    NotANumber,
    /// The delay or the length is above its limit.
    #[error("the largest values are /delay/{}/bytes/{bytes}", delay.as_millis())]
    TooLarge {
        /// Longest delay.
        delay: Duration,
        /// Largest body.
        bytes: u64,
    },
}

/// Returns the delay and the length of `/bytes/N` and `/delay/MS/bytes/N`, or `None` for other
/// paths.
fn synthetic(path: &str, limits: &Limits) -> Option<Result<(Duration, u64), SyntheticError>> {
    let (wait, rest) = match path.strip_prefix("/delay/") {
        Some(rest) => {
            let (ms, rest) = rest.split_once('/')?;
            (ms, rest.strip_prefix("bytes/")?)
        }
        None => ("0", path.strip_prefix("/bytes/")?),
    };
    let (Ok(ms), Ok(bytes)) = (wait.parse(), rest.parse()) else {
        return Some(Err(SyntheticError::NotANumber));
    };
    let wait = Duration::from_millis(ms);
    if wait > limits.max_delay || bytes > limits.max_body {
        let (delay, bytes) = (limits.max_delay, limits.max_body);
        return Some(Err(SyntheticError::TooLarge { delay, bytes }));
    }
    Some(Ok((wait, bytes)))
}

#[cfg(test)]
mod tests {
    use http::header::CONTENT_TYPE;

    use super::*;

    fn site(root: Option<&Path>) -> Site {
        Site::new(root, Limits::default()).unwrap()
    }

    async fn ask(site: &Site, method: Method, path: &str, fields: &[(&str, &str)]) -> SiteResponse {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(name.parse::<http::HeaderName>().unwrap(), value.parse().unwrap());
        }
        site.answer(&method, path, &headers).await
    }

    fn text<'a>(answer: &'a SiteResponse, name: &str) -> &'a str {
        answer.headers[name].to_str().unwrap()
    }

    async fn status(site: &Site, path: &str) -> u16 {
        ask(site, Method::GET, path, &[]).await.status.as_u16()
    }

    #[tokio::test]
    async fn files_and_synthetic_bodies_answer_ranges_alike() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a.mp4"), "0123456789").unwrap();
        let site = site(Some(folder.path()));
        let whole = ask(&site, Method::GET, "/a.mp4", &[]).await;
        let etag = whole.headers["etag"].to_str().unwrap().to_owned();
        for (path, has_tag) in [("/a.mp4", true), ("/bytes/10", false)] {
            let answer = ask(&site, Method::GET, path, &[]).await;
            assert_eq!((answer.status.as_u16(), answer.length), (200, Some(10)), "{path}");
            assert_eq!(answer.headers["accept-ranges"], "bytes");
            assert_eq!(answer.headers.contains_key("etag"), has_tag, "{path}");
            let part = ask(&site, Method::GET, path, &[("range", "bytes=2-4")]).await;
            assert_eq!((part.status.as_u16(), part.length), (206, Some(3)), "{path}");
            assert_eq!(
                (text(&part, "content-range"), text(&part, "content-length")),
                ("bytes 2-4/10", "3")
            );
            assert_eq!(part.headers["content-type"], answer.headers["content-type"]);
            match part.body {
                Body::File(file) => assert_eq!(file.length(), 3),
                body => assert!(matches!(body, Body::Zeros(3)), "{path}"),
            }
            let beyond = ask(&site, Method::GET, path, &[("range", "bytes=10-")]).await;
            assert_eq!(
                (beyond.status.as_u16(), text(&beyond, "content-range")),
                (416, "bytes */10")
            );
            // HEAD has the header fields of GET, whatever the range.
            let head = ask(&site, Method::HEAD, path, &[("range", "bytes=2-4")]).await;
            assert_eq!((head.status, &head.headers), (answer.status, &answer.headers), "{path}");
            assert!(matches!(head.body, Body::Empty));
        }
        let same = ask(&site, Method::GET, "/a.mp4", &[("if-none-match", &etag)]).await;
        assert_eq!((same.status.as_u16(), same.length), (304, None));
        assert_eq!(
            (&same.headers["etag"], &same.headers["last-modified"]),
            (&whole.headers["etag"], &whole.headers["last-modified"])
        );
        assert!(matches!(same.body, Body::Empty) && !same.headers.contains_key("content-length"));
        let other = ask(&site, Method::GET, "/a.mp4", &[("if-match", "\"b\"")]).await;
        assert_eq!(other.status.as_u16(), 412);
        let missing =
            ask(&site, Method::GET, "/b", &[("if-none-match", "*"), ("range", "bytes=0-1")]).await;
        assert_eq!(missing.status.as_u16(), 404, "conditions are of what is there");
        for path in ["/a.mp4", "*"] {
            let options = ask(&site, Method::OPTIONS, path, &[]).await;
            assert_eq!(
                (options.status.as_u16(), text(&options, "allow")),
                (204, "GET, HEAD, OPTIONS")
            );
        }
        let post = ask(&site, Method::POST, "/a.mp4", &[]).await;
        assert_eq!((post.status.as_u16(), text(&post, "allow")), (405, "GET, HEAD, OPTIONS"));
    }

    #[tokio::test]
    async fn synthetic_bodies_have_the_requested_size_and_delay() {
        let site = site(None);
        let answer = ask(&site, Method::GET, "/delay/20/bytes/1000", &[]).await;
        assert!(matches!(answer.body, Body::Zeros(1_000)));
        assert_eq!((answer.length, answer.wait), (Some(1_000), Duration::from_millis(20)));
        let head = ask(&site, Method::HEAD, "/bytes/5", &[]).await;
        assert!(matches!(head.body, Body::Empty));
        assert_eq!((head.length, head.status), (Some(5), StatusCode::OK));
        for (path, wanted) in [
            ("/bytes/x", 400),
            ("/bytes/", 400),
            ("/delay/1/bytes/-1", 400),
            ("/delay/99999999/bytes/1", 400),
            ("/delay/5", 404),
        ] {
            assert_eq!(status(&site, path).await, wanted, "{path}");
        }
        assert_eq!(status(&site, &format!("/bytes/{}", u64::MAX)).await, 400);
        assert_eq!(
            ask(&site, Method::POST, "/bytes/5", &[]).await.status,
            StatusCode::METHOD_NOT_ALLOWED
        );
    }

    #[tokio::test]
    async fn only_files_inside_the_root_are_served() {
        let folder = tempfile::tempdir().unwrap();
        let (root, write) =
            (folder.path().join("www"), |path: PathBuf| std::fs::write(path, "hello").unwrap());
        std::fs::create_dir_all(root.join("sub dir")).unwrap();
        write(folder.path().join("secret.txt"));
        write(root.join("index.html"));
        write(root.join("sub dir/a.css"));
        write(root.join(".hidden"));
        let site = site(Some(&root));
        for (path, content_type) in
            [("/", "text/html"), ("/index.html", "text/html"), ("/sub%20dir/a.css", "text/css")]
        {
            let answer = ask(&site, Method::GET, path, &[]).await;
            assert_eq!((answer.status, answer.length), (StatusCode::OK, Some(5)), "{path}");
            assert_eq!(answer.headers[CONTENT_TYPE], content_type);
        }
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink(folder.path().join("secret.txt"), root.join("out.txt"))
                .unwrap();
            std::os::unix::fs::symlink(root.join("index.html"), root.join("in.html")).unwrap();
            assert_eq!(
                (status(&site, "/out.txt").await, status(&site, "/in.html").await),
                (404, 200)
            );
            // A link's target is hidden if its name, or a folder on its path, begins with a dot.
            std::fs::create_dir_all(root.join(".git")).unwrap();
            write(root.join(".git/config"));
            for (link, to) in [("shown", ".hidden"), ("config", ".git/config"), ("git", ".git")] {
                std::os::unix::fs::symlink(root.join(to), root.join(link)).unwrap();
            }
            for path in ["/shown", "/config", "/git", "/git/config"] {
                assert_eq!(status(&site, path).await, 404, "{path}");
            }
            std::os::unix::fs::symlink(root.join("loop"), root.join("loop")).unwrap();
            assert_eq!(status(&site, "/loop").await, 404);
            assert_eq!(status(&site, &format!("/{}", "long".repeat(100))).await, 404);
        }
        for path in [
            "/sub%20dir/../index.html",
            "/.hidden",
            "/sub%20dir",
            "/nothing",
            "/index.html%00",
            "/%ff",
            "//etc/passwd/",
            "",
        ] {
            let wanted = if path.is_empty() { 200 } else { 404 };
            assert_eq!(status(&site, path).await, wanted, "{path}");
        }
        for path in [
            "/../secret.txt",
            "/%2e%2e/secret.txt",
            "/..%2fsecret.txt",
            "/sub dir/../../secret.txt",
            "/..\\secret.txt",
            "/%252e%252e/secret.txt",
        ] {
            assert_eq!(status(&site, path).await, 400, "{path}");
        }
    }

    #[test]
    fn error_of_an_invalid_root_names_the_path() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let error = |root: &Path| Site::new(Some(root), Limits::default()).unwrap_err().to_string();
        assert!(error(file.path()).contains("not a folder"));
        assert!(error(Path::new("/nowhere")).contains("/nowhere"));
    }
}
