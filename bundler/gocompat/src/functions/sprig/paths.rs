//! Slash-separated paths, as Go's `path` has them.
//!
//! In: paths as bytes. Out: parts of them. Nothing looks at a file system.

use crate::functions::args::string;
use crate::functions::{Function, Ty};
use crate::runtime::{Value, text};

const T: Ty = Ty::Text;

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("base", &[T], |_, args| Ok(text(base(string(args, 0))))),
    Function::new("dir", &[T], |_, args| {
        let path = string(args, 0);
        let end = path
            .iter()
            .rposition(|byte| *byte == b'/')
            .map_or(0, |at| at + 1);
        Ok(text(clean(&path[..end])))
    }),
    Function::new("clean", &[T], |_, args| Ok(text(clean(string(args, 0))))),
    Function::new("ext", &[T], |_, args| {
        let path = string(args, 0);
        let at = path.iter().rposition(|byte| matches!(byte, b'.' | b'/'));
        let at = at.filter(|at| path[*at] == b'.').unwrap_or(path.len());
        Ok(text(&path[at..]))
    }),
    Function::new("isAbs", &[T], |_, args| {
        Ok(Value::Bool(string(args, 0).starts_with(b"/")))
    }),
];

fn base(path: &[u8]) -> &[u8] {
    if path.is_empty() {
        return b".";
    }
    let mut path = path;
    while let Some(shorter) = path.strip_suffix(b"/") {
        path = shorter;
    }
    if path.is_empty() {
        return b"/";
    }
    path.rsplit(|byte| *byte == b'/').next().unwrap_or(path)
}

fn clean(path: &[u8]) -> Vec<u8> {
    let rooted = path.starts_with(b"/");
    let mut parts: Vec<&[u8]> = Vec::new();
    for part in path.split(|byte| *byte == b'/') {
        match part {
            b"" | b"." => {}
            b".." => match parts.last() {
                Some(last) if *last != b".." => {
                    parts.pop();
                }
                _ if rooted => {}
                _ => parts.push(part),
            },
            other => parts.push(other),
        }
    }
    let joined = parts.join(&b'/');
    match (rooted, joined.is_empty()) {
        (true, _) => [b"/", joined.as_slice()].concat(),
        (false, true) => b".".to_vec(),
        (false, false) => joined,
    }
}
