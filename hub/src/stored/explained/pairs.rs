//! What a page says of a pair where the explanation and the signed index, or two streams, are not of one mind.

use std::collections::BTreeSet;

use super::*;
use crate::store::StoreError;
use crate::view::explained::{ExplainUnknown, explanation_answer};

/// Sites by their names.
fn sites(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn a_site_for_which_the_assignment_is_not_has_no_values_and_no_config() {
    let (a, b) = (
        Site::new("a", "dev", "drone"),
        Site::new("b", "dev", "drone"),
    );
    let mut store = store_with(&[&a, &b]);
    let for_b = |index: &mut Index| {
        index.assignments[0].sites = Some(BTreeSet::from(["b".parse().unwrap()]));
    };
    let index = bundle(&mut store, ("dev", 1, OLD), &[("a", "a")], for_b, true);
    let mut document = document(&index, "62");
    document.assignments[0].sites = Some(sites(&["b"]));
    put(&mut store, &document, NOW);

    let there = explained(&mut store, &asked("b", ""));
    assert_eq!(width(&there), Some("62"));
    assert_eq!(there.shown.unwrap().same_config, [1]);

    let view = explained(&mut store, &asked("a", ""));
    let bundle = &view.bundles[0];
    assert_eq!(
        (&bundle.config_version, bundle.has_assignment),
        (&None, Some(false))
    );
    let why = bundle.unknown.as_deref();
    assert_eq!(why, Some("bundle 1 does not have this assignment at a"));
    let shown = view.shown.as_ref().unwrap();
    assert!(shown.is_elsewhere && shown.values.is_empty() && shown.config_version.is_none());
    assert!(shown.same_config.is_empty() && shown.lacks.is_empty() && shown.has.is_empty());
    let html = pages::explain(&view, &Shown::default()).unwrap();
    for words in ["Why it is not here", "assigned to other sites only: b"] {
        assert!(html.contains(words), "{words}: {html}");
    }
    assert!(!html.contains("WIDTH"), "{html}");
    let answer = store
        .read(|session| explanation_answer(session, &asked("a", "")))
        .unwrap();
    assert!(answer.unwrap().values.is_empty());
}

#[test]
fn a_site_that_nobody_knows_gets_no_answer() {
    let (mut store, index) = one_bundle();
    put(&mut store, &document(&index, "62"), NOW);
    let asked = asked("nowhere", "");
    let (page, answer) = store
        .read(|session| {
            Ok::<_, StoreError>((
                ExplainView::of(session, &asked, NOW)?,
                explanation_answer(session, &asked)?,
            ))
        })
        .unwrap();
    assert_eq!(page.unwrap_err(), ExplainUnknown::Site);
    assert_eq!(answer.unwrap_err(), ExplainUnknown::Site);
}

#[test]
fn what_is_desired_was_not_taken_back_and_is_of_the_role_that_was_issued_last() {
    let mut store = store_with(&[]);
    let keep = |store: &mut Store, number, change: fn(&mut Index)| {
        bundle(store, ("dev", number, OLD), &[("a", "a")], change, true)
    };
    let desired = |store: &mut Store| -> Vec<u64> {
        let view = explained(store, &asked("", ""));
        let of_it = view.bundles.iter().filter(|one| one.is_desired);
        of_it.map(|one| one.number).collect()
    };
    keep(&mut store, 1, |_| {});
    let second = keep(&mut store, 2, |_| {});
    let role = second.stream.role.as_str();
    let taken_back = |session: &crate::store::Session<'_>| {
        session.set_signers(role, 2, &sites(&["lost-key"]))?;
        session.mark_withdrawn(role, &BTreeSet::new())
    };
    assert_eq!(desired(&mut store), [2]);
    store.write(|session| taken_back(session)).unwrap();
    assert_eq!(desired(&mut store), [1]);
    // The same stream under another role, of which the numbers begin again.
    let other = plain::index(&second.stream, 7, OLD);
    let mut other = Index { number: 7, ..other };
    other.stream.role = "a-new-role".parse().unwrap();
    let signed = crate::store::Signed {
        issued_ms: NOW + 5,
        signed_as: 7,
        expires_ms: NOW + 9,
    };
    store
        .write(|session| session.add_bundle(&other, plain::content(&other), signed, NOW))
        .unwrap();
    assert_eq!(desired(&mut store), [7]);
}

#[test]
fn an_explanation_that_contradicts_the_signed_index_is_marked() {
    let (mut store, index) = one_bundle();
    let mut document = document(&index, "62");
    document.assignments[0].target = "ghost".to_owned();
    document.entities.targets = vec![entity("ghost", &[]), entity(TARGET, &[])];
    put(&mut store, &document, NOW);
    let ghost = ExplainAsked {
        target: "ghost",
        ..asked("", "")
    };
    let mut found = |asked: &ExplainAsked<'_>| {
        let view = explained(&mut store, asked);
        let html = pages::explain(&view, &Shown::default()).unwrap();
        let shown = view.shown.unwrap();
        (shown.lacks, shown.has, html)
    };
    let (lacks, has, html) = found(&ghost);
    assert_eq!((lacks, has), (vec![1], vec![]));
    assert!(
        html.contains("does not have this assignment, and"),
        "{html}"
    );
    let (lacks, has, html) = found(&asked("", ""));
    assert_eq!((lacks, has), (vec![], vec![1]));
    assert!(html.contains("has this assignment, and"), "{html}");
}

#[test]
fn sources_that_the_bundle_has_besides_are_told() {
    let mut store = store_with(&[]);
    let more = |index: &mut Index| {
        let mut source = index.snapshot.base.clone();
        source.name = "camera".to_owned();
        index.snapshot.workloads.push(source);
    };
    let index = bundle(&mut store, ("dev", 1, OLD), &[("a", "a")], more, true);
    let whole = document(&index, "62");
    let mut part = document(&index, "part");
    part.snapshot = Snapshot::of(
        index.snapshot.environment.clone(),
        index.snapshot.base.clone(),
        Vec::new(),
    );
    put(&mut store, &whole, NOW);
    put(&mut store, &part, NOW + 1);
    // The one that was sent last is of fewer sources.
    let view = explained(&mut store, &asked("", ""));
    assert_eq!(width(&view), Some("62"));
    let rows = store
        .read(|session| session.explanations("dev", 1))
        .unwrap();
    let view = explained(&mut store, &asked("", &rows[0].digest));
    let shown = view.shown.as_ref().unwrap();
    let missing = index.snapshot.workloads.len();
    assert_eq!((width(&view), &shown.more_sources), (Some("part"), &vec![]));
    // It is told where it is a reason for what lacks.
    let of_other = ExplainAsked {
        target: "registered-later",
        ..asked("", &rows[0].digest)
    };
    let view = explained(&mut store, &of_other);
    let shown = view.shown.as_ref().unwrap();
    assert_eq!(shown.more_sources, [(1, missing)]);
    let html = pages::explain(&view, &Shown::default()).unwrap();
    assert!(html.contains("than this explanation"), "{html}");
}

#[test]
fn what_the_hub_does_not_know_is_named_and_not_linked() {
    let (mut store, index) = one_bundle();
    let mut known = document(&index, "62");
    known.entities.environments = vec![entity("dev", &[]), entity("ghost", &[])];
    known.entities.cluster_types.push(entity("ghost-type", &[]));
    known.assignments[0].overlays = vec![outhaul_bundle::hub_api::OverlayExplanation {
        sites: sites(&["ghost-site"]),
        config_version: String::new(),
        config: 0,
    }];
    put(&mut store, &known, NOW);
    let elsewhere = PlatformExplanation {
        environment: "elsewhere".to_owned(),
        ..known
    };
    put(&mut store, &elsewhere, NOW);
    let question = |environment| PlatformAsked {
        environment,
        digest: "",
        after: "",
    };
    let mut entity_page = |kind, name| {
        let view =
            store.read(|session| EntityView::of(session, &question("dev"), (kind, name), 0, NOW));
        pages::platform_entity(&view.unwrap().unwrap().unwrap(), &Shown::default()).unwrap()
    };
    let link = "<a href=\"/environments/";
    assert!(entity_page("environment", "dev").contains(link));
    assert!(!entity_page("environment", "ghost").contains(link));
    assert!(entity_page("cluster-type", "drone").contains("<a href=\"/sites?"));
    assert!(!entity_page("cluster-type", "ghost-type").contains("<a href=\"/sites?"));
    let mut platform = |environment| {
        let view = store.read(|session| PlatformView::of(session, &question(environment), NOW));
        pages::platform(&view.unwrap().unwrap(), &Shown::default()).unwrap()
    };
    assert!(platform("elsewhere").contains("unknown environment"));
    assert!(!platform("dev").contains("unknown environment"));
    assert!(platform("dev").contains(link));
    assert!(!platform("elsewhere").contains(link));
    let there = ExplainAsked {
        environment: "elsewhere",
        ..asked("", "")
    };
    let html = pages::explain(&explained(&mut store, &there), &Shown::default()).unwrap();
    assert!(!html.contains(link), "{html}");
    assert!(html.contains("unknown environment"), "{html}");
    assert!(
        html.contains("ghost-site") && !html.contains("site=ghost-site"),
        "{html}"
    );
}
