//! Images that must be signed, signed by cosign, and verified by cosign again on site, without a network.
//!
//! What comes in: a real registry, images, key pairs of cosign, both forms of its signatures. What must come out: a bundle
//! whose images are signed by a key of the policy, with the signature that says so; no bundle of any other image; and what is
//! pulled on site is verified there by cosign.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use outhaul_tests::{available_or_skip, isolated_or_skip, run_script, skipped};

use super::{Registry, at_plain_mirror, crane_or_skip, push, with_image};
use crate::cluster::{SITE, follow_the_example};
use crate::system::{SystemFixture, TO_STICK};

#[track_caller]
pub(super) fn cosign_or_skip() -> Option<PathBuf> {
    let found = std::env::var_os("OUTHAUL_COSIGN").map(PathBuf::from);
    let found = found.filter(|cosign| cosign.is_file());
    if found.is_none() {
        skipped("`cosign` is not here: set OUTHAUL_COSIGN (`.ci/programs/build cosign`)");
    }
    found
}

/// Runs `script` with cosign; what it printed.
fn cosign(fixture: &SystemFixture, cosign: &Path, script: &str) -> String {
    let mut shell = fixture.command(Path::new("bash"));
    shell
        .args(["-euc", script])
        .env("COSIGN", cosign)
        .env("COSIGN_PASSWORD", "");
    let ran = run_script(&mut shell).unwrap();
    assert_eq!(ran.code, Some(0), "{}", ran.everything());
    ran.stdout
}

/// Makes a key pair `NAME.key` and `NAME.pub`.
fn pair(fixture: &SystemFixture, program: &Path, name: &str) {
    cosign(
        fixture,
        program,
        &format!("\"$COSIGN\" generate-key-pair --output-key-prefix {name} 2>/dev/null"),
    );
}

fn sign(fixture: &SystemFixture, program: &Path, key: &str, image: &str, more: &str) {
    let options = "--tlog-upload=false --use-signing-config=false --yes";
    let script = format!("\"$COSIGN\" sign --key {key}.key {options} {more} {image} 2>&1");
    cosign(fixture, program, &script);
}

/// The policy of the example, by which images below `images` are signed by the key `NAME.pub`.
fn wanted(fixture: &SystemFixture, images: &str, name: &str) {
    let pem = fs::read_to_string(fixture.path(&format!("{name}.pub"))).unwrap();
    let pem = pem.lines().map(|line| format!("            {line}"));
    let pem = pem.collect::<Vec<_>>().join("\n");
    let rules = format!(
        "  imageSignatures:\n    - images: \"{images}\"\n      keys:\n        - |\n{pem}\n"
    );
    fixture.on_branch("control-plane", "dev", |folder| {
        let path = folder.join("delivery/cluster.yaml");
        let text = fs::read_to_string(&path).unwrap();
        let before = text.split("  imageSignatures:").next().unwrap();
        fs::write(path, format!("{}\n{rules}", before.trim_end())).unwrap();
    });
}

const VERIFY: &str = r#"
    "$COSIGN" verify --key "$KEY" --insecure-ignore-tlog $MORE "$IMAGE" 2>/dev/null
"#;

/// What cosign says on site of the image that the mirror serves.
fn verified_on_site(
    fixture: &SystemFixture,
    registry: &Registry,
    program: &Path,
    (image, more): (&str, &str),
) -> String {
    let listen = registry.address.replace("localhost", "127.0.0.1");
    let key = fixture.path("press.pub");
    let programs = [
        ("COSIGN", program),
        ("KEY", key.as_path()),
        ("IMAGE", Path::new(image)),
        ("MORE", Path::new(more)),
    ];
    at_plain_mirror(fixture, &listen, VERIFY, &programs)
}

#[test]
fn an_image_travels_only_when_a_key_of_the_policy_signed_it_and_its_signature_travels_with_it() {
    if !isolated_or_skip() || !available_or_skip("bash") {
        return;
    }
    let (Some(crane), Some(program)) = (crane_or_skip(), cosign_or_skip()) else {
        return;
    };
    let mut fixture = SystemFixture::new();
    follow_the_example(&mut fixture);
    let registry = Registry::start(&crane);
    let address = registry.address.clone();
    let name = format!("{}/team/stock-report:1.4.0", registry.address);
    let digest = push(&fixture, &crane, &name, "first");
    with_image(&fixture, &name);
    pair(&fixture, &program, "press");
    pair(&fixture, &program, "other");
    let team = format!("{}/team/*", registry.address);
    wanted(&fixture, &team, "press");
    let keys = [&TO_STICK[..], &["--allow-host", &address]].concat();
    let bundle = |code: i32| fixture.plane(code, "bundle", "dev", &keys).everything();

    let unsigned = bundle(1);
    let wants = format!("it must be signed by a key of `{team}` in delivery policy");
    assert!(unsigned.contains(&wants), "{unsigned}");
    assert!(
        unsigned.contains("its registry has no signature of it"),
        "{unsigned}"
    );
    let image = format!("{}/team/stock-report@{digest}", registry.address);
    sign(&fixture, &program, "other", &image, "");
    let other = bundle(1);
    assert!(other.contains("by none of the keys"), "{other}");
    assert!(!fixture.path("stick/dev-store-1.outhaul").exists());

    // The newer form: what refers to the image.
    sign(&fixture, &program, "press", &image, "");
    let made = bundle(0);
    assert!(!made.contains("is not verified"), "{made}");
    // Whose key it was, as openssl prints it, also for whoever has the stick.
    let printed = Command::new("sh")
        .args([
            "-c",
            "openssl pkey -pubin -in press.pub -outform DER | sha256sum",
        ])
        .current_dir(fixture.path(""))
        .output()
        .unwrap();
    let printed = String::from_utf8(printed.stdout).unwrap();
    let by = format!("by the key sha256:{}", printed.split(' ').next().unwrap());
    assert!(by.len() > 64 && made.contains(&by), "{by}: {made}");
    let inspect = |number: u64| {
        let file = format!("stick/dev-store-{number}.outhaul");
        fixture.run("outhaul", 0, &["inspect", &file]).stdout
    };
    assert!(
        inspect(1).contains(&format!("signed {by}")),
        "{}",
        inspect(1)
    );
    let lock = fs::read_to_string(fixture.path("fleet/outhaul.lock")).unwrap();
    let hex = digest.trim_start_matches("sha256:");
    assert!(lock.contains(&format!("sha256-{hex}.sig")), "{lock}");
    fixture.carry(SITE);
    let said = verified_on_site(&fixture, &registry, &program, (&name, ""));
    assert!(said.contains(&digest), "{said}");

    // The same again needs no registry, and is verified all the same.
    drop(registry);
    let again = [&keys[..], &["--renew"]].concat();
    fixture.plane(0, "bundle", "dev", &again);
    wanted(&fixture, &team, "other");
    let refused = fixture.plane(1, "bundle", "dev", &again).everything();
    assert!(refused.contains(&address), "{refused}");
    // What sites run is not taken from them: it is signed once more, and that it was not verified is said.
    let kept = refused
        .find("warning[kept-unverified]")
        .unwrap_or_else(|| panic!("{refused}"));
    let kept = &refused[kept..];
    assert!(kept.contains("stays as bundle 2 had it"), "{kept}");
    assert!(
        kept.contains("is not checked against `imageSignatures` in delivery policy"),
        "{kept}"
    );
    let third = inspect(3);
    assert!(
        third.contains(&name) && !third.contains("signed by the key"),
        "{third}"
    );
}

#[test]
fn a_signature_of_the_older_form_travels_under_its_tag_and_an_image_that_no_entry_is_for_is_named()
{
    if !isolated_or_skip() || !available_or_skip("bash") {
        return;
    }
    let (Some(crane), Some(program)) = (crane_or_skip(), cosign_or_skip()) else {
        return;
    };
    let mut fixture = SystemFixture::new();
    follow_the_example(&mut fixture);
    let registry = Registry::start(&crane);
    let name = format!("{}/team/stock-report:1.4.0", registry.address);
    let digest = push(&fixture, &crane, &name, "first");
    with_image(&fixture, &name);
    pair(&fixture, &program, "press");
    wanted(&fixture, "registry.example/*", "press");
    let keys = [&TO_STICK[..], &["--allow-host", &registry.address]].concat();
    let made = fixture.plane(0, "bundle", "dev", &keys).everything();
    assert!(
        made.contains(&format!("image `{name}` is not verified")),
        "{made}"
    );

    wanted(&fixture, "*", "press");
    let image = format!("{}/team/stock-report@{digest}", registry.address);
    sign(
        &fixture,
        &program,
        "press",
        &image,
        "--new-bundle-format=false",
    );
    fixture.plane(0, "bundle", "dev", &keys);
    let shown = fixture.run("outhaul", 0, &["inspect", "stick/dev-store-2.outhaul"]);
    let tag = digest.replace(':', "-");
    assert!(
        shown.stdout.contains(&format!("{tag}.sig")),
        "{}",
        shown.stdout
    );
    // A signature is no image: it has no bill of materials, of which nothing would be known.
    let json = ["inspect", "stick/dev-store-2.outhaul", "--output", "json"];
    let index = outhaul_tests::result(&fixture.run("outhaul", 0, &json).stdout)["index"].clone();
    let names = index["attestations"].as_array().unwrap().iter();
    let names: Vec<_> = names.map(|one| one["path"].as_str().unwrap()).collect();
    let of_images = names.iter().filter(|name| name.starts_with("image-"));
    assert_eq!(of_images.count(), 1, "{names:?}");
    fixture.carry(SITE);
    let old = "--new-bundle-format=false";
    let said = verified_on_site(&fixture, &registry, &program, (&name, old));
    assert!(said.contains(&digest), "{said}");
}
