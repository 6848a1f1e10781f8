//! What a git client asks `git-upload-pack` for.
//!
//! What comes in: the whole body of a request, bounded before it came here. What goes out: an [`UploadPackRequest`], of
//! protocol version 0 and 1 or 2. Pure; what is asked for and not offered is an error that says so.

use std::collections::BTreeSet;

use super::is_id;
use super::pktline::{Malformed, Packet, Packets, text};

/// Most objects that one request may name.
const MAX_IDS: usize = 100_000;

/// How the pack is wrapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Band {
    /// Not at all.
    None,
    /// In packets of at most 1000 bytes.
    Small,
    /// In packets of at most 65,520 bytes.
    Large,
}

/// What is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UploadPackRequest {
    /// Nothing: git tries with an empty request whether it may send a long one.
    Nothing,
    /// The refs (version 2).
    Refs {
        /// With what HEAD is.
        symrefs: bool,
        /// Only those that begin so; all when empty.
        prefixes: Vec<String>,
    },
    /// Objects.
    Fetch(Fetch),
}

/// A wish for objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fetch {
    /// The tips that are wanted.
    pub wants: BTreeSet<String>,
    /// Commits that the client has without their parents.
    pub shallow: BTreeSet<String>,
    /// Whether it limits the depth.
    pub deepens: bool,
    /// Whether anything followed the list of wants.
    pub negotiates: bool,
    /// Whether the client has nothing more to say: the pack may be sent.
    pub done: bool,
    /// How it wants the pack wrapped.
    pub band: Band,
}

/// Why a request is not answered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// Not the protocol.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// Something that was not offered.
    #[error("`{0}` is not offered here")]
    Unsupported(String),
    /// Too many objects.
    #[error("more than {MAX_IDS} objects are named")]
    TooMany,
}

/// Reads a request of version 0 or 1.
///
/// # Errors
/// [`RequestError`]
pub fn parse(body: &[u8]) -> Result<UploadPackRequest, RequestError> {
    let mut fetch = Fetch::new(Band::None);
    let mut packets = Packets(body);
    for packet in packets.by_ref() {
        let line = match packet? {
            Packet::Data(line) => text(line)?,
            Packet::Flush => break,
            Packet::Delimiter | Packet::End => return Err(Malformed.into()),
        };
        let (line, capabilities) = match line.strip_prefix("want ") {
            Some(want) if fetch.wants.is_empty() => match want.split_once(' ') {
                Some((id, capabilities)) => (&line[..5 + id.len()], capabilities),
                None => (line, ""),
            },
            _ => (line, ""),
        };
        for capability in capabilities.split(' ') {
            match capability {
                "side-band-64k" => fetch.band = Band::Large,
                "side-band" if fetch.band == Band::None => fetch.band = Band::Small,
                _ => {}
            }
        }
        fetch.argument(line)?;
    }
    for packet in packets {
        fetch.negotiates = true;
        match packet? {
            Packet::Data(line) => fetch.argument(text(line)?)?,
            Packet::Flush => {}
            Packet::Delimiter | Packet::End => return Err(Malformed.into()),
        }
    }
    Ok(match fetch.wants.is_empty() {
        true => UploadPackRequest::Nothing,
        false => UploadPackRequest::Fetch(fetch),
    })
}

/// Reads a request of version 2, for a repository whose ids are by `object_format`.
///
/// # Errors
/// [`RequestError`]
pub fn parse_v2(body: &[u8], object_format: &str) -> Result<UploadPackRequest, RequestError> {
    let mut command = None;
    let mut arguments = Vec::new();
    let mut in_arguments = false;
    for packet in Packets(body) {
        match packet? {
            Packet::Data(line) if in_arguments => {
                if arguments.len() >= MAX_IDS {
                    return Err(RequestError::TooMany);
                }
                arguments.push(text(line)?);
            }
            Packet::Data(line) => match text(line)?.split_once('=') {
                Some(("command", name)) => command = Some(name),
                Some(("object-format", format)) if format != object_format => {
                    return Err(RequestError::Unsupported(shown(text(line)?)));
                }
                _ => {}
            },
            Packet::Delimiter => in_arguments = true,
            Packet::Flush | Packet::End => break,
        }
    }
    match command {
        None if arguments.is_empty() => Ok(UploadPackRequest::Nothing),
        None => Err(Malformed.into()),
        Some("ls-refs") => Ok(UploadPackRequest::Refs {
            symrefs: arguments.contains(&"symrefs"),
            prefixes: arguments
                .iter()
                .filter_map(|argument| argument.strip_prefix("ref-prefix "))
                .map(str::to_owned)
                .collect(),
        }),
        Some("fetch") => {
            let mut fetch = Fetch::new(Band::Large);
            fetch.negotiates = true;
            for argument in arguments {
                fetch.argument(argument)?;
            }
            Ok(UploadPackRequest::Fetch(fetch))
        }
        Some(other) => Err(RequestError::Unsupported(shown(other))),
    }
}

impl Fetch {
    fn new(band: Band) -> Self {
        Self {
            wants: BTreeSet::new(),
            shallow: BTreeSet::new(),
            deepens: false,
            negotiates: false,
            done: false,
            band,
        }
    }

    fn argument(&mut self, line: &str) -> Result<(), RequestError> {
        let (word, value) = line.split_once(' ').unwrap_or((line, ""));
        let id = || match is_id(value) {
            true => Ok(value.to_owned()),
            false => Err(Malformed),
        };
        match word {
            "want" => drop(self.wants.insert(id()?)),
            "shallow" => drop(self.shallow.insert(id()?)),
            // All of the pack is sent, whatever the client has of it.
            "have" => drop(id()?),
            "deepen" => {
                value.parse::<u32>().map_err(|_| Malformed)?;
                self.deepens = true;
            }
            "done" => self.done = true,
            // Taken note of, and of no consequence for a pack that is ready.
            "thin-pack" | "no-progress" | "include-tag" | "ofs-delta" | "wait-for-done"
            | "deepen-relative" => {}
            _ => return Err(RequestError::Unsupported(shown(line))),
        }
        match self.wants.len() + self.shallow.len() > MAX_IDS {
            true => Err(RequestError::TooMany),
            false => Ok(()),
        }
    }
}

fn shown(line: &str) -> String {
    let good = line.chars().filter(|c| !c.is_control());
    good.take(60).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";

    fn fetch(request: UploadPackRequest) -> Fetch {
        match request {
            UploadPackRequest::Fetch(fetch) => fetch,
            other => panic!("{other:?}"),
        }
    }

    fn packets(lines: &[&str]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for line in lines {
            match *line {
                "0000" | "0001" => bytes.extend_from_slice(line.as_bytes()),
                line => crate::git::pktline::line(&mut bytes, line),
            }
        }
        bytes
    }

    /// As git 2.39 sends them: `GIT_TRACE_PACKET=1 git clone --depth 1`.
    #[test]
    fn what_git_sends_is_read_in_each_version() {
        let want = format!(
            "want {A} multi_ack_detailed no-done side-band-64k thin-pack ofs-delta deepen-since \
             deepen-not agent=git/2.39.5\n"
        );
        let first = packets(&[&want, "deepen 1", "0000"]);
        let read = fetch(parse(&first).unwrap());
        assert!(read.wants.contains(A) && read.deepens && !read.done && !read.negotiates);
        assert_eq!(read.band, Band::Large);
        let second = fetch(parse(&packets(&[&want, "deepen 1", "0000", "done\n"])).unwrap());
        assert!(second.done && second.negotiates);

        let want = format!("want {A}\n");
        let v2 = [
            "command=fetch",
            "agent=git/2.39.5",
            "object-format=sha1",
            "0001",
            "thin-pack",
            "no-progress",
            "ofs-delta",
            "deepen 1",
            &want,
            "done\n",
            "0000",
        ];
        let v2 = packets(&v2);
        let read = fetch(parse_v2(&v2, "sha1").unwrap());
        assert!(read.done && read.deepens && read.wants.contains(A));
        assert_eq!(read.band, Band::Large);
        assert_eq!(
            parse_v2(&v2, "sha256"),
            Err(RequestError::Unsupported("object-format=sha1".to_owned()))
        );
    }

    #[test]
    fn a_probe_is_no_request() {
        assert_eq!(parse(b"0000"), Ok(UploadPackRequest::Nothing));
        assert_eq!(parse_v2(b"0000", "sha1"), Ok(UploadPackRequest::Nothing));
        assert_eq!(parse(b""), Ok(UploadPackRequest::Nothing));
    }

    #[test]
    fn what_was_not_offered_is_refused_by_name() {
        let want = format!("want {A}\n");
        let filter = packets(&[&want, "filter blob:none\n", "0000"]);
        assert_eq!(
            parse(&filter),
            Err(RequestError::Unsupported("filter blob:none".to_owned()))
        );
        let other = packets(&["command=object-info\n", "0000"]);
        assert_eq!(
            parse_v2(&other, "sha1"),
            Err(RequestError::Unsupported("object-info".to_owned()))
        );
        assert!(parse(&packets(&["want ../..\n", "0000"])).is_err());
    }
}
