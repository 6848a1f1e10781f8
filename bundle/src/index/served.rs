//! What a site serves to its own reconciler and container runtime: images and git repositories, under the
//! names that they have upstream.
//!
//! What comes in: lists that signed metadata lists. What goes out: the same lists, checked: no name
//! twice, ids and names of a form that can be served, and every content is carried. None of it is a file of an
//! assignment, so that no reconciler applies it.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::tree::BundleContents;
use super::{Content, IndexError};

/// The longest name of an image, URL or ref, in bytes.
pub const MAX_TEXT_BYTES: usize = 1024;

/// Images and repositories.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Served {
    /// Images and other OCI artifacts, sorted by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<Image>,
    /// Git repositories, sorted by URL.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub repositories: Vec<Repository>,
}

/// One image, or another OCI artifact.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Image {
    /// Its whole name: `docker.io/library/nginx:1.27`, or `docker.io/library/nginx@sha256:…`.
    pub name: String,
    /// Media type of its manifest or index.
    pub media_type: String,
    /// Its manifest or index, as the registry has it.
    pub manifest: Content,
    /// All else that belongs to it: manifests of platforms, configs, layers. Sorted, each once.
    pub blobs: Vec<Content>,
}

/// One git repository: the pinned commits, with all of their files and none of their history.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Repository {
    /// Its URL, as workloads name it.
    pub url: String,
    /// Its refs by their whole names, each with the id of its commit.
    pub refs: BTreeMap<String, String>,
    /// The ref that HEAD is.
    pub head: String,
    /// The commits of which the parents are not carried.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub shallow: BTreeSet<String>,
    /// One pack with all objects.
    pub pack: Content,
}

impl Served {
    /// Whether there is nothing.
    pub fn is_empty(&self) -> bool {
        self.images.is_empty() && self.repositories.is_empty()
    }

    /// Every content, each as often as something names it.
    pub fn contents(&self) -> impl Iterator<Item = &Content> {
        let images = self.images.iter();
        images
            .flat_map(|image| std::iter::once(&image.manifest).chain(&image.blobs))
            .chain(self.repositories.iter().map(|one| &one.pack))
    }

    pub(super) fn check(&self, carried: BundleContents<'_>) -> Result<(), IndexError> {
        let fail = |problem: String| Err(IndexError::Inconsistent { problem });
        let mut names = BTreeSet::new();
        for image in &self.images {
            let name = &image.name;
            if !is_plain(name) || !is_plain(&image.media_type) || !name.contains('/') {
                return fail(format!("`{}` is not the name of an image", shown(name)));
            }
            if !names.insert(name) {
                return fail(format!("image `{name}` is listed twice"));
            }
        }
        let mut urls = BTreeSet::new();
        for one in &self.repositories {
            let url = &one.url;
            if !is_plain(url) {
                return fail(format!("`{}` is not a repository's URL", shown(url)));
            }
            if !urls.insert(url) {
                return fail(format!("repository `{url}` is listed twice"));
            }
            if !one.refs.contains_key(&one.head) {
                return fail(format!("HEAD of `{url}` is not one of its refs"));
            }
            if let Some(name) = one.refs.keys().find(|name| !is_ref(name)) {
                let name = shown(name);
                return fail(format!("`{name}` of `{url}` is not the name of a ref"));
            }
            let ids = one.refs.values().chain(&one.shallow);
            let length = one.refs.get(&one.head).map_or(0, String::len);
            if let Some(id) = ids.into_iter().find(|id| !is_id(id) || id.len() != length) {
                let id = shown(id);
                return fail(format!("`{id}` of `{url}` is not the id of a commit"));
            }
        }
        for content in self.contents() {
            let digest = content.digest;
            match carried.sizes.get(&digest) {
                Some(size) if *size != content.size => {
                    return fail(format!(
                        "what is served as {digest} and its blob differ in size"
                    ));
                }
                None if !carried.delta => {
                    return fail(format!("nothing carries {digest}, which is to be served"));
                }
                Some(_) | None => {}
            }
        }
        Ok(())
    }
}

/// Text that can be shown, and that is one word.
fn is_plain(text: &str) -> bool {
    (1..=MAX_TEXT_BYTES).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_graphic())
}

/// Whether a text is a whole id of git, by SHA-1 or SHA-256, as git writes it: `outhaul_kit::commit_id`, which this crate cannot use:
/// `kit` opens files.
pub(crate) fn is_id(text: &str) -> bool {
    let lower = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
    matches!(text.len(), 40 | 64) && text.bytes().all(lower)
}

/// The form of a ref's name; git's own rules are kept where it is served.
fn is_ref(name: &str) -> bool {
    is_plain(name) && name.starts_with("refs/") && !name.contains("..")
}

fn shown(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(80).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Index;
    use crate::fake::FakeBundle;
    use crate::index::{FORMAT, FORMAT_WITH_SERVED};
    use crate::limits::Limits;

    /// An index that serves one image and one repository, both of the one file that it carries.
    fn index() -> Index {
        let mut index = FakeBundle::new(4, &[("namespace.yaml", b"a")])
            .unwrap()
            .index;
        let content = index.blobs[0].contents[0];
        let id = "0123456789abcdef0123456789abcdef01234567".to_owned();
        index.served = Served {
            images: vec![Image {
                name: "docker.io/library/nginx:1.27".into(),
                media_type: "application/vnd.oci.image.index.v1+json".into(),
                manifest: content,
                blobs: vec![content],
            }],
            repositories: vec![Repository {
                url: "https://github.com/org/repo".into(),
                refs: [("refs/heads/main".to_owned(), id.clone())].into(),
                head: "refs/heads/main".into(),
                shallow: [id].into(),
                pack: content,
            }],
        };
        index.format = FORMAT_WITH_SERVED.to_owned();
        index
    }

    fn read(index: &Index) -> Result<Index, String> {
        let read = Index::from_bytes(&index.to_bytes(), &Limits::default());
        read.map_err(|error| error.to_string())
    }

    fn problem(change: impl FnOnce(&mut Index)) -> String {
        let mut index = index();
        change(&mut index);
        read(&index).unwrap_err()
    }

    #[test]
    fn what_is_served_is_read_back_and_an_older_reader_refuses_it_by_its_format() {
        let index = index();
        assert_eq!(read(&index).unwrap(), index);
        let error = problem(|index| index.format = FORMAT.to_owned());
        assert!(error.contains("must be `outhaul.dev/bundle/v3`"), "{error}");
        let error = problem(|index| index.served = Served::default());
        assert!(error.contains("must be `outhaul.dev/bundle/v1`"), "{error}");
    }

    #[test]
    fn what_contradicts_itself_is_refused() {
        let other = Content {
            digest: crate::Digest::of(b"other"),
            size: 5,
        };
        let size = problem(|index| index.served.images[0].manifest.size += 1);
        assert!(size.contains("differ in size"), "{size}");
        let lacking = problem(|index| index.served.repositories[0].pack = other);
        assert!(lacking.contains("nothing carries"), "{lacking}");
        let twice = problem(|index| {
            let image = index.served.images[0].clone();
            index.served.images.push(image);
        });
        assert!(twice.contains("is listed twice"), "{twice}");
        let twice = problem(|index| {
            let one = index.served.repositories[0].clone();
            index.served.repositories.push(one);
        });
        assert!(twice.contains("is listed twice"), "{twice}");
        let head = problem(|index| index.served.repositories[0].head = "refs/heads/x".into());
        assert!(head.contains("not one of its refs"), "{head}");
        let id = problem(|index| {
            index.served.repositories[0].shallow = ["../../x".to_owned()].into();
        });
        assert!(id.contains("not the id of a commit"), "{id}");
        let name = problem(|index| index.served.images[0].name = "a/b\n[server]".into());
        assert!(name.contains("not the name of an image"), "{name}");
        let url = problem(|index| index.served.repositories[0].url = "https://a/\u{202e}b".into());
        assert!(url.contains("not a repository's URL"), "{url}");
        let name = problem(|index| {
            let served = &mut index.served.repositories[0];
            let id = served.refs["refs/heads/main"].clone();
            served.refs.insert("refs/heads/../x".into(), id);
        });
        assert!(name.contains("not the name of a ref"), "{name}");
    }

    #[test]
    fn how_much_is_served_is_bounded() {
        let limits = Limits {
            max_files: 1,
            ..Limits::default()
        };
        let error = Index::from_bytes(&index().to_bytes(), &limits).unwrap_err();
        assert!(
            error.to_string().contains("files, the limit is 1"),
            "{error}"
        );
    }
}
