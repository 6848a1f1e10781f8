//! The last bundles once more, onto other sticks: the same bytes, read back; a stick that takes them not is named.
//!
//! What comes in: the real program, a fleet that shipped a bundle, and sticks that are good, full, read-only or not
//! there. What must come out: whole files, or exit code 3 and nothing on the stick.

use std::fs;
use std::process::Command;

use super::kept::Fleet;
use super::repositories::commit;

#[test]
fn a_second_stick_gets_the_same_bytes_read_back_and_without_a_control_plane() {
    let fleet = Fleet::new();
    let seen = fleet.bundle(&[]);
    assert!(seen.starts_with("exit code 0"), "{seen}");
    let first = fs::read(fleet.path("out/dev-drone-1.outhaul")).unwrap();
    let run = |more: &[&str]| {
        let mut command = vec!["copy", "--fleet", "fleet", "--to", "stick"];
        command.extend(more);
        fleet.fixture.run_only(&command)
    };
    // A stick that is not mounted is not made up.
    let seen = run(&[]);
    assert!(
        seen.starts_with("exit code 3") && seen.contains("`stick`"),
        "{seen}"
    );
    assert!(!fleet.path("stick").exists());

    fs::create_dir(fleet.path("stick")).unwrap();
    let copy = fleet.path("stick/dev-drone-1.outhaul");
    let seen = run(&[]);
    assert!(seen.starts_with("exit code 0"), "{seen}");
    assert!(
        seen.contains("dev/drone: number 1, ") && seen.contains("written and read back"),
        "{seen}"
    );
    assert!(seen.contains("a stick is safe to remove now"), "{seen}");
    assert_eq!(fs::read(&copy).unwrap(), first);
    let seen = run(&["--environment", "dev", "--cluster-type", "drone"]);
    assert!(seen.contains("there already, read back"), "{seen}");
    // What the stick gives back otherwise, and what a pulled stick left, is written again.
    fs::write(&copy, "worn out").unwrap();
    fs::write(fleet.path("stick/.dev-drone-1.outhaul.tmp"), "half").unwrap();
    let seen = run(&[]);
    assert!(seen.contains("written and read back"), "{seen}");
    assert_eq!(fs::read(&copy).unwrap(), first);
    assert_eq!(fs::read_dir(fleet.path("stick")).unwrap().count(), 1);

    let seen = run(&["--environment", "prod"]);
    assert!(
        seen.starts_with("exit code 2") && seen.contains("it keeps those of dev/drone"),
        "{seen}"
    );
    // The fleet's own copy is compared with what was signed.
    fs::remove_file(&copy).unwrap();
    let own = fs::read_dir(fleet.path("fleet/bundles")).unwrap();
    let own = own.map(|entry| entry.unwrap().path());
    let own = own
        .into_iter()
        .find(|path| path.extension().is_some_and(|ending| ending == "outhaul"));
    fs::write(own.unwrap(), "another").unwrap();
    let seen = run(&[]);
    assert!(
        seen.starts_with("exit code 3") && seen.contains("was changed"),
        "{seen}"
    );
    assert_eq!(fs::read_dir(fleet.path("stick")).unwrap().count(), 0);
}

#[test]
fn a_stream_whose_bundle_the_fleet_lost_is_named_and_not_passed_over() {
    let fleet = Fleet::new();
    assert!(fleet.bundle(&[]).starts_with("exit code 0"));
    fs::create_dir(fleet.path("stick")).unwrap();
    let kept = fs::read_dir(fleet.path("fleet/bundles")).unwrap();
    let kept = kept.map(|entry| entry.unwrap().path());
    let mut records = kept
        .into_iter()
        .filter(|path| path.extension().is_some_and(|end| end == "json"));
    fs::remove_file(records.next().unwrap()).unwrap();
    let seen = fleet
        .fixture
        .run_only(&["copy", "--fleet", "fleet", "--to", "stick"]);
    assert!(seen.starts_with("exit code 3"), "{seen}");
    assert!(
        seen.contains(
            "number 1 of dev/drone was signed last, and the fleet keeps no copy of its bundle"
        ),
        "{seen}"
    );
    assert_eq!(fs::read_dir(fleet.path("stick")).unwrap().count(), 0);
}

#[test]
fn a_hub_that_was_typed_and_would_not_be_asked_is_refused() {
    let fleet = Fleet::new();
    fs::create_dir(fleet.path("stick")).unwrap();
    let authority = include_str!("../../registry/testdata/authority.pem");
    fs::write(fleet.path("ca.pem"), authority).unwrap();
    for typed in [["--hub", "https://hub.example"], ["--hub-ca", "ca.pem"]] {
        let command = [
            "copy", "--fleet", "fleet", "--to", "stick", "--for", "drone-1",
        ];
        let seen = fleet.fixture.run_only(&[&command[..], &typed].concat());
        assert!(seen.starts_with("exit code 2"), "{seen}");
        let missing = "required arguments were not provided";
        assert!(
            seen.contains(missing) && seen.contains("  --ask-hub"),
            "{seen}"
        );
    }
}

#[test]
fn a_full_or_read_only_stick_is_named_and_nothing_is_left_on_it() {
    let fleet = Fleet::new();
    fs::create_dir(fleet.path("stick")).unwrap();
    let stick = fleet.path("stick");
    let mount = |options: &str| {
        let mut mount = Command::new("mount");
        mount
            .args(["-t", "tmpfs", "-o", options, "outhaul-test"])
            .arg(&stick);
        mount.output().is_ok_and(|done| done.status.success())
    };
    if !mount("size=8k") {
        outhaul_tests::skipped("a small file system cannot be mounted here");
        return;
    }
    let umount = || {
        Command::new("umount")
            .arg(&stick)
            .status()
            .unwrap()
            .success()
    };
    let full = fleet.bundle_to("stick", &[]);
    let left = fs::read_dir(&stick).unwrap().count();
    assert!(umount());
    assert!(full.starts_with("exit code 3"), "{full}");
    for word in [
        "stick/dev-drone-1.outhaul",
        "8192 bytes are free",
        "help: free some space there or use a larger",
        "make it in a folder of this machine with `--out DIR`, then `outhaul copy",
        "bundle 1 is signed and on record, and `stick/dev-drone-1.outhaul` was not written",
    ] {
        assert!(full.contains(word), "{word}: {full}");
    }
    assert_eq!(left, 0);
    assert!(mount("ro"));
    let read_only = fleet.bundle_to("stick", &[]);
    assert!(umount());
    assert!(read_only.starts_with("exit code 3"), "{read_only}");
    assert!(
        read_only.contains("Read-only") || read_only.contains("read-only"),
        "{read_only}"
    );
    // A stick that takes it gets a number that was not signed before, and is distinguished from a folder.
    assert!(mount("size=1m"));
    let good = fleet.bundle_to("stick", &[]);
    let there = fs::read_dir(&stick).unwrap().count();
    assert!(umount());
    assert!(good.starts_with("exit code 0"), "{good}");
    assert_eq!(there, 1);
    assert!(good.contains("a stick is safe to remove now"), "{good}");
}

/// A fleet that has shipped three files of 160 kB, which no compression makes smaller.
fn with_large_files() -> Fleet {
    let fleet = Fleet::new();
    for name in ["one", "two", "three"] {
        let noise: Vec<u8> = (0..40_000u32)
            .map(|at| (at.wrapping_mul(2_654_435_761) >> 3) ^ u32::from(name.as_bytes()[1]))
            .flat_map(u32::to_le_bytes)
            .collect();
        fs::write(fleet.path(&format!("manifests/here/{name}.gz")), noise).unwrap();
    }
    commit(&fleet.path("manifests"), "large files");
    let seen = fleet.bundle(&[]);
    assert!(seen.starts_with("exit code 0"), "{seen}");
    fleet
}

#[test]
fn parts_are_the_same_bytes_again_and_the_smallest_size_and_the_stick_that_is_too_small_are_named()
{
    let fleet = with_large_files();
    let run = |to: &str, more: &[&str]| {
        let _ = fs::create_dir(fleet.path(to));
        let command = ["copy", "--fleet", "fleet", "--to", to, "--volume-size"];
        fleet.fixture.run_only(&[&command[..], more].concat())
    };
    let seen = run("first", &["1K"]);
    assert!(seen.starts_with("exit code 2"), "{seen}");
    assert!(
        seen.contains("is too small") && seen.contains("is the smallest that works"),
        "{seen}"
    );
    assert_eq!(fs::read_dir(fleet.path("first")).unwrap().count(), 0);
    let seen = run("first", &["300K"]);
    assert!(
        seen.starts_with("exit code 0") && seen.contains("a stick is safe to remove"),
        "{seen}"
    );
    let parts = outhaul_test_kit::folder::files(&fleet.path("first"));
    assert!(parts.len() > 1, "{seen}");
    let last = format!("dev-drone-1.part{0}of{0}.outhaul", parts.len());
    assert!(fleet.path(&format!("first/{last}")).is_file(), "{seen}");
    for (path, bytes) in &parts {
        assert!(bytes.len() <= 300 * 1024, "{path:?}");
    }
    // Over two sticks they are the same bytes; what is there already is read back.
    let count = parts.len().to_string();
    let seen = run("second", &["300K", "--part", &count]);
    assert!(seen.contains(&last), "{seen}");
    assert_eq!(fs::read_dir(fleet.path("second")).unwrap().count(), 1);
    let seen = run("second", &["300K"]);
    assert!(seen.contains("there already, read back"), "{seen}");
    assert_eq!(
        outhaul_test_kit::folder::files(&fleet.path("second")),
        parts
    );
    let seen = run("second", &["300K", "--part", "99"]);
    assert!(
        seen.starts_with("exit code 2") && seen.contains("its parts are 1 to"),
        "{seen}"
    );
    // Each is verified alone, and none is taken for a bundle.
    let part = format!("second/{last}");
    let seen = fleet
        .fixture
        .run_only(&["inspect", "--fleet", "fleet", &part]);
    assert!(seen.starts_with("exit code 0"), "{seen}");
    assert!(
        seen.contains("signatures  hold") && seen.contains("a site needs part 1"),
        "{seen}"
    );
    assert!(
        seen.contains(" in this file; ") && seen.contains(" are not in it"),
        "{seen}"
    );
    // A bundle that fits is written whole.
    let seen = run("whole", &["3900M", "--part", "7"]);
    assert!(
        seen.starts_with("exit code 2") && seen.contains("its parts are 1 to 1"),
        "{seen}"
    );
    assert_eq!(fs::read_dir(fleet.path("whole")).unwrap().count(), 0);
    let seen = run("whole", &["3900M"]);
    assert!(fleet.path("whole/dev-drone-1.outhaul").is_file(), "{seen}");
}

#[test]
fn parity_parts_are_the_same_bytes_again_and_are_verified_and_shown_as_what_they_are() {
    let fleet = with_large_files();
    let run = |to: &str, more: &[&str]| {
        let _ = fs::create_dir(fleet.path(to));
        let command = ["copy", "--fleet", "fleet", "--to", to];
        fleet.fixture.run_only(&[&command[..], more].concat())
    };
    for wrong in [
        &["--parity", "1"][..],
        &["--volume-size", "300K", "--parity", "0"],
        &["--volume-size", "300K", "--parity", "65"],
        &["--volume-size", "300K", "--parity-part", "1"],
    ] {
        let seen = run("none", wrong);
        assert!(seen.starts_with("exit code 2"), "{seen}");
    }
    let seen = run("first", &["--volume-size", "300K", "--parity", "2"]);
    assert!(seen.starts_with("exit code 0"), "{seen}");
    let first = outhaul_test_kit::folder::files(&fleet.path("first"));
    let parity = fleet.path("first/dev-drone-1.2of2.parity");
    assert!(parity.is_file(), "{seen}");
    assert!(fs::metadata(&parity).unwrap().len() <= 300 * 1024);
    // Piece by piece on another stick they are the same; what is worn out is written again.
    let seen = run(
        "second",
        &[
            "--volume-size",
            "300K",
            "--parity",
            "2",
            "--parity-part",
            "2",
        ],
    );
    assert_eq!(
        fs::read_dir(fleet.path("second")).unwrap().count(),
        1,
        "{seen}"
    );
    let copy = fleet.path("second/dev-drone-1.2of2.parity");
    let mut worn = fs::read(&copy).unwrap();
    let middle = worn.len() / 2;
    worn[middle] ^= 1;
    fs::write(&copy, worn).unwrap();
    let seen = run("second", &["--volume-size", "300K", "--parity", "2"]);
    assert!(!seen.contains("there already"), "{seen}");
    assert_eq!(
        outhaul_test_kit::folder::files(&fleet.path("second")),
        first
    );
    let seen = run("second", &["--volume-size", "300K", "--parity", "2"]);
    assert!(!seen.contains("written and read back"), "{seen}");
    let seen = run(
        "second",
        &[
            "--volume-size",
            "300K",
            "--parity",
            "2",
            "--parity-part",
            "3",
        ],
    );
    assert!(
        seen.starts_with("exit code 2") && seen.contains("there is no parity part 3"),
        "{seen}"
    );
    // A bundle that fits is one part, and so is its parity.
    let seen = run("whole", &["--volume-size", "3900M", "--parity", "1"]);
    assert!(seen.contains("dev-drone-1.part1of1.outhaul"), "{seen}");
    assert!(
        fleet.path("whole/dev-drone-1.1of1.parity").is_file(),
        "{seen}"
    );
    let path = "second/dev-drone-1.2of2.parity";
    let seen = fleet
        .fixture
        .run_only(&["verify", "--fleet", "fleet", path]);
    assert!(seen.starts_with("exit code 0"), "{seen}");
    assert!(
        seen.contains("signatures hold, the parity in this file is as it was written")
            && seen.contains("this is parity part 2 of 2 for the bundle in"),
        "{seen}"
    );
    let seen = fleet
        .fixture
        .run_only(&["inspect", "--fleet", "fleet", path]);
    assert!(seen.contains("parity      parity part 2 of 2"), "{seen}");
    assert!(
        seen.contains("the digest of the parity checked; no blob is in this file"),
        "{seen}"
    );
    assert!(!seen.contains("every digest"), "{seen}");
    let mut worn = fs::read(&copy).unwrap();
    worn[middle] ^= 1;
    fs::write(&copy, worn).unwrap();
    let seen = fleet
        .fixture
        .run_only(&["verify", "--fleet", "fleet", path]);
    assert!(seen.starts_with("exit code 4"), "{seen}");
}

#[test]
fn the_smallest_size_that_is_named_works_when_it_is_typed_and_no_smaller_one_does() {
    let small = Fleet::new();
    assert!(small.bundle(&[]).starts_with("exit code 0"));
    let large = with_large_files();
    let cases: [(&Fleet, &[&str]); 3] =
        [(&small, &[]), (&large, &[]), (&large, &["--parity", "1"])];
    for (at, (fleet, more)) in cases.into_iter().enumerate() {
        let to = format!("stick-{at}");
        fs::create_dir(fleet.path(&to)).unwrap();
        let sized = |size: &str| {
            let command = [
                "copy",
                "--fleet",
                "fleet",
                "--to",
                &to,
                "--volume-size",
                size,
            ];
            fleet.fixture.run_only(&[&command[..], more].concat())
        };
        let seen = sized("1K");
        assert!(seen.starts_with("exit code 2"), "{seen}");
        let (_, named) = seen.split_once("help: `--volume-size ").unwrap();
        let (named, _) = named.split_once('`').unwrap();
        let less = named.parse::<u64>().unwrap() - 1;
        let seen = sized(&less.to_string());
        assert!(
            seen.starts_with("exit code 2") && seen.contains(named),
            "{seen}"
        );
        assert_eq!(fs::read_dir(fleet.path(&to)).unwrap().count(), 0);
        let seen = sized(named);
        assert!(seen.starts_with("exit code 0"), "{seen}");
    }
}
