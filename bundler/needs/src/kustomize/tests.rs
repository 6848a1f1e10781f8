//! Builds as teams write them, against what Kustomize makes of them, and what cannot be followed.
//!
//! The files below `cases` hold a tree, and after it what `kustomize build` of version 5.7.1 wrote for its path.
//! The other trees are of a kind that Kustomize refuses, fetches for, or builds with what a reconciler adds.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use outhaul_control::diagnostic::Diagnostic;
use outhaul_git::source::{GitReference, open_folder};
use outhaul_test_planes::fields::image_field;

use super::*;

const URL: &str = "https://git.example.org/shop";

fn git(dir: &Path, arguments: &[&str]) {
    let done = Command::new("git")
        .arg("-C")
        .arg(dir)
        .args(["-c", "user.name=T", "-c", "user.email=t@example.org"])
        .args(["-c", "commit.gpgsign=false"])
        .args(arguments)
        .output()
        .unwrap();
    assert!(
        done.status.success(),
        "{}",
        String::from_utf8_lossy(&done.stderr)
    );
}

/// What is followed of `path` in a repository with `files`.
fn followed_in(path: &str, files: &[(&str, &str)], builds: &[Build]) -> Followed {
    followed_with(path, files, builds, &[])
}

fn followed_with(
    path: &str,
    files: &[(&str, &str)],
    builds: &[Build],
    fields: &[ImageField],
) -> Followed {
    let dir = tempfile::tempdir().unwrap();
    git(dir.path(), &["init", "--quiet", "--initial-branch", "main"]);
    for (name, text) in files {
        let at = dir.path().join(name);
        fs::create_dir_all(at.parent().unwrap()).unwrap();
        match text.strip_prefix("-> ") {
            Some(target) => std::os::unix::fs::symlink(target, at).unwrap(),
            None => fs::write(at, text).unwrap(),
        }
    }
    git(dir.path(), &["add", "."]);
    git(dir.path(), &["commit", "--quiet", "-m", "one"]);
    // What is not committed is not built.
    for (name, _) in files {
        fs::remove_file(dir.path().join(name)).unwrap();
    }
    let opened = open_folder(dir.path(), URL, &GitReference::Branch("main".into())).unwrap();
    follow(&opened, path, builds, fields).unwrap()
}

fn images(followed: &Followed) -> BTreeSet<&str> {
    let is_image = |need: &Need| matches!(need, Need::Image(_));
    let all = followed.needs.iter().map(|(need, _)| need);
    all.filter(|need| is_image(need)).map(Need::text).collect()
}

/// Each gap as `file:line code message`, without the repository and the commit.
fn gaps(followed: &Followed) -> Vec<String> {
    let one = |gap: &Gap| {
        let found = gap.finding(Diagnostic::warning);
        let at = gap.at.file_line();
        let (_, at) = at.split_once('@').unwrap_or(("", &at));
        let (_, at) = at.split_once(':').unwrap_or(("", at));
        format!("{at} {} {}", found.code, found.message)
    };
    followed.gaps.iter().map(one).collect()
}

/// The path, the files, and the images that Kustomize built.
fn case(text: &str) -> (&str, Vec<(&str, &str)>, BTreeSet<&str>) {
    let mut parts = text.split("==== ");
    let path = parts.next().unwrap().trim().strip_prefix("path ").unwrap();
    let mut files: Vec<_> = parts.map(|part| part.split_once('\n').unwrap()).collect();
    let (name, built) = files.pop().unwrap();
    assert_eq!(name, "kustomize build");
    let lines = built
        .lines()
        .map(|line| line.trim_start_matches([' ', '-']));
    let built: BTreeSet<&str> = lines
        .filter_map(|line| line.strip_prefix("image: "))
        .collect();
    assert!(!built.is_empty());
    (path, files, built)
}

macro_rules! cases {
    ($($name:literal),*) => { [$(($name, include_str!(concat!("cases/", $name, ".txt")))),*] };
}

#[test]
fn the_images_are_those_that_kustomize_builds() {
    for (name, text) in cases![
        "base_beside",
        "chain",
        "component",
        "patches",
        "old_fields",
        "two_of_one",
        "kinds"
    ] {
        let (path, files, built) = case(text);
        let followed = followed_in(path, &files, &[]);
        assert_eq!(images(&followed), built, "{name}");
        assert_eq!(gaps(&followed), Vec::<String>::new(), "{name}");
    }
}

#[test]
fn where_it_is_not_certain_what_is_built_more_is_there_and_nothing_is_missing() {
    for (name, text) in cases!["more_json_replace", "more_transformers", "more_suffix"] {
        let (path, files, built) = case(text);
        let followed = followed_in(path, &files, &[]);
        let images = images(&followed);
        assert!(
            images.is_superset(&built),
            "{name}: {images:?} of {built:?}"
        );
        assert_eq!(gaps(&followed), Vec::<String>::new(), "{name}");
    }
}

const POD: &str =
    "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: a, image: app}]}\n";

#[test]
fn what_cannot_be_followed_is_named_with_its_line() {
    let kustomization = "\
resources:
- https://github.com/example/base//app?ref=v1
- github.com/example/base//app?ref=v1
- git@github.com:example/base
- https://raw.example.org/all.yaml
- ../../missing
- ../../../outside
- /etc
- pod.yaml
- linked.yaml
components:
- https://github.com/example/comp
helmCharts:
- {name: redis, repo: 'https://charts.example.org', version: 1.0.0}
generators:
- plugin.yaml
patches:
- path: gone.yaml
- patch: '{'
replacements:
- source: {kind: ConfigMap, name: c, fieldPath: data.image}
  targets: [{select: {kind: Pod}, fieldPaths: [spec.containers.0.image]}]
images:
- {name: 'registry.example.org/.*', newTag: '1'}
";
    let plugin = "apiVersion: example.org/v1\nkind: Maker\nmetadata: {name: m}\n";
    let files = [
        ("overlays/dev/kustomization.yaml", kustomization),
        ("overlays/dev/pod.yaml", POD),
        ("overlays/dev/plugin.yaml", plugin),
        ("overlays/dev/linked.yaml", "-> pod.yaml"),
    ];
    let followed = followed_in("overlays/dev", &files, &[]);
    assert_eq!(images(&followed), BTreeSet::from(["app"]));
    insta::assert_snapshot!(gaps(&followed).join("\n"));
}

#[test]
fn bases_that_reach_themselves_and_kustomizations_that_are_none_are_named() {
    let files = [
        ("a/kustomization.yaml", "resources: [../b, ../c, ../d]\n"),
        ("b/kustomization.yaml", "resources: [../a, pod.yaml]\n"),
        ("b/pod.yaml", POD),
        ("c/kustomization.yaml", "resources: [x\n"),
        ("d/kustomization.yaml", "resources: [bad.yaml]\n"),
        ("d/bad.yaml", "a: [\n"),
    ];
    let followed = followed_in("a", &files, &[]);
    assert_eq!(images(&followed), BTreeSet::from(["app"]));
    let gaps = gaps(&followed);
    assert_eq!(gaps.len(), 3, "{gaps:#?}");
    assert!(
        gaps[0].ends_with("the kustomization of `a` reaches itself"),
        "{gaps:?}"
    );
    assert!(
        gaps.iter()
            .all(|gap| gap.contains(" kustomization-broken ")),
        "{gaps:?}"
    );
}

#[test]
fn a_chain_that_is_too_long_is_named_and_not_followed_for_ever() {
    let mut files = Vec::new();
    for at in 0..80 {
        let text = format!("resources: [../k{}, ../k{}/.]\n", at + 1, at + 1);
        files.push((format!("k{at}/kustomization.yaml"), text));
    }
    files.push((
        "k80/kustomization.yaml".to_owned(),
        "resources: []\n".to_owned(),
    ));
    let files: Vec<_> = files
        .iter()
        .map(|(name, text)| (name.as_str(), text.as_str()))
        .collect();
    let gaps = gaps(&followed_in("k0", &files, &[]));
    assert!(
        gaps[0].contains("more kustomizations or images than are followed"),
        "{gaps:?}"
    );
}

fn rendered(text: &str) -> Vec<Build> {
    builds([(&"reconciler.yaml".to_owned(), &text.as_bytes().to_vec())].into_iter())
}

const FLUX: &str = "\
apiVersion: source.toolkit.fluxcd.io/v1
kind: GitRepository
metadata: {name: shop}
spec: {url: 'https://git.example.org/shop.git'}
---
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {name: shop}
spec:
  sourceRef: {kind: GitRepository, name: shop}
  path: ./overlays/dev
  images:
  - {name: app, newName: registry.example.org/app, newTag: '2'}
  components: [../../comp]
  patches:
  - patch: |
      apiVersion: v1
      kind: Pod
      metadata: {name: p}
      spec: {initContainers: [{name: i, image: 'registry.example.org/init:1'}]}
  postBuild:
    substitute: {TAG: '8'}
    substituteFrom: [{kind: Secret, name: s}]
";

#[test]
fn what_flux_is_told_besides_is_built_too() {
    let variables = "apiVersion: v1\nkind: Pod\nmetadata: {name: v}\nspec:\n  containers:\n  - {name: a, image: 'v:${TAG}'}\n  - {name: b, image: 'd:${OTHER:=3}'}\n  - {name: c, image: 'u:${NONE}'}\n";
    let comp =
        "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\nresources: [c.yaml]\n";
    let c = "apiVersion: v1\nkind: Pod\nmetadata: {name: c}\nspec: {containers: [{name: a, image: 'comp:1'}]}\n";
    let with = [
        ("base/pod.yaml", POD),
        ("base/v.yaml", variables),
        ("base/kustomization.yaml", "resources: [pod.yaml, v.yaml]\n"),
        (
            "overlays/dev/kustomization.yaml",
            "resources: [../../base]\n",
        ),
        ("comp/kustomization.yaml", comp),
        ("comp/c.yaml", c),
    ];
    let built = [
        "comp:1",
        "d:3",
        "registry.example.org/app:2",
        "registry.example.org/init:1",
        "v:8",
    ];
    let followed = followed_in("overlays/dev", &with, &rendered(FLUX));
    assert_eq!(images(&followed), BTreeSet::from(built));
    let gaps = gaps(&followed);
    assert_eq!(gaps.len(), 2, "{gaps:?}");
    assert!(
        gaps.iter()
            .any(|gap| gap.contains("`u:${NONE}` has a variable")),
        "{gaps:?}"
    );
    // Without a kustomization Flux makes one, of all files.
    let without = [
        ("overlays/dev/pod.yaml", POD),
        ("comp/kustomization.yaml", comp),
        ("comp/c.yaml", c),
    ];
    let followed = followed_in("overlays/dev", &without, &rendered(FLUX));
    let built = [
        "comp:1",
        "registry.example.org/app:2",
        "registry.example.org/init:1",
    ];
    assert_eq!(images(&followed), BTreeSet::from(built));
}

#[test]
fn images_that_an_application_of_argo_cd_sets_are_built() {
    let application = "\
apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: shop}
spec:
  source:
    repoURL: https://git.example.org/shop
    path: overlays/dev
    kustomize:
      images: ['app=registry.example.org/app:2', 'side:3']
      components: [../../missing]
";
    let side = "apiVersion: v1\nkind: Pod\nmetadata: {name: s}\nspec: {containers: [{name: a, image: 'side:1'}]}\n";
    let files = [
        ("base/pod.yaml", POD),
        ("base/side.yaml", side),
        (
            "base/kustomization.yaml",
            "resources: [pod.yaml, side.yaml]\n",
        ),
        (
            "overlays/dev/kustomization.yaml",
            "resources: [../../base]\nimages: [{name: side, newTag: '2'}]\n",
        ),
    ];
    let followed = followed_in("overlays/dev", &files, &rendered(application));
    let images = images(&followed);
    assert!(
        images.contains("registry.example.org/app:2") && images.contains("side:3"),
        "{images:?}"
    );
    assert!(
        !images.contains("app") && !images.contains("side:1"),
        "{images:?}"
    );
    let gaps = gaps(&followed);
    assert_eq!(gaps.len(), 1, "{gaps:?}");
    assert!(gaps[0].contains("`../../missing` is not there"), "{gaps:?}");
}

#[test]
fn folders_that_no_kustomization_names_are_read_as_before() {
    let files = [
        (
            "app/one/kustomization.yaml",
            "resources: [../../base]\nimages: [{name: app, newTag: '1'}]\n",
        ),
        (
            "app/plain.yaml",
            "apiVersion: v1\nkind: Pod\nmetadata: {name: q}\nspec: {containers: [{name: a, image: 'plain:1'}]}\n",
        ),
        ("base/pod.yaml", POD),
        ("base/kustomization.yaml", "resources: [pod.yaml]\n"),
        (
            "app/fleet.yaml",
            "kustomize: {dir: ../two}\nhelm: {repo: 'https://charts.example.org', chart: redis}\n",
        ),
        (
            "two/kustomization.yaml",
            "resources: [../base]\nimages: [{name: app, newTag: '2'}]\n",
        ),
    ];
    let followed = followed_in("app", &files, &[]);
    assert_eq!(
        images(&followed),
        BTreeSet::from(["app:1", "app:2", "plain:1"])
    );
    let gaps = gaps(&followed);
    assert_eq!(gaps.len(), 1, "{gaps:?}");
    assert!(gaps[0].contains("the chart `redis`"), "{gaps:?}");
}

#[test]
fn a_fleet_yaml_that_is_no_map_is_said_and_an_empty_one_is_not() {
    let said = |text: &str| {
        let files = [("app/fleet.yaml", text), ("app/pod.yaml", POD)];
        gaps(&followed_in("app", &files, &[]))
    };
    for (text, kind) in [("- helm\n", "a list"), ("helm\n", "text")] {
        let found = said(text);
        assert!(found.len() == 1 && found[0].contains(kind), "{found:?}");
    }
    for text in ["", "# nothing\n", "namespace: x\n"] {
        assert!(said(text).is_empty(), "{text}");
    }
}

#[test]
fn a_tree_that_was_emptied_is_named_and_one_that_may_hold_something_is_not() {
    let overlay = "resources: [../base]\n";
    let emptied = [
        ("dev/kustomization.yaml", overlay),
        ("base/kustomization.yaml", "resources: []\n"),
    ];
    let found = gaps(&followed_in("dev", &emptied, &[]));
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(
        found[0].starts_with("dev/kustomization.yaml:1 kustomization-empty "),
        "{found:?}"
    );
    let object = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n";
    for base in [
        "resources: [a.yaml]\n",
        "configMapGenerator: [{name: a, literals: [a=b]}]\n",
        "components: [../part]\n",
        "resources: [\"https://github.com/example/base//app?ref=v1\"]\n",
    ] {
        let files = [
            ("dev/kustomization.yaml", overlay),
            ("base/kustomization.yaml", base),
            ("base/a.yaml", object),
            ("part/kustomization.yaml", "kind: Component\n"),
        ];
        let found = gaps(&followed_in("dev", &files, &[]));
        let is_empty = |one: &String| one.contains("kustomization-empty");
        assert!(!found.iter().any(is_empty), "{base}: {found:?}");
    }
}

#[test]
fn patches_and_literals_are_looked_at_as_objects_are() {
    let kustomization = "\
resources: [press.yaml]
patches:
  - target: {kind: Press}
    patch: |
      - {op: replace, path: /spec/image, value: quay.io/press/head:2}
      - {op: add, path: /spec/rolls/0, value: {paper: quay.io/press/paper:2, ink: quay.io/press/ink:2}}
  - patch: |
      apiVersion: press.example/v1
      kind: Press
      metadata: {name: a}
      spec: {oil: quay.io/press/oil:2}
  - path: ../patch.yaml
configMapGenerator:
  - {name: c, literals: [RELATED_IMAGE_GLUE=press/glue:2, PLACE=quay.io/press/place:2, HOST=a.example]}
";
    let press = "apiVersion: press.example/v1\nkind: Press\nmetadata: {name: a}\n";
    let outside = format!("{press}spec: {{water: quay.io/press/water:2}}\n");
    let files = [
        ("app/kustomization.yaml", kustomization),
        ("app/press.yaml", press),
        ("patch.yaml", &outside),
    ];
    let followed = followed_in("app", &files, &[]);
    let found: Vec<String> = followed
        .possible
        .iter()
        .map(|one| format!("{} {}", one.field, one.image))
        .collect();
    let found: BTreeSet<&str> = found.iter().map(String::as_str).collect();
    assert_eq!(followed.possible.len(), found.len());
    let expected = [
        "configMapGenerator[*].literals[*] press/glue:2",
        "configMapGenerator[*].literals[*] quay.io/press/place:2",
        "spec.oil quay.io/press/oil:2",
        "spec.rolls[*].ink quay.io/press/ink:2",
        "spec.rolls[*].paper quay.io/press/paper:2",
        "spec.water quay.io/press/water:2",
    ];
    assert_eq!(found, BTreeSet::from(expected));
    let field = |path, ignored| image_field("press.example/v1", "Press", path, ignored);
    let fields = [
        field("spec.rolls[*].paper", false),
        field("spec.rolls[*].ink", true),
    ];
    let followed = followed_with("app", &files, &[], &fields);
    assert!(images(&followed).contains("quay.io/press/paper:2"));
    assert!(!images(&followed).contains("quay.io/press/ink:2"));
    let rolls = |one: &Possible| one.field.starts_with("spec.rolls");
    assert!(!followed.possible.iter().any(rolls));
    assert_eq!(followed.fields, [(0, true), (1, true)].into());
}
