//! Patterns of images' whole names.
//!
//! What comes in: a pattern of an entry, and a whole name. What goes out: whether the one is for the other. A digest decides what is
//! brought and a tag before it says nothing, so that naming an image by digest is no way past an entry that wants a signature, and no
//! way into one that wants none. Nothing is asked of a registry.

use outhaul_kit::image_name::registry_of;

/// How a pattern is for a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fit {
    /// As it is written.
    Written,
    /// By its repository: the name has a digest, and which tags that has is not known.
    Repository,
}

/// How an entry that wants a signature is for a name: by digest, every tag of its repository may be meant.
pub(super) fn wants(pattern: &str, name: &str) -> Option<Fit> {
    let (pattern, name) = (plain(pattern), plain(name));
    let (tagged, digest) = split_digest(&name);
    if fits(&pattern, &name) || (digest.is_some() && fits(&pattern, tagged)) {
        return Some(Fit::Written);
    }
    let digest = digest?;
    let (asked, wanted) = split_digest(&pattern);
    let same = wanted.is_none_or(|wanted| fits(wanted, digest));
    (same && fits(repository(asked), repository(tagged))).then_some(Fit::Repository)
}

/// Whether an entry that wants no signature is for a name. One for some tags is for no name with a digest.
pub(super) fn exempts(pattern: &str, name: &str) -> bool {
    let (pattern, name) = (plain(pattern), plain(name));
    let (tagged, digest) = split_digest(&name);
    let (asked, wanted) = split_digest(&pattern);
    if digest.is_none() || wanted.is_some() {
        return fits(&pattern, &name);
    }
    let before = repository(asked);
    let every_tag = matches!(asked.strip_prefix(before), Some("" | ":*"));
    every_tag && (fits(&pattern, &name) || fits(before, repository(tagged)))
}

/// Whether both are for tags of one repository.
pub(super) fn same_repository(one: &str, other: &str) -> bool {
    let (one, other) = (plain(one), plain(other));
    repository(split_digest(&one).0) == repository(split_digest(&other).0)
}

/// Whether each whole name that `later` is written for is one that `earlier` is written for.
pub(super) fn covers(earlier: &str, later: &str) -> bool {
    // A `*` of the later one is a character that only a `*` of the earlier one fits.
    fits(&plain(earlier), &plain(later))
}

/// Whether an entry `earlier` that wants no signature is for each name that `later` is for, one that wants a signature or one that does
/// not.
pub(super) fn exempts_all(earlier: &str, later: &str, wants_signature: bool) -> bool {
    if !covers(earlier, later) || !exempts(earlier, later) {
        return false;
    }
    if !wants_signature {
        return true;
    }
    parts(later)
        .iter()
        .skip(1)
        .all(|part| exempts(earlier, part))
}

/// What an entry that wants a signature is for: what is written, and every digest of its repository, with no tag and with any.
pub(super) fn parts(pattern: &str) -> [String; 3] {
    let written = plain(pattern);
    let (tagged, digest) = split_digest(&written);
    let (repository, digest) = (repository(tagged), digest.unwrap_or("*"));
    let (none, any) = (
        format!("{repository}@{digest}"),
        format!("{repository}:*@{digest}"),
    );
    [written, none, any]
}

/// What is before `@`, and the digest behind it.
fn split_digest(name: &str) -> (&str, Option<&str>) {
    let parts = name.split_once('@');
    parts.map_or((name, None), |(before, digest)| (before, Some(digest)))
}

/// The repository of a name, or of a pattern, that has no digest; a `*` may be for the beginning of a tag, too.
fn repository(name: &str) -> &str {
    let last = name.rfind('/').map_or(0, |at| at + 1);
    let part = &name[last..];
    if let Some(at) = part.find(':') {
        return &name[..last + at];
    }
    part.rfind('*').map_or(name, |at| &name[..=last + at])
}

/// The registry of a name, or of a pattern, in the one form in which both are compared.
fn plain(name: &str) -> String {
    let Some((registry, rest)) = name.split_once('/') else {
        return name.to_owned();
    };
    let registry = registry.to_ascii_lowercase();
    let (host, port) = registry
        .split_once(':')
        .map_or((registry.as_str(), ""), |(host, port)| (host, port));
    // This machine's registries are asked without encryption.
    let is_own = host == "localhost" || host.starts_with("127.");
    let default = if is_own { "80" } else { "443" };
    let host = registry_of(host);
    match port {
        "" => format!("{host}/{rest}"),
        port if port == default => format!("{host}/{rest}"),
        port => format!("{host}:{port}/{rest}"),
    }
}

/// Whether a text is what `pattern` says, in which `*` is any run of characters.
pub(super) fn fits(pattern: &str, name: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else {
        return pattern == name;
    };
    let Some(mut left) = name.strip_prefix(start) else {
        return false;
    };
    let mut parts: Vec<&str> = rest.split('*').collect();
    let end = parts.pop().unwrap_or_default();
    for part in parts {
        // The first place leaves the most for what follows.
        let Some(at) = left.find(part) else {
            return false;
        };
        left = &left[at + part.len()..];
    }
    left.ends_with(end)
}

#[cfg(test)]
mod tests;
