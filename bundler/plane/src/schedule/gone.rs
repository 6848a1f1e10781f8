//! Why an assignment that there was is not there any more.
//!
//! What comes in: a control plane, its schedule's inputs, and an assignment that was shipped before. What goes out: one
//! sentence, with the place where the reason is written. It decides nothing: it reads what the schedule itself reads.

use outhaul_control::ControlPlane;

use super::explain::explain;
use super::{AssignmentId, SchedulerAnswers};

/// Why `id` is not assigned.
pub fn why(plane: &ControlPlane, answers: &SchedulerAnswers, id: &AssignmentId) -> String {
    let Some(target) = plane.targets.get(&id.target) else {
        let mut others = plane.other_targets.iter();
        let moved = others.find(|(_, target)| target.name == id.target);
        return match moved {
            Some((key, target)) => {
                let environment = key.split('/').next().unwrap_or_default();
                let unlisted = match plane.environments.is_empty()
                    || plane.environments.contains_key(environment)
                {
                    true => "",
                    false => ", which the control plane does not list",
                };
                format!(
                    "its deployment target is for environment `{environment}`{unlisted} ({})",
                    target.location.file_line()
                )
            }
            None => "no workload describes this deployment target any more".to_owned(),
        };
    };
    let Some(cluster_type) = plane.cluster_types.get(&id.cluster_type) else {
        return format!("there is no cluster type `{}` any more", id.cluster_type);
    };
    let verdicts = explain(plane, answers, target, Some(cluster_type));
    let nearest = verdicts.first().and_then(|nearest| {
        let miss = nearest.misses.first()?;
        Some(format!(
            "the nearest, `{}`, {}",
            nearest.policy,
            miss.sentence()
        ))
    });
    match nearest {
        Some(nearest) => format!("no policy assigns it any more; {nearest}"),
        None => "no policy assigns it any more".to_owned(),
    }
}
