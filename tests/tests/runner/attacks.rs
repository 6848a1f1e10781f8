//! Every attack on a site, as bytes that lie in `tests/fixtures/attacks/`, one folder each, and one
//! test each that gives them to the real agent.
//!
//! A folder holds the site's kit, the bundles in the order of their numbers (`take` must become active,
//! `refuse` must not; `NN-FILE.empty` empties a file of the agent's state), and `verdict.txt`: what the agent said of each. A refusal is exit code 4, names
//! the attack, and leaves the applied files, the content store and the generations as they were, within
//! 64 MiB of memory. `OUTHAUL_WRITE_FIXTURES=1` makes the folders again, with new keys.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use outhaul_tests::{Ran, program, run, run_expecting, workspace_root};

mod bombs;
mod contents;
mod members;
mod metadata;
mod stage;
mod tough;

use stage::{Act, Play, SITE};

/// Most memory of the agent in KiB while it looks at an attack: its writable memory, all told.
const MAX_MEMORY_KIB: u32 = 64 * 1024;

/// The table of attacks: each line is a folder, a test, what it is, and what makes it.
macro_rules! attacks {
    ($($test:ident, $about:literal, $make:path;)*) => {
        /// Folder, what the attack is, and what makes it.
        const ATTACKS: &[(&str, &str, fn() -> Play)] = &[$((stringify!($test), $about, $make)),*];
        $(#[test]
        fn $test() {
            act_out(stringify!($test));
        })*
    };
}

attacks! {
    arbitrary_install_unsigned, "A timestamp without signatures.", metadata::unsigned;
    arbitrary_install_foreign_keys, "Everything below our root is signed by keys that it does not name.", metadata::foreign_keys;
    arbitrary_install_key_of_another_stream, "The key of another stream signs this one.", metadata::key_of_another_stream;
    arbitrary_install_key_of_another_role, "The snapshot's key signs the timestamp.", metadata::key_of_another_role;
    arbitrary_install_revoked_stream_key, "A stolen stream key signs after it was revoked.", metadata::revoked_stream_key;
    foreign_fleet, "A whole, rightly signed bundle of another fleet.", metadata::foreign_fleet;
    foreign_fleet_under_our_root, "Another fleet's metadata with our root put before it.", metadata::foreign_metadata_under_our_root;
    foreign_fleet_blobs_under_our_metadata, "Our newest metadata with another fleet's index and blobs.", metadata::blobs_of_another_fleet;
    threshold_by_one_key_under_two_ids, "A root in which one key counts under two ids.", metadata::threshold_by_one_key_under_two_ids;
    threshold_of_zero, "A delegation that needs no signature.", metadata::threshold_of_zero;
    root_by_too_few_signatures, "The next root, signed by one of three where two are needed.", metadata::root_by_too_few;
    root_by_new_keys_alone, "The next root, signed only by the keys that it introduces.", metadata::root_by_new_keys_alone;
    rollback_of_the_timestamp, "An older timestamp than the site has seen.", metadata::rollback_of_the_timestamp;
    rollback_of_the_snapshot, "A new timestamp that points at an older snapshot.", metadata::rollback_of_the_snapshot;
    rollback_of_the_targets, "A new snapshot that pins older targets.", metadata::rollback_of_the_targets;
    rollback_of_the_stream, "A new snapshot that pins an older number of the stream.", metadata::rollback_of_the_stream;
    replay_of_an_old_stick, "Last month's stick, after this month's.", metadata::replay_of_an_old_stick;
    replay_after_the_floors_were_torn, "Last month's stick, after a power cut emptied the file of floors.", metadata::replay_after_the_store_was_torn;
    freeze_by_withholding, "A bundle that was withheld for most of a year, on a site that knows of later time.", metadata::freeze;
    freeze_past_the_date, "A new timestamp over a snapshot whose date has passed.", metadata::expired;
    clock_signed_time_beyond_all_dates, "A signed time of 2099, to shut the site for good.", metadata::signed_time_beyond_all_dates;
    mix_and_match_old_stream, "The new snapshot with the old stream metadata.", metadata::mix_of_an_old_stream;
    mix_and_match_old_snapshot, "The new timestamp with the old snapshot.", metadata::mix_of_an_old_snapshot;
    mix_and_match_two_contents_of_one_number, "A second content under a number that is pinned already.", metadata::two_contents_of_one_number;
    mix_and_match_role_vanishes, "A snapshot that no longer lists a role that it listed.", metadata::role_vanishes;
    mix_and_match_one_file_for_another, "The snapshot in the place of the timestamp.", metadata::one_file_in_the_place_of_another;
    wrong_recipient_stream, "A bundle of the fleet's other stream.", metadata::another_stream;
    wrong_recipient_site, "A bundle for another site of the same stream.", metadata::another_site;
    wrong_recipient_stream_beyond_its_paths, "A delegation that gives the stream another's names.", metadata::stream_beyond_its_paths;
    wrong_recipient_second_target, "A stream that lists more than its index.", metadata::stream_with_a_second_target;
    wrong_number, "A number that is not the version of the stream's metadata.", metadata::number_that_is_not_the_version;
    fast_forward, "After a thief drove the versions up: refused until the keys are changed, then taken.", metadata::fast_forward;
    fast_forward_beyond_the_bound, "Versions of 2^53 and above, which not every reader holds exactly.", metadata::fast_forward_beyond_the_bound;

    tough_cve_2025_2885_root_version_not_sequential, "A root that skips a version.", tough::root_version_not_sequential;
    tough_cve_2025_2886_terminating_delegation, "A terminating delegation of higher priority claims the name.", tough::terminating_delegation_passed_over;
    tough_cve_2025_2887_delegated_role_rolled_back, "A snapshot that pins an older version of a delegated role.", tough::delegated_role_rolled_back;
    tough_cve_2025_2888_refused_timestamp_is_kept, "A refused timestamp that would shut out the honest one if it were kept.", tough::refused_timestamp_is_kept;
    tough_ghsa_2025_cyclic_delegations, "A stream that delegates to itself.", tough::cyclic_delegations;
    tough_cve_2026_6966_threshold_by_duplicates, "A delegated role with one signature twice where two keys are needed.", tough::delegated_threshold_by_duplicates;
    tough_cve_2026_6967_delegated_role_past_its_date, "A delegated role whose date has passed.", tough::delegated_role_past_its_date;
    tough_cve_2026_6967_delegated_role_beside_its_pin, "A delegated role that is not the one the snapshot pins.", tough::delegated_role_beside_its_pin;
    tough_cve_2026_6968_target_name_is_a_path, "A target whose name leads out of its folder.", tough::target_name_that_is_a_path;

    tar_path_traversal, "Members whose names lead out of the bundle.", members::path_traversal;
    tar_absolute_path, "Members with absolute names.", members::absolute_path;
    tar_symbolic_link, "A symbolic link, plain and disguised as a file.", members::symbolic_link;
    tar_hard_link, "A hard link.", members::hard_link;
    tar_device, "A character and a block device.", members::device;
    tar_named_pipe, "A named pipe.", members::named_pipe;
    tar_folder, "A folder.", members::folder;
    tar_extension_headers, "Headers of pax, GNU tar and others that rename what follows.", members::extension_headers;
    tar_second_spelling_of_a_header, "Right names in headers that other tars write.", members::second_spelling_of_a_header;
    tar_name_in_the_prefix_field, "A name that leads out by ustar's second name field.", members::name_in_the_prefix_field;
    tar_name_that_ends_early, "A name with a second one behind its end.", members::name_that_ends_early;
    tar_duplicate_names, "Each member twice, one after the other.", members::duplicate_names;
    tar_case_folded_names, "Names that differ from ours in case only.", members::case_folded_names;
    tar_entry_bomb, "Twenty thousand empty members.", members::entry_bomb;
    tar_size_bomb, "Headers that announce up to 2^64 bytes, and many members just below the limit.", members::size_bomb;
    tar_endless_metadata, "A timestamp followed by 400 KiB of spaces.", members::endless_metadata;
    tar_other_size_than_vouched_for, "Index and blobs one block longer than signed.", members::other_size_than_vouched_for;
    tar_truncated, "The file ends early, at seven places.", members::truncated;
    tar_extended, "Something follows the end.", members::extended;
    tar_reordered_members, "Any two members change places.", members::reordered_members;
    tar_left_out_members, "Any one member is missing.", members::left_out_members;
    tar_flipped_bits, "One bit is flipped, at forty places.", members::flipped_bits;
    tar_wrong_checksum, "A header with a wrong checksum.", members::wrong_checksum;
    tar_blob_of_another_bundle, "Another bundle's blob, under its own name and under ours.", members::blob_of_another_bundle;
    tar_index_of_another_bundle, "Another bundle's index.", members::index_of_another_bundle;

    content_path_traversal, "Signed paths that lead out of the assignment's folder.", contents::path_traversal;
    content_absolute_path, "Signed absolute paths.", contents::absolute_path;
    content_path_with_odd_characters, "Signed paths with NUL, line ends, empty and dot parts.", contents::path_with_odd_characters;
    content_case_folded_paths, "Two signed paths that differ in case only.", contents::case_folded_paths;
    content_file_and_folder_of_one_name, "A signed path that is a file and a folder.", contents::file_that_is_also_a_folder;
    content_unknown_field, "A signed index with a field that no agent knows.", contents::unknown_field;
    content_recipients_bomb, "A signed index for one site more than any stream has.", contents::recipients_bomb;
    content_overlay_bomb, "A signed index with more overlays than any stream has sites.", contents::overlay_bomb;
    content_number_beyond_the_bound, "Signed bundle numbers of 2^53 and above.", contents::number_beyond_the_bound;
    content_index_of_another_stream, "An index that says it is another stream's.", contents::index_of_another_stream;
    content_index_of_another_fleet, "An index that says it is another fleet's.", contents::index_of_another_fleet;
    content_index_with_another_number, "An index that says it is another number.", contents::index_with_another_number;
    content_that_nothing_carries, "A file whose content is in no blob.", contents::content_that_nothing_carries;
    content_decompression_bomb, "2 KiB that become 64 MiB where 100 bytes are signed.", contents::decompression_bomb;
    content_decompression_bomb_in_a_pack, "The same in a pack.", contents::decompression_bomb_in_a_pack;
    content_larger_than_the_limit, "A content that is said to be larger than any site takes.", contents::content_larger_than_the_limit;
    content_window_bomb, "A frame that asks its reader for 1 GiB.", contents::window_bomb;
    content_not_the_encoding_it_says, "A blob that is no zstd frame.", contents::not_the_encoding_it_says;
    content_digest_is_another, "A blob that decompresses to something else.", contents::digest_of_the_content_is_another;
}

fn fixtures() -> PathBuf {
    workspace_root().join("tests/fixtures/attacks")
}

/// The real agent on a state folder of its own.
struct Agent {
    folder: tempfile::TempDir,
}

type Tree = BTreeMap<PathBuf, Vec<u8>>;

impl Agent {
    fn enrolled(kit: &Path) -> Self {
        let agent = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        run_expecting(agent.command().arg("enrol").arg(kit), 0).unwrap();
        agent
    }

    fn state(&self) -> PathBuf {
        self.folder.path().join("state")
    }

    /// The program, with a lid on its memory.
    fn command(&self) -> Command {
        let mut command = Command::new("sh");
        let limit = format!("ulimit -d {MAX_MEMORY_KIB}; exec \"$@\"");
        command.args(["-c", &limit, "sh"]);
        command.arg(program("outhaul-agent").unwrap());
        command.arg("--state").arg(self.state());
        // Advice names no folder then: it is the one that commands use by themselves.
        command.env("OUTHAUL_STATE", self.state());
        command
    }

    fn import(&self, bundle: &Path) -> Ran {
        run(self.command().arg("import").arg(bundle)).unwrap()
    }

    fn active(&self) -> serde_json::Value {
        let status = run_expecting(self.command().args(["status", "--output", "json"]), 0).unwrap();
        let status = outhaul_tests::result(&status.stdout);
        status["active"].clone()
    }

    /// What no refused bundle may change.
    fn kept(&self) -> Tree {
        let mut tree = Tree::new();
        for folder in ["applied", "blobs", "generations"] {
            list(&self.state().join(folder), &mut tree);
        }
        tree
    }
}

fn list(folder: &Path, tree: &mut Tree) {
    for entry in std::fs::read_dir(folder).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            list(&path, tree);
        } else {
            tree.insert(path.clone(), std::fs::read(&path).unwrap());
        }
    }
}

/// Acts out the folder `name`, and sees that the agent says what lies there as its verdict.
fn act_out(name: &str) {
    let folder = fixtures().join(name);
    let (_, about, make) = ATTACKS.iter().find(|(known, ..)| *known == name).unwrap();
    let writing = std::env::var_os("OUTHAUL_WRITE_FIXTURES").is_some();
    if writing {
        write(&folder, about, &make());
    }
    let mut acts: Vec<PathBuf> = std::fs::read_dir(&folder)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "zst" || e == "empty"))
        .collect();
    acts.sort();
    let agent = Agent::enrolled(&folder.join(format!("{SITE}.kit")));
    let mut verdicts = String::new();
    let mut refused = 0;
    for act in &acts {
        let name = act.file_name().unwrap().to_str().unwrap();
        let (stem, _) = name.split_once('.').unwrap();
        if let Some(state_file) = name.strip_suffix(".empty") {
            let (_, state_file) = state_file.split_once('-').unwrap();
            std::fs::write(agent.state().join(state_file), b"").unwrap();
            continue;
        }
        let word = stem.split('-').nth(1).unwrap();
        let bytes = zstd::stream::decode_all(std::fs::File::open(act).unwrap()).unwrap();
        let bundle = agent.folder.path().join(format!("{stem}.outhaul"));
        std::fs::write(&bundle, bytes).unwrap();
        let (before, active) = (agent.kept(), agent.active());
        // A plan says what an import says, and is the one that changes nothing in any case.
        let planned = run(agent.command().arg("plan").arg(&bundle)).unwrap();
        assert!(agent.kept() == before, "{stem}: the plan left something");
        let ran = agent.import(&bundle);
        if word != "take" {
            assert_eq!(
                (planned.code, &planned.stderr),
                (ran.code, &ran.stderr),
                "{stem}: the plan says something else"
            );
        }
        assert!(!ran.stderr.contains("panicked"), "{stem}: {}", ran.stderr);
        if word == "take" {
            assert_eq!(ran.code, Some(0), "{stem}: {}", ran.everything());
            assert_ne!(
                agent.active(),
                active,
                "{stem} is not active: {}",
                ran.everything()
            );
            continue;
        }
        refused += 1;
        let said = ran
            .stderr
            .replace(&*agent.folder.path().to_string_lossy(), "");
        assert_eq!(ran.code, Some(4), "{stem}: {}", ran.everything());
        assert!(
            agent.kept() == before,
            "{stem} left something on disk: {said}"
        );
        assert_eq!(agent.active(), active, "{stem}");
        assert!(
            said.contains("help:"),
            "{stem} does not say what to do: {said}"
        );
        verdicts.push_str(&format!("== {stem}\n{}\n", said.trim_end()));
    }
    assert!(refused > 0, "nothing is attacked in {}", folder.display());
    let file = folder.join("verdict.txt");
    if writing {
        std::fs::write(&file, &verdicts).unwrap();
    }
    let expected = std::fs::read_to_string(&file).unwrap();
    assert_eq!(verdicts, expected, "{name}: the agent says something else");
}

/// Writes the play as files.
fn write(folder: &Path, about: &str, play: &Play) {
    drop(std::fs::remove_dir_all(folder));
    std::fs::create_dir_all(folder).unwrap();
    std::fs::write(folder.join("README.md"), format!("{about}\n")).unwrap();
    std::fs::write(folder.join(format!("{SITE}.kit")), &play.kit).unwrap();
    for (at, act) in play.acts.iter().enumerate() {
        let (word, bytes) = match act {
            Act::Take(bytes) => ("take", bytes),
            Act::Refuse(bytes) => ("refuse", bytes),
            Act::Empty(file) => {
                std::fs::write(folder.join(format!("{at:02}-{file}.empty")), b"").unwrap();
                continue;
            }
        };
        let packed = zstd::bulk::compress(bytes, 19).unwrap();
        let name = format!("{at:02}-{word}.outhaul.zst");
        std::fs::write(folder.join(name), packed).unwrap();
    }
}

#[test]
fn every_folder_of_an_attack_has_a_test() {
    let known: Vec<&str> = ATTACKS.iter().map(|(name, ..)| *name).collect();
    for entry in std::fs::read_dir(fixtures()).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(known.contains(&name.as_str()), "nothing acts out `{name}`");
    }
}
