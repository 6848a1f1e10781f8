//! Where the sources of Argo CD's objects are fetched: from this site's mirror.
//!
//! What comes in: the `spec` of an `Application` or an `ApplicationSet`, and the mirror's address. What goes out: the
//! same with the mirror's addresses, and one sentence for each that was changed. What the mirror cannot serve stays as it
//! is. It asks nobody, and adds no field.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::kubernetes::original;

/// How deep generators may lie within each other; Argo CD takes two.
const MAX_DEPTH: usize = 4;

/// Points every source of an application that the mirror serves to it, and says which.
pub(super) fn point_to(mirror: &str, spec: &mut Value) -> Vec<String> {
    let mut reported = Vec::new();
    for source in sources_of(spec) {
        let is_chart = is_chart(source);
        // By name of the field: one that is not there must not come to be.
        if let Some(url) = source.get_mut("repoURL") {
            reported.extend(point(mirror, url, is_chart));
        }
    }
    reported
}

/// The same for an `ApplicationSet`: its template, its generators, and the addresses that a list gives its template.
pub(super) fn point_set_to(mirror: &str, spec: &mut Value) -> Vec<String> {
    let mut reported = Vec::new();
    let mut places = Vec::new();
    if let Some(template) = spec.pointer_mut("/template/spec") {
        places = placeholders(template);
        reported.extend(point_to(mirror, template));
    }
    let generators = spec.get_mut("generators").and_then(Value::as_array_mut);
    for generator in generators.into_iter().flatten() {
        point_generator(mirror, generator, &places, 0, &mut reported);
    }
    // A list may name one repository many times.
    let mut known = BTreeSet::new();
    reported.retain(|line| known.insert(line.clone()));
    reported
}

/// `places`: the parameters that are a repository's address in the template, and whether it is one of charts.
fn point_generator(
    mirror: &str,
    generator: &mut Value,
    places: &[(String, bool)],
    depth: usize,
    reported: &mut Vec<String>,
) {
    if depth > MAX_DEPTH {
        return;
    }
    let Some(kinds) = generator.as_object_mut() else {
        return;
    };
    for (kind, of_kind) in kinds {
        if let Some(template) = of_kind.pointer_mut("/template/spec") {
            reported.extend(point_to(mirror, template));
        }
        if kind == "git"
            && let Some(url) = of_kind.get_mut("repoURL")
        {
            reported.extend(point(mirror, url, false));
        }
        let elements = of_kind.get_mut("elements").and_then(Value::as_array_mut);
        for element in elements.into_iter().flatten() {
            for (name, is_chart) in places {
                if let Some(url) = element.get_mut(name) {
                    reported.extend(point(mirror, url, *is_chart));
                }
            }
        }
        // Those of `matrix` and `merge`.
        let within = of_kind.get_mut("generators").and_then(Value::as_array_mut);
        for generator in within.into_iter().flatten() {
            point_generator(mirror, generator, places, depth + 1, reported);
        }
    }
}

/// The parameters that are the whole address of a source: of `{{url}}` and `{{ .url }}` it is `url`.
fn placeholders(template: &mut Value) -> Vec<(String, bool)> {
    let named = |source: &mut Value| {
        let url = source.get("repoURL")?.as_str()?.trim();
        let name = url.strip_prefix("{{")?.strip_suffix("}}")?.trim();
        let name = name.trim_start_matches('.');
        let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        (!name.is_empty() && name.chars().all(is_plain))
            .then(|| (name.to_owned(), is_chart(source)))
    };
    sources_of(template).into_iter().filter_map(named).collect()
}

fn is_chart(source: &Value) -> bool {
    source["chart"]
        .as_str()
        .is_some_and(|chart| !chart.is_empty())
}

fn sources_of(spec: &mut Value) -> Vec<&mut Value> {
    let Some(fields) = spec.as_object_mut() else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for (name, value) in fields {
        match (name.as_str(), value) {
            ("source", source) => found.push(source),
            ("sources", Value::Array(sources)) => found.extend(sources),
            _ => {}
        }
    }
    found
}

/// Puts the mirror's address in the place of `url`, where the mirror serves it, and says so.
fn point(mirror: &str, url: &mut Value, is_chart: bool) -> Option<String> {
    let before = url.as_str()?.to_owned();
    let address = match (is_chart, before.starts_with("http")) {
        (false, _) => original::address(&before, mirror),
        (true, true) => original::charts(&before, mirror),
        // A chart of a registry that is written without `oci://`.
        (true, false) => None,
    }?;
    let reported = format!("`{before}` is fetched from {address}");
    *url = address.into();
    Some(reported)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_source_that_the_mirror_serves_is_fetched_there() {
        let mut spec = json!({
            "source": {"repoURL": "git@github.com:org/repo.git", "path": "app"},
            "sources": [
                {"repoURL": "oci://ghcr.io/org/app", "targetRevision": "1"},
                {"repoURL": "https://charts.example/a", "chart": "web", "targetRevision": "2"},
                {"repoURL": "ghcr.io/org/charts", "chart": "web", "targetRevision": "2"},
            ],
        });
        let reported = point_to("https://mirror.site.example:5443", &mut spec);
        assert_eq!(
            spec["source"]["repoURL"],
            "https://mirror.site.example:5443/github.com/org/repo.git"
        );
        assert_eq!(
            spec["sources"][0]["repoURL"],
            "oci://mirror.site.example:5443/ghcr.io/org/app"
        );
        assert_eq!(
            spec["sources"][1]["repoURL"],
            "https://mirror.site.example:5443/charts.example/a"
        );
        assert_eq!(spec["sources"][2]["repoURL"], "ghcr.io/org/charts");
        assert_eq!(reported.len(), 3, "{reported:?}");
        let mut one = json!({"source": {"repoURL": "https://github.com/org/repo"}});
        point_to("https://mirror.site.example:5443", &mut one);
        assert_eq!(one.as_object().map(serde_json::Map::len), Some(1), "{one}");
    }

    #[test]
    fn what_a_sets_generators_read_and_give_is_fetched_from_the_mirror_too() {
        let mirror = "https://mirror.site.example:5443";
        let git = |url: &str| json!({"git": {"repoURL": url, "directories": [{"path": "*"}]}});
        let list = json!({"list": {"elements": [
            {"name": "a", "url": "https://github.com/org/a", "docs": "https://docs.example/a"},
            {"name": "b", "url": "https://github.com/org/a"},
        ]}});
        let mut set = json!({
            "generators": [git("https://github.com/org/list"), {"matrix": {"generators": [
                {"merge": {"generators": [list, git("{{url}}")]}}, {"clusters": {}},
            ]}}],
            "template": {"spec": {"sources": [
                {"repoURL": "{{ .url }}", "path": "{{ .name }}"},
                {"repoURL": "https://{{ .host }}/org/values", "ref": "values"},
            ]}},
        });
        let reported = point_set_to(mirror, &mut set);
        let at = |pointer: &str| {
            set.pointer(pointer)
                .and_then(Value::as_str)
                .unwrap()
                .to_owned()
        };
        assert_eq!(
            at("/generators/0/git/repoURL"),
            format!("{mirror}/github.com/org/list")
        );
        let merged = "/generators/1/matrix/generators/0/merge/generators";
        let element = |field: &str| at(&format!("{merged}/0/list/elements/0/{field}"));
        assert_eq!(element("url"), format!("{mirror}/github.com/org/a"));
        assert_eq!(
            element("docs"),
            "https://docs.example/a",
            "no source is fetched from it"
        );
        assert_eq!(at(&format!("{merged}/1/git/repoURL")), "{{url}}");
        assert_eq!(at("/template/spec/sources/0/repoURL"), "{{ .url }}");
        let values = at("/template/spec/sources/1/repoURL");
        assert_eq!(values, format!("{mirror}/{{{{ .host }}}}/org/values"));
        assert_eq!(reported.len(), 3, "{reported:?}");
    }
}
