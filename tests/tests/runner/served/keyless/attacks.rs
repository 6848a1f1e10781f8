//! Each way in which a signature by an identity is not one.
//!
//! What comes in: both forms of a signature that cosign made with a whole instance of Sigstore, then moved to another image, changed,
//! robbed of a part, or read with another root. What must come out: the name of what is wrong. Nothing of the instance runs meanwhile.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use outhaul_bundle::Digest;
use outhaul_bundle::index::Content;
use outhaul_cosign::{
    BUNDLE, Identities, Identity, SIMPLE, SignedBy, Trusted, TrustedRoot, signed_by,
};
use serde_json::{Value, json};

use super::{PRESS, Scene};
use crate::served::push;

/// A manifest with one signature, whose content is `bytes`.
fn manifest(media_type: &str, bytes: &[u8], annotations: &Value) -> Vec<u8> {
    let layer = json!({
        "mediaType": media_type, "digest": Digest::of(bytes).to_string(), "size": bytes.len(), "annotations": annotations,
    });
    json!({ "layers": [layer] }).to_string().into_bytes()
}

/// Who signed an image in a signature, or why nobody did who may.
fn verdict(
    image: &str,
    (manifest, bytes): (&[u8], &[u8]),
    root: &str,
    may_sign: &dyn Fn(&Identity) -> bool,
) -> Result<Identity, String> {
    let root = TrustedRoot::parse(root).map_err(|error| error.to_string())?;
    let identities = Identities {
        root: &root,
        may_sign,
    };
    let trusted = Trusted {
        keys: &[],
        identities: Some(identities),
    };
    let blob = |_: Content| Some(bytes.to_vec());
    match signed_by(&image.parse().unwrap(), manifest, &blob, &trusted) {
        Ok(SignedBy::Identity(identity)) => Ok(identity),
        Ok(SignedBy::Key(_)) => Err("by a key".to_owned()),
        Err(problems) => Err(problems.join("; ")),
    }
}

/// The same of a Sigstore bundle.
fn of_bundle(image: &str, bundle: &[u8], root: &str) -> Result<Identity, String> {
    let manifest = manifest(BUNDLE, bundle, &json!({}));
    verdict(image, (&manifest, bundle), root, &|by| by.subject == PRESS)
}

fn changed(json: &[u8], change: impl FnOnce(&mut Value)) -> Vec<u8> {
    let mut value: Value = serde_json::from_slice(json).unwrap();
    change(&mut value);
    value.to_string().into_bytes()
}

fn changed_root(root: &str, change: impl FnOnce(&mut Value)) -> String {
    String::from_utf8(changed(root.as_bytes(), change)).unwrap()
}

/// What cosign made, and what it was made with.
struct Recorded {
    root: String,
    foreign: String,
    first: String,
    second: String,
    bundle: Vec<u8>,
    payload: Vec<u8>,
    annotations: Value,
}

/// What was tried, what came of it, and what must have been said.
type Attack = (&'static str, Result<Identity, String>, &'static str);

impl Recorded {
    /// Both forms of a signature of one image, after whose making nothing of the instance runs any more.
    fn of(scene: &Scene) -> Self {
        let foreign = scene.instance("others").root().unwrap();
        let mine = scene.instance("sigstore");
        let second = format!("{}/team/second:1", scene.address);
        let second = push(&scene.fixture, &scene.crane, &second, "second");
        let image = scene.image(&scene.digest);
        for is_older in [false, true] {
            mine.sign(&scene.cosign, &image, PRESS, is_older).unwrap();
        }
        let (_, bundle) = scene.referrer(&scene.digest);
        let older = scene.image("").replace('@', ":") + &scene.digest.replace(':', "-") + ".sig";
        let (older, payload) = scene.signature(&older);
        Self {
            root: mine.root().unwrap(),
            foreign,
            first: scene.digest.clone(),
            second,
            bundle,
            payload,
            annotations: older["layers"][0]["annotations"].clone(),
        }
    }

    fn by_root(&self, root: &str) -> Result<Identity, String> {
        of_bundle(&self.first, &self.bundle, root)
    }

    fn edited(&self, change: &dyn Fn(&mut Value)) -> Result<Identity, String> {
        of_bundle(&self.first, &changed(&self.bundle, change), &self.root)
    }

    /// The same with a changed first entry of the log.
    fn logged(&self, change: &dyn Fn(&mut Value)) -> Result<Identity, String> {
        self.edited(&|bundle| change(&mut bundle["verificationMaterial"]["tlogEntries"][0]))
    }

    fn older(&self, image: &str, payload: &[u8], root: &str) -> Result<Identity, String> {
        of_older(image, payload, &self.annotations, root)
    }

    /// The root without a log, by which what is in none counts.
    fn logless(&self) -> String {
        without_log(&self.root)
    }

    fn on_the_statement(&self) -> Vec<Attack> {
        let other_issuer = verdict(
            &self.first,
            (&manifest(BUNDLE, &self.bundle, &json!({})), &self.bundle),
            &self.root,
            &|by| by.issuer == "https://accounts.example",
        );
        let of_second = changed(&self.bundle, |bundle| {
            let text = base64_text(&bundle["dsseEnvelope"]["payload"]);
            let text = text.replace(&self.first[7..], &self.second[7..]);
            bundle["dsseEnvelope"]["payload"] = json!(base64_of(&text));
        });
        let cut_off = &self.bundle[..self.bundle.len() / 2];
        vec![
            (
                "other issuer",
                other_issuer,
                "is not one of the allowed identities",
            ),
            (
                "moved to another image",
                of_bundle(&self.second, &self.bundle, &self.root),
                "of another image",
            ),
            (
                "statement changed to another image",
                of_bundle(&self.second, &of_second, &self.root),
                "DSSE signature verification failed",
            ),
            (
                "another signature",
                self.edited(&|bundle| {
                    bundle["dsseEnvelope"]["signatures"][0]["sig"] = json!("MEUCIQ==");
                }),
                "does not hold",
            ),
            (
                "cut off",
                of_bundle(&self.first, cut_off, &self.root),
                "cannot be read",
            ),
        ]
    }

    fn on_the_root(&self) -> Vec<Attack> {
        let ended = |kind: &str| {
            changed_root(&self.root, |root| {
                root[kind][0]["validFor"] =
                    json!({"start": "2020-01-01T00:00:00Z", "end": "2020-02-01T00:00:00Z"});
            })
        };
        let foreign: Value = serde_json::from_str(&self.foreign).unwrap();
        let with_foreign =
            |kind: &str| changed_root(&self.root, |root| root[kind] = foreign[kind].clone());
        vec![
            (
                "root of another instance",
                self.by_root(&self.foreign),
                "does not hold",
            ),
            (
                "certificate authority of another instance",
                self.by_root(&with_foreign("certificateAuthorities")),
                "does not hold",
            ),
            (
                "certificate in no log of the root",
                self.by_root(&with_foreign("ctlogs")),
                "invalid signed certificate timestamp",
            ),
            (
                "log of another instance",
                self.by_root(&with_foreign("tlogs")),
                "No matching Rekor key",
            ),
            (
                "authority ended before",
                self.by_root(&ended("certificateAuthorities")),
                "no trusted certificate authority is valid",
            ),
            (
                "timestamp authority ended before",
                self.by_root(&ended("timestampAuthorities")),
                "outside the validity period",
            ),
        ]
    }

    fn on_the_log(&self) -> Vec<Attack> {
        let material = "verificationMaterial";
        vec![
            (
                "certificate that has ended, without a timestamp",
                self.edited(&|bundle| {
                    bundle[material]["timestampVerificationData"] = json!({});
                }),
                "no verified timestamp",
            ),
            (
                "no log entry",
                self.edited(&|bundle| bundle[material]["tlogEntries"] = json!([])),
                "must have an inclusion proof",
            ),
            (
                "log entry without inclusion",
                self.logged(&|entry| {
                    entry.as_object_mut().unwrap().remove("inclusionProof");
                }),
                "must have an inclusion proof",
            ),
            (
                "log entry of something else",
                self.logged(&|entry| {
                    let body = base64_text(&entry["canonicalizedBody"]).replace("0.0.2", "0.0.3");
                    entry["canonicalizedBody"] = json!(base64_of(&body));
                }),
                "invalid inclusion proof",
            ),
            (
                "checkpoint that the log did not sign",
                self.logged(&|entry| {
                    let point = &mut entry["inclusionProof"]["checkpoint"]["envelope"];
                    *point = json!(point.as_str().unwrap().replacen(
                        "localhost\n",
                        "elsewhere\n",
                        1
                    ));
                }),
                "does not hold",
            ),
            (
                "too many log entries",
                self.edited(&|bundle| {
                    let entry = bundle[material]["tlogEntries"][0].clone();
                    bundle[material]["tlogEntries"] = json!(vec![entry; 17]);
                }),
                "more than 16",
            ),
        ]
    }

    fn on_the_older_form(&self) -> Vec<Attack> {
        let logless = self.logless();
        let payload = String::from_utf8_lossy(&self.payload);
        let of_second = payload.replace(&self.first[7..], &self.second[7..]);
        let lacking = |name: &str| {
            let annotations = without(&self.annotations, name);
            of_older(&self.first, &self.payload, &annotations, &logless)
        };
        vec![
            (
                "older form, in no log though the root names one",
                self.older(&self.first, &self.payload, &self.root),
                "not in a log",
            ),
            (
                "older form, moved to another image",
                self.older(&self.second, &self.payload, &logless),
                "of another image",
            ),
            (
                "older form, payload changed",
                self.older(&self.second, of_second.as_bytes(), &logless),
                "signature verification failed",
            ),
            (
                "older form, without a timestamp",
                lacking("rfc3161timestamp"),
                "does not hold",
            ),
            (
                "older form, without a certificate",
                lacking("certificate"),
                "has no certificate",
            ),
            (
                "older form, root of another instance",
                self.older(&self.first, &self.payload, &without_log(&self.foreign)),
                "does not hold",
            ),
        ]
    }
}

fn of_older(
    image: &str,
    payload: &[u8],
    annotations: &Value,
    root: &str,
) -> Result<Identity, String> {
    let manifest = manifest(SIMPLE, payload, annotations);
    verdict(image, (&manifest, payload), root, &|by| by.subject == PRESS)
}

fn without_log(root: &str) -> String {
    changed_root(root, |root| root["tlogs"] = json!([]))
}

#[test]
fn attack_a_signature_by_an_identity_that_was_moved_changed_or_is_not_whole_does_not_hold() {
    let Some(scene) = Scene::start() else { return };
    let recorded = Recorded::of(&scene);
    // The newer form holds with the whole root; the older one, which is in no log here, with a root that names none.
    let held = recorded.by_root(&recorded.root).unwrap();
    assert!(held.is_logged && held.subject == PRESS, "{held:?}");
    let logless = recorded.logless();
    let held = recorded.older(&recorded.first, &recorded.payload, &logless);
    let held = held.unwrap();
    assert!(!held.is_logged && held.subject == PRESS, "{held:?}");
    let attacks = [
        recorded.on_the_statement(),
        recorded.on_the_root(),
        recorded.on_the_log(),
        recorded.on_the_older_form(),
    ];
    for (attack, found, expected) in attacks.into_iter().flatten() {
        let refused = found.expect_err(attack);
        assert!(refused.contains(expected), "{attack}: {refused}");
    }
}

fn without(annotations: &Value, name: &str) -> Value {
    let mut annotations = annotations.clone();
    let all = annotations.as_object_mut().unwrap();
    all.remove(&format!("dev.sigstore.cosign/{name}")).unwrap();
    annotations
}

fn base64_text(value: &Value) -> String {
    String::from_utf8(STANDARD.decode(value.as_str().unwrap()).unwrap()).unwrap()
}

fn base64_of(text: &str) -> String {
    STANDARD.encode(text)
}
