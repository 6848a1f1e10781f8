//! The registry's answers: `/v2/…`, after the distribution specification, pull side.
//!
//! What comes in: a request for something of an image, and the catalog of the active generation. What goes out:
//! an answer. Reads the disk and blocks. A blob that is not of the repository that is asked for is unknown,
//! wherever else it lies; one whose bytes do not match its digest is an error.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::Path;
use std::sync::Arc;

use hyper::header::{
    ACCEPT_RANGES, CACHE_CONTROL, CONTENT_RANGE, CONTENT_TYPE, ETAG, HeaderMap, HeaderName,
    IF_NONE_MATCH, IF_RANGE, LINK, RANGE,
};
use hyper::{Response, StatusCode};
use outhaul_kit::bounds::MAX_IMAGE_MANIFEST_BYTES;
use outhaul_kit::media::{self, Marks};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};

use crate::answer::{self, Answer, CONTENT_DIGEST, Code, error, header};
use crate::body::{self, BodyContent, FileBody, Framing, PIECE, Source};
use crate::catalog::{BlobCheck, Catalog};
use crate::digest::{Digest, Hasher};
use crate::layout::{ImageRepository, Stored, TWINS};
use crate::name::ImageName;
use crate::range::{self, ByteRange};
use crate::route::ImageRequest;

const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const FILTERS: HeaderName = HeaderName::from_static("oci-filters-applied");
const NAMESPACE: HeaderName = HeaderName::from_static("oci-namespace");

/// A request for something of an image.
#[derive(Debug)]
pub struct ImageQuestion<'r> {
    /// The name in the path.
    pub name: &'r str,
    /// The registry in the query.
    pub ns: Option<&'r str>,
    /// The host that the request was sent to.
    pub host: Option<&'r str>,
    /// All headers.
    pub headers: &'r HeaderMap,
    /// Whether only the headers are wanted.
    pub head: bool,
}

/// An answer that is an error.
type Refused = Box<Answer>;

/// Answers a request.
pub fn answer(catalog: &Arc<Catalog>, asked: &ImageQuestion<'_>, what: &ImageRequest) -> Answer {
    let Some((image, repository)) = catalog.image(asked.name, asked.ns, asked.host) else {
        return unknown_name(catalog, asked);
    };
    let found = match what {
        ImageRequest::Tagged(tag) => match repository.tags.get(tag) {
            Some(digest) => manifest(repository, asked, digest),
            None => Err(unknown_tag(image, tag)),
        },
        ImageRequest::Manifest(digest) => manifest(repository, asked, digest),
        ImageRequest::Blob(digest) => match repository.blobs.get(digest) {
            Some(stored) => blob(catalog, asked, digest, stored),
            None => Err(unknown_blob(digest)),
        },
        ImageRequest::Tags { n, last } => Ok(tags(repository, asked, *n, last.as_deref())),
        ImageRequest::Referrers {
            digest,
            artifact_type,
        } => Ok(referrers(repository, digest, artifact_type.as_deref())),
    };
    let mut answer = answer::registry(found.unwrap_or_else(|refused| *refused));
    if let Some(ns) = asked.ns {
        header(&mut answer, NAMESPACE, ns);
    }
    answer
}

/// A file that is asked for by its path: the archive of a chart, something of an apt repository.
pub fn file(
    catalog: &Arc<Catalog>,
    asked: &ImageQuestion<'_>,
    digest: &Digest,
    stored: &Stored,
) -> Answer {
    let found = blob(catalog, asked, digest, stored);
    let mut answer = found.unwrap_or_else(|refused| *refused);
    // Another file may be under this path next time.
    header(&mut answer, CACHE_CONTROL, "no-cache");
    if asked.head {
        *answer.body_mut() = BodyContent::Bytes(None);
    }
    answer
}

/// Bytes that are made here.
pub fn bytes(asked: &ImageQuestion<'_>, media_type: &str, content: &[u8]) -> Answer {
    let digest = Digest::of(content);
    if is_known(asked.headers, &format!("\"{digest}\"")) {
        return unchanged(&digest);
    }
    let sent = if asked.head {
        Vec::new()
    } else {
        content.to_vec()
    };
    let mut answer = answer::of(StatusCode::OK, media_type, sent);
    answer::length(&mut answer, content.len() as u64);
    described(answer, &digest)
}

fn unknown_name(catalog: &Catalog, asked: &ImageQuestion<'_>) -> Answer {
    let name = asked.name;
    let has_registry = asked.ns.is_some() || ImageName::prefixed(name).is_some();
    let message = match has_registry {
        true => "the site's active generation has no such repository".to_owned(),
        // One that guessed could hand out another registry's image of the same name.
        false => {
            let others = catalog.images().keys().filter(|i| i.repository == name);
            let known: Vec<_> = others.map(ToString::to_string).collect();
            match known.is_empty() {
                true => "the name has no registry; ask for REGISTRY/NAME, or add ?ns=REGISTRY"
                    .to_owned(),
                false => format!("the name has no registry; here are {}", known.join(", ")),
            }
        }
    };
    error(StatusCode::NOT_FOUND, Code::NameUnknown, &message)
}

fn unknown_tag(image: &ImageName, tag: &str) -> Refused {
    Box::new(error(
        StatusCode::NOT_FOUND,
        Code::ManifestUnknown,
        &format!("the site's active generation has no {image}:{tag}"),
    ))
}

fn unknown_blob(digest: &Digest) -> Refused {
    Box::new(error(
        StatusCode::NOT_FOUND,
        Code::BlobUnknown,
        &format!("the site's active generation has no {digest} in this repository"),
    ))
}

/// Whether the uncompressed archive of a layer is here in the layer's place.
fn is_twin(digest: &Digest, stored: &Stored) -> bool {
    let path = Path::new(TWINS).join(digest.hex());
    matches!(stored.layout.open_file(&path), Ok(Some(_)))
}

fn of_a_twin(digest: &Digest) -> Refused {
    Box::new(error(
        StatusCode::NOT_FOUND,
        Code::BlobUnknown,
        &format!(
            "{digest} came as a twin: this site has its uncompressed archive, which the agent brings into the containerd of its own machine, and not \
             the bytes that a registry serves; the next bundle that is imported whole (`outhaul copy` without `--since`) has them"
        ),
    ))
}

/// What is stored cannot be given out.
fn damaged(digest: &Digest, problem: &str) -> Refused {
    tracing::error!(%digest, problem, "stored content cannot be served");
    Box::new(error(
        StatusCode::INTERNAL_SERVER_ERROR,
        Code::BlobUnknown,
        &format!("{digest} cannot be served: {problem}; import the bundle again"),
    ))
}

const MISMATCH: &str = "the stored bytes do not match the digest";

/// Opens a blob, whose size must be right.
fn open(stored: &Stored) -> Result<Option<File>, String> {
    let found = stored.layout.open_file(&stored.path);
    let Some(file) = found.map_err(|error| error.to_string())? else {
        return Ok(None);
    };
    let size = file.metadata().map_err(|error| error.to_string())?.len();
    match size == stored.size {
        true => Ok(Some(file)),
        false => Err(MISMATCH.to_owned()),
    }
}

/// Whether the client has this content already.
fn is_known(headers: &HeaderMap, etag: &str) -> bool {
    let values = headers.get_all(IF_NONE_MATCH);
    let mut tags = values
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(|tag| tag.trim().trim_start_matches("W/"));
    tags.any(|tag| tag == "*" || tag == etag)
}

/// What answers about one digest have in common.
fn described(mut answer: Answer, digest: &Digest) -> Answer {
    let text = digest.to_string();
    header(&mut answer, CONTENT_DIGEST, &text);
    header(&mut answer, ETAG, &format!("\"{text}\""));
    answer
}

fn unchanged(digest: &Digest) -> Answer {
    let mut answer = Response::new(BodyContent::Bytes(None));
    *answer.status_mut() = StatusCode::NOT_MODIFIED;
    described(answer, digest)
}

fn manifest(
    repository: &ImageRepository,
    asked: &ImageQuestion<'_>,
    digest: &Digest,
) -> Result<Answer, Refused> {
    let unknown = || {
        let message = format!("the site's active generation has no {digest} in this repository");
        Box::new(error(
            StatusCode::NOT_FOUND,
            Code::ManifestUnknown,
            &message,
        ))
    };
    let manifest = repository.manifests.get(digest).ok_or_else(unknown)?;
    let file = open(&manifest.stored).map_err(|problem| damaged(digest, &problem))?;
    let mut bytes = Vec::new();
    file.ok_or_else(unknown)?
        .take(MAX_IMAGE_MANIFEST_BYTES)
        .read_to_end(&mut bytes)
        .map_err(|error| damaged(digest, &error.to_string()))?;
    if Digest::of(&bytes) != *digest {
        return Err(damaged(digest, MISMATCH));
    }
    if is_known(asked.headers, &format!("\"{digest}\"")) {
        return Ok(unchanged(digest));
    }
    let size = bytes.len() as u64;
    let content = if asked.head { Vec::new() } else { bytes };
    let mut answer = answer::of(StatusCode::OK, &manifest.media_type, content);
    answer::length(&mut answer, size);
    Ok(described(answer, digest))
}

fn blob(
    catalog: &Arc<Catalog>,
    asked: &ImageQuestion<'_>,
    digest: &Digest,
    stored: &Stored,
) -> Result<Answer, Refused> {
    let failed = |problem: &str| damaged(digest, problem);
    let file = open(stored).map_err(|problem| failed(&problem))?;
    let mut file = file.ok_or_else(|| match is_twin(digest, stored) {
        true => of_a_twin(digest),
        false => unknown_blob(digest),
    })?;
    let marks = media::marks(&file).map_err(|error| failed(&error.to_string()))?;
    let checked = catalog.checked(digest, &marks);
    if checked == Some(BlobCheck::Bad) {
        return Err(failed(MISMATCH));
    }
    let etag = format!("\"{digest}\"");
    if is_known(asked.headers, &etag) {
        return Ok(unchanged(digest));
    }
    let header_of = |name| {
        asked
            .headers
            .get(name)
            .and_then(|value| value.to_str().ok())
    };
    let same = header_of(IF_RANGE).is_none_or(|condition| condition == etag);
    let wanted = match header_of(RANGE).filter(|_| same && !asked.head) {
        Some(value) => range::wanted(value, stored.size),
        None => ByteRange::Whole,
    };
    let mut answer = Response::new(BodyContent::Bytes(None));
    match wanted {
        ByteRange::Unsatisfiable => {
            let message = format!("the blob has {} bytes", stored.size);
            let status = StatusCode::RANGE_NOT_SATISFIABLE;
            let mut answer = error(status, Code::Unsupported, &message);
            header(
                &mut answer,
                CONTENT_RANGE,
                &format!("bytes */{}", stored.size),
            );
            return Err(Box::new(answer));
        }
        ByteRange::Part { first, last } => {
            let remember = Some((Arc::clone(catalog), marks));
            part(&mut file, stored, digest, checked, remember)?;
            file.seek(SeekFrom::Start(first))
                .map_err(|error| failed(&error.to_string()))?;
            let size = last - first + 1;
            *answer.status_mut() = StatusCode::PARTIAL_CONTENT;
            let range = format!("bytes {first}-{last}/{}", stored.size);
            header(&mut answer, CONTENT_RANGE, &range);
            answer::length(&mut answer, size);
            *answer.body_mut() = sent(file, size, digest, None, None);
        }
        ByteRange::Whole => {
            answer::length(&mut answer, stored.size);
            if !asked.head {
                let remember = Some((Arc::clone(catalog), marks));
                *answer.body_mut() = whole(file, stored, digest, remember)?;
            }
        }
    }
    header(&mut answer, CONTENT_TYPE, "application/octet-stream");
    header(&mut answer, ACCEPT_RANGES, "bytes");
    // A digest names the same bytes for ever.
    header(&mut answer, CACHE_CONTROL, "max-age=31536000, immutable");
    Ok(described(answer, digest))
}

/// A part of a file says nothing about the digest: the file is read whole first, once.
fn part(
    file: &mut File,
    stored: &Stored,
    digest: &Digest,
    checked: Option<BlobCheck>,
    remember: Option<(Arc<Catalog>, Marks)>,
) -> Result<(), Refused> {
    if checked == Some(BlobCheck::Good) {
        return Ok(());
    }
    body::check(file, stored.size, digest, remember)
        .map_err(|error| damaged(digest, &error.to_string()))
}

/// All of a file. A small one is compared before the answer begins, a large one while it is sent.
fn whole(
    mut file: File,
    stored: &Stored,
    digest: &Digest,
    remember: Option<(Arc<Catalog>, Marks)>,
) -> Result<BodyContent, Refused> {
    if stored.size > PIECE as u64 {
        let hasher = Some(Hasher::default());
        return Ok(sent(file, stored.size, digest, hasher, remember));
    }
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)
        .map_err(|error| damaged(digest, &error.to_string()))?;
    match Digest::of(&bytes) == *digest {
        true => Ok(BodyContent::Bytes(
            (!bytes.is_empty()).then(|| bytes.into()),
        )),
        false => Err(damaged(digest, MISMATCH)),
    }
}

fn sent(
    file: File,
    size: u64,
    digest: &Digest,
    hasher: Option<Hasher>,
    remember: Option<(Arc<Catalog>, Marks)>,
) -> BodyContent {
    let source = Source {
        file,
        left: size,
        hasher,
        digest: *digest,
        remember,
        framing: Framing::Plain,
    };
    BodyContent::File(FileBody::new(Vec::new(), source, Vec::new()))
}

fn tags(
    repository: &ImageRepository,
    asked: &ImageQuestion<'_>,
    n: Option<usize>,
    last: Option<&str>,
) -> Answer {
    let after = |tag: &&String| last.is_none_or(|last| tag.as_str() > last);
    let all: Vec<&String> = repository.tags.keys().filter(after).collect();
    let count = n.unwrap_or(all.len()).min(all.len());
    let listed = &all[..count];
    let body = json!({ "name": asked.name, "tags": listed });
    let mut answer = answer::of(StatusCode::OK, "application/json", body.to_string());
    if let (Some(last), true) = (listed.last(), count < all.len()) {
        let escaped = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
        let ns = asked.ns.map(|ns| format!("&ns={}", escaped(ns)));
        let link = format!(
            "</v2/{}/tags/list?n={count}&last={}{}>; rel=\"next\"",
            asked.name,
            escaped(last),
            ns.unwrap_or_default()
        );
        header(&mut answer, LINK, &link);
    }
    answer
}

fn referrers(repository: &ImageRepository, digest: &Digest, artifact_type: Option<&str>) -> Answer {
    let of_subject = repository.manifests.iter().filter(|(_, manifest)| {
        manifest.subject == Some(*digest)
            && artifact_type.is_none_or(|wanted| manifest.artifact_type.as_deref() == Some(wanted))
    });
    let descriptors: Vec<Value> = of_subject
        .map(|(digest, manifest)| {
            let mut descriptor = json!({
                "mediaType": manifest.media_type,
                "digest": digest.to_string(),
                "size": manifest.stored.size,
            });
            if let Some(artifact_type) = &manifest.artifact_type {
                descriptor["artifactType"] = json!(artifact_type);
            }
            if let Some(annotations) = &manifest.annotations {
                descriptor["annotations"] = json!(annotations);
            }
            descriptor
        })
        .collect();
    let body = json!({ "schemaVersion": 2, "mediaType": INDEX, "manifests": descriptors });
    let mut answer = answer::of(StatusCode::OK, INDEX, body.to_string());
    if artifact_type.is_some() {
        header(&mut answer, FILTERS, "artifactType");
    }
    answer
}
