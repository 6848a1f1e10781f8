//! What a registry asks for in `WWW-Authenticate`.
//!
//! What comes in: the header's value, bounded. What goes out: the scheme and its parameters. A value that cannot
//! be read asks for nothing that could be given.

use std::collections::BTreeMap;

/// How to authenticate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Challenge {
    /// A name and a password with each request.
    Basic,
    /// A token, to be had at `realm`.
    Bearer {
        realm: String,
        service: Option<String>,
        scope: Option<String>,
    },
}

impl Challenge {
    /// The challenge in a header's value.
    pub(crate) fn parse(value: &str) -> Option<Self> {
        let (scheme, rest) = value.trim().split_once(' ').unwrap_or((value.trim(), ""));
        if scheme.eq_ignore_ascii_case("basic") {
            return Some(Self::Basic);
        }
        if !scheme.eq_ignore_ascii_case("bearer") {
            return None;
        }
        let mut parameters = parameters(rest);
        Some(Self::Bearer {
            realm: parameters.remove("realm")?,
            service: parameters.remove("service"),
            scope: parameters.remove("scope"),
        })
    }
}

/// `name="value",…`; a comma may stand inside the quotes.
fn parameters(text: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut rest = text.trim();
    while let Some((name, after)) = rest.split_once('=') {
        let name = name.trim().trim_start_matches(',').trim();
        let (value, next) = match after.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"').unwrap_or((quoted, "")),
            None => after.split_once(',').unwrap_or((after, "")),
        };
        found.insert(name.to_ascii_lowercase(), value.to_owned());
        rest = next;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_challenges_of_registries_are_read() {
        let docker = r#"Bearer realm="https://auth.docker.io/token",service="registry.docker.io",scope="repository:library/nginx:pull,push""#;
        assert_eq!(
            Challenge::parse(docker),
            Some(Challenge::Bearer {
                realm: "https://auth.docker.io/token".into(),
                service: Some("registry.docker.io".into()),
                scope: Some("repository:library/nginx:pull,push".into()),
            })
        );
        assert_eq!(
            Challenge::parse("basic realm=\"x\""),
            Some(Challenge::Basic)
        );
        for other in ["", "Bearer", "Bearer service=\"x\"", "Digest realm=\"x\""] {
            assert_eq!(Challenge::parse(other), None, "{other}");
        }
    }
}
