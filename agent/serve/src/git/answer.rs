//! What a git client is answered.
//!
//! What comes in: a [`GitRepository`] and an [`UploadPackRequest`]. What goes out: the packets before and after the pack, and
//! whether the pack is sent. It is pure: the pack itself is streamed by `body.rs`.

use std::fmt::Write as _;

use super::GitRepository;
use super::pktline::{DELIMITER, FLUSH, line};
use super::request::{Band, Fetch, UploadPackRequest};

const AGENT: &str = concat!("agent=outhaul-mirror/", env!("CARGO_PKG_VERSION"));

/// An answer.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct PackAnswer {
    /// What comes first.
    pub head: Vec<u8>,
    /// Whether the pack follows, and how it is wrapped.
    pub pack: Option<Band>,
    /// What comes after the pack.
    pub tail: Vec<u8>,
}

/// The answer to `…/info/refs?service=git-upload-pack`.
pub fn refs(repository: &GitRepository, version: u8) -> Vec<u8> {
    let mut out = Vec::new();
    let format = repository.object_format();
    if version == 2 {
        line(&mut out, "version 2\n");
        line(&mut out, &format!("{AGENT}\n"));
        line(&mut out, "ls-refs\n");
        line(&mut out, "fetch=shallow\n");
        line(&mut out, &format!("object-format={format}\n"));
        out.extend_from_slice(FLUSH);
        return out;
    }
    line(&mut out, "# service=git-upload-pack\n");
    out.extend_from_slice(FLUSH);
    if version == 1 {
        line(&mut out, "version 1\n");
    }
    let GitRepository { tip, head, .. } = repository;
    // A client that knows no thin packs or offsets gets neither: packs here have no such deltas.
    let mut capabilities = "side-band side-band-64k ofs-delta thin-pack shallow no-progress \
                            include-tag allow-tip-sha1-in-want"
        .to_owned();
    let _ = write!(
        capabilities,
        " symref=HEAD:{head} object-format={format} {AGENT}"
    );
    line(&mut out, &format!("{tip} HEAD\0{capabilities}\n"));
    for (name, id) in &repository.refs {
        line(&mut out, &format!("{id} {name}\n"));
    }
    for id in &repository.shallow {
        line(&mut out, &format!("shallow {id}"));
    }
    out.extend_from_slice(FLUSH);
    out
}

/// The answer to a request.
pub fn answer(repository: &GitRepository, request: &UploadPackRequest, version: u8) -> PackAnswer {
    let mut answer = PackAnswer::default();
    match request {
        UploadPackRequest::Nothing => {}
        UploadPackRequest::Refs { symrefs, prefixes } => {
            list(repository, *symrefs, prefixes, &mut answer)
        }
        UploadPackRequest::Fetch(fetch) => {
            let unknown = fetch.wants.iter().find(|id| !repository.has_tip(id));
            if let Some(id) = unknown {
                return error(&format!("upload-pack: not our ref {id}"));
            }
            match version {
                2 => fetch_v2(repository, fetch, &mut answer),
                _ => fetch_v0(repository, fetch, &mut answer),
            }
        }
    }
    answer
}

/// The answer that ends a conversation, with a message that git shows.
pub fn error(message: &str) -> PackAnswer {
    let mut answer = PackAnswer::default();
    line(&mut answer.head, &format!("ERR {message}\n"));
    answer
}

fn list(repository: &GitRepository, symrefs: bool, prefixes: &[String], answer: &mut PackAnswer) {
    let wanted =
        |name: &str| prefixes.is_empty() || prefixes.iter().any(|prefix| name.starts_with(prefix));
    if wanted("HEAD") {
        let target = match symrefs {
            true => format!(" symref-target:{}", repository.head),
            false => String::new(),
        };
        let head = format!("{} HEAD{target}\n", repository.tip);
        line(&mut answer.head, &head);
    }
    for (name, id) in repository.refs.iter().filter(|(name, _)| wanted(name)) {
        line(&mut answer.head, &format!("{id} {name}\n"));
    }
    answer.head.extend_from_slice(FLUSH);
}

/// Commits whose parents the client will lack, and does not know yet that it will.
fn new_shallow<'r>(repository: &'r GitRepository, fetch: &'r Fetch) -> Vec<&'r String> {
    repository.shallow.difference(&fetch.shallow).collect()
}

fn fetch_v0(repository: &GitRepository, fetch: &Fetch, answer: &mut PackAnswer) {
    if fetch.deepens {
        for id in new_shallow(repository, fetch) {
            line(&mut answer.head, &format!("shallow {id}"));
        }
        answer.head.extend_from_slice(FLUSH);
    }
    if !fetch.negotiates {
        return;
    }
    line(&mut answer.head, "NAK\n");
    if fetch.done {
        answer.pack = Some(fetch.band);
        if fetch.band != Band::None {
            answer.tail.extend_from_slice(FLUSH);
        }
    }
}

fn fetch_v2(repository: &GitRepository, fetch: &Fetch, answer: &mut PackAnswer) {
    if !fetch.done {
        line(&mut answer.head, "acknowledgments\n");
        line(&mut answer.head, "NAK\n");
        answer.head.extend_from_slice(FLUSH);
        return;
    }
    let shallow = new_shallow(repository, fetch);
    if !shallow.is_empty() {
        line(&mut answer.head, "shallow-info\n");
        for id in shallow {
            line(&mut answer.head, &format!("shallow {id}"));
        }
        answer.head.extend_from_slice(DELIMITER);
    }
    line(&mut answer.head, "packfile\n");
    answer.pack = Some(Band::Large);
    answer.tail.extend_from_slice(FLUSH);
}
