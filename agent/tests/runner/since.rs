//! Copies that leave out what an earlier bundle brought: what comes of them is what the whole bundle gives, or a refusal
//! by name; and one test for each attack on such a copy.
//!
//! What comes in: the real program, a real fleet's bundles, and copies as `outhaul copy --since` writes them. What must
//! come out: the bundle, or a refusal that states which bundle it needs, and a state folder as it was.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use outhaul_bundle::index::Content;
use outhaul_bundle::volume::Base;
use outhaul_bundle::{BundleReader, Digest, Index, Limits, Volume};
use outhaul_test_kit::{Centre, Draft, Load, noise};

use super::site::{Site, assert_reports, code, stderr, stdout, tree};

/// A large payload and one line of config.
fn draft(line: &str) -> Draft {
    Draft::new([Load::new("hello")
        .file("manifest.yaml", format!("greeting: {line}\n"))
        .payload("image.tar.gz", noise(150_000))
        .payload("model.gz", noise(120_000))])
}

fn base(index: &Index) -> (Base, BTreeSet<Digest>) {
    let base = Base {
        number: index.number,
        index: Digest::of(&index.to_bytes()),
    };
    let blobs = index.blobs.iter().map(|blob| blob.digest);
    (base, blobs.collect())
}

/// The published bundle `number` without what every one of `earlier` has.
pub fn copy(centre: &Centre, draft: &Draft, number: u64, earlier: &[&Index]) -> PathBuf {
    let (index, _) = centre.index(draft, number);
    let bases: Vec<_> = earlier.iter().map(|index| base(index)).collect();
    let volume = Volume::since(&index, &bases).unwrap();
    copy_as(centre, draft, number, &volume)
}

/// The published bundle `number` with the blobs of `volume`.
fn copy_as(centre: &Centre, draft: &Draft, number: u64, volume: &Volume) -> PathBuf {
    let (index, mut blobs) = centre.index(draft, number);
    let name = format!("{}-{number}.since.outhaul", index.stream.cluster_type);
    centre.part(&index, volume, &mut blobs, &name)
}

/// A centre that published bundles 1 and 2, a copy of 2 since 1, and a site with bundle 1.
struct Case {
    centre: Centre,
    site: Site,
    first: PathBuf,
    second: PathBuf,
    copy: PathBuf,
}

impl Case {
    fn new() -> Self {
        let centre = Centre::new();
        let site = Site::new(&centre, "drone-7");
        let first = centre.publish(&draft("one"));
        let second = centre.publish(&draft("two"));
        let (earlier, _) = centre.index(&draft("one"), 1);
        let copy = copy(&centre, &draft("two"), 2, &[&earlier]);
        site.take(&first);
        Self {
            centre,
            site,
            first,
            second,
            copy,
        }
    }

    /// Where the site's store has a blob that the copy leaves out.
    fn left_out(&self) -> PathBuf {
        let (index, _) = self.centre.index(&draft("one"), 1);
        let largest = index.blobs.iter().max_by_key(|blob| blob.size).unwrap();
        let store = self.site.state().join("blobs");
        let name = largest.digest.hex();
        let found = tree(&store).into_keys().find(|path| path.ends_with(&name));
        store.join(found.unwrap())
    }
}

#[test]
fn a_copy_since_the_bundle_that_runs_gives_what_the_whole_bundle_gives() {
    let case = Case::new();
    let sizes = [&case.second, &case.copy].map(|path| fs::metadata(path).unwrap().len());
    assert!(sizes[0] > sizes[1] + 270_000, "{sizes:?}");
    let other = Site::new(&case.centre, "drone-8");
    other.take(&case.first);
    other.take(&case.second);
    let before = case.site.kept();
    let planned = case.site.run(&["plan", case.copy.to_str().unwrap()]);
    assert_eq!(code(&planned), 0, "{}", stderr(&planned));
    assert!(
        stdout(&planned).contains("manifest.yaml"),
        "{}",
        stdout(&planned)
    );
    assert_eq!(case.site.kept(), before);
    case.site.take(&case.copy);
    assert_eq!(case.site.applied(), other.applied());
    assert_eq!(
        tree(&case.site.state().join("blobs")),
        tree(&other.state().join("blobs"))
    );
    let again = case.site.import(&case.copy);
    assert!(
        stdout(&again).contains("already active"),
        "{}",
        stdout(&again)
    );
}

#[test]
fn a_site_without_the_earlier_bundle_refuses_the_copy_by_name_and_takes_the_whole_bundle() {
    let case = Case::new();
    let new = Site::new(&case.centre, "drone-8");
    let before = new.kept();
    let seen = "this copy of bundle 2 leaves out 2 blobs of bundle 1, and both are not here; this site has no \
                bundle yet";
    assert_reports(
        &new.import(&case.copy),
        1,
        &[seen, "help: bring the whole bundle"],
    );
    let planned = new.run(&["plan", case.copy.to_str().unwrap()]);
    assert_reports(&planned, 1, &[seen]);
    assert_eq!(new.kept(), before);
    // `status` and the centre learn of it.
    let status = stdout(&new.run(&["status"]));
    assert!(
        status.contains("leaves out 2 blobs of bundle 1"),
        "{status}"
    );
    let reports = new.refusals("left-out");
    assert!(
        reports.len() == 1 && reports[0].contains(seen),
        "{reports:?}"
    );
    new.take(&case.second);
    assert_eq!(new.active(), Some(2));
    // One that has another bundle than the copy needs, on a stick with the whole one.
    let other = Site::new(&case.centre, "drone-9");
    other.take(&case.centre.publish_as(&Draft::hello("hi"), 3));
    let fourth = case.centre.publish(&draft("four"));
    let (earlier, _) = case.centre.index(&draft("two"), 2);
    let copy = copy(&case.centre, &draft("four"), 4, &[&earlier]);
    let stick = tempfile::tempdir().unwrap();
    fs::copy(&copy, stick.path().join("a.outhaul")).unwrap();
    let refused = other.import(stick.path());
    assert_reports(
        &refused,
        1,
        &["blobs of bundle 2", "this site has bundle 3"],
    );
    fs::copy(&fourth, stick.path().join("b.outhaul")).unwrap();
    other.take(stick.path());
    assert_eq!(other.active(), Some(4));
}

#[test]
fn the_earlier_bundle_or_the_missing_part_on_a_second_stick_makes_the_copy_complete() {
    let case = Case::new();
    let new = Site::new(&case.centre, "drone-8");
    assert_eq!(code(&new.import(&case.copy)), 1);
    new.take(&case.first);
    new.take(&case.copy);
    assert_eq!(new.applied(), {
        case.site.take(&case.copy);
        case.site.applied()
    });
    // Both on one stick, in one import: what the copy leaves out the earlier bundle brings.
    let new = Site::new(&case.centre, "drone-10");
    let stick = tempfile::tempdir().unwrap();
    fs::copy(&case.first, stick.path().join("first.outhaul")).unwrap();
    fs::copy(&case.copy, stick.path().join("second.outhaul")).unwrap();
    let taken = new.import(stick.path());
    assert_eq!(code(&taken), 0, "{}", stderr(&taken));
    assert_eq!(new.active(), Some(2));
    assert_eq!(new.applied(), case.site.applied());
    assert_eq!(new.refusals("left-out"), Vec::<String>::new());
    // The parts that have what is left out, in the place of the earlier bundle.
    let new = Site::new(&case.centre, "drone-9");
    let (index, _) = case.centre.index(&draft("two"), 2);
    let parts = Volume::plan(40_000, &index, 240_000).unwrap();
    let (earlier, _) = case.centre.index(&draft("one"), 1);
    let small = Volume::since(&index, &[base(&earlier)]).unwrap();
    let left_out = small.left_out(&index);
    let needed = parts.iter().filter(|part| {
        let carried = part.carried(&index);
        carried.iter().any(|blob| left_out.contains(blob))
    });
    for part in needed {
        let file = copy_as(&case.centre, &draft("two"), 2, part);
        assert!(code(&new.import(&file)) <= 1);
    }
    let copy = copy_as(&case.centre, &draft("two"), 2, &small);
    let taken = new.import(&copy);
    assert_eq!(code(&taken), 0, "{}", stderr(&taken));
    assert_eq!(new.applied(), case.site.applied());
    assert_eq!(new.status()["incomplete"], serde_json::Value::Null);
}

#[test]
fn a_left_out_blob_that_the_store_holds_damaged_is_refused() {
    let case = Case::new();
    let path = case.left_out();
    let mut bytes = fs::read(&path).unwrap();
    bytes[70_000] ^= 1;
    fs::write(&path, bytes).unwrap();
    let before = case.site.kept();
    let seen = ["1 of them is damaged here; this site has bundle 1", "help:"];
    assert_reports(&case.site.import(&case.copy), 1, &seen);
    assert_eq!(case.site.kept(), before);
    assert_eq!(case.site.refusals("left-out").len(), 1);
    // The whole bundle brings it again.
    case.site.take(&case.second);
}

#[test]
fn a_copy_for_another_stream_is_refused() {
    let case = Case::new();
    let press = |line: &str| draft(line).cluster_type("press");
    case.centre.publish(&press("one"));
    case.centre.publish(&press("two"));
    let (earlier, _) = case.centre.index(&press("one"), 1);
    let copy = copy(&case.centre, &press("two"), 2, &[&earlier]);
    let before = case.site.kept();
    // The site has every blob that is left out.
    assert_reports(
        &case.site.import(&copy),
        4,
        &["this stick is for dev/press"],
    );
    assert_eq!(case.site.kept(), before);
}

#[test]
fn a_copy_whose_index_was_exchanged_is_refused() {
    let case = Case::new();
    // Another index that leaves out what this site has, under the metadata of bundle 2.
    let (index, mut blobs) = case.centre.index(&draft("evil"), 2);
    let (earlier, _) = case.centre.index(&draft("one"), 1);
    let volume = Volume::since(&index, &[base(&earlier)]).unwrap();
    let path = case
        .centre
        .part(&index, &volume, &mut blobs, "exchanged.outhaul");
    let before = case.site.kept();
    assert_reports(&case.site.import(&path), 4, &["index.json", "expected"]);
    assert_eq!(case.site.kept(), before);
    case.site.take(&case.copy);
}

#[test]
fn a_copy_of_an_older_bundle_is_refused_as_any_older_bundle() {
    let case = Case::new();
    case.site.take(&case.centre.publish(&draft("three")));
    let before = case.site.kept();
    let refusals = [&case.copy, &case.second].map(|path| {
        let refused = case.site.import(path);
        assert_eq!(code(&refused), 4, "{}", stderr(&refused));
        let name = path.file_name().unwrap().to_str().unwrap();
        stderr(&refused).replace(name, "FILE")
    });
    assert_eq!(refusals[0], refusals[1]);
    assert_eq!(case.site.kept(), before);
}

#[test]
fn a_copy_that_names_a_bundle_that_never_had_the_blobs_is_refused() {
    let case = Case::new();
    let (index, _) = case.centre.index(&draft("two"), 2);
    // It leaves out the changed file, too, and states that bundle 1 has it.
    let (named, _) = base(&case.centre.index(&draft("one"), 1).0);
    let all = index.blobs.iter().map(|blob| blob.digest).collect();
    let volume = Volume::since(&index, &[(named, all)]).unwrap();
    let forged = copy_as(&case.centre, &draft("two"), 2, &volume);
    let before = case.site.kept();
    let seen = ["leaves out 3 blobs of bundle 1, and 1 of them is not here"];
    assert_reports(&case.site.import(&forged), 1, &seen);
    assert_eq!(case.site.kept(), before);
}

#[test]
fn a_left_out_blob_that_is_lost_with_a_power_cut_half_applies_nothing() {
    let case = Case::new();
    let applied = case.site.applied();
    for instant in ["verified-committed", "blob-written", "blobs-complete"] {
        let site = case.site.copy();
        let mut command = site.command(&["import", case.copy.to_str().unwrap()]);
        command.env("OUTHAUL_CUT", instant);
        let cut = command.output().unwrap();
        assert_eq!(cut.status.code(), None, "{instant}: {}", stderr(&cut));
        let below = case.left_out();
        let below = below.strip_prefix(case.site.state()).unwrap().to_owned();
        fs::remove_file(site.state().join(&below)).unwrap();
        assert_reports(
            &site.import(&case.copy),
            1,
            &["1 of them is not here; this site has bundle 1"],
        );
        assert_eq!(site.applied(), applied, "{instant}");
        assert_eq!(site.active(), Some(1));
        assert!(!is_there(&site.state().join("generations/2")), "{instant}");
        site.take(&case.second);
    }
}

#[test]
fn a_left_out_blob_that_is_removed_between_the_check_and_the_use_is_refused() {
    let case = Case::new();
    // Large enough that someone sees that it is being read.
    let third = Draft::new([Load::new("hello")
        .file("manifest.yaml", "greeting: three\n")
        .payload("image.tar.gz", noise(150_000))
        .payload("model.gz", noise(120_000))
        .payload("more.gz", noise(4_000_000))]);
    let whole = case.centre.publish(&third);
    let (earlier, _) = case.centre.index(&draft("one"), 1);
    let copy = copy(&case.centre, &third, 3, &[&earlier]);
    let left_out = case.left_out();
    let left_out = left_out.strip_prefix(case.site.state()).unwrap();
    let applied = case.site.applied();
    for _ in 0..20 {
        let site = case.site.copy();
        let mut command = site.command(&["import", copy.to_str().unwrap()]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut import = command.spawn().unwrap();
        let partial = site.state().join("blobs/partial");
        let is_reading = || fs::read_dir(&partial).is_ok_and(|mut names| names.next().is_some());
        while !is_reading() && import.try_wait().unwrap().is_none() {
            std::thread::yield_now();
        }
        // Only what is read after what is left out was compared.
        let is_seen = is_reading() && import.try_wait().unwrap().is_none();
        fs::remove_file(site.state().join(left_out)).unwrap();
        let done = import.wait_with_output().unwrap();
        if !is_seen || code(&done) == 0 {
            continue;
        }
        assert_reports(&done, 1, &["1 of them is not here; this site has bundle 1"]);
        assert_eq!(site.applied(), applied);
        assert_eq!(site.active(), Some(1));
        assert!(!is_there(&site.state().join("generations/3")));
        assert_eq!(site.refusals("left-out").len(), 1);
        site.take(&whole);
        return;
    }
    panic!("it was never seen reading");
}

fn is_there(path: &Path) -> bool {
    path.exists() || path.with_extension("new").exists()
}

#[test]
fn a_copy_whose_own_blob_is_damaged_or_missing_is_refused() {
    let case = Case::new();
    let sound = fs::read(&case.copy).unwrap();
    let mut reader = BundleReader::new(sound.as_slice(), Limits::default());
    reader.read_metadata().unwrap();
    let bytes = case.centre.index(&draft("two"), 2).0.to_bytes();
    let (digest, size) = (Digest::of(&bytes), bytes.len() as u64);
    let (index, _) = reader.read_index(&Content { digest, size }).unwrap();
    let volume = reader.read_volume(&index).unwrap().unwrap();
    assert_eq!(volume.carried(&index).len(), 1);
    // The blob's first bytes lie in the last blocks but for the two of the end.
    let mut damaged = sound.clone();
    let at = damaged.len() - 1024 - 512;
    damaged[at] ^= 1;
    let mut short = sound.clone();
    short.truncate(sound.len() - 1024 - 512);
    let before = case.site.kept();
    for (forged, words) in [(damaged, "expected digest"), (short, "incomplete")] {
        let path = case.centre.folder().join("forged.outhaul");
        fs::write(&path, forged).unwrap();
        assert_reports(&case.site.import(&path), 4, &[words]);
        assert_eq!(case.site.kept(), before);
    }
    case.site.take(&case.copy);
}
