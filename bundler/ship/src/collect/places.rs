//! Where the files of one assignment will lie on site: no two may take the same place.
//!
//! What comes in: the paths of a payload, and the assignment's rendered files. What goes out: the first two that
//! would be one file, for an error of that assignment alone. A site refuses a bundle with such a pair whole,
//! so that it has to be found before anything is packed. It reads no content.

use std::collections::BTreeMap;

use outhaul_plane::render::RenderedAssignment;

/// Paths as a file system that ignores case sees them, with the paths as they are written.
#[derive(Default)]
pub(super) struct Folded<'p>(BTreeMap<String, &'p str>);

impl<'p> Folded<'p> {
    pub(super) fn insert(&mut self, path: &'p str) {
        self.0.insert(path.to_lowercase(), path);
    }

    fn has_below(&self, folder: &str) -> Option<&'p str> {
        let below = format!("{folder}/");
        let (next, path) = self.0.range(below.clone()..).next()?;
        next.starts_with(&below).then_some(*path)
    }

    /// What lies at `path`, above it as a file, or below it.
    pub(super) fn meets(&self, path: &str) -> Option<&'p str> {
        let folded = path.to_lowercase();
        let above = folded.match_indices('/').map(|(at, _)| &folded[..at]);
        std::iter::once(folded.as_str())
            .chain(above)
            .find_map(|place| self.0.get(place).copied())
            .or_else(|| self.has_below(&folded))
    }
}

/// Two files that would be one.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Clash {
    /// A rendered file in the place of a payload's.
    Rendered(String),
    /// Two files of the payload.
    Alike(String, String),
}

/// Finds two files of `paths` that would be one, or a rendered file that would be one of them: the payload
/// lies in `payload/` on site.
pub(super) fn clash(rendered: &RenderedAssignment, paths: &[String]) -> Option<Clash> {
    let mut payload = Folded::default();
    for path in paths {
        if let Some(other) = payload.meets(path) {
            return Some(Clash::Alike(other.to_owned(), path.clone()));
        }
        payload.insert(path);
    }
    let overlays = rendered.overlays.iter().flat_map(|one| one.files.keys());
    let mut files = rendered.files.keys().chain(overlays);
    let collides = files.find(|path| {
        let folded = path.to_lowercase();
        match folded.strip_prefix("payload/") {
            Some(below) => payload.meets(below).is_some(),
            None => folded == "payload" && !paths.is_empty(),
        }
    });
    collides.cloned().map(Clash::Rendered)
}

#[cfg(test)]
mod tests {
    use outhaul_bundle::Digest;

    use super::*;

    fn checked(rendered: &str, payload: &[&str]) -> Option<Clash> {
        let assignment = RenderedAssignment {
            workload: String::new(),
            workspace: String::new(),
            policies: Vec::new(),
            namespace: String::new(),
            config_version: Digest::of(b""),
            files: BTreeMap::from([(rendered.to_owned(), Vec::new())]),
            manifests: BTreeMap::new(),
            sites: None,
            overlays: Vec::new(),
            site_values: None,
            bootstrap: None,
        };
        let paths: Vec<_> = payload.iter().map(|path| (*path).to_owned()).collect();
        clash(&assignment, &paths)
    }

    #[test]
    fn a_rendered_file_in_the_place_of_a_payload_is_refused() {
        for (rendered, payload) in [
            ("payload/x", "x"),
            ("payload/X", "x"),
            ("payload/x", "x/below"),
            ("payload/x/below", "x"),
            ("payload", "x"),
        ] {
            let expected = Clash::Rendered(rendered.to_owned());
            assert_eq!(checked(rendered, &[payload]), Some(expected));
        }
        assert_eq!(checked("payload/x", &["y", "x-y", "a/x"]), None);
        assert_eq!(checked("payload.yaml", &["x"]), None);
        assert_eq!(checked("payload", &[]), None);
    }

    #[test]
    fn files_of_a_payload_that_differ_only_in_case_are_refused() {
        for payload in [
            ["README", "readme"],
            ["a", "A/b"],
            ["A/b", "a"],
            ["a/b/c", "A/B"],
        ] {
            let expected = Clash::Alike(payload[0].to_owned(), payload[1].to_owned());
            assert_eq!(checked("namespace.yaml", &payload), Some(expected));
        }
        assert_eq!(
            checked("namespace.yaml", &["a/b", "a-b", "a/c", "A.b"]),
            None
        );
    }
}
