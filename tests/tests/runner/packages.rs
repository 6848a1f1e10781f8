//! The Debian packages: what installs, what an upgrade keeps, and what stays when they go.
//!
//! What comes in: the packages as `cargo xtask deb` writes them, and a Debian root folder. What must come out: units,
//! users, folders, man pages and completions where Debian looks for them, and state that outlives all of it.

use std::fs;
use std::process::Command;

use outhaul_test_kit::folder::{fill, paths};
use outhaul_tests::{Ran, run_script};

use super::bare::Bare;

const STATE: &str = "/var/lib/outhaul-agent";

fn is_enabled(bare: &Bare, unit: &str) -> bool {
    let wanted = bare.inside("/etc/systemd/system/multi-user.target.wants");
    wanted.join(unit).symlink_metadata().is_ok()
}

#[test]
fn the_packages_install_upgrade_and_go_and_state_outlives_them() {
    let Some(bare) = Bare::or_skip() else { return };
    let fixture = &bare.fixture;
    let names = ["outhaul-agent", "outhaul-hub", "outhaul"];
    for revision in [1, 2] {
        bare.packages(&names, revision);
    }
    fill(&fixture.path("packages"), &bare.inside("/root/packages"));
    // The same programs give the same bytes.
    let first = fs::read(
        fixture
            .path("packages")
            .join(bare.package("outhaul-agent", 1)),
    )
    .unwrap();
    bare.packages(&["outhaul-agent"], 1);
    assert!(
        fs::read(
            fixture
                .path("packages")
                .join(bare.package("outhaul-agent", 1))
        )
        .unwrap()
            == first
    );

    let install = |revision: u32| {
        let files = names.map(|name| format!("/root/packages/{}", bare.package(name, revision)));
        bare.types("stick", "", 0, &format!("dpkg -i {}", files.join(" ")))
    };
    install(1);
    assert!(is_enabled(&bare, "outhaul-agent.service") && is_enabled(&bare, "outhaul-hub.service"));
    assert!(!is_enabled(&bare, "outhaul-serve.service"));
    assert!(!is_enabled(&bare, "outhaul-mirror.service"));
    bare.types("stick", "", 0, "outhaul-mirror disable");
    for (program, page) in [
        ("outhaul-agent", "outhaul-agent-import"),
        ("outhaul-hub", "outhaul-hub"),
        ("outhaul", "outhaul-bundle"),
        ("outhaul-signer", "outhaul-signer"),
        ("outhaul-audit", "outhaul-audit"),
    ] {
        bare.types("stick", "", 0, &format!("{program} --version"));
        assert!(
            bare.inside(&format!("/usr/share/man/man1/{page}.1.gz"))
                .exists(),
            "{page}"
        );
        assert!(
            bare.inside(&format!("/usr/share/bash-completion/completions/{program}"))
                .exists(),
            "{program}"
        );
    }
    // Folders are their users' own.
    let owners =
        "stat -c '%U %a' /var/lib/outhaul-agent /var/lib/outhaul-hub /var/lib/outhaul-serve";
    let ran = bare.types("stick", "", 0, owners);
    assert_eq!(ran.stdout, "root 700\nouthaul-hub 700\nouthaul-serve 700\n");

    disabled_and_upgraded(&bare, &install);
    removed_and_purged(&bare);
}

/// What an administrator disabled stays disabled over an upgrade, and state stays.
fn disabled_and_upgraded(bare: &Bare, install: &dyn Fn(u32) -> Ran) {
    bare.types(
        "stick",
        "",
        0,
        "systemctl disable --quiet outhaul-hub.service",
    );
    fs::write(bare.inside(STATE).join("site.key"), "a key").unwrap();
    install(2);
    assert!(is_enabled(bare, "outhaul-agent.service") && !is_enabled(bare, "outhaul-hub.service"));
    let shown = bare.types(
        "stick",
        "",
        0,
        "dpkg-query -W -f '${Version} ${db:Status-Status}\\n' outhaul-agent",
    );
    assert!(shown.stdout.ends_with("-2 installed\n"), "{}", shown.stdout);
    let ran = bare.types(
        "stick",
        "",
        0,
        "dpkg --verify outhaul-agent outhaul-hub outhaul",
    );
    assert_eq!(ran.stdout, "", "files differ from the package's list");
}

fn removed_and_purged(bare: &Bare) {
    let ran = bare.types(
        "stick",
        "",
        0,
        "dpkg --remove outhaul-agent outhaul-hub outhaul",
    );
    assert!(
        !bare.inside("/usr/bin/outhaul-agent").exists(),
        "{}",
        ran.stdout
    );
    assert!(bare.inside(STATE).join("site.key").exists());
    let ran = bare.types(
        "stick",
        "",
        0,
        "dpkg --purge outhaul-agent outhaul-hub outhaul",
    );
    assert!(
        ran.stdout
            .contains(&format!("kept: {STATE}, with this site's keys")),
        "{}",
        ran.stdout
    );
    assert!(bare.inside(STATE).join("site.key").exists());
    // Empty ones go.
    assert!(
        !bare.inside("/var/lib/outhaul-hub").exists()
            && !bare.inside("/var/lib/outhaul-serve").exists()
    );
    assert!(!is_enabled(bare, "outhaul-agent.service"));
}

#[test]
fn the_scripts_are_what_a_posix_shell_takes() {
    if !outhaul_tests::available_or_skip("shellcheck") {
        return;
    }
    let root = outhaul_tests::workspace_root();
    let mut scripts = paths(&root.join("xtask/debian"));
    scripts.push(root.join("bundler/src/cli/site/kit/start.sh"));
    assert!(scripts.len() > 9, "{scripts:?}");
    let mut command = Command::new("shellcheck");
    let ran = run_script(command.args(["--shell=sh"]).args(&scripts)).unwrap();
    assert_eq!(ran.code, Some(0), "{}", ran.everything());
}
