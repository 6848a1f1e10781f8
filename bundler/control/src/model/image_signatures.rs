//! Which images must be signed, and by whom.
//!
//! What comes in: the entries of a policy, in their order. What goes out: the entry that is for an image. Whether a signature
//! holds is not decided here.

use super::Spanned;

/// Which images that travel must be signed: the first entry that fits an image's name counts.
#[derive(Debug, Clone, PartialEq)]
pub struct ImageSignatures(pub Vec<SignatureRule>);

/// Of some images, who must have signed them.
#[derive(Debug, Clone)]
pub struct SignatureRule {
    /// Whole names of images, with `*` for any run of characters.
    pub images: String,
    /// Public keys in PEM, of which one must have signed; none where they may be unsigned.
    pub keys: Vec<Spanned<String>>,
}

/// Two that say the same are equal, wherever they are written.
impl PartialEq for SignatureRule {
    fn eq(&self, other: &Self) -> bool {
        let keys = |one: &Self| -> Vec<String> {
            let keys = one.keys.iter();
            keys.map(|key| key.value.trim().to_owned()).collect()
        };
        self.images == other.images && keys(self) == keys(other)
    }
}

impl ImageSignatures {
    /// The entry that is for the image with this whole name.
    pub fn rule(&self, image: &str) -> Option<&SignatureRule> {
        self.0.iter().find(|rule| fits(&rule.images, image))
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
    use super::fits;

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
