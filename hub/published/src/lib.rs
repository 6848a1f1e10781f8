//! The published folder, read only, for sites that pull: `/repository/`.
//!
//! What comes in: requests for files below a folder that others may write: whoever publishes. What goes out: regular files below it, whole
//! or in parts. A link, FIFO, socket or device at any level is not followed, not opened, and logged, so that nothing
//! outside the folder leaves this machine. A disk or a mount that hangs holds a bounded number of threads, and none that the rest needs.

use std::error::Error;
use std::fs::File;
use std::future::Future as _;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Component, Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::{Duration, SystemTime};

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::{Router, routing};
use outhaul_bundle::hub_api::ErrorAnswer;
use outhaul_kit::durable::{FileError, Unexpected};
use outhaul_kit::media::Media;
use outhaul_kit::text::{self, chain};
use tokio::io::{AsyncRead, AsyncSeek, ReadBuf};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tower_http::services::ServeDir;
use tower_http::services::fs as served;

/// Threads that read the folder at once. What hangs keeps one until it ends; the rest of the hub has others.
const THREADS: usize = 32;
/// How long a request waits for one of them, and for what that one does.
const WITHIN: Duration = Duration::from_secs(20);
/// Bytes that are read and sent at once.
const PIECE: usize = 256 * 1024;
/// The least time from one line about what is not handed out to the next: strangers cause them.
const LOG_EVERY: Duration = Duration::from_secs(1);

/// The routes below `/repository/`.
pub fn router(folder: PathBuf) -> Router {
    let published = Published::new(folder, THREADS, WITHIN);
    Router::new()
        .fallback(routing::any(answer))
        .with_state(published)
}

/// The body of an answer that says what went wrong.
fn problem(text: &str) -> Response {
    let answer = ErrorAnswer {
        error: text.to_owned(),
        rule: None,
    };
    let body = serde_json::to_string(&answer).unwrap_or_default();
    let kind = [(header::CONTENT_TYPE, "application/json")];
    (kind, text::json(&body).into_owned()).into_response()
}

async fn answer(State(published): State<Published>, request: Request) -> Response {
    let files = ServeDir::with_backend("", published.clone())
        .append_index_html_on_directories(false)
        .with_buf_chunk_size(PIECE);
    match { files }.try_call(request).await {
        Ok(answer) => answer.map(Body::new),
        Err(error) => published.failed(&error),
    }
}

/// A published folder, and the threads that read it.
#[derive(Debug, Clone)]
struct Published(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    folder: PathBuf,
    threads: Arc<Semaphore>,
    within: Duration,
    logged: Mutex<Option<std::time::Instant>>,
}

/// Every thread that reads the folder is busy, or what one does takes too long.
#[derive(Debug, thiserror::Error)]
#[error("the disk of the published folder does not answer in time; try again later")]
struct Hangs;

impl Published {
    fn new(folder: PathBuf, threads: usize, within: Duration) -> Self {
        Self(Arc::new(Inner {
            folder,
            threads: Arc::new(Semaphore::new(threads)),
            within,
            logged: Mutex::new(None),
        }))
    }

    /// Works on a thread for files, once one is free. What takes too long is left to itself: it keeps its thread until it ends.
    async fn work<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let done = async {
            let threads = Arc::clone(&self.0.threads);
            let place = threads.acquire_owned().await.map_err(io::Error::other)?;
            let working = tokio::task::spawn_blocking(move || {
                let done = work();
                drop(place);
                done
            });
            working.await.map_err(io::Error::other).flatten()
        };
        let done = tokio::time::timeout(self.0.within, done).await;
        done.unwrap_or_else(|_| Err(io::Error::new(io::ErrorKind::TimedOut, Hangs)))
    }

    /// What cannot be handed out: there is none, or it is not a regular file, or the disk fails.
    fn failed(&self, error: &io::Error) -> Response {
        let why = error.get_ref();
        let is_gone = matches!(
            error.kind(),
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
        );
        if is_gone {
            return StatusCode::NOT_FOUND.into_response();
        }
        if self.may_log() {
            let error = chain(error);
            tracing::warn!(error, "something in the published folder is not handed out");
        }
        if why.is_some_and(<dyn Error + Send + Sync>::is::<Hangs>) {
            // The rest of the request is not waited for.
            let more = [(header::RETRY_AFTER, "30"), (header::CONNECTION, "close")];
            let status = StatusCode::SERVICE_UNAVAILABLE;
            return (status, more, problem(&Hangs.to_string())).into_response();
        }
        if why.is_some_and(<dyn Error + Send + Sync>::is::<Refused>) {
            return StatusCode::NOT_FOUND.into_response();
        }
        let text = "the published folder cannot be read: see the hub's log";
        (StatusCode::INTERNAL_SERVER_ERROR, problem(text)).into_response()
    }

    fn may_log(&self) -> bool {
        let mut logged = self.0.logged.lock().unwrap_or_else(PoisonError::into_inner);
        let may = logged.is_none_or(|at| at.elapsed() >= LOG_EVERY);
        if may {
            *logged = Some(std::time::Instant::now());
        }
        may
    }
}

/// What lies there is not handed out: it is no regular file, or this program may not read it.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
struct Refused(FileError);

/// What is known of a file or folder.
struct About {
    is_folder: bool,
    bytes: u64,
    modified: Option<SystemTime>,
}

/// What there is of this name below the folder; a file is open.
fn find(folder: &Path, relative: &Path) -> io::Result<(Option<File>, About)> {
    let parts = relative.components();
    let name: PathBuf = parts.filter(|part| *part != Component::CurDir).collect();
    let a_folder = About {
        is_folder: true,
        bytes: 0,
        modified: None,
    };
    // Opened each time: who publishes may put another folder in its place.
    let published = Media::open(folder).map_err(failed)?;
    if name.as_os_str().is_empty() {
        return Ok((None, a_folder));
    }
    let file = match published.open_file(&name) {
        Ok(file) => file.ok_or(io::ErrorKind::NotFound)?,
        Err(error) if unexpected(&error).is_some_and(|it| it.found == A_FOLDER) => {
            return Ok((None, a_folder));
        }
        Err(error) => return Err(failed(error)),
    };
    let known = file.metadata()?;
    let about = About {
        is_folder: false,
        bytes: known.len(),
        modified: known.modified().ok(),
    };
    Ok((Some(file), about))
}

fn failed(error: FileError) -> io::Error {
    let kind = error.source.kind();
    match unexpected(&error).is_some() || kind == io::ErrorKind::PermissionDenied {
        true => io::Error::other(Refused(error)),
        false => io::Error::new(kind, error.to_string()),
    }
}

/// What lies there instead of a file or a folder, where something does.
fn unexpected(error: &FileError) -> Option<&Unexpected> {
    error.source.get_ref()?.downcast_ref()
}

/// How `kit::media` calls a folder in the place of a file.
const A_FOLDER: &str = "a folder";

impl served::Metadata for About {
    fn is_dir(&self) -> bool {
        self.is_folder
    }

    fn modified(&self) -> io::Result<SystemTime> {
        self.modified
            .ok_or_else(|| io::ErrorKind::Unsupported.into())
    }

    fn len(&self) -> u64 {
        self.bytes
    }
}

type Later<T> = Pin<Box<dyn Future<Output = io::Result<T>> + Send>>;

impl served::Backend for Published {
    type File = OpenFile;
    type Metadata = About;
    type OpenFuture = Later<OpenFile>;
    type MetadataFuture = Later<About>;

    fn open(&self, name: PathBuf) -> Self::OpenFuture {
        let published = self.clone();
        Box::pin(async move {
            let within = Arc::clone(&published.0);
            let (file, about) = published.work(move || find(&within.folder, &name)).await?;
            Ok(OpenFile {
                published,
                file: Arc::new(file.ok_or(io::ErrorKind::NotFound)?),
                bytes: about.bytes,
                modified: about.modified,
                at: 0,
                reading: None,
            })
        })
    }

    fn metadata(&self, name: PathBuf) -> Self::MetadataFuture {
        let published = self.clone();
        Box::pin(async move {
            let within = Arc::clone(&published.0);
            let found = published.work(move || find(&within.folder, &name)).await?;
            Ok(found.1)
        })
    }
}

/// An open regular file. No thread is its own while nobody reads.
struct OpenFile {
    published: Published,
    file: Arc<File>,
    bytes: u64,
    modified: Option<SystemTime>,
    at: u64,
    reading: Option<JoinHandle<io::Result<Vec<u8>>>>,
}

impl served::File for OpenFile {
    type Metadata = About;
    type MetadataFuture<'a> = std::future::Ready<io::Result<About>>;

    fn metadata(&self) -> Self::MetadataFuture<'_> {
        std::future::ready(Ok(About {
            is_folder: false,
            bytes: self.bytes,
            modified: self.modified,
        }))
    }
}

impl AsyncRead for OpenFile {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.reading.is_none() {
            let (published, file, at) = (self.published.clone(), Arc::clone(&self.file), self.at);
            let bytes = into.remaining().min(PIECE);
            self.reading = Some(tokio::spawn(async move {
                let read = move || {
                    let mut piece = vec![0; bytes];
                    let read = file.read_at(&mut piece, at)?;
                    piece.truncate(read);
                    Ok(piece)
                };
                published.work(read).await
            }));
        }
        let Some(reading) = &mut self.reading else {
            return Poll::Ready(Ok(()));
        };
        let read = ready!(Pin::new(reading).poll(context));
        self.reading = None;
        let mut piece = match read.map_err(io::Error::other).flatten() {
            Ok(piece) => piece,
            Err(error) => {
                if self.published.may_log() {
                    let error = chain(&error);
                    tracing::warn!(error, "a file of the published folder is cut off");
                }
                return Poll::Ready(Err(error));
            }
        };
        // Whoever asks may have less room now; the rest is read again.
        piece.truncate(into.remaining());
        into.put_slice(&piece);
        self.at += piece.len() as u64;
        Poll::Ready(Ok(()))
    }
}

impl AsyncSeek for OpenFile {
    fn start_seek(mut self: Pin<&mut Self>, to: io::SeekFrom) -> io::Result<()> {
        let at = match to {
            io::SeekFrom::Start(at) => Some(at),
            io::SeekFrom::End(by) => self.bytes.checked_add_signed(by),
            io::SeekFrom::Current(by) => self.at.checked_add_signed(by),
        };
        self.at = at.ok_or(io::ErrorKind::InvalidInput)?;
        self.reading = None;
        Ok(())
    }

    fn poll_complete(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<u64>> {
        Poll::Ready(Ok(self.at))
    }
}

#[cfg(test)]
mod tests;
