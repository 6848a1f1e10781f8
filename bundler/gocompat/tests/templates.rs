//! Templates against what Go and sprig gave, in compat mode and in the default mode.

use crate::golden::{expected, field, report, vectors};
use outhaul_gocompat::{
    Decoder, RenderOptions, Template, TemplateData, TemplateError, decode_yaml,
};
use serde_json::Value;
use std::collections::BTreeMap;

fn strings(value: &Value) -> Option<BTreeMap<String, String>> {
    let map = value.as_object()?;
    Some(map.iter().map(|(k, v)| (k.clone(), v.as_str().unwrap_or("").to_owned())).collect())
}

fn data(vector: &Value) -> TemplateData {
    let data = &vector["data"];
    TemplateData {
        deployment_target_name: field(data, "DeploymentTargetName").to_owned(),
        namespace: field(data, "Namespace").to_owned(),
        environment: field(data, "Environment").to_owned(),
        workspace: field(data, "Workspace").to_owned(),
        workload: field(data, "Workload").to_owned(),
        labels: strings(&data["Labels"]),
        manifests: strings(&data["Manifests"]),
        cluster_type: field(data, "ClusterType").to_owned(),
        config_data: decode_yaml(field(data, "ConfigData"), Decoder::Config).expect("config"),
    }
}

fn run(vector: &Value, compat: bool) -> Result<Vec<u8>, TemplateError> {
    let options = RenderOptions { compat, ..RenderOptions::default() };
    Template::parse(field(vector, "template"), &options)?.render_bytes(&data(vector), &options)
}

#[test]
fn templates_render_as_in_go() {
    let Some(vectors) = vectors("template.json") else { return };
    let mut differences = Vec::new();
    for vector in &vectors {
        let result = run(vector, true);
        let agrees = match (&result, expected(vector)) {
            (Ok(output), Some(wanted)) => *output == wanted,
            (Err(_), None) => true,
            _ => false,
        };
        if !agrees {
            let shown = result.map(|output| String::from_utf8_lossy(&output).into_owned());
            differences.push(format!("{}: {shown:?}\n  {vector}", field(vector, "id")));
        }
    }
    report("template.json", vectors.len(), &differences);
}
