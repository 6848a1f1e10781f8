//! One test per attack on metadata, named after it: nothing of it is accepted, and the rule is named.

use serde_json::Value;

use outhaul_test_kit::bent::{Centre, Files, ROLE, Site};

mod bytes;
mod dates;
mod mixing;
mod rollback;
mod signatures;

pub fn site_with(centre: &Centre) -> Site {
    let mut site = Site::enrolled(centre);
    site.accept(&centre.bundle(ROLE));
    site
}

/// Changes the JSON of one file, without signing it again.
pub fn bend(files: &mut Files, name: &str, change: impl FnOnce(&mut Value)) {
    let mut value: Value = serde_json::from_slice(&files[name]).unwrap();
    change(&mut value);
    files.insert(name.into(), serde_json::to_vec(&value).unwrap());
}
