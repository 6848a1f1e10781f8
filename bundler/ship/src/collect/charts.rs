//! Charts, and the images that they need.
//!
//! What comes in: what an assignment's files ask for. What goes out: each chart as an artifact, pinned as an image is, and
//! with it the images of its values and templates. What of a chart is not known is kept, to be named. A chart that is not one,
//! or not the one that is asked for, is that assignment's error.

use std::collections::{BTreeMap, BTreeSet};

use outhaul_bundle::Digest;
use outhaul_control::diagnostic::{Diagnostic, Diagnostics, Location};
use outhaul_kit::carried::is_single_version;
use outhaul_kit::url_secrets::without_secrets;
use outhaul_plane::render::RenderedAssignment;

use super::images::not_brought;
use super::{ChartAsked, CollectError, CollectedImage, Collector, ImageError};
use outhaul_needs::chart::{self, Chart};
use outhaul_needs::{Need, Release};

impl Collector<'_> {
    /// What is not known of the charts that were collected, and which images were not verified.
    pub fn uncertain(&self) -> Diagnostics {
        let finding = |(message, at): (&String, &Option<Location>)| {
            let finding = Diagnostic::warning("chart-images-unknown", message.clone());
            finding.at_any(at.as_ref()).help(
                "see that what travels is what the chart needs (`outhaul bundle --estimate` lists it); an image that is \
                 missing is named in the release's `values`, or in a manifest of the workload",
            )
        };
        let mut all: Diagnostics = Diagnostics::new();
        all.extend(self.uncertain.iter().map(finding));
        all.extend(self.signatures.unverified());
        all.extend(self.platforms.missing());
        all.sort();
        all
    }

    /// Everything that an assignment needs and that travels as an image does, brought here, under whole names.
    pub(super) fn needed(
        &mut self,
        name: &str,
        assignment: &RenderedAssignment,
        pin: Option<&String>,
    ) -> Result<Vec<(String, CollectedImage)>, CollectError> {
        let mut all = BTreeMap::new();
        let mut images: BTreeMap<String, (Option<Location>, Option<String>)> = BTreeMap::new();
        for (need, at) in self.named_by(name, assignment, pin)? {
            let found = match &need {
                Need::Image(image) => {
                    images.entry(image.clone()).or_insert((at, None));
                    continue;
                }
                Need::Artifact {
                    name: artifact,
                    release,
                    ..
                } => {
                    let found = self.brought(name, artifact, at.as_ref())?;
                    if let Some((whole, brought)) = &found {
                        let named = (artifact.as_str(), whole.as_str());
                        all.extend(self.signature(name, named, brought, at.as_ref())?);
                    }
                    found.map(|found| (found, release, None))
                }
                Need::Chart {
                    url,
                    chart,
                    version,
                    name: travels,
                    release,
                } => {
                    let asked = ChartAsked {
                        url,
                        chart,
                        version,
                    };
                    let found = self.chart(name, asked, travels, at.as_ref())?;
                    if let Some((whole, _)) = &found {
                        self.unsignable(name, (url, whole), at.as_ref())?;
                    }
                    found.map(|found| (found, release, Some(asked)))
                }
                Need::Unknown(what) => {
                    self.uncertain.insert(format!("`{name}`: {what}"), at);
                    continue;
                }
                Need::Repository(..) | Need::Source(_) => continue,
            };
            let Some(((whole, brought), release, asked)) = found else {
                continue;
            };
            let more =
                self.images_of_chart(name, &whole, &brought, (release, asked), at.as_ref())?;
            for image in more {
                let of = Some(whole.clone());
                images.entry(image).or_insert_with(|| (at.clone(), of));
            }
            all.insert(whole, brought);
        }
        for (image, (at, of)) in images {
            let brought = self.brought(name, &image, at.as_ref());
            let brought = brought.map_err(|error| match of {
                Some(of) => of_chart(error, &of),
                None => error,
            });
            if let Some((whole, brought)) = brought? {
                let named = (image.as_str(), whole.as_str());
                all.extend(self.signature(name, named, &brought, at.as_ref())?);
                all.insert(whole, brought);
            }
        }
        Ok(all.into_iter().collect())
    }

    /// A chart of a chart repository.
    fn chart(
        &mut self,
        name: &str,
        asked: ChartAsked<'_>,
        travels: &str,
        at: Option<&Location>,
    ) -> Result<Option<(String, CollectedImage)>, CollectError> {
        let Some(source) = self.images else {
            return Ok(None);
        };
        let sources = self.sources;
        let url = without_secrets(asked.url);
        let shown = format!("{}/{}", url.trim_end_matches('/'), asked.chart);
        if let Some(error) = unnamed(asked) {
            return Err(not_brought(name, &shown, at, false, error));
        }
        self.pinned(name, (&shown, travels.to_owned()), at, &|known| {
            let brought = source.bring_chart(asked, sources, known);
            brought.map_err(|mut error| {
                if !is_single_version(asked.version) && !error.is_environment {
                    let help = "write one of them in `spec.chart.spec.version` (`targetRevision`): a bundle contains one version";
                    error.help = Some(help.to_owned());
                }
                error
            })
        })
    }

    /// The images of what was brought, where that is a chart.
    fn images_of_chart(
        &mut self,
        name: &str,
        whole: &str,
        brought: &CollectedImage,
        (release, asked): (&Option<Release>, Option<ChartAsked<'_>>),
        at: Option<&Location>,
    ) -> Result<BTreeSet<String>, CollectError> {
        let Some(source) = self.images else {
            return Ok(BTreeSet::new());
        };
        let wrong = |message: String| ImageError {
            message,
            is_environment: false,
            help: Some(
                "ask who publishes the chart: `helm package` makes an archive that can be read"
                    .to_owned(),
            ),
        };
        let archive = source.archive(&brought.manifest.digest);
        let archive = archive.map_err(|error| not_brought(name, whole, at, false, error))?;
        let Some(archive) = archive else {
            let message = format!(
                "`{name}`: `{whole}` is not a chart, and the manifests in it are not searched: images that they name do not travel because of \
                 them"
            );
            self.uncertain.insert(message, at.cloned());
            return Ok(BTreeSet::new());
        };
        let read = Chart::read(&archive).map_err(|problem| wrong(format!("its archive {problem}")));
        let read = read.and_then(
            |read| match asked.filter(|asked| read.name != asked.chart) {
                None => Ok(read),
                Some(_) => Err(wrong(format!(
                    "its archive is of the chart `{}` {}",
                    read.name, read.version
                ))),
            },
        );
        let read = read.map_err(|error| not_brought(name, whole, at, false, error))?;
        let mut found = chart::images(&read, release.as_ref());
        if self.renders
            && let Some(release) = release
        {
            // It lies in the cache under its digest.
            let file = brought.folder.join(Digest::of(&archive).hex());
            match source.rendered(&file, release) {
                Ok(text) => found.as_rendered(&text, &self.image_fields),
                Err(problem) => {
                    let what = format!(
                        "it is not rendered, and its images are those of its values: {problem}"
                    );
                    found.unknown.insert(what);
                }
            }
        }
        for what in found.unknown {
            let message = format!("`{name}`: chart `{} {}`: {what}", read.name, read.version);
            self.uncertain.insert(message, at.cloned());
        }
        Ok(found.images)
    }
}

/// Why a chart cannot be asked for; `None` when it can.
pub fn unnamed(asked: ChartAsked<'_>) -> Option<ImageError> {
    let wrong = |message: &str, help: &str| {
        Some(ImageError {
            message: message.to_owned(),
            is_environment: false,
            help: Some(help.to_owned()),
        })
    };
    match (asked.chart, asked.version) {
        ("", _) => wrong(
            "no chart is named: its release asks the repository for a chart without a name",
            "write the chart's name in `spec.chart.spec.chart`",
        ),
        (_, "") => wrong(
            "no version is named, and a bundle contains one",
            "write one version in `spec.chart.spec.version`, such as `1.2.3`",
        ),
        _ => None,
    }
}

/// The same error, with the chart that the image is of.
fn of_chart(error: CollectError, chart: &str) -> CollectError {
    match error {
        CollectError::Image {
            assignment,
            what,
            at,
            pinned,
            mut error,
        } => {
            if !error.is_environment {
                error.help = Some(format!(
                    "it is in the values or templates of the chart `{chart}`: name the image that is meant in the \
                     release's `values`"
                ));
            }
            CollectError::Image {
                assignment,
                what,
                at,
                pinned,
                error,
            }
        }
        other => other,
    }
}
