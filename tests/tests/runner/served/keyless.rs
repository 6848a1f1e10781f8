//! Images that an identity must have signed, signed by cosign with a whole instance of Sigstore, and verified without one.
//!
//! What comes in: a real registry, certificate authority, timestamp authority and logs, and signatures that cosign made with them, in both
//! forms. What must come out: a bundle whose images are signed by an identity of the policy, who is printed, with the signature, which
//! cosign verifies again on site without a network.

use std::fs;
use std::path::{Path, PathBuf};

use outhaul_cosign::BUNDLE;
use outhaul_tests::sigstore::{Sigstore, programs_or_skip};
use outhaul_tests::{available_or_skip, isolated_or_skip, run_script};
use serde_json::{Value, json};

use super::signed::cosign_or_skip;
use super::{Registry, at_plain_mirror, crane_or_skip, push, with_image};
use crate::cluster::{SITE, follow_the_example};
use crate::system::{SystemFixture, TO_STICK};

mod attacks;

const PRESS: &str = "release@press.example";

/// The policy of the example, by which images below `images` are signed by `subject` of `issuer`.
fn wanted(fixture: &SystemFixture, images: &str, (issuer, subject): (&str, &str), root: &str) {
    let rules = format!(
        "  trustedRoots:\n    - name: press\n      json: |\n        {}\n  imageSignatures:\n    - images: \"{images}\"\n      \
         identities:\n        - {{ issuer: \"{issuer}\", subject: \"{subject}\" }}\n      trustedRoot: press\n",
        root.trim()
    );
    fixture.on_branch("control-plane", "dev", |folder| {
        let path = folder.join("delivery/cluster.yaml");
        let text = fs::read_to_string(&path).unwrap();
        let before = text.split("  trustedRoots:").next().unwrap();
        fs::write(path, format!("{}\n{rules}", before.trim_end())).unwrap();
    });
}

struct Scene {
    fixture: SystemFixture,
    registry: Option<Registry>,
    address: String,
    crane: PathBuf,
    cosign: PathBuf,
    sigstore: PathBuf,
    name: String,
    digest: String,
}

impl Scene {
    #[track_caller]
    fn start() -> Option<Self> {
        if !isolated_or_skip() || !available_or_skip("bash") || !available_or_skip("openssl") {
            return None;
        }
        let (crane, cosign) = (crane_or_skip()?, cosign_or_skip()?);
        let sigstore = programs_or_skip()?;
        let mut fixture = SystemFixture::new();
        follow_the_example(&mut fixture);
        let registry = Registry::start(&crane);
        let name = format!("{}/team/stock-report:1.4.0", registry.address);
        let digest = push(&fixture, &crane, &name, "first");
        with_image(&fixture, &name);
        Some(Self {
            fixture,
            address: registry.address.clone(),
            registry: Some(registry),
            crane,
            cosign,
            sigstore,
            name,
            digest,
        })
    }

    fn instance(&self, name: &str) -> Sigstore {
        Sigstore::start(&self.fixture.path(name), &self.sigstore, &self.cosign).unwrap()
    }

    fn image(&self, digest: &str) -> String {
        format!("{}/team/stock-report@{digest}", self.address)
    }

    fn keys(&self) -> Vec<&str> {
        [&TO_STICK[..], &["--allow-host", &self.address]].concat()
    }

    fn bundle(&self, code: i32) -> String {
        let ran = self.fixture.plane(code, "bundle", "dev", &self.keys());
        ran.everything()
    }

    /// What crane prints of something in the registry.
    fn crane(&self, what: &str, name: &str) -> Vec<u8> {
        let mut command = self.fixture.command(&self.crane);
        let ran = run_script(command.args([what, name])).unwrap();
        assert_eq!(ran.code, Some(0), "{}", ran.everything());
        ran.stdout.into_bytes()
    }

    /// The manifest of a signature, and what it names.
    fn signature(&self, name: &str) -> (Value, Vec<u8>) {
        let manifest: Value = serde_json::from_slice(&self.crane("manifest", name)).unwrap();
        let layer = manifest["layers"][0]["digest"].as_str().unwrap();
        let bytes = self.crane("blob", &self.image(layer));
        (manifest, bytes)
    }

    /// The newest signature of the newer form of an image.
    fn referrer(&self, digest: &str) -> (Value, Vec<u8>) {
        let list = self.image("").replace('@', ":") + &digest.replace(':', "-");
        let list: Value = serde_json::from_slice(&self.crane("manifest", &list)).unwrap();
        let all = list["manifests"].as_array().unwrap();
        let is_signature = |one: &&Value| one["artifactType"] == BUNDLE;
        let last = all.iter().rfind(is_signature).unwrap();
        self.signature(&self.image(last["digest"].as_str().unwrap()))
    }
}

#[test]
fn an_image_travels_only_when_an_identity_of_the_policy_signed_it_and_its_signature_travels_with_it()
 {
    let Some(mut scene) = Scene::start() else {
        return;
    };
    let instance = scene.instance("sigstore");
    let (root, issuer) = (instance.root().unwrap(), instance.issuer().to_owned());
    let fixture = &scene.fixture;
    let team = format!("{}/team/*", scene.address);
    wanted(fixture, &team, (&issuer, PRESS), &root);

    let unsigned = scene.bundle(1);
    let wants = format!("it must be signed by an identity of `{team}` in delivery policy");
    assert!(unsigned.contains(&wants), "{unsigned}");
    assert!(
        unsigned.contains("its registry has no signature of it"),
        "{unsigned}"
    );
    let image = scene.image(&scene.digest);
    let sign = |subject: &str| instance.sign(&scene.cosign, &image, subject, false);
    sign("other@press.example").unwrap();
    let other = scene.bundle(1);
    let who = format!("it is signed by `other@press.example` of `{issuer}`, which is not one of");
    assert!(other.contains(&who), "{other}");
    sign(PRESS).unwrap();
    let elsewhere = "https://accounts.example";
    wanted(fixture, &team, (elsewhere, PRESS), &root);
    let other = scene.bundle(1);
    let who = format!("it is signed by `{PRESS}` of `{issuer}`, which is not one of");
    assert!(other.contains(&who), "{other}");
    assert!(!fixture.path("stick/dev-store-1.outhaul").exists());

    wanted(fixture, &team, (&issuer, PRESS), &root);
    let made = scene.bundle(0);
    let by = format!("by `{PRESS}` of `{issuer}` at 20");
    assert!(
        made.contains(&format!("signed: image `{}`", scene.name)),
        "{made}"
    );
    assert!(
        made.contains(&by) && made.contains("in a transparency log"),
        "{made}"
    );
    // Whoever has the stick reads it there, too.
    let looked = fixture.run("outhaul", 0, &["inspect", "stick/dev-store-1.outhaul"]);
    assert!(
        looked.stdout.contains(&format!("signed {by}")),
        "{}",
        looked.stdout
    );
    scene.fixture.carry(SITE);
    let verify = r#"
        "$COSIGN" verify --certificate-identity "$SUBJECT" --certificate-oidc-issuer "$ISSUER" --trusted-root "$ROOT" "$IMAGE" 2>/dev/null
    "#;
    let fixture = &scene.fixture;
    let listen = scene.address.replace("localhost", "127.0.0.1");
    let root_file = fixture.path("sigstore/root.json");
    let programs = [
        ("COSIGN", scene.cosign.as_path()),
        ("SUBJECT", Path::new(PRESS)),
        ("ISSUER", Path::new(&issuer)),
        ("ROOT", root_file.as_path()),
        ("IMAGE", Path::new(&scene.name)),
    ];
    let said = at_plain_mirror(fixture, &listen, verify, &programs);
    assert!(said.contains(&scene.digest), "{said}");

    // A root is as old as the file is: that is said before anything is made, and with each bundle.
    let mut old: Value = serde_json::from_str(&root).unwrap();
    old["tlogs"][0]["publicKey"]["validFor"] =
        json!({"start": "2026-01-01T00:00:00Z", "end": "2026-02-01T00:00:00Z"});
    wanted(fixture, &team, (&issuer, PRESS), &old.to_string());
    let alarm = "the trusted root `press` is old: its last log key ended on 2026-02-01";
    let checked = fixture.plane(0, "check", "dev", &["--allow-host", &scene.address]);
    assert!(
        checked.everything().contains(alarm),
        "{}",
        checked.everything()
    );
    wanted(fixture, &team, (&issuer, PRESS), &root);

    // With nothing of Sigstore and no registry, the same again is verified all the same.
    drop((instance, scene.registry.take()));
    let again = [&scene.keys()[..], &["--renew", "--output", "json"]].concat();
    let made = fixture.plane(0, "bundle", "dev", &again);
    let signed = &outhaul_tests::result(&made.stdout)["signed"][0];
    assert_eq!(
        (&signed["subject"], &signed["logged"]),
        (&json!(PRESS), &json!(true))
    );
    wanted(fixture, &team, (&issuer, "other@press.example"), &root);
    let refused = fixture.plane(1, "bundle", "dev", &again).everything();
    assert!(refused.contains(&scene.address), "{refused}");
}
