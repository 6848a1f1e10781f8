//! Which release of which distribution: of an advisory, and of a package.
//!
//! What comes in: an ecosystem of OSV (`Debian:12`), or the qualifier `distro` of a package URL (`debian-12`). What goes out: a
//! name and a release, and whether two of them are the same. A release that is not known may be any.

/// A distribution, and a release of it.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Distribution {
    /// `debian`, `alpine` …; empty when it is not known.
    pub id: String,
    /// `12`, `3.19` …; empty when it is not known.
    pub release: String,
}

impl Distribution {
    /// Of the qualifier `distro`: `debian-12`, `alpine-3.19.1`.
    pub(crate) fn of_qualifier(text: &str) -> Self {
        let (id, release) = text.split_once('-').unwrap_or((text, ""));
        Self {
            id: id.to_ascii_lowercase(),
            release: release.to_owned(),
        }
    }

    /// Whether what is said of `self` is said of packages of `other`, too.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        let is_id = self.id.is_empty() || other.id.is_empty() || self.id == other.id;
        // `3.19` is `3.19.1`, and not `3.1`.
        let is_release = self.release.is_empty()
            || other.release.is_empty()
            || other.release == self.release
            || other
                .release
                .strip_prefix(&self.release)
                .is_some_and(|rest| rest.starts_with('.'));
        is_id && is_release
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_covers_its_point_releases() {
        let of = Distribution::of_qualifier;
        for (advisory, package, covers) in [
            ("debian-12", "debian-12", true),
            ("debian-12", "debian-12.5", true),
            ("debian-1", "debian-12", false),
            ("alpine-3.19", "alpine-3.19.1", true),
            ("alpine-3.1", "alpine-3.19.1", false),
            ("debian", "debian-12", true),
            ("debian-12", "debian", true),
            ("debian-12", "ubuntu-12", false),
        ] {
            assert_eq!(
                of(advisory).covers(&of(package)),
                covers,
                "{advisory} {package}"
            );
        }
    }
}
