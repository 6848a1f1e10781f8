//! Looking before anything is changed: what is there, whose it is, and whether the server would take it.
//!
//! What comes in: an assignment's objects and the inventory. What goes out: for each object what is there now
//! and how it may be applied, or the first reason to change nothing at all. It sends no request that changes
//! anything.

use std::collections::BTreeMap;

use outhaul_bundle::Digest;
use outhaul_kit::heartbeat::Heartbeat;
use outhaul_kubernetes::cluster::{is_applied_by_us, other_managers};
use outhaul_kubernetes::{ClientError, Cluster, Health, Key, Object, Reason, Resource, differ};
use serde_json::Value;

use super::controller::ManifestController;
use super::objects::{ConflictPolicy, DesiredObject, DesiredObjects};
use super::ownership::{
    ANNOTATION, Owner, Ownership, OwnershipRecord, SITE_ANNOTATION, owner_of, site_of, uid_of,
};
use crate::error::ApplyError;
use crate::inventory::Item;
use crate::outcome::{Stop, step};

/// One object is the reason to change nothing.
fn because_of(key: &Key, problem: String) -> Stop {
    Stop::Assignment(vec![step(key.to_string(), "failed", "")], problem)
}

/// One object that may be applied.
#[derive(Debug)]
pub struct InspectedObject {
    /// The object.
    pub object: Object,
    /// Digest of its file.
    pub content: Digest,
    /// What is there now.
    pub found: Option<Value>,
    /// How it came to be ours, as it stands now.
    pub origin: Ownership,
    /// Whether fields are adopted from other managers.
    pub force: bool,
    /// What this site changed in it, for people.
    pub note: String,
    /// What the object that is there means to its controller, where that is what was applied.
    pub meaning: Option<Digest>,
}

impl InspectedObject {
    /// One that nobody looked at.
    pub fn unseen(wanted: DesiredObject) -> Self {
        Self {
            object: wanted.object,
            content: wanted.content,
            found: None,
            origin: Ownership::New,
            force: false,
            note: wanted.note,
            meaning: None,
        }
    }

    /// Whether applying made a difference. What a controller wrote meanwhile is none of it.
    pub fn became(&self, controller: &dyn ManifestController, applied: &Value) -> &'static str {
        let written = |object: &Value| controller.as_written(&self.object.key, object.clone());
        match &self.found {
            Some(found) if differ::differing(&written(found), &written(applied)).is_empty() => "ok",
            _ => "changed",
        }
    }
}

/// Whether the site is to blame. A field that someone else has taken since is in the way until a person gives
/// it back: no other bundle would fare better.
pub fn is_of_the_site(trouble: &ClientError) -> bool {
    let conflict = |trouble: &ClientError| {
        let refusal = trouble.refusal();
        refusal.is_some_and(|refusal| refusal.reason == Reason::Conflict)
    };
    trouble.is_of_the_site() || conflict(trouble)
}

/// Where the API has the kind of `object`.
pub fn resource(cluster: &Cluster, object: &Object) -> Result<Option<Resource>, ClientError> {
    cluster.resource(&object.key.group, &object.version, &object.key.kind)
}

/// What to say of an object whose kind is not there.
pub fn unknown_kind(object: &Object) -> String {
    let group = match object.key.group.as_str() {
        "" => object.version.clone(),
        group => format!("{group}/{}", object.version),
    };
    format!(
        "{}: the cluster has no kind `{}` in `{group}`; its CustomResourceDefinition has to be installed there, or \
         come with the assignment",
        object.place, object.key.kind
    )
}

/// What the inventory has of an object.
pub fn mark_of(recorded: &[Item], key: &Key) -> Option<OwnershipRecord> {
    let name = key.to_string();
    let item = recorded.iter().find(|item| item.item == name)?;
    OwnershipRecord::parse(&item.digest)
}

/// Gives every object its namespace and its annotations, and puts them in order.
pub(super) fn prepare(
    cluster: &Cluster,
    controller: &dyn ManifestController,
    all: &mut DesiredObjects,
    owner: &Owner,
) -> Result<(), Stop> {
    let refused = |problem: String| Stop::failed(problem);
    let default = all.namespace();
    let mut defined: BTreeMap<(String, String), bool> = BTreeMap::new();
    for wanted in &all.objects {
        if let Some((group, kind)) = wanted.object.defines() {
            let namespaced = wanted.object.value["spec"]["scope"] == "Namespaced";
            defined.insert((group.to_owned(), kind.to_owned()), namespaced);
        }
    }
    for wanted in &mut all.objects {
        let object = &mut wanted.object;
        let kind = (object.key.group.clone(), object.key.kind.clone());
        let mut known = resource(cluster, object)?;
        if known.is_none()
            && !defined.contains_key(&kind)
            && let Some(other) = controller.other_version(cluster, object)?
        {
            let (group, version) = (&object.key.group, other.version().to_owned());
            wanted.note = format!(
                "applied as `{group}/{version}`: the cluster does not have `{}`",
                object.version
            );
            object.value["apiVersion"] = format!("{group}/{version}").into();
            object.version = version;
            known = Some(other);
        }
        let namespaced = match (known, defined.get(&kind)) {
            (_, Some(namespaced)) => *namespaced,
            (Some(resource), None) => resource.namespaced,
            (None, None) => match controller.missing(object) {
                Some(missing) => return Err(Stop::Site(missing)),
                None => return Err(refused(unknown_kind(object))),
            },
        };
        match (namespaced, object.key.namespace.clone()) {
            (false, _) => object.put_into(None),
            (true, Some(_)) => {}
            (true, None) => match &default {
                Some(namespace) => object.put_into(Some(namespace)),
                None => {
                    return Err(refused(format!(
                        "{}: `{}` names no namespace, and the assignment neither makes one nor sets \
                         `namespace` in its `KubernetesApply`",
                        object.place, object.key
                    )));
                }
            },
        }
    }
    controller.adapt(all)?;
    for wanted in &mut all.objects {
        let object = &mut wanted.object;
        object
            .annotate(ANNOTATION, &owner.assignment)
            .map_err(refused)?;
        if let Some(site) = &owner.site {
            object.annotate(SITE_ANNOTATION, site).map_err(refused)?;
        }
    }
    all.arrange().map_err(refused)
}

/// Looks at every object of `all`, and takes them out of it.
pub(super) fn inspect(
    cluster: &Cluster,
    controller: &dyn ManifestController,
    all: &mut DesiredObjects,
    recorded: &[Item],
    owner: &Owner,
    correct: bool,
    heartbeat: &Heartbeat,
) -> Result<Vec<InspectedObject>, Stop> {
    prepare(cluster, controller, all, owner)?;
    let take_over = all.settings.conflicts == ConflictPolicy::Force;
    let mut looked: Vec<InspectedObject> = Vec::new();
    for wanted in std::mem::take(&mut all.objects) {
        heartbeat.beat();
        let mut one = InspectedObject::unseen(wanted);
        if let Some(resource) = resource(cluster, &one.object)? {
            one.found = cluster.get(&resource, &one.object.key)?;
        }
        let mark = mark_of(recorded, &one.object.key);
        if let Some(found) = &one.found {
            let meaning = controller.meaning(&one.object.key, found);
            let applied = mark.as_ref().and_then(|mark| mark.meaning);
            one.meaning = applied.filter(|applied| meaning == Some(*applied));
            one.origin = origin(&one.object, found, mark, owner, take_over)?;
        }
        // What we made is put back where the stream says so, or where nobody has changed it; what others made, where the
        // stream says that.
        let may_correct = correct || one.meaning.is_some();
        one.force = take_over || (may_correct && matches!(one.origin, Ownership::Made(_)));
        looked.push(one);
    }
    for at in 0..looked.len() {
        heartbeat.beat();
        try_out(cluster, &looked, at)?;
    }
    Ok(looked)
}

/// How an object that is there came to be ours.
fn origin(
    object: &Object,
    found: &Value,
    mark: Option<OwnershipRecord>,
    owner: &Owner,
    take_over: bool,
) -> Result<Ownership, Stop> {
    let key = &object.key;
    let refused = |problem: String| Err(because_of(key, problem));
    if !found["metadata"]["deletionTimestamp"].is_null() {
        return Err(Stop::Site(ApplyError::Cluster {
            problem: format!("`{key}` is being removed, and is not gone yet"),
            help: "see what keeps it (its finalizers); the agent tries again".into(),
        }));
    }
    if let Some(other) = owner.other_site(found) {
        return Err(Stop::Site(other_site(key, found, other)));
    }
    let (owner, site) = (owner.assignment.as_str(), owner.site.as_deref());
    let uid = uid_of(found).to_owned();
    match owner_of(found) {
        Some(other) if other != owner && mark.is_none() => {
            return refused(format!(
                "`{key}` belongs to the assignment `{other}`; let only one of the two have it"
            ));
        }
        _ => {}
    }
    if let Some(mark) = mark {
        match &mark.origin {
            Ownership::Made(known) if *known == uid => return Ok(Ownership::Made(uid)),
            Ownership::Took(known) if *known == uid => return Ok(Ownership::Took(uid)),
            Ownership::New if mark.is_of(found) => return Ok(Ownership::Made(uid)),
            _ => {}
        }
    }
    if take_over {
        return Ok(Ownership::Took(uid));
    }
    // Nothing is recorded of it, or of an object before it, as where state or cluster were lost and put back: what
    // it says of itself, set by ourselves or brought back with the object, says that this assignment of this site
    // made it. Fields that someone else has set to another value are a conflict still.
    if owner_of(found) == Some(owner)
        && (is_applied_by_us(found) || (site.is_some() && site_of(found) == site))
    {
        return Ok(Ownership::Made(uid));
    }
    let managers = other_managers(found);
    let whose = match managers.is_empty() {
        true => String::new(),
        false => format!(" (its fields were set by {})", managers.join(", ")),
    };
    refused(format!(
        "`{key}` is there and is not Outhaul's{whose}; remove it, or let the template say `conflicts: force`, which \
         takes it over"
    ))
}

/// Two sites that apply to one cluster would undo each other's work for ever: nothing is changed.
fn other_site(key: &Key, found: &Value, other: &str) -> ApplyError {
    let assignment = owner_of(found).unwrap_or_default();
    ApplyError::Cluster {
        problem: format!(
            "`{key}` belongs to the site `{other}` (assignment `{assignment}`): two sites share this cluster; \
             nothing was changed"
        ),
        help: format!(
            "a cluster belongs to one site: correct `kubeconfig` and `context` under `[kubernetes]` in agent.toml \
             of the one that has the wrong cluster; where `{other}` is gone for good and this site takes its \
             place, remove the annotation `{SITE_ANNOTATION}` from its objects"
        ),
    }
}

/// Asks what applying one object would do, where the server can know it already.
fn try_out(cluster: &Cluster, looked: &[InspectedObject], at: usize) -> Result<(), Stop> {
    let Some(one) = looked.get(at) else {
        return Ok(());
    };
    let key = &one.object.key;
    let comes_with_it = |wanted: &dyn Fn(&InspectedObject) -> bool| {
        let mut new = looked.iter().filter(|other| other.found.is_none());
        new.any(wanted)
    };
    let namespace = key.namespace.as_deref();
    if comes_with_it(&|other| {
        other.object.key.is_namespace() && Some(other.object.key.name.as_str()) == namespace
    }) {
        return Ok(());
    }
    let Some(resource) = resource(cluster, &one.object)? else {
        // Defined by this assignment itself.
        return Ok(());
    };
    match cluster.apply(&resource, key, &one.object.value, one.force, true) {
        Ok(_) => Ok(()),
        Err(trouble) if is_of_the_site(&trouble) => Err(super::site_error_of(key, &trouble).into()),
        Err(refused) => {
            let problem = format!("`{key}`: the API server refuses: {refused}");
            Err(because_of(key, problem))
        }
    }
}

/// What was seen of one object.
pub enum ObjectState {
    /// It is not as it was applied.
    Drifted(String),
    /// It is, this is how it does, and what its controller says of it.
    AsApplied(Health, String),
    /// It is, and is well; what its controller made of it was changed by someone, in the controller's words.
    ChangedBeneath(String),
}

/// Compares one object with what applying it would make of it, and with `look_beneath` asks its controller whether what
/// that made of it is as it should be.
pub fn drift(
    cluster: &Cluster,
    controller: &dyn ManifestController,
    wanted: &DesiredObject,
    mark: Option<&OwnershipRecord>,
    look_beneath: bool,
) -> Result<ObjectState, ClientError> {
    let key = &wanted.object.key;
    let found = match resource(cluster, &wanted.object)? {
        Some(resource) => cluster.get(&resource, key)?.map(|found| (resource, found)),
        None => None,
    };
    let Some((resource, found)) = found else {
        return Ok(ObjectState::Drifted("it was removed".into()));
    };
    if !found["metadata"]["deletionTimestamp"].is_null() {
        return Ok(ObjectState::Drifted("it is being removed".into()));
    }
    let wants = site_of(&wanted.object.value);
    if let Some(other) = site_of(&found).filter(|other| wants.is_some_and(|site| site != *other)) {
        return Ok(ObjectState::Drifted(format!(
            "the site `{other}` applied it since: two sites share this cluster"
        )));
    }
    if let Some(OwnershipRecord {
        origin: Ownership::Made(uid) | Ownership::Took(uid),
        ..
    }) = mark
        && uid_of(&found) != uid
    {
        return Ok(ObjectState::Drifted(
            "it was replaced by another object of its name".into(),
        ));
    }
    match cluster.apply(&resource, key, &wanted.object.value, true, true) {
        Ok(applied) => {
            let fields = differ::differing(
                &controller.as_written(key, found.clone()),
                &controller.as_written(key, applied.value),
            );
            if fields.is_empty() {
                let health = controller.health(cluster, key, &found)?;
                if look_beneath
                    && health == Health::Ready
                    && let Some(words) = controller.drifted(cluster, key, &found)?
                {
                    return Ok(ObjectState::ChangedBeneath(words));
                }
                let words = controller.status_text(cluster, key, &found)?;
                return Ok(ObjectState::AsApplied(health, words));
            }
            let managers = other_managers(&found);
            let who = match managers.is_empty() {
                true => String::new(),
                false => format!(" (fields of it were set by {})", managers.join(", ")),
            };
            Ok(ObjectState::Drifted(format!(
                "it was changed: {}{who}",
                fields.join(", ")
            )))
        }
        Err(trouble) if trouble.is_of_the_site() => Err(trouble),
        Err(refused) => Ok(ObjectState::Drifted(format!(
            "applying it would be refused: {refused}"
        ))),
    }
}
