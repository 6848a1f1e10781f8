//! Whether a pattern may be for an image at all.
//!
//! What comes in: a pattern of an entry. What goes out: nothing where some whole name fits it, else why none does and what to write. A
//! whole name is as registries are asked: a registry, a repository in small letters, and a tag or a digest. Nothing is asked of one.

use outhaul_kit::bounds::MAX_IMAGE_TAG_BYTES;
use outhaul_kit::carried::DEFAULT_REGISTRY;
use outhaul_kit::image_name::registry_of;
use std::collections::BTreeSet;

/// The registry that needs neither a dot nor a port.
const LOCALHOST: &[u8] = b"localhost";
/// What a digest begins with.
const SHA256: &[u8] = b"sha256:";
/// How many characters a digest has.
const DIGEST_CHARS: u8 = 71;

const NO_REGISTRY: &str = "it names no registry, and whole names have one, such as `docker.io/team/app:*` or `docker.io/library/nginx:*`";
const EMPTY_PART: &str = "a part of its repository is empty; end it with `/*` for all that is below, or with `:*` behind a name for every \
                          tag of that image";

/// How far a text is a whole name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum At {
    /// In the registry: whether it is one, by a dot or a port.
    Registry(bool),
    /// In `localhost`, behind so many characters.
    Localhost(u8),
    /// Before a part of the repository.
    PartStart,
    /// In one.
    Part,
    /// In the tag, behind so many characters.
    Tag(usize),
    /// In the digest, likewise.
    Digest(u8),
}

impl At {
    /// Where `byte` leads from here.
    fn step(self, byte: u8) -> Option<Self> {
        match (self, byte) {
            (Self::Registry(true) | Self::Part, b'/') => Some(Self::PartStart),
            (Self::Registry(_), b'.' | b':') => Some(Self::Registry(true)),
            (Self::Registry(is_one), b'-' | b'[' | b']') => Some(Self::Registry(is_one)),
            (Self::Registry(is_one), _) if byte.is_ascii_alphanumeric() => {
                Some(Self::Registry(is_one))
            }
            (Self::Localhost(at), b'/') if usize::from(at) == LOCALHOST.len() => {
                Some(Self::PartStart)
            }
            (Self::Localhost(at), _) => {
                let next = LOCALHOST.get(usize::from(at))?;
                (*next == byte.to_ascii_lowercase()).then_some(Self::Localhost(at + 1))
            }
            (Self::PartStart | Self::Part, b'a'..=b'z' | b'0'..=b'9')
            | (Self::Part, b'.' | b'_' | b'-') => Some(Self::Part),
            (Self::Part, b':') => Some(Self::Tag(0)),
            (Self::Part | Self::Tag(1..), b'@') => Some(Self::Digest(0)),
            (Self::Tag(0), b'.' | b'-') => None,
            (Self::Tag(at), b'.' | b'_' | b'-') if at < MAX_IMAGE_TAG_BYTES => {
                Some(Self::Tag(at + 1))
            }
            (Self::Tag(at), _) if at < MAX_IMAGE_TAG_BYTES && byte.is_ascii_alphanumeric() => {
                Some(Self::Tag(at + 1))
            }
            (Self::Digest(at), _) => {
                let is_next = match SHA256.get(usize::from(at)) {
                    Some(next) => *next == byte,
                    None => at < DIGEST_CHARS && matches!(byte, b'0'..=b'9' | b'a'..=b'f'),
                };
                is_next.then_some(Self::Digest(at + 1))
            }
            _ => None,
        }
    }

    /// Whether a whole name may end here.
    fn is_end(self) -> bool {
        matches!(self, Self::Tag(1..) | Self::Digest(DIGEST_CHARS))
    }
}

/// All that any run of characters leads to.
fn reachable(from: BTreeSet<At>) -> BTreeSet<At> {
    let mut all = from.clone();
    let mut new: Vec<At> = from.into_iter().collect();
    while let Some(at) = new.pop() {
        let next = (b'!'..=b'~').filter_map(|byte| at.step(byte));
        new.extend(next.filter(|one| all.insert(*one)));
    }
    all
}

/// What is wrong with a pattern that fits no image's whole name; `None` when one may fit.
pub fn never_fits(pattern: &str) -> Option<&'static str> {
    let (first, rest) = pattern.split_once('/').unwrap_or((pattern, ""));
    let last = pattern.rsplit('/').next().unwrap_or(pattern);
    // Without a `/`, what is behind a `:` is meant for a tag.
    let has_path = pattern.contains('/');
    let host = first.split(':').next().unwrap_or_default();
    let host = if has_path { first } else { host };
    let is_registry = host.contains(['*', '.', ':']) || host.eq_ignore_ascii_case("localhost");
    // Docker Hub's own images are below `library`.
    let registry = first.to_ascii_lowercase();
    let registry = registry.strip_suffix(":443").unwrap_or(&registry);
    let is_hub = registry_of(registry) == DEFAULT_REGISTRY;
    let name = rest.split([':', '@']).next().unwrap_or_default();
    match () {
        () if pattern.contains("://") => Some("it has a scheme, and names of images have none"),
        () if pattern.chars().any(char::is_whitespace) => Some("it has a space"),
        () if pattern.contains('?') => {
            Some("names of images have no `?`; only `*` is a wildcard, for any run of characters")
        }
        () if !is_registry => Some(NO_REGISTRY),
        () if pattern.ends_with('/')
            || ["//", "/:", "/@"].iter().any(|no| pattern.contains(no)) =>
        {
            Some(EMPTY_PART)
        }
        () if !last.contains(['*', ':', '@']) => {
            Some("it names no tag, and whole names have one; end it with `:*` for every tag")
        }
        () if is_hub && !name.contains(['*', '/']) => Some(
            "the name of an image of Docker Hub without an owner begins with `docker.io/library/`; write it like that",
        ),
        () => by_character(pattern),
    }
}

/// The same, character by character.
fn by_character(pattern: &str) -> Option<&'static str> {
    let mut here = BTreeSet::from([At::Registry(false), At::Localhost(0)]);
    for byte in pattern.bytes() {
        if byte == b'*' {
            here = reachable(here);
            continue;
        }
        let next: BTreeSet<At> = here.iter().filter_map(|at| at.step(byte)).collect();
        if next.is_empty() {
            return Some(where_it_ends(&here, Some(byte)));
        }
        here = next;
    }
    let may_end = here.iter().any(|at| at.is_end());
    (!may_end).then(|| where_it_ends(&here, None))
}

/// Why no whole name goes on from `here` with `byte`, or ends here.
fn where_it_ends(here: &BTreeSet<At>, byte: Option<u8>) -> &'static str {
    let any = |is: fn(&At) -> bool| here.iter().any(is);
    match byte {
        Some(byte)
            if byte.is_ascii_uppercase() && any(|at| matches!(at, At::Part | At::PartStart)) =>
        {
            "repositories have no capitals; write it in small letters"
        }
        _ if any(|at| matches!(at, At::Digest(_))) => {
            "a digest is `sha256:` and 64 characters, digits and small letters from `a` to `f`; `@*` is every one"
        }
        None if any(|at| matches!(at, At::Tag(0))) => {
            "its tag is empty; end it with `:*` for every tag"
        }
        _ if any(|at| matches!(at, At::Tag(_))) => {
            "a tag is of at most 128 letters, digits, `.`, `_` and `-`, and begins with a letter, a digit or `_`"
        }
        _ if any(|at| matches!(at, At::Part | At::PartStart)) => {
            "a repository is of small letters, digits, `.`, `_` and `-`, with `/` between parts, and has a tag or a digest behind it"
        }
        _ => "its registry is not a host",
    }
}

#[cfg(test)]
mod tests;
