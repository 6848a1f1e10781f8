//! A stick as its `tree.txt` describes it, with entries that no repository could hold.
//!
//! What comes in: lines of a kind, a name and more; `%XX` in a name is a byte. What goes out: the tree, below
//! one folder. It makes what it is asked for and verifies nothing.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Command;

use outhaul_tests::workspace_root;

/// Links that one file may have on the usual file systems.
const MAX_LINKS: u32 = 60_000;

/// A tree that was made; sockets are there as long as it is.
#[derive(Debug)]
pub struct Tree {
    folder: PathBuf,
    sockets: Vec<UnixListener>,
}

impl Drop for Tree {
    fn drop(&mut self) {
        // Of a very deep or large tree only this gets rid.
        let _ = Command::new("rm").arg("-rf").arg(&self.folder).status();
    }
}

fn name(text: &str) -> OsString {
    let bytes = text.as_bytes();
    let mut made = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        if bytes[at] == b'%' {
            made.push(u8::from_str_radix(&text[at + 1..at + 3], 16).unwrap());
            at += 3;
        } else {
            made.push(bytes[at]);
            at += 1;
        }
    }
    OsString::from_vec(made)
}

/// Makes the tree of `text` in `folder`, which is in the scene's folder. `None` where that takes root.
pub fn make(text: &str, fixture: &Path, folder: &Path) -> Option<Tree> {
    fs::create_dir_all(folder).unwrap();
    let mut tree = Tree {
        folder: folder.to_owned(),
        sockets: Vec::new(),
    };
    for line in text.lines().filter(|line| !line.is_empty()) {
        let words: Vec<_> = line.splitn(3, ' ').collect();
        let path = folder.join(name(words[1]));
        let rest = words.get(2).copied().unwrap_or_default();
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).unwrap();
        }
        match words[0] {
            "file" => fs::write(&path, name(rest).as_bytes()).unwrap(),
            "folder" => fs::create_dir_all(&path).unwrap(),
            "link" => symlink(rest, &path).unwrap(),
            "fifo" => assert!(
                Command::new("mkfifo")
                    .arg(&path)
                    .status()
                    .unwrap()
                    .success()
            ),
            "socket" => tree.sockets.push(UnixListener::bind(&path).unwrap()),
            "device" => {
                let mut make = Command::new("mknod");
                make.arg(&path).args(rest.split(' '));
                if !make.output().unwrap().status.success() {
                    return None;
                }
            }
            "sparse" => {
                let file = fs::File::create(&path).unwrap();
                file.set_len(rest.parse().unwrap()).unwrap();
            }
            // A file of the scene: a bundle, a request, reports.
            "copy" => drop(fs::copy(fixture.join(rest), &path).unwrap()),
            // A bundle that another test has for an attack.
            "attack" => {
                let packed = workspace_root().join("tests/fixtures/attacks").join(rest);
                let bytes = zstd::stream::decode_all(fs::File::open(packed).unwrap()).unwrap();
                fs::write(&path, bytes).unwrap();
            }
            "many" => many(&path, rest),
            "deep" => deep(&path, rest.parse().unwrap()),
            other => panic!("nobody knows how to make `{other}`"),
        }
    }
    Some(tree)
}

/// `COUNT ENDING [SOURCE]`: names alone, links to as few files as there may be.
fn many(folder: &Path, rest: &str) {
    let words: Vec<_> = rest.split(' ').collect();
    let (count, ending): (u32, &str) = (words[0].parse().unwrap(), words[1]);
    let bytes = match words.get(2) {
        Some(beside) => fs::read(folder.with_file_name(beside)).unwrap(),
        None => Vec::new(),
    };
    fs::create_dir_all(folder).unwrap();
    let mut first = PathBuf::new();
    for number in 0..count {
        let path = folder.join(format!("{number}{ending}"));
        if number % MAX_LINKS == 0 {
            fs::write(&path, &bytes).unwrap();
            first = path;
        } else {
            fs::hard_link(&first, path).unwrap();
        }
    }
}

/// Folders in folders, with a bundle's name at the bottom.
fn deep(folder: &Path, count: usize) {
    let mut path = folder.to_owned();
    path.extend(std::iter::repeat_n("d", count));
    fs::create_dir_all(&path).unwrap();
    fs::write(path.join("x.outhaul"), "no bundle").unwrap();
}
