//! Hostile inputs to the centre: each is one failure, within bounds, and nobody else's.
//!
//! What comes in: the folders of `tests/fixtures/hostile/centre`, each laid over a small control plane,
//! and what is too large to lie there, made here. What must come out of the real program, in 4 GiB of
//! memory and 60 seconds of processor time: the exit code and the words of `verdict.txt`, no panic, and the
//! other team's files. The count is printed past the test runner's capture.

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use outhaul_test_kit::folder::fill;

use super::cli::PlaneFixture;
use super::repositories::{commit, git};
use outhaul_tests::Checked as _;

const LIMITS: &str = "ulimit -v 4194304 && ulimit -t 60 && exec \"$@\"";

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/hostile/centre")
}

#[derive(Default)]
struct Count {
    tried: usize,
    accepted: usize,
    panics: usize,
    over_limits: usize,
    wrong: Vec<String>,
}

/// Two teams, each with a workload; `wave` is sound whatever the case does.
fn stage(case: &Path) -> PlaneFixture {
    let fixture = super::isolation::fixture();
    let root = fixture.folder.path().to_owned();
    let wave = fs::read_to_string(root.join("app/wave.yaml")).unwrap();
    fs::remove_file(root.join("app/wave.yaml")).unwrap();
    fixture.write("wave/workload.yaml", &wave);
    let registration = fs::read_to_string(root.join("main/app.yaml")).unwrap();
    let wave = registration
        .replace("name: app", "name: wave")
        .replace("workspace: team", "workspace: surfers")
        .replace("git.example.org/app", "git.example.org/wave");
    fixture.write("main/wave.yaml", &wave);
    fixture.edit("dev/policy.yaml", "    workspace: team\n", "");
    fixture.write("manifests/here/app.yaml", "version: 1\n");
    fill(case, &root);
    fixture
}

fn run(fixture: &PlaneFixture, command: &[&str]) -> (Option<i32>, String) {
    let output = Command::new("timeout")
        .args([
            "300",
            "sh",
            "-c",
            LIMITS,
            "sh",
            env!("CARGO_BIN_EXE_outhaul"),
        ])
        .args(command)
        .args([
            "--environment",
            "dev",
            "--env-dir",
            "dev",
            "--base-dir",
            "main",
        ])
        .args(["--source", "https://git.example.org/app=app"])
        .args(["--source", "https://git.example.org/wave=wave"])
        .args(["--source", "https://git.example.org/manifests=manifests"])
        .args(["--cache", "cache"])
        .current_dir(fixture.folder.path())
        .checked()
        .unwrap();
    let text = [output.stdout, output.stderr].concat();
    (
        output.status.code(),
        String::from_utf8_lossy(&text).into_owned(),
    )
}

fn judge(count: &mut Count, name: &str, seen: &(Option<i32>, String), accepted: bool) -> bool {
    let (code, text) = seen;
    let before = (count.accepted, count.panics, count.over_limits);
    if text.contains("panicked at") || *code == Some(101) {
        count.panics += 1;
    } else if matches!(code, None | Some(124 | 134 | 137)) || text.contains("memory allocation of")
    {
        count.over_limits += 1;
    } else if *code == Some(0) && accepted {
        count.accepted += 1;
    }
    let fine = before == (count.accepted, count.panics, count.over_limits);
    if !fine {
        count.wrong.push(format!("{name}: {code:?}: {text}"));
    }
    fine
}

#[test]
fn every_hostile_input_is_one_failure_within_bounds() {
    let mut count = Count::default();
    let mut cases: Vec<_> = fs::read_dir(corpus())
        .unwrap()
        .map(|one| one.unwrap().path())
        .collect();
    cases.retain(|path| path.is_dir());
    cases.sort();
    for case in cases {
        let name = case.file_name().unwrap().to_str().unwrap().to_owned();
        let verdict = fs::read_to_string(case.join("verdict.txt")).unwrap();
        let fixture = stage(&case);
        if let Some(what) = name.strip_prefix("generated_") {
            generate(&fixture, what);
        }
        let bundled = what_is_payload(&name);
        if bundled {
            make_fleet(&fixture);
        }
        count.tried += 1;
        let words: &[&str] = match bundled {
            true => &[
                "bundle",
                "--fleet",
                "fleet",
                "--passphrase-file",
                "passphrase",
                "--out",
                "out",
            ],
            false => &["render", "--out", "out"],
        };
        let seen = run(&fixture, words);
        if !judge(&mut count, &name, &seen, true) {
            continue;
        }
        for line in verdict.lines() {
            let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
            let holds = match word {
                "exit" => seen.0 == rest.parse().ok(),
                "says" => seen.1.contains(rest),
                "others" if bundled => seen.1.contains("dev/drone: number 1, 4 assignments"),
                "others" => fixture
                    .folder
                    .path()
                    .join("out/drone/wave-0/namespace.yaml")
                    .exists(),
                _ => false,
            };
            if !holds {
                count.wrong.push(format!(
                    "{name}: `{line}` is not so: {:?} {}",
                    seen.0, seen.1
                ));
            }
        }
        let checked = run(&fixture, &["check"]);
        judge(&mut count, &format!("{name} (check)"), &checked, true);
    }
    let line = format!(
        "hostile inputs to the centre: tried {}, accepted {}, panics {}, over limits {}\n",
        count.tried, count.accepted, count.panics, count.over_limits
    );
    std::io::stderr().write_all(line.as_bytes()).unwrap();
    assert!(count.tried >= 40, "{line}");
    assert!(count.wrong.is_empty(), "{line}{}", count.wrong.join("\n\n"));
    assert_eq!((count.accepted, count.panics, count.over_limits), (0, 0, 0));
}

/// Those lie among the manifests, which only a bundle collects.
fn what_is_payload(name: &str) -> bool {
    let payload = name.strip_prefix("generated_");
    payload.is_some_and(|what| matches!(what, "many_files" | "links") || entry_of(what).is_some())
}

/// The one entry of a payload's tree, as it stands in the tree's object, with what it names: trees that
/// `git add` never makes, and anybody can push.
fn entry_of(what: &str) -> Option<(&'static str, Vec<u8>, Names)> {
    let name = b"f".to_vec();
    Some(match what {
        "payload_entry_names_a_tree" => ("100644", name, Names::Tree),
        "payload_entry_names_a_commit" => ("100644", name, Names::Commit),
        "payload_entry_is_missing" => ("100644", name, Names::Nothing),
        "payload_folder_is_missing" => ("40000", name, Names::Nothing),
        "payload_folder_is_a_file" => ("40000", name, Names::File),
        "payload_entry_is_damaged" => ("100644", name, Names::Damaged),
        "payload_entry_is_longer_than_it_says" => ("100644", name, Names::Longer),
        "payload_name_of_256_bytes" => ("100644", vec![b'n'; 256], Names::File),
        "payload_name_is_not_text" => ("100644", vec![0xff], Names::File),
        _ => return None,
    })
}

/// What the entry of a tree names.
enum Names {
    File,
    Tree,
    Commit,
    Nothing,
    Damaged,
    Longer,
}

/// Puts the folder `here` with this entry alone on branch `raw`.
fn push_raw(manifests: &Path, (mode, name, names): (&str, Vec<u8>, Names)) {
    let tree = |mode: &str, name: &[u8], id: &str| raw_tree(manifests, mode, name, id);
    let blob = given(
        manifests,
        &["hash-object", "-w", "--stdin"],
        b"to be damaged",
    );
    let object = manifests
        .join(".git/objects")
        .join(&blob[..2])
        .join(&blob[2..]);
    let id = match names {
        Names::File | Names::Damaged | Names::Longer => blob,
        Names::Tree => tree("100644", b"a", &blob),
        Names::Commit => given(manifests, &["rev-parse", "main"], b""),
        Names::Nothing => "22".repeat(20),
    };
    let here = tree(mode, &name, &id);
    let root = tree("40000", b"here", &here);
    let made = given(manifests, &["commit-tree", &root, "-m", "x"], b"");
    git(manifests, &["update-ref", "refs/heads/raw", &made]);
    let bytes = match names {
        Names::Damaged => b"damaged".to_vec(),
        Names::Longer => longer_than_it_says(),
        _ => return,
    };
    fs::remove_file(&object).unwrap();
    fs::write(&object, bytes).unwrap();
}

/// A tree of one entry, as it stands in git's object.
fn raw_tree(folder: &Path, mode: &str, name: &[u8], id: &str) -> String {
    let mut bytes = format!("{mode} ").into_bytes();
    bytes.extend_from_slice(name);
    bytes.push(0);
    let digits = id.as_bytes().chunks(2);
    bytes.extend(digits.map(|two| u8::from_str_radix(str::from_utf8(two).unwrap(), 16).unwrap()));
    let words = "hash-object -t tree --literally -w --stdin";
    given(folder, &words.split(' ').collect::<Vec<_>>(), &bytes)
}

/// An object of git's that says it is of four bytes, and has a million.
fn longer_than_it_says() -> Vec<u8> {
    let script = "import sys, zlib; sys.stdout.buffer.write(zlib.compress(b'blob 4\\0bomb' + b'x' * 1000000))";
    let made = Command::new("python3")
        .args(["-c", script])
        .output()
        .unwrap();
    assert!(made.status.success());
    made.stdout
}

fn make_fleet(fixture: &PlaneFixture) {
    use std::os::unix::fs::PermissionsExt as _;
    fixture.write("passphrase", "correct horse battery staple");
    let private = fs::Permissions::from_mode(0o600);
    fs::set_permissions(fixture.folder.path().join("passphrase"), private).unwrap();
    let made = Command::new(env!("CARGO_BIN_EXE_outhaul"))
        .args([
            "key",
            "init",
            "--fleet",
            "fleet",
            "--passphrase-file",
            "passphrase",
        ])
        .current_dir(fixture.folder.path())
        .checked()
        .unwrap();
    assert!(made.status.success());
}

/// What is too large, or no file that git keeps.
fn generate(fixture: &PlaneFixture, what: &str) {
    let root = fixture.folder.path();
    let app = root.join("app");
    match what {
        "tree_bomb" => {
            git(&app, &["init", "--quiet"]);
            let blob = fed(&app, &["hash-object", "-w", "--stdin"], "a: 1\n");
            let mut entry = format!("100644 blob {blob}");
            let mut tree = String::new();
            for _ in 0..8 {
                let mut lines = String::new();
                for at in 0..10 {
                    writeln!(lines, "{entry}\tx{at}.yaml").unwrap();
                }
                tree = fed(&app, &["mktree"], &lines);
                entry = format!("040000 tree {tree}");
            }
            point_main_at(&app, &tree);
        }
        "deep_tree" => {
            git(&app, &["init", "--quiet"]);
            let mut stream = String::from(
                "commit refs/heads/main\ncommitter T <t@example.org> 0 +0000\ndata 0\n",
            );
            writeln!(
                stream,
                "M 100644 inline {}a.yaml\ndata 5\na: 1\n",
                "d/".repeat(4000)
            )
            .unwrap();
            fed(&app, &["fast-import", "--quiet", "--force"], &stream);
        }
        "large_file" => {
            fs::write(app.join("large.yaml"), vec![b' '; 9 << 20]).unwrap();
        }
        "many_targets_of_a_team" => {
            let mut text = String::from(
                "apiVersion: scheduler.kalypso.io/v1alpha1\nkind: Workload\nmetadata:\n  name: crowd\nspec:\n  \
                 deploymentTargets:\n",
            );
            for at in 0..2000 {
                writeln!(
                    text,
                    "    - {{name: \"t{at}\", environment: dev, labels: {{purpose: test}}}}"
                )
                .unwrap();
            }
            fs::write(app.join("crowd.yaml"), text).unwrap();
        }
        "tree_entry_of_a_team" => {
            git(&app, &["init", "--quiet"]);
            commit(&app, "first");
            let blob = given(&app, &["hash-object", "-w", "--stdin"], b"a: 1\n");
            let inner = raw_tree(&app, "100644", b"a.yaml", &blob);
            let outer = raw_tree(&app, "100644", b"a.yaml", &inner);
            point_main_at(&app, &outer);
        }
        "aliased_text_of_a_team" => {
            fs::write(app.join("aliases.yaml"), aliased_text()).unwrap();
        }
        "aliased_text_in_the_control_plane" => {
            fs::write(root.join("dev/aliases.yaml"), aliased_text()).unwrap();
        }
        // Each key is looked for among those before it, unless someone thought of that.
        "merged_maps_of_a_team" => {
            let keys = |prefix: &str| -> String {
                (0..110_000).fold(String::new(), |mut text, at| {
                    write!(text, "{prefix}{at}: 1, ").unwrap();
                    text
                })
            };
            let text = format!("a: &a {{{}}}\nb: {{{}<<: *a}}\n", keys("k"), keys("l"));
            let text = text + "---\n[\n";
            fs::write(app.join("merges.yaml"), text).unwrap();
        }
        "many_files" | "links" => payload(fixture, what),
        _ if entry_of(what).is_some() => {
            let entry = entry_of(what).unwrap();
            let manifests = root.join("manifests");
            git(&manifests, &["init", "--quiet"]);
            commit(&manifests, "first");
            let line = "repo: https://git.example.org/manifests";
            let raw = format!("{line}\n        branch: raw\n        path: here");
            fixture.edit("app/workload.yaml", line, &raw);
            push_raw(&manifests, entry);
        }
        other => panic!("nobody knows how to make {other}"),
    }
}

/// A payload of very many files, or with a symbolic link.
fn payload(fixture: &PlaneFixture, what: &str) {
    let root = fixture.folder.path();
    let manifests = root.join("manifests");
    fs::create_dir_all(manifests.join("here")).unwrap();
    fs::write(manifests.join("here/app.yaml"), "version: 1\n").unwrap();
    git(&manifests, &["init", "--quiet"]);
    commit(&manifests, "first");
    let ours = if what == "links" { "linked" } else { "many" };
    let line = "repo: https://git.example.org/manifests";
    fixture.edit(
        "app/workload.yaml",
        line,
        &format!("{line}\n        branch: {ours}"),
    );
    git(&manifests, &["checkout", "--quiet", "-b", ours]);
    if what == "links" {
        std::os::unix::fs::symlink("/etc/passwd", manifests.join("key.yaml")).unwrap();
        commit(&manifests, "a link");
    } else {
        // The same thousand files in each of three hundred folders.
        let blob = fed(&manifests, &["hash-object", "-w", "--stdin"], "a");
        let files: String = (0..1000).fold(String::new(), |mut lines, at| {
            writeln!(lines, "100644 blob {blob}\tf{at}").unwrap();
            lines
        });
        let folder = fed(&manifests, &["mktree"], &files);
        let folders: String = (0..300).fold(String::new(), |mut lines, at| {
            writeln!(lines, "040000 tree {folder}\td{at}").unwrap();
            lines
        });
        let tree = fed(&manifests, &["mktree"], &folders);
        let made = fed(&manifests, &["commit-tree", &tree, "-m", "x"], "");
        git(
            &manifests,
            &["update-ref", &format!("refs/heads/{ours}"), &made],
        );
    }
    git(&manifests, &["symbolic-ref", "HEAD", "refs/heads/main"]);
}

/// Few values and 64 KiB of text, which come to 4 GiB.
fn aliased_text() -> String {
    let aliases = vec!["*a"; 65_536].join(", ");
    let text = "x".repeat(65_536);
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: &a {text}\ndata: [{aliases}]\n")
}

fn fed(folder: &Path, arguments: &[&str], input: &str) -> String {
    given(folder, arguments, input.as_bytes())
}

fn given(folder: &Path, arguments: &[&str], input: &[u8]) -> String {
    let mut child = Command::new("git")
        .arg("-C")
        .arg(folder)
        .args(["-c", "user.name=T", "-c", "user.email=t@example.org"])
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "git {arguments:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

fn point_main_at(folder: &Path, tree: &str) {
    let made = fed(folder, &["commit-tree", tree, "-m", "x"], "");
    git(folder, &["update-ref", "refs/heads/main", &made]);
}
