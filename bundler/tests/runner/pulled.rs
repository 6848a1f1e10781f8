//! Images that travel and that nodes ask a registry for at each start of a container.
//!
//! What comes in: a control plane of `outhaul init` with `imagePullPolicy: Always` in manifests, in a template, and in a template for one site. What
//! must come out of `outhaul check`: a note for each, at the place that a person can correct.

use std::fs;

use super::silent::{InitFixture, snapshot};

#[test]
fn images_that_are_pulled_at_each_start() {
    let made = InitFixture::with(&["--reconciler", "flux-git"]);
    made.edit(
        "hello",
        "manifests/dev/deployment.yaml",
        "hello:1.0.0\n",
        "hello:1.0.0\n          imagePullPolicy: Always\n",
    );
    let pod = "    - |
      apiVersion: v1
      kind: Pod
      metadata: {name: log}
      spec:
        containers:
          - {name: log, image: 'registry.example.org/log:2', imagePullPolicy: Always}
          - name: site
            image: registry.example.org/site:3
            imagePullPolicy: {{ ConfigData.PULL | default('IfNotPresent') }}
";
    let first = "  manifests:\n";
    let all = format!("{first}{pod}");
    made.edit("main", "templates/namespace.yaml", first, &all);
    let edge = fs::read_to_string(made.cp().join("cluster-types/edge.yaml")).unwrap();
    let oven = edge.replace("name: edge", "name: oven");
    made.write("dev", "cluster-types/oven.yaml", &oven);
    // Only one site's files have this one.
    made.write(
        "dev",
        "sites/oven-1.yaml",
        "apiVersion: outhaul.dev/v1alpha1\nkind: Site\nmetadata: {name: oven-1}\nspec: {clusterType: oven}\n---\n\
         apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: oven-1\n  labels: {platform-config: 'true', site: oven-1}\n\
         data: {PULL: Always}\n",
    );
    made.edit(
        "dev",
        "delivery/images.yaml",
        "images: reference",
        "images: carry",
    );
    snapshot!(made.check(&[]));
}
