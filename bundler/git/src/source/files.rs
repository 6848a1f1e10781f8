//! What a source has below one folder: names, files in memory, and files as they come.
//!
//! What comes in: what git or a folder lists. What goes out: plain values. It reads nothing but what it is handed.

use std::fmt;
use std::io;

/// The paths below a folder.
#[derive(Debug, Default)]
pub struct Names {
    /// Files.
    pub files: Vec<String>,
    /// Those of them that are pointers of Git LFS.
    pub pointers: Vec<String>,
    /// Links and submodules.
    pub skipped: Vec<String>,
}

/// One regular file of a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeFile {
    /// Relative to the folder that was asked for, with `/` between parts.
    pub path: String,
    /// Its content.
    pub bytes: Vec<u8>,
    /// Whether it may be executed.
    pub executable: bool,
}

/// One regular file of a tree, as its content comes: it may be larger than the memory.
pub struct StreamedFile<'a> {
    /// Relative to the folder that was asked for, with `/` between parts.
    pub path: String,
    /// Whether it may be executed.
    pub executable: bool,
    /// Its content. What of it is not read is skipped.
    pub content: &'a mut dyn io::Read,
}

impl fmt::Debug for StreamedFile<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StreamedFile({})", self.path)
    }
}

impl StreamedFile<'_> {
    /// All of it, in memory.
    pub(super) fn whole(self) -> io::Result<TreeFile> {
        let mut bytes = Vec::new();
        self.content.read_to_end(&mut bytes)?;
        Ok(TreeFile {
            path: self.path,
            bytes,
            executable: self.executable,
        })
    }
}

/// The regular files below one folder of a source, sorted by path.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tree {
    /// The files.
    pub files: Vec<TreeFile>,
    /// Paths of symbolic links and submodules, wanted or not: they are never followed.
    pub skipped: Vec<String>,
}
