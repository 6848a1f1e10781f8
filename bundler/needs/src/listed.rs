//! What a workload lists by hand in `outhaul-files.toml`, beside its manifests.
//!
//! What comes in: a repository at one commit, and the folder of a workload's manifests in it. What goes out: the list with its file, so
//! that everything in it has a place, or every problem of it. It reads that one file and fetches nothing.

use std::sync::Arc;

use outhaul_bundle::name::RelativePath;
use outhaul_control::diagnostic::{Location, SourceFile};
use outhaul_files::list::{self, Fetched, FileList};
use outhaul_git::source::{OpenedSource, SourceError, TreeLimits};

use crate::manifest::Need;

/// A list, and where it is.
#[derive(Debug)]
pub struct ListOfFiles {
    /// What it lists.
    pub list: FileList,
    file: Arc<SourceFile>,
}

/// Why there is no list.
#[derive(Debug)]
pub enum ListError {
    /// The repository cannot be read.
    Source(SourceError),
    /// Each problem of the list, with its place.
    Problems(Vec<(String, Location)>),
}

impl ListOfFiles {
    /// The list in `folder`; `None` where it has none.
    ///
    /// # Errors
    /// [`ListError`]
    pub fn read(opened: &OpenedSource, folder: &str) -> Result<Option<Self>, ListError> {
        let limits = TreeLimits::PAYLOAD;
        let tree = opened.tree(folder, &|path| path == list::FILE, &limits);
        let tree = tree.map_err(ListError::Source)?;
        let Some(found) = tree.files.into_iter().next() else {
            return Ok(None);
        };
        let path = match folder.trim_matches('/') {
            "" | "." => list::FILE.to_owned(),
            folder => format!("{folder}/{}", list::FILE),
        };
        let file = Arc::new(SourceFile {
            name: opened.file_name(&path),
            text: String::from_utf8_lossy(&found.bytes).into_owned(),
        });
        if found.bytes.len() as u64 > list::MAX_BYTES {
            let problem = format!("it is larger than {} bytes", list::MAX_BYTES);
            let problem = (problem, Location::new(&file, 0..0));
            return Err(ListError::Problems(vec![problem]));
        }
        let read = FileList::parse(&file.text);
        let list = read.map_err(|problems| {
            let placed = problems.into_iter().map(|problem| {
                let end = file.text[problem.at..].find('\n').unwrap_or_default();
                let at = Location::new(&file, problem.at..problem.at + end);
                (problem.message, at)
            });
            ListError::Problems(placed.collect())
        })?;
        Ok(Some(Self { list, file }))
    }

    /// The images that it lists, as a manifest would name them.
    pub fn images(&self) -> Vec<(Need, Location)> {
        let images = self.list.images.iter();
        images
            .map(|image| {
                let at = Location::new(&self.file, image.at.clone());
                (Need::Image(image.name.clone()), at)
            })
            .collect()
    }

    /// Where something that is fetched is listed.
    pub fn at(&self, fetched: &Fetched) -> Location {
        self.line_at(fetched.at)
    }

    /// Where a package that lies among the manifests is listed.
    pub fn at_own(&self, path: &RelativePath) -> Location {
        self.line_at(self.list.own_packages.get(path).copied().unwrap_or(0))
    }

    /// From this byte to the end of its line.
    fn line_at(&self, at: usize) -> Location {
        let rest = self.file.text.get(at..).unwrap_or_default();
        let end = rest.find('\n').unwrap_or(rest.len());
        Location::new(&self.file, at..at + end)
    }

    /// Where the list begins.
    pub fn top(&self) -> Location {
        Location::new(&self.file, 0..0)
    }
}
