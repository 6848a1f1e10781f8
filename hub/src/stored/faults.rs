//! What is not well at a site, out of both stores: reports in pages, and the other sites that have the same.

use outhaul_bundle::hub_api::{FaultKind, SiteFaults};
use outhaul_bundle::report::{ComplianceStatus as C, GenerationState as G};
use outhaul_test_kit::Site;
use outhaul_test_kit::plain::{NEW, OLD};

use super::{left_again, store_with, take};
use crate::store::Store;
use crate::view::faults::{self, Depth};

fn of(store: &mut Store, site: &str, depth: Depth) -> Option<SiteFaults> {
    store
        .read(|session| faults::of_site(session, site, depth, 0))
        .unwrap()
}

#[test]
fn other_sites_with_the_same_are_counted_and_the_site_itself_is_not() {
    let mut sites: Vec<Site> = ["a", "b", "c", "d"]
        .iter()
        .map(|name| Site::new(name, "dev", "drone"))
        .collect();
    let mut store = store_with(&sites.iter().collect::<Vec<_>>());
    for (at, site) in sites.iter_mut().enumerate() {
        let mut lines = vec![site.active(1, OLD)];
        lines.push(match at {
            // Two that run the new bundle, one of them not well; one that left it.
            0 => site.state(2, NEW, G::Active, C::Failed),
            1 => site.active(2, NEW),
            2 => site.state(2, NEW, G::Active, C::Drifted),
            _ => site.state(2, NEW, G::Failed, C::Failed),
        });
        if at == 3 {
            lines.push(left_again(site, None));
        }
        take(&mut store, &lines, 20);
    }
    let told = of(&mut store, "a", Depth::Whole).unwrap();
    assert_eq!(told.faults.len(), 1, "{told:#?}");
    let fault = &told.faults[0];
    assert_eq!(fault.kind, FaultKind::Failed);
    let others: Vec<(u64, u64)> = fault
        .others
        .values()
        .map(|others| (others.well, others.not_well))
        .collect();
    assert!(
        !others.is_empty() && others.iter().all(|one| *one == (1, 1)),
        "{fault:#?}"
    );
    let told = of(&mut store, "d", Depth::Whole).unwrap();
    let fault = &told.faults[0];
    assert_eq!(
        (fault.kind, fault.left),
        (FaultKind::Bundle, true),
        "{fault:#?}"
    );
    assert!(
        fault
            .others
            .values()
            .all(|one| (one.well, one.not_well) == (1, 2)),
        "{fault:#?}"
    );
    // Of its own failure nothing is counted, and a page asks nothing of other sites.
    assert_eq!(fault.others_failed, 0);
    let page = of(&mut store, "d", Depth::Page).unwrap();
    assert_eq!(page.faults[0].others.len(), 0);
    assert_eq!(of(&mut store, "nobody", Depth::Whole), None);
}

#[test]
fn the_last_good_report_is_found_many_pages_back_and_said_to_be_unread_beyond_the_limit() {
    let mut site = Site::new("a", "dev", "drone");
    let mut store = store_with(&[&site]);
    let mut lines = vec![site.active(1, OLD)];
    for _ in 0..1_100 {
        lines.push(site.state(1, OLD, G::Active, C::Failed));
    }
    take(&mut store, &lines, 20);
    let told = of(&mut store, "a", Depth::Whole).unwrap();
    let good = told.faults[0].good.as_ref().map(|good| good.report);
    assert_eq!((good, told.faults[0].bad.report), (Some(1), 2));
    assert!(!told.older_unread && told.reports_read == 1_101);
    let page = of(&mut store, "a", Depth::Page).unwrap();
    assert_eq!(
        (page.faults[0].good.as_ref(), page.older_unread),
        (None, true)
    );
    assert_eq!(page.reports_read, 1_000);
}
