//! Copies that carry patches: what they make is what the whole bundle brings, or a refusal by name; and one test for each
//! attack on a patch.
//!
//! What comes in: the real program, a real fleet's bundles, and copies with patches that are sound or forged. What must
//! come out: the bundle, or a refusal that states what is wrong and what this site has, and a state folder as it was.
#![expect(clippy::format_collect, reason = "a short text of a test")]

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Cursor, Read};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use outhaul_bundle::index::Blob;
use outhaul_bundle::patch::{Maker, Region, Source, View};
use outhaul_bundle::volume::Base;
use outhaul_bundle::{BlobSource, Digest, Index, Limits, Volume, decode, fake::MemoryBlobs};
use outhaul_test_kit::{Centre, Draft, Load, noise};

use super::site::{Site, assert_reports, code, stderr, stdout, tree};

fn draft(line: &str) -> Draft {
    Draft::new([load(line)])
}

/// A manifest in a pack, a text too large for one, and an image that stays.
pub fn load(line: &str) -> Load {
    let large: String = (0..20_000u32)
        .map(|n| format!("{}: {}\n", n, n.wrapping_mul(2_654_435_761)))
        .collect();
    Load::new("hello")
        .file("manifest.yaml", format!("greeting: {line}\n"))
        .file("other.yaml", noise(20_000))
        .payload("large.txt", format!("{large}{line}\n"))
        .payload("image.tar.gz", noise(150_000))
}

/// A bundle's blobs, and patches for some of them.
struct WithPatches {
    blobs: MemoryBlobs,
    patches: BTreeMap<Digest, Vec<u8>>,
}

impl BlobSource for WithPatches {
    fn open(&mut self, blob: &Blob) -> io::Result<Box<dyn Read + '_>> {
        BlobSource::open(&mut self.blobs, blob)
    }

    fn open_patch(&mut self, blob: &Blob) -> io::Result<Box<dyn Read + '_>> {
        let patch = self.patches.get(&blob.digest);
        let patch = patch.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
        Ok(Box::new(patch.as_slice()))
    }
}

/// A writer into memory that others hold, too.
struct Shared(Rc<RefCell<Vec<u8>>>);

impl io::Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn plain(blob: &Blob, blobs: &MemoryBlobs) -> Vec<u8> {
    let all = Rc::new(RefCell::new(Vec::new()));
    let carried = blobs.by_digest[&blob.digest].as_slice();
    decode::decode(blob, carried, &Limits::default(), &mut |_| {
        Ok(Some(Box::new(Shared(all.clone())) as Box<dyn io::Write>))
    })
    .unwrap();
    all.take()
}

/// The patch that makes `new` of `old`, whose blob is said to be `named`.
fn patch(new: &[u8], old: &[u8], named: Digest) -> Vec<u8> {
    let source = Source {
        blob: named,
        view: View::Contents,
    };
    let mut maker = Maker::new(vec![source], Cursor::new(Vec::new()));
    let all = Region {
        source: 0,
        offset: 0,
        length: old.len() as u64,
    };
    let all = (all.length > 0).then_some(all);
    maker.patch(new, all.as_slice(), old).unwrap();
    let mut bytes = Vec::new();
    maker.finish(&mut bytes).unwrap();
    bytes
}

/// The published bundle `number` for sites with `earlier`: every blob that they lack as a patch, each changed by `forge`.
pub fn copy(
    centre: &Centre,
    (draft, number): (&Draft, u64),
    (earlier, before): (&Draft, u64),
    forge: impl Fn(&Blob, Vec<u8>) -> Vec<u8>,
) -> PathBuf {
    let (index, blobs) = centre.index(draft, number);
    let (old, old_blobs) = centre.index(earlier, before);
    let has: BTreeSet<Digest> = old.blobs.iter().map(|blob| blob.digest).collect();
    let lacking = index
        .blobs
        .iter()
        .filter(|blob| !has.contains(&blob.digest));
    let patches = lacking.map(|blob| {
        // Packs are made of packs, and what is large of what is large.
        let like = old
            .blobs
            .iter()
            .find(|one| one.encoding == blob.encoding)
            .unwrap();
        let bytes = patch(&plain(blob, &blobs), &plain(like, &old_blobs), like.digest);
        (blob.digest, forge(blob, bytes))
    });
    let patches: BTreeMap<_, _> = patches.collect();
    let sizes = patches
        .iter()
        .map(|(blob, bytes)| (*blob, bytes.len() as u64));
    let base = Base {
        number: before,
        index: Digest::of(&old.to_bytes()),
    };
    let volume = Volume::since_with(&index, &[(base, has)], &sizes.collect()).unwrap();
    write(centre, &index, &volume, WithPatches { blobs, patches })
}

fn write(centre: &Centre, index: &Index, volume: &Volume, mut blobs: WithPatches) -> PathBuf {
    let name = format!(
        "{}-{}.patches.outhaul",
        index.stream.cluster_type, index.number
    );
    centre.part(index, volume, &mut blobs, &name)
}

/// A centre that published bundles 1 and 2, and a site with bundle 1.
struct Case {
    centre: Centre,
    site: Site,
    first: PathBuf,
    second: PathBuf,
}

impl Case {
    fn new() -> Self {
        let centre = Centre::new();
        let site = Site::new(&centre, "drone-7");
        let first = centre.publish(&draft("one"));
        let second = centre.publish(&draft("two"));
        site.take(&first);
        Self {
            centre,
            site,
            first,
            second,
        }
    }

    fn copy(&self, forge: impl Fn(&Blob, Vec<u8>) -> Vec<u8>) -> PathBuf {
        copy(&self.centre, (&draft("two"), 2), (&draft("one"), 1), forge)
    }

    fn sound(&self) -> PathBuf {
        self.copy(|_, bytes| bytes)
    }

    /// Takes a forged copy, which must be refused by `rule` and leave everything as it was.
    fn refuses(&self, copy: &Path, exit: i32, rule: &str, words: &[&str]) {
        let before = self.site.kept();
        let planned = self.site.run(&["plan", copy.to_str().unwrap()]);
        assert_reports(&planned, exit, words);
        assert_reports(&self.site.import(copy), exit, words);
        assert_eq!(self.site.kept(), before);
        assert_eq!(self.site.refusals(rule).len(), 1, "{rule}");
        // The whole bundle always works.
        self.site.take(&self.second);
        assert_eq!(self.site.active(), Some(2));
    }
}

#[test]
fn a_copy_with_patches_gives_what_the_whole_bundle_gives_and_the_next_builds_on_it() {
    let case = Case::new();
    let copy = case.sound();
    let sizes = [&case.second, &copy].map(|path| fs::metadata(path).unwrap().len());
    assert!(sizes[0] > sizes[1] + 200_000, "{sizes:?}");
    let before = case.site.kept();
    let planned = case.site.run(&["plan", copy.to_str().unwrap()]);
    assert_eq!(code(&planned), 0, "{}", stderr(&planned));
    assert!(
        stdout(&planned).contains("manifest.yaml"),
        "{}",
        stdout(&planned)
    );
    assert_eq!(case.site.kept(), before);
    case.site.take(&copy);
    let other = Site::new(&case.centre, "drone-8");
    other.take(&case.first);
    other.take(&case.second);
    assert_eq!(case.site.applied(), other.applied());
    let folder = |site: &Site| tree(&site.state().join("generations/2"));
    assert_eq!(folder(&case.site), folder(&other));
    let again = case.site.import(&copy);
    assert!(
        stdout(&again).contains("already active"),
        "{}",
        stdout(&again)
    );
    // What was made is kept as its contents: it puts back what is lost, and the next patch builds on it.
    let lost = case
        .site
        .state()
        .join("generations/2/assignments/hello/manifest.yaml");
    fs::remove_file(&lost).unwrap();
    assert_eq!(code(&case.site.import(&copy)), 0);
    assert_eq!(fs::read(&lost).unwrap(), b"greeting: two\n");
    case.centre.publish(&draft("three"));
    let third = self::copy(
        &case.centre,
        (&draft("three"), 3),
        (&draft("two"), 2),
        |_, b| b,
    );
    case.site.take(&third);
    assert_eq!(case.site.active(), Some(3));
    // Nothing is left over of what was needed only to make it.
    let names = tree(&case.site.state().join("blobs")).into_keys();
    assert!(names.filter(|name| name.contains("partial")).count() == 0);
}

#[test]
fn a_patch_whose_base_the_site_lacks_names_what_it_has_and_the_whole_bundle_works() {
    let case = Case::new();
    let other = Site::new(&case.centre, "drone-9");
    other.take(&case.centre.publish_as(&Draft::hello("hi"), 3));
    case.centre.publish(&draft("four"));
    let copy = self::copy(
        &case.centre,
        (&draft("four"), 4),
        (&draft("two"), 2),
        |_, b| b,
    );
    let before = other.kept();
    assert_reports(
        &other.import(&copy),
        1,
        &[
            "bundle 2",
            "this site has bundle 3",
            "help: bring the whole bundle",
        ],
    );
    assert_eq!(other.kept(), before);
}

#[test]
fn a_patch_that_names_a_blob_that_no_index_of_the_site_has_is_refused() {
    let case = Case::new();
    let (_, blobs) = case.centre.index(&draft("two"), 2);
    let (old, old_blobs) = case.centre.index(&draft("one"), 1);
    let forged = case.copy(|blob, _| {
        let like = old
            .blobs
            .iter()
            .find(|one| one.encoding == blob.encoding)
            .unwrap();
        let nobody = Digest::of(b"nobody has it");
        patch(&plain(blob, &blobs), &plain(like, &old_blobs), nobody)
    });
    let words = [
        "which is not here; this site has bundle 1",
        "help: bring the whole bundle",
    ];
    case.refuses(&forged, 1, "patch-base", &words);
}

#[test]
fn a_patch_whose_base_is_damaged_on_the_site_is_refused() {
    let case = Case::new();
    let copy = case.sound();
    let (old, _) = case.centre.index(&draft("one"), 1);
    let pack = old
        .blobs
        .iter()
        .find(|blob| blob.contents.len() > 1)
        .unwrap();
    let store = case
        .site
        .state()
        .join("blobs/sha256")
        .join(pack.digest.hex());
    let mut bytes = fs::read(&store).unwrap();
    bytes[100] ^= 1;
    fs::write(&store, bytes).unwrap();
    case.refuses(&copy, 1, "patch-base", &["which is damaged here"]);
}

#[test]
fn a_patch_that_makes_other_bytes_than_were_signed_is_refused() {
    let case = Case::new();
    let (_, blobs) = case.centre.index(&draft("two"), 2);
    let (old, old_blobs) = case.centre.index(&draft("one"), 1);
    let forged = case.copy(|blob, _| {
        let mut plain = plain(blob, &blobs);
        plain[5] ^= 1;
        let like = old
            .blobs
            .iter()
            .find(|one| one.encoding == blob.encoding)
            .unwrap();
        patch(&plain, &self::plain(like, &old_blobs), like.digest)
    });
    case.refuses(
        &forged,
        4,
        "patch",
        &["the patch makes sha256:", "the signed index states"],
    );
}

#[test]
fn a_patch_that_is_a_decompression_bomb_is_refused() {
    let case = Case::new();
    let zeros = vec![0; 16 << 20];
    let forged = case.copy(|_, _| patch(&zeros, b"", Digest::of(b"nobody has it")));
    case.refuses(
        &forged,
        4,
        "patch",
        &["the patch makes 16777216 bytes, and the signed index states"],
    );
}

#[test]
fn a_damaged_or_truncated_patch_is_refused() {
    for damage in [0, 1] {
        let case = Case::new();
        let forged = case.copy(|_, mut bytes| {
            match damage {
                0 => bytes.truncate(bytes.len() - 1),
                _ => {
                    let last = bytes.len() - 1;
                    bytes[last] ^= 1;
                }
            }
            bytes
        });
        case.refuses(
            &forged,
            4,
            "digest",
            &["patches/sha256/", "expected digest"],
        );
    }
}

/// Writes the checksum of a tar header that was changed.
fn sum_header(header: &mut [u8]) {
    header[148..156].copy_from_slice(b"        ");
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    header[148..156].copy_from_slice(format!("{sum:07o}\0").as_bytes());
}

#[test]
fn a_patch_under_a_name_outside_of_the_bundle_is_refused() {
    let case = Case::new();
    let copy = case.sound();
    let mut bytes = fs::read(&copy).unwrap();
    let name = b"patches/sha256/";
    let at = bytes
        .windows(name.len())
        .position(|window| window == name)
        .unwrap();
    bytes[at..at + name.len()].copy_from_slice(b"../../../../etc");
    sum_header(&mut bytes[at..at + 512]);
    fs::write(&copy, bytes).unwrap();
    case.refuses(
        &copy,
        4,
        "member-name",
        &["a member is called `../../../../etc"],
    );
}

#[test]
fn a_patch_larger_than_what_it_makes_is_refused() {
    let case = Case::new();
    let forged = case.copy(|blob, mut bytes| {
        bytes.resize(usize::try_from(blob.size).unwrap() + 1, 0);
        bytes
    });
    case.refuses(&forged, 4, "limit", &["patches/sha256/", "the limit is"]);
}

#[test]
fn attack_a_patch_that_is_only_said_to_be_huge_is_refused_and_asks_for_no_space() {
    let case = Case::new();
    let copy = case.sound();
    let mut bytes = fs::read(&copy).unwrap();
    let name = b"volume.json\0";
    let found = bytes.windows(name.len()).position(|window| window == name);
    let at = found.unwrap();
    let size = std::str::from_utf8(&bytes[at + 124..at + 135]).unwrap();
    let size = usize::from_str_radix(size, 8).unwrap();
    let text = String::from_utf8(bytes[at + 512..at + 512 + size].to_vec()).unwrap();
    // The size of the first patch, in a file that nobody signs.
    let begin = text.find("\"patches\":[[").unwrap();
    let number = begin + text[begin..].find(',').unwrap() + 1;
    let end = number + text[number..].find(']').unwrap();
    let forged = format!("{}4398046511104{}", &text[..number], &text[end..]);
    assert_eq!(forged.len().div_ceil(512), size.div_ceil(512));
    bytes[at + 512..at + 512 + forged.len()].copy_from_slice(forged.as_bytes());
    bytes[at + 124..at + 135].copy_from_slice(format!("{:011o}", forged.len()).as_bytes());
    sum_header(&mut bytes[at..at + 512]);
    fs::write(&copy, bytes).unwrap();
    case.refuses(&copy, 4, "limit", &["patches/sha256/", "the limit is"]);
}
