//! Who brings images, charts, files and signatures into a folder here, and who has what was shipped last.
//!
//! What comes in: names, URLs and digests. What goes out: where the contents lie. This crate speaks to no registry: the program
//! gives it one of these.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use outhaul_bundle::Digest;
use outhaul_bundle::index::Content;
use outhaul_git::source::SourceMap;
use outhaul_needs::Release;

use super::ImageError;

/// Who brings images.
pub trait ImageSource: std::fmt::Debug {
    /// The whole name of an image: with its registry and its tag or digest.
    ///
    /// # Errors
    /// What is wrong with the name.
    fn whole_name(&self, image: &str) -> Result<String, ImageError>;

    /// Brings an image whose whole name is `name`, for these platforms (for all when none are named); `known` is what its tag is
    /// pinned to.
    ///
    /// # Errors
    /// [`ImageError`] when it cannot be had.
    fn bring(
        &self,
        name: &str,
        known: Option<Digest>,
        platforms: &BTreeSet<String>,
    ) -> Result<CollectedImage, ImageError>;

    /// The names under which signatures of the image `name` (a whole name) lie, as far as its registry has any.
    ///
    /// # Errors
    /// [`ImageError`] when it cannot be asked.
    fn signatures(&self, name: &str, digest: &Digest) -> Result<Vec<String>, ImageError>;

    /// Brings what lies under the name of a signature, all of it.
    ///
    /// # Errors
    /// [`ImageError`] when it cannot be had, or is too large for one.
    fn bring_signature(&self, name: &str) -> Result<CollectedImage, ImageError>;

    /// Brings a chart of a chart repository; `known` is what it is pinned to. `sources` knows which hosts may be asked.
    ///
    /// # Errors
    /// [`ImageError`] when it cannot be had.
    fn bring_chart(
        &self,
        chart: ChartAsked<'_>,
        sources: &SourceMap,
        known: Option<Digest>,
    ) -> Result<CollectedImage, ImageError>;

    /// Brings a file by its URL and digest; of one that is not `needed` now only its size may be found. `sources` knows which
    /// hosts may be asked.
    ///
    /// # Errors
    /// [`ImageError`] when it cannot be had.
    fn bring_file(
        &self,
        url: &str,
        sources: &SourceMap,
        digest: Digest,
        needed: bool,
    ) -> Result<Content, ImageError>;

    /// The archive of a chart that was brought, by the digest of its manifest; `None` for what is not a chart.
    ///
    /// # Errors
    /// [`ImageError`] when it is one and cannot be read.
    fn archive(&self, manifest: &Digest) -> Result<Option<Vec<u8>>, ImageError>;

    /// What `helm template` makes of an archive with the values of a release.
    ///
    /// # Errors
    /// Why it makes nothing: one sentence, to be put after what was not done.
    fn rendered(&self, archive: &Path, release: &Release) -> Result<Vec<u8>, String>;

    /// Where contents lie that are here, under their digests in hexadecimal digits.
    fn folder(&self) -> &Path;
}

/// A chart of a chart repository.
#[derive(Debug, Clone, Copy)]
pub struct ChartAsked<'a> {
    /// The repository's URL.
    pub url: &'a str,
    /// The chart's name.
    pub chart: &'a str,
    /// Its version, as it is written.
    pub version: &'a str,
}

/// Who has what was shipped last, where it cannot be had otherwise any more.
pub trait Earlier: std::fmt::Debug {
    /// The digest of an image by its whole name.
    fn image(&self, name: &str) -> Option<Digest>;

    /// The commit that a ref of a repository was.
    fn commit(&self, url: &str, reference: &str) -> Option<String>;

    /// Puts the contents of an image into `folder`; whether they are there then.
    fn bring_image(&self, manifest: Digest, folder: &Path) -> bool;

    /// A repository that has the commit.
    fn repository(&self, url: &str, commit: &str) -> Option<PathBuf>;
}

/// An image that is here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CollectedImage {
    /// Media type of its manifest or index.
    pub media_type: String,
    /// Its manifest or index.
    pub manifest: Content,
    /// All else that belongs to it, sorted, each once.
    pub blobs: Vec<Content>,
    /// Where each content lies, under its digest in hexadecimal digits.
    pub folder: PathBuf,
    /// Platforms that were asked for and that it does not have.
    pub lacks: Vec<String>,
}
