//! Bundles that keys of before signed, and folders that are not for this fleet's bundles.
//!
//! What comes in: a fleet whose keys are changed after a bundle was made, and published folders of other fleets, of a copy of the fleet, or
//! empty ones. What must come out: a new number that a site enrolled now accepts, with the reason, from `bundle` and from `serve`; and a
//! refusal that leaves the folder as it is.

use std::fs;
use std::path::Path;

use jiff::Timestamp;
use outhaul_signer::ceremony::{RootChange, StreamChange};
use outhaul_signer::fleet::Fleet;
use outhaul_signer::key::Secret;
use outhaul_test_kit::folder;

use super::gate::GateFixture;
use super::repositories::{git, on_branch};
use super::serve::Centre;

const KEYS: &str = "--passphrase-file passphrase";

fn secret() -> Secret {
    Secret::new("a passphrase for tests".to_owned())
}

#[expect(
    clippy::disallowed_methods,
    reason = "the program made the fleet by this machine's clock"
)]
fn now() -> Timestamp {
    Timestamp::now()
}

fn rotate(fleet: &Path, change: RootChange) {
    let fleet = Fleet::open(fleet).unwrap();
    fleet.change_root(&[change], now(), &secret()).unwrap();
}

fn bundle(fleet: &str, publish: &str) -> String {
    format!(
        "bundle --environment dev --control-plane cp --fleet {fleet} {KEYS} --out stick --publish {publish}"
    )
}

#[test]
fn a_bundle_that_keys_of_before_signed_takes_a_new_number_with_the_reason() {
    let made = GateFixture::new();
    let bundle = bundle("fleet", "web");
    made.ok(&bundle);
    let (fleet, mut number) = (made.path("fleet"), 1);
    let mut new_number = |says: &str| {
        fs::create_dir(made.path("copies")).unwrap();
        let (_, _, err) = made.ok("copy --fleet fleet --to copies");
        assert!(
            err.contains("is out of date: ") && err.contains(says),
            "{err}"
        );
        let file = format!("stick/dev-edge-{number}.outhaul");
        let (_, _, err) = made.ok(&format!("inspect --fleet fleet {file}"));
        assert!(err.contains("this bundle is out of date: "), "{err}");
        fs::remove_dir_all(made.path("copies")).unwrap();
        let (_, _, err) = made.ok(&bundle);
        assert!(err.contains(says), "{err}");
        number += 1;
        let is_made = format!("number {number} is made in its place");
        assert!(err.contains(&is_made), "{err}");
        let (_, _, err) = made.ok(&format!("inspect --fleet fleet {file}"));
        let newest = format!("help: number {number} is the newest of the stream");
        assert!(err.contains(&newest), "{err}");
        let file = format!("stick/dev-edge-{number}.outhaul");
        // By the newest root: as a site that is enrolled now.
        made.ok(&format!("verify --fleet fleet {file}"));
        let (_, _, err) = made.ok(&format!("inspect --fleet fleet {file}"));
        assert!(!err.contains("out of date"), "{err}");
        let (_, _, err) = made.ok(&bundle);
        assert!(err.contains("unchanged"), "{err}");
    };
    for change in [RootChange::RotateTargets, RootChange::RotateOnline] {
        rotate(&fleet, change);
        new_number("refuses it (`");
    }
    rotate(&fleet, RootChange::RotateRoot);
    new_number("does not bring root metadata version 4");
    let opened = Fleet::open(&fleet).unwrap();
    let role = opened.role("dev", "edge");
    opened
        .change_stream(&role, &[StreamChange::Rekey], now(), &secret())
        .unwrap();
    new_number("a change of the stream's keys");
}

#[test]
fn serve_makes_new_numbers_after_keys_were_changed_and_is_quiet_then() {
    let centre = Centre::new();
    assert_eq!(centre.once().0, 0);
    for (at, change) in [RootChange::RotateOnline, RootChange::RotateTargets]
        .into_iter()
        .enumerate()
    {
        rotate(&centre.path("fleet"), change);
        let (code, said) = centre.once();
        assert_eq!(code, 0, "{said}");
        for environment in ["dev", "stage"] {
            let line = format!("{environment}: drone: number {} is out of date", at + 1);
            assert!(said.contains(&line), "{said}");
            let file = format!("bundles/{environment}-drone-{}.outhaul", at + 2);
            let (code, said) = centre.outhaul(&format!("verify --fleet fleet {file}"));
            assert_eq!(code, 0, "{said}");
        }
        let (code, said) = centre.once();
        assert_eq!((code, said.lines().count()), (0, 2), "{said}");
    }
}

#[test]
fn what_serve_publishes_past_a_gate_says_so_as_publish_git_does() {
    let centre = Centre::new();
    let (code, said) = centre.once();
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("gate overridden by tests: begins"), "{said}");
    let (code, said) = centre.outhaul(
        "publish git --environment stage --control-plane plane --source https://git.example.org/app=app --source \
         https://git.example.org/plane=plane --source https://git.example.org/manifests=manifests --to platform.git \
         --branch by-hand",
    );
    assert_eq!(code, 0, "{said}");
    let message = |branch| {
        git(
            &centre.path("platform.git"),
            &["log", "-1", "--format=%B", branch],
        )
    };
    let served = message("stage");
    assert!(served.contains("Outhaul-Override-By: tests"), "{served}");
    assert!(
        served.contains("Outhaul-Override-Reason: begins"),
        "{served}"
    );
    assert_eq!(served, message("by-hand"));
    assert!(!message("dev").contains("Outhaul-Override"));
}

#[test]
fn attack_a_folder_of_another_fleet_is_not_published_to() {
    let made = GateFixture::new();
    made.ok(&bundle("fleet", "web"));
    made.ok(&format!("key init --fleet other {KEYS}"));
    made.ok(&format!(
        "bundle --environment dev --control-plane cp --fleet other {KEYS} --out others"
    ));
    let refused = |says: &str| {
        let web = made.path("web");
        let before = folder::tree(&web);
        let other = folder::tree(&made.path("other/metadata"));
        for words in [
            bundle("other", "web"),
            format!("{} --renew", bundle("other", "web")),
            "publish web --fleet other --to web".to_owned(),
        ] {
            let (_, _, err) = made.ends(2, &words);
            assert!(
                err.contains("is no place of this fleet") && err.contains(says),
                "{err}"
            );
            assert_eq!(folder::tree(&web), before, "{words}");
        }
        assert_eq!(
            folder::tree(&made.path("other/metadata")),
            other,
            "nothing was signed"
        );
    };
    refused("metadata/1.root.json");
    fs::remove_file(made.path("web/metadata/1.root.json")).unwrap();
    refused("metadata/timestamp.json");
    // The fleet's own folder without its root is mended.
    let (_, _, err) = made.ok(&bundle("fleet", "web"));
    assert!(err.contains("1.root.json` was missing"), "{err}");
    assert!(made.path("web/metadata/1.root.json").is_file());
}

#[test]
fn attack_a_newer_publication_with_the_fleets_keys_is_named_and_stays() {
    let centre = Centre::new();
    assert_eq!(centre.once().0, 0);
    folder::fill(&centre.path("fleet"), &centre.path("stolen"));
    let thief = "bundle --environment dev --control-plane plane --source https://git.example.org/app=app --source \
                 https://git.example.org/plane=plane --source https://git.example.org/manifests=manifests \
                 --passphrase-file passphrase --out thief --publish published --renew";
    let (code, said) = centre.outhaul(&format!("{thief} --fleet stolen"));
    assert_eq!(code, 0, "{said}");
    let forged = folder::tree(&centre.path("published"));
    let bundles = folder::tree(&centre.path("bundles"));
    for _ in 0..2 {
        let (code, said) = centre.once();
        assert_eq!(code, 1, "{said}");
        assert!(
            said.contains("`published` has a newer publication"),
            "{said}"
        );
        assert!(!said.contains("up to date"), "{said}");
    }
    for more in ["", "--renew"] {
        let words = thief
            .replace("--renew", more)
            .replace("--out thief", "--out bundles");
        let (code, said) = centre.outhaul(&format!("{words} --fleet fleet"));
        assert_eq!(code, 1, "{said}");
        assert!(
            said.contains("`published` has a newer publication"),
            "{said}"
        );
    }
    assert_eq!(folder::tree(&centre.path("published")), forged);
    assert_eq!(folder::tree(&centre.path("bundles")), bundles);

    // Whoever has the root key as well changes the fleet's keys.
    rotate(&centre.path("stolen"), RootChange::Renew);
    let root = "metadata/2.root.json";
    fs::copy(
        centre.path("stolen").join(root),
        centre.path("published").join(root),
    )
    .unwrap();
    let (code, said) = centre.once();
    assert_eq!(code, 1, "{said}");
    assert!(
        said.contains("has root metadata version 2 beside this fleet's"),
        "{said}"
    );
    let (code, said) = centre.outhaul("publish web --fleet fleet --to published");
    assert_eq!(code, 4, "{said}");
    fs::remove_file(centre.path("published").join(root)).unwrap();

    // The key that signed it is replaced, and what it signed is, too.
    rotate(&centre.path("fleet"), RootChange::RotateOnline);
    let (code, said) = centre.once();
    assert_eq!(code, 1, "the same version, twice: {said}");
    assert!(
        said.contains("`published` has another publication"),
        "{said}"
    );
    fs::remove_dir_all(centre.path("published")).unwrap();
    let (code, said) = centre.once();
    assert_eq!(code, 0, "{said}");
}

#[test]
fn the_first_publication_into_a_folder_is_not_called_a_loss() {
    let made = GateFixture::new();
    let bundle = |publish: &str| made.ok(&bundle("fleet", publish)).2;
    bundle("web");
    fs::create_dir(made.path("empty")).unwrap();
    for folder in ["empty", "new"] {
        let err = bundle(folder);
        let says = format!("number 1 was not in `{folder}`, and was published there");
        assert!(err.contains(&says) && !err.contains("gone"), "{err}");
        assert!(!bundle(folder).contains("was"), "nothing is left to say");
    }
}

#[test]
fn a_link_or_folder_in_the_place_of_a_published_file_is_named_and_the_advice_helps() {
    let centre = Centre::new();
    assert_eq!(centre.once().0, 0);
    let copy = centre.path("copy");
    git(
        &centre.path("."),
        &["clone", "--quiet", "platform.git", "copy"],
    );
    let file = "drone/hello-dev/platform-config.yaml";
    let bundles = || fs::read_dir(centre.path("bundles")).unwrap().count();
    for (number, what) in [(2, "a link or a submodule"), (3, "a folder")] {
        on_branch(&copy, "dev", |copy| {
            fs::remove_file(copy.join(file)).unwrap();
            match what {
                "a folder" => {
                    fs::create_dir(copy.join(file)).unwrap();
                    fs::write(copy.join(file).join("x"), "x").unwrap();
                }
                _ => std::os::unix::fs::symlink("elsewhere", copy.join(file)).unwrap(),
            }
        });
        git(&copy, &["push", "--quiet", "origin", "dev"]);
        let before = bundles();
        centre.edit("stage", "config.yaml", "East US", "Far East");
        let (code, said) = centre.once();
        assert_eq!(code, 1, "{said}");
        let says = format!("Outhaul published the file `{file}`, and {what} is there");
        assert!(said.contains(&says), "{said}");
        assert_eq!(
            bundles(),
            before + 1,
            "the other environment goes on: {said}"
        );
        centre.edit("stage", "config.yaml", "Far East", "East US");
        // As it is advised.
        git(&copy, &["checkout", "--quiet", "dev"]);
        git(&copy, &["rm", "--quiet", "-r", file]);
        git(&copy, &["commit", "--quiet", "--message", "Removed"]);
        git(&copy, &["push", "--quiet", "origin", "dev"]);
        let (code, said) = centre.once();
        assert_eq!(code, 0, "{number} {said}");
        git(&copy, &["pull", "--quiet", "origin", "dev"]);
        assert!(copy.join(file).is_file());
    }
}

#[test]
fn what_is_in_the_way_of_one_streams_bundle_does_not_keep_the_others_back() {
    let made = GateFixture::new();
    made.ok("init two --environments dev --reconciler folder --reconciler ansible");
    let bundle = format!(
        "bundle --environment dev --control-plane two --fleet fleet {KEYS} --out stick --publish web"
    );
    let (_, listed, _) = made.ok(&bundle);
    let names: Vec<&str> = listed
        .lines()
        .filter_map(|line| line.split(':').next()?.strip_prefix("dev/"))
        .collect();
    assert_eq!(names.len(), 2, "{listed}");
    fs::create_dir(made.path(&format!("stick/dev-{}-2.outhaul", names[0]))).unwrap();
    let (_, done, err) = made.ends(3, &format!("{bundle} --renew"));
    assert!(
        err.contains(&format!("dev-{}-2.outhaul", names[0])),
        "{err}"
    );
    assert!(
        done.contains(&format!("dev/{}: number 2", names[1])),
        "{done}"
    );
    assert!(
        made.path(&format!("stick/dev-{}-2.outhaul", names[1]))
            .is_file()
    );

    // What is in the fleet's own folder ends the run, whatever kept an earlier stream back.
    let number_of = |name: &str| made.path(&format!("stick/dev-{name}-3.outhaul"));
    fs::remove_dir(made.path(&format!("stick/dev-{}-2.outhaul", names[0]))).unwrap();
    let fleet = Fleet::open(&made.path("fleet")).unwrap();
    let own = |name: &str| {
        made.path(&format!(
            "fleet/bundles/{}.3.outhaul",
            fleet.role("dev", name)
        ))
    };
    fs::create_dir(number_of(names[0])).unwrap();
    fs::create_dir(own(names[1])).unwrap();
    let (_, _, err) = made.ends(3, &format!("{bundle} --renew"));
    let later = own(names[1]);
    let name = later.file_name().unwrap().to_str().unwrap();
    assert!(err.contains(name), "the run ends with the later one: {err}");
}
