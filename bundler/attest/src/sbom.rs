//! The bill of materials: every file that a bundle carries, and what is recognised in them.
//!
//! What comes in: an index and the contents. What goes out: a `CycloneDX` 1.6 document: one component
//! per file with its digest, one per Debian package, one per container image that a manifest asks for or the bundle carries.
//! It has no serial number and no time: the same contents give the same bytes. Packages and manifests
//! are read with bounds; what cannot be read is still listed as a file, with the reason.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;

use outhaul_bundle::encode::ContentSource;
use outhaul_bundle::index::{Content, File};
use outhaul_bundle::{Digest, Index};
use serde_json::{Value, json};

use super::AttestError;
use super::image::{self, AttestedImage};
use super::images::CarriedImage;
use crate::cyclonedx::{self, hashes, property};
use outhaul_files::deb;

/// Largest manifest that is searched for images, in bytes.
const MAX_MANIFEST_BYTES: u64 = 1024 * 1024;

/// Why a manifest may need more than was found in it.
#[derive(Clone, Copy)]
struct Missing {
    why: &'static str,
    /// Whether that is so where the site serves what its manifests need, too.
    is_never_served: bool,
}

/// Kinds of Flux, Argo CD, Fleet and k3s that name a chart, a repository or an artifact.
const FETCHING: [&str; 10] = [
    "Application",
    "ApplicationSet",
    "Bucket",
    "GitRepo",
    "GitRepository",
    "HelmChart",
    "HelmOp",
    "HelmRelease",
    "HelmRepository",
    "OCIRepository",
];

/// What was found in one content, whatever its names.
enum Inside {
    Nothing,
    Package(deb::Package),
    Unreadable(String),
    /// An archive, an image of a disk: it may hold packages.
    NotOpened,
    /// What a manifest asks for, and whether it has its reconciler fetch more.
    Manifest(Vec<AttestedImage>, Option<Missing>),
}

/// The document's bytes.
///
/// # Errors
/// [`AttestError`] when a content cannot be opened.
pub fn sbom(
    index: &Index,
    contents: &mut dyn ContentSource,
    carried: &[CarriedImage],
) -> Result<Vec<u8>, AttestError> {
    let mut seen: BTreeMap<(Digest, &'static str), Inside> = BTreeMap::new();
    let mut files = Vec::new();
    let mut packages = Vec::new();
    // By image, the assignments that ask for it.
    let mut images: BTreeMap<AttestedImage, BTreeSet<&str>> = BTreeMap::new();
    for assignment in &index.assignments {
        let name = assignment.name.as_str();
        let mut all = vec![
            ("files".to_owned(), &assignment.files),
            ("payload".to_owned(), &assignment.payload),
        ];
        // What sites share is listed once, below the first of them.
        all.extend(assignment.overlays.iter().filter_map(|overlay| {
            let folder = format!("sites/{}/files", overlay.sites.first()?);
            Some((folder, &overlay.files))
        }));
        for (folder, file) in all
            .iter()
            .flat_map(|(folder, files)| files.iter().map(move |f| (folder, f)))
        {
            let path = format!("{name}/{folder}/{}", file.path);
            let kind = kind(&path);
            let key = (file.content, kind);
            let inside = match seen.entry(key) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(new) => new.insert(look(file, kind, &path, contents)?),
            };
            let mut properties = vec![property("outhaul:assignment", name)];
            match &*inside {
                Inside::Nothing => {}
                Inside::Package(package) => packages.push(package_component(package, &path, file)),
                Inside::Unreadable(why) => properties.push(property("outhaul:unreadable", why)),
                Inside::NotOpened => {
                    properties.push(property("outhaul:not-opened", "it may hold packages"));
                }
                Inside::Manifest(found, missing) => {
                    // Where the site serves what is needed, the images of charts and repositories are known.
                    let is_served = !index.served.is_empty();
                    if let Some(missing) = missing.filter(|one| !is_served || one.is_never_served) {
                        properties.push(property("outhaul:fetched", missing.why));
                    }
                    for image in found {
                        images.entry(image.clone()).or_default().insert(name);
                    }
                }
            }
            files.push(json!({
                "type": "file",
                "bom-ref": format!("file:{path}"),
                "name": path,
                "hashes": hashes(&file.content),
                "properties": properties,
            }));
        }
    }
    let mut documents: BTreeMap<AttestedImage, &str> = BTreeMap::new();
    for one in carried {
        let names = one.names.iter();
        for image in names.filter_map(|name| AttestedImage::parse(name)) {
            documents.insert(image.clone(), &one.file);
            let users = images.entry(image).or_default();
            users.extend(one.users.iter().map(String::as_str));
        }
    }
    let images = images
        .iter()
        .map(|(image, users)| image_component(image, users, documents.get(image).copied()));
    let components: Vec<Value> = packages.into_iter().chain(images).chain(files).collect();
    let stream = &index.stream;
    let of_bundle = json!({
        "type": "application",
        "bom-ref": "bundle",
        "name": format!("{}/{}", stream.environment, stream.cluster_type),
        "version": index.number.to_string(),
        "properties": [
            property("outhaul:fleet", index.fleet.as_str()),
            property("outhaul:stream", stream.role.as_str()),
            property("outhaul:snapshot", &index.snapshot.digest.to_string()),
        ],
    });
    Ok(cyclonedx::document(of_bundle, components, false))
}

/// The bill of materials with all that its images hold, as a scanner reads it.
pub fn with_images(sbom: Vec<u8>, images: &[CarriedImage]) -> Vec<u8> {
    let Ok(mut document) = serde_json::from_slice::<Value>(&sbom) else {
        return sbom;
    };
    let Some(all) = document["components"]
        .as_array_mut()
        .filter(|_| !images.is_empty())
    else {
        return sbom;
    };
    for image in images {
        let held: Value = serde_json::from_slice(&image.bytes).unwrap_or_default();
        for component in held["components"].as_array().into_iter().flatten() {
            let mut component = component.clone();
            let within = component["bom-ref"].as_str().unwrap_or_default();
            component["bom-ref"] = format!("{}#{within}", image.file).into();
            let names = image
                .names
                .iter()
                .map(|name| property("outhaul:image", name));
            if let Some(properties) = component["properties"].as_array_mut() {
                properties.extend(names);
            }
            all.push(component);
        }
    }
    cyclonedx::bytes(&document)
}

/// What a file may hold, by its name: only that is looked for.
fn kind(path: &str) -> &'static str {
    let ending = path.rsplit('.').next().unwrap_or_default();
    match ending.to_ascii_lowercase().as_str() {
        "deb" => "deb",
        "tar" | "tgz" | "txz" | "tbz2" | "zip" | "rpm" | "apk" | "img" | "iso" | "qcow2"
        | "raw" | "vmdk" | "squashfs" | "snap" | "whl" | "jar" | "war" | "crate" | "gem" => {
            "archive"
        }
        "gz" | "xz" | "zst" | "bz2" if path.contains(".tar.") => "archive",
        "yaml" | "yml" | "json" => "manifest",
        _ => "",
    }
}

fn look(
    file: &File,
    kind: &str,
    path: &str,
    contents: &mut dyn ContentSource,
) -> Result<Inside, AttestError> {
    let content = Content {
        digest: file.content,
        size: file.size,
    };
    Ok(match kind {
        "deb" => match deb::read(contents.open(&content).map_err(AttestError::at(path))?) {
            Ok(package) => Inside::Package(package),
            Err(error) => Inside::Unreadable(error.to_string()),
        },
        "manifest" if file.size <= MAX_MANIFEST_BYTES => {
            let mut bytes = Vec::new();
            contents
                .open(&content)
                .map_err(AttestError::at(path))?
                .take(MAX_MANIFEST_BYTES)
                .read_to_end(&mut bytes)
                .map_err(AttestError::at(path))?;
            let text = String::from_utf8_lossy(&bytes);
            let images = image::images(&text).into_iter().collect();
            Inside::Manifest(images, missing(&text))
        }
        "manifest" => Inside::Unreadable("too large to be searched for images".to_owned()),
        "archive" => Inside::NotOpened,
        _ => Inside::Nothing,
    })
}

/// Why a manifest may need more images than were found in it; by its text, whatever its style is.
fn missing(manifest: &str) -> Option<Missing> {
    let of = |why, is_never_served| {
        Some(Missing {
            why,
            is_never_served,
        })
    };
    let is_kept = |c: &char| !c.is_whitespace() && !matches!(c, '"' | '\'');
    let dense: String = manifest.chars().filter(is_kept).collect();
    let is_kind = |kind: &&str| {
        let text = format!("kind:{kind}");
        // What follows is the next key: of a longer kind it would go on with a capital.
        dense.match_indices(&text).any(|(at, found)| {
            let next = dense[at + found.len()..].chars().next();
            next.is_none_or(|c| !c.is_ascii_uppercase())
        })
    };
    if FETCHING.iter().any(is_kind) {
        return of("its reconciler fetches what does not travel", false);
    }
    let is_remote =
        dense.contains("kind:Kustomization") && (dense.contains("://") || dense.contains("?ref="));
    if is_remote {
        return of("it builds on files that are elsewhere", true);
    }
    let lower = dense.to_ascii_lowercase();
    let named = lower.matches("image:").count();
    let found = manifest
        .lines()
        .map(|line| image::images(line).len())
        .sum::<usize>();
    let is_split = lower.contains("repository:") && lower.contains("tag:");
    // `proxyImage:` and the like mean something to a controller of their own alone.
    // With the space between words, which separates a key from what is before it.
    let words = manifest.to_ascii_lowercase();
    let keys = ["image:", "image\":", "image':"];
    let is_own = keys.iter().any(|key| {
        let mut all = words.match_indices(key);
        all.any(|(at, _)| words[..at].ends_with(|c: char| c.is_ascii_alphabetic()))
    });
    match is_own || named > found || is_split {
        true => of("it may name images that were not found", is_own),
        false => None,
    }
}

fn package_component(package: &deb::Package, path: &str, file: &File) -> Value {
    let mut component = json!({
        "type": "library",
        "bom-ref": format!("deb:{path}"),
        "name": package.name,
        "version": package.version,
        "hashes": hashes(&file.content),
        "properties": [
            property("outhaul:path", path),
            property("outhaul:architecture", &package.architecture),
            property("outhaul:source", &format!("{} {}", package.source.0, package.source.1)),
        ],
    });
    if let Some(purl) = package.purl() {
        component["purl"] = purl.into();
    }
    component
}

/// `document`: the image's own bill of materials, where the bundle carries the image.
fn image_component(image: &AttestedImage, users: &BTreeSet<&str>, document: Option<&str>) -> Value {
    let purl = image.purl();
    let asked = users
        .iter()
        .map(|user| property("outhaul:assignment", user))
        .chain(document.map(|file| property("outhaul:sbom", file)));
    json!({
        "type": "container",
        "bom-ref": format!("image:{purl}"),
        "name": image.repository,
        "version": image.version(),
        "purl": purl,
        "properties": asked.collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use outhaul_bundle::fake::{FakeBundle, MemoryBlobs};

    use super::*;

    fn made(files: &[(&str, &[u8])]) -> Value {
        let index = FakeBundle::new(3, files).unwrap().index;
        let mut contents = MemoryBlobs::default();
        for (_, bytes) in files {
            contents.put(bytes.to_vec());
        }
        let bytes = sbom(&index, &mut contents, &[]).unwrap();
        assert_eq!(bytes, sbom(&index, &mut contents, &[]).unwrap());
        serde_json::from_slice(&bytes).unwrap()
    }

    fn of_type<'a>(document: &'a Value, kind: &str) -> Vec<&'a Value> {
        let all = document["components"].as_array().unwrap().iter();
        all.filter(|component| component["type"] == kind).collect()
    }

    #[test]
    fn files_packages_and_images_are_listed() {
        let control = "Package: tool\nVersion: 1-1ubuntu1\nArchitecture: all\n";
        let package = deb::fake::deb(control);
        let document = made(&[
            ("reconciler.yaml", b"image: nginx:1.27\n"),
            ("other.yaml", b"- image: nginx:1.27\n"),
            ("pool/tool.deb", &package),
            ("pool/broken.deb", b"!<arch>\n"),
        ]);
        assert_eq!(document["specVersion"], "1.6");
        assert_eq!(document["metadata"]["component"]["version"], "3");
        assert_eq!(of_type(&document, "file").len(), 4);
        let [package] = of_type(&document, "library")[..] else {
            panic!("{document}")
        };
        assert_eq!(package["purl"], "pkg:deb/ubuntu/tool@1-1ubuntu1?arch=all");
        assert_eq!(
            package["properties"][0]["value"],
            "hello-world-test/files/pool/tool.deb"
        );
        let [image] = of_type(&document, "container")[..] else {
            panic!("{document}")
        };
        assert_eq!(image["name"], "docker.io/library/nginx");
        assert_eq!(image["properties"].as_array().unwrap().len(), 1);
        let text = document.to_string();
        assert!(text.contains("outhaul:unreadable") && !text.contains("serialNumber"));
    }

    #[test]
    fn every_reference_is_unique() {
        let document = made(&[
            ("a.yaml", b"image: a"),
            ("b.yaml", b"image: b"),
            ("c", b"image: a"),
        ]);
        let all = document["components"].as_array().unwrap();
        let mut refs: Vec<_> = all.iter().map(|c| c["bom-ref"].as_str().unwrap()).collect();
        refs.sort_unstable();
        let before = refs.len();
        refs.dedup();
        assert_eq!((refs.len(), before), (5, 5));
    }

    #[test]
    fn a_content_that_is_gone_is_an_error_with_its_path() {
        let index = FakeBundle::new(1, &[("a.yaml", b"image: a")])
            .unwrap()
            .index;
        let error = sbom(&index, &mut MemoryBlobs::default(), &[]).unwrap_err();
        assert!(
            error.to_string().contains("hello-world-test/files/a.yaml"),
            "{error}"
        );
    }

    #[test]
    fn what_is_not_looked_into_is_named() {
        let chart = b"apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\n";
        let document = made(&[
            ("a.tar.gz", b"x"),
            ("b.json.gz", b"x"),
            ("c.yaml", chart),
            ("d.jar", b"x"),
            ("e.yaml", b"containers: [{name: b, image: X}]\n"),
            ("f.json", b"{\"spec\": {\"image\": \"X\"}}"),
            ("g.yaml", b"image: nginx:1\nproxyImage: x\n"),
            (
                "h.yaml",
                b"kind: Kustomization\nresources: [https://example.org/x?ref=1]\n",
            ),
            ("i.yaml", b"image: nginx:1\nkind: Pod\n"),
        ]);
        let text = document.to_string();
        assert_eq!(text.matches("outhaul:not-opened").count(), 2, "{text}");
        assert_eq!(text.matches("outhaul:fetched").count(), 5, "{text}");
        let control = "Package: libssl3\nSource: openssl\nVersion: 3.0\nArchitecture: amd64\n";
        let document = made(&[("a.deb", &deb::fake::deb(control))]);
        assert!(document.to_string().contains("openssl 3.0"), "{document}");
    }
}
