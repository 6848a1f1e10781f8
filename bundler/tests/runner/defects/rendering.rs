//! Defects in what templates give and in what then lies on disk.
//!
//! What comes in: templates and values that Kalypso renders wrongly, or folders with files of others.
//! What must come out: exactly the files that the control plane means, or an error with its place.

use std::fs;

use super::{ASSIGNMENT, DefectFixture, HEAD};

#[test]
fn defect_11_values_cannot_loop_or_read_the_machine() {
    let fixture = DefectFixture::new();
    fixture.config_template("loop: {{ .ConfigData.LOOP }}");
    fixture.data("  LOOP: \"{{ .ConfigData.LOOP }}\"\n");
    for mode in [DefectFixture::render, DefectFixture::render_compat] {
        mode(&fixture).complains("still contains {{ after 16 rounds");
    }
    for call in [
        "env \"HOME\"",
        "expandenv \"$HOME\"",
        "getHostByName \"localhost\"",
        "now",
        "uuidv4",
        "randAlpha 3",
    ] {
        fixture.data(&format!("  LOOP: '{{{{ {call} }}}}'\n"));
        let name = call.split(' ').next().unwrap();
        for mode in [DefectFixture::render, DefectFixture::render_compat] {
            mode(&fixture).complains(&format!("function \"{name}\" is refused"));
        }
    }
    // Text of Prometheus or Jinja passes when it says that it is text.
    fixture.data("  LOOP: '{{ literal \"{{ $labels.job }}\" }}'\n");
    assert_eq!(fixture.rendered_data(), "loop: {{ $labels.job }}\n");
}

#[test]
fn defect_12_a_missing_value_is_an_error_where_it_is_used() {
    let fixture = DefectFixture::new();
    fixture.edit("main/templates.yaml", ".Manifests.repo", ".Manifests.path");
    fixture
        .render()
        .complains("assignment `hello-test` on `drone`")
        .complains("main/templates.yaml:9:");
    assert!(!fixture.path("out").exists());
    fixture.render_compat().ok();
    let written = fixture.read(&format!("compat/{ASSIGNMENT}/reconciler.yaml"));
    assert_eq!(written, "repository: <no value>\n");
}

#[test]
fn defect_13_documents_are_joined_at_line_ends() {
    let fixture = DefectFixture::new();
    fixture.edit(
        "main/templates.yaml",
        "    - |\n      namespace: {{ .Namespace }}\n      workspace: {{ .Workspace }}\n",
        "    - 'a: 1'\n    - ''\n    - |\n      b: 2\n    - 'c: 3'\n",
    );
    fixture.render().ok();
    fixture.render_compat().ok();
    let file = |out: &str| fixture.read(&format!("{out}/{ASSIGNMENT}/namespace.yaml"));
    assert_eq!(file("out"), "a: 1\n---\nb: 2\n---\nc: 3");
    assert_eq!(file("compat"), "a: 1---\nb: 2\n---\nc: 3");
}

#[test]
fn defect_14_what_is_no_longer_rendered_is_gone_from_a_kept_folder() {
    let fixture = DefectFixture::new();
    fixture.edit(
        "main/templates.yaml",
        "  type: config\n",
        "  type: config\n  contentType: sh\n",
    );
    fixture.render().ok();
    assert!(
        fixture
            .path(&format!("out/{ASSIGNMENT}/platform-config.sh"))
            .exists()
    );
    fixture.edit("main/templates.yaml", "  contentType: sh\n", "");
    fixture.render().ok();
    let names: Vec<String> = fs::read_dir(fixture.path(&format!("out/{ASSIGNMENT}")))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(names.len(), 3, "{names:?}");
    assert!(!names.iter().any(|name| name.ends_with(".sh")), "{names:?}");
}

#[test]
fn defect_15_files_of_others_are_neither_removed_nor_overwritten() {
    let fixture = DefectFixture::new();
    fixture.write("out/docs/read-me.md", "mine");
    fixture.write("out/drone/note.txt", "mine too");
    fixture.render().ok();
    fixture.edit("dev/types.yaml", "name: drone", "name: plane");
    fixture.run(&["check"]).ok();
    let seen = fixture.render();
    assert_eq!(
        fixture.read("out/docs/read-me.md"),
        "mine",
        "{}",
        seen.stderr
    );
    assert_eq!(
        fixture.read("out/drone/note.txt"),
        "mine too",
        "{}",
        seen.stderr
    );
}

#[test]
fn defect_16_every_template_may_say_what_its_content_is() {
    let fixture = DefectFixture::new();
    fixture.edit(
        "main/templates.yaml",
        "  type: reconciler\n",
        "  type: reconciler\n  contentType: sh\n",
    );
    fixture.render().ok();
    fixture.render_compat().ok();
    assert!(
        fixture
            .path(&format!("out/{ASSIGNMENT}/reconciler.sh"))
            .exists()
    );
    assert!(
        fixture
            .path(&format!("compat/{ASSIGNMENT}/reconciler.yaml"))
            .exists()
    );
}

#[test]
fn defect_19_what_is_missing_is_written_again_whatever_was_written_before() {
    let fixture = DefectFixture::new();
    fixture.render().ok();
    let file = fixture.path(&format!("out/{ASSIGNMENT}/platform-config.yaml"));
    fs::remove_file(&file).unwrap();
    fixture.render().ok();
    assert_eq!(
        fs::read_to_string(file).unwrap(),
        format!("{HEAD}  REGION: East US\n")
    );
}

#[test]
fn defect_26_a_long_namespace_is_reported_early_and_shortened_the_same_way_each_time() {
    let fixture = DefectFixture::new();
    let long = "a-name-that-goes-on-and-on-until-no-cluster-takes-it";
    fixture.edit("dev/types.yaml", "name: drone", &format!("name: {long}"));
    let whole = format!("dev-{long}-hello-test");
    let message = fixture.run(&["check"]);
    assert!(
        message.stdout.contains(&format!(
            "namespace `{whole}` has {} characters",
            whole.len()
        )),
        "{}",
        message.stdout
    );
    fixture.render().ok();
    fixture.render_compat().ok();
    let file = |out: &str| fixture.read(&format!("{out}/{long}/hello-test/namespace.yaml"));
    assert_eq!(
        file("compat"),
        format!("namespace: {whole}\nworkspace: team\n")
    );
    let short = "dev-a-name-that-goes-on-and-on-until-no-cluster-takes";
    let text = file("out");
    let name = text
        .lines()
        .next()
        .unwrap()
        .strip_prefix("namespace: ")
        .unwrap();
    assert!(name.starts_with(short) && name.len() <= 63, "{name}");
    assert!(
        message.stdout.contains(name),
        "`check` says which name is used: {}",
        message.stdout
    );
}

#[test]
fn defect_29_the_documented_names_are_the_names_that_there_are() {
    let page = include_str!("../../../../docs/platform-engineer.md");
    let fields = [
        "DeploymentTargetName",
        "Namespace",
        "Environment",
        "Workspace",
        "Workload",
        "Labels",
        "Manifests",
        "ClusterType",
        "ConfigData",
    ];
    let fixture = DefectFixture::new();
    let mut template = String::new();
    for field in fields {
        assert!(
            page.contains(&format!("`{field}`")),
            "{field} is not documented"
        );
        template += &format!("{field}: {{{{ if .{field} }}}}yes{{{{ end }}}}\n");
    }
    fixture.config_template(template.trim_end());
    let all = fields.map(|field| format!("{field}: yes\n")).concat();
    assert_eq!(fixture.rendered_data(), all);
    // What Kalypso's own page names is refused by name.
    for field in ["Repo", "Branch", "Path"] {
        fixture.config_template(&format!("x: {{{{ .{field} }}}}"));
        fixture.render().complains(field);
    }
}
