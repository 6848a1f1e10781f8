//! A bundle of many files: its index travels compressed.
//!
//! What comes in: the factory example with 2,000 files more. What must come out: a file that `tar` lists, much smaller than its index; the
//! same through `verify`, parts and a second run; a site that compares it with signed metadata before it decompresses it.

use std::fs;
use std::process::Command;

use super::delivery::{Centre, message};

/// The members of a bundle as `tar` lists them: name and size in bytes.
fn members(file: &std::path::Path) -> Vec<(String, u64)> {
    let listed = Command::new("tar").args(["-tvf"]).arg(file).output();
    let listed = listed.unwrap();
    assert!(listed.status.success(), "{}", message(&listed));
    let text = String::from_utf8(listed.stdout).unwrap();
    let member = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        (words[5].to_owned(), words[2].parse().unwrap())
    };
    text.lines().map(member).collect()
}

fn size_of(members: &[(String, u64)], name: &str) -> Option<u64> {
    let mut found = members.iter().filter(|(member, _)| member == name);
    found.next().map(|(_, size)| *size)
}

#[test]
fn the_index_of_many_files_travels_compressed_and_is_what_was_signed() {
    let centre = Centre::new();
    let root = centre.folder.path();
    let folder = root.join("label-printer/manifests/dev/labels");
    fs::create_dir_all(&folder).unwrap();
    for number in 0..2000 {
        fs::write(folder.join(format!("{number}.txt")), format!("{number}\n")).unwrap();
    }
    // Three that no compressor makes smaller, for parts that differ.
    for number in 0u32..3 {
        let digests = (0u32..2200).flat_map(|at| {
            let seed = [number.to_le_bytes(), at.to_le_bytes()].concat();
            *outhaul_bundle::Digest::of(&seed).as_bytes()
        });
        fs::write(
            folder.join(format!("{number}.bin")),
            digests.collect::<Vec<u8>>(),
        )
        .unwrap();
    }
    let made = centre.bundle("  expiresDays: 30\n");
    assert!(made.status.success(), "{}", message(&made));
    let bundle = root.join("stick/dev-bench-1.outhaul");
    let listed = members(&bundle);
    let compressed = size_of(&listed, "index.json.zst").unwrap();
    assert_eq!(size_of(&listed, "index.json"), None);
    // Metadata lists both: the index as clients of The Update Framework know it, and what is carried of it.
    let metadata = fs::read_dir(root.join("fleet/metadata")).unwrap();
    let mut files = metadata.map(|entry| entry.unwrap().path());
    let stream = files.find(|path| {
        path.file_name()
            .unwrap()
            .to_string_lossy()
            .starts_with("1.s-")
    });
    let stream: serde_json::Value =
        serde_json::from_slice(&fs::read(stream.unwrap()).unwrap()).unwrap();
    let targets = stream["signed"]["targets"].as_object().unwrap();
    let target = targets.values().next().unwrap();
    assert_eq!(target["custom"]["zstd"]["length"], compressed);
    let whole = target["length"].as_u64().unwrap();
    assert!(compressed * 3 < whole, "{compressed} of {whole}");

    let run = |words: &str| {
        let done = centre.outhaul(words);
        assert!(done.status.success(), "{words}: {}", message(&done));
        String::from_utf8(done.stdout).unwrap()
    };
    run("verify stick/dev-bench-1.outhaul --fleet fleet");
    fs::create_dir(root.join("parts")).unwrap();
    run("copy --fleet fleet --to parts --volume-size 260K --parity 1");
    let mut parts = 0;
    for entry in fs::read_dir(root.join("parts")).unwrap() {
        let listed = members(&entry.unwrap().path());
        assert_eq!(size_of(&listed, "index.json.zst"), Some(compressed));
        parts += 1;
    }
    assert!(parts > 1);
    // Published for those that pull: both, and they take the smaller one.
    let again = centre.bundle_with("  expiresDays: 30\n", "--publish web");
    assert!(again.status.success(), "{}", message(&again));
    assert!(
        message(&again).contains("unchanged") || !root.join("stick/dev-bench-2.outhaul").exists()
    );
    let mut published = Vec::new();
    for role in fs::read_dir(root.join("web/targets")).unwrap() {
        for file in fs::read_dir(role.unwrap().path()).unwrap() {
            published.push(file.unwrap().metadata().unwrap().len());
        }
    }
    published.sort_unstable();
    assert_eq!(published, [compressed, whole]);
}
