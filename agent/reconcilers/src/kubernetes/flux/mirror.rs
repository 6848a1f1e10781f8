//! Flux's sources, pointed to what this site serves.
//!
//! What comes in: `[flux]` of `agent.toml` and an assignment's objects. What goes out: sources whose address is
//! that of `outhaul-mirror` with the original name behind it, a Secret with the site's certificate authority for
//! them, and a note for each that says so. Without the setting nothing is changed. The original name stays in the
//! address, so that people see what it stands for.

use outhaul_kit::bounds::MAX_DNS_LABEL_BYTES;
use outhaul_kit::url::UrlParts;
use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use outhaul_bundle::Digest;
use outhaul_kubernetes::flux::SOURCE;
use outhaul_kubernetes::{Key, Object};
use serde_json::json;

use crate::error::ApplyError;
use crate::kubernetes::objects::{DesiredObject, DesiredObjects};
use crate::kubernetes::original;
use crate::settings::FluxConfig;

/// Points every source that `outhaul-mirror` can serve to it.
pub fn point_to(config: &FluxConfig, all: &mut DesiredObjects) -> Result<(), ApplyError> {
    let Some(mirror) = &config.mirror else {
        return Ok(());
    };
    let authority = original::authority(config.ca.as_deref(), "flux")?;
    let mirror = mirror.trim_end_matches('/');
    let secret = secret_name(&all.assignment);
    let mut namespaces = BTreeSet::new();
    for wanted in &mut all.objects {
        let object = &mut wanted.object;
        let Some(address) = mirrored(object, mirror) else {
            continue;
        };
        let spec = &mut object.value["spec"];
        let before = spec["url"].as_str().unwrap_or_default().to_owned();
        spec["url"] = address.clone().into();
        if !wanted.note.is_empty() {
            wanted.note.push_str("; ");
        }
        wanted.note += &format!("`{before}` is fetched from {address}");
        if let Some(fields) = spec.as_object_mut() {
            // What opens the original is of no use here, and is not sent to another server.
            for of_the_original in [
                "passCredentials",
                "secretRef",
                "provider",
                "proxySecretRef",
                "serviceAccountName",
            ] {
                fields.remove(of_the_original);
            }
            if authority.is_some() {
                let reference = match object.key.kind.as_str() {
                    "GitRepository" => "secretRef",
                    _ => "certSecretRef",
                };
                fields.insert(reference.into(), json!({"name": secret}));
            }
            if address.starts_with("oci://") && UrlParts::of(mirror).is_some_and(|at| at.is("http"))
            {
                fields.insert("insecure".into(), true.into());
            }
        }
        namespaces.extend(object.key.namespace.clone());
    }
    if let Some(authority) = authority {
        for namespace in namespaces {
            all.objects.push(secret_in(&namespace, &secret, &authority));
        }
    }
    Ok(())
}

/// One Secret for each assignment, as each object belongs to one.
fn secret_name(assignment: &str) -> String {
    let name = format!("outhaul-mirror-{assignment}");
    match name.len() <= MAX_DNS_LABEL_BYTES {
        true => name,
        false => {
            let digest = Digest::of(assignment.as_bytes()).hex();
            format!("outhaul-mirror-{}", digest.get(..16).unwrap_or_default())
        }
    }
}

fn secret_in(namespace: &str, name: &str, authority: &str) -> DesiredObject {
    let value = json!({
        "apiVersion": "v1", "kind": "Secret", "type": "Opaque",
        "metadata": {"name": name, "namespace": namespace},
        "data": {"ca.crt": STANDARD.encode(authority)},
    });
    DesiredObject {
        object: Object {
            key: Key {
                group: String::new(),
                kind: "Secret".into(),
                namespace: Some(namespace.to_owned()),
                name: name.to_owned(),
            },
            version: "v1".into(),
            value,
            place: "`[flux]` in agent.toml".into(),
        },
        content: Digest::of(authority.as_bytes()),
        note: "the certificate authority of this site's mirror, by `[flux]` in agent.toml".into(),
    }
}

/// Where `object` is to be fetched from instead; `None` for what the mirror does not serve.
fn mirrored(object: &Object, mirror: &str) -> Option<String> {
    if object.key.group != SOURCE {
        return None;
    }
    let spec = &object.value["spec"];
    let url = spec["url"].as_str()?;
    let scheme = UrlParts::of(url)?.scheme.to_ascii_lowercase();
    match (object.key.kind.as_str(), scheme.as_str()) {
        ("GitRepository", "http" | "https" | "ssh") | ("OCIRepository", "oci") => {
            original::address(url, mirror)
        }
        ("HelmRepository", "oci") if spec["type"] == "oci" => original::address(url, mirror),
        ("HelmRepository", "http" | "https") => original::charts(url, mirror),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
