//! The bodies of answers: some bytes, or a file that is hashed while it is sent.
//!
//! What comes in: bytes, or an open file with the digest that it must match. What goes out: its bytes piece by
//! piece. The last piece of a file is held back until the digest of all of it is known: a file that does not
//! match is never sent whole, and the connection is cut instead, which every client reports as an error. One
//! piece is in memory at a time, and the next one is read while it is being sent.

use std::fs::File;
use std::future::Future as _;
use std::io::{self, Read as _};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use hyper::body::{Body, Bytes, Frame, SizeHint};
use outhaul_kit::media::Marks;
use tokio::task::JoinHandle;

use crate::catalog::{BlobCheck, Catalog};
use crate::digest::{Digest, Hasher};
use crate::git::pktline;

/// Bytes that are read and sent at once.
pub const PIECE: usize = 256 * 1024;
/// Data in one packet of a large side band.
const LARGE: usize = pktline::MAX_PACKET - 5;
/// Data in one packet of a small side band.
const SMALL: usize = 1000 - 5;

/// The body of an answer.
#[derive(Debug)]
pub enum BodyContent {
    /// Some bytes; `None` once they were sent.
    Bytes(Option<Bytes>),
    /// A file.
    File(FileBody),
}

/// What a file is sent as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// As it is.
    Plain,
    /// In packets of git's side band 1 with so much data.
    Band(usize),
}

impl Framing {
    /// In packets of at most 65,520 bytes.
    pub const LARGE_BAND: Self = Self::Band(LARGE);
    /// In packets of at most 1000 bytes.
    pub const SMALL_BAND: Self = Self::Band(SMALL);
}

/// What is to be read of a file, and compared with.
#[derive(Debug)]
pub struct Source {
    /// The file, at its first wanted byte.
    pub file: File,
    /// Bytes still to be read.
    pub left: u64,
    /// The hash of what was read, where all of the file is.
    pub hasher: Option<Hasher>,
    /// What the hash must be.
    pub digest: Digest,
    /// Who is informed of the result.
    pub remember: Option<(Arc<Catalog>, Marks)>,
    /// What it is sent as.
    pub framing: Framing,
}

/// A file on its way.
#[derive(Debug)]
pub struct FileBody {
    first: Option<Bytes>,
    reading: Option<JoinHandle<io::Result<(Source, Bytes)>>>,
    last: Option<Bytes>,
    /// Bytes of the whole body, where they are known before.
    left: Option<u64>,
}

impl FileBody {
    /// `first`, then the file, then `last`. Must be called on the runtime.
    pub fn new(first: Vec<u8>, source: Source, last: Vec<u8>) -> Self {
        let plain = source.framing == Framing::Plain;
        let around = (first.len() + last.len()) as u64;
        let some = |bytes: Vec<u8>| (!bytes.is_empty()).then(|| Bytes::from(bytes));
        Self {
            first: some(first),
            left: plain.then_some(source.left + around),
            reading: (source.left > 0).then(|| read_next(source)),
            last: some(last),
        }
    }

    fn sent(&mut self, bytes: Bytes) -> Frame<Bytes> {
        if let Some(left) = &mut self.left {
            *left = left.saturating_sub(bytes.len() as u64);
        }
        Frame::data(bytes)
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(Ok(self.sent(first))));
        }
        if let Some(reading) = &mut self.reading {
            let read = ready!(Pin::new(reading).poll(context));
            self.reading = None;
            let (source, bytes) = match read.map_err(io::Error::other).flatten() {
                Ok(read) => read,
                Err(error) => {
                    tracing::error!(%error, "an answer is truncated");
                    return Poll::Ready(Some(Err(error)));
                }
            };
            if source.left > 0 {
                self.reading = Some(read_next(source));
            }
            return Poll::Ready(Some(Ok(self.sent(bytes))));
        }
        let last = self.last.take().map(|last| Ok(self.sent(last)));
        Poll::Ready(last)
    }
}

impl Body for BodyContent {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        match self.get_mut() {
            Self::Bytes(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Self::File(file) => file.poll(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Bytes(bytes) => bytes.is_none(),
            Self::File(file) => {
                file.first.is_none() && file.reading.is_none() && file.last.is_none()
            }
        }
    }

    fn size_hint(&self) -> SizeHint {
        let exact = match self {
            Self::Bytes(bytes) => Some(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
            Self::File(file) => file.left,
        };
        exact.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

fn read_next(source: Source) -> JoinHandle<io::Result<(Source, Bytes)>> {
    tokio::task::spawn_blocking(|| source.next())
}

impl Source {
    /// The next piece; the last one only if everything matches.
    fn next(mut self) -> io::Result<(Self, Bytes)> {
        let size = match self.framing {
            Framing::Plain => PIECE,
            Framing::Band(data) => PIECE / data * data,
        };
        let size = usize::try_from(self.left).map_or(size, |left| left.min(size));
        let mut bytes = vec![0; size];
        self.file.read_exact(&mut bytes)?;
        self.left -= size as u64;
        if let Some(hasher) = &mut self.hasher {
            hasher.update(&bytes);
        }
        if self.left == 0 {
            self.compare()?;
        }
        let bytes = match self.framing {
            Framing::Plain => bytes,
            Framing::Band(data) => framed(&bytes, data),
        };
        Ok((self, bytes.into()))
    }

    fn compare(&mut self) -> io::Result<()> {
        let Some(hasher) = self.hasher.take() else {
            return Ok(());
        };
        let found = hasher.finish();
        let checked = match found == self.digest {
            true => BlobCheck::Good,
            false => BlobCheck::Bad,
        };
        if let Some((catalog, marks)) = self.remember.take() {
            catalog.remember(self.digest, marks, checked);
        }
        match checked {
            BlobCheck::Good => Ok(()),
            BlobCheck::Bad => Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!("the stored bytes of {} do not match it", self.digest),
            )),
        }
    }
}

fn framed(bytes: &[u8], data: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len() + bytes.len() / data * 5 + 5);
    for part in bytes.chunks(data) {
        out.extend_from_slice(&pktline::header(part.len() + 1));
        out.push(1);
        out.extend_from_slice(part);
    }
    out
}

/// Reads a whole file that must match `digest`, and informs `catalog`.
pub fn check(
    file: &mut File,
    size: u64,
    digest: &Digest,
    remember: Option<(Arc<Catalog>, Marks)>,
) -> io::Result<()> {
    let mut source = Source {
        file: file.try_clone()?,
        left: size,
        hasher: Some(Hasher::default()),
        digest: *digest,
        remember,
        framing: Framing::Plain,
    };
    while source.left > 0 {
        source = source.next()?.0;
    }
    // An empty file is read by no piece.
    source.compare()
}
