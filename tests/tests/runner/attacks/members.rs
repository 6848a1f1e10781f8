//! Attacks on the tar: its metadata and index are signed and right; what stands around them is not.

use outhaul_bundle::Digest;

use super::stage::{Parts, Play, Stage};
use outhaul_test_kit::archive::{BLOCK, archive, member, with_checksum};

const PLAIN: tar::EntryType = tar::EntryType::Regular;
const ROOT: &str = "metadata/1.root.json";

fn running() -> (Stage, Parts, Parts) {
    let mut stage = Stage::new();
    let first = stage.next("first");
    let next = stage.next("second");
    (stage, first, next)
}

/// The right bundle with each of these members smuggled in, before everything and after.
fn smuggled(extras: &[Vec<u8>]) -> Play {
    let (stage, first, next) = running();
    let right = next.members();
    let attacks: Vec<_> = extras
        .iter()
        .flat_map(|extra| {
            let before = [std::slice::from_ref(extra), &right].concat();
            let after = [&right[..], std::slice::from_ref(extra)].concat();
            [archive(&before), archive(&after)]
        })
        .collect();
    stage.refuses_bytes(&[&first], &attacks).then_takes(&next)
}

/// What an attacker does to the members of a bundle.
type Change<'a> = dyn Fn(&Parts, &mut Vec<Vec<u8>>) + 'a;

/// The right bundle with its members changed.
fn changed(changes: &[&Change<'_>]) -> Play {
    let (stage, first, next) = running();
    let attacks: Vec<_> = changes
        .iter()
        .map(|change| {
            let mut members = next.members();
            change(&next, &mut members);
            archive(&members)
        })
        .collect();
    stage.refuses_bytes(&[&first], &attacks).then_takes(&next)
}

pub fn path_traversal() -> Play {
    let names = [
        "../etc/passwd",
        "metadata/../../x",
        "blobs/sha256/../../../x",
    ];
    smuggled(&names.map(|name| member(name, PLAIN, b"x")))
}

pub fn absolute_path() -> Play {
    let names = ["/etc/passwd", "C:\\x", "\\\\host\\share"];
    smuggled(&names.map(|name| member(name, PLAIN, b"x")))
}

pub fn symbolic_link() -> Play {
    let link = member(ROOT, tar::EntryType::Symlink, b"");
    let mut disguised = link.clone();
    (disguised[156], disguised[157]) = (b'0', b'x');
    smuggled(&[link, with_checksum(disguised)])
}

pub fn hard_link() -> Play {
    smuggled(&[member("index.json", tar::EntryType::Link, b"")])
}

pub fn device() -> Play {
    let kinds = [tar::EntryType::Char, tar::EntryType::Block];
    smuggled(&kinds.map(|kind| member("metadata/timestamp.json", kind, b"")))
}

pub fn named_pipe() -> Play {
    smuggled(&[member("index.json", tar::EntryType::Fifo, b"")])
}

pub fn folder() -> Play {
    smuggled(&[member("metadata/", tar::EntryType::Directory, b"")])
}

pub fn extension_headers() -> Play {
    let kinds = [b'x', b'g', b'L', b'K', b'S', b'7'].map(tar::EntryType::new);
    smuggled(&kinds.map(|kind| member(ROOT, kind, b"30 path=../../etc/cron.d/evil\n")))
}

pub fn second_spelling_of_a_header() -> Play {
    let mut gnu = tar::Header::new_gnu();
    gnu.set_path(ROOT).unwrap();
    gnu.set_size(0);
    gnu.set_mode(0o644);
    gnu.set_entry_type(PLAIN);
    gnu.set_cksum();
    let mut old_type = member(ROOT, PLAIN, b"");
    old_type[156] = 0;
    smuggled(&[gnu.as_bytes().to_vec(), with_checksum(old_type)])
}

pub fn name_in_the_prefix_field() -> Play {
    let mut extra = member(ROOT, PLAIN, b"");
    extra[345..348].copy_from_slice(b"../");
    smuggled(&[with_checksum(extra)])
}

pub fn name_that_ends_early() -> Play {
    let mut extra = member(ROOT, PLAIN, b"");
    extra[40..44].copy_from_slice(b"evil");
    smuggled(&[with_checksum(extra)])
}

pub fn duplicate_names() -> Play {
    let (stage, first, next) = running();
    let right = next.members();
    let attacks: Vec<_> = (0..right.len())
        .map(|at| {
            let mut doubled = right.clone();
            doubled.insert(at, right[at].clone());
            archive(&doubled)
        })
        .collect();
    stage.refuses_bytes(&[&first], &attacks)
}

pub fn case_folded_names() -> Play {
    let upper = format!("blobs/sha256/{}", Digest::of(b"x").hex().to_uppercase());
    let names = [
        "metadata/1.ROOT.json",
        "Metadata/1.root.json",
        "INDEX.JSON",
        &upper,
    ];
    smuggled(&names.map(|name| member(name, PLAIN, b"x")))
}

pub fn entry_bomb() -> Play {
    let (stage, first, _) = running();
    let entry = |n: usize| member(&format!("metadata/{n}.root.json"), PLAIN, b"");
    let bytes = archive(&(1..=20_000).map(entry).collect::<Vec<_>>());
    stage.refuses_bytes(&[&first], &[bytes])
}

pub fn size_bomb() -> Play {
    let (stage, first, _) = running();
    let announced = [600 * 1024, 1 << 33, 1 << 40, u64::MAX].map(|size| {
        let mut header = tar::Header::new_ustar();
        let plain = member(ROOT, PLAIN, b"");
        header.as_mut_bytes().copy_from_slice(&plain);
        header.set_size(size);
        header.set_cksum();
        header.as_bytes().to_vec()
    });
    let half = vec![b' '; 500 * 1024];
    let entry = |n: usize| member(&format!("metadata/{n}.root.json"), PLAIN, &half);
    let many = archive(&(1..=20).map(entry).collect::<Vec<_>>());
    let attacks: Vec<_> = announced.into_iter().chain([many]).collect();
    stage.refuses_bytes(&[&first], &attacks)
}

pub fn endless_metadata() -> Play {
    let (stage, first, next) = running();
    let mut endless = next.clone();
    let bytes = endless.metadata.get_mut("timestamp.json").unwrap();
    bytes.resize(400 * 1024, b' ');
    stage.refuses(&[&first], &endless)
}

pub fn other_size_than_vouched_for() -> Play {
    let (stage, first, next) = running();
    let right = next.members();
    let attacks: Vec<_> = (next.index_at()..right.len())
        .map(|at| {
            let mut members = right.clone();
            let digits = std::str::from_utf8(&members[at][124..135]).unwrap();
            let size = u64::from_str_radix(digits, 8).unwrap() + 512;
            members[at][124..135].copy_from_slice(format!("{size:011o}").as_bytes());
            members[at] = with_checksum(members[at].clone());
            members[at].extend_from_slice(&[0; BLOCK]);
            archive(&members)
        })
        .collect();
    stage.refuses_bytes(&[&first], &attacks)
}

pub fn truncated() -> Play {
    let (stage, first, next) = running();
    let bytes = next.bytes();
    let lengths = [
        0,
        100,
        512,
        5_000,
        bytes.len() / 2,
        bytes.len() - 1025,
        bytes.len() - 1,
    ];
    let attacks = lengths.map(|length| bytes[..length].to_vec());
    stage.refuses_bytes(&[&first], &attacks).then_takes(&next)
}

pub fn extended() -> Play {
    let (stage, first, next) = running();
    let bytes = next.bytes();
    let extras = [&[0u8][..], &[1], &[0; BLOCK], &bytes];
    let attacks = extras.map(|extra| [&bytes, extra].concat());
    stage.refuses_bytes(&[&first], &attacks)
}

pub fn reordered_members() -> Play {
    let (stage, first, next) = running();
    let right = next.members();
    let mut attacks = Vec::new();
    for a in 0..right.len() {
        for b in 0..a {
            let mut swapped = right.clone();
            swapped.swap(a, b);
            attacks.push(archive(&swapped));
        }
    }
    stage.refuses_bytes(&[&first], &attacks)
}

pub fn left_out_members() -> Play {
    let (stage, first, next) = running();
    let right = next.members();
    // The first root is the one that the site has: it is not needed.
    let attacks: Vec<_> = (1..right.len())
        .map(|at| {
            let mut fewer = right.clone();
            fewer.remove(at);
            archive(&fewer)
        })
        .collect();
    stage.refuses_bytes(&[&first], &attacks).then_takes(&next)
}

pub fn flipped_bits() -> Play {
    let (stage, first, next) = running();
    let bytes = next.bytes();
    let attacks: Vec<_> = (0..40)
        .map(|n| {
            let mut flipped = bytes.clone();
            flipped[n * bytes.len() / 40] ^= 1 << (n % 8);
            flipped
        })
        .collect();
    stage.refuses_bytes(&[&first], &attacks).then_takes(&next)
}

pub fn wrong_checksum() -> Play {
    changed(&[&|_, members| members[0][148..154].copy_from_slice(b"000001")])
}

pub fn blob_of_another_bundle() -> Play {
    let other = Stage::new().next("evil");
    let foreign = other.members().pop().unwrap();
    let content = foreign[BLOCK..].to_vec();
    changed(&[
        &|_, members| members.last_mut().unwrap().clone_from(&foreign),
        &|_, members| {
            let own = members.last_mut().unwrap();
            let length = own.len() - BLOCK;
            let mut content = content.clone();
            content.resize(length, 0);
            own.truncate(BLOCK);
            own.extend_from_slice(&content);
        },
    ])
}

pub fn index_of_another_bundle() -> Play {
    let other = Stage::new().next("evil");
    let foreign = other.members().swap_remove(other.index_at());
    changed(&[&|next, members| members[next.index_at()].clone_from(&foreign)])
}
