//! What a site keeps on disk is damaged: it is seen, named and put back, and what cannot be put back is refused.
//!
//! What comes in: a site with an image and a payload, whose state folder is changed by hand. What must come out:
//! a line under "attention", a report, and the same bytes as before.

use std::os::unix::fs::MetadataExt;

use serde_json::Value;

use super::*;

/// Of `examples/cluster`.
const ASSIGNMENT: &str = "stock-report-nightly";

/// A site that runs bundle 1 with an image; what is needed to bundle again, the image's name, and its registry.
pub(super) struct Site {
    pub scene: SystemFixture,
    /// It ends when this is none.
    pub registry: Option<Registry>,
    address: String,
    pub crane: PathBuf,
    pub image: String,
}

impl Site {
    #[track_caller]
    pub fn new() -> Option<Self> {
        let crane = crane_or_skip()?;
        let mut scene = SystemFixture::new();
        follow_the_example(&mut scene);
        let registry = Registry::start(&crane);
        let image = format!("{}/team/stock-report:1.4.0", registry.address);
        push(&scene, &crane, &image, "first");
        with_image(&scene, &image);
        let site = Self {
            scene,
            address: registry.address.clone(),
            registry: Some(registry),
            crane,
            image,
        };
        site.bundle(&[]);
        site.scene.carry(SITE);
        Some(site)
    }

    pub fn bundle(&self, more: &[&str]) -> outhaul_tests::Ran {
        self.try_bundle(0, more)
    }

    pub fn try_bundle(&self, code: i32, more: &[&str]) -> outhaul_tests::Ran {
        let keys = TO_STICK;
        let allowed = ["--allow-host", &self.address];
        let arguments = [&keys[..], &allowed, more].concat();
        self.scene.plane(code, "bundle", "dev", &arguments)
    }

    fn state(&self, path: &str) -> PathBuf {
        self.scene.path(&format!("sites/{SITE}/{path}"))
    }

    /// The layer of the image in a generation: the only file of it that is also a stored blob.
    pub fn layer(&self, number: u64) -> PathBuf {
        let folder = self.state(&format!("generations/{number}/images/blobs/sha256"));
        let mut entries = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().path());
        entries
            .find(|path| fs::metadata(path).unwrap().nlink() > 1)
            .unwrap()
    }

    /// What `status` says of stored files.
    #[track_caller]
    fn attention(&self) -> Vec<Value> {
        let reported = self.scene.agent(SITE, 0, &["status", "--output", "json"]);
        let status = outhaul_tests::result(&reported.stdout);
        let all = status["attention"].as_array().cloned().unwrap_or_default();
        let of_content = |one: &Value| one["what"] == "content";
        all.into_iter().filter(of_content).collect()
    }

    #[track_caller]
    fn names(&self, words: &[&str]) {
        let attention = self.attention();
        let reported = attention.first().unwrap_or(&Value::Null).to_string();
        for word in words {
            assert!(reported.contains(word), "{word}: {attention:?}");
        }
    }

    /// What a layer holds: its bytes match its name.
    #[track_caller]
    pub fn is_whole(layer: &Path) {
        let digest = outhaul_bundle::Digest::of(&fs::read(layer).unwrap()).hex();
        assert_eq!(layer.file_name().unwrap().to_str(), Some(&*digest));
    }
}

/// Changes bytes in the middle of a file, and so in every link to it.
pub(super) fn damage(path: &Path) {
    let mut bytes = fs::read(path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0xff;
    fs::write(path, bytes).unwrap();
}

#[test]
fn a_missing_layer_and_a_changed_payload_are_named_and_put_back() {
    let Some(site) = Site::new() else { return };
    assert!(site.attention().is_empty());
    let layer = site.layer(1);
    let name = layer.file_name().unwrap().to_str().unwrap().to_owned();

    fs::remove_file(&layer).unwrap();
    site.names(&[&name, &site.image, "missing", "`outhaul-agent apply`"]);
    let reported = site.scene.agent(SITE, 0, &["apply", "--who", "ann"]);
    assert!(
        reported.stdout.contains("put back"),
        "{}",
        reported.everything()
    );
    Site::is_whole(&layer);
    assert_eq!(fs::metadata(&layer).unwrap().nlink(), 2, "one copy is kept");
    assert!(site.attention().is_empty());

    let payload = site.state(&format!("generations/1/payload/{ASSIGNMENT}/report.yaml"));
    let before = fs::read(&payload).unwrap();
    fs::write(&payload, "changed: by hand\n").unwrap();
    site.names(&["report.yaml", "bytes"]);
    site.scene.agent(SITE, 0, &["apply", "--who", "ann"]);
    assert_eq!(fs::read(&payload).unwrap(), before);

    // The service finds it by itself, and reports it.
    fs::remove_file(&layer).unwrap();
    // The hub of its kit does not answer: the reports go by stick.
    site.scene.agent(SITE, 3, &["run", "--once"]);
    Site::is_whole(&layer);
    site.scene.agent(SITE, 0, &["export", "stick"]);
    let files = outhaul_test_kit::folder::paths(&site.scene.path("stick/reports"));
    let lines: Vec<u8> = files
        .iter()
        .flat_map(|path| fs::read(path).unwrap())
        .collect();
    let mut reports = lines
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty());
    let is_reported = reports.any(|line| {
        let report = outhaul_signer::Envelope::from_json(line).unwrap();
        let text = String::from_utf8_lossy(report.unverified_payload()).into_owned();
        text.contains("observation") && text.contains("put back") && text.contains(&name)
    });
    assert!(is_reported, "no report says what was put back");
}

#[test]
fn what_is_damaged_in_the_stored_copy_too_is_refused_and_an_import_of_the_same_bundle_brings_it() {
    let Some(site) = Site::new() else { return };
    let layer = site.layer(1);
    damage(&layer);
    site.names(&[&site.image, "bytes were changed", "import bundle 1 again"]);
    let reported = site.scene.agent(SITE, 1, &["apply", "--who", "ann"]);
    assert!(
        reported.stderr.contains(&site.image),
        "{}",
        reported.everything()
    );
    assert!(
        reported.stderr.contains("import"),
        "{}",
        reported.everything()
    );
    let reported = site.scene.agent(SITE, 0, &["import", "stick"]);
    assert!(
        reported.stdout.contains("brought back"),
        "{}",
        reported.everything()
    );
    Site::is_whole(&layer);
    assert!(site.attention().is_empty());

    // Another bundle with another image; the one before it is damaged, in both places.
    push(&site.scene, &site.crane, &site.image, "second");
    site.bundle(&["--update"]);
    site.scene.carry(SITE);
    let good = fs::read(&layer).unwrap();
    damage(&layer);
    site.names(&["bundle 1", "`rollback` to it is refused"]);
    let reported = site.scene.agent(SITE, 1, &["rollback", "--who", "ann"]);
    assert!(
        reported.stderr.contains(&site.image),
        "{}",
        reported.everything()
    );
    let served = || fs::read_to_string(site.state("serve/active")).unwrap();
    assert_eq!(served(), "2\n", "{}", reported.everything());

    // Damaged in one place only: it is put back before the site goes back to it.
    fs::write(&layer, &good).unwrap();
    fs::remove_file(&layer).unwrap();
    site.scene.agent(SITE, 0, &["rollback", "--who", "ann"]);
    Site::is_whole(&layer);
    assert_eq!(served(), "1\n");
}
