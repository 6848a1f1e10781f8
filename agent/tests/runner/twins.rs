//! Copies that carry the uncompressed archive of an image's layer in its place (a twin): what is brought into containerd, and one test for each attack.
//!
//! What comes in: the real program, a real fleet's bundles with an image, copies with sound and forged twins, and a `ctr` that records what it is asked.
//! What must come out: the image by its names in what is imported, or a refusal that states what is wrong, and a state folder as it was.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Cursor, Read};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use outhaul_bundle::index::{Blob, Content};
use outhaul_bundle::patch::{Maker, Region, Source, View};
use outhaul_bundle::volume::Base;
use outhaul_bundle::{BlobSource, Digest, Volume, fake::MemoryBlobs};
use outhaul_test_kit::{Centre, Draft, Load, noise};
use serde_json::{Value, json};

use super::site::{Site, assert_reports, code, stderr, stdout};

const NAME: &str = "registry.example/team/app:1";

/// A bundle with one image: the archive of its layer ends with `text`. What a registry has as the layer are other bytes.
fn draft(text: &str) -> Draft {
    let (archive, layer) = (archive(text), layer(text));
    let config = json!({
        "architecture": "amd64", "os": "linux",
        "rootfs": { "type": "layers", "diff_ids": [Digest::of(&archive).to_string()] },
    });
    let config = config.to_string().into_bytes();
    let of = |media_type: &str, bytes: &[u8]| json!({ "mediaType": media_type, "digest": Digest::of(bytes).to_string(), "size": bytes.len() });
    let manifest = json!({
        "schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": of("application/vnd.oci.image.config.v1+json", &config),
        "layers": [of("application/vnd.oci.image.layer.v1.tar+zstd", &layer)],
    });
    let load = Load::new("hello").file("manifest.yaml", format!("greeting: {text}\n"));
    Draft::new([load]).image(NAME, vec![manifest.to_string().into_bytes(), config, layer])
}

fn archive(text: &str) -> Vec<u8> {
    [noise(140_000), text.as_bytes().to_vec()].concat()
}

fn layer(text: &str) -> Vec<u8> {
    [noise(150_000), format!("compressed {text}").into_bytes()].concat()
}

/// The patch that makes `archive` of nothing and says that it makes `stated`.
fn twin(archive: &[u8], stated: &[u8]) -> Vec<u8> {
    let mut maker = Maker::new(Vec::new(), Cursor::new(Vec::new()));
    maker.make_twin(Content {
        digest: Digest::of(stated),
        size: stated.len() as u64,
    });
    maker.patch(archive, &[], &[]).unwrap();
    finish(maker)
}

fn finish(maker: Maker<Cursor<Vec<u8>>>) -> Vec<u8> {
    let mut bytes = Vec::new();
    maker.finish(&mut bytes).unwrap();
    bytes
}

struct WithTwin {
    blobs: MemoryBlobs,
    patch: Vec<u8>,
}

impl BlobSource for WithTwin {
    fn open(&mut self, blob: &Blob) -> io::Result<Box<dyn Read + '_>> {
        BlobSource::open(&mut self.blobs, blob)
    }

    fn open_patch(&mut self, _: &Blob) -> io::Result<Box<dyn Read + '_>> {
        Ok(Box::new(self.patch.as_slice()))
    }
}

/// The published bundle `number` of `draft` for sites with `before`: `patch` in the place of its layer.
fn copy(
    centre: &Centre,
    (draft, number, layer): (&Draft, u64, &[u8]),
    (earlier, before): (&Draft, u64),
    patch: Vec<u8>,
) -> PathBuf {
    let (index, blobs) = centre.index(draft, number);
    let (old, _) = centre.index(earlier, before);
    let has: BTreeSet<Digest> = old.blobs.iter().map(|blob| blob.digest).collect();
    let sizes = BTreeMap::from([(Digest::of(layer), patch.len() as u64)]);
    let base = Base {
        number: before,
        index: Digest::of(&old.to_bytes()),
    };
    let volume = Volume::since_with(&index, &[(base, has)], &sizes).unwrap();
    let name = format!("drone-{number}.twin.outhaul");
    centre.part(&index, &volume, &mut WithTwin { blobs, patch }, &name)
}

/// A site with bundle 1, and a `ctr` in its folder that records what it is asked and knows what was imported.
struct Case {
    centre: Centre,
    site: Site,
    second: PathBuf,
    work: tempfile::TempDir,
}

impl Case {
    fn new() -> Self {
        Self::with(&draft("two"))
    }

    fn with(second: &Draft) -> Self {
        let centre = Centre::new();
        let site = Site::new(&centre, "drone-7");
        let first = centre.publish(&draft("one"));
        let second = centre.publish(second);
        site.take(&first);
        let work = tempfile::tempdir().unwrap();
        let case = Self {
            centre,
            site,
            second,
            work,
        };
        case.site.configure(&format!(
            "[containerd]\ntwins = true\nctr = \"{}\"\n",
            case.path("ctr").display()
        ));
        case
    }

    fn path(&self, name: &str) -> PathBuf {
        self.work.path().join(name)
    }

    /// A `ctr` that imports, tags, labels and removes names: `images check` lists them, `images ls` those that are pinned.
    fn containerd(&self) {
        let script = format!(
            r#"#!/bin/bash
set -eu
cd {work}
echo "$@" >>asked
shift 4
case "$1 $2" in
"images check")
    echo "REF TYPE DIGEST STATUS SIZE UNPACKED"
    cat known 2>/dev/null || true;;
"images import")
    tar -xf "${{@: -1}}" --one-top-level=imported
    python3 -c '
import json
for one in json.load(open("imported/index.json"))["manifests"]:
    print(one["annotations"]["io.containerd.image.name"], one["mediaType"], one["digest"], "incomplete 1 B", "true")
' >>known;;
"images tag")
    grep -v "^$5 " known >left || true
    sed -n "s|^$4 |$5 |p" known >>left
    mv left known;;
"images label")
    touch pins
    grep -vx "$3" pins >left || true
    case "$4" in *=pinned) echo "$3" >>left;; esac
    mv left pins;;
"images ls")
    cat pins 2>/dev/null || true;;
"images rm")
    shift 3
    for name; do grep -v "^$name " known >left || true; mv left known; done;;
esac
"#,
            work = self.work.path().display()
        );
        fs::write(self.path("ctr"), script).unwrap();
        fs::set_permissions(self.path("ctr"), fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// A `ctr` of a containerd that does not answer.
    fn no_containerd(&self) {
        fs::write(self.path("ctr"), "#!/bin/sh\necho no answer >&2\nexit 1\n").unwrap();
    }

    fn pins(&self) -> BTreeSet<String> {
        let pins = fs::read_to_string(self.path("pins")).unwrap_or_default();
        pins.lines().map(str::to_owned).collect()
    }

    /// The name of a bundle's image by its digest.
    fn by_digest(&self, draft: &Draft, number: u64) -> String {
        let (index, _) = self.centre.index(draft, number);
        let manifest = index.served.images[0].manifest.digest;
        format!("registry.example/team/app@{manifest}")
    }

    fn copy(&self, patch: Vec<u8>) -> PathBuf {
        let (new, layer) = (draft("two"), layer("two"));
        let earlier = draft("one");
        copy(&self.centre, (&new, 2, &layer), (&earlier, 1), patch)
    }

    /// Takes a forged copy, which must be refused by `rule` and leave everything as it was.
    fn refuses(&self, copy: &Path, rule: &str, words: &[&str]) {
        let before = self.site.kept();
        assert_reports(&self.site.import(copy), 4, words);
        assert_eq!(self.site.kept(), before);
        assert_eq!(self.site.refusals(rule).len(), 1, "{rule}");
        // The whole bundle always works.
        self.site.take(&self.second);
        assert_eq!(self.site.active(), Some(2));
    }

    /// Checks that the image has its own names and no layer, and the twin the archive. Returns where the imported blobs are.
    fn image_without_layers(&self) -> PathBuf {
        let known = fs::read_to_string(self.path("known")).unwrap();
        let (index, _) = self.centre.index(&draft("two"), 2);
        let manifest = index.served.images[0].manifest.digest;
        for name in [
            NAME.to_owned(),
            format!("registry.example/team/app@{manifest}"),
        ] {
            assert!(
                known
                    .lines()
                    .any(|line| line.starts_with(&format!("{name} "))
                        && line.contains(&manifest.to_string())),
                "{known}"
            );
        }
        assert!(!known.contains("twin.outhaul.dev"), "{known}");
        let blobs = self.path("imported/blobs/sha256");
        assert_eq!(
            fs::read(blobs.join(Digest::of(&archive("two")).hex())).unwrap(),
            archive("two")
        );
        assert!(!blobs.join(Digest::of(&layer("two")).hex()).exists());
        let listed: Value =
            serde_json::from_slice(&fs::read(self.path("imported/index.json")).unwrap()).unwrap();
        let of_twin = listed["manifests"][0]["digest"]
            .as_str()
            .unwrap()
            .replace("sha256:", "");
        let of_twin: Value =
            serde_json::from_slice(&fs::read(blobs.join(of_twin)).unwrap()).unwrap();
        assert_eq!(
            of_twin["layers"][0]["mediaType"],
            "application/vnd.oci.image.layer.v1.tar"
        );
        blobs
    }
}

#[test]
fn a_twin_is_imported_with_the_image_itself_before_anything_is_applied_and_the_next_builds_on_it() {
    let case = Case::new();
    let sound = case.copy(twin(&archive("two"), &archive("two")));
    // While there is no `ctr`, nothing is applied, and what is missing is named.
    let waits = case.site.import(&sound);
    assert_eq!(code(&waits), 3, "{}", stderr(&waits));
    let said = stderr(&waits);
    assert!(
        said.contains("cannot be brought into containerd")
            && said.contains("`[containerd]` in agent.toml"),
        "{said}"
    );
    assert_eq!(case.site.active(), Some(1));
    case.containerd();
    let applied = case.site.run(&["apply", "--who", "ann"]);
    assert_eq!(
        code(&applied),
        0,
        "{}{}",
        stdout(&applied),
        stderr(&applied)
    );
    assert_eq!(case.site.active(), Some(2));
    let blobs = case.image_without_layers();
    // What is lost of it is put back from the store, and it is imported once.
    let lost = case
        .site
        .state()
        .join("generations/2/images/blobs/sha256")
        .join(Digest::of(&archive("two")).hex());
    fs::remove_file(&lost).unwrap();
    let again = case.site.import(&sound);
    assert_eq!(code(&again), 0, "{}", stderr(&again));
    assert_eq!(fs::read(&lost).unwrap(), archive("two"));
    let asked = fs::read_to_string(case.path("asked")).unwrap();
    assert_eq!(asked.matches(" images import ").count(), 1, "{asked}");

    // The next twin is made of this one's archive.
    case.centre.publish(&draft("three"));
    let mut maker = Maker::new(
        vec![Source {
            blob: Digest::of(&layer("two")),
            view: View::Inflated(archive("two").len() as u64),
        }],
        Cursor::new(Vec::new()),
    );
    maker.make_twin(Content {
        digest: Digest::of(&archive("three")),
        size: archive("three").len() as u64,
    });
    maker.copy(Region {
        source: 0,
        offset: 0,
        length: 140_000,
    });
    maker.patch(b"three", &[], &[]).unwrap();
    let next = (&draft("three"), 3, layer("three"));
    let third = copy(
        &case.centre,
        (next.0, next.1, &next.2),
        (&draft("two"), 2),
        finish(maker),
    );
    case.site.take(&third);
    assert_eq!(case.site.active(), Some(3));
    assert_eq!(
        fs::read(blobs.join(Digest::of(&archive("three")).hex())).unwrap(),
        archive("three")
    );
    // A rollback goes to the bundle before, whose image stays as well.
    let (second, third) = (draft("two"), draft("three"));
    let pinned = [
        NAME.to_owned(),
        case.by_digest(&second, 2),
        case.by_digest(&third, 3),
    ];
    assert_eq!(case.pins(), pinned.into());
    // What no generation needs is removed with its statement.
    case.centre.publish(&draft("four"));
    case.site.take(&case.centre.publish_as(&draft("five"), 5));
    case.site.take(&case.centre.publish_as(&draft("six"), 6));
    let store = case.site.state().join("blobs/sha256");
    let left: Vec<_> = fs::read_dir(store)
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert!(
        !left
            .iter()
            .any(|name| name.to_string_lossy().ends_with(".twin")),
        "{left:?}"
    );
    assert_eq!(case.pins(), BTreeSet::new());
}

#[test]
fn a_rollback_goes_on_without_an_image_that_containerd_does_not_take_and_states_it() {
    let case = Case::new();
    case.containerd();
    case.site
        .take(&case.copy(twin(&archive("two"), &archive("two"))));
    case.site.take(&case.centre.publish_as(&draft("three"), 3));
    assert_eq!(case.site.active(), Some(3));
    case.no_containerd();
    let back = case.site.run(&["rollback", "--who", "ann"]);
    assert_eq!(code(&back), 0, "{}{}", stdout(&back), stderr(&back));
    assert_eq!(case.site.active(), Some(2));
    let status = case.site.run(&["status"]);
    let said = stdout(&status);
    assert!(
        said.contains("cannot be brought into containerd") && said.contains("no answer"),
        "{said}"
    );
}

#[test]
fn attack_a_ctr_that_everybody_may_change_is_not_started() {
    let case = Case::new();
    case.containerd();
    fs::set_permissions(case.path("ctr"), fs::Permissions::from_mode(0o777)).unwrap();
    let sound = case.copy(twin(&archive("two"), &archive("two")));
    let waits = case.site.import(&sound);
    assert_eq!(code(&waits), 3, "{}", stderr(&waits));
    let said = stderr(&waits);
    assert!(
        said.contains("may be written by others (mode 777)") && said.contains("chmod go-w"),
        "{said}"
    );
    assert!(!case.path("asked").exists());
    assert_eq!(case.site.active(), Some(1));
}

#[test]
fn a_twin_with_another_archive_than_the_config_states_is_refused() {
    let case = Case::new();
    case.containerd();
    let forged = case.copy(twin(
        b"an archive of someone else",
        b"an archive of someone else",
    ));
    case.refuses(
        &forged,
        "twin",
        &["which is not what the config of its image states"],
    );
    let asked = fs::read_to_string(case.path("asked")).unwrap_or_default();
    assert!(!asked.contains(" images import "), "{asked}");
}

#[test]
fn attack_an_unsigned_patch_is_not_kept_where_the_active_bundle_lacks_a_blob() {
    let case = Case::new();
    case.containerd();
    case.site.take(&case.second);
    let forged = case.copy(twin(b"someone else's", b"someone else's"));
    let store = case.site.state().join("blobs/sha256");
    let lost = store.join(Digest::of(&layer("two")).hex());
    fs::remove_file(&lost).unwrap();
    let output = case.site.import(&forged);
    let said = stderr(&output);
    assert!(
        said.contains("its missing blobs were not restored")
            && said.contains("which is not what the config of its image states"),
        "{said}"
    );
    assert!(!store.join(Digest::of(b"someone else's").hex()).exists());
    assert!(!lost.with_extension("twin").exists());
    // The whole bundle brings the layer again.
    case.site.import(&case.second);
    assert_eq!(fs::read(&lost).unwrap(), layer("two"));
}

#[test]
fn a_twin_that_makes_other_bytes_than_it_states_is_refused() {
    let case = Case::new();
    let mut other = archive("two");
    other[7] ^= 1;
    let forged = case.copy(twin(&other, &archive("two")));
    case.refuses(&forged, "patch", &["the patch makes sha256:"]);
}

#[test]
fn a_twin_that_is_a_decompression_bomb_is_refused() {
    let case = Case::new();
    let mut maker = Maker::new(Vec::new(), Cursor::new(Vec::new()));
    maker.make_twin(Content {
        digest: Digest::of(b""),
        size: 1 << 40,
    });
    maker.patch(&vec![0; 16 << 20], &[], &[]).unwrap();
    let forged = case.copy(finish(maker));
    case.refuses(&forged, "patch", &["the layer that it is for cannot hold"]);
}

#[test]
fn a_twin_of_a_layer_that_is_also_a_file_of_a_workload_is_refused() {
    let mut both = draft("two");
    both.loads[0] = both.loads[0].clone().payload("layer.gz", layer("two"));
    let case = Case::with(&both);
    let new = (&both, 2, layer("two"));
    let patch = twin(&archive("two"), &archive("two"));
    let forged = copy(
        &case.centre,
        (new.0, new.1, &new.2),
        (&draft("one"), 1),
        patch,
    );
    case.refuses(&forged, "twin", &["is a file of a workload"]);
}

#[test]
fn a_site_that_does_not_bring_images_into_containerd_takes_no_twin() {
    let case = Case::new();
    case.site.configure("");
    let sound = case.copy(twin(&archive("two"), &archive("two")));
    case.refuses(
        &sound,
        "twin",
        &["`twins = true` in `[containerd]`", "without `--twins`"],
    );
}
