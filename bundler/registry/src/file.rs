//! One file by its URL and its digest.
//!
//! What comes in: a URL, the digest that the file must have, and which hosts may be asked. What goes out: the file in the
//! cache under its digest. What broke off is gone on with; what turns out to be another file is removed. A redirect to
//! another host is followed only where who runs the program named that host.

use crate::pull::ATTEMPTS;
use std::fs;

use outhaul_bundle::Digest;
use outhaul_bundle::index::Content;
use outhaul_kit::console::progress::{Meter, Unit};

use crate::cache::ImageCache;
use crate::chart::Hosts;
use crate::chart::fetch::Fetch;
use crate::client::{Comes, RegistryClient};
use crate::error::RegistryError;
use crate::notices::{asked_again, fetching};

/// Largest file in bytes.
pub const MAX_FILE: u64 = 64 << 30;

/// How large a file is, without bringing it; 0 where its server does not state it.
///
/// # Errors
/// [`RegistryError`]
pub fn look_file(
    client: &RegistryClient,
    cache: &ImageCache,
    url: &str,
    digest: Digest,
    hosts: &Hosts<'_>,
) -> Result<Content, RegistryError> {
    if let Some(there) = cached(cache, digest) {
        return Ok(there);
    }
    let get = Fetch::of(client, url, hosts)?;
    let (length, _) = get.file(url, 0)?;
    let size = length.unwrap_or_default();
    Ok(Content { digest, size })
}

/// Brings a file into the cache.
///
/// # Errors
/// [`RegistryError`]; what came stays in the cache.
pub fn pull_file(
    client: &RegistryClient,
    cache: &ImageCache,
    url: &str,
    digest: Digest,
    hosts: &Hosts<'_>,
) -> Result<Content, RegistryError> {
    if let Some(there) = cached(cache, digest) {
        return Ok(there);
    }
    let get = Fetch::of(client, url, hosts)?;
    let what = format!("`{url}`");
    let mut part = cache.part(Content {
        digest,
        size: MAX_FILE,
    })?;
    for attempt in 1..=ATTEMPTS {
        let before = part.there;
        let found = match get.file(url, before) {
            // All of it had come, and the run ended before it got its name.
            Err(RegistryError::Status { status: 416, .. }) if before > 0 => break,
            found => found?,
        };
        let (length, Comes { begins, host, body }) = found;
        if begins != part.there {
            part.restart()?;
        }
        let size = length.and_then(|length| length.checked_add(begins));
        if size.is_some_and(|size| size > MAX_FILE) {
            return Err(get.wrong(&what, format!("has more than {MAX_FILE} bytes")));
        }
        let meter = Meter::new(&fetching(url), Unit::Bytes, length);
        let mut body = meter.counts(body);
        let broken = part.fill(&mut body)?.map(|error| error.to_string());
        let short = size.filter(|size| part.there < *size);
        let broken = broken.or_else(|| short.map(|_| "the connection ended early".to_owned()));
        match broken {
            None => break,
            Some(problem) if attempt == ATTEMPTS || part.there <= before => {
                return Err(RegistryError::Stopped {
                    host,
                    what,
                    came: part.there,
                    problem,
                });
            }
            Some(problem) => asked_again(&host, &problem, part.there, &what),
        }
    }
    let content = Content {
        digest,
        size: part.there,
    };
    part.ends();
    match part.finish(&cache.path(&digest))? {
        Ok(()) => Ok(content),
        Err(problem) => Err(get.wrong(
            &what,
            format!("is not the file that is listed: it {problem}"),
        )),
    }
}

/// A file that is there; its bytes are compared when they are used.
fn cached(cache: &ImageCache, digest: Digest) -> Option<Content> {
    let found = fs::metadata(cache.path(&digest)).ok()?;
    let size = found.len();
    found.is_file().then_some(Content { digest, size })
}
