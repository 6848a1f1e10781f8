//! S3-compatible storage: a bucket, or a folder in one, below one URL.
//!
//! What comes in: the URL of the bucket or of a folder in it, credentials, objects. What goes out: objects there. Every request is
//! signed with the digest of its body. What is large goes in parts, and an upload that broke off goes on with the next
//! part: what is begun is written down in a file. It creates no bucket and removes no object.

use outhaul_kit::url::UrlParts;
use std::io;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use outhaul_bundle::Digest;
use outhaul_bundle::digest::Hasher;
use outhaul_http::{Authority, BaseUrl, Client, ClientSettings, HttpError, Method, Response};
use outhaul_kit::durable::{self, SECRET_MODE};

use crate::error::TargetError;
use crate::listed::TIMESTAMP;
use crate::publication::Object;
use crate::target::{Target, unchanged};

mod answers;
mod credentials;
mod parts;
mod sign;

pub use credentials::{Credentials, CredentialsError};
pub use parts::PartSizes;

use sign::{Request, Signer};

/// Most bytes of an answer that is read.
const MAX_ANSWER: u64 = 1 << 20;

/// How a bucket is reached.
#[derive(Debug)]
pub struct Settings<'a> {
    /// The bucket, or a folder in it: `https://s3.eu-central-1.amazonaws.com/bucket/folder`.
    pub url: &'a str,
    /// Its region.
    pub region: &'a str,
    /// Who asks.
    pub credentials: Credentials,
    /// A PEM file with the authority to trust instead of the system's.
    pub authority: Option<&'a Path>,
    /// Where it is written down which uploads have begun.
    pub record: &'a Path,
    /// How large contents are cut.
    pub parts: PartSizes,
    /// The time now.
    pub now: fn() -> Timestamp,
}

/// The bucket.
#[derive(Debug)]
pub struct S3 {
    http: Client,
    base: BaseUrl,
    host: String,
    path: String,
    signer: Signer,
    record: PathBuf,
    parts: PartSizes,
    now: fn() -> Timestamp,
}

/// A request that was not sent yet.
struct UnsentRequest<'a> {
    method: Method,
    path: &'a str,
    query: &'a [(&'a str, &'a str)],
    headers: &'a [(&'a str, &'a str)],
}

impl S3 {
    /// A bucket; nothing is asked yet.
    ///
    /// # Errors
    /// [`TargetError`] for a URL or an authority that cannot be used.
    pub fn new(settings: Settings<'_>) -> Result<Self, TargetError> {
        let wrong = |problem: &str| TargetError::Usage {
            problem: format!("the bucket's URL cannot be used: {problem}"),
            help:
                "give the URL of the bucket or of a folder in it, as sites pull from it, such as \
                   https://s3.eu-central-1.amazonaws.com/bucket/fleet"
                    .to_owned(),
        };
        let base: BaseUrl = settings.url.parse().map_err(wrong)?;
        let text = base.to_string();
        let (host, path) = UrlParts::of(&text).map_or(("", ""), |url| (url.authority, url.rest));
        let plain = |c: char| c.is_ascii_alphanumeric() || "-._~/".contains(c);
        if !path.chars().all(plain) {
            return Err(wrong(
                "its path has other characters than letters, digits and `- . _ ~ /`",
            ));
        }
        let authority = Authority::of(base.is_tls(), settings.authority);
        let agent = concat!("outhaul/", env!("CARGO_PKG_VERSION"));
        let http = Client::new(&ClientSettings::new(agent, authority));
        Ok(Self {
            http: http.map_err(TargetError::Authority)?,
            host: host.to_owned(),
            path: path.to_owned(),
            base,
            signer: Signer::new(settings.credentials, settings.region),
            record: settings.record.to_owned(),
            parts: settings.parts,
            now: settings.now,
        })
    }

    /// Sends a signed request of which the body is `content`.
    fn ask(
        &self,
        asked: &UnsentRequest<'_>,
        content: Digest,
        size: u64,
        body: Body<'_>,
    ) -> Result<Response, TargetError> {
        let query = sign::query(asked.query);
        let path = format!("{}/{}", self.path, asked.path);
        let signed = self.signer.sign(
            &Request {
                method: asked.method.as_str(),
                host: &self.host,
                path: &path,
                query: &query,
                headers: &[],
                body: content,
            },
            (self.now)(),
        );
        let mut url = self.base.join(asked.path);
        if !query.is_empty() {
            url = format!("{url}?{query}");
        }
        let mut request = self.http.request(asked.method.clone(), &url);
        for (name, value) in asked.headers {
            request = request.header(name, value);
        }
        for (name, value) in &signed {
            request = request.secret_header(name, value);
        }
        let answer = match body {
            Body::Nothing => request.send(),
            Body::Bytes(bytes) => request.send_bytes(bytes),
            Body::Stream(reader) => request.send_from(reader, size),
        };
        answer.map_err(|error| self.unreachable(asked.path, &error))
    }

    fn ask_plainly(&self, asked: &UnsentRequest<'_>) -> Result<Response, TargetError> {
        self.ask(asked, Digest::of(b""), 0, Body::Nothing)
    }

    fn unreachable(&self, path: &str, error: &HttpError) -> TargetError {
        TargetError::Unreachable {
            place: self.place(path),
            problem: error.problem(),
        }
    }

    fn refused(&self, path: &str, answer: Response) -> TargetError {
        let status = answer.status_text();
        let mut region = answer.header("x-amz-bucket-region").map(str::to_owned);
        let text = answer.excerpt(MAX_ANSWER);
        let reported = answers::error(&text);
        region = region
            .or(reported.region)
            .filter(|region| region != self.signer.region());
        TargetError::Refused {
            place: self.place(path),
            status,
            reason: reported.reason,
            region,
        }
    }

    fn whole(&self, object: &Object, sent: &dyn Fn(u64)) -> Result<(), TargetError> {
        let size = object.content.size;
        let read = |source| TargetError::Read {
            path: object.origin(),
            source,
        };
        let asked = UnsentRequest {
            method: Method::PUT,
            path: &object.path,
            query: &[],
            headers: &headers(&object.path),
        };
        let mut reader = Counting {
            inner: object.open(0, size).map_err(read)?,
            sent,
        };
        let answer = self.ask(
            &asked,
            object.content.digest,
            size,
            Body::Stream(&mut reader),
        )?;
        match answer.status() {
            200 => Ok(()),
            _ => Err(self.refused(&object.path, answer)),
        }
    }
}

impl Target for S3 {
    fn place(&self, path: &str) -> String {
        format!("`{}`", self.base.join(path))
    }

    fn size(&mut self, path: &str) -> Result<Option<u64>, TargetError> {
        let answer = self.ask_plainly(&UnsentRequest {
            method: Method::HEAD,
            path,
            query: &[],
            headers: &[],
        })?;
        match answer.status() {
            200 => {
                let length = answer
                    .header("content-length")
                    .and_then(|text| text.parse().ok());
                length.map(Some).ok_or_else(|| TargetError::Refused {
                    place: self.place(path),
                    status: answer.status_text(),
                    reason: " without a length".to_owned(),
                    region: None,
                })
            }
            404 => Ok(None),
            _ => Err(self.refused(path, answer)),
        }
    }

    fn read(&mut self, path: &str, max_bytes: u64) -> Result<Option<Vec<u8>>, TargetError> {
        let answer = self.ask_plainly(&UnsentRequest {
            method: Method::GET,
            path,
            query: &[],
            headers: &[],
        })?;
        match answer.status() {
            200 => {
                let bytes = answer.bytes(max_bytes);
                bytes
                    .map(Some)
                    .map_err(|error| self.unreachable(path, &error))
            }
            404 => Ok(None),
            _ => Err(self.refused(path, answer)),
        }
    }

    fn digest(&mut self, path: &str) -> Result<Option<Digest>, TargetError> {
        let answer = self.ask_plainly(&UnsentRequest {
            method: Method::GET,
            path,
            query: &[],
            headers: &[],
        })?;
        match answer.status() {
            200 => {}
            404 => return Ok(None),
            _ => return Err(self.refused(path, answer)),
        }
        let mut hasher = Hasher::new();
        match io::copy(&mut answer.into_reader(), &mut hasher) {
            Ok(_) => Ok(Some(hasher.finish().0)),
            Err(error) => Err(TargetError::Unreachable {
                place: self.place(path),
                problem: error.to_string(),
            }),
        }
    }

    fn put(&mut self, object: &Object, sent: &dyn Fn(u64)) -> Result<(), TargetError> {
        unchanged(object)?;
        match self.parts.of(object.content.size) {
            None => self.whole(object, sent),
            Some(size) => self.in_parts(object, size, sent),
        }
    }

    fn sync(&mut self) -> Result<(), TargetError> {
        // Uploads that broke off and are not gone on with are taken back: they cost money and nobody sees them.
        self.abandon()
    }
}

/// A body.
enum Body<'a> {
    Nothing,
    Bytes(&'a [u8]),
    Stream(&'a mut dyn io::Read),
}

/// What browsers and caches between get: only `timestamp.json` changes under its name.
fn headers(path: &str) -> [(&'static str, &'static str); 2] {
    let kind = match path.ends_with(".json") {
        true => "application/json",
        false => "application/octet-stream",
    };
    let cache = match path == TIMESTAMP {
        true => "no-cache",
        false => "public, max-age=31536000, immutable",
    };
    [("Content-Type", kind), ("Cache-Control", cache)]
}

/// Reports each piece that is read.
struct Counting<'a, R> {
    inner: R,
    sent: &'a dyn Fn(u64),
}

impl<R: io::Read> io::Read for Counting<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        (self.sent)(count as u64);
        Ok(count)
    }
}

/// Writes what is remembered of uploads; an empty list is no file.
fn remember(path: &Path, bytes: Option<&[u8]>) -> Result<(), TargetError> {
    match bytes {
        Some(bytes) => Ok(durable::write(path, bytes, SECRET_MODE)?),
        None => Ok(durable::remove_file(path)?),
    }
}
