//! The bill of materials of one image, as a `CycloneDX` 1.6 document.
//!
//! What comes in: the image's names and digest, and per platform its contents. What goes out: bytes, the same for the same
//! image: no time, no serial number. A package that several platforms share is listed once, with their names. What was
//! not read stands in the properties of the image itself; `compositions` says that the list is not complete.

use std::collections::{BTreeMap, BTreeSet};

use outhaul_bundle::Digest;
use outhaul_kit::percent;
use serde_json::{Value, json};

use super::contents::Contents;
use super::package::Package;
use super::release::Release;
use crate::cyclonedx::{self, property};

/// What is never listed.
const NOT_LISTED: &str =
    "packages of programming languages, and files that no package manager installed";

/// Which image a document is of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// Its whole names: `docker.io/library/nginx:1.27`.
    pub names: BTreeSet<String>,
    /// The digest of its manifest or index.
    pub manifest: Digest,
}

/// The document's bytes. `platforms`: `linux/amd64` …, each with what it holds or why that is not known.
pub fn document(image: &Image, platforms: &[(String, Result<Contents, String>)]) -> Vec<u8> {
    // By package and distribution, the platforms that have it.
    let mut packages: BTreeMap<(&Package, Option<Distribution<'_>>), BTreeSet<&str>> =
        BTreeMap::new();
    let mut systems: BTreeMap<Distribution<'_>, BTreeSet<&str>> = BTreeMap::new();
    let mut properties: Vec<Value> = image
        .names
        .iter()
        .skip(1)
        .map(|name| property("outhaul:name", name))
        .collect();
    properties.push(property("outhaul:not-listed", NOT_LISTED));
    for (platform, contents) in platforms {
        properties.push(property("outhaul:platform", platform));
        let contents = match contents {
            Ok(contents) => contents,
            Err(why) => {
                properties.push(property("outhaul:unread", &format!("{platform}: {why}")));
                continue;
            }
        };
        for (path, why) in &contents.unread {
            let text = format!("{platform}: {path}: {why}");
            properties.push(property("outhaul:unread", &text));
        }
        for manager in &contents.others {
            let text = format!("{platform}: {manager}");
            properties.push(property("outhaul:unread-packages", &text));
        }
        if !contents.has_database {
            properties.push(property("outhaul:no-packages", platform));
        }
        let distribution = contents.release.as_ref().map(Distribution::of);
        if let Some(distribution) = distribution {
            systems.entry(distribution).or_default().insert(platform);
        }
        for package in &contents.packages {
            let has = packages.entry((package, distribution)).or_default();
            has.insert(platform);
        }
    }
    let systems = systems.iter().map(|(one, has)| one.component(has));
    let packages = packages
        .iter()
        .map(|((package, distribution), has)| component(package, *distribution, has));
    let components: Vec<Value> = systems.chain(packages).collect();
    let first = image.names.first().map_or("image", String::as_str);
    let of_image = json!({
        "type": "container",
        "bom-ref": "image",
        "name": first,
        "version": image.manifest.to_string(),
        "properties": properties,
    });
    cyclonedx::document(of_image, components, true)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Distribution<'a> {
    id: &'a str,
    version: &'a str,
}

impl<'a> Distribution<'a> {
    fn of(release: &'a Release) -> Self {
        Self {
            id: &release.id,
            version: &release.version,
        }
    }

    /// As the qualifier `distro` of a package URL.
    fn qualifier(self) -> String {
        match self.version {
            "" => self.id.to_owned(),
            version => format!("{}-{version}", self.id),
        }
    }

    fn component(self, platforms: &BTreeSet<&str>) -> Value {
        let mut component = json!({
            "type": "operating-system",
            "bom-ref": format!("os:{}", self.qualifier()),
            "name": self.id,
            "properties": on(platforms),
        });
        if !self.version.is_empty() {
            component["version"] = self.version.into();
        }
        component
    }
}

fn component(
    package: &Package,
    distribution: Option<Distribution<'_>>,
    platforms: &BTreeSet<&str>,
) -> Value {
    let Package {
        name,
        version,
        architecture,
        ..
    } = package;
    let kind = package.kind.as_str();
    let mut properties = on(platforms);
    let mut upstream = String::new();
    if let Some((source, built)) = &package.source {
        properties.push(property("outhaul:source", &format!("{source} {built}")));
        upstream = match built == version {
            true => source.clone(),
            false => format!("{source}@{built}"),
        };
    }
    let mut component = json!({
        "type": "library",
        "name": name,
        "version": version,
        "properties": properties,
    });
    // A package URL of these kinds must name who distributes it.
    let Some(distribution) = distribution else {
        component["bom-ref"] = format!("{kind}:{name}@{version}:{architecture}").into();
        return component;
    };
    let mut purl = format!(
        "pkg:{kind}/{}/{}@{}?arch={}&distro={}",
        encoded(distribution.id),
        encoded(name),
        encoded(version),
        encoded(architecture),
        encoded(&distribution.qualifier())
    );
    if !upstream.is_empty() {
        purl = format!("{purl}&upstream={}", encoded(&upstream));
    }
    component["bom-ref"] = purl.clone().into();
    component["purl"] = purl.into();
    component
}

fn on(platforms: &BTreeSet<&str>) -> Vec<Value> {
    let platforms = platforms.iter();
    platforms
        .map(|platform| property("outhaul:platform", platform))
        .collect()
}

/// By the specification of package URLs.
fn encoded(text: &str) -> String {
    percent::encoded(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::materials::PackageKind;

    fn package(name: &str, architecture: &str) -> Package {
        Package {
            kind: PackageKind::Deb,
            name: name.into(),
            version: "1:2.3+dfsg-1~deb12u1".into(),
            architecture: architecture.into(),
            source: Some(("src".into(), "1:2.3+dfsg-1~deb12u1".into())),
        }
    }

    fn image() -> Image {
        Image {
            names: [
                "docker.io/library/a:1".to_owned(),
                "docker.io/library/b:1".to_owned(),
            ]
            .into(),
            manifest: Digest::of(b"manifest"),
        }
    }

    #[test]
    fn a_package_of_two_platforms_is_listed_once() {
        let contents = |architecture| Contents {
            release: Some(Release {
                id: "debian".into(),
                version: "12".into(),
            }),
            packages: [package("tzdata", "all"), package("libc6", architecture)].into(),
            has_database: true,
            ..Contents::default()
        };
        let platforms = [
            ("linux/amd64".to_owned(), Ok(contents("amd64"))),
            ("linux/arm64".to_owned(), Ok(contents("arm64"))),
        ];
        let bytes = document(&image(), &platforms);
        assert_eq!(bytes, document(&image(), &platforms));
        let value: Value = serde_json::from_slice(&bytes).unwrap();
        let components = value["components"].as_array().unwrap();
        let refs: BTreeSet<_> = components
            .iter()
            .map(|one| &one["bom-ref"])
            .map(Value::to_string)
            .collect();
        assert_eq!((components.len(), refs.len()), (4, 4));
        let tzdata = components
            .iter()
            .find(|one| one["name"] == "tzdata")
            .unwrap();
        assert_eq!(
            tzdata["purl"],
            "pkg:deb/debian/tzdata@1%3A2.3%2Bdfsg-1~deb12u1?arch=all&distro=debian-12&upstream=src"
        );
        assert_eq!(tzdata["properties"][1]["value"], "linux/arm64");
        assert_eq!(
            value["metadata"]["component"]["name"],
            "docker.io/library/a:1"
        );
    }

    #[test]
    fn what_is_not_known_stands_in_it() {
        let mut unread = Contents::default();
        unread.others.insert("rpm".to_owned());
        let why = "it is a link".to_owned();
        unread.unread.insert("var/lib/dpkg".to_owned(), why);
        let platforms = [
            ("linux/amd64".to_owned(), Ok(unread)),
            (
                "linux/arm64".to_owned(),
                Err("a layer is damaged".to_owned()),
            ),
        ];
        let text = String::from_utf8(document(&image(), &platforms)).unwrap();
        for expected in [
            r#"{"name":"outhaul:unread-packages","value":"linux/amd64: rpm"}"#,
            "linux/amd64: var/lib/dpkg: it is a link",
            "linux/arm64: a layer is damaged",
            r#"{"name":"outhaul:no-packages","value":"linux/amd64"}"#,
            r#""aggregate":"incomplete""#,
        ] {
            assert!(text.contains(expected), "{expected}: {text}");
        }
    }
}
