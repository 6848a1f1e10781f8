//! Tests of the index: what is consistent, and every way in which it can be not.
use super::*;
use crate::fake::FakeBundle;

fn index() -> Index {
    let large = vec![b'x'; 70_000];
    let files: [(&str, &[u8]); 3] = [("a.yaml", b"a"), ("b/c.yaml", b"c"), ("large.gz", &large)];
    FakeBundle::new(2, &files).unwrap().index
}

/// The problem that a reader finds in the index after `change`.
fn problem(change: impl FnOnce(&mut Index)) -> String {
    let mut index = index();
    change(&mut index);
    match Index::from_bytes(&index.to_bytes(), &Limits::default()) {
        Err(IndexError::Inconsistent { problem }) => problem,
        other => panic!("expected an inconsistency, found {other:?}"),
    }
}

#[test]
fn bytes_round_trip_and_are_canonical() {
    let index = index();
    let bytes = index.to_bytes();
    assert_eq!(
        Index::from_bytes(&bytes, &Limits::default()).unwrap(),
        index
    );
    let value: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
    assert_eq!(format!("{value}\n").into_bytes(), bytes);
}

#[test]
fn another_format_is_named() {
    let bytes = br#"{"format":"outhaul.dev/bundle/v9","anything":[]}"#;
    let error = Index::from_bytes(bytes, &Limits::default()).unwrap_err();
    assert!(
        error.to_string().contains("outhaul.dev/bundle/v9"),
        "{error}"
    );
}

#[test]
fn unknown_and_missing_fields_are_refused() {
    let text = String::from_utf8(index().to_bytes()).unwrap();
    for changed in [
        text.replacen("\"number\"", "\"extra\":1,\"number\"", 1),
        text.replacen("\"number\":2,", "", 1),
        text.replacen("\"kind\"", "\"extra\":1,\"kind\"", 1),
        text.replacen("\"size\":1", "\"size\":-1", 1),
        text.replacen("sha256:", "sha512:", 1),
        text.replacen("a.yaml", "../a.yaml", 1),
        format!("{text}{text}"),
        String::new(),
    ] {
        assert_ne!(changed, text);
        let error = Index::from_bytes(changed.as_bytes(), &Limits::default()).unwrap_err();
        assert!(matches!(error, IndexError::Malformed { .. }), "{error}");
    }
}

#[test]
fn numbers_start_at_one() {
    assert!(problem(|index| index.number = 0).contains("start at 1"));
}

#[test]
fn a_delta_builds_on_an_older_number() {
    for requires in [0, 2, 3] {
        assert!(problem(|index| index.requires = Some(requires)).contains("builds on"));
    }
}

#[test]
fn a_blob_is_listed_once() {
    assert!(problem(|index| index.blobs.push(index.blobs[0].clone())).contains("listed twice"));
}

#[test]
fn a_content_is_carried_once() {
    let twice = problem(|index| {
        let again = index.blobs[0].contents[0];
        index.blobs[0].contents.push(again);
    });
    assert!(twice.contains("carried twice"), "{twice}");
}

#[test]
fn blobs_and_contents_keep_the_limits() {
    let max = Limits::default();
    assert!(problem(|i| i.blobs[0].size = max.max_blob_bytes + 1).contains("too large"));
    let packed = problem(|i| i.blobs[0].contents[0].size = max.max_packed_content_bytes + 1);
    assert!(packed.contains("too large"), "{packed}");
    let single = problem(|i| {
        i.blobs[1].encoding = Encoding::Zstd;
        i.blobs[1].contents[0].size = max.max_content_bytes + 1;
    });
    assert!(single.contains("too large"), "{single}");
    let few = Limits {
        max_blobs: 1,
        ..max
    };
    assert!(Index::from_bytes(&index().to_bytes(), &few).is_err());
}

#[test]
fn only_a_pack_holds_many_contents() {
    assert!(problem(|index| index.blobs[0].encoding = Encoding::Zstd).contains("exactly one"));
    assert!(problem(|index| index.blobs[1].contents.clear()).contains("exactly one"));
}

#[test]
fn what_is_stored_as_it_is_is_its_own_content() {
    assert_eq!(index().blobs[1].encoding, Encoding::Identity);
    assert!(problem(|index| index.blobs[1].size += 1).contains("differs"));
    assert!(problem(|index| index.blobs[1].digest = Digest::of(b"other")).contains("differs"));
}

#[test]
fn an_assignment_is_listed_once_whatever_its_case() {
    let twice = problem(|index| {
        let mut again = index.assignments[0].clone();
        again.name = again.name.as_str().to_uppercase().parse().unwrap();
        index.assignments.push(again);
    });
    assert!(twice.contains("listed twice"), "{twice}");
}

#[test]
fn a_path_is_there_once_whatever_its_case() {
    let twice = problem(|index| {
        let mut again = index.assignments[0].files[0].clone();
        again.path = "A.YAML".parse().unwrap();
        index.assignments[0].files.push(again);
    });
    assert!(twice.contains("twice (case ignored)"), "{twice}");
}

#[test]
fn a_file_is_no_folder() {
    let both = problem(|index| {
        let mut file = index.assignments[0].files[0].clone();
        file.path = "B".parse().unwrap();
        index.assignments[0].files.push(file);
    });
    assert!(both.contains("both file and folder"), "{both}");
}

#[test]
fn payload_is_checked_like_files() {
    let missing = problem(|index| {
        let mut file = index.assignments[0].files[0].clone();
        file.content = Digest::of(b"nowhere");
        index.assignments[0].payload.push(file);
    });
    assert!(missing.contains("no blob contains"), "{missing}");
}

#[test]
fn a_full_bundle_carries_every_content() {
    let missing = problem(|index| {
        index.blobs.remove(0);
    });
    assert!(missing.contains("no blob contains"), "{missing}");
}

#[test]
fn a_delta_may_leave_contents_out() {
    let mut index = index();
    index.blobs.clear();
    index.requires = Some(1);
    assert!(Index::from_bytes(&index.to_bytes(), &Limits::default()).is_ok());
}

#[test]
fn file_and_blob_agree_on_the_size() {
    let differs = problem(|index| index.assignments[0].files[0].size += 1);
    assert!(differs.contains("differ in size"), "{differs}");
}

#[test]
fn sums_count_each_content_once() {
    let index = index();
    assert_eq!(index.content_bytes(), 70_002);
    assert_eq!(
        index.carried_bytes(),
        index.blobs.iter().map(|blob| blob.size).sum::<u64>()
    );
    assert_eq!(index.files().count(), 3);
}

/// An index with an assignment that has an overlay of `b/c.yaml` for two sites.
fn with_overlay(index: &mut Index) -> &mut Overlay {
    let mut file = index.assignments[0].files[1].clone();
    assert_eq!(file.path.as_str(), "b/c.yaml");
    file.content = index.assignments[0].files[0].content;
    let overlay = Overlay {
        sites: ["drone-1", "drone-2"].map(|s| s.parse().unwrap()).into(),
        config_version: Digest::of(b"own"),
        files: vec![file],
    };
    index.assignments[0].overlays.push(overlay);
    &mut index.assignments[0].overlays[0]
}

#[test]
fn a_site_with_an_overlay_gets_its_files_in_the_place_of_the_others() {
    let mut index = index();
    with_overlay(&mut index);
    let bytes = index.to_bytes();
    assert_eq!(
        Index::from_bytes(&bytes, &Limits::default()).unwrap(),
        index
    );
    assert_eq!(index.files().count(), 4);
    let own = index.clone().for_site(&"drone-2".parse().unwrap());
    assert_eq!(own.assignments[0].config_version, Digest::of(b"own"));
    assert_eq!(own.assignments[0].files.len(), 3);
    assert_eq!(
        own.assignments[0].files[1].content,
        index.assignments[0].files[0].content
    );
    assert!(own.assignments[0].overlays.is_empty());
    let other = index.clone().for_site(&"drone-3".parse().unwrap());
    assert_eq!(other.assignments[0].files, index.assignments[0].files);
    assert_eq!(
        other.assignments[0].config_version,
        index.assignments[0].config_version
    );
}

#[test]
fn an_index_without_overlays_does_not_mention_them() {
    let text = String::from_utf8(index().to_bytes()).unwrap();
    assert!(!text.contains("overlays"), "{text}");
}

#[test]
fn overlays_are_checked() {
    let refusal = |change: fn(&mut Overlay)| problem(|index| change(with_overlay(index)));
    assert!(refusal(|o| o.sites.clear()).contains("is for no site"));
    assert!(refusal(|o| o.files.clear()).contains("changes nothing"));
    assert!(refusal(|o| o.files[0].content = Digest::of(b"nowhere")).contains("no blob contains"));
    assert!(refusal(|o| o.files[0].size += 1).contains("differ in size"));
    assert!(refusal(|o| o.files.push(o.files[0].clone())).contains("twice"));
    assert!(refusal(|o| o.files[0].path = "A.yaml".parse().unwrap()).contains("twice"));
    assert!(refusal(|o| o.files[0].path = "a.yaml/b".parse().unwrap()).contains("both file"));
    let two = problem(|index| {
        let again = with_overlay(index).clone();
        index.assignments[0].overlays.push(again);
    });
    assert!(two.contains("two overlays for `drone-1`"), "{two}");
}

/// The bytes of an index that has what `list` gives in the place of `"recipients"` or the like.
fn bomb(before: &str, list: String) -> Vec<u8> {
    let text = String::from_utf8(index().to_bytes()).unwrap();
    let at = text.find(before).unwrap();
    format!("{}{list}{}", &text[..at], &text[at..]).into_bytes()
}

fn names(count: usize) -> String {
    let names: Vec<_> = (0..count).map(|n| format!("\"s{n:x}\"")).collect();
    names.join(",")
}

fn refused(bytes: &[u8]) -> String {
    match Index::from_bytes(bytes, &Limits::default()) {
        Err(IndexError::Inconsistent { problem }) => problem,
        other => panic!("expected a refusal, found {:?}", other.map(drop)),
    }
}

#[test]
fn lists_beyond_what_a_site_needs_are_refused_by_their_count() {
    let max = Limits::default();
    let recipients = format!("\"recipients\":[{}],", names(max.max_recipients + 1));
    let problem = refused(&bomb("\"reconciler\"", recipients));
    assert_eq!(problem, "100001 recipients, the limit is 100000");
    let sites = names(max.max_site_names + 1);
    let overlay = format!("\"overlays\":[{{\"sites\":[{sites}]}}],");
    let problem = refused(&bomb("\"policies\"", overlay));
    assert_eq!(problem, "500001 names of sites, the limit is 500000");
    let empty = vec!["{}"; max.max_overlays + 1].join(",");
    let problem = refused(&bomb("\"policies\"", format!("\"overlays\":[{empty}],")));
    assert_eq!(problem, "100001 overlays, the limit is 100000");
    for (before, list, what) in [
        ("\"reconciler\"", "orders", "100001 orders"),
        ("\"reconciler\"", "attestations", "files"),
        ("\"policies\"", "payload", "files"),
    ] {
        let many = vec!["0"; 100_001 + 300_000 * usize::from(what == "files")].join(",");
        let problem = refused(&bomb(before, format!("\"{list}\":[{many}],")));
        assert!(problem.contains(what), "{list}: {problem}");
    }
    let policies = vec!["\"\""; max.max_settings + 1].join(",");
    let text = String::from_utf8(index().to_bytes()).unwrap();
    let start = text.find("\"policies\":[").unwrap() + "\"policies\":[".len();
    let end = start + text[start..].find(']').unwrap();
    let text = format!("{}{policies}{}", &text[..start], &text[end..]);
    assert!(refused(text.as_bytes()).contains("policies and settings"));
}

#[test]
fn numbers_beyond_the_one_bound_are_refused_when_they_are_parsed() {
    let text = String::from_utf8(index().to_bytes()).unwrap();
    for number in [crate::MAX_NUMBER + 1, i64::MAX as u64 + 1, u64::MAX] {
        let changed = text.replacen("\"number\":2", &format!("\"number\":{number}"), 1);
        assert_ne!(changed, text);
        let error = Index::from_bytes(changed.as_bytes(), &Limits::default()).unwrap_err();
        assert!(error.to_string().contains("out of range"), "{error}");
    }
    let largest = text.replacen(
        "\"number\":2",
        &format!("\"number\":{}", crate::MAX_NUMBER),
        1,
    );
    assert!(Index::from_bytes(largest.as_bytes(), &Limits::default()).is_ok());
}
