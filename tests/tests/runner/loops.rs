//! The demo, as a user types it: with Ansible, without, and with the commands that it says come next.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use outhaul_tests::{Ran, available_or_skip, program, run_expecting};

fn which(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .map(|folder| folder.join(name))
        .find(|path| path.is_file())
}

/// A `PATH` with git, a shell and what cargo needs, and no Ansible.
fn path_without_ansible(folder: &Path) -> PathBuf {
    let bin = folder.join("bin");
    std::fs::create_dir(&bin).unwrap();
    for name in ["git", "sh", "cargo", "rustc", "cc", "ld", "as"] {
        if let Some(found) = which(name) {
            symlink(found, bin.join(name)).unwrap();
        }
    }
    bin
}

fn demo(keep: &Path, path: Option<&Path>) -> Ran {
    let mut command = Command::new(program("outhaul").unwrap());
    command.args(["demo", "--keep"]).arg(keep);
    if let Some(path) = path {
        command.env("PATH", path);
    }
    run_expecting(&mut command, 0).unwrap()
}

/// What both variants must tell, in this order.
fn tells_the_story(text: &str) {
    let lines = [
        "policy `label-printers`",
        "LABEL_TEXT = Made with care (configs/common.yaml:9)",
        "dev-bench-1.outhaul",
        "dev is CLOSED: never-reported",
        "got bundle 1 over HTTP",
        "dev is OPEN: 1 of 1 sites confirm it",
        "is promoted to stage",
        "stage-press-1.outhaul",
        "got bundle 1 from the stick",
        "stage is OPEN",
        "becomes \"LABEL_TEXT: Made with even more care\"",
        "dev is CLOSED: behind: site `bench-1` runs bundle 1, 2 is needed",
        "got bundle 2 over HTTP",
        "got bundle 2 from the stick",
        "stage is OPEN",
        "What to type next",
    ];
    let mut rest = text;
    for line in lines {
        let at = rest
            .find(line)
            .unwrap_or_else(|| panic!("`{line}` is missing in\n{text}"));
        rest = &rest[at + line.len()..];
    }
}

#[test]
fn the_demo_without_ansible_uses_the_folder_reconciler() {
    let folder = tempfile::tempdir().unwrap();
    let path = path_without_ansible(folder.path());
    let keep = folder.path().join("kept");
    let ran = demo(&keep, Some(&path));
    assert!(
        ran.stdout
            .contains("applies with the folder reconciler, too"),
        "{}",
        ran.stdout
    );
    tells_the_story(&ran.stdout);
    let applied = keep.join("press-7/root/label-printer-press");
    let config = std::fs::read_to_string(applied.join("platform-config.sh")).unwrap();
    assert!(
        config.contains("export LABEL_TEXT=\"Made with even more care\""),
        "{config}"
    );
}

#[test]
fn the_demo_with_ansible_and_the_commands_that_come_next() {
    if !available_or_skip("ansible-playbook") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let keep = folder.path().join("kept");
    let ran = demo(&keep, None);
    assert!(
        ran.stdout.contains("press-7   applies with Ansible"),
        "{}",
        ran.stdout
    );
    tells_the_story(&ran.stdout);
    assert_eq!(label(&keep), "Made with even more care (stage, 62 mm)");

    let (_, next) = ran.stdout.split_once("What to type next").unwrap();
    let commands: Vec<_> = next
        .lines()
        .skip(1)
        .map_while(|line| line.strip_prefix("  "))
        .collect();
    assert!(commands.len() > 14, "{next}");
    // Through the gate, and past none: a hub that a failing script leaves behind ends with it.
    assert!(!next.contains("--override"), "{next}");
    let script = format!(
        "set -eu\ntrap 'kill $! 2>/dev/null || true' EXIT\n{}\n",
        commands.join("\n")
    );
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(&script);
    shell.env("XDG_STATE_HOME", folder.path().join("state"));
    for (name, value) in [("NAME", "t"), ("EMAIL", "t@example.org")] {
        shell
            .env(format!("GIT_AUTHOR_{name}"), value)
            .env(format!("GIT_COMMITTER_{name}"), value);
    }
    let ran = run_expecting(&mut shell, 0).unwrap();
    assert!(
        ran.stdout.contains("bundle 3 is active"),
        "{}",
        ran.everything()
    );
    assert_eq!(label(&keep), "Made with even more care (stage, 38 mm)");
}

fn label(keep: &Path) -> String {
    let root = keep.join("press-7/root/stage-press-label-printer-press");
    std::fs::read_to_string(root.join("label.txt"))
        .unwrap()
        .trim()
        .to_owned()
}

#[test]
fn the_demo_takes_only_an_empty_folder() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("mine")).unwrap();
    let mut command = Command::new(program("outhaul").unwrap());
    command.args(["demo", "--keep"]).arg(folder.path());
    let ran = run_expecting(&mut command, 2).unwrap();
    assert!(ran.stderr.contains("is not empty"), "{}", ran.stderr);
}
