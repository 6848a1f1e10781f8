//! What looks like an image and is not known to be one, each once, whatever number of assignments it is of.
//!
//! What comes in: for each assignment what looks like an image, the images that are known, and the fields that a delivery policy
//! configures. What goes out: a finding for each that no bundle brings, and one for each configured field that no object has, or whose kind
//! no object is of. It reads nothing.

use std::collections::{BTreeMap, BTreeSet};

use outhaul_control::diagnostic::{Diagnostic, Diagnostics, Location};
use outhaul_control::model::ImageField;
use outhaul_kit::suggest::did_you_mean;
use outhaul_needs::{Possible, shown_image};
use outhaul_registry::ImageReference;

/// What it is, where, of which cluster types, and whether the images of one of these travel.
type PossibleImage = (Possible, Option<Location>, BTreeSet<String>, bool);

#[derive(Debug, Default)]
pub(crate) struct LooksLikeImages {
    /// By image, field and place: where it is, the cluster types, and whether one's images travel.
    found: BTreeMap<(String, String), PossibleImage>,
    /// By the place of a field: whether any object of its kind has it.
    fields: BTreeMap<String, (ImageField, bool)>,
    /// By the place of a field: that it is configured, and whether all objects of the sites that it is for were read.
    configured: BTreeMap<String, (ImageField, bool)>,
    /// By the place of the list of fields of a policy: the cluster types that it is for, and whether one of these gets bundles.
    policies: BTreeMap<String, (Location, BTreeSet<String>, bool)>,
    /// API version and kind of the objects that were read.
    kinds: BTreeSet<(String, String)>,
}

impl LooksLikeImages {
    /// Notes those of one assignment. `known` are its images; `at` is where something is written, `None` where that is not known.
    pub(crate) fn note(
        &mut self,
        cluster_type: &str,
        known: &BTreeSet<String>,
        carries: bool,
        found: impl Iterator<Item = (Possible, Option<Location>)>,
    ) {
        for (one, at) in found {
            if known.contains(&whole(&one.image)) {
                continue;
            }
            let place = at.as_ref().unwrap_or(&one.at).to_string();
            let key = (place, format!("{} {}", one.image, one.field));
            let entry = self.found.entry(key);
            let (_, _, types, travel) = entry.or_insert((one, at, BTreeSet::new(), false));
            types.insert(cluster_type.to_owned());
            *travel |= carries;
        }
    }

    /// Notes which of `fields` were seen in objects, by their numbers.
    pub(crate) fn note_fields(&mut self, fields: &[ImageField], seen: &BTreeMap<usize, bool>) {
        for (number, is_there) in seen {
            let Some(field) = fields.get(*number) else {
                continue;
            };
            let entry = self.fields.entry(field.location.to_string());
            entry.or_insert((field.clone(), false)).1 |= is_there;
        }
    }

    /// Notes that `fields` are configured for an assignment with objects of `kinds`, and whether these are all of its objects.
    pub(crate) fn note_configured(
        &mut self,
        fields: &[ImageField],
        kinds: impl Iterator<Item = (String, String)>,
        is_all: bool,
    ) {
        self.kinds.extend(kinds);
        for field in fields {
            let entry = self.configured.entry(field.location.to_string());
            entry.or_insert((field.clone(), true)).1 &= is_all;
        }
    }

    /// Notes that the list of fields at `at` is for a cluster type, and whether that is reached by git.
    pub(crate) fn note_policy(&mut self, at: &Location, cluster_type: &str, by_git: bool) {
        let entry = self.policies.entry(at.to_string());
        let (_, types, is_used) = entry.or_insert((at.clone(), BTreeSet::new(), false));
        types.insert(cluster_type.to_owned());
        *is_used |= !by_git;
    }

    /// Lists of fields that are for cluster types without bundles.
    fn without_bundles(&self) -> impl Iterator<Item = Diagnostic> {
        let unused = self.policies.values().filter(|(.., is_used)| !is_used);
        unused.map(|(at, types, _)| {
            let types: Vec<String> = types.iter().map(|name| format!("`{name}`")).collect();
            let message = format!(
                "`imageFields` has no effect: what runs on {} gets there by git, and no bundle brings images",
                types.join(", ")
            );
            let finding = Diagnostic::warning("no-effect", message).at(at);
            finding.help("remove it, or select other cluster types")
        })
    }

    /// A field of a kind that no object has; a kind that only charts make is not known here.
    fn of_no_kind(&self, field: &ImageField, is_all: bool) -> Diagnostic {
        let message = format!(
            "no object of kind `{}` ({}) was found, so `{}` in `imageFields` brings no image",
            field.kind, field.api_version, field.written
        );
        let same = self.kinds.iter().filter(|(_, kind)| *kind == field.kind);
        let versions: Vec<_> = same.map(|(version, _)| format!("`{version}`")).collect();
        let kinds: BTreeSet<&str> = self.kinds.iter().map(|(_, kind)| kind.as_str()).collect();
        let kinds: Vec<&str> = kinds.into_iter().collect();
        let help = match versions.as_slice() {
            [] => did_you_mean(&field.kind, &kinds),
            versions => format!("`{}` is there as {}", field.kind, versions.join(", ")),
        };
        let finding = match is_all {
            true => Diagnostic::warning("no-effect", message).help(help),
            false => Diagnostic::note("no-effect", message).help(format!(
                "{help}; objects that charts make, and files that could not be read, are not among those"
            )),
        };
        finding.at(&field.location)
    }

    /// The findings: a warning where images travel, a note where that is not decided.
    pub(crate) fn findings(self) -> Diagnostics {
        let mut all: Diagnostics = self.without_bundles().collect();
        for (place, (field, is_all)) in &self.configured {
            if !self.fields.contains_key(place) {
                all.push(self.of_no_kind(field, *is_all));
            }
        }
        for (one, at, types, travel) in self.found.into_values() {
            let types: Vec<String> = types.iter().map(|name| format!("`{name}`")).collect();
            let of = match &one.object {
                Some((_, kind)) => format!(" of this `{kind}`"),
                None => String::new(),
            };
            let message = format!(
                "no bundle brings `{}` to the sites of {}: `{}`{of} is not known to hold an image",
                shown_image(&one.image),
                types.join(", "),
                one.field
            );
            let entry = |(api_version, kind): &(String, String), more: &str| {
                let path = &one.field;
                format!("`{{apiVersion: {api_version}, kind: {kind}, path: '{path}'{more}}}`")
            };
            let field = match &one.object {
                Some(object) if one.is_alone => format!(
                    ", or write the field into `imageFields` of a delivery policy: {}, with `ignore: true` if it holds no image",
                    entry(object, "")
                ),
                Some(object) => format!(
                    "; if it is none, write the field into `imageFields` of a delivery policy: {}",
                    entry(object, ", ignore: true")
                ),
                None => ", or name it in a manifest as a container does".to_owned(),
            };
            let finding = match travel {
                true => Diagnostic::warning("image-field-unknown", message),
                false => Diagnostic::note("image-field-unknown", message),
            };
            all.push(finding.at(at.as_ref().unwrap_or(&one.at)).help(format!(
                "list the image in the workload's `outhaul-files.toml` (`[[image]]`){field}"
            )));
        }
        for (field, _) in self.fields.into_values().filter(|(_, is_there)| !is_there) {
            let message = format!(
                "no object of kind `{}` ({}) has an image in `{}`",
                field.kind, field.api_version, field.written
            );
            let finding = Diagnostic::warning("no-effect", message).at(&field.location);
            all.push(finding.help(
                "compare the path with the objects; a list or map on the way is followed by `[*]`",
            ));
        }
        all
    }
}

/// An image's name with all of its parts, so that two ways to write it are one.
pub(crate) fn whole(image: &str) -> String {
    let read = image.parse::<ImageReference>();
    read.map_or_else(|_| image.to_owned(), |image| image.to_string())
}

#[cfg(test)]
mod tests {
    use outhaul_test_planes::fields::image_field;

    use super::*;

    fn said(field: &ImageField, kinds: &[(&str, &str)], is_all: bool) -> String {
        let mut all = LooksLikeImages::default();
        let kinds = kinds.iter();
        let kinds = kinds.map(|(version, kind)| ((*version).to_owned(), (*kind).to_owned()));
        all.note_configured(std::slice::from_ref(field), kinds, is_all);
        all.findings().render(false)
    }

    #[test]
    fn fields_for_cluster_types_without_bundles_are_said_to_have_no_effect() {
        let at = image_field("press.example/v1", "Press", "spec.ink", false).location;
        let found = |by_git: &[bool]| {
            let mut all = LooksLikeImages::default();
            for (number, by_git) in by_git.iter().enumerate() {
                all.note_policy(&at, &format!("t{number}"), *by_git);
            }
            all.findings().render(false)
        };
        let both = found(&[true, true]);
        assert!(both.contains("`imageFields` has no effect"), "{both}");
        assert!(both.contains("`t0`, `t1`"), "{both}");
        assert_eq!(found(&[true, false]), "");
    }

    #[test]
    fn a_kind_that_no_object_is_of_is_said_with_the_nearest() {
        let press = [("press.example/v1", "Press"), ("apps/v1", "Deployment")];
        let typo = image_field("press.example/v1", "Pres", "spec.ink", false);
        let found = said(&typo, &press, true);
        for part in [
            "warning",
            "no object of kind `Pres` (press.example/v1)",
            "did you mean `Press`?",
        ] {
            assert!(found.contains(part), "{part}: {found}");
        }
        let group = image_field("pres.example/v1", "Press", "spec.ink", false);
        let found = said(&group, &press, true);
        let there = "`Press` is there as `press.example/v1`";
        assert!(found.contains(there), "{found}");
        // A chart may make it.
        let found = said(&typo, &press, false);
        assert!(
            !found.contains("warning") && found.contains("charts"),
            "{found}"
        );
    }
}
