//! Rancher Fleet, as far as the centre and the sites must agree on it: which files of a workload an agent puts into a `Bundle`.
//!
//! What comes in: paths. What goes out: whether a file may be among them, and how many bytes all of them may have. It reads no file.

/// Most bytes of a `Bundle`'s resources: an API server keeps no object of more than about 1.5 MB.
pub const MAX_RESOURCES_BYTES: u64 = 1_000_000;
/// The file that only Fleet's own reader of git understands.
pub const OPTIONS: &str = "fleet.yaml";

/// Whether a path is that of such a file.
pub fn is_options(path: &str) -> bool {
    path.rsplit('/').next() == Some(OPTIONS)
}

#[cfg(test)]
mod tests {
    use super::is_options;

    #[test]
    fn the_file_is_known_by_its_name_in_any_folder() {
        assert!(is_options("fleet.yaml") && is_options("a/fleet.yaml"));
        assert!(!is_options("a/fleet.yaml/b") && !is_options("my-fleet.yaml"));
    }
}
