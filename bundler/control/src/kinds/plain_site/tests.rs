//! Passing over plain sites: nothing else is lost, and no mistake.

use std::sync::Arc;

use proptest::prelude::*;
use proptest::sample::{Index, select};

use super::super::super::diagnostic::{Diagnostics, SourceFile};
use super::super::{Object, read_file, read_file_without_sites, read_whole};
use super::*;

const SITE: &str = "apiVersion: outhaul.dev/v1alpha1\nkind: Site\nmetadata:\n  name: ship-7\n  labels:\n    hall: h-7\nspec:\n  clusterType: vessel\n  ring: canary\n";
const TYPE: &str = "apiVersion: scheduler.kalypso.io/v1alpha1\nkind: ClusterType\nmetadata: {name: drone}\nspec: {reconciler: flux, namespaceService: ns, configType: cm}\n";

/// Documents, whole and broken, and what may stand between them.
const PIECES: &[&str] = &[
    SITE,
    TYPE,
    "---\n",
    "---\n",
    "---",
    "--- # again\n",
    "...\n",
    "# a comment\n\n",
    "%YAML 1.2\n",
    "\r\n",
    "spec:\n  clusterType: \"a: b\"\nkind: Site\n# why\nmetadata:\n  namespace: n\n  name: 'ship-8'\n\napiVersion: outhaul.dev/v1alpha1\n",
    "apiVersion: outhaul.dev/v1alpha1\nkind: Site\nmetadata:\n  name: Ship_9\nspec:\n  clusterType: vessel\n",
    "apiVersion: outhaul.dev/v1alpha1\nkind: Site\nmetadata:\n  name: ship-9\n  labels:\n    floor: 7\nspec:\n  clusterTyp: vessel\n",
    "apiVersion: outhaul.dev/v1alpha1\nkind: Site\nmetadata:\n  name: ship-9\n  labels:\nspec:\n  clusterType: vessel\n",
    "apiVersion: outhaul.dev/v1alpha1\nkind: Site\nmetadata: {name: ship-10}\nspec: {clusterType: vessel}\n",
    "apiVersion: scheduler.kalypso.io/v1alpha1\nkind: Template\nmetadata: {name: flux}\nspec:\n  type: reconciler\n  manifests:\n  - |\n    ---\n    kind: Site\n  - |+\n    x\n\n",
    "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n  labels: {platform-config: 'true'}\ndata:\n  \u{e4}: &a |\n    \u{fc}\n  b: *a\n",
    "a: \"open\n",
    "a: [open\n",
    "  - x\n",
    "|\n",
    "  more: text\n",
    "kind: Site\n",
    "\u{feff}",
];

fn file(text: &str) -> Arc<SourceFile> {
    Arc::new(SourceFile {
        name: "x.yaml".into(),
        text: text.into(),
    })
}

/// The parts of `text` that need the parser; all of it, where that cannot be known.
fn others(text: &str) -> Vec<Range<usize>> {
    let mut others = Vec::new();
    let certain = parts(text, &mut |part| {
        if let Part::Other(range) = part {
            others.push(range);
        }
        Ok(())
    });
    match certain {
        Ok(()) => others,
        Err(Uncertain) => std::iter::once(0..text.len()).collect(),
    }
}

/// Reads `text` by the parser alone, by parts, and without sites: the same is found and reported, but for
/// sites that are skipped.
fn the_same_three_times(text: &str) -> Result<(), TestCaseError> {
    let file = file(text);
    let [mut of_whole, mut of_all, mut of_others] = [(); 3].map(|()| Diagnostics::new());
    let whole = read_whole(&file, &mut of_whole);
    let all = read_file(&file, &mut of_all);
    let others = read_file_without_sites(&file, &mut of_others);
    let kept = |objects: &[Object]| {
        let mut objects = objects.to_vec();
        objects.retain(|object| !matches!(object, Object::Site(_)));
        objects
    };
    prop_assert_eq!(kept(&whole), kept(&others));
    prop_assert_eq!(whole, all);
    prop_assert_eq!(&of_whole, &of_all);
    prop_assert_eq!(of_whole, of_others);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn by_parts_and_without_sites_the_same_is_found_and_reported(
        pieces in prop::collection::vec((select(PIECES), any::<bool>()), 0..8),
        edits in prop::collection::vec((any::<Index>(), select(b" \n-:#'\"|&*!%~0aA\t\r".as_slice())), 0..3),
        cut in prop::option::of(any::<Index>()),
    ) {
        let mut text = String::new();
        for (piece, ends) in pieces {
            text.push_str(piece);
            text.push_str(if ends { "---\n" } else { "" });
        }
        for (at, byte) in edits {
            let at = at.index(text.len() + 1);
            if text.get(at..=at).is_some() {
                text.replace_range(at..=at, &char::from(byte).to_string());
            }
        }
        if let Some(at) = cut.map(|at| at.index(text.len() + 1)) && text.is_char_boundary(at) {
            text.truncate(at);
        }
        the_same_three_times(&text)?;
    }

    #[test]
    fn what_is_skipped_is_a_site_without_a_mistake(
        at in any::<Index>(),
        new in select(&["", " ", "\n", "-", ":", "#", "'", "\"", "|", "&a ", "~", "0", "true", "\t", "\r", "Z", "\u{85}", "?", ", "][..]),
        replace in any::<bool>(),
    ) {
        let mut text = SITE.to_owned();
        let at = at.index(text.len());
        text.replace_range(at..at + usize::from(replace), new);
        if others(&text).is_empty() {
            let mut findings = Diagnostics::new();
            let objects = read_whole(&file(&text), &mut findings);
            prop_assert!(findings.is_empty(), "{}", findings);
            prop_assert!(matches!(objects.as_slice(), [Object::Site(_)]), "{:?}", objects);
        }
        the_same_three_times(&text)?;
        // The same behind a site that it looks like.
        the_same_three_times(&format!("{SITE}---\n{text}"))?;
        the_same_three_times(&format!("---\n{SITE}---\n{text}---\n{SITE}"))?;
    }
}

#[test]
fn plain_sites_are_skipped_wherever_they_are() {
    assert!(others(SITE).is_empty());
    assert!(others(&format!("---\n{SITE}---\n# second\n{SITE}\n")).is_empty());
    assert!(others(SITE.trim_end()).is_empty());
    let quoted = SITE.replace("vessel", "'vessel'");
    assert!(others(&quoted).is_empty());
    let mixed = format!("{SITE}---\n{TYPE}---\n{TYPE}---\n{SITE}---\n{TYPE}");
    let parts: Vec<&str> = others(&mixed).into_iter().map(|at| &mixed[at]).collect();
    assert_eq!(
        parts,
        [format!("---\n{TYPE}---\n{TYPE}"), format!("---\n{TYPE}")]
    );
}

#[test]
fn a_site_with_a_mistake_is_read() {
    for (right, wrong) in [
        ("clusterType", "clusterTyp"),
        ("name: ship-7", "name: Ship"),
        ("hall: h-7", "hall: 7"),
        ("hall: h-7", "hall: yes: no"),
        ("    hall: h-7", "    hall: a\n    hall: b"),
        ("  ring: canary", "  ring: canary\n  ring: broad"),
        ("  ring: canary", "  ring: [canary"),
        ("  ring: canary", "  ring: true"),
        ("vessel", "''"),
    ] {
        let text = SITE.replace(right, wrong);
        assert_eq!(others(&text).len(), 1, "{text}");
        let mut findings = Diagnostics::new();
        read_file_without_sites(&file(&text), &mut findings);
        assert!(!findings.is_empty(), "{text}");
    }
}
