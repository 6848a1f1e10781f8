//! Charts of chart repositories that an `Application` of Argo CD names.
//!
//! What comes in: the `spec` of an object of Argo CD. What goes out: each source with a `chart` and a repository at
//! `https://`, with the values that the source gives it. It asks nobody.

use std::sync::Arc;

use outhaul_control::diagnostic::{Location, SourceFile};
use outhaul_control::yaml::{self, Node, YamlValue};
use serde_json::{Value as Json, json};

use super::{Id, Need, Release, of_repository, text};
use crate::values::{json as value, merged};

/// The charts of an object.
pub(super) fn charts(file: &Arc<SourceFile>, spec: &Node, id: &Id) -> Vec<(Need, Location)> {
    let several = match spec.field("sources").map(|node| &node.value) {
        Some(YamlValue::Sequence(items)) => items.as_slice(),
        _ => &[],
    };
    let all = spec.field("source").into_iter().chain(several);
    all.filter_map(|source| chart(file, source, id)).collect()
}

/// Whether a source is a chart of a chart repository.
pub(in crate::manifest) fn is_chart(source: &Node) -> bool {
    let url = text(source, "repoURL").unwrap_or_default();
    text(source, "chart").is_some()
        && outhaul_kit::url::UrlParts::of(url).is_some_and(|url| url.is_web())
}

fn chart(file: &Arc<SourceFile>, source: &Node, id: &Id) -> Option<(Need, Location)> {
    if !is_chart(source) {
        return None;
    }
    let at = source.field("chart")?;
    let helm = source.field("helm");
    let mut elsewhere = Vec::new();
    let release = Release {
        namespace: id.0.clone(),
        name: id.1.clone(),
        values: helm.map_or_else(String::new, |helm| given(helm, &mut elsewhere)),
        tests: false,
        elsewhere,
    };
    let version = text(source, "targetRevision").unwrap_or_default();
    let chart = text(source, "chart")?.to_owned();
    let url = text(source, "repoURL")?;
    let need = of_repository(url, chart, version.to_owned(), Some(release));
    Some((need, Location::new(file, at.span.clone())))
}

/// The values of a source, in the order in which Argo CD puts them over one another.
fn given(helm: &Node, elsewhere: &mut Vec<String>) -> String {
    let list = |key: &str| match helm.field(key).map(|node| &node.value) {
        Some(YamlValue::Sequence(items)) => items.as_slice(),
        _ => &[],
    };
    for name in list("valueFiles").iter().filter_map(Node::as_str) {
        elsewhere.push(format!("the values file `{name}`"));
    }
    if !list("fileParameters").is_empty() {
        elsewhere.push("`fileParameters`".to_owned());
    }
    let mut all = Json::Null;
    if let Some(written) = text(helm, "values") {
        let file = Arc::new(SourceFile {
            name: "values".to_owned(),
            text: written.to_owned(),
        });
        match yaml::parse(&file).map(|documents| documents.into_iter().next()) {
            Ok(Some(node)) => all = value(&node),
            Ok(None) => {}
            Err(_) => elsewhere.push("`helm.values`, which is not YAML,".to_owned()),
        }
    }
    if let Some(object) = helm.field("valuesObject") {
        all = value(object);
    }
    for parameter in list("parameters") {
        let (Some(name), Some(found)) = (text(parameter, "name"), parameter.field("value")) else {
            continue;
        };
        let keys = name.split('.').rev();
        let one = keys.fold(
            value(found),
            |below, key| json!({ (key.to_owned()): below }),
        );
        all = merged(all, &one);
    }
    match all {
        Json::Null => String::new(),
        all => all.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::{Needs, together};

    #[test]
    fn a_chart_of_an_application_is_asked_for_with_its_values_and_parameters() {
        let text = r"
apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: web, namespace: argocd}
spec:
  source:
    repoURL: https://charts.example/a
    chart: web
    targetRevision: 1.2.3
    helm:
      values: |
        image: {repository: team/web, tag: old}
      parameters: [{name: image.tag, value: new}]
      valueFiles: [prod.yaml]
";
        let needs = together(vec![Needs::of("a.yaml", text.as_bytes())]);
        let [
            (
                Need::Chart {
                    url,
                    version,
                    release,
                    ..
                },
                at,
            ),
        ] = &needs[..]
        else {
            panic!("{needs:?}");
        };
        assert_eq!((&**url, &**version), ("https://charts.example/a", "1.2.3"));
        assert_eq!(at.to_string(), "a.yaml:8:12");
        let release = release.as_ref().unwrap();
        let expected = r#"{"image":{"repository":"team/web","tag":"new"}}"#;
        assert_eq!(release.values, expected);
        assert_eq!(release.elsewhere, ["the values file `prod.yaml`"]);
    }
}
