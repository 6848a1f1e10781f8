//! Large contents in parts, and uploads that broke off.
//!
//! What comes in: an object, and what a file remembers of uploads that began. What goes out: the object, from the parts that
//! the server has already and those that are sent now; or an error, and the upload stays as far as it is. An upload of
//! something that is not to be published any more is taken back.

use std::collections::BTreeMap;

use outhaul_bundle::Digest;
use outhaul_http::Method;
use outhaul_kit::durable;
use serde::{Deserialize, Serialize};

use super::{Body, Counting, MAX_ANSWER, S3, UnsentRequest, answers, headers, remember};
use crate::error::TargetError;
use crate::publication::Object;
use crate::target::Target as _;

/// Most parts of one object.
const MAX_PARTS: u64 = 10_000;
/// Largest file of what is remembered, in bytes.
const MAX_RECORD: u64 = 4 << 20;
const MIB: u64 = 1 << 20;

/// How large contents are cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartSizes {
    /// Up to this size, in bytes, a content goes in one request.
    pub one_request: u64,
    /// Bytes of a part; more when a content has more than 10,000 of them.
    pub part: u64,
}

impl Default for PartSizes {
    /// 32 MiB in one request, and in parts of as much: what S3 and its like all take.
    fn default() -> Self {
        Self {
            one_request: 32 * MIB,
            part: 32 * MIB,
        }
    }
}

impl PartSizes {
    /// Bytes of the parts of a content of `size` bytes; `None` when it goes whole.
    pub(super) fn of(self, size: u64) -> Option<u64> {
        let least = size.div_ceil(MAX_PARTS).next_multiple_of(MIB);
        let is_large = size > self.one_request;
        is_large.then(|| {
            if size > self.part * MAX_PARTS {
                least
            } else {
                self.part
            }
        })
    }
}

/// An upload that has begun.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Begun {
    id: String,
    size: u64,
    part: u64,
}

/// What is remembered: by URL.
type Record = BTreeMap<String, Begun>;

impl S3 {
    pub(super) fn in_parts(
        &self,
        object: &Object,
        part: u64,
        sent: &dyn Fn(u64),
    ) -> Result<(), TargetError> {
        let size = object.content.size;
        let (id, there) = match self.begun(object, part)? {
            Some(found) => found,
            None => (self.begin(object, part)?, BTreeMap::new()),
        };
        let mut tags = Vec::new();
        for (at, number) in (0..size)
            .step_by(usize::try_from(part).unwrap_or(usize::MAX))
            .zip(1u64..)
        {
            let length = part.min(size - at);
            if let Some((_, tag)) = there.get(&number).filter(|(found, _)| *found == length) {
                sent(length);
                tags.push(tag.clone());
                continue;
            }
            tags.push(self.part(object, (&id, number), (at, length), sent)?);
            outhaul_kit::interrupt::here();
        }
        self.complete(object, &id, &tags)?;
        self.forget(&self.base.join(&object.path))
    }

    /// An upload of the same content that broke off, and what of it is there: size and tag by number.
    #[expect(clippy::type_complexity, reason = "used once")]
    fn begun(
        &self,
        object: &Object,
        part: u64,
    ) -> Result<Option<(String, BTreeMap<u64, (u64, String)>)>, TargetError> {
        let url = self.base.join(&object.path);
        let Some(begun) = self.remembered()?.remove(&url) else {
            return Ok(None);
        };
        if (begun.size, begun.part) != (object.content.size, part) {
            self.take_back(&object.path, &begun)?;
            return Ok(None);
        }
        let mut there = BTreeMap::new();
        let mut after = "0".to_owned();
        loop {
            let asked = UnsentRequest {
                method: Method::GET,
                path: &object.path,
                query: &[("uploadId", &begun.id), ("part-number-marker", &after)],
                headers: &[],
            };
            let answer = self.ask_plainly(&asked)?;
            match answer.status() {
                200 => {}
                // The server has let go of it.
                404 => return Ok(None),
                _ => return Err(self.refused(&object.path, answer)),
            }
            let bytes = answer.bytes(MAX_ANSWER);
            let bytes = bytes.map_err(|error| self.unreachable(&object.path, &error))?;
            let text = String::from_utf8_lossy(&bytes);
            for found in answers::elements(&text, "Part") {
                let number = |name| answers::element(&found, name)?.parse::<u64>().ok();
                if let (Some(at), Some(size), Some(tag)) = (
                    number("PartNumber"),
                    number("Size"),
                    answers::element(&found, "ETag"),
                ) {
                    there.insert(at, (size, tag));
                }
            }
            let next = answers::element(&text, "NextPartNumberMarker");
            let is_cut = answers::element(&text, "IsTruncated").as_deref() == Some("true");
            match next.filter(|next| is_cut && *next != after) {
                Some(next) => after = next,
                None => return Ok(Some((begun.id, there))),
            }
        }
    }

    fn begin(&self, object: &Object, part: u64) -> Result<String, TargetError> {
        let asked = UnsentRequest {
            method: Method::POST,
            path: &object.path,
            query: &[("uploads", "")],
            headers: &headers(&object.path),
        };
        let answer = self.ask(&asked, Digest::of(b""), 0, Body::Bytes(&[]))?;
        if answer.status() != 200 {
            return Err(self.refused(&object.path, answer));
        }
        let status = answer.status_text();
        let bytes = answer.bytes(MAX_ANSWER);
        let bytes = bytes.map_err(|error| self.unreachable(&object.path, &error))?;
        let id = answers::element(&String::from_utf8_lossy(&bytes), "UploadId");
        let id = id.ok_or_else(|| TargetError::Refused {
            place: self.place(&object.path),
            status,
            reason: " without the id of an upload".to_owned(),
            region: None,
        })?;
        let mut record = self.remembered()?;
        record.insert(
            self.base.join(&object.path),
            Begun {
                id: id.clone(),
                size: object.content.size,
                part,
            },
        );
        self.write_record(&record)?;
        Ok(id)
    }

    /// Sends one part; gives its tag.
    fn part(
        &self,
        object: &Object,
        (id, number): (&str, u64),
        (at, length): (u64, u64),
        sent: &dyn Fn(u64),
    ) -> Result<String, TargetError> {
        let read = |source| TargetError::Read {
            path: object.origin(),
            source,
        };
        // Read twice rather than held: memory does not grow with a part.
        let digest = object.digest_of(at, length).map_err(read)?;
        let number = number.to_string();
        let asked = UnsentRequest {
            method: Method::PUT,
            path: &object.path,
            query: &[("uploadId", id), ("partNumber", &number)],
            headers: &[],
        };
        let mut reader = Counting {
            inner: object.open(at, length).map_err(read)?,
            sent,
        };
        let answer = self.ask(&asked, digest, length, Body::Stream(&mut reader))?;
        if answer.status() != 200 {
            return Err(self.refused(&object.path, answer));
        }
        let tag = answer.header("etag").map(str::to_owned);
        tag.ok_or_else(|| TargetError::Refused {
            place: self.place(&object.path),
            status: answer.status_text(),
            reason: format!(" for part {number} without its tag"),
            region: None,
        })
    }

    #[expect(clippy::format_collect, reason = "a short text")]
    fn complete(&self, object: &Object, id: &str, tags: &[String]) -> Result<(), TargetError> {
        let parts: String = tags
            .iter()
            .zip(1..)
            .map(|(tag, number)| {
                let tag = answers::escaped(tag);
                format!("<Part><PartNumber>{number}</PartNumber><ETag>{tag}</ETag></Part>")
            })
            .collect();
        let body = format!(
            "<CompleteMultipartUpload xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">{parts}</CompleteMultipartUpload>"
        );
        let asked = UnsentRequest {
            method: Method::POST,
            path: &object.path,
            query: &[("uploadId", id)],
            headers: &[("Content-Type", "application/xml")],
        };
        let bytes = body.as_bytes();
        let answer = self.ask(
            &asked,
            Digest::of(bytes),
            bytes.len() as u64,
            Body::Bytes(bytes),
        )?;
        if answer.status() != 200 {
            return Err(self.refused(&object.path, answer));
        }
        // It may fail after it answered 200.
        let status = answer.status_text();
        let text = answer.bytes(MAX_ANSWER);
        let text = text.map_err(|error| self.unreachable(&object.path, &error))?;
        let text = String::from_utf8_lossy(&text);
        if !text.contains("<Error>") {
            return Ok(());
        }
        let reported = answers::error(&text);
        Err(TargetError::Refused {
            place: self.place(&object.path),
            status,
            reason: reported.reason,
            region: None,
        })
    }

    /// Takes back what is remembered below this URL.
    pub(super) fn abandon(&self) -> Result<(), TargetError> {
        let base = self.base.join("");
        for (url, begun) in self.remembered()? {
            let Some(path) = url.strip_prefix(&base) else {
                continue;
            };
            self.take_back(path, &begun)?;
            self.forget(&url)?;
        }
        Ok(())
    }

    fn take_back(&self, path: &str, begun: &Begun) -> Result<(), TargetError> {
        let answer = self.ask_plainly(&UnsentRequest {
            method: Method::DELETE,
            path,
            query: &[("uploadId", &begun.id)],
            headers: &[],
        })?;
        match answer.status() {
            200 | 204 | 404 => Ok(()),
            _ => Err(self.refused(path, answer)),
        }
    }

    /// What is written down; what cannot be read was never begun.
    fn remembered(&self) -> Result<Record, TargetError> {
        let bytes = durable::read_if_present(&self.record, MAX_RECORD)?;
        Ok(bytes
            .and_then(|bytes| serde_json::from_slice(&bytes).ok())
            .unwrap_or_default())
    }

    fn forget(&self, url: &str) -> Result<(), TargetError> {
        let mut record = self.remembered()?;
        match record.remove(url) {
            Some(_) => self.write_record(&record),
            None => Ok(()),
        }
    }

    fn write_record(&self, record: &Record) -> Result<(), TargetError> {
        let bytes = serde_json::to_vec_pretty(record).unwrap_or_default();
        remember(&self.record, (!record.is_empty()).then_some(&bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_large_is_cut_and_never_into_too_many_parts() {
        let sizes = PartSizes::default();
        assert_eq!(sizes.of(32 * MIB), None);
        assert_eq!(sizes.of(32 * MIB + 1), Some(32 * MIB));
        let huge = 5_000_000 * MIB;
        let part = sizes.of(huge).unwrap();
        assert!(huge.div_ceil(part) <= MAX_PARTS, "{part}");
    }
}
