//! Names on a stick: what a FAT file system made of them is recognised.
//!
//! What comes in: a file's name and the ending that is looked for. What goes out: whether it is that ending. It
//! opens nothing.

use std::ffi::OsStr;
use std::path::Path;

/// Whether `name` ends in `.extension`, also where a FAT stick made capitals of it or cut it down to eight
/// letters and three (`SITE-1~1.REP` for `site-1-6f….reports`).
pub fn is_named(name: &Path, extension: &str) -> bool {
    let Some(end) = name.extension() else {
        return false;
    };
    let cut = extension.get(..3).unwrap_or(extension);
    end.eq_ignore_ascii_case(extension) || (is_cut(name) && end.eq_ignore_ascii_case(cut))
}

/// Whether a name was cut down: up to six letters, `~`, and a number.
fn is_cut(name: &Path) -> bool {
    let stem = name.file_stem().and_then(OsStr::to_str);
    stem.and_then(|stem| stem.rsplit_once('~'))
        .is_some_and(|(_, number)| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capitals_and_names_cut_down_are_recognised_and_nothing_else() {
        let named = |name| is_named(Path::new(name), "reports");
        for name in ["a.reports", "A.REPORTS", "SITE-1~1.REP", "s~12.rep"] {
            assert!(named(name), "{name}");
        }
        for name in ["a.rep", "a~b.rep", "a~.rep", "reports", "a~1.reps", "a.out"] {
            assert!(!named(name), "{name}");
        }
    }
}
