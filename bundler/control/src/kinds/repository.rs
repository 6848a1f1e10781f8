//! The kinds that point to a repository: `Environment`, `BaseRepo`, `GitOpsRepo` and
//! `WorkloadRegistration`.
//!
//! What comes in: an object's fields. What goes out: the typed object. URLs are taken as they are
//! written; whether they can be reached shows when they are opened.

use super::super::diagnostic::Diagnostic;
use super::super::model::{
    BaseRepo, Environment, GitOpsRepo, RepositoryPath, WorkloadRegistration,
};
use super::KALYPSO;
use super::fields::{FieldReader, Fields};
use super::metadata::Metadata;
use super::shape::{KindSchema, LABELS, any_text, kind, may, must, object, pattern, place_fields};
use outhaul_kit::commit_id::is_commit_id;

/// The label by which an `Environment` names the one before it in the promotion chain.
pub const AFTER_LABEL: &str = "outhaul.dev/after";

pub(super) fn environment_described() -> KindSchema {
    kind(
        KALYPSO,
        "Environment",
        "A link of the promotion chain; it lies in `.environments/` on the main branch.",
        LABELS,
        object(vec![must(
            "controlPlane",
            "Where the environment's own objects are.",
            object(place_fields(
                "The repository with the environment's branch.",
            )),
        )]),
    )
}

pub(super) fn base_repo_described() -> KindSchema {
    let mut fields = place_fields("The repository with what is promoted.");
    fields.push(may(
        "commit",
        "The commit that it is pinned to: a full id. Promotion changes this line and nothing else.",
        pattern(
            "^([0-9a-f]{40}|[0-9a-f]{64})?$",
            "0123456789abcdef0123456789abcdef01234567",
        ),
    ));
    kind(
        KALYPSO,
        "BaseRepo",
        "What is promoted into an environment; the one named `main` is its base.",
        LABELS,
        object(fields),
    )
}

pub(super) fn gitops_repo_described() -> KindSchema {
    kind(
        KALYPSO,
        "GitOpsRepo",
        "Where the rendered platform goes.",
        LABELS,
        object(place_fields("The platform GitOps repository.")),
    )
}

pub(super) fn registration_described() -> KindSchema {
    kind(
        KALYPSO,
        "WorkloadRegistration",
        "Says where a workload is described, and which workspace it belongs to.",
        LABELS,
        object(vec![
            must(
                "workload",
                "Where the workload's objects lie.",
                object(place_fields("The application team's repository.")),
            ),
            may(
                "workspace",
                "The workspace (team) that owns it.",
                any_text("team"),
            ),
        ]),
    )
}

pub(super) fn environment(
    reader: &mut FieldReader<'_>,
    object: &Fields<'_>,
) -> Option<Environment> {
    let metadata = Metadata::read(reader, object);
    let spec = reader.section(object, "spec")?;
    let at = reader.section(&spec, "controlPlane")?;
    let control_plane = place(reader, &at)?;
    let mut metadata = metadata?;
    let after = metadata.labels.remove(AFTER_LABEL);
    Some(Environment {
        name: metadata.name,
        control_plane,
        after: after.filter(|after| !after.value.is_empty()),
        location: metadata.location,
    })
}

pub(super) fn base_repo(reader: &mut FieldReader<'_>, object: &Fields<'_>) -> Option<BaseRepo> {
    let metadata = Metadata::read(reader, object);
    let spec = reader.section(object, "spec")?;
    let at = place(reader, &spec);
    let commit = reader
        .optional_text(&spec, "commit")
        .filter(|c| !c.value.is_empty());
    if let Some(commit) = commit.as_ref().filter(|c| !is_commit_id(&c.value)) {
        reader.report(
            Diagnostic::error("bad-commit", format!("`{}` is not a commit", commit.value))
                .at(&commit.location)
                .help("write the commit's full id: 40 hexadecimal digits"),
        );
        return None;
    }
    let metadata = metadata?;
    Some(BaseRepo {
        name: metadata.name,
        at: at?,
        commit,
        location: metadata.location,
    })
}

pub(super) fn gitops_repo(reader: &mut FieldReader<'_>, object: &Fields<'_>) -> Option<GitOpsRepo> {
    let metadata = Metadata::read(reader, object);
    let spec = reader.section(object, "spec")?;
    let at = place(reader, &spec);
    let metadata = metadata?;
    Some(GitOpsRepo {
        name: metadata.name,
        at: at?,
        location: metadata.location,
    })
}

pub(super) fn registration(
    reader: &mut FieldReader<'_>,
    object: &Fields<'_>,
) -> Option<WorkloadRegistration> {
    let metadata = Metadata::read(reader, object);
    let spec = reader.section(object, "spec")?;
    let workspace = reader.optional_text(&spec, "workspace");
    let at = reader.section(&spec, "workload")?;
    let workload = place(reader, &at);
    let metadata = metadata?;
    Some(WorkloadRegistration {
        name: metadata.name,
        workload: workload?,
        workspace: workspace.map(|w| w.value).unwrap_or_default(),
        location: metadata.location,
    })
}

fn place(reader: &mut FieldReader<'_>, fields: &Fields<'_>) -> Option<RepositoryPath> {
    let repo = reader.text(fields, "repo");
    let branch = reader.text(fields, "branch");
    let path = reader.optional_text(fields, "path");
    let (repo, branch) = (repo?, branch?);
    let path_at = path.as_ref().map_or(&repo.location, |path| &path.location);
    Some(RepositoryPath {
        path_at: path_at.clone(),
        repo,
        branch: branch.value,
        branch_at: branch.location,
        path: path.map_or_else(|| ".".into(), |path| path.value),
    })
}
