//! The factory of `examples/factory`, embedded, so that the demo needs no checkout to be found.
//!
//! What comes in: nothing. What goes out: the example's files by path. A test sees that it is what
//! the folder holds.

/// Path below `examples/factory`, and content.
pub const FILES: &[(&str, &str)] = &[
    (
        "control-plane/dev/base-repo.yaml",
        include_str!("../../../examples/factory/control-plane/dev/base-repo.yaml"),
    ),
    (
        "control-plane/dev/cluster-types/bench.yaml",
        include_str!("../../../examples/factory/control-plane/dev/cluster-types/bench.yaml"),
    ),
    (
        "control-plane/dev/configs/dev.yaml",
        include_str!("../../../examples/factory/control-plane/dev/configs/dev.yaml"),
    ),
    (
        "control-plane/dev/configs/workshop.yaml",
        include_str!("../../../examples/factory/control-plane/dev/configs/workshop.yaml"),
    ),
    (
        "control-plane/dev/scheduling/label-printers.yaml",
        include_str!("../../../examples/factory/control-plane/dev/scheduling/label-printers.yaml"),
    ),
    (
        "control-plane/main/.environments/dev.yaml",
        include_str!("../../../examples/factory/control-plane/main/.environments/dev.yaml"),
    ),
    (
        "control-plane/main/.environments/stage.yaml",
        include_str!("../../../examples/factory/control-plane/main/.environments/stage.yaml"),
    ),
    (
        "control-plane/main/configs/common.yaml",
        include_str!("../../../examples/factory/control-plane/main/configs/common.yaml"),
    ),
    (
        "control-plane/main/templates/ansible.yaml",
        include_str!("../../../examples/factory/control-plane/main/templates/ansible.yaml"),
    ),
    (
        "control-plane/main/templates/env-file.yaml",
        include_str!("../../../examples/factory/control-plane/main/templates/env-file.yaml"),
    ),
    (
        "control-plane/main/templates/folder.yaml",
        include_str!("../../../examples/factory/control-plane/main/templates/folder.yaml"),
    ),
    (
        "control-plane/main/workloads/label-printer.yaml",
        include_str!("../../../examples/factory/control-plane/main/workloads/label-printer.yaml"),
    ),
    (
        "control-plane/stage/base-repo.yaml",
        include_str!("../../../examples/factory/control-plane/stage/base-repo.yaml"),
    ),
    (
        "control-plane/stage/cluster-types/press.yaml",
        include_str!("../../../examples/factory/control-plane/stage/cluster-types/press.yaml"),
    ),
    (
        "control-plane/stage/configs/press-hall.yaml",
        include_str!("../../../examples/factory/control-plane/stage/configs/press-hall.yaml"),
    ),
    (
        "control-plane/stage/configs/stage.yaml",
        include_str!("../../../examples/factory/control-plane/stage/configs/stage.yaml"),
    ),
    (
        "control-plane/stage/scheduling/label-printers.yaml",
        include_str!(
            "../../../examples/factory/control-plane/stage/scheduling/label-printers.yaml"
        ),
    ),
    (
        "label-printer/manifests/dev/print-label.sh",
        include_str!("../../../examples/factory/label-printer/manifests/dev/print-label.sh"),
    ),
    (
        "label-printer/manifests/stage/print-label.sh",
        include_str!("../../../examples/factory/label-printer/manifests/stage/print-label.sh"),
    ),
    (
        "label-printer/source/workload.yaml",
        include_str!("../../../examples/factory/label-printer/source/workload.yaml"),
    ),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;

    fn list(folder: &Path, below: &str, found: &mut BTreeSet<String>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            let name = entry.file_name().into_string().unwrap();
            let path = if below.is_empty() {
                name
            } else {
                format!("{below}/{name}")
            };
            if entry.file_type().unwrap().is_dir() {
                list(&entry.path(), &path, found);
            } else {
                found.insert(path);
            }
        }
    }

    #[test]
    fn every_file_of_the_example_is_embedded() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/factory");
        let mut there = BTreeSet::new();
        list(&folder, "", &mut there);
        there.remove("README.md");
        let embedded: BTreeSet<String> = FILES.iter().map(|(path, _)| (*path).to_owned()).collect();
        assert_eq!(embedded, there);
    }
}
