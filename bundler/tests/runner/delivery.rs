//! Delivery policies, as `outhaul bundle` follows them.
//!
//! What comes in: the factory example with a delivery policy. What must come out: bundles where the
//! policy lets them, a refusal that names the policy's line where it does not, and then no file.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output};

use outhaul_test_kit::folder::fill;
use outhaul_tests::Checked as _;

pub struct Centre {
    pub folder: tempfile::TempDir,
}

#[test]
fn an_image_that_no_bundle_brings_is_named_when_the_bundle_is_made() {
    let centre = Centre::new();
    let manifests = "label-printer/manifests/dev/pod.yaml";
    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n  containers:\n    - name: a\n      image: \
               registry.example.org/a:1\n";
    fs::write(centre.folder.path().join(manifests), pod).unwrap();
    let seen = message(&centre.bundle("  expiresDays: 30\n"));
    let warning = "warning[image-not-carried]: no bundle brings the image `registry.example.org/a:1` to the sites of \
                   `bench`";
    assert!(seen.contains(warning), "{seen}");
    assert!(
        seen.contains("label-printer/manifests/dev/pod.yaml:7:14"),
        "{seen}"
    );
    let seen = message(&centre.bundle("  images: reference\n"));
    assert!(!seen.contains("image-not-carried"), "{seen}");
}

/// The usual layout of Kustomize: the target's path is an overlay, and what it is built from lies beside it.
fn with_overlay(centre: &Centre) {
    let root = centre.folder.path();
    let workload = root.join("label-printer/source/workload.yaml");
    let text = fs::read_to_string(&workload).unwrap();
    fs::write(workload, text.replace("path: .", "path: overlays/dev")).unwrap();
    let write = |name: &str, text: &str| {
        let path = root.join("label-printer/manifests/dev").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    write(
        "base/pod.yaml",
        "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n  containers:\n    - name: a\n      image: \
         127.0.0.1:1/web\n",
    );
    write("base/kustomization.yaml", "resources: [pod.yaml]\n");
    write(
        "overlays/dev/kustomization.yaml",
        "resources:\n- ../../base\n- https://github.com/example/base//app?ref=v1\nimages:\n- name: 127.0.0.1:1/web\n  \
         newTag: '1.0'\n",
    );
}

#[test]
fn the_images_of_a_base_beside_the_path_are_to_travel_and_a_remote_base_is_named() {
    let centre = Centre::new();
    with_overlay(&centre);
    // No registry is there: that it may not be asked shows that the image is to travel.
    let seen = message(&centre.bundle("  images: carry\n"));
    assert!(seen.contains("image `127.0.0.1:1/web:1.0`"), "{seen}");
    let seen = message(&centre.bundle("  expiresDays: 30\n"));
    let missing = "warning[image-not-carried]: no bundle brings the image `127.0.0.1:1/web:1.0` to the sites of `bench`";
    assert!(seen.contains(missing), "{seen}");
    assert!(seen.contains("base/pod.yaml:7:14"), "{seen}");
    let remote = "warning[kustomization-not-followed]: no bundle brings `https://github.com/example/base//app?ref=v1`, \
                  from which this kustomization is built";
    assert!(seen.contains(remote), "{seen}");
    assert!(
        seen.contains("overlays/dev/kustomization.yaml:3:3"),
        "{seen}"
    );
}

#[test]
fn a_team_that_empties_its_tree_is_named_before_sites_remove_everything() {
    let centre = Centre::new();
    with_overlay(&centre);
    let tree = centre.folder.path().join("label-printer/manifests/dev");
    let overlay = tree.join("overlays/dev/kustomization.yaml");
    fs::write(overlay, "resources: [../../base]\n").unwrap();
    let says = |seen: &str| {
        seen.contains("warning[kustomization-empty]: the kustomization of `overlays/dev`")
    };
    let seen = message(&centre.bundle("  images: reference\n"));
    assert!(!says(&seen), "{seen}");
    fs::write(tree.join("base/kustomization.yaml"), "resources: []\n").unwrap();
    let seen = message(&centre.bundle("  images: reference\n"));
    assert!(says(&seen), "{seen}");
}

impl Centre {
    pub fn new() -> Self {
        let centre = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        let root = centre.folder.path();
        fill(
            &Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/factory"),
            root,
        );
        let passphrase = root.join("passphrase");
        fs::write(&passphrase, "a passphrase for tests\n").unwrap();
        fs::set_permissions(&passphrase, fs::Permissions::from_mode(0o600)).unwrap();
        let made = centre.outhaul("key init --fleet fleet --passphrase-file passphrase");
        assert!(made.status.success(), "{}", message(&made));
        centre
    }

    pub fn outhaul(&self, words: &str) -> Output {
        Command::new(env!("CARGO_BIN_EXE_outhaul"))
            .current_dir(self.folder.path())
            .args(words.split_whitespace())
            .checked()
            .unwrap()
    }

    /// Writes the policy, and makes the bundles of `dev` as it says.
    pub fn bundle(&self, fields: &str) -> Output {
        self.bundle_with(fields, "")
    }

    /// The same, with more options.
    pub fn bundle_with(&self, fields: &str, more: &str) -> Output {
        let policy = format!(
            "apiVersion: outhaul.dev/v1alpha1\nkind: DeliveryPolicy\nmetadata:\n  name: all\nspec:\n  \
             clusterTypeSelector: {{}}\n{fields}"
        );
        let file = self.folder.path().join("control-plane/dev/delivery.yaml");
        fs::write(file, policy).unwrap();
        self.outhaul(&format!(
            "bundle --environment dev --env-dir control-plane/dev --base-dir control-plane/main \
             --source https://git.factory.example/label-printer=label-printer/source \
             --source https://git.factory.example/label-printer-manifests#dev=label-printer/manifests/dev \
             --fleet fleet --passphrase-file passphrase --out stick {more}",
        ))
    }

    fn refused(&self, fields: &str, code: i32) -> String {
        let output = self.bundle(fields);
        assert_eq!(output.status.code(), Some(code), "{}", message(&output));
        assert!(!self.folder.path().join("stick").exists(), "{fields}");
        message(&output)
    }
}

pub fn message(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn what_a_policy_forbids_is_refused_at_its_line_and_nothing_is_written() {
    let centre = Centre::new();
    let text = [
        centre.refused("  encryption: required\n", 1),
        centre.refused("  images: some\n", 2),
        centre.refused("  sizeBudget: big\n", 2),
        centre.refused("  expireDays: 20\n", 2),
    ];
    insta::assert_snapshot!(text.join("\n"));
}

#[test]
fn a_slip_without_a_date_is_good_for_as_long_as_the_policy_gave_the_bundle() {
    let centre = Centre::new();
    let made = centre.bundle("  expiresDays: 3000\n");
    assert!(made.status.success(), "{}", message(&made));
    let slip = |more: &str| {
        let made = centre.outhaul(&format!(
            "slip --fleet fleet --passphrase-file passphrase --environment dev --cluster-type bench --out bench.slip \
             {more}"
        ));
        assert!(made.status.success(), "{}", message(&made));
        let timestamp = fs::read(centre.folder.path().join("fleet/metadata/timestamp.json"));
        let timestamp: serde_json::Value = serde_json::from_slice(&timestamp.unwrap()).unwrap();
        let date = |of: &str| -> jiff::Timestamp {
            timestamp["signed"][of].as_str().unwrap().parse().unwrap()
        };
        (date("issued"), date("expires"))
    };
    let hours = |hours| jiff::SignedDuration::from_hours(hours);
    let (issued, expires) = slip("");
    assert_eq!(expires.duration_since(issued), hours(24 * 3000));
    let later = issued + hours(5);
    let (typed, expires) = slip(&format!("--issued {later}"));
    assert_eq!((typed, expires), (later, later + hours(24 * 3000)));
    let asked = later + hours(24 * 3600);
    assert_eq!(
        slip(&format!("--issued {later} --expires {asked}")).1,
        asked
    );
    let beyond = later + hours(24 * 3651);
    let refused = centre.outhaul(&format!(
        "slip --fleet fleet --passphrase-file passphrase --environment dev --cluster-type bench --out new.slip \
         --issued {later} --expires {beyond}"
    ));
    assert_eq!(refused.status.code(), Some(2));
    let text = message(&refused);
    assert!(
        text.contains(&format!("until {beyond}")) && text.contains("3650 days"),
        "{text}"
    );
    // What one slip signs is for all streams: a bundle's date is not shortened.
    let soon = later + hours(24);
    let refused = centre.outhaul(&format!(
        "slip --fleet fleet --passphrase-file passphrase --environment dev --cluster-type bench --out new.slip \
         --issued {later} --expires {soon}"
    ));
    assert_eq!(refused.status.code(), Some(2));
    let said = message(&refused);
    assert!(
        said.contains(&format!("at {soon}")) && said.contains("nothing was signed"),
        "{said}"
    );
    assert!(!centre.folder.path().join("new.slip").exists());
}

#[test]
fn a_bundle_over_its_budget_lists_its_largest_contents_and_uses_no_number() {
    let centre = Centre::new();
    let message = centre.refused("  sizeBudget: 20 kB\n", 1);
    assert!(
        message.contains("delivery policy `all` (control-plane/dev/delivery.yaml:7) allows 20000"),
        "{message}"
    );
    let largest = message.lines().nth(1).unwrap();
    assert!(
        largest.ends_with("label-printer-bench/payload/print-label.sh"),
        "{message}"
    );
    let made = centre.bundle("  sizeBudget: 1 MiB\n");
    assert!(made.status.success(), "{}", self::message(&made));
    assert!(
        centre
            .folder
            .path()
            .join("stick/dev-bench-1.outhaul")
            .is_file()
    );
}

#[test]
fn the_policys_days_count_and_git_alone_makes_no_bundle() {
    let centre = Centre::new();
    let message = centre.refused("  delivery: git\n", 0);
    assert!(
        message.contains("dev/bench: no bundle, it travels by git alone"),
        "{message}"
    );
    assert!(centre.bundle("  expiresDays: 20\n").status.success());
    let seen = centre.outhaul("inspect --fleet fleet stick/dev-bench-1.outhaul");
    let seen = String::from_utf8_lossy(&seen.stdout).into_owned();
    let dates = seen.lines().find_map(|line| {
        let (_, dates) = line.split_once("issued ")?;
        dates.split_once(", expires ")
    });
    let (issued, expires) = dates.unwrap();
    let at = |text: &str| text.parse::<jiff::Timestamp>().unwrap();
    let given = at(expires).duration_since(at(issued));
    assert_eq!(given, jiff::SignedDuration::from_hours(20 * 24), "{seen}");
}

#[test]
fn the_policy_says_whether_sites_put_back_what_was_changed_by_hand() {
    for (fields, expected) in [
        ("  expiresDays: 20\n", "report"),
        ("  drift: report\n", "report"),
        ("  drift: correct\n", "correct"),
    ] {
        let centre = Centre::new();
        let made = centre.bundle(fields);
        assert!(made.status.success(), "{}", message(&made));
        let bundle = centre.folder.path().join("stick/dev-bench-1.outhaul");
        // The index lies in the bundle as it is.
        let bytes = String::from_utf8_lossy(&fs::read(bundle).unwrap()).into_owned();
        let drift = format!("\"drift\":\"{expected}\"");
        assert!(bytes.contains(&drift), "{fields}");
    }
    let message = Centre::new().refused("  drift: ignore\n", 2);
    assert!(
        message.contains("report") && message.contains("correct"),
        "{message}"
    );
}

/// Has the printer's labels in an OCI registry, as `more` says.
fn in_a_registry(centre: &Centre, more: &str) {
    let file = centre
        .folder
        .path()
        .join("label-printer/source/workload.yaml");
    let text = fs::read_to_string(&file).unwrap();
    let lines: Vec<String> = text
        .lines()
        .filter(|line| !line.contains("digest:"))
        .map(|line| match line.split_once("storage:") {
            Some((space, _)) => format!("{space}storage: oci{more}"),
            None => line.to_owned(),
        })
        .collect();
    fs::write(file, lines.join("\n") + "\n").unwrap();
}

#[test]
fn an_oci_artifact_is_named_by_digest_where_sites_have_it_and_refused_where_not() {
    let centre = Centre::new();
    in_a_registry(&centre, "");
    let seen = centre.refused("  expiresDays: 20\n", 1);
    insta::assert_snapshot!(seen);
    let seen = centre.refused("  images: reference\n", 1);
    assert!(seen.contains("error[not-pinned]"), "{seen}");
    let digest = format!("\n        digest: sha256:{}", "0".repeat(64));
    in_a_registry(&centre, &digest);
    let made = centre.bundle("  images: reference\n");
    assert!(made.status.success(), "{}", message(&made));
    let seen = centre.outhaul("inspect --fleet fleet stick/dev-bench-1.outhaul");
    assert!(seen.status.success(), "{}", message(&seen));
    assert!(!String::from_utf8_lossy(&seen.stdout).contains("print-label.sh"));
}

#[test]
fn an_oci_artifact_that_is_to_travel_and_that_no_rendered_object_fetches_is_refused_by_name() {
    let centre = Centre::new();
    in_a_registry(&centre, "");
    let seen = centre.refused("  images: carry\n", 1);
    for words in [
        "error[not-carried]",
        "they are an OCI artifact, which no rendered object fetches",
        "such as `flux-oci`",
    ] {
        assert!(seen.contains(words), "`{words}` is not in:\n{seen}");
    }
}

#[test]
fn a_key_that_cannot_verify_is_no_success() {
    let centre = Centre::new();
    // Of Ed25519, as `openssl genpkey` makes them; images are verified with P-256.
    let key = "-----BEGIN PUBLIC KEY-----\n        MCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=\n        -----END PUBLIC KEY-----\n";
    let policy = format!(
        "  imageSignatures:\n    - images: 'registry.example.org/*:*'\n      keys:\n      - |\n        {key}"
    );
    let output = centre.bundle(&policy);
    let seen = message(&output);
    assert!(seen.contains("cannot verify signatures"), "{seen}");
    assert_eq!(output.status.code(), Some(1), "{seen}");
}

#[test]
fn what_must_be_encrypted_is_not_published_to_git_in_the_clear() {
    let centre = Centre::new();
    let git = Command::new("git")
        .args(["init", "--quiet", "--bare", "platform.git"])
        .current_dir(centre.folder.path())
        .status();
    assert!(git.unwrap().success());
    for (fields, words) in [
        (
            "  encryption: required\n",
            "publishing a branch contradict each other",
        ),
        (
            "  encryption: required\n  delivery: both\n",
            "`delivery: both` contradict each other",
        ),
    ] {
        centre.bundle(fields);
        let output = centre.outhaul(
            "publish git --environment dev --env-dir control-plane/dev --base-dir control-plane/main \
             --source https://git.factory.example/label-printer=label-printer/source \
             --source https://git.factory.example/label-printer-manifests#dev=label-printer/manifests/dev \
             --to platform.git --branch dev",
        );
        let seen = message(&output);
        assert_eq!(output.status.code(), Some(2), "{seen}");
        for words in [words, "would go to git in the clear", "delivery.yaml:7:"] {
            assert!(seen.contains(words), "{words}: {seen}");
        }
        let branches = centre.folder.path().join("platform.git/refs/heads");
        assert_eq!(fs::read_dir(branches).unwrap().count(), 0);
    }
}
