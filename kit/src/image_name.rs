//! Names of images, by the grammar of the distribution specification: repositories, tags, and the registry that a host is of.
//!
//! What comes in: parts of a name. What goes out: whether it is one, so that the centre ships no name under which a site would serve
//! nothing. It completes nothing, and asks nobody.

use crate::bounds::MAX_IMAGE_TAG_BYTES;
use crate::carried::DEFAULT_REGISTRY;

/// Longest name of a repository with its registry before it, in bytes.
pub const MAX_IMAGE_NAME_BYTES: usize = 255;

/// The registry that a host in lower case is of: Docker Hub answers to several.
pub fn registry_of(host: &str) -> &str {
    match host {
        "index.docker.io" | "registry-1.docker.io" => DEFAULT_REGISTRY,
        other => other,
    }
}

/// Whether `name` follows `[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*(\/[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*)*`.
pub fn is_repository(name: &str) -> bool {
    name.len() <= MAX_IMAGE_NAME_BYTES && name.split('/').all(is_component)
}

fn is_component(part: &str) -> bool {
    let alphanumeric = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let bytes = part.as_bytes();
    let (Some(first), Some(last)) = (bytes.first(), bytes.last()) else {
        return false;
    };
    if !alphanumeric(*first) || !alphanumeric(*last) {
        return false;
    }
    bytes
        .split(|b| alphanumeric(*b))
        .all(|separator| match separator {
            [] | b"." | b"_" | b"__" => true,
            many => many.iter().all(|b| *b == b'-'),
        })
}

/// Whether `tag` follows `[a-zA-Z0-9_][a-zA-Z0-9._-]{0,127}`.
pub fn is_tag(tag: &str) -> bool {
    let word = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    tag.len() <= MAX_IMAGE_TAG_BYTES
        && tag.bytes().next().is_some_and(word)
        && tag.bytes().all(|b| word(b) || b == b'.' || b == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repositories_follow_the_specification_s_grammar() {
        for good in ["a", "a/b", "a.b_c__d-e---f/0", "library/nginx"] {
            assert!(is_repository(good), "{good}");
        }
        for bad in [
            "", "/", "a/", "/a", "a//b", "..", "a/../b", "A", "a___b", "a..b", "a-", "-a", "a._b",
            "a%2fb", "a\\b", "a:b", "a b", "ä",
        ] {
            assert!(!is_repository(bad), "{bad}");
        }
        assert!(is_repository(&"a".repeat(255)) && !is_repository(&"a".repeat(256)));
    }

    #[test]
    fn tags_follow_the_specification_s_grammar() {
        assert!(is_tag("1.27") && is_tag("_x") && is_tag(&"a".repeat(128)));
        for bad in ["", ".a", "-a", "a/b", "a:b", "ä", &"a".repeat(129)] {
            assert!(!is_tag(bad), "{bad}");
        }
    }

    #[test]
    fn one_registry_answers_to_three_names() {
        for host in ["docker.io", "index.docker.io", "registry-1.docker.io"] {
            assert_eq!(registry_of(host), "docker.io");
        }
        assert_eq!(registry_of("ghcr.io"), "ghcr.io");
    }
}
