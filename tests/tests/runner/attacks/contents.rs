//! Attacks behind a right signature: what a stolen stream key or a bent bundler could put into an index
//! or a blob, against the machine of the site itself.

use outhaul_bundle::Digest;
use outhaul_bundle::index::{Content, Encoding, File};

use super::stage::{Parts, Play, Stage, limits};

fn running() -> (Stage, Parts) {
    let mut stage = Stage::new();
    let first = stage.next("first");
    (stage, first)
}

/// An index whose path `manifest.yaml` is written differently.
fn path(paths: &[&str]) -> Play {
    let (mut stage, first) = running();
    let attacks: Vec<_> = paths
        .iter()
        .map(|path| {
            let written = serde_json::to_string(path).unwrap();
            let bend = |text: String| text.replacen("\"manifest.yaml\"", &written, 1);
            stage.next_text("evil", bend).bytes()
        })
        .collect();
    stage.refuses_bytes(&[&first], &attacks)
}

pub fn path_traversal() -> Play {
    path(&["../../etc/cron.d/evil", "a/../../b", "..", "a/.."])
}

pub fn absolute_path() -> Play {
    path(&["/etc/cron.d/evil", "C:\\evil", "\\\\host\\share"])
}

pub fn path_with_odd_characters() -> Play {
    path(&["a\u{0}b", "a\nb", "a//b", "", ".", "a/./b"])
}

pub fn case_folded_paths() -> Play {
    path(&["NOTES/read-me.TXT"])
}

pub fn file_that_is_also_a_folder() -> Play {
    path(&["notes"])
}

pub fn unknown_field() -> Play {
    let (mut stage, first) = running();
    let next = stage.next_text("evil", |text| {
        text.replacen('{', "{\"run_as_root\":true,", 1)
    });
    stage.refuses(&[&first], &next)
}

/// An index with `list` before the field `before`.
fn with_list(before: &str, list: &str) -> Play {
    let (mut stage, first) = running();
    let next = stage.next_text("evil", |text| {
        text.replacen(before, &format!("{list}{before}"), 1)
    });
    stage.refuses(&[&first], &next)
}

pub fn recipients_bomb() -> Play {
    let names = vec!["\"a\""; limits().max_recipients + 1];
    let list = format!("\"recipients\":[{}],", names.join(","));
    with_list("\"snapshot\"", &list)
}

pub fn overlay_bomb() -> Play {
    let overlays = vec!["{\"sites\":[\"a\"],\"files\":[]}"; limits().max_overlays + 1];
    let list = format!("\"overlays\":[{}],", overlays.join(","));
    with_list("\"policies\"", &list)
}

pub fn number_beyond_the_bound() -> Play {
    let (mut stage, first) = running();
    let attacks: Vec<_> = [1_u64 << 53, 1 << 63, u64::MAX]
        .into_iter()
        .map(|number| {
            let bend = |text: String| {
                let at = text.find("\"number\":").unwrap() + "\"number\":".len();
                let end = at + text[at..].find(',').unwrap();
                format!("{}{number}{}", &text[..at], &text[end..])
            };
            stage.next_text("evil", bend).bytes()
        })
        .collect();
    stage.refuses_bytes(&[&first], &attacks)
}

pub fn index_of_another_stream() -> Play {
    let (mut stage, first) = running();
    let next = stage.next_bent("evil", |index| {
        index.stream.cluster_type = "tractor".parse().unwrap();
    });
    stage.refuses(&[&first], &next)
}

pub fn index_of_another_fleet() -> Play {
    let (mut stage, first) = running();
    let next = stage.next_bent("evil", |index| {
        index.fleet = "ffffffffffffffff".parse().unwrap();
    });
    stage.refuses(&[&first], &next)
}

pub fn index_with_another_number() -> Play {
    let (mut stage, first) = running();
    let next = stage.next_bent("evil", |index| index.number = 9);
    stage.refuses(&[&first], &next)
}

pub fn content_that_nothing_carries() -> Play {
    let (mut stage, first) = running();
    let next = stage.next_bent("evil", |index| {
        index.assignments[0].files[0].content = Digest::of(b"elsewhere");
    });
    stage.refuses(&[&first], &next)
}

/// A bundle whose one blob is `carried` and is said to hold `size` bytes of zeros.
fn bomb(carried: &[u8], encoding: Encoding, size: u64) -> (Stage, Parts, Parts) {
    let (mut stage, first) = running();
    let digest = Digest::of(b"what nobody will ever see");
    let content = Content { digest, size };
    let mut next = stage.next_bent("evil", |index| {
        index.blobs.truncate(1);
        let blob = &mut index.blobs[0];
        (blob.digest, blob.size) = (Digest::of(carried), carried.len() as u64);
        (blob.encoding, blob.contents) = (encoding, vec![content]);
        index.assignments[0].files = vec![File {
            path: "bomb".parse().unwrap(),
            content: digest,
            size,
            executable: false,
        }];
    });
    next.blobs.put(carried.to_vec());
    (stage, first, next)
}

pub fn decompression_bomb() -> Play {
    let zeros = zstd::bulk::compress(&vec![0; 64 << 20], 3).unwrap();
    let (stage, first, next) = bomb(&zeros, Encoding::Zstd, 100);
    stage.refuses(&[&first], &next)
}

pub fn decompression_bomb_in_a_pack() -> Play {
    let zeros = zstd::bulk::compress(&vec![0; 64 << 20], 3).unwrap();
    let (stage, first, next) = bomb(&zeros, Encoding::Pack, 100);
    stage.refuses(&[&first], &next)
}

pub fn content_larger_than_the_limit() -> Play {
    let size = limits().max_content_bytes + 1;
    let (stage, first, next) = bomb(b"small", Encoding::Zstd, size);
    stage.refuses(&[&first], &next)
}

pub fn window_bomb() -> Play {
    let mut encoder = zstd::Encoder::new(Vec::new(), 1).unwrap();
    encoder.window_log(30).unwrap();
    std::io::Write::write_all(&mut encoder, &[0; 100]).unwrap();
    let bytes = encoder.finish().unwrap();
    let (stage, first, next) = bomb(&bytes, Encoding::Zstd, 100);
    stage.refuses(&[&first], &next)
}

pub fn not_the_encoding_it_says() -> Play {
    let (stage, first, next) = bomb(b"these bytes are no zstd frame", Encoding::Zstd, 100);
    stage.refuses(&[&first], &next)
}

pub fn digest_of_the_content_is_another() -> Play {
    let hundred = zstd::bulk::compress(&[0; 100], 3).unwrap();
    let (stage, first, next) = bomb(&hundred, Encoding::Zstd, 100);
    stage.refuses(&[&first], &next)
}
