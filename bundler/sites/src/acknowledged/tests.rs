//! What a copy may leave out for sites, by their reports.

use outhaul_test_kit::{Centre, Site, TOKEN};

use super::*;

/// A centre that approved the keys of two sites of one stream, which have reported nothing yet.
struct TwoSites {
    centre: Centre,
    one: Site,
    two: Site,
    seen: Seen,
}

impl TwoSites {
    fn new() -> Self {
        let centre = Centre::new();
        let stream = centre.stream("dev", "press");
        let site = |name: &str| {
            let site = centre.site(name, &stream);
            let sites = Sites::of(&centre.fleet);
            let kit = site.enrolment(TOKEN);
            sites
                .enrolled(&name.parse().unwrap(), stream.clone(), kit)
                .unwrap();
            sites
                .approve(sites.candidate(&site.request()).unwrap())
                .unwrap();
            site
        };
        let (one, two) = (site("press-1"), site("press-2"));
        let seen = Seen::default();
        Self {
            centre,
            one,
            two,
            seen,
        }
    }

    fn note(&mut self, line: &[u8]) {
        let sites = Sites::of(&self.centre.fleet);
        sites
            .note_running(line.trim_ascii(), &mut self.seen)
            .unwrap();
    }

    fn records(&self) -> Vec<SiteRecord> {
        Sites::of(&self.centre.fleet).all().unwrap()
    }

    /// What bundle 5 is to the sites.
    fn standing(&self) -> StreamStanding {
        standing(&self.bundle(None), &self.records(), &self.seen).unwrap()
    }

    fn bundle(&self, sealed_for: Option<BTreeMap<Name, Name>>) -> CopiedBundle<'_> {
        CopiedBundle {
            role: self.one.stream.role.as_str(),
            stream: "dev/press".to_owned(),
            number: 5,
            sealed_for,
        }
    }
}

fn notes(standing: &StreamStanding) -> String {
    let notes: Vec<String> = standing.sites.iter().map(ToString::to_string).collect();
    notes.join("\n")
}

#[test]
fn the_bundles_that_all_sites_run_may_be_left_out_each_once() {
    let mut sites = TwoSites::new();
    for line in [sites.one.active(3, "c0ffee"), sites.two.active(3, "c0ffee")] {
        sites.note(&line);
    }
    let same = sites.standing();
    assert_eq!(same.bases.as_ref().unwrap().len(), 1);
    assert!(!same.is_there);
    let line = sites.two.active(4, "c0ffee");
    sites.note(&line);
    assert_eq!(sites.standing().bases.unwrap().len(), 2);
    for line in [sites.one.active(5, "c0ffee"), sites.two.active(6, "c0ffee")] {
        sites.note(&line);
    }
    let there = sites.standing();
    assert!(there.is_there && there.bases.unwrap().is_empty());
}

#[test]
fn a_site_of_which_nothing_is_known_has_the_whole_bundle_brought_for_all() {
    let mut sites = TwoSites::new();
    let line = sites.one.active(3, "c0ffee");
    sites.note(&line);
    let standing = sites.standing();
    assert_eq!(standing.bases, None);
    assert!(
        notes(&standing).contains("`press-2` has no report of an active bundle there: the whole")
    );
    // Nor does a report count that another key signed.
    let mut thief = sites.centre.site("press-2", &sites.two.stream);
    let line = thief.active(3, "c0ffee");
    sites.note(&line);
    let standing = sites.standing();
    assert_eq!(standing.bases, None);
    let notes = notes(&standing);
    assert!(notes.contains("help: compare the fingerprint"), "{notes}");
    assert!(notes.contains("requests/press-2.request"), "{notes}");
}

#[test]
fn a_bundle_of_another_stream_is_not_one_that_may_be_left_out() {
    let mut sites = TwoSites::new();
    sites.one.stream = sites.centre.stream("dev", "lathe");
    let line = sites.one.active(3, "c0ffee");
    sites.note(&line);
    sites.one.stream = sites.two.stream.clone();
    let standing = sites.standing();
    assert_eq!(
        (standing.bases.as_ref(), standing.sites[0].runs),
        (None, None)
    );
    assert!(notes(&standing).contains("runs a bundle of another stream"));
}

#[test]
fn of_a_sealed_bundle_nothing_is_left_out_and_a_site_that_cannot_open_it_stops_the_copy() {
    use outhaul_seal::Identity;

    let mut sites = TwoSites::new();
    let line = sites.one.active(3, "c0ffee");
    sites.note(&line);
    let key = Identity::generate().recipient();
    let readers = BTreeMap::from([(key.id().parse().unwrap(), "press-9".parse().unwrap())]);
    let bundle = sites.bundle(Some(readers));
    let mut records = sites.records();
    let refused = standing(&bundle, &records, &sites.seen).unwrap_err();
    assert!(
        matches!(refused, AcknowledgedError::CannotOpen { .. }),
        "{refused}"
    );
    let other = Identity::generate().recipient();
    records[0].seal_key = other.to_string();
    assert!(standing(&bundle, &records[..1], &sites.seen).is_err());
    records[0].seal_key = key.to_string();
    let standing = standing(&bundle, &records[..1], &sites.seen).unwrap();
    assert_eq!((standing.bases.as_ref(), standing.is_there), (None, false));
    assert!(notes(&standing).contains("bundle 5 is sealed, and of a sealed one nothing"));
}

#[test]
fn a_site_that_turned_the_bundle_away_is_named_with_what_lets_it_in_again() {
    use outhaul_bundle::report::{ComplianceStatus, GenerationState};

    let mut sites = TwoSites::new();
    let line = sites.one.active(3, "c0ffee");
    sites.note(&line);
    let (failed, status) = (GenerationState::Failed, ComplianceStatus::Failed);
    let line = sites.one.state(5, "c0ffee", failed, status);
    sites.note(&line);
    let said = notes(&sites.standing());
    assert!(
        said.contains("after `outhaul-agent approve 5` there"),
        "{said}"
    );
    // Once it runs that bundle, it is not turned away.
    let line = sites.one.active(5, "c0ffee");
    sites.note(&line);
    assert!(!notes(&sites.standing()).contains("outhaul-agent approve"));
}

#[test]
fn a_site_whose_stream_is_not_copied_is_refused_and_one_that_is_named_twice_counts_once() {
    let sites = TwoSites::new();
    let records = Sites::of(&sites.centre.fleet);
    let names: Vec<Name> = ["press-1", "press-1"]
        .map(|name| name.parse().unwrap())
        .into();
    let refused = followers(&records, &["another"], &names).unwrap_err();
    assert!(
        refused
            .to_string()
            .starts_with("`press-1` follows dev/press"),
        "{refused}"
    );
    let found = followers(&records, &[sites.one.stream.role.as_str()], &names).unwrap();
    let standing = found.standing(&sites.bundle(None), &sites.seen).unwrap();
    assert_eq!(standing.sites.len(), 1);
    let unknown = followers(&records, &[], &["press-9".parse().unwrap()]).unwrap_err();
    assert!(matches!(unknown, AcknowledgedError::Sites(_)), "{unknown}");
}
