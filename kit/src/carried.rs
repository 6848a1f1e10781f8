//! What images, charts and packages are called where they travel: words that the centre writes and a site reads.
//!
//! What comes in: a version. What goes out: media types and annotations of registries, Helm, in-toto and Sigstore, names of files that a
//! payload has, and whether a version is a single one. It reads and writes nothing.

/// Media type of the manifest of an image or artifact (OCI image specification).
pub const IMAGE_MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
/// The annotation by which containerd knows what an image in a layout or archive is called.
pub const CONTAINERD_NAME: &str = "io.containerd.image.name";
/// Media type of the config of a chart in a registry (Helm).
pub const CHART_CONFIG: &str = "application/vnd.cncf.helm.config.v1+json";
/// Media type of a chart's archive in a registry (Helm).
pub const CHART_ARCHIVE: &str = "application/vnd.cncf.helm.chart.content.v1.tar+gzip";
/// The annotation with the URL of the repository that a chart is from. A site's mirror serves by it.
pub const CHART_REPOSITORY: &str = "dev.outhaul.chart.repository";
/// The annotation with the archive's address, relative to the repository.
pub const CHART_PATH: &str = "dev.outhaul.chart.path";
/// Payload type of a signed statement (in-toto).
pub const STATEMENT: &str = "application/vnd.in-toto+json";
/// Begins the media type of a trusted root (Sigstore).
pub const TRUSTED_ROOT: &str = "application/vnd.dev.sigstore.trustedroot";
/// The registry of names that state none.
pub const DEFAULT_REGISTRY: &str = "docker.io";
/// A payload's file that says what else of it is served, and how.
pub const CATALOG: &str = "outhaul-catalog.json";
/// The file with the key by which the packages of a payload are verified.
pub const APT_KEY: &str = "key.asc";

/// Whether a chart's version is a single one and no range.
pub fn is_single_version(version: &str) -> bool {
    let rest = version.strip_prefix('v').unwrap_or(version);
    let numbers = rest.split(['-', '+']).next().unwrap_or_default();
    let parts: Vec<&str> = numbers.split('.').collect();
    let is_number = |part: &&str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    parts.len() == 3 && parts.iter().all(is_number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_no_single_version() {
        let single = ["1.2.3", "v1.2.3", "1.2.3-rc.1+site"];
        assert!(single.into_iter().all(is_single_version));
        let others = [
            "",
            "1",
            "1.2",
            "1.x.0",
            "^1.2.3",
            ">=1.0.0 <2.0.0",
            "latest",
        ];
        assert!(!others.into_iter().any(is_single_version));
    }
}
