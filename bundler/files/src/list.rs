//! `outhaul-files.toml`: what a workload needs on site besides its manifests.
//!
//! What comes in: the text of that file, which lies in the folder of a workload's manifests. What goes out: a
//! [`FileList`], or every problem with its place. Each content has its digest there: nothing floats between
//! two bundles. It is pure.

use outhaul_kit::url::UrlParts;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use outhaul_bundle::Digest;
use outhaul_bundle::name::RelativePath;
use serde::Deserialize;
use toml::Spanned;

/// The file's name.
pub const FILE: &str = "outhaul-files.toml";
/// Largest file in bytes.
pub const MAX_BYTES: u64 = 1 << 20;
/// Most entries.
const MAX_ENTRIES: usize = 10_000;
/// Longest URL in bytes.
const MAX_URL: usize = 2048;

/// What a workload lists.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FileList {
    /// Files, sorted by path.
    pub files: Vec<ListedFile>,
    /// Debian packages that are fetched.
    pub packages: Vec<Fetched>,
    /// Debian packages that lie among the workload's manifests, by their paths there: the byte of the list where each is written.
    pub own_packages: BTreeMap<RelativePath, usize>,
    /// Images that no manifest names, in the order of the file.
    pub images: Vec<ListedImage>,
}

impl FileList {
    /// Whether it lists anything that becomes a file of the payload.
    pub fn has_files(&self) -> bool {
        !(self.files.is_empty() && self.packages.is_empty() && self.own_packages.is_empty())
    }
}

/// An image that is pulled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedImage {
    /// Its name, as it is written.
    pub name: String,
    /// The bytes of the list where it is written.
    pub at: Range<usize>,
}

/// A content that is fetched.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fetched {
    /// Where it is.
    pub url: String,
    /// What it has to be.
    pub digest: Digest,
    /// The byte of the list where it is written.
    pub at: usize,
}

/// A file that is fetched.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ListedFile {
    /// Where it lies on site, relative to the workload's payload.
    pub path: RelativePath,
    /// The content.
    pub content: Fetched,
}

/// What is wrong with a list, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ListProblem {
    /// The byte of the list.
    pub at: usize,
    /// What is wrong.
    pub message: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    #[serde(default)]
    file: Vec<Spanned<FileText>>,
    #[serde(default)]
    package: Vec<Spanned<PackageText>>,
    #[serde(default)]
    image: Vec<ImageText>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ImageText {
    name: Spanned<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileText {
    url: Spanned<String>,
    sha256: Spanned<String>,
    path: Spanned<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PackageText {
    #[serde(default)]
    url: Option<Spanned<String>>,
    #[serde(default)]
    sha256: Option<Spanned<String>>,
    #[serde(default)]
    path: Option<Spanned<String>>,
}

impl FileList {
    /// Reads a list.
    ///
    /// # Errors
    /// Every problem of it, in the order of the file.
    pub fn parse(text: &str) -> Result<Self, Vec<ListProblem>> {
        let mut read = Reading::default();
        let list = match toml::from_str::<Text>(text) {
            Ok(found) => read.list(found),
            Err(error) => {
                let at = error.span().map_or(0, |span| span.start);
                read.problem(at, error.message().to_owned());
                Self::default()
            }
        };
        let mut problems = read.problems;
        problems.sort_by_key(|one| one.at);
        match problems.is_empty() {
            true => Ok(list),
            false => Err(problems),
        }
    }
}

#[derive(Default)]
struct Reading {
    problems: Vec<ListProblem>,
}

impl Reading {
    fn problem(&mut self, at: usize, message: String) {
        self.problems.push(ListProblem { at, message });
    }

    fn list(&mut self, found: Text) -> FileList {
        let mut list = FileList::default();
        if found.file.len() + found.package.len() + found.image.len() > MAX_ENTRIES {
            self.problem(0, format!("more than {MAX_ENTRIES} entries"));
            return list;
        }
        let mut paths = BTreeSet::new();
        for one in found.file {
            let at = one.span().start;
            let one = one.into_inner();
            let content = self.content(&one.url, Some(&one.sha256), at);
            let Some(path) = self.path(&one.path) else {
                continue;
            };
            if !paths.insert(path.clone()) {
                self.problem(
                    one.path.span().start,
                    format!("`{}` is listed twice", path.as_str()),
                );
            }
            if let Some(content) = content {
                list.files.push(ListedFile { path, content });
            }
        }
        for one in found.package {
            let at = one.span().start;
            let one = one.into_inner();
            match (&one.url, &one.path) {
                (Some(url), None) => {
                    list.packages.extend(self.content(url, one.sha256.as_ref(), at));
                }
                (None, Some(path)) => {
                    if let Some(sha256) = &one.sha256 {
                        self.problem(
                            sha256.span().start,
                            "a package among the manifests is pinned with them: leave `sha256` out".to_owned(),
                        );
                    }
                    let Some(found) = self.path(path) else { continue };
                    if list.own_packages.insert(found.clone(), path.span().start).is_some() {
                        self.problem(path.span().start, format!("`{}` is listed twice", found.as_str()));
                    }
                }
                _ => self.problem(
                    at,
                    "a package has either `url` with `sha256`, or `path` among the workload's manifests".to_owned(),
                ),
            }
        }
        for one in found.image {
            list.images.extend(self.image(&one.name, &list.images));
        }
        list.files.sort();
        list.packages.sort();
        list.packages.dedup_by(|a, b| a.digest == b.digest);
        list
    }

    /// An image; whether its name is one is decided where every image's is.
    fn image(&mut self, name: &Spanned<String>, before: &[ListedImage]) -> Option<ListedImage> {
        let (text, at) = (name.as_ref(), name.span());
        if text.is_empty() || text.contains(|c: char| c.is_control() || c.is_whitespace()) {
            let message = "`name` is not the name of an image, such as `ghcr.io/team/app:1.2`";
            self.problem(at.start, message.to_owned());
            return None;
        }
        if before.iter().any(|one| one.name == *text) {
            self.problem(at.start, format!("`{text}` is listed twice"));
            return None;
        }
        Some(ListedImage {
            name: text.clone(),
            at,
        })
    }

    fn content(
        &mut self,
        url: &Spanned<String>,
        sha256: Option<&Spanned<String>>,
        at: usize,
    ) -> Option<Fetched> {
        let text = url.as_ref();
        let plain = text.len() <= MAX_URL && text.bytes().all(|b| b.is_ascii_graphic());
        let parts = UrlParts::of(text).filter(|parts| plain && parts.is_web());
        if parts.is_none() {
            self.problem(
                url.span().start,
                "`url` is not an address that begins with `https://`".to_owned(),
            );
        } else if parts.is_some_and(|parts| parts.user.is_some()) {
            self.problem(
                url.span().start,
                "`url` holds a name or a password: keep them in the file of `docker login` (`auths`)".to_owned(),
            );
        }
        let Some(sha256) = sha256 else {
            self.problem(
                at,
                "`sha256` is missing: nothing is fetched without it".to_owned(),
            );
            return None;
        };
        let digest = format!("sha256:{}", sha256.as_ref()).parse::<Digest>();
        let Ok(digest) = digest else {
            self.problem(
                sha256.span().start,
                "`sha256` is not 64 hexadecimal digits in small letters, as `sha256sum` prints them".to_owned(),
            );
            return None;
        };
        Some(Fetched {
            url: text.clone(),
            digest,
            at,
        })
    }

    fn path(&mut self, path: &Spanned<String>) -> Option<RelativePath> {
        match path.as_ref().parse::<RelativePath>() {
            Ok(found) if found.as_str().starts_with(".git/") => {
                self.problem(path.span().start, "`path` is within `.git`".to_owned());
                None
            }
            Ok(found) => Some(found),
            Err(error) => {
                self.problem(path.span().start, error.to_string());
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const DIGEST: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    fn problems(text: &str) -> Vec<String> {
        let problems = FileList::parse(text).unwrap_err();
        let shown = |one: &ListProblem| {
            let before = &text[..one.at];
            let column = one.at - before.rfind('\n').map_or(0, |end| end + 1) + 1;
            let line = before.matches('\n').count() + 1;
            format!("line {line}, column {column}: {one}")
        };
        problems.iter().map(shown).collect()
    }

    #[test]
    fn files_and_packages_are_read() {
        let text = format!(
            "[[file]]\nurl = \"https://files.example/model.onnx\"\nsha256 = \"{DIGEST}\"\npath = \"models/a.onnx\"\n\n\
             [[package]]\nurl = \"https://files.example/hello_1_all.deb\"\nsha256 = \"{DIGEST}\"\n\n\
             [[package]]\npath = \"packages/tool_1_all.deb\"\n\n\
             [[image]]\nname = \"quay.io/press/worker:1.4\"\n"
        );
        let list = FileList::parse(&text).unwrap();
        assert_eq!(list.images[0].name, "quay.io/press/worker:1.4");
        assert_eq!(
            text[list.images[0].at.clone()],
            *"\"quay.io/press/worker:1.4\""
        );
        assert_eq!(list.files[0].path.as_str(), "models/a.onnx");
        assert!(text[list.packages[0].at..].starts_with("[[package]]"));
        let own: Vec<_> = list.own_packages.keys().map(RelativePath::as_str).collect();
        assert_eq!(own, ["packages/tool_1_all.deb"]);
        assert_eq!(FileList::parse("").unwrap(), FileList::default());
    }

    #[test]
    fn every_problem_is_named_with_its_place() {
        let text = format!(
            "[[file]]\nurl = \"ftp://a/b\"\nsha256 = \"{DIGEST}\"\npath = \"../x\"\n\
             [[file]]\nurl = \"https://ann:secret@a/b\"\nsha256 = \"ABC\"\npath = \"x\"\n\
             [[package]]\nurl = \"https://a/b.deb\"\n\
             [[package]]\n\
             [[package]]\npath = \"a.deb\"\nsha256 = \"{DIGEST}\"\n\
             [[package]]\npath = \"a.deb\"\n\
             [[image]]\nname = \"\"\n[[image]]\nname = \"a:1\"\n[[image]]\nname = \"a:1\"\n"
        );
        let found = problems(&text);
        let begins = [
            "line 2, column 7: `url` is not an address",
            "line 4, column 8: ",
            "line 6, column 7: `url` holds a name or a password",
            "line 7, column 10: `sha256` is not 64",
            "line 9, column 1: `sha256` is missing",
            "line 11, column 1: a package has either",
            "line 14, column 10: a package among the manifests is pinned",
            "line 16, column 8: `a.deb` is listed twice",
            "line 18, column 8: `name` is not the name of an image",
            "line 22, column 8: `a:1` is listed twice",
        ];
        assert_eq!(found.len(), begins.len(), "{found:#?}");
        for (found, begins) in found.iter().zip(begins) {
            assert!(found.starts_with(begins), "{found}");
        }
        assert!(!found.concat().contains("secret"));
        assert!(problems("[[files]]\n")[0].contains("unknown field"));
        assert!(problems("[[file]]\nurl = ")[0].starts_with("line 2"));
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "(\\[\\[(file|package|image)\\]\\]\n|url = \"\\PC{0,8}\"\n|path = \"\\PC{0,8}\"\n|name = \"\\PC{0,8}\"\n|\\PC{0,10}\n){0,12}") {
            let _ = FileList::parse(&text);
        }
    }
}
