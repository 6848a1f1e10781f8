//! Whether all that is served is there and is what its digest says.
//!
//! What comes in: a catalog. What goes out: one sentence for each image and repository that a client would not get
//! whole. It reads every byte once and changes nothing.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;

use crate::body;
use crate::catalog::Catalog;
use crate::digest::Digest;
use crate::layout::Stored;

/// What of `catalog` is missing or damaged.
pub fn damages(catalog: &Catalog) -> Vec<String> {
    let mut known: BTreeMap<Digest, Option<String>> = BTreeMap::new();
    let mut all = Vec::new();
    let mut bad = |digest: &Digest, stored: &Stored| {
        let checked = known.entry(*digest).or_insert_with(|| {
            let file = stored.layout.open_file(&stored.path);
            let file = file.map_err(|error| error.to_string());
            file.and_then(|file| whole(file, stored.size, digest)).err()
        });
        checked.clone()
    };
    for (image, repository) in catalog.images() {
        let mut blobs = repository.blobs.iter();
        if let Some(why) = blobs.find_map(|(digest, stored)| bad(digest, stored)) {
            all.push(format!("image {image}: {why}"));
        }
    }
    for (name, repository) in catalog.packages() {
        for (path, (digest, stored)) in &repository.files {
            if let Some(why) = bad(digest, stored) {
                all.push(format!("apt repository {name}: `{path}`: {why}"));
            }
        }
    }
    for (address, repository) in catalog.git() {
        let pack = repository.pack().map_err(|error| error.to_string());
        let pack = pack.and_then(|pack| whole(Some(pack), repository.size, &repository.digest));
        if let Err(why) = pack {
            all.push(format!("git {address}: {why}"));
        }
    }
    all
}

fn whole(file: Option<File>, size: u64, digest: &Digest) -> Result<(), String> {
    let Some(mut file) = file else {
        return Err(format!("{digest} is not there"));
    };
    body::check(&mut file, size, digest, None).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => format!("{digest} is shorter than {size} bytes"),
        _ => error.to_string(),
    })
}
