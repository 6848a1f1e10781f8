//! The findings about what no bundle brings, in words.
//!
//! What comes in: what was found, with its places and cluster types. What goes out: a finding for each. It decides nothing of what travels.

use outhaul_control::diagnostic::{Diagnostic, Diagnostics, Location};
use outhaul_kit::carried::is_single_version;
use outhaul_kit::url_secrets::without_secrets;
use outhaul_load::pipeline::Platform;
use outhaul_needs::kustomize::Gap;
use outhaul_needs::{Need, shown_image};
use outhaul_registry::ImageReference;
use outhaul_ship::collect::{ChartAsked, unnamed};

use super::{Asked, Needs};

/// What is wrong with a chart that would travel, as far as that needs no network.
pub(super) fn badly_asked(
    platform: &Platform,
    (url, chart, version): &Asked,
    at: Option<&Location>,
) -> Option<Diagnostic> {
    let asked = ChartAsked {
        url,
        chart,
        version,
    };
    let (problem, help) = match (unnamed(asked), platform.sources.permitted(url)) {
        (Some(error), _) => (error.message, error.help.unwrap_or_default()),
        (None, Err(error)) => (error.to_string(), error.server_help()),
        (None, Ok(_)) if !is_single_version(version) => (
            format!("`{version}` is not one version, and a bundle contains one"),
            "write one version in `spec.chart.spec.version`, such as `1.2.3`; `outhaul bundle --estimate` names those \
             that there are"
                .to_owned(),
        ),
        (None, Ok(_)) => return None,
    };
    let message = format!(
        "no bundle can bring the chart `{chart}` of `{}`: {problem}",
        without_secrets(url)
    );
    let finding = Diagnostic::error("not-collected", message).at_any(at);
    Some(finding.help(help))
}

/// What is wrong with the name of an image that would travel, as far as that needs no network.
pub(super) fn badly_named(
    platform: &Platform,
    image: &str,
    at: Option<&Location>,
) -> Option<Diagnostic> {
    let problem = match image.parse::<ImageReference>() {
        Err(error) => (
            error.to_string(),
            "write it as a container runtime accepts it".to_owned(),
        ),
        Ok(reference) => {
            let url = format!("https://{}/", reference.registry);
            let error = platform.sources.permitted(&url).err()?;
            (
                format!("`{}`: {error}", shown_image(image)),
                error.server_help(),
            )
        }
    };
    let (message, help) = problem;
    let finding = Diagnostic::error(
        "not-collected",
        format!("no bundle can bring an image: {message}"),
    );
    Some(finding.at_any(at).help(&help))
}

pub(super) fn gap_finding((gap, is_certain): &(Gap, bool)) -> Diagnostic {
    match is_certain {
        true => gap.finding(Diagnostic::warning),
        false => gap.finding(Diagnostic::note),
    }
}

pub(super) fn findings(needs: Needs, all: &mut Diagnostics) {
    for ((need, _), (at, types, certain)) in needs {
        let types: Vec<String> = types.iter().map(|name| format!("`{name}`")).collect();
        let types = types.join(", ");
        let (code, what, help) = match &need {
            Need::Image(image) => (
                "image-not-carried",
                format!(
                    "no bundle brings the image `{}` to the sites of {types}",
                    shown_image(image)
                ),
                "write `images: carry` in a delivery policy, and bundles bring it; `images: reference` where the sites have a \
                 registry with it; `delivery: git` where they have a network",
            ),
            Need::Source(url) => (
                "source-not-carried",
                format!("no bundle brings `{url}` to the sites of {types}"),
                match url.starts_with("oci://") {
                    true => {
                        "charts and OCI artifacts travel where an object names one version of them: name one; where the \
                             sites have a registry with it, write `images: reference` in a delivery policy; else commit what it makes (`helm template`) to \
                             the workload's manifests; `delivery: git` where the sites have a network"
                    }
                    false => {
                        "buckets do not travel, and of a chart repository those charts that a `HelmRelease` asks for with one \
                              version: name one; or commit what the chart makes (`helm template`) to the \
                              workload's manifests, or let sites reach it at an address inside the cluster (`.svc`); \
                              `delivery: git` where they have a network"
                    }
                },
            ),
            Need::Chart { url, chart, .. } => (
                "source-not-carried",
                format!(
                    "no bundle brings the chart `{chart}` of `{}` to the sites of {types}",
                    without_secrets(url)
                ),
                "write `images: carry` in a delivery policy, and bundles bring it with its images; `images: reference` where the \
                 sites reach that repository; `delivery: git` where they have a network",
            ),
            Need::Unknown(what) => (
                "source-not-carried",
                format!(
                    "whether a bundle brings everything to the sites of {types} is not known: {what}"
                ),
                "put what it names into the same manifests, or what the chart makes (`helm template`); `delivery: git` \
                 where the sites have a network",
            ),
            Need::Repository(url, _) | Need::Artifact { url, .. } => (
                "source-not-carried",
                format!("no bundle brings `{url}` to the sites of {types}"),
                "name it as the `manifests` of a deployment target, in a clone and not as a plain folder, so that \
                 it travels; or write `delivery: git` in a delivery policy where the sites have a network",
            ),
        };
        let mut finding = match certain {
            true => Diagnostic::warning(code, what),
            false => Diagnostic::note(code, what),
        };
        if let Some(at) = &at {
            finding = finding.at(at);
        }
        all.push(finding.help(help));
    }
}
