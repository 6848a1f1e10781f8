//! Folders of a medium that lie too deep to be looked at, in words.
//!
//! What comes in: which these are. What goes out: one sentence that names them and what looks at them. The newest
//! bundle may lie there: it is said whatever else came of the medium. It opens nothing.

use std::path::Path;

use outhaul_kit::media::Listing;
use outhaul_kit::text;

use super::Findings;

/// How many links are named.
const MAX_NAMED: usize = 3;

/// Takes note of what was not looked at.
pub(super) fn note(findings: &mut Findings, medium: &Path, listing: &Listing) {
    findings.deeper = not_looked_at(medium, listing);
    findings.notes.extend(not_followed(medium, listing));
}

/// Which links were not followed, and what reads the folder that one may lead to.
fn not_followed(medium: &Path, listing: &Listing) -> Option<String> {
    let first = text::quoted(medium.join(listing.links.first()?));
    let named: Vec<String> = listing
        .links
        .iter()
        .map(|link| format!("`{}`", text::path(&medium.join(link))))
        .collect();
    Some(format!(
        "warning: links are not followed ({}): where the first leads to a folder with bundles, `outhaul-agent import {first}/` reads that",
        text::named(&named, MAX_NAMED)
    ))
}

/// What was not looked at because it is too deep, and what does; `None` where all was.
fn not_looked_at(medium: &Path, listing: &Listing) -> Option<String> {
    let first = medium.join(listing.deeper.first()?);
    let typed = text::quoted(&first);
    let mut named: Vec<String> = listing
        .deeper
        .iter()
        .map(|folder| format!("`{}`", text::path(&medium.join(folder))))
        .collect();
    let more = listing.too_deep.saturating_sub(named.len());
    if more > 0 {
        named.push(format!("{more} more"));
    }
    Some(match named.pop() {
        Some(only) if named.is_empty() => format!(
            "warning: {only} lies more than three folders deep and was not read: `outhaul-agent import {typed}` reads it"
        ),
        last => format!(
            "warning: {} and {} lie more than three folders deep and were not read: `outhaul-agent import {typed}` reads the first; if \
             a newer bundle may lie in another, name that one",
            named.join(", "),
            last.unwrap_or_default()
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(deeper: &[&str], too_deep: usize) -> Option<String> {
        let listing = Listing {
            deeper: deeper.iter().map(Into::into).collect(),
            too_deep,
            ..Listing::default()
        };
        not_looked_at(Path::new("/media/stick"), &listing)
    }

    #[test]
    fn each_folder_that_was_not_looked_at_is_named_and_the_rest_counted() {
        assert_eq!(said(&[], 0), None);
        let one = said(&["a/b/c/my files"], 1).unwrap();
        assert!(
            one.starts_with("warning: `/media/stick/a/b/c/my files` lies more"),
            "{one}"
        );
        assert!(
            one.contains("`outhaul-agent import '/media/stick/a/b/c/my files'` reads it"),
            "{one}"
        );
        let two = said(&["a/b/c/d", "a/b/c/e"], 2).unwrap();
        assert!(
            two.contains("`/media/stick/a/b/c/d` and `/media/stick/a/b/c/e` lie more"),
            "{two}"
        );
        let many = said(&["1", "2", "3"], 9).unwrap();
        assert!(
            many.contains("`/media/stick/2`, `/media/stick/3` and 6 more lie more"),
            "{many}"
        );
    }
}
