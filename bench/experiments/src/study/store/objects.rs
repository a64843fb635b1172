//! Results in an object store: S3 and compatible servers, Google Cloud Storage or Azure. Settings
//! come from the environment variables of each service.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt, TryStreamExt};
use object_store::aws::AmazonS3Builder;
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::path::Path;
use object_store::{
    Error, ObjectStore, ObjectStoreExt, PutMode, PutOptions, PutPayload, RetryConfig,
};
use tokio::runtime::{Builder, Runtime};

use super::{Entry, Files};

/// Number of objects that are fetched at once.
const AT_ONCE: usize = 16;
/// Retries of reads (`SOON`) and writes (`PATIENT`). A failed read loses nothing, so reads have few
/// retries. A result may have taken an hour to compute, so retries of writes continue for minutes.
const SOON: Retries = Retries { times: 2, seconds: 10 };
const PATIENT: Retries = Retries { times: 20, seconds: 240 };

struct Retries {
    /// Largest number of retries.
    times: usize,
    /// Time in seconds after which no retry begins.
    seconds: u64,
}

#[derive(Debug)]
pub(super) struct Objects {
    runtime: Runtime,
    /// Store with few retries, for reads. `writes` is the same store with many retries.
    reads: Arc<dyn ObjectStore>,
    writes: Arc<dyn ObjectStore>,
    url: String,
    prefix: Path,
}

impl Objects {
    /// Opens the store without sending a request to the server.
    pub(super) fn new(url: &str) -> io::Result<Self> {
        // The HTTP client uses the process's default cryptography provider. This call has no effect
        // if a provider is already installed.
        let _ = rustls::crypto::ring::default_provider().install_default();
        Self::with(url, |retry| open(url, retry))
    }

    fn with(
        url: &str,
        open: impl Fn(&Retries) -> Result<Arc<dyn ObjectStore>, Error>,
    ) -> io::Result<Self> {
        let path = url
            .split_once("://")
            .and_then(|(_, rest)| rest.split_once('/'))
            .map_or("", |(_, path)| path);
        // One thread is enough to wait for responses. The cores stay free for the runs.
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let (reads, writes) = {
            let _inside = runtime.enter();
            (open(&SOON).map_err(plain)?, open(&PATIENT).map_err(plain)?)
        };
        let prefix =
            Path::parse(path).map_err(|e| io::Error::new(io::ErrorKind::InvalidInput, e))?;
        Ok(Self { runtime, reads, writes, url: url.to_owned(), prefix })
    }

    fn path(&self, name: &str) -> Path {
        self.prefix.clone().join(name)
    }

    fn put(
        &self,
        store: &dyn ObjectStore,
        name: &str,
        bytes: &[u8],
        mode: PutMode,
    ) -> Result<(), Error> {
        let path = self.path(name);
        let put = store.put_opts(&path, PutPayload::from(bytes.to_vec()), PutOptions::from(mode));
        self.runtime.block_on(put).map(drop)
    }
}

fn open(url: &str, retry: &Retries) -> Result<Arc<dyn ObjectStore>, Error> {
    let retry = RetryConfig {
        max_retries: retry.times,
        retry_timeout: Duration::from_secs(retry.seconds),
        ..RetryConfig::default()
    };
    Ok(match url.split_once("://").map_or("", |(scheme, _)| scheme) {
        "gs" => {
            Arc::new(GoogleCloudStorageBuilder::from_env().with_url(url).with_retry(retry).build()?)
        }
        "az" => {
            Arc::new(MicrosoftAzureBuilder::from_env().with_url(url).with_retry(retry).build()?)
        }
        _ => {
            let mut builder = AmazonS3Builder::from_env().with_url(url).with_retry(retry);
            // An endpoint URL with http:// requests unencrypted connections.
            let endpoint = ["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"];
            if endpoint
                .iter()
                .any(|name| std::env::var(name).is_ok_and(|url| url.starts_with("http://")))
            {
                builder = builder.with_allow_http(true);
            }
            Arc::new(builder.build()?)
        }
    })
}

/// Converts an error of the store to an I/O error with a brief message.
fn plain(error: Error) -> io::Error {
    let kind = match &error {
        Error::NotFound { .. } => io::ErrorKind::NotFound,
        Error::PermissionDenied { .. } | Error::Unauthenticated { .. } => {
            io::ErrorKind::PermissionDenied
        }
        _ => io::ErrorKind::Other,
    };
    io::Error::new(kind, brief(&error.to_string()))
}

/// Reduces an XML response, as S3 and Azure send it, to its code and message.
fn brief(error: &str) -> String {
    let within = |tag: &str| {
        let (_, rest) = error.split_once(&format!("<{tag}>"))?;
        rest.split_once(&format!("</{tag}>")).map(|(text, _)| text)
    };
    match (within("Code"), within("Message")) {
        (Some(code), Some(message)) => format!("{code}: {message}"),
        _ => error.to_owned(),
    }
}

impl Files for Objects {
    fn prepare(&self) -> io::Result<()> {
        // Report a wrong name or key now, because writes would retry for minutes first.
        let first = async { self.reads.list(Some(&self.prefix)).try_next().await };
        self.runtime.block_on(first).map(drop).map_err(plain)
    }

    fn each(
        &self,
        names: &[String],
        take: &mut dyn FnMut(usize, io::Result<Option<Vec<u8>>>),
    ) -> io::Result<()> {
        // A request for a missing object takes as long as a request for an existing one. If there
        // are many names, list the objects first: one response to a listing has a thousand names.
        let few = names.len() <= AT_ONCE;
        let there: BTreeSet<String> = if few {
            names.iter().cloned().collect()
        } else {
            self.list()?.into_iter().map(|entry| entry.name).collect()
        };
        let fetch = |i: usize| {
            let path = there.contains(&names[i]).then(|| self.path(&names[i]));
            async move {
                let Some(path) = path else { return (i, Ok(None)) };
                let read = async { self.reads.get(&path).await?.bytes().await };
                let read = match read.await {
                    Err(Error::NotFound { .. }) => Ok(None),
                    read => read.map(|bytes| Some(bytes.to_vec())).map_err(plain),
                };
                (i, read)
            }
        };
        self.runtime.block_on(async {
            let mut reads =
                futures_util::stream::iter((0..names.len()).map(fetch)).buffered(AT_ONCE);
            while let Some((i, read)) = reads.next().await {
                // If the server is unavailable, return the error, so that the result does not count
                // as broken.
                take(i, Ok(read?));
            }
            Ok(())
        })
    }

    fn create(&self, name: &str, bytes: &[u8]) -> io::Result<bool> {
        match self.put(&*self.writes, name, bytes, PutMode::Create) {
            Ok(()) => Ok(true),
            // This error also occurs if the response to the first attempt was lost and the request
            // was repeated. Callers therefore compare the contents.
            Err(Error::AlreadyExists { .. } | Error::Precondition { .. }) => Ok(false),
            Err(e) => Err(plain(e)),
        }
    }

    fn replace(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        self.put(&*self.writes, name, bytes, PutMode::Overwrite).map_err(plain)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        match self.runtime.block_on(self.writes.delete(&self.path(name))) {
            Err(Error::NotFound { .. }) => Ok(()),
            removed => removed.map_err(plain),
        }
    }

    fn list(&self) -> io::Result<Vec<Entry>> {
        let list = async {
            let objects: Vec<_> = self.reads.list(Some(&self.prefix)).try_collect().await?;
            Ok::<_, Error>(objects)
        };
        let objects = self.runtime.block_on(list).map_err(plain)?;
        let entry = |object: object_store::ObjectMeta| {
            // Objects in folders below the prefix do not belong to this study.
            let mut parts = object.location.prefix_match(&self.prefix)?;
            let name = parts.next()?.as_ref().to_owned();
            parts.next().is_none().then(|| Entry { name, modified: object.last_modified.into() })
        };
        Ok(objects.into_iter().filter_map(entry).collect())
    }

    fn place(&self, name: &str) -> String {
        format!("{}/{name}", self.url)
    }
}

#[cfg(test)]
mod tests {
    use object_store::memory::InMemory;

    use super::*;

    fn objects() -> Objects {
        let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
        Objects::with("s3://bucket/some/study", |_| Ok(Arc::clone(&store))).unwrap()
    }

    #[test]
    fn creating_an_existing_object_keeps_its_contents() {
        let objects = objects();
        objects.prepare().unwrap();
        assert!(objects.create("a.json", b"first").unwrap());
        assert!(!objects.create("a.json", b"second").unwrap());
        let read = || {
            let mut text = None;
            objects.each(&["a.json".into()], &mut |_, read| text = read.unwrap()).unwrap();
            text
        };
        assert_eq!(read().as_deref(), Some(&b"first"[..]));
        objects.replace("a.json", b"third").unwrap();
        assert_eq!(read().as_deref(), Some(&b"third"[..]));
        objects.remove("a.json").unwrap();
        objects.remove("a.json").unwrap();
        assert_eq!(read(), None);
        assert_eq!(objects.place("a.json"), "s3://bucket/some/study/a.json");
    }

    #[test]
    fn many_stored_objects_are_read_in_order() {
        let objects = objects();
        // There are more names than `AT_ONCE`, so objects are listed first. Every third object
        // exists.
        let names: Vec<String> = (0..100).map(|i| format!("{i}.json")).collect();
        for name in names.iter().step_by(3) {
            objects.create(name, name.as_bytes()).unwrap();
        }
        // One object belongs to another study, whose name begins with the name of this study. The
        // other object is in a folder below the prefix.
        for other in ["some/study-2/0.json", "some/study/below/0.json"] {
            let path = Path::from(other);
            let put = objects.writes.put(&path, PutPayload::from_static(b"other"));
            objects.runtime.block_on(put).unwrap();
        }
        let mut read = Vec::new();
        objects.each(&names, &mut |i, bytes| read.push((i, bytes.unwrap()))).unwrap();
        let expected = |i: usize| (i, i.is_multiple_of(3).then(|| names[i].clone().into_bytes()));
        assert_eq!(read, (0..100).map(expected).collect::<Vec<_>>());
        assert_eq!(objects.list().unwrap().len(), 34);
    }

    #[test]
    fn only_one_of_eight_writers_creates_an_object() {
        let objects = objects();
        let first = std::thread::scope(|scope| {
            let objects = &objects;
            let create = |i: u8| scope.spawn(move || objects.create("a", &[i]).unwrap());
            let threads: Vec<_> = (0..8).map(create).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).filter(|first| *first).count()
        });
        assert_eq!(first, 1);
    }

    #[test]
    fn xml_error_is_reduced_to_its_code_and_message() {
        let xml = "404: <Error><Code>NoSuchBucket</Code><Message>It is not there</Message></Error>";
        assert_eq!(brief(xml), "NoSuchBucket: It is not there");
        assert_eq!(brief("plain"), "plain");
    }
}
