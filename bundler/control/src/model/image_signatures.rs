//! Which images must be signed, and by whom.
//!
//! What comes in: the entries of a policy, in their order. What goes out: the entry that is for an image. Whether a signature
//! holds is not decided here.

use super::Spanned;

mod identity;

pub use identity::{SignerIdentity, bad_issuer, bad_subject, broad_subject};

/// Which images that travel must be signed: the first entry that fits an image's name counts.
#[derive(Debug, Clone, PartialEq)]
pub struct ImageSignatures(pub Vec<SignatureRule>);

/// Of some images, who must have signed them.
#[derive(Debug, Clone)]
pub struct SignatureRule {
    /// Whole names of images, with `*` for any run of characters.
    pub images: String,
    /// Public keys in PEM, of which one may have signed.
    pub keys: Vec<Spanned<String>>,
    /// Who may have signed without a key pair.
    pub identities: Vec<SignerIdentity>,
    /// What certificates of identities are verified with; there where there are identities.
    pub root: Option<CarriedRoot>,
}

/// A trusted root of Sigstore, as the policy has it.
#[derive(Debug, Clone)]
pub struct CarriedRoot {
    /// What the policy calls it.
    pub name: String,
    /// The text of its `trusted_root.json`.
    pub json: Spanned<String>,
}

/// Two that say the same are equal, wherever they are written.
impl PartialEq for SignatureRule {
    fn eq(&self, other: &Self) -> bool {
        let keys = |one: &Self| -> Vec<String> {
            let keys = one.keys.iter();
            keys.map(|key| key.value.trim().to_owned()).collect()
        };
        let identities = |one: &Self| -> Vec<(String, String)> {
            let all = one.identities.iter();
            all.map(|one| (one.issuer.value.clone(), one.subject.value.clone()))
                .collect()
        };
        let root = |one: &Self| {
            let root = one.root.as_ref();
            root.map(|root| root.json.value.trim().to_owned())
        };
        self.images == other.images
            && keys(self) == keys(other)
            && identities(self) == identities(other)
            && root(self) == root(other)
    }
}

impl SignatureRule {
    /// Whether such images need no signature: nobody is named who had to sign them.
    pub fn may_be_unsigned(&self) -> bool {
        self.keys.is_empty() && self.identities.is_empty()
    }
}

impl ImageSignatures {
    /// The entry that is for the image with this whole name, however its registry is called: a default port and the other names of
    /// Docker Hub are no way past an entry.
    pub fn rule(&self, image: &str) -> Option<&SignatureRule> {
        let image = plain(image);
        self.0.iter().find(|rule| {
            let pattern = plain(&rule.images);
            fits(&pattern, &image) || is_any_version(&pattern, &image)
        })
    }
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
    let host = match host {
        "index.docker.io" | "registry-1.docker.io" => "docker.io",
        other => other,
    };
    match port {
        "" => format!("{host}/{rest}"),
        port if port == default => format!("{host}/{rest}"),
        port => format!("{host}:{port}/{rest}"),
    }
}

/// Whether a pattern that is for every tag of a repository is for what is asked by its digest, too.
fn is_any_version(pattern: &str, name: &str) -> bool {
    let repository = name.split_once('@').map(|(repository, _)| repository);
    let every = pattern.strip_suffix(":*");
    matches!((every, repository), (Some(every), Some(repository)) if fits(every, repository))
}

/// What is wrong with a pattern that fits no image's whole name; `None` when one may fit.
pub fn never_fits(pattern: &str) -> Option<&'static str> {
    let last = pattern.rsplit('/').next().unwrap_or(pattern);
    match () {
        () if pattern.contains("://") => Some("it has a scheme, and names of images have none"),
        () if pattern.chars().any(char::is_whitespace) => Some("it has a space"),
        () if !last.contains(['*', ':', '@']) => {
            Some("it names no tag, and whole names have one; end it with `:*` for every tag")
        }
        () if !pattern.contains(['/', '*']) => {
            Some("it names no registry, and whole names have one")
        }
        () => None,
    }
}

fn fits(pattern: &str, name: &str) -> bool {
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
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_for_an_image_however_its_registry_is_called() {
        let rules = |pattern: &str| {
            ImageSignatures(vec![SignatureRule {
                images: pattern.to_owned(),
                keys: Vec::new(),
                identities: Vec::new(),
                root: None,
            }])
        };
        for (pattern, image) in [
            ("registry.example/press/*", "registry.example:443/press/a:1"),
            ("registry.example:443/press/*", "registry.example/press/a:1"),
            ("REGISTRY.example/press/*", "registry.example/press/a:1"),
            ("localhost/press/*", "localhost:80/press/a:1"),
            (
                "docker.io/library/nginx:*",
                "index.docker.io/library/nginx:1",
            ),
            (
                "docker.io/library/nginx:*",
                "registry-1.docker.io/library/nginx:1",
            ),
            ("registry.example/a:*", "registry.example/a@sha256:00"),
        ] {
            assert!(rules(pattern).rule(image).is_some(), "{pattern} {image}");
        }
        assert!(
            rules("registry.example/a:1")
                .rule("registry.example/a@sha256:00")
                .is_none()
        );
        assert!(rules("localhost:5000/*").rule("localhost/a:1").is_none());
    }

    #[test]
    fn a_pattern_that_fits_no_whole_name_is_known() {
        for pattern in [
            "oci://a.example/*",
            "a.example/app",
            "a.example/app/",
            "nginx:1",
            "a b/*",
        ] {
            assert!(never_fits(pattern).is_some(), "{pattern}");
        }
        for pattern in [
            "*",
            "a.example/*",
            "a.example/app:1",
            "a.example/app@sha256:0",
            "*/app:*",
        ] {
            assert_eq!(never_fits(pattern), None, "{pattern}");
        }
    }

    #[test]
    fn a_star_is_any_run_of_characters_and_all_else_is_itself() {
        for (pattern, name, expected) in [
            ("*", "docker.io/library/nginx:1", true),
            ("a.example/press/*", "a.example/press/app:1", true),
            ("a.example/press/*", "a.example/pressure:1", false),
            (
                "a.example/press/*",
                "evil.example/a.example/press/app:1",
                false,
            ),
            ("*/press/*:1.*", "a.example/press/b/app:1.2", true),
            ("*/press/*:1.*", "a.example/press/b/app:2.1", false),
            ("a*a", "a", false),
            ("a*b*b", "ab", false),
            ("a.example/app:1", "a.example/app:1", true),
            ("a.example/app:1", "a.example/app:12", false),
        ] {
            assert_eq!(fits(pattern, name), expected, "{pattern} {name}");
        }
    }
}
