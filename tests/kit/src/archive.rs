//! A bundle's tar as an attacker writes it: member by member, with any name, type, size and order.

use outhaul_bundle::Digest;
use serde_json::{Value, json};

/// Tar's unit in bytes.
pub const BLOCK: usize = 512;

/// The members of a bundle, each with header and filling.
pub fn members(bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut members = Vec::new();
    let mut at = 0;
    while bytes[at] != 0 {
        let digits = std::str::from_utf8(&bytes[at + 124..at + 135]).unwrap();
        let size = usize::from_str_radix(digits, 8).unwrap();
        let end = at + BLOCK + size.div_ceil(BLOCK) * BLOCK;
        members.push(bytes[at..end].to_vec());
        at = end;
    }
    members
}

/// An archive of these members, with its end.
pub fn archive(members: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = members.concat();
    bytes.extend_from_slice(&[0; 2 * BLOCK]);
    bytes
}

/// A member as an attacker writes it: any name, type and content, with a right checksum.
pub fn member(name: &str, kind: tar::EntryType, content: &[u8]) -> Vec<u8> {
    let mut header = tar::Header::new_ustar();
    header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
    header.set_mode(0o644);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header.set_size(content.len() as u64);
    header.set_entry_type(kind);
    header.set_device_major(0).unwrap();
    header.set_device_minor(0).unwrap();
    header.set_cksum();
    let mut bytes = header.as_bytes().to_vec();
    bytes.extend_from_slice(content);
    bytes.resize(bytes.len().div_ceil(BLOCK) * BLOCK, 0);
    bytes
}

/// A bundle whose index travels compressed, with `form` in its place and in what the metadata of its stream lists: all that an attacker can
/// write without a key, where a site or a hub knows the timestamp and looks at no file behind it.
pub fn with_unsigned_form(bundle: &[u8], form: &[u8]) -> Vec<u8> {
    let name = |member: &[u8]| {
        let end = member[..100].iter().position(|byte| *byte == 0);
        String::from_utf8(member[..end.unwrap_or(100)].to_vec()).unwrap()
    };
    let plain = tar::EntryType::Regular;
    let mut changed = (false, false);
    let mut all = members(bundle);
    for one in &mut all {
        let path = name(one);
        if path == "index.json.zst" {
            *one = member(&path, plain, form);
            changed.0 = true;
            continue;
        }
        let Ok(mut file) = serde_json::from_slice::<Value>(content(one)) else {
            continue;
        };
        let Some(targets) = file["signed"]["targets"].as_object_mut() else {
            continue;
        };
        for target in targets.values_mut() {
            if target["custom"]["zstd"].is_object() {
                let digest = Digest::of(form).hex();
                target["custom"]["zstd"] = json!({ "length": form.len(), "sha256": digest });
                changed.1 = true;
            }
        }
        *one = member(&path, plain, &serde_json::to_vec(&file).unwrap());
    }
    assert_eq!(changed, (true, true), "an index that travels compressed");
    archive(&all)
}

/// What a member holds, without header and filling.
fn content(member: &[u8]) -> &[u8] {
    let digits = std::str::from_utf8(&member[124..135]).unwrap();
    let size = usize::from_str_radix(digits, 8).unwrap();
    &member[BLOCK..BLOCK + size]
}

/// The same block with a right checksum.
pub fn with_checksum(mut bytes: Vec<u8>) -> Vec<u8> {
    let mut header = tar::Header::new_ustar();
    header.as_mut_bytes().copy_from_slice(&bytes[..BLOCK]);
    header.set_cksum();
    bytes[..BLOCK].copy_from_slice(header.as_bytes());
    bytes
}
